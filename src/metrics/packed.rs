//! A distribution at rest, as small as it gets: what the batches of a run keep of their latencies.

use super::buckets::{bounds, bucket_of};
use super::distribution::DISTINCT_MAX;
use super::moments::Moments;
use crate::units::Picos;

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
        let key = |side: &Packed, entry: (u64, u64)| match exact || !side.exact {
            true => entry,
            false => (bucket_of(entry.0) as u64, entry.1),
        };
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.entries.len() + other.entries.len());
        let mut push = |(key, count): (u64, u64)| match merged.last_mut() {
            Some(last) if last.0 == key => last.1 += count,
            _ => merged.push((key, count)),
        };
        let (mut mine, mut theirs) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        loop {
            let left = mine.peek().map(|&&entry| key(self, entry));
            let right = theirs.peek().map(|&&entry| key(other, entry));
            match (left, right) {
                (Some(l), Some(r)) if l.0 <= r.0 => {
                    push(l);
                    mine.next();
                }
                (Some(l), None) => {
                    push(l);
                    mine.next();
                }
                (_, Some(r)) => {
                    push(r);
                    theirs.next();
                }
                (None, None) => break,
            }
        }
        self.entries = merged;
        self.exact = exact;
        self.moments.merge(&other.moments);
        if exact && self.entries.len() > DISTINCT_MAX {
            self.coarsen();
        }
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
