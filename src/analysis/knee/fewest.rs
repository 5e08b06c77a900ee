//! The fewest of which something holds, among whole numbers each of which is a run: replicas that share a load, requests in flight.
//!
//! It is taken to hold of every larger number, too. A run that does not tell is asked for no more than what its question says of it.

use super::point::Point;

/// What is asked of a number's run.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub(super) holds: fn(&Point) -> bool,
    /// The answer of a run that does not tell.
    pub(super) of_untold: bool,
}

/// How far a search goes.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The largest number that is tried.
    pub(super) most: u64,
    /// Runs at most.
    pub(super) runs_max: usize,
    /// Whether no larger number can be any different.
    pub(super) is_last: fn(&Point) -> bool,
}

/// Why there is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfound {
    /// It holds of none up to the largest that is tried.
    Nowhere,
    /// The runs of several numbers, this one the last, do not tell.
    Untold(u64),
    /// The caller stopped it, or it ran out of runs.
    Stopped,
}

/// Numbers whose runs do not tell, after which no more are tried where none is seen to meet the SLO.
const UNTOLD_MAX: usize = 4;

/// Whether a run is too short, as long as it may be, to tell whether the SLO is met.
fn is_untold(point: &Point) -> bool {
    point.is_unknown && point.keeps_up()
}

/// Numbers that were tried. `evaluate` simulates one, or gives `None` where it was stopped.
pub(super) struct Trials<F> {
    evaluate: F,
    points: Vec<(u64, Point)>,
    bounds: Bounds,
}

impl<F: FnMut(u64) -> Option<Point>> Trials<F> {
    pub(super) fn new(evaluate: F, bounds: Bounds) -> Trials<F> {
        Trials {
            evaluate,
            points: Vec::new(),
            bounds,
        }
    }

    /// All that were tried and their runs, fewest first.
    pub(super) fn into_points(self) -> Vec<(u64, Point)> {
        self.points
    }

    /// The largest number that was tried; 0 before any was.
    pub(super) fn largest(&self) -> u64 {
        self.points.last().map_or(0, |(number, _)| *number)
    }

    /// The fewest of which it holds, looked for from a number in steps that double, and then by halves.
    pub(super) fn fewest(&mut self, start: u64, question: Question) -> Result<u64, Unfound> {
        let most = self.bounds.most;
        let mut step = 1;
        let mut high = start.clamp(1, most);
        let mut low = 0;
        if self.holds(high, question)? {
            while high > 1 {
                let fewer = high.saturating_sub(step).max(1);
                step *= 2;
                if !self.holds(fewer, question)? {
                    low = fewer;
                    break;
                }
                high = fewer;
            }
        } else {
            loop {
                if high >= most || self.is_last(high) {
                    return Err(Unfound::Nowhere);
                }
                low = high;
                high = (high + step).min(most);
                step *= 2;
                if self.holds(high, question)? {
                    break;
                }
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.holds(middle, question)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(high)
    }

    /// Whether that number was tried and meets the SLO.
    pub(super) fn is_within(&self, number: u64) -> bool {
        self.point(number).is_some_and(Point::is_within)
    }

    fn is_last(&self, number: u64) -> bool {
        self.point(number).is_some_and(self.bounds.is_last)
    }

    fn point(&self, number: u64) -> Option<&Point> {
        let found = self.points.iter().find(|(tried, _)| *tried == number);
        found.map(|(_, point)| point)
    }

    fn holds(&mut self, number: u64, question: Question) -> Result<bool, Unfound> {
        let place = self.points.partition_point(|(tried, _)| *tried < number);
        if self.points.get(place).is_none_or(|(tried, _)| *tried != number) {
            if self.points.len() >= self.bounds.runs_max {
                return Err(Unfound::Stopped);
            }
            let point = (self.evaluate)(number).ok_or(Unfound::Stopped)?;
            self.points.insert(place, (number, point));
        }
        let point = &self.points[place].1;
        if !is_untold(point) {
            return Ok((question.holds)(point));
        }
        let untold = self.points.iter().filter(|(_, point)| is_untold(point)).count();
        match untold >= UNTOLD_MAX && !self.points.iter().any(|(_, point)| point.is_within()) {
            true => Err(Unfound::Untold(number)),
            false => Ok(question.of_untold),
        }
    }
}
