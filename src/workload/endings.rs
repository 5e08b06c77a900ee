//! Where answers end by themselves, by an end-of-sequence token.
//!
//! The length that was asked for becomes `max_tokens`, and the true end is drawn at or before it from a stream of its
//! own: prompts, limits and arrivals stay as they were.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt};

use super::Endings;
use crate::rng::{Purpose, stream};

/// Draws where an output of at most `max_tokens` ends.
#[derive(Debug)]
pub(crate) struct EndingSampler {
    endings: Endings,
    rng: ChaCha8Rng,
}

impl EndingSampler {
    pub(crate) fn new(endings: Endings, seed: u64) -> EndingSampler {
        let probability = match endings {
            Endings::Hazard { per_token } => per_token,
            Endings::Share { early } => early,
        };
        assert!(
            (0.0..=1.0).contains(&probability),
            "a probability of an ending lies in [0, 1]"
        );
        EndingSampler {
            endings,
            rng: stream(seed, Purpose::Endings, 0),
        }
    }

    /// Tokens of the output, in `[1, max_tokens]`; an output of exactly `max_tokens` ends by length.
    pub(crate) fn draw(&mut self, max_tokens: u32) -> u32 {
        match self.endings {
            Endings::Hazard { per_token } => {
                geometric(per_token, &mut self.rng).min(u64::from(max_tokens)) as u32
            }
            Endings::Share { early } => {
                // Both draws are made whatever their outcome, so that the share moves no later ending.
                let ends_early = self.rng.random::<f64>() < early;
                let place = self.rng.random::<f64>();
                let earlier = 1 + (place * f64::from(max_tokens - 1)) as u32;
                if ends_early && max_tokens > 1 {
                    earlier.min(max_tokens - 1)
                } else {
                    max_tokens
                }
            }
        }
    }
}

/// Trials up to and with the first success, each succeeding with probability `p`: `1 + ⌊ln U / ln(1−p)⌋`.
pub(super) fn geometric(p: f64, rng: &mut impl Rng) -> u64 {
    let uniform = 1.0 - rng.random::<f64>();
    if p >= 1.0 {
        return 1;
    }
    if p <= 0.0 {
        return u64::MAX;
    }
    ((uniform.ln() / (-p).ln_1p()) as u64).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hazard_ends_outputs_geometrically() {
        let n = 100_000;
        let mut endings = EndingSampler::new(Endings::Hazard { per_token: 0.02 }, 3);
        let drawn: Vec<u32> = (0..n).map(|_| endings.draw(100)).collect();
        // E[min(X, m)] = (1 − (1 − p)^m)/p for geometric X; the standard deviation is below 50.
        let expected = (1.0 - 0.98_f64.powi(100)) / 0.02;
        let mean = drawn.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / n as f64;
        assert!(
            (mean - expected).abs() < 4.0 * 50.0 / (n as f64).sqrt(),
            "{mean} against {expected}"
        );
        assert_eq!(drawn.iter().min(), Some(&1));
        let by_length = drawn.iter().filter(|tokens| **tokens == 100).count() as f64 / n as f64;
        assert!(
            (by_length - 0.98_f64.powi(99)).abs() < 4.0 * 0.35 / (n as f64).sqrt(),
            "{by_length}"
        );
    }

    #[test]
    fn a_share_ends_early_uniformly() {
        let n = 100_000;
        let mut endings = EndingSampler::new(Endings::Share { early: 0.3 }, 3);
        let drawn: Vec<u32> = (0..n).map(|_| endings.draw(11)).collect();
        for tokens in 1..=11 {
            let share = drawn.iter().filter(|drawn| **drawn == tokens).count() as f64 / n as f64;
            let expected: f64 = if tokens == 11 { 0.7 } else { 0.03 };
            let deviation = (expected * (1.0 - expected) / n as f64).sqrt();
            assert!(
                (share - expected).abs() < 4.5 * deviation,
                "{share} end at {tokens}"
            );
        }
        assert_eq!(EndingSampler::new(Endings::Share { early: 1.0 }, 0).draw(1), 1);
    }

    #[test]
    fn certain_and_impossible_trials_need_no_logarithm() {
        let mut rng = stream(0, Purpose::Endings, 0);
        assert_eq!(geometric(1.0, &mut rng), 1);
        assert_eq!(geometric(0.0, &mut rng), u64::MAX);
    }
}
