//! Requests of each class that a rate needs before anything is said of its promise: one that sends seldom beside others would
//! else be judged by a handful of requests, of which a single one decides.

use super::rate::POINT;
use crate::analysis::knee::{Knee, Objective, Point};
use crate::analysis::{LoadKind, Precision, RunResult, Verdict};
use crate::config::Resolved;
use crate::report::figures::significant;

/// Requests of a class that is promised something. At a share of 99 % ten of them may miss it.
const OF_A_CLASS: u64 = 1_000;

/// As many as there must be of each class. A load that varies has a span of its own, which cannot be lengthened: there it is as
/// many as make one request that misses the SLO no more than the share that may.
fn needed(resolved: &Resolved, objective: &Objective) -> u64 {
    let may_miss = 1.0 - objective.attainment.unwrap_or(0.0);
    match LoadKind::of_scenario(&resolved.scenario) {
        LoadKind::Varying => ((1.0 / may_miss.max(f64::MIN_POSITIVE)).ceil() as u64).min(OF_A_CLASS),
        _ => OF_A_CLASS,
    }
}

/// The fewest requests that a run has of a class that something is promised to, where they are too few. A class that sends
/// nothing is promised nothing, and one of which many were sent and nobody left is starved, which is known.
pub(super) fn too_few(resolved: &Resolved, objective: &Objective, run: &RunResult) -> Option<u64> {
    let needed = needed(resolved, objective);
    let promised = objective.classes.iter().zip(&run.by_class);
    let promised = promised.filter(|(limits, part)| !limits.is_empty() && part.sent > 0);
    let fewest = promised.map(|(_, part)| part.sent).min();
    fewest.filter(|fewest| *fewest < needed)
}

/// How long a run must be to have enough of each class, where this one has not and its figures do not decide either: as long as
/// their shares of it say, and no longer than a run may be.
pub(super) fn longer(
    resolved: &Resolved,
    objective: &Objective,
    run: &RunResult,
    precision: Precision,
) -> Option<Precision> {
    let may_go_on = LoadKind::of_scenario(&resolved.scenario) != LoadKind::Varying;
    let is_decided =
        run.verdict == Verdict::Unstable || objective.slack(run).is_some_and(|slack| slack.high < 0.0);
    let fewest = too_few(resolved, objective, run).filter(|_| may_go_on && !is_decided)?;
    let wanted = 1.1 * run.whole.sent as f64 * OF_A_CLASS as f64 / fewest as f64;
    let requests = (wanted.ceil() as u64).min(precision.max_requests);
    (requests > run.whole.sent).then_some(Precision {
        min_requests: requests,
        ..precision
    })
}

/// What must be known of a search some of whose rates have too few requests of a class.
pub(super) fn note(knee: &Knee, objective: &Objective) -> Option<String> {
    // Without a promise to a class no run can have too few of its requests.
    if objective.classes.iter().all(|limits| limits.is_empty()) {
        return None;
    }
    let is_blind = |point: &&Point| point.is_blind() && point.requests >= POINT.min_requests;
    let rates: Vec<String> = knee
        .points
        .iter()
        .filter(is_blind)
        .map(|point| significant(point.rate))
        .collect();
    let (last, others) = rates.split_last()?;
    let at = match others {
        [] => last.clone(),
        others => format!("{} and {last}", others.join(", ")),
    };
    Some(format!(
        "at {at} req/s a run has too few requests of a class to tell whether its SLO is met"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::knee::Lost;
    use crate::metrics::Metric;

    fn blind(rate: f64) -> Point {
        Point {
            rate,
            verdict: Verdict::TooShort,
            reason: String::new(),
            requests: POINT.min_requests,
            lasted_s: 0.0,
            slack: None,
            attainment: None,
            throughput: None,
            output_tokens_per_s: None,
            answers_cut: 0.0,
            tokens_each: None,
            preemptions: 0.0,
            ttft_s: None,
            p99_ttft: None,
            tpot_s: None,
            itl_s: None,
            e2el_s: None,
            running: None,
            waiting: None,
            in_system: None,
            kv_usage: None,
            growth_per_s: 0.0,
            binding: None,
            pressure: None,
            lost: Lost::default(),
            lost_of_class: None,
            is_losing: false,
            by_class: Vec::new(),
            is_held_by_client: false,
            client_queue_s: None,
            is_unknown: true,
            is_out_of_reach: false,
        }
    }

    #[test]
    fn only_a_promise_to_a_class_has_too_few_requests_and_only_where_it_was_tried() {
        let knee = Knee {
            within_slo: None,
            saturation: None,
            when_full: None,
            client: None,
            limiter: None,
            binding: None,
            loss: None,
            points: vec![blind(0.5), blind(2.0)],
            converged: false,
        };
        assert_eq!(note(&knee, &Objective::default()), None);
        let promised = Objective {
            classes: vec![Vec::new(), vec![(Metric::Ttft, 0.5)]],
            ..Objective::default()
        };
        assert_eq!(
            note(&knee, &promised).as_deref(),
            Some(
                "at 0.500 and 2.00 req/s a run has too few requests of a class to tell whether its SLO is met"
            )
        );
    }
}
