//! A step time that does not depend on the work, for queueing tests with closed forms.
//!
//! Law: [`StepCost`]'s.

use super::{Breakdown, DecodeCost, Part, StepCost, StepLoad, Trust};
use crate::units::Picos;

/// Every step takes `per_step`, and `per_decode_seq` more for each decoding sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantCost {
    /// Time of any step.
    pub per_step: Picos,
    /// Added for each sequence that brings exactly one token.
    pub per_decode_seq: Picos,
}

impl StepCost for ConstantCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            base: self.per_step + self.per_decode_seq * u64::from(batch),
            per_kv_token: Picos::ZERO,
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos::ZERO,
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.per_step + self.per_decode_seq * u64::from(load.decode_seqs)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let time = self.per_step + self.per_decode_seq * u64::from(load.decode_seqs);
        let part = Part {
            operator: "step".to_owned(),
            seconds: time.seconds(),
            flops: 0.0,
            bytes: 0.0,
            trust: Trust::Prior,
        };
        Breakdown { parts: vec![part] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_without_chunks_is_a_decode_step(batch in 1_u32..2000, kv in 1_u64..10_000_000) {
            let mut cost = ConstantCost { per_step: Picos(7_000_000), per_decode_seq: Picos(31) };
            let load = StepLoad { decode_seqs: batch, decode_kv_tokens: kv, decode_longest: 9, sampled_rows: batch, ..StepLoad::default() };
            prop_assert_eq!(cost.step(&load), cost.decode(batch).at(kv, 9));
        }
    }
}
