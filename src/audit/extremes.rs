//! The largest of several values is at least their mean and at most their sum, and a part is at most the whole: peaks and goodput.

use super::case::{Case, printed_slack};
use super::finding::{Check, Finding, Severity, show, time};

/// What clocks that are read at different moments may differ by, beyond printed digits.
const TOLERANCE: f64 = 0.02;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    peak_in_flight(case, found);
    peak_of_tokens(case, found);
    peak_of_all(case, found);
    goodput(case, found);
}

/// Tools count every request that touches a second, or those at one instant; either way the most is no less than the mean,
/// which Little's law tells of the same requests.
fn peak_in_flight(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some((peak, in_flight)) = case.row.outcome.peak_in_flight.zip(case.in_flight()) else {
        return;
    };
    if in_flight.low() <= peak * (1.0 + TOLERANCE) {
        return;
    }
    let is_measured = case.row.e2el.mean.is_some() || case.has_fixed_lengths();
    let severity = match is_measured {
        true => Severity::Impossible,
        false => Severity::Doubtful,
    };
    let claim = "the most requests in flight are fewer than there were on average";
    let shown = format!(
        "{} on average, at most {} reported",
        in_flight.little(),
        show(peak)
    );
    let rerun = "take throughput, latency and the peak over the same requests";
    let finding = Finding::new(severity, Check::CountsAgree, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// Clients sort chunks into whole seconds since the start, `ceil(D) + 1` of them; one holds no less than the mean. A chunk
/// counts as one token there, so where answers came in fewer chunks than tokens the chunks are taken.
fn peak_of_tokens(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (row, outcome) = (case.row, &case.row.outcome);
    if row.setup.speculates() {
        return;
    }
    let (Some(peak), Some(duration)) = (outcome.peak_output_throughput, case.duration()) else {
        return;
    };
    let tokens = outcome
        .output_tokens
        .or(outcome.output_throughput.map(|rate| rate * duration));
    let Some((tokens, chunks)) = tokens.zip(chunks_of_a_token(case)) else {
        return;
    };
    let seconds = duration.ceil() + 1.0;
    let least = tokens * chunks.min(1.0) / seconds;
    if peak * (1.0 + TOLERANCE) >= least || !least.is_finite() {
        return;
    }
    let claim = "the most output tokens in a second are fewer than in the mean second";
    let shown = format!(
        "{} tokens in {} whole seconds of a run of {}: at least {} in one of them, not {}",
        show(tokens * chunks.min(1.0)),
        show(seconds),
        time(duration),
        show(least),
        show(peak)
    );
    let rerun = "count peak and throughput over the same answers";
    let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// No second holds more than the whole run: tokens of all answers, and requests that were sent. Clients count chunks, so where
/// an empty one stands beside every token a second may hold up to two for each.
fn peak_of_all(case: &Case<'_>, found: &mut Vec<Finding>) {
    const EMPTY_CHUNKS: f64 = 2.2;
    let outcome = &case.row.outcome;
    let tokens = outcome.output_tokens.filter(|tokens| *tokens > 0.0);
    let rerun = "count peak and totals over the same answers";
    if let Some((peak, tokens)) = outcome.peak_output_throughput.zip(tokens)
        && peak > tokens * (1.0 + TOLERANCE) + 1.0
    {
        let severity = match peak > EMPTY_CHUNKS * tokens {
            true => Severity::Impossible,
            false => Severity::Doubtful,
        };
        let claim = "the most output tokens in a second are more than there are in all";
        let shown = format!("{} in one second, {} in all", show(peak), show(tokens));
        let finding = Finding::new(severity, Check::CountsAgree, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
    let counted = outcome
        .completed
        .map(|completed| completed + outcome.failed.unwrap_or(0));
    let sent = counted.max(case.row.setup.num_prompts).map(|sent| sent as f64);
    if let Some((peak, sent)) = outcome.peak_in_flight.zip(sent.filter(|sent| *sent > 0.0))
        && peak > sent * (1.0 + TOLERANCE)
    {
        let claim = "the most requests in flight are more than were sent";
        let shown = format!("{} in flight, {} sent", show(peak), show(sent));
        let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

/// Chunks that an answer came in, by its tokens; `None` where no file tells how long a gap between chunks is.
fn chunks_of_a_token(case: &Case<'_>) -> Option<f64> {
    /// A mean over requests is no mean over gaps.
    const LENGTHS_VARY: f64 = 0.7;
    let row = case.row;
    let gap = row.itl.mean.filter(|gap| *gap > 0.0)?;
    let tokens = case.output_tokens();
    match (row.e2el.mean, row.ttft.mean, tokens, row.tpot.mean) {
        (Some(whole), Some(first), Some(tokens), _) => Some((1.0 + (whole - first).max(0.0) / gap) / tokens),
        (_, _, _, Some(step)) => Some(LENGTHS_VARY * step / gap),
        _ => None,
    }
}

/// Good requests are some of those that were answered.
fn goodput(case: &Case<'_>, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    let counted = || Some(outcome.completed? as f64 / outcome.duration_s.filter(|duration| *duration > 0.0)?);
    let Some((good, all)) = outcome.goodput.zip(outcome.request_throughput.or_else(counted)) else {
        return;
    };
    if good <= all * (1.0 + TOLERANCE + printed_slack(good) + printed_slack(all)) {
        return;
    }
    let claim = "more requests were good than were answered";
    let shown = format!("goodput {}/s, answered {}/s", show(good), show(all));
    let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
    found.push(
        finding
            .shown(shown)
            .rerun("count as good only what was answered, over the same duration"),
    );
}
