//! Conversations of several turns: how long it takes from an empty beginning until as many are under way as will be.
//!
//! Whoever begins sends a first turn at once, and the next ones after each answer and a time of thinking: until the first
//! conversations have ended fewer requests come than will, and with less said before. The number inside returns to its mean
//! again and again meanwhile, so that nothing but the length of a conversation tells that it is not the mean of a longer run.

use crate::workload::{Prefix, WorkloadSpec};

/// The law of conversations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversations {
    /// Mean number of turns after the first.
    further: f64,
    /// All have as many; else it is geometric.
    is_fixed: bool,
    /// Mean time of thinking before a turn, exponential.
    think_s: f64,
}

/// Deviations of a conversation's length beyond its mean after which hardly any of those that began first go on.
const LONG: f64 = 2.0;
/// Mean lengths of conversations that end by chance after which a twentieth of them go on.
const FADED: f64 = 3.0;

impl Conversations {
    /// Those of this traffic; of several classes those that last longest. `None` where all requests stand alone.
    #[must_use]
    pub fn of(workload: &WorkloadSpec) -> Option<Conversations> {
        let of_part = |part: &&WorkloadSpec| match part.prefix {
            Prefix::Sessions {
                turns,
                fixed_turns,
                think_time,
                ..
            } if turns > 1.0 => Some(Conversations {
                further: turns - 1.0,
                is_fixed: fixed_turns,
                think_s: think_time.seconds(),
            }),
            _ => None,
        };
        let all = workload.parts();
        let all = all.iter().filter_map(of_part);
        all.max_by(|a, b| a.settle_s(0.0).total_cmp(&b.settle_s(0.0)))
    }

    /// Seconds until turns come about as often as they will, where an answer takes `stay_s`. The length of a conversation of
    /// `k` further turns is a sum of `k` exponential times, whose deviation is `√k` of them; of a geometric number of turns it is
    /// exponential itself.
    #[must_use]
    pub fn settle_s(&self, stay_s: f64) -> f64 {
        let each_s = self.think_s + stay_s;
        match self.is_fixed {
            true => each_s * (self.further + LONG * self.further.sqrt()),
            false => FADED * each_s * self.further,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_long_conversations_come_late() {
        let of = |further, is_fixed| Conversations {
            further,
            is_fixed,
            think_s: 30.0,
        };
        // Four further turns after 32 s each on average.
        assert!((of(4.0, true).settle_s(2.0) - 256.0).abs() < 1e-9);
        assert!((of(4.0, false).settle_s(2.0) - 384.0).abs() < 1e-9);
    }
}
