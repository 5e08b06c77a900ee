//! Short runs of M/M/1, whose sojourn is exponential.

use super::*;
use crate::metrics::single_server::{self, Server};
use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use crate::stats::quantile;

/// The 99th percentile of the sojourn at a load of 0.7, from a run without its first quarter.
fn p99(requests: u64, seed: u64) -> Estimate {
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(1, 100, 16),
        slo: SloLimits::default(),
        records: Records::None,
    });
    let end = single_server::run(&Server::mm1(0.7, requests, seed), &mut recorder);
    let seen = recorder.finish(end);
    let range = seen.whole_batches / 4..seen.whole_batches;
    let whole = seen.summary_of(range.clone()).expect("batches were closed");
    let quantiles = whole.e2el.quantiles();
    of(&seen.stretches[range], Metric::E2el, &quantiles, 0.99).expect("requests have left")
}

/// Fifteen hundred requests see a handful of the busy times that make the percentile. Carried over by the distribution function
/// alone, which ends at the largest sojourn seen, its interval holds the truth in some 115 of 200 runs; the tail makes that 150.
#[test]
fn few_busy_times_bound_a_percentile_only_as_far_as_its_tail_may_reach() {
    let truth = 100f64.ln() / 0.3;
    let seen: Vec<Estimate> = (0..200).map(|seed| p99(1_500, 3_000 + seed)).collect();
    let covered = seen
        .iter()
        .filter(|known| known.low <= truth && truth <= known.high);
    let covered = covered.count();
    let widths: Vec<f64> = seen
        .iter()
        .map(|known| (known.high - known.low) / truth)
        .collect();
    let width = quantile(&widths, 0.5).unwrap();
    assert!(covered >= 140 && width < 1.0, "{covered} of 200, {width}");
}

#[test]
fn intervals_of_percentiles_do_not_cross() {
    let known = |value: f64, low: f64, high: f64| Some(Estimate { value, low, high });
    let mut all = [
        known(1.0, 0.9, 1.1),
        known(2.0, 1.5, 4.0),
        None,
        known(3.0, 1.2, 3.5),
    ];
    keep_in_order(&mut all);
    let ends: Vec<(f64, f64)> = all
        .iter()
        .flatten()
        .map(|known| (known.low, known.high))
        .collect();
    assert_eq!(ends, [(0.9, 1.1), (1.2, 4.0), (1.2, 4.0)]);
}

/// Where the share above it is known the tail has no part in it.
#[test]
fn a_percentile_of_a_long_run_is_bounded_by_what_was_seen() {
    let truth = 100f64.ln() / 0.3;
    let known = p99(400_000, 5);
    assert!(known.low < truth && truth < known.high, "{known:?}");
    assert!(known.high - known.low < 0.2 * truth, "{known:?}");
}
