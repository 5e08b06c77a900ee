//! Latencies as (value, count): exact mean and deviation, quantiles exact while values are few, else within 0.1 %.
//!
//! All sequences of a step share its gap, and a run of decode steps is an arithmetic progression of gaps, so the
//! natural record is a value with a multiplicity. Up to `exact::DISTINCT_MAX` distinct values are kept as they are; then
//! they move into log-linear buckets whose width is below a thousandth. Mean, deviation, smallest and largest are
//! exact integers throughout. Memory does not grow with the number of durations.

use super::buckets::{Buckets, bounds, bucket_of};
use super::exact::Exact;
use super::moments::Moments;
use super::packed::Packed;
use super::quantiles::{Cell, Quantiles};
use crate::units::{PICOS_PER_SECOND, Picos};

/// A multiset of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    moments: Moments,
    store: Store,
}

#[derive(Clone, Debug, PartialEq)]
enum Store {
    Exact(Exact),
    Buckets(Buckets),
}

impl Default for Store {
    fn default() -> Self {
        Store::Exact(Exact::default())
    }
}

impl Distribution {
    /// An empty one that goes straight to buckets: for a part of a run already known to have many values.
    pub(super) fn bucketed() -> Self {
        Distribution {
            moments: Moments::default(),
            store: Store::Buckets(Buckets::new()),
        }
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count
    }

    /// Adds `times` durations of `value`.
    #[inline]
    pub fn record(&mut self, value: Picos, times: u64) {
        if times == 0 {
            return;
        }
        self.moments.add(value.0, times);
        match &mut self.store {
            Store::Buckets(buckets) => buckets.add(bucket_of(value.0), times),
            Store::Exact(exact) => {
                exact.add(value.0, times);
                if !exact.settle() {
                    self.spill();
                }
            }
        }
    }

    /// Adds one duration.
    #[inline]
    pub(super) fn record_one(&mut self, value: Picos) {
        match &mut self.store {
            Store::Buckets(buckets) => {
                self.moments.add_one(value.0);
                buckets.add(bucket_of(value.0), 1);
            }
            Store::Exact(_) => self.record(value, 1),
        }
    }

    /// Adds `times` each of `first`, `first + step`, … (`terms` terms).
    #[inline]
    pub fn record_progression(&mut self, first: Picos, step: Picos, terms: u64, times: u64) {
        if terms == 0 || times == 0 {
            return;
        }
        if step == Picos::ZERO || terms == 1 {
            return self.record(first, terms * times);
        }
        self.moments.add_progression(first.0, step.0, terms, times);
        match &mut self.store {
            Store::Buckets(buckets) => buckets.add_progression(first.0, step.0, terms, times),
            Store::Exact(exact) => {
                exact.add_progression(first.0, step.0, terms, times);
                if !exact.settle() {
                    self.spill();
                }
            }
        }
    }

    fn spill(&mut self) {
        if let Store::Exact(exact) = &self.store {
            self.store = Store::Buckets(exact.in_buckets());
        }
    }

    /// Mean in seconds; `None` when empty.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        self.moments.mean_s()
    }

    /// Sum of all durations in seconds.
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        self.moments.sum as f64 / PICOS_PER_SECOND as f64
    }

    /// Population standard deviation in seconds (B-12).
    #[must_use]
    pub fn std_s(&self) -> Option<f64> {
        self.moments.std_s()
    }

    /// The `p`-quantile in seconds, `p` in 0..=1, numpy's linear interpolation at rank `(n − 1)·p`.
    #[must_use]
    pub fn quantile_s(&self, p: f64) -> Option<f64> {
        self.quantiles_s(&[p]).pop().flatten()
    }

    /// Several quantiles at once, cheaper than one by one.
    #[must_use]
    pub fn quantiles_s(&self, ps: &[f64]) -> Vec<Option<f64>> {
        let quantiles = self.quantiles();
        ps.iter().map(|&p| quantiles.at_s(p)).collect()
    }

    /// All quantiles, laid out once for whoever asks for many.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles::new(self.cells(), self.moments)
    }

    /// Largest, in seconds.
    #[must_use]
    pub fn max_s(&self) -> Option<f64> {
        (self.moments.count > 0).then(|| Picos(self.moments.max).seconds())
    }

    /// (upper bound in seconds, count) in ascending order, for drawing the distribution function.
    #[must_use]
    pub fn steps(&self) -> Vec<(f64, u64)> {
        let upper = |cell: Cell| (cell.lower + (cell.width - 1)).min(self.moments.max);
        self.cells()
            .into_iter()
            .map(|cell| (Picos(upper(cell)).seconds(), cell.count))
            .collect()
    }

    /// Forgets everything; one that had gone to buckets stays with them.
    pub(super) fn clear(&mut self) {
        self.moments = Moments::default();
        match &mut self.store {
            Store::Exact(exact) => exact.clear(),
            Store::Buckets(buckets) => buckets.clear(),
        }
    }

    /// What is needed to rebuild the distribution, as small as it gets.
    pub(super) fn pack(&self) -> Packed {
        match &self.store {
            Store::Buckets(buckets) => Packed::of_buckets(self.moments, buckets),
            Store::Exact(exact) => match exact.sorted_if_few() {
                None => Packed::of_buckets(self.moments, &exact.in_buckets()),
                Some(entries) => Packed {
                    moments: self.moments,
                    exact: true,
                    entries,
                },
            },
        }
    }

    /// Adds all of a packed distribution.
    pub(super) fn merge_packed(&mut self, other: &Packed) {
        if !other.exact {
            self.spill();
        }
        match &mut self.store {
            Store::Exact(exact) => {
                for &(value, times) in &other.entries {
                    exact.add(value, times);
                }
                if !exact.settle() {
                    self.spill();
                }
            }
            Store::Buckets(buckets) => {
                other
                    .in_buckets()
                    .for_each(|(bucket, times)| buckets.add(bucket as usize, times));
            }
        }
        self.moments.merge(&other.moments);
    }

    fn cells(&self) -> Vec<Cell> {
        let of_buckets = |buckets: &Buckets| {
            let cell = |(bucket, count)| {
                let (lower, width) = bounds(bucket);
                Cell { lower, width, count }
            };
            buckets.iter().map(cell).collect()
        };
        match &self.store {
            Store::Buckets(buckets) => of_buckets(buckets),
            Store::Exact(exact) => match exact.sorted_if_few() {
                None => of_buckets(&exact.in_buckets()),
                Some(values) => {
                    let cell = |(lower, count)| Cell {
                        lower,
                        width: 1,
                        count,
                    };
                    values.into_iter().map(cell).collect()
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        values
            .iter()
            .for_each(|&value| distribution.record(Picos(value), 1));
        distribution
    }

    /// numpy's percentile of a sorted slice, in seconds.
    fn sorted_quantile(sorted: &[u64], p: f64) -> f64 {
        let rank = (sorted.len() - 1) as f64 * p;
        let (low, high) = (
            sorted[rank.floor() as usize] as f64,
            sorted[rank.ceil() as usize] as f64,
        );
        (low + (high - low) * (rank - rank.floor())) / 1e12
    }

    #[test]
    fn percentiles_are_numpys() {
        let four = of(&[10, 20, 30, 40].map(|s| s * PICOS_PER_SECOND));
        assert_eq!(four.quantile_s(0.5), Some(25.0));
        assert!((four.quantile_s(0.99).unwrap() - 39.7).abs() < 1e-12);
        let hundred = of(&(1..=100).map(|s| s * PICOS_PER_SECOND).collect::<Vec<_>>());
        assert!((hundred.quantile_s(0.99).unwrap() - 99.01).abs() < 1e-12);
        assert_eq!(fraction_at_most(&hundred, Picos::from_seconds(40.0)), Some(0.4));
        assert_eq!(fraction_at_most(&hundred, Picos::from_seconds(0.5)), Some(0.0));
    }

    #[test]
    fn nothing_has_no_mean_and_one_value_has_no_spread() {
        assert_eq!(Distribution::default().mean_s(), None);
        assert_eq!(Distribution::default().quantile_s(0.5), None);
        let mut one = Distribution::default();
        one.record(Picos(29_344_000_000), 1_000_000);
        assert_eq!(one.std_s(), Some(0.0));
        assert_eq!(one.quantile_s(0.99), Some(0.029_344));
    }

    #[test]
    fn a_spread_of_one_picosecond_survives_a_billion_gaps() {
        let mut gaps = Distribution::default();
        gaps.record(Picos(10_000_000_000), 500_000_000);
        gaps.record(Picos(10_000_000_002), 500_000_000);
        assert!((gaps.std_s().unwrap() - 1e-12).abs() < 1e-24);
    }

    #[test]
    fn one_long_progression_in_the_exact_store_is_one_entry() {
        let mut gaps = Distribution::default();
        for _ in 0..1000 {
            gaps.record_progression(Picos(7_000_000), Picos(39_000), 127, 3);
        }
        assert!(gaps.pack().is_exact());
        assert_eq!(gaps.count(), 381_000);
        assert_eq!(
            gaps.quantile_s(0.5),
            Some((7_000_000 + 63 * 39_000) as f64 / 1e12)
        );
    }

    /// Share of the durations that are at most `limit`; `None` when empty.
    fn fraction_at_most(durations: &Distribution, limit: Picos) -> Option<f64> {
        if durations.moments.count == 0 {
            return None;
        }
        if limit.0 >= durations.moments.max {
            return Some(1.0);
        }
        let below = |cell: Cell| {
            let inside = limit
                .0
                .saturating_add(1)
                .saturating_sub(cell.lower)
                .min(cell.width);
            cell.count as f64 * (inside as f64 / cell.width as f64)
        };
        let at_most: f64 = durations
            .cells()
            .into_iter()
            .take_while(|cell| cell.lower <= limit.0)
            .map(below)
            .sum();
        Some((at_most / durations.moments.count as f64).clamp(0.0, 1.0))
    }

    fn durations() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            prop::collection::vec(1_000u64..1_000_000_000_000_000, 1..200),
            prop::collection::vec(1u64..3_000, 1..200),
            prop::collection::vec(1_000_000_000u64..50_000_000_000, 4_500..5_000),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn quantiles_agree_with_sorting(mut values in durations(), p in 0.0..=1.0f64) {
            let distribution = of(&values);
            values.sort_unstable();
            let (expected, got) = (sorted_quantile(&values, p), distribution.quantile_s(p).unwrap());
            let tolerance = if distribution.pack().is_exact() { 1e-12 } else { 1e-3 };
            prop_assert!((got - expected).abs() <= tolerance * expected, "{} {}", got, expected);
            prop_assert_eq!(distribution.count(), values.len() as u64);
            let mean = values.iter().map(|&v| v as f64).sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
            prop_assert!((distribution.mean_s().unwrap() - mean / 1e12).abs() <= 1e-12 * mean / 1e12);
            prop_assert!((distribution.std_s().unwrap() - variance.sqrt() / 1e12).abs() <= 1e-9 * mean / 1e12);
        }

        #[test]
        fn a_progression_is_its_terms(
            first in 1u64..10_000_000_000, step in 0u64..100_000_000, terms in 1u64..3_000, times in 1u64..9,
        ) {
            let mut closed = Distribution::bucketed();
            let mut single = Distribution::bucketed();
            closed.record_progression(Picos(first), Picos(step), terms, times);
            (0..terms).for_each(|i| single.record(Picos(first + step * i), times));
            prop_assert_eq!(closed.moments, single.moments);
            prop_assert_eq!(closed.steps(), single.steps());
        }

        #[test]
        fn grouping_into_progressions_changes_nothing(
            runs in prop::collection::vec((1u64..50, 1u64..4, 1u64..2_500), 1..20),
        ) {
            let mut grouped = Distribution::default();
            let mut single = Distribution::default();
            for (first, step, terms) in runs {
                grouped.record_progression(Picos(first * 1_000_000), Picos(step * 10_000), terms, 2);
                (0..terms).for_each(|i| single.record(Picos(first * 1_000_000 + step * 10_000 * i), 2));
                prop_assert_eq!(grouped.pack().is_exact(), single.pack().is_exact());
            }
            prop_assert_eq!(grouped.moments, single.moments);
            prop_assert_eq!(grouped.steps(), single.steps());
            prop_assert_eq!(grouped.pack().distinct(), single.pack().distinct());
        }

        #[test]
        fn merging_is_recording_together(a in durations(), b in durations()) {
            let together = of(&[a.clone(), b.clone()].concat());
            let mut packed = of(&a).pack();
            packed.merge(&of(&b).pack());
            let mut unpacked = Distribution::default();
            unpacked.merge_packed(&packed);
            prop_assert_eq!(unpacked.moments, together.moments);
            prop_assert_eq!(unpacked.pack().is_exact(), together.pack().is_exact());
            prop_assert_eq!(unpacked.steps(), together.steps());
            let limit = Picos(a[0]);
            let above = 1.0 - fraction_at_most(&together, limit).unwrap();
            prop_assert!((packed.exceeding(limit) / together.count() as f64 - above).abs() < 1e-9);
        }
    }
}
