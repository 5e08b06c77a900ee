//! What drafting takes (SD-6): one pass of the drafter over what the model has just computed, then one for each further level of drafts,
//! of a token of every sequence that sampled and for each branch. Where those come before the verification (SGLang) they read as many tokens
//! less of a context as are verified, which is not counted.
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
    /// Passes that make them, each a level: as many as there are drafts in a chain.
    pub levels: u32,
    /// Drafts behind each at the next level; 1 is a chain.
    pub branches: u32,
    /// All but the first pass are in the step that verifies, before it, and so of those who decode only (SGLang); else they are behind the
    /// step before, of whoever sampled there.
    pub precede: bool,
    /// What makes them; nothing that takes a GPU's time where they are looked up.
    pub drafter: Option<Drafter>,
}

/// A drafter's passes.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    cost: Box<RooflineCost>,
    levels: u32,
    branches: u32,
    precede: bool,
    /// A model by itself drafts.
    is_model: bool,
    scale: f64,
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
            levels: drafting.levels,
            branches: drafting.branches,
            precede: drafting.precede,
            is_model: drafter.joined == 0,
            scale: calibration.scale_of("drafter"),
        }))
    }

    /// What its passes behind a step add to the step's law. Its KV is filled in any case; where nobody samples, nobody's drafts would
    /// be used, and a head makes none (0.33's `_drafts_unused`), while a model runs all of its passes.
    pub(super) fn law(&mut self, load: &StepLoad) -> DecodeCost {
        let Walk {
            first_rows,
            further,
            rows,
        } = self.walk(load);
        let one = self.cost.law_of_rows(load, first_rows);
        let next = self.cost.decode(rows);
        // Every branch reads the context of its sequence.
        let readers = further * u64::from(self.branches);
        let rows = u64::from(rows);
        // Pass i reads i tokens more of every sequence than the first; who has a chunk has its context, too.
        let grown = rows * further * (further + 1) / 2;
        let chunks: u64 = load
            .chunks
            .iter()
            .map(|chunk| u64::from(chunk.computed) + u64::from(chunk.new))
            .sum();
        let scaled = |time: Picos| match self.scale == 1.0 {
            true => time,
            false => Picos((time.0 as f64 * self.scale).round() as u64),
        };
        DecodeCost {
            base: scaled(one.base + next.base * further + next.per_kv_token * (grown + chunks * further)),
            per_kv_token: scaled(one.per_kv_token + next.per_kv_token * readers),
            // No drafter of a model with sparse attention is modelled.
            per_token_beyond: Picos::ZERO,
            per_longest_token: scaled(one.per_longest_token + next.per_longest_token * further),
            kv_floor: scaled(one.kv_floor + next.kv_floor * further),
            floor: Picos::ZERO,
        }
    }

    /// All of it as one part.
    pub(super) fn part(&self, load: &StepLoad) -> Part {
        let mut passes = self.clone();
        let seconds = passes
            .law(load)
            .at(load.decode_kv_tokens, load.decode_longest)
            .seconds();
        let Walk {
            first_rows,
            further,
            rows,
        } = self.walk(load);
        let first = StepLoad {
            sampled_rows: first_rows,
            ..load.clone()
        };
        let context = load
            .decode_kv_tokens
            .checked_div(load.decode_seqs.into())
            .unwrap_or(1);
        let mut next = StepLoad {
            sampled_rows: rows,
            ..StepLoad::default()
        };
        (0..rows).for_each(|_| next.add(context as u32, 1));
        let (one, next) = (self.cost.breakdown(&first), self.cost.breakdown(&next));
        let sum = |of: fn(&Part) -> f64| {
            let all = |told: &Breakdown| told.parts.iter().map(of).sum::<f64>();
            all(&one) + further as f64 * all(&next)
        };
        let worst = one.parts.iter().map(|part| part.trust).max();
        Part {
            operator: "drafter".to_owned(),
            seconds,
            flops: sum(|part| part.flops),
            bytes: sum(|part| part.bytes),
            trust: worst.unwrap_or(Trust::Prior).max(Trust::Prior),
        }
    }

    /// What it computes behind a step: all tokens of the step once, and a token of every sequence in each further pass.
    fn walk(&self, load: &StepLoad) -> Walk {
        let rows = load.decode_seqs + load.chunks.len() as u32;
        let further = u64::from(self.levels - 1);
        if self.precede {
            return Walk {
                first_rows: rows,
                further: if load.drafts > 0 { further } else { 0 },
                rows: load.decode_seqs * self.branches,
            };
        }
        let drafts = load.sampled_rows > 0 || self.is_model;
        Walk {
            first_rows: u32::from(drafts) * rows,
            further: u64::from(drafts) * further,
            rows,
        }
    }
}

/// The passes of a step.
struct Walk {
    /// Rows for which the first drafts.
    first_rows: u32,
    /// Passes after the first.
    further: u64,
    /// Sequences in each of them.
    rows: u32,
}
