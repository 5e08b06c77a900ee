//! Few distinct durations as they are, so that their quantiles are exact.
//!
//! What comes in is written down, and sorted only when it is asked for or has become much. A run of decode steps is kept
//! as one progression until its terms are many. What is kept is a multiset: how its values came in, one by one or as
//! progressions, decides nothing.

use super::buckets::{Buckets, bucket_of};

/// Distinct values that are kept before buckets take over.
pub(super) const DISTINCT_MAX: usize = 4096;
/// Values and terms of progressions, told apart or not, that are kept before they are counted.
const KEPT_MAX: usize = 4 * DISTINCT_MAX;

/// Values as they are: single ones, and progressions, each with its count.
#[derive(Clone, Debug, Default)]
pub(super) struct Exact {
    /// (value, count), in no order; a value may come several times.
    values: Vec<(u64, u64)>,
    progressions: Vec<Progression>,
    /// Σ of the terms of the progressions: with the number of `values` an upper bound on the distinct values.
    terms: usize,
}

/// `first`, `first + step`, …, each so many times.
#[derive(Clone, Copy, Debug)]
struct Progression {
    first: u64,
    step: u64,
    terms: u64,
    times: u64,
}

impl PartialEq for Exact {
    fn eq(&self, other: &Exact) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Exact {
    /// Adds a value so many times.
    #[inline]
    pub(super) fn add(&mut self, value: u64, times: u64) {
        match self.values.last_mut() {
            Some(last) if last.0 == value => last.1 += times,
            _ => self.values.push((value, times)),
        }
    }

    /// Adds `times` each of `first`, `first + step`, … (`terms` terms).
    pub(super) fn add_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        self.terms += terms as usize;
        self.progressions.push(Progression {
            first,
            step,
            terms,
            times,
        });
    }

    /// Whether the values may still be few. They are counted once the bound on them is far off: how values were grouped
    /// into progressions must not decide when they are many.
    #[inline]
    pub(super) fn settle(&mut self) -> bool {
        self.values.len() + self.terms <= KEPT_MAX || self.count()
    }

    /// Tells values apart; `false` if there are too many.
    fn count(&mut self) -> bool {
        if self.has_long_progression() {
            return false;
        }
        self.values = self.sorted();
        self.progressions.clear();
        self.terms = 0;
        self.values.len() <= DISTINCT_MAX
    }

    /// Whether one progression alone has too many values.
    fn has_long_progression(&self) -> bool {
        self.progressions
            .iter()
            .any(|progression| progression.terms as usize > DISTINCT_MAX)
    }

    /// (value, count), ascending, each value once; `None` where they are many.
    pub(super) fn sorted_if_few(&self) -> Option<Vec<(u64, u64)>> {
        let sorted = (!self.has_long_progression()).then(|| self.sorted())?;
        (sorted.len() <= DISTINCT_MAX).then_some(sorted)
    }

    pub(super) fn in_buckets(&self) -> Buckets {
        let mut buckets = Buckets::new();
        for progression in &self.progressions {
            let Progression {
                first,
                step,
                terms,
                times,
            } = *progression;
            buckets.add_progression(first, step, terms, times);
        }
        for &(value, times) in &self.values {
            buckets.add(bucket_of(value), times);
        }
        buckets
    }

    /// Forgets everything but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.progressions.clear();
        self.terms = 0;
    }

    /// (value, count), ascending, each value once.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::with_capacity(self.values.len() + self.terms);
        pairs.extend_from_slice(&self.values);
        for progression in &self.progressions {
            let term = |index| progression.first + progression.step * index;
            pairs.extend((0..progression.terms).map(|index| (term(index), progression.times)));
        }
        pairs.sort_unstable_by_key(|&(value, _)| value);
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
