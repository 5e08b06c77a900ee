//! What follows from what a replica or the network tells, flow by flow.

use super::Flow;
use super::run::{Disaggregated, Errand};
use crate::engine::{Signal, Told};
use crate::facts::{Completion, Fact, Observer, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;

impl Disaggregated {
    /// A replica told something.
    pub(super) fn follow<O: Observer>(&mut self, told: Told, observer: &mut O) {
        let Told { at, id, what } = told;
        match what {
            Signal::Reserved => {
                let flight = self.flights.get_mut(&id).expect("a request in flight is known");
                flight.times.reserved = Some(at);
                self.plan(at + self.spec.latency, Errand::MayPrefill(id));
            }
            Signal::Computed { tokens, is_last } => self.send_computed(id, at, tokens, is_last, observer),
            Signal::Reads { tokens } => {
                let flight = self.flights.get_mut(&id).expect("a request in flight is known");
                flight.times.reserved = Some(at);
                let to = ReplicaId(flight.decode() as u32);
                observer.observe(&Fact::Crossing { now: at, to, id });
                // Whole blocks, the last one however full it is (PD-1, PD-10).
                let block = self.engines[flight.decode()].block_size();
                let prompt = flight.request.prompt_tokens;
                let local = prompt.saturating_sub(tokens) / block;
                let bytes =
                    u64::from((prompt.div_ceil(block) - local) * block) * self.spec.kv_bytes_per_token;
                (flight.cargo.is_whole, flight.cargo.wanted) = (true, bytes);
                let (prefill, decode) = (flight.prefill, flight.decode());
                let is_there = !flight.is_source_lost;
                match self.acquaint(prefill, decode, at) {
                    known if is_there && known > at => self.plan(known, Errand::Read(id)),
                    _ => self.read(id, at),
                }
            }
        }
    }

    /// A decode replica reads a request's KV, if it is still there.
    pub(super) fn read(&mut self, id: RequestId, now: Picos) {
        let flight = &self.flights[&id];
        if flight.is_source_lost {
            self.plan(now + self.spec.latency, Errand::NothingToRead(id));
        } else {
            self.send(id, now, flight.cargo.wanted);
        }
    }

    /// Hands bytes to the links, or to the queue behind the message that is under way.
    fn send(&mut self, id: RequestId, now: Picos, bytes: u64) {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let (from, to) = (flight.prefill, flight.decode());
        flight.cargo.bytes += bytes;
        if std::mem::replace(&mut flight.cargo.is_under_way, true) {
            flight.cargo.queued.push_back(bytes);
        } else {
            self.links.send(now, from, to, bytes, id);
        }
    }

    /// A message of a request has crossed.
    pub(super) fn message_arrived<O: Observer>(
        &mut self,
        now: Picos,
        id: RequestId,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let flight = self.flights.get_mut(&id).expect("a transfer keeps its request");
        let (from, to) = (flight.prefill, flight.decode());
        flight.cargo.is_under_way = false;
        if let Some(bytes) = flight.cargo.queued.pop_front() {
            flight.cargo.is_under_way = true;
            self.links.send(now, from, to, bytes, id);
        } else if flight.cargo.is_whole && !self.fails_transfer(id, now, observer, ended) {
            self.cargo_arrived(id, now, observer);
        }
    }

    /// All of a request's KV is there, and the prefill replica may let go of it.
    fn cargo_arrived<O: Observer>(&mut self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = self.flights.get_mut(&id).expect("a transfer keeps its request");
        flight.times.arrived = Some(now);
        let (prefill, decode) = (flight.prefill, flight.decode());
        let (at_prefill, at_decode) = (flight.at_prefill.take(), flight.at_decode);
        let is_abandoned = flight.is_abandoned;
        self.tell_release(id, now, observer);
        self.tell_crossed(id, now, observer);
        if self.spec.flow == Flow::Sglang {
            let handle = at_prefill.expect("the prefill replica keeps what it sends");
            self.engines[prefill].transferred(handle, now);
            if is_abandoned {
                self.settle(decode, now, observer);
                self.abort_decode(id, now, observer);
            } else {
                let handle = at_decode.expect("the decode replica keeps what it has reserved");
                self.engines[decode].arrived(handle, now);
            }
        } else {
            self.engines[prefill].release_held_back(id, now);
            self.engines[decode].loaded(id, now);
        }
        self.wake(prefill);
        self.wake(decode);
        if is_abandoned {
            self.flights.remove(&id);
        }
    }

    /// Tokens of a prompt are computed and can be sent: SGLang's chunks, the last with the first token (PD-25).
    fn send_computed<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        tokens: u32,
        is_last: bool,
        observer: &mut O,
    ) {
        let flight = self.flights.get_mut(&id).expect("a transfer keeps its request");
        let tokens = if is_last {
            tokens.next_multiple_of(self.engines[flight.prefill].block_size())
        } else {
            tokens
        };
        let more = tokens - std::mem::replace(&mut flight.cargo.tokens, tokens);
        flight.cargo.is_whole = is_last;
        if is_last {
            self.tell_handover(id, now, observer);
        }
        // The last message goes even without tokens: it carries the first one sampled.
        if more > 0 || is_last {
            self.send(id, now, u64::from(more) * self.spec.kv_bytes_per_token);
        }
    }

    /// The prefill server's loop knows the request (SGLang).
    pub(super) fn known_to_prefill(&mut self, id: RequestId, now: Picos) {
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.cargo.is_known_to_prefill = true;
            if let Some(handle) = flight.at_prefill {
                self.engines[flight.prefill].enter(handle, now);
            }
            self.let_prefill(id, now);
        }
    }

    /// Lets a request out of the bootstrap queue, once, when both sides are ready (PD-23). Both may come to be at one instant.
    pub(super) fn let_prefill(&mut self, id: RequestId, now: Picos) {
        let flight = self.flights.get_mut(&id).expect("a transfer keeps its request");
        let heard = flight
            .times
            .reserved
            .is_some_and(|at| at + self.spec.latency <= now);
        let (Some(handle), true, true) = (flight.at_prefill, flight.cargo.is_known_to_prefill, heard) else {
            return;
        };
        if std::mem::replace(&mut flight.cargo.is_let_in, true) {
            return;
        }
        let replica = flight.prefill;
        self.engines[replica].let_in(handle, now);
        self.wake(replica);
    }

    /// A vLLM prefill replica has answered with its one token.
    pub(super) fn prefill_answered<O: Observer>(
        &mut self,
        completion: &Completion,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let (id, now) = (completion.id, completion.end);
        if completion.outcome != Outcome::Completed {
            // The engine itself gave it up.
            if self.flights.remove(&id).is_some() {
                ended.push(completion.clone());
            }
            return;
        }
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        flight.at_prefill = None;
        let chosen = match flight.decode {
            Some(decode) => Some(decode),
            None => self.decode.route(&self.engines, now, &flight.request),
        };
        let flight = self.flights.bind(id, chosen);
        if chosen.is_none() {
            // The proxy has nobody to send it to.
            ended.push(flight.end(flight.prefill, now, Outcome::Failed));
            flight.times.prefilled = Some(now);
            self.orphan(id, now);
            self.flights.remove(&id);
            return;
        }
        let delay = self.entrances[flight.prefill].response_delay();
        if self.spec.flow == Flow::P2pNccl {
            // Its KV was pushed by the step that has just ended (PD-19).
            flight.times.arrived = Some(now);
            flight.cargo.bytes = self.desk.pushed_bytes(id);
        }
        self.tell_handover(id, now, observer);
        if self.spec.flow == Flow::P2pNccl {
            self.tell_pushes(now, observer);
        }
        let forward = now + delay + self.spec.hop * 2;
        self.plan(forward, Errand::Forward(id));
        self.lend(id, now, forward);
    }

    /// A request in flight is given up at `now` by its client; its story so far.
    pub(super) fn give_up<O: Observer>(&mut self, id: RequestId, now: Picos, observer: &mut O) -> Completion {
        let flight = &self.flights[&id];
        let times = flight.times;
        let (is_prefilled, is_arrived) = (times.prefilled.is_some(), times.arrived.is_some());
        let (is_prefilling, is_source_lost) = (flight.story.has_run(), flight.is_source_lost);
        let is_under_way = match self.spec.flow {
            Flow::Sglang => is_prefilling && !is_arrived,
            Flow::Nixl => times.reserved.is_some() && !is_arrived,
            Flow::P2pNccl => false,
        };
        // In SGLang a prefill that runs goes on, and what is on the links arrives (C-32).
        let goes_on = is_under_way && self.spec.flow == Flow::Sglang;
        let part = if goes_on {
            None
        } else {
            self.abort_decode(id, now, observer)
        };
        let flight = self.flights.get_mut(&id).expect("looked up before");
        let story = flight.end_with(part, now, Outcome::TimedOut);
        if is_under_way {
            flight.is_abandoned = true;
            return story;
        }
        if !is_prefilled {
            self.abort_prefill(id, now, observer);
        }
        if is_prefilled && !is_arrived && !is_source_lost {
            self.let_go_of_prefill(id, now);
            self.tell_release(id, now, observer);
        }
        self.desk.forget(id);
        self.flights.remove(&id);
        story
    }

    /// A prefill replica frees what it holds for a request that nobody will read (PD-15).
    pub(super) fn let_go_of_prefill(&mut self, id: RequestId, now: Picos) {
        if self.spec.flow == Flow::Nixl {
            let replica = self.flights[&id].prefill;
            self.engines[replica].release_held_back(id, now);
            self.wake(replica);
        }
    }
}
