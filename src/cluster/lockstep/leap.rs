//! The upper envelope of lines: how long a run of steps takes of which the slowest of several ranks decides each.

use crate::cost::{DecodeCost, StepLoad};
use crate::units::Picos;

/// A rank's own share of the steps of a run: step `i` of it takes `max(at_first + i·growth, floor)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) at_first: Picos,
    pub(super) growth: Picos,
    pub(super) floor: Picos,
}

impl Share {
    /// Of a batch with these contexts in the first step, and one token more for each of its `members` in each further one.
    pub(super) fn new(law: &DecodeCost, contexts: &StepLoad, members: u32) -> Share {
        let growth = match members {
            // A dummy stays what it is.
            0 => Picos::ZERO,
            _ => law.growth(contexts),
        };
        Share {
            at_first: law.gpu(contexts),
            growth,
            floor: law.least(),
        }
    }

    pub(super) fn at(&self, step: u64) -> Picos {
        (self.at_first + self.growth * step).max(self.floor)
    }

    /// Σ over the first `steps` steps.
    pub(super) fn sum(&self, steps: u64) -> u128 {
        let below = match self.floor.0.checked_sub(self.at_first.0) {
            None => 0,
            Some(gap) => gap.checked_div(self.growth.0).map_or(u64::MAX, |run| run + 1),
        };
        let below = below.min(steps);
        let terms = |n: u64| {
            let n = u128::from(n);
            u128::from(self.at_first.0) * n + u128::from(self.growth.0) * (n * n.saturating_sub(1) / 2)
        };
        u128::from(self.floor.0) * u128::from(below) + terms(steps) - terms(below)
    }
}

/// A line that is the highest of all for some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Top {
    pub(super) at_first: Picos,
    pub(super) growth: Picos,
    /// For so many steps, at least one.
    pub(super) steps: u64,
}

/// What the first steps of a run take, and for how many steps that law holds.
pub(super) fn top(shares: &[Share]) -> Top {
    let lines = || {
        let flat = shares.iter().map(|share| (share.floor, Picos::ZERO));
        shares
            .iter()
            .map(|share| (share.at_first, share.growth))
            .chain(flat)
    };
    let (at_first, growth) = lines().max().expect("there are ranks");
    let overtaken = lines()
        .filter(|&(_, other)| other > growth)
        .map(|(other, steeper)| {
            // The first step in which the steeper line is the higher one.
            (at_first - other).0 / (steeper - growth).0 + 1
        });
    Top {
        at_first,
        growth,
        steps: overtaken.min().unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_top_is_the_slowest_share_of_every_step(
            ranks in prop::collection::vec((0u64..200, 0u64..6, 0u64..300), 1..6), steps in 1u64..120,
        ) {
            let shares: Vec<Share> = ranks
                .iter()
                .map(|&(at_first, growth, floor)| Share {
                    at_first: Picos(at_first), growth: Picos(growth), floor: Picos(floor),
                })
                .collect();
            let top = top(&shares);
            let slowest = |step: u64| shares.iter().map(|share| share.at(step)).max().unwrap();
            for step in 0..steps.min(top.steps) {
                prop_assert_eq!(top.at_first + top.growth * step, slowest(step));
            }
            if top.steps < steps {
                prop_assert!(top.at_first + top.growth * top.steps < slowest(top.steps));
            }
            for share in &shares {
                let walked: u64 = (0..steps).map(|step| share.at(step).0).sum();
                prop_assert_eq!(share.sum(steps), u128::from(walked));
            }
        }
    }
}
