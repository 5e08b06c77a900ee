//! The running batch as a pack: a decode costs O(what changes in it).
//!
//! Whoever runs computes one token in every decode batch, so its counters follow from the pack's clock
//! ([`crate::engine::pack`]) and nobody is visited. Its first decode a request computes as one of the batch's *entries*,
//! seen one by one, and then joins; with the one that brings its end it is an entry again. Two clocks tell the two ends
//! of a batch's life apart: the pack's counts launches, `processed` results.
//!
//! Whatever looks at single requests (retraction, mixed batches, a client that gives up) takes them out first:
//! [`SglangReplica::take_out`] writes a member's counters down and makes it an entry of the batches in flight, as if it had
//! never been packed. Who is to be admitted depends on all that run: [`SglangReplica::settle`] writes their counters down,
//! and they stay.

use super::batch::{Batch, Entry};
use super::replica::SglangReplica;
use crate::engine::Handle;
use crate::engine::pack::{Pack, Place};
use crate::engine::ranks::Ranks;

/// The pack, and what there is to know of it in an engine that predicts endings and runs ahead.
#[derive(Debug)]
pub(super) struct Packed {
    pack: Pack,
    /// The first step of the pack whose result is not processed.
    pub(super) processed: u64,
    /// Members by the clock at which their last token is being computed.
    leavings: Ranks,
    /// Requests that were put into the running batch, since ever.
    numbered: u64,
}

impl Packed {
    /// Nobody is packed.
    pub(super) fn new(page_size: u32) -> Packed {
        Packed {
            pack: Pack::new(page_size, true),
            processed: 0,
            leavings: Ranks::default(),
            numbered: 0,
        }
    }

    /// Results until somebody's last token, that one left out.
    pub(super) fn steps_to_ending(&self) -> u64 {
        self.pack
            .first_ending()
            .map_or(u64::MAX, |last| last - self.processed)
    }

    /// Launches before somebody's last token is being computed; `None` where nobody predicts that.
    pub(super) fn steps_to_leaving(&self) -> Option<u64> {
        self.leavings
            .first()
            .map(|at| at.saturating_sub(self.pack.clock()))
    }

    /// The next member whose last token is being computed.
    pub(super) fn pop_leaving(&mut self) -> Option<usize> {
        self.leavings.pop_first_below(self.pack.clock() + 1)
    }

    /// Pages that the next decode takes.
    pub(super) fn pages_due(&self) -> usize {
        self.pack.blocks_due() as usize
    }

    /// Pages that the decode behind the next `ahead` ones takes.
    pub(super) fn pages_due_after(&self, ahead: u64) -> u32 {
        self.pack.blocks_needed(ahead)
    }

    /// Pages that the newest decode took.
    pub(super) fn pages_taken_last(&self) -> u32 {
        self.pack.blocks_needed_last()
    }

    /// Pages that the next decodes take.
    pub(super) fn pages_for(&self, steps: u64) -> u64 {
        self.pack.blocks_needed_for(steps)
    }

    /// The most decodes, `limit` at most, that leave a page for each member free.
    pub(super) fn steps_that_fit(&self, free: u32, limit: u64) -> u64 {
        match free.checked_sub(self.pack.members) {
            Some(spare) => self.pack.steps_that_fit(spare, limit),
            None => 0,
        }
    }

    /// So many decodes were launched, and as many results processed.
    pub(super) fn advance(&mut self, steps: u64) {
        self.pack.advance(steps);
        self.processed += steps;
    }
}

impl SglangReplica {
    /// Requests are put into the running batch, behind the others.
    pub(super) fn number(&mut self, joining: &[Handle]) {
        for handle in joining {
            self.packed.numbered += 1;
            self.sequences[handle.slot].order = self.packed.numbered;
        }
    }

    /// Running requests that are not packed, in the batch's order: the last ones, as a rule.
    pub(super) fn newcomers(&self) -> Vec<Handle> {
        let count = self.running.len() - self.packed.pack.members as usize;
        if count == 0 {
            return Vec::new();
        }
        let behind = self.running.iter().rev();
        let unpacked = behind.filter(|handle| self.sequences[handle.slot].place.is_none());
        let mut newcomers: Vec<Handle> = unpacked.take(count).copied().collect();
        newcomers.reverse();
        newcomers
    }

    /// Everybody in the running batch computes one token in this batch; newcomers are packed behind it.
    pub(super) fn add_pack(&mut self, batch: &mut Batch) {
        self.log_decodes();
        let newcomers = self.newcomers();
        let pack = &mut self.packed.pack;
        let mut pages = pack.blocks_due();
        batch.load.decode_seqs += pack.members;
        batch.load.decode_kv_tokens += pack.context + u64::from(pack.members);
        batch.load.decode_longest = pack.longest();
        batch.load.sampled_rows += pack.members;
        batch.packed = Some(pack.clock());
        pack.advance(1);
        for &handle in &newcomers {
            pages += self.add_decode(batch, handle);
            self.pack(batch, handle);
        }
        self.take_pages(pages);
    }

    /// Remembers everybody's share before tokens are counted.
    pub(super) fn log_decodes(&mut self) {
        if self.log.is_some() {
            self.settle();
            for at in 0..self.running.len() {
                self.log_share(self.running[at].slot, self.tokens_of_decode());
            }
        }
    }

    /// A request that computes its first decode in this batch joins the pack, unless it ends with what is in flight, or
    /// pages are counted by tokens that are known and it knows other ones than the pack would think.
    fn pack(&mut self, batch: &mut Batch, handle: Handle) {
        let predicts = self.predicts_endings();
        let counts_known = !self.counts_pages_by_kv();
        let sequence = &mut self.sequences[handle.slot];
        let left = sequence
            .target
            .saturating_sub(sequence.outputs + sequence.in_flight);
        if left == 0 || (counts_known && sequence.lags()) {
            return;
        }
        let packed = &mut self.packed;
        sequence.place = Some(packed.pack.join(handle.slot, sequence.kv, left));
        if predicts {
            let leaving = packed.pack.clock() + u64::from(sequence.launches_left());
            packed.leavings.insert(leaving, handle.slot);
        }
        batch.joined += 1;
    }

    /// Members of the pack that compute as such in the oldest batch.
    pub(super) fn packed_in_oldest(&self) -> u32 {
        if self.in_flight.front().is_none_or(|batch| batch.packed.is_none()) {
            return 0;
        }
        let joined_since: u32 = self.in_flight.iter().map(|batch| batch.joined).sum();
        self.packed.pack.members - joined_since
    }

    /// Members whose last token the oldest batch brings become entries of it.
    pub(super) fn list_endings(&mut self) {
        let Some(step) = self.in_flight.front().and_then(|batch| batch.packed) else {
            return;
        };
        while let Some(slot) = self.packed.pack.pop_ended_before(step + 1) {
            self.take_out(slot);
        }
    }

    /// Members of the pack that compute in the oldest batch are listed in it, and stay packed.
    pub(super) fn list_packed(&mut self) {
        let batch = self.in_flight.front_mut().expect("asked of a batch in flight");
        let step = batch.packed.expect("the pack computes in it");
        for &handle in &self.running {
            let sequence = &self.sequences[handle.slot];
            if sequence.place.is_some_and(|place| place.joined <= step) {
                batch.entries.push(Entry::of_decode(sequence, true));
            }
        }
    }

    /// Whoever is packed is not any more.
    pub(super) fn unpack(&mut self) {
        let running = std::mem::take(&mut self.running);
        running.iter().for_each(|handle| self.take_out(handle.slot));
        self.running = running;
    }

    /// A member leaves the pack, if it is one, and goes on by itself.
    pub(super) fn take_out(&mut self, slot: usize) {
        let Some(place) = self.sequences[slot].place else {
            return;
        };
        self.write_down(slot, &place);
        let packed = &mut self.packed;
        packed.pack.leave(slot, &place);
        let sequence = &mut self.sequences[slot];
        sequence.place = None;
        // Where nobody predicts it, it is not there.
        packed.leavings.remove(slot);
        for batch in &mut self.in_flight {
            let Some(step) = batch.packed else { continue };
            batch.joined -= u32::from(place.joined == step + 1);
            if place.joined <= step {
                sequence.in_flight += 1;
                batch.entries.push(Entry::of_decode(sequence, false));
            }
        }
    }

    /// Brings the members' counters up to date, but for what is in flight.
    pub(super) fn settle(&mut self) {
        for at in 0..self.running.len() {
            let slot = self.running[at].slot;
            if let Some(place) = self.sequences[slot].place {
                self.write_down(slot, &place);
            }
        }
    }

    fn write_down(&mut self, slot: usize, place: &Place) {
        let sequence = &mut self.sequences[slot];
        sequence.kv = self.packed.pack.computed(place);
        if self.packed.processed > place.joined {
            let left = place.last + 1 - self.packed.processed;
            sequence.outputs = sequence.target - left as u32;
            sequence.story.note_token_at(self.last_decode);
        }
    }
}
