//! What is told of a request over two replicas, and how it ends before its time.

use super::Flow;
use super::run::{Disaggregated, Visit};
use super::tap::{DecodeTap, PrefillTap};
use crate::cluster::links::Moved;
use crate::engine::Engine;
use crate::facts::{Completion, Fact, LinkUse, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;

impl Disaggregated {
    pub(super) fn tell_transfer<O: Observer>(&self, now: Picos, moved: &Moved<RequestId>, observer: &mut O) {
        observer.observe(&Fact::Transferred {
            now,
            from: ReplicaId(moved.from as u32),
            to: ReplicaId(moved.to as u32),
            id: moved.tag,
            bytes: moved.bytes,
            asked: moved.asked,
        });
    }

    /// Tells the pushes of P2P NCCL that are over by `now`.
    pub(super) fn tell_pushes<O: Observer>(&self, now: Picos, observer: &mut O) {
        for push in self.desk.take_pushes(now) {
            observer.observe(&Fact::Transferred {
                now: push.end,
                from: ReplicaId(push.from as u32),
                to: ReplicaId(push.to as u32),
                id: push.id,
                bytes: push.bytes,
                asked: push.begin,
            });
        }
    }

    /// The prefill is over, and the request waits for its decode replica.
    pub(super) fn tell_handover<O: Observer>(&mut self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        flight.times.prefilled = Some(now);
        flight.times.waited = flight.story.waited();
        if !flight.is_abandoned {
            let [from, to] = [flight.prefill, flight.decode()].map(|replica| ReplicaId(replica as u32));
            observer.observe(&flight.story.hand_over(&flight.request, from, to, now));
            if self.spec.flow == Flow::Sglang {
                observer.observe(&Fact::Crossing { now, to, id });
            }
        }
        self.prefill.first_token(id);
        self.prefill.left(id);
    }

    /// The proxy has sent a request on to its decode replica.
    pub(super) fn tell_sent<O: Observer>(&self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = &self.flights[&id];
        observer.observe(&Fact::Sent {
            now,
            replica: ReplicaId(flight.decode() as u32),
            id,
            entry: flight.times.known.unwrap_or(now),
        });
    }

    /// A request's KV is there, or will not come.
    pub(super) fn tell_crossed<O: Observer>(&self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = &self.flights[&id];
        let since = match self.spec.flow {
            Flow::Sglang => flight.times.prefilled,
            _ => flight.times.reserved,
        };
        if !flight.is_abandoned {
            observer.observe(&Fact::Crossed {
                now,
                to: ReplicaId(flight.decode() as u32),
                id,
                since: since.unwrap_or(now),
            });
        }
    }

    /// The prefill replica has freed what it kept for a request's transfer.
    pub(super) fn tell_release<O: Observer>(&self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = &self.flights[&id];
        let engine = &self.engines[flight.prefill];
        observer.observe(&Fact::Released {
            now,
            replica: ReplicaId(flight.prefill as u32),
            id,
            since: flight.times.prefilled.unwrap_or(now),
            blocks: flight.request.prompt_tokens.div_ceil(engine.block_size()),
        });
    }

    /// The decode replica is done with a request; its story is that of both replicas.
    pub(super) fn land(&mut self, part: Completion) -> Option<Completion> {
        let flight = self.flights.remove(&part.id)?;
        let (now, outcome) = (part.end, part.outcome);
        Some(flight.end_with(Some(part), now, outcome))
    }

    /// The client of a request gave up.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let flight = self.flights.get(&id).filter(|flight| !flight.is_abandoned)?;
        let (prefill, decode) = (flight.prefill, flight.decode);
        for replica in [Some(prefill), decode].into_iter().flatten() {
            self.settle(replica, now, observer);
        }
        let completion = self.give_up(id, now, observer);
        for replica in [Some(prefill), decode].into_iter().flatten() {
            self.wake(replica);
        }
        self.give_back_empty(now);
        Some(completion)
    }

    /// Takes a replica on to `now`, before which nothing happens there that others notice.
    pub(super) fn settle<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) {
        let mut ended = Vec::new();
        self.visit(replica, Visit::Run(now), observer, &mut ended);
        assert!(ended.is_empty(), "an engine wakes up for every end");
    }

    /// Takes a request out of its decode replica, wherever it stands; what it says of itself there.
    pub(super) fn abort_decode<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let handle = flight.at_decode.take()?;
        let replica = flight.decode();
        let flights = &mut self.flights;
        let first_tokens = &mut self.first_tokens;
        let mut tap = DecodeTap {
            observer,
            flights,
            first_tokens,
        };
        self.engines[replica].abort(handle, now, &mut tap)
    }

    /// Takes a request out of its prefill replica.
    pub(super) fn abort_prefill<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let (replica, handle) = (flight.prefill, flight.at_prefill.take()?);
        let flights = &mut self.flights;
        let completion = self.engines[replica].abort(handle, now, &mut PrefillTap { observer, flights })?;
        self.prefill.left(completion.id);
        Some(completion)
    }

    /// Everything that has happened up to `now` is told.
    pub(crate) fn tell<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        for replica in 0..self.engines.len() {
            // Whoever has something to do at this very instant is there already.
            if self.engines[replica].wake().is_some_and(|wake| wake.at != now) {
                self.settle(replica, now, observer);
            }
            self.engines[replica].tell(observer);
        }
        self.tell_pushes(now, observer);
        let x = self.spec.prefill as usize;
        let uses: Vec<LinkUse> = (0..self.engines.len())
            .map(|replica| {
                let rate = self.spec.links[replica];
                let [mut sent, mut received] = self.links.tallies(replica, now);
                if self.spec.flow == Flow::P2pNccl {
                    let pushed = self.desk.tally(replica);
                    *(if replica < x { &mut sent } else { &mut received }) = pushed;
                }
                LinkUse {
                    replica: ReplicaId(replica as u32),
                    prefills: replica < x,
                    send_bytes_per_s: rate.send,
                    receive_bytes_per_s: rate.receive,
                    sent,
                    received,
                }
            })
            .collect();
        observer.observe(&Fact::Links { now, uses: &uses });
    }

    /// Whether each replica schedules a step while the one before is in flight.
    pub(crate) fn schedules_ahead(&self) -> Vec<bool> {
        self.engines.iter().map(Engine::schedules_ahead).collect()
    }

    /// When something happens next without anything from outside.
    pub(crate) fn next_instant(&mut self) -> Option<Picos> {
        let errand = self.next_errand();
        self.engines.iter().filter_map(Engine::next).chain(errand).min()
    }
}
