//! The fewest replicas that meet the SLO, found by simulating so many of them.
//!
//! All see the whole traffic behind their router, so that what they share is in the answer: a burst that one alone would have to
//! take is spread over all, what falls on one in a quiet moment is not lost on the others, and each has a cache of its own. The
//! knee of one replica says nothing of this: there the same arrivals are slowed down to its share, and their bursts with them.
//!
//! A number whose run does not tell whether it meets the SLO is not counted on: it is none that keeps it, and one that may.
//!
//! More replicas are taken to serve no worse. Where that fails by a hair (round robin deals others to each), the answer is a
//! number that meets the SLO while one less does not.

use super::fewest::{Bounds, Question, Trials, Unfound};
use super::point::Point;

/// How to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountOptions {
    /// The first number tried; any guess will do.
    pub start: u64,
    /// No more than so many are tried.
    pub replicas_max: u64,
    /// Runs at most.
    pub runs_max: usize,
}

/// So many replicas, and what became of the traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Crew {
    /// How many share the traffic.
    pub replicas: u64,
    /// Their run, at the rate that they are counted for.
    pub point: Point,
}

/// What a count found.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The answer.
    pub ending: CountEnding,
    /// All that were tried, fewest first.
    pub tried: Vec<Crew>,
}

/// How a count came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountEnding {
    /// So many meet the SLO.
    Found {
        /// And one less does not.
        replicas: u64,
        /// The fewest that are not seen to break it beyond the sampling error.
        fewest: u64,
        /// The fewest that are seen to keep it beyond the sampling error; `None` where none were tried.
        most: Option<u64>,
    },
    /// No number up to the highest allowed keeps it.
    TooMany,
    /// The runs of several numbers, this one the last, do not tell whether they do, and no other was seen to.
    Untold(u64),
    /// The caller stopped it, or it ran out of runs.
    Stopped,
}

impl Count {
    /// The run of so many replicas, if they were tried.
    #[must_use]
    pub fn crew(&self, replicas: u64) -> Option<&Crew> {
        self.tried.iter().find(|crew| crew.replicas == replicas)
    }
}

/// Counts by `evaluate`, which simulates so many replicas on one and the same traffic, or gives `None` where it was stopped.
///
/// # Panics
/// If no number is allowed.
pub fn count(evaluate: impl FnMut(u64) -> Option<Point>, options: &CountOptions) -> Count {
    assert!(options.replicas_max > 0, "a service has a replica");
    let bounds = Bounds {
        most: options.replicas_max,
        runs_max: options.runs_max,
        is_last: |_| false,
    };
    let mut tried = Trials::new(evaluate, bounds);
    let ending = match tried.fewest(options.start, KEEPS) {
        Err(Unfound::Nowhere) => CountEnding::TooMany,
        Err(Unfound::Untold(replicas)) => CountEnding::Untold(replicas),
        Err(Unfound::Stopped) => CountEnding::Stopped,
        // What cannot be told of the interval's ends leaves the number itself as it is.
        Ok(replicas) => CountEnding::Found {
            replicas,
            fewest: tried.fewest(replicas, MAY_KEEP).unwrap_or(replicas),
            most: tried.fewest(replicas, SURELY_KEEPS).ok(),
        },
    };
    let crew = |(replicas, point)| Crew { replicas, point };
    Count {
        ending,
        tried: tried.into_points().into_iter().map(crew).collect(),
    }
}

const KEEPS: Question = Question {
    holds: Point::is_within,
    of_untold: false,
};
const MAY_KEEP: Question = Question {
    holds: Point::may_be_within,
    of_untold: true,
};
const SURELY_KEEPS: Question = Question {
    holds: Point::is_sure,
    of_untold: false,
};

#[cfg(test)]
mod tests {
    use super::super::search::tests::within;
    use super::*;

    /// Replicas that share all: `n` of them take `5 n` a second, known within `± error`.
    fn sharing(rate: f64, error: f64) -> impl Fn(u64) -> Option<Point> {
        move |replicas| Some(within(5.0 * replicas as f64 - rate, error))
    }

    /// Those that share 101 a second, of whom so many do not tell.
    fn blind_at(blind: u64) -> impl FnMut(u64) -> Option<Point> {
        move |replicas| {
            let mut point = sharing(101.0, 0.1)(replicas)?;
            if replicas == blind {
                (point.slack, point.is_unknown) = (None, true);
            }
            Some(point)
        }
    }

    fn options(start: u64) -> CountOptions {
        CountOptions {
            start,
            replicas_max: 1000,
            runs_max: 40,
        }
    }

    #[test]
    fn the_fewest_are_found_from_any_guess_in_few_runs() {
        for start in [1, 3, 20, 21, 70, 1000, 5000] {
            let found = count(sharing(100.0, 0.1), &options(start));
            let expected = CountEnding::Found {
                replicas: 20,
                fewest: 20,
                most: Some(21),
            };
            assert_eq!(found.ending, expected, "from {start}");
            assert!(found.tried.len() <= 24, "{} runs from {start}", found.tried.len());
            assert!(found.crew(19).is_some_and(|crew| !crew.point.is_within()));
        }
        let one = count(sharing(2.0, 0.1), &options(1));
        assert!(matches!(one.ending, CountEnding::Found { replicas: 1, .. }));
        assert_eq!(one.tried.len(), 1);
    }

    #[test]
    fn its_interval_is_where_the_runs_do_not_tell() {
        let found = count(sharing(101.0, 12.0), &options(21));
        let expected = CountEnding::Found {
            replicas: 21,
            fewest: 18,
            most: Some(23),
        };
        assert_eq!(found.ending, expected);
    }

    #[test]
    fn a_count_that_comes_to_no_end_says_how() {
        let ending = |start, of: &dyn Fn(u64) -> Option<Point>| count(of, &options(start)).ending;
        assert_eq!(ending(1, &sharing(1e6, 0.1)), CountEnding::TooMany);
        assert_eq!(ending(7, &|_| None), CountEnding::Stopped);
        let blind = |replicas| {
            let mut point = sharing(100.0, 0.1)(replicas)?;
            (point.slack, point.is_unknown) = (None, true);
            Some(point)
        };
        assert_eq!(ending(7, &blind), CountEnding::Untold(14));
        // One that does not tell is none that keeps it, and the next is looked for.
        let mut told = blind_at(21);
        let past = count(&mut told, &options(20));
        let expected = CountEnding::Found {
            replicas: 22,
            fewest: 21,
            most: Some(22),
        };
        assert_eq!(past.ending, expected);
        // The ends of the interval may be unknown where the number is not.
        let mut left = 2;
        let cut = |replicas| {
            left -= 1;
            if left < 0 {
                None
            } else {
                sharing(100.0, 0.1)(replicas)
            }
        };
        let cut = count(cut, &options(20));
        let expected = CountEnding::Found {
            replicas: 20,
            fewest: 20,
            most: None,
        };
        assert_eq!(cut.ending, expected);
    }
}
