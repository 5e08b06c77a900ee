//! The knee of a closed loop: the most that may be in flight, requests or users, while the SLO is met.
//!
//! A loop sets its own rate, so that no queue grows for ever. What gives way as more are let in is latency: first of the steps, which
//! get longer, and once the batch is full of the queue before it.

use super::fewest::{Bounds, Question, Trials, Unfound};
use super::point::Point;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightOptions {
    /// The first number tried; any guess will do.
    pub start: u64,
    /// No more than so many are tried.
    pub most: u64,
    /// Runs at most.
    pub runs_max: usize,
    /// Nothing is promised but how fast tokens follow each other, which no queue before the batch makes longer.
    pub is_of_pace: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlight {
    /// The answer.
    pub ending: InFlightEnding,
    /// Numbers in flight that were tried and what became of them, fewest first.
    pub tried: Vec<(u64, Point)>,
}

/// How a search came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightEnding {
    /// So many meet the SLO, and one more does not.
    Found {
        /// The most that were seen to meet it.
        most: u64,
        /// The most that were seen to do so beyond the sampling error; 0 where one is not.
        surely: u64,
        /// The most that are not seen to miss it beyond the sampling error; `None` where all that were tried are not.
        at_most: Option<u64>,
    },
    /// A single one misses it.
    None,
    /// So many meet it, and so do all: more only wait before a batch that is full, or no more are tried.
    Unbounded(u64),
    /// The runs of several numbers, this one the last, do not tell whether they do, and no other was seen to.
    Untold(u64),
    /// The caller stopped it, or it ran out of runs.
    Stopped,
}

impl InFlight {
    /// The run of the answer; `None` without one.
    #[must_use]
    pub fn best(&self) -> Option<&(u64, Point)> {
        let (InFlightEnding::Found { most, .. } | InFlightEnding::Unbounded(most)) = self.ending else {
            return None;
        };
        self.tried.iter().find(|(number, _)| *number == most)
    }

    /// The fewest that were seen to miss the SLO, and are more than the answer.
    #[must_use]
    pub fn first_beyond(&self) -> Option<&(u64, Point)> {
        let most = self.best().map_or(0, |(number, _)| *number);
        let beyond = |(number, point): &&(u64, Point)| *number > most && !point.is_within();
        self.tried.iter().find(beyond)
    }
}

/// More wait than run: what is added waits, too, and the batch is what it was.
fn is_full(point: &Point) -> bool {
    point
        .waiting
        .zip(point.running)
        .is_some_and(|(waiting, running)| waiting > running)
}

const BREAKS: Question = Question {
    holds: |point| !point.is_within(),
    of_untold: true,
};
const MAY_BREAK: Question = Question {
    holds: |point| !point.is_sure(),
    of_untold: true,
};
const SURELY_BREAKS: Question = Question {
    holds: |point| !point.may_be_within(),
    of_untold: false,
};

/// Searches by `evaluate`, which simulates so many in flight, or gives `None` where it was stopped.
///
/// # Panics
/// If no number is allowed.
pub fn in_flight(evaluate: impl FnMut(u64) -> Option<Point>, options: &InFlightOptions) -> InFlight {
    assert!(options.most > 0, "a loop has a request in flight");
    let bounds = Bounds {
        most: options.most,
        runs_max: options.runs_max,
        is_last: match options.is_of_pace {
            true => is_full,
            false => |_| false,
        },
    };
    let mut trials = Trials::new(evaluate, bounds);
    let ending = match trials.fewest(options.start, BREAKS) {
        Err(Unfound::Nowhere) => InFlightEnding::Unbounded(trials.largest()),
        Err(Unfound::Untold(number)) => InFlightEnding::Untold(number),
        Err(Unfound::Stopped) => InFlightEnding::Stopped,
        Ok(1) => InFlightEnding::None,
        // What cannot be told of the interval's ends leaves the number itself as it is.
        Ok(beyond) => InFlightEnding::Found {
            most: beyond - 1,
            surely: trials.fewest(beyond, MAY_BREAK).unwrap_or(1) - 1,
            at_most: match trials.fewest(beyond, SURELY_BREAKS) {
                Ok(surely_beyond) => Some(surely_beyond - 1),
                Err(_) => None,
            },
        },
    };
    InFlight {
        ending,
        tried: trials.into_points(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::exact;
    use super::*;
    use crate::analysis::Estimate;

    /// So many in flight leave `limit - number` of slack, known within `± error`.
    fn slower(limit: f64, error: f64) -> impl Fn(u64) -> Option<Point> {
        move |number| {
            let slack = limit - number as f64;
            let mut point = exact(1.0);
            point.slack = Some(Estimate {
                value: slack,
                low: slack - error,
                high: slack + error,
            });
            Some(point)
        }
    }

    fn options(start: u64) -> InFlightOptions {
        InFlightOptions {
            start,
            most: 10_000,
            runs_max: 60,
            is_of_pace: true,
        }
    }

    #[test]
    fn the_most_are_found_from_any_guess_with_their_interval() {
        for start in [1, 2, 22, 23, 24, 100, 50_000] {
            let found = in_flight(slower(23.5, 2.0), &options(start));
            let expected = InFlightEnding::Found {
                most: 23,
                surely: 21,
                at_most: Some(25),
            };
            assert_eq!(found.ending, expected, "from {start}");
            assert_eq!(found.best().map(|best| best.0), Some(23));
            assert_eq!(found.first_beyond().map(|beyond| beyond.0), Some(24));
        }
    }

    #[test]
    fn a_search_that_comes_to_no_number_says_how() {
        let ending = |of: &dyn Fn(u64) -> Option<Point>| in_flight(of, &options(8)).ending;
        assert_eq!(ending(&slower(0.5, 0.1)), InFlightEnding::None);
        assert_eq!(ending(&slower(1e9, 0.1)), InFlightEnding::Unbounded(10_000));
        assert_eq!(ending(&|_| None), InFlightEnding::Stopped);
        let blind = |number| {
            let mut point = slower(100.0, 0.1)(number)?;
            (point.slack, point.is_unknown) = (None, true);
            Some(point)
        };
        assert!(matches!(ending(&blind), InFlightEnding::Untold(_)));
        // Beyond a full batch more only wait, and nobody's steps are any longer.
        let full = |number: u64| {
            let mut point = slower(1e9, 0.1)(number)?;
            point.running = Some(number.min(64) as f64);
            point.waiting = Some(number.saturating_sub(64) as f64);
            Some(point)
        };
        let InFlightEnding::Unbounded(number) = ending(&full) else {
            panic!("it is bounded");
        };
        assert!((129..=300).contains(&number), "{number}");
        // The first token waits for the queue, however long it gets.
        let of_all = InFlightOptions {
            is_of_pace: false,
            ..options(8)
        };
        assert_eq!(in_flight(full, &of_all).ending, InFlightEnding::Unbounded(10_000));
    }

    #[test]
    fn a_number_that_may_or_may_not_do_has_an_interval_down_to_none() {
        let found = in_flight(slower(2.5, 30.0), &options(4)).ending;
        let expected = InFlightEnding::Found {
            most: 2,
            surely: 0,
            at_most: Some(32),
        };
        assert_eq!(found, expected);
    }
}
