//! The figures of a run that a search over whole numbers tried: each has a column in the table and one in the file, by one name in all
//! such searches.

use super::figures::{percent, significant, time};
use crate::analysis::knee::Point;

/// How a figure is written.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Share,
    /// Seconds, and milliseconds in files.
    Time,
}

/// A figure: its heading, its key in files, and where a run has it.
pub(super) struct Figure {
    head: &'static str,
    key: &'static str,
    kind: Kind,
    value: fn(&Point) -> Option<f64>,
}

const fn figure(
    head: &'static str,
    key: &'static str,
    kind: Kind,
    value: fn(&Point) -> Option<f64>,
) -> Figure {
    Figure {
        head,
        key,
        kind,
        value,
    }
}

pub(super) const SERVED: Figure = figure("req/s", "request_throughput", Kind::Number, |point| {
    Some(point.throughput?.value)
});
pub(super) const TOKENS: Figure = figure("out tok/s", "output_throughput", Kind::Number, |point| {
    point.output_tokens_per_s
});
pub(super) const ATTAIN: Figure = figure("attain", "attainment", Kind::Share, |point| {
    Some(point.attainment?.value)
});
pub(super) const TTFT_P50: Figure = figure("TTFT p50", "p50_ttft_ms", Kind::Time, |point| {
    Some(point.ttft_s?.0)
});
pub(super) const TTFT_P99: Figure = figure("TTFT p99", "p99_ttft_ms", Kind::Time, |point| {
    Some(point.ttft_s?.1)
});
pub(super) const TPOT_P50: Figure = figure("TPOT p50", "p50_tpot_ms", Kind::Time, |point| {
    Some(point.tpot_s?.0)
});
pub(super) const TPOT_P99: Figure = figure("TPOT p99", "p99_tpot_ms", Kind::Time, |point| {
    Some(point.tpot_s?.1)
});
pub(super) const E2EL_P50: Figure = figure("E2EL p50", "p50_e2el_ms", Kind::Time, |point| {
    Some(point.e2el_s?.0)
});
pub(super) const E2EL_P99: Figure = figure("E2EL p99", "p99_e2el_ms", Kind::Time, |point| {
    Some(point.e2el_s?.1)
});
pub(super) const RUNNING: Figure = figure("run", "running", Kind::Number, |point| point.running);
pub(super) const WAITING: Figure = figure("wait", "waiting", Kind::Number, |point| point.waiting);
pub(super) const KV: Figure = figure("KV", "kv_usage", Kind::Share, |point| point.kv_usage);

/// Headings of figures in a row; of several statistics of one latency the others say which alone.
pub(super) fn heads(figures: &[Figure]) -> Vec<&'static str> {
    let metric = |figure: &Figure| figure.head.split_once(' ').map(|(metric, _)| metric);
    let mut before = None;
    let mut heads = Vec::with_capacity(figures.len());
    for figure in figures {
        let own = metric(figure).filter(|_| matches!(figure.kind, Kind::Time));
        heads.push(match figure.head.split_once(' ') {
            Some((_, statistic)) if own.is_some() && own == before => statistic,
            _ => figure.head,
        });
        before = own;
    }
    heads
}

/// What a run has of each, as people read it.
pub(super) fn cells<'a>(figures: &'a [Figure], point: &'a Point) -> impl Iterator<Item = String> + 'a {
    figures
        .iter()
        .map(|figure| match ((figure.value)(point), figure.kind) {
            (None, _) => "–".to_owned(),
            (Some(value), Kind::Number) => significant(value),
            (Some(value), Kind::Share) => percent(value),
            (Some(value), Kind::Time) => time(value),
        })
}

/// Their keys in files.
pub(super) fn keys(figures: &[Figure]) -> impl Iterator<Item = &'static str> {
    figures.iter().map(|figure| figure.key)
}

/// What a run has of each in full precision; empty where it has none.
pub(super) fn exact<'a>(figures: &'a [Figure], point: &'a Point) -> impl Iterator<Item = String> + 'a {
    figures.iter().map(|figure| {
        let factor = if matches!(figure.kind, Kind::Time) {
            1e3
        } else {
            1.0
        };
        (figure.value)(point).map_or_else(String::new, |value| (value * factor).to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Verdict;
    use crate::report::knee_limit::tests::tried;

    #[test]
    fn a_figure_has_one_name_and_of_one_latency_it_is_said_once() {
        let all = [ATTAIN, TTFT_P50, TTFT_P99, TPOT_P99, E2EL_P50];
        assert_eq!(heads(&all), ["attain", "TTFT p50", "p99", "TPOT p99", "E2EL p50"]);
        let point = tried(2.0, Verdict::Stable);
        let told: Vec<String> = cells(&all, &point).collect();
        assert_eq!(told, ["99.0 %", "30.0 ms", "90.0 ms", "–", "–"]);
        let written: Vec<String> = exact(&all, &point).collect();
        assert_eq!(written, ["0.99", "30", "90", "", ""]);
        assert_eq!(keys(&all[..2]).collect::<Vec<_>>(), ["attainment", "p50_ttft_ms"]);
    }
}
