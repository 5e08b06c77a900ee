//! What of an engine's flags decides its memory, and what must be estimated because only an engine could measure it.

use crate::hardware::{Architecture, Device};
use crate::model::{
    Attention, Drafter, Dtype, Indexer, KvFormat, LayerGroup, ModelShape, ModelStage, Rule,
    kv_bytes_per_token_layer,
};
use crate::units::Bytes;

/// The flag that says how much of the memory an engine fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// As one would type it.
    pub flag: &'static str,
    /// Its value where nobody gives one.
    pub usual: f64,
    /// Steps in which it is proposed, of one: 100 for hundredths.
    pub digits: f64,
    /// What the engine keeps of the share that the flag gives: SGLang lowers it once more for AMD's attention kernels.
    pub kept: f64,
    /// Memory that is taken before the share is counted: SGLang asks what is free once its process has started.
    pub excluded: Bytes,
    /// Activations and CUDA graphs come out of the share, too; of SGLang they live outside it (SG-45).
    pub holds_activations: bool,
    /// It is a share of what weights and the rest leave, and all of it is the pool's (TensorRT-LLM).
    pub is_of_rest: bool,
}

/// What becomes of KV that no window of its layer sees any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windowed {
    /// It is kept: layers are not told apart.
    KeepAll,
    /// Its blocks are given back.
    Pass,
    /// The same, if one group of layers keeps everything by which prefixes can be told; else it is kept.
    PassBesideOne,
}

impl Windowed {
    /// vLLM's: its hybrid allocator is off where layers attend within chunks (Llama 4), unless its environment says otherwise.
    #[must_use]
    pub fn of_vllm(model: &ModelShape, caches_prefixes: bool) -> Windowed {
        match caches_prefixes {
            _ if model.attends_in_chunks() => Windowed::KeepAll,
            true => Windowed::PassBesideOne,
            false => Windowed::Pass,
        }
    }
}

/// How many blocks vLLM has for the state of a sequence in a group of recurrent layers, and what its blocks must be a multiple of
/// (`mamba_cache_mode`, which follows prefix caching).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateBlocks {
    /// `none`: one.
    One,
    /// `align`: states are cached at the ends of blocks, so that a sequence holds two at most, and one more where the kernels
    /// put out a state from inside a prompt's chunk, at multiples of so many tokens.
    Aligned {
        /// `get_prefill_checkpoint_alignment`.
        checkpoints: Option<u32>,
    },
}

impl StateBlocks {
    /// What vLLM takes under prefix caching: Mamba2's kernels put out any state, gated delta nets' those of FlashInfer do, which
    /// vLLM has on Hopper and Blackwell.
    #[must_use]
    pub fn under_caching(model: &ModelShape, device: &Device) -> StateBlocks {
        let has_flashinfer = device.architecture == Architecture::Hopper || device.is_blackwell();
        let checkpoints = model.recurrence().and_then(|recurrence| match recurrence.rule {
            Rule::StateSpace { .. } => Some(1),
            Rule::GatedDelta { .. } => has_flashinfer.then_some(64),
            Rule::KimiDelta { .. } | Rule::ShortConv { .. } => None,
        });
        StateBlocks::Aligned { checkpoints }
    }

    /// Blocks of one sequence in one group, at most.
    #[must_use]
    pub fn of_sequence(self) -> u32 {
        match self {
            StateBlocks::One => 1,
            StateBlocks::Aligned { checkpoints } => 2 + u32::from(checkpoints.is_some()),
        }
    }
}

/// What versions of an engine count differently in the same pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolRules {
    /// Kinds of layers are a group each, padded, where the commonest has less than so many times the layers of the rarest
    /// (`_get_kv_cache_groups_uniform_page_size`).
    pub one_group_below: f64,
    /// One longest request must fit beside the null block (`get_kv_cache_configs`).
    pub spares_null_block: bool,
    /// The pool's tokens are those of the longest requests that it holds (`get_kv_cache_capacity`), not its blocks'.
    pub tokens_of_longest: bool,
}

impl PoolRules {
    /// vLLM's until 0.11, and of every engine with one kind of block.
    pub const BY_BLOCKS: PoolRules = PoolRules {
        one_group_below: 1.0,
        spares_null_block: false,
        tokens_of_longest: false,
    };
    /// vLLM's in 0.33.
    pub const BY_REQUESTS: PoolRules = PoolRules {
        one_group_below: 1.5,
        spares_null_block: true,
        tokens_of_longest: true,
    };
}

/// Ranks that share the embedding, and those that share the LM head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges {
    /// Of the embedding; 1 where each has it whole.
    pub embedding: u32,
    /// Of the LM head.
    pub head: u32,
}

/// What of the engine's flags decides memory. Plain numbers, defaults resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryOptions {
    /// Ranks that share every layer.
    pub tensor_parallel: u32,
    /// Who shares embedding and LM head, if not those ranks.
    pub edges: Option<Edges>,
    /// Stages that share the stack.
    pub pipeline_parallel: u32,
    /// The engine takes stages with its other flags as they are, so that more of them are a way out.
    pub can_pipeline: bool,
    /// Share of the device's memory that the engine may use.
    pub gpu_memory_utilization: f64,
    /// The flag that gives that share.
    pub budget: Budget,
    /// Formats of the KV cache.
    pub kv_format: KvFormat,
    /// Tokens of a block, as asked for: those of a hybrid may be larger ([`KvLayout::block_size`](super::KvLayout)).
    pub block_size: u32,
    /// Tokens of the profiling forward (V1-68).
    pub max_num_batched_tokens: u32,
    /// Rows sampled in it.
    pub max_num_seqs: u32,
    /// Most tokens that are scheduled and not settled, as windows see it: a step's, or those of all in flight.
    pub max_in_flight_tokens: u32,
    /// What becomes of KV behind windows.
    pub windowed: Windowed,
    /// How this version counts.
    pub rules: PoolRules,
    /// Blocks of recurrent layers.
    pub state_blocks: StateBlocks,
    /// Longest sequence; one of this length must fit (V1-71).
    pub max_model_len: u32,
    /// Graph memory comes out of the budget (vLLM since 0.21) and not out of the slack (V1-69).
    pub charge_cuda_graphs: bool,
    /// No graphs at all.
    pub enforce_eager: bool,
    /// Replaces the whole formula for the pool.
    pub kv_cache_memory_bytes: Option<Bytes>,
    /// Replaces the number of blocks.
    pub num_gpu_blocks_override: Option<u32>,
    /// What drafts for the model, beside it in the same memory (SD-10).
    pub drafter: Option<Drafter>,
    /// Replaces [`Estimates::of`].
    pub estimates: Option<Estimates>,
}

/// The format in which vLLM caches the latents of sparse attention in 8 bits: FLASHMLA_SPARSE, which it takes on Hopper, has rows with
/// scales, FLASHINFER_MLA_SPARSE on Blackwell plain ones.
#[must_use]
pub fn sparse_kv_dtype(device: &Device) -> Dtype {
    match device.architecture {
        Architecture::Hopper => Dtype::Fp8Scaled,
        _ => Dtype::Fp8,
    }
}

impl Budget {
    /// vLLM's, with its default.
    #[must_use]
    pub fn vllm(usual: f64) -> Budget {
        Budget {
            flag: "--gpu-memory-utilization",
            usual,
            digits: 100.0,
            kept: 1.0,
            excluded: Bytes(0),
            holds_activations: true,
            is_of_rest: false,
        }
    }
}

impl MemoryOptions {
    /// The share of the memory that the engine fills.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.gpu_memory_utilization * self.budget.kept
    }

    /// KV bytes that a token adds on a rank of this stage, in its layers of the model and of what drafts for it.
    #[must_use]
    pub fn kv_bytes_per_token(&self, model: &ModelShape, stage: u32) -> Bytes {
        let drafting = self.drafter.iter().flat_map(Drafter::kv_layers);
        let drafting = drafting.map(|group| (group, group.count.div_ceil(self.pipeline_parallel)));
        let of_layer = |group: &LayerGroup| {
            kv_bytes_per_token_layer(&group.attention, self.kv_format, self.tensor_parallel)
        };
        let own = model.layers.iter().zip(self.layers_on_stage(model, stage));
        own.chain(drafting)
            .map(|(group, count)| of_layer(group) * u64::from(count))
            .sum()
    }

    /// Layers of each group of the model on a GPU of this stage. Stages that are counted roughly have an equal share, rounded up.
    #[must_use]
    pub fn layers_on_stage(&self, model: &ModelShape, stage: u32) -> Vec<u32> {
        match self.pipeline_parallel > 1 && self.has_plain_stages(model) {
            true => model
                .layers_of_stages(self.pipeline_parallel)
                .swap_remove(stage as usize),
            false => {
                let groups = model.layers.iter();
                groups
                    .map(|group| group.count.div_ceil(self.pipeline_parallel))
                    .collect()
            }
        }
    }

    /// What a forward of the largest batch holds at its peak, `T·b_a·(2f/TP + 6d)` (V1-68).
    #[must_use]
    pub fn forward_bytes(&self, model: &ModelShape) -> Bytes {
        let f = model
            .widest_intermediate()
            .div_ceil(u64::from(self.tensor_parallel));
        let d = u64::from(model.hidden_size);
        let tokens = u64::from(self.max_num_batched_tokens);
        Bytes(tokens * model.dtype.bytes() * (2 * f + 6 * d))
    }

    /// What sampling for as many sequences as may run holds, beside the last layer's output.
    #[must_use]
    pub fn sampling_bytes(&self, model: &ModelShape) -> Bytes {
        let rows = u64::from(self.max_num_seqs.min(self.max_num_batched_tokens));
        let output =
            u64::from(self.max_num_batched_tokens) * u64::from(model.hidden_size) * model.dtype.bytes();
        Bytes(rows * u64::from(model.vocab_size) * bytes_per_logit(model) + output)
    }

    /// Each stage's part of a model can be counted by itself: every layer keeps the KV of all tokens.
    #[must_use]
    pub fn has_plain_stages(&self, model: &ModelShape) -> bool {
        let is_plain =
            model.recurrence().is_none() && !model.has_windows() && model.per_layer_input.is_none();
        is_plain && self.drafter.is_none() && self.pipeline_parallel <= model.layer_count()
    }

    /// What `vllm serve` 0.33 would take for this device and model without flags (`engine/arg_utils.py`): 0.92 of the memory,
    /// blocks of 16, graphs charged; 16,384 or 8,192 batched tokens and 1,024 sequences on large GPUs that are not
    /// A100s, else 2,048 and 256.
    #[must_use]
    pub fn vllm_defaults(device: &Device, model: &ModelShape) -> MemoryOptions {
        let is_a100 = device.name.to_lowercase().contains("a100");
        let (max_num_batched_tokens, max_num_seqs) = match device.memory.gib() {
            gib if gib >= 160.0 => (16_384, 1024),
            gib if gib >= 70.0 && !is_a100 => (8192, 1024),
            _ => (2048, 256),
        };
        MemoryOptions {
            tensor_parallel: 1,
            edges: None,
            pipeline_parallel: 1,
            can_pipeline: true,
            gpu_memory_utilization: 0.92,
            budget: Budget::vllm(0.92),
            kv_format: model.dtype.into(),
            block_size: 16,
            max_num_batched_tokens,
            max_in_flight_tokens: 2 * max_num_batched_tokens,
            windowed: Windowed::of_vllm(model, true),
            rules: PoolRules::BY_REQUESTS,
            state_blocks: StateBlocks::One,
            max_num_seqs,
            max_model_len: model.max_position,
            charge_cuda_graphs: true,
            enforce_eager: false,
            kv_cache_memory_bytes: None,
            num_gpu_blocks_override: None,
            drafter: None,
            estimates: None,
        }
    }
}

/// Memory that an engine measures at start-up and that is estimated here, per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimates {
    /// Peak of the profiling step: of its forward or of its sampling, whose memory is not held at once.
    pub activations: Bytes,
    /// Captured CUDA graphs, charged or not.
    pub cuda_graphs: Bytes,
    /// Communication buffers, library workspaces and fragmentation since the process started.
    pub runtime: Bytes,
}

/// What sampling holds of a logit beside itself: a copy in 32 bits, one masked by top-k, and the probability
/// (`Sampler.forward`, `top_k_top_p_sampling_from_logits` of FlashInfer; V1-68's `c_s` with the logits' own 2 bytes: 3.5).
const SAMPLING_COPIES_BYTES: u64 = 3 * 4;
/// Graphs of Llama-3.1-8B took 0.6 GiB in vLLM's log (V1-72); its 32 layers make 19.2 MiB a layer.
const GRAPH_BYTES_PER_LAYER: u64 = (6 << 30) / (10 * 32);
/// What one H100 held beside PyTorch's memory after its profiling step (`non_torch_memory` in vllm-project/vllm#12126). R-10's 0.5
/// to 1.5 GiB hold the context, too, which precedes the profiling's baseline.
const RUNTIME_BYTES: u64 = (1 << 30) * 16 / 100;
/// NCCL's and the custom all-reduce's buffers of a rank that has peers; the upper half of R-10's range.
const COMMUNICATION_BYTES: u64 = 1 << 29;

/// By so much what an engine measures at its start may differ from what is estimated: half of R-10's range, which is an assumption.
pub const ESTIMATES_OFF: Bytes = Bytes(1 << 29);

/// Bytes that sampling holds of one logit, itself included.
#[must_use]
pub fn bytes_per_logit(model: &ModelShape) -> u64 {
    model.dtype.bytes() + SAMPLING_COPIES_BYTES
}

impl Estimates {
    /// Activations by [`MemoryOptions::forward_bytes`] and [`MemoryOptions::sampling_bytes`], graphs by layers, runtime by R-10.
    #[must_use]
    pub fn of(model: &ModelShape, options: &MemoryOptions) -> Estimates {
        let layers = u64::from(model.sublayer_count().div_ceil(2 * options.pipeline_parallel));
        let picking = model
            .indexer()
            .map_or(0, |indexer| picking_bytes(model, indexer, options));
        let has_peers = options.tensor_parallel * options.pipeline_parallel > 1;
        Estimates {
            activations: options.forward_bytes(model).max(options.sampling_bytes(model)) + Bytes(picking),
            cuda_graphs: Bytes(if options.enforce_eager {
                0
            } else {
                layers * GRAPH_BYTES_PER_LAYER
            }),
            runtime: Bytes(RUNTIME_BYTES + if has_peers { COMMUNICATION_BYTES } else { 0 }),
        }
    }
}

impl Estimates {
    /// The same of one stage of a pipeline: only the last one samples.
    #[must_use]
    pub fn of_stage(stage: &ModelStage, options: &MemoryOptions) -> Estimates {
        let rows = if stage.is_last { options.max_num_seqs } else { 0 };
        let own = MemoryOptions {
            max_num_seqs: rows,
            // All of the part's layers are here; a peer is somewhere.
            pipeline_parallel: 1,
            ..options.clone()
        };
        Estimates {
            runtime: Bytes(RUNTIME_BYTES + COMMUNICATION_BYTES),
            ..Estimates::of(&stage.shape, &own)
        }
    }
}

/// Logits of an indexer's scores that exist at a time (`VLLM_SPARSE_INDEXER_MAX_LOGITS_MB`).
const LOGITS_BYTES: u64 = 512 << 20;
/// Up to this context the workspaces of sparse prefills hold five longest contexts, beyond it two
/// (`sparse_mla_prefill_workspace_factor`).
const WIDE_WORKSPACE_TO: u32 = 256 << 10;

/// What sparse attention reserves when an engine starts: logits, the picks of every token, and a workspace for the indexer's keys of a
/// prefill (`get_max_prefill_buffer_size`), beside which FLASHMLA_SPARSE has one for its latents in 16 bits.
fn picking_bytes(model: &ModelShape, indexer: Indexer, options: &MemoryOptions) -> u64 {
    let contexts = match options.max_model_len <= WIDE_WORKSPACE_TO {
        true => 5,
        false => 2,
    };
    let rows = contexts * u64::from(options.max_model_len);
    let latent = model.layers.iter().find_map(|group| match group.attention {
        Attention::Latent {
            kv_rank, rope_dim, ..
        } => Some(u64::from(kv_rank + rope_dim) * Dtype::Bf16.bytes()),
        _ => None,
    });
    let latent = latent.unwrap_or(0);
    let key = u64::from(indexer.head_dim) + Dtype::Fp32.bytes();
    let keys = rows * (latent / key) * key;
    let latents = match options.kv_format.dtype {
        Dtype::Fp8Scaled => rows * latent,
        _ => 0,
    };
    let picks = u64::from(options.max_num_batched_tokens) * u64::from(indexer.top_k) * 4;
    LOGITS_BYTES + picks + keys.max(latents)
}
