//! One rate of a search: how long its run is, and what is read off it.

use super::super::{present, progress};
use super::classes;
use crate::analysis::knee::{Objective, Point};
use crate::analysis::{
    FAILURES_ENOUGH, LoadKind, Outcome, Precision, RunResult, bursts_span_s, failures_span_s, simulate,
};
use crate::config::Resolved;
use crate::metrics::Records;
use crate::report::counted;
use crate::report::figures::significant;
use crate::workload::{Arrivals, Prefix, WorkloadSpec, endless, with_rate};

/// Half-width that one point of the search asks for, and the requests that it may cost: a search looks at some twenty
/// rates, and the bracket on the rate, not the latency at one rate, is its answer.
pub(super) const POINT: Precision = Precision {
    relative: 0.03,
    min_requests: 2_000,
    max_requests: 60_000,
    attainment: None,
};

/// How many times as long as another a run may be that tells where the knee's interval ends.
pub(super) const LONGEST: u64 = 4;

/// The asked precision of a point, which costs with its inverse square, or [`POINT`].
pub(super) fn precision(resolved: &Resolved) -> Precision {
    let asked = resolved
        .provenance
        .iter()
        .find(|value| value.key == "workload.precision" && !value.is_assumed());
    let Some(relative) = asked.and_then(|asked| asked.value.parse::<f64>().ok()) else {
        return POINT;
    };
    let dearer = (POINT.relative / relative).powi(2);
    Precision {
        relative,
        max_requests: ((POINT.max_requests as f64 * dearer) as u64).clamp(10_000, 10_000_000),
        ..POINT
    }
}

/// Requests that one is ready to simulate at a rate to see what happens seldom: most of a second of work.
const FOR_SELDOM: u64 = 600_000;

/// Requests of a run that sees enough failures and bursts, where there are any. Failures are left out where they are so rare that
/// with all that one is ready to simulate hardly one would be seen.
fn for_seldom(resolved: &Resolved, rate: f64) -> u64 {
    let scenario = &resolved.scenario;
    let failures = rate * failures_span_s(scenario);
    let failures = Some(failures).filter(|wanted| *wanted <= FAILURES_ENOUGH * FOR_SELDOM as f64);
    let bursts = rate * bursts_span_s(&scenario.workload);
    (failures.unwrap_or(0.0).max(bursts).ceil() as u64).min(FOR_SELDOM)
}

/// One rate.
pub(super) fn run_at(resolved: &Resolved, rate: f64, precision: Precision) -> Outcome {
    let precision = Precision {
        max_requests: precision.max_requests.max(for_seldom(resolved, rate)),
        ..precision
    };
    let workload = with_rate(&resolved.scenario.workload, rate);
    run_under(resolved, workload, precision, |ended| at(rate, ended))
}

/// The same machines under a load of the same kind, of which `told` says where it is.
pub(super) fn run_under(
    resolved: &Resolved,
    workload: WorkloadSpec,
    precision: Precision,
    told: impl Fn(u64) -> String,
) -> Outcome {
    let mut scenario = resolved.scenario.clone();
    scenario.workload = workload;
    // A load that varies has a span of its own, which every rate runs through once; a law of arrivals has none.
    let varies = LoadKind::of_scenario(&scenario) == LoadKind::Varying;
    if !varies {
        scenario.workload = endless(&scenario.workload);
    }
    let mut experiment = present::experiment(resolved, Records::None);
    experiment.precision = Precision {
        attainment: present::objective(resolved).attainment,
        ..precision
    };
    experiment.stops_when_precise = !varies;
    simulate(&scenario, &experiment, |ended| progress::goes_on(|| told(ended)))
}

/// `at 14.2 req/s 131,072 requests`: how far a run is.
fn at(rate: f64, ended: u64) -> String {
    format!("at {} req/s {}", significant(rate), counted(ended, "request"))
}

/// One rate, with enough requests of every class.
pub(super) fn long_enough(
    resolved: &Resolved,
    rate: f64,
    objective: &Objective,
    precision: Precision,
) -> Outcome {
    let outcome = run_at(resolved, rate, precision);
    // A class that sends seldom beside others needs a longer run.
    match classes::longer(resolved, objective, &outcome.result, precision) {
        Some(longer) => run_at(resolved, rate, longer),
        None => outcome,
    }
}

/// What a run says of its rate, which is nothing where there was no time for enough requests.
pub(super) fn judged(resolved: &Resolved, rate: f64, objective: &Objective, outcome: &Outcome) -> Point {
    let mut point = Point::of(rate, &outcome.result, objective);
    let is_short = outcome.clock_ended && point.requests < POINT.min_requests;
    if is_short || classes::too_few(resolved, objective, &outcome.result).is_some() {
        point.cut_short();
    }
    point
}

/// At most this share of the requests met another, where they come at random: as Poisson arrivals see time averages, no more
/// than the mean number inside found somebody, and no more than the rate times the longest of the classes' mean stays were
/// found by somebody. `None` of other arrivals, which may come in clusters at any rate.
pub(super) fn met(resolved: &Resolved, rate: f64, run: &RunResult) -> Option<f64> {
    let workload = &resolved.scenario.workload;
    let is_random = matches!(workload.arrivals, Arrivals::Poisson { .. })
        && !matches!(workload.prefix, Prefix::Sessions { .. });
    let shown = run.quotable().filter(|_| is_random)?;
    let stays = run.by_class.iter().map(|class| &class.e2el);
    let stays = stays.chain([&shown.e2el]).filter_map(|stay| stay.mean_s());
    Some(shown.occupancy.in_system + rate * stays.fold(0.0, f64::max))
}
