//! The engine loop: drain inputs, schedule, run, process (vLLM 0.33 `EngineCore.step` and
//! `step_with_batch_queue`).
//!
//! The host takes no time, so there is no 1 ms sleep (V1-9). Ties follow EV-6: what completes at an instant
//! comes before what arrives at it, and an abort counts as an arrival.

use std::collections::VecDeque;

use super::scheduler::{Decision, Index, Scheduler, Share};
use super::sequence::{Sequence, Status};
use super::{Scheduled, TwinConfig, TwinOutcome, TwinRequest, TwinRun, TwinStep};

/// So many preemptions without a token in between are of sequences that preempt each other until somebody comes or goes.
const FRUITLESS_PREEMPTIONS: usize = 5000;

/// A step in flight.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) shares: Vec<Share>,
    pub(super) end_ps: u64,
    /// In a pipeline: which call of `schedule()` it is of, and whether the first stage needs a token of it.
    pub(super) turn: usize,
    pub(super) is_awaited: bool,
}

/// One engine and everything it will ever be sent.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) scheduler: Scheduler,
    /// Requests not drained yet, by arrival, then id (EV-6).
    arrivals: VecDeque<Index>,
    /// Requests to abort, by time, then id.
    aborts: Vec<Index>,
    /// Steps in flight, oldest first.
    in_flight: VecDeque<Launched>,
    pub(super) now_ps: u64,
    /// End of the last launched step: steps run one after the other.
    gpu_free_ps: u64,
    steps: Vec<TwinStep>,
}

impl Engine {
    /// Makes an idle engine at time 0.
    pub(super) fn new(config: &TwinConfig, requests: &[TwinRequest]) -> Self {
        assert!(config.queue_depth >= 1, "a step must be in flight to be run");
        let usable = config.num_gpu_blocks - 1;
        for request in requests {
            let prompt: u32 = request.prompt.iter().map(|&(_, _, len)| len).sum();
            assert!(
                prompt > 0 && prompt < config.max_model_len,
                "request {} has no room",
                request.id
            );
            // EV-5: the last output never has KV. A request above the pool would block or thrash for ever.
            let longest = (prompt + request.output_tokens - 1).min(config.max_model_len - 1);
            let needed = longest.div_ceil(config.block_size) as usize;
            assert!(
                needed <= usable,
                "request {} needs {needed} of {usable} blocks",
                request.id
            );
        }
        let mut arrivals: Vec<Index> = (0..requests.len()).collect();
        arrivals.sort_by_key(|&index| (requests[index].arrival_ps, requests[index].id));
        let mut aborts: Vec<Index> = (0..requests.len())
            .filter(|&index| requests[index].abort_at.is_some())
            .collect();
        aborts.sort_by_key(|&index| (requests[index].abort_at, requests[index].id));
        Self {
            scheduler: Scheduler::new(config, requests),
            arrivals: arrivals.into(),
            aborts,
            in_flight: VecDeque::new(),
            now_ps: 0,
            gpu_free_ps: 0,
            steps: Vec::new(),
        }
    }

    /// Runs until every request has ended.
    ///
    /// With depth 1 this is the synchronous loop (V1-4), with more the batch queue (V1-5).
    pub(super) fn run(mut self, cost: &mut dyn FnMut(&[Scheduled]) -> u64) -> TwinRun {
        let is_stuck = match self.scheduler.config.stages.clone() {
            Some(stages) => self.serve_over_stages(&stages),
            None => self.serve(cost),
        };
        if !is_stuck {
            self.scheduler.schedule(u64::MAX); // Loads for those who gave up end some time.
            assert_eq!(
                self.scheduler.pool.free_blocks(),
                self.scheduler.config.num_gpu_blocks - 1,
                "all blocks came back"
            );
        }
        let outcomes = self.scheduler.sequences.iter().map(outcome).collect();
        let moved = self.scheduler.lmcache.as_ref().map(|lmcache| lmcache.moved());
        TwinRun {
            steps: self.steps,
            moved: moved.unwrap_or_default(),
            outcomes,
            is_stuck,
        }
    }

    /// Serves all requests on one stage; whether it got stuck.
    fn serve(&mut self, cost: &mut dyn FnMut(&[Scheduled]) -> u64) -> bool {
        let mut fruitless = 0;
        loop {
            self.drain_inputs();
            if self.scheduler.has_requests() {
                let decision = self.scheduler.schedule(self.now_ps);
                fruitless += decision.preempted.len();
                if decision.shares.iter().any(|share| share.samples) {
                    fruitless = 0;
                } else if self.is_livelocked(fruitless) {
                    return true;
                }
                if !decision.shares.is_empty() {
                    self.launch(decision, cost);
                    if self.in_flight.len() < self.scheduler.config.queue_depth {
                        continue;
                    }
                } else if !decision.preempted.is_empty() && self.in_flight.is_empty() {
                    continue; // A step that only preempts takes no time: try again with what it freed.
                }
            }
            if let Some(launched) = self.in_flight.pop_front() {
                self.finish(&launched);
            } else if let Some(next_ps) = self.next_input_ps() {
                self.now_ps = next_ps;
            } else {
                let is_stuck = self.scheduler.has_requests();
                assert!(
                    !is_stuck || self.scheduler.count_loading() > 0,
                    "the head of `waiting` can never be admitted"
                );
                return is_stuck;
            }
        }
    }

    /// So many preemptions without a token are of sequences that will do so for ever.
    pub(super) fn is_livelocked(&self, fruitless: usize) -> bool {
        fruitless > FRUITLESS_PREEMPTIONS && self.is_left_alone()
    }

    /// Takes in everything that has arrived by now (EV-2, EV-6).
    pub(super) fn drain_inputs(&mut self) {
        while let Some(&index) = self.arrivals.front() {
            if self.scheduler.sequences[index].request.arrival_ps > self.now_ps {
                break;
            }
            self.arrivals.pop_front();
            self.scheduler.add(index);
        }
        self.apply_aborts(self.now_ps + 1);
    }

    /// Aborts what was given up before `until_ps`; again and again, which changes nothing.
    fn apply_aborts(&mut self, until_ps: u64) {
        for &index in &self.aborts {
            let abort_at = self.scheduler.sequences[index].request.abort_at;
            if abort_at.is_some_and(|abort_ps| abort_ps < until_ps) {
                self.scheduler.abort(index);
            }
        }
    }

    /// What a decision gives to whom.
    pub(super) fn scheduled(&self, decision: &Decision) -> Vec<Scheduled> {
        let id = |index: Index| self.scheduler.sequences[index].request.id;
        let shares = decision.shares.iter();
        shares
            .map(|share| (id(share.sequence), share.computed, share.n))
            .collect()
    }

    /// Launches a step; it runs when the one before it has ended (V1-5).
    fn launch(&mut self, decision: Decision, cost: &mut dyn FnMut(&[Scheduled]) -> u64) {
        let gpu_start_ps = self.now_ps.max(self.gpu_free_ps);
        let mut duration_ps = cost(&self.scheduled(&decision));
        if let Some(lmcache) = &mut self.scheduler.lmcache {
            // The connector is told of running sequences only.
            let mut told = decision.shares.clone();
            told.retain(|share| !share.is_orphan);
            duration_ps = lmcache.step(gpu_start_ps, duration_ps, &told, &self.scheduler.sequences);
        }
        self.gpu_free_ps = gpu_start_ps + duration_ps;
        let launched = self.launch_at(decision, gpu_start_ps, self.gpu_free_ps);
        self.in_flight.push_back(launched);
    }

    /// Writes down a step that runs from then to then.
    pub(super) fn launch_at(&mut self, decision: Decision, gpu_start_ps: u64, end_ps: u64) -> Launched {
        let id = |index: Index| self.scheduler.sequences[index].request.id;
        self.steps.push(TwinStep {
            scheduled_at_ps: self.now_ps,
            gpu_start_ps,
            duration_ps: end_ps - gpu_start_ps,
            scheduled: self.scheduled(&decision),
            drafts: decision.shares.iter().map(|share| share.drafts).collect(),
            preempted: decision.preempted.iter().map(|&index| id(index)).collect(),
            free_blocks: self.scheduler.pool.free_blocks(),
            running: self.scheduler.running.len(),
            waiting: self.scheduler.waiting.len() + self.scheduler.count_loading(),
        });
        let is_awaited = |share: &Share| share.samples && share.is_awaited;
        Launched {
            end_ps,
            turn: self.scheduler.turn,
            is_awaited: decision.shares.iter().any(is_awaited),
            shares: decision.shares,
        }
    }

    /// Waits for the oldest step and processes it, aborts first (V1-10).
    fn finish(&mut self, launched: &Launched) {
        let later: Vec<Vec<Share>> = self.in_flight.iter().map(|later| later.shares.clone()).collect();
        let later: Vec<&[Share]> = later.iter().map(Vec::as_slice).collect();
        self.finish_before(launched, &later);
    }

    /// The same where these are in flight behind it.
    pub(super) fn finish_before(&mut self, launched: &Launched, later: &[&[Share]]) {
        self.now_ps = self.now_ps.max(launched.end_ps);
        self.apply_aborts(self.now_ps);
        self.scheduler
            .update_from_output(&launched.shares, later, self.now_ps);
        if !self.scheduler.is_async() {
            self.scheduler.propose(&launched.shares);
        }
    }

    /// Nobody will come any more, and nobody give up.
    fn is_left_alone(&self) -> bool {
        let gives_up = |&index: &Index| {
            let abort_at = self.scheduler.sequences[index].request.abort_at;
            abort_at.is_some_and(|abort_ps| abort_ps > self.now_ps)
        };
        self.arrivals.is_empty() && !self.aborts.iter().any(gives_up)
    }

    /// The next instant at which an arrival or an abort can change anything.
    pub(super) fn next_input_ps(&self) -> Option<u64> {
        let arrival = self
            .arrivals
            .front()
            .map(|&index| self.scheduler.sequences[index].request.arrival_ps);
        let loading = self.scheduler.loading.iter();
        let waiting = self
            .scheduler
            .waiting
            .iter()
            .chain(loading.clone().map(|(_, index)| index));
        let aborts = waiting.filter_map(|&index| self.scheduler.sequences[index].request.abort_at);
        let loads = loading.map(|&(there_ps, _)| there_ps);
        let ahead = aborts.chain(loads).filter(|&at_ps| at_ps > self.now_ps);
        ahead.chain(arrival).min()
    }
}

/// Reads off what became of a sequence.
fn outcome(sequence: &Sequence) -> TwinOutcome {
    TwinOutcome {
        id: sequence.request.id,
        cached_tokens: sequence.cached_tokens,
        token_times_ps: sequence.token_times_ps.clone(),
        preemptions: sequence.preemptions,
        is_aborted: sequence.status == Status::Aborted,
    }
}
