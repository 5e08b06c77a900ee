//! The first line of a run's report: what a reader who reads no further must know, and how loud it is.

use super::figures::{count, counted, percent, significant, time};
use super::standing::{collapsed_s, has_no_answers};
use super::style::Style;
use super::text::per_second;
use super::text_latency::{bounds, interval, is_too_wide};
use super::undone::answers_cut;
use super::views::ResultMeta;
use crate::analysis::{RunResult, Verdict};
use crate::metrics::{Distribution, Summary};

/// Share of requests turned away from which a reader must know before any latency.
const LOST_SHARE: f64 = 0.01;

/// How loud the first line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// What follows may be relied on.
    Calm,
    /// It describes less than was asked for.
    Caution,
    /// Requests were lost, the run was cut off, an SLO is missed, or there is nothing to quote.
    Alert,
}

/// The first line and how loud it is.
pub(super) struct Answer {
    pub(super) line: String,
    pub(super) alarm: Alarm,
}

/// The first line: what a reader who reads no further must know. A run that was stopped, and requests that were turned
/// away, come before the figures of what was served.
#[must_use]
pub(super) fn answer(result: &RunResult, meta: &ResultMeta) -> String {
    answered(result, meta).line
}

/// The same with its alarm.
pub(super) fn answered(result: &RunResult, meta: &ResultMeta) -> Answer {
    let whole = &result.whole;
    let interrupted = meta.interrupted.map_or(String::new(), |cut| {
        let of = cut
            .asked
            .map_or(String::new(), |asked| format!(" of {}", count(asked)));
        format!(
            "INTERRUPTED after {}{of} requests; until then: ",
            count(cut.ended)
        )
    });
    let lost = match whole.completed {
        0 => String::new(),
        _ => lost(whole, collapsed_s(result).is_some()),
    };
    let mut served = served(result, meta);
    if meta.slo_kept.is_some() && result.verdict != Verdict::Unstable && whole.completed > 0 {
        if meta.slo_decided == Some(false) {
            served.line += "; SLO NOT DECIDED";
            if served.alarm == Alarm::Calm {
                served.alarm = Alarm::Caution;
            }
        } else if meta.slo_kept == Some(false) {
            served.line += "; SLO MISSED";
            served.alarm = Alarm::Alert;
        }
    }
    let cut = answers_cut(result.whole.cut_share());
    let is_lacking = [&interrupted, &lost, &cut].iter().any(|told| !told.is_empty());
    Answer {
        line: format!("{interrupted}{lost}{cut}{}", served.line),
        alarm: if is_lacking { Alarm::Alert } else { served.alarm },
    }
}

/// How many requests were lost in each way, the most frequent first; empty where hardly any were. In a collapse what follows is
/// not about those who were served.
pub(super) fn lost(whole: &Summary, is_collapse: bool) -> String {
    let share = |number: u64| number as f64 / whole.sent.max(1) as f64;
    if share(whole.lost()) < LOST_SHARE {
        return String::new();
    }
    let mut ways = [
        ("REFUSED", whole.rejected),
        ("FAILED", whole.failed),
        ("GIVEN UP", whole.timed_out),
    ];
    ways.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let told = ways.into_iter().filter(|(_, number)| *number > 0);
    let told: Vec<String> = told
        .map(|(way, number)| format!("{way} {}", percent(share(number))))
        .collect();
    let those = if is_collapse { "" } else { "those served: " };
    format!("{} of requests; {those}", told.join(", "))
}

/// The first line of what was served.
fn served(result: &RunResult, meta: &ResultMeta) -> Answer {
    let load = load(meta);
    let whole = &result.whole;
    if has_no_answers(result) && whole.sent == 0 {
        return Answer {
            line: format!("NO ANSWERS {load}: {}", nobody(meta)),
            alarm: Alarm::Alert,
        };
    }
    if has_no_answers(result) {
        let given_up = format!("{} given up", count(whole.timed_out));
        let ways = match whole.failed {
            0 => format!("{given_up} and {} refused", count(whole.rejected)),
            failed => format!(
                "{given_up}, {} refused and {} failed",
                count(whole.rejected),
                count(failed)
            ),
        };
        // Those who left and those inside are all that were sent.
        let ways = match whole.inside {
            0 => ways,
            inside => format!("{ways}, {} still inside", count(inside)),
        };
        return Answer {
            line: format!("NO ANSWERS {load}: of {} {ways}", counted(whole.sent, "request")),
            alarm: Alarm::Alert,
        };
    }
    if let Some((from_s, to_s)) = collapsed_s(result) {
        let (from, to) = (time(from_s), time(to_s));
        return Answer {
            line: format!("COLLAPSED {load}: nobody is answered in time from {from} to {to}"),
            alarm: Alarm::Alert,
        };
    }
    let few_waves = few_waves(result, meta);
    let alarm = match result.verdict {
        Verdict::Finite if few_waves.is_some() => Alarm::Caution,
        Verdict::Stable | Verdict::Finite => Alarm::Calm,
        Verdict::Critical | Verdict::TooShort => Alarm::Caution,
        Verdict::Unstable => Alarm::Alert,
    };
    let line = match result.verdict {
        Verdict::Stable => format!("stable {load}: {}", headline(result)),
        Verdict::Critical => format!("CRITICAL {load}: {}", headline(result)),
        // No rate is held there at which anything could grow.
        Verdict::Unstable if meta.ramp_up.is_some() => {
            format!("UNSTABLE {load}: more comes than is served; no steady-state latency exists")
        }
        Verdict::Unstable => format!(
            "UNSTABLE {load}: backlog grows {} req/s; no steady-state latency exists",
            significant(result.growth_per_s)
        ),
        Verdict::TooShort => {
            format!(
                "TOO SHORT {load}: {} no more than this run",
                match result.whole.completed {
                    1 => "1 completed request describes".to_owned(),
                    more => format!("{} completed requests describe", count(more)),
                }
            )
        }
        Verdict::Finite => format!(
            "finished {} in {} ({}): {} req/s, {} tok/s out{}",
            counted(result.whole.completed, "request"),
            time(result.whole.duration_s),
            load.strip_prefix("at ")
                .map_or(load.clone(), |rate| format!("offered {rate}")),
            significant(per_second(result.whole.completed, result.whole.duration_s)),
            significant(per_second(result.whole.output_tokens, result.whole.duration_s)),
            few_waves.unwrap_or_default(),
        ),
    };
    Answer { line, alarm }
}

/// Why there is nothing to tell of a run in which no request was sent.
fn nobody(meta: &ResultMeta) -> String {
    match meta.sending_s {
        Some(seconds) => format!("no request arrives within the duration of {}", time(seconds)),
        None => "no request was sent".to_owned(),
    }
}

/// Waves of requests, as many in each as run at once, from which most of the time the server is full: about one of them is lost
/// to filling it and emptying it.
const WAVES_MIN: f64 = 4.0;

/// What is to be said of the throughput of requests that come when others leave, or all at once, where they are few waves.
fn few_waves(result: &RunResult, meta: &ResultMeta) -> Option<String> {
    let has_no_rate = meta.max_concurrency.is_some() || !meta.request_rate.is_finite();
    let width = result.whole.occupancy.running_max;
    let waves = result.whole.completed as f64 / f64::from(width.max(1));
    let is_few = result.verdict == Verdict::Finite && has_no_rate && width > 1 && waves < WAVES_MIN;
    let said = match waves > 1.0 {
        true => format!("{} waves of {width}", significant(waves)),
        false => "one wave".to_owned(),
    };
    is_few.then(|| format!("; {said}: mostly ramp and drain, not what the server sustains"))
}

fn load(meta: &ResultMeta) -> String {
    let rate = match &meta.load {
        Some(load) => load.clone(),
        None if let Some(ramp) = &meta.ramp_up => format!(
            "over a ramp from {} to {} req/s",
            significant(ramp.start_rps),
            significant(ramp.end_rps)
        ),
        None if meta.request_rate.is_finite() => format!("at {} req/s", significant(meta.request_rate)),
        None => "all at once".into(),
    };
    match meta.max_concurrency {
        Some(limit) => format!("{rate}, ≤ {limit} in flight"),
        None => rate,
    }
}

fn headline(result: &RunResult) -> String {
    let shown = result.steady.as_ref().unwrap_or(&result.whole);
    let quantile = |distribution: &Distribution, p: f64| {
        let seen = distribution
            .quantile_s(p)
            .filter(|_| distribution.max_s() != Some(0.0));
        seen.map_or("–".into(), time)
    };
    format!(
        "TTFT p50 {} p99 {}{}, TPOT p50 {}, {} tok/s out",
        quantile(&shown.ttft, 0.5),
        quantile(&shown.ttft, 0.99),
        precision(result),
        quantile(&shown.tpot, 0.5),
        significant(per_second(shown.output_tokens, shown.duration_s))
    )
}

/// The relative half-width of the 99th percentile of TTFT, or its interval, where that is so wide that the figure misleads without it.
fn precision(result: &RunResult) -> String {
    match interval(result, "p99_ttft") {
        Some(estimate) if is_too_wide(&estimate) => format!(" ({})", bounds(&estimate)),
        Some(estimate) if result.verdict == Verdict::Critical => {
            let half = (estimate.high - estimate.low) / 2.0;
            format!(" ±{}", percent(half / estimate.value))
        }
        _ => String::new(),
    }
}

/// The first word in the colour of its alarm.
pub(super) fn paint(line: &str, alarm: Alarm, style: Style) -> String {
    if !style.color {
        return line.into();
    }
    let code = match alarm {
        Alarm::Calm => 32,
        Alarm::Caution => 33,
        Alarm::Alert => 31,
    };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    format!("\u{1b}[1;{code}m{word}\u{1b}[0m {rest}")
}
