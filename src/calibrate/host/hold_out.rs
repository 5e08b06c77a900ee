//! The error of the host's terms on runs that their fit had not seen: some loads are left out in turn, each with all of
//! its runs, so that each is once.
//!
//! A fit without the runs of a round is one Gauss-Newton step from the best values, as the intervals are; what was left
//! out is then simulated. Left out: runs of the same server are alike, so this is the error on another load, not on
//! another server, which the families tell.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;

use super::{Linear, Trial};
use crate::calibrate::component::Options;
use crate::rng::{Purpose, stream};

/// Fewest loads of which one may be left out.
const FEWEST: usize = 3;

/// ln(predicted/measured) of every figure by a fit without its run; `None` where there are too few loads.
pub(super) fn hold_out(trial: &Trial, linear: &Linear, options: &Options) -> Option<Vec<f64>> {
    let loads = trial.loads.count;
    if loads < FEWEST || options.hold_out <= 0.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..loads).collect();
    order.shuffle(&mut stream(options.seed, Purpose::Calibration, 1 << 33));
    let rounds = ((1.0 / options.hold_out).round() as usize).clamp(2, loads);
    let mut held_out = Vec::with_capacity(trial.rows.len());
    for round in 0..rounds {
        let left_out: BTreeSet<usize> = order.iter().copied().skip(round).step_by(rounds).collect();
        let is_out = |run: &usize| left_out.contains(&trial.loads.of[*run]);
        let weight = |(run, count): (&usize, &f64)| if is_out(run) { 0.0 } else { *count };
        let weights: Vec<f64> = trial.rows.iter().zip(&trial.weights).map(weight).collect();
        let values = linear.solve(&trial.parameters, &weights, &vec![0.0; linear.at.len()]);
        let errors = trial.rows.iter().zip(trial.errors(&values));
        held_out.extend(errors.filter(|(run, _)| is_out(run)).map(|(_, error)| error));
    }
    Some(held_out)
}
