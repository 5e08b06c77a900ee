//! Predictions against the tables that a course measured: what the shipped calibrations reach, row by row.

use plimsoll::cli::course::{measured, predict};
use plimsoll::config::NoFiles;
use plimsoll::report::compared::Comparison;

/// Error that the week 1 rows may have; reached: 9.6 % at worst, 3.5 % in the median.
const SERVING: f64 = 0.15;
/// Error that rows which fitted the calibration may have; reached: 5.2 % (H200 at batch 32), 2.1 % in the median.
const FITTED: f64 = 0.06;

/// Error of offline throughput by card, and how far it may move. The longest answer decides and is unknown, so these are known
/// misses of the model, not bars that it meets: a change that moves one, for better or worse, has to say so here.
const OFFLINE: [(&str, f64); 4] = [
    ("H200", 0.261),
    ("H100", 0.152),
    ("A100", -0.089),
    ("L40S", 0.371),
];
const OFFLINE_DRIFT: f64 = 0.02;
/// Median error of the week 1 figures; reached: 3.5 %. Of an even number the upper of the two in the middle is held; reached: 3.9 %.
const SERVING_MEDIAN: f64 = 0.05;

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
    let figures = serving.rows.iter().flat_map(|row| &row.figures);
    let mut errors: Vec<f64> = figures
        .filter(|figure| figure.is_held)
        .map(|figure| figure.error().abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < SERVING_MEDIAN, "{errors:?}");
}

#[test]
fn sglangs_rows_are_within_fifteen_percent_though_nothing_of_it_was_fitted() {
    let compared = compared();
    let sglang = &compared[1];
    assert!(!sglang.is_calibration && sglang.title.contains("SGLang"));
    assert_eq!(sglang.rows.len(), 4);
    assert_within(sglang, SERVING);
}

#[test]
fn the_batch_latencies_come_out_of_the_scheduler_as_they_went_into_the_fit() {
    let compared = compared();
    assert!(compared[2].is_calibration);
    assert_within(&compared[2], FITTED);
}

#[test]
fn offline_throughput_misses_by_what_is_told() {
    let compared = compared();
    assert!(!compared[3].is_calibration);
    assert_eq!(compared[3].rows.len(), OFFLINE.len());
    for (row, (gpu, told)) in compared[3].rows.iter().zip(OFFLINE) {
        assert!(format!("{:?}", row.labels).contains(gpu));
        let error = row.figures[0].error();
        assert!(
            (error - told).abs() < OFFLINE_DRIFT,
            "{gpu}: {error:+.3}, told {told:+.3}"
        );
    }
    // The prediction stands on a length that nobody published, so the length that each figure implies is told and no
    // error is held: no one list gives all four.
    assert!(
        compared[3]
            .rows
            .iter()
            .all(|row| row.figures.iter().all(|figure| !figure.is_held))
    );
    let told = &compared[3].notes[0];
    for implied in ["Not decidable", "(H200-SXM-141GB)", "(L40S-48GB)"] {
        assert!(told.contains(implied), "{told}");
    }
    assert!(!told.contains("none"), "{told}");
}
