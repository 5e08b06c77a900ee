//! Step time as a sum over operators of a calibrated roofline, plus what the host adds.
//!
//! `t = Σ linear + attention + elementwise + all-reduce + LM head + sampling`, each with its own ceiling, its own
//! efficiency and its own floor; the host is added to it (synchronous scheduling, V1-80) or hidden behind it
//! (asynchronous, V1-81). Whatever depends on the step's tokens, or on its sampled rows, alone is evaluated once for
//! each count and kept in picoseconds; the simulation then only adds integers.
//!
//! Of several data-parallel ranks this is one rank's own share; the experts that all of them share are in `shared.rs`.
//!
//! Left out: pipeline parallelism, speculative drafts, noise, other work on the GPU.
//! Laws: [`StepCost`]'s; more tokens, rows or context never cost less, except where padding to a CUDA graph hides
//! the difference; the parts of [`Breakdown`] add up to the step.

mod attention;
mod host;
mod kernels;
mod shared;

pub use shared::{SharedExperts, SharedMaker};

use super::calibration::{Calibration, KernelFormat};
use super::{Breakdown, DecodeCost, Part, StepCost, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::units::Picos;
use attention::AttentionTerms;
use host::{HostTerms, Launch};
use kernels::Operators;

/// How an engine puts a model on its GPUs, as far as step time depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Ranks that share every layer.
    pub tensor_parallel: u32,
    /// Groups of such ranks that have requests of their own and share their experts; 1 as a rule (DP-2).
    pub data_parallel: u32,
    /// Those hold experts whole, each some, and not a slice of all.
    pub expert_parallel: bool,
    /// All of a layer behind its attention is theirs in common, dense layers, shared experts and the choice of experts too:
    /// each has a slice, and computes it for the tokens of all (SGLang's data-parallel attention).
    pub gathers_mlp: bool,
    /// Format of the KV cache.
    pub kv_dtype: Dtype,
    /// CUDA graphs.
    pub graphs: Graphs,
    /// The host prepares a step while the GPU runs the one before (V1-81).
    pub asynchronous: bool,
    /// Which engine's host terms apply: `vllm`, `sglang`.
    pub engine: String,
    /// Mean context that is expected. A layer whose sliding window is shorter counts as full windows, any other
    /// as unwindowed, so that the cost stays affine in KV tokens.
    pub typical_context: u32,
}

/// CUDA graphs of an engine (V1-73 to V1-77).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    /// Which batches replay a graph.
    pub mode: CudagraphMode,
    /// Captured token counts, ascending; a batch is padded up to the next one.
    pub capture_sizes: Vec<u32>,
    /// Nothing is compiled either (`enforce_eager`): every operator is dispatched by Python.
    pub enforce_eager: bool,
}

/// vLLM's `cudagraph_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudagraphMode {
    /// Kernels are launched one by one, from compiled code unless `enforce_eager`.
    None,
    /// Attention is launched eagerly between the pieces, for every batch.
    Piecewise,
    /// One graph for decode-only batches, others eager.
    FullDecodeOnly,
    /// One graph for decode-only batches, pieces for others.
    #[default]
    FullAndPiecewise,
}

/// Why a step cost cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RooflineError {
    /// The calibration has no such block, nor did any fallback.
    #[error("calibration `{calibration}` has no `{block}`; add it or start from a shipped calibration")]
    Lacking {
        /// Its name.
        calibration: String,
        /// The block's key.
        block: String,
    },
    /// Zero ranks.
    #[error("tensor_parallel is 0; a model needs at least one GPU")]
    NoRanks,
}

/// The calibrated roofline of one model on one kind of GPU under one engine.
#[derive(Clone, Debug)]
pub struct RooflineCost {
    operators: Operators,
    host: HostTerms,
    graphs: Graphs,
    padded: Vec<u32>,
    attention: AttentionTerms,
    /// What all data-parallel ranks share, for explanation; none where there is one rank.
    shared: Option<(SharedExperts, u64)>,
    token_picos: Vec<u64>,
    row_picos: Vec<u64>,
}

/// An entry that has not been evaluated. No step takes 213 days.
const UNKNOWN: u64 = u64::MAX;

impl RooflineCost {
    /// Makes costs of the same parts, one for each run: a cost tabulates as it goes. They are built once here, to learn
    /// that they can be.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn maker(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<impl Fn() -> Box<dyn StepCost> + Send + Sync + use<>, RooflineError> {
        RooflineCost::new(device, shape, calibration, placement)?;
        let parts = (
            device.clone(),
            shape.clone(),
            calibration.clone(),
            placement.clone(),
        );
        Ok(move || -> Box<dyn StepCost> {
            let (device, shape, calibration, placement) = &parts;
            let cost = RooflineCost::new(device, shape, calibration, placement);
            Box::new(cost.expect("it was built from the same parts before"))
        })
    }

    /// Resolves a calibration for one placement of a model.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<RooflineCost, RooflineError> {
        if placement.tensor_parallel == 0 {
            return Err(RooflineError::NoRanks);
        }
        let lacking = |block: &str| RooflineError::Lacking {
            calibration: calibration.name.clone(),
            block: block.to_owned(),
        };
        let host = calibration.host_of(&placement.engine);
        let host = host.ok_or_else(|| lacking(&format!("host.{}", placement.engine)))?;
        let attention = calibration
            .attention
            .as_ref()
            .ok_or_else(|| lacking("attention"))?;
        let (decode, prefill) = match placement.kv_dtype {
            Dtype::Fp8 => (&attention.decode_fp8_kv, &attention.prefill_fp8_kv),
            Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp32 => (&attention.decode, &attention.prefill),
        };
        let mut terms = AttentionTerms::new(device, shape, placement, decode, prefill);
        terms.trust = attention.trust;
        terms.derate = calibration
            .gemm
            .get(&KernelFormat::Bf16)
            .map_or(1.0, |gemm| gemm.sustained_over_burst);
        terms.decode_scale(calibration.scale.get("decode_attention").copied().unwrap_or(1.0));
        terms.prefill_scale = calibration.scale.get("prefill_attention").copied().unwrap_or(1.0);
        let mut host_terms = HostTerms::new(host, shape.layer_count(), placement.asynchronous);
        if calibration.has_measured_overlap(&placement.engine) {
            host_terms.trust = host.trust;
        }
        Ok(RooflineCost {
            operators: Operators::new(device, shape, calibration, placement)
                .map_err(|block| lacking(&block))?,
            host: host_terms,
            graphs: placement.graphs.clone(),
            padded: padding_table(&placement.graphs),
            attention: terms,
            shared: match placement.data_parallel {
                1 => None,
                ranks => Some((
                    SharedExperts::new(device, shape, calibration, placement)?,
                    u64::from(ranks),
                )),
            },
            token_picos: Vec::new(),
            row_picos: Vec::new(),
        })
    }

    fn launch(&self, tokens: u64, decode_only: bool) -> Launch {
        let captured = (tokens as usize) < self.padded.len();
        match (self.graphs.mode, decode_only) {
            _ if self.graphs.enforce_eager => Launch::Eager,
            _ if !captured => Launch::Compiled,
            (CudagraphMode::None, _) | (CudagraphMode::FullDecodeOnly, false) => Launch::Compiled,
            (CudagraphMode::FullDecodeOnly | CudagraphMode::FullAndPiecewise, true) => Launch::Full,
            (CudagraphMode::Piecewise, _) | (CudagraphMode::FullAndPiecewise, false) => Launch::Piecewise,
        }
    }

    fn padded_tokens(&self, tokens: u64, launch: Launch) -> u64 {
        match launch {
            Launch::Compiled | Launch::Eager => tokens,
            Launch::Full | Launch::Piecewise => u64::from(self.padded[tokens as usize]),
        }
    }

    fn tokens_picos(&mut self, padded: u64) -> u64 {
        let operators = &self.operators;
        look_up(&mut self.token_picos, padded, || operators.token_parts(padded))
    }

    fn rows_picos(&mut self, rows: u32) -> u64 {
        let operators = &self.operators;
        look_up(&mut self.row_picos, u64::from(rows), || {
            operators.row_parts(u64::from(rows))
        })
    }

    /// The part of a step that its decoding sequences, tokens and rows decide, as an affine function of the contexts.
    fn affine(&mut self, load: &Counts, launch: Launch) -> DecodeCost {
        let gpu = self.tokens_picos(self.padded_tokens(load.tokens, launch))
            + self.rows_picos(load.rows)
            + self.attention.base_picos(load.decode_seqs, load.chunks > 0);
        let sequences = u64::from(load.decode_seqs) + u64::from(load.chunks);
        DecodeCost {
            base: Picos(gpu + self.host.added(sequences)),
            per_kv_token: Picos(self.attention.per_kv_token),
            per_longest_token: Picos(self.attention.per_longest_token),
            kv_floor: Picos(self.attention.kv_floor_picos(load.decode_seqs)),
            floor: Picos(self.host.floor(sequences, launch)),
        }
    }
}

/// The counts of a step.
struct Counts {
    decode_seqs: u32,
    chunks: u32,
    tokens: u64,
    rows: u32,
}

impl StepCost for RooflineCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let counts = Counts {
            decode_seqs: batch,
            chunks: 0,
            tokens: u64::from(batch),
            rows: batch,
        };
        let launch = self.launch(counts.tokens, true);
        self.affine(&counts, launch)
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.step_law(load).at(load.decode_kv_tokens, load.decode_longest)
    }

    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        let counts = Counts {
            decode_seqs: load.decode_seqs,
            chunks: load.chunks.len() as u32,
            tokens: load.tokens(),
            rows: load.sampled_rows,
        };
        let launch = self.launch(counts.tokens, load.chunks.is_empty());
        let mut cost = self.affine(&counts, launch);
        cost.base += self.attention.chunks_picos(&load.chunks);
        cost
    }

    fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        let counts = Counts {
            decode_seqs: load.decode_seqs,
            chunks: load.chunks.len() as u32,
            tokens: load.tokens(),
            rows: load.sampled_rows,
        };
        let launch = match self.graphs.enforce_eager {
            true => Launch::Eager,
            false => Launch::Compiled,
        };
        if counts.tokens == 0 {
            return DecodeCost {
                floor: Picos(self.host.floor(0, launch)),
                ..DecodeCost::default()
            };
        }
        let mut cost = self.affine(&counts, launch);
        cost.base += self.attention.chunks_picos(&load.chunks);
        cost
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        match self.launch(u64::from(batch), true) {
            Launch::Full | Launch::Piecewise => Some(self.padded[batch as usize]),
            Launch::Compiled | Launch::Eager => None,
        }
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let tokens = load.tokens();
        let launch = self.launch(tokens, load.chunks.is_empty());
        let padded = self.padded_tokens(tokens, launch);
        let mut parts = self.operators.token_parts(padded);
        if let Some((shared, ranks)) = &self.shared {
            // As if all ranks computed the same.
            parts.extend(shared.parts(padded * ranks));
        }
        parts.extend(self.attention.parts(load));
        parts.extend(self.operators.row_parts(u64::from(load.sampled_rows)));
        let sequences = u64::from(load.decode_seqs) + load.chunks.len() as u64;
        let host = |operator: &str, picos: u64, trust: Trust| Part {
            operator: operator.to_owned(),
            seconds: Picos(picos).seconds(),
            flops: 0.0,
            bytes: 0.0,
            trust,
        };
        parts.push(host("host", self.host.added(sequences), self.host.trust));
        let gpu = parts.iter().map(|part| part.seconds).sum::<f64>();
        let floor = self.host.floor(sequences, launch);
        let waiting = floor.saturating_sub(Picos::from_seconds(gpu).0);
        if waiting > 0 {
            // What a launch costs was fitted nowhere.
            let trust = match launch {
                Launch::Full => self.host.trust,
                _ => self.host.trust.max(Trust::Prior),
            };
            parts.push(host("host_bound_wait", waiting, trust));
        }
        Breakdown { parts: merged(parts) }
    }
}

/// Reads or fills one entry of a table of rounded sums.
fn look_up(table: &mut Vec<u64>, index: u64, parts: impl FnOnce() -> Vec<Part>) -> u64 {
    let index = usize::try_from(index).expect("a step has fewer tokens than memory has bytes");
    if index >= table.len() {
        table.resize(index + 1, UNKNOWN);
    }
    if table[index] == UNKNOWN {
        table[index] = Picos::from_seconds(parts().iter().map(|part| part.seconds).sum()).0;
    }
    table[index]
}

/// `padded[t]` is the captured size that `t` tokens replay.
fn padding_table(graphs: &Graphs) -> Vec<u32> {
    let mut sizes = graphs.capture_sizes.clone();
    sizes.sort_unstable();
    let mut padded = Vec::new();
    for size in sizes {
        padded.resize((size as usize + 1).max(padded.len()), size);
    }
    padded
}

/// Joins parts of equal name (layer groups of different shape), in order of first appearance.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match joined.iter_mut().find(|known| known.operator == part.operator) {
            Some(known) => {
                known.seconds += part.seconds;
                known.flops += part.flops;
                known.bytes += part.bytes;
                known.trust = known.trust.max(part.trust);
            }
            None => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Chunk;
    use crate::cost::calibration::for_device;
    use crate::cost::testing::{device, llama_8b, placement};
    use crate::model::Quantization;
    use proptest::prelude::*;

    fn cost(short: &str, placement: &Placement) -> RooflineCost {
        let device = device(short);
        let calibration = for_device(&device, "vllm").calibration;
        RooflineCost::new(&device, &llama_8b(), &calibration, placement).unwrap()
    }

    fn decode_load(batch: u32, kv: u64, longest: u32) -> StepLoad {
        StepLoad {
            decode_seqs: batch,
            decode_kv_tokens: kv,
            decode_longest: longest,
            chunks: Vec::new(),
            sampled_rows: batch,
        }
    }

    fn any_placement() -> impl Strategy<Value = Placement> {
        let mode = prop_oneof![
            Just(CudagraphMode::None),
            Just(CudagraphMode::Piecewise),
            Just(CudagraphMode::FullDecodeOnly),
            Just(CudagraphMode::FullAndPiecewise),
        ];
        (mode, any::<bool>(), prop_oneof![Just(1_u32), Just(2), Just(8)]).prop_map(
            |(mode, asynchronous, tp)| {
                let mut placement = placement();
                placement.graphs.mode = mode;
                placement.asynchronous = asynchronous;
                placement.tensor_parallel = tp;
                placement
            },
        )
    }

    fn any_load() -> impl Strategy<Value = StepLoad> {
        let chunk = (0_u32..30_000, 2_u32..4096).prop_map(|(computed, new)| Chunk { computed, new });
        (0_u32..700, 1_u32..4000, prop::collection::vec(chunk, 0..4)).prop_map(|(seqs, context, chunks)| {
            StepLoad {
                decode_seqs: seqs,
                decode_kv_tokens: u64::from(seqs) * u64::from(context),
                decode_longest: if seqs > 0 { context } else { 0 },
                sampled_rows: seqs + chunks.len() as u32,
                chunks,
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_step_without_chunks_is_a_decode_step(
            placement in any_placement(), batch in 1_u32..700, kv in 1_u64..5_000_000, longest in 1_u32..100_000,
        ) {
            let mut cost = cost("h100", &placement);
            let step = cost.step(&decode_load(batch, kv, longest));
            prop_assert_eq!(step, cost.decode(batch).at(kv, longest));
        }

        #[test]
        fn the_parts_add_up_to_the_step(placement in any_placement(), load in any_load()) {
            let mut cost = cost("a100", &placement);
            let step = cost.step(&load).seconds();
            let parts: f64 = cost.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
            prop_assert!((parts - step).abs() < 1e-11, "{} against {}", parts, step);
        }

        #[test]
        fn more_work_never_costs_less(placement in any_placement(), load in any_load(), more in any_load()) {
            let mut cost = cost("a100", &placement);
            let less = cost.step(&load);
            let joined = StepLoad {
                decode_seqs: load.decode_seqs + more.decode_seqs,
                decode_kv_tokens: load.decode_kv_tokens + more.decode_kv_tokens,
                decode_longest: load.decode_longest.max(more.decode_longest),
                chunks: load.chunks.iter().chain(&more.chunks).copied().collect(),
                sampled_rows: load.sampled_rows + more.sampled_rows,
            };
            prop_assert!(cost.step(&joined) >= less);
        }
    }

    #[test]
    fn a_batch_is_padded_to_the_next_captured_size() {
        let mut cost = cost("h100", &placement());
        let without_attention = |cost: &mut RooflineCost, batch: u32| {
            let tokens = cost.padded_tokens(u64::from(batch), cost.launch(u64::from(batch), true));
            cost.tokens_picos(tokens)
        };
        assert_eq!(without_attention(&mut cost, 9), without_attention(&mut cost, 16));
        assert!(without_attention(&mut cost, 16) < without_attention(&mut cost, 136));
        assert_eq!(cost.launch(513, true), Launch::Compiled);
    }

    #[test]
    fn without_graphs_launching_bounds_a_small_model() {
        let mut narrow = llama_8b();
        narrow.hidden_size = 512;
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let decode = |mode: CudagraphMode| {
            let mut placement = placement();
            placement.graphs.mode = mode;
            let cost = RooflineCost::new(&device, &narrow, &calibration, &placement);
            cost.unwrap().decode(1).at(1, 1).seconds()
        };
        let (graph, eager) = (
            decode(CudagraphMode::FullAndPiecewise),
            decode(CudagraphMode::None),
        );
        let launching = 32.0 * 12.0 * 8e-6;
        assert!(graph < launching && eager > launching, "{graph} {eager}");
    }

    #[test]
    fn enforce_eager_bounds_a_token_by_the_host_and_leaves_a_long_prompt_alone() {
        let of = |edit: fn(&mut Graphs)| {
            let mut placement = placement();
            placement.asynchronous = true;
            edit(&mut placement.graphs);
            cost("h100", &placement)
        };
        let mut graph = of(|_| ());
        let mut piecewise = of(|graphs| graphs.mode = CudagraphMode::Piecewise);
        let mut compiled = of(|graphs| graphs.mode = CudagraphMode::None);
        let mut eager = of(|graphs| {
            graphs.mode = CudagraphMode::None;
            graphs.enforce_eager = true;
        });
        let token = |cost: &mut RooflineCost| cost.decode(1).at(1024, 1024).seconds();
        let ratio = token(&mut eager) / token(&mut graph);
        assert!(
            (1.5..4.0).contains(&ratio),
            "published: 1.7 to 4.3 times, {ratio}"
        );
        let floors = [&mut graph, &mut piecewise, &mut compiled, &mut eager].map(|cost| cost.decode(1).floor);
        assert!(floors.is_sorted_by(|a, b| a < b), "{floors:?}");
        let prompt = StepLoad {
            chunks: vec![Chunk {
                computed: 0,
                new: 8192,
            }],
            sampled_rows: 1,
            ..StepLoad::default()
        };
        assert_eq!(eager.step(&prompt), graph.step(&prompt));
    }

    #[test]
    fn asynchronous_scheduling_hides_the_host_until_it_is_the_bottleneck() {
        let mut hidden = placement();
        hidden.asynchronous = true;
        let (mut sync, mut overlapped) = (cost("h200", &placement()), cost("h200", &hidden));
        assert!(overlapped.decode(32).at(32_000, 1000) < sync.decode(32).at(32_000, 1000));
    }

    #[test]
    fn decode_time_is_flat_in_the_batch_until_the_cache_outweighs_the_weights() {
        let mut cost = cost("h100", &placement());
        let mut at = |batch: u32| cost.decode(batch).at(u64::from(batch) * 1024, 1024).seconds();
        let (one, eight, many) = (at(1), at(8), at(112));
        assert!(eight / one < 1.12, "{one} {eight}");
        assert!(
            (1.7..2.8).contains(&(many / one)),
            "112 x 1024 tokens weigh as much as the weights: {one} {many}"
        );
    }

    #[test]
    fn short_contexts_take_a_rows_least_time_and_long_ones_their_bytes() {
        let mut cost = cost("b200", &placement());
        let law = cost.decode(512);
        assert!(law.kv_floor > Picos::ZERO);
        let at = |context: u32| law.at(512 * u64::from(context), context);
        assert_eq!((at(1), at(16)), (law.least(), law.least()));
        assert!(at(4096) > law.least());
        let gaps = [at(2048) - at(1024), at(4096) - at(2048)].map(|gap| gap.seconds());
        assert!((gaps[1] / gaps[0] - 2.0).abs() < 1e-6, "{gaps:?}");
        let mixed = StepLoad {
            chunks: vec![Chunk { computed: 0, new: 64 }],
            ..decode_load(512, 512, 1)
        };
        let alone = StepLoad {
            decode_kv_tokens: 512 * 16,
            decode_longest: 16,
            ..mixed.clone()
        };
        assert_eq!(cost.step(&mixed), cost.step(&alone));
    }

    #[test]
    fn a_calibration_that_lacks_a_block_is_an_error_that_names_it() {
        let error = RooflineCost::new(
            &device("h100"),
            &llama_8b(),
            &Calibration::default(),
            &placement(),
        );
        assert!(error.unwrap_err().to_string().contains("host.vllm"));
    }

    #[test]
    fn a_scale_on_an_operator_moves_that_operator_alone() {
        let device = device("h100");
        let mut calibration = for_device(&device, "vllm").calibration;
        calibration.scale.insert("down_proj".to_owned(), 2.0);
        let scaled = RooflineCost::new(&device, &llama_8b(), &calibration, &placement()).unwrap();
        let load = decode_load(8, 8000, 1000);
        let (before, after) = (
            cost("h100", &placement()).breakdown(&load),
            scaled.breakdown(&load),
        );
        for (old, new) in before.parts.iter().zip(&after.parts) {
            let factor = if old.operator == "down_proj" { 2.0 } else { 1.0 };
            assert!(
                (new.seconds / old.seconds - factor).abs() < 1e-9,
                "{}",
                old.operator
            );
        }
    }

    #[test]
    fn experts_stay_bound_by_memory_longer_than_dense_layers() {
        let mut mixtral = llama_8b();
        mixtral.layers[0].mlp = crate::model::Mlp::Experts {
            experts: 8,
            experts_per_token: 2,
            intermediate: 14_336,
            shared_intermediate: 0,
        };
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let mut cost = RooflineCost::new(&device, &mixtral, &calibration, &placement()).unwrap();
        let mut at = |batch: u32| cost.decode(batch).at(u64::from(batch), 1).seconds();
        let (one, eight, sixteen) = (at(1), at(8), at(16));
        assert!(
            eight > 2.0 * one,
            "eight tokens touch 7.2 of 8 experts, one touches 2: {one} {eight}"
        );
        assert!(sixteen < 1.2 * eight, "then all are touched: {eight} {sixteen}");
    }

    #[test]
    fn experts_in_blocks_of_fp8_are_faster_than_in_sixteen_bits_and_their_kernels_a_prior() {
        for (card, model) in [
            ("h100", "Qwen/Qwen3-30B-A3B-FP8"),
            ("h200", "deepseek-ai/DeepSeek-V3"),
        ] {
            let device = device(card);
            let calibration = for_device(&device, "vllm").calibration;
            let blocks = crate::model::find(model).unwrap().0;
            let experts = |quantization: Quantization, batch: u32| {
                let mut shape = blocks.clone();
                shape.quantization = quantization;
                let cost = RooflineCost::new(&device, &shape, &calibration, &placement()).unwrap();
                let parts = cost.breakdown(&decode_load(batch, 1000, 100)).parts;
                parts.into_iter().find(|part| part.operator == "experts").unwrap()
            };
            for batch in [1, 8, 64] {
                let [narrow, wide, pathological] =
                    [blocks.quantization, Quantization::None, Quantization::Fp8].map(|q| experts(q, batch));
                assert!(narrow.seconds < wide.seconds, "{model} at {batch}");
                assert!(
                    pathological.seconds > wide.seconds,
                    "{model} at {batch}: the measured table is kept"
                );
                assert_eq!((narrow.trust, wide.trust), (Trust::Prior, Trust::Calibrated));
            }
        }
    }

    #[test]
    fn ranks_share_the_time_of_weights_but_not_of_floors() {
        let mut shared = placement();
        shared.tensor_parallel = 4;
        let (mut one, mut four) = (cost("h100", &placement()), cost("h100", &shared));
        let ratio = one.decode(8).at(8000, 1000).seconds() / four.decode(8).at(8000, 1000).seconds();
        assert!((1.5..3.0).contains(&ratio), "{ratio}");
    }
}
