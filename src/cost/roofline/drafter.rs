//! What drafting takes (SD-6): one pass of the drafter over what the model has just computed, then one for each further draft, of a
//! token of every sequence that sampled.
//!
//! Its launches are taken to be hidden behind the model's (it replays graphs of its own), and no pass waits for the host: a bound from
//! below, so the part's trust is a prior's at best. Law: more drafts never take less.

use super::super::kernel::GemmShape;
use super::{Placement, RooflineCost, RooflineError};
use crate::cost::calibration::Calibration;
use crate::cost::{Breakdown, DecodeCost, Part, StepCost, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{Drafter, ModelShape};
use crate::units::Picos;

/// Speculative decoding, as far as step time depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafting {
    /// Drafts that are verified beside each decoded token.
    pub drafts: u32,
    /// What makes them; nothing that takes a GPU's time where they are looked up.
    pub drafter: Option<Drafter>,
}

/// A drafter's passes.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    cost: Box<RooflineCost>,
    drafts: u32,
}

impl Passes {
    /// Resolves the calibration for a drafter beside its model.
    pub(super) fn new(
        device: &Device,
        calibration: &Calibration,
        placement: &Placement,
        drafting: &Drafting,
    ) -> Result<Option<Passes>, RooflineError> {
        let Some(drafter) = &drafting.drafter else {
            return Ok(None);
        };
        let placement = Placement {
            drafting: None,
            ..placement.clone()
        };
        let shape: &ModelShape = &drafter.shape;
        let mut cost = RooflineCost::new(device, shape, calibration, &placement)?;
        cost.host.hide();
        let width = u64::from(shape.hidden_size);
        if drafter.joined > 0 {
            let bytes = shape.dtype.bytes() as f64;
            cost.operators.join(&GemmShape {
                m: 1,
                n: width,
                k: width * u64::from(drafter.joined),
                weight_bytes: bytes,
                input_bytes: bytes,
                output_bytes: bytes,
            });
        }
        Ok(Some(Passes {
            cost: Box::new(cost),
            drafts: drafting.drafts,
        }))
    }

    /// What its passes behind a step add to the step's law.
    pub(super) fn law(&mut self, load: &StepLoad) -> DecodeCost {
        let sampled = load.sampled_rows - load.drafts;
        if sampled == 0 {
            // Nobody's drafts would be used, and none are made (0.33's `_drafts_unused`).
            return DecodeCost::default();
        }
        let first = self.cost.step_law(&first_pass(load));
        let next = self.cost.decode(sampled);
        let (further, sampled) = (u64::from(self.drafts - 1), u64::from(sampled));
        // Pass i reads i tokens more of every sequence than the first; who sampled behind a chunk has its context, too.
        let grown = sampled * further * (further + 1) / 2;
        let behind_chunks = further * contexts_behind_chunks(load);
        DecodeCost {
            base: first.base + next.base * further + next.per_kv_token * (grown + behind_chunks),
            per_kv_token: first.per_kv_token + next.per_kv_token * further,
            per_longest_token: first.per_longest_token + next.per_longest_token * further,
            kv_floor: first.kv_floor + next.kv_floor * further,
            floor: Picos::ZERO,
        }
    }

    /// All of it as one part.
    pub(super) fn part(&self, load: &StepLoad) -> Option<Part> {
        let mut passes = self.clone();
        let law = passes.law(load);
        let seconds = law.at(load.decode_kv_tokens, load.decode_longest).seconds();
        let first = self.cost.breakdown(&first_pass(load));
        let sampled = load.sampled_rows - load.drafts;
        let mut next_load = StepLoad {
            sampled_rows: sampled,
            ..StepLoad::default()
        };
        let context = load
            .decode_kv_tokens
            .checked_div(load.decode_seqs.into())
            .unwrap_or(1);
        (0..sampled).for_each(|_| next_load.add(context as u32, 1));
        let next = self.cost.breakdown(&next_load);
        let further = f64::from(self.drafts - 1);
        let sum = |of: fn(&Part) -> f64| {
            let all = |told: &Breakdown| told.parts.iter().map(of).sum::<f64>();
            all(&first) + further * all(&next)
        };
        let worst = first.parts.iter().map(|part| part.trust).max();
        (sampled > 0).then(|| Part {
            operator: "drafter".to_owned(),
            seconds,
            flops: sum(|part| part.flops),
            bytes: sum(|part| part.bytes),
            trust: worst.unwrap_or(Trust::Prior).max(Trust::Prior),
        })
    }
}

/// What the drafter computes first: all tokens of the step, and a draft for whoever sampled.
fn first_pass(load: &StepLoad) -> StepLoad {
    StepLoad {
        sampled_rows: load.sampled_rows - load.drafts,
        ..load.clone()
    }
}

/// Contexts of those who sampled and are no decodes of the step.
fn contexts_behind_chunks(load: &StepLoad) -> u64 {
    let ends = u64::from((load.sampled_rows - load.drafts).saturating_sub(load.decode_seqs));
    let contexts: u64 = load
        .chunks
        .iter()
        .map(|chunk| u64::from(chunk.computed) + u64::from(chunk.new))
        .sum();
    (contexts * ends)
        .checked_div(load.chunks.len() as u64)
        .unwrap_or(0)
}
