//! What must be said of the rate that a search finds: more is streamed than an API server was seen to, answers are in step, a trace's
//! hours are shorter than they were.

use crate::analysis::knee::Knee;
use crate::config::Resolved;
use crate::report::Sizing;
use crate::report::figures::{significant_down, time};
use crate::workload::{Arrivals, mean_rate};

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
        .map(|(rate, said)| format!("at {} req/s {said}", significant_down(rate)))
        .collect()
}

/// That a trace is gone through in less time than it took, or more: its peaks last less, or longer, than those of the days that it
/// stands for. A day curve keeps its hours.
pub(super) fn sped_up(resolved: &Resolved, knee: &Knee, sizing: Option<&Sizing>) -> Option<String> {
    /// A part that moves no answer.
    const LITTLE: f64 = 1.25;
    let workload = &resolved.scenario.workload;
    let Arrivals::Replay { requests, time_scale } = &workload.arrivals else {
        return None;
    };
    let found = knee.within_slo.map(|found| found.value);
    let rate = sizing.map(|sizing| sizing.demand.rate).or(found)?;
    let own_s = requests
        .last()?
        .arrival
        .saturating_sub(requests.first()?.arrival)
        .seconds()
        * time_scale;
    let factor = rate / mean_rate(workload)?;
    (factor.max(1.0 / factor) > LITTLE).then(|| {
        let (faster, less) = match factor > 1.0 {
            true => ("shorter", "less time"),
            false => ("longer", "more time"),
        };
        format!(
            "at {} req/s the trace's {} are gone through in {}: its hours are {faster}, and queues have {less} to build up in a peak than \
             in such a day (a curve that `trace --fit` makes of it keeps its hours at any rate)",
            significant_down(rate),
            time(own_s),
            time(own_s / factor)
        )
    })
}
