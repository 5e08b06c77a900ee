//! Systems without noise are found exactly, and bad ones in few runs.

#[cfg(test)]
mod intervals;

use super::closed_forms::mm1;
use super::*;
use crate::analysis::knee::{Lost, Objective};
use crate::analysis::{Estimate, Verdict};

/// A point so far inside its objective, known within `± error`.
pub(in crate::analysis::knee) fn within(slack: f64, error: f64) -> Point {
    Point {
        slack: Some(Estimate {
            value: slack,
            low: slack - error,
            high: slack + error,
        }),
        ..exact(1.0)
    }
}

/// A system without noise: slack falls by 1 for each request per second, overload from 8 on.
pub(in crate::analysis::knee) fn exact(rate: f64) -> Point {
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
            |rate, _| {
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

/// The first that is overloaded serves 7.2 to 8.
fn overloaded(point: Point) -> Point {
    let served = Estimate {
        value: 7.6,
        low: 7.2,
        high: 8.0,
    };
    Point {
        throughput: Some(served),
        ..point
    }
}

/// Under bursts a run above what is served may see nothing grow; what the overloaded ones serve is the system's.
#[test]
fn runs_too_short_to_see_growth_move_no_saturation() {
    let too_short = Point {
        verdict: Verdict::TooShort,
        slack: None,
        ..exact(7.9)
    };
    let points = [exact(4.0), exact(5.0), too_short, overloaded(exact(8.5))];
    let saturation = Knee::of(points.to_vec(), true).saturation.unwrap();
    assert_eq!((saturation.value, saturation.high), (7.6, 8.5));
}

/// A run that may lie past saturation meets the SLO for as long as it lasts, and no longer.
#[test]
fn a_knee_at_saturation_is_where_that_begins_and_reaches_below_it() {
    let kept = |rate: f64| Point {
        slack: Some(Estimate {
            value: 1.0,
            low: 0.5,
            high: 1.5,
        }),
        ..exact(rate)
    };
    let over = overloaded(exact(8.5));
    let points = |rates: &[f64]| {
        let below = rates.iter().map(|&rate| kept(rate));
        below.chain([over.clone()]).collect::<Vec<_>>()
    };
    let knee = Knee::of(points(&[4.0, 7.0, 7.5, 7.9]), true).within_slo.unwrap();
    assert_eq!(
        (knee.value, knee.low, knee.high),
        (7.5, 7.0, 8.5),
        "saturation is 7.6 [7.5, 8.5]"
    );
    // What is broken well below it is no affair of saturation.
    let mut broken = kept(6.0);
    broken.slack = Some(Estimate {
        value: -1.0,
        low: -1.1,
        high: -0.9,
    });
    let mut all = points(&[4.0, 7.0, 7.5]);
    all.insert(1, broken);
    let knee = Knee::of(all, true).within_slo.unwrap();
    assert!(knee.value > 4.0 && knee.high <= 6.0, "{knee:?}");
}

/// Latencies of what may lie past saturation grow with the run: they have no upper end.
#[test]
fn what_may_lie_past_saturation_is_critical_and_bounded_from_below_alone() {
    let served = |rate: f64| Point {
        ttft_s: Some((1.0, 2.0)),
        p99_ttft: Some(Estimate {
            value: 2.0,
            low: 1.5,
            high: 2.5,
        }),
        ..exact(rate)
    };
    let over = overloaded(served(8.5));
    let knee = Knee::of(
        [4.0, 7.0, 7.5].map(served).into_iter().chain([over]).collect(),
        true,
    );
    let told: Vec<(Verdict, f64)> = knee
        .points
        .iter()
        .map(|point| (point.verdict, point.p99_ttft.unwrap().high))
        .collect();
    let stable = (Verdict::Stable, 2.5);
    let critical = (Verdict::Critical, f64::INFINITY);
    assert_eq!(told, [stable, stable, critical, (Verdict::Unstable, 2.5)]);
    assert_eq!(knee.points[2].p99_ttft.unwrap().low, 1.5);
}

#[test]
fn absurd_overload_is_left_in_few_steps() {
    // So deep that nothing is seen to be served.
    let mut absurd = 0;
    let knee = search(
        |rate, _| {
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
    let knee = search(|rate, _| Some(noisy(rate)), &options);
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
        |rate, _| {
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
        |rate, _| {
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
                in_system: Some(rate),
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
        |rate, _| {
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
            |rate, _| {
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
        |rate, _| {
            tried.push(rate);
            Some(exact(rate))
        },
        &options,
    );
    assert!(tried.iter().all(|rate| (2.0..=5.0).contains(rate)), "{tried:?}");
    assert!(knee.points.len() <= options.points_max);
}

/// Eight in flight are all that the client sends: the server, which would take twice as much, has nobody waiting.
#[test]
fn the_plateau_of_a_client_is_neither_knee_nor_saturation_of_the_server() {
    let held = |breaks_at: f64| {
        move |rate: f64, _: u64| {
            Some(Point {
                slack: (rate < 8.0).then_some(Estimate {
                    value: breaks_at - rate,
                    low: breaks_at - rate,
                    high: breaks_at - rate,
                }),
                is_held_by_client: true,
                ..exact(rate)
            })
        }
    };
    let knee = search(held(16.0), &SearchOptions::default());
    let client = knee.client.unwrap();
    assert!(
        client.is_within && (client.rate.value - 8.0).abs() < 0.2,
        "{client:?}"
    );
    assert_eq!((knee.within_slo, knee.saturation), (None, None));
    // What breaks before the plateau is the server's.
    let knee = search(held(5.0), &SearchOptions::default());
    assert!((knee.within_slo.unwrap().value - 5.0).abs() < 0.1);
    assert!(knee.client.is_some_and(|client| !client.is_within) && knee.saturation.is_none());
    // And without such a wait all is the server's.
    let knee = search(|rate, _| Some(exact(rate)), &SearchOptions::default());
    assert!(knee.client.is_none() && knee.saturation.is_some());
}
