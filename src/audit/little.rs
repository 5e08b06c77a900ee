//! Little's law against the way in which requests were sent.
//!
//! `L = X · W` holds of any run that starts and ends empty. A client that keeps C in flight cannot show more than C. A
//! client without a limit cannot show less than its own arrivals make: where it does, something held requests back.

use super::case::{Case, Figure};
use super::finding::{Check, Finding, Severity, show, time};
use crate::results::Load;

const HELD_BACK: &str = "find the limit (client connections, `--max-concurrency`, a semaphore, a proxy) and raise it, \
    or report the run as a closed loop of that many clients";

/// Requests below which neither their rate nor their end says much.
pub(super) const FEW: f64 = 20.0;
/// A limit of which this share is in flight on average is full: a run also ramps and drains.
pub(super) const FULL: f64 = 0.9;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    let limit = match case.load() {
        // Nobody has two of them in flight.
        Load::Users { users } => Some(users),
        _ => case.row.setup.max_concurrency,
    };
    if let (Some(limit), Some(in_flight)) = (limit, case.in_flight()) {
        above_the_limit(case, limit as f64, &in_flight, found);
        if matches!(case.load(), Load::Closed { .. }) && !outlasts_the_loop(case, limit as f64, found) {
            below_the_limit(case, limit as f64, &in_flight, found);
        }
    }
    match case.load() {
        Load::Burst => {
            burst_in_waves(case, found);
            waited_in_the_client(case, found);
        }
        Load::Open { rate } => {
            // A limit that is stated is no hidden one.
            match stated_limit(case, rate) {
                Some(finding) => found.push(finding),
                None => held_back(case, rate, found),
            }
            waited_in_the_client(case, found);
        }
        _ => {}
    }
}

/// What keeps a row from being held against the law: a throughput beside a latency, and how its requests were sent. Of traces, batches
/// and several clients nobody says how many should be in flight, and nothing is missing.
pub(super) fn lacks(case: &Case<'_>) -> (bool, bool) {
    let has_limit = case.row.setup.max_concurrency.is_some();
    match case.load() {
        Load::Unknown => (case.in_flight().is_none(), !has_limit),
        Load::Open { .. } | Load::Closed { .. } | Load::Burst | Load::Users { .. } => {
            (case.in_flight().is_none(), false)
        }
        Load::StaticBatch { .. }
        | Load::Offline
        | Load::Trace
        | Load::Mixed { .. }
        | Load::Sessions { .. } => (has_limit && case.in_flight().is_none(), false),
    }
}

fn above_the_limit(case: &Case<'_>, limit: f64, in_flight: &Figure, found: &mut Vec<Finding>) {
    let excess = in_flight.low() / limit - 1.0;
    if excess <= 0.05 {
        return;
    }
    // Without a measured latency the excess is that of an estimate.
    let measured = case.row.e2el.mean.is_some() || case.has_fixed_lengths();
    let severity = if excess > 0.15 && measured {
        Severity::Impossible
    } else {
        Severity::Doubtful
    };
    let claim = "more requests in flight than the limit allows";
    let shown = format!("{}, limit {}", in_flight.little(), show(limit));
    let rerun =
        "take throughput and latency over the same requests; latency starts when the limit lets a request go";
    let finding = Finding::new(severity, Check::AboveTheLimit, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

fn below_the_limit(case: &Case<'_>, limit: f64, in_flight: &Figure, found: &mut Vec<Finding>) {
    let high = in_flight.value * (1.0 + in_flight.slack);
    if high >= 0.75 * limit {
        return;
    }
    let shown = format!("{}, limit {}", in_flight.little(), show(limit));
    let few = case.requests().filter(|requests| *requests < 4.0 * limit);
    let (severity, claim) = match few {
        Some(requests) if requests < limit => (
            Severity::Note,
            format!(
                "{} requests never reach a limit of {}",
                show(requests),
                show(limit)
            ),
        ),
        Some(requests) => {
            let waves = show(requests / limit);
            (
                Severity::Note,
                format!("{waves} waves of requests: ramp and drain are most of the run"),
            )
        }
        None => (
            Severity::Doubtful,
            "the client did not keep its limit in flight".to_owned(),
        ),
    };
    let rerun = "send at least ten times the limit, from a client that is not busy itself";
    let finding = Finding::new(severity, Check::BelowTheLimit, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// A client that always keeps C in flight is done when its requests have gone through C hands: after `n · mean / C` and the
/// longest of them at most (Graham 1969). A client that thinks, paces or is busy keeps fewer in flight, so a run that takes far
/// longer was no closed loop of C. Whether it is told. Requests that failed held their places for a time that no file tells.
fn outlasts_the_loop(case: &Case<'_>, limit: f64, found: &mut Vec<Finding>) -> bool {
    /// What a client does between an answer and the next request.
    const CLIENT: f64 = 1.25;
    /// Beyond doubt no client is so busy.
    const FAR: f64 = 1.5;
    const CLIENT_S: f64 = 0.1;
    let mean = case
        .e2el_stats()
        .mean
        .filter(|_| case.e2el_stats().derived.is_none());
    let requests = case
        .requests()
        .filter(|requests| *requests >= FEW && *requests > limit);
    let (Some(mean), Some(requests), Some(duration)) = (mean, requests, case.row.outcome.duration_s) else {
        return false;
    };
    if case.row.outcome.failed.is_some_and(|failed| failed > 0) || limit < 2.0 {
        return false;
    }
    let work = requests * mean / limit;
    let outlasted = longest(case, requests).into_iter();
    let outlasted = outlasted.filter_map(|(name, most, ratio, severity)| {
        let bound = CLIENT * work + ratio * most + CLIENT_S;
        let is_far = duration > FAR * bound;
        let severity = if is_far { severity } else { Severity::Doubtful };
        (duration > bound).then_some((name, most, severity))
    });
    let Some((name, most, severity)) = outlasted.max_by_key(|(_, _, severity)| *severity) else {
        return false;
    };
    let claim = format!("the run took longer than a closed loop of {} can", show(limit));
    let little = case.in_flight();
    let little = little.map_or(String::new(), |figure| format!("; {}", figure.little()));
    let shown = format!(
        "{} requests × {} / {} = {} and the longest ({name} {}) after it, the run took {}{little}",
        show(requests),
        time(mean),
        show(limit),
        time(work),
        time(most),
        time(duration)
    );
    let rerun = "find out how many the client kept in flight: another number, a client that waits between requests, or a limit of \
                 its connections";
    let finding = Finding::new(severity, Check::BelowTheLimit, claim);
    found.push(finding.shown(shown).rerun(rerun));
    true
}

/// A rate and a limit together: where the limit is full and the rate not reached, clients wait before the clock starts.
fn stated_limit(case: &Case<'_>, rate: f64) -> Option<Finding> {
    let (limit, in_flight) = (case.row.setup.max_concurrency?, case.in_flight()?);
    let throughput = case.throughput().filter(|answered| answered.value < 0.9 * rate)?;
    case.requests().filter(|requests| *requests >= FEW)?;
    if in_flight.value < FULL * limit as f64 {
        return None;
    }
    let claim = "a closed loop under the name of a rate: the client's limit is full, and waiting for it is in no latency";
    let shown = format!(
        "{}, limit {limit}; {}/s answered of {}/s asked for",
        in_flight.little(),
        show(throughput.value),
        show(rate)
    );
    let rerun = "lower the rate, raise the limit, or report the run as a closed loop of that many clients";
    let finding = Finding::new(Severity::Doubtful, Check::Overload, claim);
    Some(finding.shown(shown).rerun(rerun))
}

/// The longest answer that a row tells of: its name, its time, so many times that the run may take, and how sure it is.
type Longest = (String, f64, f64, Severity);

/// What is known of the longest itself is not overruled by what a percentile leaves open. Of n values the largest is `√(n − 1)`
/// deviations above their mean at most (Samuelson 1968); beyond a percentile there are a few more, each of which may have hung.
fn longest(case: &Case<'_>, requests: f64) -> Vec<Longest> {
    /// From so many requests on five are beyond the percentile, and not all of them hung.
    const MANY: f64 = 500.0;
    let stats = case.e2el_stats();
    if let Some(max) = stats.max {
        return vec![("longest".to_owned(), max, 1.25, Severity::Impossible)];
    }
    let is_many = requests >= FEW;
    let has_one_length = case.has_fixed_lengths();
    let deviation = stats.mean.zip(stats.std.filter(|std| *std > 0.0));
    let bound = deviation.map(|(mean, std)| {
        let most = mean + std * (requests - 1.0).sqrt();
        let name = format!("mean {} and deviation {} allow", time(mean), time(std));
        (name, most, 1.25, Severity::Impossible)
    });
    let percentile = stats.percentile(99.0).filter(|_| is_many).map(|value| {
        let severity = match has_one_length || requests >= MANY {
            true => Severity::Impossible,
            false => Severity::Doubtful,
        };
        ("p99".to_owned(), value, 1.5, severity)
    });
    let median = stats.centre().filter(|_| is_many && has_one_length);
    let median = median.map(|centre| ("median".to_owned(), centre, 3.0, Severity::Impossible));
    [bound, percentile, median].into_iter().flatten().collect()
}

/// All at once: everyone is sent at 0, so nobody is answered after the longest answer.
fn burst_in_waves(case: &Case<'_>, found: &mut Vec<Finding>) {
    /// Sending itself, and what a client does before and after it.
    const CLIENT_S: f64 = 0.1;
    let (Some(requests), Some(duration)) = (case.requests().filter(|n| *n >= 2.0), case.duration()) else {
        return;
    };
    let stats = case.e2el_stats();
    let Some(in_flight) = case.in_flight() else {
        return;
    };
    let outlasted = |(_, value, ratio, _): &Longest| *value > 0.0 && duration > ratio * value + CLIENT_S;
    let Some((name, longest, _, severity)) = longest(case, requests).into_iter().find(outlasted) else {
        return;
    };
    let waves = (duration / stats.centre().unwrap_or(longest)).round().max(2.0);
    let claim =
        "not all at once: an unstated limit let requests go a few at a time, so the plateau is the client";
    let shown = format!(
        "{name} e2el {} but the run took {}: {} requests in {waves} waves of {}; {}{}",
        time(longest),
        time(duration),
        show(requests),
        show((requests / waves).ceil()),
        in_flight.little(),
        likely_limit(requests, waves)
    );
    let finding = Finding::new(severity, Check::HiddenLimit, claim);
    found.push(finding.shown(shown).rerun(HELD_BACK));
}

/// Limits that make `requests` go in `waves`, and the round number among them.
pub(super) fn likely_limit(requests: f64, waves: f64) -> String {
    let low = (requests / waves).ceil();
    let high = ((requests / (waves - 1.0)).ceil() - 1.0).max(low);
    let round = (0..16)
        .map(|power| f64::from(1 << power))
        .find(|size| (low..=high).contains(size));
    let round = round.map_or(String::new(), |size| format!(", {} among them", show(size)));
    format!(
        " (any limit from {} to {} does that{round})",
        show(low),
        show(high)
    )
}

/// Open loop slower than its rate: with all requests sent by N/λ and the last answer at N/X, the mean answer takes
/// `(N/X − N/λ) / 2` for a server of steady speed, since that is the area between arrivals and departures over N.
/// Arrivals at random end at N/λ within three deviations (see `sending_s`). Of requests that failed neither counts: those that
/// were answered came at their share of the rate.
fn held_back(case: &Case<'_>, rate: f64, found: &mut Vec<Finding>) {
    let known = case
        .requests()
        .zip(case.throughput())
        .zip(case.e2el())
        .zip(case.in_flight());
    let Some((((requests, throughput), whole), in_flight)) = known else {
        return;
    };
    let rate = case.answered_rate(rate);
    let Some(sending) = case.sending_s(rate).filter(|_| rate > 0.0 && requests >= FEW) else {
        return;
    };
    let rest = requests / throughput.value - sending;
    if throughput.value >= 0.95 * rate || rest <= 0.0 {
        return;
    }
    let stats = case.e2el_stats();
    let longest = stats
        .max
        .or(stats.percentile(99.0))
        .or_else(|| nearly_all_within(case));
    let outlasts = longest.map_or(rest > 8.0 * whole.value, |longest| rest > 2.0 * longest);
    if !outlasts || whole.value * (1.0 + whole.slack) >= 0.75 * rest / 2.0 {
        return;
    }
    let claim = "not an open loop: an unstated limit held requests back, so the plateau is the client";
    let shown = format!(
        "{} sent at {}/s (within {}) and answered at {}/s leave {} of backlog, a mean e2el of {}; measured {}; {}",
        show(requests),
        show(rate),
        time(sending),
        show(throughput.value),
        time(rest),
        time(rest / 2.0),
        time(whole.value),
        in_flight.little()
    );
    let finding = Finding::new(Severity::Impossible, Check::HiddenLimit, claim);
    found.push(finding.shown(shown).rerun(HELD_BACK));
}

/// What nearly every answer takes at most, from the percentiles of its parts; of answers of one length only, since a long one
/// may be many times the mean.
fn nearly_all_within(case: &Case<'_>) -> Option<f64> {
    let tokens = case
        .output_tokens()
        .filter(|_| case.has_one_length_or_counts_it())?;
    let (first, step) = (case.ttft()?.percentile(99.0)?, case.row.tpot.percentile(99.0)?);
    Some(first + (tokens - 1.0) * step)
}

/// A wait for the client's own limit, by a file that states no limit.
fn waited_in_the_client(case: &Case<'_>, found: &mut Vec<Finding>) {
    /// A client that is busy starts its requests a little late, without any limit.
    const BUSY_S: f64 = 0.1;
    let waited = case.row.outcome.client_queue_s.filter(|waited| *waited > BUSY_S);
    let Some(waited) = waited.filter(|_| case.row.setup.max_concurrency.is_none()) else {
        return;
    };
    let shown = format!(
        "a mean wait in the client of {}, which is in no latency, and no limit on requests in flight",
        time(waited)
    );
    // One law is told once.
    if let Some(known) = found
        .iter_mut()
        .find(|finding| finding.check == Check::HiddenLimit)
    {
        known.arithmetic = format!("{}; {shown}", known.arithmetic);
        return;
    }
    let claim = "requests waited in the client for a limit that the file does not state";
    let finding = Finding::new(Severity::Impossible, Check::HiddenLimit, claim);
    found.push(finding.shown(shown).rerun(HELD_BACK));
}

#[cfg(test)]
mod tests;
