//! How the quantiles of one latency moved together: all by one time, all by one factor, in the tail alone, or neither.
//!
//! Every percentile of the tail that both results have must agree, since gaps are of two kinds: of steps with and without a
//! prompt. One percentile may have moved as the median did because it has come to be of the other kind.

use crate::results::Stats;

/// Moves that agree this closely are one.
const ALIKE: f64 = 0.35;
/// Factors that agree this closely are one.
const SAME_FACTOR: f64 = 0.1;
/// Percentiles of the tail.
const TAIL: [f64; 3] = [99.0, 95.0, 90.0];
/// A shift and a factor can be told apart where the tail is this many times as long as the median.
const APART: f64 = 1.15;

/// What the median and the tail of one latency did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// Both moved by this time, s.
    Shift(f64),
    /// Both moved by this factor.
    Scale(f64),
    /// The tail moved and the median did not.
    Tail,
    /// Neither.
    Mixed,
}

/// The shape of a move; `None` where a result has no median or no tail.
pub(super) fn shape(predicted: &Stats, measured: &Stats) -> Option<Shape> {
    let low = predicted.median.zip(measured.median)?;
    let tail: Vec<(f64, f64)> = tail(predicted, measured).map(|(_, pair)| pair).collect();
    let high = tail.first()?;
    let (shift, factor) = (low.1 - low.0, low.1 / low.0);
    if (factor - 1.0).abs() < 0.03 && (high.1 / high.0 - 1.0).abs() > 0.15 {
        return Some(Shape::Tail);
    }
    if tail.iter().all(|high| high.0 < APART * low.0) || shift == 0.0 {
        return Some(Shape::Mixed);
    }
    let worst =
        |of: &dyn Fn(&(f64, f64)) -> f64| tail.iter().map(|pair| (of(pair) - 1.0).abs()).fold(0.0, f64::max);
    let by_shift = worst(&|(one, other)| (other - one) / shift);
    let by_scale = worst(&|(one, other)| (other / one - 1.0) / (factor - 1.0));
    let is_one_factor = worst(&|(one, other)| other / one / factor) < SAME_FACTOR;
    Some(match (by_shift < ALIKE, by_scale < ALIKE && is_one_factor) {
        (true, _) if by_shift <= by_scale => Shape::Shift(shift),
        (_, true) => Shape::Scale(factor),
        (true, false) => Shape::Shift(shift),
        (false, false) => Shape::Mixed,
    })
}

/// The percentiles of the tail that both results have, the furthest first, with their values in both.
pub(super) fn tail(predicted: &Stats, measured: &Stats) -> impl Iterator<Item = (f64, (f64, f64))> {
    TAIL.into_iter().filter_map(|percent| {
        let pair = predicted.percentile(percent).zip(measured.percentile(percent))?;
        Some((percent, pair))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median, p90, p95 and p99 in both results, ms.
    fn check(one: [f64; 4], other: [f64; 4], expected: Shape) {
        let [one, other] = [one, other].map(|[median, p90, p95, p99]| Stats {
            median: Some(median),
            percentiles: vec![(90.0, p90), (95.0, p95), (99.0, p99)],
            ..Stats::default()
        });
        assert_eq!(shape(&one, &other), Some(expected));
    }

    #[test]
    fn a_move_has_a_shape_where_every_percentile_agrees() {
        check(
            [8.0, 10.0, 20.0, 30.0],
            [9.0, 11.0, 21.0, 31.0],
            Shape::Shift(1.0),
        );
        check(
            [8.0, 10.0, 20.0, 30.0],
            [16.0, 20.0, 41.0, 59.0],
            Shape::Scale(2.0),
        );
        check([8.0, 10.0, 20.0, 30.0], [8.0, 10.0, 20.0, 60.0], Shape::Tail);
        // Close together a shift is a factor.
        check([8.0, 8.1, 8.2, 8.3], [16.0, 16.2, 16.4, 16.6], Shape::Mixed);
        // Eager steps beside graphs: the furthest percentile agrees within a third by chance, and the one before it does not.
        check([7.77, 8.76, 24.6, 27.6], [15.6, 27.9, 28.3, 47.8], Shape::Mixed);
        // A factor of 2.0 at the median is none of 1.7 in the tail.
        check([8.0, 10.0, 20.0, 30.0], [16.0, 20.0, 35.0, 51.0], Shape::Mixed);
    }
}
