//! A replica whose layers are spread over the stages of a pipeline (`--pipeline-parallel-size`; V1-84, PP-2).
//!
//! The loop is vLLM's `EngineCore.step_with_batch_queue`: as many steps are in flight as there are stages, one more with
//! asynchronous scheduling (0.33's `VllmConfig.max_concurrent_batches`). A pass of it that schedules nothing is a batch, too, and
//! has a place in the queue until those before it have ended. 0.33 fills the queue with such passes, and naps after each (V1-9),
//! before it waits for the oldest; 0.11 waits after one, and takes an output that is there before it schedules again.
//!
//! An output is taken when the loop comes to it: while it naps, a step may have ended.
//!
//! Who has a token in flight is scheduled again when the token has come; asynchronously as many calls of `schedule` later as there
//! are stages (`next_decode_eligible_step` of 0.33's `AsyncScheduler`, whose first stage then waits for the token itself: the
//! workers' `PPHandler` takes in what was sampled so many calls ago). A prompt's chunks follow one another without waiting.
//!
//! A stage has one step at a time: a step enters it when it has come from the stage before and the stage is free, and its tokens are
//! known when the last stage has ended. Left out: sending that waits for the receiver, the way of the sampled tokens back, KV from
//! outside, speculation, windows.
//!
//! Every sequence is visited in every step: nobody decodes in each of them, so there is no pack and no leap.

use std::collections::VecDeque;
use std::hint::cold_path;

use super::EngineConfig;
use super::replica::Replica;
use super::sequence::Phase;
use super::step::Step;
use crate::cost::StageCosts;
use crate::facts::Observer;
use crate::units::Picos;

/// What the engine keeps of a sequence in a pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Staged {
    /// Tokens sampled in steps in flight.
    pub(super) unseen: u32,
    /// Those of them for which the scheduler keeps no place: all, unless it is asynchronous.
    pub(super) hidden: u32,
    /// The first call of `schedule` that may give it a share.
    turn: u64,
    /// What was known of it when it was admitted: its prefill.
    pub(super) whole: u32,
    /// It was passed over while it waited, and has not been admitted since.
    is_deferred: bool,
}

/// The stages of a replica and the queue of what is in flight.
#[derive(Debug)]
pub(super) struct Stages {
    /// Steps and empty passes in flight at most.
    depth: usize,
    /// What is in flight, the oldest first: a step, or a pass that scheduled nothing.
    queue: VecDeque<Place>,
    /// When each stage is done with everything scheduled.
    free: Vec<Picos>,
    /// When the host has prepared everything scheduled.
    prepared: Picos,
    /// Calls of `schedule`.
    turn: u64,
    /// Calls in a row that gave nobody anything, and preempted nobody, with nothing in flight.
    fruitless: usize,
    /// Waiting sequences that were passed over.
    deferred: u32,
}

/// What has a place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Step,
    Empty,
}

impl Stages {
    /// The stages of a replica that has several.
    ///
    /// # Panics
    /// If the cost is of another number of stages.
    pub(super) fn of(config: &EngineConfig, cost: Option<&mut dyn StageCosts>) -> Option<Box<Stages>> {
        let count = cost.map_or(1, |cost| cost.count());
        assert_eq!(
            count, config.stages as usize,
            "steps are priced for as many stages as there are"
        );
        if count > 1 {
            let is_plain = config.kv_groups.keeps_all() && config.speculation.is_none();
            assert!(is_plain, "config lets neither windows nor drafts into a pipeline");
        }
        (count > 1).then(|| {
            Box::new(Stages {
                depth: config.queue_depth as usize,
                queue: VecDeque::new(),
                free: vec![Picos::ZERO; count],
                prepared: Picos::ZERO,
                turn: 0,
                fruitless: 0,
                deferred: 0,
            })
        })
    }

    /// Waiting sequences that were passed over.
    pub(super) fn deferred(&self) -> u32 {
        self.deferred
    }

    /// Starts again empty.
    pub(super) fn restart(&mut self, now: Picos) {
        self.queue.clear();
        self.free.fill(now);
        (self.prepared, self.fruitless, self.deferred) = (now, 0, 0);
    }

    /// The oldest step has ended; if there is nothing left to do, empty passes behind it have, too.
    pub(super) fn leave(&mut self, goes_on: bool) {
        let oldest = self.queue.pop_front();
        assert_eq!(oldest, Some(Place::Step), "a step that ends is the oldest");
        if !goes_on {
            self.queue.clear();
        }
    }

    /// A call of `schedule` gave somebody something, or preempted somebody; or nothing came of it.
    fn note(&mut self, is_fruitful: bool) {
        self.fruitless = if is_fruitful { 0 } else { self.fruitless + 1 };
        // Whoever may not be scheduled yet may be after as many calls as there are stages.
        assert!(
            self.fruitless <= self.free.len() + self.depth,
            "an engine with requests always has something to run"
        );
    }
}

impl Replica {
    /// A pass of the loop at `now`, to where it waits for the oldest step, or naps.
    pub(super) fn pass_over_stages<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        loop {
            self.drain(now);
            let has_requests = self.sequences.running > 0 || self.has_business();
            let mut executed = false;
            if has_requests {
                executed = self.call_schedule(now, observer);
                if self.is_livelocked() {
                    self.next_pass = Some(now);
                    return;
                }
                if self.fills_on(executed, now) {
                    if !executed && self.naps(now) {
                        return;
                    }
                    continue;
                }
            }
            let queue = &mut self.staging().queue;
            match queue.front() {
                None => break,
                Some(Place::Step) => {
                    self.idle_pass = has_requests && !executed;
                    self.in_flight.delay_front(now);
                    return;
                }
                Some(Place::Empty) => {
                    queue.pop_front();
                }
            }
            if has_requests && !executed && self.naps(now) {
                return;
            }
        }
        if let Some(arrival) = self.next_input() {
            self.next_pass = Some(arrival.max(now));
        }
    }

    /// One call of `schedule`; whether it scheduled anything.
    fn call_schedule<O: Observer>(&mut self, now: Picos, observer: &mut O) -> bool {
        self.staging().turn += 1;
        let step = self.schedule(now, observer);
        let executed = step.is_some();
        self.in_flight.extend(step);
        let is_fruitful = executed || !self.in_flight.is_empty() || !self.preempted.is_empty();
        let stages = self.staging();
        stages.queue.push_back(match executed {
            true => Place::Step,
            false => Place::Empty,
        });
        stages.note(is_fruitful);
        executed
    }

    /// Whether the loop goes on to fill its queue rather than take the oldest output.
    fn fills_on(&self, executed: bool, now: Picos) -> bool {
        let stages = self.stages.as_ref().expect("only called with stages");
        if stages.queue.len() >= stages.depth {
            return false;
        }
        let oldest_is_there = || match stages.queue.front() {
            Some(Place::Step) => self.in_flight.front().is_some_and(|step| step.end() <= now),
            Some(Place::Empty) | None => true,
        };
        self.config.switches.fills_queue_first || (executed && !oldest_is_there())
    }

    /// The pause after a pass without tokens, if there is one (V1-9).
    fn naps(&mut self, now: Picos) -> bool {
        let sleep = self.config.idle_pass_sleep;
        if sleep == Picos::ZERO {
            return false;
        }
        self.awake = now + sleep;
        self.next_pass = Some(self.awake);
        true
    }

    fn staging(&mut self) -> &mut Stages {
        self.stages.as_mut().expect("only called with stages")
    }

    /// A step is closed: it passes through the stages behind those in flight.
    pub(super) fn put_on_stages(&mut self, step: &mut Step) {
        let stages = self.stages.as_mut().expect("only called with stages");
        let cost = self
            .cost
            .stages()
            .expect("the cost was asked for its stages before");
        step.turn = stages.turn;
        let prepared = step.scheduled.max(stages.prepared) + cost.preparation(&step.load);
        stages.prepared = prepared;
        // The workers take in the tokens that were sampled as many calls ago as there are stages.
        let awaited = stages.turn.saturating_sub(stages.free.len() as u64);
        let awaited = self.in_flight.iter().find(|earlier| earlier.turn == awaited);
        let tokens = awaited
            .filter(|earlier| earlier.is_awaited)
            .map_or(Picos::ZERO, |earlier| earlier.end());
        let mut there = prepared.max(tokens);
        step.begin = there.max(stages.free[0]);
        let mut end = step.begin;
        for (at, free) in stages.free.iter_mut().enumerate() {
            if at > 0 {
                there = end + cost.transfer(at - 1, &step.load);
            }
            let mut time = cost.stage(at, &step.load);
            if let Some(jitter) = &mut self.jitter {
                time = jitter.disturb(time);
            }
            end = there.max(*free) + time;
            *free = end;
        }
        step.duration = end - step.begin;
        self.gpu_free = end;
        self.scheduled_steps = step.number;
        if self.log.is_some() {
            self.log_step(step);
        }
    }

    /// Tells of a step from where the one before it ended: steps in flight overlap, and somebody's time is told once.
    pub(super) fn report_staged<O: Observer>(&mut self, step: &Step, observer: &mut O) {
        let begin = step.begin.max(self.last_end);
        self.telling.staged(step, begin, observer);
    }

    /// The token that the sequence computes next in `step` is sampled in a step in flight.
    #[inline]
    pub(super) fn input_is_unknown(&self, slot: usize, step: &Step) -> bool {
        match self.stages {
            None => step.overlapped && self.sampled_in_newest(slot),
            Some(_) => self.config.is_asynchronous() && self.sequences[slot].staged.unseen > 0,
        }
    }

    /// The sequence sampled a token in the newest step, which is in flight if anything is.
    #[inline]
    fn sampled_in_newest(&self, slot: usize) -> bool {
        let sequence = &self.sequences[slot];
        sequence.last_step == self.scheduled_steps && sequence.last_step > 0 && sequence.sampled_last
    }

    /// Asynchronously a sequence that sampled has to let as many calls go by as there are stages.
    #[inline]
    pub(super) fn is_before_its_turn(&self, slot: usize) -> bool {
        let stages = self.stages.as_ref();
        stages.is_some_and(|stages| stages.turn < self.sequences[slot].staged.turn)
    }

    /// The share that a sequence was given samples a token.
    #[inline]
    pub(super) fn await_token(&mut self, slot: usize, step: &mut Step) {
        let Some(stages) = &self.stages else {
            return;
        };
        let is_asynchronous = self.config.is_asynchronous();
        let sequence = &mut self.sequences[slot];
        sequence.staged.unseen += 1;
        if is_asynchronous {
            sequence.staged.turn = stages.turn + stages.free.len() as u64;
        } else {
            sequence.staged.hidden += 1;
        }
        // `compute_need_sampled_mask`: nobody needs the only token behind a prompt that fills all that there may be.
        let request = &sequence.request;
        let longest = request.prompt_tokens.saturating_add(request.max_tokens);
        let before = sequence.computed - sequence.last_share;
        let whole = sequence.staged.whole;
        step.is_awaited |= before >= whole || whole + 1 < longest;
    }

    /// A token of a sequence has come.
    pub(super) fn see_token(&mut self, slot: usize) {
        let is_asynchronous = self.config.is_asynchronous();
        let sequence = &mut self.sequences[slot];
        let staged = &mut sequence.staged;
        staged.unseen -= 1;
        staged.hidden = staged.hidden.saturating_sub(1);
        if is_asynchronous && matches!(sequence.phase, Phase::Single | Phase::Final) {
            // V1-44: everything but the newest token has its KV.
            let seen = sequence.sampled - sequence.staged.unseen;
            let registered = sequence.request.prompt_tokens + seen - 1;
            self.pool.register(
                &mut sequence.held,
                &sequence.pieces,
                registered,
                sequence.computed,
            );
        }
    }

    /// A preempted sequence has steps in flight, which 0.33 lets come first (`num_stale_output_tokens`).
    #[inline]
    pub(super) fn is_stale(&self, slot: usize) -> bool {
        self.stages.is_some()
            && self.config.switches.stale_output_drains
            && self.sequences[slot].last_step > self.processed_steps
    }

    /// A waiting sequence is passed over.
    pub(super) fn defer(&mut self, slot: usize) {
        let is_new = !std::mem::replace(&mut self.sequences[slot].staged.is_deferred, true);
        self.staging().deferred += u32::from(is_new);
    }

    /// A sequence is admitted, or leaves for good.
    #[inline]
    pub(super) fn no_longer_deferred(&mut self, slot: usize) {
        if let Some(stages) = &mut self.stages {
            cold_path();
            let was = std::mem::replace(&mut self.sequences[slot].staged.is_deferred, false);
            stages.deferred -= u32::from(was);
        }
    }
}
