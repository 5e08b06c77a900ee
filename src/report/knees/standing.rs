//! Where settings stand beside the best of those that were searched to their end: by cost where any is known, else by what they
//! serve. Which of the others cannot be told from the best is what text, CSV, JSON and the picture all say.
//!
//! Law: a search that was cut short is not ranked. What it found until then is no knee, and what others would have cost is not known.

use std::cmp::Ordering;

use crate::analysis::Estimate;
use crate::analysis::costs::{Cost, reach_of_rate};

/// What a setting is ranked by, and how well that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rank {
    /// What it costs, and of two that cost the same what the lesser is the better of: how loaded its replicas are.
    Cost(Cost, f64),
    Rate(Estimate),
}

impl Rank {
    /// The better first.
    pub(super) fn order(&self, other: &Rank) -> Ordering {
        let key = |rank: &Rank| match rank {
            Rank::Cost(cost, load) => (cost.usd, *load),
            Rank::Rate(rate) => (-rate.value, 0.0),
        };
        let (own, other) = (key(self), key(other));
        own.0.total_cmp(&other.0).then(own.1.total_cmp(&other.1))
    }

    fn beside(&self, best: &Rank) -> Standing {
        let (is_by_chance, is_worse) = match (self, best) {
            (Rank::Cost(own, _), Rank::Cost(best, _)) => {
                (!own.is_dearer_by_chance(best), own.is_dearer_than(best))
            }
            (Rank::Rate(own), Rank::Rate(best)) => {
                // As of two costs: what may be off is not added up end to end.
                let apart = reach_of_rate(*own).0.hypot(reach_of_rate(*best).1);
                let is_worse = (best.value / own.value).ln() > apart;
                (!is_worse, is_worse)
            }
            _ => (true, false),
        };
        match (is_worse, is_by_chance) {
            (true, _) => Standing::Worse,
            (false, true) => Standing::Alike(Doubt::Chance),
            (false, false) => Standing::Alike(Doubt::Model),
        }
    }
}

/// What hides which of two settings is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Chance alone: another run may have them the other way round.
    Chance,
    /// They differ by more than chance, and by less than the step times of either may be off.
    Model,
}

impl Doubt {
    /// As files spell it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Doubt::Chance => "chance",
            Doubt::Model => "model",
        }
    }
}

/// How a setting compares with the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the best.
    Best,
    /// It cannot be told from the best, for this reason.
    Alike(Doubt),
    /// It is worse beyond what both may be off by.
    Worse,
}

impl Standing {
    /// As files spell it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Standing::Best => "best",
            Standing::Alike(_) => "alike",
            Standing::Worse => "worse",
        }
    }

    /// Why it cannot be told from the best, where it cannot.
    pub(super) fn doubt(self) -> Option<Doubt> {
        match self {
            Standing::Alike(doubt) => Some(doubt),
            Standing::Best | Standing::Worse => None,
        }
    }
}

/// Where each stands, in their order; `None` of those without a rank.
pub(super) fn standings(ranks: &[Option<Rank>]) -> Vec<Option<Standing>> {
    let known = ranks
        .iter()
        .enumerate()
        .filter_map(|(at, rank)| Some((at, rank.as_ref()?)));
    // Of several that are equal the first.
    let best = known.min_by(|(_, a), (_, b)| a.order(b));
    let standing = |(at, rank): (usize, &Option<Rank>)| {
        let (rank, (best_at, best)) = (rank.as_ref()?, best?);
        Some(match at == best_at {
            true => Standing::Best,
            false => rank.beside(best),
        })
    };
    ranks.iter().enumerate().map(standing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_as_good_as_the_best_is_alike() {
        let rate = |value: f64| {
            Some(Rank::Rate(Estimate {
                value,
                low: value / 1.1,
                high: value * 1.1,
            }))
        };
        let words = |ranks: &[Option<Rank>]| -> Vec<&'static str> {
            let standings = standings(ranks).into_iter();
            standings
                .map(|standing| standing.map_or("", Standing::word))
                .collect()
        };
        // √2 · 0.08 is a factor of 1.12.
        let ranks = [rate(40.0), None, rate(44.0), rate(39.0)];
        assert_eq!(words(&ranks), ["alike", "", "best", "worse"]);
        assert_eq!(words(&[rate(40.0), rate(40.0)]), ["best", "alike"]);
        assert_eq!(words(&[None]), [""]);
    }
}
