//! The loop: synchronous, one step deep (V0-11, V1-4).
//!
//! Life of a replica:
//! 1. [`ScheduledReplica::offer`] takes a request in; the engine sees it when a pass of its loop drains its inputs.
//! 2. A *pass* drains, asks the scheduler and launches the step, or rests until an arrival or the scheduler's wake-up.
//! 3. At the *end of the step* its output is processed; the next pass comes at the same instant.

use std::collections::VecDeque;

use super::launch::Step;
use super::leap::Plan;
use super::ledger::Ledger;
use super::{ScheduledConfig, StepPlan};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::engine::priced::Priced;
use crate::engine::scheduler::Scheduler;
use crate::engine::{Handle, Refusal, ScheduleRecord};
use crate::facts::{Completion, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// A scheduler that decides nothing, so often in a row that it hangs.
const FRUITLESS_DECISIONS_MAX: u32 = 1 << 10;

/// Preemptions since anybody had a token, above which sequences are held to push each other out for ever.
const FRUITLESS_PREEMPTIONS_MAX: u32 = 1 << 14;

/// One engine.
pub(crate) struct ScheduledReplica {
    pub(super) id: ReplicaId,
    pub(super) config: ScheduledConfig,
    scheduler: Box<dyn Scheduler>,
    pub(super) cost: Priced,
    pub(super) ledger: Ledger,
    /// Requests that the loop has not drained yet, by time of arrival at the engine.
    pub(super) inbox: VecDeque<(Picos, Handle)>,
    pub(super) in_flight: Option<Box<Step>>,
    pub(super) spare_step: Option<Box<Step>>,
    /// What the batch in flight is known to do next.
    pub(super) plan: Option<Plan>,
    /// Steps by which the counters of the batch in flight are stale.
    pub(super) ahead: u32,
    /// End of the last processed step.
    pub(super) last_end: Picos,
    pub(super) next_pass: Option<Picos>,
    pub(super) is_stuck: bool,
    /// Preemptions since anybody had a token.
    pub(super) fruitless_preemptions: u32,
    pub(super) stepwise: bool,
    pub(super) jitter: Option<Jitter>,
    pub(super) log: Option<Vec<ScheduleRecord>>,
    pub(super) shares_log: Vec<(RequestId, u32, u32)>,
}

impl ScheduledReplica {
    /// An empty engine; `stepwise` never leaps, which changes nothing but the time it takes.
    pub(crate) fn new(
        id: ReplicaId,
        config: ScheduledConfig,
        cost: Box<dyn StepCost>,
        stepwise: bool,
    ) -> ScheduledReplica {
        ScheduledReplica {
            id,
            scheduler: config.make_scheduler(),
            cost: Priced::new(cost),
            ledger: Ledger::new(id, &config),
            inbox: VecDeque::new(),
            in_flight: None,
            spare_step: None,
            plan: None,
            ahead: 0,
            last_end: Picos::ZERO,
            next_pass: None,
            is_stuck: false,
            fruitless_preemptions: 0,
            stepwise,
            jitter: None,
            log: None,
            shares_log: Vec::new(),
            config,
        }
    }

    /// Makes steps scatter around their cost, and takes them one by one.
    pub(crate) fn disturb(&mut self, jitter: Jitter) {
        self.jitter = Some(jitter);
        self.stepwise = true;
    }

    /// Keeps a record of every step.
    pub(crate) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The records kept so far.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        self.log.take().unwrap_or_default()
    }

    /// KV blocks.
    pub(crate) fn total_blocks(&self) -> u32 {
        self.ledger.pool.total()
    }

    /// Requests inside, drained or not.
    pub(crate) fn inside(&self) -> usize {
        self.ledger.inside
    }

    /// Takes in a request that reaches the engine at `now`; one that finds the loop at rest wakes it.
    pub(crate) fn offer(&mut self, now: Picos, request: &mut Request) -> Result<Handle, Refusal> {
        if let Some(refusal) = self.refusal(request) {
            return Err(refusal);
        }
        let handle = self.ledger.insert(std::mem::take(request), now);
        self.inbox.push_back((now, handle));
        if self.in_flight.is_none() {
            // The loop may rest until a later time that its scheduler named.
            self.next_pass = Some(self.next_pass.map_or(now, |pass| pass.min(now)));
        }
        Ok(handle)
    }

    /// Tokens whose cached KV was evicted so far.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.ledger.pool.evicted_tokens()
    }

    /// Tokens of a KV block.
    pub(crate) fn block_size(&self) -> u32 {
        self.config.block_size
    }

    /// Why a request cannot be taken in, if so. V0 takes what it cannot serve, too, and fails it later (V0-4, V0-5).
    pub(crate) fn refusal(&self, request: &Request) -> Option<Refusal> {
        let prompt = request.prompt_tokens;
        if prompt >= self.config.max_model_len {
            return Some(Refusal::PromptTooLong);
        }
        if matches!(self.config.scheduler, super::SchedulerChoice::VllmV0(_)) {
            return None;
        }
        let longest =
            (u64::from(prompt) + u64::from(request.max_tokens)).min(self.config.max_model_len.into());
        let longest = u32::try_from(longest - 1).expect("at most max_model_len");
        (self.ledger.blocks_for(longest) > self.ledger.pool.total()).then_some(Refusal::NeverFits)
    }

    /// When something happens next here without anything from outside.
    pub(crate) fn next(&self) -> Option<Picos> {
        self.next_pass
            .or_else(|| self.in_flight.as_ref().map(|step| step.end()))
    }

    /// Whether nobody can ever go on.
    pub(crate) fn is_livelocked(&self) -> bool {
        self.is_stuck
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
                if pass >= horizon || self.is_stuck {
                    return now;
                }
                now = pass;
                self.pass(pass, observer, ended);
                if !ended.is_empty() {
                    return now;
                }
            }
            let Some(step) = &self.in_flight else {
                if self.next_pass.is_some() {
                    continue;
                }
                return now;
            };
            if step.end() > horizon {
                return now;
            }
            if self.leap(horizon, observer) > 0 {
                now = self.last_end;
                continue;
            }
            now = self.process(observer, ended);
            self.next_pass = Some(now);
            if !ended.is_empty() {
                return now;
            }
        }
    }

    /// The pass of the loop that is due at `now`, the horizon of [`ScheduledReplica::run`], if one is.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if self.next_pass == Some(now) {
            self.pass(now, observer, ended);
        }
    }

    /// One pass of the loop at `now`: a step is launched, or nothing is left to do for now.
    fn pass<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.next_pass = None;
        self.drain(now);
        for _ in 0..FRUITLESS_DECISIONS_MAX {
            if self.is_empty() {
                break;
            }
            let has_changed = self.decide(now, observer, ended);
            self.fruitless_preemptions += self.ledger.preempted.len() as u32;
            if self.ledger.is_halted || self.fruitless_preemptions > FRUITLESS_PREEMPTIONS_MAX {
                self.is_stuck = true;
                return;
            }
            if self.ledger.has_shares() {
                return self.launch(now);
            }
            // A decision that preempted or refused somebody made room for another, and so do those who have ended.
            if !self.ledger.dismiss_ended() && !has_changed {
                break;
            }
        }
        self.rest(now);
    }

    /// Nobody is there to be decided about.
    fn is_empty(&self) -> bool {
        let ledger = &self.ledger;
        ledger.waiting.is_empty() && ledger.running.is_empty() && ledger.swapped.is_empty()
    }

    /// Asks the scheduler, and tells what it did; whether anything has changed.
    fn decide<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) -> bool {
        self.ledger.begin_decision();
        let mut plan = StepPlan {
            ledger: &mut self.ledger,
            now,
        };
        self.scheduler.schedule(&mut plan);
        #[cfg(debug_assertions)]
        self.ledger.check();
        let has_changed = !self.ledger.told.is_empty() || !self.ledger.refused.is_empty();
        for fact in self.ledger.told.drain(..) {
            observer.observe(&fact);
        }
        ended.append(&mut self.ledger.refused);
        has_changed
    }

    /// Nothing runs: until the scheduler's wake-up, or the next arrival. Without either the engine has hung.
    fn rest(&mut self, now: Picos) {
        let arrival = self.inbox.front().map(|&(at, _)| at.max(now));
        let wake = self.ledger.wake.filter(|&at| at > now && !self.is_empty());
        self.next_pass = [arrival, wake].into_iter().flatten().min();
        self.is_stuck = self.next_pass.is_none() && !self.is_empty();
    }

    /// Moves what has arrived into the waiting queue.
    fn drain(&mut self, now: Picos) {
        while let Some(&(arrival, handle)) = self.inbox.front()
            && arrival <= now
        {
            self.inbox.pop_front();
            self.ledger.waiting.push_back(handle.slot);
        }
    }

    /// Starts again empty at `now`, after everybody inside has left.
    pub(super) fn restart(&mut self, now: Picos) {
        self.ledger.restart(&self.config, now);
        self.scheduler = self.config.make_scheduler();
        self.inbox.clear();
        (self.in_flight, self.plan, self.ahead) = (None, None, 0);
        self.last_end = now;
        self.next_pass = None;
    }

    /// Tells everything that has happened.
    pub(crate) fn tell<O: Observer>(&mut self, _observer: &mut O) {}
}
