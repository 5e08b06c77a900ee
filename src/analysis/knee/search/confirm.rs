//! Whether the rate that bounds saturation from above is overloaded, or only slow to start.
//!
//! A search leaves an overloaded rate as soon as growth shows, after some thousand requests. A server that starts slowly shows as much:
//! the sequences of a pipeline come in uneven shares to its stages, which even out within a dozen batches, and until then fewer
//! are served than later on. No statistic of the short run tells the two apart, since nothing in it has begun to bend. What is
//! overload still grows in a run of twenty thousand; what was a start does not.
//!
//! Only the lowest rate that was left so is run again, which costs one run: where its growth lasts, so does that of any higher rate.
//! Where it does not, the next lowest is doubted in turn. Left out: traffic with an end, of which there is no more
//! to be run, and what begins even more slowly.

use super::{EXPANSION, SearchOptions, Tried};
use crate::analysis::Verdict;
use crate::analysis::knee::Point;

/// Requests of a run that confirms growth: the slowest start seen, of a pipeline of two stages, takes 12,000 of them, and a search may
/// leave a rate after 2,000. Runs ten times as long as the short ones told no other saturation
/// of any shipped scenario, and took a third of the search more.
const STARTED: u64 = 20_000;
/// And how many times as many they must be to tell more.
pub(super) const SURELY_LONGER: u64 = 2;
/// Rates that are run again at most, of a system that does start slowly.
const CONFIRMED_MAX: usize = 8;

impl<F: FnMut(f64, u64) -> Option<Point>> Tried<F> {
    /// Runs the lowest overloaded rate for longer, and looks for saturation further up where it was not overloaded after all; whether
    /// the bracket is as narrow as it was. What is confirmed stays as it was seen, so that most searches do not change.
    pub(super) fn confirm(&mut self, options: &SearchOptions) -> bool {
        let longer = STARTED.min(options.requests_max);
        for _ in 0..CONFIRMED_MAX {
            let Some(place) = self.points.iter().position(|point| !point.keeps_up()) else {
                return true;
            };
            let over = &self.points[place];
            let has_end = self.has_end();
            let is_short = SURELY_LONGER * over.requests <= longer;
            let is_doubtful = over.verdict == Verdict::Unstable && is_short && !has_end;
            if !is_doubtful || self.is_spent() {
                return true;
            }
            let Some(short) = self.rerun(place, longer) else {
                return true;
            };
            if !self.points[place].keeps_up() {
                self.points[place] = short;
                return true;
            }
            self.requests_min = longer;
            if self.points.iter().all(Point::keeps_up) && short.rate < options.rate_max {
                self.climb((short.rate * EXPANSION).min(options.rate_max), options);
            }
            // Where no rate is within the objective there is no knee to move.
            self.bisect(options.tolerance, Point::is_within);
            if !self.bisect(options.tolerance, Point::keeps_up) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
