//! A step cost that is asked once for each batch size.
//!
//! Runs of decode steps ask for the same few laws all the time; what a law costs to make is the cost model's affair.

use crate::cost::{DecodeCost, StageCosts, StepCost, StepLoad};
use crate::units::Picos;

/// A cost model and its answers.
pub(crate) struct Priced {
    cost: Box<dyn StepCost>,
    /// Answers of [`StepCost::decode`] by batch size.
    laws: Vec<Option<DecodeCost>>,
}

impl Priced {
    pub(crate) fn new(cost: Box<dyn StepCost>) -> Priced {
        Priced {
            cost,
            laws: Vec::new(),
        }
    }

    /// The cost of decode-only steps of `batch` sequences.
    #[inline]
    pub(crate) fn decode(&mut self, batch: u32) -> &DecodeCost {
        let batch = batch as usize;
        if self.laws.get(batch).is_none_or(Option::is_none) {
            self.ask(batch);
        }
        self.laws[batch].as_ref().expect("it was asked")
    }

    /// The duration of a step in which everybody decodes.
    #[inline]
    pub(crate) fn decodes(&mut self, load: &StepLoad) -> Picos {
        self.decode(load.decode_seqs).of(load)
    }

    /// The duration of a step, by the law of decodes if it is nothing but them.
    #[inline]
    pub(crate) fn any(&mut self, load: &StepLoad) -> Picos {
        if load.only_decodes() {
            self.decodes(load)
        } else {
            self.step(load)
        }
    }

    /// The duration of a step that is more than decodes, or no decode to its engine.
    pub(crate) fn step(&mut self, load: &StepLoad) -> Picos {
        self.cost.step(load)
    }

    /// The duration of any step as a law of its contexts.
    pub(crate) fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        self.cost.step_law(load)
    }

    /// The duration of a step that replays no CUDA graph as a law of its contexts.
    pub(crate) fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        self.cost.eager_law(load)
    }

    /// Tokens of the pieces that a step with prompts of so many tokens replays, if any.
    pub(crate) fn replayed_pieces(&self, tokens: u64) -> Option<u64> {
        self.cost.replayed_pieces(tokens)
    }

    /// The duration of a step that replays pieces of so many tokens as a law of its contexts.
    pub(crate) fn pieces_law(&mut self, load: &StepLoad, tokens: u64) -> DecodeCost {
        self.cost.pieces_law(load, tokens)
    }

    /// The captured batch that a step of so many decodes replays, if any.
    pub(crate) fn replayed(&self, batch: u32) -> Option<u32> {
        self.cost.replayed(batch)
    }

    /// What a step takes stage by stage, where there are several.
    pub(crate) fn stages(&mut self) -> Option<&mut dyn StageCosts> {
        self.cost.stages()
    }

    #[cold]
    fn ask(&mut self, batch: usize) {
        let law = self.cost.decode(batch as u32);
        if self.laws.len() <= batch {
            self.laws.resize(batch + 1, None);
        }
        self.laws[batch] = Some(law);
    }
}
