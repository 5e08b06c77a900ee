//! Which runs a fit may rest on: those that one host explains.
//!
//! Under a robust loss a far run still pulls with a constant force, and one that is ten times off can outweigh all others. So
//! where some run is not met, the fit is repeated under a loss that lets go of far runs ([`Loss::Redescending`]). That loss has
//! many minima, so the search has several starts: the first fit, the priors, and what single runs say by themselves. Runs that
//! are not met there are left out, and the others are fitted to as if those had not been given. Without a majority that one
//! host explains, or a half explained by an expected host, nobody can say which runs are wrong, and all are fitted to.
//! Law: where every run is met by the first fit, that fit stays as it is.

use super::{Loss, Trial, evidence, invert, rounded_all};
use crate::calibrate::doubts;
use crate::calibrate::runs::Run;

/// Single runs that are fitted for a start at most.
const SINGLES: usize = 12;
/// Fits without far runs at most, each with the runs that the one before it meets.
const ROUNDS: usize = 4;
/// Standard deviations of what is believed within which a host must lie that only half of the runs speak for.
const BELIEVABLE: f64 = 3.0;

/// A fit to some of the runs.
pub(super) struct Fewer<'a> {
    pub(super) trial: Trial<'a>,
    pub(super) values: Vec<f64>,
    /// The places of its runs among all.
    pub(super) kept: Vec<usize>,
}

/// The fit to the runs that one host explains; `None` where `first`, the fit to all, is to stay.
pub(super) fn without_far_ones<'a>(all: &Trial<'a>, first: &[f64]) -> Option<Fewer<'a>> {
    let everyone = all.runs.len();
    let by_first = met_by(all, all, first);
    if by_first.len() == everyone {
        return None;
    }
    let agreed = invert(all, Loss::Redescending, &best_start(all, first));
    let by_agreed = met_by(all, all, &agreed);
    let agreed_is_enough = is_enough(&by_agreed, everyone, is_believable(all, &agreed));
    let mut met = if by_agreed.len() >= by_first.len() && agreed_is_enough {
        by_agreed
    } else if is_enough(&by_first, everyone, is_believable(all, first)) {
        by_first
    } else {
        return None;
    };
    let mut found: Option<Fewer> = None;
    for _ in 0..ROUNDS {
        if found.as_ref().is_some_and(|found| found.kept == met) {
            break;
        }
        let runs: Vec<&Run> = met.iter().map(|run| all.runs[*run]).collect();
        let Some(trial) = Trial::of(runs, all.known, all.sought) else {
            break;
        };
        let values = rounded_all(invert(&trial, Loss::SoftL1, &trial.priors()));
        let now_met = met_by(all, &trial, &values);
        if !is_enough(&now_met, everyone, is_believable(&trial, &values)) {
            return None;
        }
        let kept = std::mem::replace(&mut met, now_met);
        found = Some(Fewer { trial, values, kept });
    }
    found
}

/// Whether runs that a host meets are enough to leave the others out: more than half, or half and a host that was to be
/// expected.
fn is_enough(met: &[usize], everyone: usize, is_believable: bool) -> bool {
    2 * met.len() > everyone || 2 * met.len() == everyone && is_believable
}

/// Places of the runs of `all` that a fit to some of them meets.
fn met_by(all: &Trial, fitted: &Trial, values: &[f64]) -> Vec<usize> {
    let errors = all.errors_under(&fitted.host(values), fitted.bandwidth(values));
    let (explained, _) = doubts::explained(&all.rows, &evidence(&all.runs, &errors), &|_| false);
    all.runs_of(&explained)
}

/// Where the search under the redescending loss begins.
fn best_start(all: &Trial, first: &[f64]) -> Vec<f64> {
    let stride = all.runs.len().div_ceil(SINGLES);
    let singles = all.runs.iter().step_by(stride).filter_map(|run| {
        let single = Trial::of(vec![*run], all.known, all.sought)?;
        let own = invert(&single, Loss::SoftL1, &single.priors());
        let value = |name: &str| {
            let mut names = single.parameters.iter().zip(&own);
            names.find(|(parameter, _)| parameter.name == name)
        };
        // What it does not speak about stays as it is believed.
        let of = all
            .parameters
            .iter()
            .map(|parameter| value(parameter.name).map_or(parameter.prior, |(_, value)| *value));
        Some(of.collect())
    });
    let starts = [first.to_vec(), all.priors()].into_iter().chain(singles);
    let cost = |values: &Vec<f64>| all.cost(Loss::Redescending, values, &all.errors(values));
    let judged = starts.map(|values| (cost(&values), values));
    let least = judged.min_by(|one, other| one.0.total_cmp(&other.0));
    least.expect("the first fit is a start").1
}

/// Whether every term lies where it was to be expected.
pub(super) fn is_believable(trial: &Trial, values: &[f64]) -> bool {
    let mut pairs = trial.parameters.iter().zip(values);
    pairs.all(|(parameter, value)| parameter.apart(*value, parameter.prior) <= BELIEVABLE)
}

#[cfg(test)]
mod tests {
    use super::is_enough;

    #[test]
    fn half_of_the_runs_decide_only_for_a_host_that_was_to_be_expected() {
        let met = [0, 2];
        assert!(is_enough(&met, 3, false));
        assert!(is_enough(&met, 4, true) && !is_enough(&met, 4, false));
        assert!(!is_enough(&met, 5, true) && !is_enough(&[], 1, true));
    }
}
