//! The loop's part in what stands before the routers and behind the engines: who waits there, who is sent again, who is refused, whose answer
//! comes too late.
//!
//! A request that passed the gate keeps its place until it leaves for good, while it waits to be sent again, too; one that
//! the gate refused has none, and comes to the gate anew. Its client's clock and its deadline run on.

use std::cmp::Reverse;
use std::hint::cold_path;

use super::admission::{Admission, Entry, Gate};
use super::progress::{Counts, Refusals};
use super::simulation::{Event, Simulation};
use super::{Completion, Fact, Observer, Outcome, Rejection};
use crate::engine::Refusal;
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::{Request, Traffic};

impl<T: Traffic> Simulation<T> {
    /// Puts limits and retries before the routers.
    #[must_use]
    pub fn admitting(mut self, admission: &Admission) -> Simulation<T> {
        self.gate = (!admission.is_empty()).then(|| Box::new(Gate::new(admission.clone())));
        self
    }

    /// The gate's next event.
    pub(super) fn next_at_gate(&self) -> Option<(Picos, Event)> {
        let gate = self.gate.as_ref()?;
        let entry = gate.has_next().then_some((self.now, Event::Entry));
        let late = |at: Picos| at.max(self.now);
        let again = gate.next_again().map(|at| (late(at), Event::SentAgain));
        let timeout = gate.next_timeout().map(|at| (late(at), Event::QueueTimeout));
        [entry, again, timeout].into_iter().flatten().min()
    }

    /// A request that the client has just sent meets the gate.
    pub(super) fn meet_gate<O: Observer>(&mut self, mut request: Request, observer: &mut O) {
        let gate = self.gate.as_mut().expect("asked where there is a gate");
        match gate.enter(self.now, &request) {
            Entry::Pass => {
                gate.passes(&request);
                self.dispatch(&mut request, observer);
            }
            Entry::Wait => {
                if let Some(deadline) = request.deadline {
                    self.deadlines.push(Reverse((deadline, request.id, None)));
                }
                gate.wait(self.now, request);
            }
            Entry::RateLimited => {
                self.turn_away(
                    request,
                    Rejection::RateLimited,
                    |counts| &mut counts.rate_limited,
                    observer,
                );
            }
            Entry::Full => {
                self.turn_away(
                    request,
                    Rejection::Unavailable,
                    |counts| &mut counts.gate_full,
                    observer,
                );
            }
        }
    }

    /// The first in the queue finds a place.
    pub(super) fn enter_next<O: Observer>(&mut self, observer: &mut O) {
        if let Some(gate) = &mut self.gate
            && let Some(mut request) = gate.next_in()
        {
            gate.passes(&request);
            self.dispatch(&mut request, observer);
        }
    }

    /// The first in the queue has waited long enough.
    pub(super) fn end_wait<O: Observer>(&mut self, observer: &mut O) {
        if let Some(gate) = &mut self.gate
            && let Some(request) = gate.timed_out()
        {
            self.turn_away(
                request,
                Rejection::Unavailable,
                |counts| &mut counts.gate_timeout,
                observer,
            );
        }
    }

    /// A request is sent again.
    pub(super) fn send_again<O: Observer>(&mut self, observer: &mut O) {
        if let Some(gate) = &mut self.gate
            && let Some((mut request, has_passed)) = gate.sent_again()
        {
            self.counts.sent_again += 1;
            match has_passed {
                true => self.dispatch(&mut request, observer),
                false => self.meet_gate(request, observer),
            }
        }
    }

    /// A server or the routers refuse a request: it is sent again later, or turned away.
    pub(super) fn refuse<O: Observer>(&mut self, refusal: Refusal, request: Request, observer: &mut O) {
        let may_change = matches!(refusal, Refusal::QueueFull | Refusal::NoReplica);
        let request = match &mut self.gate {
            Some(gate) if may_change => {
                let (id, deadline) = (request.id, request.deadline);
                match gate.refused(self.now, request) {
                    Some(request) => request,
                    None => {
                        if let Some(deadline) = deadline {
                            self.deadlines.push(Reverse((deadline, id, None)));
                        }
                        return;
                    }
                }
            }
            _ => request,
        };
        match refusal {
            Refusal::QueueFull => self.counts.queue_full += 1,
            Refusal::NoReplica => self.counts.no_replica += 1,
            Refusal::PromptTooLong => self.counts.prompt_too_long += 1,
            Refusal::PromptAboveBudget | Refusal::NeverFits => self.counts.never_fit += 1,
        }
        let id = request.id;
        let mut completion = refused(&request, self.now, Outcome::Rejected);
        if let Some(gate) = &mut self.gate {
            gate.whole_story(&mut completion);
            gate.left(id);
        }
        let why = match refusal.is_of_length() {
            true => Rejection::TooLong,
            false => Rejection::Unavailable,
        };
        self.tell_refused(&request, why, &completion, observer);
    }

    /// The gate refuses a request that it never let pass: it comes again later, or has left for this reason.
    fn turn_away<O: Observer>(
        &mut self,
        request: Request,
        why: Rejection,
        count: impl Fn(&mut Counts) -> &mut u64,
        observer: &mut O,
    ) {
        let Some(gate) = &mut self.gate else { return };
        let (id, deadline) = (request.id, request.deadline);
        let Some(request) = gate.turns_away(self.now, request) else {
            if let Some(deadline) = deadline {
                self.deadlines.push(Reverse((deadline, id, None)));
            }
            return;
        };
        *count(&mut self.counts) += 1;
        let completion = refused(&request, self.now, Outcome::Rejected);
        self.tell_refused(&request, why, &completion, observer);
    }

    fn tell_refused<O: Observer>(
        &mut self,
        request: &Request,
        why: Rejection,
        completion: &Completion,
        observer: &mut O,
    ) {
        self.cluster.tell(self.now, &mut self.ends.heard_by(observer));
        let now = self.now;
        let [last, most] = &mut self.refusals;
        if last.at != now {
            *last = Refusals { at: now, count: 0 };
        }
        last.count += 1;
        if last.count > most.count {
            *most = *last;
        }
        observer.observe(&Fact::Rejected { now, request, why });
        self.end(completion, observer);
    }

    /// Whether a request whose replica failed is sent again; then it has not left.
    #[inline]
    pub(super) fn is_sent_again<O: Observer>(&mut self, completion: &Completion, observer: &mut O) -> bool {
        let Some(gate) = &mut self.gate else {
            return false;
        };
        cold_path();
        if !gate.failed(completion) {
            return false;
        }
        if let Some(places) = &mut self.places {
            places.remove(&completion.id);
        }
        self.cluster.answered(completion);
        self.ends.forget(completion.id);
        observer.observe(&Fact::Returned(completion));
        if let Some(deadline) = gate.deadline(completion) {
            self.deadlines.push(Reverse((deadline, completion.id, None)));
        }
        true
    }

    /// Puts the parts of a story together that were told by several servers, and gives its place back.
    pub(super) fn leave_gate(&mut self, completion: &mut Completion) {
        if let Some(gate) = &mut self.gate {
            cold_path();
            gate.whole_story(completion);
            gate.left(completion.id);
        }
    }

    /// The client gives up a request that is before the routers, if it still is.
    pub(super) fn give_up<O: Observer>(&mut self, id: RequestId, observer: &mut O) {
        let Some(gate) = &mut self.gate else { return };
        let Some((request, has_passed)) = gate.gives_up(id) else {
            return;
        };
        let mut completion = refused(&request, self.now, Outcome::TimedOut);
        if has_passed {
            self.leave_gate(&mut completion);
        }
        self.end(&completion, observer);
    }

    /// An answer that is on its way to a client who gives up now.
    pub(super) fn take_back(&mut self, id: RequestId) -> Option<Completion> {
        let place = self.outbox.iter().position(|answer| answer.id == id)?;
        let mut late = self.outbox.remove(place)?;
        if late.outcome == Outcome::Completed {
            late.outcome = Outcome::TimedOut;
        }
        late.end = self.now;
        late.first_token = late.first_token.filter(|at| *at <= self.now);
        Some(late)
    }
}

/// The story of a request that leaves at `now` without being at a server.
fn refused(request: &Request, now: Picos, outcome: Outcome) -> Completion {
    Completion {
        id: request.id,
        replica: ReplicaId(0),
        outcome,
        arrival: request.arrival,
        client_queue_time: request.client_queue_time,
        first_scheduled: request.arrival,
        first_token: None,
        end: now,
        prompt_tokens: request.prompt_tokens,
        output_tokens: 0,
        cached_tokens: 0,
        preemptions: 0,
        waiting_time: now - request.arrival,
    }
}
