//! What a server does once it is full.
//!
//! Saturation is where a server that begins empty ceases to keep up. A full one may serve less: sequences that are preempted compute
//! again what they had, and large batches go over limits that smaller ones stay under. Between the two rates it has two states, and a
//! burst takes it from the one to the other for good. To tell, a rate well above saturation is run for long; a search leaves such rates
//! after some thousand requests, of which the server fills up with many.

use super::confirm::SURELY_LONGER;
use super::{SearchOptions, Tried};
use crate::analysis::Verdict;
use crate::analysis::knee::Point;
use crate::analysis::knee::outcome::{FILLED, WELL_ABOVE, saturation_rate};

/// Requests of a run that tells what is served when full: known to a per cent or two, whatever the lengths.
const REQUESTS: u64 = SURELY_LONGER * FILLED;

impl<F: FnMut(f64, u64) -> Option<Point>> Tried<F> {
    /// Runs one overloaded rate for longer, or one more rate where none was tried that fills the server fast, unless what was seen
    /// there leaves no doubt. No other rate's figures change.
    pub(super) fn overload(&mut self, options: &SearchOptions) {
        let has_end = self.has_end();
        let is_over = |point: &Point| point.verdict == Verdict::Unstable;
        let Some(lowest) = self.points.iter().position(|point| !point.keeps_up()) else {
            return;
        };
        let Some(saturation) = saturation_rate(&self.points).map(|rate| rate.value) else {
            return;
        };
        // Where no rate is kept up with, saturation is not known from below.
        if lowest == 0 || has_end || self.is_spent() || !is_over(&self.points[lowest]) {
            return;
        }
        let longer = REQUESTS.min(options.requests_max);
        let well_above = WELL_ABOVE * saturation;
        // The lowest overloaded rate bounds saturation, and stays as it is.
        let place = (lowest + 1..self.points.len())
            .find(|place| is_over(&self.points[*place]) && self.points[*place].rate >= well_above);
        match place {
            Some(place) => {
                let short = &self.points[place];
                let may_serve_less = short.throughput.is_none_or(|served| served.value < saturation);
                let is_short = SURELY_LONGER * short.requests <= longer;
                if may_serve_less
                    && is_short
                    && let Some(short) = self.rerun(place, longer)
                    // It is overloaded, whatever else a longer run says.
                    && !is_over(&self.points[place])
                {
                    self.points[place] = short;
                }
            }
            None if well_above <= options.rate_max => self.run_for(well_above, longer),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::knee::search::tests::exact;
    use crate::analysis::knee::{Knee, Point, SearchOptions, search};
    use crate::analysis::{Estimate, Verdict};

    /// A system that keeps up below 8 a second, and serves so many once it is full; how its short runs fill up hides that.
    fn found_of(full: f64) -> Knee {
        found_in(full, 0.1)
    }

    fn found_in(full: f64, known_within: f64) -> Knee {
        search(
            |rate, requests| {
                let is_over = rate >= 8.0;
                let served = |half_width: f64| Estimate {
                    value: full,
                    low: full - half_width,
                    high: full + half_width,
                };
                let requests = requests.max(2_000);
                Some(Point {
                    requests,
                    verdict: if is_over {
                        Verdict::Unstable
                    } else {
                        Verdict::Stable
                    },
                    throughput: is_over.then(|| served(if requests < 20_000 { 1.0 } else { known_within })),
                    ..exact(rate)
                })
            },
            &SearchOptions::default(),
        )
    }

    #[test]
    fn a_server_that_serves_less_once_it_is_full_is_told() {
        let knee = found_of(7.5);
        let saturation = knee.saturation.expect("it is overloaded from 8 on");
        let full = knee.when_full.expect("a long run knows it");
        assert!((full.served.value - 7.5).abs() < 1e-9 && full.served.high < saturation.value);
        assert_eq!(found_of(8.0).when_full, None);
        // Known to a part of a thousand, and of nothing else than how full batches are counted.
        assert_eq!(found_in(7.99, 1e-3).when_full, None);
    }
}
