//! Statistics of one sample obey inequalities, whatever the sample: their order, Markov's, Cantelli's, and how far values
//! that are not negative can spread.

use super::case::printed_time_slack;
use super::finding::{Check, Finding, Severity, show, time};
use crate::results::{Measured, Stats};

/// Interpolation between two values and rounding to printed digits may break an inequality by this share.
const ROUNDING: f64 = 0.01;

pub(super) fn check(row: &Measured, found: &mut Vec<Finding>) {
    for (name, stats) in row.latencies() {
        if stats.derived.is_none() {
            order(name, stats, found);
            inequalities(name, stats, found);
            one_median(name, stats, found);
            spread(name, stats, largest_sample(row, name, stats), found);
        }
    }
    samples(row, found);
}

/// Whether no latency has two figures of one sample, which could contradict each other.
pub(super) fn lacks(row: &Measured) -> bool {
    let figures = |stats: &Stats| {
        let named = [stats.mean, stats.median, stats.min, stats.max];
        stats.percentiles.len() + named.iter().flatten().count()
    };
    let has_two = |(_, stats): &(&str, &Stats)| stats.derived.is_none() && figures(stats) >= 2;
    !row.latencies().iter().any(has_two)
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
    let (min, max) = (stats.min.unwrap_or(0.0), stats.max.unwrap_or(f64::MAX));
    if !(min * (1.0 - ROUNDING)..=max * (1.0 + ROUNDING)).contains(&mean) {
        let shown = match mean < min {
            true => format!("mean {}, the smallest value {}", time(mean), time(min)),
            false => format!("mean {}, the largest value {}", time(mean), time(max)),
        };
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

/// The median and the 50th percentile are one value.
fn one_median(name: &str, stats: &Stats, found: &mut Vec<Finding>) {
    let Some((median, p50)) = stats.median.zip(stats.p50) else {
        return;
    };
    let slack = ROUNDING + printed_time_slack(median) + printed_time_slack(p50);
    if (p50 - median).abs() <= slack * median.max(p50) {
        return;
    }
    let claim = format!("{name}: the median is not p50");
    let shown = format!(
        "median {}, p50 {}: two names of one value",
        time(median),
        time(p50)
    );
    found.push(Finding::new(Severity::Impossible, Check::Percentiles, claim).shown(shown));
}

/// The most values that can be behind a statistic. Of gaps hardly a file says how many they were, and a count may be that of
/// the requests: a chunk without a token beside every token, and as much again, is taken for the most.
fn largest_sample(row: &Measured, name: &str, stats: &Stats) -> Option<f64> {
    let requests = row.outcome.completed.or(row.setup.num_prompts);
    let requests = requests.map(|count| count as f64);
    let samples = stats.samples.map(|count| count as f64);
    if name != "itl" {
        return samples.or(requests);
    }
    let tokens = row.outcome.output_tokens.or(requests
        .zip(row.setup.output_tokens)
        .map(|(count, each)| count * each))?;
    Some((4.0 * tokens).max(samples.unwrap_or(0.0)))
}

/// Of n values of at least 0 the deviation is largest where one holds the whole sum: `mean · √(n − 1)`, and with n − 1 in
/// the denominator `mean · √n`, which is allowed here. Between a smallest and a largest value it is
/// `√((max − mean)(mean − min))` at most (Bhatia and Davis 2000).
fn spread(name: &str, stats: &Stats, samples: Option<f64>, found: &mut Vec<Finding>) {
    let Some((mean, std)) = stats.mean.zip(stats.std) else {
        return;
    };
    let samples = samples.filter(|samples| *samples >= 1.0);
    let of_count = samples.map(|samples| {
        let most = mean * samples.sqrt();
        (
            most,
            format!(
                "{} values of at least 0 with a mean of {}",
                show(samples),
                time(mean)
            ),
        )
    });
    let of_ends = stats.max.map(|max| {
        let min = stats.min.unwrap_or(0.0);
        let product = (max - mean).max(0.0) * (mean - min).max(0.0);
        let unbiased = samples.map_or(2.0, |samples| samples / (samples - 1.0).max(1.0));
        let values = format!(
            "values from {} to {} with a mean of {}",
            time(min),
            time(max),
            time(mean)
        );
        ((product * unbiased).sqrt(), values)
    });
    let least = [of_count, of_ends]
        .into_iter()
        .flatten()
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((most, values)) = least else { return };
    // Rounded ends and means matter most where all values are nearly one.
    if std <= most * (1.0 + ROUNDING) + ROUNDING * mean {
        return;
    }
    let claim = format!("{name}: the deviation is larger than such values can have");
    let shown = format!("{values} deviate by {} at most, not {}", time(most), time(std));
    found.push(Finding::new(Severity::Impossible, Check::Percentiles, claim).shown(shown));
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
    let finding = Finding::new(Severity::Note, Check::FewSamples, claim);
    found.push(finding.shown(shown).rerun(&rerun));
}
