//! Latencies as (value, count): exact mean and deviation, quantiles within 0.1 %.

use crate::units::Picos;

/// A set of durations. Memory does not grow with their number.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    count: u64,
}

impl Distribution {
    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Adds `times` durations of `value`.
    pub fn record(&mut self, _value: Picos, times: u64) {
        self.count += times;
    }
    /// Adds `times` each of `first`, `first + step`, … (`terms` terms).
    pub fn record_progression(&mut self, _first: Picos, _step: Picos, terms: u64, times: u64) {
        self.count += terms * times;
    }
    /// Mean in seconds; `None` when empty.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        None
    }
    /// Population standard deviation in seconds (B-12).
    #[must_use]
    pub fn std_s(&self) -> Option<f64> {
        None
    }
    /// The `p`-quantile in seconds, `p` in 0..=1, numpy's linear interpolation.
    #[must_use]
    pub fn quantile_s(&self, _p: f64) -> Option<f64> {
        None
    }
    /// Smallest, in seconds.
    #[must_use]
    pub fn min_s(&self) -> Option<f64> {
        None
    }
    /// Largest, in seconds.
    #[must_use]
    pub fn max_s(&self) -> Option<f64> {
        None
    }
    /// (upper bound in seconds, count) in ascending order, for drawing the distribution function.
    #[must_use]
    pub fn steps(&self) -> Vec<(f64, u64)> {
        Vec::new()
    }
    /// Adds all of `other`.
    pub fn merge(&mut self, _other: &Distribution) {}
}
