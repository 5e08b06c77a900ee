//! What the ranks of a data-parallel server share: routed experts, and moving every token to them and back.
//!
//! Without expert parallelism each GPU holds a slice of every expert, with it some experts whole (EP-5); either way each
//! layer with experts sees the tokens of all ranks. vLLM's default moves them by an all-gather and a reduce-scatter over all
//! GPUs (`allgather_reducescatter`), which together are one all-reduce. With whole experts the fullest GPU decides:
//! `1 + sqrt(2·ln R·R/m)` times the mean for `m` routed rows on `R` GPUs (EP-4).
//!
//! Left out: all-to-all kernels that send a token only where it is routed (DeepEP), redundant experts (EPLB).

use super::kernels::Operators;
use super::{Placement, RooflineError, look_up};
use crate::cost::calibration::Calibration;
use crate::cost::{Part, SharedCost};
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::units::Picos;

/// Makes a fresh one for each run: it tabulates as it goes.
pub type SharedMaker = std::sync::Arc<dyn Fn() -> Box<dyn SharedCost> + Send + Sync>;

/// Experts of one model on all GPUs of a data-parallel server.
#[derive(Clone, Debug)]
pub struct SharedExperts {
    operators: Operators,
    picos: Vec<u64>,
}

impl SharedExperts {
    /// The shared part of a placement with several data-parallel ranks.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<SharedExperts, RooflineError> {
        let operators = Operators::of_experts(device, shape, calibration, placement).map_err(|block| {
            RooflineError::Lacking {
                calibration: calibration.name.clone(),
                block,
            }
        })?;
        Ok(SharedExperts {
            operators,
            picos: Vec::new(),
        })
    }

    /// Makes equal ones, one for each run.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn maker(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<SharedMaker, RooflineError> {
        let made = SharedExperts::new(device, shape, calibration, placement)?;
        Ok(std::sync::Arc::new(move || {
            Box::new(made.clone()) as Box<dyn SharedCost>
        }))
    }

    /// One entry an operator for the tokens of all ranks.
    pub(super) fn parts(&self, tokens: u64) -> Vec<Part> {
        self.operators.expert_parts(tokens)
    }
}

impl SharedCost for SharedExperts {
    fn all_tokens(&mut self, tokens: u64) -> Picos {
        let operators = &self.operators;
        Picos(look_up(&mut self.picos, tokens, || {
            operators.expert_parts(tokens)
        }))
    }
}
