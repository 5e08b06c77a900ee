//! Count, sum and sum of squares of durations, exact as integers.
//!
//! A standard deviation computed from floating sums loses its digits when the spread is small against the mean,
//! which is just what token gaps look like. Here every sum is an integer, so the order of additions does not
//! matter and merging is exact.

use crate::units::PICOS_PER_SECOND;

/// Progressions of durations below this (about a second), …
const VALUE_SMALL: u64 = 1 << 40;
/// … with a smaller step than this (17 µs) …
const STEP_SMALL: u64 = 1 << 24;
/// … and fewer terms than this are added with products of 64 bits where others need 128.
const COUNT_SMALL: u64 = 1 << 20;

/// Exact moments of a multiset of picosecond durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) sum: u128,
    /// Σ of the squares: `squares_high·2⁶⁴ + squares_low`, which does not overflow before `count` does.
    squares_low: u64,
    squares_high: u128,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Default for Moments {
    fn default() -> Self {
        Moments {
            count: 0,
            sum: 0,
            squares_low: 0,
            squares_high: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Moments {
    /// Adds `times` durations of `value`.
    #[inline]
    pub(super) fn add(&mut self, value: u64, times: u64) {
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.add_squares(u128::from(value) * u128::from(value), times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds one duration.
    #[inline]
    pub(super) fn add_one(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        let squares = u128::from(value) * u128::from(value);
        let (low, carry) = self.squares_low.overflowing_add(squares as u64);
        self.squares_low = low;
        self.squares_high += (squares >> 64) + u128::from(carry);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds `times` each of `first`, `first + step`, … (`terms` of them), in closed form.
    #[inline]
    pub(super) fn add_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        let last = first + step * (terms - 1);
        if last < VALUE_SMALL && step < STEP_SMALL && terms < COUNT_SMALL {
            self.add_small_progression(first, step, terms, times);
        } else {
            self.add_any_progression(first, step, terms, times);
        }
    }

    /// The same where all but the squares fits 64 bits.
    #[inline]
    fn add_small_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        let last = first + step * (terms - 1);
        let index_sum = terms * (terms - 1) / 2;
        let index_squares = index_sum * (2 * terms - 1) / 3;
        self.count += terms * times;
        self.sum += u128::from(terms * first + step * index_sum) * u128::from(times);
        let wide = |left: u64, right: u64| u128::from(left) * u128::from(right);
        let squares = wide(first, first) * u128::from(terms)
            + wide(step * first, 2 * index_sum)
            + wide(step * step, index_squares);
        self.add_squares(squares, times);
        self.min = self.min.min(first);
        self.max = self.max.max(last);
    }

    fn add_any_progression(&mut self, first: u64, step: u64, terms: u64, times: u64) {
        let last = first + step * (terms - 1);
        let squares_bound = (u128::from(last) * u128::from(last)).checked_mul(u128::from(terms));
        if squares_bound.is_none() {
            let head = terms / 2;
            self.add_any_progression(first, step, head, times);
            self.add_any_progression(first + step * head, step, terms - head, times);
            return;
        }
        let (a, d, n) = (u128::from(first), u128::from(step), u128::from(terms));
        let index_sum = n * (n - 1) / 2;
        // Every partial product is at most terms·last², which fits.
        let index_squares = n * (n - 1) / 2 * (2 * n - 1) / 3;
        self.count += terms * times;
        self.sum += (n * a + d * index_sum) * u128::from(times);
        self.add_squares(n * a * a + a * d * (2 * index_sum) + d * d * index_squares, times);
        self.min = self.min.min(first);
        self.max = self.max.max(last);
    }

    #[inline]
    fn add_squares(&mut self, squares: u128, times: u64) {
        let low = u128::from(self.squares_low) + u128::from(squares as u64) * u128::from(times);
        self.squares_low = low as u64;
        self.squares_high += u128::from((squares >> 64) as u64) * u128::from(times) + (low >> 64);
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum += other.sum;
        let low = u128::from(self.squares_low) + u128::from(other.squares_low);
        self.squares_low = low as u64;
        self.squares_high += other.squares_high + (low >> 64);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The mean in seconds.
    pub(super) fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / PICOS_PER_SECOND as f64)
    }

    /// The population standard deviation in seconds.
    pub(super) fn std_s(&self) -> Option<f64> {
        (self.count > 0)
            .then(|| (self.central_squares() / self.count as f64).sqrt() / PICOS_PER_SECOND as f64)
    }

    /// Σ (x − mean)² in ps². Taken about the integer part of the mean so that nothing cancels.
    fn central_squares(&self) -> f64 {
        let count = u128::from(self.count);
        let squares_f = self.squares_low as f64 + self.squares_high as f64 * 2f64.powi(64);
        let sum_f = self.sum as f64;
        if squares_f >= 2f64.powi(126) {
            return (squares_f - sum_f * (sum_f / self.count as f64)).max(0.0);
        }
        // Here Σx² fits in 128 bits, and so does Σ(x − m)², which is not larger than Σx² + count.
        let squares = (self.squares_high << 64) + u128::from(self.squares_low);
        let (mean, rest) = (self.sum / count, self.sum % count);
        let about_mean = squares
            .wrapping_sub(self.sum.wrapping_mul(mean).wrapping_mul(2))
            .wrapping_add(count.wrapping_mul(mean).wrapping_mul(mean));
        (about_mean as f64 - (rest as f64) * (rest as f64) / self.count as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_progression_is_its_terms(
            first in prop_oneof![0..VALUE_SMALL, any::<u32>().prop_map(|n| u64::from(n) << 24)],
            step in prop_oneof![0..STEP_SMALL, 0..VALUE_SMALL],
            terms in 1u64..40,
            times in 1u64..1000,
        ) {
            let (mut whole, mut single, mut general) = (Moments::default(), Moments::default(), Moments::default());
            whole.add_progression(first, step, terms, times);
            general.add_any_progression(first, step, terms, times);
            for term in 0..terms {
                (0..times).for_each(|_| single.add_one(first + step * term));
            }
            prop_assert_eq!(whole, single);
            prop_assert_eq!(general, single);
            let mut counted = Moments::default();
            (0..terms).for_each(|term| counted.add(first + step * term, times));
            prop_assert_eq!(counted, single);
        }
    }
}
