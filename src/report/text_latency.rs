//! The latency tables of the run report: one row a metric, moments and percentiles, and their intervals.

use super::figures::{counted, time, time_interval};
use super::page::Page;
use super::tables::Column;
use super::views::ResultMeta;
use crate::analysis::{Estimate, RunResult, Verdict};
use crate::metrics::{Distribution, Summary};

/// Percentile columns that fit beside the moments.
const PERCENTILES_PER_TABLE: usize = 5;

/// The tables of latencies under a line that says of which stretch they are.
pub(super) fn latencies(page: &mut Page, result: &RunResult, shown: &Summary, meta: &ResultMeta) {
    let mut points = vec![50.0, 90.0, 95.0, 99.0];
    points.extend(
        meta.percentiles
            .iter()
            .filter(|chosen| !points.contains(*chosen))
            .collect::<Vec<_>>(),
    );
    points.sort_by(f64::total_cmp);
    let title = match (&result.steady, result.steady_window_s) {
        (Some(steady), Some((from, to))) => {
            // Of a run that is too short it is not known whether it describes anything but itself.
            let stretch = match result.verdict {
                Verdict::TooShort => "middle of the run",
                _ => "steady state",
            };
            format!(
                "{stretch}, {} to {}, {}",
                time(from),
                time(to),
                counted(steady.completed, "request")
            )
        }
        _ if result.verdict == Verdict::Unstable => match result.is_held_back {
            true => "whole run: what clients hold back grows with its length".into(),
            false => "whole run: TTFT, E2EL and queue grow with its length".into(),
        },
        _ => format!("whole run, {}", counted(shown.completed, "request")),
    };
    let rows: Vec<_> = rows(shown)
        .into_iter()
        .filter(|(_, _, distribution)| distribution.count() > 0)
        .filter(|(_, key, _)| {
            let is_optional = matches!(*key, "ttft" | "tpot" | "itl" | "e2el");
            !is_optional || meta.metrics.iter().any(|metric| metric == key)
        })
        // Only a client that limits its requests in flight has a queue of its own.
        .filter(|(_, key, distribution)| *key != "client_queue_time" || distribution.max_s() > Some(0.0))
        .collect();
    if rows.is_empty() {
        return page.line("  no request was completed: there is no latency to show");
    }
    page.line(&format!("  {title}"));
    let without = rows
        .iter()
        .any(|(_, key, distribution)| is_without_gaps(key, distribution));
    for (index, points) in points.chunks(PERCENTILES_PER_TABLE).enumerate() {
        latency_table(page, &rows, points, index == 0);
    }
    interval_table(page, result, &rows);
    if without {
        page.line("  –: every answer leaves whole, so that nobody sees a gap between its tokens");
    }
}

/// Answers that leave whole have no time between their tokens, which is not the same as one of 0 ms.
pub(super) fn is_without_gaps(key: &str, distribution: &Distribution) -> bool {
    matches!(key, "tpot" | "itl") && distribution.max_s() == Some(0.0)
}

type Row<'a> = (&'static str, &'static str, &'a Distribution);

/// One table of percentiles; the first also has the moments.
fn latency_table(page: &mut Page, rows: &[Row<'_>], points: &[f64], with_moments: bool) {
    let mut columns = vec![Column::left("")];
    if with_moments {
        columns.extend([Column::right("mean"), Column::right("std")]);
    }
    columns.extend(points.iter().map(|point| Column::right(&format!("p{point}"))));
    let cells = |(name, key, distribution): &Row<'_>| {
        let has_any = !is_without_gaps(key, distribution);
        let cell = |value: Option<f64>| value.filter(|_| has_any).map_or("–".into(), time);
        let mut row = vec![(*name).to_string()];
        if with_moments {
            row.extend([cell(distribution.mean_s()), cell(distribution.std_s())]);
        }
        let quantiles = distribution.quantiles();
        row.extend(points.iter().map(|point| cell(quantiles.at_s(point / 100.0))));
        row
    };
    page.table(&columns, &rows.iter().map(cells).collect::<Vec<_>>(), 1);
}

/// The 95 % intervals that are known, under the statistic they belong to; empty where none is.
fn interval_table(page: &mut Page, result: &RunResult, rows: &[Row<'_>]) {
    let statistics = [
        ("mean", ""),
        ("p50", "p50_"),
        ("p90", "p90_"),
        ("p95", "p95_"),
        ("p99", "p99_"),
    ];
    let known = |key: &str, prefix: &str| interval(result, &format!("{prefix}{key}"));
    let used: Vec<(&str, &str)> = statistics
        .into_iter()
        .filter(|(_, prefix)| rows.iter().any(|(_, key, _)| known(key, prefix).is_some()))
        .collect();
    if used.is_empty() {
        return;
    }
    let mut columns = vec![Column::left("95 %")];
    columns.extend(used.iter().map(|(head, _)| Column::left(head)));
    let cells = |(name, key, _): &Row<'_>| {
        let bounds = used
            .iter()
            .map(|(_, prefix)| known(key, prefix).map_or(String::new(), |at| bounds(&at)));
        let mut row = vec![(*name).to_string()];
        row.extend(bounds);
        row
    };
    let of_known = |row: &Vec<String>| row[1..].iter().any(|cell| !cell.is_empty());
    let rows: Vec<_> = rows
        .iter()
        .filter(|(_, key, distribution)| !is_without_gaps(key, distribution))
        .map(cells)
        .filter(of_known)
        .collect();
    page.table(&columns, &rows, 1);
}

fn rows(summary: &Summary) -> [Row<'_>; 6] {
    [
        ("TTFT", "ttft", &summary.ttft),
        ("TPOT", "tpot", &summary.tpot),
        ("ITL", "itl", &summary.itl),
        ("E2EL", "e2el", &summary.e2el),
        ("queue", "queue_time", &summary.queue_time),
        ("client queue", "client_queue_time", &summary.client_queue_time),
    ]
}

/// The interval of that name.
pub(super) fn interval(result: &RunResult, key: &str) -> Option<Estimate> {
    result
        .intervals
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, estimate)| *estimate)
}

/// Whether an interval is wider than twice what it is of, and tells nothing.
pub(super) fn is_too_wide(estimate: &Estimate) -> bool {
    estimate.high.is_finite() && estimate.high - estimate.low > 2.0 * estimate.value
}

/// The two ends; an interval that tells nothing says so.
pub(super) fn bounds(estimate: &Estimate) -> String {
    let wide = if is_too_wide(estimate) { "too wide: " } else { "" };
    format!("{wide}{}", time_interval(estimate.low, estimate.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_rounded_alike_and_one_that_is_too_wide_says_so() {
        let of = |low, value, high| bounds(&Estimate { value, low, high });
        assert_eq!(of(0.008_866, 0.008_866, 0.008_866), "[8.87, 8.87] ms");
        assert_eq!(of(0.0341, 0.0346, 0.0351), "[34.1, 35.1] ms");
        assert_eq!(of(0.0419, 0.0491, 29.6), "too wide: [0.0419, 29.6] s");
    }
}
