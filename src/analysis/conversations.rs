//! Conversations of several turns: how long it takes from an empty beginning until as many are under way as will be.
//!
//! Whoever begins sends a first turn at once, and the next ones after each answer and a time of thinking: until the first
//! conversations have ended fewer requests come than will, and with less said before. The number inside returns to its mean
//! again and again meanwhile, so that nothing but the length of a conversation tells that it is not the mean of a longer run.

use crate::workload::{Prefix, WorkloadSpec, mean_rate};

/// The law of conversations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversations {
    /// Mean number of turns after the first.
    further: f64,
    /// All have as many; else it is geometric.
    is_fixed: bool,
    /// Mean time of thinking before a turn, exponential.
    think_s: f64,
    /// Requests per second of all traffic in the end; `None` where it has no rate.
    pub(super) requests_per_s: Option<f64>,
}

/// Deviations of a conversation's length beyond its mean after which hardly any of those that began first go on.
const LONG: f64 = 2.0;
/// Mean lengths of conversations that end by chance after which a twentieth of the turns are still to come.
const FADED: f64 = 3.0;
/// Seconds that an answer takes, to tell which of several laws has the longest conversations.
const USUAL_STAY_S: f64 = 5.0;

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
                requests_per_s: mean_rate(workload),
            }),
            _ => None,
        };
        let all = workload.parts();
        let all = all.iter().filter_map(of_part);
        let settle_s = |law: &Conversations| law.settle_s(USUAL_STAY_S);
        all.max_by(|a, b| settle_s(a).total_cmp(&settle_s(b)))
    }

    /// Seconds until turns come about as often as they will, where an answer takes `stay_s`. The length of a conversation of
    /// `k` further turns is a sum of `k` exponential times, whose deviation is `√k` of them; where each turn is the last by chance,
    /// what goes on fades exponentially, a turn later with `k` further ones on average.
    #[must_use]
    pub fn settle_s(&self, stay_s: f64) -> f64 {
        let each_s = self.think_s + stay_s;
        match self.is_fixed {
            true => each_s * (self.further + LONG * self.further.sqrt()),
            false => FADED * each_s * (self.further + 1.0),
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
            requests_per_s: None,
        };
        // Four further turns after 32 s each on average.
        assert!((of(4.0, true).settle_s(2.0) - 256.0).abs() < 1e-9);
        assert!((of(4.0, false).settle_s(2.0) - 480.0).abs() < 1e-9);
    }

    /// Of conversations that begin evenly, how many turns have come after `settle_s` of those that come per second in the end.
    #[test]
    fn hardly_a_turn_is_missing_once_they_have_settled() {
        for (further, is_fixed) in [
            (1_u32, true),
            (4, true),
            (20, true),
            (1, false),
            (4, false),
            (20, false),
        ] {
            let law = Conversations {
                further: f64::from(further),
                is_fixed,
                think_s: 1.0,
                requests_per_s: None,
            };
            let settle_s = law.settle_s(0.0);
            // The k-th further turn comes after a gamma time of k, and is there with its share of conversations.
            let goes_on = f64::from(further) / (f64::from(further) + 1.0);
            let (mut come, mut all) = (1.0, 1.0);
            for k in 1..=400_u32 {
                let share = match is_fixed {
                    true => f64::from(u8::from(k <= further)),
                    false => goes_on.powi(k as i32),
                };
                let later = statrs::distribution::Gamma::new(f64::from(k), 1.0).unwrap();
                all += share;
                come += share * statrs::distribution::ContinuousCDF::cdf(&later, settle_s);
            }
            assert!(come / all > 0.94, "{further} {is_fixed}: {}", come / all);
        }
    }
}
