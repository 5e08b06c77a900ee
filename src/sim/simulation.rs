//! The event loop.
//!
//! Facts from outside (a client sends, a client gives up, an answer arrives at its client) and the replica's own steps
//! are taken in order of time. At one instant: steps end first, then answers and arrivals, then the engine's loop
//! drains and schedules (EV-6). A replica may leap over steps that end before the next fact from outside.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::frontend::Entrance;
use super::{Completion, Fact, Frontend, Observer, Outcome};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::engine::{EngineConfig, Handle, Refusal, Replica, ScheduleRecord};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::{Request, Traffic};

/// A simulation in progress.
pub struct Simulation<T: Traffic> {
    traffic: T,
    replica: Replica,
    entrance: Entrance,
    now: Picos,
    /// The traffic's next arrival, as it said after the last send or answer.
    arrival: Option<Picos>,
    /// When clients give up.
    deadlines: BinaryHeap<Reverse<(Picos, RequestId, Handle)>>,
    /// Answers on their way to the client.
    outbox: VecDeque<Completion>,
    buffer: Vec<Completion>,
    counts: Counts,
}

/// Requests by how far they got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken from the traffic.
    pub sent: u64,
    /// Left, by any outcome.
    pub ended: u64,
    /// Refused because their prompt leaves no room below `max_model_len`.
    pub prompt_too_long: u64,
    /// Refused because they could never fit the KV pool or the budget.
    pub never_fit: u64,
    /// Refused with 503.
    pub queue_full: u64,
}

/// Why [`Simulation::advance`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No request is inside and none will come.
    Drained,
    /// The asked number of requests have ended.
    EnoughEnded,
    /// The asked time has come.
    TimeUp,
    /// Sequences preempt each other for ever: nobody will get another token.
    Livelock,
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Requests that have ended since the start.
    pub ended: u64,
    /// Simulated time.
    pub time: Picos,
}

impl Until {
    /// To the end of the traffic.
    pub const DRAINED: Until = Until {
        ended: u64::MAX,
        time: Picos::MAX,
    };
}

/// What comes from outside, in the order in which equal instants are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Delivery,
    Arrival,
    Deadline,
}

impl<T: Traffic> Simulation<T> {
    /// An empty server and its traffic.
    #[must_use]
    pub fn new(
        engine: EngineConfig,
        cost: Box<dyn StepCost>,
        frontend: Frontend,
        traffic: T,
    ) -> Simulation<T> {
        Simulation::with_replica(Replica::new(ReplicaId(0), engine, cost, false), frontend, traffic)
    }

    /// The same for traffic whose generated tokens may be equal between requests while they run: every sequence is
    /// visited in every step, so that shared contents are found exactly when the engine finds them.
    #[must_use]
    pub fn stepwise(
        engine: EngineConfig,
        cost: Box<dyn StepCost>,
        frontend: Frontend,
        traffic: T,
    ) -> Simulation<T> {
        Simulation::with_replica(Replica::new(ReplicaId(0), engine, cost, true), frontend, traffic)
    }

    fn with_replica(replica: Replica, frontend: Frontend, mut traffic: T) -> Simulation<T> {
        Simulation {
            arrival: traffic.next_arrival(),
            traffic,
            replica,
            entrance: Entrance::new(frontend),
            now: Picos::ZERO,
            deadlines: BinaryHeap::new(),
            outbox: VecDeque::new(),
            buffer: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Lets steps scatter around their cost.
    #[must_use]
    pub fn disturbed(mut self, jitter: Jitter) -> Simulation<T> {
        self.replica.disturb(jitter);
        self
    }

    /// Keeps a record of every step, for comparison with recorded schedules.
    #[must_use]
    pub fn logging(mut self) -> Simulation<T> {
        self.replica.keep_log();
        self
    }

    /// The records kept since [`Simulation::logging`].
    pub fn take_log(&mut self) -> Vec<ScheduleRecord> {
        self.replica.take_log()
    }

    /// The simulated clock.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The traffic, as far as it has gone.
    #[must_use]
    pub fn traffic(&self) -> &T {
        &self.traffic
    }

    /// Usable KV blocks.
    #[must_use]
    pub fn total_blocks(&self) -> u32 {
        self.replica.total_blocks()
    }

    /// Goes on until one of the limits, or until nothing is left to happen.
    pub fn advance<O: Observer>(&mut self, until: Until, observer: &mut O) -> Pause {
        let mut ended = std::mem::take(&mut self.buffer);
        let pause = self.go_on(until, observer, &mut ended);
        self.replica.tell(observer);
        self.buffer = ended;
        pause
    }

    fn go_on<O: Observer>(&mut self, until: Until, observer: &mut O, ended: &mut Vec<Completion>) -> Pause {
        loop {
            if self.counts.ended >= until.ended {
                return Pause::EnoughEnded;
            }
            let outside = self.next_from_outside();
            let horizon = outside.map_or(Picos::MAX, |(at, _)| at);
            let reached = self.replica.run(horizon.min(until.time), observer, ended);
            self.now = self.now.max(reached);
            if !ended.is_empty() {
                ended
                    .iter_mut()
                    .for_each(|completion| self.answer(completion, observer));
                ended.clear();
                continue;
            }
            if self.replica.is_livelocked() {
                return Pause::Livelock;
            }
            if horizon > until.time {
                return if outside.is_none() && self.replica.next().is_none() {
                    Pause::Drained
                } else {
                    Pause::TimeUp
                };
            }
            let Some((at, event)) = outside else {
                assert!(
                    self.replica.inside() == 0,
                    "every unfinished request names its wake-up"
                );
                return Pause::Drained;
            };
            debug_assert!(at >= self.now, "time never runs back");
            self.now = at;
            self.take(event, observer);
            // Everything from outside at this instant comes before the loop drains its inputs.
            if self.next_from_outside().is_none_or(|(next, _)| next > at) {
                self.replica.pass_at(at, observer);
            }
        }
    }

    /// The next event from outside.
    #[inline]
    fn next_from_outside(&self) -> Option<(Picos, Event)> {
        let arrival = self.arrival.map(|at| (at.max(self.now), Event::Arrival));
        if self.outbox.is_empty() && self.deadlines.is_empty() {
            return arrival;
        }
        let delivery = self.outbox.front().map(|answer| (answer.end, Event::Delivery));
        let deadline = self
            .deadlines
            .peek()
            .map(|&Reverse((at, ..))| (at, Event::Deadline));
        [delivery, arrival, deadline].into_iter().flatten().min()
    }

    fn take<O: Observer>(&mut self, event: Event, observer: &mut O) {
        match event {
            Event::Delivery => {
                let completion = self.outbox.pop_front().expect("a delivery is in the outbox");
                self.end(&completion, observer);
            }
            Event::Arrival => self.arrive(observer),
            Event::Deadline => {
                let Reverse((.., handle)) = self.deadlines.pop().expect("a deadline is in the heap");
                if let Some(completion) = self.replica.abort(handle, self.now, observer) {
                    self.end(&completion, observer);
                }
            }
        }
    }

    /// A client sends.
    fn arrive<O: Observer>(&mut self, observer: &mut O) {
        let request = self.traffic.take();
        self.arrival = self.traffic.next_arrival();
        self.counts.sent += 1;
        observer.observe(&Fact::Arrived { request: &request });
        let entry = self.entrance.pass(self.now, request.prompt_tokens);
        let (id, deadline) = (request.id, request.deadline);
        match self.replica.offer(entry, request) {
            Ok(handle) => {
                if let Some(deadline) = deadline {
                    self.deadlines.push(Reverse((deadline, id, handle)));
                }
            }
            Err((refusal, request)) => self.refuse(refusal, &request, observer),
        }
    }

    fn refuse<O: Observer>(&mut self, refusal: Refusal, request: &Request, observer: &mut O) {
        match refusal {
            Refusal::QueueFull => self.counts.queue_full += 1,
            Refusal::PromptTooLong => self.counts.prompt_too_long += 1,
            Refusal::PromptAboveBudget | Refusal::NeverFits => self.counts.never_fit += 1,
        }
        self.replica.tell(observer);
        observer.observe(&Fact::Rejected {
            now: self.now,
            request,
        });
        self.end(
            &Completion {
                id: request.id,
                replica: ReplicaId(0),
                outcome: Outcome::Rejected,
                arrival: request.arrival,
                client_queue_time: request.client_queue_time,
                first_scheduled: request.arrival,
                first_token: None,
                end: self.now,
                prompt_tokens: request.prompt_tokens,
                output_tokens: 0,
                cached_tokens: 0,
                preemptions: 0,
                waiting_time: Picos::ZERO,
            },
            observer,
        );
    }

    /// An answer leaves the engine; the client has it a response delay later.
    fn answer<O: Observer>(&mut self, completion: &mut Completion, observer: &mut O) {
        let delay = self.entrance.response_delay();
        if delay == Picos::ZERO {
            return self.end(completion, observer);
        }
        completion.end += delay;
        completion.first_token = completion.first_token.map(|at| at + delay);
        self.outbox.push_back(completion.clone());
    }

    fn end<O: Observer>(&mut self, completion: &Completion, observer: &mut O) {
        self.counts.ended += 1;
        observer.observe(&Fact::Ended(completion));
        match completion.outcome {
            Outcome::Completed => self.traffic.ended(completion.id, self.now),
            Outcome::TimedOut | Outcome::Rejected => self.traffic.failed(completion.id, self.now),
        }
        self.arrival = self.traffic.next_arrival();
    }
}
