//! Intervals of means whose batches are skewed: a queue is short for most of the time and long now and then.
//!
//! In a stretch in which it happened to be long but seldom, the mean is too small and so is its standard error, so that an interval
//! of equal halves misses the truth on one side only. Skart (Tafazzoli, Wilson, Lada and Steiger 2011, "Performance of Skart")
//! corrects for that as Willink (2005) does for independent values, by a Cornish-Fisher expansion in the skewness of the batches, on
//! top of what their correlation does. Left out: what a stretch did not see at all.

use super::{ratio_interval, residuals, student_t, sums};

/// How far above Σy/Σx the ratio may lie, from batches `(y, x)` in order of time: the upper half of [`ratio_interval`], longer where
/// the batches are skewed to the right and never shorter. `None` for no data.
///
/// With skewness `B` of `k` residuals and `β = B/(6√k)`, the ratio is at most `−G(−t)` standard errors above what was seen, where
/// `G(ζ) = (∛(1 + 6β(ζ − β)) − 1) / 2β`.
#[must_use]
pub fn upper_half_width(batches: &[(f64, f64)], confidence: f64) -> Option<f64> {
    let even = ratio_interval(batches, confidence)?;
    let (y, x) = sums(batches);
    let used = residuals(batches, y / x);
    let k = used.len() as f64;
    let t = student_t(confidence, k - 1.0);
    let beta = skewness(&used) / (6.0 * k.sqrt());
    let is_skewed = even.half_width.is_finite() && beta > 0.0;
    let longer = if is_skewed { -adjusted(-t, beta) / t } else { 1.0 };
    Some(even.half_width * longer.max(1.0))
}

/// Skart's `G`.
fn adjusted(z: f64, beta: f64) -> f64 {
    ((1.0 + 6.0 * beta * (z - beta)).cbrt() - 1.0) / (2.0 * beta)
}

/// The sample skewness of residuals around zero; 0 where they have no spread.
fn skewness(residuals: &[f64]) -> f64 {
    let k = residuals.len() as f64;
    let sum = |power: i32| residuals.iter().map(|residual| residual.powi(power)).sum::<f64>();
    let deviation = (sum(2) / (k - 1.0)).sqrt();
    match deviation > 0.0 {
        true => k / ((k - 1.0) * (k - 2.0)) * sum(3) / deviation.powi(3),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn batches(values: &[f64]) -> Vec<(f64, f64)> {
        values.iter().map(|&y| (y, 1.0)).collect()
    }

    #[test]
    fn without_skewness_or_to_the_left_both_halves_are_equal() {
        for values in [
            [1.0, 5.0, 2.0, 4.0, 3.0, 3.0, 1.0, 5.0],
            [9.0, 9.0, 9.0, 1.0, 9.0, 9.0, 9.0, 9.0],
        ] {
            let of = batches(&values);
            let even = ratio_interval(&of, 0.95).unwrap().half_width;
            assert!((upper_half_width(&of, 0.95).unwrap() / even - 1.0).abs() < 1e-9);
        }
        assert_eq!(upper_half_width(&[], 0.95), None);
        assert_eq!(upper_half_width(&batches(&[1.0, 2.0]), 0.95), Some(f64::INFINITY));
    }

    #[test]
    fn one_batch_far_above_the_others_makes_the_upper_half_longer() {
        let mut values = [1.0, 2.0].repeat(10);
        values[7] = 30.0;
        let of = batches(&values);
        let even = ratio_interval(&of, 0.95).unwrap().half_width;
        // B = 4.4, β = 0.16: −G(−2.09) = 6.3.
        let longer = upper_half_width(&of, 0.95).unwrap() / even;
        assert!((2.5..3.5).contains(&longer), "{longer}");
    }

    /// Batches of two squares of exponential values, whose mean is 2 and skewness 4.7.
    #[test]
    fn means_of_skewed_batches_are_covered_from_above() {
        let mut rng = rand::rngs::ChaCha8Rng::seed_from_u64(11);
        let mut draw = || (1.0 - rng.random::<f64>()).ln().powi(2);
        let (mut even_missed, mut missed) = (0, 0);
        for _ in 0..2_000 {
            let of: Vec<(f64, f64)> = (0..20).map(|_| (draw() + draw(), 2.0)).collect();
            let even = ratio_interval(&of, 0.95).unwrap();
            even_missed += u32::from(even.high() < 2.0);
            missed += u32::from(even.value + upper_half_width(&of, 0.95).unwrap() < 2.0);
        }
        // An interval of 95 % may miss 50 on one side.
        assert!(even_missed > 200 && missed < 120, "{even_missed} {missed}");
    }
}
