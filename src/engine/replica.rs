//! One engine instance: its loop, synchronous or with a queue of scheduled steps, and the leap over identical steps.
//!
//! Life of a replica:
//! 1. [`Replica::offer`] takes a request in; the engine sees it when a pass of its loop drains its inputs (EV-2).
//! 2. A *pass* drains, schedules and launches until the queue of steps is full (V1-4, V1-5).
//! 3. At the *end of the oldest step* its output is processed; then comes the next pass at the same instant.
//!
//! A batch is closed when its step is scheduled. Between events a run of decode-only steps of one membership is an
//! arithmetic progression and is taken in one leap ([`Replica::leap`]).

use std::collections::VecDeque;
use std::hint::cold_path;

use super::external::External;
use super::pack::Pack;
use super::pipeline::Stages;
use super::priced::Priced;
use super::sequence::Sequences;
use super::speculation::Acceptance;
use super::step::{InFlight, ScheduleRecord, Step};
use super::telling::Telling;
use super::trtllm::Capacity;
use super::waiting::Waiting;
use super::{EngineConfig, Handle, Refusal};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::facts::{Completion, Observer};
use crate::ids::ReplicaId;
use crate::kv::{BlockPool, Journal, Match, ReusePool};
use crate::units::Picos;
use crate::workload::Request;

/// A whole pool of one-token sequences preempts fewer times than this before one of them gets a token.
const FRUITLESS_PREEMPTIONS_MAX: u32 = 1 << 20;

/// One engine.
pub(crate) struct Replica {
    pub(super) id: ReplicaId,
    pub(super) config: EngineConfig,
    pub(super) cost: Priced,
    pub(super) pool: BlockPool,
    pub(super) sequences: Sequences,
    pub(super) waiting: Waiting,
    pub(super) pack: Pack,
    /// Running sequences that are visited one by one, in order of admission.
    pub(super) singles: Vec<usize>,
    /// Requests that the loop has not drained yet, by time of arrival at the engine.
    pub(super) inbox: VecDeque<(Picos, Handle)>,
    pub(super) in_flight: InFlight,
    #[expect(clippy::vec_box, reason = "a step moves between the queues as a pointer")]
    pub(super) spare_steps: Vec<Box<Step>>,
    pub(super) scheduled_steps: u64,
    pub(super) processed_steps: u64,
    /// End of the last processed step.
    pub(super) last_end: Picos,
    /// When the GPU is done with everything scheduled.
    pub(super) gpu_free: Picos,
    pub(super) next_pass: Option<Picos>,
    /// The loop sleeps until then (V1-9).
    pub(super) awake: Picos,
    /// The last pass scheduled nothing although requests remained (V1-9).
    pub(super) idle_pass: bool,
    /// Members of the pack that have their last token in flight and are scheduled all the same.
    pub(super) overrunning: u32,
    /// Counts changes of the pack's membership.
    pub(super) membership: u64,
    /// Nobody waits, or the head cannot be admitted before something is freed.
    pub(super) admission_closed: bool,
    /// Free blocks with which the head of the queue is admitted, where it lacked them; windows that pass may bring them.
    pub(super) admission_needs: u32,
    /// Preemptions since a step last sampled a token.
    pub(super) fruitless_preemptions: u32,
    /// Requests preempted by the last call of `schedule`.
    pub(super) preempted: Vec<crate::ids::RequestId>,
    /// V1-16: the last step that carried prefill, and whether it left somebody waiting.
    pub(super) last_prefill_step: u64,
    pub(super) queue_undrained: bool,
    /// Every sequence is visited in every step and registers its blocks at once: generated tokens may be shared.
    pub(super) stepwise: bool,
    /// How many drafts stand, where there are any.
    pub(super) acceptance: Option<Acceptance>,
    /// How steps scatter; without it steps of one batch are leapt over.
    pub(super) jitter: Option<Jitter>,
    /// Where KV comes from besides computing it, and the sequences that wait for it.
    pub(super) external: Option<Box<External>>,
    pub(super) telling: Telling,
    pub(super) log: Option<Vec<ScheduleRecord>>,
    pub(super) picks: Vec<(usize, u32)>,
    /// Whom the step that is composed passes over in the waiting queue.
    pub(super) set_aside: Vec<Handle>,
    /// Tokens of a context that sparse attention reads at most.
    pub(super) reads_at_most: Option<u32>,
    /// Of TensorRT-LLM: who may run.
    pub(super) capacity: Option<Box<Capacity>>,
    /// Where layers are spread over several stages.
    pub(super) stages: Option<Box<Stages>>,
}

impl Replica {
    /// An empty engine. `stepwise` gives up leaping so that equal generated tokens are shared exactly as in the
    /// engine; it changes nothing where outputs are unique.
    pub(crate) fn new(
        id: ReplicaId,
        config: EngineConfig,
        mut cost: Box<dyn StepCost>,
        stepwise: bool,
    ) -> Replica {
        let tracks_longest = cost.decode(1).per_longest_token > Picos::ZERO;
        let reads_at_most = cost.reads_at_most();
        let stages = Stages::of(&config, cost.stages());
        Replica {
            id,
            pool: config.empty_pool(),
            sequences: Sequences::default(),
            waiting: Waiting::new(config.policy),
            pack: Pack::new(config.block_size, tracks_longest)
                .of_groups(&config.kv_groups, config.unsettled_steps())
                .reading(reads_at_most),
            reads_at_most,
            singles: Vec::new(),
            inbox: VecDeque::new(),
            in_flight: InFlight::default(),
            spare_steps: Vec::new(),
            scheduled_steps: 0,
            processed_steps: 0,
            last_end: Picos::ZERO,
            gpu_free: Picos::ZERO,
            next_pass: None,
            awake: Picos::ZERO,
            idle_pass: false,
            overrunning: 0,
            membership: 0,
            admission_closed: true,
            admission_needs: u32::MAX,
            fruitless_preemptions: 0,
            preempted: Vec::new(),
            last_prefill_step: 0,
            queue_undrained: false,
            stepwise: stepwise || stages.is_some(),
            acceptance: None,
            jitter: None,
            external: None,
            telling: Telling::new(id),
            log: None,
            picks: Vec::new(),
            set_aside: Vec::new(),
            capacity: None,
            stages,
            config,
            cost: Priced::new(cost),
        }
    }

    /// Lets steps scatter around their cost; they are then taken one by one.
    pub(crate) fn disturb(&mut self, jitter: Jitter) {
        self.jitter = Some(jitter);
    }

    /// Keeps a record of every step.
    pub(crate) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The records kept so far.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        self.log.take().unwrap_or_default()
    }

    /// Steps in flight, at most.
    pub(crate) fn queue_depth(&self) -> usize {
        self.config.queue_depth as usize
    }

    /// Tokens of a KV block.
    pub(crate) fn block_size(&self) -> u32 {
        self.config.block_size
    }

    /// Usable KV blocks.
    pub(crate) fn total_blocks(&self) -> u32 {
        self.pool.total()
    }

    /// Tokens whose cached KV was evicted since it came up.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.pool.evicted_tokens()
    }

    /// Requests inside, drained or not.
    pub(crate) fn inside(&self) -> usize {
        self.sequences.len()
    }

    /// Takes in a request that reaches the engine at `now`; one that finds the loop blocked on its inputs wakes it.
    pub(crate) fn offer(&mut self, now: Picos, request: &mut Request) -> Result<Handle, Refusal> {
        if let Some(refusal) = self.refusal(request) {
            cold_path();
            return Err(refusal);
        }
        if let Some(capacity) = &mut self.capacity {
            cold_path();
            capacity.note_prompt(request.prompt_tokens);
        }
        let identified = self.pool.caches() || self.external.is_some();
        let handle = self
            .sequences
            .insert(request, self.config.max_model_len, identified);
        self.identify_ahead(handle.slot);
        self.sequences[handle.slot].story.enter(now);
        self.inbox.push_back((now, handle));
        if self.spins() {
            cold_path();
            self.pass_from(now);
        } else if self.in_flight.is_empty() {
            let pass = self.next_pass.unwrap_or(now.max(self.awake));
            self.next_pass = Some(pass);
        }
        Ok(handle)
    }

    /// Why a request cannot be taken in, if so.
    #[inline(always)]
    pub(crate) fn refusal(&self, request: &Request) -> Option<Refusal> {
        if self
            .config
            .max_num_queued_reqs
            .is_some_and(|limit| self.sequences.len() >= limit as usize)
        {
            return Some(Refusal::QueueFull);
        }
        if request.prompt_tokens >= self.config.max_model_len {
            return Some(Refusal::PromptTooLong);
        }
        if !self.config.enable_chunked_prefill && request.prompt_tokens > self.config.max_num_batched_tokens {
            return Some(Refusal::PromptAboveBudget);
        }
        let longest = (u64::from(request.prompt_tokens) + u64::from(request.output_tokens))
            .min(self.config.max_model_len.into());
        let longest = u32::try_from(longest - 1).expect("at most max_model_len");
        let longest = self.furthest_reach(longest);
        let blocks = match &self.capacity {
            Some(capacity) if capacity.promises() => {
                self.whole_sequence(request.prompt_tokens, request.max_tokens)
            }
            _ => self.pool.reserved_behind(Match::MISS, longest),
        };
        (blocks > self.pool.total()).then_some(Refusal::NeverFits)
    }

    /// When something happens next here without anything from outside.
    pub(crate) fn next(&self) -> Option<Picos> {
        match (self.next_pass, self.in_flight.front()) {
            (Some(pass), _) => Some(pass),
            (None, Some(step)) => Some(step.end()),
            (None, None) => None,
        }
    }

    /// What happens next is a pass of the loop.
    pub(super) fn is_about_to_pass(&self) -> bool {
        self.next_pass.is_some()
    }

    /// Starts again empty at `now`, after everybody inside has left.
    pub(super) fn restart(&mut self, now: Picos) {
        let event_latency = self.pool.journal().map(Journal::latency);
        let reuse = self.pool.reuse().map(ReusePool::is_partial);
        let pool = self.config.empty_pool();
        self.pool = match reuse {
            Some(partial) => pool.reusing(partial),
            None => pool,
        };
        if let Some(latency) = event_latency {
            self.pool.delay_events(latency);
        }
        if let Some(external) = &mut self.external {
            external.restart(now);
        }
        if let Some(capacity) = &mut self.capacity {
            capacity.forget();
        }
        self.inbox.clear();
        self.in_flight = InFlight::default();
        if let Some(stages) = &mut self.stages {
            stages.restart(now);
        }
        (self.next_pass, self.awake, self.idle_pass) = (None, now, false);
        (self.last_end, self.gpu_free) = (now, now);
        self.processed_steps = self.scheduled_steps;
        (self.last_prefill_step, self.queue_undrained) = (0, false);
        (self.overrunning, self.fruitless_preemptions) = (0, 0);
        self.admission_closed = true;
    }

    /// Goes on to the next event from outside at `horizon`, or until a request has left. Steps that end at the horizon
    /// are processed before it, a pass of the loop at that instant comes after it (EV-6). Returns the last instant at
    /// which something happened.
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let mut now = Picos::ZERO;
        loop {
            if let Some(pass) = self.next_pass {
                if pass >= horizon || self.is_livelocked() {
                    return now;
                }
                now = pass;
                if self.pass_and_leap(horizon, observer) > 0 {
                    continue;
                }
                self.pass(pass, observer);
                if self.is_to_be_heard() {
                    return now;
                }
                if self.next_pass.is_some() && self.stages.is_some() {
                    continue;
                }
            }
            let Some(step) = self.in_flight.front() else {
                if self.next_pass.is_some() {
                    continue;
                }
                return now;
            };
            if step.end() > horizon {
                return now;
            }
            let is_plain = self.goes_on_plainly(horizon);
            if is_plain && self.is_settled() && self.leap(horizon, observer) > 0 {
                continue;
            }
            let step = self.take_oldest(observer);
            now = self.last_end;
            if is_plain {
                self.turn_over(step);
            } else {
                self.end_step(step, observer, ended);
                if !ended.is_empty() {
                    return now;
                }
            }
        }
    }

    /// Sequences preempt each other without any of them ever getting a token: of exact ties under the priority policy
    /// the first is evicted (V1-22), so equals can take turns for ever, in the engine as here.
    pub(crate) fn is_livelocked(&self) -> bool {
        self.fruitless_preemptions > FRUITLESS_PREEMPTIONS_MAX
    }

    /// The pass of the loop that is due at `now`, the horizon of [`Replica::run`], if one is.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        if self.next_pass == Some(now) {
            self.pass(now, observer);
            // Whoever takes a replica through one pass hears it then.
            self.is_to_be_heard();
        }
    }

    /// The oldest step has ended.
    #[inline(always)]
    fn end_step<O: Observer>(&mut self, step: Box<Step>, observer: &mut O, ended: &mut Vec<Completion>) {
        self.process(step, observer, ended);
        self.awake = self.last_end;
        if self.idle_pass {
            self.awake += self.config.idle_pass_sleep;
            self.idle_pass = false;
        }
        if self.sequences.len() > 0 || !self.in_flight.is_empty() || self.has_business() {
            self.next_pass = Some(self.awake);
        }
        if let Some(stages) = &mut self.stages {
            cold_path();
            stages.leave(self.next_pass.is_some());
        }
    }

    /// One pass of the loop at `now` (V1-4 for depth 1, V1-5 above).
    fn pass<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        self.next_pass = None;
        if self.stages.is_some() {
            cold_path();
            return self.pass_over_stages(now, observer);
        }
        loop {
            self.drain(now);
            if self.sequences.running == 0 && !self.has_business() {
                break;
            }
            match self.schedule(now, observer) {
                Some(step) => {
                    self.in_flight.push_back(step);
                    if self.in_flight.len() >= self.config.queue_depth as usize {
                        break;
                    }
                }
                // Preempting changed the state, and nothing is in flight to wait for: try again, after the nap that follows
                // every pass without tokens (V1-9).
                None if self.in_flight.is_empty() && !self.preempted.is_empty() => {
                    cold_path();
                    if self.config.idle_pass_sleep > Picos::ZERO {
                        self.awake = now + self.config.idle_pass_sleep;
                        self.next_pass = Some(self.awake);
                        return;
                    }
                }
                None => {
                    assert!(
                        !self.in_flight.is_empty() || self.external.is_some(),
                        "an engine with requests always has something to run"
                    );
                    self.idle_pass = !self.in_flight.is_empty();
                    break;
                }
            }
        }
        if self.spins() {
            cold_path();
            self.spin(now);
        } else if self.in_flight.is_empty()
            && let Some(&(arrival, _)) = self.inbox.front()
        {
            self.next_pass = Some(arrival.max(now));
        }
    }

    /// Moves what has arrived into the waiting queue.
    #[inline(always)]
    pub(super) fn drain(&mut self, now: Picos) {
        while let Some(&(arrival, handle)) = self.inbox.front()
            && arrival <= now
        {
            self.inbox.pop_front();
            if let Some(sequence) = self.sequences.get(handle) {
                self.waiting.push(handle, &sequence.request);
            }
        }
    }

    /// Whether the oldest step is plain and ends before `horizon`, and the one to be scheduled at its end is plain too:
    /// the pack decodes, nobody waits that could be admitted.
    #[inline(always)]
    pub(super) fn goes_on_plainly(&self, horizon: Picos) -> bool {
        self.pack_is_alone(horizon)
            && self.admission_closed
            && !self.windows_may_admit()
            && self.in_flight.len() == self.config.queue_depth as usize
    }

    /// Whether the oldest step is plain and ends before `horizon`, and of those who run nobody but the pack computes in the next.
    #[inline(always)]
    pub(super) fn pack_is_alone(&self, horizon: Picos) -> bool {
        self.in_flight
            .front()
            .is_some_and(|front| front.is_plain && front.end() < self.horizon_inside(horizon))
            && self.singles.is_empty()
            && !self.within_prefill_interval()
            && self.pack_can_go_on()
    }

    /// Windows may pass enough blocks for the head of the queue while the pack goes on.
    #[inline]
    fn windows_may_admit(&self) -> bool {
        if self.config.kv_groups.keeps_all() {
            return false;
        }
        cold_path();
        !self.nobody_waits() && self.admission_needs <= self.pool.free() + self.pack.blocks_passed_a_cycle()
    }

    /// The horizon, or before it the time at which the next request reaches the engine, or KV from outside does.
    #[inline]
    pub(super) fn horizon_inside(&self, horizon: Picos) -> Picos {
        let horizon = self.next_input().map_or(horizon, |at| horizon.min(at));
        match &self.external {
            None => horizon,
            Some(external) => {
                cold_path();
                external.next_due().map_or(horizon, |at| horizon.min(at))
            }
        }
    }

    /// When the next request reaches the engine.
    #[inline]
    pub(super) fn next_input(&self) -> Option<Picos> {
        self.inbox.front().map(|&(arrival, _)| arrival)
    }

    /// A plain step is scheduled as the oldest one ends, whatever is in flight between the two.
    #[inline(always)]
    fn turn_over(&mut self, mut step: Box<Step>) {
        self.open(&mut step, self.last_end);
        self.close_with_pack(&mut step);
        self.in_flight.push_back(step);
    }
}
