//! The share of requests that met every limit, and how well it is known.

use super::Estimate;
use super::steady::{CONFIDENCE, GROUPS, mean_in_system};
use crate::metrics::{Stretch, Summary};
use crate::stats::{ratio_interval, regroup, student_t};

/// Share of the requests that left which met every limit.
pub(super) fn of(batches: &[Stretch]) -> Option<Estimate> {
    good_share(batches, |batch| (batch.ended(), batch.good()))
}

/// The same of each class of requests, its own limits in place of those of all; `None` of one that nobody left of.
pub(super) fn of_classes(batches: &[Stretch], classes: usize) -> Vec<Option<Estimate>> {
    let of = |class: usize| good_share(batches, |batch| batch.ended_and_good(class));
    (0..classes).map(of).collect()
}

/// The share of good requests among those that ended, with Wilson's interval: that of as many independent requests as vary like
/// the batches do. Where less than half of the groups of batches hold a miss, or nobody missed, the batches show little of how
/// misses come together. They come in fluctuations of the number inside, of which requests about as many as its root are part of
/// one: more of them count as one than that.
fn good_share(batches: &[Stretch], of: impl Fn(&Stretch) -> (u64, u64)) -> Option<Estimate> {
    Misses::of(batches, of).map(|misses| misses.good())
}

/// The share of good requests among all that left, with such an interval by their number alone: what can be said where there are
/// no batches of a steady stretch. `None` without limits, and where nobody left.
pub(super) fn good_share_of_all(summary: &Summary) -> Option<Estimate> {
    let ended = summary.ended();
    let good = summary.good.filter(|_| ended > 0)?;
    let misses = Misses {
        share: 1.0 - good as f64 / ended as f64,
        requests: ended as f64 / together(summary.occupancy.in_system),
        z: student_t(CONFIDENCE, GROUPS as f64 - 1.0),
    };
    Some(misses.good())
}

/// Requests that count as one where little is seen of how misses come together.
fn together(in_system: f64) -> f64 {
    1.0 + in_system.max(0.0).sqrt()
}

/// Part of the misses that a promise allows for up to which its share need be known: closer to the promise no run of a sensible
/// length tells whether it is kept.
const KNOWN_WITHIN: f64 = 1.0 / 3.0;

/// How many times as long a run must be to tell whether the share of good requests is at least `asked`, or else to know it well
/// enough; `None` where nobody left.
pub(super) fn times_to_tell(batches: &[Stretch], asked: f64) -> Option<f64> {
    let misses = Misses::of(batches, |batch| (batch.ended(), batch.good()))?;
    let may_miss = 1.0 - asked;
    let apart = (may_miss - misses.share).abs().max(KNOWN_WITHIN * may_miss);
    // An end of Wilson's interval is where the score test of that share rejects no longer.
    let needed = misses.z.powi(2) * may_miss * asked / apart.powi(2);
    needed.is_finite().then(|| needed / misses.requests)
}

/// Requests that missed a limit, of those that ended.
struct Misses {
    share: f64,
    /// As many independent requests would tell as much.
    requests: f64,
    /// Half-widths of an interval are so many standard errors.
    z: f64,
}

impl Misses {
    fn of(batches: &[Stretch], of: impl Fn(&Stretch) -> (u64, u64)) -> Option<Misses> {
        let pairs: Vec<(f64, f64)> = batches
            .iter()
            .map(of)
            .map(|(ended, good)| ((ended - good) as f64, ended as f64))
            .collect();
        let groups = regroup(&pairs, GROUPS);
        let misses = ratio_interval(&groups, CONFIDENCE)?;
        let ended: f64 = pairs.iter().map(|pair| pair.1).sum();
        let with_misses = groups.iter().filter(|group| group.0 > 0.0).count();
        let inside = mean_in_system(batches).map_or(0.0, |inside| inside.value);
        let together = match 2 * with_misses >= groups.len() {
            true => 1.0,
            false => together(inside),
        };
        let share = misses.value.clamp(0.0, 1.0);
        let z = student_t(CONFIDENCE, (groups.len() as f64 - 1.0).max(1.0));
        let as_many = share * (1.0 - share) / (misses.half_width / z).powi(2);
        let most = ended / together;
        let requests = if as_many.is_nan() { most } else { as_many.min(most) };
        Some(Misses { share, requests, z })
    }

    /// The share of all others.
    fn good(&self) -> Estimate {
        let (low, high) = self.wilson();
        Estimate {
            value: 1.0 - self.share,
            low: 1.0 - high,
            high: 1.0 - low,
        }
    }

    /// Wilson's interval (1927) of the share.
    fn wilson(&self) -> (f64, f64) {
        let (p, n) = (self.share, self.requests);
        if n <= 0.0 {
            return (0.0, 1.0);
        }
        let square = self.z * self.z / n;
        let middle = (p + square / 2.0) / (1.0 + square);
        let half = self.z * (p * (1.0 - p) / n + square / (4.0 * n)).sqrt() / (1.0 + square);
        ((middle - half).clamp(0.0, p), (middle + half).clamp(p, 1.0))
    }
}
