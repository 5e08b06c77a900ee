//! A router and the replicas that it shares requests out between.

use super::dispatch::Dispatch;
use super::lives::Lives;
use super::router::Load;
use super::spec::{Group, Serves};
use super::wakes::Wakes;
use crate::engine::Engine;
use crate::facts::Observer;
use crate::units::Picos;

/// A router and the replicas that it knows.
pub(super) struct Lane {
    pub(super) dispatch: Dispatch,
    pub(super) members: Vec<usize>,
    pub(super) serves: Serves,
    pub(super) next_report: Option<Picos>,
    /// How late its router hears of what is stored and evicted, if it does.
    event_latency: Option<Picos>,
    /// Up to when each member was last taken on for its router's sake.
    settled: Vec<Picos>,
}

impl Lane {
    pub(super) fn new(lives: &Lives, lane: usize, group: &Group, block_sizes: &[u32], seed: u64) -> Lane {
        let members: Vec<usize> = group.members.iter().map(|&member| member as usize).collect();
        let sizes: Vec<u32> = members.iter().map(|&member| block_sizes[member]).collect();
        // The first router has had the stream 0 since before there were several; 1 was not a router's then.
        let entity = if lane == 0 { 0 } else { 1 + lane as u64 };
        let router = group.policy.router(&sizes, seed, entity);
        let load = |&member: &u32| Load {
            is_up: lives.is_up(member as usize),
            ..Load::default()
        };
        Lane {
            next_report: router.reports_every(),
            event_latency: group.policy.event_latency(),
            settled: vec![Picos::ZERO; members.len()],
            dispatch: Dispatch::new(router, group.members.iter().map(load).collect()),
            members,
            serves: group.serves.clone(),
        }
    }

    /// Lets members evict until `now` what their router may have heard of by then: decoding alone evicts. Whatever one does
    /// after it was last taken on is heard of a latency later, so that nobody is taken on more often than once in that time.
    pub(super) fn hear_evictions<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        wakes: &Wakes,
        now: Picos,
        observer: &mut O,
    ) {
        let Some(latency) = self.event_latency else {
            return;
        };
        for (&member, settled) in self.members.iter().zip(&mut self.settled) {
            let is_heard = *settled + latency < now;
            if is_heard && wakes.of(member).is_some_and(|wake| wake > now) {
                settle(&mut engines[member], now, observer);
                *settled = now;
            }
        }
    }

    /// The router reads what members have written of their load, if it does so before it routes a request at `now`.
    pub(super) fn read_snapshots<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        wakes: &Wakes,
        now: Picos,
        observer: &mut O,
    ) {
        if !self.dispatch.reads_snapshots(now) {
            return;
        }
        for (&member, load) in self.members.iter().zip(&mut self.dispatch.loads) {
            if wakes.of(member).is_some_and(|wake| wake > now) {
                settle(&mut engines[member], now, observer);
            }
            load.snapshot = engines[member].load_snapshot(now);
        }
    }

    /// Every member says how full it is.
    pub(super) fn hear_reports<O: Observer>(&mut self, engines: &mut [Engine], now: Picos, observer: &mut O) {
        for (index, &member) in self.members.iter().enumerate() {
            let engine = &mut engines[member];
            settle(engine, now, observer);
            self.dispatch.hear(index, engine, now);
        }
        self.dispatch.has_heard();
        self.next_report = self
            .dispatch
            .reports_every()
            .and_then(|every| now.checked_add(every));
    }
}

/// Takes an engine on to `now`, before which nothing happens that others notice.
pub(super) fn settle<O: Observer>(engine: &mut Engine, now: Picos, observer: &mut O) {
    let mut ended = Vec::new();
    engine.run(now, observer, &mut ended);
    assert!(ended.is_empty(), "an engine wakes up for every end");
}
