//! What a drafter's passes read, each its weights and its KV: the first over all tokens of a step, each further one over a token
//! of every sequence and branch (SD-6).
//!
//! Left out: passes that find nobody to draft for. Experts of further passes are those of a step of the run's mean number of rows, which
//! are rather too many where steps differ.

use super::{WorkRates, WorkSums, work_rates};
use crate::cost::roofline::Placement;
use crate::hardware::Device;

/// What drafting adds to the bytes of steps; nothing where no network drafts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DrafterRates {
    /// Tokens that a sequence has computed in a decode step: one, and its drafts.
    verified: f64,
    passes: Option<Passes>,
}

#[derive(Clone, Debug, PartialEq)]
struct Passes {
    /// Of the drafter as a model by itself.
    rates: Box<WorkRates>,
    /// The projection that joins hidden states, whole on every GPU.
    joining: f64,
    /// Passes after the first.
    further: f64,
    branches: f64,
}

impl DrafterRates {
    /// Of the drafter that stands beside a model.
    pub(super) fn of(device: &Device, placement: &Placement) -> DrafterRates {
        let Some(drafting) = &placement.drafting else {
            return DrafterRates {
                verified: 1.0,
                passes: None,
            };
        };
        let alone = Placement {
            drafting: None,
            ..placement.clone()
        };
        let passes = drafting.drafter.as_ref().map(|drafter| Passes {
            rates: Box::new(work_rates(device, &drafter.shape, &alone)),
            joining: f64::from(placement.tensor_parallel.max(1)) * drafter.joining_bytes().0 as f64,
            further: f64::from(drafting.levels.saturating_sub(1)),
            branches: f64::from(drafting.branches),
        });
        DrafterRates {
            verified: f64::from(1 + drafting.drafts),
            passes,
        }
    }

    /// Tokens of a sequence in a decode step.
    pub(super) fn verified(&self) -> f64 {
        self.verified
    }

    /// Weights and KV that the passes of a decode step read.
    pub(super) fn bytes_of_step(&self, sequences: f64, kv_tokens: f64) -> f64 {
        let passes = self.passes.as_ref();
        passes.map_or(0.0, |passes| {
            passes.bytes_of_step(sequences, self.verified, kv_tokens)
        })
    }

    /// The same of a run, with what its tokens move beside.
    pub(super) fn bytes(&self, work: &WorkSums) -> f64 {
        let passes = self.passes.as_ref();
        passes.map_or(0.0, |passes| {
            passes.bytes(work, work.decoded_tokens / self.verified)
        })
    }
}

impl Passes {
    fn bytes_of_step(&self, sequences: f64, verified: f64, kv_tokens: f64) -> f64 {
        let rates = &self.rates;
        rates.weight_bytes(sequences * verified)
            + self.further * rates.weight_bytes(sequences * self.branches)
            + (1.0 + self.further) * self.joining
            + (1.0 + self.further * self.branches) * kv_tokens * rates.bytes_per_kv_token
    }

    /// Of a run whose sequences decode so many times.
    fn bytes(&self, work: &WorkSums, decodes: f64) -> f64 {
        let first = WorkSums {
            sampled_rows: decodes,
            ..*work
        };
        let rows = decodes * self.branches;
        let mut next = WorkSums {
            steps: work.steps,
            tokens: rows,
            decoded_tokens: rows,
            sampled_rows: rows,
            decode_kv_tokens: work.decode_kv_tokens * self.branches + work.chunk_kv_tokens,
            ..WorkSums::default()
        };
        let rows_of_step = (rows / work.steps.max(1.0)).round().max(1.0);
        next.by_size.add(rows_of_step as u64, work.steps as u64);
        self.rates.bytes(&first)
            + self.further * self.rates.bytes(&next)
            + (1.0 + self.further) * work.steps * self.joining
    }
}
