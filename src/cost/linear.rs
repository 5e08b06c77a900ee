//! A linear law of step time: `dt = s + t·Σn + a·Σ n·(computed + (n+1)/2)`.
//!
//! It is the law under which schedules of real engines were recorded, so it is what conformance replays. It knows
//! neither a floor nor a device. Law: [`StepCost`]'s, and exactness: see [`LinearCost::new`].

use super::{Breakdown, DecodeCost, Part, StageCosts, StepCost, StepLoad, Trust};
use crate::units::Picos;

/// Step time linear in tokens and in attended (query, key) pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearCost {
    per_step: Picos,
    per_token: Picos,
    per_attended_token: Picos,
}

impl LinearCost {
    /// Rounds each coefficient, in seconds, once to the nearest picosecond.
    ///
    /// With coefficients that are whole picoseconds (6 ms, 20 µs, 1.5 ns) a decode-only step is exact and a step with
    /// chunks loses less than one picosecond, where an odd coefficient meets half a pair. Other coefficients are off
    /// by at most half a picosecond for each token or pair.
    ///
    /// # Panics
    /// If a coefficient is negative, not finite or beyond the clock.
    #[must_use]
    pub fn new(per_step_s: f64, per_token_s: f64, per_attended_token_s: f64) -> LinearCost {
        LinearCost {
            per_step: Picos::from_seconds(per_step_s),
            per_token: Picos::from_seconds(per_token_s),
            per_attended_token: Picos::from_seconds(per_attended_token_s),
        }
    }

    /// Seconds of a step, for each token in it, and for each attended pair.
    #[must_use]
    pub fn seconds(&self) -> [f64; 3] {
        [self.per_step, self.per_token, self.per_attended_token].map(Picos::seconds)
    }

    /// Takes no time.
    pub const NOTHING: LinearCost = LinearCost {
        per_step: Picos::ZERO,
        per_token: Picos::ZERO,
        per_attended_token: Picos::ZERO,
    };

    fn attention(&self, load: &StepLoad) -> Picos {
        Picos(self.per_attended_token.0 * load.attended_pairs_doubled() / 2)
    }
}

impl StepCost for LinearCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            base: self.per_step + self.per_token * u64::from(batch),
            per_kv_token: self.per_attended_token,
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos::ZERO,
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.per_step + self.per_token * load.tokens() + self.attention(load)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let part = |operator: &str, time: Picos| Part {
            operator: operator.to_owned(),
            seconds: time.seconds(),
            flops: 0.0,
            bytes: 0.0,
            // It is so because it is said so.
            trust: Trust::Measured,
        };
        Breakdown {
            parts: vec![
                part("step", self.per_step),
                part("tokens", self.per_token * load.tokens()),
                part("attention", self.attention(load)),
            ],
        }
    }
}

/// Such laws of the stages of a pipeline, of what comes before the first, and of the way from one to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearStages {
    /// From the decision of a step to where the first stage can begin.
    pub preparation: LinearCost,
    /// Two or more.
    pub stages: Vec<LinearCost>,
    /// Between two of them.
    pub transfer: LinearCost,
}

impl LinearStages {
    /// All that a step meets on its way.
    fn way(&self) -> impl Iterator<Item = LinearCost> {
        let transfers = std::iter::repeat_n(self.transfer, self.stages.len() - 1);
        std::iter::once(self.preparation)
            .chain(self.stages.iter().copied())
            .chain(transfers)
    }
}

impl StepCost for LinearStages {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let mut sum = DecodeCost::default();
        for mut part in self.way() {
            let law = part.decode(batch);
            sum.base += law.base;
            sum.per_kv_token += law.per_kv_token;
        }
        sum
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.way()
            .fold(Picos::ZERO, |sum, mut part| sum + part.step(load))
    }

    fn stages(&mut self) -> Option<&mut dyn StageCosts> {
        Some(self)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let parts = self.way().flat_map(|part| part.breakdown(load).parts);
        Breakdown {
            parts: parts.collect(),
        }
    }
}

impl StageCosts for LinearStages {
    fn count(&self) -> usize {
        self.stages.len()
    }

    fn preparation(&mut self, load: &StepLoad) -> Picos {
        self.preparation.step(load)
    }

    fn stage(&mut self, at: usize, load: &StepLoad) -> Picos {
        self.stages[at].step(load)
    }

    fn transfer(&mut self, _: usize, load: &StepLoad) -> Picos {
        self.transfer.step(load)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::*;
    use proptest::prelude::*;

    /// The coefficients of the recorded schedules.
    fn recorded() -> LinearCost {
        LinearCost::new(0.006, 2e-5, 1.5e-9)
    }

    #[test]
    fn a_chunk_attends_to_its_past_and_to_half_of_itself() {
        let load = StepLoad {
            chunks: vec![Chunk {
                computed: 100,
                new: 50,
            }],
            ..StepLoad::default()
        };
        let seconds = 0.006 + 2e-5 * 50.0 + 1.5e-9 * 50.0 * (100.0 + 25.5);
        assert_eq!(recorded().step(&load), Picos::from_seconds(seconds));
    }

    #[test]
    fn ten_thousand_steps_stay_within_a_tenth_of_a_microsecond_of_floating_point() {
        let mut cost = recorded();
        let (mut clock, mut exact) = (Picos::ZERO, 0.0);
        for step in 0..10_000_u32 {
            let (c, q) = (step % 777, 2 + step % 511);
            let load = StepLoad {
                decode_seqs: 3,
                decode_kv_tokens: u64::from(1000 + step),
                decode_longest: 500,
                chunks: vec![Chunk { computed: c, new: q }],
                sampled_rows: 4,
                ..StepLoad::default()
            };
            clock += cost.step(&load);
            let pairs = f64::from(1000 + step) + f64::from(q) * (f64::from(c) + (f64::from(q) + 1.0) / 2.0);
            exact += 0.006 + 2e-5 * f64::from(3 + q) + 1.5e-9 * pairs;
        }
        assert!(
            (clock.seconds() - exact).abs() < 1e-7,
            "{} {exact}",
            clock.seconds()
        );
    }

    proptest! {
        #[test]
        fn a_step_without_chunks_is_a_decode_step(batch in 1_u32..2000, kv in 1_u64..10_000_000, a in 0_u64..99_999) {
            let mut cost = LinearCost::new(0.006, 2e-5, a as f64 * 1e-12);
            let load = StepLoad { decode_seqs: batch, decode_kv_tokens: kv, decode_longest: 9, sampled_rows: batch, ..StepLoad::default() };
            prop_assert_eq!(cost.step(&load), cost.decode(batch).at(kv, 9));
        }
    }
}
