//! From a plan to a step: what it computes, and how long that takes.

use std::ops::Range;

use super::replica::ScheduledReplica;
use super::sequence::Sequence;
use crate::cost::StepLoad;
use crate::engine::{Handle, ScheduleRecord};
use crate::units::Picos;

/// A sequence's part in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) handle: Handle,
    pub(super) tokens: u32,
    /// It computed a prompt, not a next token.
    pub(super) is_prefill: bool,
    /// Its place among those who compute: before, among or behind those who were given a token together, and there.
    pub(super) order: (u8, u64),
    /// It is packed and stays so: there is nothing to do but to tell since when it had waited, or that others may find
    /// a block of it.
    pub(super) is_packed: bool,
}

impl Entry {
    /// Of a sequence that was given its next token together with the pack.
    pub(super) fn of_decode(sequence: &Sequence, is_packed: bool) -> Entry {
        Entry {
            handle: sequence.handle,
            tokens: 1,
            is_prefill: false,
            order: (1, sequence.order),
            is_packed,
        }
    }
}

/// One launched step.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Whoever computes in it, but for the pack.
    pub(super) entries: Vec<Entry>,
    /// The step of the pack that it is, if the pack computes.
    pub(super) packed: Option<u64>,
    /// Members that joined the pack right behind it.
    pub(super) joined: u32,
    pub(super) load: StepLoad,
    pub(super) begin: Picos,
    pub(super) duration: Picos,
    pub(super) recomputed_tokens: u64,
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) free_blocks: u32,
    /// Blocks that must stay free for the scheduler to decide the same again; `None` if it may not.
    pub(super) repeat: Option<u32>,
    /// Everybody who streams had a token at the end of the step before.
    pub(super) is_uniform: bool,
}

impl Step {
    /// When its output is there.
    #[inline]
    pub(super) fn end(&self) -> Picos {
        self.begin + self.duration
    }

    /// Empties it for another step; the buffers keep their memory.
    fn clear(&mut self) {
        self.entries.clear();
        self.load.clear();
        self.recomputed_tokens = 0;
        (self.packed, self.joined) = (None, 0);
        (self.repeat, self.is_uniform) = (None, true);
    }
}

impl ScheduledReplica {
    /// Starts the step that was planned.
    pub(super) fn launch(&mut self, now: Picos) {
        let mut step = self.spare_step.take().unwrap_or_default();
        step.clear();
        let shares = std::mem::take(&mut self.ledger.shares);
        let decoded = self.ledger.decoded.clone().unwrap_or(shares.len()..shares.len());
        for (at, &slot) in shares.iter().enumerate() {
            let order = if decoded.contains(&at) {
                (1, self.ledger.sequences[slot].order)
            } else {
                (if at < decoded.start { 0 } else { 2 }, at as u64)
            };
            self.enter(&mut step, slot, order);
        }
        self.log_shares(&shares, &decoded);
        self.enter_pack(&mut step, &shares[decoded]);
        step.begin = now;
        step.duration = self.cost.any(&step.load);
        // Blocks on their way to and from the host hold the step up (V0-8).
        step.duration += self.config.swap_time_per_block * u64::from(self.ledger.moved_blocks);
        if let Some(jitter) = &mut self.jitter {
            step.duration = jitter.disturb(step.duration);
        }
        if step.load.only_decodes() && self.ledger.moved_blocks == 0 && !self.stepwise {
            step.repeat = self.ledger.repeat;
        }
        step.running = self.ledger.running.len() as u32;
        step.waiting = self.ledger.waiting.len() as u32 + self.ledger.swapped.len() as u32;
        step.free_blocks = self.ledger.pool.free();
        self.log_step(&step, now);
        if self.ledger.dismiss_ended() {
            step.repeat = None;
        }
        self.plan = None;
        self.ledger.shares = shares;
        self.in_flight = Some(step);
    }

    /// A sequence's tokens join the step.
    fn enter(&mut self, step: &mut Step, slot: usize, order: (u8, u64)) {
        let sequence = &self.ledger.sequences[slot];
        let tokens = sequence.share;
        let after = sequence.computed + tokens;
        step.load.add(sequence.computed, tokens);
        step.load.sampled_rows += u32::from(after == sequence.known());
        step.recomputed_tokens += sequence.story.recomputed(sequence.computed, after);
        let streams = sequence.binding.is_none();
        let had_token = sequence.story.had_token_at(self.last_end);
        step.is_uniform &= had_token || !streams;
        step.entries.push(Entry {
            handle: sequence.handle,
            tokens,
            is_prefill: sequence.computed < sequence.fill,
            order,
            is_packed: false,
        });
    }

    /// Who computes in which order, before tokens are counted.
    fn log_shares(&mut self, shares: &[usize], decoded: &Range<usize>) {
        if self.log.is_none() {
            return;
        }
        let ledger = &self.ledger;
        let mut among = shares[decoded.clone()].to_vec();
        if ledger.decoded.is_some() {
            let is_packed = |slot: &&usize| ledger.sequences[**slot].place.is_some();
            among.extend(ledger.running.iter().filter(is_packed));
            among.sort_by_key(|&slot| ledger.sequences[slot].order);
        }
        let share = |&slot: &usize| {
            let view = ledger.view(slot);
            (view.request, view.computed_tokens, view.given_tokens)
        };
        let (before, behind) = (&shares[..decoded.start], &shares[decoded.end..]);
        let all = before.iter().chain(&among).chain(behind);
        self.shares_log = all.map(share).collect();
    }

    fn log_step(&mut self, step: &Step, now: Picos) {
        let Some(log) = &mut self.log else { return };
        log.push(ScheduleRecord {
            scheduled: now,
            begin: now,
            duration: step.duration,
            shares: std::mem::take(&mut self.shares_log),
            drafts: Vec::new(),
            preempted: self.ledger.preempted.clone(),
            free_blocks: step.free_blocks,
            running: step.running,
            waiting: step.waiting,
        });
    }
}
