//! How far a right prediction may be from what was measured, by cause.
//!
//! * *Model*: [`model_interval`](crate::calibrate::interval::model_interval)'s, its two ends apart.
//! * *Reading*: what the row leaves open, its card's variant, its engine's version, how lengths spread
//!   ([`super::plan::Plan::readings`]). The row is simulated as it could as well be read, and the interval reaches
//!   as far: no prediction for a row is surer than the row is clear.
//! * *Chance*: the row is simulated with other traffic of the same law; measured and predicted are one draw each, so its
//!   variance counts twice, and Student's t is taken for as few draws.
//! * *Repeats*: one server measures 2 to 3 % apart from one time to the next.
//!
//! Traps: only rows that say how many requests they sent have a known chance. Left out: a tool's own error, and whatever
//! else a row's scenario had to assume.

use std::sync::LazyLock;

use super::predict::Figure;
use crate::calibrate::interval::ModelInterval;
use crate::cost::discrepancy::REPEAT_SIGMA;
use crate::stats::{Running, Z_90, student_t};

/// Other traffics that a row is simulated with.
pub(super) const OTHER_SEEDS: u64 = 4;

/// The normal law's factor for chance's σ, by as many draws as there are.
static CHANCE_90: LazyLock<f64> = LazyLock::new(|| student_t(0.9, OTHER_SEEDS as f64));

/// How far ln(measured/predicted) may be, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uncertainty {
    /// The calibration's, as σ.
    pub model_sigma_ln: f64,
    /// The same as the reach of a 90 % interval, down and up.
    pub model_reach_ln: (f64, f64),
    /// How far other readings of the row are, down and up.
    pub reading_reach_ln: (f64, f64),
    /// Chance's, of both runs; `None` where the row does not say how many requests it sent.
    pub sampling_sigma_ln: Option<f64>,
}

impl Uncertainty {
    /// Where 90 % of measurements should be, in the prediction's unit.
    #[must_use]
    pub fn range_90(&self, predicted: f64) -> (f64, f64) {
        let chance = *CHANCE_90 * self.sampling_sigma_ln.unwrap_or(0.0);
        let repeats = Z_90 * REPEAT_SIGMA;
        let reach = |model: f64, reading: f64| {
            let squares = [model, reading, chance, repeats].map(|part| part * part);
            squares.iter().sum::<f64>().sqrt().exp()
        };
        let down = reach(self.model_reach_ln.0, self.reading_reach_ln.0);
        let up = reach(self.model_reach_ln.1, self.reading_reach_ln.1);
        (predicted / down, predicted * up)
    }
}

/// How far other readings are from the prediction: each one's own distance, added as independent doubts are.
pub(super) fn reading_reach(predicted: f64, others: &[f64]) -> (f64, f64) {
    let reach = |sign: f64| {
        let squares = others
            .iter()
            .map(|other| (sign * (other / predicted).ln()).max(0.0).powi(2));
        squares.sum::<f64>().sqrt()
    };
    (reach(-1.0), reach(1.0))
}

/// The calibration's interval of one figure: medians are as uncertain as means.
pub(super) fn of_model(interval: &ModelInterval, figure: Figure) -> Uncertainty {
    let name = match figure {
        Figure::Ttft => "mean_ttft_ms",
        Figure::Tpot => "mean_tpot_ms",
        Figure::E2el => "mean_e2el_ms",
        Figure::Throughput => "output_throughput",
    };
    let found = interval.figures.iter().find(|one| one.name == name);
    found.map_or(Uncertainty::default(), |one| Uncertainty {
        model_sigma_ln: one.sigma_ln,
        model_reach_ln: one.reach_ln,
        ..Uncertainty::default()
    })
}

/// Chance's σ of the difference of two runs, from the figure in runs of different traffic.
pub(super) fn sampling_sigma(values: &[f64]) -> f64 {
    let logs: Running = values.iter().map(|value| value.ln()).collect();
    (2.0 * logs.variance()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_as_independent_errors_each_end_by_itself() {
        let repeats = Z_90 * REPEAT_SIGMA;
        let uncertainty = Uncertainty {
            model_reach_ln: (0.03, 0.3),
            reading_reach_ln: (0.04, 0.4),
            ..Uncertainty::default()
        };
        let (low, high) = uncertainty.range_90(10.0);
        assert!(((10.0 / low).ln() - 0.05_f64.hypot(repeats)).abs() < 1e-12);
        assert!(((high / 10.0).ln() - 0.5_f64.hypot(repeats)).abs() < 1e-12);
        let chance = Uncertainty {
            sampling_sigma_ln: Some(0.1),
            ..Uncertainty::default()
        };
        // Four draws know their own spread badly: 2.13, not 1.645.
        let (low, high) = chance.range_90(1.0);
        assert!((high.ln() - 0.2132_f64.hypot(repeats)).abs() < 1e-3 && (low * high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_reading_reaches_to_its_own_side_alone() {
        let (down, up) = reading_reach(10.0, &[12.0, 10.0]);
        assert_eq!(down, 0.0);
        assert!((up - 1.2_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn equal_runs_have_no_chance_and_unequal_ones_count_it_twice() {
        assert_eq!(sampling_sigma(&[5.0, 5.0, 5.0]), 0.0);
        assert_eq!(sampling_sigma(&[5.0]), 0.0);
        let sigma = sampling_sigma(&[1.0, 0.1_f64.exp()]);
        assert!((sigma - 0.1).abs() < 1e-12, "{sigma}");
    }
}
