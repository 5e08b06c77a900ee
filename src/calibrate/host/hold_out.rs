//! The error of the host's terms on runs that their fit had not seen: some are left out in turn, so that each is once.
//!
//! A fit without the runs of a round is one Gauss-Newton step from the best values, as the intervals are; what was left
//! out is then simulated. Left out: runs of the same server are alike, so this is the error on another load, not on
//! another server, which the families tell.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;

use super::{Linear, RUN_SIGMA, Trial};
use crate::calibrate::component::Options;
use crate::calibrate::runs::Run;
use crate::calibrate::solve::Task;
use crate::rng::{Purpose, stream};

/// Fewest runs of which one may be left out.
const FEWEST: usize = 3;

/// ln(predicted/measured) of every figure by a fit without its run; `None` where there are too few runs.
pub(super) fn hold_out(
    trial: &Trial,
    runs: &[Run],
    (rows, counts): (&[usize], &[f64]),
    best: &[f64],
    options: &Options,
) -> Option<Vec<f64>> {
    if runs.len() < FEWEST || options.hold_out <= 0.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.shuffle(&mut stream(options.seed, Purpose::Calibration, 1 << 33));
    let rounds = ((1.0 / options.hold_out).round() as usize).clamp(2, runs.len());
    let linear = Linear::new(trial, runs, best);
    let mut held_out = Vec::with_capacity(rows.len());
    for round in 0..rounds {
        let left_out: BTreeSet<usize> = order.iter().copied().skip(round).step_by(rounds).collect();
        let weight = |(run, count): (&usize, &f64)| if left_out.contains(run) { 0.0 } else { *count };
        let weights: Vec<f64> = rows.iter().zip(counts).map(weight).collect();
        let task = Task {
            parameters: trial.parameters,
            errors: &|values| linear.errors(trial.parameters, values),
            weights: &weights,
            shifts: &vec![0.0; best.len()],
            sigma: RUN_SIGMA,
        };
        let values = task.solve(&[best.to_vec()]);
        let errors = rows.iter().zip(trial.errors(runs, &values));
        held_out.extend(
            errors
                .filter(|(run, _)| left_out.contains(run))
                .map(|(_, error)| error),
        );
    }
    Some(held_out)
}
