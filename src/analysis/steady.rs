//! The steady stretch of a run, and intervals for what happened in it.
//!
//! Batches follow each other in order of leaving. The warm-up ends where MSER says so for the number in the
//! system, TTFT and TPOT alike, and not before the first requests could have left; the drain begins when the last
//! request was sent. Means are ratios of batch sums (requests, gaps or seconds differ between batches), with
//! Student intervals over at most [`GROUPS`] groups of batches; those of latencies reach further up where groups are skewed
//! ([`skewed`]), and those of percentiles are made from shares ([`percentile`]). In a stretch that is short against the memory of the
//! number inside batches are all alike, and an interval is as wide at least as [`memory`] says.

use std::ops::Range;

use super::generations::{Generations, STEADY_MIN};
use super::judge::Evidence;
use super::percentile::{self, QUANTILES};
use super::{Estimate, LoadKind, attainment, memory};
use crate::metrics::{Metric, Observation, Stretch, Summary};
use crate::stats::{Interval, mser, quantile, ratio_correlation, ratio_interval, regroup, skewed};

/// Groups that intervals are computed over: enough for a small t factor, long enough to be nearly independent.
pub const GROUPS: usize = 20;
/// Fewest batches that make a steady stretch.
const BATCHES_MIN: usize = 8;
/// Stays that the steady stretch of a closed loop lasts at least. Requests that were sent together leave together, and
/// of fewer waves the cut ones are too large a part.
const STAYS_MIN: f64 = 4.0;
/// How far throughput × stay may be from the number in the system over a stretch of a closed loop, relative. The
/// number is given there, so that this is also the bias of the throughput.
const LITTLE_WITHIN: f64 = 0.02;
/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// Of the time until conversations are as many as they will be, how long a steady stretch lasts at least: what is said in the
/// same ones is not independent. A run lasts twice that time (`judge::OPENINGS`), of which whole batches may miss a tenth.
const IN_CONVERSATION: f64 = 0.9;

/// Where the steady stretch lies among the batches, if there is one; sending ended at `last_arrival_s`.
pub(super) fn steady_batches(
    batches: &[Stretch],
    first_arrival_s: f64,
    last_arrival_s: f64,
) -> Option<Range<usize>> {
    let until = |end_s: f64| batches.iter().take_while(|batch| batch.end_s() <= end_s).count();
    // Batches before the first arrival there are only where several clients do not begin at once.
    let (begin, sent) = (until(first_arrival_s), until(last_arrival_s));
    let batches = batches.get(begin..sent)?;
    if batches.len() < BATCHES_MIN {
        return None;
    }
    let cut = warm_up(batches, first_arrival_s);
    Some(begin + cut..sent)
}

/// The steady stretch of an open load: it begins when hardly anything of the filling up is left, lasts several generations, and
/// over it as many leave as come and Little's law holds, up to what its own scatter explains.
pub(super) fn open_batches(evidence: &Evidence<'_>, generations: &Generations) -> Option<Range<usize>> {
    let Evidence {
        batches,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    let opening_s = evidence.opening_s();
    let warm_s = generations.warm_s()?.max(first_arrival_s + opening_s);
    let range = steady_batches(batches, first_arrival_s, last_arrival_s)?;
    let cold = batches[range.clone()]
        .iter()
        .take_while(|batch| batch.begin_s() < warm_s)
        .count();
    let range = range.start + cold..range.end;
    let stretch = &batches[range.clone()];
    if stretch.len() < BATCHES_MIN {
        return None;
    }
    let (begin_s, end_s) = (stretch[0].begin_s(), stretch[stretch.len() - 1].end_s());
    let within = |known: Option<Interval>| known.map_or(0.0, |known| known.relative()).max(LITTLE_WITHIN);
    let sums = stretch.iter().fold(Sums::default(), Sums::with);
    let is_long = generations.count_within(begin_s, end_s) >= STEADY_MIN
        && end_s - begin_s >= IN_CONVERSATION * opening_s;
    let is_balanced = generations.imbalance(begin_s, end_s) <= within(throughput(stretch));
    let holds = sums.ended > sums.completed || sums.little() <= within(mean_in_system(stretch));
    (is_long && is_balanced && holds).then_some(range)
}

/// The longest steady stretch of a closed loop over which Little's law holds. Requests that are sent at once keep
/// leaving at once, wave by wave: a stretch that begins before a wave leaves and ends after another has one more
/// departure than stays, and its throughput is too large. Over whole waves, and over many, the law holds.
pub(super) fn closed_batches(
    batches: &[Stretch],
    first_arrival_s: f64,
    last_arrival_s: f64,
) -> Option<Range<usize>> {
    let all = steady_batches(batches, first_arrival_s, last_arrival_s)?;
    let batches = &batches[..all.end];
    let mut sums = vec![Sums::default()];
    let mut sum = Sums::default();
    for batch in batches {
        sum = sum.with(batch);
        sums.push(sum);
    }
    let candidates = (all.start..all.end).flat_map(|begin| {
        let ends = begin + BATCHES_MIN..=all.end;
        ends.map(move |end| begin..end)
    });
    let holds = |range: &Range<usize>| sums[range.end].since(&sums[range.start]).is_whole();
    candidates
        .filter(holds)
        .max_by(|a, b| a.len().cmp(&b.len()).then(b.start.cmp(&a.start)))
}

/// Share of the batches after filling up that may be cut as warm-up though they were fuller than what is kept, and how much fuller.
const CUT_MAX: f64 = 0.2;
const FULLER: f64 = 1.25;

/// Whether much of what was cut after filling up was fuller than the steady stretch. A system that begins empty fills up from below;
/// what stands above is congestion that comes and goes, and may come again, or caches that were cold for a part of the run that is
/// not small. Either way the stretch is no sample of what a longer run would see.
pub(super) fn cuts_congestion(batches: &[Stretch], steady: &Range<usize>, generations: &Generations) -> bool {
    let Some(warm_s) = generations.warm_s() else {
        return false;
    };
    let warm = batches
        .iter()
        .take_while(|batch| batch.begin_s() < warm_s)
        .count();
    let Some(cut) = batches.get(warm..steady.start) else {
        return false;
    };
    let level = |batches: &[Stretch]| {
        let sums = batches.iter().fold(Sums::default(), Sums::with);
        sums.area_s / sums.duration_s.max(f64::MIN_POSITIVE)
    };
    let is_much = cut.len() as f64 > CUT_MAX * (steady.end - warm) as f64;
    is_much && level(cut) > FULLER * level(&batches[steady.clone()])
}

/// What Little's law needs of a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    duration_s: f64,
    area_s: f64,
    stays_s: f64,
    completed: f64,
    ended: f64,
}

impl Sums {
    fn with(self, batch: &Stretch) -> Sums {
        Sums {
            duration_s: self.duration_s + batch.duration_s(),
            area_s: self.area_s + batch.system_area_s(),
            stays_s: self.stays_s + batch.sum_and_count(Metric::E2el).0,
            completed: self.completed + batch.completed() as f64,
            ended: self.ended + batch.ended() as f64,
        }
    }

    fn since(&self, before: &Sums) -> Sums {
        Sums {
            duration_s: self.duration_s - before.duration_s,
            area_s: self.area_s - before.area_s,
            stays_s: self.stays_s - before.stays_s,
            completed: self.completed - before.completed,
            ended: self.ended - before.ended,
        }
    }

    /// Whether it lasts several stays, which fill the area as the law has it. Nothing is known of the stays of those
    /// who were refused or gave up; then the length alone decides.
    fn is_whole(&self) -> bool {
        // Nothing is steady of an instant, in which a closed loop may be refused a thousand times.
        let is_long = self.duration_s > 0.0 && self.duration_s * self.completed >= STAYS_MIN * self.stays_s;
        let is_known = self.ended == self.completed;
        is_long && (!is_known || self.little() <= LITTLE_WITHIN)
    }

    /// How far stays and the area of the number in the system are from each other, relative.
    fn little(&self) -> f64 {
        if self.area_s > 0.0 {
            (self.stays_s - self.area_s).abs() / self.area_s
        } else {
            0.0
        }
    }
}

/// Batches to leave out at the start, at most half of them.
fn warm_up(batches: &[Stretch], first_arrival_s: f64) -> usize {
    let filled_s = first_arrival_s + stay_s(batches, f64::INFINITY).unwrap_or(0.0);
    let filling = batches
        .iter()
        .take_while(|batch| batch.begin_s() < filled_s)
        .count();
    let number: Vec<f64> = batches.iter().map(number_in_system).collect();
    let latency = |metric| -> Vec<f64> { batches.iter().map(|batch| batch_mean(batch, metric)).collect() };
    let settled = mser(&number)
        .max(mser(&latency(Metric::Ttft)))
        .max(mser(&latency(Metric::Tpot)));
    filling.max(settled).min(batches.len() / 2)
}

/// How long a request is in the batch, among those that left while requests were still sent: the longest mean of a batch of
/// leavers, since the first to leave are the short ones.
pub(super) fn in_batch_s(batches: &[Stretch], last_arrival_s: f64) -> Option<f64> {
    let sent = batches.iter().take_while(|batch| batch.end_s() <= last_arrival_s);
    let served = sent.map(|batch| batch_mean(batch, Metric::E2el) - batch_mean(batch, Metric::QueueTime));
    served.max_by(f64::total_cmp)
}

/// How long a typical request stays, among those that left while requests were still sent: the median over batches.
/// The first to leave are the short ones, and under overload the last stay as long as the run.
pub(super) fn stay_s(batches: &[Stretch], last_arrival_s: f64) -> Option<f64> {
    let sent = batches.iter().take_while(|batch| batch.end_s() <= last_arrival_s);
    let stays: Vec<f64> = sent.map(|batch| batch_mean(batch, Metric::E2el)).collect();
    quantile(&stays, 0.5)
}

/// Requests held back in the client at the times of the batches: what was offered while those who got through waited.
/// Empty where nobody waits there.
pub(super) fn client_backlog(
    batches: &[Stretch],
    offered_per_s: f64,
    last_arrival_s: f64,
) -> Vec<(f64, f64)> {
    let sent = batches.iter().take_while(|batch| batch.end_s() <= last_arrival_s);
    let held = |batch: &Stretch| batch_mean(batch, Metric::ClientQueueTime) * offered_per_s;
    let levels: Vec<(f64, f64)> = sent.map(|batch| (batch.end_s(), held(batch))).collect();
    if levels.iter().all(|level| level.1 == 0.0) {
        Vec::new()
    } else {
        levels
    }
}

fn number_in_system(batch: &Stretch) -> f64 {
    batch.system_area_s() / batch.duration_s().max(f64::MIN_POSITIVE)
}

fn batch_mean(batch: &Stretch, metric: Metric) -> f64 {
    let (sum, count) = batch.sum_and_count(metric);
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// The interval of a ratio of two sums over batches.
pub(super) fn interval(batches: &[Stretch], of: impl Fn(&Stretch) -> (f64, f64)) -> Option<Interval> {
    let pairs: Vec<(f64, f64)> = batches.iter().map(of).collect();
    ratio_interval(&regroup(&pairs, GROUPS), CONFIDENCE)
}

/// The mean of a latency in seconds, with an interval of equal halves: what a run's length is decided by.
pub(super) fn mean_of(batches: &[Stretch], metric: Metric) -> Option<Interval> {
    ratio_interval(&regroup(&sums(batches, metric), GROUPS), CONFIDENCE)
}

/// The mean of a latency in seconds as it is told: seldom long waits may be missing from a stretch.
fn mean_told(batches: &[Stretch], metric: Metric) -> Option<Estimate> {
    let mean = mean_of(batches, metric)?;
    let above = skewed::upper_half_width(&regroup(&sums(batches, metric), GROUPS), CONFIDENCE)?;
    Some(Estimate {
        high: mean.value + above,
        ..estimate(mean)
    })
}

/// Sum and count of a latency in each batch.
fn sums(batches: &[Stretch], metric: Metric) -> Vec<(f64, f64)> {
    let sums = |batch: &Stretch| {
        let (sum, count) = batch.sum_and_count(metric);
        (sum, count as f64)
    };
    batches.iter().map(sums).collect()
}

/// The time average of the number in the system.
pub(super) fn mean_in_system(batches: &[Stretch]) -> Option<Interval> {
    interval(batches, |batch| (batch.system_area_s(), batch.duration_s()))
}

/// Correlation of neighbouring groups of batches from which the number in the system wanders. A system whose memory is
/// short against a group's length has none; 0.6 is a group of half a relaxation time, ten of them in the stretch; a random
/// walk or a drift over the whole stretch gives 0.8 and more.
const WANDERS: f64 = 0.6;

/// Whether the number in the system was seen to wander only, and not to return: then its mean is that of where it happened to
/// be, however narrow the interval looks.
pub(super) fn wanders(batches: &[Stretch]) -> bool {
    ratio_correlation(&regroup(&with_clients(batches), GROUPS))
        .is_none_or(|correlation| correlation > WANDERS)
}

/// The time average of the number in the system and in the clients before it: behind a limit on what a client has in
/// flight the server alone looks steady at any load.
pub(super) fn mean_with_clients(batches: &[Stretch]) -> Option<Interval> {
    ratio_interval(&regroup(&with_clients(batches), GROUPS), CONFIDENCE)
}

/// Seconds that requests were there, in clients and in the system, and seconds of each batch.
fn with_clients(batches: &[Stretch]) -> Vec<(f64, f64)> {
    let inside = |batch: &Stretch| {
        let (held_s, _) = batch.sum_and_count(Metric::ClientQueueTime);
        (batch.system_area_s() + held_s, batch.duration_s())
    };
    batches.iter().map(inside).collect()
}

/// Share of their stays up to which requests wait so little that there is no queue to grow.
const HARDLY_WAITS: f64 = 0.01;

/// Whether hardly anybody waits, and the number in the system was never further than `within` of its mean from it: then it is
/// known that well, however its batches depend on each other. What grows without end is a queue, or a batch that is soon
/// many times what it was.
pub(super) fn is_level(batches: &[Stretch], within: f64) -> bool {
    let sum = |metric| -> f64 { batches.iter().map(|batch| batch.sum_and_count(metric).0).sum() };
    let pairs = with_clients(batches);
    let (area, duration) = pairs
        .iter()
        .fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let mean = area / duration;
    let is_near = |group: &(f64, f64)| (group.0 / group.1 - mean).abs() <= within * mean;
    let waits = sum(Metric::QueueTime) + sum(Metric::ClientQueueTime);
    waits <= HARDLY_WAITS * sum(Metric::E2el) && regroup(&pairs, GROUPS).iter().all(is_near)
}

/// Requests completed per second.
pub(super) fn throughput(batches: &[Stretch]) -> Option<Interval> {
    interval(batches, |batch| (batch.completed() as f64, batch.duration_s()))
}

/// Half-width of the rate of a closed loop, relative to it, by Little's law: that of the number inside over how long each stays, as if the
/// two were independent, and at least how far this rate is from the counted one. `None` where some left without an answer, of whose
/// stays nothing is known.
fn turn_of(batches: &[Stretch], summary: &Summary) -> Option<f64> {
    let is_known = batches.iter().all(|batch| batch.ended() == batch.completed());
    let stay = mean_of(batches, Metric::E2el).filter(|_| is_known)?;
    let inside = mean_in_system(batches)?;
    let counted = summary.completed as f64 / summary.duration_s;
    let apart = (inside.value / stay.value / counted - 1.0).abs();
    Some(inside.relative().hypot(stay.relative()).max(apart)).filter(|relative| relative.is_finite())
}

/// All intervals of a steady stretch by name.
pub(super) fn intervals(
    seen: &Observation,
    batches: &[Stretch],
    summary: &Summary,
    kind: LoadKind,
) -> Vec<(String, Estimate)> {
    let mut named = Vec::new();
    let mut add = |name: &str, estimate: Option<Estimate>| {
        named.extend(estimate.map(|estimate| (name.to_owned(), estimate)));
    };
    // What wanders without anything to bring it back is the number inside of an open load; a closed one gives it.
    let memory = match kind {
        LoadKind::Closed => None,
        _ => memory::short(batches, seen.fleet.replicas()),
    };
    let latencies = [
        (Metric::Ttft, &summary.ttft),
        (Metric::Tpot, &summary.tpot),
        (Metric::Itl, &summary.itl),
        (Metric::E2el, &summary.e2el),
        (Metric::QueueTime, &summary.queue_time),
    ];
    for (metric, distribution) in latencies {
        let widened = |estimate: Estimate, quantile: Option<f64>| match &memory {
            Some(crowd) => memory::at_least_as_wide(estimate, crowd, distribution, quantile),
            None => estimate,
        };
        let mean = mean_told(batches, metric);
        add(metric.name(), mean.map(|mean| widened(mean, None)));
        let quantiles = distribution.quantiles();
        let mut estimates = QUANTILES.map(|(_, p)| {
            let quantile = percentile::of(batches, metric, &quantiles, p);
            quantile.map(|quantile| widened(quantile, Some(p)))
        });
        percentile::keep_in_order(&mut estimates);
        for ((label, _), quantile) in QUANTILES.iter().zip(estimates) {
            add(&format!("{label}_{}", metric.name()), quantile);
        }
    }
    add("in_system", mean_in_system(batches).map(estimate));
    // Batches may cut a wave of answers; the rate itself counts whole instants. That of a closed loop is known as well as Little's law
    // makes it, however unlike its batches are.
    let turn = (kind == LoadKind::Closed)
        .then(|| turn_of(batches, summary))
        .flatten();
    let about = |rate: Option<Interval>, counted: u64, by_little: Option<f64>| {
        let value = counted as f64 / summary.duration_s;
        let half_width = by_little.map_or(rate?.half_width, |relative| relative * value);
        Some(estimate(Interval { value, half_width }))
    };
    add("throughput", about(throughput(batches), summary.completed, turn));
    let per_s = |of: fn(&Stretch) -> u64| interval(batches, |batch| (of(batch) as f64, batch.duration_s()));
    let each = |of: fn(&Stretch) -> u64| {
        let each = interval(batches, |batch| (of(batch) as f64, batch.completed() as f64))?;
        Some(turn?.hypot(each.relative())).filter(|relative| relative.is_finite())
    };
    let tokens = (per_s(Stretch::output_tokens), each(Stretch::output_tokens));
    add(
        "output_throughput",
        about(tokens.0, summary.output_tokens, tokens.1),
    );
    if seen.slo.any() {
        add("attainment", attainment::of(batches));
        let good = summary.good.unwrap_or_default();
        add("goodput", about(per_s(Stretch::good), good, each(Stretch::good)));
    }
    named
}

/// An interval of something that cannot be negative.
pub(super) fn estimate(interval: Interval) -> Estimate {
    Estimate {
        value: interval.value,
        low: interval.low().max(0.0),
        high: interval.high(),
    }
}
