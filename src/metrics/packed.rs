//! A distribution at rest, as small as it gets: what the batches of a run keep of their latencies.

use std::borrow::Cow;

use super::buckets::{Buckets, bounds, bucket_of};
use super::exact::DISTINCT_MAX;
use super::moments::Moments;
use crate::units::Picos;

/// Entries from which on a union is counted in buckets at once rather than merged by halves.
const COUNTED_FROM: usize = 2048;

/// A distribution at rest: sorted (value, count) or (bucket, count).
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    pub(super) moments: Moments,
    /// Whether the keys are values rather than buckets.
    pub(super) exact: bool,
    /// (key, count), ascending, each key once.
    pub(super) entries: Vec<(u64, u64)>,
}

impl Packed {
    /// What has gone to buckets.
    pub(super) fn of_buckets(moments: Moments, buckets: &Buckets) -> Packed {
        let mut entries = Vec::with_capacity(buckets.touched());
        // Nested iterators are gone through faster from within.
        buckets
            .iter()
            .for_each(|(bucket, count)| entries.push((bucket as u64, count)));
        Packed {
            moments,
            exact: false,
            entries,
        }
    }

    /// All of several.
    pub(super) fn union(parts: &[&Packed]) -> Packed {
        let (left, right) = match parts {
            [] => return Packed::default(),
            [one] => return (*one).clone(),
            _ => parts.split_at(parts.len() / 2),
        };
        let entries: usize = parts.iter().map(|part| part.entries.len()).sum();
        if entries >= COUNTED_FROM && parts.iter().any(|part| !part.is_exact()) {
            return Packed::counted(parts);
        }
        // By halves, so that no entry is gone through more often than log₂ of the number of parts.
        let mut union = Packed::union(left);
        union.merge(&Packed::union(right));
        union
    }

    /// The union in buckets.
    fn counted(parts: &[&Packed]) -> Packed {
        let (mut moments, mut buckets) = (Moments::default(), Buckets::new());
        for part in parts {
            moments.merge(&part.moments);
            part.in_buckets()
                .for_each(|(bucket, count)| buckets.add(bucket as usize, count));
        }
        Packed::of_buckets(moments, &buckets)
    }

    /// Whether the entries are values rather than buckets.
    pub(super) fn is_exact(&self) -> bool {
        self.exact || self.moments.count == 0
    }

    /// Distinct values or buckets.
    pub(super) fn distinct(&self) -> usize {
        self.entries.len()
    }

    /// (bucket, count), ascending; a bucket may come several times in a row.
    pub(super) fn in_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bucket = |key: u64| if self.exact { bucket_of(key) as u64 } else { key };
        self.entries.iter().map(move |&(key, count)| (bucket(key), count))
    }

    /// How many of the durations exceed `limit`, a bucket that straddles it in proportion.
    pub(super) fn exceeding(&self, limit: Picos) -> f64 {
        if limit.0 >= self.moments.max {
            return 0.0;
        }
        let above = |&(key, count): &(u64, u64)| {
            let (lower, width) = if self.exact {
                (key, 1)
            } else {
                bounds(key as usize)
            };
            let outside = (lower + (width - 1)).saturating_sub(limit.0).min(width);
            count as f64 * (outside as f64 / width as f64)
        };
        self.entries
            .iter()
            .rev()
            .map(above)
            .take_while(|&n| n > 0.0)
            .sum()
    }

    /// Adds all of `other`, by a merge of sorted lists.
    pub(super) fn merge(&mut self, other: &Packed) {
        let exact = self.is_exact() && other.is_exact();
        self.entries = merged(&self.keyed(exact), &other.keyed(exact));
        self.exact = exact;
        self.moments.merge(&other.moments);
        if exact && self.entries.len() > DISTINCT_MAX {
            self.coarsen();
        }
    }

    /// The entries by value, or by bucket.
    fn keyed(&self, exact: bool) -> Cow<'_, [(u64, u64)]> {
        if exact || !self.exact {
            return Cow::Borrowed(&self.entries);
        }
        let mut coarse = self.clone();
        coarse.coarsen();
        Cow::Owned(coarse.entries)
    }

    fn coarsen(&mut self) {
        let mut coarse: Vec<(u64, u64)> = Vec::new();
        for (bucket, count) in self.in_buckets() {
            match coarse.last_mut() {
                Some(last) if last.0 == bucket => last.1 += count,
                _ => coarse.push((bucket, count)),
            }
        }
        self.entries = coarse;
        self.exact = false;
    }
}

/// Two lists of (key, count), each ascending with every key once, as one.
fn merged(mine: &[(u64, u64)], theirs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut both = Vec::with_capacity(mine.len() + theirs.len());
    let (mut i, mut j) = (0, 0);
    while i < mine.len() && j < theirs.len() {
        let ((left, n), (right, m)) = (mine[i], theirs[j]);
        let count = if left <= right { n } else { 0 } + if right <= left { m } else { 0 };
        both.push((left.min(right), count));
        i += usize::from(left <= right);
        j += usize::from(right <= left);
    }
    both.extend_from_slice(&mine[i..]);
    both.extend_from_slice(&theirs[j..]);
    both
}
