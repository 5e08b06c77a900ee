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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::roofline::RooflineCost;
    use crate::cost::testing::{device, placement};
    use crate::cost::{DecodeCost, StepCost, StepLoad};

    fn with(ranks: u32, whole: bool) -> (RooflineCost, Option<SharedExperts>) {
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let (shape, _) = crate::model::find("Qwen/Qwen3-30B-A3B").expect("it is bundled");
        let placement = Placement {
            data_parallel: ranks,
            expert_parallel: whole,
            ..placement()
        };
        let own = RooflineCost::new(&device, &shape, &calibration, &placement);
        let shared = (ranks > 1).then(|| SharedExperts::new(&device, &shape, &calibration, &placement));
        let shared = shared.map(|shared| shared.expect("the calibration is whole"));
        (own.expect("the calibration is whole"), shared)
    }

    #[test]
    fn more_tokens_never_take_less() {
        for whole in [false, true] {
            let (_, shared) = with(4, whole);
            let mut shared = shared.expect("ranks share");
            let times: Vec<Picos> = (1..3000)
                .step_by(7)
                .map(|tokens| shared.all_tokens(tokens))
                .collect();
            assert!(times.is_sorted(), "whole experts: {whole}");
        }
    }

    #[test]
    fn the_parts_add_up_to_a_step_of_equal_ranks() {
        let (mut own, shared) = with(4, false);
        let mut shared = shared.expect("ranks share");
        // A captured batch, one that is padded to the next, and one beyond all graphs.
        for batch in [8_u32, 9, 600] {
            let load = StepLoad {
                decode_seqs: batch,
                decode_kv_tokens: 700 * u64::from(batch),
                decode_longest: 700,
                sampled_rows: batch,
                ..StepLoad::default()
            };
            let computed = own.replayed(batch).unwrap_or(batch);
            let law = own.decode(batch);
            let law = DecodeCost {
                base: law.base + shared.all_tokens(4 * u64::from(computed)),
                ..law
            };
            let step = law.at(load.decode_kv_tokens, load.decode_longest).seconds();
            let parts: f64 = own.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
            assert!(
                (parts / step - 1.0).abs() < 1e-6,
                "batch {batch}: {parts} and {step}"
            );
        }
    }

    #[test]
    fn sharing_experts_pays_where_they_decide() {
        // A decode step of one engine reads almost all experts; of four engines each reads a quarter of them.
        let step = |ranks: u32, whole: bool| {
            let (mut own, shared) = with(ranks, whole);
            let beside = shared.map_or(Picos::ZERO, |mut shared| shared.all_tokens(64 * u64::from(ranks)));
            (own.decode(64).at(64 * 1000, 1000) + beside).seconds()
        };
        let alone = step(1, false);
        for whole in [false, true] {
            let together = step(4, whole);
            assert!(
                together < 0.8 * alone,
                "whole {whole}: {together} against {alone}"
            );
        }
    }
}
