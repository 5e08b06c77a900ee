//! How long a run was against what it measures: overload, ramp and drain, few requests.

use super::case::Case;
use super::finding::{Check, Finding, Severity, show, time};
use super::little::FEW;
use crate::results::{Load, Stats};

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    if found.iter().any(|finding| finding.check == Check::HiddenLimit) {
        return;
    }
    let told = found.iter().any(|finding| finding.check == Check::Overload);
    if let (Load::Open { rate }, false) = (case.load(), told) {
        overload(case, rate, found);
    }
    short(case, found);
}

/// A throughput of this share of the rate is the rate, but for the drain.
const KEPT_UP: f64 = 0.95;

/// The server answers slower than requests come: the queue grows, and latency measures how long one waited to stop.
fn overload(case: &Case<'_>, rate: f64, found: &mut Vec<Finding>) {
    let rate = case.answered_rate(rate);
    let Some(throughput) = case
        .throughput()
        .filter(|throughput| throughput.value < KEPT_UP * rate)
    else {
        return;
    };
    let (Some(requests), Some(whole), Some(sending)) = (case.requests(), case.e2el(), case.sending_s(rate))
    else {
        return;
    };
    let duration = requests / throughput.value;
    let kept_up = |sent: f64| duration < sent / KEPT_UP;
    if requests < FEW || duration <= sending || case.sent_within_s().is_some_and(kept_up) {
        return;
    }
    // In an overload the wait for a first token is about half of what the run outlasts its sending by (see `held_back`);
    // in a run that is merely short nobody waits, and the last answers take their time.
    let outlasts = duration - requests / rate;
    let waits = match case.ttft().and_then(Stats::centre) {
        Some(ttft) => ttft > 0.25 * outlasts,
        None => duration - sending > 0.3 * requests / rate,
    };
    let shown = format!(
        "{}/s answered of {}/s sent: sending took {}, the run {}, mean e2el {}",
        show(throughput.value),
        show(rate),
        time(requests / rate),
        time(duration),
        time(whole.value)
    );
    if !waits {
        let claim = "throughput is below the rate only by the drain: the run is short";
        let rerun = "send for at least twenty times as long as an answer takes";
        let finding = Finding::new(Severity::Note, Check::TooShort, claim);
        found.push(finding.shown(shown).rerun(rerun));
        return;
    }
    let claim =
        "overload: the queue grows for as long as one sends, so latencies measure the length of the run";
    let rerun =
        "lower the rate below the throughput, or report this row as the server's capacity and nothing else";
    let finding = Finding::new(Severity::Doubtful, Check::Overload, claim);
    found.push(finding.shown(shown).rerun(rerun));
}

/// A run of a few answers' length is mostly ramp and drain.
fn short(case: &Case<'_>, found: &mut Vec<Finding>) {
    let already = found.iter().any(|finding| {
        matches!(
            finding.check,
            Check::TooShort | Check::BelowTheLimit | Check::Overload
        )
    });
    let steady = matches!(case.load(), Load::Open { .. } | Load::Closed { .. });
    let (Some(duration), Some(whole)) = (case.duration(), case.e2el()) else {
        return;
    };
    if already || !steady || whole.value <= 0.0 || duration >= 8.0 * whole.value {
        return;
    }
    let claim = "the run is a few answers long: ramp and drain weigh on throughput and percentiles";
    let shown = format!(
        "{} / {} = {:.1} answers one after the other",
        time(duration),
        time(whole.value),
        duration / whole.value
    );
    let rerun = "send for at least twenty times as long as an answer takes";
    let finding = Finding::new(Severity::Note, Check::TooShort, claim);
    found.push(finding.shown(shown).rerun(rerun));
}
