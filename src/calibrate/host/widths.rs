//! How well the terms are known: of everybody's host by draws, of the server that was measured by the hosts that its runs allow.

use std::collections::BTreeMap;

use super::linear::draws;
use super::reach::{self, Reach};
use super::slower_card::OtherCard;
use super::terms::BANDWIDTH;
use super::{Best, Linear, Trial};
use crate::calibrate::component::{Options, intervals, rounded, unidentified};
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::HostPair;
use crate::stats::{Z_90, quantile};

/// Intervals by the names of parameters.
pub(super) type Intervals = BTreeMap<String, [f64; 2]>;

/// Terms as another fit has them, to which intervals reach.
pub(super) struct OtherTerms {
    pub(super) values: Vec<f64>,
    pub(super) interval_90: Intervals,
    pub(super) draws: Vec<Vec<f64>>,
}

impl OtherTerms {
    /// Those of a trial, and how far they may lie from its best values.
    pub(super) fn of(trial: &Trial, values: &[f64], options: &Options) -> OtherTerms {
        if trial.known.is_of_server {
            let reached = reach::reach(trial, values);
            return OtherTerms {
                values: reached.values,
                interval_90: reached.interval_90,
                draws: Vec::new(),
            };
        }
        let draws = draws(trial, &Linear::new(trial, values), options);
        OtherTerms {
            values: values.to_vec(),
            interval_90: holding(intervals(&trial.parameters, &draws), &trial.parameters, values),
            draws,
        }
    }
}

/// How well the terms are known.
pub(super) struct Widths {
    pub(super) interval_90: Intervals,
    pub(super) unidentified: Vec<&'static str>,
    pub(super) narrowed: usize,
    pub(super) sigma_ln: f64,
    pub(super) directions: Vec<HostPair>,
}

impl Widths {
    /// Of the host that is quoted: intervals reach to the fits of `others`, and so do directions, and to the host beside another card.
    pub(super) fn of(
        best: &Best,
        linear: &Linear,
        others: &[&OtherTerms],
        card: Option<&OtherCard>,
        options: &Options,
    ) -> Widths {
        let Best { trial, values, reach } = best;
        let mut widths = match reach {
            Some(reach) => Widths::reached(trial, reach),
            None => Widths::drawn(trial, linear, others, options),
        };
        for other in others {
            widen(&mut widths.interval_90, &other.interval_90);
        }
        if reach.is_some() {
            let here = terms_of(trial, values, values);
            let ends = others.iter().map(|other| terms_of(trial, values, &other.values));
            let of_card = card.map(|card| card.terms.clone());
            let further = ends.chain(of_card).map(|other| pair(other, here.clone()));
            widths.directions.extend(further);
        }
        widths
    }

    /// Of everybody's host: how the terms scatter as other servers' runs and other beliefs have them.
    fn drawn(trial: &Trial, linear: &Linear, others: &[&OtherTerms], options: &Options) -> Widths {
        let parameters = &trial.parameters;
        let mut draws = draws(trial, linear, options);
        let interval_90 = holding(intervals(parameters, &draws), parameters, &linear.at);
        draws.extend(others.iter().flat_map(|other| other.draws.iter().cloned()));
        let half_width = |index: usize| {
            let column: Vec<f64> = draws.iter().map(|draw| draw[index].ln()).collect();
            let at = |p: f64| quantile(&column, p).unwrap_or(0.0);
            (at(0.84) - at(0.16)) / 2.0
        };
        let unidentified = unidentified(parameters, &draws);
        Widths {
            interval_90,
            narrowed: parameters.len() - unidentified.len(),
            unidentified,
            sigma_ln: rounded(sigma(parameters, &half_width)),
            directions: Vec::new(),
        }
    }

    /// Of the server that was measured: which hosts its runs allow.
    fn reached(trial: &Trial, reached: &Reach) -> Widths {
        let half_width = |index: usize| {
            let [low, high] = reached.interval_90[trial.parameters[index].name];
            (high / low).ln() / (2.0 * Z_90)
        };
        let ends = |values: &Vec<f64>| terms_of(trial, &reached.values, values);
        let direction = |[one, other]: &[Vec<f64>; 2]| pair(ends(one), ends(other));
        Widths {
            interval_90: reached.interval_90.clone(),
            unidentified: reached.unidentified.clone(),
            narrowed: reached.narrowed,
            sigma_ln: rounded(sigma(&trial.parameters, &half_width)),
            directions: reached.directions.iter().map(direction).collect(),
        }
    }
}

/// Two hosts, the one first that has less of the term by which they differ most.
fn pair(one: BTreeMap<String, f64>, other: BTreeMap<String, f64>) -> HostPair {
    let apart = one
        .iter()
        .filter_map(|(term, value)| Some((other.get(term)? / value).ln()));
    let widest = apart.max_by(|one, other| one.abs().total_cmp(&other.abs()));
    let (less, more) = match widest.is_some_and(|apart| apart < 0.0) {
        true => (other, one),
        false => (one, other),
    };
    HostPair { less, more }
}

/// Terms by their names; a factor on the bandwidth over the one that was found, which the calibration holds already.
pub(super) fn terms_of(trial: &Trial, found: &[f64], values: &[f64]) -> BTreeMap<String, f64> {
    let all = trial.parameters.iter().zip(found).zip(values);
    all.map(|((parameter, found), value)| {
        let value = match parameter.name {
            BANDWIDTH => rounded(value / found),
            _ => *value,
        };
        (parameter.name.to_owned(), rounded(value))
    })
    .collect()
}

/// Draws are of the runs' first-order expansion, whose best values may lie beside those of the runs: an interval reaches
/// to what it is the interval of.
fn holding(mut intervals: Intervals, parameters: &[Parameter], values: &[f64]) -> Intervals {
    for (parameter, value) in parameters.iter().zip(values) {
        if let Some([low, high]) = intervals.get_mut(parameter.name) {
            (*low, *high) = (low.min(*value), high.max(*value));
        }
    }
    intervals
}

/// Makes intervals reach to the ends of others.
fn widen(intervals: &mut Intervals, others: &Intervals) {
    for (name, [low, high]) in intervals {
        if let Some([lower, higher]) = others.get(name) {
            (*low, *high) = (low.min(*lower), high.max(*higher));
        }
    }
}

/// Least relative uncertainty of the host's share: one CPU is not another.
const HOST_SIGMA: f64 = 0.2;

/// The widest of the terms that are added to a synchronous step; without runs of that kind, of the others.
fn sigma(parameters: &[Parameter], width: &dyn Fn(usize) -> f64) -> f64 {
    let widest = |names: [&str; 2]| {
        let named = parameters
            .iter()
            .enumerate()
            .filter(|(_, p)| names.contains(&p.name));
        named.map(|(index, _)| width(index)).reduce(f64::max)
    };
    let widest =
        widest(["step_us", "per_seq_us"]).or_else(|| widest(["async_gap_us", "async_gap_per_seq_us"]));
    widest.unwrap_or(HOST_SIGMA).max(HOST_SIGMA)
}
