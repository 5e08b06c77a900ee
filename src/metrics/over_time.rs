//! How full each group of replicas is over time: what charts of pools and replicas are drawn from.
//!
//! An observer beside the recorder, for whoever asks for pictures. Whoever runs counts from the instant at which it is let in to
//! the one at which it leaves. Every step counts with its duration, as it found the queue and with the blocks that are in use
//! while it runs; between steps a group has neither. Whoever waits for the end of a step only is not in the queue that a step
//! finds: the wait of each request that is let in counts, too, and of the two the larger holds, because those who never are let
//! in are in the queue that steps find. The blocks of a leap are those of its middle. At most
//! [`BINS_MAX`] equal intervals are kept; neighbours merge as the run grows. A fact costs O(bins that it lies in).

use std::collections::BTreeMap;

use super::Room;
use crate::facts::{Fact, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::units::{PICOS_PER_SECOND, Picos};

/// Intervals kept at most.
const BINS_MAX: usize = 256;
/// Width of an interval at first.
const WIDTH_FIRST: u64 = PICOS_PER_SECOND / 100;

/// What is added up, times its time: running sequences, waiting ones and used KV blocks as steps find them, the waits of those who
/// were let in, and of these what they waited for their KV to cross.
type Sums = [u128; 5];

/// The observer.
#[derive(Clone, Debug)]
pub struct LoadOverTime {
    rooms: Vec<Room>,
    /// The group of each replica.
    groups: Vec<u32>,
    width: u64,
    /// Bins of each group, equally many.
    bins: Vec<Vec<Sums>>,
    /// Who runs: in which group, since when.
    running: BTreeMap<RequestId, (usize, Picos)>,
}

/// A group's state in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Middle of the interval, in seconds.
    pub t_s: f64,
    /// Running sequences, on average.
    pub running: f64,
    /// Waiting sequences, on average.
    pub waiting: f64,
    /// Share of the group's KV blocks in use.
    pub kv_usage: f64,
}

impl LoadOverTime {
    /// Of replicas with these pools of blocks, in these groups, which are numbered from 0.
    #[must_use]
    pub fn new(rooms: Vec<Room>, groups: Vec<u32>) -> LoadOverTime {
        let count = groups.iter().max().map_or(0, |last| *last as usize + 1);
        LoadOverTime {
            rooms,
            groups,
            width: WIDTH_FIRST,
            bins: vec![vec![Sums::default()]; count],
            running: BTreeMap::new(),
        }
    }

    fn group(&self, replica: ReplicaId) -> usize {
        self.groups[replica.0 as usize] as usize
    }

    /// `levels` hold from `begin` to `end`.
    fn hold(&mut self, group: usize, begin: u64, end: u64, levels: [u64; 5]) {
        while end / self.width >= BINS_MAX as u64 {
            self.merge();
        }
        let bins = &mut self.bins[group];
        let last = (end / self.width) as usize;
        if bins.len() <= last {
            bins.resize(last + 1, Sums::default());
        }
        let mut from = begin;
        while from < end {
            let bin = from / self.width;
            let until = ((bin + 1) * self.width).min(end);
            for (sum, level) in bins[bin as usize].iter_mut().zip(levels) {
                *sum += u128::from(level) * u128::from(until - from);
            }
            from = until;
        }
    }

    fn no_longer_runs(&mut self, id: RequestId, now: Picos) {
        if let Some((group, since)) = self.running.remove(&id) {
            self.hold(group, since.0, now.0, [1, 0, 0, 0, 0]);
        }
    }

    fn merge(&mut self) {
        for bins in &mut self.bins {
            let pair = |pair: &[Sums]| {
                let second = pair.get(1).copied().unwrap_or_default();
                std::array::from_fn(|at| pair[0][at] + second[at])
            };
            *bins = bins.chunks(2).map(pair).collect();
        }
        self.width *= 2;
    }

    /// The points of each group up to `end`.
    #[must_use]
    pub fn finish(&self, end: Picos) -> Vec<Vec<LoadPoint>> {
        if !self.running.is_empty() {
            let mut until_now = self.clone();
            for id in self.running.keys() {
                until_now.no_longer_runs(*id, end);
            }
            return until_now.finish(end);
        }
        let blocks = |group: u32| {
            let rooms = self.rooms.iter().zip(&self.groups);
            let own = rooms.filter(|(_, of)| **of == group);
            own.map(|(room, _)| u64::from(room.kv_blocks)).sum::<u64>()
        };
        let intervals = (end.0.div_ceil(self.width)).clamp(1, BINS_MAX as u64);
        let points = |(group, bins): (u32, &Vec<Sums>)| {
            let blocks = blocks(group).max(1) as f64;
            let point = |index: u64| {
                let begin = index * self.width;
                let span = (self.width.min(end.0.saturating_sub(begin)).max(1)) as f64;
                let sums = bins.get(index as usize).copied().unwrap_or_default();
                let [running, found, used, waited, crossed] = sums.map(|sum| sum as f64 / span);
                let waiting = found.max(waited - crossed);
                LoadPoint {
                    t_s: Picos(begin).seconds() + span / 2.0 / PICOS_PER_SECOND as f64,
                    running,
                    waiting,
                    // The last step may reach past the end of the run.
                    kv_usage: (used / blocks).min(1.0),
                }
            };
            (0..intervals).map(point).collect()
        };
        (0..).zip(&self.bins).map(points).collect()
    }
}

impl Observer for LoadOverTime {
    fn observe(&mut self, fact: &Fact<'_>) {
        let steps = match *fact {
            Fact::Steps(steps) => steps,
            Fact::Admitted {
                now,
                replica,
                id,
                queued_since,
                ..
            } => {
                let group = self.group(replica);
                self.running.insert(id, (group, now));
                return self.hold(group, queued_since.0, now.0, [0, 0, 0, 1, 0]);
            }
            Fact::Preempted { now, id, .. }
            | Fact::HandedOver { now, id, .. }
            | Fact::Leaving { now, id } => return self.no_longer_runs(id, now),
            Fact::Returned(story) | Fact::Ended(story) => {
                return self.no_longer_runs(story.id, story.end);
            }
            Fact::Crossed { now, to, since, .. } => {
                return self.hold(self.group(to), since.0, now.0, [0, 0, 0, 0, 1]);
            }
            _ => return,
        };
        let replica = steps.replica.0 as usize;
        let room = self.rooms[replica];
        let grown = u64::from(steps.kv_slots) * (steps.count - 1) / u64::from(2 * room.block_size);
        let used = u64::from(room.kv_blocks - steps.free_meanwhile) + grown;
        let levels = [0, u64::from(steps.waiting), used.min(room.kv_blocks.into()), 0, 0];
        self.hold(self.group(steps.replica), steps.begin.0, steps.end.0, levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::StepLoad;
    use crate::facts::Steps;
    use crate::ids::RequestId;

    #[test]
    fn who_waits_for_the_end_of_a_step_only_waits() {
        let room = Room {
            kv_blocks: 10,
            block_size: 16,
        };
        let mut seen = LoadOverTime::new(vec![room], vec![0]);
        let at = |thousandths: u64| Picos(thousandths * PICOS_PER_SECOND / 1000);
        // Half a second in the queue, 300 ms of which are its KV's way.
        seen.observe(&Fact::Crossed {
            now: at(500),
            to: ReplicaId(0),
            id: RequestId(1),
            since: at(200),
        });
        seen.observe(&Fact::Admitted {
            now: at(700),
            replica: ReplicaId(0),
            id: RequestId(1),
            waiting_since: at(100),
            queued_since: at(200),
            cached_tokens: 0,
            known_tokens: 16,
            resumed: false,
        });
        let points = seen.finish(at(1000)).remove(0);
        let waiting = points.iter().map(|point| point.waiting).sum::<f64>() / points.len() as f64;
        assert!((waiting - 0.2).abs() < 0.01, "{waiting}");
    }

    #[test]
    fn merging_intervals_keeps_what_they_hold() {
        let room = Room {
            kv_blocks: 10,
            block_size: 16,
        };
        let mut seen = LoadOverTime::new(vec![room; 3], vec![0, 1, 1]);
        let load = StepLoad::default();
        let second = PICOS_PER_SECOND;
        // Replica 2 runs 4 for every other of 40 s; replica 1 waits with 2 all the time.
        for at in 0..20 {
            for (replica, begin, end, running, waiting) in
                [(2, 2 * at, 2 * at + 1, 4, 0), (1, 2 * at, 2 * at + 2, 0, 2)]
            {
                let (now, end) = (Picos(begin * second), Picos(end * second));
                for id in (0..running.into()).map(RequestId) {
                    seen.observe(&Fact::Admitted {
                        now,
                        replica: ReplicaId(replica),
                        id,
                        waiting_since: now,
                        queued_since: now,
                        cached_tokens: 0,
                        known_tokens: 16,
                        resumed: false,
                    });
                    // The last ones are still there when the run is over.
                    if at < 19 {
                        seen.observe(&Fact::Leaving { now: end, id });
                    }
                }
                seen.observe(&Fact::Steps(&Steps {
                    replica: ReplicaId(replica),
                    begin: now,
                    end,
                    count: 1,
                    duration: end - now,
                    duration_increment: Picos::ZERO,
                    gap_seqs: 0,
                    gap: Picos::ZERO,
                    handed: 0,
                    seen: None,
                    load: &load,
                    recomputed_tokens: 0,
                    running,
                    waiting,
                    free_blocks: 5,
                    free_meanwhile: 5,
                    kv_slots: load.decode_seqs,
                }));
            }
        }
        let points = seen.finish(Picos(40 * second));
        assert_eq!(points.len(), 2);
        assert!(points[0].iter().all(|point| point.running == 0.0));
        let width = 40.0 / points[1].len() as f64;
        let area = |of: fn(&LoadPoint) -> f64| points[1].iter().map(|point| of(point) * width).sum::<f64>();
        assert!(
            (area(|point| point.running) - 84.0).abs() < 0.5,
            "{}",
            area(|point| point.running)
        );
        assert!((area(|point| point.waiting) - 80.0).abs() < 0.5);
        // 5 of 20 blocks while replica 1 steps, as many again while replica 2 does.
        assert!((area(|point| point.kv_usage) - (40.0 * 0.25 + 20.0 * 0.25)).abs() < 0.2);
    }
}
