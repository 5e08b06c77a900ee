//! The knee of a closed loop: the most that may be in flight, requests or users, while the SLO is met.
//!
//! A loop sets its own rate, so that no queue grows for ever. What gives way as more are let in is latency: first of the steps, which
//! get longer, and once the batch is full of the queue before it.

use super::fewest::{Bounds, Question, Trials, Unfound};
use super::point::Point;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightOptions {
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
        /// The most that were seen to do so beyond the sampling error, 0 where one is not; `None` where that was not found out.
        surely: Option<u64>,
        /// The most that are not seen to miss it beyond the sampling error; `None` where that was not found out.
        at_most: Option<u64>,
    },
    /// A single one misses it.
    None,
    /// So many meet it, and so do all: more only wait before a batch that is full.
    Unbounded(u64),
    /// So many meet it, and no more are tried.
    Most(u64),
    /// The runs of several numbers, this one the last, do not tell whether they do, and no other was seen to.
    Untold(u64),
    /// The caller stopped it, or it ran out of runs.
    Stopped,
}

impl InFlight {
    /// The run of the answer; `None` without one.
    #[must_use]
    pub fn best(&self) -> Option<&(u64, Point)> {
        let most = match self.ending {
            InFlightEnding::Found { most, .. }
            | InFlightEnding::Unbounded(most)
            | InFlightEnding::Most(most) => most,
            InFlightEnding::None | InFlightEnding::Untold(_) | InFlightEnding::Stopped => return None,
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
    of_untold: false,
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
    // Where answers of one length keep requests in step more may do better than fewer: what counts is the first that does not.
    let ending = match trials.fewest(1, BREAKS) {
        Err(Unfound::Nowhere) if trials.largest() < options.most => {
            InFlightEnding::Unbounded(trials.largest())
        }
        Err(Unfound::Nowhere) => InFlightEnding::Most(trials.largest()),
        Err(Unfound::Untold(number)) => InFlightEnding::Untold(number),
        Err(Unfound::Stopped) => InFlightEnding::Stopped,
        Ok(1) => InFlightEnding::None,
        Ok(beyond) if !trials.is_within(beyond - 1) => InFlightEnding::Untold(beyond - 1),
        // What cannot be told of the interval's ends leaves the number itself as it is.
        Ok(beyond) => InFlightEnding::Found {
            most: beyond - 1,
            surely: trials.fewest(beyond, MAY_BREAK).ok().map(|unsure| unsure - 1),
            at_most: trials
                .fewest(beyond, SURELY_BREAKS)
                .ok()
                .map(|surely_beyond| surely_beyond - 1),
        },
    };
    InFlight {
        ending,
        tried: trials.into_points(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::within;
    use super::*;

    /// So many in flight leave `limit - number` of slack, known within `± error`.
    fn slower(limit: f64, error: f64) -> impl Fn(u64) -> Option<Point> {
        move |number| Some(within(limit - number as f64, error))
    }

    const OPTIONS: InFlightOptions = InFlightOptions {
        most: 10_000,
        runs_max: 60,
        is_of_pace: true,
    };

    #[test]
    fn the_most_are_found_with_their_interval() {
        let found = in_flight(slower(23.5, 2.0), &OPTIONS);
        let expected = InFlightEnding::Found {
            most: 23,
            surely: Some(21),
            at_most: Some(25),
        };
        assert_eq!(found.ending, expected);
        assert_eq!(found.best().map(|best| best.0), Some(23));
        assert_eq!(found.first_beyond().map(|beyond| beyond.0), Some(24));
        // More may do better than fewer; what counts is the first that does not.
        let islands = |number: u64| {
            let limit = if (400..=556).contains(&number) { 1e9 } else { 23.5 };
            slower(limit, 2.0)(number)
        };
        assert_eq!(in_flight(islands, &OPTIONS).ending, expected);
        // Of an interval that was not looked for to its end nothing is claimed.
        let mut left = 12;
        let cut = |number: u64| {
            left -= 1;
            (left >= 0).then(|| slower(23.5, 2.0)(number)).flatten()
        };
        let InFlightEnding::Found { most, at_most, .. } = in_flight(cut, &OPTIONS).ending else {
            panic!("not found");
        };
        assert_eq!((most, at_most), (23, None));
    }

    #[test]
    fn a_search_that_comes_to_no_number_says_how() {
        let ending = |of: &dyn Fn(u64) -> Option<Point>| in_flight(of, &OPTIONS).ending;
        assert_eq!(ending(&slower(0.5, 0.1)), InFlightEnding::None);
        assert_eq!(ending(&slower(1e9, 0.1)), InFlightEnding::Most(10_000));
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
        assert!((129..=400).contains(&number), "{number}");
        // The first token waits for the queue, however long it gets.
        let of_all = InFlightOptions {
            is_of_pace: false,
            ..OPTIONS
        };
        assert_eq!(in_flight(full, &of_all).ending, InFlightEnding::Most(10_000));
    }

    #[test]
    fn a_number_that_may_or_may_not_do_has_an_interval_down_to_none() {
        let found = in_flight(slower(2.5, 30.0), &OPTIONS).ending;
        let expected = InFlightEnding::Found {
            most: 2,
            surely: Some(0),
            at_most: Some(32),
        };
        assert_eq!(found, expected);
    }
}
