//! Whether a card that reads weights faster or slower than its table says would explain the runs with less of a surprise than a
//! host that nobody expected.
//!
//! A time added to every step and a factor on every step are nearly one at small batches: a throttled or shared card is fitted by a
//! host many times as slow, and then predicts other batches and models wrongly. Asked only where a term lies far from
//! what was believed, and no factor was sought.

use super::alone::CHANCE;
use super::consensus::is_believable;
use super::descent::newton;
use super::{BANDWIDTH, Known, Loss, Trial};
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::GemmForm;

/// Share of a datasheet's bandwidth that nothing exceeds: caches and clocks move it a little beyond 1.
const MOST: f64 = 1.05;

/// A card that would be less of a surprise than the host that was found.
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
}

/// `None` where the host was to be expected, or the card would be as much of a surprise.
pub(super) fn slower_card(trial: &Trial, values: &[f64]) -> Option<SlowerCard> {
    let known = trial.known;
    if is_believable(trial, values)
        || known.bandwidth_of.is_some()
        || !trial.cards.iter().any(|(_, own)| *own)
    {
        return None;
    }
    let with_factor = Known {
        bandwidth_of: Some(&known.device.id),
        ..*known
    };
    let other = Trial::of(trial.runs.clone(), &with_factor, trial.sought)?;
    let end = newton(&other, Loss::SoftL1, &other.priors());
    let cost = |trial: &Trial, values: &[f64]| trial.cost(Loss::SoftL1, values, &trial.errors(values));
    let is_likelier = cost(trial, values) - cost(&other, &end) > CHANCE;
    let at = other.parameters.iter().position(|of| of.name == BANDWIDTH)?;
    let distance = |(of, value): &(&Parameter, &f64)| of.apart(**value, of.prior);
    let terms = trial.parameters.iter().zip(values);
    let (term, value) = terms.max_by(|one, two| distance(one).total_cmp(&distance(two)))?;
    let first = &trial.runs[0].resolved.model.name;
    is_likelier.then(|| SlowerCard {
        gpu: known.device.id.clone(),
        factor: end[at],
        term: term.name,
        values: [*value, term.prior],
        has_several_models: trial.runs.iter().any(|run| run.resolved.model.name != *first),
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
