//! A router and the replicas that it shares requests out between.

use super::lives::{Lives, OUTAGE_STREAM};
use super::router::{Load, Router};
use super::spec::{Group, Serves};
use crate::engine::Engine;
use crate::facts::Observer;
use crate::units::Picos;

/// A router and the replicas that it knows.
pub(super) struct Lane {
    pub(super) router: Box<dyn Router>,
    pub(super) members: Vec<usize>,
    pub(super) serves: Serves,
    /// One for each member.
    pub(super) loads: Vec<Load>,
    pub(super) next_report: Option<Picos>,
    /// Its router hears of what is stored and evicted, some time later.
    pub(super) hears_of_evictions: bool,
}

impl Lane {
    pub(super) fn new(lives: &Lives, lane: usize, group: &Group, block_sizes: &[u32], seed: u64) -> Lane {
        let members: Vec<usize> = group.members.iter().map(|&member| member as usize).collect();
        let sizes: Vec<u32> = members.iter().map(|&member| block_sizes[member]).collect();
        // The first router has had the stream 0 since before there were several.
        let entity = if lane == 0 { 0 } else { OUTAGE_STREAM + lane as u64 };
        let router = group.policy.router(&sizes, seed, entity);
        let load = |&member: &u32| Load {
            is_up: lives.is_up(member as usize),
            ..Load::default()
        };
        Lane {
            next_report: router.reports_every(),
            hears_of_evictions: group.policy.event_latency().is_some(),
            router,
            loads: group.members.iter().map(load).collect(),
            members,
            serves: group.serves.clone(),
        }
    }

    /// Every member says how full it is.
    pub(super) fn hear_reports<O: Observer>(&mut self, engines: &mut [Engine], now: Picos, observer: &mut O) {
        for (&member, load) in self.members.iter().zip(&mut self.loads) {
            let engine = &mut engines[member];
            settle(engine, now, observer);
            load.reported = engine.reported_state();
            load.sent_since_report = 0;
        }
        self.next_report = self
            .router
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
