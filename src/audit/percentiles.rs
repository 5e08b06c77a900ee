//! Statistics of one sample obey inequalities, whatever the sample: their order, Markov's and Cantelli's.

use super::finding::{Check, Finding, Severity, time};
use crate::results::{Measured, Stats};

/// Interpolation between two values and rounding to printed digits may break an inequality by this share.
const ROUNDING: f64 = 0.01;

pub(super) fn check(row: &Measured, found: &mut Vec<Finding>) {
    for (name, stats) in row.latencies() {
        if stats.derived.is_none() {
            order(name, stats, found);
            inequalities(name, stats, found);
        }
    }
    samples(row, found);
}

/// Minimum, percentiles, maximum never fall.
fn order(name: &str, stats: &Stats, found: &mut Vec<Finding>) {
    let mut ladder: Vec<(f64, f64)> = stats.percentiles.clone();
    ladder.extend(stats.median.map(|median| (50.0, median)));
    ladder.extend(stats.min.map(|min| (0.0, min)));
    ladder.extend(stats.max.map(|max| (100.0, max)));
    ladder.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in ladder.windows(2) {
        let ((lower, small), (upper, large)) = (pair[0], pair[1]);
        if small > large * (1.0 + 1e-6) {
            let claim = format!("{name}: p{upper} is below p{lower}");
            let shown = format!(
                "{} < {}: percentiles of one sample never fall",
                time(large),
                time(small)
            );
            found.push(Finding::new(Severity::Impossible, Check::Percentiles, claim).shown(shown));
        }
    }
}

/// Markov: at least `1 − p` of the sample lies at or above the p-quantile, so `mean ≥ (1 − p) · q`. Cantelli: a quantile
/// is at most `σ · √(p / (1 − p))` above the mean and at most `σ · √((1 − p) / p)` below it.
fn inequalities(name: &str, stats: &Stats, found: &mut Vec<Finding>) {
    let Some(mean) = stats.mean else { return };
    let impossible = |claim: String, shown: String| {
        Finding::new(Severity::Impossible, Check::Percentiles, claim).shown(shown)
    };
    let bounds =
        stats.min.unwrap_or(0.0) * (1.0 - ROUNDING)..=stats.max.unwrap_or(f64::MAX) * (1.0 + ROUNDING);
    if !bounds.contains(&mean) {
        let shown = format!("mean {} outside its smallest and largest value", time(mean));
        found.push(impossible(
            format!("{name}: the mean is not among the values"),
            shown,
        ));
    }
    let median = stats.median.map(|median| (50.0, median));
    for (percent, value) in stats.percentiles.iter().copied().chain(median) {
        let p = percent / 100.0;
        if p >= 1.0 || p <= 0.0 {
            continue;
        }
        if value * (1.0 - p) > mean * (1.0 + ROUNDING) {
            let claim = format!("{name}: p{percent} is too far above the mean");
            let shown = format!(
                "{} % of the sample is at least {}, so the mean is at least {}, not {}",
                100.0 - percent,
                time(value),
                time(value * (1.0 - p)),
                time(mean)
            );
            found.push(impossible(claim, shown));
        }
        let Some(std) = stats.std else { continue };
        let (above, below) = (std * (p / (1.0 - p)).sqrt(), std * ((1.0 - p) / p).sqrt());
        if value - mean > above * (1.0 + 0.05) + ROUNDING * mean
            || mean - value > below * 1.05 + ROUNDING * mean
        {
            let claim = format!("{name}: p{percent} is further from the mean than the deviation allows");
            let shown = format!(
                "mean {}, deviation {}: p{percent} lies between {} and {}, not at {}",
                time(mean),
                time(std),
                time((mean - below).max(0.0)),
                time(mean + above),
                time(value)
            );
            found.push(impossible(claim, shown));
        }
    }
}

/// Fewer than one sample beyond a percentile: it is the largest value under another name.
fn samples(row: &Measured, found: &mut Vec<Finding>) {
    let requests = row
        .ttft
        .samples
        .or(row.outcome.completed)
        .or(row.setup.num_prompts);
    let of_requests = [("ttft", &row.ttft), ("tpot", &row.tpot), ("e2el", &row.e2el)];
    let top = |(name, stats): &(&'static str, &Stats)| Some((*name, stats.percentiles.last()?.0));
    let tops: Vec<(&str, f64)> = of_requests.iter().filter_map(top).collect();
    let highest = tops.iter().map(|(_, percent)| *percent).max_by(f64::total_cmp);
    let Some((count, percent)) = requests.filter(|count| *count > 0).zip(highest) else {
        return;
    };
    let beyond = count as f64 * (1.0 - percent / 100.0);
    if beyond >= 1.0 - 1e-9 || percent <= 50.0 {
        return;
    }
    let names: Vec<&str> = tops
        .iter()
        .filter(|(_, of)| *of == percent)
        .map(|(name, _)| *name)
        .collect();
    let claim = format!("p{percent} of few requests is their largest value or next to it");
    let shown = format!(
        "{}: {count} × {:.1} % = {beyond:.1} samples beyond it",
        names.join(", "),
        100.0 - percent
    );
    let rerun = format!(
        "{} requests put ten beyond p{percent}",
        (10.0 / (1.0 - percent / 100.0)).round()
    );
    found.push(
        Finding::new(Severity::Note, Check::FewSamples, claim)
            .shown(shown)
            .rerun(&rerun),
    );
}
