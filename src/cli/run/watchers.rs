//! Who looks on while a run is simulated, beside whoever keeps its books.

use crate::cli::timeline::TimelineFile;
use crate::config::Resolved;
use crate::metrics::scraped::Scraped;
use crate::metrics::{LoadOverTime, Room, Waits};
use crate::report::film::Filming;
use crate::sim::{Fact, Observer};

/// Who looks on beside the recorder.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) waits: Option<Waits>,
    pub(super) over_time: Option<LoadOverTime>,
    pub(super) timeline: Option<TimelineFile>,
    pub(super) scraped: Option<Scraped>,
    pub(super) filming: Option<Filming>,
}

impl Watchers {
    /// Somebody does.
    pub(super) fn any(&self) -> bool {
        self.waits.is_some()
            || self.over_time.is_some()
            || self.timeline.is_some()
            || self.scraped.is_some()
            || self.filming.is_some()
    }
}

impl Observer for Watchers {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Some(waits) = &mut self.waits {
            waits.observe(fact);
        }
        if let Some(over_time) = &mut self.over_time {
            over_time.observe(fact);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.observe(fact);
        }
        if let Some(scraped) = &mut self.scraped {
            scraped.observe(fact);
        }
        if let Some(filming) = &mut self.filming {
            filming.observe(fact);
        }
    }
}

/// What a chart of pools, or of the replicas of one pool, is drawn from; one replica has the chart of the whole.
pub(super) fn over_time(resolved: &Resolved) -> Option<LoadOverTime> {
    let pools = &resolved.scenario.pools;
    if resolved.scenario.replicas() < 2 {
        return None;
    }
    let (mut rooms, mut groups) = (Vec::new(), Vec::new());
    for (index, pool) in (0..).zip(pools) {
        for _ in 0..pool.replicas {
            rooms.push(Room {
                kv_blocks: pool.engine.usable_blocks(),
                block_size: pool.engine.block_size(),
            });
            groups.push(if pools.len() > 1 {
                index
            } else {
                groups.len() as u32
            });
        }
    }
    Some(LoadOverTime::new(rooms, groups))
}
