//! A request inside one engine.

use super::pack::Place;
use super::pipeline::Staged;
use super::roster::{Handle, Roster, identify};
use super::speculation::Drafting;
use super::story::Story;
use crate::kv::Held;
use crate::workload::{Piece, Request};

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the waiting queue, new or preempted.
    #[default]
    Waiting,
    /// Neither waiting nor running: its KV is loaded from outside, or has come and it is not admitted yet.
    Loading,
    /// In `running`, visited one by one: its prompt is not computed, or the budget passed it over.
    Single,
    /// In `running`, decoding one token in every step with all the others in the pack.
    Packed,
    /// In `running`, its last token is being computed: nothing is scheduled for it (V1-15).
    Final,
}

/// The state of a sequence. Times are the engine's.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    /// What its tokens are, prompt and output; empty where nothing is cached.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) handle: Handle,
    /// Its last token is current for sequences that do not share the common gap.
    pub(crate) story: Story,
    pub(crate) phase: Phase,
    /// Tokens whose KV is computed or scheduled, `n_comp`. Stale while packed: see `Pack::computed`.
    pub(crate) computed: u32,
    /// Computed tokens whose step had been processed when blocks were last taken: what lies before the window behind
    /// them was given back then (V1-35). Stale while packed, and never asked for where no layer has a window.
    pub(crate) settled: u32,
    /// Output tokens sampled in scheduled steps. Stale while packed.
    pub(crate) sampled: u32,
    /// Output tokens it will have: its length, or less where `max_model_len` cuts it.
    pub(crate) output_tokens: u32,
    /// Its place in the pack, while packed.
    pub(crate) place: Place,
    /// Steps that its last stay in the pack took part in: from, up to (`u64::MAX` while it stays).
    pub(crate) packed_steps: (u64, u64),
    /// The last step in which it was scheduled, unless packed.
    pub(crate) last_step: u64,
    /// 1 if the input token of that step was unknown when it was scheduled (an asynchronous placeholder).
    pub(crate) placeholder: u32,
    /// It sampled a token in that step.
    pub(crate) sampled_last: bool,
    /// Tokens it was given in that step.
    pub(crate) last_share: u32,
    /// Tokens it sampled that its client, who has given up, never gets.
    pub(crate) undelivered: u32,
    /// Where the engine speculates.
    pub(super) drafting: Drafting,
    /// In a pipeline.
    pub(super) staged: Staged,
    /// Position in `running`: the order of admission.
    pub(crate) order: u64,
    pub(crate) previous: Option<usize>,
    pub(crate) next: Option<usize>,
    pub(crate) held: Held,
}

impl Sequence {
    /// A request that has come, in place of whoever sat here last: field by field, since to copy all of it takes longer than
    /// whatever else is done when a request comes.
    #[inline(always)]
    fn sit_down(&mut self, from: &mut Request, own: Handle, max_model_len: u32) {
        // All fields by name: what is added later is not forgotten.
        let Sequence {
            request,
            // Nothing, or put down already.
            pieces: _,
            held: _,
            handle,
            story,
            phase,
            computed,
            settled,
            sampled,
            output_tokens,
            place,
            packed_steps,
            last_step,
            placeholder,
            sampled_last,
            last_share,
            undelivered,
            drafting,
            staged,
            order,
            previous,
            next,
        } = self;
        *output_tokens = from.output_tokens.min(max_model_len - from.prompt_tokens);
        *story = Story::new(from);
        (*request, *handle, *phase) = (std::mem::take(from), own, Phase::Waiting);
        (*computed, *settled, *sampled) = (0, 0, 0);
        (*place, *packed_steps) = (Place::default(), (0, 0));
        (*last_step, *placeholder) = (0, 0);
        (*sampled_last, *last_share, *undelivered) = (false, 0, 0);
        (*drafting, *staged) = (Drafting::default(), Staged::default());
        (*order, *previous, *next) = (0, None, None);
    }

    /// Tokens that the scheduler knows or keeps a place for, `n_tok`: all that are sampled when the scheduled steps are processed,
    /// but for what a pipeline hides.
    #[inline]
    pub(crate) fn known_tokens(&self) -> u32 {
        self.request.prompt_tokens + self.sampled - self.staged.hidden
    }

    /// Tokens still to be computed before the next one is sampled.
    #[inline]
    pub(crate) fn missing_tokens(&self) -> u32 {
        self.known_tokens() - self.computed
    }
}

/// All sequences of a replica, and the list `running` through them in order of admission.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    slots: Roster<Sequence>,
    spare: Vec<Vec<Piece>>,
    pub(crate) first_running: Option<usize>,
    pub(crate) last_running: Option<usize>,
    pub(crate) running: u32,
    admissions: u64,
}

impl std::ops::Index<usize> for Sequences {
    type Output = Sequence;
    #[inline]
    fn index(&self, slot: usize) -> &Sequence {
        &self.slots[slot]
    }
}

impl std::ops::IndexMut<usize> for Sequences {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Sequence {
        &mut self.slots[slot]
    }
}

impl Sequences {
    /// Takes in a request; `caching` prepares the identity of its tokens.
    #[inline(always)]
    pub(crate) fn insert(&mut self, request: &mut Request, max_model_len: u32, caching: bool) -> Handle {
        let (handle, seat) = self.slots.take_seat();
        if caching {
            let mut pieces = self.spare.pop().unwrap_or_default();
            identify(request, None, &mut pieces);
            (seat.pieces, seat.held) = (pieces, Held::default());
        }
        seat.sit_down(request, handle, max_model_len);
        handle
    }

    /// The sequence of a handle, if it has not left.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&Sequence> {
        self.slots.get(handle)
    }

    /// Everybody inside.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.slots.iter().map(|sequence| sequence.handle).collect()
    }

    /// Number of sequences, waiting and running.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// A sequence leaves for good; its memory is kept for the next.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        let mut pieces = std::mem::take(&mut self.slots[slot].pieces);
        if pieces.capacity() > 0 {
            pieces.clear();
            self.spare.push(pieces);
        }
        self.slots.remove(slot);
    }

    /// Appends to `running`.
    #[inline(always)]
    pub(crate) fn append_running(&mut self, slot: usize) {
        self.admissions += 1;
        let last = self.last_running.replace(slot);
        match last {
            Some(last) => self.slots[last].next = Some(slot),
            None => self.first_running = Some(slot),
        }
        let sequence = &mut self.slots[slot];
        (sequence.previous, sequence.next, sequence.order) = (last, None, self.admissions);
        self.running += 1;
    }

    /// Takes out of `running`.
    #[inline(always)]
    pub(crate) fn unlink_running(&mut self, slot: usize) {
        let (previous, next) = (self.slots[slot].previous, self.slots[slot].next);
        match previous {
            Some(previous) => self.slots[previous].next = next,
            None => self.first_running = next,
        }
        match next {
            Some(next) => self.slots[next].previous = previous,
            None => self.last_running = previous,
        }
        self.running -= 1;
    }
}
