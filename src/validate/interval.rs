//! How far a right prediction may be from what was measured: the calibration's part, and chance's.
//!
//! The calibration's σ is [`model_interval`]'s. Chance is seen by simulating the row again with other traffic of the same
//! law; measured and predicted are one draw each, so its variance counts twice. Traps: only rows that say how many
//! requests they sent have a known chance; σ of so few draws is itself uncertain, and the normal law's factor ignores it.
//! Left out: the tool's own error, and everything that a row's scenario had to assume.

use super::predict::Figure;
use crate::calibrate::interval::{ModelInterval, Z_90};

/// Other traffics that a row is simulated with.
pub(super) const OTHER_SEEDS: u64 = 4;

/// σ of ln(measured / predicted), by cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncertainty {
    /// The calibration's.
    pub model_sigma_ln: f64,
    /// Chance's, of both runs; `None` where the row does not say how many requests it sent.
    pub sampling_sigma_ln: Option<f64>,
}

impl Uncertainty {
    /// Both together.
    #[must_use]
    pub fn sigma_ln(&self) -> f64 {
        self.model_sigma_ln.hypot(self.sampling_sigma_ln.unwrap_or(0.0))
    }

    /// Where 90 % of measurements should be, in the prediction's unit.
    #[must_use]
    pub fn range_90(&self, predicted: f64) -> (f64, f64) {
        let reach = (Z_90 * self.sigma_ln()).exp();
        (predicted / reach, predicted * reach)
    }
}

/// The calibration's σ of one figure: medians are as uncertain as means.
pub(super) fn model_sigma(interval: &ModelInterval, figure: Figure) -> f64 {
    let name = match figure {
        Figure::Ttft => "mean_ttft_ms",
        Figure::Tpot => "mean_tpot_ms",
        Figure::E2el => "mean_e2el_ms",
        Figure::Throughput => "output_throughput",
    };
    let found = interval.figures.iter().find(|one| one.name == name);
    found.map_or(0.0, |one| one.sigma_ln)
}

/// Chance's σ of the difference of two runs, from the figure in runs of different traffic.
pub(super) fn sampling_sigma(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let number = logs.len() as f64;
    if number < 2.0 {
        return 0.0;
    }
    let mean = logs.iter().sum::<f64>() / number;
    let squares: f64 = logs.iter().map(|log| (log - mean) * (log - mean)).sum();
    (2.0 * squares / (number - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_as_independent_errors_and_ranges_are_factors() {
        let both = Uncertainty {
            model_sigma_ln: 0.03,
            sampling_sigma_ln: Some(0.04),
        };
        assert!((both.sigma_ln() - 0.05).abs() < 1e-12);
        let (low, high) = both.range_90(10.0);
        assert!((low * high - 100.0).abs() < 1e-9 && (high / 10.0 - 1.0857).abs() < 1e-3);
    }

    #[test]
    fn equal_runs_have_no_chance_and_unequal_ones_count_it_twice() {
        assert_eq!(sampling_sigma(&[5.0, 5.0, 5.0]), 0.0);
        assert_eq!(sampling_sigma(&[5.0]), 0.0);
        let sigma = sampling_sigma(&[1.0, 0.1_f64.exp()]);
        assert!((sigma - 0.1).abs() < 1e-12, "{sigma}");
    }
}
