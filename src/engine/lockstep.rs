//! A replica as one of several ranks that step together (data-parallel attention of a model with experts, V1-85).
//!
//! The rank decides by itself what it computes; how long a step takes is decided by all ranks, so whoever drives them
//! ([`crate::cluster`]) launches one step on each, asks each for the law of its own share, and sets the common duration
//! before anything else happens. A rank without work is given a *dummy* step, in which nobody computes anything.
//!
//! Left out: the millisecond that the loop sleeps after a pass that scheduled nothing although requests wait (V1-9), and
//! KV from outside. A kept log is of steps, so with one nothing is leapt over.

use super::leap::Run;
use super::rank::Padding;
use super::replica::Replica;
use super::step::Step;
use crate::cost::{DecodeCost, StepLoad};
use crate::facts::{Completion, Observer};
use crate::units::Picos;

/// What a rank does while a run of alike steps goes on.
pub(crate) enum RankRun {
    /// Nothing: its steps are dummies.
    Idle,
    /// Its pack decodes.
    Plain {
        /// Steps that may end before its batch or its blocks change.
        limit: u64,
        /// Sequences.
        members: u32,
        /// Of the oldest step in flight: tokens attended to.
        kv_tokens: u64,
        /// Of the oldest step in flight: the longest context.
        longest: u32,
        /// Of the oldest step in flight: what sparse attention leaves unread, and by how much more in each further step.
        beyond: (u64, u32),
    },
}

impl Replica {
    /// One pass of the loop at `now`: a step is put on the GPU, a dummy if there is nothing to compute.
    pub(crate) fn launch<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        self.next_pass = None;
        self.drain(now);
        let step = match self.knows_requests() {
            true => self.schedule(now, observer),
            false => None,
        };
        let step = step.unwrap_or_else(|| self.dummy(now));
        self.in_flight.push_back(step);
    }

    fn dummy(&mut self, now: Picos) -> Box<Step> {
        let mut step = self.spare_steps.pop().unwrap_or_default();
        self.open(&mut step, now);
        step.load.clear();
        (step.packed, step.discarded) = (0, 0);
        step.mark(false);
        step.begin = now.max(self.gpu_free);
        self.scheduled_steps = step.number;
        self.pass_over(1);
        step
    }

    /// What the newest step computes; a dummy's is empty.
    pub(crate) fn newest_load(&self) -> &StepLoad {
        let step = self.in_flight.back();
        &step.expect("asked only after a launch").load
    }

    /// The rank's own share of the newest step as a law of its contexts. A dummy has one decode.
    pub(crate) fn newest_law(&mut self, padding: Padding) -> DecodeCost {
        let step = self.in_flight.back().expect("asked only after a launch");
        let load = &step.load;
        match padding {
            _ if is_of_decodes(load) => {
                let batch = load.decode_seqs.max(1);
                self.plain_law(batch, padding)
            }
            Padding::Launched { .. } => self.cost.eager_law(load),
            _ => self.cost.step_law(load),
        }
    }

    /// The captured batch that a step of so many decodes replays, if it replays a CUDA graph.
    pub(crate) fn replayed(&self, batch: u32) -> Option<u32> {
        self.cost.replayed(batch)
    }

    /// The rank's own share of plain steps of so many sequences.
    pub(crate) fn plain_law(&mut self, batch: u32, padding: Padding) -> DecodeCost {
        let computed = match padding {
            Padding::Alone => return *self.cost.decode(batch),
            Padding::Decodes(padded) => return *self.cost.decode(padded),
            Padding::Launched { rounded: false } => batch,
            Padding::Launched { rounded: true } => self.cost.replayed(batch).unwrap_or(batch),
            Padding::Pieces(_) => unreachable!("these ranks capture no pieces"),
        };
        self.cost.eager_law(&StepLoad {
            decode_seqs: computed,
            sampled_rows: computed,
            ..StepLoad::default()
        })
    }

    /// All ranks together need so long for the newest step.
    pub(crate) fn retime_newest(&mut self, duration: Picos) {
        let step = self.in_flight.back_mut().expect("asked only after a launch");
        step.duration = duration;
        let (begin, is_dummy) = (step.begin, step.load.tokens() == 0);
        self.gpu_free = step.end();
        if let Some(record) = self.log.as_mut().and_then(|log| log.last_mut())
            && !is_dummy
        {
            (record.begin, record.duration) = (begin, duration);
        }
    }

    /// All ranks together take the steps in flight at these times, (begin, duration) each.
    pub(crate) fn retime(&mut self, times: &[(Picos, Picos)]) {
        for (step, &(begin, duration)) in self.in_flight.iter_mut().zip(times) {
            (step.begin, step.duration) = (begin, duration);
            self.gpu_free = step.end();
        }
    }

    /// The oldest step ends.
    pub(crate) fn end_in_step<O: Observer>(&mut self, observer: &mut O, ended: &mut Vec<Completion>) {
        let front = self.in_flight.front().expect("all ranks have a step in flight");
        if front.load.tokens() > 0 {
            let step = self.take_oldest(observer);
            self.process(step, observer, ended);
            return;
        }
        let mut step = self.in_flight.pop_front().expect("it was just looked at");
        self.processed_steps = step.number;
        self.last_end = step.end();
        step.clear();
        self.spare_steps.push(step);
    }

    /// The scheduler has somebody, running or waiting.
    #[inline]
    pub(crate) fn knows_requests(&self) -> bool {
        self.sequences.running > 0 || self.has_business()
    }

    /// When the next request reaches the loop.
    #[inline]
    pub(crate) fn next_request(&self) -> Option<Picos> {
        self.next_input()
    }

    /// When the oldest step in flight begins and how long it lasts.
    #[inline]
    pub(crate) fn oldest_step(&self) -> Option<(Picos, Picos)> {
        self.in_flight.front().map(|step| (step.begin, step.duration))
    }

    /// What it goes on with if nothing but a run of alike steps lies before it.
    pub(crate) fn run_in_step(&mut self, horizon: Picos) -> Option<RankRun> {
        let is_dummy = |step: &Step| step.load.tokens() == 0;
        if !self.knows_requests() && self.in_flight.iter().all(is_dummy) {
            return Some(RankRun::Idle);
        }
        if self.log.is_some() || !self.goes_on_plainly(horizon) || !self.is_settled() {
            return None;
        }
        let front = self.in_flight.front()?;
        let limit = self.pack.steps_to_ending();
        Some(RankRun::Plain {
            limit: self.pack.steps_that_fit(self.pool.free(), limit),
            members: self.pack.members,
            kv_tokens: front.load.decode_kv_tokens,
            longest: front.load.decode_longest,
            beyond: (front.load.decode_beyond, front.load.seqs_beyond),
        })
    }

    /// Leaps over `steps` steps of a run, the last of which ends at `end` and each of which lasts `increment` longer than
    /// the one before; the steps then in flight are to be [retimed](Replica::retime).
    pub(crate) fn leap_in_step<O: Observer>(
        &mut self,
        steps: u64,
        increment: Picos,
        end: Picos,
        observer: &mut O,
    ) {
        if self.knows_requests() {
            let run: Run = self.run_ahead();
            self.report_run(observer, (steps, run.owed), increment, end);
            self.jump(steps, end, &run);
            return;
        }
        for step in self.in_flight.iter_mut() {
            step.number += steps;
        }
        self.scheduled_steps += steps;
        self.processed_steps += steps;
        self.pass_over(steps);
        self.last_end = end;
    }

    /// Dummies are no steps of the scheduler's, which counts from the last one with prefill (V1-16).
    fn pass_over(&mut self, dummies: u64) {
        if self.last_prefill_step > 0 {
            self.last_prefill_step += dummies;
        }
    }
}

/// Everybody decodes, and samples.
pub(crate) fn is_of_decodes(load: &StepLoad) -> bool {
    load.chunks.is_empty() && load.sampled_rows == load.decode_seqs
}
