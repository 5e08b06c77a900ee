//! What a closed form says of a run that has one, beside what was simulated, and why another has none.

use crate::analysis::closed_form::{self, ClosedForm, NoClosedForm, no_queue};
use crate::analysis::{Estimate, Outcome, RunResult};
use crate::config::Resolved;
use crate::cost::linear::LinearCost;
use crate::report::figures::{significant, time};

/// What the books say of a run, if it is one of their queues.
pub(super) fn closed_form(resolved: &Resolved, result: &RunResult) -> Option<ClosedForm> {
    closed_form::closed_form(&resolved.scenario, steps(resolved), result).ok()
}

/// Why a run has no closed form.
pub(super) fn why_none(resolved: &Resolved) -> &'static str {
    // What is a queue of the books has none where its run says too little.
    let none = no_queue(&resolved.scenario, steps(resolved));
    none.unwrap_or(NoClosedForm::Run).why()
}

/// How long the steps of an ideal server last.
fn steps(resolved: &Resolved) -> Option<LinearCost> {
    let server = resolved.servers.first();
    let law = server.and_then(|server| server.step_time.as_ref());
    law.map(|law| law.cost())
}

/// What the closed form says, and what was simulated.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    let result = &outcome.result;
    let told = closed_form(resolved, result)?;
    let seen = result.steady.as_ref().unwrap_or(&result.whole);
    let known = |name: &str| {
        let interval = result.intervals.iter().find(|(of, _)| name == of.as_str());
        interval.map_or(String::new(), |(_, Estimate { low, high, .. })| {
            format!(" (95 % {} to {})", time(*low), time(*high))
        })
    };
    let load = match told.service_cv {
        Some(cv) => format!(
            "one sequence at a time and Poisson arrivals are M/G/1: at ρ = {} and a service time of {} (cv {})",
            significant(told.utilisation),
            time(told.service_s),
            significant(cv)
        ),
        None => format!(
            "this is {}: at ρ = {} and a mean service time of {}",
            told.queue,
            significant(told.utilisation),
            time(told.service_s)
        ),
    };
    let response = || Some(format!("{}{}", time(seen.e2el.mean_s()?), known("e2el")));
    let (what, of_books, simulated) = match (told.per_s, told.wait_s) {
        (Some(per_s), _) => {
            let served = seen.completed as f64 / seen.duration_s;
            let of_books = format!("{} req/s and {}", significant(per_s), time(told.response_s));
            let simulated = format!("{} req/s and {}", significant(served), response()?);
            ("throughput and mean response time are", of_books, simulated)
        }
        (None, Some(wait_s)) => {
            let simulated = format!("{}{}", time(seen.queue_time.mean_s()?), known("queue_time"));
            ("the mean wait is", time(wait_s), simulated)
        }
        (None, None) => ("the mean response time is", time(told.response_s), response()?),
    };
    let (formula, note) = (told.formula, told.note);
    Some(format!(
        "{load} {what} {formula} = {of_books}{note}; simulated {simulated}"
    ))
}
