//! The errors of all runs to the first order in the terms, and the draws that intervals come from.
//!
//! A simulation costs more than a formula, so hold-out, families, draws and the next run are asked of the expansion around the
//! best values: the figures are nearly linear in the logarithms of the terms.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::{RUN_SIGMA, Trial, belief};
use crate::calibrate::component::Options;
use crate::calibrate::solve::{Loss, Parameter, Task};
use crate::rng::{Purpose, stream};

/// Draws of the host's terms: each of them simulates every run many times.
const DRAWS: usize = 24;

/// Loads drawn with replacement, each with all of its runs, and priors moved by their own width. One Gauss-Newton step from the best values stands
/// for a whole fit: the figures are nearly linear in the terms, and a simulation costs more than a formula.
pub(super) fn draws(trial: &Trial, linear: &Linear, options: &Options) -> Vec<Vec<f64>> {
    let believed = belief::surprised(&trial.parameters, &linear.at);
    let count = trial.loads.count;
    let one = |index: usize| {
        let mut stream = stream(options.seed, Purpose::Calibration, (1 << 32) + index as u64);
        let mut times = vec![0.0; count];
        for _ in 0..count {
            times[stream.random_range(0..count)] += 1.0;
        }
        let pairs = trial.rows.iter().zip(&trial.weights);
        let weights: Vec<f64> = pairs
            .map(|(run, count)| count * times[trial.loads.of[*run]])
            .collect();
        let shifts: Vec<f64> = (0..linear.at.len())
            .map(|_| StandardNormal.sample(&mut stream))
            .collect();
        linear.solve(&believed, &weights, &shifts)
    };
    (0..DRAWS.max(options.draws)).map(one).collect()
}

/// The errors' first-order expansion in the scaled parameters. It simulates every run once more than there are parameters: a fit's
/// is made once, for its draws, its hold-out, its families and the next run.
pub(super) struct Linear {
    pub(super) at: Vec<f64>,
    pub(super) errors: Vec<f64>,
    pub(super) slopes: Vec<Vec<f64>>,
}

/// Step of the expansion, of a factor.
pub(super) const NUDGE: f64 = 0.05;

impl Linear {
    pub(super) fn new(trial: &Trial, best: &[f64]) -> Linear {
        let errors = trial.errors(best);
        let slope = |index: usize| {
            let mut moved = best.to_vec();
            moved[index] *= NUDGE.exp();
            let there = trial.errors(&moved);
            there
                .iter()
                .zip(&errors)
                .map(|(there, here)| (there - here) / NUDGE)
                .collect()
        };
        Linear {
            at: best.to_vec(),
            slopes: (0..best.len()).map(slope).collect(),
            errors,
        }
    }

    pub(super) fn errors(&self, parameters: &[Parameter], values: &[f64]) -> Vec<f64> {
        let mut errors = self.errors.clone();
        for ((parameter, slopes), (value, at)) in parameters
            .iter()
            .zip(&self.slopes)
            .zip(values.iter().zip(&self.at))
        {
            let moved = parameter.scaled(*value) - parameter.scaled(*at);
            for (error, slope) in errors.iter_mut().zip(slopes) {
                *error += slope * moved;
            }
        }
        errors
    }

    /// The best values under other weights and priors that have moved.
    pub(super) fn solve(&self, believed: &[Parameter], weights: &[f64], shifts: &[f64]) -> Vec<f64> {
        let task = Task {
            parameters: believed,
            errors: &|values| self.errors(believed, values),
            weights,
            shifts,
            sigma: RUN_SIGMA,
            loss: Loss::SoftL1,
        };
        task.solve(std::slice::from_ref(&self.at))
    }
}
