//! The loop over two pools, and what is common to all flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flight::Flight;
use super::pool::Pool;
use super::tap::{DecodeTap, Flights, PrefillTap};
use super::vllm::{self, Desk};
use super::{Disaggregation, Flow};
use crate::cluster::frontend::{Entrance, Frontend};
use crate::cluster::links::{LinkRate, Links, Moved};
use crate::cluster::wakes::Wakes;
use crate::cost::jitter::Jitter;
use crate::engine::{Engine, Refusal, Told};
use crate::facts::{Completion, Fact, LinkUse, Observer, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// Streams of the two routers' draws.
const PREFILL_STREAM: u64 = 2;
const DECODE_STREAM: u64 = 3;

/// Replicas that prefill and replicas that decode.
pub(crate) struct Disaggregated {
    pub(super) spec: Disaggregation,
    /// The prefill replicas, then the decode replicas.
    pub(super) engines: Vec<Engine>,
    pub(super) prefill: Pool,
    pub(super) decode: Pool,
    /// The front ends of the decode replicas; the loop of `sim` has those of the others.
    pub(super) entrances: Vec<Entrance>,
    pub(super) wakes: Wakes,
    pub(super) links: Links<RequestId>,
    /// What happens between replicas at known times, in order of planning where those are equal.
    agenda: BinaryHeap<Reverse<(Picos, u64, Errand)>>,
    planned: u64,
    pub(super) flights: Flights,
    /// What vLLM's connectors are asked and told.
    pub(super) desk: Desk,
    told: Vec<Told>,
    first_tokens: Vec<RequestId>,
    scratch: Vec<Completion>,
}

/// Something that happens between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Errand {
    /// A request reaches the prefill server's loop (SGLang).
    KnownToPrefill(RequestId),
    /// The prefill server learns that the decode server has memory (SGLang).
    MayPrefill(RequestId),
    /// The proxy's request reaches the decode server (vLLM).
    Forward(RequestId),
}

/// How far a replica goes.
#[derive(Clone, Copy)]
enum Visit {
    /// To this instant, the passes of its loop then left out.
    Run(Picos),
    /// Through the pass that is due at this instant.
    Pass(Picos),
}

impl Visit {
    fn go_on<O: Observer>(self, engine: &mut Engine, observer: &mut O, ended: &mut Vec<Completion>) -> Picos {
        match self {
            Visit::Run(until) => engine.run(until, observer, ended),
            Visit::Pass(now) => {
                engine.pass_at(now, observer, ended);
                now
            }
        }
    }
}

/// What comes first.
enum Next {
    Replica(usize),
    Errand(Picos),
    Nothing,
}

impl Disaggregated {
    /// The engines of `spec`, prefill before decode, and the front ends of all.
    pub(crate) fn new(
        mut engines: Vec<Engine>,
        frontends: &[Frontend],
        spec: &Disaggregation,
        block_sizes: &[u32],
        seed: u64,
    ) -> Disaggregated {
        let (x, y) = (spec.prefill as usize, spec.decode as usize);
        assert!(
            engines.len() == x + y && x > 0 && y > 0,
            "a disaggregated cluster has the engines it says"
        );
        let desk = vllm::assign_roles(&mut engines, spec, block_sizes);
        let rates: Vec<LinkRate> = (0..x + y)
            .map(|replica| {
                if replica < x {
                    spec.prefill_link
                } else {
                    spec.decode_link
                }
            })
            .collect();
        Disaggregated {
            prefill: Pool::new(0, spec.prefill_policy, &block_sizes[..x], (seed, PREFILL_STREAM)),
            decode: Pool::new(x, spec.decode_policy, &block_sizes[x..], (seed, DECODE_STREAM)),
            entrances: frontends.iter().copied().map(Entrance::new).collect(),
            wakes: Wakes::new(x + y),
            links: Links::new(&rates, spec.latency),
            agenda: BinaryHeap::new(),
            planned: 0,
            flights: Flights::default(),
            desk,
            told: Vec::new(),
            first_tokens: Vec::new(),
            scratch: Vec::new(),
            spec: spec.clone(),
            engines,
        }
    }

    /// Who prefills a request that is sent at `now`.
    pub(crate) fn route(&mut self, now: Picos, request: &Request) -> usize {
        self.prefill.route(&self.engines, now, request)
    }

    /// A request, sent at `now`, reaches the prefill server `replica`'s engine at `entry`.
    pub(crate) fn offer(
        &mut self,
        replica: usize,
        now: Picos,
        entry: Picos,
        request: Request,
    ) -> Result<(), (Refusal, Request)> {
        let mut flight = Flight::new(request, replica);
        if self.spec.flow != Flow::Nixl {
            flight.decode = Some(self.decode.route(&self.engines, now, &flight.request));
        }
        // Whatever the decode replica is, it is like the first.
        let decode = flight.decode.unwrap_or(self.spec.prefill as usize);
        // A queue that is full now need not be when the prefill is over.
        let is_final = |refusal: &Refusal| self.spec.flow == Flow::Sglang || *refusal != Refusal::QueueFull;
        if let Some(refusal) = self.engines[decode].refusal(&flight.request).filter(is_final) {
            return Err((refusal, flight.request));
        }
        let part = flight.prefill_part();
        let taken = match self.spec.flow {
            Flow::Sglang => self.engines[replica].take_in(part),
            Flow::Nixl | Flow::P2pNccl => self.engines[replica].offer(entry, part),
        };
        match taken {
            Ok(handle) => flight.at_prefill = Some(handle),
            Err((refusal, _)) => return Err((refusal, flight.request)),
        }
        let id = flight.request.id;
        self.wake(replica);
        self.prefill.sent(replica, &flight.request);
        self.desk.announce(&flight);
        if self.spec.flow == Flow::Sglang {
            self.plan(entry, Errand::KnownToPrefill(id));
            self.flights.insert(id, flight);
            let refused = self.send_to_decode(id, now);
            assert!(refused.is_none(), "the decode replica was asked before");
        } else {
            self.flights.insert(id, flight);
        }
        Ok(())
    }

    /// The request reaches its decode server at `now`. One that has no place for it refuses it.
    pub(super) fn send_to_decode(&mut self, id: RequestId, now: Picos) -> Option<Completion> {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let (replica, request) = (flight.decode(), flight.request.clone());
        let entrance = &mut self.entrances[replica];
        let entry = entrance.pass(now, request.prompt_tokens);
        self.decode.sent(replica, &request);
        match self.engines[replica].offer(entry, request) {
            Ok(handle) => {
                flight.at_decode = Some(handle);
                flight.times.known = Some(entry);
                self.wake(replica);
                None
            }
            Err(_) => {
                let completion = nowhere(flight, replica, now, Outcome::Rejected);
                self.let_go_of_prefill(id, now);
                self.flights.remove(&id);
                Some(completion)
            }
        }
    }

    pub(super) fn plan(&mut self, at: Picos, errand: Errand) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, errand)));
    }

    /// A replica's next wake-up may have changed.
    pub(super) fn wake(&mut self, replica: usize) {
        self.wakes.set(replica, self.engines[replica].wake());
    }

    /// When something next happens between replicas.
    fn next_errand(&mut self) -> Option<Picos> {
        let planned = self.agenda.peek().map(|&Reverse((at, ..))| at);
        match (planned, self.links.next()) {
            (Some(planned), Some(moved)) => Some(planned.min(moved)),
            (planned, moved) => planned.or(moved),
        }
    }

    fn next(&mut self) -> Next {
        let errand = self.next_errand();
        match (self.wakes.first(), errand) {
            (Some((replica, wake)), errand)
                if errand.is_none_or(|at| wake.at < at || (wake.at == at && !wake.is_pass)) =>
            {
                Next::Replica(replica)
            }
            (_, Some(at)) => Next::Errand(at),
            _ => Next::Nothing,
        }
    }

    /// Goes on to `horizon`, or until a request has left: see [`Engine::run`].
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let mut now = Picos::ZERO;
        while ended.is_empty() {
            match self.next() {
                Next::Nothing => break,
                Next::Errand(at) => {
                    if at > horizon {
                        break;
                    }
                    now = now.max(at);
                    self.run_errand(at, observer, ended);
                }
                Next::Replica(replica) => {
                    let (_, wake) = self.wakes.first().expect("it is the first");
                    let is_due = wake.at < horizon || (wake.at == horizon && !wake.is_pass);
                    if !is_due || self.engines[replica].is_livelocked() {
                        break;
                    }
                    let visit = if wake.is_pass {
                        Visit::Pass(wake.at)
                    } else {
                        let errand = self.next_errand().unwrap_or(Picos::MAX);
                        Visit::Run(horizon.min(self.wakes.second()).min(errand))
                    };
                    now = now.max(self.visit(replica, visit, observer, ended));
                }
            }
        }
        now
    }

    /// What is due at `now` of errands and passes of loops.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        loop {
            match self.next() {
                Next::Errand(at) if at <= now => self.run_errand(at, observer, ended),
                Next::Replica(replica) => {
                    let (_, wake) = self.wakes.first().expect("it is the first");
                    if wake.at > now || self.engines[replica].is_livelocked() {
                        return;
                    }
                    // A run of alike steps that something cuts at this instant was not taken up to here yet.
                    let visit = if wake.is_pass {
                        Visit::Pass(now)
                    } else {
                        Visit::Run(now)
                    };
                    self.visit(replica, visit, observer, ended);
                }
                _ => return,
            }
        }
    }

    /// Lets a replica go on and hears what it has to tell.
    fn visit<O: Observer>(
        &mut self,
        replica: usize,
        visit: Visit,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let engine = &mut self.engines[replica];
        let flights = &mut self.flights;
        let is_prefill = replica < self.spec.prefill as usize;
        let mut left = std::mem::take(&mut self.scratch);
        let reached = if is_prefill {
            visit.go_on(engine, &mut PrefillTap { observer, flights }, &mut left)
        } else {
            let first_tokens = &mut self.first_tokens;
            let mut tap = DecodeTap {
                observer,
                flights,
                first_tokens,
            };
            visit.go_on(engine, &mut tap, &mut left)
        };
        self.wake(replica);
        for id in std::mem::take(&mut self.first_tokens) {
            self.decode.first_token(id);
        }
        for completion in left.drain(..) {
            if is_prefill {
                self.prefill_answered(&completion, observer, ended);
            } else {
                ended.extend(self.land(completion));
            }
        }
        self.scratch = left;
        self.hear(replica, observer);
        reached
    }

    /// What a replica had to tell.
    fn hear<O: Observer>(&mut self, replica: usize, observer: &mut O) {
        let mut told = std::mem::take(&mut self.told);
        self.engines[replica].take_signals(&mut told);
        self.desk.take_signals(&mut told);
        for message in told.drain(..) {
            self.follow(message, observer);
        }
        self.told = told;
    }

    fn run_errand<O: Observer>(&mut self, at: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if self.links.next() == Some(at) {
            if let Some(moved) = self.links.step(at) {
                self.tell_transfer(at, &moved, observer);
                self.message_arrived(at, moved.tag, observer);
            }
            return;
        }
        let Some(Reverse((_, _, errand))) = self.agenda.pop() else {
            return;
        };
        match errand {
            Errand::KnownToPrefill(id) => self.known_to_prefill(id, at),
            Errand::MayPrefill(id) => self.may_prefill(id, at),
            Errand::Forward(id) => {
                if self.flights.contains_key(&id) {
                    ended.extend(self.send_to_decode(id, at));
                }
            }
        }
    }

    fn tell_transfer<O: Observer>(&self, now: Picos, moved: &Moved<RequestId>, observer: &mut O) {
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
        flight.account.prefilled = Some(now);
        if !flight.is_abandoned {
            observer.observe(&Fact::HandedOver {
                now,
                from: ReplicaId(flight.prefill as u32),
                to: ReplicaId(flight.decode() as u32),
                id,
                running_since: flight.account.running_since,
            });
        }
        self.prefill.first_token(id);
        let completion = nowhere(flight, flight.prefill, now, Outcome::Completed);
        self.prefill.answered(&completion);
    }

    /// The prefill replica has freed what it kept for a request's transfer.
    pub(super) fn tell_release<O: Observer>(&self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = &self.flights[&id];
        let engine = &self.engines[flight.prefill];
        observer.observe(&Fact::Released {
            now,
            replica: ReplicaId(flight.prefill as u32),
            id,
            since: flight.account.prefilled.unwrap_or(now),
            blocks: flight.request.prompt_tokens.div_ceil(engine.block_size()),
        });
    }

    /// The decode replica is done with a request; its story is that of both replicas.
    fn land(&mut self, mut completion: Completion) -> Option<Completion> {
        let flight = self.flights.remove(&completion.id)?;
        let was_running = flight.times.joined.is_some();
        flight
            .account
            .complete(&flight.request, &mut completion, was_running);
        Some(completion)
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
        self.prefill.answered(&completion);
        Some(completion)
    }

    /// A client has its answer, whatever it is.
    pub(crate) fn answered(&mut self, completion: &Completion) {
        self.decode.answered(completion);
        self.prefill.answered(completion);
    }

    /// Everything that has happened up to `now` is told.
    pub(crate) fn tell<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        for replica in 0..self.engines.len() {
            // Whoever has something to do at this very instant is there already.
            if self.engines[replica].wake().is_some_and(|wake| wake.at > now) {
                self.settle(replica, now, observer);
            }
            self.engines[replica].tell(observer);
        }
        let x = self.spec.prefill as usize;
        let uses: Vec<LinkUse> = (0..self.engines.len())
            .map(|replica| {
                let rate = if replica < x {
                    self.spec.prefill_link
                } else {
                    self.spec.decode_link
                };
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

    /// Whether nothing will happen without anything from outside.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.engines.iter().all(|engine| engine.next().is_none())
    }

    /// Requests inside, and transfers for those who gave up.
    pub(crate) fn inside(&self) -> usize {
        self.flights.len()
    }

    /// Some engine goes round in circles.
    pub(crate) fn is_livelocked(&self) -> bool {
        self.engines.iter().any(Engine::is_livelocked)
    }

    /// Usable KV blocks of each replica.
    pub(crate) fn total_blocks(&self) -> impl Iterator<Item = u32> {
        self.engines.iter().map(Engine::total_blocks)
    }

    /// Makes the steps of every engine scatter.
    pub(crate) fn disturb(&mut self, jitter: impl Fn(u64) -> Jitter) {
        for (engine, replica) in self.engines.iter_mut().zip(0..) {
            engine.disturb(jitter(replica));
        }
    }

    /// Records of steps are kept of a lone engine only.
    pub(crate) fn keep_log(&mut self) {}
}

/// The story of a request that ends at `now` while it is on no replica, told by `replica`.
pub(super) fn nowhere(flight: &Flight, replica: usize, now: Picos, outcome: Outcome) -> Completion {
    let (request, account) = (&flight.request, &flight.account);
    Completion {
        id: request.id,
        replica: ReplicaId(replica as u32),
        outcome,
        arrival: request.arrival,
        client_queue_time: request.client_queue_time,
        first_scheduled: account.first_scheduled.unwrap_or(request.arrival),
        first_token: None,
        end: now,
        prompt_tokens: request.prompt_tokens,
        output_tokens: 0,
        cached_tokens: account.cached_tokens,
        preemptions: account.preemptions,
        waiting_time: account.waited,
    }
}
