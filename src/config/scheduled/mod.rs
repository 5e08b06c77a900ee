//! Flags of the engines whose scheduler is separate: vLLM V0, static batching, Transformers' continuous batching.
//!
//! They share the keys of `[engine]` as far as they have them: `max_num_seqs` is the rows of a static batch,
//! `max_num_batched_tokens` the tokens of a step. What an engine has not is refused.

mod foreign;
mod memory;
mod profile;

pub(super) use foreign::{called, has_key, note_batching, refuse_flags_of_v0};

use super::document::Source;
use super::engine::check_budget;
use super::judge::Judge;
use super::raw::{RawBatching, RawCbScheduler, RawEngine, RawPolicy, RawPreemptionMode};
use super::version::Scheduled as Kind;
use crate::cost::calibration::Copies;
use crate::engine::Policy;
use crate::engine::scheduled::policies::{HfConfig, HfOrder, PreemptionMode, StaticConfig, V0Config};
use crate::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use crate::hardware::Device;
use crate::units::{BytesPerSec, FLAG_TOKENS_MAX as TOKENS_MAX, Picos};
use profile::ScheduledProfile;

/// Flags after defaults, before memory is planned.
pub(super) struct ScheduledFlags {
    /// Whole but for the sizes of the pools.
    config: ScheduledConfig,
    kind: Kind,
    gpu_memory_utilization: f64,
    num_gpu_blocks_override: Option<u32>,
    blocks_max: Option<u32>,
    /// Bytes of the host's memory for each GPU.
    swap_bytes: u64,
    pcie: Option<BytesPerSec>,
    /// Measured copies over that link, out and back, and how many pieces a block is copied in.
    copies: Option<([Copies; 2], f64)>,
    enforce_eager: bool,
    safety_margin: f64,
}

/// Resolves every flag.
pub(super) fn resolve(
    judge: &mut Judge,
    kind: Kind,
    raw: &RawEngine,
    batching: &RawBatching,
    device: Option<&Device>,
    model_len: Option<u32>,
) -> ScheduledFlags {
    let (profile, note) = profile::find(kind, raw.profile.as_deref().unwrap_or_default());
    judge.given("engine.profile", &profile.profile);
    judge.notes.extend(note);
    foreign::refuse_foreign(judge, raw, kind);
    foreign::note_seats(judge, raw, kind);
    let max_model_len = context(judge, raw, model_len);
    let chunked = chunked(judge, raw, &profile, kind, max_model_len);
    let max_num_seqs = count(
        judge,
        &profile,
        "engine.max_num_seqs",
        raw.max_num_seqs,
        profile.max_num_seqs,
    );
    let budget = budget(judge, raw, &profile, kind, chunked, max_model_len, max_num_seqs);
    let block_size = match kind {
        // Rows lie in memory as they are.
        Kind::Static => profile.block_size as u32,
        _ => count(
            judge,
            &profile,
            "engine.block_size",
            raw.block_size,
            profile.block_size,
        ),
    };
    if block_size > 256 {
        judge.wrong(
            "engine.block_size",
            "must be at most 256",
            "no attention kernel pages by that",
        );
    }
    let key = "engine.gpu_memory_utilization";
    let utilization = judge.take(
        key,
        raw.gpu_memory_utilization,
        profile.gpu_memory_utilization,
        profile.source(),
    );
    judge.fraction(key, utilization, false, true);
    let caches = match kind {
        Kind::Static => false,
        _ => judge.take(
            "engine.enable_prefix_caching",
            raw.enable_prefix_caching,
            profile.enable_prefix_caching,
            profile.source(),
        ),
    };
    let key = "engine.num_gpu_blocks_override";
    let num_gpu_blocks_override = raw
        .num_gpu_blocks_override
        .map(|blocks| judge.required(key, blocks, (1, TOKENS_MAX)));
    let safety_margin = safety_margin(judge, &profile, batching, kind);
    let scheduler = match kind {
        Kind::V0 => SchedulerChoice::VllmV0(v0(judge, raw, &profile, chunked)),
        Kind::Static => SchedulerChoice::Static(static_batching(
            judge,
            batching,
            &profile,
            (max_num_seqs, max_model_len),
        )),
        Kind::HfContinuous => SchedulerChoice::HfContinuous(HfConfig {
            order: cb_order(judge, batching, &profile),
            max_batch_tokens: budget,
            margin_blocks: 0,
        }),
    };
    let swap_space = match kind {
        Kind::V0 => judge.take(
            "engine.swap_space",
            raw.swap_space,
            profile.swap_space,
            profile.source(),
        ),
        _ => 0.0,
    };
    let is_right = |value| (0.0..=65_536.0).contains(&value);
    judge.number(
        "engine.swap_space",
        swap_space,
        is_right,
        "must lie between 0 and 65536 GiB",
    );
    let key = "engine.enforce_eager";
    let enforce_eager = judge.take(key, raw.enforce_eager, kind != Kind::V0, profile.source());
    profile::assumptions(judge, kind);
    ScheduledFlags {
        config: ScheduledConfig {
            profile: profile.profile.clone(),
            max_model_len,
            max_num_seqs,
            max_num_batched_tokens: budget,
            block_size,
            num_gpu_blocks: 0,
            enable_prefix_caching: caches,
            swap_blocks: 0,
            swap_time_per_block: Picos::ZERO,
            scheduler,
        },
        kind,
        gpu_memory_utilization: utilization,
        num_gpu_blocks_override,
        blocks_max: profile.blocks_max,
        swap_bytes: (swap_space * f64::from(1 << 30)) as u64,
        pcie: device.map(|device| device.pcie),
        copies: None,
        enforce_eager,
        safety_margin,
    }
}

fn count(
    judge: &mut Judge,
    profile: &ScheduledProfile,
    key: &str,
    given: Option<super::scalar::Count>,
    default: u64,
) -> u32 {
    let source = profile.source();
    judge.count(key, given, (1, TOKENS_MAX), default, source)
}

fn context(judge: &mut Judge, raw: &RawEngine, model_len: Option<u32>) -> u32 {
    let most = model_len.map_or(TOKENS_MAX - 1, u64::from);
    if raw.max_model_len == Some(super::scalar::Context::Longest) {
        judge.wrong_help(
            "engine.max_model_len",
            "must be a number of tokens",
            "this engine finds no length by itself, which vLLM does since 0.14",
            "write a number, or leave it out for what the model allows",
        );
    }
    let source = Source::Assumption("what the model allows".to_string());
    judge.count(
        "engine.max_model_len",
        raw.max_model_len.and_then(super::scalar::Context::tokens),
        (2, most.max(2)),
        most,
        source,
    )
}

/// Whether prompts are split. V0 switches it on by itself for long contexts (V0-14); the others have no choice.
fn chunked(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &ScheduledProfile,
    kind: Kind,
    max_model_len: u32,
) -> bool {
    let default = u64::from(max_model_len) > profile.chunked_prefill_above;
    if kind != Kind::V0 {
        return default;
    }
    let key = "engine.enable_chunked_prefill";
    let source = if default {
        format!("{}, whose context is above 32768", profile.profile)
    } else {
        profile.profile.clone()
    };
    judge.take(key, raw.enable_chunked_prefill, default, Source::Profile(source))
}

/// Tokens of a step, checked as V0 checks them.
fn budget(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &ScheduledProfile,
    kind: Kind,
    chunked: bool,
    max_model_len: u32,
    max_num_seqs: u32,
) -> u32 {
    let key = "engine.max_num_batched_tokens";
    let mut default = profile.max_num_batched_tokens;
    if kind == Kind::Static {
        return default as u32;
    }
    if !chunked {
        default = default.max(max_model_len.into());
    }
    let budget = count(judge, profile, key, raw.max_num_batched_tokens, default);
    if kind == Kind::V0 {
        check_budget(judge, budget, max_num_seqs, max_model_len, chunked);
    }
    budget
}

/// The flags that only V0's scheduler has.
fn v0(judge: &mut Judge, raw: &RawEngine, profile: &ScheduledProfile, chunked: bool) -> V0Config {
    let key = "engine.scheduling_policy";
    let policy = judge.choose(key, raw.scheduling_policy, RawPolicy::Fcfs, profile.source());
    if chunked && policy == RawPolicy::Priority {
        let note = "scheduling_policy = priority has no effect with chunked prefill: vLLM 0.6 looks at it in its default mode only";
        judge.ignore(note.to_string());
    }
    let (key, recompute) = ("engine.preemption_mode", RawPreemptionMode::Recompute);
    let preemption_mode = judge.choose(key, raw.preemption_mode, recompute, profile.source());
    let key = "engine.scheduler_delay_factor";
    let delay_factor = judge.take(key, raw.scheduler_delay_factor, 0.0, profile.source());
    judge.number(key, delay_factor, |value| value >= 0.0, "must be at least 0");
    let key = "engine.disable_async_output_proc";
    let disabled = judge.take(key, raw.disable_async_output_proc, false, profile.source());
    foreign::only_one_step(judge, raw);
    V0Config {
        enable_chunked_prefill: chunked,
        policy: match policy {
            RawPolicy::Priority => Policy::Priority,
            RawPolicy::Fcfs => Policy::Fcfs,
        },
        preemption_mode: match preemption_mode {
            RawPreemptionMode::Swap => PreemptionMode::Swap,
            RawPreemptionMode::Recompute => PreemptionMode::Recompute,
        },
        delay_factor,
        // Without CUDA graphs it is switched off (`Platform.is_async_output_supported`).
        async_output_proc: !disabled && raw.enforce_eager != Some(true),
    }
}

fn static_batching(
    judge: &mut Judge,
    batching: &RawBatching,
    profile: &ScheduledProfile,
    (batch_size, max_model_len): (u32, u32),
) -> StaticConfig {
    let key = "batching.batch_timeout";
    let batch_timeout = match &batching.batch_timeout {
        Some(text) => judge.duration(key, text, true).unwrap_or_default(),
        None => {
            let source = Source::Assumption("a batch starts when the GPU is free".to_string());
            judge.assume(key, "0 ms", source);
            Picos::ZERO
        }
    };
    let key = "batching.release_rows_early";
    StaticConfig {
        batch_size,
        batch_timeout,
        release_rows_early: judge.take(key, batching.release_rows_early, false, profile.source()),
        max_model_len,
    }
}

fn cb_order(judge: &mut Judge, batching: &RawBatching, profile: &ScheduledProfile) -> HfOrder {
    let (key, fifo) = ("batching.cb_scheduler", RawCbScheduler::Fifo);
    match judge.choose(key, batching.cb_scheduler, fifo, profile.source()) {
        RawCbScheduler::PrefillFirst => HfOrder::PrefillFirst,
        RawCbScheduler::Fifo => HfOrder::Fifo,
    }
}

/// Share of the blocks below which prompts wait (ST-8).
fn safety_margin(judge: &mut Judge, profile: &ScheduledProfile, batching: &RawBatching, kind: Kind) -> f64 {
    let key = "batching.safety_margin";
    if kind != Kind::HfContinuous {
        return 0.0;
    }
    let margin = judge.take(key, batching.safety_margin, 0.2, profile.source());
    judge.fraction(key, margin, true, true);
    margin
}

#[cfg(test)]
mod tests;
