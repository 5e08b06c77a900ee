//! Those who decode together as a pack: a step costs O(what changes in it).
//!
//! A scheduler that gives everybody who decodes a token in one word ([`StepPlan::decode_all`](super::StepPlan::decode_all))
//! names nobody, so nobody need be visited: counters follow from the pack's clock ([`crate::engine::pack`]). Whoever has not
//! had its last token with the others computes its next one by name, as an *entry* of the step, and joins behind it; with the
//! step that brings its end it is an entry again. Whatever concerns one of them takes it out first ([`Ledger::detach`]), as if
//! it had never been packed.
//!
//! Others may find each block of an answer from the step on that fills it, so where prefixes are cached whoever fills one is
//! an entry of that step, too, and stays packed. After a leap all who filled blocks meanwhile are looked for before anything
//! else happens ([`Ledger::register_packed`]).

use super::launch::{Entry, Step};
use super::ledger::Ledger;
use super::replica::ScheduledReplica;
use super::sequence::Sequence;
use crate::engine::pack::Place;
use crate::engine::scheduler::SequenceView;

impl Ledger {
    /// What a scheduler sees of a sequence. Asked between steps.
    #[inline]
    pub(super) fn view(&self, slot: usize) -> SequenceView {
        let sequence = &self.sequences[slot];
        let Some(place) = &sequence.place else {
            return sequence.view();
        };
        let computed = self.pack.computed(place);
        let outputs = sequence.outputs_at(place, self.pack.clock());
        SequenceView {
            output_tokens: outputs,
            known_tokens: sequence.padding + sequence.request.prompt_tokens + outputs,
            computed_tokens: computed,
            blocks: self.blocks_for(computed + self.share(slot)),
            given_tokens: self.share(slot),
            is_prefilling: false,
            ..sequence.view()
        }
    }

    /// Tokens that a sequence was given in the step that is composed.
    #[inline]
    pub(super) fn share(&self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        match sequence.place {
            Some(_) => u32::from(self.decoded.is_some()),
            None => sequence.share,
        }
    }

    /// A sequence is put behind all others that run.
    pub(super) fn number(&mut self, slot: usize) {
        self.numbered += 1;
        self.sequences[slot].order = self.numbered;
    }

    /// Running sequences that are not packed, in order of admission: the last ones, as a rule.
    pub(super) fn unpacked(&self) -> Vec<usize> {
        let count = self.running.len() - self.pack.members as usize;
        if count == 0 {
            return Vec::new();
        }
        let behind = self.running.iter().rev().copied();
        let unpacked = behind.filter(|&slot| self.sequences[slot].place.is_none());
        let mut unpacked: Vec<usize> = unpacked.take(count).collect();
        unpacked.reverse();
        unpacked
    }

    /// See [`StepPlan::decode_all`](super::StepPlan::decode_all).
    pub(super) fn decode_all(&mut self, most: u32, spare: u32) -> Option<u32> {
        if self.decoded.is_some() {
            return None;
        }
        let mut singles = self.unpacked();
        singles.retain(|&slot| {
            let sequence = &self.sequences[slot];
            let decodes = sequence.computed >= sequence.fill && sequence.share == 0;
            let is_in_time = sequence.story.had_token_at(self.last_decode);
            decodes && !(is_in_time && self.join(slot, 0))
        });
        let count = self.pack.members + singles.len() as u32;
        let new = |slot: usize| {
            let sequence = &self.sequences[slot];
            self.blocks_for(sequence.computed + 1)
                .saturating_sub(sequence.blocks)
        };
        let due = self.pack.blocks_due() + singles.iter().map(|&slot| new(slot)).sum::<u32>();
        if count > most || due + spare > self.pool.free() {
            return None;
        }
        self.pool.take(due);
        let from = self.shares.len();
        for slot in singles {
            let sequence = &mut self.sequences[slot];
            sequence.blocks = sequence.blocks.max(self.pool.blocks_for(sequence.computed + 1));
            sequence.share = 1;
            self.shares.push(slot);
        }
        self.decoded = Some(from..self.shares.len());
        Some(count)
    }

    /// A sequence joins the pack when it has computed `given` more tokens, if others follow and its blocks are no more than
    /// it fills. Whether it did.
    fn join(&mut self, slot: usize, given: u32) -> bool {
        let sequence = &mut self.sequences[slot];
        let computed = sequence.computed + given;
        let fits = sequence.blocks == self.pool.blocks_for(computed);
        if sequence.binding.is_some() || sequence.target <= sequence.outputs + given || !fits {
            return false;
        }
        let left = sequence.target - sequence.outputs - given;
        sequence.place = Some(self.pack.join(slot, computed, left));
        true
    }

    /// Members of the pack that compute as such in the step.
    pub(super) fn packed_in(&self, step: &Step) -> u32 {
        step.packed.map_or(0, |_| self.pack.members - step.joined)
    }

    /// Members whose last token the step brings become entries of it.
    pub(super) fn list_endings(&mut self, step: &mut Step) {
        let Some(packed) = step.packed else { return };
        while let Some(slot) = self.pack.pop_ended_before(packed + 1) {
            self.detach(slot, Some(&mut *step));
        }
    }

    /// What members have computed in the steps before `clock` may be found by others, as far as it fills blocks.
    pub(super) fn register_packed(&mut self, clock: u64) {
        if clock <= self.registered || !self.pool.caches() {
            return;
        }
        let since = std::mem::replace(&mut self.registered, clock);
        if !self.pack.fills_blocks(since + 1..clock + 1) {
            return;
        }
        for at in 0..self.running.len() {
            let slot = self.running[at];
            if let Some(place) = self.sequences[slot].place
                && place.joined < clock
            {
                let computed = self.pack.computed_at(&place, clock);
                self.register_up_to(slot, computed, self.blocks_for(computed));
            }
        }
    }

    /// Members of the pack that compute in the step are listed in it, all or those who fill a block that others may find.
    /// They stay packed.
    pub(super) fn list_packed(&mut self, step: &mut Step, all: bool) {
        let Some(packed) = step.packed else { return };
        self.registered = packed + 1;
        let fills = self.pool.caches() && self.pack.fills_blocks(packed + 1..packed + 2);
        if !all && !fills {
            return;
        }
        let is_full = |place: &Place| {
            let computed = self.pack.computed_at(place, packed + 1);
            computed.is_multiple_of(self.block_size)
        };
        for &slot in &self.running {
            let sequence = &self.sequences[slot];
            let place = sequence.place.filter(|place| place.joined <= packed);
            if place.is_some_and(|place| all || is_full(&place)) {
                step.entries.push(Entry::of_decode(sequence, true));
            }
        }
    }

    /// What a member has computed that was listed in the step that ends may be found by others.
    pub(super) fn register_listed(&mut self, slot: usize) {
        let place = self.sequences[slot].place.expect("a member is listed");
        let computed = self.pack.computed(&place);
        self.register_up_to(slot, computed, self.blocks_for(computed));
    }

    /// Nobody is packed any more. Asked between steps.
    pub(super) fn unpack(&mut self) {
        if self.pack.members == 0 {
            return;
        }
        for at in 0..self.running.len() {
            self.detach(self.running[at], None);
        }
    }

    /// A member leaves the pack, if it is one, and goes on by itself. `step` is the one in flight.
    pub(super) fn detach(&mut self, slot: usize, step: Option<&mut Step>) {
        let Some(place) = self.sequences[slot].place.take() else {
            return;
        };
        let step = step.filter(|step| step.packed.is_some());
        let sequence = &mut self.sequences[slot];
        let clock;
        match step {
            Some(step) if step.packed.is_some_and(|packed| packed < place.joined) => {
                // It is an entry of this step.
                step.joined -= 1;
                self.pack.leave(slot, &place);
                return;
            }
            Some(step) => {
                clock = self.pack.clock() - 1;
                sequence.computed = self.pack.computed(&place) - 1;
                sequence.share = 1;
                step.entries.push(Entry::of_decode(sequence, false));
            }
            None => {
                clock = self.pack.clock();
                sequence.computed = self.pack.computed(&place);
                if let Some(decoded) = &mut self.decoded {
                    sequence.share = 1;
                    self.shares.insert(decoded.end, slot);
                    decoded.end += 1;
                }
            }
        }
        sequence.outputs = sequence.outputs_at(&place, clock);
        sequence.blocks = self.pool.blocks_for(sequence.computed + sequence.share);
        sequence.story.note_token_at(self.last_decode);
        self.pack.leave(slot, &place);
        self.register(slot);
    }
}

impl ScheduledReplica {
    /// The pack computes in the step, too, if everybody was given a token; those of `singles` who can join it.
    pub(super) fn enter_pack(&mut self, step: &mut Step, singles: &[usize]) {
        let ledger = &mut self.ledger;
        // The word is for this step; behind it members have no share yet.
        if ledger.decoded.take().is_none() {
            // The pack waits, unless others decode without it.
            if step.entries.iter().any(|entry| !entry.is_prefill) {
                ledger.unpack();
            }
            return;
        }
        let pack = &mut ledger.pack;
        if pack.members > 0 {
            step.is_uniform &= ledger.last_decode == self.last_end;
        }
        step.load.decode_seqs += pack.members;
        step.load.decode_kv_tokens += pack.context + u64::from(pack.members);
        step.load.decode_longest = step.load.decode_longest.max(pack.longest());
        step.load.sampled_rows += pack.members;
        step.packed = Some(pack.clock());
        pack.advance(1);
        for &slot in singles {
            step.joined += u32::from(ledger.join(slot, 1));
        }
    }
}

impl Sequence {
    /// Output tokens of a member when the pack has computed its steps before `clock`.
    fn outputs_at(&self, place: &Place, clock: u64) -> u32 {
        let left = u32::try_from(place.last + 1 - clock).expect("as many as a request asks for");
        self.target - left
    }
}
