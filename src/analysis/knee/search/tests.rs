//! Known closed forms are found, systems without noise exactly, and bad ones in few runs.

use super::*;
use crate::analysis::knee::{Constraint, Lost, Objective, Statistic};
use crate::analysis::{Decision, Estimate, LoadKind, Precision, Verdict, decide, judge};
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
        ..Precision::default()
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

/// Replicas that fail take a queue with them, which keeps it from growing: that is no way to keep up. A few lost in batches are.
#[test]
fn a_queue_that_failures_take_away_is_not_kept_up_with() {
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(1, 100, 16),
        slo: SloLimits::default(),
        records: Records::None,
    });
    let end = single_server::run(&Server::mm1(0.5, 20_000, 11), &mut recorder);
    let mut run = judge(recorder.finish(end), LoadKind::Open, &Precision::default());
    let keeps_up = |run: &crate::analysis::RunResult| Point::of(0.5, run, &Objective::default()).keeps_up();
    assert!(keeps_up(&run));
    let steady = run.steady.as_mut().unwrap();
    (steady.failed, steady.completed) = (steady.completed / 2, steady.completed / 2);
    (steady.occupancy.waiting, steady.occupancy.running) = (1.0, 2.0);
    assert!(keeps_up(&run), "half of a batch is lost with it");
    run.steady.as_mut().unwrap().occupancy.waiting = 40.0;
    assert!(!keeps_up(&run));
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
        assert!((within.value - 5.0).abs() < 1e-9 && within.low <= 4.9 + 1e-9 && within.high >= 5.1 - 1e-9);
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

/// As many miss the promise by themselves as may, so that no run is sure that it is kept, at however low a rate.
fn never_sure(rate: f64) -> Point {
    Point {
        slack: Some(Estimate {
            value: 0.001,
            low: -0.001,
            high: 0.003,
        }),
        ..exact(rate)
    }
}

#[test]
fn a_promise_that_no_rate_surely_keeps_is_looked_for_down_to_the_clocks_end_and_no_further() {
    let mut tried = Vec::new();
    let knee = search(
        |rate| {
            tried.push(rate);
            Some(Point {
                slack: never_sure(rate).slack.filter(|_| rate < 8.0),
                ..never_sure(rate)
            })
        },
        &SearchOptions::default(),
    );
    assert!(tried.iter().all(|&rate| rate >= 1.0 / CLOCK_S), "{tried:?}");
    assert!(knee.within_slo.is_some_and(|within| within.low == 0.0));
}

#[test]
fn a_search_for_a_sure_rate_ends_at_the_first_that_is_too_low_to_tell() {
    let mut unknown = 0;
    let knee = search(
        |rate| {
            let is_unknown = rate < 0.5;
            unknown += u32::from(is_unknown);
            Some(Point {
                slack: never_sure(rate).slack.filter(|_| rate < 8.0 && !is_unknown),
                is_unknown,
                ..never_sure(rate)
            })
        },
        &SearchOptions::default(),
    );
    assert_eq!(unknown, 1);
    assert!(knee.within_slo.is_some());
}

#[test]
fn overload_of_which_nothing_is_seen_at_any_rate_ends_the_search_at_a_rate() {
    let knee = search(
        |rate| {
            Some(Point {
                rate,
                throughput: None,
                ..exact(9.0)
            })
        },
        &SearchOptions {
            points_max: 100,
            ..SearchOptions::default()
        },
    );
    assert!(knee.points.iter().all(|point| point.rate >= 1.0 / CLOCK_S));
    assert_eq!(knee.within_slo, None);
}

#[test]
fn rates_with_too_few_requests_of_a_class_are_no_knee_and_end_the_search() {
    let objective = Objective {
        attainment: Some(0.99),
        ..Objective::default()
    };
    let mut tried = 0;
    // A promise that no rate keeps, and of which the lowest rates show too little: they seem to keep it.
    let evaluate = |rate: f64| {
        tried += 1;
        let mut point = mm1(rate, 1.0, &objective);
        if rate < 0.02 {
            point.slack = Some(Estimate {
                value: 0.01,
                low: -0.2,
                high: 0.01,
            });
            point.cut_short();
        }
        Some(point)
    };
    let options = SearchOptions {
        start_rate: 0.2,
        ..SearchOptions::default()
    };
    let knee = search(evaluate, &options);
    assert_eq!(knee.within_slo, None);
    let blind: Vec<bool> = knee.points.iter().map(Point::is_blind).collect();
    assert_eq!(blind.iter().filter(|blind| **blind).count(), 1, "{blind:?}");
    assert!(tried < 20, "{tried}");
}
