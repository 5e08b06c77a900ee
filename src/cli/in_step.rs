//! Answers of one length, which bring those who are served together into step.
//!
//! Sequences that began in one step end in one step. Who takes their places comes all at once, in a closed loop because each
//! answer lets the next request in, and behind a router that looks at loads because the replica where a batch has just ended
//! is the least loaded. The prompts of such a cohort wait for each other, cohorts only ever grow, and a scatter of lengths of a
//! few per cent ends it: of 1,024/256 tokens, 64 in flight, Llama-3.1-8B on an H100, mean TTFT is 419 ms with equal lengths and
//! 67 ms with lengths 10 % apart.

use super::what_if::WhatIf;
use crate::analysis::Outcome;
use crate::config::Resolved;
use crate::report::figures::time;
use crate::sim::Scenario;
use crate::workload::{Arrivals, WorkloadSpec, with_rate};

/// Gaps between two tokens that requests wait on average, from which on they wait for each other and not only for the step
/// under way to end.
const LONG_WAIT: f64 = 1.2;

/// How far lengths are spread either way to see what equal ones do: `--random-range-ratio 0.05`.
const SPREAD: f64 = 0.05;
/// Of the mean TTFT of lengths so spread, from which on equal ones are worth a word.
const WORTH: f64 = 1.1;

/// How a note on such a run begins.
const EQUAL: &str = "every answer has ";

/// Whether a run's note says that its TTFT is one of equal lengths.
pub(super) fn is_on_equal_lengths(note: &str) -> bool {
    note.starts_with(EQUAL)
}

/// Says where a run's TTFT holds for answers of one length alone.
pub(super) fn in_step(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    of_run(&resolved.scenario, outcome)
}

/// The same of a run at another rate.
pub(super) fn in_step_at(rate: f64, resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    one_length(&resolved.scenario.workload)?;
    let mut scenario = resolved.scenario.clone();
    scenario.workload = with_rate(&scenario.workload, rate);
    of_run(&scenario, outcome)
}

/// The same of a scenario's run.
pub(super) fn of_run(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    let tokens = one_length(&scenario.workload)?;
    let summary = (outcome.result.quotable()).unwrap_or(&outcome.result.whole);
    let (wait_s, gap_s) = (summary.queue_time.mean_s()?, summary.itl.mean_s()?);
    if wait_s < LONG_WAIT * gap_s {
        return None;
    }
    let is_closed = matches!(scenario.workload.arrivals, Arrivals::AllAtOnce);
    let in_flight = (scenario.workload.client.max_concurrency).filter(|&most| is_closed && most > 1);
    let router = (scenario.cluster.groups.iter())
        .filter(|group| group.members.len() > 1)
        .find(|group| group.policy.levels_loads())
        .map(|group| group.policy.name());
    let brought_by = match (in_flight, router) {
        (Some(_), _) => {
            "those who begin together end together, and the prompts that follow them wait for each other"
                .to_owned()
        }
        (None, Some(router)) => format!(
            "a batch ends at once, {router} sends whoever comes next to that replica, and their prompts wait for each other"
        ),
        (None, None) => return None,
    };
    let spread = scenario.workload.lengths.spread(SPREAD)?;
    let WhatIf { as_is, changed } = WhatIf::of(scenario, outcome.result.whole.sent, |workload| {
        workload.lengths = spread;
    })?;
    let (equal_s, spread_s) = (as_is.ttft.mean_s()?, changed.ttft.mean_s()?);
    (equal_s > WORTH * spread_s).then(|| {
        format!(
            "{EQUAL}{tokens} tokens, so {brought_by}: this TTFT is one of equal lengths. Of the first {} requests its mean is {}, \
             and {} with lengths 5 % apart (--random-range-ratio {SPREAD})",
            as_is.sent,
            time(equal_s),
            time(spread_s)
        )
    })
}

/// The length of every answer, where they are all equal.
fn one_length(workload: &WorkloadSpec) -> Option<u32> {
    let is_plain = workload.endings.is_none() && workload.classes.is_empty();
    let (_, output) = workload.lengths.constants();
    output.filter(|&tokens| is_plain && tokens > 1)
}
