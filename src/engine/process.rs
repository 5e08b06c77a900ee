//! The end of a step: tokens reach their requests, finished ones leave (`Scheduler.update_from_output`).

use std::hint::cold_path;

use super::Handle;
use super::external::Leaving;
use super::replica::Replica;
use super::sequence::Phase;
use super::step::Step;
use crate::facts::{Completion, Observer, Outcome};
use crate::units::Picos;

impl Replica {
    /// The oldest step ends, and is told of.
    #[inline(always)]
    pub(super) fn take_oldest<O: Observer>(&mut self, observer: &mut O) -> Box<Step> {
        let step = self.in_flight.pop_front().expect("a step in flight ends");
        self.report(&step, observer);
        self.processed_steps = step.number;
        self.last_end = step.end();
        self.pool.set_clock(self.last_end);
        step
    }

    /// The output of a step that has ended reaches its requests.
    #[inline(always)]
    pub(super) fn process<O: Observer>(
        &mut self,
        mut step: Box<Step>,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        if !step.is_plain {
            self.hand_out(&mut step, observer, ended);
            step.clear();
        }
        self.spare_steps.push(step);
    }

    /// What a step gives to its sequences one by one.
    fn hand_out<O: Observer>(&mut self, step: &mut Step, observer: &mut O, ended: &mut Vec<Completion>) {
        let now = self.last_end;
        for &handle in &step.samples {
            self.deliver(handle, now, observer);
        }
        if !step.verified.is_empty() {
            cold_path();
            self.telling.flush(observer);
            self.deliver_verified(step, now, observer, ended);
        }
        for &handle in &step.left_pack {
            if self.sequences.get(handle).is_some() {
                self.sequences[handle.slot].story.note_token_at(now);
            }
        }
        if !step.finishing.is_empty() {
            self.telling.flush(observer);
            step.finishing.sort_unstable();
            if self.reuses() {
                cold_path();
                self.sort_by_arrival(step);
            }
        }
        for &(_, handle) in &step.finishing {
            if self.sequences.get(handle).is_some() {
                ended.push(self.finish(handle.slot, now, Outcome::Completed));
            }
        }
        if self.reuses() {
            cold_path();
            self.store_prompts(step);
        }
    }

    /// Tells that a step was executed.
    #[inline(always)]
    fn report<O: Observer>(&mut self, step: &Step, observer: &mut O) {
        let gap = step.end() - self.last_end.min(step.begin);
        self.telling.meanwhile(self.pool.free(), self.sequences.running);
        if self.stages.is_some() {
            cold_path();
            return self.report_staged(step, observer);
        }
        self.telling.step(step, gap, observer);
    }

    /// A sequence outside the pack gets its token.
    #[inline(always)]
    fn deliver<O: Observer>(&mut self, handle: Handle, now: Picos, observer: &mut O) {
        if self.sequences.get(handle).is_none() {
            return;
        }
        let sequence = &mut self.sequences[handle.slot];
        if let Some(fact) = sequence.story.have_token(&sequence.request, self.id, now, None) {
            observer.observe(&fact);
        }
        if self.stages.is_some() {
            cold_path();
            return self.see_token(handle.slot);
        }
        if self.stepwise && matches!(sequence.phase, Phase::Single | Phase::Final) {
            cold_path();
            // V1-44: everything but the newest token has its KV.
            let in_flight = self.tokens_in_flight(handle.slot);
            let sequence = &mut self.sequences[handle.slot];
            let delivered = sequence.sampled.min(sequence.output_tokens) - in_flight;
            let registered = sequence.request.prompt_tokens + delivered - 1;
            self.pool.register(
                &mut sequence.held,
                &sequence.pieces,
                registered,
                sequence.computed,
            );
        }
    }

    /// Output tokens of a sequence outside the pack that are sampled in steps not processed yet, thrown-away ones left
    /// out.
    fn tokens_in_flight(&self, slot: usize) -> u32 {
        let handle = self.sequences[slot].handle;
        let held = self
            .in_flight
            .iter()
            .filter(|step| step.samples.contains(&handle))
            .count();
        held as u32
    }

    /// A request leaves the engine, wherever it stands.
    #[inline(always)]
    pub(super) fn finish(&mut self, slot: usize, now: Picos, outcome: Outcome) -> Completion {
        let sequence = &self.sequences[slot];
        let phase = sequence.phase;
        match phase {
            Phase::Packed => self.leave_pack(slot, Phase::Final),
            Phase::Single => {
                cold_path();
                self.singles.retain(|&other| other != slot);
            }
            Phase::Final | Phase::Loading => {}
            Phase::Waiting => {
                cold_path();
                self.waiting.remove(sequence.handle, &sequence.request);
            }
        }
        if !matches!(phase, Phase::Waiting | Phase::Loading) {
            self.sequences.unlink_running(slot);
            self.take_back_promise(slot);
        }
        let holds_back = self.tell_connector(slot, now, Leaving::of(outcome));
        if phase == Phase::Loading {
            cold_path();
            self.abandon_load(slot);
        } else if phase != Phase::Waiting {
            self.give_up_blocks(slot, holds_back);
        }
        self.no_longer_deferred(slot);
        let sequence = &self.sequences[slot];
        let delivered = match outcome {
            Outcome::Completed => sequence.output_tokens,
            _ if self.config.speculation.is_some() => sequence.drafting.delivered,
            Outcome::TimedOut | Outcome::Rejected | Outcome::Failed => {
                sequence.sampled.min(sequence.output_tokens)
            }
        };
        let (story, request) = (&sequence.story, &sequence.request);
        let completion = story.end(request, self.id, now, outcome, delivered);
        self.sequences.remove(slot);
        completion
    }

    /// The blocks of a sequence that leaves `running` for good are free, or held back for somebody.
    #[inline(always)]
    fn give_up_blocks(&mut self, slot: usize, holds_back: bool) {
        if self.reuses() {
            cold_path();
            return self.give_back_reused(slot);
        }
        let unregistered = self.unregistered_tokens(slot);
        let allocated = self.allocated_tokens(slot);
        let sequence = &mut self.sequences[slot];
        let known = sequence.request.prompt_tokens + sequence.output_tokens - 1;
        let (computed, settled) = (sequence.computed, sequence.settled);
        let (registered, allocated) = match self.config.speculation {
            Some(_) => (sequence.drafting.registered, sequence.drafting.reach),
            None => ((computed - unregistered).min(known), allocated),
        };
        if holds_back {
            cold_path();
            let held = std::mem::take(&mut sequence.held);
            self.hold_back(slot, held, registered);
        } else {
            let (held, pieces) = (&mut sequence.held, &sequence.pieces);
            self.pool
                .release_rest(held, pieces, registered, allocated, settled);
        }
    }

    /// The client of a request gave up at `now` (V1-10); `None` if it has ended before.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        handle: Handle,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        self.sequences.get(handle)?;
        let spun = self.spins();
        self.telling.flush(observer);
        self.pool.set_clock(now);
        let in_flight = self.tokens_in_flight(handle.slot) + self.discard_in_flight(handle.slot);
        self.sequences[handle.slot].undelivered = in_flight;
        let mut completion = self.finish(handle.slot, now, Outcome::TimedOut);
        completion.output_tokens -= in_flight;
        self.admission_closed = self.nobody_waits();
        if self.spins() {
            // Whoever stood behind may be let in when the loop looks next.
            self.pass_from(now);
        } else if spun {
            // The loop sleeps to the end of its nap, whoever comes before.
            self.awake = self.look_after(now);
        }
        Some(completion)
    }

    /// Marks the tokens that a sequence sampled with the pack and that are in flight as thrown away; counts them.
    fn discard_in_flight(&mut self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        let (from, to) = sequence.packed_steps;
        let mut overrun = 0;
        if sequence.phase == Phase::Packed {
            let sampled = self.pack.computed(&sequence.place) + 1 - sequence.request.prompt_tokens;
            overrun = sampled.saturating_sub(sequence.output_tokens);
        }
        let mut discarded = 0;
        for step in self
            .in_flight
            .iter_mut()
            .rev()
            .filter(|step| (from..=to).contains(&step.number))
        {
            if overrun > 0 {
                overrun -= 1;
                continue;
            }
            step.discard_one();
            discarded += 1;
        }
        discarded
    }
}
