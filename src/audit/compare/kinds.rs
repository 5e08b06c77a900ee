//! Gaps between tokens are of several kinds: of steps without a prompt, with one, with several. A percentile of them that lies
//! beside the border of two kinds jumps from one to the other in another run of the same system.
//!
//! What a file tells of the kinds: where the middle one is (the median), and what share of gaps is of the long ones, if there
//! were two kinds with this mean, median and deviation. Long tails make that share too small, never too large. Of two results
//! the one whose percentile is of the longer kind tells the jump, so each tells how far down the next kind is.

use super::chance::Of;
use crate::results::Stats;

/// A percentile surely lies within the long kind where so many times as many gaps are of it as lie beyond the percentile.
const SURELY_WITHIN: f64 = 3.0;

/// How far down a value of gaps may jump in another run, in the logarithm; 0 where its own kind is the shortest.
pub(super) fn jump(gaps: &Stats, of: Of) -> f64 {
    let Of::Percentile(percent) = of else {
        return 0.0;
    };
    let known = gaps.percentile(percent).zip(gaps.median);
    let known = known.filter(|(value, median)| *value > 0.0 && *median > 0.0);
    let Some((value, median)) = known else {
        return 0.0;
    };
    let beyond = 1.0 - percent / 100.0;
    let below = match kinds(gaps) {
        // The median is of the long kind, and not by much.
        Some(kinds) if percent == 50.0 => {
            let is_beside = kinds.share * SURELY_WITHIN >= beyond;
            kinds
                .other
                .filter(|other| is_beside && *other < median)
                .unwrap_or(value)
        }
        _ if percent <= 50.0 => value,
        // With one prompt less in the step.
        Some(kinds) if kinds.long_share >= SURELY_WITHIN * beyond => f64::midpoint(value, median),
        _ => median,
    };
    (value / below).ln().max(0.0)
}

/// Two kinds of gaps with the mean, median and deviation that a file gives.
struct Kinds {
    /// The share of the kind that the median is not of.
    share: f64,
    /// The share of the long kind.
    long_share: f64,
    /// How long that kind is, s; `None` where no positive time would do.
    other: Option<f64>,
}

fn kinds(gaps: &Stats) -> Option<Kinds> {
    let (mean, median, deviation) = (gaps.mean?, gaps.median?, gaps.std?);
    let apart = mean - median;
    if apart == 0.0 {
        return None;
    }
    let share = apart * apart / (deviation * deviation + apart * apart);
    let other = median + apart / share;
    let is_long = apart > 0.0;
    Some(Kinds {
        share,
        long_share: if is_long { share } else { 1.0 - share },
        other: Some(other).filter(|other| *other > 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::stats;
    use super::*;

    #[test]
    fn a_percentile_beside_the_border_of_two_kinds_may_be_of_either() {
        let p99 = Of::Percentile(99.0);
        // One gap in a hundred is of steps with a prompt, so the p99 is of them or of the others.
        let beside = stats(2.96, 2.89, 8.97, 0.7);
        assert!((jump(&beside, p99) - (8.97f64 / 2.89).ln()).abs() < 1e-12);
        // Of the short kind it has nowhere to fall.
        assert!(jump(&stats(3.08, 3.02, 3.62, 0.65), p99) < 0.2);
        // Six in a hundred: it is a step with a prompt, be it one more or less.
        let within = stats(9.3, 8.49, 25.0, 3.3);
        assert!((jump(&within, p99) - (25.0f64 / 16.745).ln()).abs() < 1e-12);
        assert_eq!(jump(&within, Of::Mean), 0.0);
    }

    #[test]
    fn a_median_jumps_where_half_of_the_gaps_are_of_either_kind() {
        let median = Of::Percentile(50.0);
        // Four of ten are short ones of 10, the others of 20.
        let long = stats(16.0, 20.0, 20.0, 24f64.sqrt());
        assert!((jump(&long, median) - 2f64.ln()).abs() < 1e-9);
        // Six of ten are short: the other result tells.
        assert_eq!(jump(&stats(14.0, 10.0, 20.0, 24f64.sqrt()), median), 0.0);
        // One in ten is short.
        assert_eq!(jump(&stats(19.0, 20.0, 20.0, 3.0), median), 0.0);
    }
}
