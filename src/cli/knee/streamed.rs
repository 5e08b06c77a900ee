//! What API servers stream at the rate that a search finds, where that is more than one was seen to.

use crate::analysis::knee::Knee;
use crate::report::figures::significant;

/// What there is to say of it, at which rate.
pub(super) type Streamed = Vec<(f64, String)>;

/// What is said of the highest rate that the answer vouches for, if that is more than API servers were seen to stream.
pub(super) fn below(knee: &Knee, streamed: Streamed) -> Vec<String> {
    let answer = knee.within_slo.or(knee.saturation);
    let within = knee.points.iter().map(|point| point.rate);
    let highest = within.filter(|&rate| answer.is_some_and(|answer| rate <= answer.value));
    let highest = highest.fold(f64::NEG_INFINITY, f64::max);
    let of_highest = streamed.into_iter().filter(|(rate, _)| *rate == highest);
    of_highest
        .map(|(rate, said)| format!("at {} req/s {said}", significant(rate)))
        .collect()
}
