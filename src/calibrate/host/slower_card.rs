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
use crate::quantity::significant;

/// In words; `None` where the host was to be expected, or the card would be as much of a surprise.
pub(super) fn slower_card(trial: &Trial, values: &[f64]) -> Option<String> {
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
    let distance = |(of, value): &(&Parameter, &f64)| {
        let away = of.scaled(**value) - of.scaled(of.prior);
        away.abs() / of.sd
    };
    let terms = trial.parameters.iter().zip(values);
    let (term, value) = terms.max_by(|one, two| distance(one).total_cmp(&distance(two)))?;
    is_likelier.then(|| {
        format!(
            "{} = {} is far from what was believed ({}), and a card that reads weights at {:.2} of the bandwidth that its products are \
             known to have would explain these runs with less of a surprise: a run of a model of another size or `plimsoll probe` tells \
             them apart, and --fit-bandwidth {} seeks that factor",
            term.name,
            significant(*value),
            significant(term.prior),
            end[at],
            known.device.id
        )
    })
}
