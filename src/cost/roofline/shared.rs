//! What the ranks of a data-parallel server share: routed experts, and moving every token to them and back; where a
//! placement gathers all of a layer behind its attention, dense layers, shared experts and the choice of experts, too, and
//! the LM head where it is in common.
//!
//! Without expert parallelism each GPU holds a slice of every expert, with it some experts whole (EP-5); either way each
//! layer with experts sees the tokens of all ranks. vLLM's default moves them by an all-gather and a reduce-scatter over all
//! GPUs (`allgather_reducescatter`), which together are one all-reduce; TensorRT-LLM by NCCL's, or to where they are routed only (TR-16). With whole experts the fullest GPU decides:
//! `1 + sqrt(2·ln R·R/m)` times the mean for `m` routed rows on `R` GPUs (EP-4).
//!
//! Left out: other kernels that send a token only where it is routed (DeepEP), redundant experts (EPLB).

use super::kernels::Operators;
use super::{Placement, RooflineError, look_up};
use crate::cost::calibration::Calibration;
use crate::cost::{Moved, Part, SharedCost};
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
    summed_picos: Vec<u64>,
    row_picos: Vec<u64>,
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
            summed_picos: Vec::new(),
            row_picos: Vec::new(),
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
    pub(super) fn parts(&self, tokens: u64, moved: Moved) -> Vec<Part> {
        self.operators.expert_parts(tokens, moved)
    }

    /// How decodes are moved where all ranks have equally many.
    pub(super) fn usual_move(&self, tokens: u64) -> Moved {
        self.operators.usual_move(tokens)
    }

    /// The same for their logits; nothing where each computes its own.
    pub(super) fn row_parts(&self, rows: u64) -> Vec<Part> {
        self.operators.common_row_parts(rows)
    }
}

impl SharedCost for SharedExperts {
    fn all_tokens(&mut self, tokens: u64, moved: Moved) -> Picos {
        let operators = &self.operators;
        let table = match moved {
            Moved::Scattered => &mut self.picos,
            Moved::Summed => &mut self.summed_picos,
        };
        Picos(look_up(table, tokens, || operators.expert_parts(tokens, moved)))
    }

    fn all_rows(&mut self, rows: u64) -> Picos {
        let operators = &self.operators;
        Picos(look_up(&mut self.row_picos, rows, || {
            operators.common_row_parts(rows)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::roofline::{Gathers, RooflineCost};
    use crate::cost::testing::{device, placement};
    use crate::cost::{DecodeCost, StepCost, StepLoad};

    /// Each rank has its LM head and its embedding.
    const GATHERS: Gathers = Gathers {
        logits: false,
        splits_embedding: false,
        sums_up_to: 0,
    };

    fn with(ranks: u32, whole: bool) -> (RooflineCost, Option<SharedExperts>) {
        let placement = Placement {
            data_parallel: ranks,
            expert_groups: if whole { ranks } else { 1 },
            ..placement()
        };
        of("Qwen/Qwen3-30B-A3B", &placement)
    }

    fn of(model: &str, placement: &Placement) -> (RooflineCost, Option<SharedExperts>) {
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let (shape, _) = crate::model::find(model).expect("it is bundled");
        let ranks = placement.data_parallel;
        let own = RooflineCost::new(&device, &shape, &calibration, placement);
        let shared = (ranks > 1).then(|| SharedExperts::new(&device, &shape, &calibration, placement));
        let shared = shared.map(|shared| shared.expect("the calibration is whole"));
        (own.expect("the calibration is whole"), shared)
    }

    /// Two ranks with four tokens each stream together what one does of eight, and their own dense layers.
    #[test]
    fn ranks_stream_the_experts_that_the_tokens_of_all_activate() {
        let (shape, _) = crate::model::find("deepseek-ai/DeepSeek-V2-Lite").expect("it is bundled");
        let of = |data_parallel: u32, is_gathered: bool| {
            let placement = Placement {
                data_parallel,
                gathers: is_gathered.then_some(GATHERS),
                ..placement()
            };
            crate::cost::bounds::work_rates(&device("h100"), &shape, &placement)
        };
        let (one, two, gathered) = (of(1, false), of(2, false), of(2, true));
        let dense = one.weight_bytes(0.0);
        let both = 2.0 * dense + one.weight_bytes(8.0) - dense;
        assert!((2.0 * two.weight_bytes(4.0) / both - 1.0).abs() < 1e-12);
        assert_eq!(two.flops_per_token, one.flops_per_token);
        // Dense layers and shared experts are behind the attention, and each has half of them.
        assert!(gathered.bytes_per_step < two.bytes_per_step);
        assert_eq!(gathered.flops_per_token, one.flops_per_token);
    }

    #[test]
    fn more_tokens_never_take_less() {
        for whole in [false, true] {
            let (_, shared) = with(4, whole);
            let mut shared = shared.expect("ranks share");
            let times: Vec<Picos> = (1..3000)
                .step_by(7)
                .map(|tokens| shared.all_tokens(tokens, Moved::Scattered))
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
            assert_eq!(shared.all_rows(4), Picos::ZERO);
            let law = DecodeCost {
                base: law.base + shared.all_tokens(4 * u64::from(computed), Moved::Scattered),
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

    /// Three dense layers and a shared expert: where ranks have them in common, each has an eighth of them, for the tokens of
    /// all; with one rank's tokens for all of them, that is an eighth of the work, but for the choice of experts.
    #[test]
    fn layers_in_common_are_computed_for_all() {
        let names = [
            "gate_up_proj",
            "down_proj",
            "shared_gate_up_proj",
            "shared_down_proj",
            "router",
        ];
        let flops = |parts: &[Part]| -> f64 {
            let of_mlp = parts
                .iter()
                .filter(|part| names.contains(&part.operator.as_str()));
            of_mlp.map(|part| part.flops).sum()
        };
        let at = |is_gathered: bool| {
            let placement = Placement {
                data_parallel: 8,
                gathers: is_gathered.then_some(GATHERS),
                ..placement()
            };
            let (own, shared) = of("deepseek-ai/DeepSeek-V3", &placement);
            (own, shared.expect("ranks share"))
        };
        let load = StepLoad {
            decode_seqs: 64,
            decode_kv_tokens: 64 * 500,
            decode_longest: 500,
            sampled_rows: 64,
            ..StepLoad::default()
        };
        let ((apart, nothing), (mut own, mut shared)) = (at(false), at(true));
        assert!(flops(&nothing.parts(512, Moved::Scattered)).abs() < 1.0);
        let router = |parts: &[Part]| -> f64 {
            let of_router = parts.iter().filter(|part| part.operator == "router");
            of_router.map(|part| part.flops).sum()
        };
        let (before, after) = (apart.breakdown(&load).parts, shared.parts(512, Moved::Scattered));
        assert!(((flops(&before) - router(&before)) / (flops(&after) - router(&after)) - 1.0).abs() < 1e-9);
        assert!((8.0 * router(&before) / router(&after) - 1.0).abs() < 1e-9);
        // Twice over the links where rows are not alike, and every step of a breakdown is whole.
        let twice = shared.all_tokens(512, Moved::Summed);
        assert!(twice > shared.all_tokens(512, Moved::Scattered));
        let law = own.decode(64);
        let law = DecodeCost {
            base: law.base + shared.all_tokens(512, Moved::Scattered),
            ..law
        };
        let step = law.at(load.decode_kv_tokens, load.decode_longest).seconds();
        let parts: f64 = own.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
        assert!((parts / step - 1.0).abs() < 1e-6, "{parts} and {step}");
    }

    /// Eight GPUs as eight ranks, as four of two, as two of four: what is behind the attention is the same eighth on each; a rank's GPUs
    /// add up their heads among themselves, unless one all-reduce over all does.
    #[test]
    fn the_gpus_of_a_rank_add_up_their_heads() {
        let at = |group: u32| {
            let placement = Placement {
                tensor_parallel: group,
                data_parallel: 8 / group,
                gathers: Some(GATHERS),
                ..placement()
            };
            let (own, shared) = of("deepseek-ai/DeepSeek-V3", &placement);
            (own, shared.expect("ranks share"))
        };
        let flops = |parts: &[Part]| parts.iter().map(|part| part.flops).sum::<f64>();
        let moving = |shared: &SharedExperts, moved| {
            let parts = shared.parts(512, moved);
            let links = parts.iter().filter(|part| part.operator == "all_reduce");
            links.map(|part| part.seconds).sum::<f64>()
        };
        let ((_, eight), (_, four), (own, two)) = (at(1), at(2), at(4));
        let (all, summed) = (Moved::Scattered, Moved::Summed);
        for shared in [&four, &two] {
            assert!((flops(&shared.parts(512, all)) / flops(&eight.parts(512, all)) - 1.0).abs() < 1e-12);
            assert!(moving(shared, all) > moving(&eight, all));
            assert!((moving(shared, summed) / moving(&eight, summed) - 1.0).abs() < 1e-12);
        }
        // Nothing else is summed within a rank: its step is what is in common and no all-reduce more, as its embedding is whole.
        let parts = own.breakdown(&StepLoad::of_decodes(256, 500)).parts;
        let in_step = parts.iter().filter(|part| part.operator == "all_reduce");
        let in_step: f64 = in_step.map(|part| part.seconds).sum();
        assert!((in_step / moving(&two, all) - 1.0).abs() < 1e-9);
    }

    /// Without an LM head of its own a rank has all ranks' rows computed, an eighth of the vocabulary each.
    #[test]
    fn logits_in_common_are_computed_for_all() {
        let at = |logits: bool| {
            let placement = Placement {
                data_parallel: 8,
                gathers: Some(Gathers { logits, ..GATHERS }),
                ..placement()
            };
            let (own, shared) = of("deepseek-ai/DeepSeek-V3", &placement);
            (own, shared.expect("ranks share"))
        };
        let load = StepLoad::of_decodes(64, 500);
        let of_operator = |own: &RooflineCost, operator: &str| -> (f64, f64) {
            let parts = own.breakdown(&load).parts;
            let of = parts.iter().filter(|part| part.operator == operator);
            of.fold((0.0, 0.0), |sum, part| (sum.0 + part.flops, sum.1 + part.seconds))
        };
        let ((apart, mut nothing), (mut common, mut shared)) = (at(false), at(true));
        // 512 rows of an eighth are as many products as 64 of the whole.
        let (before, after) = (of_operator(&apart, "lm_head"), of_operator(&common, "lm_head"));
        assert!((before.0 / after.0 - 1.0).abs() < 1e-9);
        assert!(of_operator(&apart, "logits_gather").1.abs() < 1e-12);
        assert!(of_operator(&common, "logits_gather").1 > 0.0);
        assert_eq!(nothing.all_rows(512), Picos::ZERO);
        let rows: Vec<Picos> = (0..2000).step_by(9).map(|rows| shared.all_rows(rows)).collect();
        assert!(rows.is_sorted() && rows[0] == Picos::ZERO);
        // And a breakdown is still whole.
        let law = common.decode(64);
        let law = DecodeCost {
            base: law.base + shared.all_tokens(512, Moved::Scattered) + shared.all_rows(512),
            ..law
        };
        let step = law.at(load.decode_kv_tokens, load.decode_longest).seconds();
        let parts: f64 = common
            .breakdown(&load)
            .parts
            .iter()
            .map(|part| part.seconds)
            .sum();
        assert!((parts / step - 1.0).abs() < 1e-6, "{parts} and {step}");
    }

    /// Without a graph a step of decodes takes at least as long, and one of nobody as long as its launches.
    #[test]
    fn launching_kernel_by_kernel_takes_no_less() {
        let (mut own, _) = with(4, false);
        let load = StepLoad {
            decode_seqs: 8,
            decode_kv_tokens: 800,
            decode_longest: 100,
            sampled_rows: 8,
            ..StepLoad::default()
        };
        let eager = own.eager_law(&load).at(800, 100);
        assert!(eager > own.decode(8).at(800, 100));
        let nobody = own.eager_law(&StepLoad::default());
        assert_eq!(nobody.base, Picos::ZERO);
        assert!(nobody.at(1, 1) > Picos::ZERO && nobody.at(1, 1) <= eager);
    }

    #[test]
    fn sharing_experts_pays_where_they_decide() {
        // A decode step of one engine reads almost all experts; of four engines each reads a quarter of them.
        let step = |ranks: u32, whole: bool| {
            let (mut own, shared) = with(ranks, whole);
            let beside = shared.map_or(Picos::ZERO, |mut shared| {
                shared.all_tokens(64 * u64::from(ranks), Moved::Scattered)
            });
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
