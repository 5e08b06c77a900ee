//! What fits: from a GPU's memory to the number of KV blocks, as vLLM's start-up profiling finds it (V1-67 to V1-72, R-10).
//!
//! `kv = ceil(total · gpu_memory_utilization) − weights − activations − CUDA graphs − runtime`, all per rank, and
//! `blocks = floor(kv / (block_size · KV bytes per token))`. Weights and KV are counted from the shape; activations,
//! graphs and runtime are estimates ([`Estimates`]) that an engine would measure, and are to be printed as assumed.
//!
//! Sliding windows: vLLM's hybrid allocator puts layers into groups of equal size (full, sliding), lets every group
//! draw blocks from one pool, and frees what slid out of a window. [`MemoryPlan::num_gpu_blocks`] counts blocks of
//! `block_size` tokens in *all* layers, hence `num_gpu_blocks · block_size` is the token count that vLLM prints; vLLM's
//! own block count is [`KvLayout::groups`] times as large. What a window saves shows in
//! [`MemoryPlan::blocks_of_request`] alone. An engine model that charges every token in every layer is thus right for
//! full attention and pessimistic for long contexts under windows.
//!
//! Left out: CPU offload, drafts of speculative decoding, the vision tower. Law: a plan's parts add up to the
//! requested memory to the byte, with less than a block over.

use std::fmt;

use crate::hardware::Device;
use crate::model::{Attention, Dtype, LayerGroup, ModelShape, Quantization, kv_bytes_per_token_layer};
use crate::units::Bytes;

/// What of the engine's flags decides memory. Plain numbers, defaults resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryOptions {
    /// Ranks that share every layer.
    pub tensor_parallel: u32,
    /// Stages that share the stack.
    pub pipeline_parallel: u32,
    /// Share of the device's memory that the engine may use.
    pub gpu_memory_utilization: f64,
    /// Format of the KV cache.
    pub kv_dtype: Dtype,
    /// Tokens of a block.
    pub block_size: u32,
    /// Tokens of the profiling forward (V1-68).
    pub max_num_batched_tokens: u32,
    /// Rows sampled in it.
    pub max_num_seqs: u32,
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
    /// Replaces [`Estimates::of`].
    pub estimates: Option<Estimates>,
}

impl MemoryOptions {
    /// What `vllm serve` 0.33 would take for this device and model without flags (section 1.15): 0.92 of the memory,
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
            pipeline_parallel: 1,
            gpu_memory_utilization: 0.92,
            kv_dtype: model.dtype,
            block_size: 16,
            max_num_batched_tokens,
            max_num_seqs,
            max_model_len: model.max_position,
            charge_cuda_graphs: true,
            enforce_eager: false,
            kv_cache_memory_bytes: None,
            num_gpu_blocks_override: None,
            estimates: None,
        }
    }
}

/// Memory that an engine measures at start-up and that is estimated here, per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimates {
    /// Peak of the profiling forward.
    pub activations: Bytes,
    /// Captured CUDA graphs, charged or not.
    pub cuda_graphs: Bytes,
    /// Communication buffers, library workspaces and fragmentation since the process started.
    pub runtime: Bytes,
}

/// Sampling buffers per logit, in 4-byte words: the logits and one copy of them (`c_s`, V1-68 says 2 to 3).
const SAMPLING_COPIES: u64 = 2;
/// Graphs of Llama-3.1-8B took 0.6 GiB in vLLM's log (V1-72); its 32 layers make 19.2 MiB a layer.
const GRAPH_BYTES_PER_LAYER: u64 = (6 << 30) / (10 * 32);
/// R-10 gives 0.5 to 1.5 GiB for context, libraries and NCCL; the context itself precedes the profiling's baseline.
const RUNTIME_BYTES: u64 = 1 << 29;
/// NCCL's and the custom all-reduce's buffers of a rank that has peers; the upper half of R-10's range.
const COMMUNICATION_BYTES: u64 = 1 << 29;

impl Estimates {
    /// `activations = T·b_a·(2f/TP + 6d) + R·V·4·c_s` (V1-68), graphs by layers, runtime by R-10.
    #[must_use]
    pub fn of(model: &ModelShape, options: &MemoryOptions) -> Estimates {
        let tokens = u64::from(options.max_num_batched_tokens);
        let rows = u64::from(options.max_num_seqs.min(options.max_num_batched_tokens));
        let f = model
            .widest_intermediate()
            .div_ceil(u64::from(options.tensor_parallel));
        let d = u64::from(model.hidden_size);
        let forward = tokens * model.dtype.bytes() * (2 * f + 6 * d);
        let sampling = rows * u64::from(model.vocab_size) * 4 * SAMPLING_COPIES;
        let layers = u64::from(model.layer_count().div_ceil(options.pipeline_parallel));
        let has_peers = options.tensor_parallel * options.pipeline_parallel > 1;
        Estimates {
            activations: Bytes(forward + sampling),
            cuda_graphs: Bytes(if options.enforce_eager {
                0
            } else {
                layers * GRAPH_BYTES_PER_LAYER
            }),
            runtime: Bytes(RUNTIME_BYTES + if has_peers { COMMUNICATION_BYTES } else { 0 }),
        }
    }
}

/// How the memory of one rank is divided.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// `ceil(total · gpu_memory_utilization)`.
    pub requested: Bytes,
    /// Weights of this rank.
    pub weights: Bytes,
    /// What was estimated, or given.
    pub estimates: Estimates,
    /// The KV pool.
    pub kv_pool: Bytes,
    /// How tokens lie in it.
    pub layout: KvLayout,
    /// Blocks of `block_size` tokens in all layers, the null block included (V1-29): what the engine is given.
    pub num_gpu_blocks: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// Longest sequence.
    pub max_model_len: u32,
}

/// How the KV of one rank is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Bytes of a block over all layers of the rank, padding of unequal groups included.
    pub block_bytes: Bytes,
    /// Bytes of one token over all layers of the rank, windows ignored.
    pub bytes_per_token: Bytes,
    /// Groups of layers that are allocated together; 1 without windows.
    pub groups: u32,
    /// The groups with a window: how many, and the tokens that one sequence keeps at most in each.
    pub sliding: Vec<SlidingGroups>,
}

/// Groups of layers with one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingGroups {
    /// How many groups.
    pub groups: u32,
    /// Most tokens kept: the window and a step's new tokens (`sliding_window − 1 + max_num_batched_tokens`).
    pub tokens_max: u32,
}

impl MemoryPlan {
    /// Tokens that the pool holds, `num_gpu_blocks · block_size`: what vLLM prints at start.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::from(self.num_gpu_blocks) * u64::from(self.block_size)
    }

    /// Blocks of all layers that one request of `tokens` tokens occupies, in fractions of [`KvLayout::groups`].
    #[must_use]
    pub fn blocks_of_request(&self, tokens: u32) -> f64 {
        let blocks = |tokens: u32| u64::from(tokens.div_ceil(self.block_size));
        let sliding: u32 = self.layout.sliding.iter().map(|sliding| sliding.groups).sum();
        let full = u64::from(self.layout.groups - sliding) * blocks(tokens);
        let windowed = self.layout.sliding.iter().map(|sliding| {
            // A window may begin inside a block: one more (vLLM SlidingWindowSpec.max_memory_usage_bytes).
            u64::from(sliding.groups) * blocks(tokens).min(blocks(sliding.tokens_max) + 1)
        });
        (full + windowed.sum::<u64>()) as f64 / f64::from(self.layout.groups)
    }

    /// Requests of `tokens` tokens that the pool holds at once, whole ones. As in vLLM's log the null block is counted
    /// as if it held tokens.
    #[must_use]
    pub fn concurrency(&self, tokens: u32) -> u64 {
        let blocks = self.blocks_of_request(tokens.max(1));
        // Fractions of groups are not exact in binary; a billionth of a request is not one.
        (f64::from(self.num_gpu_blocks) / blocks + 1e-9).floor() as u64
    }

    /// All that is not KV: weights, activations, runtime, and graphs where they are charged.
    #[must_use]
    pub fn charged(&self, charge_cuda_graphs: bool) -> Bytes {
        let graphs = if charge_cuda_graphs {
            self.estimates.cuda_graphs
        } else {
            Bytes(0)
        };
        self.weights + self.estimates.activations + graphs + self.estimates.runtime
    }
}

/// Nothing can be served, and what would change that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct DoesNotFit {
    /// The device.
    pub device: String,
    /// What is short.
    pub shortage: Shortage,
    /// Changes that make it fit, each planned anew; the smallest first. Empty where none of those tried does.
    pub remedies: Vec<Remedy>,
}

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Flags that no device can satisfy.
    HeadsNotDivisible {
        /// `h_q`.
        query_heads: u32,
        /// TP.
        tensor_parallel: u32,
    },
    /// Weights and the rest alone exceed the budget.
    NoRoomForKv {
        /// Weights of a rank.
        weights: Bytes,
        /// Activations, graphs, runtime.
        other: Bytes,
        /// `total · gpu_memory_utilization`.
        requested: Bytes,
    },
    /// The pool is smaller than one request of `max_model_len` (V1-71).
    OneRequestDoesNotFit {
        /// The pool.
        kv_pool: Bytes,
        /// Bytes of one longest request.
        needed: Bytes,
        /// Its tokens.
        max_model_len: u32,
        /// Who sized the pool.
        sized_by: PoolSize,
    },
    /// A pool that was asked for by size leaves the weights no room in the device's memory.
    PoolBeyondMemory {
        /// The pool.
        kv_pool: Bytes,
        /// Weights of a rank.
        weights: Bytes,
        /// All of the device.
        memory: Bytes,
        /// Who sized the pool.
        sized_by: PoolSize,
    },
}

/// Who says how large the KV pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// What is left of the budget.
    TheRest,
    /// [`MemoryOptions::kv_cache_memory_bytes`].
    Bytes,
    /// [`MemoryOptions::num_gpu_blocks_override`].
    Blocks,
}

impl PoolSize {
    fn of(options: &MemoryOptions) -> PoolSize {
        match (options.num_gpu_blocks_override, options.kv_cache_memory_bytes) {
            (Some(_), _) => PoolSize::Blocks,
            (None, Some(_)) => PoolSize::Bytes,
            (None, None) => PoolSize::TheRest,
        }
    }

    /// The flag that sizes the pool.
    #[must_use]
    pub fn flag(self) -> Option<&'static str> {
        match self {
            PoolSize::TheRest => None,
            PoolSize::Bytes => Some("--kv-cache-memory-bytes"),
            PoolSize::Blocks => Some("--num-gpu-blocks-override"),
        }
    }
}

/// A change of flags after which the model fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// As one would type it, `--quantization fp8`.
    pub flags: String,
    /// Tokens that the pool then holds.
    pub tokens: u64,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: Bytes| format!("{:.1} GiB", bytes.gib());
        match self.shortage {
            Shortage::HeadsNotDivisible {
                query_heads,
                tensor_parallel,
            } => write!(
                f,
                "does not fit: {query_heads} query heads cannot be divided by {tensor_parallel} ranks"
            )?,
            Shortage::NoRoomForKv {
                weights,
                other,
                requested,
            } => write!(
                f,
                "does not fit: needs {} weights + {} activations and runtime a GPU, {} offers {}",
                gib(weights),
                gib(other),
                self.device,
                gib(requested)
            )?,
            Shortage::OneRequestDoesNotFit {
                kv_pool,
                needed,
                max_model_len,
                sized_by,
            } => {
                let one = format!(
                    "does not fit: one request of {max_model_len} tokens needs {} of KV cache",
                    gib(needed)
                );
                match sized_by.flag() {
                    Some(flag) => write!(f, "{one}, {flag} gives {}", gib(kv_pool))?,
                    None => write!(f, "{one}, {} has {} left", self.device, gib(kv_pool))?,
                }
            }
            Shortage::PoolBeyondMemory {
                kv_pool,
                weights,
                memory,
                sized_by,
            } => write!(
                f,
                "does not fit: {} asks for {} of KV cache beside {} of weights, {} has {}",
                sized_by.flag().unwrap_or("the pool"),
                gib(kv_pool),
                gib(weights),
                self.device,
                gib(memory)
            )?,
        }
        if self.remedies.is_empty() {
            return write!(
                f,
                "\n  no change of quantization, context or up to 8 GPUs makes it fit"
            );
        }
        let flags: Vec<&str> = self.remedies.iter().map(|remedy| remedy.flags.as_str()).collect();
        write!(f, "\n  smallest change that fits: {}", flags.join("   |   "))
    }
}

/// Divides the memory of one rank, or says what does not fit and which changes would.
///
/// # Panics
/// If `tensor_parallel`, `pipeline_parallel` or `block_size` is zero, or the utilisation is not within (0, 1]: the
/// configuration is checked before.
pub fn plan(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Result<MemoryPlan, DoesNotFit> {
    attempt(device, model, options).map_err(|shortage| DoesNotFit {
        device: device.id.clone(),
        shortage,
        remedies: remedies(device, model, options),
    })
}

fn attempt(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Result<MemoryPlan, Shortage> {
    let utilization = options.gpu_memory_utilization;
    assert!(utilization > 0.0 && utilization <= 1.0, "utilisation is a share");
    assert!(options.block_size > 0, "a block holds tokens");
    let query_heads = model.query_heads();
    if !query_heads.is_multiple_of(options.tensor_parallel) {
        return Err(Shortage::HeadsNotDivisible {
            query_heads,
            tensor_parallel: options.tensor_parallel,
        });
    }
    let requested = Bytes((device.memory.0 as f64 * utilization).ceil() as u64);
    let weights = rank_weights(model, options);
    let estimates = options.estimates.unwrap_or_else(|| Estimates::of(model, options));
    let layout = kv_layout(model, options);
    let mut plan = MemoryPlan {
        requested,
        weights,
        estimates,
        kv_pool: Bytes(0),
        layout,
        num_gpu_blocks: 0,
        block_size: options.block_size,
        max_model_len: options.max_model_len,
    };
    let charged = plan.charged(options.charge_cuda_graphs);
    plan.kv_pool = match options.kv_cache_memory_bytes {
        Some(bytes) => bytes,
        None if charged >= requested => {
            return Err(Shortage::NoRoomForKv {
                weights,
                other: charged - weights,
                requested,
            });
        }
        None => requested - charged,
    };
    let blocks = plan.kv_pool.0 / plan.layout.block_bytes.0;
    let blocks = options.num_gpu_blocks_override.map_or(blocks, u64::from);
    plan.num_gpu_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let sized_by = PoolSize::of(options);
    if sized_by == PoolSize::Blocks {
        plan.kv_pool = Bytes(plan.layout.block_bytes.0.saturating_mul(blocks));
    }
    // Activations and the rest are estimates; what weights and pool alone exceed is certain.
    if sized_by != PoolSize::TheRest && plan.kv_pool.0.saturating_add(weights.0) > device.memory.0 {
        return Err(Shortage::PoolBeyondMemory {
            kv_pool: plan.kv_pool,
            weights,
            memory: device.memory,
            sized_by,
        });
    }
    if plan.concurrency(options.max_model_len) == 0 {
        let needed = plan.blocks_of_request(options.max_model_len) * plan.layout.block_bytes.0 as f64;
        return Err(Shortage::OneRequestDoesNotFit {
            kv_pool: plan.kv_pool,
            needed: Bytes(needed as u64),
            max_model_len: options.max_model_len,
            sized_by,
        });
    }
    Ok(plan)
}

/// Weights of the fullest rank: the longest stage's layers, and embedding and LM head where stages do not part them.
fn rank_weights(model: &ModelShape, options: &MemoryOptions) -> Bytes {
    let (tp, pp) = (options.tensor_parallel, options.pipeline_parallel);
    let edge = model.edge_weight_bytes(tp);
    let layers = model.layer_weight_bytes(tp);
    if pp == 1 {
        return layers + edge;
    }
    // First and last stage each have one of the two tables, tied or not.
    let tables = if model.tied_embeddings { 1 } else { 2 };
    let stage =
        u128::from(layers.0) * u128::from(model.layer_count().div_ceil(pp)) / u128::from(model.layer_count());
    Bytes(stage as u64 + edge.0 / tables)
}

/// Groups layers as vLLM 0.33 `get_kv_cache_config` does: kinds of layers (full, one per window) are cut into groups of
/// as many layers as the rarest kind has, unless the kinds are about equally common (within a quarter).
fn kv_layout(model: &ModelShape, options: &MemoryOptions) -> KvLayout {
    let stage = |count: u32| count.div_ceil(options.pipeline_parallel);
    let per_layer = |group: &LayerGroup| {
        kv_bytes_per_token_layer(&group.attention, options.kv_dtype, options.tensor_parallel)
    };
    let bytes_per_token: Bytes = model
        .layers
        .iter()
        .map(|group| per_layer(group) * u64::from(stage(group.count)))
        .sum();
    let mut kinds: Vec<(Option<u32>, u32)> = Vec::new();
    for group in &model.layers {
        let window = match group.attention {
            Attention::Grouped { window, .. } => window,
            Attention::Latent { .. } => None,
        };
        match kinds.iter_mut().find(|(known, _)| *known == window) {
            Some((_, count)) => *count += stage(group.count),
            None => kinds.push((window, stage(group.count))),
        }
    }
    let counts = || kinds.iter().map(|&(_, count)| count);
    let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
    let size = if most * 4 < fewest * 5 { most } else { fewest };
    let groups: u32 = counts().map(|count| count.div_ceil(size)).sum();
    // Padding adds layers that hold nothing; all layers of a hybrid model have equal pages.
    let layers: u32 = counts().sum();
    let padded = u128::from(bytes_per_token.0) * u128::from(groups * size) / u128::from(layers);
    let sliding = kinds.iter().filter_map(|&(window, count)| {
        window.map(|window| SlidingGroups {
            groups: count.div_ceil(size),
            tokens_max: (window - 1).saturating_add(options.max_num_batched_tokens),
        })
    });
    KvLayout {
        block_bytes: Bytes(padded as u64) * u64::from(options.block_size),
        bytes_per_token,
        groups,
        sliding: sliding.collect(),
    }
}

/// Single changes first, from the least to the most disruptive, then pairs that need fewer GPUs than any of those.
fn remedies(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Vec<Remedy> {
    let unforced: Vec<Remedy> = [pool_by_formula, usual_utilization]
        .iter()
        .filter_map(|change| change(device, model, options))
        .collect();
    if !unforced.is_empty() {
        // A flag that is to blame: no other change is as small as taking it back.
        return unforced;
    }
    let on_these_gpus: Vec<Remedy> = [fp8_weights, shorter_context, fp8_kv]
        .iter()
        .filter_map(|change| change(device, model, options))
        .collect();
    if !on_these_gpus.is_empty() {
        return on_these_gpus
            .into_iter()
            .chain(more_gpus(device, model, options))
            .collect();
    }
    let quantized = quantizable(model);
    let fp8_and = |change: fn(&Device, &ModelShape, &MemoryOptions) -> Option<Remedy>| {
        let remedy = change(device, quantized.as_ref()?, options)?;
        Some(Remedy {
            flags: format!("--quantization fp8 {}", remedy.flags),
            ..remedy
        })
    };
    let candidates = [
        fp8_and(shorter_context),
        more_gpus_and_shorter_context(device, model, options),
        more_gpus(device, model, options),
    ];
    let found: Vec<Remedy> = candidates.into_iter().flatten().collect();
    if found.is_empty() {
        return fp8_and(more_gpus_and_shorter_context).into_iter().collect();
    }
    found
}

/// The fewest ranks with which some context of at least 1,024 tokens fits, if the whole does not.
fn more_gpus_and_shorter_context(
    device: &Device,
    model: &ModelShape,
    options: &MemoryOptions,
) -> Option<Remedy> {
    other_ranks(model, options)
        .find_map(|tensor_parallel| {
            let changed = MemoryOptions {
                tensor_parallel,
                ..options.clone()
            };
            let remedy = shorter_context(device, model, &changed).filter(|remedy| remedy.tokens >= 1024)?;
            Some((tensor_parallel, attempt(device, model, &changed).is_err(), remedy))
        })
        .filter(|(_, is_shortened, _)| *is_shortened)
        .map(|(ranks, _, remedy)| Remedy {
            flags: format!("-tp {ranks} {}", remedy.flags),
            ..remedy
        })
}

/// Tensor-parallel sizes that are proposed: those of one NVLink domain.
const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Larger groups of ranks; also smaller ones where the heads cannot be divided by what was asked for.
fn other_ranks(model: &ModelShape, options: &MemoryOptions) -> impl Iterator<Item = u32> {
    let asked = options.tensor_parallel;
    let is_divided = model.query_heads().is_multiple_of(asked);
    RANKS
        .into_iter()
        .filter(move |&ranks| ranks > asked || (!is_divided && ranks != asked))
}

/// Without the flag that sizes the pool.
fn pool_by_formula(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let flag = PoolSize::of(options).flag()?;
    let changed = MemoryOptions {
        kv_cache_memory_bytes: None,
        num_gpu_blocks_override: None,
        ..options.clone()
    };
    tried(device, model, &changed, format!("without {flag}"))
}

/// The engine's own share of the memory where a smaller one was asked for.
fn usual_utilization(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let usual = MemoryOptions::vllm_defaults(device, model).gpu_memory_utilization;
    let changed = MemoryOptions {
        gpu_memory_utilization: usual,
        ..options.clone()
    };
    let is_lower = options.gpu_memory_utilization < usual;
    tried(
        device,
        model,
        &changed,
        format!("--gpu-memory-utilization {usual}"),
    )
    .filter(|_| is_lower)
}

fn tried(device: &Device, model: &ModelShape, options: &MemoryOptions, flags: String) -> Option<Remedy> {
    let plan = attempt(device, model, options).ok()?;
    let tokens = plan.tokens();
    Some(Remedy { flags, tokens })
}

fn quantizable(model: &ModelShape) -> Option<ModelShape> {
    (model.quantization == Quantization::None).then(|| model.clone().with_quantization(Quantization::Fp8))
}

fn fp8_weights(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    tried(
        device,
        &quantizable(model)?,
        options,
        "--quantization fp8".to_string(),
    )
}

fn fp8_kv(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let changed = MemoryOptions {
        kv_dtype: Dtype::Fp8,
        ..options.clone()
    };
    let is_wider = options.kv_dtype != Dtype::Fp8;
    tried(device, model, &changed, "--kv-cache-dtype fp8".to_string()).filter(|_| is_wider)
}

/// The fewest of the other ranks.
fn more_gpus(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    other_ranks(model, options).find_map(|tensor_parallel| {
        let changed = MemoryOptions {
            tensor_parallel,
            ..options.clone()
        };
        tried(device, model, &changed, format!("-tp {tensor_parallel}"))
    })
}

/// The longest context of whole kibitokens (or, below, whole blocks) that fits.
fn shorter_context(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let with = |max_model_len: u32| MemoryOptions {
        max_model_len,
        ..options.clone()
    };
    let fits = |length: &u32| attempt(device, model, &with(*length)).is_ok();
    let unit = if fits(&1024) { 1024 } else { options.block_size };
    // Fitting is monotone in the length, so the largest multiple is found by bisection.
    let (mut low, mut high) = (0, options.max_model_len / unit + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(&(middle * unit)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let length = low * unit;
    if length == 0 {
        return None;
    }
    tried(device, model, &with(length), format!("--max-model-len {length}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hardware, model};
    use proptest::prelude::*;

    /// The estimates of V1-72.
    const WORKED: Estimates = Estimates {
        activations: Bytes(3 << 29),
        cuda_graphs: Bytes(644_245_094),
        runtime: Bytes(0),
    };

    fn case(gpu: &str, name: &str) -> (Device, ModelShape, MemoryOptions) {
        let device = hardware::find(gpu).unwrap().0;
        let model = model::find(name).unwrap().0;
        let options = MemoryOptions {
            max_model_len: 8192,
            ..MemoryOptions::vllm_defaults(&device, &model)
        };
        (device, model, options)
    }

    #[test]
    fn the_worked_numbers_of_the_engine_are_reproduced() {
        let check = |gpu: &str, gpu_memory_utilization: f64, blocks: u32| {
            let (device, model, options) = case(gpu, "meta-llama/Llama-3.1-8B");
            let options = MemoryOptions {
                gpu_memory_utilization,
                estimates: Some(WORKED),
                ..options
            };
            assert_eq!(
                plan(&device, &model, &options).unwrap().num_gpu_blocks,
                blocks,
                "{gpu}"
            );
        };
        check("H100-SXM-80GB", 0.90, 27_715);
        check("H100-SXM-80GB", 0.92, 28_525);
        check("H200-SXM-141GB", 0.92, 57_117);
        check("A100-SXM-40GB", 0.90, 9_422);
        check("L40S-48GB", 0.92, 12_180);
    }

    #[test]
    fn a_pool_of_24_gib_holds_48_requests_of_4096_tokens() {
        let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
        let options = MemoryOptions {
            kv_cache_memory_bytes: Some(Bytes(24 << 30)),
            ..options
        };
        let plan = plan(&device, &model, &options).unwrap();
        assert_eq!(plan.concurrency(4096), 48);
        assert_eq!(plan.num_gpu_blocks, 12_288);
    }

    #[test]
    fn estimates_agree_with_published_start_up_logs_within_a_hundredth() {
        // Llama-3.1-8B on one 80 GB GPU, 0.90 of the memory, 8,192 batched tokens, graphs not yet charged. The logs
        // give 79.15 GiB with 256 sequences, 79.11 GiB likewise, and a vLLM 0.8.5 with its 1,024 sequences.
        let check = |gib: f64, max_num_seqs: u32, logged_tokens: f64| {
            let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
            let device = Device {
                memory: Bytes::from_gib(gib),
                ..device
            };
            let options = MemoryOptions {
                gpu_memory_utilization: 0.90,
                max_num_seqs,
                charge_cuda_graphs: false,
                ..options
            };
            let tokens = plan(&device, &model, &options).unwrap().tokens() as f64;
            assert!(
                (tokens / logged_tokens - 1.0).abs() < 0.01,
                "{tokens} against {logged_tokens}"
            );
        };
        check(79.15, 256, 445_648.0);
        check(79.11, 256, 447_776.0);
        check(79.1, 1024, 442_160.0);
    }

    #[test]
    fn a_larger_step_or_batch_shrinks_the_pool() {
        let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
        let blocks = |tokens: u32, seqs: u32| {
            let options = MemoryOptions {
                max_num_batched_tokens: tokens,
                max_num_seqs: seqs,
                ..options.clone()
            };
            plan(&device, &model, &options).unwrap().num_gpu_blocks
        };
        assert!(blocks(2048, 256) > blocks(8192, 256));
        assert!(blocks(8192, 256) > blocks(8192, 1024));
    }

    #[test]
    fn windows_split_layers_into_groups_of_equal_size() {
        let layout = |name: &str| {
            let (_, model, options) = case("H100", name);
            kv_layout(&model, &options)
        };
        let oss = layout("openai/gpt-oss-20b");
        assert_eq!((oss.groups, oss.sliding[0].groups), (2, 1));
        assert_eq!(oss.block_bytes, oss.bytes_per_token * 16);
        // 10 full layers and 52 with a window: groups of 10, the sixth sliding one with two layers and eight of padding.
        let gemma = layout("google/gemma-3-27b-it");
        assert_eq!((gemma.groups, gemma.sliding[0].groups), (7, 6));
        assert_eq!(gemma.block_bytes.0 * 62, gemma.bytes_per_token.0 * 16 * 70);
        // 5 full and 29 sliding of 34.
        assert_eq!(layout("google/gemma-3-4b-it").groups, 1 + 6);
    }

    #[test]
    fn long_requests_are_cheaper_under_windows_and_short_ones_are_not() {
        let (device, model, options) = case("H100", "openai/gpt-oss-20b");
        let options = MemoryOptions {
            max_model_len: 131_072,
            ..options
        };
        let plan = plan(&device, &model, &options).unwrap();
        assert_eq!(plan.blocks_of_request(1600), 100.0);
        let capped = f64::from((127_u32 + 8192).div_ceil(16) + 1);
        assert_eq!(plan.blocks_of_request(131_072), (8192.0 + capped) / 2.0);
    }

    #[test]
    fn what_does_not_fit_names_changes_that_do() {
        let (device, model, options) = case("H100", "meta-llama/Llama-3.1-70B");
        let error = plan(&device, &model, &options).unwrap_err();
        insta::assert_snapshot!(error, @r#"
        does not fit: needs 131.4 GiB weights + 4.6 GiB activations and runtime a GPU, H100-SXM-80GB offers 72.8 GiB
          smallest change that fits: --quantization fp8 --max-model-len 1024   |   -tp 2
        "#);
        let (device, model, options) = case("L4", "meta-llama/Llama-3.1-8B");
        let options = MemoryOptions {
            max_model_len: 131_072,
            ..options
        };
        insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
        does not fit: one request of 131072 tokens needs 16.0 GiB of KV cache, L4-24GB has 3.8 GiB left
          smallest change that fits: --max-model-len 30720   |   -tp 2
        "#);
        let (device, model, options) = case("T4", "meta-llama/Llama-3.1-405B");
        insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
        does not fit: needs 756.0 GiB weights + 3.9 GiB activations and runtime a GPU, T4-16GB offers 13.4 GiB
          no change of quantization, context or up to 8 GPUs makes it fit
        "#);
    }

    #[test]
    fn the_largest_flags_that_can_be_written_overflow_nothing() {
        for name in [
            "google/gemma-3-27b-it",
            "deepseek-ai/DeepSeek-V3",
            "openai/gpt-oss-120b",
        ] {
            let (device, model, options) = case("MI355X", name);
            let options = MemoryOptions {
                max_num_batched_tokens: 1 << 24,
                max_num_seqs: 1 << 24,
                max_model_len: 1 << 30,
                block_size: 1,
                ..options
            };
            assert!(plan(&device, &model, &options).is_err());
            let given = MemoryOptions {
                kv_cache_memory_bytes: Some(Bytes(1 << 62)),
                ..options
            };
            let error = plan(&device, &model, &given).unwrap_err();
            assert!(matches!(error.shortage, Shortage::PoolBeyondMemory { .. }));
        }
    }

    #[test]
    fn a_flag_that_is_to_blame_is_named() {
        let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
        let message = |options: MemoryOptions| plan(&device, &model, &options).unwrap_err().to_string();
        insta::assert_snapshot!(message(MemoryOptions { kv_cache_memory_bytes: Some(Bytes(900 << 40)), ..options.clone() }), @r"
        does not fit: --kv-cache-memory-bytes asks for 921600.0 GiB of KV cache beside 15.0 GiB of weights, H100-SXM-80GB has 79.1 GiB
          smallest change that fits: without --kv-cache-memory-bytes
        ");
        insta::assert_snapshot!(message(MemoryOptions { num_gpu_blocks_override: Some(2), ..options.clone() }), @r"
        does not fit: one request of 8192 tokens needs 1.0 GiB of KV cache, --num-gpu-blocks-override gives 0.0 GiB
          smallest change that fits: without --num-gpu-blocks-override
        ");
        let share = message(MemoryOptions {
            gpu_memory_utilization: 0.01,
            ..options.clone()
        });
        assert!(
            share.ends_with("smallest change that fits: --gpu-memory-utilization 0.92"),
            "{share}"
        );
        let beyond = message(MemoryOptions {
            num_gpu_blocks_override: Some(99_999_999),
            ..options.clone()
        });
        assert!(beyond.contains("--num-gpu-blocks-override asks for"), "{beyond}");
        for tensor_parallel in [3, 64] {
            let ranks = message(MemoryOptions {
                tensor_parallel,
                ..options.clone()
            });
            assert!(ranks.ends_with("smallest change that fits: -tp 1"), "{ranks}");
        }
    }

    #[test]
    fn heads_must_divide() {
        let (device, model, options) = case("H100", "Qwen/Qwen2.5-7B");
        let options = MemoryOptions {
            tensor_parallel: 8,
            ..options
        };
        let error = plan(&device, &model, &options).unwrap_err();
        assert!(matches!(
            error.shortage,
            Shortage::HeadsNotDivisible { query_heads: 28, .. }
        ));
    }

    #[test]
    fn every_shipped_model_fits_somewhere_within_eight_of_the_largest_gpu() {
        let device = hardware::find("B300").unwrap().0;
        for name in model::names() {
            let model = model::find(name).unwrap().0;
            let options = MemoryOptions {
                max_model_len: 4096.min(model.max_position),
                ..MemoryOptions::vllm_defaults(&device, &model)
            };
            match plan(&device, &model, &options) {
                Ok(plan) => assert!(plan.num_gpu_blocks > 0),
                Err(error) => assert!(!error.remedies.is_empty(), "{name}: {error}"),
            }
        }
    }

    proptest! {
        #[test]
        fn parts_add_up_and_more_memory_never_hurts(
            device in 0usize..20, name in 0usize..134, tp in 0u32..4, utilization in 0.3f64..1.0,
            block_size in prop::sample::select(vec![1u32, 8, 16, 64, 128]), length in 1u32..40_000,
        ) {
            let device = hardware::all()[device].clone();
            let model = model::find(model::names().nth(name).unwrap()).unwrap().0;
            let options = MemoryOptions {
                tensor_parallel: 1 << tp,
                gpu_memory_utilization: utilization,
                block_size,
                max_model_len: length,
                ..MemoryOptions::vllm_defaults(&device, &model)
            };
            match plan(&device, &model, &options) {
                Ok(plan) => {
                    prop_assert_eq!(plan.charged(true) + plan.kv_pool, plan.requested);
                    let used = plan.layout.block_bytes * u64::from(plan.num_gpu_blocks);
                    prop_assert!(used <= plan.kv_pool);
                    prop_assert!((plan.kv_pool - used) < plan.layout.block_bytes);
                    prop_assert!(plan.concurrency(length) >= 1);
                    let more = MemoryOptions { gpu_memory_utilization: 1.0, ..options };
                    let more = attempt(&device, &model, &more).unwrap();
                    prop_assert!(more.num_gpu_blocks >= plan.num_gpu_blocks);
                }
                Err(error) => for remedy in error.remedies {
                    prop_assert!(remedy.tokens > 0);
                },
            }
        }
    }
}
