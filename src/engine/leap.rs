//! The leap over a run of steps of one batch.
//!
//! Until the next arrival, end or shortage of blocks the batch is constant and its KV total grows by the batch size in
//! each step, so durations are an arithmetic progression ([`crate::cost::DecodeCost`]): the steps that fit are solved
//! for, not walked. Coefficients are integers, so a leap ends at the instant at which its steps would.

use std::hint::cold_path;

use super::replica::Replica;
use super::sequence::Phase;
use super::step::{ScheduleRecord, Step};
use crate::cost::{DecodeCost, StepLoad};
use crate::facts::Observer;
use crate::ids::RequestId;
use crate::units::Picos;

/// A run of alike steps, as far as nothing comes from outside: step `i` of it lasts `duration + i·increment`.
pub(super) struct Run {
    /// When the oldest step in flight began.
    begin: Picos,
    duration: Picos,
    increment: Picos,
    /// Steps that may end before the batch, the blocks or the law of their durations changes.
    limit: u64,
    /// Steps that are scheduled before the first of them ends: one where the pass that is due has not been made.
    pub(super) owed: u64,
}

impl Run {
    /// When its last step ends; the step that runs, if no other is like it, as where contexts are about to take longer to
    /// read than their floor.
    pub(super) fn end(&self) -> Picos {
        self.begin + progression(self.duration, self.increment, self.limit.max(1))
    }
}

impl Replica {
    /// Leaps over the steps that end before `horizon`, all in flight being [alike](Replica::is_settled). Returns how many.
    ///
    /// Each of the `m` steps that end is replaced by one scheduled at its end, so the steps in flight afterwards are
    /// those of before, `m` steps on; where a pass is due, one more is in flight. The last one scheduled may be the one that
    /// samples somebody's last token.
    #[inline]
    pub(super) fn leap<O: Observer>(&mut self, horizon: Picos, observer: &mut O) -> u64 {
        debug_assert!(self.is_settled(), "steps that are not alike are taken one by one");
        let run = self.run_ahead();
        let span = self.horizon_inside(horizon) - run.begin;
        let steps = steps_before(span, run.duration, run.increment, run.limit);
        if steps > 0 {
            if self.log.is_some() {
                cold_path();
                self.log_run(steps, run.increment);
            }
            let end = run.begin + progression(run.duration, run.increment, steps);
            self.report_run(observer, (steps, run.owed), run.increment, end);
            self.jump(steps, end, &run);
        }
        steps
    }

    /// Makes the pass that is due and leaps over the steps that end before `horizon`, if the pass [is plain](Replica::passes_plainly).
    /// Returns how many.
    #[inline(always)]
    pub(super) fn pass_and_leap<O: Observer>(&mut self, horizon: Picos, observer: &mut O) -> u64 {
        if !self.passes_plainly(horizon) {
            return 0;
        }
        debug_assert_eq!(
            self.in_flight.front().map(|front| front.begin),
            self.next_pass,
            "the step in flight has just begun"
        );
        let steps = self.leap(horizon, observer);
        if steps > 0 {
            self.next_pass = None;
            self.admission_closed = true;
            self.preempted.clear();
        }
        steps
    }

    /// Whether the pass that is due schedules one plain step behind a plain one, which ends before `horizon`.
    #[inline(always)]
    fn passes_plainly(&self, horizon: Picos) -> bool {
        self.pack_is_alone(horizon)
            && self.nobody_waits()
            && self.in_flight.len() + 1 == self.config.queue_depth as usize
            && !self.passes_do_more()
            && self.is_settled()
    }

    /// Passes do more than to schedule: they load KV, promise blocks, walk stages or are written down.
    #[inline]
    fn passes_do_more(&self) -> bool {
        self.external.is_some() || self.capacity.is_some() || self.stages.is_some() || self.log.is_some()
    }

    /// All steps in flight are plain, with the pack's present members, and steps last what they cost.
    #[inline(always)]
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |step: &Step| step.is_plain && step.membership == self.membership;
        self.jitter.is_none()
            && self.in_flight.front().is_none_or(is_settled)
            && self.in_flight.back().is_none_or(is_settled)
    }

    /// The run that goes on from settled steps.
    #[inline(always)]
    pub(super) fn run_ahead(&mut self) -> Run {
        let front = self
            .in_flight
            .front()
            .expect("a leap starts with a step in flight");
        let law = self.cost.decode(self.pack.members);
        let ahead = self.in_flight.len() as u64;
        let owed = u64::from(self.config.queue_depth) - ahead;
        let (increment, limit) = run_law(law, &front.load, ahead, self.pack.steps_to_ending());
        let scheduled = self.pack.steps_that_fit(self.pool.free(), limit);
        Run {
            begin: front.begin,
            duration: front.duration,
            increment,
            limit: scheduled.saturating_sub(owed),
            owed,
        }
    }

    /// Tells of `steps` steps that go on in a run, the last of which ends at `end`; `owed` are scheduled before the first of them ends.
    #[inline(always)]
    pub(super) fn report_run<O: Observer>(
        &mut self,
        observer: &mut O,
        (steps, owed): (u64, u64),
        increment: Picos,
        end: Picos,
    ) {
        let front = self
            .in_flight
            .front()
            .expect("a leap starts with a step in flight");
        let gap = front.end() - self.last_end.min(front.begin);
        let mut free = self.pool.free();
        if owed > 0 {
            free = free - self.pack.blocks_due() + self.pack.blocks_passed(0);
        }
        self.telling.meanwhile(free, self.sequences.running);
        self.telling.run(front, steps, increment, end, gap, observer);
    }

    /// Moves the whole state on by `steps` steps, the last of which ends at `end`.
    #[inline(always)]
    pub(super) fn jump(&mut self, steps: u64, end: Picos, run: &Run) {
        let scheduled = run.owed + steps;
        self.take_blocks(scheduled, run);
        let passed_last = self.pack.blocks_passed(scheduled - 1);
        if run.owed > 0 {
            self.repeat_front();
        }
        self.last_end = end;
        self.advance_pack(scheduled);
        self.scheduled_steps += scheduled;
        self.processed_steps += steps;
        let crowd = (self.sequences.running, self.not_admitted());
        self.queue_undrained = self.waiting.len() > 0;
        let kv_tokens = steps * u64::from(self.pack.members);
        let law = self.cost.decode(self.pack.members);
        let move_on = |step: &mut Step, begin: Picos, crowd: (u32, u32), free_blocks: u32| {
            step.number += steps;
            step.load.decode_kv_tokens += kv_tokens;
            step.load.decode_longest += u32::from(step.load.decode_longest > 0) * steps as u32;
            step.load.decode_beyond += steps * u64::from(step.load.seqs_beyond);
            step.begin = begin;
            step.duration = law.of(&step.load);
            (step.running, step.waiting) = crowd;
            step.free_blocks = free_blocks;
            step.end()
        };
        let free = self.pool.free();
        let (oldest, second) = self.in_flight.both_mut();
        self.gpu_free = match second {
            None => move_on(oldest, end, crowd, free),
            Some(second) => {
                let before = free + self.pack.blocks_needed_last() - passed_last;
                let begin = match scheduled {
                    // It is the step now that was the second, and was decided before.
                    1 => move_on(oldest, end, (second.running, second.waiting), second.free_blocks),
                    _ => move_on(oldest, end, crowd, before),
                };
                // The first step of a fresh queue was decided at one instant with the second; now it no longer is.
                (oldest.overlapped, second.overlapped) = (true, true);
                move_on(second, begin, crowd, free)
            }
        };
        if self.pack.has_ended() {
            let mut newest = self
                .in_flight
                .pop_back()
                .expect("a leap ends with a step in flight");
            self.end_members(&mut newest);
            self.in_flight.push_back(newest);
        }
    }

    /// Another step of the pack is put behind the one in flight, which is alike; what it costs is not told.
    #[inline(always)]
    fn repeat_front(&mut self) {
        let mut step = self.spare_steps.pop().unwrap_or_default();
        let front = self.in_flight.front().expect("a step is in flight");
        step.follow(front);
        self.in_flight.push_back(step);
    }

    /// Takes the blocks of so many steps of a leap: at once, unless somebody hears when each of them was evicted.
    #[inline(always)]
    fn take_blocks(&mut self, steps: u64, run: &Run) {
        let blocks = self.pack.blocks_needed_for(steps);
        let blocks = u32::try_from(blocks).expect("the leap was cut to the free blocks");
        if !self.pool.tells_of_taking(blocks) {
            let passed = u32::try_from(self.pack.blocks_passed_in(steps));
            self.pool.take(blocks);
            return self
                .pool
                .give_back(passed.expect("no more is given back than was taken"));
        }
        cold_path();
        for ahead in 0..steps {
            let due = self.pack.blocks_needed(ahead);
            if due > 0 {
                let scheduled = progression(run.duration, run.increment, ahead + 1 - run.owed);
                self.pool.set_clock(run.begin + scheduled);
                self.pool.take(due);
            }
            self.pool.give_back(self.pack.blocks_passed(ahead));
        }
    }

    /// Writes down the steps that a leap schedules.
    fn log_run(&mut self, steps: u64, increment: Picos) {
        let newest = self
            .in_flight
            .back()
            .expect("a leap starts with a step in flight");
        let front = self
            .in_flight
            .front()
            .expect("a leap starts with a step in flight");
        let (mut scheduled, mut ending, mut begin) = (front.end(), front.duration, newest.end());
        let mut duration = newest.duration;
        let mut free = self.pool.free();
        let mut records = Vec::new();
        for ahead in 0..steps {
            duration += increment;
            free = free - self.pack.blocks_needed(ahead) + self.pack.blocks_passed(ahead);
            records.push(ScheduleRecord {
                scheduled,
                begin,
                duration,
                shares: self.shares_of_pack(ahead as u32),
                drafts: Vec::new(),
                preempted: Vec::new(),
                free_blocks: free,
                running: self.sequences.running,
                waiting: self.not_admitted(),
            });
            ending += increment;
            scheduled += ending;
            begin += duration;
        }
        self.log
            .as_mut()
            .expect("only called with a log")
            .append(&mut records);
    }

    /// What the members of the pack compute `ahead` steps from now, in order of admission.
    fn shares_of_pack(&self, ahead: u32) -> Vec<(RequestId, u32, u32)> {
        let mut shares = Vec::new();
        let mut at = self.sequences.first_running;
        while let Some(slot) = at {
            let sequence = &self.sequences[slot];
            if sequence.phase == Phase::Packed {
                shares.push((
                    sequence.request.id,
                    self.pack.computed(&sequence.place) + ahead,
                    1,
                ));
            }
            at = sequence.next;
        }
        shares
    }
}

/// What each step of a run lasts longer than the one before, beginning with one of `load`, and for how many steps,
/// `limit` at most. `ahead` steps are launched already.
#[inline]
pub(super) fn run_law(law: &DecodeCost, load: &StepLoad, ahead: u64, limit: u64) -> (Picos, u64) {
    let (gpu, growth) = (law.gpu(load), law.growth(load));
    let least = law.least();
    if gpu >= least {
        return (growth, limit);
    }
    cold_path();
    // Bound by the host, or by contexts too short to count: constant until they do, counting the steps still to be
    // launched.
    let constant = (least - gpu).0 / growth.0.max(1);
    (Picos::ZERO, limit.min(constant.saturating_sub(ahead)))
}

/// `n` terms of `first, first + step, …`, added up.
#[inline]
pub(crate) fn progression(first: Picos, step: Picos, n: u64) -> Picos {
    first * n + step * (n * n.saturating_sub(1) / 2)
}

/// So many steps are counted down rather than solved for.
const A_FEW: u64 = 32;

/// The most steps, `limit` at most, that end strictly before `span` has passed.
#[inline]
pub(crate) fn steps_before(span: Picos, first: Picos, step: Picos, limit: u64) -> u64 {
    // Wide products only where they are needed: durations of seconds, increments of microseconds, a million steps.
    let is_small = first.0 < 1 << 42 && step.0 < 1 << 23 && limit < 1 << 20;
    let fits = |n: u64| {
        if is_small {
            return first.0 * n + step.0 * (n * n.saturating_sub(1) / 2) < span.0;
        }
        let sum = u128::from(first.0) * u128::from(n)
            + u128::from(step.0) * (u128::from(n) * u128::from(n.saturating_sub(1)) / 2);
        sum < u128::from(span.0)
    };
    if fits(limit) {
        return limit;
    }
    // No step is shorter than the first, and in a few steps durations hardly grow.
    let most = span.0.checked_div(first.0).unwrap_or(u64::MAX);
    if is_small && most < A_FEW {
        let mut n = most.min(limit);
        while n > 0 && !fits(n) {
            n -= 1;
        }
        return n;
    }
    // The positive root of step/2·n² + (first − step/2)·n − span, then exactly.
    let (a, b, c) = (
        step.0 as f64 / 2.0,
        first.0 as f64 - step.0 as f64 / 2.0,
        span.0 as f64,
    );
    let root = if step.0 == 0 {
        c / b.max(1.0)
    } else {
        ((b * b + 4.0 * a * c).sqrt() - b) / (2.0 * a)
    };
    let mut n = (root.max(0.0) as u64).min(limit);
    while n > 0 && !fits(n) {
        n -= 1;
    }
    while n < limit && fits(n + 1) {
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_of_a_run_are_those_of_its_law_whatever_bounds_them(
            base in 0_u64..2000, per_kv in 0_u64..40, share in 0_u64..=4, per_longest in 0_u64..40, kv_floor in 0_u64..3000,
            floor in 0_u64..4000, seqs in 1_u32..5, context in 1_u32..50, limit in 1_u64..60, most in 1_u32..120,
        ) {
            let most = Some(most).filter(|_| share > 0);
            let law = DecodeCost {
                base: Picos(base),
                per_kv_token: Picos(per_kv),
                per_token_beyond: Picos(per_kv * share / 4),
                per_longest_token: Picos(per_longest),
                kv_floor: Picos(kv_floor),
                floor: Picos(floor),
            };
            let loaded = |step: u64| {
                let longer = context + u32::try_from(step).unwrap();
                let mut load = StepLoad::default();
                (0..seqs).for_each(|_| load.add_within(longer - 1, 1, most));
                load
            };
            let at = |step: u64| law.of(&loaded(step));
            // As the pack cuts it: no crossing among the steps.
            let crossing = most.and_then(|most| most.checked_sub(context)).filter(|&steps| steps > 0);
            let limit = crossing.map_or(limit, |steps| limit.min(steps.into()));
            let (growth, steps) = run_law(&law, &loaded(0), 0, limit);
            for step in 0..=steps.min(limit - 1) {
                prop_assert_eq!(at(0) + growth * step, at(step), "step {} of {}", step, steps);
            }
        }

        #[test]
        fn the_root_is_the_last_step_that_fits(
            span in 0u64..10_000, first in 0u64..300, step in 0u64..40, limit in 0u64..200,
        ) {
            let naive = (0..=limit)
                .take_while(|&n| n == 0 || progression(Picos(first), Picos(step), n).0 < span)
                .last()
                .expect("zero steps always fit");
            let expected = if span == 0 { 0 } else { naive };
            prop_assert_eq!(steps_before(Picos(span), Picos(first), Picos(step), limit), expected);
        }
    }
}
