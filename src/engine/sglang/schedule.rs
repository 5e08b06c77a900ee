//! Which batch is next (`Scheduler.get_next_batch_to_run`, `get_new_batch_prefill`; SG-9 to SG-16).

use super::adder::{Adder, Share, Verdict};
use super::batch::{Batch, BatchMode, Entry};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::Phase;
use crate::cost::Chunk;
use crate::facts::{Completion, Observer};
use crate::units::Picos;

impl SglangReplica {
    /// One decision: prefill first, else decode, else nothing.
    pub(super) fn next_batch<O: Observer>(
        &mut self,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Option<Box<Batch>> {
        self.retracted.clear();
        self.shares_log.clear();
        self.found = self.membership;
        if let Some(slot) = self.chunked
            && self.last.is_some()
        {
            // A chunk was launched since it was last stashed.
            let fill = self.sequences[slot].fill;
            self.cache_unfinished(slot, fill);
        }
        match self.role {
            Role::Whole => {}
            Role::Prefill(_) => {
                self.forget_last();
                return self.prefill_batch(now, observer);
            }
            Role::Decode(_) => {
                self.reserve_and_poll(now);
                self.join_prebuilt(now, observer, ended);
                return self.decode_batch(now, observer, ended);
            }
        }
        self.merge_last();
        if self.config.switches.drops_finished_each_pass && self.drop_ended() > 0 {
            self.full = false;
        }
        self.held_prefill = self.prefill_hold > 0;
        if self.held_prefill {
            self.prefill_hold -= 1;
        } else if let Some(batch) = self.prefill_batch(now, observer) {
            self.prefill_hold = self.config.prefill_decode_interval;
            return Some(batch);
        }
        if self.running.is_empty() {
            return None;
        }
        self.decode_batch(now, observer, ended)
    }

    /// The prefill batch of the pass before joins the running one.
    fn merge_last(&mut self) {
        let Some(mut last) = self.last.take() else {
            return;
        };
        let before = last.len();
        last.retain(|handle| {
            let is_live = self.is_running(*handle);
            if !is_live {
                self.bury(*handle);
            }
            is_live && self.chunked != Some(handle.slot)
        });
        if last.len() < before {
            self.full = false;
        }
        if last.is_empty() {
            return;
        }
        self.membership += 1;
        self.number(&last);
        if self.running.is_empty() {
            // The flag belongs to the batch that is replaced (SG-14).
            self.full = false;
            self.running = last;
        } else {
            self.running.append(&mut last);
        }
    }

    /// Requests whose answers are complete leave the running batch; how many.
    pub(super) fn drop_ended(&mut self) -> usize {
        if self.ended_in_lists == 0 {
            return 0;
        }
        let mut running = std::mem::take(&mut self.running);
        let before = running.len();
        running.retain(|&handle| {
            let is_live = self.is_running(handle);
            if !is_live {
                self.bury(handle);
            }
            is_live
        });
        self.running = running;
        self.membership += 1;
        before - self.running.len()
    }

    /// Requests that may be added to what is in the adder (SG-13).
    fn slots(&self, held: u32) -> u32 {
        let most = self.config.max_running_requests;
        let by_batch = most.saturating_sub(self.running.len() as u32);
        if self.config.switches.counts_table_rows {
            by_batch.min(most - self.rows + held)
        } else {
            by_batch
        }
    }

    fn prefill_batch<O: Observer>(&mut self, now: Picos, observer: &mut O) -> Option<Box<Batch>> {
        if self.config.priority.is_some() {
            // Whoever waits may push somebody out.
            self.full = false;
        }
        if (self.full || self.waiting.is_empty()) && self.chunked.is_none() {
            return None;
        }
        if self.slots(0) == 0 && self.chunked.is_none() && self.config.priority.is_none() {
            self.full = true;
            return None;
        }
        self.sort_waiting();
        self.settle();
        if self.is_unrecorded(now) {
            self.full = !self.config.switches.full_needs_company;
            return None;
        }
        let mut adder = self.budgets();
        if let Some(slot) = self.chunked
            && !self.add_chunk(&mut adder, slot)
        {
            self.chunked = None;
        }
        let held = adder.shares.len();
        self.scan(&mut adder, held as u32, now, observer);
        self.follow_recorded_retractions();
        if adder.shares.is_empty() {
            return None;
        }
        // Whoever was admitted stands at the head of the queue: the scan stops at the first who was not.
        self.waiting.drain(..adder.shares.len() - held);
        self.chunked = adder.cut.or(self.chunked);
        self.launch_prefill(&adder.shares, now, observer)
    }

    /// Goes through the queue until somebody does not fit (SG-15).
    fn scan<O: Observer>(&mut self, adder: &mut Adder, held: u32, now: Picos, observer: &mut O) {
        for at in 0..self.waiting.len() {
            if self.config.switches.asks_budget_first && self.verdict(adder) == Verdict::Other {
                return;
            }
            if adder.shares.len() as u32 >= self.slots(held) {
                self.full = true;
            }
            let slot = self.waiting[at];
            // Only who finds no place pushes out, not who finds no memory; and once somebody was pushed out, nobody else gets
            // in in this pass but by pushing out in turn.
            if self.full && !self.push_out_for(slot, adder, now, observer) {
                return;
            }
            match self.add(adder, slot) {
                Verdict::Continue => {}
                Verdict::Other => return,
                Verdict::NoToken => {
                    self.full = !self.config.switches.full_needs_company
                        || !adder.shares.is_empty()
                        || !self.running.is_empty();
                    return;
                }
            }
        }
    }

    /// Takes the memory of a prefill batch and puts it together; decodes ride along if asked for.
    /// `None` where a chunk that went on regardless (SG-22) finds no memory, of which the server dies.
    fn launch_prefill<O: Observer>(
        &mut self,
        shares: &[Share],
        now: Picos,
        observer: &mut O,
    ) -> Option<Box<Batch>> {
        let page = u64::from(self.config.page_size);
        let mut need: u64 = shares.iter().map(|share| u64::from(share.new)).sum();
        if page > 1 {
            need += page * shares.len() as u64;
        }
        self.make_room(need);
        let pages = |share: &Share| {
            let kv = self.sequences[share.slot].kv;
            self.pages(kv + share.new) - self.pages(kv)
        };
        if shares.iter().map(pages).sum::<u32>() > self.free_pages {
            self.is_stuck = true;
            return None;
        }
        let mut batch = self.open_batch(BatchMode::Extend);
        for share in shares {
            self.admit(share, now, observer);
            self.extend(&mut batch, share);
        }
        self.mix(&mut batch);
        self.last = Some(batch.entries.iter().map(|entry| entry.handle).collect());
        Some(batch)
    }

    /// A request begins to run, or its chunked prefill goes on.
    fn admit<O: Observer>(&mut self, share: &Share, now: Picos, observer: &mut O) {
        if share.goes_on {
            return;
        }
        self.rows += 1;
        let sequence = &mut self.sequences[share.slot];
        sequence.phase = Phase::Running;
        let (known, cached) = (sequence.known(), sequence.shared);
        let (story, request) = (&mut sequence.story, &sequence.request);
        observer.observe(&story.admit(request, self.id, now, known, cached));
    }

    /// A sequence's new tokens join the batch.
    fn extend(&mut self, batch: &mut Batch, share: &Share) {
        self.log_share(share.slot, share.new);
        self.allocate(share.slot, share.new);
        let samples = self.chunked != Some(share.slot);
        let sequence = &mut self.sequences[share.slot];
        let computed = sequence.kv - share.new;
        let new = share.new;
        if samples {
            batch.load.add(computed, new);
        } else {
            batch.load.chunks.push(Chunk { computed, new });
        }
        batch.load.sampled_rows += u32::from(samples);
        batch.recomputed_tokens += sequence.story.recomputed(computed, sequence.kv);
        sequence.in_flight += u32::from(samples);
        batch.entries.push(Entry {
            handle: sequence.handle,
            life: sequence.life,
            order: 0,
            samples,
            is_decode: false,
            is_packed: false,
            accepted: None,
        });
        if !samples {
            let (handle, kv) = (sequence.handle, sequence.kv);
            self.note_chunk(handle, kv);
        }
    }

    /// Decodes ride along in the prefill batch (SG-12).
    fn mix(&mut self, batch: &mut Batch) {
        if !self.config.enable_mixed_chunk || self.running.is_empty() {
            return;
        }
        self.drop_ended();
        if self.leave_out_finishing() > 0 {
            self.full = false;
        }
        if self.running.is_empty() {
            return;
        }
        if self.config.switches.mixes_only_with_memory && !self.has_decode_memory() {
            return;
        }
        if !self.decodes_have_pages() {
            // Version 0.5.4 does not look before, and dies.
            self.is_stuck = true;
            return;
        }
        batch.mode = BatchMode::Mixed;
        self.unpack();
        self.log_decodes();
        let mut pages = 0;
        for handle in std::mem::take(&mut self.running) {
            let sequence = &mut self.sequences[handle.slot];
            sequence.tried.0 = sequence.known();
            pages += self.add_decode(batch, handle);
        }
        self.take_pages(pages);
        self.membership += 1;
    }
}
