//! How steps of one batch differ from one to the next: the host's scheduling, clocks, and now and then a long pause.
//!
//! A cost model says what a step takes on average; real steps scatter around it. The law is
//! `t' = t·exp(σz − σ²/2) + stall`, with `σ² = ln(1 + cv²)` and z normal, so that the mean of a step stays what the cost
//! model says, and a stall in a step of length t with probability `1 − exp(−rate·t)`, each of the same length.
//! Stalls come on top of a law that was asked for; of one that was fitted beside a calibration their expectation is taken
//! out of t first, since the means that the calibration was fitted to hold them already.
//! Left out: steps are independent, while clocks and neighbours come in spells.
//! Law: draws come from a stream of their own, one pair a step, or each stage of one, so nothing else that is random moves.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::units::Picos;

/// How steps scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JitterLaw {
    /// Coefficient of variation of a step's time.
    pub cv: f64,
    /// Stalls a second of running steps.
    pub stalls_per_s: f64,
    /// How long each lasts.
    pub stall: Picos,
    /// The mean of a step holds its stalls already.
    pub stalls_in_mean: bool,
}

/// The law at work.
#[derive(Debug)]
pub struct Jitter {
    law: JitterLaw,
    /// σ of the logarithm.
    sigma: f64,
    stream: ChaCha8Rng,
}

impl Jitter {
    /// Draws from `stream`, which nothing else may draw from.
    #[must_use]
    pub fn new(law: JitterLaw, stream: ChaCha8Rng) -> Jitter {
        Jitter {
            sigma: (1.0 + law.cv * law.cv).ln().sqrt(),
            law,
            stream,
        }
    }

    /// What a step takes this time that takes `mean` on average.
    pub fn disturb(&mut self, mean: Picos) -> Picos {
        let normal: f64 = StandardNormal.sample(&mut self.stream);
        let uniform: f64 = self.stream.random();
        let seconds = mean.seconds();
        let chance = -(-self.law.stalls_per_s * seconds).exp_m1();
        let stalled = match self.law.stalls_in_mean {
            true => chance * self.law.stall.seconds(),
            false => 0.0,
        };
        let scattered =
            (seconds - stalled).max(0.0) * (self.sigma * normal - self.sigma * self.sigma / 2.0).exp();
        let stalls = uniform < chance;
        let stall = if stalls { self.law.stall } else { Picos::ZERO };
        // The tail of the law has no end; the longest step that there is cuts it.
        let scattered = Picos::try_from_seconds(scattered).unwrap_or(Picos::DELAY_MAX);
        (scattered + stall).min(Picos::DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, stream};
    use crate::stats::Running;

    fn drawn(law: JitterLaw) -> Running {
        let mut jitter = Jitter::new(law, stream(0, Purpose::Jitter, 0));
        (0..100_000)
            .map(|_| jitter.disturb(Picos::from_seconds(0.01)).seconds())
            .collect()
    }

    #[test]
    fn the_mean_stays_and_the_scatter_is_as_asked() {
        let steps = drawn(JitterLaw {
            cv: 0.2,
            stalls_per_s: 0.0,
            stall: Picos::ZERO,
            stalls_in_mean: false,
        });
        assert!((steps.mean() / 0.01 - 1.0).abs() < 0.003, "{}", steps.mean());
        assert!(
            (steps.variance().sqrt() / 0.002 - 1.0).abs() < 0.02,
            "{}",
            steps.variance()
        );
    }

    /// Half of the draws would pass the 30 days, and many the 213 of the clock.
    #[test]
    fn no_step_is_longer_than_the_longest_there_is() {
        let law = JitterLaw {
            cv: 2.0,
            stalls_per_s: 0.0,
            stall: Picos::ZERO,
            stalls_in_mean: false,
        };
        let mut jitter = Jitter::new(law, stream(0, Purpose::Jitter, 0));
        let mean = Picos(2 * Picos::DELAY_MAX.0);
        let steps: Vec<Picos> = (0..10_000).map(|_| jitter.disturb(mean)).collect();
        assert_eq!(steps.iter().max(), Some(&Picos::DELAY_MAX));
        assert!(steps.iter().min() < Some(&Picos::DELAY_MAX));
    }

    #[test]
    fn stalls_come_at_their_rate_on_top_or_within_the_mean() {
        let law = JitterLaw {
            cv: 0.0,
            stalls_per_s: 2.0,
            stall: Picos::from_seconds(0.05),
            stalls_in_mean: false,
        };
        let expected = 0.01 + (1.0 - (-0.02_f64).exp()) * 0.05;
        let close = |law: JitterLaw, expected: f64| {
            let mean = drawn(law).mean();
            assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
        };
        close(law, expected);
        close(
            JitterLaw {
                stalls_in_mean: true,
                ..law
            },
            0.01,
        );
    }
}
