//! The leap over a run of decode steps of one batch.
//!
//! Until an answer ends, a request arrives or pages run out the running batch is constant, its KV total grows by its
//! size in each step, and durations are an arithmetic progression ([`crate::cost::DecodeCost`]): the steps that fit are
//! solved for. The new-token ratio is subtracted step by step, in floating point as the engine does, which no step but
//! the next prefill looks at. Evictions in a run free whole leaves, so the run is cut there and goes on.
//!
//! Members' counters follow from the pack's clock (`packed.rs`), which a leap moves on. A batch that changes in every step
//! is stepped through.

use super::batch::{Batch, BatchMode, SglangRecord};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use crate::engine::leap::{progression, run_law, steps_before};
use crate::facts::{Fact, Observer, Steps};
use crate::units::Picos;

impl SglangReplica {
    /// Leaps over the steps that end before `horizon` if all in flight decode the present running batch and nobody can
    /// be admitted. Returns how many.
    pub(super) fn leap<O: Observer>(&mut self, horizon: Picos, observer: &mut O) -> u64 {
        if !self.goes_on_plainly() {
            return 0;
        }
        let horizon = self.next_input().map_or(horizon, |input| horizon.min(input));
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        let (begin, duration) = (front.begin, front.duration);
        if begin + duration >= horizon {
            return 0;
        }
        let law = *self.cost.decode(self.running.len() as u32);
        let limit = self.steps_to_ending();
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        let (increment, limit) = run_law(&law, &front.load, self.in_flight.len() as u64, limit);
        if limit == 0 {
            return 0;
        }
        let decided = begin + duration;
        self.tree.set_clock(decided);
        let limit = self.steps_that_fit(limit);
        let steps = steps_before(horizon - begin, duration, increment, limit);
        if steps > 0 {
            self.tell_run(steps, increment, observer);
            self.jump(steps, increment);
        }
        steps
    }

    /// All in flight decode the running batch, whose members had their last tokens together, and nobody will be
    /// admitted, chunked or dropped.
    pub(super) fn goes_on_plainly(&self) -> bool {
        let is_plain =
            |batch: &Batch| batch.is_plain() && batch.late_pages == 0 && batch.membership == self.membership;
        !self.stepwise
            && self.in_flight.len() == self.depth()
            && self.uniform == self.membership
            && self.last.is_none()
            && self.chunked.is_none()
            && self.ended_in_lists == 0
            && !self.running.is_empty()
            && self.nobody_is_admitted()
            && self.in_flight.iter().all(|batch| is_plain(batch))
    }

    /// Whoever waits goes on waiting until the running batch changes.
    fn nobody_is_admitted(&self) -> bool {
        match self.role {
            Role::Decode(_) => self.queues_are_blocked(),
            // By priority the flag does not outlast a pass.
            _ if self.config.priority.is_some() => self.waiting.is_empty() && !self.full,
            _ => self.waiting.is_empty() || self.full,
        }
    }

    /// Steps until the running batch changes by an ending: somebody ends, or is left out because its end is known (SG-5).
    pub(super) fn steps_to_ending(&self) -> u64 {
        let to_end = self.packed.steps_to_ending();
        match self.packed.steps_to_leaving() {
            Some(to_leave) => to_end.min(to_leave),
            None => to_end,
        }
    }

    /// The most steps, `limit` at most, before which nothing is evicted but before the first. Each asks for a page for
    /// every member, whatever it takes, so only the last may leave fewer free.
    pub(super) fn steps_that_fit(&mut self, limit: u64) -> u64 {
        let members = self.running.len() as u32;
        if self.free_pages < members {
            // What the decision for the next batch would do.
            let page = u64::from(self.config.page_size);
            let need = self.packed.pages_due() as u64 * page;
            if !self.make_room(need) {
                return 0;
            }
            if !self.make_room(page * u64::from(members)) {
                return limit.min(1);
            }
        }
        1 + self.packed.steps_that_fit(self.free_pages, limit - 1)
    }

    pub(super) fn tell_run<O: Observer>(&mut self, steps: u64, increment: Picos, observer: &mut O) {
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        observer.observe(&Fact::Steps(&Steps {
            replica: self.id,
            begin: front.begin,
            end: front.begin + progression(front.duration, increment, steps),
            count: steps,
            duration: front.duration,
            duration_increment: increment,
            gap_seqs: self.running.len() as u32,
            gap: front.end() - self.last_end,
            handed: front.load.sampled_rows,
            seen: None,
            load: &front.load,
            recomputed_tokens: 0,
            running: front.running,
            waiting: front.waiting,
            free_blocks: front.free_pages,
            free_meanwhile: self.reported_free(),
            kv_slots: front.load.decode_seqs,
        }));
    }

    /// Moves the whole state `steps` steps on.
    pub(super) fn jump(&mut self, steps: u64, increment: Picos) {
        if self.log.is_some() {
            self.log_run(steps, increment);
        }
        self.publish_run(steps, increment);
        for _ in 0..steps {
            if self.ratio <= self.config.min_new_token_ratio {
                break;
            }
            self.ratio =
                (self.ratio - self.config.new_token_ratio_decay).max(self.config.min_new_token_ratio);
        }
        let members = self.running.len() as u32;
        let law = *self.cost.decode(members);
        self.free_pages -= self.packed.pages_for(steps) as u32;
        self.packed.advance(steps);
        let newest = self.packed.pages_taken_last();
        self.prefill_hold = self.prefill_hold.saturating_sub(steps as u32);
        let first = self.in_flight.front().expect("a plain run has a batch in flight");
        let mut begin = first.begin + progression(first.duration, increment, steps);
        (self.last_end, self.last_decode) = (begin, begin);
        let mut free = self.reported_free();
        // The pages that the newest batch took were free when the one before it was decided.
        for batch in self.in_flight.iter_mut().rev() {
            batch.free_pages = free;
            free += newest;
        }
        let waiting = self.waiting.len() as u32;
        for batch in &mut self.in_flight {
            batch.packed = batch.packed.map(|step| step + steps);
            batch.load.decode_kv_tokens += steps * u64::from(members);
            batch.load.decode_longest += steps as u32;
            batch.begin = begin;
            batch.duration = law.at(batch.load.decode_kv_tokens, batch.load.decode_longest);
            batch.waiting = waiting;
            begin = batch.end();
        }
        self.gpu_free = begin;
    }

    /// Writes down the passes that a leap takes.
    fn log_run(&mut self, steps: u64, increment: Picos) {
        self.settle();
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        let newest = self.in_flight.back().expect("a plain run has a batch in flight");
        let (mut scheduled, mut ending) = (front.end(), front.duration);
        let (mut begin, mut duration) = (newest.end(), newest.duration);
        let (mut free_pages, mut ratio) = (self.free_pages, self.ratio);
        for step in 0..steps {
            duration += increment;
            free_pages -= self.packed.pages_due_after(step);
            ratio = (ratio - self.config.new_token_ratio_decay).max(self.config.min_new_token_ratio);
            let share = |handle: &crate::engine::Handle| {
                let sequence = &self.sequences[handle.slot];
                (sequence.request.id, sequence.kv + step as u32, 1)
            };
            let record = SglangRecord {
                mode: BatchMode::Decode,
                scheduled,
                begin,
                duration,
                shares: self.running.iter().map(share).collect(),
                retracted: Vec::new(),
                free_pages,
                evictable: self.tree.evictable(),
                protected: self.tree.protected(),
                running: self.running.len() as u32,
                waiting: self.waiting.len() as u32,
                full: self.full,
                ratio,
                chunked: None,
                order: self
                    .waiting
                    .iter()
                    .map(|&slot| self.sequences[slot].request.id)
                    .collect(),
            };
            self.log.as_mut().expect("only called with a log").push(record);
            ending += increment;
            scheduled += ending;
            begin += duration;
        }
    }
}
