//! Whether the runs are better explained by a card that reads weights faster or slower than its table says than by any host, or by
//! the host that was found.
//!
//! At small batches a time added to every step and a factor on every step look nearly the same: a throttled or shared card is
//! fitted as a host many times too slow, and then other batches and models are predicted wrongly. Where runs tell the two apart
//! (usually runs of models of several sizes), a fit with the factor that gains more than chance explains *decides*. Where they
//! do not, and only if a term lies far from its prior, the less surprising of the two is named, and predictions reach to both.
//! Skipped where a factor is fitted anyway.

use std::collections::BTreeMap;

use super::alone::CHANCE;
use super::consensus::is_believable;
use super::descent::newton;
use super::{BANDWIDTH, Known, Loss, Trial, reach, terms_of};
use crate::calibrate::component::percent;
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::GemmForm;

/// Share of a datasheet's bandwidth that nothing exceeds: caches and clocks move it a little beyond 1.
const MOST: f64 = 1.05;
/// Gain that chance does not give: chi squared of one parameter exceeds it once in a thousand.
const DECIDES: f64 = 10.8;
/// How much campaigns differ from each other, in the logarithm: a factor nearer to 1 explains nothing.
const CAMPAIGNS: f64 = 0.05;

/// A card that explains the runs instead of the host that was found, or would be less of a surprise.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowerCard {
    /// Its id.
    pub gpu: String,
    /// Factor on the bandwidth of its products.
    pub factor: f64,
    /// The host's term that is furthest from what was believed.
    pub term: &'static str,
    /// As it was found, and as it was believed to be.
    pub values: [f64; 2],
    /// The runs are of several models, which tells a card from a host.
    pub has_several_models: bool,
    /// Where the runs decide: the median errors without the factor and with it, in percent.
    pub decided: Option<[f64; 2]>,
}

/// What is told of it, and its host with the factor.
pub(super) struct OtherCard {
    pub(super) told: SlowerCard,
    pub(super) terms: BTreeMap<String, f64>,
}

/// `None` where the host was to be expected and meets the runs, or the card would be as much of a surprise. `firmly` is a trial with its
/// best values, `loosely` the same with wider priors for one's own server.
pub(super) fn slower_card(firmly: (&Trial, &[f64]), loosely: (&Trial, &[f64])) -> Option<OtherCard> {
    let (trial, values) = firmly;
    if trial.known.bandwidth_of.is_some() || !trial.cards.iter().any(|(_, own)| *own) {
        return None;
    }
    decided(loosely.0, loosely.1).or_else(|| {
        let mut card = likelier(trial, values)?;
        let mut terms = trial.parameters.iter().zip(loosely.1);
        let (_, found) = terms.find(|(of, _)| of.name == card.told.term)?;
        card.told.values[0] = *found;
        Some(card)
    })
}

/// The card without which no host meets the runs.
fn decided(trial: &Trial, values: &[f64]) -> Option<OtherCard> {
    let errors = trial.errors(values);
    let missed = trial.misses(&errors);
    // No fit gains more than there is to gain.
    if !trial.known.is_of_server || missed < DECIDES {
        return None;
    }
    let with_factor = with_factor(trial.known);
    let other = reach::loosely(&Trial::of(trial.runs.clone(), &with_factor, trial.sought)?);
    let mut here = values.to_vec();
    here.push(1.0);
    let starts = [other.priors(), here];
    let ends = starts.map(|start| {
        let end = newton(&other, Loss::SoftL1, &start);
        let errors = other.errors(&end);
        (other.cost(Loss::SoftL1, &end, &errors), end, errors)
    });
    let (cost, end, with) = ends.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let gains = (missed - other.misses(&with)) / other.scatter(&with).max(1.0) > DECIDES
        && trial.cost(Loss::SoftL1, values, &errors) - cost > CHANCE;
    let found = found(trial, values, &other, &end)?;
    let factor = found.told.factor;
    // A card that reads faster than its memory explains nothing.
    let is_another = factor.ln().abs() > CAMPAIGNS && over_bandwidth(trial.known, factor).is_none();
    (gains && is_another).then(|| OtherCard {
        told: SlowerCard {
            decided: Some([percent(&errors, 0.5), percent(&with, 0.5)]),
            ..found.told
        },
        ..found
    })
}

/// The card that would be less of a surprise than a host that nobody expected.
fn likelier(trial: &Trial, values: &[f64]) -> Option<OtherCard> {
    if is_believable(trial, values) {
        return None;
    }
    let with_factor = with_factor(trial.known);
    let other = Trial::of(trial.runs.clone(), &with_factor, trial.sought)?;
    let end = newton(&other, Loss::SoftL1, &other.priors());
    let cost = |trial: &Trial, values: &[f64]| trial.cost(Loss::SoftL1, values, &trial.errors(values));
    let is_likelier = cost(trial, values) - cost(&other, &end) > CHANCE;
    found(trial, values, &other, &end).filter(|_| is_likelier)
}

fn with_factor<'a>(known: &Known<'a>) -> Known<'a> {
    Known {
        bandwidth_of: Some(&known.device.id),
        ..*known
    }
}

fn found(trial: &Trial, values: &[f64], other: &Trial, end: &[f64]) -> Option<OtherCard> {
    let at = other.parameters.iter().position(|of| of.name == BANDWIDTH)?;
    let distance = |(of, value): &(&Parameter, &f64)| of.apart(**value, of.prior);
    let terms = trial.parameters.iter().zip(values);
    let (term, value) = terms.max_by(|one, two| distance(one).total_cmp(&distance(two)))?;
    let first = &trial.runs[0].resolved.model.name;
    Some(OtherCard {
        told: SlowerCard {
            gpu: trial.known.device.id.clone(),
            factor: end[at],
            term: term.name,
            values: [*value, term.prior],
            has_several_models: trial.runs.iter().any(|run| run.resolved.model.name != *first),
            decided: None,
        },
        // The file holds the table's bandwidth.
        terms: terms_of(other, &vec![1.0; end.len()], end),
    })
}

/// Share of the card's bandwidth at which its products would read weights, where that is more than there is.
pub(super) fn over_bandwidth(known: &Known, factor: f64) -> Option<f64> {
    let shares = known.calibration.gemm.values().map(|gemm| match &gemm.form {
        GemmForm::OccupancyPnorm(form) => form.bandwidth_efficiency,
        GemmForm::C5(form) => 1e9 * form.w_gbs / known.device.memory_bandwidth.0,
    });
    let most = shares.fold(0.0, f64::max) * factor;
    (most > MOST).then_some(most)
}
