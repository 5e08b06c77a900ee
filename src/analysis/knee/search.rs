//! Bracketing and bisection over the rate.

use super::binding::Binding;
use super::limiter::Limiter;
use super::point::{Lost, Point};
use crate::analysis::{Estimate, Verdict};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// The first rate tried, requests per second; any guess will do.
    pub start_rate: f64,
    /// The brackets end up this narrow, relative to the rate.
    pub tolerance: f64,
    /// Runs at most.
    pub points_max: usize,
    /// No rate below this is tried.
    pub rate_min: f64,
    /// No rate above this is tried.
    pub rate_max: f64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        SearchOptions {
            start_rate: 1.0,
            tolerance: 0.02,
            points_max: 40,
            rate_min: 0.0,
            rate_max: f64::INFINITY,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// The highest rate within the objective; `None` if no rate tried was.
    pub within_slo: Option<Estimate>,
    /// The rate above which not all that is offered is served; `None` if no rate tried overloaded the system.
    pub saturation: Option<Estimate>,
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

/// Factor of the search for a first bracket.
const EXPANSION: f64 = 2.0;
/// Distance of the first rate below a lowest one that may or may not keep the promise, in tolerances; then it is squared.
const SECURE: f64 = 5.0;
/// Steps of that search: from the start rate a millionfold either way.
const EXPANSIONS_MAX: usize = 20;

/// Finds the knee and the saturation rate of `evaluate`, which must see the same random streams at every rate. Where it
/// gives `None` it was stopped, and the search ends with the rates that it has.
///
/// # Panics
/// If the start rate or the tolerance is not positive.
pub fn search(evaluate: impl FnMut(f64) -> Option<Point>, options: &SearchOptions) -> Knee {
    assert!(
        options.start_rate > 0.0 && options.tolerance > 0.0,
        "rates and tolerances are positive"
    );
    let mut tried = Tried {
        evaluate,
        points: Vec::new(),
        points_max: options.points_max,
        is_stopped: false,
    };
    tried.expand(options);
    tried.bisect(options.tolerance, Point::is_within);
    tried.secure(options);
    let knee = tried.bisect(options.tolerance, Point::is_within);
    let saturation = tried.bisect(options.tolerance, Point::keeps_up);
    let mut points = tried.points;
    let within_slo = knee_rate(&points);
    let rate = saturation_rate(&points, within_slo.as_ref());
    // What may lie past saturation is not stable, whatever its run looked like; unless it is by losing requests that the
    // queue stays short.
    let by_loss = points
        .iter()
        .find(|point| !point.keeps_up())
        .is_some_and(Point::has_steady_state);
    for point in points.iter_mut().filter(|_| !by_loss) {
        if point.verdict == Verdict::Stable && rate.is_some_and(|rate| point.rate >= rate.low) {
            point.verdict = Verdict::Critical;
        }
    }
    Knee {
        within_slo,
        saturation: rate,
        limiter: limiter(&points),
        binding: binding(&points),
        loss: loss(&points),
        converged: knee && saturation,
        points,
    }
}

struct Tried<F> {
    evaluate: F,
    points: Vec<Point>,
    points_max: usize,
    is_stopped: bool,
}

impl<F: FnMut(f64) -> Option<Point>> Tried<F> {
    /// Whether the rate was tried and is kept up with.
    fn run(&mut self, rate: f64) -> bool {
        let Some(point) = (self.evaluate)(rate) else {
            self.is_stopped = true;
            return false;
        };
        let keeps_up = point.keeps_up();
        let place = self.points.partition_point(|other| other.rate < rate);
        self.points.insert(place, point);
        keeps_up
    }

    fn is_spent(&self) -> bool {
        self.is_stopped || self.points.len() >= self.points_max
    }

    /// Looks upwards for overload and downwards for a rate within the objective.
    fn expand(&mut self, options: &SearchOptions) {
        let mut rate = options.start_rate.clamp(options.rate_min, options.rate_max);
        for _ in 0..EXPANSIONS_MAX {
            if self.is_spent() || !self.run(rate) || rate >= options.rate_max {
                break;
            }
            rate = (rate * EXPANSION).min(options.rate_max);
        }
        let mut step = EXPANSION;
        for _ in 0..EXPANSIONS_MAX {
            let Some(lowest) = self.points.first().filter(|_| !self.is_spent()) else {
                break;
            };
            let is_lowest = lowest.rate <= options.rate_min;
            if is_lowest || lowest.is_hopeless() || self.points.iter().any(Point::is_within) {
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
            self.run(next.max(options.rate_min));
        }
    }

    /// Looks below the lowest rate for one that keeps the promise beyond the sampling error of its run: where there is none,
    /// nothing bounds the knee from below. A rate there that does not keep it shows that none above is a knee either.
    fn secure(&mut self, options: &SearchOptions) {
        let mut step = 1.0 + SECURE * options.tolerance;
        for _ in 0..EXPANSIONS_MAX {
            let Some(lowest) = known(&self.points).first().filter(|_| !self.is_spent()) else {
                break;
            };
            let is_sure = lowest.is_within() && lowest.slack.is_none_or(|slack| slack.low >= 0.0);
            let any = self.points.iter().any(Point::is_within);
            if is_sure || !any || lowest.is_hopeless() || lowest.rate <= options.rate_min {
                break;
            }
            let next = lowest.rate / step;
            step *= step;
            self.run(next.max(options.rate_min));
        }
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

/// The points without those below all others whose runs do not tell whether the promise is kept: at so low a rate too few
/// requests come in the time that there is. They say nothing of the rates above.
fn known(points: &[Point]) -> &[Point] {
    let first = points
        .iter()
        .position(|point| !(point.is_unknown && point.keeps_up()));
    &points[first.unwrap_or(points.len())..]
}

/// The last rate before which `holds` always held, and the first at which it does not.
fn bracket(points: &[Point], holds: impl Fn(&Point) -> bool) -> Option<(f64, f64)> {
    let first_out = points.iter().position(|point| !holds(point))?;
    let last_in = first_out.checked_sub(1)?;
    Some((points[last_in].rate, points[first_out].rate))
}

/// The knee from the points' slack: the rate at which it crosses zero, and the rates at which the ends of its
/// intervals do. So a sampling error in the slack becomes, through the local slope, an interval on the rate.
fn knee_rate(points: &[Point]) -> Option<Estimate> {
    let points = known(points);
    if !points.first()?.is_within() {
        return None;
    }
    let (low, high) = bracket(points, Point::is_within).unwrap_or_else(|| {
        let last = points[points.len() - 1].rate;
        (last, f64::INFINITY)
    });
    let value = crossing(points, |slack| slack.value).clamp(low, high);
    Some(Estimate {
        value: if value.is_finite() { value } else { low },
        low: crossing(points, |slack| slack.low).min(low),
        high: crossing(points, |slack| slack.high).max(high),
    })
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

/// The saturation rate: between the last rate that kept within bounds and the first that did not, widened by the
/// interval of what the latter served. It lies above the knee; a run of which nothing grew yet is not proof enough.
fn saturation_rate(points: &[Point], knee: Option<&Estimate>) -> Option<Estimate> {
    let first_over = points.iter().position(|point| !point.keeps_up())?;
    let high = points[first_over].rate;
    let low = first_over.checked_sub(1).map_or(0.0, |place| points[place].rate);
    let kept = knee.map_or(0.0, |knee| knee.value).min(low);
    let served = points[first_over].throughput;
    let value = served.map_or((low + high) / 2.0, |served| served.value.clamp(low, high));
    Some(Estimate {
        value,
        low: served.map_or(low, |served| low.min(served.low).max(kept)),
        high: served.map_or(high, |served| high.max(served.high)),
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

/// What is lost at the first rate beyond the objective, if it is at least half of what misses it.
fn loss(points: &[Point]) -> Option<(f64, Lost)> {
    let out = known(points).iter().find(|point| !point.is_within())?;
    let missed = out.attainment.map_or(0.0, |share| 1.0 - share.value);
    // What is missed is missed by one class, if classes are told apart.
    let lost = out.lost_of_class.unwrap_or(out.lost);
    let decides = lost.unanswered() > 0.0 && lost.unanswered() >= 0.5 * missed;
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
    points[place].pressure.map(|pressure| pressure.limiter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::knee::{Constraint, Objective, Statistic};
    use crate::analysis::{Decision, LoadKind, Precision, Verdict, decide, judge};
    use crate::metrics::single_server::{self, Server};
    use crate::metrics::{Fleet, Metric, Recorder, RecorderOptions, Records, SloLimits};
    use crate::units::Picos;

    /// M/M/1 with unit service, run as long as its precision asks.
    fn mm1(rate: f64, limit_s: f64, objective: &Objective) -> Point {
        let fleet = Fleet::alike(1, 100, 16);
        let slo = SloLimits {
            e2el: Some(Picos::from_seconds(limit_s)),
            ..SloLimits::default()
        };
        let precision = Precision {
            relative: 0.1,
            min_requests: 4_000,
            max_requests: 40_000,
        };
        let mut requests = 4_000;
        loop {
            let mut recorder = Recorder::new(RecorderOptions {
                fleet: fleet.clone(),
                slo,
                records: Records::None,
            });
            let server = Server {
                stop_early: true,
                ..Server::mm1(rate, requests, 11)
            };
            let end = single_server::run(&server, &mut recorder);
            match decide(&recorder, LoadKind::Open, &precision) {
                Decision::Continue(more) => requests += more,
                Decision::Stop(_) => {
                    return Point::of(
                        rate,
                        &judge(recorder.finish(end), LoadKind::Open, &precision),
                        objective,
                    );
                }
            }
        }
    }

    #[test]
    fn the_knee_of_m_m_1_is_where_the_closed_form_has_it() {
        // P(sojourn ≤ x) = 1 − e^−(μ−λ)x = 0.95 at x = 10: λ = 1 − ln 20 / 10 = 0.700.
        let objective = Objective {
            attainment: Some(0.95),
            ..Objective::default()
        };
        let options = SearchOptions {
            start_rate: 0.02,
            tolerance: 0.03,
            points_max: 25,
            ..SearchOptions::default()
        };
        let knee = search(|rate| Some(mm1(rate, 10.0, &objective)), &options);
        let truth = 1.0 - 20f64.ln() / 10.0;
        let within = knee.within_slo.unwrap();
        assert!(within.low <= truth && truth <= within.high, "{within:?}");
        assert!(within.high - within.low < 0.2, "{within:?}");
        let saturation = knee.saturation.unwrap();
        assert!(saturation.low <= 1.0 && 1.0 <= saturation.high, "{saturation:?}");
        assert!(saturation.high - saturation.low < 0.2, "{saturation:?}");
        let overloaded = knee
            .points
            .iter()
            .filter(|point| point.verdict == Verdict::Unstable);
        assert!(
            overloaded
                .clone()
                .all(|point| point.ttft_s.is_none() && point.slack.is_none())
        );
        assert!(
            overloaded
                .filter(|point| point.rate > 1.2)
                .all(|point| point.requests <= 6_000)
        );
    }

    #[test]
    fn a_percentile_limit_gives_the_same_knee_as_its_attainment() {
        let p95 = Constraint {
            metric: Metric::E2el,
            statistic: Statistic::Quantile(0.95),
            limit_s: 10.0,
        };
        let by_share = Objective {
            attainment: Some(0.95),
            ..Objective::default()
        };
        let by_value = Objective {
            constraints: vec![p95],
            ..Objective::default()
        };
        let options = SearchOptions {
            start_rate: 0.5,
            tolerance: 0.05,
            points_max: 15,
            ..SearchOptions::default()
        };
        let rate = |objective: &Objective| {
            search(|rate| Some(mm1(rate, 10.0, objective)), &options)
                .within_slo
                .unwrap()
                .value
        };
        assert!((rate(&by_share) - rate(&by_value)).abs() < 0.03);
    }

    /// A system without noise: slack falls by 1 for each request per second, overload from 8 on.
    fn exact(rate: f64) -> Point {
        let run_of = |objective: &Objective| mm1(0.1, 10.0, objective);
        let within = Estimate {
            value: 5.0 - rate,
            low: 4.9 - rate,
            high: 5.1 - rate,
        };
        Point {
            rate,
            verdict: if rate < 8.0 {
                Verdict::Stable
            } else {
                Verdict::Unstable
            },
            slack: (rate < 8.0).then_some(within),
            throughput: Some(Estimate {
                value: rate.min(8.0),
                low: rate.min(8.0),
                high: rate.min(8.0),
            }),
            ..run_of(&Objective::default())
        }
    }

    #[test]
    fn both_rates_are_found_from_any_start_in_few_runs() {
        for start_rate in [1e-3, 0.7, 6.0, 1e5] {
            let mut runs = 0;
            let options = SearchOptions {
                start_rate,
                tolerance: 0.01,
                points_max: 60,
                ..SearchOptions::default()
            };
            let knee = search(
                |rate| {
                    runs += 1;
                    Some(exact(rate))
                },
                &options,
            );
            let within = knee.within_slo.unwrap();
            assert!(
                (within.value - 5.0).abs() < 1e-9 && within.low <= 4.9 + 1e-9 && within.high >= 5.1 - 1e-9
            );
            assert!((within.high - within.low) < 0.35, "{within:?}");
            let saturation = knee.saturation.unwrap();
            assert!((saturation.value - 8.0).abs() < 1e-9 && saturation.high - saturation.low < 0.2);
            assert!(knee.converged && runs <= 32, "{runs}");
        }
    }

    #[test]
    fn a_knee_is_bounded_from_below_by_a_rate_that_surely_keeps_the_promise() {
        // Overload first, then 4.95, which keeps the promise by less than the error of its run.
        let options = SearchOptions {
            start_rate: 9.9,
            ..SearchOptions::default()
        };
        let knee = search(|rate| Some(exact(rate)), &options);
        let within = knee.within_slo.unwrap();
        assert!((within.value - 5.0).abs() < 1e-9);
        assert!(within.low > 4.5 && within.low <= 4.9 + 1e-9, "{within:?}");
        assert!(knee.converged && knee.points.len() < 20, "{}", knee.points.len());
    }

    #[test]
    fn a_rate_below_that_breaks_the_promise_leaves_no_knee_above_it() {
        // Kept within a window only, and never surely.
        let knee = search(
            |rate| {
                let slack = if (3.0..5.0).contains(&rate) { 0.01 } else { -0.1 };
                Some(Point {
                    slack: (rate < 8.0).then_some(Estimate {
                        value: slack,
                        low: slack - 0.05,
                        high: slack + 0.05,
                    }),
                    ..exact(rate)
                })
            },
            &SearchOptions {
                start_rate: 4.0,
                ..SearchOptions::default()
            },
        );
        assert_eq!(knee.within_slo, None);
    }

    #[test]
    fn rates_too_low_to_tell_bar_no_knee_above_them() {
        let knee = search(
            |rate| {
                Some(Point {
                    slack: exact(rate).slack.filter(|_| rate > 1e-3),
                    is_unknown: rate <= 1e-3,
                    ..exact(rate)
                })
            },
            &SearchOptions {
                start_rate: 1e-4,
                rate_min: 1e-4,
                ..SearchOptions::default()
            },
        );
        let within = knee.within_slo.unwrap();
        assert!((within.value - 5.0).abs() < 1e-9, "{within:?}");
        assert!(knee.points[0].is_unknown);
    }

    #[test]
    fn absurd_overload_is_left_in_few_steps() {
        // So deep that nothing is seen to be served.
        let mut absurd = 0;
        let knee = search(
            |rate| {
                absurd += u32::from(rate > 100.0);
                Some(Point {
                    throughput: exact(rate).throughput.filter(|_| rate < 100.0),
                    ..exact(rate)
                })
            },
            &SearchOptions {
                start_rate: 1e9,
                ..SearchOptions::default()
            },
        );
        assert!((knee.within_slo.unwrap().value - 5.0).abs() < 1e-9);
        assert!(absurd <= 8, "{absurd}");
    }

    #[test]
    fn more_that_miss_than_meet_another_need_no_lower_rate() {
        let objective = Objective {
            attainment: Some(0.99),
            ..Objective::default()
        };
        let missing = |met| {
            let mut point = Point {
                attainment: Some(Estimate {
                    value: 0.97,
                    low: 0.965,
                    high: 0.975,
                }),
                slack: Some(Estimate {
                    value: -0.02,
                    low: -0.025,
                    high: -0.015,
                }),
                ..exact(1.0)
            };
            point.with_met(met, &objective);
            point.is_hopeless()
        };
        assert!(missing(0.019) && !missing(0.021));
    }

    #[test]
    fn saturation_lies_above_the_knee() {
        // What an overloaded run serves is known within ±20 % only.
        let noisy = |rate: f64| Point {
            throughput: Some(Estimate {
                value: rate.min(8.0),
                low: 0.8 * rate.min(8.0),
                high: 1.2 * rate.min(8.0),
            }),
            slack: (rate < 8.0).then_some(Estimate {
                value: 7.5 - rate,
                low: 7.4 - rate,
                high: 7.6 - rate,
            }),
            ..exact(rate)
        };
        let options = SearchOptions {
            start_rate: 2.0,
            ..SearchOptions::default()
        };
        let knee = search(|rate| Some(noisy(rate)), &options);
        let (within, saturation) = (knee.within_slo.unwrap(), knee.saturation.unwrap());
        assert!(saturation.low >= within.value, "{saturation:?} {within:?}");
        assert!(saturation.low <= 8.0 && saturation.high >= 8.0);
    }

    #[test]
    fn an_objective_out_of_reach_has_no_knee() {
        let hopeless = |rate: f64| Point {
            slack: Some(Estimate {
                value: -1.0,
                low: -1.0,
                high: -1.0,
            }),
            verdict: Verdict::Stable,
            ..exact(rate.min(7.0))
        };
        let knee = search(
            |rate| {
                Some(Point {
                    rate,
                    ..hopeless(rate)
                })
            },
            &SearchOptions::default(),
        );
        assert_eq!(knee.within_slo, None);
        assert_eq!(knee.saturation, None);
        assert!(!knee.converged);
    }

    #[test]
    fn a_search_ends_where_requests_are_alone_and_still_too_slow() {
        let mut runs = 0;
        let knee = search(
            |rate| {
                runs += 1;
                Some(Point {
                    rate,
                    slack: (rate > 1e-4).then_some(Estimate {
                        value: -1.0,
                        low: -1.0,
                        high: -1.0,
                    }),
                    // Below that the clock ends too soon to tell, which must not pass for a promise kept.
                    is_unknown: rate <= 1e-4,
                    running: Some(rate),
                    waiting: Some(0.0),
                    ..exact(rate)
                })
            },
            &SearchOptions::default(),
        );
        assert_eq!(knee.within_slo, None);
        assert!(knee.points[0].is_alone() && knee.points[0].rate > 1e-4);
        assert!(runs < 30, "{runs}");
    }

    #[test]
    fn a_server_that_turns_requests_away_saturates_where_it_begins_to() {
        // Serves 10 a second at any rate and turns the rest away, with answers that stay fast.
        let knee = search(
            |rate| {
                let refused = (1.0 - 10.0 / rate).max(0.0);
                let slack = 0.99 - refused - 0.97;
                Some(Point {
                    rate,
                    verdict: Verdict::Stable,
                    slack: Some(Estimate {
                        value: slack,
                        low: slack,
                        high: slack,
                    }),
                    lost: Lost {
                        refused,
                        ..Lost::default()
                    },
                    is_losing: refused > 0.05,
                    throughput: Some(Estimate {
                        value: rate.min(10.0),
                        low: rate.min(10.0),
                        high: rate.min(10.0),
                    }),
                    ..exact(1.0)
                })
            },
            &SearchOptions::default(),
        );
        let saturation = knee.saturation.unwrap();
        assert!((9.9..11.0).contains(&saturation.value), "{saturation:?}");
        let (rate, lost) = knee.loss.unwrap();
        assert!(rate < 11.0 && lost.refused > 0.0);
        assert!(knee.points.iter().all(|point| point.rate < 40.0));
    }

    #[test]
    fn a_search_that_is_stopped_keeps_the_rates_that_it_has() {
        for stop_after in 0..6 {
            let mut left = stop_after;
            let knee = search(
                |rate| {
                    left -= 1;
                    (left >= 0).then(|| exact(rate))
                },
                &SearchOptions::default(),
            );
            assert_eq!(knee.points.len(), stop_after as usize);
            assert!(!knee.converged);
        }
    }

    #[test]
    fn no_rate_outside_the_given_ones_is_tried() {
        let mut tried = Vec::new();
        let options = SearchOptions {
            start_rate: 1.0,
            rate_min: 2.0,
            rate_max: 5.0,
            ..SearchOptions::default()
        };
        let knee = search(
            |rate| {
                tried.push(rate);
                Some(exact(rate))
            },
            &options,
        );
        assert!(tried.iter().all(|rate| (2.0..=5.0).contains(rate)), "{tried:?}");
        assert!(knee.points.len() <= options.points_max);
    }
}
