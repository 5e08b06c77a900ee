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

use super::conversations::Conversations;
use super::generations::{Generations, STEADY_MIN};
use super::growth::{Growth, T_RETURNING};
use super::load::{Load, LoadKind};
use super::memory;
use super::overload::{growth, left_over};
use super::reasons::{Asked, reasons, several_clients};
use super::{RunResult, Verdict, attainment, steady};
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
    /// Share of good requests that is asked, where a run shall go on until it tells whether it is reached, or nearly does.
    pub attainment: Option<f64>,
}

impl Default for Precision {
    fn default() -> Self {
        Precision {
            relative: 0.02,
            min_requests: 2_000,
            max_requests: 1_000_000,
            attainment: None,
        }
    }
}

/// Relative half-width of the mean number in the system up to which a run counts as stable.
pub(super) const STABLE_WITHIN: f64 = 0.25;
/// How many times its requests a run needs whose number in the system has not returned.
const WANDERING: f64 = 2.0;
/// How many times the time until conversations are as many as they will be a run must last: another one is the steady stretch.
const OPENINGS: f64 = 2.0;

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
    /// How often everybody inside was replaced while requests were sent.
    pub(super) generations: usize,
    /// Seconds that requests must be sent for, to have a stretch that may be steady; where that is known.
    pub(super) needed_s: Option<f64>,
    /// Requests in which the same traffic settles, where the load of this run said that it is overloaded.
    pub(super) settles_in: Option<u64>,
    /// Seconds until conversations are as many as they will be, where the run is too short to tell what happens then.
    pub(super) opening_s: Option<f64>,
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
    /// Replicas that serve them.
    pub(super) replicas: u32,
    /// What requests belong to, where it is conversations that others begin.
    pub(super) conversations: Option<Conversations>,
}

impl Evidence<'_> {
    /// Seconds of sending until conversations are as many as they will be, by the stays of those who have left; 0 where there are none.
    pub(super) fn opening_s(&self) -> f64 {
        let stay_s = || steady::stay_s(self.batches, self.last_arrival_s).unwrap_or(0.0);
        self.conversations.map_or(0.0, |law| law.settle_s(stay_s()))
    }

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
    let generations = Generations::of(evidence.series, first_arrival_s, last_arrival_s);
    let growth = match kind {
        _ if !has_begun => Growth::default(),
        LoadKind::Open => growth(evidence, &generations),
        LoadKind::Varying => left_over(evidence).unwrap_or_else(|| growth(evidence, &generations)),
        LoadKind::Closed | LoadKind::AllAtOnce => Growth::default(),
    };
    let steady = match kind {
        _ if growth.significant || growth.ambiguous => None,
        LoadKind::Varying | LoadKind::AllAtOnce => None,
        LoadKind::Open => steady::open_batches(evidence, &generations),
        LoadKind::Closed => steady::closed_batches(batches, first_arrival_s, last_arrival_s),
    };
    let in_system = steady
        .clone()
        .and_then(|range| steady::mean_with_clients(&batches[range]));
    let ended: u64 = batches.iter().map(Stretch::ended).sum();
    let by_memory = steady
        .clone()
        .and_then(|range| memory::crowd(&batches[range], evidence.replicas))
        .map_or(0.0, |crowd| memory::width_of_number(&crowd));
    let in_system = in_system.map(|known| Interval {
        half_width: known.half_width.max(by_memory * known.value),
        ..known
    });
    let width = in_system.map_or(f64::INFINITY, |interval| interval.relative());
    let wanders = steady.clone().is_some_and(|range| {
        let batches = &batches[range];
        (growth.t >= T_RETURNING || steady::wanders(batches)) && !steady::is_level(batches, STABLE_WITHIN)
    });
    let is_calm_part =
        |range| kind == LoadKind::Open && steady::cuts_congestion(batches, range, &generations);
    let wanders = wanders || steady.as_ref().is_some_and(is_calm_part);
    // How long it would take is not seen from a run that shows no end of it: twice as long at least.
    let times = if wanders { WANDERING } else { 0.0 };
    let opening_s = evidence.opening_s();
    let opens_s = OPENINGS * opening_s;
    let is_opening = opens_s > 0.0 && last_arrival_s - first_arrival_s < opens_s;
    let opens = Some(opens_s).filter(|_| is_opening);
    let needed_s = generations
        .needed_s()
        .map(|needed_s| needed_s.max(opens_s))
        .or(opens);
    let needed_s = needed_s.filter(|_| kind == LoadKind::Open);
    let then_per_s = evidence.conversations.and_then(|law| law.requests_per_s);
    let requests_needed = match needed_s.filter(|_| steady.is_none()) {
        // Fewer come per second until then.
        Some(needed_s) if is_opening => needed_s * then_per_s.unwrap_or_else(|| evidence.offered_per_s()),
        Some(needed_s) if generations.count() <= STEADY_MIN => needed_s * evidence.offered_per_s(),
        Some(_) => evidence.sent as f64 * WANDERING,
        None => ended as f64 * (width / STABLE_WITHIN).powi(2).max(times),
    };
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
        generations: generations.count(),
        needed_s,
        settles_in: None,
        opening_s: is_opening.then_some(opening_s),
    }
}

impl Assessment {
    /// Takes back an overload that a longer run does not show.
    fn settling_in(mut self, requests: u64) -> Assessment {
        (self.growth.significant, self.growth.ambiguous) = (false, true);
        self.growth.by_load_per_s = None;
        self.verdict = Verdict::TooShort;
        self.settles_in = Some(requests);
        self
    }
}

/// Judges a finished run.
#[must_use]
pub fn judge(seen: Observation, load: impl Into<Load>, precision: &Precision) -> RunResult {
    judge_beside(seen, load, precision, |_| None)
}

/// The same where the traffic of a run of that many requests can be let go on until it settles, if it does: that is asked where the
/// load alone says that it is overloaded.
pub(super) fn judge_beside(
    seen: Observation,
    load: impl Into<Load>,
    precision: &Precision,
    settles_in: impl FnOnce(u64) -> Option<u64>,
) -> RunResult {
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
        replicas: seen.fleet.replicas(),
        conversations: load.conversations,
    };
    let mut assessment = assess(&evidence, kind, precision.max_requests);
    if assessment.growth.is_by_load()
        && let Some(requests) = settles_in(evidence.sent)
    {
        assessment = assessment.settling_in(requests);
    }
    let too_few_cycles = load.too_few_cycles(&seen.sending);
    if too_few_cycles.is_some() && assessment.verdict != Verdict::Finite {
        assessment.verdict = Verdict::TooShort;
    }
    let steady = assessment
        .steady
        .clone()
        .filter(|_| assessment.verdict != Verdict::Unstable);
    let summary = steady.clone().and_then(|range| seen.summary_of(range));
    let window = steady
        .clone()
        .map(|range| (batches[range.start].begin_s(), batches[range.end - 1].end_s()));
    let intervals = match (&steady, &summary) {
        (Some(range), Some(summary)) => steady::intervals(&seen, &batches[range.clone()], summary, kind),
        // The batches of a finite run are no sample: its throughput is that of the whole of it.
        _ if assessment.verdict == Verdict::Finite => Vec::new(),
        // What a load that varies gets served depends on its course.
        _ if kind == LoadKind::Varying => Vec::new(),
        _ => overload_intervals(&evidence),
    };
    let class_attainment = match &steady {
        Some(range) => attainment::of_classes(&batches[range.clone()], seen.by_class.len()),
        None if matches!(assessment.verdict, Verdict::Finite | Verdict::TooShort) => {
            let counted = seen.by_class.iter().map(PartSummary::counted_share);
            counted.map(|share| share.map(steady::estimate)).collect()
        }
        None => Vec::new(),
    };
    let asked = Asked {
        kind,
        offered_per_s: evidence.offered_per_s(),
        users: load
            .users
            .and_then(|users| users.seen(summary.as_ref().unwrap_or(&seen.whole))),
        servers_change: load.servers_change,
        too_few_cycles,
        serves: summary
            .as_ref()
            .is_none_or(|steady| steady.completed > 0 || steady.sent == 0),
    };
    let mut reasons = reasons(&seen, &assessment, asked);
    reasons.extend(several_clients(&seen, &load));
    RunResult {
        steady: summary,
        steady_window_s: window,
        verdict: assessment.verdict,
        reasons,
        offered_per_s: evidence.offered_per_s(),
        growth_per_s: assessment.growth.lasting_per_s(),
        is_held_back: assessment.growth.is_client,
        intervals,
        whole: seen.whole,
        little: seen.little,
        by_replica: seen.by_replica,
        tiers: seen.tiers,
        speculation: seen.speculation,
        by_class: seen.by_class,
        class_attainment,
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
