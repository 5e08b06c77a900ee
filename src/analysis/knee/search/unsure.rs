//! Rates of which no run is sure: too few requests to tell, or a promise that is kept or broken by too little.

use super::closed_forms::mm1;
use super::tests::exact;
use super::*;
use crate::analysis::Estimate;
use crate::analysis::knee::Objective;

#[test]
fn a_knee_is_bounded_from_below_by_a_rate_that_surely_keeps_the_promise() {
    // Overload first, then 4.95, which meets the SLO by less than the error of its run.
    let options = SearchOptions {
        start_rate: 9.9,
        ..SearchOptions::default()
    };
    let knee = search(|rate, _| Some(exact(rate)), &options);
    let within = knee.within_slo.unwrap();
    assert!((within.value - 5.0).abs() < 1e-9);
    assert!(within.low > 4.5 && within.low <= 4.9 + 1e-9, "{within:?}");
    assert!(knee.converged && knee.points.len() < 20, "{}", knee.points.len());
}

#[test]
fn a_rate_below_that_breaks_the_promise_leaves_no_knee_above_it() {
    // Kept within a window only, and never surely.
    let knee = search(
        |rate, _| {
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
        |rate, _| {
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

/// As many miss the SLO by themselves as may, so that no run is sure that it is kept, at however low a rate.
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
        |rate, _| {
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
        |rate, _| {
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
        |rate, _| {
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
    let evaluate = |rate: f64, _: u64| {
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
