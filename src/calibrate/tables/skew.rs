//! Routing by a power law, as NVIDIA AISimulate's collectors draw it (`power_law_logits_v3` of `collector/common_test_cases`,
//! release 0.13): each expert's popularity is drawn from `x^(−α)` between 1 and 0.8 of the tokens (0.01 and 2 where there are
//! fewer rows than experts), scaled to the rows and rounded; what does not fit, for a token uses an expert once, goes to the
//! emptiest; and the fullest part of the experts is timed.
//!
//! A row of a table is one draw. What is computed here is the mean of several, the same for equal sizes.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::cost::experts::Load;
use crate::rng::{Purpose, stream};

/// Draws that are averaged: the mean of the fullest part's rows is then known within 2 to 5 %.
const DRAWS: u64 = 64;
/// Streams of a fit's own draws lie below.
const STREAM: u64 = 1 << 40;

/// Mean load of the fullest of `ranks` GPUs.
pub(super) fn power_law(
    exponent: f64,
    experts: u32,
    experts_per_token: u32,
    tokens: u64,
    ranks: u32,
) -> Load {
    let all_rows = tokens as f64 * f64::from(experts_per_token);
    let (mut active, mut rows) = (0.0, 0.0);
    for draw in 0..DRAWS {
        let mut stream = stream(0, Purpose::Calibration, STREAM + draw);
        let counts = counts(&mut stream, exponent, experts as usize, all_rows, tokens as f64);
        let part = |part: &[f64]| {
            (
                part.iter().sum::<f64>(),
                part.iter().filter(|rows| **rows > 0.0).count(),
            )
        };
        let parts = counts.chunks_exact((experts / ranks) as usize).map(part);
        let fullest = parts
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("there are experts");
        rows += fullest.0 / DRAWS as f64;
        active += fullest.1 as f64 / DRAWS as f64;
    }
    Load {
        active,
        rows,
        all_rows,
    }
}

/// Rows of each expert, whole numbers that add up to all of them.
fn counts(stream: &mut ChaCha8Rng, exponent: f64, experts: usize, all_rows: f64, most: f64) -> Vec<f64> {
    let (low, high) = if all_rows > experts as f64 {
        (1.0, (0.8 * most).max(1.0))
    } else {
        (0.01, 2.0)
    };
    let popularity = |_| inverse(stream.random::<f64>(), exponent, low, high);
    let popular: Vec<f64> = (0..experts).map(popularity).collect();
    let total: f64 = popular.iter().sum();
    let mut counts: Vec<f64> = popular
        .iter()
        .map(|x| (x / total * all_rows).round().min(most))
        .collect();
    let mut missing = all_rows - counts.iter().sum::<f64>();
    while missing > 0.0 {
        let emptiest = counts
            .iter_mut()
            .min_by(|a, b| a.total_cmp(b))
            .expect("there are experts");
        // Many at once where many are missing: the level is the same.
        let step = (missing / (4.0 * experts as f64)).ceil().min(most - *emptiest);
        *emptiest += step;
        missing -= step;
    }
    while missing < 0.0 {
        *counts
            .iter_mut()
            .max_by(|a, b| a.total_cmp(b))
            .expect("there are experts") -= 1.0;
        missing += 1.0;
    }
    counts
}

/// Where the distribution function of `x^(−α)` between `low` and `high` is `u`.
fn inverse(u: f64, exponent: f64, low: f64, high: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 {
        return low * (high / low).powf(u);
    }
    let (at_low, at_high) = (low.powf(power), high.powf(power));
    ((at_high - at_low) * u + at_low).powf(1.0 / power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_lost_and_no_token_uses_an_expert_twice() {
        for (experts, k, tokens) in [(8, 2, 1), (8, 2, 6144), (128, 8, 3), (128, 8, 4096)] {
            let all = f64::from(k) * tokens as f64;
            for entity in 0..20 {
                let mut stream = stream(0, Purpose::Calibration, entity);
                let counts = counts(&mut stream, 1.2, experts, all, tokens as f64);
                assert_eq!(counts.iter().sum::<f64>(), all);
                assert!(counts.iter().all(|rows| (0.0..=tokens as f64).contains(rows)));
            }
        }
    }

    #[test]
    fn the_fullest_part_has_more_than_its_share() {
        let alone = power_law(1.2, 128, 8, 4096, 1);
        assert_eq!(alone.rows, alone.all_rows);
        let fullest = power_law(1.2, 128, 8, 4096, 8);
        assert!(fullest.rows > 1.2 * fullest.all_rows / 8.0, "{fullest:?}");
        assert!(power_law(1.2, 128, 8, 4096, 2).rows < 0.8 * fullest.all_rows);
    }
}
