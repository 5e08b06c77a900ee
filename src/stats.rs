//! Statistics that know nothing of serving: quantiles of a list, running moments, and intervals for means of
//! correlated series.
//!
//! Everything is a plain function of a slice in a fixed order, so results are the same for any thread count.

pub mod crowd;
pub mod skewed;

use std::sync::LazyLock;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;

/// A mean with the half-width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The point estimate.
    pub value: f64,
    /// Half the width of the interval; infinite when the data do not bound it.
    pub half_width: f64,
}

impl Interval {
    /// The interval from one end to the other.
    #[must_use]
    pub fn between(low: f64, high: f64) -> Interval {
        Interval {
            value: f64::midpoint(low, high),
            half_width: (high - low) / 2.0,
        }
    }

    /// Whether a value lies in it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value - self.value).abs() <= self.half_width
    }

    /// Lower end.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.value - self.half_width
    }

    /// Upper end.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.value + self.half_width
    }

    /// Half-width over value; infinite for a value of zero that is not certain.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.half_width == 0.0 {
            0.0
        } else {
            self.half_width / self.value.abs()
        }
    }
}

/// Half-width of the normal law's central 90 %, in σ.
pub const Z_90: f64 = 1.645;
/// Standard deviations that a normal law is within with 95 % probability.
pub const Z_95: f64 = 1.96;

/// The `p`-quantile of ascending values, numpy's linear interpolation at rank `(n − 1)·p`; `None` when empty.
#[must_use]
pub fn quantile_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    quantile_by(sorted.len() as u64, p, |index| sorted[index as usize])
}

/// The same of `count` values of which `at` gives the one at an index, smallest first.
#[must_use]
pub fn quantile_by(count: u64, p: f64, at: impl Fn(u64) -> f64) -> Option<f64> {
    let rank = count.checked_sub(1)? as f64 * p.clamp(0.0, 1.0);
    let below = rank.floor() as u64;
    let (low, weight) = (at(below), rank - below as f64);
    Some(match weight == 0.0 {
        true => low,
        false => low + (at(below + 1) - low) * weight,
    })
}

/// The `p`-quantile of values in any order.
#[must_use]
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_sorted(&sorted, p)
}

/// Mean and variance of values that come one by one (Welford).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Running {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Running {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Sample variance (divided by n − 1), 0 for fewer than two values.
    #[must_use]
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            (self.squares / (self.count - 1) as f64).max(0.0)
        }
    }
}

impl FromIterator<f64> for Running {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut running = Running::default();
        values.into_iter().for_each(|value| running.add(value));
        running
    }
}

/// Φ(z), the standard normal distribution function.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Cells of the table of Φ, and how many of them one standard deviation has.
const CELLS: usize = 544;
const CELLS_PER_DEVIATION: f64 = 32.0;
/// Φ and its slope over a cell, at −8.5, −8.5 + 1/32 …, 8.5 standard deviations.
static NORMAL: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    let at = |cell: usize| (cell as f64 - 0.5 * CELLS as f64) / CELLS_PER_DEVIATION;
    let point = |cell: usize| (normal_cdf(at(cell)), density(at(cell)) / CELLS_PER_DEVIATION);
    (0..=CELLS).map(point).collect()
});

/// Φ(z) of what was drawn, within 4·10⁻⁹: cubic between the values and slopes of a table, a tenth of the time of [`normal_cdf`].
#[must_use]
pub fn normal_cdf_drawn(z: f64) -> f64 {
    let place = (z * CELLS_PER_DEVIATION + 0.5 * CELLS as f64).clamp(0.0, CELLS as f64 - 1e-9);
    let cell = place as usize;
    let t = place - cell as f64;
    let [(from, slope_from), (to, slope_to)] = [NORMAL[cell], NORMAL[cell + 1]];
    let rise = to - from;
    let bend = slope_from - rise;
    let bow = rise - slope_to;
    from + t * (rise + (1.0 - t) * ((1.0 - t) * bend + t * bow))
}

/// Degrees of freedom from which on [`student_t`] is expanded around the normal law, with an error below `1/freedom³`.
const FREEDOM_MANY: f64 = 1000.0;

/// The two-sided Student t factor: `P(|T| ≤ t) = confidence` with `freedom` degrees of freedom, which need not be whole.
///
/// It is bisected from the distribution function: statrs 0.19's own inverse does not end for some fractional degrees.
#[must_use]
pub fn student_t(confidence: f64, freedom: f64) -> f64 {
    let Ok(law) = StudentsT::new(0.0, 1.0, freedom) else {
        return f64::INFINITY;
    };
    let z = Normal::standard().inverse_cdf(0.5 + confidence / 2.0);
    if freedom >= FREEDOM_MANY {
        // Abramowitz and Stegun, 26.7.5.
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom);
        return z + (z.powi(3) + z) / (4.0 * freedom) + second;
    }
    let outside = 0.5 - confidence / 2.0;
    let is_inside = |t: f64| law.sf(t) > outside;
    let mut high = z.max(1.0);
    while is_inside(high) && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if is_inside(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Lag-one autocorrelation of a series; 0 where it has no spread.
#[must_use]
pub fn lag_one(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let squares: f64 = series.iter().map(|x| (x - mean) * (x - mean)).sum();
    let products: f64 = series
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Σy/Σx with its interval, from batches `(y, x)` in order of time: the classical ratio estimator, Student t over
/// the batches, widened where neighbouring residuals are correlated.
///
/// A correlation ρ between neighbours multiplies the variance of their mean by `(1 + ρ)/(1 − ρ)` if it decays
/// geometrically; ρ is estimated, its small-sample bias `(1 + 3ρ)/k` put back, and never narrows the interval.
/// `None` for no data; fewer than three batches bound nothing.
#[must_use]
pub fn ratio_interval(batches: &[(f64, f64)], confidence: f64) -> Option<Interval> {
    ratio_within(batches, 3, |residuals| {
        let k = residuals.len() as f64;
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let correlation = unbiased_lag_one(residuals).clamp(0.0, 0.9);
        let inflation = (1.0 + correlation) / (1.0 - correlation);
        // The standard error of Σy/Σx: √(k/(k−1)·Σr²) / Σx.
        let error = (k / (k - 1.0) * squares * inflation).sqrt();
        student_t(confidence, k - 1.0) * error
    })
}

/// Σy/Σx with its interval, from batches in order of time whose level follows a given course: neighbours are held against
/// each other, not against the mean of all (von Neumann 1941), so a level that drifts is not taken for chance, and one that
/// jumps hardly. What batches have in common with their neighbours by chance is not seen. `None` as [`ratio_interval`].
///
/// The mean square of successive differences is known as well as a variance of two thirds as many values.
#[must_use]
pub fn ratio_interval_of_course(batches: &[(f64, f64)], confidence: f64) -> Option<Interval> {
    ratio_within(batches, 4, |residuals| {
        let k = residuals.len() as f64;
        let squares: f64 = residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        let error = (k / (2.0 * (k - 1.0)) * squares).sqrt();
        student_t(confidence, freedom_of_course(residuals.len())) * error
    })
}

/// Degrees of freedom of [`ratio_interval_of_course`] over so many batches.
#[must_use]
pub fn freedom_of_course(batches: usize) -> f64 {
    2.0 / 3.0 * (batches as f64 - 1.0)
}

/// Σy/Σx, and around it the half-width of Σy that `half_width` makes of the batches' residuals over Σx; without bounds if
/// there are fewer than `fewest` of them. `None` for no data.
fn ratio_within(
    batches: &[(f64, f64)],
    fewest: usize,
    half_width: impl Fn(&[f64]) -> f64,
) -> Option<Interval> {
    let (y, x) = sums(batches);
    if x <= 0.0 {
        return None;
    }
    let value = y / x;
    let used = residuals(batches, value);
    Some(Interval {
        value,
        half_width: match used.len() < fewest {
            true => f64::INFINITY,
            false => half_width(&used) / x,
        },
    })
}

/// Correlation of neighbouring batches `(y, x)` as [`ratio_interval`] estimates it; `None` for fewer than three. Where it is
/// large the batches are short against the memory of what they are batches of, and no interval can be had from them.
#[must_use]
pub fn ratio_correlation(batches: &[(f64, f64)]) -> Option<f64> {
    let (y, x) = sums(batches);
    let used = residuals(batches, y / x);
    (x > 0.0 && used.len() >= 3).then(|| unbiased_lag_one(&used))
}

fn sums(batches: &[(f64, f64)]) -> (f64, f64) {
    batches
        .iter()
        .fold((0.0, 0.0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1))
}

/// `y − value·x` of each batch that has an `x`.
fn residuals(batches: &[(f64, f64)], value: f64) -> Vec<f64> {
    batches
        .iter()
        .filter(|batch| batch.1 > 0.0)
        .map(|batch| batch.0 - value * batch.1)
        .collect()
}

/// [`lag_one`] with its small-sample bias `(1 + 3ρ)/k` put back.
fn unbiased_lag_one(series: &[f64]) -> f64 {
    let raw = lag_one(series);
    raw + (1.0 + 3.0 * raw) / series.len() as f64
}

/// Adds neighbouring batches together until at most `groups` are left.
#[must_use]
pub fn regroup(batches: &[(f64, f64)], groups: usize) -> Vec<(f64, f64)> {
    let size = batches.len().div_ceil(groups.max(1)).max(1);
    let add = |group: &[(f64, f64)]| {
        group
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let whole = batches.len() / size * size;
    // Left-overs join the last group rather than make a short one.
    let mut grouped: Vec<_> = batches[..whole].chunks(size).map(add).collect();
    if let Some(last) = grouped.last_mut() {
        let rest = add(&batches[whole..]);
        *last = (last.0 + rest.0, last.1 + rest.1);
    }
    grouped
}

/// Where to cut a warm-up: the number of leading values whose removal makes the standard error of the mean of the
/// rest smallest (MSER, White 1997), looked for in the first half.
#[must_use]
pub fn mser(series: &[f64]) -> usize {
    let mut best = (f64::INFINITY, 0);
    let (mut sum, mut squares) = (0.0, 0.0);
    // From the back, so that each candidate's sums are those of its tail.
    let center = series.last().copied().unwrap_or(0.0);
    for (cut, value) in series.iter().enumerate().rev() {
        let off = value - center;
        sum += off;
        squares += off * off;
        let n = (series.len() - cut) as f64;
        if cut <= series.len() / 2 {
            let error = (squares - sum * sum / n).max(0.0) / (n * n);
            if error <= best.0 {
                best = (error, cut);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_normal_law_is_the_law() {
        for step in -100_000..=100_000 {
            let z = f64::from(step) * 1e-4;
            let (drawn, exact) = (normal_cdf_drawn(z), normal_cdf(z));
            assert!(
                (drawn - exact).abs() < 4e-9 && (0.0..=1.0).contains(&drawn),
                "{z}: {drawn} {exact}"
            );
        }
        assert!(normal_cdf_drawn(f64::INFINITY) > 1.0 - 1e-9 && normal_cdf_drawn(-40.0) < 1e-9);
    }

    #[test]
    fn a_course_that_is_given_is_no_chance() {
        // Ups and downs of one beside a level that climbs from 0 to 190.
        let batches = |slope: f64| -> Vec<(f64, f64)> {
            let noise = |i: u32| f64::from(i * 7 % 5) - 2.0;
            (0..20)
                .map(|i| (1000.0 + slope * f64::from(i) + noise(i), 1.0))
                .collect()
        };
        let half = |slope: f64| {
            let of = batches(slope);
            [ratio_interval(&of, 0.95), ratio_interval_of_course(&of, 0.95)]
                .map(|one| one.unwrap().half_width)
        };
        let ([still, given_still], [climbing, given]) = (half(0.0), half(10.0));
        assert!((given_still / still - 1.0).abs() < 0.5, "{still} {given_still}");
        assert!(climbing > 100.0 && given < 7.0, "{climbing} {given}");
    }

    #[test]
    fn quantiles_interpolate_as_numpy_does() {
        let values = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(quantile(&values, 0.5), Some(25.0));
        assert!((quantile(&values, 0.99).unwrap() - 39.7).abs() < 1e-12);
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn factors_are_those_of_the_tables() {
        assert!((student_t(0.95, 10.0) - 2.228).abs() < 1e-3);
        assert!((student_t(0.95, 30.0) - 2.042).abs() < 1e-3);
        assert!((student_t(0.95, 1.0) - 12.706).abs() < 1e-3);
        assert!((student_t(0.9, 2.0) - 2.920).abs() < 1e-3);
    }

    #[test]
    fn factors_end_and_fall_whatever_the_degrees_of_freedom() {
        let mut before = f64::INFINITY;
        for step in 0..4000 {
            let freedom = (f64::from(step) * 0.002).exp();
            let factor = student_t(0.95, freedom);
            assert!(factor < before, "{factor} at {freedom} degrees, {before} before");
            let law = StudentsT::new(0.0, 1.0, freedom).unwrap();
            assert!((law.sf(factor) - 0.025).abs() < 1e-9, "{freedom} degrees");
            before = factor;
        }
    }

    #[test]
    fn equal_weights_give_the_textbook_interval() {
        let values = [1.0, 3.0, 2.0, 4.0, 3.0, 5.0, 1.0, 5.0, 0.0, 6.0];
        let batches: Vec<_> = values.iter().map(|&y| (y, 1.0)).collect();
        let interval = ratio_interval(&batches, 0.95).unwrap();
        let running: Running = values.into_iter().collect();
        let expected = student_t(0.95, 9.0) * (running.variance() / 10.0).sqrt();
        assert_eq!(interval.value, 3.0);
        // The values alternate, so nothing is widened.
        assert!((interval.half_width - expected).abs() < 1e-12);
        assert!(
            ratio_interval(&batches[..2], 0.95)
                .unwrap()
                .half_width
                .is_infinite()
        );
        assert_eq!(ratio_interval(&[], 0.95), None);
    }

    #[test]
    fn a_ramp_is_cut_and_a_flat_series_is_not() {
        let level = |i: usize| 10.0 + if i.is_multiple_of(2) { 0.5 } else { -0.5 };
        let ramp: Vec<f64> = (0..40)
            .map(|i| if i < 10 { i as f64 } else { level(i) })
            .collect();
        assert_eq!(mser(&ramp), 10);
        let flat: Vec<f64> = (0..40).map(level).collect();
        assert_eq!(mser(&flat), 0);
        assert_eq!(mser(&[]), 0);
    }

    #[test]
    fn regrouping_loses_nothing() {
        let batches: Vec<_> = (0..37).map(|i| (f64::from(i), 1.0)).collect();
        let grouped = regroup(&batches, 10);
        assert_eq!(grouped.len(), 9);
        assert_eq!(grouped.iter().map(|g| g.1).sum::<f64>(), 37.0);
        assert_eq!(grouped.iter().map(|g| g.0).sum::<f64>(), 666.0);
    }

    #[test]
    fn neighbours_of_a_drift_are_alike_and_those_of_noise_are_not() {
        let correlation = |of: &dyn Fn(u32) -> f64| {
            let batches: Vec<_> = (0..20).map(|i| (of(i), 1.0)).collect();
            ratio_correlation(&batches).unwrap()
        };
        assert!(correlation(&|i| f64::from(i)) > 0.9);
        assert!(correlation(&|i| f64::from(i * 7 % 5)) < 0.3);
        assert_eq!(ratio_correlation(&[(1.0, 1.0), (2.0, 1.0)]), None);
    }
}
