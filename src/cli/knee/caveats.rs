//! What must be said of the rate that a search finds: more is streamed than an API server was seen to, answers are in step.

use crate::analysis::knee::Knee;
use crate::report::figures::significant;

/// Rates, and a sentence on each.
pub(super) type Caveats = Vec<(f64, String)>;

/// Those of the highest rate that the answer vouches for.
pub(super) fn at_the_answer(knee: &Knee, caveats: Caveats) -> Vec<String> {
    let answer = knee.within_slo.or(knee.saturation);
    let within = knee.points.iter().map(|point| point.rate);
    let highest = within.filter(|&rate| answer.is_some_and(|answer| rate <= answer.value));
    let highest = highest.fold(f64::NEG_INFINITY, f64::max);
    let of_highest = caveats.into_iter().filter(|(rate, _)| *rate == highest);
    of_highest
        .map(|(rate, said)| format!("at {} req/s {said}", significant(rate)))
        .collect()
}
