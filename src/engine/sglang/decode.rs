//! Decode batches: their memory, the new-token ratio, retraction (`update_running_batch`, `retract_decode`, SG-32, SG-33).

use super::batch::{Batch, BatchMode, Entry};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::{Phase, Sequence};
use crate::engine::Handle;
use crate::facts::{Completion, Observer, Outcome};
use crate::units::Picos;

/// Decode steps for which a retraction makes room (`SGLANG_RETRACT_DECODE_STEPS`).
const RETRACT_DECODE_STEPS: u32 = 20;

impl SglangReplica {
    /// The next decode batch of the running requests; `None` if nobody is left to decode or nobody may now.
    pub(super) fn decode_batch<O: Observer>(
        &mut self,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Option<Box<Batch>> {
        let before = self.running.len();
        self.drop_ended();
        let finishing = self.leave_out_finishing();
        if self.running.is_empty() {
            self.full = false;
            return None;
        }
        if self.has_decode_memory() {
            self.ratio =
                (self.ratio - self.config.new_token_ratio_decay).max(self.config.min_new_token_ratio);
        } else if finishing > 0 {
            // SG-33b: their memory comes with the result of the batch on the GPU.
            self.full = false;
            return None;
        } else {
            self.retract(now, observer, ended);
        }
        if self.running.len() < before {
            self.full = false;
        }
        if self.running.is_empty() {
            return None;
        }
        if !self.decodes_have_pages() {
            self.is_stuck = true;
            return None;
        }
        let mut batch = self.open_batch(BatchMode::Decode);
        match self.config.drafts {
            Some(_) => self.add_verifications(&mut batch),
            None => self.add_pack(&mut batch),
        }
        batch.membership = self.membership;
        Some(batch)
    }

    /// Takes requests out of the running batch whose last token is being computed (SG-5); how many.
    pub(super) fn leave_out_finishing(&mut self) -> usize {
        if !self.predicts_endings() {
            return 0;
        }
        let before = self.running.len();
        while let Some(slot) = self.packed.pop_leaving() {
            self.take_out(slot);
            let handle = self.sequences[slot].handle;
            self.running.retain(|&other| other != handle);
        }
        for handle in self.newcomers() {
            if self.sequences[handle.slot].launches_left() == 0 {
                self.running.retain(|&other| other != handle);
            }
        }
        let left = before - self.running.len();
        self.membership += u64::from(left > 0);
        left
    }

    /// Whether a pass knows which requests end with what is in flight.
    pub(super) fn predicts_endings(&self) -> bool {
        self.config.switches.predicts_length_endings && self.config.overlap_schedule
    }

    /// Pages that the next decode of the running requests takes (SG-33).
    fn pages_due(&self) -> usize {
        if let Some(drafts) = &self.config.drafts {
            return self.pages_to_verify(drafts) as usize;
        }
        let page = self.config.page_size;
        if page == 1 {
            return self.running.len();
        }
        let at_boundary = |handle: &Handle| self.sequences[handle.slot].kv.is_multiple_of(page);
        self.packed.pages_due()
            + self
                .newcomers()
                .iter()
                .filter(|handle| at_boundary(handle))
                .count()
    }

    /// Whether the engine counts them by the tokens that have KV, or by those that it knows, which comes to the same where no
    /// result is outstanding.
    pub(super) fn counts_pages_by_kv(&self) -> bool {
        let config = &self.config;
        config.switches.counts_pages_by_kv || !config.overlap_schedule || config.page_size == 1
    }

    /// The same as the engine counts them before it retracts.
    fn pages_counted(&self) -> usize {
        let page = self.config.page_size;
        if self.counts_pages_by_kv() {
            return self.pages_due();
        }
        let at_boundary = |handle: &Handle| self.sequences[handle.slot].known().is_multiple_of(page);
        // Whoever is packed knows as many tokens as have KV if the decode in flight is theirs, one more if it is processed.
        let is_theirs = self.in_flight.back().is_some_and(|batch| batch.packed.is_some());
        let packed = self.packed.pages_due_after(u64::from(!is_theirs)) as usize;
        packed
            + self
                .newcomers()
                .iter()
                .filter(|handle| at_boundary(handle))
                .count()
    }

    /// Evicts for the decode that is to be launched; whether it has its pages. Where they were miscounted it may not, and
    /// the server dies.
    pub(super) fn decodes_have_pages(&mut self) -> bool {
        self.reserve_decodes();
        self.pages_due() <= self.free_pages as usize
    }

    /// Evicts for the next decode; whether there is room for it.
    pub(super) fn has_decode_memory(&mut self) -> bool {
        let need = self.pages_counted() as u64 * u64::from(self.config.page_size);
        self.make_room(need)
    }

    /// Each decode asks for a page for everybody, whatever it takes.
    fn reserve_decodes(&mut self) {
        if self.reserves_verifications() {
            return;
        }
        self.make_room(u64::from(self.config.page_size) * self.running.len() as u64);
    }

    /// A running request that is not packed computes a token in this batch; the pages that it takes.
    pub(super) fn add_decode(&mut self, batch: &mut Batch, handle: Handle) -> u32 {
        let page = self.config.page_size;
        let sequence = &mut self.sequences[handle.slot];
        let pages = u32::from(page == 1 || sequence.kv.is_multiple_of(page));
        batch.load.add(sequence.kv, 1);
        batch.load.sampled_rows += 1;
        sequence.kv += 1;
        sequence.in_flight += 1;
        batch.entries.push(Entry::of_decode(sequence, false));
        pages
    }

    /// Sends running requests back to the queue until the others can decode: those with the fewest outputs first,
    /// among equals the longest prompt.
    fn retract<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.membership += 1;
        self.unpack();
        let sequences = &self.sequences;
        let key = |sequence: &Sequence| {
            (
                sequence.outputs,
                std::cmp::Reverse(sequence.request.prompt_tokens),
            )
        };
        self.running
            .sort_by(|a, b| key(&sequences[b.slot]).cmp(&key(&sequences[a.slot])));
        let order = std::mem::take(&mut self.running);
        self.number(&order);
        self.running = order;
        let mut is_first = true;
        while is_first || !self.has_decode_memory() {
            if self.running.len() == 1 {
                if !self.has_decode_memory() {
                    self.give_up_lone(now, observer, ended);
                }
                break;
            }
            is_first = false;
            let victim = self.running.pop().expect("somebody runs");
            self.send_back(victim.slot, now, observer);
            self.make_headroom(self.running.len());
        }
        let (mut outputs, mut most) = (0u64, 0u64);
        for handle in &self.running {
            let sequence = &self.sequences[handle.slot];
            outputs += u64::from(sequence.outputs);
            most += u64::from(sequence.max_new);
        }
        let ahead = u64::from(RETRACT_DECODE_STEPS) * self.running.len() as u64;
        self.ratio = ((outputs + ahead) as f64 / (most + 1) as f64).min(1.0);
        self.full = false;
    }

    /// Somebody was sent back; makes room for what so many others compute next.
    pub(super) fn make_headroom(&mut self, others: usize) {
        self.make_room(u64::from(RETRACT_DECODE_STEPS) * others as u64);
    }

    /// A running request goes back to the tail of the queue; it keeps its outputs, the token in flight is thrown away.
    pub(super) fn send_back<O: Observer>(&mut self, slot: usize, now: Picos, observer: &mut O) {
        self.take_out(slot);
        self.release(slot);
        self.rows -= 1;
        let sequence = &mut self.sequences[slot];
        let is_kept = matches!(self.role, Role::Decode(_));
        let lost = if is_kept { 0 } else { sequence.known() - 1 };
        sequence.life += 1;
        (sequence.in_flight, sequence.drafted.unseen) = (0, 0);
        // 0.5.23 remembers the length that it looked up last.
        let remembers = self.config.switches.preempts_sparingly;
        sequence.tried = (if remembers { sequence.tried.0 } else { 0 }, 0);
        sequence.phase = Phase::Waiting;
        let fact = sequence.story.preempt(&sequence.request, self.id, now, lost);
        self.retracted.push(sequence.request.id);
        if is_kept {
            self.keep_in_host(slot, now);
        } else {
            self.join_queue(slot);
        }
        observer.observe(&fact);
    }

    /// The only running request cannot grow: version 0.5.23 aborts it; 0.5.4 would die of it, and the run ends.
    fn give_up_lone<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if !self.config.switches.aborts_lone_request {
            self.is_stuck = true;
        }
        let lone = self.running.pop().expect("one runs");
        self.release(lone.slot);
        self.rows -= 1;
        self.tell(observer);
        ended.push(self.leave(lone.slot, now, Outcome::Rejected));
    }
}
