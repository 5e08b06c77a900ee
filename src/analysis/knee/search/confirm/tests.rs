//! A system that starts slowly, and one that is overloaded at once.

use crate::analysis::knee::search::tests::exact;
use crate::analysis::knee::search::{SearchOptions, search};
use crate::analysis::knee::{Knee, Point};
use crate::analysis::{Estimate, Verdict};

/// A system without noise, overloaded from 8 on in runs of fewer than so many requests and from 10 on in longer ones; and how many runs it took.
fn found_of_slow(begun: u64) -> (Knee, usize) {
    let mut runs = 0;
    let options = SearchOptions {
        tolerance: 0.01,
        points_max: 60,
        ..SearchOptions::default()
    };
    let knee = search(
        |rate, requests| {
            runs += 1;
            let requests = requests.max(2_000);
            let served = if requests < begun { 8.0 } else { 10.0 };
            let exactly = |value| Estimate {
                value,
                low: value,
                high: value,
            };
            let keeps_up = rate < served;
            Some(Point {
                requests,
                verdict: if keeps_up {
                    Verdict::Stable
                } else {
                    Verdict::Unstable
                },
                slack: keeps_up.then_some(exactly(5.0 - rate)),
                throughput: Some(exactly(rate.min(served))),
                ..exact(rate)
            })
        },
        &options,
    );
    (knee, runs)
}

#[test]
fn a_slow_start_is_no_overload_and_where_there_is_none_one_run_tells() {
    let (at_once, runs) = found_of_slow(0);
    let (slow, runs_of_slow) = found_of_slow(12_000);
    let saturation = |knee: &Knee| knee.saturation.unwrap().value;
    assert!((saturation(&at_once) - 10.0).abs() < 1e-9 && runs <= 33, "{runs}");
    assert!((saturation(&slow) - 10.0).abs() < 0.1, "{:?}", slow.saturation);
    assert!(
        slow.converged && runs_of_slow <= runs + 8,
        "{runs_of_slow}, {runs}"
    );
    // What is confirmed is told as it was seen, and what begins even later is not waited for.
    assert!(at_once.points.iter().all(|point| point.requests == 2_000));
    assert!((saturation(&found_of_slow(50_000).0) - 8.0).abs() < 1e-9);
}
