//! Predictions against the tables that a course measured: what the shipped calibrations reach, row by row.

use plimsoll::cli::course::{measured, predict};
use plimsoll::config::NoFiles;
use plimsoll::report::compared::Comparison;

/// Error that the week 1 rows may have; reached: 9.7 % at worst, 3.8 % in the median.
const SERVING: f64 = 0.15;
/// Error that rows which fitted the calibration may have; reached: 4.7 %.
const FITTED: f64 = 0.05;

/// Error that offline throughput may have: its answers' longest one decides and is unknown; reached: 35.7 % at worst.
const OFFLINE: f64 = 0.40;

fn compared() -> Vec<Comparison> {
    predict::predict(&measured::shipped(), &NoFiles).unwrap()
}

fn assert_within(comparison: &Comparison, limit: f64) {
    for row in &comparison.rows {
        for figure in row.figures.iter().filter(|figure| figure.is_held) {
            let error = figure.error();
            assert!(
                error.abs() < limit,
                "{:?} {}: {} measured, {} predicted",
                row.labels,
                figure.name,
                figure.measured,
                figure.predicted
            );
        }
    }
}

#[test]
fn latency_and_throughput_of_every_serving_row_are_within_fifteen_percent() {
    let compared = compared();
    let serving = &compared[0];
    assert_eq!(serving.rows.len(), 16);
    assert!(!serving.is_calibration);
    assert_within(serving, SERVING);
}

#[test]
fn the_batch_latencies_come_out_of_the_scheduler_as_they_went_into_the_fit() {
    let compared = compared();
    assert!(compared[1].is_calibration);
    assert_within(&compared[1], FITTED);
}

#[test]
fn offline_throughput_is_told_with_its_error() {
    let compared = compared();
    assert!(!compared[2].is_calibration);
    assert_within(&compared[2], OFFLINE);
    assert!(!compared[2].notes.is_empty());
}
