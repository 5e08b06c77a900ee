//! Does a queue grow for as long as requests are sent?
//!
//! In an overloaded server the number inside is a random walk with a drift, so its increments over equal intervals
//! are nearly independent and a t statistic of their mean is honest. In a stable one increments cancel and the
//! statistic stays small, however strongly the levels themselves are correlated; that is why increments are tested
//! and not the slope of a regression. Filling up at the start looks like growth too: intervals in which the first
//! requests had not yet left are cut, and the second half must take part in the growth.

use crate::metrics::SeriesPoint;
use crate::stats::Running;

/// Intervals that increments are taken over.
const INTERVALS: usize = 32;
/// Fewest intervals that say anything.
const INTERVALS_MIN: usize = 6;
/// Growth is significant from this statistic on. A reflected random walk without drift (load exactly critical)
/// exceeds it in one run of 40; a load of 0.95 did in none of 250 (`tests/queueing/alarms.rs`).
const T_SIGNIFICANT: f64 = 2.5;
/// Growth below this statistic is that of a system that returns: nine in ten random walks without drift, too, but there the
/// increments do not cancel, which [`super::steady::wanders`] sees.
pub(super) const T_RETURNING: f64 = 1.28;
/// Share of the growth that the second half must have; a half in theory.
const SECOND_HALF_MIN: f64 = 0.2;
/// Requests that the number must have grown by: less is no evidence of anything.
const GROWTH_MIN: f64 = 4.0;
/// Variance of a sum of increments of interval means over the sum of their variances, for a random walk.
const MEAN_INCREMENT_CORRELATION: f64 = 1.5;

/// What became of the number in the system while requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth {
    /// Requests per second that the number grew by.
    pub per_s: f64,
    /// Requests per second that it goes on to grow by under its load, where the batch is still filling up under overload: what fills
    /// it ends, and what the load leaves does not.
    pub by_load_per_s: Option<f64>,
    /// Between which instants, in seconds.
    pub between_s: (f64, f64),
    /// Requests per second that came meanwhile, where that was asked.
    pub offered_per_s: f64,
    /// Growth over its standard error.
    pub t: f64,
    /// Requests it grew by.
    pub requests: f64,
    /// Too much to be chance: overload.
    pub significant: bool,
    /// Too much to be chance, but it may be the filling up of a system that is not overloaded.
    pub ambiguous: bool,
    /// Requests that wait, in the server or before it, are what grows.
    pub is_queue: bool,
    /// It is the clients who hold them back, behind a limit on what they have in flight: the server's latencies do not grow.
    pub is_client: bool,
    /// Load that is asked of the engine, as a share of what it can do with a batch of any size; where nobody waits and
    /// the number inside grows.
    pub load: Option<f64>,
    /// Seconds after the last arrival in which what was left over was worked off; where a load that changes on purpose
    /// was more than could be served.
    pub drain_s: Option<f64>,
}

impl Growth {
    /// Whether it is the load on a growing batch that tells of overload, and nobody who waits.
    pub(super) fn is_by_load(&self) -> bool {
        self.significant && !self.is_queue && !self.is_client && self.drain_s.is_none()
    }

    /// Requests per second that the number grows by for as long as one cares to run.
    pub(super) fn lasting_per_s(&self) -> f64 {
        self.by_load_per_s.unwrap_or(self.per_s)
    }

    /// Looks at a level (in the system, waiting) between two instants in seconds: from when the first requests could
    /// have left until the last request was sent.
    #[must_use]
    pub fn of(
        series: &[SeriesPoint],
        level: impl Fn(&SeriesPoint) -> f64,
        from_s: f64,
        until_s: f64,
    ) -> Growth {
        let seen: Vec<(f64, f64)> = series
            .iter()
            .filter(|point| point.t_s >= from_s && point.t_s <= until_s)
            .map(|point| (point.t_s, level(point)))
            .collect();
        let size = seen.len().div_ceil(INTERVALS).max(1);
        let mean = |group: &[(f64, f64)]| {
            let (t, n) = group
                .iter()
                .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            (t / group.len() as f64, n / group.len() as f64)
        };
        let levels: Vec<(f64, f64)> = seen.chunks_exact(size).map(mean).collect();
        Growth::of_levels(&levels)
    }

    /// The same for (seconds, level) at roughly equal distances.
    #[must_use]
    pub fn of_levels(levels: &[(f64, f64)]) -> Growth {
        if levels.len() < INTERVALS_MIN {
            return Growth::default();
        }
        let (first, last) = (levels[0], levels[levels.len() - 1]);
        let middle = levels[levels.len() / 2];
        let increments: Running = levels.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        let requests = last.1 - first.1;
        let error = (increments.variance() * increments.count() as f64 * MEAN_INCREMENT_CORRELATION).sqrt();
        let t = if requests == 0.0 { 0.0 } else { requests / error };
        let late = (last.1 - middle.1) / requests;
        let significant = requests >= GROWTH_MIN && t >= T_SIGNIFICANT && late >= SECOND_HALF_MIN;
        Growth {
            per_s: requests / (last.0 - first.0),
            by_load_per_s: None,
            between_s: (first.0, last.0),
            offered_per_s: 0.0,
            t,
            requests,
            significant,
            ambiguous: false,
            is_queue: false,
            is_client: false,
            load: None,
            drain_s: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(level: impl Fn(f64) -> f64) -> Growth {
        let point = |i| SeriesPoint {
            t_s: f64::from(i),
            in_system: level(f64::from(i)),
            ..SeriesPoint::default()
        };
        let series: Vec<_> = (0..400).map(point).collect();
        Growth::of(&series, |point| point.in_system, 0.0, 400.0)
    }

    #[test]
    fn a_line_grows_a_filling_tank_and_a_wave_do_not() {
        let line = of(|t| 0.5 * t);
        assert!(line.significant && (line.per_s - 0.5).abs() < 1e-9);
        assert!(!of(|t| 60.0 * (1.0 - (-t / 20.0).exp())).significant);
        assert!(!of(|t| 30.0 + 20.0 * (t / 10.0).sin()).significant);
        assert!(!of(|_| 7.0).significant);
        assert!(!of(|t| 0.005 * t).significant);
    }
}
