//! What the rates of a search say: both rates, what limits, what breaks first, and what is lost.
//!
//! Everything here is read off points that are sorted by their rate; nothing is run. The knee comes from the points' slack, with
//! an interval that the sampling error and the local slope give; saturation lies between the last rate that is kept up with and
//! the first that is not.

use super::binding::Binding;
use super::limiter::Limiter;
use super::point::{Lost, Point};
use super::working_off;
use crate::analysis::{Estimate, Verdict};
use crate::metrics::Metric;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// The highest rate within the objective; `None` if no rate tried was.
    pub within_slo: Option<Estimate>,
    /// The rate above which not all that is offered is served; `None` if no rate tried overloaded the system.
    pub saturation: Option<Estimate>,
    /// What it serves once it is full, where that is surely less than what it takes while it keeps up.
    pub when_full: Option<WhenFull>,
    /// What the clients push at most, where that is less than what the server takes: neither of the above is then the server's.
    pub client: Option<ClientLimit>,
    /// The hardest-pressed resource at the knee, where the points know their pressure.
    pub limiter: Option<Limiter>,
    /// The promise that breaks first above the knee; `None` where saturation comes before any does.
    pub binding: Option<Binding>,
    /// The first rate beyond the objective and what is lost there, where that is why it is beyond.
    pub loss: Option<(f64, Lost)>,
    /// All rates tried, ascending.
    pub points: Vec<Point>,
    /// Whether both brackets became as narrow as asked.
    pub converged: bool,
}

/// A server that has two states between two rates: one that it keeps up in, and one that it does not come back from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhenFull {
    /// Requests per second that it serves while its queue grows.
    pub served: Estimate,
    /// Requests per second that came meanwhile.
    pub rate: f64,
    /// Preemptions for each request answered there.
    pub preemptions: f64,
}

/// A plateau that the client makes: it sends no more before answers come, and the requests that it holds back are in no latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientLimit {
    /// Requests per second that it pushes.
    pub rate: Estimate,
    /// Up to there the SLO is met, so that the server's knee was not seen.
    pub is_within: bool,
}

/// Rates that differ by less, relative to them, are one.
pub(super) const EQUAL: f64 = 1e-9;

impl Knee {
    /// Saturation, where runs about it tell of no other day than their own: what grows there grows with the run. Traffic with an end
    /// has no other day, and what is lost there does not grow.
    #[must_use]
    pub fn unsettled_saturation(&self) -> Option<Estimate> {
        let is_sample = !self.points.iter().any(|point| point.verdict == Verdict::Finite);
        self.saturation
            .filter(|_| is_sample && is_by_growth(&self.points))
    }

    /// The points at a rate and below it, the highest first.
    pub fn up_to(&self, rate: f64) -> impl Iterator<Item = &Point> {
        let is_there = move |point: &&Point| point.rate <= rate * (1.0 + EQUAL);
        self.points.iter().rev().filter(is_there)
    }

    /// What these points say, ascending by rate; `converged` is whether their brackets are as narrow as asked.
    pub(super) fn of(mut points: Vec<Point>, converged: bool) -> Knee {
        let saturation = saturation_rate(&points);
        let within_slo = knee_rate(&points, saturation.as_ref());
        call_critical(&mut points, saturation.as_ref());
        let over = points.iter().find(|point| !point.keeps_up());
        let is_clients = over.is_some_and(|over| over.is_held_by_client);
        let out = known(&points).iter().find(|point| !point.is_within());
        let client = saturation.filter(|_| is_clients).map(|rate| ClientLimit {
            rate,
            is_within: within_slo.is_some() && out.is_some_and(|out| !out.keeps_up()),
        });
        Knee {
            within_slo: within_slo.filter(|_| client.is_none_or(|client| !client.is_within)),
            saturation: saturation.filter(|_| client.is_none()),
            when_full: saturation
                .filter(|_| client.is_none())
                .and_then(|rate| when_full(&points, &rate)),
            client,
            limiter: limiter(&points),
            binding: binding(&points),
            loss: loss(&points),
            converged,
            points,
        }
    }
}

/// What may lie past saturation is not stable, whatever its run looked like, and its latencies have no upper end: the longer the
/// run, the longer they may get. Unless it is by losing requests that the queue stays short.
fn call_critical(points: &mut [Point], saturation: Option<&Estimate>) {
    let from = unsettled_from(points, saturation);
    for point in points.iter_mut().filter(|point| is_unsettled(point, from)) {
        point.verdict = Verdict::Critical;
        let low = point.p99_ttft.map_or(0.0, |known| known.low);
        point.p99_ttft = point.ttft_s.map(|(_, value)| Estimate {
            value,
            low,
            high: f64::INFINITY,
        });
    }
}

/// The rate from which a run may lie past saturation, however long its queue kept within bounds.
fn unsettled_from(points: &[Point], saturation: Option<&Estimate>) -> f64 {
    saturation
        .filter(|_| is_by_growth(points))
        .map_or(f64::INFINITY, |rate| rate.low)
}

/// Whether saturation is seen by what grows with the run, and not by what is lost at its first rate.
fn is_by_growth(points: &[Point]) -> bool {
    let over = points.iter().find(|point| !point.keeps_up());
    !over.is_some_and(Point::has_steady_state)
}

/// Whether a point may lie past saturation; traffic with an end has no other day.
fn is_unsettled(point: &Point, from: f64) -> bool {
    matches!(point.verdict, Verdict::Stable | Verdict::Critical) && point.rate >= from
}

/// The points without those below all others whose runs do not tell whether the SLO is met: at so low a rate too few
/// requests come in the time that there is. They say nothing of the rates above.
pub(super) fn known(points: &[Point]) -> &[Point] {
    let first = points
        .iter()
        .position(|point| !(point.is_unknown && point.keeps_up()));
    &points[first.unwrap_or(points.len())..]
}

/// The last rate before which `holds` always held, and the first at which it does not.
pub(super) fn bracket(points: &[Point], holds: impl Fn(&Point) -> bool) -> Option<(f64, f64)> {
    let first_out = points.iter().position(|point| !holds(point))?;
    let last_in = first_out.checked_sub(1)?;
    Some((points[last_in].rate, points[first_out].rate))
}

/// The knee from the points' slack: the rate at which it crosses zero, and the rates at which the ends of its
/// intervals do. So a sampling error in the slack becomes, through the local slope, an interval on the rate. A run that does not
/// tell bounds nothing from above, and where no SLO is missed before the backlog grows the knee is known no better than the
/// rate at which it does. Rates that may lie past saturation meet the SLO as long as their runs last, and no longer: the knee
/// is then where they begin, and reaches down to the highest below them that keeps it. Without one below them nothing better is known.
pub(super) fn knee_rate(points: &[Point], saturation: Option<&Estimate>) -> Option<Estimate> {
    let points = known(points);
    if !points.first()?.is_within() {
        return None;
    }
    let (low, high) = bracket(points, Point::is_within).unwrap_or_else(|| {
        let last = points[points.len() - 1].rate;
        (last, f64::INFINITY)
    });
    let value = crossing(points, |slack| slack.value).clamp(low, high);
    let is_out = |point: &&Point| point.rate >= high && !point.is_within();
    let tells = |point: &&Point| !(point.is_unknown && point.keeps_up());
    let out = points.iter().filter(is_out).find(tells);
    let saturated = saturation.filter(|_| out.is_some_and(|out| !out.keeps_up()));
    let most = saturated.map_or(f64::INFINITY, |rate| rate.value);
    let knee = Estimate {
        value: if value.is_finite() { value } else { low }.min(most),
        low: crossing(from_surest(points), |slack| slack.low)
            .min(low)
            .min(saturated.map_or(f64::INFINITY, |rate| rate.low)),
        high: crossing(points, |slack| slack.high).max(out.map_or(f64::INFINITY, |out| out.rate)),
    };
    let from = unsettled_from(points, saturation);
    let unsettled = points.iter().position(|point| is_unsettled(point, from));
    let settled = &points[..unsettled.unwrap_or(points.len())];
    let is_at_saturation = unsettled.is_some() && knee.value >= from;
    let kept = settled.iter().take_while(|point| point.is_within()).last();
    Some(kept.filter(|_| is_at_saturation).map_or(knee, |kept| Estimate {
        value: from,
        low: crossing(from_surest(settled), |slack| slack.low).min(kept.rate),
        high: knee.high,
    }))
}

/// The points from the highest rate on that meets the SLO beyond its sampling error: lower ones keep it, too, however short
/// their runs.
fn from_surest(points: &[Point]) -> &[Point] {
    &points[points.iter().rposition(Point::is_sure).unwrap_or(0)..]
}

/// The rate at which an end of the slack first falls below zero, by linear interpolation. An overloaded point has
/// no slack: a crossing between it and its neighbour is put at the neighbour for the value and its lower end, which
/// claims no more than was seen, and at the overloaded rate for the upper end by the caller's bracket.
fn crossing(points: &[Point], end: impl Fn(&Estimate) -> f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for point in points {
        let slack = match &point.slack {
            Some(slack) => end(slack),
            None if point.is_within() => f64::INFINITY,
            None => return before.map_or(0.0, |(rate, _)| rate),
        };
        if slack < 0.0 {
            return match before {
                Some((rate, above)) if above.is_finite() => {
                    rate + (point.rate - rate) * above / (above - slack)
                }
                Some((rate, _)) => rate,
                None => 0.0,
            };
        }
        before = Some((point.rate, slack));
    }
    f64::INFINITY
}

/// The saturation rate: what was served at the first rate that did not keep within bounds, or between that rate and the highest that
/// was seen to be stable; its interval reaches from the last rate that kept within bounds to the first that did not, and over the
/// interval of what the latter served. It lies above the rates at which the number in the system was seen to return, but the
/// highest of them; a run of which nothing grew yet is not proof enough.
pub(super) fn saturation_rate(points: &[Point]) -> Option<Estimate> {
    let first_over = points.iter().position(|point| !point.keeps_up())?;
    let high = points[first_over].rate;
    let low = first_over.checked_sub(1).map_or(0.0, |place| points[place].rate);
    let below = points[..first_over].iter();
    let stable: Vec<f64> = below
        .filter(|point| point.verdict == Verdict::Stable)
        .map(|point| point.rate)
        .collect();
    let is_finite = points[..first_over]
        .last()
        .is_some_and(|point| point.verdict == Verdict::Finite);
    let over = &points[first_over];
    let has_fallen = is_finite && !over.has_steady_state() && over.throughput.is_some();
    let served = match has_fallen {
        true => Some(working_off::served(over, &points[..first_over])),
        false => over.throughput,
    };
    // Next to saturation a run of a search's length may be stable by chance: the rate below it is not, too. Traffic with an end
    // is one and the same at every rate, and no sample: its end alone may hide that it is not kept up with, down to what was
    // worked off in a second.
    let kept = match stable[..] {
        _ if has_fallen => 0.0,
        _ if is_finite => low,
        [.., kept, _] => kept,
        [kept] => kept,
        [] => 0.0,
    };
    // Nor is a run that was too short to see what grows there, or never settled, a sign that the system does more than it served
    // under overload.
    let least = match served.filter(|_| has_fallen) {
        Some(served) => served.low.min(low),
        None if is_finite => low,
        None => stable.last().copied().unwrap_or(0.0),
    };
    let value = served.map_or((low + high) / 2.0, |served| served.value.clamp(least, high));
    Some(Estimate {
        value,
        low: served.map_or(kept, |served| low.min(served.low).max(kept)),
        high: served.map_or(high, |served| high.max(served.high)),
    })
}

/// Times saturation from which a server fills up fast.
pub(super) const WELL_ABOVE: f64 = 1.25;
/// Requests of a run in which filling up counts for little.
pub(super) const FILLED: u64 = 20_000;

/// Share of what saturates it that a full server must serve less to be in another state: batches that are full and in step serve
/// the same within far less, and are known as well.
const ANOTHER_STATE: f64 = 0.01;

/// What the best-known run that filled the server fast and went on served, where that is surely less than what is taken below saturation.
fn when_full(points: &[Point], saturation: &Estimate) -> Option<WhenFull> {
    let is_full = |point: &&Point| {
        let fills = point.rate >= WELL_ABOVE * saturation.value * (1.0 - EQUAL);
        point.verdict == Verdict::Unstable && fills && point.requests >= FILLED
    };
    let over = points.iter().filter(is_full);
    let known = over.filter_map(|point| Some((point, point.throughput?)));
    let width = |served: &Estimate| served.high - served.low;
    let (point, served) = known.min_by(|a, b| width(&a.1).total_cmp(&width(&b.1)))?;
    let is_less = served.value < (1.0 - ANOTHER_STATE) * saturation.value;
    (is_less && served.high < saturation.low).then_some(WhenFull {
        served,
        rate: point.rate,
        preemptions: point.preemptions,
    })
}

/// The promise that is broken at the first rate beyond the objective, with its figure at the last rate within it.
fn binding(points: &[Point]) -> Option<Binding> {
    let points = known(points);
    let first_out = points.iter().position(|point| !point.is_within())?;
    // Without a steady state there it has no binding, and the queue itself is what broke.
    let broken = points[first_out].binding?;
    let within = first_out.checked_sub(1).and_then(|last| points[last].binding);
    Some(
        within
            .filter(|within| within.metric == broken.metric)
            .unwrap_or(broken),
    )
}

/// What is lost at the first rate beyond the objective, if it is at least half of what misses it. A request is too long at any load, so
/// that decides only where no rate is within.
fn loss(points: &[Point]) -> Option<(f64, Lost)> {
    let points = known(points);
    let first_out = points.iter().position(|point| !point.is_within())?;
    let out = &points[first_out];
    let missed = out.attainment.map_or(0.0, |share| 1.0 - share.value);
    // What is missed is missed by one class, if classes are told apart.
    let lost = out.lost_of_class.unwrap_or(out.lost);
    let at_any_load = if first_out > 0 { lost.too_long } else { 0.0 };
    let by_load = lost.unanswered() - at_any_load;
    let decides = by_load > 0.0 && by_load >= 0.5 * (missed - at_any_load);
    let lost = if decides { lost } else { out.lost };
    (out.has_steady_state() && (decides || out.is_losing)).then_some((out.rate, lost))
}

/// The limiter at the last rate within the objective.
fn limiter(points: &[Point]) -> Option<Limiter> {
    let points = known(points);
    let place = points
        .iter()
        .take_while(|point| point.is_within())
        .count()
        .checked_sub(1)?;
    let is_of_pace = |binding: Binding| matches!(binding.metric, Metric::Tpot | Metric::Itl);
    points[place]
        .pressure
        .map(|pressure| match binding(points).is_some_and(is_of_pace) {
            true => pressure.limiter_of_pace(),
            false => pressure.limiter(),
        })
}
