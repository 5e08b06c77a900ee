//! A second look at overload that was seen in the load alone, on a batch that was still growing.
//!
//! What larger batches will cost is extrapolated there ([`super::saturation`]), and an engine whose steps take everybody in may fill up
//! for longer than a run of a given number of requests lasts. Nothing has to be extrapolated where the same traffic can simply
//! be let go on.

use super::experiment::{Experiment, simulate};
use super::judge::{Precision, STABLE_WITHIN};
use super::{LoadKind, Verdict};
use crate::sim::Scenario;

/// How many times the requests of the run it may have. One that is overloaded ends as soon as it shows.
const TIMES: u64 = 64;
/// And how many it has at least before anything is decided: with fewer it would see the same filling up.
const TIMES_MIN: u64 = 4;
/// Requests that it has at most: a quarter of a second. A run so long has filled up by itself.
const REQUESTS_MAX: u64 = 200_000;

/// How many requests it takes until the traffic of a run of `sent` requests has settled; `None` where it does not, or has an end that
/// is not their number.
pub(super) fn settles_in(scenario: &Scenario, experiment: &Experiment, sent: u64) -> Option<u64> {
    let is_cut = !experiment.stops_when_precise && scenario.workload.num_prompts.is_some();
    let max_requests = (TIMES * sent).min(REQUESTS_MAX);
    if !is_cut || LoadKind::of_scenario(scenario) != LoadKind::Open || max_requests < TIMES_MIN * sent {
        return None;
    }
    let mut on = scenario.clone();
    on.workload.num_prompts = Some(max_requests);
    on.workload.duration = None;
    let until_told = Experiment {
        precision: Precision {
            relative: STABLE_WITHIN,
            min_requests: TIMES_MIN * sent,
            max_requests,
            attainment: None,
        },
        stops_when_precise: true,
        ..*experiment
    };
    let result = simulate(&on, &until_told, |_| true).result;
    let settles = matches!(result.verdict, Verdict::Stable | Verdict::Critical);
    settles.then_some(result.whole.sent)
}
