//! Replicas that fail and come back, and transfers that fail: what becomes of requests between two replicas.
//!
//! * NIXL. Who waits, is prefilled or decodes on a replica that fails, fails with it. KV that was not read is lost with its
//!   prefill replica: whoever reads it, or is about to, finds nothing, and `kv_load_failure_policy` says what follows
//!   (PD-16). KV of which the reader is lost stays on the prefill replica until its lease ends (PD-8, [`Lease`]), as does KV
//!   of which a transfer failed. The proxy fails a request for which no decode replica is up when its prefill is over, or
//!   whose decode replica has failed by the time that it is sent on.
//! * P2P NCCL. KV that was pushed outlives its prefill replica. What was pushed to a decode replica is lost with it; a
//!   request that comes to it when it is up again is computed there. A send to a dead peer takes the time of a send to a
//!   living one, which is an assumption.
//! * SGLang. A request whose prefill or decode server fails before its KV is there fails, and so does one whose transfer
//!   fails. The other server lets go of it at once: the router drops the connection to it. (Left to itself a decode server
//!   would find out by missing heartbeats.)
//!
//! What happens to a replica, and when, is that of [`Lives`], as in a fleet.
//!
//! Laws: a request on a replica that fails ends, once; what a prefill replica holds is told as released, also where the
//! replica was lost with it.
//!
//! [`Lease`]: super::Lease

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rustc_hash::FxHashMap;

use super::run::{Disaggregated, Errand};
use super::tap::{DecodeTap, PrefillTap};
use super::{Disaggregation, Flow, Lease, LoadFailure};
use crate::cluster::lives::{Lives, Payroll};
use crate::cluster::spec::{ChangeKind, ClusterSpec};
use crate::engine::Engine;
use crate::facts::{Completion, Fact, Observer, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// Stream of draws, beside those of the routers.
const TRANSFER_STREAM: u64 = 4;

/// What is known of losses.
pub(super) struct Losses {
    /// What happens to replicas.
    lives: Lives,
    transfers: Option<(f64, ChaCha8Rng)>,
    /// Tokens whose KV was evicted by replicas before they failed or were given back.
    evicted_before: u64,
    /// When a prefill and a decode replica know each other.
    acquainted: FxHashMap<(usize, usize), Picos>,
    orphans: BTreeMap<u64, Orphan>,
    orphaned: u64,
}

/// KV on a prefill replica that nobody will read.
#[derive(Debug)]
struct Orphan {
    replica: usize,
    since: Picos,
    blocks: u32,
}

impl Losses {
    pub(super) fn new(cluster: &ClusterSpec, spec: &Disaggregation, seed: u64) -> Losses {
        let draws = || stream(seed, Purpose::Routing, TRANSFER_STREAM);
        let rate = spec.transfer_failure_rate;
        Losses {
            lives: Lives::new(cluster, seed),
            transfers: (rate > 0.0).then(|| (rate, draws())),
            evicted_before: 0,
            acquainted: FxHashMap::default(),
            orphans: BTreeMap::new(),
            orphaned: 0,
        }
    }

    /// Whether a replica works on requests, old or new.
    pub(super) fn is_alive(&self, replica: usize) -> bool {
        self.lives.is_alive(replica)
    }

    /// Nobody knows a replica any more.
    fn forget_contacts(&mut self, replica: usize) {
        self.acquainted
            .retain(|&(from, to), _| from != replica && to != replica);
    }

    /// Whether a transfer that is over has failed.
    fn draws_failure(&mut self) -> bool {
        match &mut self.transfers {
            None => false,
            Some((rate, rng)) => rng.random::<f64>() < *rate,
        }
    }
}

/// The name under which the blocks of an orphan are held back: no request has one so high.
fn alias(orphan: u64) -> RequestId {
    RequestId(u64::MAX - orphan)
}

impl Disaggregated {
    /// Whether a replica takes new requests is told to its router.
    pub(super) fn set_up(&mut self, replica: usize) {
        let is_up = self.losses.lives.is_up(replica);
        if replica < self.spec.prefill as usize {
            self.prefill.set_up(replica, is_up);
        } else {
            self.decode.set_up(replica, is_up);
        }
    }

    /// When something next happens to a replica.
    pub(crate) fn next_change(&self) -> Option<Picos> {
        self.losses.lives.next_change()
    }

    /// What happens to replicas at `now`. Everything before has been run.
    pub(crate) fn change<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        while let Some(turn) = self.losses.lives.take_due(now) {
            self.set_up(turn.replica);
            match turn.kind {
                ChangeKind::Fail => self.fail(turn.replica, now, observer, ended),
                _ if turn.is_start() => self.start(turn.replica, now, observer),
                _ => {}
            }
            if turn.kind == ChangeKind::Up {
                self.desk.returns(turn.replica);
            }
            self.give_back_empty(now);
        }
    }

    /// A replica that had been given back comes up: a new process, which knows nothing and nobody.
    fn start<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) {
        self.settle(replica, now, observer);
        let left = self.fail_engine(replica, now, observer);
        assert!(left.is_empty(), "nobody is on a replica that is off");
        self.losses.forget_contacts(replica);
        self.wake(replica);
    }

    /// Replicas that drain and have nothing left to do are given back: nobody is inside, nobody is on the way to them or
    /// reads from them, and no lease of what they hold lasts.
    pub(super) fn give_back_empty(&mut self, now: Picos) {
        // Hardly ever does any drain.
        let mut nth = 0;
        while let Some(&replica) = self.losses.lives.draining().get(nth) {
            let engine = &self.engines[replica];
            if engine.inside() == 0 && !engine.holds_back() && self.flights.bound_for(replica) == 0 {
                self.losses.lives.give_back(replica, now);
            } else {
                nth += 1;
            }
        }
    }

    /// What the replicas cost until `now`, and what came of the orders to them.
    pub(crate) fn payroll(&self, now: Picos) -> Payroll {
        self.losses.lives.payroll(now)
    }

    /// When replicas began or ceased to serve, in order of time: one more, or one fewer.
    pub(crate) fn service(&self) -> &[(Picos, i32)] {
        self.losses.lives.service()
    }

    /// Tokens whose cached KV was evicted, on all replicas.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        let now: u64 = self.engines.iter().map(Engine::evicted_tokens).sum();
        self.losses.evicted_before + now
    }

    fn fail<O: Observer>(
        &mut self,
        replica: usize,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        self.settle(replica, now, observer);
        let mut parts = self.fail_engine(replica, now, observer);
        self.losses.forget_contacts(replica);
        let is_prefill = replica < self.spec.prefill as usize;
        let here = self.flights.values().filter(|flight| match is_prefill {
            true => flight.prefill == replica,
            false => flight.decode == Some(replica),
        });
        let mut here: Vec<RequestId> = here.map(|flight| flight.request.id).collect();
        here.sort_unstable();
        for id in here {
            let part = parts.remove(&id);
            let story = match (self.spec.flow, is_prefill) {
                (Flow::Sglang, _) => self.lose_pair(id, part, Some(replica), now, observer),
                (_, true) => self.lose_prefill(id, now, observer, ended),
                (_, false) => self.lose_decode(id, part, now),
            };
            ended.extend(story);
        }
        self.forget_orphans(replica, now, observer);
        self.wake(replica);
    }

    /// The engine starts anew; what it says of those who were inside.
    fn fail_engine<O: Observer>(
        &mut self,
        replica: usize,
        now: Picos,
        observer: &mut O,
    ) -> FxHashMap<RequestId, Completion> {
        let mut left = Vec::new();
        let (engine, flights) = (&mut self.engines[replica], &mut self.flights);
        self.losses.evicted_before += engine.evicted_tokens();
        if replica < self.spec.prefill as usize {
            engine.fail(now, &mut PrefillTap { observer, flights }, &mut left);
        } else {
            let first_tokens = &mut self.first_tokens;
            let mut tap = DecodeTap {
                observer,
                flights,
                first_tokens,
            };
            engine.fail(now, &mut tap, &mut left);
        }
        left.into_iter().map(|part| (part.id, part)).collect()
    }

    /// The story of a request that is lost, of which the decode replica perhaps tells its part.
    fn story_of_loss(&self, id: RequestId, part: Option<Completion>, now: Picos) -> Completion {
        self.flights[&id].end_with(part, now, Outcome::Failed)
    }

    /// The prefill replica of a request of vLLM's has failed.
    fn lose_prefill<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Option<Completion> {
        let flight = &self.flights[&id];
        if flight.times.prefilled.is_none() {
            let story = self.story_of_loss(id, None, now);
            self.desk.forget(id);
            self.flights.remove(&id);
            return Some(story);
        }
        let is_held = flight.times.arrived.is_none() && !flight.is_source_lost;
        if self.spec.flow == Flow::Nixl && is_held {
            self.lose_source(id, now, observer);
            if self.links.cancel(now, id) {
                self.load_failed(id, now, observer, ended);
            }
        }
        None
    }

    /// The decode replica of a request of vLLM's has failed. Whoever is still to be sent there finds out then.
    fn lose_decode(&mut self, id: RequestId, part: Option<Completion>, now: Picos) -> Option<Completion> {
        let flight = &self.flights[&id];
        if flight.at_decode.is_none() && !flight.is_abandoned {
            return None;
        }
        let story = (!flight.is_abandoned).then(|| self.story_of_loss(id, part, now));
        self.links.cancel(now, id);
        self.orphan(id, now);
        self.desk.forget(id);
        self.flights.remove(&id);
        story
    }

    /// A request of SGLang's loses its prefill server or its decode server, or its transfer has failed.
    fn lose_pair<O: Observer>(
        &mut self,
        id: RequestId,
        part: Option<Completion>,
        failed: Option<usize>,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        let flight = &self.flights[&id];
        let (prefill, decode) = (flight.prefill, flight.decode());
        if failed == Some(prefill) && flight.times.arrived.is_some() {
            // Nothing of it is there any more.
            return None;
        }
        for other in [prefill, decode] {
            if failed != Some(other) {
                self.settle(other, now, observer);
            }
        }
        self.links.cancel(now, id);
        let flight = self.flights.get_mut(&id).expect("settling ends nobody");
        let (is_prefilled, is_arrived) = (flight.times.prefilled.is_some(), flight.times.arrived.is_some());
        let at_prefill = flight.at_prefill.filter(|_| is_prefilled);
        if is_prefilled && !is_arrived {
            self.tell_release(id, now, observer);
        }
        if failed != Some(prefill) && !is_arrived {
            match at_prefill {
                Some(handle) => self.engines[prefill].transferred(handle, now),
                None => drop(self.abort_prefill(id, now, observer)),
            }
            self.wake(prefill);
        }
        let part = match failed {
            Some(replica) if replica == decode => part,
            _ => {
                let part = self.abort_decode(id, now, observer);
                self.wake(decode);
                part
            }
        };
        let is_abandoned = self.flights[&id].is_abandoned;
        let story = (!is_abandoned).then(|| self.story_of_loss(id, part, now));
        self.flights.remove(&id);
        story
    }

    /// The proxy sends a request on to a decode replica that is gone (vLLM).
    pub(super) fn find_no_decode(&mut self, id: RequestId, now: Picos) -> Completion {
        let story = self.story_of_loss(id, None, now);
        self.orphan(id, now);
        self.desk.forget(id);
        self.flights.remove(&id);
        story
    }

    /// A transfer that should be over has failed; `true` if so.
    pub(super) fn fails_transfer<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> bool {
        let has_failed = self.losses.draws_failure();
        match self.spec.flow {
            _ if !has_failed => {}
            Flow::Sglang => ended.extend(self.lose_pair(id, None, None, now, observer)),
            Flow::Nixl | Flow::P2pNccl => {
                self.orphan(id, now);
                self.load_failed(id, now, observer, ended);
            }
        }
        has_failed
    }

    /// A decode replica does not get the KV that it reads (NIXL, PD-16). It is told at once; the engine finds out in the
    /// next pass of its loop.
    pub(super) fn load_failed<O: Observer>(
        &mut self,
        id: RequestId,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let flight = self.flights.get_mut(&id).expect("a transfer keeps its request");
        flight.times.arrived = Some(now);
        let (decode, is_abandoned) = (flight.decode(), flight.is_abandoned);
        if is_abandoned {
            self.engines[decode].loaded(id, now);
            self.flights.remove(&id);
        } else if self.spec.on_load_failure == LoadFailure::Recompute {
            self.tell_crossed(id, now, observer);
            self.desk.find_unreadable(id);
            self.engines[decode].load_failed(id, now);
        } else {
            self.settle(decode, now, observer);
            ended.push(self.story_of_loss(id, None, now));
            self.abort_decode(id, now, observer);
            self.engines[decode].loaded(id, now);
            self.flights.remove(&id);
        }
        self.wake(decode);
    }

    /// When two replicas know each other: at once, or when their first contact is made (PD-13).
    pub(super) fn acquaint(&mut self, prefill: usize, decode: usize, now: Picos) -> Picos {
        let handshake = self.spec.handshake;
        if handshake == Picos::ZERO {
            return now;
        }
        let known = self.losses.acquainted.entry((prefill, decode));
        (*known.or_insert(now + handshake)).max(now)
    }

    /// A prefill is over at `now`, and its request reaches the decode replica at `forward`: how long its KV is kept (PD-8).
    pub(super) fn lend(&mut self, id: RequestId, now: Picos, forward: Picos) {
        let end = match self.spec.lease {
            Lease::Fixed(time) => now + time,
            // From `forward` on it is renewed.
            Lease::Renewed(time) if now + time <= forward => now + time,
            Lease::Renewed(_) => return,
        };
        if self.spec.flow == Flow::Nixl {
            self.plan(end, Errand::Lapse(id));
        }
    }

    /// The lease of a request's KV ends. A read that is under way goes on, as it does in the engine, whatever becomes of the
    /// blocks.
    pub(super) fn lapse<O: Observer>(&mut self, id: RequestId, now: Picos, observer: &mut O) {
        let flight = &self.flights[&id];
        let is_renewed = matches!(self.spec.lease, Lease::Renewed(_))
            && flight.times.known.is_some_and(|known| known <= now);
        if flight.times.reserved.is_none() && !flight.is_source_lost && !is_renewed {
            self.let_go_of_prefill(id, now);
            self.lose_source(id, now, observer);
        }
    }

    /// The prefill replica has nothing of a request any more.
    fn lose_source<O: Observer>(&mut self, id: RequestId, now: Picos, observer: &mut O) {
        self.tell_release(id, now, observer);
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        flight.is_source_lost = true;
    }

    /// Nobody will read what the prefill replica keeps of a request, if it does, and the decode replica says nothing of it
    /// any more.
    pub(super) fn orphan(&mut self, id: RequestId, now: Picos) {
        let flight = self.flights.get_mut(&id).expect("a request in flight is known");
        let Some(since) = flight.times.prefilled else {
            return;
        };
        let is_held = flight.times.arrived.is_none() && !flight.is_source_lost;
        if self.spec.flow != Flow::Nixl || !is_held {
            return;
        }
        flight.is_source_lost = true;
        let end = self.spec.lease.end(since, flight.times.known, now).max(now);
        let (replica, tokens) = (flight.prefill, flight.request.prompt_tokens);
        self.losses.orphaned += 1;
        let orphan = self.losses.orphaned;
        let engine = &mut self.engines[replica];
        engine.rename_held_back(id, alias(orphan));
        let blocks = tokens.div_ceil(engine.block_size());
        let what = Orphan {
            replica,
            since,
            blocks,
        };
        self.losses.orphans.insert(orphan, what);
        self.plan(end, Errand::LetGo(orphan));
    }

    /// The lease of an orphan ends.
    pub(super) fn let_go<O: Observer>(&mut self, orphan: u64, now: Picos, observer: &mut O) {
        let Some(what) = self.losses.orphans.remove(&orphan) else {
            return;
        };
        self.engines[what.replica].release_held_back(alias(orphan), now);
        tell_of_orphan(orphan, &what, now, observer);
        self.wake(what.replica);
    }

    /// A prefill replica has failed with its orphans.
    fn forget_orphans<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) {
        let orphans = &mut self.losses.orphans;
        for (orphan, what) in orphans.extract_if(.., |_, what| what.replica == replica) {
            tell_of_orphan(orphan, &what, now, observer);
        }
    }
}

fn tell_of_orphan<O: Observer>(orphan: u64, what: &Orphan, now: Picos, observer: &mut O) {
    observer.observe(&Fact::Released {
        now,
        replica: ReplicaId(what.replica as u32),
        id: alias(orphan),
        since: what.since,
        blocks: what.blocks,
    });
}
