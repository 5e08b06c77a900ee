//! Two ways of serving the same traffic: how far apart, and how sure that is.
//!
//! Both serve the same requests under each of several seeds, so what differs between seeds cancels out of their
//! differences, which are what an interval is put around: Student's t over the seeds. A relative difference is Σ(b − a)/Σa,
//! the classical ratio estimator. Left out: whether many differences looked at together are each by chance; one in twenty
//! intervals of 95 % misses.

use super::CONFIDENCE;
use crate::stats::{Interval, student_t};

/// How far `b` is from `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Mean of `b − a`, in their unit.
    pub absolute: Interval,
    /// `Σb/Σa − 1`; `None` where `a` is zero.
    pub relative: Option<Interval>,
}

impl Difference {
    /// The difference of two figures under the same seeds, in the same order; `None` for none. One seed bounds nothing.
    #[must_use]
    pub fn between(a: &[f64], b: &[f64]) -> Option<Difference> {
        assert_eq!(a.len(), b.len(), "differences are between pairs");
        let n = a.len() as f64;
        if a.is_empty() {
            return None;
        }
        let (sum_a, sum_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
        let mean = (sum_b - sum_a) / n;
        let pairs = || a.iter().zip(b).map(|(a, b)| (*a, b - a));
        let absolute = Interval {
            value: mean,
            half_width: half_width(pairs().map(|(_, d)| d - mean), n),
        };
        let ratio = (sum_b - sum_a) / sum_a;
        let relative = (sum_a != 0.0).then(|| Interval {
            value: ratio,
            half_width: half_width(pairs().map(|(a, d)| d - ratio * a), n) / (sum_a / n).abs(),
        });
        Some(Difference { absolute, relative })
    }
}

/// Half the width of the interval of a mean, given the residuals.
fn half_width(residuals: impl Iterator<Item = f64>, n: f64) -> f64 {
    if n < 2.0 {
        return f64::INFINITY;
    }
    let squares: f64 = residuals.map(|residual| residual * residual).sum();
    student_t(CONFIDENCE, n - 1.0) * (squares / (n - 1.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_seeds_have_in_common_cancels_out() {
        // Seeds differ tenfold, the pairs by 2 give or take 0.1.
        let a = [10.0, 100.0, 55.0, 31.0];
        let b = [12.1, 101.9, 57.0, 33.0];
        let found = Difference::between(&a, &b).unwrap();
        assert!((found.absolute.value - 2.0).abs() < 1e-12);
        // √(0.02/3/4) × 3.182
        assert!((found.absolute.half_width - 0.12989).abs() < 1e-3, "{found:?}");
        assert!(found.absolute.half_width < found.absolute.value);
        assert!((found.relative.unwrap().value - 8.0 / 196.0).abs() < 1e-12);
    }

    #[test]
    fn one_seed_bounds_nothing_and_zero_has_no_ratio() {
        let one = Difference::between(&[1.0], &[2.0]).unwrap();
        assert!(one.absolute.half_width.is_infinite());
        let zero = Difference::between(&[0.0, 0.0], &[1.0, 1.0]).unwrap();
        assert!(zero.relative.is_none() && zero.absolute.half_width == 0.0);
        assert_eq!(Difference::between(&[], &[]), None);
    }

    #[test]
    fn an_exact_multiple_is_known_exactly() {
        let found = Difference::between(&[2.0, 4.0, 7.0], &[3.0, 6.0, 10.5]).unwrap();
        let relative = found.relative.unwrap();
        assert!((relative.value - 0.5).abs() < 1e-12 && relative.half_width < 1e-9);
    }
}
