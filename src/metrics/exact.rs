//! Few distinct durations as they are, so that their quantiles are exact.
//!
//! A run of decode steps is kept as one progression until its terms are many. What is kept is a multiset: how its values came
//! in, one by one or as progressions, decides nothing.

use rustc_hash::FxHashMap;

use super::buckets::{Buckets, bucket_of};

/// Distinct values that are kept before buckets take over.
pub(super) const DISTINCT_MAX: usize = 4096;
/// Terms of progressions, told apart or not, that are kept before they are counted.
const TERMS_MAX: usize = 4 * DISTINCT_MAX;

/// Values as they are: single ones, and progressions (first, step, terms), each with its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Exact {
    values: FxHashMap<u64, u64>,
    progressions: FxHashMap<(u64, u64, u64), u64>,
    /// Σ of the terms of the distinct progressions: with `values` an upper bound on the distinct values.
    terms: usize,
}

impl Exact {
    /// Adds a value so many times.
    #[inline]
    pub(super) fn add(&mut self, value: u64, times: u64) {
        *self.values.entry(value).or_insert(0) += times;
    }

    /// Whether the values are still few, counted truly once the bound on them is far off: how values were grouped
    /// into progressions must not decide when they are many.
    #[inline]
    pub(super) fn settle(&mut self) -> bool {
        if self.terms == 0 {
            return self.values.len() <= DISTINCT_MAX;
        }
        self.values.len() + self.terms <= TERMS_MAX || self.expand()
    }

    /// Turns progressions into values; `false` if there are too many.
    fn expand(&mut self) -> bool {
        if !self.are_few() {
            return false;
        }
        self.values = self.sorted().into_iter().collect();
        self.progressions.clear();
        self.terms = 0;
        true
    }

    /// Whether there are few distinct values.
    pub(super) fn are_few(&self) -> bool {
        let longest = self
            .progressions
            .keys()
            .map(|key| key.2 as usize)
            .max()
            .unwrap_or(0);
        self.values.len().max(longest) <= DISTINCT_MAX
            && (self.values.len() + self.terms <= DISTINCT_MAX || self.sorted().len() <= DISTINCT_MAX)
    }

    pub(super) fn in_buckets(&self) -> Buckets {
        let mut buckets = Buckets::new();
        let progressions: Vec<_> = self.progressions.iter().collect();
        for (&(first, step, terms), &times) in progressions {
            buckets.add_progression(first, step, terms, times);
        }
        let values: Vec<_> = self.values.iter().collect();
        for (&value, &times) in values {
            buckets.add(bucket_of(value), times);
        }
        buckets
    }

    pub(super) fn add_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        let count = self.progressions.entry((first, step, terms)).or_insert(0);
        if *count == 0 {
            self.terms += terms as usize;
        }
        *count += times;
    }

    pub(super) fn merge(&mut self, other: &Exact) {
        let values: Vec<_> = other.values.iter().collect();
        for (&value, &times) in values {
            self.add(value, times);
        }
        let progressions: Vec<_> = other.progressions.iter().collect();
        for (&(first, step, terms), &times) in progressions {
            self.add_progression(first, step, terms, times);
        }
    }

    /// (value, count), ascending, each value once.
    pub(super) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut pairs: Vec<(u64, u64)> = self
            .values
            .iter()
            .map(|(&value, &times)| (value, times))
            .collect();
        pairs.extend(
            self.progressions
                .iter()
                .flat_map(|(&(first, step, terms), &times)| {
                    (0..terms).map(move |i| (first + step * i, times))
                }),
        );
        pairs.sort_unstable();
        pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        pairs
    }
}
