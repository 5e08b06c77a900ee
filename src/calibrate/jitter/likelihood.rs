//! How likely a measured percentile is under a law, from a few runs that were simulated under it.
//!
//! A percentile is chance where it lies beside a jump of the distribution: whether a prompt's step is the 1 % or the 1.1 %
//! decides it by a factor. How much of it is chance depends on the law, so every law is simulated with several seeds, and the
//! measured value is judged as one draw more of what they give: a synthetic likelihood (Wood 2010), with Student's density
//! instead of the normal one, since the spread is known from as few draws as there are seeds.
//!
//! Law: a percentile that chance spreads widely says little, and what is missed by far costs no more than its logarithm.

use std::iter::Sum;

use crate::stats::Running;

/// One measured ratio beside what several seeds give, all as ln(predicted/measured).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    /// Square of the distance over that of the scale.
    pub(super) misses: f64,
    /// −2 ln of the density, up to a constant of the floor and the number of seeds.
    pub(super) cost: f64,
}

impl Beside {
    /// A ratio whose errors by seed these are; `floor` is what the measurement and the model are off by without chance.
    pub(super) fn new(errors: impl Iterator<Item = f64>, floor: f64) -> Beside {
        let drawn: Running = errors.filter(|error| error.is_finite()).collect();
        let seeds = drawn.count() as f64;
        if seeds < 2.0 {
            // Nothing simulated has such a gap, under any law.
            return Beside::default();
        }
        // What was measured is one draw, and the mean of the others is known as well as they are many.
        let chance = drawn.variance() * (1.0 + 1.0 / seeds);
        let scale = floor * floor + chance;
        let misses = drawn.mean().powi(2) / scale;
        let freedom = seeds - 1.0;
        Beside {
            misses,
            cost: (freedom + 1.0) * (misses / freedom).ln_1p() + (scale / (floor * floor)).ln(),
        }
    }

    /// Counted by a share.
    pub(super) fn times(self, share: f64) -> Beside {
        Beside {
            misses: share * self.misses,
            cost: share * self.cost,
        }
    }
}

impl Sum for Beside {
    fn sum<I: Iterator<Item = Beside>>(all: I) -> Beside {
        all.fold(Beside::default(), |one, other| Beside {
            misses: one.misses + other.misses,
            cost: one.cost + other.cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(errors: &[f64]) -> Beside {
        Beside::new(errors.iter().copied(), 0.02)
    }

    #[test]
    fn what_chance_spreads_says_little() {
        // Off by four floors, and as much or more by chance.
        let sure = beside(&[0.08; 8]);
        let jumping = beside(&[0.4, -0.24, 0.4, -0.24, 0.4, -0.24, 0.4, -0.24]);
        assert!((sure.misses - 16.0).abs() < 1e-9, "{sure:?}");
        assert!(jumping.misses < 0.1, "{jumping:?}");
        // Yet a law that makes a percentile jump is less likely than one that meets it.
        assert!(jumping.cost > beside(&[0.0; 8]).cost + 4.0, "{jumping:?}");
    }

    #[test]
    fn a_miss_by_far_is_bounded() {
        let far = beside(&[1.0; 8]).cost;
        assert!(far > beside(&[0.1; 8]).cost && far < 60.0, "{far}");
        assert_eq!(beside(&[f64::NAN; 8]).cost, 0.0);
    }
}
