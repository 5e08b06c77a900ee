//! When the steps of a leap ended, without visiting them.

use crate::sim::Steps;

/// The instants at which the steps of a run ended, as a quadratic in the step's index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    first: u64,
    duration: u64,
    increment: u64,
    count: u64,
    last: u64,
}

impl Ends {
    #[inline]
    pub(super) fn of(steps: &Steps<'_>) -> Ends {
        Ends {
            first: steps.begin.0 + steps.duration.0,
            duration: steps.duration.0,
            increment: steps.duration_increment.0,
            count: steps.count,
            last: steps.end.0,
        }
    }

    /// Whether all steps ended in `begin .. end`: what is nearly always so, and saves the divisions.
    #[inline]
    pub(super) fn lie_within(&self, begin: u64, end: u64) -> bool {
        begin <= self.first && self.last < end
    }

    /// How many steps.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The end of step `index`.
    pub(super) fn end(&self, index: u64) -> u64 {
        self.first + self.duration * index + self.increment * triangle(index)
    }

    /// The first end from `instant` on; `None` where all ended before.
    pub(super) fn end_from(&self, instant: u64) -> Option<u64> {
        let before = self.before(instant);
        (before < self.count).then(|| self.end(before))
    }

    /// How many steps ended by `instant`.
    pub(super) fn ended_by(&self, instant: u64) -> u64 {
        self.before(instant.saturating_add(1))
    }

    /// How many steps ended before `instant`.
    fn before(&self, instant: u64) -> u64 {
        if self.last < instant {
            return self.count;
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.end(middle) < instant {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Tells `visit` (bin, steps that ended in it) for bins of `width` that hold any, in order.
    #[inline]
    pub(super) fn for_each_bin(&self, width: u64, mut visit: impl FnMut(u64, u64)) {
        let last_bin = self.last / width;
        let mut bin = self.first / width;
        let mut done = 0;
        while bin < last_bin {
            let before = self.before((bin + 1) * width);
            visit(bin, before - done);
            done = before;
            bin = self.end(done) / width;
        }
        if done < self.count {
            visit(last_bin, self.count - done);
        }
    }
}

/// `1 + 2 + … + n`.
fn triangle(n: u64) -> u64 {
    n * (n + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_fall_into_the_bins_of_their_ends(
            first in 1u64..5_000, duration in 1u64..500, increment in 0u64..9, count in 1u64..200, width in 1u64..3_000,
        ) {
            let end = |i: u64| first + duration * i + increment * triangle(i);
            let ends = Ends { first, duration, increment, count, last: end(count - 1) };
            let mut expected = std::collections::BTreeMap::new();
            (0..count).for_each(|i| *expected.entry(end(i) / width).or_insert(0) += 1);
            let mut got = Vec::new();
            ends.for_each_bin(width, |bin, n| got.push((bin, n)));
            prop_assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
