//! A histogram as Prometheus has it: how many values lie at or below each of some fixed bounds, how many there are, and their sum.
//!
//! Values are integers (picoseconds, tokens), so what it holds does not depend on the order in which they come, nor on whether
//! they come one by one or as a progression.

use super::super::gaps::GapRun;
use crate::units::{PICOS_PER_SECOND, Picos};

/// Counts by bucket, and the sum of all values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Ascending.
    bounds: Vec<u64>,
    /// Values above the bound before and not above this one; those above all bounds come last.
    counts: Vec<u64>,
    sum: u128,
    /// Steps of a value in a unit that is told.
    per_unit: u64,
}

impl Histogram {
    /// Of times; the bounds are picoseconds, and seconds are told.
    pub(super) fn of_times(bounds: &[u64]) -> Histogram {
        Histogram::new(bounds, PICOS_PER_SECOND)
    }

    /// Of numbers.
    pub(super) fn of_numbers(bounds: &[u64]) -> Histogram {
        Histogram::new(bounds, 1)
    }

    fn new(bounds: &[u64], per_unit: u64) -> Histogram {
        Histogram {
            bounds: bounds.to_vec(),
            counts: vec![0; bounds.len() + 1],
            sum: 0,
            per_unit,
        }
    }

    /// Adds a value, `times` over.
    pub(super) fn add(&mut self, value: u64, times: u64) {
        let bucket = self.bucket_of(value);
        self.counts[bucket] += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    /// Adds a time.
    pub(super) fn add_time(&mut self, time: Picos) {
        self.add(time.0, 1);
    }

    /// Adds every gap of a run, `times` over: a division for each bucket that it reaches.
    pub(super) fn add_run(&mut self, run: &GapRun, times: u64) {
        let (first, increment) = (run.first.0, run.increment.0);
        let mut bucket = self.bucket_of(first);
        let mut done = 0;
        while done < run.count {
            let until = match self.bounds.get(bucket) {
                Some(bound) if increment > 0 => run.count.min((bound - first) / increment + 1),
                _ => run.count,
            };
            self.counts[bucket] += (until - done) * times;
            done = until;
            bucket += 1;
        }
        self.sum += run.sum() * u128::from(times);
    }

    fn bucket_of(&self, value: u64) -> usize {
        self.bounds.partition_point(|bound| *bound < value)
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values, in seconds if they are times.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum as f64 / self.per_unit as f64
    }

    /// Each bound, in seconds if values are times, and how many values do not exceed it. All values are [`Histogram::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut below = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            below += count;
            (*bound as f64 / self.per_unit as f64, below)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bound_is_in_its_bucket() {
        let mut histogram = Histogram::of_numbers(&[1, 8]);
        [0, 1, 2, 8, 9].iter().for_each(|value| histogram.add(*value, 1));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (8.0, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 20.0));
    }

    proptest! {
        #[test]
        fn a_run_is_its_gaps(first in 0u64..60, increment in 0u64..9, count in 0u64..40, times in 1u64..5) {
            let mut histogram = Histogram::of_times(&[7, 20, 21, 100]);
            let mut one_by_one = histogram.clone();
            let run = GapRun { first: Picos(first), increment: Picos(increment), count };
            histogram.add_run(&run, times);
            run.gaps().for_each(|gap| one_by_one.add(gap.0, times));
            prop_assert_eq!(histogram, one_by_one);
        }
    }
}
