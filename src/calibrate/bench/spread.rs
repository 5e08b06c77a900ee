//! How far a row's gaps between tokens spread: what the law of steps' scatter is fitted to.
//!
//! From every gap where the file has them, else from the percentiles that it prints. Traps: a chunk may hold several
//! tokens, and then gaps are no steps; one request's gaps are few, and their percentiles chance. Where lengths are only taken to be
//! equal, prompts and answers that are not make gaps spread which no scatter of steps does.

use crate::calibrate::jitter::Tails;
use crate::results::{Load, Measured, Stats};

/// Percentiles that are taken where a file has every gap: close ones at the end, where rare stalls begin to show.
const PERCENTS: [f64; 9] = [75.0, 90.0, 95.0, 98.0, 99.0, 99.4, 99.7, 99.85, 99.95];
/// Gaps above a percentile from which on it is of the run and not of one gap.
const BEYOND: f64 = 5.0;
/// Median gap over the time per token, outside which chunks are no tokens.
const ONE_TOKEN: std::ops::RangeInclusive<f64> = 0.6..=1.5;

/// The tails, none where the row has none that can be used; what was left is added to `left`.
pub(super) fn of(row: &Measured, are_lengths_known: bool, left: &mut Vec<String>) -> Tails {
    let lists = row.requests.iter().map(|request| request.itls_s.as_slice());
    let gaps: Vec<f64> = lists.flatten().copied().collect();
    let is_whole = !gaps.is_empty();
    let stats = match is_whole {
        true => Stats::of(&gaps, &PERCENTS),
        false => row.itl.clone(),
    };
    let Some(median) = stats.median.filter(|median| *median > 0.0) else {
        return Tails::default();
    };
    let count = match is_whole {
        true => gaps.len() as f64,
        false => printed(row).unwrap_or(0.0),
    };
    let above = |percent: f64| (1.0 - percent / 100.0) * count >= BEYOND;
    let over_median: Vec<(f64, f64)> = stats
        .percentiles
        .iter()
        .filter(|(percent, gap)| *percent > 50.0 && *percent < 100.0 && above(*percent) && gap.is_finite())
        .map(|(percent, gap)| (*percent, gap / median))
        .collect();
    if over_median.is_empty() {
        return Tails::default();
    }
    let unknown_lengths = (!are_lengths_known).then_some(LENGTHS);
    if let Some(why) = unusable(row, median).or(unknown_lengths) {
        left.push(format!("percentiles of itl: {why}"));
        return Tails::default();
    }
    Tails {
        over_median,
        gaps: count as u64,
        longest_ms: is_whole.then(|| 1e3 * gaps.iter().copied().fold(0.0, f64::max)),
    }
}

const LENGTHS: &str = "lengths are only taken to be equal, and gaps spread by prompts of other lengths, too; --bench-cmd says how they were \
                       drawn";

/// How many gaps printed percentiles are of: each answer has one less than it has tokens.
fn printed(row: &Measured) -> Option<f64> {
    let answers = row.outcome.completed? as f64;
    let tokens = row
        .outcome
        .output_tokens
        .or_else(|| Some(answers * row.setup.output_tokens?))?;
    Some(tokens - answers)
}

/// Why gaps say nothing about steps.
fn unusable(row: &Measured, median_s: f64) -> Option<&'static str> {
    if matches!(
        row.setup.load,
        Load::StaticBatch { .. } | Load::Offline | Load::Unknown
    ) {
        return Some("its load is none that is repeated step by step");
    }
    let per_token = row.tpot.median.or(row.tpot.mean)?;
    let is_token = ONE_TOKEN.contains(&(median_s / per_token));
    (!is_token).then_some("the median gap is not the time per token: chunks are no tokens")
}
