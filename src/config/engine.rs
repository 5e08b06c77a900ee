//! The engine's flags: given, by profile, or derived as the engine itself derives them at start-up.

use super::document::Source;
use super::judge::Judge;
use super::profile::{self, Profile};
use super::raw::{RawEngine, RawGraphMode, RawPerformanceMode, RawPolicy};
use crate::engine::{EngineConfig, Policy, VersionSwitches};
use crate::hardware::{Architecture, Device};

/// Flags after defaults, before memory is planned.
pub(super) struct EngineFlags {
    /// Whole but for `num_gpu_blocks` and `watermark_blocks`.
    pub(super) config: EngineConfig,
    pub(super) profile: Profile,
    /// `max_num_seqs` as the flag has it, which sizes buffers; the scheduler's limit may be lower.
    pub(super) max_num_seqs: u32,
    /// Likewise.
    pub(super) max_num_batched_tokens: u32,
    pub(super) gpu_memory_utilization: f64,
    pub(super) kv_cache_memory_bytes: Option<u64>,
    pub(super) num_gpu_blocks_override: Option<u32>,
    pub(super) watermark: f64,
    pub(super) graph_mode: RawGraphMode,
    pub(super) capture_sizes: Vec<u32>,
    pub(super) asynchronous: bool,
}

/// Largest token counts that are taken seriously: 2³⁰.
const TOKENS_MAX: u64 = 1 << 30;

/// Finds the profile; an unknown one is reported and the newest stands in.
fn profile(judge: &mut Judge, raw: &RawEngine) -> Profile {
    let key = "engine.profile";
    let default = || profile::find("vllm").expect("the newest profile is shipped").0;
    let Some(asked) = &raw.profile else {
        let profile = default();
        judge.assume(
            key,
            profile.profile.clone(),
            Source::Assumption("the newest profile".to_string()),
        );
        return profile;
    };
    judge.given(key, asked);
    match profile::find(asked) {
        Ok((profile, note)) => {
            judge.notes.extend(note);
            profile
        }
        Err((problem, help)) => {
            let name = judge.document.name_of(key);
            judge.wrong_help(key, "cannot be used", problem, help);
            judge.problems.last_mut().expect("just reported").message =
                format!("`{name} {asked}` cannot be used");
            default()
        }
    }
}

/// The largest KV block that an attention kernel pages by.
const BLOCK_SIZE_MAX: u32 = 256;

/// Resolves every engine flag. `model_len` is the longest context that the model allows.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawEngine,
    device: Option<&Device>,
    model_len: Option<u32>,
) -> EngineFlags {
    let profile = profile(judge, raw);
    refuse_gone(judge, raw, &profile);
    let by_profile = || Source::Profile(profile.profile.clone());
    let defaults = &profile.defaults;
    let max_model_len = max_model_len(judge, raw, model_len);
    let chunked = judge.take(
        "engine.enable_chunked_prefill",
        raw.enable_chunked_prefill,
        defaults.enable_chunked_prefill,
        by_profile(),
    );
    let caching = judge.take(
        "engine.enable_prefix_caching",
        raw.enable_prefix_caching,
        defaults.enable_prefix_caching,
        by_profile(),
    );
    let (max_num_batched_tokens, max_num_seqs) =
        batch_sizes(judge, raw, &profile, device, max_model_len, chunked);
    let budget = lower(
        judge,
        "engine.max_num_scheduled_tokens",
        raw.max_num_scheduled_tokens,
        max_num_batched_tokens,
    );
    let running = lower(
        judge,
        "engine.max_num_active_seqs",
        raw.max_num_active_seqs,
        max_num_seqs,
    );
    let block_size = block_size(judge, raw, &profile);
    let threshold = judge.count(
        "engine.long_prefill_token_threshold",
        raw.long_prefill_token_threshold,
        (0, TOKENS_MAX),
        defaults.long_prefill_token_threshold,
        by_profile(),
    );
    let interval = judge.count(
        "engine.prefill_schedule_interval",
        raw.prefill_schedule_interval,
        (1, 1 << 20),
        defaults.prefill_schedule_interval,
        by_profile(),
    );
    check_stream_interval(judge, raw, &profile);
    let utilization = judge.take(
        "engine.gpu_memory_utilization",
        raw.gpu_memory_utilization,
        defaults.gpu_memory_utilization,
        by_profile(),
    );
    judge.fraction("engine.gpu_memory_utilization", utilization, false, true);
    let watermark = judge.take(
        "engine.watermark",
        raw.watermark,
        defaults.watermark,
        by_profile(),
    );
    judge.fraction("engine.watermark", watermark, true, false);
    let reserve = judge.take(
        "engine.scheduler_reserve_full_isl",
        raw.scheduler_reserve_full_isl,
        defaults.scheduler_reserve_full_isl,
        by_profile(),
    );
    let asynchronous = judge.take(
        "engine.async_scheduling",
        raw.async_scheduling,
        defaults.async_scheduling,
        by_profile(),
    );
    let policy = policy(judge, raw, &profile);
    let graph_mode = graph_mode(judge, raw, &profile);
    let capture_sizes = capture_sizes(judge, raw, &profile, device, max_num_seqs, max_num_batched_tokens);
    let max_num_queued_reqs = raw
        .max_num_queued_reqs
        .map(|limit| judge.required("engine.max_num_queued_reqs", limit, (1, TOKENS_MAX)));
    let kv_cache_memory_bytes = raw.kv_cache_memory_bytes.map(|bytes| bytes.0);
    let blocks = raw
        .num_gpu_blocks_override
        .map(|blocks| judge.required("engine.num_gpu_blocks_override", blocks, (2, TOKENS_MAX)));
    let config = EngineConfig {
        profile: profile.profile.clone(),
        max_model_len,
        max_num_seqs: running,
        max_num_batched_tokens: budget,
        enable_chunked_prefill: chunked,
        long_prefill_token_threshold: threshold,
        policy,
        block_size,
        num_gpu_blocks: 0,
        enable_prefix_caching: caching,
        watermark_blocks: 0,
        prefill_schedule_interval: interval,
        queue_depth: if asynchronous { 2 } else { 1 },
        max_num_queued_reqs,
        idle_pass_sleep: profile.idle_pass_sleep(),
        switches: switches(&profile, reserve),
    };
    EngineFlags {
        config,
        max_num_seqs,
        max_num_batched_tokens,
        gpu_memory_utilization: utilization,
        kv_cache_memory_bytes,
        num_gpu_blocks_override: blocks,
        watermark,
        graph_mode,
        capture_sizes,
        asynchronous,
        profile,
    }
}

fn block_size(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> u32 {
    let key = "engine.block_size";
    let source = Source::Profile(profile.profile.clone());
    let block_size = judge.count(
        key,
        raw.block_size,
        (1, 1 << 16),
        profile.defaults.block_size,
        source,
    );
    if !block_size.is_power_of_two() || block_size > BLOCK_SIZE_MAX {
        judge.wrong_help(
            key,
            "must be a power of two up to 256",
            format!("no attention kernel pages by {block_size} tokens"),
            "vLLM takes 1, 8, 16, 32, 64, 128 and 256",
        );
    }
    block_size
}

/// Chunks of several tokens would change what a client sees; they are refused.
fn check_stream_interval(judge: &mut Judge, raw: &RawEngine, profile: &Profile) {
    let key = "engine.stream_interval";
    let source = Source::Profile(profile.profile.clone());
    let stream = judge.count(
        key,
        raw.stream_interval,
        (1, TOKENS_MAX),
        profile.defaults.stream_interval,
        source,
    );
    if stream != 1 {
        judge.wrong_help(
            key,
            "other than 1 is not modelled yet",
            stream.to_string(),
            "leave it out",
        );
    }
}

/// A flag that this version of the engine does not have is an error, as it would be there, unless it asks for what
/// the version does anyway (as a resolved input does).
fn refuse_gone(judge: &mut Judge, raw: &RawEngine, profile: &Profile) {
    let given = toml::Table::try_from(raw).expect("format types are representable in TOML");
    let defaults = toml::Table::try_from(&profile.defaults).expect("profiles are representable in TOML");
    for (flag, why) in &profile.gone {
        if given.contains_key(flag) && given.get(flag) != defaults.get(flag) {
            judge.wrong(
                &format!("engine.{flag}"),
                &format!("is not a flag of {}", profile.profile),
                why.clone(),
            );
        }
    }
}

fn max_model_len(judge: &mut Judge, raw: &RawEngine, model_len: Option<u32>) -> u32 {
    let key = "engine.max_model_len";
    let allowed = model_len.unwrap_or(u32::MAX >> 2);
    let source = Source::Assumption("what the model allows".to_string());
    let most = (1 << 30) - 1;
    let value = match (raw.max_model_len, model_len) {
        (None, None) => return allowed,
        _ => judge.count(key, raw.max_model_len, (2, most), u64::from(allowed), source),
    };
    if value > allowed && raw.max_model_len.is_some() {
        let label = format!("the model's context is {allowed} tokens");
        judge.wrong_help(
            key,
            "is longer than the model allows",
            label,
            format!("write at most {allowed}"),
        );
    }
    value
}

/// `max_num_batched_tokens` and `max_num_seqs` as vLLM's start-up derives and checks them (1.15).
fn batch_sizes(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    max_model_len: u32,
    chunked: bool,
) -> (u32, u32) {
    let (tokens_key, seqs_key) = ("engine.max_num_batched_tokens", "engine.max_num_seqs");
    let row = device.map_or_else(
        || {
            profile
                .batch
                .last()
                .expect("profiles have rows, which a test checks")
        },
        |device| profile.batch_for(device),
    );
    let doubled = match raw.performance_mode {
        Some(RawPerformanceMode::Throughput) => 2,
        _ => 1,
    };
    if let Some(mode) = raw.performance_mode {
        judge.given("engine.performance_mode", format!("{mode:?}").to_lowercase());
    }
    let on = device.map_or(String::new(), |device| format!(" on {}", device.id));
    let mut default_tokens = row.max_num_batched_tokens * doubled;
    let mut default_seqs = row.max_num_seqs * doubled;
    if !chunked {
        default_tokens = default_tokens.max(u64::from(max_model_len));
    }
    if let Some(seqs) = raw.max_num_seqs {
        default_tokens = default_tokens.min(seqs.0.saturating_mul(u64::from(max_model_len)).max(1));
    }
    if let Some(tokens) = raw.max_num_batched_tokens {
        default_seqs = default_seqs.min(tokens.0.max(1));
    }
    let source = || Source::Profile(format!("{}{on}", profile.profile));
    let tokens = judge.count(
        tokens_key,
        raw.max_num_batched_tokens,
        (1, TOKENS_MAX),
        default_tokens,
        source(),
    );
    let seqs = judge.count(
        seqs_key,
        raw.max_num_seqs,
        (1, TOKENS_MAX),
        default_seqs.min(u64::from(tokens)),
        source(),
    );
    if !chunked && tokens < max_model_len {
        let label = format!("{tokens} tokens, but prompts may have {max_model_len}");
        let help = format!(
            "write {max_model_len} or more, a smaller max_model_len, or enable_chunked_prefill = true"
        );
        judge.wrong_help(
            tokens_key,
            "must hold the longest prompt when chunked prefill is off",
            label,
            help,
        );
    }
    if tokens < seqs {
        let label = format!("{tokens} is less than max_num_seqs = {seqs}");
        judge.wrong_help(
            tokens_key,
            "must be at least max_num_seqs",
            label,
            format!("write at least {seqs}, or a smaller max_num_seqs"),
        );
    }
    (tokens, seqs)
}

/// A second limit that may only lower the first.
fn lower(judge: &mut Judge, key: &str, given: Option<super::scalar::Count>, first: u32) -> u32 {
    match given {
        Some(limit) => judge.required(key, limit, (1, u64::from(first))),
        None => first,
    }
}

fn policy(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> Policy {
    let key = "engine.scheduling_policy";
    let name = |policy| match policy {
        RawPolicy::Fcfs => "fcfs",
        RawPolicy::Priority => "priority",
    };
    let policy = raw
        .scheduling_policy
        .unwrap_or(profile.defaults.scheduling_policy);
    let given = raw.scheduling_policy.map(|policy| name(policy).to_string());
    judge.take(
        key,
        given,
        name(policy).to_string(),
        Source::Profile(profile.profile.clone()),
    );
    match policy {
        RawPolicy::Fcfs => Policy::Fcfs,
        RawPolicy::Priority => Policy::Priority,
    }
}

fn graph_mode(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> RawGraphMode {
    if raw.enforce_eager == Some(true) {
        judge.given("engine.enforce_eager", true);
        if raw.cudagraph_mode.is_some_and(|mode| mode != RawGraphMode::None) {
            judge.wrong(
                "engine.cudagraph_mode",
                "contradicts enforce_eager",
                "there are no graphs when everything is eager",
            );
        }
        return RawGraphMode::None;
    }
    let mode = raw.cudagraph_mode.unwrap_or(profile.defaults.cudagraph_mode);
    let name = |mode: RawGraphMode| {
        let value = toml::Value::try_from(mode).expect("a unit variant is a string");
        value.as_str().unwrap_or_default().to_string()
    };
    judge.take(
        "engine.cudagraph_mode",
        raw.cudagraph_mode.map(name),
        name(mode),
        Source::Profile(profile.profile.clone()),
    );
    mode
}

fn capture_sizes(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    seqs: u32,
    tokens: u32,
) -> Vec<u32> {
    let key = "engine.cudagraph_capture_sizes";
    if let Some(sizes) = &raw.cudagraph_capture_sizes {
        judge.given(key, format!("{} sizes", sizes.len()));
        let mut sizes: Vec<u32> = (0..sizes.len())
            .map(|at| judge.required(&format!("{key}.{at}"), sizes[at], (1, TOKENS_MAX)))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            judge.wrong_help(
                key,
                "must name at least one size",
                "empty",
                "to run without graphs write enforce_eager = true",
            );
        }
        return sizes;
    }
    let rule = &profile.graphs;
    let is_datacenter_blackwell = device.is_some_and(|device| {
        device.architecture == Architecture::Blackwell && !device.id.starts_with("RTX")
    });
    let cap = if is_datacenter_blackwell {
        rule.max_datacenter_blackwell
    } else {
        rule.max
    };
    let default_max = (2 * u64::from(seqs)).min(cap);
    let max = match raw.max_cudagraph_capture_size {
        Some(max) => u64::from(judge.required("engine.max_cudagraph_capture_size", max, (1, TOKENS_MAX))),
        None => default_max,
    };
    let mut sizes = profile::capture_sizes(rule, max, u64::from(seqs), u64::from(tokens));
    if raw.performance_mode == Some(RawPerformanceMode::Interactivity) {
        sizes.extend((1..=32).filter(|&size| u64::from(size) <= max));
        sizes.sort_unstable();
        sizes.dedup();
    }
    sizes
}

fn switches(profile: &Profile, reserve_full_isl: bool) -> VersionSwitches {
    let switches = profile.switches;
    VersionSwitches {
        reserve_full_isl,
        unhashed_to_head: switches.unhashed_to_head,
        stats_per_admission: switches.stats_per_admission,
        threshold_not_when_alone: switches.threshold_not_when_alone,
        oversize_prompt_stops: switches.oversize_prompt_stops,
        eviction_restores_budget: switches.eviction_restores_budget,
        overrun_guard: switches.overrun_guard,
    }
}
