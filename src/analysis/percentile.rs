//! How well a percentile of a latency is known.
//!
//! The share of values above it has an interval like any mean, which the distribution function carries over to the value. Quantiles
//! within batches are never averaged: they are biased where batches are small.
//!
//! That ends where the values do. A hundredth of the requests of a busy hour are those of a handful of crowds, and of another hour
//! those of more and larger ones: nothing that was seen bounds a percentile from above if the share above it is known to hardly more
//! than itself. Then the tail is taken to go on as an exponential law's, whose scale is known from more values: tails of waits in
//! queues are asymptotically such (Asmussen 2003, "Applied Probability and Queues", XIII.5).

use super::Estimate;
use super::steady::{CONFIDENCE, GROUPS, interval};
use crate::metrics::{Metric, Quantiles, Stretch};
use crate::stats::skewed::upper_half_width;
use crate::stats::{ratio_interval, regroup};
use crate::units::Picos;

/// Quantiles that have intervals, ascending, as the names of their intervals begin.
pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// Half-width of the share above a percentile, relative to it, from which on the values above it bound nothing: they came in fewer
/// than some seventeen crowds, the square of Student's 2.09 over this.
const SEEN_SELDOM: f64 = 0.5;
/// How many times the share above the percentile the tail is that its scale is known from, and the largest share that is a tail.
const TAIL: f64 = 20.0;
const TAIL_MAX: f64 = 0.5;
/// Values that a mean over a tail is taken of.
const TAIL_STEPS: u32 = 64;

/// The `p`-quantile of a latency in seconds, `whole` being its quantiles over the same batches.
pub(super) fn of(batches: &[Stretch], metric: Metric, whole: &Quantiles, p: f64) -> Option<Estimate> {
    let value = whole.at_s(p)?;
    let half = interval(batches, above(metric, value))?.half_width;
    if !half.is_finite() {
        return Some(Estimate {
            value,
            low: 0.0,
            high: f64::INFINITY,
        });
    }
    let high = whole.at_s((p + half).min(1.0)).unwrap_or(value).max(value);
    let beyond = match half >= SEEN_SELDOM * (1.0 - p) {
        true => by_tail(batches, metric, whole, p)?,
        false => 0.0,
    };
    Some(Estimate {
        value,
        // Within a bucket values are taken to be evenly spread, so that neighbouring ranks may differ by rounding.
        low: whole.at_s((p - half).max(0.0)).unwrap_or(value).min(value),
        high: high.max(value + beyond),
    })
}

/// A percentile is no less than a lower one: nor are the ends of its interval, which are found for each alone.
pub(super) fn keep_in_order(ascending: &mut [Option<Estimate>]) {
    let mut high = 0.0_f64;
    for known in ascending.iter_mut().flatten() {
        high = high.max(known.high);
        known.high = high;
    }
    let mut low = f64::INFINITY;
    for known in ascending.iter_mut().rev().flatten() {
        low = low.min(known.low);
        known.low = low;
    }
}

/// Values of a batch above a limit in seconds, and all of them.
fn above(metric: Metric, limit_s: f64) -> impl Fn(&Stretch) -> (f64, f64) {
    let limit = Picos::from_seconds(limit_s);
    move |batch| {
        (
            batch.exceeding(metric, limit),
            batch.sum_and_count(metric).1 as f64,
        )
    }
}

/// How far above its estimate the `p`-quantile may lie, in seconds, if the tail that holds it is exponential.
///
/// A share `a` of the values lies above `x`, by `β` on average. Where the share above `x` is `(1 + u)·a` in truth and the scale of
/// the tail `(1 + v)·β`, the quantile is further out by `(1 + v)·β·ln(1 + u) + v·β·ln(a/(1 − p))`. How far the share may be above
/// what was seen says [`upper_half_width`]; the scale is known as well as the number of values that it is a mean of.
fn by_tail(batches: &[Stretch], metric: Metric, whole: &Quantiles, p: f64) -> Option<f64> {
    let share = (TAIL * (1.0 - p)).min(TAIL_MAX).max(1.0 - p);
    let from = whole.at_s(1.0 - share)?;
    let pairs: Vec<(f64, f64)> = batches.iter().map(above(metric, from)).collect();
    let groups = regroup(&pairs, GROUPS);
    let half_width = ratio_interval(&groups, CONFIDENCE)?.half_width;
    let upper = upper_half_width(&groups, CONFIDENCE)?;
    let steps = (0..TAIL_STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(TAIL_STEPS));
    let mean: f64 = steps
        .filter_map(|part| whole.at_s(1.0 - share * part))
        .sum::<f64>()
        / f64::from(TAIL_STEPS);
    let (more, wider) = (upper / share, half_width / share);
    let scale = mean - from;
    Some(scale * ((1.0 + wider) * more.ln_1p() + wider * (share / (1.0 - p)).ln()))
}

#[cfg(test)]
mod tests;
