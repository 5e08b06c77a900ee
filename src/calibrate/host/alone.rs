//! A load that stands alone: without it all others are met much better, or a term comes out as expected.
//!
//! A run that something else slowed down by a tenth or two is not far off after a fit: a term that only this run determines
//! absorbs the difference, and then predicts anything. So each load is left out in turn, and the gain of the fit is weighed
//! against the price of leaving it out ([`price`]): a run is believed to be of another server with probability [`BAD`], and its
//! figures then scatter by [`WILD`]. A load whose gain exceeds the price is left out and reported. If the gain is less, but
//! more than chance explains, intervals reach to both fits.
//! Of a load that was measured several times, each run is also left out by itself, in case only one of the repeats differs.
//! Where lengths were assumed equal, a load must stand alone with scattered lengths, too.
//! Laws: of fewer than three loads none stands alone; an error that all loads share is the model's, not a load's.

use super::consensus::Fewer;
use super::descent::{invert, newton};
use super::{Loss, Options, OtherTerms, RUN_SIGMA, Trial, reach, rounded_all};
use crate::calibrate::component::rounded;
use crate::calibrate::runs::Run;
use crate::calibrate::solve::Parameter;

/// How likely a run is of another server, or disturbed, before its figures are seen.
const BAD: f64 = 0.02;
/// What the figures of such a run are off by, of the logarithm.
const WILD: f64 = 0.25;
/// Gain that chance hardly gives: chi squared of two figures exceeds it once in twenty.
pub(super) const CHANCE: f64 = 6.0;
/// Numbers of loads of which one may stand alone: among more, no single one determines a term.
const LOADS: std::ops::RangeInclusive<usize> = 3..=12;
/// How far a load must move a term for the term to be named, in standard deviations of its prior.
const TOLD: f64 = 1.0;

/// The load without which the fit gains most, if that is more than chance gives.
pub(super) struct Alone<'a> {
    /// The fit to the others.
    pub(super) others: Fewer<'a>,
    /// Which it is, and what it moves.
    pub(super) told: StandsAlone,
}

/// A load, or one of its runs, beside the fit to all others.
#[derive(Clone, Debug, PartialEq)]
pub struct StandsAlone {
    /// Its first run.
    pub run: String,
    /// The term that it moves furthest, if that is far.
    pub moved: Option<Moved>,
    /// The gain is more than leaving it out costs.
    pub is_left_out: bool,
}

/// A term by fits to other runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Its name.
    pub term: &'static str,
    /// As all runs have it.
    pub with: f64,
    /// As the others have it.
    pub without: f64,
    /// As it was believed to be.
    pub believed: f64,
}

/// What leaving a load out costs: the odds that each of its runs is good, and how much less likely its figures are if they may be
/// anything.
fn price(runs: usize, weight: f64) -> f64 {
    let good = 2.0 * ((1.0 - BAD) / BAD).ln() * runs as f64;
    good + 2.0 * weight * (WILD / RUN_SIGMA).ln()
}

/// `None` where no load gains more than chance gives, or the terms are the same without it; `first` is the fit to all.
pub(super) fn alone<'a>(all: &Trial<'a>, first: &[f64]) -> Option<Alone<'a>> {
    let mut found = as_read(all, first)?;
    if all.runs.iter().any(|run| run.scattered.is_some()) {
        let runs: Vec<Run> = all.runs.iter().map(|run| run.as_scattered()).collect();
        let other = Trial::of(runs.iter().collect(), all.known, all.sought)?;
        let scattered = as_read(&other, &invert(&other, Loss::SoftL1, first))?.told;
        if scattered.run != found.told.run {
            return None;
        }
        found.told.is_left_out &= scattered.is_left_out;
    }
    let is_told = found.told.is_left_out || found.told.moved.is_some();
    is_told.then_some(found)
}

/// The load without which a trial gains most, with lengths as that trial reads them.
fn as_read<'a>(all: &Trial<'a>, first: &[f64]) -> Option<Alone<'a>> {
    if !LOADS.contains(&all.loads.count) {
        return None;
    }
    let with = all.cost(Loss::SoftL1, first, &all.errors(first));
    let judged = candidates(all).into_iter().filter_map(|own| {
        let others = without(all, first, &own)?;
        // Where the others are off by more than runs repeat, so may this one be.
        let gain = (with - others.cost) / others.scatter.max(1.0);
        let rows = all.rows.iter().zip(&all.weights);
        let weights = rows
            .filter(|(run, _)| own.contains(run))
            .map(|(_, weight)| weight);
        let price = price(own.len(), weights.sum());
        (gain > CHANCE).then_some((gain - price, own, others))
    });
    let (surplus, own, others) = judged.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let told = StandsAlone {
        run: all.runs[own[0]].label.clone(),
        moved: furthest(all, first, &others.fewer),
        is_left_out: surplus > 0.0,
    };
    Some(Alone {
        others: others.fewer,
        told,
    })
}

/// The runs of each load, and each run of one that has several.
fn candidates(all: &Trial) -> Vec<Vec<usize>> {
    let of_load = |load: usize| -> Vec<usize> {
        let runs = 0..all.runs.len();
        runs.filter(|run| all.loads.of[*run] == load).collect()
    };
    let loads: Vec<Vec<usize>> = (0..all.loads.count).map(of_load).collect();
    let repeated = loads.iter().filter(|runs| runs.len() > 1);
    let singles: Vec<Vec<usize>> = repeated.flatten().map(|run| vec![*run]).collect();
    match singles.len() <= *LOADS.end() {
        true => loads.into_iter().chain(singles).collect(),
        false => loads,
    }
}

/// The fit without some runs.
struct Without<'a> {
    fewer: Fewer<'a>,
    cost: f64,
    /// Mean square of what its runs are off by, over that by which runs repeat.
    scatter: f64,
}

fn without<'a>(all: &Trial<'a>, first: &[f64], own: &[usize]) -> Option<Without<'a>> {
    let kept: Vec<usize> = (0..all.runs.len()).filter(|run| !own.contains(run)).collect();
    let runs = kept.iter().map(|run| all.runs[*run]).collect();
    let trial = Trial::of(runs, all.known, all.sought)?;
    let parameters = trial.parameters.iter();
    let start = parameters.map(|of| value_of(all, first, of.name).unwrap_or(of.prior));
    // Where the load has led the fit astray, that of the others begins best from what was believed.
    let starts = [start.collect(), trial.priors()];
    let ends = starts.map(|start| {
        let values = rounded_all(newton(&trial, Loss::SoftL1, &start));
        let errors = trial.errors(&values);
        (trial.cost(Loss::SoftL1, &values, &errors), values, errors)
    });
    let (cost, values, errors) = ends.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(Without {
        cost,
        scatter: trial.scatter(&errors),
        fewer: Fewer { trial, values, kept },
    })
}

fn value_of(all: &Trial, values: &[f64], name: &str) -> Option<f64> {
    let place = all
        .parameters
        .iter()
        .position(|parameter| parameter.name == name)?;
    Some(values[place])
}

/// The term that a load moves furthest, relative to the width of its prior; without the load, a term that only it determines is at
/// its prior.
fn furthest(all: &Trial, first: &[f64], others: &Fewer) -> Option<Moved> {
    let moved = all.parameters.iter().zip(first).map(|(parameter, with)| {
        let without = value_of(&others.trial, &others.values, parameter.name).unwrap_or(parameter.prior);
        let moved = Moved {
            term: parameter.name,
            with: *with,
            without,
            believed: parameter.prior,
        };
        (parameter.apart(*with, without), moved)
    });
    let most = moved.max_by(|one, other| one.0.total_cmp(&other.0));
    most.filter(|(distance, _)| *distance >= TOLD)
        .map(|(_, moved)| moved)
}

/// The terms of `all` by the fit to the others; those that the others do not determine are at their priors.
pub(super) fn beside(all: &Trial, others: &Fewer, options: &Options) -> OtherTerms {
    let Fewer { trial, values, .. } = others;
    let own = match trial.known.is_of_server {
        true => OtherTerms::of(&reach::loosely(trial), values, options),
        false => OtherTerms::of(trial, values, options),
    };
    let of_all = |own: &Vec<f64>| -> Vec<f64> {
        let parameters = all.parameters.iter();
        let value = |of: &Parameter| value_of(trial, own, of.name).unwrap_or(of.prior);
        parameters.map(value).collect()
    };
    let interval = |of: &Parameter| {
        let own = own.interval_90.get(of.name).copied();
        (of.name.to_owned(), own.unwrap_or([rounded(of.prior); 2]))
    };
    OtherTerms {
        interval_90: all.parameters.iter().map(interval).collect(),
        draws: own.draws.iter().map(of_all).collect(),
        values: of_all(&own.values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two figures of a run of one's own among four: 12.7 for their scatter, 7.8 for the odds.
    #[test]
    fn a_load_costs_more_the_more_often_it_was_run() {
        assert!((price(1, 3.0) - 20.5).abs() < 0.1, "{}", price(1, 3.0));
        assert!(price(2, 3.0) > price(1, 3.0) + 7.0 && price(1, 3.0) > CHANCE);
    }
}
