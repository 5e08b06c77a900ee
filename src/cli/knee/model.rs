//! How far a knee may be off because the step time's parameters are, where that can be told.

use super::super::{present, progress};
use super::rate::POINT;
use crate::analysis::knee::{Knee, Objective};
use crate::analysis::{LoadKind, Verdict, simulate};
use crate::calibrate::interval::{FigureInterval, knee_interval, short_day_of};
use crate::config::Resolved;
use crate::metrics::Records;
use crate::report::figures::{count, significant, significant_down, time};
use crate::sim::Scenario;
use crate::workload::{Arrivals, WorkloadSpec, endless, with_in_flight, with_rate};

/// How far the knee may be off because the step time's parameters are. Of a load that varies each simulation runs through
/// its span, of a long one through its first requests: what is told is a ratio of two rates under the same traffic.
///
/// Why not, in words, where that cannot be told; nothing where there is no knee.
pub(super) fn uncertainty(
    resolved: &Resolved,
    objective: &Objective,
    knee: &Knee,
) -> Option<Result<FigureInterval, String>> {
    let found = knee.within_slo.as_ref()?;
    if resolved.is_ideal() {
        // There is no machine that it could be wrong about.
        return Some(Ok(FigureInterval::certain("knee")));
    }
    if found.high.is_infinite() {
        let highest = significant_down(found.value);
        return Some(Err(format!(
            "no SLO is missed up to {highest} req/s, so that it is no knee but the highest rate tried"
        )));
    }
    Some(about(
        resolved,
        objective,
        (Searched::Rate, found.value),
        knee_interval,
    ))
}

/// The same of a closed loop that may have so many in flight.
///
/// # Errors
/// Why that cannot be told.
pub(super) fn of_loop(
    resolved: &Resolved,
    objective: &Objective,
    in_flight: u64,
) -> Result<FigureInterval, String> {
    if resolved.is_ideal() {
        return Ok(FigureInterval::certain("knee"));
    }
    let found = (Searched::InFlight, in_flight as f64);
    about(resolved, objective, found, knee_interval)
}

/// The same of replicas that meet the SLO at a rate: of their own knee, which may lie well above it.
///
/// # Errors
/// Why that cannot be told.
pub(super) fn of_fleet(
    resolved: &Resolved,
    objective: &Objective,
    rate: f64,
) -> Result<FigureInterval, String> {
    if resolved.is_ideal() {
        return Ok(FigureInterval::certain("knee"));
    }
    let interval =
        |resolved: &Resolved, rate: f64, meets: Meets<'_>| match knee_interval(resolved, rate, meets) {
            Err(Some(knee)) if knee > rate => knee_interval(resolved, knee, meets),
            found => found,
        };
    about(resolved, objective, (Searched::Rate, rate), interval)
}

/// What of a load is searched for.
#[derive(Clone, Copy, PartialEq)]
enum Searched {
    /// Requests per second.
    Rate,
    /// How many a closed loop has in flight, of which there are whole numbers only.
    InFlight,
}

impl Searched {
    fn put(self, workload: &WorkloadSpec, value: f64) -> WorkloadSpec {
        match self {
            Searched::Rate => with_rate(workload, value),
            Searched::InFlight => with_in_flight(workload, (value.round() as u32).max(1)),
        }
    }

    /// Requests of a run that tells whether the SLO is met: of a loop several of each place in it.
    fn requests(self, value: f64) -> u64 {
        match self {
            Searched::Rate => POINT.min_requests,
            Searched::InFlight => POINT.min_requests.max(20 * value as u64),
        }
    }

    fn told(self, value: f64) -> String {
        match self {
            Searched::Rate => format!("{} req/s", significant(value)),
            Searched::InFlight => format!("{} in flight", count(value as u64)),
        }
    }
}

/// Simulates a scenario at a rate, or with so many in flight, and says whether it meets the SLO.
type Meets<'a> = &'a (dyn Fn(&Scenario, f64) -> bool + Sync);

/// The interval of a knee about a rate or a number in flight, by runs that are made alike for all that is tried.
fn about(
    resolved: &Resolved,
    objective: &Objective,
    (searched, found): (Searched, f64),
    interval: impl FnOnce(&Resolved, f64, Meets<'_>) -> Result<FigureInterval, Option<f64>>,
) -> Result<FigureInterval, String> {
    let is_rate = searched == Searched::Rate;
    let day = is_rate.then(|| day_of(resolved, found)).flatten();
    if let Some(requests) = too_long_a_span(resolved, found).filter(|_| is_rate && day.is_none()) {
        let takes = match requests.is_finite() {
            true => format!("takes {} requests at this rate", count(requests.ceil() as u64)),
            // Classes end each in its own way, and a loop has no rate.
            false => "takes the whole run".to_owned(),
        };
        return Err(format!(
            "what happens at given times {takes}, and the runs that it is looked for in have {} requests at most",
            count(POINT.min_requests)
        ));
    }
    let workload = match &day {
        Some((day, _)) => day,
        None => &resolved.scenario.workload,
    };
    let varies = LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying;
    let requests_max = searched.requests(found);
    let meets = |scenario: &Scenario, tried: f64| {
        let mut scenario = scenario.clone();
        scenario.workload = searched.put(workload, tried);
        if !varies {
            scenario.workload = endless(&scenario.workload);
        }
        // The first requests of several clients tell how they begin together, not how they go on.
        let is_whole = day.is_some() || (varies && scenario.workload.parts().len() > 1);
        if !is_whole {
            let own = scenario.workload.num_prompts.unwrap_or(requests_max);
            scenario.workload.num_prompts = Some(own.min(requests_max));
        }
        let mut experiment = present::experiment(resolved, Records::None);
        experiment.precision = POINT;
        experiment.stops_when_precise = false;
        // A rate that misses the SLO need not be simulated to its end.
        experiment.bad_max = bad_max(objective).filter(|_| is_rate && !is_whole);
        let outcome = simulate(&scenario, &experiment, |_| {
            progress::goes_on(|| "how far the model may be off".to_owned())
        });
        if outcome.is_interrupted {
            return false;
        }
        // The SLO as it was met over all of the run, the same traffic at every rate: a verdict's own interval would
        // only add noise. Overload ends every knee, whatever was promised.
        // A loop begins with as many prompts at once as it has places, which none that goes on sees again.
        let is_kept = match searched {
            Searched::Rate => objective.is_empty() || objective.holds_over_whole(&outcome.result),
            Searched::InFlight => objective.is_kept(&outcome.result) == Some(true),
        };
        is_kept && outcome.result.verdict != Verdict::Unstable
    };
    let requests = count(day.as_ref().map_or(requests_max, |(_, requests)| *requests));
    interval(resolved, found, &meets).map_err(|here| match here {
        Some(here) => format!(
            "it is looked for in runs of at most {requests} requests, their start included, and in those the SLO is missed at \
             {}",
            searched.told(here)
        ),
        None => format!(
            "it is looked for in runs of at most {requests} requests, their start included, and those have no knee near this one"
        ),
    })
}

/// A day curve at the knee in fewer requests, and how many: the rates of its hours are kept, and they are shorter.
fn day_of(resolved: &Resolved, rate: f64) -> Option<(WorkloadSpec, u64)> {
    let mut at_knee = resolved.scenario.clone();
    at_knee.workload = with_rate(&at_knee.workload, rate);
    short_day_of(&at_knee)
}

/// What must be said of an interval that was looked for in a shorter day.
pub(super) fn shortened(resolved: &Resolved, knee: &Knee) -> Option<String> {
    let found = knee.within_slo?;
    let (day, requests) = day_of(resolved, found.value)?;
    let piece = |spec: &WorkloadSpec| match spec.arrivals {
        Arrivals::Profile { piece, .. } => Some(piece),
        _ => None,
    };
    let within = day
        .duration
        .map_or(String::new(), |span| format!(" in {}", time(span.seconds())));
    (piece(&day) < piece(&resolved.scenario.workload)).then(|| {
        format!(
            "`model ±` is how far this knee moves in the same curve gone through{within}, with {} requests",
            count(requests)
        )
    })
}

/// Requests of a load that changes at given times, or whose replicas do, where they are more than such a run has: its first
/// requests would see another load at every rate. A trace is slowed or sped up, and its first requests are the same.
fn too_long_a_span(resolved: &Resolved, rate: f64) -> Option<f64> {
    let workload = &resolved.scenario.workload;
    let has_own_times = LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying
        && !matches!(workload.arrivals, Arrivals::Replay { .. } | Arrivals::Ramp { .. });
    let asked = workload.num_prompts.map(|count| count as f64);
    let within = workload.duration.map(|span| span.seconds() * rate);
    let requests = asked.into_iter().chain(within).fold(f64::INFINITY, f64::min);
    (has_own_times && requests > POINT.min_requests as f64).then_some(requests)
}

/// Of the requests of such a run, how many may miss the SLO; `None` where more than one share of all is asked for.
fn bad_max(objective: &Objective) -> Option<u64> {
    let share = objective
        .attainment
        .filter(|_| !objective.tells_classes_apart())?;
    // A share that is met to the last request is met, whatever the rounding.
    Some(((1.0 - share) * POINT.min_requests as f64 + 1e-6).floor() as u64)
}
