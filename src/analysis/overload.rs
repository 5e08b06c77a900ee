//! Whether what is asked of a system is more than it can do.
//!
//! An open load is judged by what grows while requests are sent, once filling up is over ([`super::generations`]): a queue, in
//! the server, before its engines or behind them, or before it in the client, says so by itself; where the batch grows and nobody waits the load on the engine
//! decides ([`super::saturation`]). A load that changes on purpose is judged by what is left over at its end.

use super::generations::Generations;
use super::growth::{Growth, T_RETURNING};
use super::judge::Evidence;
use super::saturation::offered_load;
use super::steady;
use crate::metrics::{Metric, SeriesPoint, Stretch};

/// Share of the span of a load that varies in which what is left over at its end may be worked off. With more,
/// fewer requests were completed in the span than were offered by about this share.
const DRAIN_MAX: f64 = 0.05;
/// Or so many stays of a request when the system was at its emptiest, or one that is longer than the mean by so many deviations: the
/// last to come must be served too, and one of the longest may be among them.
const DRAIN_STAYS: f64 = 3.0;
/// Share of the requests that tell how long a stay was then.
const EMPTIEST: f64 = 0.5;
/// Share of the requests that may still be inside when the rest counts as worked off: one long answer is no backlog.
const STRAGGLERS: f64 = 0.01;

/// Whether a load that changes on purpose is more than can be served. A queue that grows in its busy hours and is
/// worked off in the idle ones says nothing; a backlog at the end that takes long to work off does. `None` where the
/// end was not seen.
pub(super) fn left_over(evidence: &Evidence<'_>) -> Option<Growth> {
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
    let longest_stay_s = stay_at_the_emptiest(batches, last_arrival_s)
        .map_or(f64::INFINITY, |(mean_s, deviation_s)| {
            (DRAIN_STAYS * mean_s).max(mean_s + DRAIN_STAYS * deviation_s)
        });
    let sending_s = last_arrival_s - first_arrival_s;
    let drain_s = over_s.map_or(0.0, |over_s| over_s - last_arrival_s);
    // What comes at one instant has no rate to fall behind.
    let is_behind = sending_s > 0.0 && drain_s > (DRAIN_MAX * sending_s).max(longest_stay_s);
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

/// Mean and deviation, in seconds, of the stays that ended while the fewest were inside, without the wait in the queue: under overload
/// that is the very backlog in question. Stretches are chosen by the number inside and not by the stays, of which the shortest would be
/// those of short answers; those who are worked off after the last arrival waited longest.
fn stay_at_the_emptiest(batches: &[Stretch], last_arrival_s: f64) -> Option<(f64, f64)> {
    let level = |batch: &Stretch| batch.system_area_s() / batch.duration_s();
    let mut by_level: Vec<&Stretch> = batches
        .iter()
        .filter(|batch| batch.begin_s() < last_arrival_s && batch.duration_s() > 0.0)
        .filter(|batch| batch.sum_and_count(Metric::E2el).1 > 0)
        .collect();
    by_level.sort_by(|a, b| level(a).total_cmp(&level(b)));
    let ended = |batches: &[&Stretch]| -> u64 {
        let counts = batches.iter().map(|batch| batch.sum_and_count(Metric::E2el).1);
        counts.sum()
    };
    let enough = EMPTIEST * ended(&by_level) as f64;
    let taken = (1..by_level.len()).find(|&taken| ended(&by_level[..taken]) as f64 >= enough);
    let emptiest = &by_level[..taken.unwrap_or(by_level.len())];
    let of = |metric: Metric| Stretch::mean_and_deviation_s(emptiest.iter().copied(), metric);
    let (stay_s, stay_deviation_s) = of(Metric::E2el)?;
    let (wait_s, wait_deviation_s) = of(Metric::QueueTime).unwrap_or_default();
    // How long one waits does not depend on one's own answer, so that the variances add.
    let variance = stay_deviation_s.powi(2) - wait_deviation_s.powi(2);
    Some(((stay_s - wait_s).max(0.0), variance.max(0.0).sqrt()))
}

/// Load from which a growing number running is overload. After 2,000 requests the estimate is within 3 %.
const OVERLOAD: f64 = 1.02;
/// The same while filling up: where few tokens share experts each costs more than one of many will, by so much at most.
const OVERLOAD_FILLING: f64 = 1.1;
/// Requests that must have been sent before that is asked, unless everybody inside was replaced: until then batches are so small
/// that what larger ones cost is a guess.
const SENT_FILLING: u64 = 1_000;
/// How many times all that were ever served together must wait, for a queue to be more than the filling up of a batch.
const CROWD: f64 = 2.0;
/// Share of what grows that must be waiting, for its generations to be those of a queue.
const QUEUE_SHARE: f64 = 0.5;
/// Deviations above the mean gap between two tokens that a step may last.
const LONG_STEP: f64 = 3.0;

/// Whether the system is overloaded. A queue that grows says so once filling up is over, or as soon as the batch is full.
/// Where it is the batch that grows, as in an engine that takes everyone in, filling up and overload look alike for longer;
/// there the load decides, where it can be told.
pub(super) fn growth(evidence: &Evidence<'_>, generations: &Generations) -> Growth {
    let Evidence {
        batches,
        series,
        first_arrival_s,
        last_arrival_s,
        ..
    } = *evidence;
    let full = Full::of(evidence, generations);
    let filled_s = generations.filled_s();
    let from_s = filled_s.unwrap_or(full.from_s);
    let of = |level: fn(&SeriesPoint) -> f64| Growth::of(series, level, from_s, last_arrival_s);
    let (inside, running) = (of(|point| point.in_system), of(|point| point.running));
    let mut waiting = of(SeriesPoint::aside);
    waiting.significant &= waiting.requests > come_in_a_step(evidence);
    let client = Growth::of_levels(&steady::client_backlog(
        batches,
        evidence.offered_per_s(),
        last_arrival_s,
    ));
    // Waves of preempted sequences hide a drift from the increments, and not from the generations.
    let is_queue_mostly = waiting.requests >= QUEUE_SHARE * inside.requests && inside.requests > 0.0;
    let waits = Growth {
        significant: is_queue_mostly && generations.grow(full.is_full),
        t: T_BY_GENERATIONS,
        ..waiting
    };
    let is_settled = filled_s.is_some() || full.is_full || full.is_crowd;
    let piled = match is_settled && (waiting.significant || client.significant) {
        true => Growth::default(),
        false => piled_up(evidence),
    };
    let queues = [
        (waiting, is_settled),
        (client, is_settled),
        (waits, true),
        (piled, true),
    ];
    let queues = queues
        .into_iter()
        .filter(|(queue, counts)| queue.significant && *counts);
    let queue_t = queues.clone().map(|(queue, _)| queue.t).fold(0.0, f64::max);
    let is_queue = queues.count() > 0;
    let is_batch = inside.significant && running.significant && !is_queue;
    let is_client = client.significant && is_settled && client.per_s > inside.per_s;
    let came = |(begin_s, end_s)| generations.arrivals_per_s(begin_s, end_s);
    let offered_per_s = match piled.significant {
        true => evidence.offered_per_s(),
        // What is held back has come, too.
        false if is_client => came(inside.between_s) + client.per_s,
        false => came(inside.between_s),
    };
    let offered = evidence.output_tokens.filter(|_| is_batch).and_then(|tokens| {
        offered_load(
            series,
            first_arrival_s,
            last_arrival_s,
            evidence.offered_per_s(),
            tokens,
        )
    });
    let overload = match filled_s {
        Some(_) => OVERLOAD,
        None if generations.count() > 0 || evidence.sent >= SENT_FILLING => OVERLOAD_FILLING,
        None => f64::INFINITY,
    };
    let is_overloaded =
        is_queue || offered.is_some_and(|offered| offered.load > overload && inside.significant);
    let per_s = match piled.significant {
        true => piled.per_s,
        // No more can have stayed than came; levels are means over intervals, and their instants half of one off.
        false => (inside.per_s + client.per_s).min(offered_per_s),
    };
    // Without a queue it is overloaded by a load above 1.
    let is_filling_up = is_overloaded && !is_queue && filled_s.is_none();
    let by_load = offered.filter(|_| is_filling_up);
    Growth {
        // A queue may grow while as many more leave the batch.
        significant: is_overloaded && per_s > 0.0,
        ambiguous: inside.significant && !is_overloaded,
        per_s,
        by_load_per_s: by_load.map(|offered| offered_per_s * (1.0 - offered.load.recip())),
        between_s: inside.between_s,
        offered_per_s,
        t: inside.t.max(queue_t),
        requests: inside.requests + client.requests,
        is_queue,
        is_client,
        load: offered
            .filter(|offered| offered.is_known)
            .map(|offered| offered.load),
        drain_s: None,
    }
}

/// Requests that come while a long step lasts. Whoever comes waits for the step under way to end, however idle the engine, and where
/// equal lengths bring the batches of several replicas into step those who wait so become more for minutes: that is no backlog.
fn come_in_a_step(evidence: &Evidence<'_>) -> f64 {
    let gap = Stretch::mean_and_deviation_s(evidence.batches, Metric::Itl);
    let longest_s = gap.map_or(0.0, |(mean_s, deviation_s)| mean_s + LONG_STEP * deviation_s);
    evidence.offered_per_s() * longest_s
}

/// What the t statistic of a queue counts as that is seen by its generations: enough to end a run.
const T_BY_GENERATIONS: f64 = 5.0;

/// Whether the batch is full, so that whoever comes waits: before filling up is over a queue may be that of a batch which
/// grows, and whose steps grow with it.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// The later half of the sending, or one time in the batch if that is longer; not before the first have left, if they do in the
    /// earlier half.
    from_s: f64,
    /// The number running did not grow since then, for as long as a request is in the batch.
    is_full: bool,
    /// More wait than a batch that is still filling up could ever take.
    is_crowd: bool,
}

impl Full {
    fn of(evidence: &Evidence<'_>, generations: &Generations) -> Full {
        let Evidence {
            batches,
            series,
            first_arrival_s,
            last_arrival_s,
            ..
        } = *evidence;
        let half_s = (last_arrival_s - first_arrival_s) / 2.0;
        let in_batch_s = steady::in_batch_s(batches, last_arrival_s);
        let begun_s = generations.begun_s().unwrap_or(first_arrival_s);
        let begun_s = begun_s.min(first_arrival_s + half_s);
        let from_s = (last_arrival_s - half_s.max(in_batch_s.unwrap_or(half_s))).max(begun_s);
        let running = Growth::of(series, |point| point.running, from_s, last_arrival_s);
        let is_long = in_batch_s.is_some_and(|stay_s| last_arrival_s - from_s >= stay_s);
        let sending = || series.iter().filter(|point| point.t_s <= last_arrival_s);
        let most_running = sending().map(|point| point.running).fold(0.0, f64::max);
        let waiting = sending().next_back().map_or(0.0, SeriesPoint::aside);
        Full {
            from_s,
            is_full: is_long && running.t < T_RETURNING,
            is_crowd: waiting > CROWD * most_running,
        }
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
        .map(SeriesPoint::aside)
        .fold(last.aside(), f64::max);
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
