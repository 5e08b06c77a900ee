//! What every request tells: who was sent when another ended, a slow start, a growing queue.

use super::finding::{Check, Finding, Severity, time};
use super::lists;
use crate::results::{Load, Measured, RequestTimes};

/// A request that is sent within this time after another ended was waiting for it.
const RIGHT_AFTER_S: f64 = 0.005;
/// Requests below which nothing is said of their order.
const ENOUGH: usize = 20;

pub(super) fn check(row: &Measured, found: &mut Vec<Finding>) {
    if row.requests.is_empty() {
        return;
    }
    lists::check(row, found);
    let mut timed: Vec<(f64, &RequestTimes)> = row
        .requests
        .iter()
        .filter_map(|request| Some((request.start_s?, request)))
        .collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    if timed.len() < ENOUGH {
        return;
    }
    lists::sending(row, &timed, found);
    above_the_limit(row, &timed, found);
    warm_up(&timed, found);
    growth(row, &timed, found);
    sent_at_an_end(row, &timed, found);
}

/// Whoever was sent and not yet answered is in flight, so by their own times no more are than the limit allows.
fn above_the_limit(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    /// The next is sent when an answer ends, by clocks that were rounded.
    const ROUNDED_S: f64 = 0.001;
    let Some(limit) = row.setup.max_concurrency else {
        return;
    };
    let end = |(start, request): &(f64, &RequestTimes)| {
        start + (request.e2el_s.unwrap_or(request.ttft_s) - ROUNDED_S).max(0.0)
    };
    let mut ends: Vec<f64> = timed.iter().map(end).collect();
    ends.sort_by(f64::total_cmp);
    let most = most_in_flight(timed, &ends);
    if most as f64 <= 1.05 * limit as f64 + 1.0 {
        return;
    }
    let claim = "by their own times more requests are in flight than the limit allows";
    let shown = format!(
        "{most} of {} sent and not answered at one time, limit {limit}",
        timed.len()
    );
    let rerun = "look at when the list says that requests were sent";
    let finding = Finding::new(Severity::Impossible, Check::AboveTheLimit, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

fn mean(requests: &[(f64, &RequestTimes)]) -> f64 {
    requests.iter().map(|(_, request)| request.ttft_s).sum::<f64>() / requests.len().max(1) as f64
}

/// The first few requests wait for compilation, graphs and connections.
fn warm_up(timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    let few = (timed.len() / 20).clamp(1, 5);
    let (first, rest) = timed.split_at(few);
    let (first, rest) = (mean(first), mean(rest));
    if first > 3.0 * rest && first - rest > 0.05 {
        let claim = format!("the first {few} requests waited longer: the server was not warm");
        let shown = format!("mean ttft {} against {} of the others", time(first), time(rest));
        let rerun = "send warm-up requests before the run (`--num-warmups`)";
        let finding = Finding::new(Severity::Note, Check::WarmUp, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// An open loop whose waits grow from its first third to its last has no steady state.
fn growth(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    let third = timed.len() / 3;
    let (first, last) = (mean(&timed[..third]), mean(&timed[timed.len() - third..]));
    let known = found.iter().any(|finding| finding.check == Check::Overload);
    if matches!(row.setup.load, Load::Open { .. }) && !known && last > 4.0 * first && last > 0.5 {
        let claim = "ttft grows as the run goes on: the queue grows, and percentiles measure its length";
        let shown = format!(
            "mean ttft {} in the first third, {} in the last",
            time(first),
            time(last)
        );
        let rerun = "lower the rate until ttft stays, or send for longer to show that it does";
        let finding = Finding::new(Severity::Doubtful, Check::Overload, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// In an open loop nobody waits for another's end; where most do, a limit sent them.
fn sent_at_an_end(row: &Measured, timed: &[(f64, &RequestTimes)], found: &mut Vec<Finding>) {
    let ends: Option<Vec<f64>> = timed
        .iter()
        .map(|(start, request)| Some(start + request.e2el_s?))
        .collect();
    let Some(mut ends) = ends else {
        return;
    };
    ends.sort_by(f64::total_cmp);
    let most = most_in_flight(timed, &ends);
    let later = &timed[most.min(timed.len())..];
    let unlimited =
        row.setup.max_concurrency.is_none() && matches!(row.setup.load, Load::Open { .. } | Load::Burst);
    if !unlimited || later.len() < ENOUGH {
        return;
    }
    let after = |start: f64| {
        let at = ends.partition_point(|end| *end <= start);
        at > 0 && start - ends[at - 1] <= RIGHT_AFTER_S
    };
    let share = later.iter().filter(|(start, _)| after(*start)).count() as f64 / later.len() as f64;
    // As many ends fall into such a moment by chance as come in it on average.
    let span = timed.last().map_or(0.0, |(start, _)| start - timed[0].0);
    let chance = 1.0 - (-RIGHT_AFTER_S * timed.len() as f64 / span.max(1e-9)).exp();
    if share > 0.8 && chance < 0.4 {
        let claim = format!("not an open loop: requests are sent when others end, {most} at a time");
        let shown = format!(
            "{:.0} % of sends follow an answer within {}; by chance {:.0} % would",
            100.0 * share,
            time(RIGHT_AFTER_S),
            100.0 * chance
        );
        let rerun = "raise the client's limit, or report the run as a closed loop of that many clients";
        let finding = Finding::new(Severity::Impossible, Check::HiddenLimit, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// The most that are sent and whose end, of all ends in order, is still to come.
pub(super) fn most_in_flight(timed: &[(f64, &RequestTimes)], ends: &[f64]) -> usize {
    let in_flight = |(index, (start, _)): (usize, &(f64, &RequestTimes))| {
        (index + 1).saturating_sub(ends.partition_point(|end| end <= start))
    };
    timed.iter().enumerate().map(in_flight).max().unwrap_or(0)
}
