//! What to say where replicas fail at random and a run was too short to see it.

use crate::analysis::knee::{Knee, Point};
use crate::analysis::{FAILURES_ENOUGH, Outcome, failures_span_s};
use crate::config::Resolved;
use crate::report::counted;
use crate::report::figures::{significant, time};
use crate::units::Picos;

/// Of a run: into too short a span fall too few failures, and when those came decides its figures.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    let enough_s = failures_span_s(&resolved.scenario);
    let span_s = outcome.result.whole.duration_s;
    if enough_s <= span_s {
        return None;
    }
    let sees = format!("a run of {} sees {FAILURES_ENOUGH:.0}", time(enough_s));
    Some(match outcome.failures {
        Some(0) => format!(
            "no failure fell into the run of {}: its figures are those of replicas that do not fail; {sees}",
            time(span_s)
        ),
        Some(count) => format!(
            "{} fell into the run of {}, and when they came decides its figures; {sees}",
            counted(count, "failure"),
            time(span_s)
        ),
        None => format!(
            "{} failures are expected in a run of {}, and when they come decides its figures; {sees}",
            significant(FAILURES_ENOUGH * span_s / enough_s),
            time(span_s)
        ),
    })
}

/// Of a search: the runs on both sides of the knee were too short.
pub(super) fn of_search(resolved: &Resolved, knee: &Knee) -> Option<String> {
    let enough_s = failures_span_s(&resolved.scenario);
    let found = knee.within_slo?;
    let span_s = |point: &Point| point.requests as f64 / point.rate;
    let around = |is_side: &dyn Fn(&&Point) -> bool| knee.points.iter().filter(is_side).map(span_s).collect();
    let below: Vec<f64> = around(&|point| point.rate <= found.value);
    let above: Vec<f64> = around(&|point| point.rate > found.value);
    let nearest = [below.last(), above.first()].into_iter().flatten();
    let shortest_s = nearest.copied().fold(f64::INFINITY, f64::min);
    // Poisson arrivals of an asked number end a little sooner or later.
    if shortest_s >= 0.9 * enough_s {
        return None;
    }
    let expected = FAILURES_ENOUGH * shortest_s / enough_s;
    let are_of = if expected < 1.0 {
        ": the knee is that of replicas that hardly ever fail"
    } else {
        ", and when they come decides the knee"
    };
    // Some failures are so rare that the clock ends first.
    let way = Picos::try_from_seconds(enough_s).map(|_| {
        format!(
            "; see by `run --request-rate {} --duration {:.0}s`, which sees {FAILURES_ENOUGH:.0}, whether the SLO is met",
            significant(found.value),
            enough_s.ceil()
        )
    });
    Some(format!(
        "around the knee a run spans {}, in which {} failures are expected{are_of}{}",
        time(shortest_s),
        significant(expected),
        way.unwrap_or_default()
    ))
}
