//! TensorRT-LLM's flags: given, by profile, or derived as the server derives them at start-up.

pub(super) mod asked;
mod attention;
mod foreign;
mod memory;
mod profile;
mod reuse;

pub(super) use attention::asked as attention_ranks;
pub(super) use foreign::refuse_trtllms;

use profile::{QuantizedBefore, TrtllmProfile};

use super::document::Source;
use super::engine::note_chunks;
use super::judge::Judge;
use super::raw::{RawCapacityPolicy, RawEngine, RawScenario};
use super::scalar::Count;
use crate::cluster::AttentionDp;
use crate::cost::roofline::{CudagraphMode, Exchange, Fp8Inputs, Graphs};
use crate::engine::memory::MemoryPlan;
use crate::engine::trtllm::{CapacityPolicy, TrtllmConfig};
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::units::FLAG_TOKENS_MAX as TOKENS_MAX;

/// Flags after defaults, before memory is planned.
pub(super) struct TrtllmFlags {
    /// Whole but for the size of the pool.
    config: TrtllmConfig,
    free_fraction: f64,
    /// What the fraction is where nobody gives one.
    usual_fraction: f64,
    max_tokens: Option<u32>,
    /// Captured decode batches; `None` captures nothing.
    captured: Option<Vec<u32>>,
    pads: bool,
    quantized_before: QuantizedBefore,
    attention: Option<AttentionDp>,
}

/// Resolves every flag.
pub(super) fn resolve(judge: &mut Judge, raw: &RawScenario, model: Option<&ModelShape>) -> TrtllmFlags {
    foreign::refuse_others(judge, raw);
    let profile = find_profile(judge, &raw.engine);
    let (flags, defaults) = (&raw.trtllm, &profile.defaults);
    let count = |judge: &mut Judge, key: &str, given: Option<Count>, limits, default| {
        judge.count(&format!("trtllm.{key}"), given, limits, default, profile.source())
    };
    let max_batch_size = count(
        judge,
        "max_batch_size",
        flags.max_batch_size,
        (1, 1 << 20),
        defaults.max_batch_size,
    );
    let max_num_tokens = count(
        judge,
        "max_num_tokens",
        flags.max_num_tokens,
        (1, TOKENS_MAX),
        defaults.max_num_tokens,
    );
    check_tokens(judge, max_num_tokens, max_batch_size);
    let tokens_per_block = count(
        judge,
        "tokens_per_block",
        flags.tokens_per_block,
        (1, 1 << 10),
        defaults.tokens_per_block,
    );
    let key = "engine.enable_chunked_prefill";
    let given = raw.engine.enable_chunked_prefill;
    let chunked = judge.take(key, given, defaults.enable_chunked_prefill, profile.source());
    check_unit(judge, chunked, max_num_tokens, tokens_per_block);
    let key = "trtllm.kv_cache_free_gpu_memory_fraction";
    let usual_fraction = defaults.kv_cache_free_gpu_memory_fraction;
    let given = flags.kv_cache_free_gpu_memory_fraction;
    let free_fraction = judge.take(key, given, usual_fraction, profile.source());
    judge.fraction(key, free_fraction, false, true);
    let key = "trtllm.disable_overlap_scheduler";
    let given = flags.disable_overlap_scheduler;
    let in_turn = judge.take(key, given, defaults.disable_overlap_scheduler, profile.source());
    let batch_wait_iters = count(
        judge,
        "batch_wait_timeout_iters",
        flags.batch_wait_timeout_iters,
        (0, TOKENS_MAX),
        defaults.batch_wait_timeout_iters,
    );
    let key = "trtllm.batch_wait_max_tokens_ratio";
    let given = flags.batch_wait_max_tokens_ratio;
    let ratio = judge.take(key, given, defaults.batch_wait_max_tokens_ratio, profile.source());
    judge.fraction(key, ratio, true, true);
    let key = "trtllm.kv_cache_max_tokens";
    let least = u64::from(tokens_per_block) * 2;
    let max_tokens = flags
        .kv_cache_max_tokens
        .map(|most| judge.required(key, most, (least, TOKENS_MAX)));
    let (captured, pads) = captured(judge, raw, &profile, max_batch_size.min(max_num_tokens));
    let interval = judge.count(
        "engine.stream_interval",
        raw.engine.stream_interval,
        (1, TOKENS_MAX),
        1,
        profile.source(),
    );
    note_chunks(judge, interval);
    judge.notes.push(
        "TensorRT-LLM: its own kernels where they were measured; no server of it was calibrated, so the host's share of a step is \
         that of vLLM on this card"
            .to_string(),
    );
    let batch_wait_tokens = (ratio * f64::from(max_num_tokens)).ceil() as u32;
    let max_seq_len = max_seq_len(judge, raw, model);
    let policy = policy(judge, raw, &profile);
    check_paused(judge, policy, chunked, max_num_tokens, max_seq_len);
    let block_reuse = reuse::resolve(judge, raw, &profile, policy);
    let of_ranks = (max_batch_size, pads, policy);
    let attention = attention::resolve(judge, raw, &profile, model, of_ranks);
    let batch_wait = match attention {
        Some(_) => {
            refuse_waits(judge, batch_wait_iters, batch_wait_tokens);
            (0, 0)
        }
        None => (batch_wait_iters, batch_wait_tokens),
    };
    note_waits(judge, batch_wait.0, batch_wait.1);
    TrtllmFlags {
        config: TrtllmConfig {
            max_seq_len,
            max_batch_size,
            max_num_tokens,
            enable_chunked_prefill: chunked,
            capacity_scheduler_policy: policy,
            batch_wait_iters: batch_wait.0,
            batch_wait_tokens: batch_wait.1,
            overlap_scheduler: !in_turn,
            tokens_per_block,
            num_blocks: 0,
            block_reuse,
            profile: profile.profile,
        },
        free_fraction,
        usual_fraction,
        max_tokens,
        captured,
        pads,
        quantized_before: profile.quantized_before,
        attention,
    }
}

/// Ranks that attend by themselves put no prompts off for their own sake (`PyExecutor._schedule`).
fn refuse_waits(judge: &mut Judge, steps: u32, tokens: u32) {
    if steps > 0 || tokens > 0 {
        judge.ignore(
            "batch_wait_timeout_iters and batch_wait_max_tokens_ratio have no effect beside enable_attention_dp".to_string(),
        );
    }
}

/// Whether prompts are put off for others to come (`_waiting_requests`).
fn note_waits(judge: &mut Judge, steps: u32, tokens: u32) {
    let note = match (steps, tokens) {
        (0, 0) => return,
        (0, _) => "batch_wait_max_tokens_ratio has no effect without batch_wait_timeout_iters".to_string(),
        (_, 0) => "batch_wait_timeout_iters has no effect without batch_wait_max_tokens_ratio".to_string(),
        _ => format!(
            "prompts wait for up to {steps} steps while others decode, until a step would have {tokens} tokens \
             (batch_wait_timeout_iters, batch_wait_max_tokens_ratio): with few requests each first token is that much later"
        ),
    };
    judge.notes.push(note);
}

/// With a budget below the batch decodes take turns, which is not modelled.
fn check_tokens(judge: &mut Judge, max_num_tokens: u32, max_batch_size: u32) {
    let keys = ["trtllm.max_num_tokens", "trtllm.max_batch_size"];
    if max_num_tokens < max_batch_size && !judge.is_wrong(&keys) {
        judge.wrong_help(
            keys[0],
            "below max_batch_size is not modelled",
            format!("{max_num_tokens} tokens a step, and {max_batch_size} requests may run"),
            format!("write at least {max_batch_size}, or a smaller --max-batch-size"),
        );
    }
}

/// A part of a prompt is a multiple of a block.
fn check_unit(judge: &mut Judge, chunked: bool, max_num_tokens: u32, tokens_per_block: u32) {
    let key = "trtllm.max_num_tokens";
    if chunked && max_num_tokens < tokens_per_block && !judge.is_wrong(&[key]) {
        judge.wrong_help(
            key,
            "must hold a block with chunked prefill",
            format!("{max_num_tokens} tokens are less than a block of {tokens_per_block}"),
            "prompts are split at multiples of tokens_per_block",
        );
    }
}

/// Whoever was paused computes all that it knows in one step; the server dies of one that is too long. With prompts in pieces
/// a short one may pass those before it and be paused for them, which is not modelled.
fn check_paused(judge: &mut Judge, policy: CapacityPolicy, chunked: bool, tokens: u32, longest: u32) {
    let keys = ["trtllm.max_num_tokens", "trtllm.max_seq_len"];
    if policy != CapacityPolicy::MaxUtilization || judge.is_wrong(&keys) {
        return;
    }
    let key = "trtllm.capacity_scheduler_policy";
    if chunked {
        judge.wrong_help(
            key,
            "max_utilization is not modelled with chunked prefill",
            "who is paused for whom is not known",
            "leave one of them out",
        );
    } else if tokens < longest {
        judge.wrong_help(
            key,
            "max_utilization needs a step that holds the longest sequence",
            format!("a request that is paused computes up to {longest} tokens in one step of {tokens}"),
            format!("write --max-num-tokens {longest}, or a smaller --max-seq-len"),
        );
    }
}

fn find_profile(judge: &mut Judge, engine: &RawEngine) -> TrtllmProfile {
    let asked = engine.profile.as_deref().unwrap_or_default();
    judge
        .profile(asked, profile::find(asked), |found| &found.profile)
        .unwrap_or_else(profile::shipped)
}

fn max_seq_len(judge: &mut Judge, raw: &RawScenario, model: Option<&ModelShape>) -> u32 {
    let most = model
        .map_or(TOKENS_MAX, |model| u64::from(model.max_position))
        .max(4);
    let source = Source::Assumption("what the model allows".to_string());
    let given = raw.trtllm.max_seq_len;
    judge.count("trtllm.max_seq_len", given, (4, most), most, source)
}

fn policy(judge: &mut Judge, raw: &RawScenario, profile: &TrtllmProfile) -> CapacityPolicy {
    let (key, default) = (
        "trtllm.capacity_scheduler_policy",
        profile.defaults.capacity_scheduler_policy,
    );
    let given = raw.trtllm.capacity_scheduler_policy;
    match judge.choose(key, given, default, profile.source()) {
        RawCapacityPolicy::GuaranteedNoEvict => CapacityPolicy::GuaranteedNoEvict,
        RawCapacityPolicy::MaxUtilization => CapacityPolicy::MaxUtilization,
        RawCapacityPolicy::StaticBatch => CapacityPolicy::StaticBatch,
    }
}

/// Captured decode batches where so many may run, and whether others are padded to them.
fn captured(
    judge: &mut Judge,
    raw: &RawScenario,
    profile: &TrtllmProfile,
    running: u32,
) -> (Option<Vec<u32>>, bool) {
    let (flags, defaults) = (&raw.trtllm, &profile.defaults);
    let eager = judge.take(
        "engine.enforce_eager",
        raw.engine.enforce_eager,
        false,
        profile.source(),
    );
    let most = judge.count(
        "trtllm.cuda_graph_max_batch_size",
        flags.cuda_graph_max_batch_size,
        (1, 1 << 14),
        defaults.cuda_graph_max_batch_size,
        profile.source(),
    );
    let key = "trtllm.cuda_graph_padding";
    let pads = judge.take(
        key,
        flags.cuda_graph_padding,
        defaults.cuda_graph_padding,
        profile.source(),
    );
    ((!eager).then(|| profile.capture_sizes(most, pads, running)), pads)
}

impl TrtllmFlags {
    /// Name and version of the profile.
    pub(super) fn profile_name(&self) -> String {
        self.config.profile.clone()
    }

    /// Longest sequence.
    pub(super) fn max_seq_len(&self) -> u32 {
        self.config.max_seq_len
    }

    /// Longer prompts are refused before they reach the executor (`_check_arguments`, llmapi/llm.py): key and tokens.
    pub(super) fn longest_prompt(&self) -> Option<(&'static str, u32)> {
        let is_whole = !self.config.enable_chunked_prefill;
        is_whole.then_some(("trtllm.max_num_tokens", self.config.max_num_tokens))
    }

    /// The loop decides a step while another runs.
    pub(super) fn overlaps(&self) -> bool {
        self.config.overlap_scheduler
    }

    /// Decode batches replay graphs, steps with prompts never do; the PyTorch backend compiles nothing unless
    /// `torch_compile_config` says so.
    pub(super) fn graphs(&self) -> Graphs {
        Graphs {
            mode: match self.captured {
                Some(_) => CudagraphMode::FullDecodeOnly,
                None => CudagraphMode::None,
            },
            capture_sizes: self.captured.clone().unwrap_or_default(),
            piece_sizes: None,
            pads: self.pads,
            routes_padding: true,
            is_compiled: false,
        }
    }

    /// How ranks with attention of their own step together, if there are any.
    pub(super) fn attention_dp(&self) -> Option<AttentionDp> {
        self.attention
    }

    /// How their tokens come to the experts on so many GPUs, in so many groups that hold some whole: CUTLASS's kernels and TensorRT-LLM's
    /// own send them over NVLink to where they are routed if no expert is in slices (`select_alltoall_method_type`).
    pub(super) fn exchange(&self, device: &Device, gpus: u32, expert_groups: u32) -> Exchange {
        match device.nvlink_of(gpus) {
            Some(_) if expert_groups == gpus => Exchange::Routed,
            _ => Exchange::Gathered,
        }
    }

    /// Scales are static in the checkpoints that it reads as `FP8`.
    pub(super) fn fp8_inputs(&self, model: &ModelShape, tensor_parallel: u32, kv_dtype: Dtype) -> Fp8Inputs {
        Fp8Inputs::Static {
            written: self.quantized_before.of(model, tensor_parallel, kv_dtype),
        }
    }

    /// The engine, given its memory. What the pool cannot hold the server cuts off the longest sequence and says so.
    pub(super) fn engine(self, judge: &mut Judge, plan: &MemoryPlan) -> TrtllmConfig {
        let size = self.config.tokens_per_block;
        let most = plan.num_gpu_blocks;
        let num_blocks = self
            .max_tokens
            .map_or(most, |asked| (asked / size).clamp(1, most));
        let held = u64::from(num_blocks) * u64::from(size);
        let max_seq_len = u64::from(self.config.max_seq_len).min(held) as u32;
        if max_seq_len < self.config.max_seq_len {
            judge.notes.push(format!(
                "max_seq_len {} is more than the KV cache holds: it is cut to {max_seq_len}, as the server would say",
                self.config.max_seq_len
            ));
        }
        TrtllmConfig {
            num_blocks,
            max_seq_len,
            ..self.config
        }
    }
}

#[cfg(test)]
mod tests;
