//! Sequential batches of requests in order of leaving, at most [`BATCHES_MAX`], whose size doubles.
//!
//! Batches serve two ends: a warm-up found afterwards can be cut at a batch's edge, and means of batches that are
//! long against the system's memory are nearly independent, which is where intervals come from.

use super::distribution::Distribution;
use super::packed::Packed;
use super::stretch::Stretch;

/// Batches kept at most; there are at least half as many once a run is long.
const BATCHES_MAX: usize = 64;
/// Requests of a batch at first.
const SIZE_FIRST: u64 = 16;

/// The closed batches of a run.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    closed: Vec<Stretch>,
    size: u64,
    /// For each latency an upper bound on the distinct values of all closed batches; `None` once they are many.
    distinct: [Option<usize>; 6],
}

impl Batches {
    pub(super) fn new() -> Self {
        Batches {
            closed: Vec::with_capacity(BATCHES_MAX),
            size: SIZE_FIRST,
            distinct: [Some(0); 6],
        }
    }

    /// No batch is ever full.
    pub(super) fn never_closed() -> Self {
        Batches {
            size: u64::MAX,
            ..Batches::new()
        }
    }

    /// Requests that make a batch now.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn closed(&self) -> &[Stretch] {
        &self.closed
    }

    pub(super) fn into_closed(self) -> Vec<Stretch> {
        self.closed
    }

    /// Adds a batch, and readies `open` for the next: a latency with many values goes straight to buckets.
    pub(super) fn push(&mut self, batch: Stretch, open: &mut [Distribution; 6]) {
        self.closed.push(batch);
        for (metric, distribution) in open.iter_mut().enumerate() {
            if self.has_become_many(metric) {
                *distribution = Distribution::bucketed();
            } else {
                distribution.clear();
            }
        }
        if self.closed.len() == BATCHES_MAX {
            self.closed = self.closed.chunks(2).filter_map(Stretch::joined).collect();
            self.size *= 2;
        }
    }

    /// Whether the values of a latency have become too many to keep one by one. The bound is replaced by the true number
    /// whenever it crosses twice the limit, and not at every batch that follows a true number near to it.
    fn has_become_many(&mut self, metric: usize) -> bool {
        let packed = |batch: &Stretch| batch.tally.latencies[metric].distinct();
        let Some(bound) = self.distinct[metric] else {
            return false;
        };
        let bound = bound + self.closed.last().map_or(0, packed);
        self.distinct[metric] = Some(bound);
        if bound <= 2 * super::exact::DISTINCT_MAX {
            return false;
        }
        let batches = self.closed.iter().map(|batch| &batch.tally.latencies[metric]);
        let union = Packed::union(&batches.collect::<Vec<_>>());
        self.distinct[metric] = union.is_exact().then_some(union.distinct());
        !union.is_exact()
    }
}
