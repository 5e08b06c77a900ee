//! The replicas of a run and their routers, as one thing that requests are sent to.

use super::autoscale::Scaler;
use super::lane::{Lane, settle};
use super::lives::{Lives, Payroll, Stage};
use super::router::Load;
use super::spec::{ChangeKind, ClusterSpec};
use super::tap::Tap;
use super::wakes::Wakes;
use crate::cost::jitter::Jitter;
use crate::engine::lmcache::{self, LmcacheConfig};
use crate::engine::sglang::{RecordedPass, SglangRecord};
use crate::engine::{Acceptance, Engine, Handle, Outlook, Refusal, ScheduleRecord};
use crate::facts::{Completion, Observer};
use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::Request;

mod open;
mod requests;
mod scaling;

/// A request's place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(super) replica: usize,
    pub(super) handle: Handle,
}

/// Engines behind a router, or one engine alone, which then is all there is to visit.
pub(crate) struct Cluster {
    engines: Vec<Engine>,
    /// `None` for one engine that is always up.
    routing: Option<Routing>,
}

/// What several engines need.
struct Routing {
    lanes: Vec<Lane>,
    /// The lane of each replica, and its index there.
    places: Vec<(usize, usize)>,
    wakes: Wakes,
    lives: Lives,
    scalers: Vec<Scaler>,
    first_tokens: Vec<RequestId>,
    /// An engine that was visited goes round in circles.
    has_livelock: bool,
    /// Tokens whose KV was evicted by replicas before they failed or were given back.
    evicted_before: u64,
}

impl Cluster {
    /// One engine that is always up.
    pub(crate) fn single(engine: Engine) -> Cluster {
        Cluster {
            engines: vec![engine],
            routing: None,
        }
    }

    /// The engines of `spec`, all of them up at first but those whose first change is to come up.
    pub(crate) fn new(
        mut engines: Vec<Engine>,
        spec: &ClusterSpec,
        block_sizes: &[u32],
        seed: u64,
    ) -> Cluster {
        assert!(
            engines.len() == spec.replicas as usize && !engines.is_empty(),
            "a cluster has the engines it says"
        );
        let is_simple = engines.len() == 1
            && spec.changes.is_empty()
            && spec.outages.is_none()
            && spec.scalers.is_empty();
        if is_simple {
            return Cluster {
                engines,
                routing: None,
            };
        }
        for group in &spec.groups {
            if let Some(latency) = group.policy.event_latency() {
                let members = group.members.iter();
                members.for_each(|&member| engines[member as usize].delay_events(latency));
            }
            if let Some(interval) = group.policy.publish_interval() {
                let members = group.members.iter();
                members.for_each(|&member| engines[member as usize].publish_loads(interval));
            }
        }
        let routing = Some(Routing::new(spec, block_sizes, seed));
        Cluster { engines, routing }
    }

    /// The engines, the one router in front of them, and their lives, which are one.
    pub(super) fn into_ranks(self) -> (Vec<Engine>, Lane, Lives) {
        let Routing {
            mut lanes,
            lives,
            scalers,
            ..
        } = self.routing.expect("there are several ranks");
        assert!(lanes.len() == 1, "the ranks of a server share one balancer");
        assert!(
            lives.next_change().is_none() && scalers.is_empty(),
            "the ranks of a server do not come and go"
        );
        (self.engines, lanes.remove(0), lives)
    }

    /// Who gets a request that is sent at `now`; `None` if no replica is up.
    #[inline]
    pub(crate) fn route<O: Observer>(
        &mut self,
        now: Picos,
        request: &Request,
        observer: &mut O,
    ) -> Option<usize> {
        match &mut self.routing {
            None => Some(0),
            Some(routing) => routing.route(&mut self.engines, now, request, observer),
        }
    }

    /// A request that was routed to `replica` reaches its engine at `entry`.
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        replica: usize,
        entry: Picos,
        request: &mut Request,
    ) -> Result<Ticket, Refusal> {
        let engine = &mut self.engines[replica];
        match &mut self.routing {
            None => engine
                .offer(entry, request)
                .map(|handle| Ticket { replica, handle }),
            Some(routing) => routing.offer(engine, replica, entry, request),
        }
    }

    /// Goes on to `horizon`, or until a request has left: see [`Engine::run`].
    #[inline]
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        match &mut self.routing {
            None => self.engines[0].run(horizon, observer, ended),
            Some(routing) => routing.run(&mut self.engines, horizon, observer, ended),
        }
    }

    /// The passes of loops that are due at `now`.
    #[inline]
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        match &mut self.routing {
            None => self.engines[0].pass_at(now, observer, ended),
            Some(routing) => routing.pass_at(&mut self.engines, now, observer, ended),
        }
    }

    /// Routers stand before it.
    #[inline]
    pub(crate) fn is_routed(&self) -> bool {
        self.routing.is_some()
    }

    /// Whether nothing will happen without anything from outside.
    pub(crate) fn is_idle(&self) -> bool {
        self.engines.iter().all(|engine| engine.next().is_none())
    }

    /// Requests inside.
    pub(crate) fn inside(&self) -> usize {
        self.engines.iter().map(Engine::inside).sum()
    }

    /// Some engine goes round in circles.
    #[inline]
    pub(crate) fn is_livelocked(&self) -> bool {
        match &self.routing {
            None => self.engines[0].is_livelocked(),
            Some(routing) => routing.has_livelock,
        }
    }

    /// Some engine has requests that wait for each other's blocks, or goes round in circles, and nothing will happen on it.
    pub(crate) fn is_stuck(&self) -> bool {
        let is_stuck = |engine: &Engine| engine.is_stuck() || engine.is_livelocked();
        self.engines.iter().any(is_stuck)
    }

    /// The client of a request gave up.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        ticket: Ticket,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let engine = &mut self.engines[ticket.replica];
        if self.routing.is_some() {
            settle(engine, now, observer);
        }
        let completion = engine.abort(ticket.handle, now, observer);
        if let Some(routing) = &mut self.routing {
            routing.wakes.set(ticket.replica, engine.wake());
        }
        completion
    }

    /// A client has its answer, whatever it is.
    #[inline]
    pub(crate) fn answered(&mut self, completion: &Completion) {
        if let Some(routing) = &mut self.routing {
            routing.answered(completion);
        }
    }

    /// Whether no router counts anybody any more.
    pub(crate) fn is_settled(&self) -> bool {
        let routing = self.routing.iter();
        let mut lanes = routing.flat_map(|routing| &routing.lanes);
        lanes.all(|lane| lane.dispatch.is_settled())
    }

    /// When something next happens to a replica, rather than on it.
    #[inline]
    pub(crate) fn next_change(&self) -> Option<Picos> {
        self.routing.as_ref().and_then(Routing::next_change)
    }

    /// What happens to replicas at `now`. Everything before has been run.
    pub(crate) fn change<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if let Some(routing) = &mut self.routing {
            routing.change(&mut self.engines, now, observer, ended);
        }
    }

    /// Everything that has happened up to `now` is told.
    pub(crate) fn tell<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        for replica in 0..self.engines.len() {
            self.tell_of(replica, now, observer);
        }
    }

    /// What has happened on one replica up to `now` and is not told yet.
    #[inline]
    pub(crate) fn outlook<O: Observer>(
        &mut self,
        replica: usize,
        now: Picos,
        observer: &mut O,
    ) -> Option<Outlook> {
        self.settled(replica, now, observer).outlook()
    }

    /// Everything that has happened on one replica up to `now` is told.
    #[inline]
    pub(crate) fn tell_of<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) {
        self.settled(replica, now, observer).tell(observer);
    }

    /// A replica that has gone on to `now`.
    #[inline]
    fn settled<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) -> &mut Engine {
        let engine = &mut self.engines[replica];
        // Whoever has something to do at this very instant is there already.
        if self.routing.is_some() && engine.wake().is_some_and(|wake| wake.at != now) {
            settle(engine, now, observer);
        }
        engine
    }

    /// Usable KV blocks of each replica.
    pub(crate) fn total_blocks(&self) -> impl Iterator<Item = u32> {
        self.engines.iter().map(Engine::total_blocks)
    }

    /// What the replicas cost until `now`, and what came of the orders to them.
    pub(crate) fn payroll(&self, now: Picos) -> Payroll {
        match &self.routing {
            None => Payroll {
                paid: vec![now; self.engines.len()],
                ..Payroll::default()
            },
            Some(routing) => routing.lives.payroll(now),
        }
    }

    /// When replicas began or ceased to serve, in order of time: one more, or one fewer.
    pub(crate) fn service(&self) -> &[(Picos, i32)] {
        self.routing
            .as_ref()
            .map_or(&[], |routing| routing.lives.service())
    }

    /// Gives every engine tiers of KV beside its GPUs.
    pub(crate) fn add_tiers(&mut self, config: &LmcacheConfig) {
        lmcache::connect(&mut self.engines, config);
    }

    /// Tokens whose cached KV was evicted, all replicas together.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        let before = self.routing.as_ref().map_or(0, |routing| routing.evicted_before);
        before + self.engines.iter().map(Engine::evicted_tokens).sum::<u64>()
    }

    /// Says how many drafts stand where engines speculate.
    pub(crate) fn accept(&mut self, acceptance: impl Fn() -> Acceptance) {
        for engine in &mut self.engines {
            engine.accept(acceptance());
        }
    }

    /// Makes the steps of every engine scatter.
    pub(crate) fn disturb(&mut self, jitter: impl Fn(u64) -> Jitter) {
        for (engine, replica) in self.engines.iter_mut().zip(0..) {
            engine.disturb(jitter(replica));
        }
    }

    /// Keeps a record of every step of the first engine.
    pub(crate) fn keep_log(&mut self) {
        self.engines[0].keep_log();
    }

    /// The records kept so far.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        self.engines[0].take_log()
    }

    /// The records of an SGLang engine kept so far.
    pub(crate) fn take_sglang_log(&mut self) -> Vec<SglangRecord> {
        self.engines[0].take_sglang_log()
    }

    /// What chance decides in an SGLang engine is taken from these passes, one for each logged one.
    pub(crate) fn replay(&mut self, passes: Vec<RecordedPass>) {
        self.engines[0].replay(passes);
    }
}

impl Routing {
    fn new(spec: &ClusterSpec, block_sizes: &[u32], seed: u64) -> Routing {
        let replicas = spec.replicas as usize;
        let mut places = vec![(usize::MAX, 0); replicas];
        for (lane, group) in spec.groups.iter().enumerate() {
            for (index, &member) in group.members.iter().enumerate() {
                places[member as usize] = (lane, index);
            }
        }
        assert!(
            places.iter().all(|&(lane, _)| lane < spec.groups.len()),
            "every replica is in a group"
        );
        let lives = Lives::new(spec, seed);
        let lanes = spec.groups.iter().enumerate();
        let lanes = lanes.map(|(lane, group)| Lane::new(&lives, lane, group, block_sizes, seed));
        Routing {
            lanes: lanes.collect(),
            places,
            wakes: Wakes::new(replicas),
            lives,
            scalers: spec.scalers.iter().cloned().map(Scaler::new).collect(),
            first_tokens: Vec::new(),
            has_livelock: false,
            evicted_before: 0,
        }
    }

    #[inline]
    fn load(&mut self, replica: usize) -> &mut Load {
        let (lane, index) = self.places[replica];
        &mut self.lanes[lane].dispatch.loads[index]
    }

    /// Visits whoever wakes up first, until the horizon. An engine goes on alone as long as it stays the first.
    #[inline(never)]
    fn run<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let mut now = Picos::ZERO;
        while let Some((replica, wake)) = self.wakes.first() {
            if wake.at > horizon || (wake.at == horizon && wake.is_pass) {
                return now;
            }
            let engine = &mut engines[replica];
            self.has_livelock |= engine.is_livelocked();
            if self.has_livelock {
                return now;
            }
            let mut tap = Tap {
                observer,
                first_tokens: &mut self.first_tokens,
            };
            if wake.is_pass {
                engine.pass_at(wake.at, &mut tap, ended);
                now = now.max(wake.at);
            } else {
                let alone_until = horizon.min(self.wakes.second());
                now = now.max(engine.run(alone_until, &mut tap, ended));
            }
            self.has_livelock |= engine.is_livelocked();
            self.wakes.set(replica, engine.wake());
            self.hear_first_tokens(replica);
            if !ended.is_empty() {
                return now;
            }
        }
        now
    }

    fn hear_first_tokens(&mut self, replica: usize) {
        let dispatch = &mut self.lanes[self.places[replica].0].dispatch;
        dispatch.first_tokens(self.first_tokens.drain(..));
        self.first_tokens.clear();
    }

    #[inline(never)]
    fn pass_at<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        while let Some((replica, wake)) = self.wakes.first()
            && wake.is_pass
            && wake.at == now
        {
            engines[replica].pass_at(now, observer, ended);
            self.has_livelock |= engines[replica].is_livelocked();
            self.wakes.set(replica, engines[replica].wake());
        }
    }

    #[inline(never)]
    fn next_change(&self) -> Option<Picos> {
        let change = self.lives.next_change();
        let reports = self.lanes.iter().filter_map(|lane| lane.next_report);
        let looks = self.scalers.iter().map(|scaler| scaler.next);
        reports.chain(change).chain(looks).min()
    }

    #[inline(never)]
    fn change<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        while let Some(turn) = self.lives.take_due(now) {
            let replica = turn.replica;
            if turn.kind == ChangeKind::Fail || turn.is_start() {
                let engine = &mut engines[replica];
                settle(engine, now, observer);
                self.evicted_before += engine.evicted_tokens();
                engine.fail(now, observer, ended);
                self.wakes.set(replica, engine.wake());
            }
            self.load(replica).is_up = self.lives.is_up(replica);
            if self.lives.stage(replica) == Stage::Draining {
                self.drains(replica, now);
            }
        }
        for lane in &mut self.lanes {
            if lane.next_report.is_some_and(|due| due <= now) {
                lane.hear_reports(engines, now, observer);
            }
        }
        for index in 0..self.scalers.len() {
            if self.scalers[index].next <= now {
                self.scale(engines, index, now, observer);
            }
        }
    }

    /// A replica takes no more requests, and is given back once it is empty.
    fn drains(&mut self, replica: usize, now: Picos) {
        let load = self.load(replica);
        load.is_up = false;
        if load.requests == 0 {
            self.lives.give_back(replica, now);
        }
    }
}
