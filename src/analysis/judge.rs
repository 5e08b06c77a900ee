//! The verdict over a run: whether its figures describe the system or only how long one looked.
//!
//! In this order: a queue that grows is unstable, and so is a batch that grows under a load above 1; nothing steady is
//! quoted then, nor while the number in the system grows for another reason; traffic without a steady state in
//! question is a finite experiment; a steady stretch whose mean number in the system is known well enough, and was seen to
//! be returned to, is stable; if that takes more requests than one can afford the run is critical, else it was too short.
//!
//! Overload by a few per cent cannot be told from chance in a short run: of 1,000 requests at 1.06 times the capacity of an
//! M/D/1 queue one run in five shows significant growth. That nothing significant grows is therefore no sign of a steady state.
//! Stable is said only where the number in the system neither grows by more than chance has it in one of ten random walks
//! nor wanders ([`steady::wanders`]). Over 300 seeds each of M/M/1, M/D/1 and M/D/1 with bursts, at 500 to 20,000 requests and
//! loads of 1.03 to 1.2, at most 12 % of the runs were called stable when the conditions were chosen, and 27 % without the two;
//! `tests/queueing/alarms.rs` holds 14 %. The price is a run that is long enough and called too short: 3 of 40 runs of 10,000
//! requests to a batch at 0.8 of its capacity, none of 40,000.

use super::growth::{Growth, T_RETURNING};
use super::load::{Load, LoadKind};
use super::reasons::{Asked, reasons, several_clients};
use super::saturation::offered_load;
use super::steady;
use super::{RunResult, Verdict};
use crate::metrics::{Metric, Observation, PartSummary, SeriesPoint, Stretch};
use crate::stats::Interval;

/// How sure one wants to be, and how long a run may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Relative half-width of the 95 % intervals of mean TTFT, TPOT and end-to-end latency that ends a run.
    pub relative: f64,
    /// Requests that a run must have before anything is decided.
    pub min_requests: u64,
    /// Requests that one is ready to simulate.
    pub max_requests: u64,
}

impl Default for Precision {
    fn default() -> Self {
        Precision {
            relative: 0.02,
            min_requests: 2_000,
            max_requests: 1_000_000,
        }
    }
}

/// Relative half-width of the mean number in the system up to which a run counts as stable.
pub(super) const STABLE_WITHIN: f64 = 0.25;
/// How many times its requests a run needs whose number in the system has not returned.
const WANDERING: f64 = 2.0;

/// What the batches of a run say, finished or not.
#[derive(Clone, Debug)]
pub(super) struct Assessment {
    /// The verdict.
    pub(super) verdict: Verdict,
    /// The steady batches.
    pub(super) steady: Option<std::ops::Range<usize>>,
    /// Growth of the number in the system while requests were sent.
    pub(super) growth: Growth,
    /// The mean number in the system over the steady batches.
    pub(super) in_system: Option<Interval>,
    /// The number in the system was not seen to return to its mean: it may grow, or wanders.
    pub(super) wanders: bool,
    /// Requests that a run would need for the mean number in the system to be known well enough.
    pub(super) requests_needed: f64,
}

/// What an assessment looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    /// Requests sent.
    pub(super) sent: u64,
    /// Whole batches.
    pub(super) batches: &'a [Stretch],
    /// The number in the system over time.
    pub(super) series: &'a [SeriesPoint],
    /// When the first request was sent, in seconds.
    pub(super) first_arrival_s: f64,
    /// When the last was.
    pub(super) last_arrival_s: f64,
    /// Output tokens of a request, on average; `None` where nothing is known of them.
    pub(super) output_tokens: Option<f64>,
}

impl Evidence<'_> {
    /// Requests sent per second.
    pub(super) fn offered_per_s(&self) -> f64 {
        self.sent as f64 / (self.last_arrival_s - self.first_arrival_s).max(f64::MIN_POSITIVE)
    }
}

/// Weighs the evidence.
pub(super) fn assess(evidence: &Evidence<'_>, kind: LoadKind, max_requests: u64) -> Assessment {
    let Evidence {
        batches,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    // Several clients who begin one after the other may not all have begun.
    let has_begun = last_arrival_s >= first_arrival_s;
    let growth = match kind {
        _ if !has_begun => Growth::default(),
        LoadKind::Open => growth(evidence, max_requests),
        LoadKind::Varying => left_over(evidence).unwrap_or_else(|| growth(evidence, max_requests)),
        LoadKind::Closed | LoadKind::AllAtOnce => Growth::default(),
    };
    let steady = match kind {
        _ if growth.significant || growth.ambiguous => None,
        LoadKind::Varying | LoadKind::AllAtOnce => None,
        LoadKind::Open => steady::steady_batches(batches, first_arrival_s, last_arrival_s),
        LoadKind::Closed => steady::closed_batches(batches, first_arrival_s, last_arrival_s),
    };
    let in_system = steady
        .clone()
        .and_then(|range| steady::mean_in_system(&batches[range]));
    let ended: u64 = batches.iter().map(Stretch::ended).sum();
    let width = in_system.map_or(f64::INFINITY, |interval| interval.relative());
    let wanders = steady.clone().is_some_and(|range| {
        let batches = &batches[range];
        (growth.t >= T_RETURNING || steady::wanders(batches)) && !steady::is_level(batches, STABLE_WITHIN)
    });
    // How long it would take is not seen from a run that shows no end of it: twice as long at least.
    let times = if wanders { WANDERING } else { 0.0 };
    let requests_needed = ended as f64 * (width / STABLE_WITHIN).powi(2).max(times);
    let verdict = match kind {
        _ if growth.significant => Verdict::Unstable,
        LoadKind::Closed | LoadKind::Varying | LoadKind::AllAtOnce => Verdict::Finite,
        LoadKind::Open if steady.is_none() => Verdict::TooShort,
        LoadKind::Open if width <= STABLE_WITHIN && !wanders => Verdict::Stable,
        LoadKind::Open if requests_needed.is_finite() && requests_needed > max_requests as f64 => {
            Verdict::Critical
        }
        LoadKind::Open => Verdict::TooShort,
    };
    Assessment {
        verdict,
        steady,
        growth,
        in_system,
        wanders,
        requests_needed,
    }
}

/// Share of the span of a load that varies in which what is left over at its end may be worked off. With more,
/// fewer requests were completed in the span than were offered by about this share.
const DRAIN_MAX: f64 = 0.05;
/// Or so many stays of a request when the system was at its emptiest: the last to come must be served too.
const DRAIN_STAYS: f64 = 3.0;
/// Share of the requests that may still be inside when the rest counts as worked off: one long answer is no backlog.
const STRAGGLERS: f64 = 0.01;

/// Whether a load that changes on purpose is more than can be served. A queue that grows in its busy hours and is
/// worked off in the idle ones says nothing; a backlog at the end that takes long to work off does. `None` where the
/// end was not seen.
fn left_over(evidence: &Evidence<'_>) -> Option<Growth> {
    let Evidence {
        batches,
        series,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    let sent = evidence.sent as f64;
    let is_left = |point: &&SeriesPoint| point.arrivals_per_s > 0.0 || point.in_system > STRAGGLERS * sent;
    let after = series.iter().filter(|point| point.t_s > last_arrival_s);
    let over_s = after.clone().filter(is_left).map(|point| point.t_s).next_back();
    // Requests still inside at the end: the run was cut before its drain.
    after.clone().next_back().filter(|point| !is_left(point))?;
    let stay_s = batches
        .iter()
        .map(|batch| batch.sum_and_count(Metric::E2el))
        .filter(|stays| stays.1 > 0)
        .map(|(sum_s, count)| sum_s / count as f64)
        .fold(f64::INFINITY, f64::min);
    let sending_s = last_arrival_s - first_arrival_s;
    let drain_s = over_s.map_or(0.0, |over_s| over_s - last_arrival_s);
    // What comes at one instant has no rate to fall behind.
    let is_behind = sending_s > 0.0 && drain_s > (DRAIN_MAX * sending_s).max(DRAIN_STAYS * stay_s);
    let drained_per_s = sent / (sending_s + drain_s).max(f64::MIN_POSITIVE);
    Some(if is_behind {
        Growth {
            significant: true,
            per_s: evidence.offered_per_s() - drained_per_s,
            requests: drain_s * drained_per_s,
            drain_s: Some(drain_s),
            ..Growth::default()
        }
    } else {
        Growth::default()
    })
}

/// Load from which a growing number running is overload. After 2,000 requests the estimate is within 3 %.
const OVERLOAD: f64 = 1.02;

/// Whether the system is overloaded. A queue that grows, in the server or before it in the client, says so at once.
/// Where it is the batch that grows, as in an engine that takes everyone in, filling up and overload look alike; there
/// the load decides (see [`super::saturation`]), or, where it cannot be told, that one will not look any longer.
fn growth(evidence: &Evidence<'_>, max_requests: u64) -> Growth {
    let Evidence {
        batches,
        series,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    let sending_s = last_arrival_s - first_arrival_s;
    let stay_s = steady::stay_s(batches, last_arrival_s).unwrap_or(sending_s);
    let from_s = first_arrival_s + stay_s.min(sending_s / 2.0);
    let inside = Growth::of(series, |point| point.in_system, from_s, last_arrival_s);
    let waiting = Growth::of(series, |point| point.waiting, from_s, last_arrival_s);
    let offered_per_s = evidence.offered_per_s();
    let client = Growth::of_levels(&steady::client_backlog(batches, offered_per_s, last_arrival_s));
    let running = Growth::of(series, |point| point.running, from_s, last_arrival_s);
    let piled = match waiting.significant || client.significant {
        true => Growth::default(),
        false => piled_up(evidence),
    };
    let queues = [waiting, client, piled]
        .into_iter()
        .filter(|queue| queue.significant);
    let queue_t = queues.clone().map(|queue| queue.t).fold(0.0, f64::max);
    let is_queue = queues.count() > 0;
    let load = evidence
        .output_tokens
        .filter(|_| inside.significant && running.significant && !is_queue)
        .and_then(|tokens| offered_load(series, first_arrival_s, last_arrival_s, offered_per_s, tokens));
    let is_overloaded = load.map_or(evidence.sent >= max_requests, |load| load > OVERLOAD);
    let per_s = if piled.significant {
        piled.per_s
    } else {
        inside.per_s + client.per_s
    };
    Growth {
        // A queue may grow while as many more leave the batch.
        significant: (is_queue || (inside.significant && is_overloaded)) && per_s > 0.0,
        ambiguous: inside.significant && !is_queue && !is_overloaded,
        per_s,
        t: inside.t.max(queue_t),
        requests: inside.requests + client.requests,
        is_queue,
        load,
        drain_s: None,
    }
}

/// Points of the series while requests were sent below which growth cannot be tested: what was sent took so much longer
/// to be served than to be sent.
const POINTS_MIN: usize = 24;
/// Share of all that was sent which still waits at the last arrival.
const PILED_SHARE: f64 = 0.5;
/// And how far beyond chance it is: arrivals and departures of so many requests differ by a few times the root of their
/// number, even where both are bursty. That the run lasted some twenty times as long as requests were sent says more: of 16
/// gaps whose squared coefficient of variation is 4, the sum is below a twentieth of its mean with probability 10⁻⁴. Fewer
/// than 16 requests are never enough (`tests/queueing/alarms.rs`).
const PILED_SIGMAS: f64 = 4.0;

/// Overload so deep that hardly anything happens while requests are sent. Then most of them wait at the last arrival, far more
/// than chance or the filling up of the batch explains: nobody waits for long in a system that is merely filling up.
fn piled_up(evidence: &Evidence<'_>) -> Growth {
    let Evidence {
        series,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    let sent = evidence.sent as f64;
    let sending_s = last_arrival_s - first_arrival_s;
    let seen = series.iter().filter(|point| point.t_s <= last_arrival_s).count();
    // The point after the last arrival holds what was left then, and a little less.
    let last = series.iter().find(|point| point.t_s > last_arrival_s);
    let Some(last) = last.filter(|_| seen < POINTS_MIN && sending_s > 0.0) else {
        return Growth::default();
    };
    let waiting = series[..=seen.min(series.len() - 1)]
        .iter()
        .map(|point| point.waiting)
        .fold(last.waiting, f64::max);
    let significant = waiting >= PILED_SHARE * sent
        && waiting >= PILED_SIGMAS * sent.sqrt()
        && waiting >= 2.0 * last.running;
    if !significant {
        return Growth::default();
    }
    Growth {
        per_s: waiting / sending_s,
        t: waiting / sent.sqrt(),
        requests: waiting,
        significant,
        ..Growth::default()
    }
}

/// Judges a finished run.
#[must_use]
pub fn judge(seen: Observation, load: impl Into<Load>, precision: &Precision) -> RunResult {
    let load = load.into();
    let (kind, output_tokens) = (load.kind_seen(&seen.sending), load.output_tokens);
    let batches = &seen.stretches[..seen.whole_batches];
    let (first, last) = load.sending(&seen.sending);
    let evidence = Evidence {
        sent: load.sent(seen.whole.sent, &seen.series, &seen.sending),
        batches,
        series: &seen.series,
        first_arrival_s: first.seconds(),
        last_arrival_s: last.seconds(),
        output_tokens: output_tokens.or_else(|| mean_output_tokens(&seen.stretches)),
    };
    let assessment = assess(&evidence, kind, precision.max_requests);
    let steady = assessment
        .steady
        .clone()
        .filter(|_| assessment.verdict != Verdict::Unstable);
    let summary = steady.clone().and_then(|range| seen.summary_of(range));
    let window = steady
        .clone()
        .map(|range| (batches[range.start].begin_s(), batches[range.end - 1].end_s()));
    let intervals = match (&steady, &summary) {
        (Some(range), Some(summary)) => steady::intervals(&seen, &batches[range.clone()], summary),
        // The batches of a finite run are no sample: its throughput is that of the whole of it.
        _ if assessment.verdict == Verdict::Finite => Vec::new(),
        // What a load that varies gets served depends on its course.
        _ if kind == LoadKind::Varying => Vec::new(),
        _ => overload_intervals(&evidence),
    };
    let class_attainment = match &steady {
        Some(range) => steady::class_attainment(&batches[range.clone()], seen.by_class.len()),
        None if assessment.verdict == Verdict::Finite => {
            seen.by_class.iter().map(PartSummary::counted_share).collect()
        }
        None => Vec::new(),
    };
    let asked = Asked {
        kind,
        offered_per_s: evidence.offered_per_s(),
        servers_change: load.servers_change,
    };
    let mut reasons = reasons(&seen, &assessment, asked);
    reasons.extend(several_clients(&seen, &load));
    RunResult {
        steady: summary,
        steady_window_s: window,
        verdict: assessment.verdict,
        reasons,
        growth_per_s: assessment.growth.per_s,
        intervals,
        whole: seen.whole,
        little: seen.little,
        by_replica: seen.by_replica,
        tiers: seen.tiers,
        by_class: seen.by_class,
        class_attainment: class_attainment
            .into_iter()
            .map(|share| share.map(steady::share))
            .collect(),
        by_pool: seen.by_pool,
        relays: seen.relays,
        violations: seen.violations,
        series: seen.series,
        sampled_steps: seen.sampled_steps,
        records: seen.records,
    }
}

/// Output tokens of a completed request; `None` before the first.
pub(super) fn mean_output_tokens(stretches: &[Stretch]) -> Option<f64> {
    let completed: u64 = stretches.iter().map(Stretch::completed).sum();
    let tokens: u64 = stretches.iter().map(Stretch::output_tokens).sum();
    (completed > 0).then(|| tokens as f64 / completed as f64)
}

/// Past saturation throughput alone is a property of the system: it is what the system can do. Before the load was whole it
/// was not past saturation.
fn overload_intervals(evidence: &Evidence<'_>) -> Vec<(String, super::Estimate)> {
    let batches = evidence.batches;
    let begin = batches
        .iter()
        .take_while(|batch| batch.begin_s() < evidence.first_arrival_s)
        .count();
    let sent = batches
        .iter()
        .take_while(|batch| batch.end_s() <= evidence.last_arrival_s)
        .count();
    let settled = batches
        .get(begin + sent.saturating_sub(begin) / 4..sent)
        .unwrap_or(&[]);
    let throughput = steady::throughput(settled).filter(|interval| interval.half_width.is_finite());
    throughput
        .map(|interval| ("throughput".to_owned(), steady::estimate(interval)))
        .into_iter()
        .collect()
}

/// The relative half-width of the worst-known of the mean latencies over the steady batches.
pub(super) fn widest_mean(batches: &[Stretch]) -> f64 {
    let relative = |metric| steady::mean_of(batches, metric).map_or(0.0, |interval| interval.relative());
    [Metric::Ttft, Metric::Tpot, Metric::E2el]
        .into_iter()
        .map(relative)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
