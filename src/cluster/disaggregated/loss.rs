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
//! Laws: a request on a replica that fails ends, once; what a prefill replica holds is told as released, also where the
//! replica was lost with it.
//!
//! [`Lease`]: super::Lease

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp};
use rustc_hash::FxHashMap;

use super::run::{Disaggregated, Errand};
use super::tap::{DecodeTap, PrefillTap};
use super::{Disaggregation, Flow, Lease, LoadFailure};
use crate::cluster::spec::{ChangeKind, ClusterSpec, Outages};
use crate::facts::{Completion, Fact, Observer, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// Streams of draws, beside those of the routers.
const OUTAGE_STREAM: u64 = 1;
const TRANSFER_STREAM: u64 = 4;

/// What is known of losses.
pub(super) struct Losses {
    /// What will happen to replicas.
    changes: BinaryHeap<Reverse<(Picos, u32, ChangeKind)>>,
    outages: Option<(Outages, ChaCha8Rng)>,
    transfers: Option<(f64, ChaCha8Rng)>,
    /// Which replicas have not failed.
    pub(super) is_alive: Vec<bool>,
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
        let draws = |which| stream(seed, Purpose::Routing, which);
        let changes = cluster.changes.iter();
        let mut losses = Losses {
            changes: changes
                .map(|change| Reverse((change.at, change.replica, change.kind)))
                .collect(),
            outages: cluster.outages.map(|outages| (outages, draws(OUTAGE_STREAM))),
            transfers: (spec.transfer_failure_rate > 0.0)
                .then(|| (spec.transfer_failure_rate, draws(TRANSFER_STREAM))),
            is_alive: vec![true; (spec.prefill + spec.decode) as usize],
            acquainted: FxHashMap::default(),
            orphans: BTreeMap::new(),
            orphaned: 0,
        };
        for replica in 0..spec.prefill + spec.decode {
            losses.plan_outage(Picos::ZERO, replica, ChangeKind::Fail);
        }
        losses
    }

    /// Draws when a replica fails next, or comes back, if replicas fail at random.
    fn plan_outage(&mut self, now: Picos, replica: u32, what: ChangeKind) {
        let Some((outages, rng)) = &mut self.outages else {
            return;
        };
        let mean_s = match what {
            ChangeKind::Fail => outages.mean_up_s,
            _ => outages.mean_down_s,
        };
        let law = Exp::new(1.0 / mean_s).expect("the mean of a time is positive");
        if let Some(at) = now.checked_add(Picos::from_seconds(law.sample(rng))) {
            self.changes.push(Reverse((at, replica, what)));
        }
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
    /// A replica takes new requests, or does not.
    pub(super) fn set_up(&mut self, replica: usize, is_up: bool) {
        if replica < self.spec.prefill as usize {
            self.prefill.set_up(replica, is_up);
        } else {
            self.decode.set_up(replica, is_up);
        }
    }

    /// When something next happens to a replica.
    pub(crate) fn next_change(&self) -> Option<Picos> {
        self.losses.changes.peek().map(|&Reverse((at, ..))| at)
    }

    /// What happens to replicas at `now`. Everything before has been run.
    pub(crate) fn change<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        while let Some(&Reverse((at, replica, what))) = self.losses.changes.peek()
            && at <= now
        {
            self.losses.changes.pop();
            let index = replica as usize;
            match what {
                ChangeKind::Up => {
                    self.losses.is_alive[index] = true;
                    self.desk.returns(index);
                    self.set_up(index, true);
                    self.losses.plan_outage(now, replica, ChangeKind::Fail);
                }
                ChangeKind::Drain => self.set_up(index, false),
                ChangeKind::Fail => {
                    self.fail(index, now, observer, ended);
                    self.losses.plan_outage(now, replica, ChangeKind::Up);
                }
            }
        }
    }

    fn fail<O: Observer>(
        &mut self,
        replica: usize,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        self.set_up(replica, false);
        self.settle(replica, now, observer);
        self.losses.is_alive[replica] = false;
        let mut parts = self.fail_engine(replica, now, observer);
        let others = |&(from, to): &(usize, usize), _: &mut Picos| from != replica && to != replica;
        self.losses.acquainted.retain(others);
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
