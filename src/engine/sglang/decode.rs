//! Decode batches: their memory, the new-token ratio, retraction (`update_running_batch`, `retract_decode`, SG-32, SG-33).

use super::batch::{Batch, BatchMode, Entry};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::{Phase, Sequence};
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
        if self.has_decode_memory(self.running.len()) {
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
        let mut batch = self.open_batch(BatchMode::Decode);
        self.add_decodes(&mut batch);
        batch.membership = self.membership;
        Some(batch)
    }

    /// Takes requests out of the running batch whose last token is being computed (SG-5); how many.
    pub(super) fn leave_out_finishing(&mut self) -> usize {
        let predicts = self.config.switches.predicts_length_endings && self.config.overlap_schedule;
        if !predicts || self.launches_left > 0 {
            return 0;
        }
        let before = self.running.len();
        let sequences = &self.sequences;
        self.running
            .retain(|handle| sequences[handle.slot].launches_left() > 0);
        let left = before - self.running.len();
        self.membership += u64::from(left > 0);
        left
    }

    /// Tokens that the next decode of the first `count` running requests takes (SG-33).
    fn decode_need(&self, count: usize) -> u64 {
        let page = self.config.page_size;
        if page == 1 {
            return count as u64;
        }
        let at_boundary =
            |handle: &&crate::engine::Handle| self.sequences[handle.slot].kv.is_multiple_of(page);
        let pages = self.running[..count].iter().filter(at_boundary).count();
        pages as u64 * u64::from(page)
    }

    /// Evicts for the next decode; whether there is room for it.
    pub(super) fn has_decode_memory(&mut self, count: usize) -> bool {
        let need = self.decode_need(count);
        self.make_room(need)
    }

    /// Everybody in the running batch computes one token in this batch.
    pub(super) fn add_decodes(&mut self, batch: &mut Batch) {
        let page = self.config.page_size;
        self.make_room(u64::from(page) * self.running.len() as u64);
        let running = std::mem::take(&mut self.running);
        let (mut pages, mut launches_left) = (0, u32::MAX);
        for &handle in &running {
            self.log_share(handle.slot, 1);
            let sequence = &mut self.sequences[handle.slot];
            pages += u32::from(page == 1 || sequence.kv.is_multiple_of(page));
            batch.load.add(sequence.kv, 1);
            sequence.kv += 1;
            sequence.in_flight += 1;
            launches_left = launches_left.min(sequence.launches_left());
            batch.entries.push(Entry {
                handle,
                life: sequence.life,
                samples: true,
                is_decode: true,
            });
        }
        batch.load.sampled_rows += running.len() as u32;
        self.running = running;
        self.launches_left = launches_left;
        self.take_pages(pages);
    }

    /// Sends running requests back to the queue until the others can decode: those with the fewest outputs first,
    /// among equals the longest prompt.
    fn retract<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.membership += 1;
        let sequences = &self.sequences;
        let key = |sequence: &Sequence| {
            (
                sequence.outputs,
                std::cmp::Reverse(sequence.request.prompt_tokens),
            )
        };
        self.running
            .sort_by(|a, b| key(&sequences[b.slot]).cmp(&key(&sequences[a.slot])));
        let mut is_first = true;
        while is_first || !self.has_decode_memory(self.running.len()) {
            if self.running.len() == 1 {
                if !self.has_decode_memory(1) {
                    self.give_up_lone(now, observer, ended);
                }
                break;
            }
            is_first = false;
            let victim = self.running.pop().expect("somebody runs");
            self.send_back(victim.slot, now, observer);
            let headroom = u64::from(RETRACT_DECODE_STEPS) * self.running.len() as u64;
            self.make_room(headroom);
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

    /// A running request goes back to the tail of the queue; it keeps its outputs, the token in flight is thrown away.
    pub(super) fn send_back<O: Observer>(&mut self, slot: usize, now: Picos, observer: &mut O) {
        self.release(slot);
        self.rows -= 1;
        let sequence = &mut self.sequences[slot];
        let is_kept = matches!(self.role, Role::Decode(_));
        let lost = if is_kept { 0 } else { sequence.known() - 1 };
        sequence.life += 1;
        sequence.in_flight = 0;
        sequence.phase = Phase::Waiting;
        let fact = sequence.story.preempt(&sequence.request, self.id, now, lost);
        self.retracted.push(sequence.request.id);
        if is_kept {
            self.keep_in_host(slot, now);
        } else {
            self.waiting.push_back(slot);
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
