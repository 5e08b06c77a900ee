//! The gaps of a run of steps as clients see them, in runs that grow evenly.

use crate::sim::Steps;
use crate::units::Picos;

/// Gap `i` of `count` is `first + i·increment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GapRun {
    pub(crate) first: Picos,
    pub(crate) increment: Picos,
    pub(crate) count: u64,
}

impl GapRun {
    fn one(gap: Picos) -> GapRun {
        GapRun::alike(gap, 1)
    }

    fn alike(gap: Picos, count: u64) -> GapRun {
        GapRun {
            first: gap,
            increment: Picos::ZERO,
            count,
        }
    }

    /// Its gaps from `from` on, `count` at most.
    pub(crate) fn part(&self, from: u64, count: u64) -> GapRun {
        let from = from.min(self.count);
        GapRun {
            first: self.first + self.increment * from,
            increment: self.increment,
            count: count.min(self.count - from),
        }
    }

    pub(crate) fn sum(&self) -> u128 {
        let count = u128::from(self.count);
        let later = count * count.saturating_sub(1) / 2;
        u128::from(self.first.0) * count + u128::from(self.increment.0) * later
    }

    /// The longest; none is longer than zero where there are none.
    pub(crate) fn longest(&self) -> Picos {
        match self.count {
            0 => Picos::ZERO,
            count => self.first + self.increment * (count - 1),
        }
    }

    pub(crate) fn gaps(self) -> impl Iterator<Item = Picos> {
        (0..self.count).map(move |index| self.first + self.increment * index)
    }
}

/// The gaps of each of the steps, in order: of the first, of those that a busy front end hands on one after the other, of the one with
/// which it has caught up, and of the rest, which are as far apart as they end.
pub(crate) fn of_steps(steps: &Steps<'_>) -> [GapRun; 4] {
    let from = |index: u64| GapRun {
        first: steps.duration + steps.duration_increment * index,
        increment: steps.duration_increment,
        count: steps.count.saturating_sub(index),
    };
    let none = GapRun::alike(Picos::ZERO, 0);
    match steps.seen {
        None => [GapRun::one(steps.gap), none, none, from(1)],
        Some(seen) => {
            let has_caught_up = seen.behind + 1 < steps.count;
            [
                GapRun::one(seen.first),
                GapRun::alike(seen.each, seen.behind),
                GapRun::alike(seen.caught_up, u64::from(has_caught_up)),
                from(seen.behind + 2),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::StepLoad;
    use crate::metrics::single_server::steps;
    use crate::sim::SeenGaps;

    fn listed(steps: &Steps<'_>) -> Vec<u64> {
        let runs = of_steps(steps).into_iter();
        runs.flat_map(GapRun::gaps).map(|gap| gap.0).collect()
    }

    #[test]
    fn every_step_has_one_gap() {
        let load = StepLoad::default();
        // 10, 12, 14, 16, 18.
        let told = Steps {
            gap: Picos(11),
            ..steps(Picos(0), Picos(70), 5, Picos(2), 1, &load)
        };
        assert_eq!(listed(&told), [11, 12, 14, 16, 18]);
        let seen = |behind| SeenGaps {
            first: Picos(13),
            behind,
            each: Picos(15),
            caught_up: Picos(9),
        };
        let listed_seen = |behind| {
            listed(&Steps {
                seen: Some(&seen(behind)),
                ..told
            })
        };
        assert_eq!(listed_seen(0), [13, 9, 14, 16, 18]);
        assert_eq!(listed_seen(2), [13, 15, 15, 9, 18]);
        assert_eq!(listed_seen(3), [13, 15, 15, 15, 9]);
        assert_eq!(listed_seen(4), [13, 15, 15, 15, 15]);
    }

    #[test]
    fn a_part_of_a_run_is_the_run_of_its_gaps() {
        let run = GapRun {
            first: Picos(10),
            increment: Picos(3),
            count: 4,
        };
        let part = run.part(1, 2);
        assert_eq!(part.gaps().collect::<Vec<_>>(), [Picos(13), Picos(16)]);
        assert_eq!((part.sum(), part.longest()), (29, Picos(16)));
        assert_eq!(run.part(4, 9).count, 0);
        assert_eq!(run.part(7, 1).longest(), Picos::ZERO);
    }
}
