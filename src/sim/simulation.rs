//! The event loop.
//!
//! Facts from outside (a client sends, a client gives up, an answer arrives at its client) and the replica's own steps
//! are taken in order of time. At one instant: steps end first, then answers and arrivals, then the engine's loop
//! drains and schedules (EV-6). A replica may leap over steps that end before the next fact from outside.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::cold_path;

use rustc_hash::FxHashMap;

use super::admission::Gate;
use super::progress::{Counts, Pause, Refusals, Until};
use super::{Completion, Fact, Frontend, Observer, Outcome};
use crate::cluster::{FrontEnds, LockStepAccount, Payroll, Serving, Ticket};
use crate::cost::StepCost;
use crate::engine::sglang::{RecordedPass, SglangRecord};
use crate::engine::{EngineSpec, Refusal, ScheduleRecord};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::{Request, Traffic};

mod build;
mod open;

/// A simulation in progress.
pub struct Simulation<T: Traffic> {
    traffic: T,
    pub(super) cluster: Serving,
    /// What stands around the engines.
    pub(super) ends: FrontEnds,
    /// What stands before the routers, if anything does.
    pub(super) gate: Option<Box<Gate>>,
    pub(super) now: Picos,
    /// The traffic's next arrival, as it said after the last send or answer.
    arrival: Option<Picos>,
    /// When clients give up; without a ticket a request that is before the routers.
    pub(super) deadlines: BinaryHeap<Reverse<(Picos, RequestId, Option<Ticket>)>>,
    /// Answers on their way to the client, in order of delivery.
    pub(super) outbox: VecDeque<Completion>,
    buffer: Vec<Completion>,
    pub(super) counts: Counts,
    /// At the last instant at which any were, and at the one at which most were.
    pub(super) refusals: [Refusals; 2],
    /// Where the requests are that servers took in, if clients may [go away](Simulation::withdraw) at any time.
    pub(super) places: Option<FxHashMap<RequestId, Ticket>>,
}

/// What one replica is made of.
pub struct Server {
    /// The engine's resolved flags.
    pub engine: EngineSpec,
    /// How long its steps take.
    pub cost: Box<dyn StepCost>,
    /// What the front end adds around it.
    pub frontend: Frontend,
}

/// What comes from outside, in the order in which equal instants are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Delivery,
    /// A place behind the gate is free for somebody who waits.
    Entry,
    /// Somebody is sent again.
    SentAgain,
    Arrival,
    Deadline,
    /// Somebody has waited long enough before the gate.
    QueueTimeout,
    /// Something happens to a replica, or engines report.
    Change,
}

impl<T: Traffic> Simulation<T> {
    /// Keeps a record of every step, for comparison with recorded schedules.
    #[must_use]
    pub fn logging(mut self) -> Simulation<T> {
        self.cluster.keep_log();
        self
    }

    /// The records kept since [`Simulation::logging`].
    pub fn take_log(&mut self) -> Vec<ScheduleRecord> {
        self.cluster.take_log()
    }

    /// The records of an SGLang engine kept since [`Simulation::logging`].
    pub fn take_sglang_log(&mut self) -> Vec<SglangRecord> {
        self.cluster.take_sglang_log()
    }

    /// What chance decides in an SGLang engine is taken from these passes, one for each logged one.
    #[must_use]
    pub fn replaying(mut self, passes: Vec<RecordedPass>) -> Simulation<T> {
        self.cluster.replay(passes);
        self
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

    /// The requests refused at the last instant at which any were, and at the one at which most were. Where clients send again
    /// as soon as they are refused, and everybody is, these grow and the clock stands still.
    #[must_use]
    pub fn refused_at_once(&self) -> [Refusals; 2] {
        self.refusals
    }

    /// The traffic, as far as it has gone.
    #[must_use]
    pub fn traffic(&self) -> &T {
        &self.traffic
    }

    /// Usable KV blocks of each replica.
    pub fn total_blocks(&self) -> impl Iterator<Item = u32> {
        self.cluster.total_blocks().into_iter()
    }

    /// What stepping together has cost so far, if replicas do.
    #[must_use]
    pub fn lock_step(&self) -> Option<&LockStepAccount> {
        self.cluster.lock_step()
    }

    /// What the replicas cost until now, and what came of the orders to them.
    #[must_use]
    pub fn payroll(&self) -> Payroll {
        self.cluster.payroll(self.now)
    }

    /// When replicas began or ceased to serve, in order of time: so many more.
    #[must_use]
    pub fn service(&self) -> &[(Picos, i32)] {
        self.cluster.service()
    }

    /// Tokens whose cached KV was evicted so far, all replicas together; what was lost with a replica is not evicted.
    #[must_use]
    pub fn evicted_tokens(&self) -> u64 {
        self.cluster.evicted_tokens()
    }

    /// Goes on until one of the limits, or until nothing is left to happen.
    pub fn advance<O: Observer>(&mut self, until: Until, observer: &mut O) -> Pause {
        self.advance_a_while(until, u64::MAX, observer)
    }

    /// The same, with a [`Pause::Breath`] after so many turns of the loop, each of which takes one event from outside or
    /// answers somebody. In overload nobody may end for long, so that a number of endings alone bounds nothing. A breath
    /// leaves no trace in what observers are told; to hear all until now, advance to a number of endings that is reached.
    pub fn advance_a_while<O: Observer>(&mut self, until: Until, turns: u64, observer: &mut O) -> Pause {
        let mut ended = std::mem::take(&mut self.buffer);
        let pause = self.go_on(until, turns, observer, &mut ended);
        if pause != Pause::Breath {
            // Nothing else happens until the time that was asked for, but replicas go on with their steps.
            let now = if pause == Pause::TimeUp {
                until.time
            } else {
                self.now
            };
            self.cluster.tell(now, &mut self.ends.heard_by(observer));
        }
        self.buffer = ended;
        pause
    }

    fn go_on<O: Observer>(
        &mut self,
        until: Until,
        mut turns: u64,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Pause {
        let mut outside = self.next_from_outside();
        loop {
            if turns == 0 {
                return Pause::Breath;
            }
            turns -= 1;
            if self.counts.ended >= until.ended {
                return Pause::EnoughEnded;
            }
            let horizon = outside.map_or(Picos::MAX, |(at, _)| at);
            if ended.is_empty() {
                let heard = &mut self.ends.heard_by(observer);
                let reached = self.cluster.run(horizon.min(until.time), heard, ended);
                self.now = self.now.max(reached);
            }
            if !ended.is_empty() {
                self.answer_all(ended, observer);
                outside = self.next_from_outside();
                continue;
            }
            if self.cluster.is_livelocked() {
                return Pause::Livelock;
            }
            if horizon > until.time {
                return if outside.is_none() && self.cluster.is_idle() {
                    self.drained()
                } else {
                    Pause::TimeUp
                };
            }
            let Some((at, event)) = outside else {
                if self.cluster.is_stuck() {
                    return Pause::Livelock;
                }
                assert!(
                    self.cluster.inside() == 0,
                    "every unfinished request names its wake-up"
                );
                return self.drained();
            };
            assert!(at >= self.now, "time never runs back");
            self.now = at;
            self.take(event, observer, ended);
            outside = self.next_from_outside();
            // Everything from outside at this instant comes before the loop drains its inputs.
            if outside.is_none_or(|(next, _)| next > at) {
                self.cluster.pass_at(at, &mut self.ends.heard_by(observer), ended);
                if self.cluster.may_change() {
                    outside = self.next_from_outside();
                }
            }
        }
    }

    /// Nobody is inside, and nobody will come.
    fn drained(&self) -> Pause {
        assert!(
            self.counts.sent != self.counts.ended || self.cluster.is_settled(),
            "routers forget whoever has left, however it left"
        );
        Pause::Drained
    }

    /// The next event from outside.
    #[inline(always)]
    fn next_from_outside(&self) -> Option<(Picos, Event)> {
        let arrival = self.arrival.map(|at| (at.max(self.now), Event::Arrival));
        let change = self.next_change();
        if !self.deadlines.is_empty() || change.is_some() || self.gate.is_some() {
            cold_path();
            return self.first_of_all(arrival, change);
        }
        let delivery = self.next_delivery();
        match arrival {
            Some(arrival) => Some(delivery.map_or(arrival, |delivery| delivery.min(arrival))),
            None => delivery,
        }
    }

    #[inline(never)]
    fn first_of_all(
        &self,
        arrival: Option<(Picos, Event)>,
        change: Option<(Picos, Event)>,
    ) -> Option<(Picos, Event)> {
        let delivery = self.next_delivery();
        let deadline = self
            .deadlines
            .peek()
            .map(|&Reverse((at, ..))| (at, Event::Deadline));
        let gate = self.next_at_gate();
        [delivery, arrival, deadline, change, gate]
            .into_iter()
            .flatten()
            .min()
    }

    #[inline]
    fn next_delivery(&self) -> Option<(Picos, Event)> {
        let answer = self.outbox.front()?;
        Some((answer.end, Event::Delivery))
    }

    /// The next change of a replica, while anybody is left who could notice; where clients come from outside always.
    #[inline]
    fn next_change(&self) -> Option<(Picos, Event)> {
        let at = self.cluster.next_change()?;
        let is_over = self.is_empty() && self.places.is_none();
        (!is_over).then_some((at.max(self.now), Event::Change))
    }

    /// Whether nobody is inside and nobody is known to come.
    #[inline]
    fn is_empty(&self) -> bool {
        self.arrival.is_none() && self.counts.sent == self.counts.ended
    }

    #[inline(always)]
    fn take<O: Observer>(&mut self, event: Event, observer: &mut O, ended: &mut Vec<Completion>) {
        match event {
            Event::Arrival => self.arrive(observer),
            Event::Delivery => self.deliver(observer),
            _ => self.take_another(event, observer, ended),
        }
    }

    /// An answer has reached its client.
    #[inline(never)]
    fn deliver<O: Observer>(&mut self, observer: &mut O) {
        let completion = self.outbox.pop_front().expect("a delivery is in the outbox");
        self.end(&completion, observer);
    }

    /// What happens less often than requests come and answers go.
    #[cold]
    fn take_another<O: Observer>(&mut self, event: Event, observer: &mut O, ended: &mut Vec<Completion>) {
        match event {
            Event::Arrival | Event::Delivery => unreachable!("they are taken where events are taken"),
            Event::Change => {
                self.cluster
                    .change(self.now, &mut self.ends.heard_by(observer), ended);
                self.answer_all(ended, observer);
            }
            Event::Deadline => {
                let Reverse((_, id, ticket)) = self.deadlines.pop().expect("a deadline is in the heap");
                self.expire(id, ticket, observer);
            }
            Event::Entry => self.enter_next(observer),
            Event::SentAgain => self.send_again(observer),
            Event::QueueTimeout => self.end_wait(observer),
        }
    }

    /// A client sends.
    #[inline(always)]
    fn arrive<O: Observer>(&mut self, observer: &mut O) {
        let mut request = self.traffic.take();
        self.arrival = self.traffic.next_arrival();
        self.counts.sent += 1;
        observer.observe(&Fact::Arrived { request: &request });
        match self.gate {
            None => self.dispatch(&mut request, observer),
            Some(_) => {
                cold_path();
                self.meet_gate(request, observer);
            }
        }
    }

    /// A client gives up.
    fn expire<O: Observer>(&mut self, id: RequestId, ticket: Option<Ticket>, observer: &mut O) {
        let place = || self.places.as_ref()?.get(&id).copied();
        match ticket.or_else(place) {
            None => self.give_up(id, observer),
            Some(ticket) => {
                let heard = &mut self.ends.heard_by(observer);
                if let Some(mut completion) = self.cluster.abort(ticket, self.now, heard) {
                    self.ends.forget(id);
                    self.leave_gate(&mut completion);
                    self.end(&completion, observer);
                } else if let Some(late) = self.take_back(id) {
                    self.end(&late, observer);
                }
            }
        }
    }

    /// The routers send a request to a server. It stays where it is until the server has taken it.
    #[inline(always)]
    pub(super) fn dispatch<O: Observer>(&mut self, request: &mut Request, observer: &mut O) {
        let heard = &mut self.ends.heard_by(observer);
        let Some(replica) = self.cluster.route(self.now, request, heard) else {
            cold_path();
            return self.refuse(Refusal::NoReplica, std::mem::take(request), observer);
        };
        let entry = self.pass(replica, request.prompt_tokens, observer);
        let (id, deadline) = (request.id, request.deadline);
        match self.cluster.offer(replica, self.now, entry, request) {
            Ok(ticket) => {
                // Ranks that share requests out among them tell who got it.
                if !matches!(ticket, Ticket::Unplaced(_)) {
                    observer.observe(&Fact::Sent {
                        now: self.now,
                        replica: ReplicaId(replica as u32),
                        id,
                        entry,
                    });
                }
                if let Some(deadline) = deadline {
                    cold_path();
                    self.deadlines.push(Reverse((deadline, id, Some(ticket))));
                }
                if let Some(places) = &mut self.places {
                    cold_path();
                    places.insert(id, ticket);
                }
            }
            Err(refusal) => {
                cold_path();
                self.refuse(refusal, std::mem::take(request), observer);
            }
        }
    }

    /// When a request that is sent to a replica now has passed its front end.
    #[inline]
    fn pass<O: Observer>(&mut self, replica: usize, prompt_tokens: u32, observer: &mut O) -> Picos {
        if self.ends.has_one_loop(replica) {
            let heard = &mut self.ends.heard_by(observer);
            if let Some(outlook) = self.cluster.outlook(replica, self.now, heard)
                && let Some(entry) = self.ends.pass_aside(replica, self.now, prompt_tokens, &outlook)
            {
                return entry;
            }
            let heard = &mut self.ends.heard_by(observer);
            self.cluster.tell_of(replica, self.now, heard);
        }
        self.ends.pass(replica, self.now, prompt_tokens)
    }

    #[inline(always)]
    fn answer_all<O: Observer>(&mut self, ended: &mut Vec<Completion>, observer: &mut O) {
        for completion in ended.iter_mut() {
            if completion.outcome == Outcome::Failed {
                cold_path();
                self.ends.restart(completion.replica.0 as usize);
            }
            if !self.is_sent_again(completion, observer) {
                self.answer(completion, observer);
            }
        }
        ended.clear();
    }

    /// An answer leaves the engine; the client has it when the front end has handed it on.
    #[inline(always)]
    fn answer<O: Observer>(&mut self, completion: &mut Completion, observer: &mut O) {
        self.leave_gate(completion);
        let now = completion.end;
        if !self.ends.deliver(completion) {
            return self.end(completion, observer);
        }
        self.send_off(completion, now, observer);
    }

    /// An answer has left its engine at `left`, and is on its way to its client.
    #[inline(never)]
    fn send_off<O: Observer>(&mut self, completion: &Completion, left: Picos, observer: &mut O) {
        let id = completion.id;
        observer.observe(&Fact::Leaving { now: left, id });
        // Replicas may have front ends that are not equally fast: in order of delivery, of equals in that of leaving.
        if self.outbox.back().is_none_or(|last| last.end <= completion.end) {
            return self.outbox.push_back(completion.clone());
        }
        let place = self.outbox.partition_point(|other| other.end <= completion.end);
        self.outbox.insert(place, completion.clone());
    }

    #[inline(always)]
    pub(super) fn end<O: Observer>(&mut self, completion: &Completion, observer: &mut O) {
        self.counts.ended += 1;
        if let Some(places) = &mut self.places {
            cold_path();
            places.remove(&completion.id);
        }
        self.cluster.answered(completion);
        observer.observe(&Fact::Ended(completion));
        match completion.outcome {
            Outcome::Completed => self.traffic.ended(completion.id, self.now),
            Outcome::TimedOut | Outcome::Rejected | Outcome::Failed => {
                self.traffic.failed(completion.id, self.now)
            }
        }
        self.arrival = self.traffic.next_arrival();
    }
}
