//! A step between its scheduling and the processing of its output.

use std::collections::VecDeque;
use std::hint::cold_path;

use super::Handle;
use super::speculation::Verification;
use crate::cost::StepLoad;
use crate::ids::RequestId;
use crate::units::Picos;

/// One scheduled step. Buffers are reused from step to step.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Steps are numbered from 1 in the order of scheduling.
    pub(crate) number: u64,
    /// Of a pipeline: which call of `schedule` it is of, those that scheduled nothing counted.
    pub(super) turn: u64,
    /// Of a pipeline: the first stage needs a token that it samples.
    pub(super) is_awaited: bool,
    /// When it was decided.
    pub(crate) scheduled: Picos,
    /// When it begins on the GPU.
    pub(crate) begin: Picos,
    pub(crate) duration: Picos,
    pub(crate) load: StepLoad,
    /// Members of the pack in it.
    pub(crate) packed: u32,
    /// Of them, those whose token is thrown away: they ended in the step before, or were given up since.
    pub(crate) discarded: u32,
    /// It was decided while the step before it was still running.
    pub(crate) overlapped: bool,
    /// Shares outside the pack: (slot, tokens computed before, and after). Kept only for a connector.
    pub(crate) shares: Vec<(usize, u32, u32)>,
    /// Shares of sequences that were preempted after they had been served in it. 0.11 computes them all the same.
    pub(crate) orphans: Vec<Orphan>,
    /// Sequences outside the pack that sample a token, in scheduled order.
    pub(crate) samples: Vec<Handle>,
    /// Shares where the engine speculates, in scheduled order; `samples` and `finishing` are empty then.
    pub(super) verified: Vec<Verification>,
    /// How far the furthest of those shares reaches.
    pub(super) furthest: u32,
    /// Sequences whose last token this step samples: (place in `running`, who).
    pub(crate) finishing: Vec<(u64, Handle)>,
    /// Sequences that left the pack after this step: their next gap starts at its end.
    pub(crate) left_pack: Vec<Handle>,
    pub(crate) recomputed_tokens: u64,
    /// It computes part of a prompt, or admits somebody (V1-16).
    pub(crate) carries_prefill: bool,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) free_blocks: u32,
    /// Token slots that each step of the pack takes more than the one before.
    pub(crate) kv_slots: u32,
    /// State of the pack's membership when the step was scheduled.
    pub(crate) membership: u64,
    /// Nothing but the pack decodes in it, and every token counts.
    pub(crate) is_uniform: bool,
    /// It is uniform, and nothing happens at its end.
    pub(crate) is_plain: bool,
}

impl Step {
    /// When its output is there.
    #[inline]
    pub(crate) fn end(&self) -> Picos {
        self.begin + self.duration
    }

    /// Sequences that have a token of it, or several.
    #[inline]
    pub(crate) fn handed(&self) -> u32 {
        let verified = self.verified.iter().filter(|share| share.samples).count();
        self.packed - self.discarded + (self.samples.len() + verified) as u32
    }

    /// Finds out whether it [is uniform](Step::is_uniform), and plain, when it is closed.
    #[inline]
    pub(crate) fn note_whether_uniform(&mut self) {
        let is_uniform = self.packed > 0
            && self.load.decode_seqs == self.packed
            && self.load.chunks.is_empty()
            && self.discarded == 0
            && self.samples.is_empty()
            && self.verified.is_empty();
        self.mark(is_uniform);
    }

    /// Notes whether it is uniform when it is closed.
    #[inline]
    pub(crate) fn mark(&mut self, is_uniform: bool) {
        self.is_uniform = is_uniform;
        self.is_plain = is_uniform && self.finishing.is_empty() && self.left_pack.is_empty();
    }

    /// One token more of it is thrown away.
    pub(crate) fn discard_one(&mut self) {
        self.discarded += 1;
        (self.is_uniform, self.is_plain) = (false, false);
    }

    /// It samples somebody's last token.
    #[inline]
    pub(crate) fn finishes(&mut self, order: u64, handle: Handle) {
        self.finishing.push((order, handle));
        self.is_plain = false;
    }

    /// Somebody left the pack after it.
    #[inline]
    pub(crate) fn is_left_by(&mut self, handle: Handle) {
        self.left_pack.push(handle);
        self.is_plain = false;
    }

    /// Becomes the step of the pack behind a plain one of the same members; when it is and who runs meanwhile is not said.
    #[inline]
    pub(crate) fn follow(&mut self, front: &Step) {
        debug_assert!(self.is_blank(), "steps are put aside blank");
        self.number = front.number + 1;
        let (load, before) = (&mut self.load, &front.load);
        (load.decode_seqs, load.sampled_rows) = (before.decode_seqs, before.sampled_rows);
        load.decode_kv_tokens = before.decode_kv_tokens + u64::from(before.decode_seqs);
        load.decode_longest = before.decode_longest + u32::from(before.decode_longest > 0);
        load.seqs_beyond = before.seqs_beyond;
        load.decode_beyond = before.decode_beyond + u64::from(before.seqs_beyond);
        (self.packed, self.discarded, self.membership) = (front.packed, 0, front.membership);
        self.kv_slots = front.kv_slots;
        (self.overlapped, self.is_uniform, self.is_plain) = (true, true, true);
    }

    /// Empties it for another step; the buffers keep their memory.
    pub(crate) fn clear(&mut self) {
        self.load.clear();
        self.recomputed_tokens = 0;
        self.carries_prefill = false;
        self.shares.clear();
        self.orphans.clear();
        self.samples.clear();
        self.verified.clear();
        self.furthest = 0;
        self.is_awaited = false;
        self.finishing.clear();
        self.left_pack.clear();
    }

    /// Of what only steps have that are not plain there is nothing, but for marks and numbers that are set whenever they are asked
    /// for.
    #[inline(never)]
    pub(crate) fn is_blank(&self) -> bool {
        let lists = [
            self.samples.len(),
            self.finishing.len(),
            self.left_pack.len(),
            self.load.chunks.len(),
            self.shares.len(),
            self.orphans.len(),
            self.verified.len(),
        ];
        let counts = (self.load.drafts, self.recomputed_tokens, self.furthest);
        lists == [0; 7] && counts == (0, 0, 0) && !self.is_awaited
    }
}

/// A share that is computed though its sequence was preempted; no token comes of it (V1-26).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    /// The sequence's place in `running`.
    pub(crate) order: u64,
    pub(crate) id: RequestId,
    /// Where its last step began, which is all that 0.11's model runner knows.
    pub(crate) before: u32,
    pub(crate) tokens: u32,
}

/// The steps that are scheduled and not processed: as many as the queue is deep, one or two without a pipeline.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    oldest: Option<Box<Step>>,
    /// The next one, if there are two.
    second: Option<Box<Step>>,
    /// Those behind them, in a pipeline.
    later: VecDeque<Box<Step>>,
    count: usize,
}

impl InFlight {
    /// The oldest.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Step> {
        self.oldest.as_deref()
    }

    /// The newest.
    #[inline]
    pub(crate) fn back(&self) -> Option<&Step> {
        if !self.later.is_empty() {
            cold_path();
            return self.later.back().map(|step| &**step);
        }
        self.second.as_deref().or(self.oldest.as_deref())
    }

    /// The newest, to change.
    #[inline]
    pub(crate) fn back_mut(&mut self) -> Option<&mut Step> {
        if !self.later.is_empty() {
            cold_path();
            return self.later.back_mut().map(|step| &mut **step);
        }
        self.second.as_deref_mut().or(self.oldest.as_deref_mut())
    }

    /// The oldest, and the other one if there are two, to change; no pipeline has more.
    #[inline]
    pub(crate) fn both_mut(&mut self) -> (&mut Step, Option<&mut Step>) {
        debug_assert!(self.later.is_empty(), "steps of a pipeline are taken one by one");
        let oldest = self
            .oldest
            .as_deref_mut()
            .expect("asked only with a step in flight");
        (oldest, self.second.as_deref_mut())
    }

    /// Appends the newest.
    #[inline]
    pub(crate) fn push_back(&mut self, step: Box<Step>) {
        self.count += 1;
        if self.oldest.is_none() {
            self.oldest = Some(step);
        } else if self.second.is_none() {
            self.second = Some(step);
        } else {
            cold_path();
            self.later.push_back(step);
        }
    }

    /// The output of the oldest is not taken before `now`.
    pub(crate) fn delay_front(&mut self, now: Picos) {
        if let Some(oldest) = &mut self.oldest {
            oldest.duration = oldest.end().max(now) - oldest.begin;
        }
    }

    /// Appends the newest, if there is one.
    pub(crate) fn extend(&mut self, step: Option<Box<Step>>) {
        if let Some(step) = step {
            self.push_back(step);
        }
    }

    /// Takes out the oldest.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Box<Step>> {
        let third = if self.later.is_empty() {
            None
        } else {
            cold_path();
            self.later.pop_front()
        };
        let oldest = std::mem::replace(&mut self.oldest, std::mem::replace(&mut self.second, third));
        self.count -= usize::from(oldest.is_some());
        oldest
    }

    /// Takes out the newest.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<Box<Step>> {
        let newest = if self.later.is_empty() {
            self.second.take().or_else(|| self.oldest.take())
        } else {
            cold_path();
            self.later.pop_back()
        };
        self.count -= usize::from(newest.is_some());
        newest
    }

    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// All, oldest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Step> {
        let first = [self.oldest.as_ref(), self.second.as_ref()].into_iter().flatten();
        first.chain(&self.later).map(|step| &**step)
    }

    /// All, oldest first, to change.
    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Step> {
        let first = [self.oldest.as_mut(), self.second.as_mut()].into_iter().flatten();
        first.chain(&mut self.later).map(|step| &mut **step)
    }
}

/// A step as the recorded schedules of the engines have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// When it was scheduled.
    pub scheduled: Picos,
    /// When it began on the GPU.
    pub begin: Picos,
    /// How long it lasted.
    pub duration: Picos,
    /// (request, tokens computed before, tokens scheduled) in the scheduler's order.
    pub shares: Vec<(RequestId, u32, u32)>,
    /// Of the tokens of each share, those that are drafts; empty where the engine does not speculate.
    pub drafts: Vec<u32>,
    /// Requests preempted while it was scheduled, in that order.
    pub preempted: Vec<RequestId>,
    /// Free blocks after scheduling.
    pub free_blocks: u32,
    /// `running` after scheduling.
    pub running: u32,
    /// `waiting` after scheduling.
    pub waiting: u32,
}
