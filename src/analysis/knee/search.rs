//! Bracketing and bisection over the rate: which rate is tried next, and when it is enough.

use super::outcome::{EQUAL, Knee, bracket, knee_rate, known, saturation_rate};
use super::point::Point;
use super::working_off;
use crate::analysis::{Estimate, Verdict};
use crate::units::{PICOS_PER_SECOND, Picos};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// The first rate tried, requests per second; any guess will do.
    pub start_rate: f64,
    /// The brackets end up this narrow, relative to the rate.
    pub tolerance: f64,
    /// The knee's interval ends up this narrow, relative to the knee, as far as more rates and longer runs can make it; `None`
    /// leaves it as the brackets have it.
    pub width: Option<f64>,
    /// Requests of the longest run for that.
    pub requests_max: u64,
    /// Runs at most.
    pub points_max: usize,
    /// No rate below this is tried.
    pub rate_min: f64,
    /// No rate above this is tried.
    pub rate_max: f64,
    /// Neighbours about the knee, up to saturation, end up no further apart than by this factor, for whoever reads the curve; `None`
    /// leaves them as the search tried them.
    pub apart: Option<f64>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        SearchOptions {
            start_rate: 1.0,
            tolerance: 0.02,
            width: Some(0.1),
            requests_max: 240_000,
            points_max: 40,
            rate_min: 0.0,
            rate_max: f64::INFINITY,
            apart: None,
        }
    }
}

impl SearchOptions {
    /// The lowest rate that is tried: the given one, or that of one request until the clock ends.
    fn floor(&self) -> f64 {
        self.rate_min.max(1.0 / CLOCK_S)
    }
}

/// Factor of the search for a first bracket.
const EXPANSION: f64 = 2.0;
/// Distance of the first rate below a lowest one that may or may not meet the SLO, in tolerances; then it is squared.
const SECURE: f64 = 5.0;
/// Rates that are added to narrow the knee's interval, before and after runs are made longer.
const SHARPENINGS_MAX: usize = 4;
const SHARPENINGS_LONGER_MAX: usize = 6;
/// Longer runs are so many times as long as chance alone asks for.
const SURELY: f64 = 1.6;
/// Where so many times the longest run were needed it is not begun: it would hardly help.
const IN_VAIN: f64 = 4.0;
/// Steps of the search for a first bracket: from the start rate a millionfold either way.
const EXPANSIONS_MAX: usize = 20;
/// Seconds that the clock can show. At a rate below its inverse not a single request is expected.
const CLOCK_S: f64 = Picos::MAX.0 as f64 / PICOS_PER_SECOND as f64;

/// Finds the knee and the saturation rate of `evaluate`, which takes a rate and how many requests its run has at least, and must
/// see the same random streams at every rate. Where it gives `None` it was stopped, and the search ends with the rates that it has.
///
/// # Panics
/// If the start rate or the tolerance is not positive.
pub fn search(evaluate: impl FnMut(f64, u64) -> Option<Point>, options: &SearchOptions) -> Knee {
    assert!(
        options.start_rate > 0.0 && options.tolerance > 0.0,
        "rates and tolerances are positive"
    );
    let mut tried = Tried {
        evaluate,
        points: Vec::new(),
        points_max: options.points_max,
        requests_min: 0,
        is_stopped: false,
    };
    tried.expand(options);
    tried.bisect(options.tolerance, Point::is_within);
    tried.secure(options);
    tried.bisect(options.tolerance, Point::is_within);
    tried.sharpen(options);
    // Longer runs told where the knee lies within an interval that is wider than any bracket.
    let knee = tried.requests_min > 0 || tried.bisect(options.tolerance, Point::is_within);
    tried.requests_min = 0;
    let saturation = tried.bisect(options.tolerance, Point::keeps_up) && tried.confirm(options);
    tried.overload(options);
    // Where no rate is within the objective there is no knee to narrow down, and whoever looked everywhere knows that.
    let is_none = !tried.is_spent() && !tried.points.iter().any(Point::is_within);
    if let Some(apart) = options.apart {
        tried.draw(apart);
    }
    Knee::of(tried.points, (knee || is_none) && saturation)
}

struct Tried<F> {
    evaluate: F,
    points: Vec<Point>,
    points_max: usize,
    /// Requests of a run at least.
    requests_min: u64,
    is_stopped: bool,
}

impl<F: FnMut(f64, u64) -> Option<Point>> Tried<F> {
    /// Whether the rate was tried and is kept up with.
    fn run(&mut self, rate: f64) -> bool {
        let Some(point) = (self.evaluate)(rate, self.requests_min) else {
            self.is_stopped = true;
            return false;
        };
        let place = self.points.partition_point(|other| other.rate < rate);
        self.points.insert(place, point);
        working_off::judge(&mut self.points);
        self.points[place].keeps_up()
    }

    /// The traffic has an end, and of it there is no more to be run.
    fn has_end(&self) -> bool {
        self.points.iter().any(|point| point.verdict == Verdict::Finite)
    }

    fn is_spent(&self) -> bool {
        self.is_stopped || self.points.len() >= self.points_max
    }

    /// Looks upwards for overload and downwards for a rate within the objective.
    fn expand(&mut self, options: &SearchOptions) {
        self.climb(
            options.start_rate.clamp(options.rate_min, options.rate_max),
            options,
        );
        let mut step = EXPANSION;
        let floor = options.floor();
        // Whether a load with an end is worked off is told beside a rate that is held for long.
        for _ in 0..EXPANSIONS_MAX {
            let sending = self.points.first().and_then(Point::sending);
            match sending.filter(|sending| sending.is_short() && sending.rate > floor && !self.is_spent()) {
                Some(sending) => self.run((sending.rate / EXPANSION).max(floor)),
                None => break,
            };
        }
        for _ in 0..EXPANSIONS_MAX {
            let Some(lowest) = self.points.first().filter(|_| !self.is_spent()) else {
                break;
            };
            let is_lowest = lowest.rate <= floor;
            let is_broken = |point: &Point| point.slack.is_some_and(|slack| slack.value < 0.0);
            let is_blind = lowest.is_blind() && self.points.iter().any(is_broken);
            if is_lowest || is_blind || lowest.is_hopeless() || self.points.iter().any(Point::is_within) {
                break;
            }
            // What an overloaded system serves is about what it can take. Where overload is so deep that not even that is
            // seen, halving would go through one absurd rate after the other.
            let served = lowest.throughput.map(|throughput| 0.9 * throughput.value);
            let next = match served {
                Some(served) if served > 0.0 && served < lowest.rate / EXPANSION => served,
                None if !lowest.has_steady_state() => {
                    step *= step;
                    lowest.rate / step
                }
                _ => lowest.rate / EXPANSION,
            };
            self.run(next.max(floor));
        }
    }

    /// Looks from a rate upwards for overload.
    fn climb(&mut self, mut rate: f64, options: &SearchOptions) {
        for _ in 0..EXPANSIONS_MAX {
            if self.is_spent() || !self.run(rate) || rate >= options.rate_max {
                break;
            }
            // Of a load with an end, which never falls behind: nothing is left to be seen.
            if self.points.last().is_some_and(Point::is_at_once) {
                break;
            }
            rate = (rate * EXPANSION).min(options.rate_max);
        }
    }

    /// Looks below the lowest rate for one that meets the SLO beyond the sampling error of its run: where there is none at any
    /// rate, nothing bounds the knee from below. A rate there that does not keep it shows that none above is a knee either. There may
    /// be none: where as many miss the SLO by themselves as may, no run is ever sure. The search ends at a rate whose run
    /// does not tell, below which runs are shorter still.
    fn secure(&mut self, options: &SearchOptions) {
        let mut step = 1.0 + SECURE * options.tolerance;
        let floor = options.floor();
        for _ in 0..EXPANSIONS_MAX {
            let Some(lowest) = known(&self.points).first().filter(|_| !self.is_spent()) else {
                break;
            };
            let is_any_sure = self.points.iter().any(Point::is_sure);
            let any = self.points.iter().any(Point::is_within);
            if is_any_sure || !any || lowest.is_hopeless() || lowest.rate <= floor {
                break;
            }
            let next = (lowest.rate / step).max(floor);
            let unknown = self.points.first().filter(|first| first.rate < lowest.rate);
            if unknown.is_some_and(|unknown| next <= unknown.rate) {
                break;
            }
            step *= step;
            self.run(next);
        }
    }

    /// Narrows the knee's interval where it is wider than asked: by rates about its ends, where those lie between rates that are far
    /// apart, and then, where chance makes it, by longer runs in the place of those inside it.
    fn sharpen(&mut self, options: &SearchOptions) {
        let Some(width) = options.width else {
            return;
        };
        for rounds in [SHARPENINGS_MAX, SHARPENINGS_LONGER_MAX] {
            for _ in 0..rounds {
                let Some(knee) = self.wider_than(width) else {
                    return;
                };
                let Some(rate) = self.far_apart(&knee, width) else {
                    break;
                };
                self.run(rate);
            }
            let Some(knee) = self.wider_than(width).filter(|_| self.requests_min == 0) else {
                return;
            };
            if !self.lengthen(&knee, width, options.requests_max) {
                return;
            }
            self.bisect(width / 4.0, Point::is_within);
        }
    }

    /// The knee, where its interval is wider than that and the search is not at its end.
    fn wider_than(&self, width: f64) -> Option<Estimate> {
        let knee = knee_rate(&self.points, saturation_rate(&self.points).as_ref())?;
        let is_open = self.is_spent() || knee.high.is_infinite() || knee.low <= 0.0;
        (!is_open && knee.high - knee.low > width * knee.value).then_some(knee)
    }

    /// A rate between the two that the knee's further end lies between, or else its nearer, if they are far apart.
    fn far_apart(&self, knee: &Estimate, width: f64) -> Option<f64> {
        let between = |end: f64| {
            let above = self
                .points
                .partition_point(|point| point.rate <= end * (1.0 + EQUAL));
            let below = above.checked_sub(1)?;
            // An end that is a rate itself is that of the bracket which leads away from the knee's value to it.
            let is_rate = self.points[below].rate >= end * (1.0 - EQUAL);
            let (low, high) = match is_rate && end > knee.value {
                true => (below.checked_sub(1)?, below),
                false => (below, above),
            };
            let (low, high) = (self.points.get(low)?.rate, self.points.get(high)?.rate);
            (high / low > 1.0 + width / 3.0).then(|| (low * high).sqrt())
        };
        let ends = match knee.value - knee.low > knee.high - knee.value {
            true => [knee.low, knee.high],
            false => [knee.high, knee.low],
        };
        ends.into_iter().find_map(between)
    }

    /// From here on runs are as long as it takes for chance to leave an interval of that width, and those inside the present one are
    /// forgotten. Whether that is of use: a load with an end is as long as it is, and the longest allowed may be far too short.
    fn lengthen(&mut self, knee: &Estimate, width: f64, requests_max: u64) -> bool {
        let below = |point: &&Point| point.rate <= knee.value * (1.0 + EQUAL);
        let Some(point) = self.points.iter().rev().find(below) else {
            return false;
        };
        let wider = (knee.high - knee.low) / (width * knee.value);
        let wanted = point.requests as f64 * wider.powi(2) * SURELY;
        let is_in_vain = point.verdict == Verdict::Finite || wanted > IN_VAIN * requests_max as f64;
        if is_in_vain || point.requests >= requests_max {
            return false;
        }
        self.requests_min = (wanted as u64).min(requests_max);
        // What bounds the interval must stay, or there is no bracket.
        let sure = self.points.iter().rposition(Point::is_sure);
        let sure = sure.map_or(0.0, |at| self.points[at].rate);
        let is_out = |point: &&Point| !point.may_be_within();
        let out = self.points.iter().find(is_out).map(|point| point.rate);
        let Some(out) = out.filter(|out| sure > 0.0 && *out > sure) else {
            return false;
        };
        self.points
            .retain(|point| point.rate <= sure || point.rate >= out);
        true
    }

    /// Narrows the bracket around the place where `holds` ceases to hold; `false` if it could not.
    fn bisect(&mut self, tolerance: f64, holds: impl Fn(&Point) -> bool) -> bool {
        loop {
            let Some((low, high)) = bracket(known(&self.points), &holds) else {
                return false;
            };
            if high / low <= 1.0 + tolerance {
                return true;
            }
            if self.is_spent() {
                return false;
            }
            let rate = self.next_rate(low, high, tolerance);
            self.run(rate);
        }
    }

    /// Runs the rate of a place again, with so many requests at least. What stood there; `None` where the search was stopped, and it
    /// stands there still.
    fn rerun(&mut self, place: usize, requests_min: u64) -> Option<Point> {
        let short = self.points.remove(place);
        self.run_for(short.rate, requests_min);
        if self.is_stopped {
            self.points.insert(place, short);
            return None;
        }
        Some(short)
    }

    /// The same of a rate that was not tried.
    fn run_for(&mut self, rate: f64, requests_min: u64) {
        let before = std::mem::replace(&mut self.requests_min, requests_min);
        self.run(rate);
        self.requests_min = before;
    }

    /// The middle of the bracket, or a rate just beside what overload showed can be served if that lies inside:
    /// one try on each side of it ends the search.
    fn next_rate(&self, low: f64, high: f64, tolerance: f64) -> f64 {
        let served = self
            .points
            .iter()
            .find(|point| !point.keeps_up())
            .and_then(|point| point.throughput);
        let beside = served.into_iter().flat_map(|served| {
            [
                served.value * (1.0 - 0.6 * tolerance),
                served.value * (1.0 + 0.3 * tolerance),
            ]
        });
        let margin = 1.0 + 0.2 * tolerance;
        let inside = |rate: &f64| *rate > low * margin && *rate < high / margin;
        beside
            .into_iter()
            .find(inside)
            .unwrap_or_else(|| (low * high).sqrt())
    }
}

mod confirm;
mod drawn;
mod filled;

#[cfg(test)]
mod closed_forms;
#[cfg(test)]
pub(super) mod tests;
#[cfg(test)]
mod unsure;
