//! What the runs say if their lengths were not equal, contrary to what was assumed.
//!
//! Answers of one length end together, and the prompts behind them wait for each other, wave after wave. With scattered lengths
//! there are no waves, and the same figures imply another host. So runs whose lengths were only assumed equal are fitted once
//! more with scattered lengths, and the intervals reach to both fits. The terms stay those of equal lengths.

use super::{Loss, Options, OtherTerms, Trial, invert, reach};
use crate::calibrate::runs::Run;

/// The fit under the other reading.
pub(super) struct Scattered {
    pub(super) terms: OtherTerms,
    /// Runs that were read in another way.
    pub(super) runs: usize,
}

/// `None` where the lengths of all runs are known.
pub(super) fn as_scattered(trial: &Trial, values: &[f64], options: &Options) -> Option<Scattered> {
    let others: Vec<Run> = trial.runs.iter().map(|run| run.as_scattered()).collect();
    let runs = trial.runs.iter().filter(|run| run.scattered.is_some()).count();
    if runs == 0 {
        return None;
    }
    let mut other = Trial::of(others.iter().collect(), trial.known, trial.sought)?;
    if trial.known.is_of_server {
        other = reach::loosely(&other);
    }
    let starts = [other.priors(), values.to_vec()];
    let found = starts.map(|start| invert(&other, Loss::SoftL1, &start));
    let cost = |values: &Vec<f64>| other.cost(Loss::SoftL1, values, &other.errors(values));
    let best = found.iter().min_by(|one, two| cost(one).total_cmp(&cost(two)))?;
    Some(Scattered {
        terms: OtherTerms::of(&other, best, options),
        runs,
    })
}
