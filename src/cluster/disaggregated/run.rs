//! The loop over two pools, and what is common to all flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flight::{Flight, Flights};
use super::loss::Losses;
use super::pool::Pool;
use super::tap::{DecodeTap, PrefillTap};
use super::vllm::{self, Desk};
use super::{Disaggregation, Flow};
use crate::cluster::frontend::{Entrance, Frontend};
use crate::cluster::links::Links;
use crate::cluster::spec::ClusterSpec;
use crate::cluster::wakes::Wakes;
use crate::cost::jitter::Jitter;
use crate::engine::{Engine, Refusal, Told, Wake};
use crate::facts::{Completion, Observer, Outcome};
use crate::ids::RequestId;
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
    /// What happens between replicas at known times, in order of planning where those are equal, and of which flight.
    agenda: BinaryHeap<Reverse<(Picos, u64, Errand, u64)>>,
    planned: u64,
    pub(super) flights: Flights,
    /// Requests that were taken in.
    taken: u64,
    pub(super) losses: Losses,
    /// What vLLM's connectors are asked and told.
    pub(super) desk: Desk,
    told: Vec<Told>,
    pub(super) first_tokens: Vec<RequestId>,
    scratch: Vec<Completion>,
    /// Some engine goes round in circles.
    has_livelock: bool,
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
    /// Two replicas know each other now, and KV is read (NIXL).
    Read(RequestId),
    /// What should be read is not there (NIXL).
    NothingToRead(RequestId),
    /// The lease of KV that was not read ends (NIXL).
    Lapse(RequestId),
    /// So does that of KV which nobody will read; its number.
    LetGo(u64),
}

impl Errand {
    /// Whose it is.
    fn id(self) -> Option<RequestId> {
        match self {
            Errand::KnownToPrefill(id)
            | Errand::MayPrefill(id)
            | Errand::Forward(id)
            | Errand::Read(id)
            | Errand::NothingToRead(id)
            | Errand::Lapse(id) => Some(id),
            Errand::LetGo(_) => None,
        }
    }
}

/// How far a replica goes.
#[derive(Clone, Copy)]
pub(super) enum Visit {
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
    /// This replica wakes up, and when the next errand is due.
    Replica(usize, Wake, Picos),
    Errand(Picos),
    Nothing,
}

impl Disaggregated {
    /// The engines of `spec`, prefill before decode, and the front ends of all.
    pub(crate) fn new(
        mut engines: Vec<Engine>,
        frontends: &[Frontend],
        cluster: &ClusterSpec,
        spec: &Disaggregation,
        block_sizes: &[u32],
        seed: u64,
    ) -> Disaggregated {
        let (x, y) = (spec.prefill as usize, spec.decode as usize);
        assert!(
            engines.len() == x + y && x > 0 && y > 0 && spec.links.len() == x + y,
            "a disaggregated cluster has the engines it says, and a link for each"
        );
        let policies = (0..x + y).map(|replica| {
            if replica < x {
                spec.prefill_policy
            } else {
                spec.decode_policy
            }
        });
        for (engine, policy) in engines.iter_mut().zip(policies) {
            // Decoding alone evicts, too; a router of the decode pool hears of that when its replica is next visited.
            if let Some(latency) = policy.event_latency() {
                engine.delay_events(latency);
            }
        }
        let desk = vllm::assign_roles(&mut engines, spec, block_sizes);
        let mut pools = Disaggregated {
            prefill: Pool::new(0, spec.prefill_policy, &block_sizes[..x], (seed, PREFILL_STREAM)),
            decode: Pool::new(x, spec.decode_policy, &block_sizes[x..], (seed, DECODE_STREAM)),
            entrances: frontends.iter().copied().map(Entrance::new).collect(),
            wakes: Wakes::new(x + y),
            links: Links::new(&spec.links, spec.latency),
            agenda: BinaryHeap::new(),
            planned: 0,
            flights: Flights::new(x + y),
            taken: 0,
            losses: Losses::new(cluster, spec, seed),
            desk,
            told: Vec::new(),
            first_tokens: Vec::new(),
            scratch: Vec::new(),
            has_livelock: false,
            spec: spec.clone(),
            engines,
        };
        (0..x + y).for_each(|replica| pools.set_up(replica));
        pools
    }

    /// Who prefills a request that is sent at `now`; `None` if nobody is up.
    pub(crate) fn route(&mut self, now: Picos, request: &Request) -> Option<usize> {
        self.prefill.route(&self.engines, now, request)
    }

    /// A request, sent at `now`, reaches the prefill server `replica`'s engine at `entry`.
    pub(crate) fn offer(
        &mut self,
        replica: usize,
        now: Picos,
        entry: Picos,
        request: &mut Request,
    ) -> Result<(), Refusal> {
        self.taken += 1;
        let mut flight = Flight::new(std::mem::take(request), replica, self.taken);
        if let Err(refusal) = self.hand_in(&mut flight, replica, now, entry) {
            self.prefill.left(flight.request.id);
            self.decode.left(flight.request.id);
            *request = flight.request;
            return Err(refusal);
        }
        let id = flight.request.id;
        self.wake(replica);
        self.prefill.sent(replica, &flight.request);
        self.desk.announce(&flight);
        self.flights.insert(id, flight);
        if self.spec.flow == Flow::Sglang {
            self.plan(entry, Errand::KnownToPrefill(id));
            let refused = self.send_to_decode(id, now);
            assert!(refused.is_none(), "the decode replica was asked before");
        }
        Ok(())
    }

    /// The prefill server takes a request in, if there will be a decode server for it.
    fn hand_in(
        &mut self,
        flight: &mut Flight,
        replica: usize,
        now: Picos,
        entry: Picos,
    ) -> Result<(), Refusal> {
        if self.spec.flow != Flow::Nixl {
            flight.decode = self.decode.route(&self.engines, now, &flight.request);
            if flight.decode.is_none() {
                return Err(Refusal::NoReplica);
            }
        }
        if let Some(refusal) = self.refusal(flight) {
            return Err(refusal);
        }
        let mut part = flight.prefill_part();
        let taken = match self.spec.flow {
            Flow::Sglang => self.engines[replica].take_in(&mut part),
            Flow::Nixl | Flow::P2pNccl => self.engines[replica].offer(entry, &mut part),
        };
        flight.at_prefill = Some(taken?);
        Ok(())
    }

    /// Why its decode replica, or all if it is not chosen yet, would not take a request in.
    fn refusal(&self, flight: &Flight) -> Option<Refusal> {
        // A queue that is full now need not be when the prefill is over.
        let is_final = |refusal: &Refusal| self.spec.flow == Flow::Sglang || *refusal != Refusal::QueueFull;
        let of = |engine: &Engine| engine.refusal(&flight.request).filter(is_final);
        match flight.decode {
            Some(decode) => of(&self.engines[decode]),
            None => {
                let mut refusals = self.engines[self.spec.prefill as usize..].iter().map(of);
                let first = refusals.next()?;
                first.filter(|_| refusals.all(|refusal| refusal.is_some()))
            }
        }
    }

    /// The request reaches its decode server at `now`. One that has no place for it refuses it.
    pub(super) fn send_to_decode(&mut self, id: RequestId, now: Picos) -> Option<Completion> {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let (replica, mut request) = (flight.decode(), flight.request.clone());
        if !self.losses.is_alive(replica) {
            return Some(self.find_no_decode(id, now));
        }
        let entrance = &mut self.entrances[replica];
        let entry = entrance.pass(now, request.prompt_tokens);
        self.decode.sent(replica, &request);
        match self.engines[replica].offer(entry, &mut request) {
            Ok(handle) => {
                flight.at_decode = Some(handle);
                flight.times.known = Some(entry);
                self.wake(replica);
                None
            }
            Err(_) => {
                let completion = flight.end(replica, now, Outcome::Rejected);
                self.let_go_of_prefill(id, now);
                self.flights.remove(&id);
                Some(completion)
            }
        }
    }

    pub(super) fn plan(&mut self, at: Picos, errand: Errand) {
        self.planned += 1;
        let flight = errand.id().map_or(0, |id| self.flights[&id].nth);
        self.agenda.push(Reverse((at, self.planned, errand, flight)));
    }

    /// A replica's next wake-up may have changed.
    pub(super) fn wake(&mut self, replica: usize) {
        let engine = &mut self.engines[replica];
        self.has_livelock |= engine.is_livelocked();
        self.wakes.set(replica, engine.wake());
    }

    /// When something next happens between replicas.
    pub(super) fn next_errand(&mut self) -> Option<Picos> {
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
                Next::Replica(replica, wake, errand.unwrap_or(Picos::MAX))
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
                    // Where nobody is inside, leases end unseen, and the run is not prolonged by them.
                    let is_nobodys = self.flights.is_empty() && self.wakes.first().is_none();
                    if at > horizon || (is_nobodys && horizon == Picos::MAX) {
                        break;
                    }
                    if !is_nobodys {
                        now = now.max(at);
                    }
                    self.run_errand(at, observer, ended);
                    self.give_back_empty(at);
                }
                Next::Replica(replica, wake, errand) => {
                    let is_due = wake.at < horizon || (wake.at == horizon && !wake.is_pass);
                    if !is_due || self.engines[replica].is_livelocked() {
                        break;
                    }
                    let visit = if wake.is_pass {
                        Visit::Pass(wake.at)
                    } else {
                        Visit::Run(horizon.min(self.wakes.second()).min(errand))
                    };
                    now = now.max(self.visit(replica, visit, observer, ended));
                    self.give_back_empty(now);
                }
            }
        }
        now
    }

    /// What is due at `now` of errands and passes of loops.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        loop {
            match self.next() {
                Next::Errand(at) if at <= now => {
                    self.run_errand(at, observer, ended);
                    self.give_back_empty(at);
                }
                Next::Replica(replica, wake, _) => {
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
                    self.give_back_empty(now);
                }
                _ => return,
            }
        }
    }

    /// Lets a replica go on and hears what it has to tell.
    pub(super) fn visit<O: Observer>(
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
        for id in self.first_tokens.drain(..) {
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
                self.message_arrived(at, moved.tag, observer, ended);
            }
            return;
        }
        let Some(Reverse((_, _, errand, flight))) = self.agenda.pop() else {
            return;
        };
        let is_over = |id: RequestId| self.flights.get(&id).is_none_or(|now| now.nth != flight);
        if errand.id().is_some_and(is_over) {
            return;
        }
        match errand {
            Errand::KnownToPrefill(id) => self.known_to_prefill(id, at),
            Errand::MayPrefill(id) => self.let_prefill(id, at),
            Errand::Forward(id) => match self.send_to_decode(id, at) {
                Some(completion) => ended.push(completion),
                None => self.tell_sent(id, at, observer),
            },
            Errand::Read(id) => self.read(id, at),
            Errand::NothingToRead(id) => self.load_failed(id, at, observer, ended),
            Errand::Lapse(id) => self.lapse(id, at, observer),
            Errand::LetGo(orphan) => self.let_go(orphan, at, observer),
        }
    }

    /// A client has its answer, whatever it is.
    pub(crate) fn answered(&mut self, completion: &Completion) {
        self.decode.left(completion.id);
        self.prefill.left(completion.id);
    }

    /// Whether neither router counts anybody any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.prefill.is_settled() && self.decode.is_settled()
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
        self.has_livelock
    }

    /// Requests inside wait for blocks that each other hold while KV is loaded.
    pub(crate) fn is_stuck(&self) -> bool {
        self.engines.iter().any(Engine::is_stuck)
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
