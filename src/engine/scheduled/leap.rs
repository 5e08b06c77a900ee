//! The leap over a run of decode steps that the scheduler would decide alike.
//!
//! Until an answer ends, a request arrives or blocks run short the batch is constant, its KV total grows by its size in
//! each step, and durations are an arithmetic progression ([`crate::cost::DecodeCost`]): the steps that fit are solved for.
//! What the pack does next is known to it (`packed.rs`). Of a batch that its scheduler names one by one, counters are stale
//! while steps are leapt over and are brought up to date before anything else happens, in O(members): once for a run, not
//! for a step.

use super::launch::Step;
use super::replica::ScheduledReplica;
use super::sequence::Sequence;
use crate::engine::ScheduleRecord;
use crate::engine::growth::Growth;
use crate::engine::leap::{progression, run_law, steps_before};
use crate::engine::scheduler::Binding;
use crate::facts::{Fact, Observer, Steps};
use crate::units::Picos;

/// What a batch in flight without the pack is known to do next.
#[derive(Debug)]
pub(super) struct Plan {
    /// Steps whose ends nobody notices: nobody ends, no batch does.
    steps_left: u64,
    growth: Growth,
    /// Blocks that stay free.
    spare: u32,
    /// Rows that stream a token in each step.
    streaming: u32,
}

impl ScheduledReplica {
    /// Leaps over the steps that end before `horizon` if they are alike. Returns how many.
    pub(super) fn leap<O: Observer>(&mut self, horizon: Picos, observer: &mut O) -> u64 {
        let Some((increment, limit)) = self.run_ahead() else {
            return 0;
        };
        let arrival = self.inbox.front().map_or(Picos::MAX, |&(arrival, _)| arrival);
        let step = self.step();
        let span = horizon.min(arrival).saturating_sub(step.begin);
        let steps = steps_before(span, step.duration, increment, limit);
        if steps > 0 {
            self.tell_run(steps, increment, observer);
            self.jump(steps, increment);
        }
        steps
    }

    fn step(&self) -> &Step {
        self.in_flight.as_deref().expect("a run has a step in flight")
    }

    /// What each step of the run that goes on lasts longer than the one before, and how many there may be.
    pub(super) fn run_ahead(&mut self) -> Option<(Picos, u64)> {
        let step = self.in_flight.as_deref()?;
        let spare = step.repeat?;
        if !step.is_uniform {
            return None;
        }
        let law = *self.cost.decode(step.load.decode_seqs);
        if let Some(packed) = step.packed {
            if !step.entries.is_empty() {
                return None;
            }
            let pack = &self.ledger.pack;
            let to_end = pack.first_ending().map_or(u64::MAX, |last| last - packed);
            let (increment, limit) = run_law(&law, &step.load, 1, to_end);
            let free = self.ledger.pool.free().checked_sub(spare)?;
            let limit = pack.steps_that_fit(free, limit);
            return (limit > 0).then_some((increment, limit));
        }
        if self.plan.is_none() {
            self.make_plan(spare);
        }
        let plan = self.plan.as_ref().expect("made above");
        let (increment, limit) = run_law(&law, &self.step().load, 1, plan.steps_left);
        let free = self.ledger.pool.free();
        let limit = plan.growth.steps_that_fit(free, plan.spare, limit);
        (limit > 0).then_some((increment, limit))
    }

    /// Looks through the batch in flight, once.
    fn make_plan(&mut self, spare: u32) {
        self.settle();
        let size = self.ledger.block_size;
        let mut growth = Growth::new(size);
        let mut steps_left = u32::MAX;
        let (mut streaming, mut batch_ends) = (0, 0);
        let entries = &self.step().entries;
        for entry in entries {
            let sequence = &self.ledger.sequences[entry.handle.slot];
            let to_end = sequence.target - sequence.outputs;
            match sequence.binding {
                Some(binding) => {
                    batch_ends = batch_ends.max(to_end);
                    if binding == Binding::EachWhole && to_end > 0 && !sequence.is_answered {
                        steps_left = steps_left.min(to_end - 1);
                    }
                }
                None => {
                    streaming += 1;
                    steps_left = steps_left.min(to_end - 1);
                }
            }
            // Computed when the step in flight is done. Who holds more than that takes nothing before it is used up.
            let computed = sequence.computed + 1;
            let room = sequence.blocks * size - computed;
            if room < size {
                growth.count(computed);
            } else {
                steps_left = steps_left.min(room);
            }
        }
        if batch_ends > 0 {
            steps_left = steps_left.min(batch_ends - 1);
        }
        self.plan = Some(Plan {
            steps_left: steps_left.into(),
            growth,
            spare,
            streaming,
        });
    }

    fn tell_run<O: Observer>(&mut self, steps: u64, increment: Picos, observer: &mut O) {
        let step = self.step();
        let streaming = match &self.plan {
            Some(plan) => plan.streaming,
            None => step.load.decode_seqs,
        };
        observer.observe(&Fact::Steps(&Steps {
            replica: self.id,
            begin: step.begin,
            end: step.begin + progression(step.duration, increment, steps),
            count: steps,
            duration: step.duration,
            duration_increment: increment,
            gap_seqs: streaming,
            gap: step.end() - self.last_end.min(step.begin),
            handed: streaming,
            seen: None,
            load: &step.load,
            recomputed_tokens: step.recomputed_tokens,
            running: step.running,
            waiting: step.waiting,
            free_blocks: step.free_blocks,
            free_meanwhile: step.free_blocks,
            kv_slots: step.load.decode_seqs,
        }));
    }

    /// Moves the whole state `steps` steps on.
    fn jump(&mut self, steps: u64, increment: Picos) {
        if self.log.is_some() {
            self.log_run(steps, increment);
        }
        if let Some(plan) = &mut self.plan {
            self.ledger.pool.take(plan.growth.blocks_for(steps));
            plan.growth.advance(steps);
            plan.steps_left -= steps;
            self.ahead += steps as u32;
        } else {
            let pack = &mut self.ledger.pack;
            self.ledger.pool.take(pack.blocks_needed_for(steps) as u32);
            pack.advance(steps);
        }
        let members = self.step().load.decode_seqs;
        let law = *self.cost.decode(members);
        let free_blocks = self.ledger.pool.free();
        let step = self.in_flight.as_mut().expect("a run has a step in flight");
        step.packed = step.packed.map(|packed| packed + steps);
        step.begin += progression(step.duration, increment, steps);
        step.load.decode_kv_tokens += steps * u64::from(members);
        step.load.decode_longest += steps as u32;
        step.duration = law.at(step.load.decode_kv_tokens, step.load.decode_longest);
        step.recomputed_tokens = 0;
        step.free_blocks = free_blocks;
        self.last_end = step.begin;
        self.ledger.last_decode = step.begin;
    }

    /// Brings the members' counters up to date.
    pub(super) fn settle(&mut self) {
        if let Some(packed) = self.in_flight.as_ref().and_then(|step| step.packed) {
            self.ledger.register_packed(packed);
        }
        let ahead = std::mem::take(&mut self.ahead);
        if ahead == 0 {
            return;
        }
        let step = self.in_flight.take().expect("counters are stale in a run only");
        for entry in &step.entries {
            let ledger = &mut self.ledger;
            let sequence = &mut ledger.sequences[entry.handle.slot];
            sequence.go_on(ahead, self.last_end);
            // The step in flight has its block, too.
            sequence.blocks = sequence.blocks.max(ledger.pool.blocks_for(sequence.computed + 1));
            ledger.register(entry.handle.slot);
        }
        self.in_flight = Some(step);
    }

    /// Writes down the steps that a leap launches.
    fn log_run(&mut self, steps: u64, increment: Picos) {
        self.settle();
        let step = self.in_flight.as_deref().expect("a run has a step in flight");
        let pack = &self.ledger.pack;
        let (mut begin, mut duration) = (step.begin, step.duration);
        let mut free_blocks = self.ledger.pool.free();
        for ahead in 0..steps {
            begin += duration;
            duration += increment;
            free_blocks -= match &self.plan {
                Some(plan) => plan.growth.blocks_due(ahead),
                None => pack.blocks_needed(ahead),
            };
            let one_by_one = step.entries.iter().map(|entry| {
                let sequence = &self.ledger.sequences[entry.handle.slot];
                (sequence.request.id, sequence.computed + 1 + ahead as u32, 1)
            });
            // The pack's clock has passed the step in flight.
            let ledger = &self.ledger;
            let running = ledger.running.iter().filter(|_| step.packed.is_some());
            let packed = running.filter(|&&slot| ledger.sequences[slot].place.is_some());
            let packed = packed.map(|&slot| {
                let view = ledger.view(slot);
                (view.request, view.computed_tokens + ahead as u32, 1)
            });
            let record = ScheduleRecord {
                scheduled: begin,
                begin,
                duration,
                shares: one_by_one.chain(packed).collect(),
                drafts: Vec::new(),
                preempted: Vec::new(),
                free_blocks,
                running: step.running,
                waiting: step.waiting,
            };
            self.log.as_mut().expect("only called with a log").push(record);
        }
    }
}

impl Sequence {
    /// It was given a token in each of `steps` steps, the last of which ended at `end`.
    fn go_on(&mut self, steps: u32, end: Picos) {
        let sampled = steps.min(self.target - self.outputs);
        self.outputs += sampled;
        self.filler += steps - sampled;
        self.computed += steps;
        self.story.note_token_at(end);
    }
}
