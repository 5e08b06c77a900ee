//! The search for the terms under which runs come out as measured: Gauss and Newton's, and a walk where that gets stuck.
//!
//! Figures of a simulation have a grain: a median jumps from one request to the next, and a slope that was read off the
//! grain leads nowhere. So where half of the figures are still off by more than runs repeat, the search goes on by
//! trials alone, one term after the other with ever shorter strides (Hooke and Jeeves 1961), which needs no slope.
//! Laws: the cost never rises; the same start gives the same end; a fit that is as near as runs repeat is not walked on.

use super::{Linear, Loss, RUN_SIGMA, Trial};
use crate::stats::quantile;

/// Expansions at most, and the share of the cost below which another is not worth it.
const ROUNDS: usize = 8;
const ENOUGH: f64 = 0.999;
/// Strides of the walk at its start and at its end, in the logarithm of a term.
const STRIDES: (f64, f64) = (0.7, 0.02);
/// How far from what is believed further walks begin, in its standard deviations: all terms slower, or all faster.
const STARTS: [f64; 2] = [2.0, -2.0];
/// Simulations of all runs in one walk at most.
const TRIALS: usize = 160;

/// The best terms that are found from a start.
pub(super) fn invert(trial: &Trial, loss: Loss, start: &[f64]) -> Vec<f64> {
    let found = newton(trial, loss, start);
    // The redescending loss lets half of the runs be far off on purpose.
    if loss == Loss::Redescending || is_as_measured(&trial.errors(&found)) {
        return found;
    }
    newton(trial, loss, &walk(trial, loss, &found))
}

/// Whether half of the figures are as near as runs repeat.
pub(super) fn is_as_measured(errors: &[f64]) -> bool {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    quantile(&sizes, 0.5).is_none_or(|median| median <= RUN_SIGMA)
}

/// Gauss-Newton on the simulator: expand the errors around the best values so far, solve the expansion, go there, or
/// half the way where that was too far. Steps of 5 % see through the grain of a simulation, which finer ones do not.
pub(super) fn newton(trial: &Trial, loss: Loss, start: &[f64]) -> Vec<f64> {
    let centred = vec![0.0; start.len()];
    let mut best = start.to_vec();
    let cost_of = |values: &[f64], errors: &[f64]| trial.cost(loss, values, errors);
    let mut expansion = Linear::new(trial, &best);
    let mut least = cost_of(&best, &expansion.errors);
    for _ in 0..ROUNDS {
        let errors = |values: &[f64]| expansion.errors(&trial.parameters, values);
        let aim = trial.task(loss, &errors, &centred).solve(&[best.clone()]);
        let towards = |share: f64| -> Vec<f64> {
            let pairs = best.iter().zip(&aim);
            pairs.map(|(from, to)| from * (to / from).powf(share)).collect()
        };
        let tried = [1.0, 0.5, 0.25].into_iter().find_map(|share| {
            let values = towards(share);
            let cost = cost_of(&values, &trial.errors(&values));
            (cost < least).then_some((cost, values))
        });
        let Some((cost, values)) = tried else {
            break;
        };
        let is_done = cost > ENOUGH * least;
        (least, best) = (cost, values);
        if is_done {
            break;
        }
        expansion = Linear::new(trial, &best);
    }
    best
}

/// The best end of several walks: from where Newton's got stuck, and from far to both sides of what is believed.
fn walk(trial: &Trial, loss: Loss, stuck: &[f64]) -> Vec<f64> {
    let inside = |values: Vec<f64>| -> Vec<f64> {
        let pairs = trial.parameters.iter().zip(values);
        pairs
            .map(|(parameter, value)| value.clamp(parameter.low, parameter.high))
            .collect()
    };
    let cost = |values: &[f64]| trial.cost(loss, values, &trial.errors(values));
    let believed = |away: f64| {
        let parameters = trial.parameters.iter();
        parameters
            .map(|parameter| parameter.prior * (away * parameter.sd).exp())
            .collect()
    };
    let starts = STARTS.map(believed);
    let mut best = descend(stuck, &cost, &inside);
    for start in starts {
        let end = descend(&inside(start), &cost, &inside);
        if end.1 < best.1 {
            best = end;
        }
    }
    best.0
}

/// One walk downhill, along one term after the other and on in the direction of all that helped: its end, and the cost
/// there. `inside` puts values back within their bounds.
fn descend(
    start: &[f64],
    cost: &dyn Fn(&[f64]) -> f64,
    inside: &dyn Fn(Vec<f64>) -> Vec<f64>,
) -> (Vec<f64>, f64) {
    let (mut best, mut least) = (start.to_vec(), cost(start));
    let (mut stride, mut trials) = (STRIDES.0, 0);
    while stride > STRIDES.1 && trials < TRIALS {
        let before = best.clone();
        let mut goes_to = |best: &mut Vec<f64>, values: Vec<f64>| {
            trials += 1;
            let there = cost(&values);
            let is_better = there < least;
            if is_better {
                (*best, least) = (values, there);
            }
            is_better
        };
        for index in 0..best.len() {
            for factor in [stride.exp(), (-stride).exp()] {
                let mut values = best.clone();
                values[index] *= factor;
                if goes_to(&mut best, inside(values)) {
                    break;
                }
            }
        }
        if best == before {
            stride /= 2.0;
            continue;
        }
        let pairs = best.iter().zip(&before);
        let further = pairs.map(|(now, before)| now * (now / before)).collect();
        goes_to(&mut best, inside(further));
    }
    (best, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A valley across both terms, with steps that hide every slope of 5 %.
    fn jagged(values: &[f64]) -> f64 {
        let sum = (values[0] / 40.0 + values[1] / 3.0 - 2.0).abs();
        let ratio = (values[0] / values[1] / (40.0 / 3.0)).ln().abs();
        (10.0 * (sum + ratio)).ceil()
    }

    #[test]
    fn a_walk_needs_no_slope_and_stays_inside() {
        let inside =
            |values: Vec<f64>| -> Vec<f64> { values.iter().map(|value| value.clamp(1.0, 100.0)).collect() };
        let (found, _) = descend(&[8.0, 20.0], &jagged, &inside);
        assert!(jagged(&[8.0, 20.0]) > 80.0 && jagged(&found) <= 5.0, "{found:?}");
        let end = |values: &[f64]| -values[0];
        assert_eq!(descend(&[8.0, 20.0], &end, &inside).0[0], 100.0);
    }

    #[test]
    fn half_of_the_figures_decide_whether_a_fit_is_as_measured() {
        assert!(is_as_measured(&[0.01, -0.02, 0.4]) && !is_as_measured(&[0.01, -0.1, 0.1]));
    }
}
