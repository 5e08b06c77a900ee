//! How often everybody inside was replaced: the clock by which a run is long or short.
//!
//! A generation ends when as many have left as had come when it began: `T(k+1) = inf {t : D(t) ≥ A(T(k))}`, with the
//! arrivals `A` and departures `D = A − N` so far. First come first served that is the stay of whoever came at `T(k)`, and in any
//! order the whole content has been renewed once, so that no stay needs to be estimated from those who have left already,
//! the short ones. By construction the number inside at the end of a generation is what arrived in it, and the ratio of one
//! such number to the one before it is arrivals over departures in the generation between:
//!
//! * *filling up* it is above 1 and falls to 1: what the second and third generation meet is still not what later ones do;
//! * *overloaded* it stays at the load for ever, so that each generation is longer than the one before;
//! * in a steady state it goes about 1.
//!
//! Everything is read off the series, so stays shorter than one of its intervals count as one interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::metrics::SeriesPoint;

/// Departures that begin the first generation, or this share of all that were sent if that is fewer: the first to leave may be
/// a single short request.
const FIRST_DEPARTURES: f64 = 20.0;
const FIRST_SHARE: f64 = 0.02;
/// Generations after which the filling up of an empty system is over, but for what is close to saturation.
const FILLED: usize = 4;
/// And those after which a steady stretch may begin: mean figures hold little of what is still missing then.
const WARM: usize = 2;
/// Generations that a steady stretch lasts at least: of fewer, those who came before it are too large a part.
pub(super) const STEADY_MIN: usize = 4;
/// One-sided confidence with which the number inside must have grown.
const CONFIDENCE: f64 = 0.9938;
/// Ratios that a growth is seen from at least.
const RATIOS_MIN: usize = 3;

/// The generations of a run while requests were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    curve: Curve,
    /// Ends of generations in seconds, the first that of the first departures.
    ends_s: Vec<f64>,
}

impl Generations {
    /// Of what was sent between two instants in seconds.
    pub(super) fn of(series: &[SeriesPoint], first_s: f64, last_s: f64) -> Generations {
        if interval_s(series) <= 0.0 {
            return Generations::default();
        }
        let curve = Curve::of(series, first_s, last_s);
        let sent = curve.sent();
        let mut generations = Generations {
            curve,
            ends_s: Vec::new(),
        };
        let begun = FIRST_DEPARTURES.min(FIRST_SHARE * sent).max(1.0);
        if let Some(begin_s) = generations.curve.when_left(begun, first_s) {
            generations.ends_s.push(begin_s);
            let more = generations.after(begin_s);
            generations.ends_s.extend(more);
        }
        generations
    }

    /// Ends of the generations that follow each other from `begin_s` on.
    fn after(&self, begin_s: f64) -> Vec<f64> {
        let mut ends_s = Vec::new();
        let mut from_s = begin_s;
        while let Some(end_s) = self.curve.when_left(self.curve.arrived(from_s), from_s) {
            // Nobody inside is replaced at once; the series knows nothing finer than its intervals.
            from_s = end_s.max(from_s + self.curve.width_s);
            if from_s > self.curve.last_s {
                break;
            }
            ends_s.push(from_s);
        }
        ends_s
    }

    /// How often everybody inside was replaced.
    pub(super) fn count(&self) -> usize {
        self.ends_s.len().saturating_sub(1)
    }

    /// How many generations follow each other in a stretch, in seconds.
    pub(super) fn count_within(&self, begin_s: f64, end_s: f64) -> usize {
        let ends_s = self.after(begin_s);
        ends_s.iter().take_while(|&&at_s| at_s <= end_s).count()
    }

    /// When the first requests have left, in seconds.
    pub(super) fn begun_s(&self) -> Option<f64> {
        self.ends_s.first().copied()
    }

    /// When filling up was over, if another generation was seen after it.
    pub(super) fn filled_s(&self) -> Option<f64> {
        self.ends_s
            .get(FILLED - 1)
            .copied()
            .filter(|_| self.count() >= FILLED)
    }

    /// When a steady stretch may begin.
    pub(super) fn warm_s(&self) -> Option<f64> {
        self.ends_s.get(WARM - 1).copied()
    }

    /// Seconds of sending after which a steady stretch could be long enough, at the length of the last generation.
    pub(super) fn needed_s(&self) -> Option<f64> {
        let [.., before_s, last_s] = self.ends_s[..] else {
            return None;
        };
        let missing = (WARM + STEADY_MIN).saturating_sub(self.ends_s.len());
        Some(last_s + missing as f64 * (last_s - before_s) - self.curve.first_s)
    }

    /// How far arrivals and departures of a stretch are from each other, as a share of the arrivals.
    pub(super) fn imbalance(&self, begin_s: f64, end_s: f64) -> f64 {
        let curve = &self.curve;
        let arrived = curve.arrived(end_s) - curve.arrived(begin_s);
        let left = curve.left(end_s) - curve.left(begin_s);
        if arrived > 0.0 {
            (arrived - left).abs() / arrived
        } else {
            0.0
        }
    }

    /// Requests that came per second in a stretch.
    pub(super) fn arrivals_per_s(&self, begin_s: f64, end_s: f64) -> f64 {
        (self.curve.arrived(end_s) - self.curve.arrived(begin_s)) / (end_s - begin_s).max(f64::MIN_POSITIVE)
    }

    /// Whether each generation is larger than the one before, beyond what chance explains, up to the last two of them; seen from
    /// the second generation on, where the batch is full, or else from the one that filling up is over with. The increments of
    /// the logarithm of a number that returns cancel, so that their t statistic is a cautious one; arrivals and departures
    /// that know nothing of each other vary by `√(2/N)` at least.
    pub(super) fn grow(&self, is_full: bool) -> bool {
        let from = if is_full { WARM - 1 } else { FILLED - 1 };
        let inside: Vec<f64> = self.ends_s[from.min(self.ends_s.len())..]
            .iter()
            .map(|&at_s| self.curve.arrived(at_s) - self.curve.left(at_s))
            .collect();
        let ratios: Vec<f64> = inside.windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
        let count = ratios.len();
        if count < RATIOS_MIN || !ratios.iter().all(|ratio| ratio.is_finite()) {
            return false;
        }
        let sum: f64 = ratios.iter().sum();
        let mean = sum / count as f64;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let by_chance = 2.0 / (inside.iter().sum::<f64>() / inside.len() as f64);
        let deviation = (squares / (count - 1) as f64).max(by_chance).sqrt();
        let t = sum / (deviation * (count as f64).sqrt());
        let law = StudentsT::new(0.0, 1.0, (count - 1) as f64).expect("a positive number of degrees");
        t >= law.inverse_cdf(CONFIDENCE) && ratios[count - 2..].iter().all(|&ratio| ratio > 0.0)
    }
}

/// Seconds of an interval of a series, the last of which may be shorter than the others; 0 of a run of no time. The first
/// point stands in the middle of the first interval, which begins at 0.
pub(super) fn interval_s(series: &[SeriesPoint]) -> f64 {
    series.first().map_or(0.0, |point| 2.0 * point.t_s)
}

/// Arrivals and departures so far, at the middles of the intervals of a series.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// (seconds, arrivals, departures).
    points: Vec<(f64, f64, f64)>,
    width_s: f64,
    first_s: f64,
    last_s: f64,
}

impl Curve {
    fn of(series: &[SeriesPoint], first_s: f64, last_s: f64) -> Curve {
        let width_s = interval_s(series);
        let mut arrived = 0.0;
        let mut points = Vec::with_capacity(series.len());
        for (index, point) in series.iter().enumerate() {
            // The last interval may be shorter than the others.
            let half = point.arrivals_per_s * (point.t_s - index as f64 * width_s);
            arrived += half;
            points.push((point.t_s, arrived, arrived - point.in_system));
            arrived += half;
        }
        Curve {
            points,
            width_s,
            first_s,
            last_s,
        }
    }

    fn sent(&self) -> f64 {
        self.arrived(self.last_s) - self.arrived(self.first_s)
    }

    fn arrived(&self, at_s: f64) -> f64 {
        self.at(at_s, |point| point.1)
    }

    fn left(&self, at_s: f64) -> f64 {
        self.at(at_s, |point| point.2)
    }

    /// A curve at an instant, by linear interpolation.
    fn at(&self, at_s: f64, of: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < at_s);
        match (after.checked_sub(1), self.points.get(after)) {
            (None, None) => 0.0,
            (None, Some(first)) => of(first),
            (Some(last), None) => of(&self.points[last]),
            (Some(before), Some(next)) => {
                let before = &self.points[before];
                let share = (at_s - before.0) / (next.0 - before.0);
                of(before) + share * (of(next) - of(before))
            }
        }
    }

    /// When so many had left, not before `from_s`.
    fn when_left(&self, count: f64, from_s: f64) -> Option<f64> {
        if self.left(from_s) >= count {
            return Some(from_s);
        }
        let start = self.points.partition_point(|point| point.0 < from_s);
        let next = start + self.points[start..].iter().position(|point| point.2 >= count)?;
        let Some(before) = next.checked_sub(1).map(|before| &self.points[before]) else {
            return Some(self.points[next].0);
        };
        let next = &self.points[next];
        let share = (count - before.2) / (next.2 - before.2);
        Some((before.0 + share * (next.0 - before.0)).max(from_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fluid: so many come per second, and leave as `served` says of the number inside.
    fn fluid(arrivals_per_s: f64, served: impl Fn(f64) -> f64) -> Generations {
        let mut inside = 0.0;
        let point = |i: u32| {
            inside += arrivals_per_s - served(inside);
            SeriesPoint {
                t_s: f64::from(i) + 0.5,
                in_system: inside,
                arrivals_per_s,
                ..SeriesPoint::default()
            }
        };
        let series: Vec<SeriesPoint> = (0..400).map(point).collect();
        Generations::of(&series, 0.0, 400.0)
    }

    #[test]
    fn a_generation_lasts_a_stay_and_grows_by_the_load() {
        // Everybody stays 20 seconds on average, in no order: no queue, and a filling tank.
        let tank = fluid(100.0, |inside| inside / 20.0);
        assert!((18..=22).contains(&tank.count()), "{}", tank.count());
        assert!(!tank.grow(true) && !tank.grow(false));
        let filled_s = tank.filled_s().unwrap();
        assert!((40.0..90.0).contains(&filled_s), "{filled_s}");
        assert!(tank.imbalance(200.0, 300.0) < 1e-4);
        assert_eq!(tank.count_within(200.0, 300.0), 5);
        // A server of 80 a second: of each generation 1.25 times as many as of the one before are left over.
        let queue = fluid(100.0, |inside| inside.min(80.0));
        assert!(queue.grow(true));
        assert!((queue.imbalance(200.0, 300.0) - 0.2).abs() < 1e-9);
        let ends_s = &queue.ends_s;
        let last = ends_s.len() - 1;
        let lengths = [last - 1, last].map(|end| ends_s[end] - ends_s[end - 1]);
        assert!((lengths[1] / lengths[0] - 1.25).abs() < 0.01, "{lengths:?}");
    }

    #[test]
    fn a_run_of_one_interval_or_of_no_time_has_no_generations_that_go_on_for_ever() {
        // Six came and were turned away at once, and nobody was ever inside.
        let brief = |t_s: f64| SeriesPoint {
            t_s,
            arrivals_per_s: 600.0,
            ..SeriesPoint::default()
        };
        assert!(Generations::of(&[brief(0.005)], 0.0, 0.009).count() <= 1);
        assert_eq!(Generations::of(&[brief(0.0)], 0.0, 0.0).count(), 0);
        assert_eq!(Generations::of(&[], 0.0, 1.0).count(), 0);
        // The last of two intervals is shorter: the first still is 10 ms long.
        assert!((interval_s(&[brief(0.005), brief(0.011)]) - 0.01).abs() < 1e-12);
    }

    #[test]
    fn a_run_shorter_than_a_few_stays_says_how_long_it_should_be() {
        let series: Vec<SeriesPoint> = (0..50)
            .map(|i| SeriesPoint {
                t_s: f64::from(i) + 0.5,
                in_system: 10.0 * f64::from(i).min(20.0),
                arrivals_per_s: 10.0,
                ..SeriesPoint::default()
            })
            .collect();
        // Everybody stays 20 s: generations end at 21, 41 and, if one had gone on, at 61, 81, 101 and 121.
        let short = Generations::of(&series, 0.0, 50.0);
        assert_eq!(short.count(), 1);
        assert!(short.filled_s().is_none());
        let needed_s = short.needed_s().unwrap();
        assert!((needed_s - 121.0).abs() < 3.0, "{needed_s}");
    }
}
