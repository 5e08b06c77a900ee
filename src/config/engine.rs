//! The engine's flags: given, by profile, or derived as the engine itself derives them at start-up.

mod batch;
mod graphs;

use std::num::NonZeroU32;

use batch::batch;

pub(super) use batch::check_budget;
use graphs::{Launches, launches};

use super::cluster::REPLICAS_MAX;
use super::document::Source;
use super::foreign::given;
use super::formats;
use super::judge::Judge;
use super::profile::{self, Profile};
use super::raw::{RawEngine, RawGraphMode, RawKvDtype, RawPerformanceMode, RawPolicy};
use super::{hybrid, sparse, speculation};
use crate::cost::roofline::Drafting;
use crate::engine::{EngineConfig, KvGroups, Policy};
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::units::FLAG_TOKENS_MAX as TOKENS_MAX;

/// Flags after defaults, before memory is planned.
pub(super) struct EngineFlags {
    /// Whole but for `num_gpu_blocks` and `watermark_blocks`.
    pub(super) config: EngineConfig,
    /// As given.
    pub(super) api_server_count: Option<NonZeroU32>,
    pub(super) outputs_at_once: u32,
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
    /// Nothing is compiled.
    pub(super) is_eager: bool,
    /// Compiled at optimization level 2 or 3.
    pub(super) is_fully_optimized: bool,
    pub(super) capture_sizes: Vec<u32>,
    pub(super) asynchronous: bool,
    /// What speculative decoding is to step time and memory.
    pub(super) drafting: Option<Drafting>,
    /// KV is handed over between replicas, of every layer whole.
    pub(super) hands_kv_over: bool,
    /// Layers with a window keep the KV of all tokens.
    pub(super) keeps_windows: bool,
}

/// Finds the profile; an unknown one is reported and the newest stands in.
fn profile(judge: &mut Judge, raw: &RawEngine, model: Option<&ModelShape>) -> Profile {
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
    judge
        .profile(asked, profile::find_for(asked, model), |found| &found.profile)
        .unwrap_or_else(|| {
            let name = judge.document.name_of(key);
            judge.problems.last_mut().expect("just reported").message =
                format!("`{name} {asked}` cannot be used");
            default()
        })
}

/// Tokens of a KV block (vLLM 0.33 `BlockSize`).
const BLOCK_SIZES: [u32; 7] = [1, 8, 16, 32, 64, 128, 256];

/// Resolves every engine flag; `kv_cache_dtype` is as asked, engines may exchange the tokens of their experts, and layers may be spread over stages.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawEngine,
    device: Option<&Device>,
    model: Option<&ModelShape>,
    kv_cache_dtype: Option<RawKvDtype>,
    (exchanges_experts, has_stages): (bool, bool),
) -> EngineFlags {
    let profile = profile(judge, raw, model);
    refuse_gone(judge, raw, &profile);
    let batch = batch(judge, raw, &profile, device, model, exchanges_experts);
    let latent = device
        .zip(model.filter(|model| model.has_latent_cache()))
        .and_then(|(device, model)| {
            let heeds = |_| profile.startup.heeds_kv_scheme;
            if model.indexer().is_some() {
                return Some(u64::from(sparse::BLOCK));
            }
            profile.latent_block(
                device,
                formats::kv_dtype(kv_cache_dtype, model, heeds) == Dtype::Fp8,
            )
        });
    let block_size = block_size(judge, raw, &profile, latent);
    sparse::check_block(judge, block_size, model);
    let (threshold, interval) = prefill_limits(judge, raw, &profile);
    check_stream_interval(judge, raw, &profile);
    let outputs_at_once = outputs_at_once(judge, raw, &profile);
    let (utilization, watermark) = memory_shares(judge, raw, &profile);
    let defaults = &profile.defaults;
    let reserve = judge.take(
        "engine.scheduler_reserve_full_isl",
        raw.scheduler_reserve_full_isl,
        defaults.scheduler_reserve_full_isl,
        profile.source(),
    );
    // A version that cannot do both turns it off by itself where nobody asked for it (`VllmConfig.__post_init__`, vLLM 0.14).
    let gives_way = defaults.async_scheduling && has_stages && !profile.startup.pipelines_ahead;
    let asynchronous = judge.take(
        "engine.async_scheduling",
        raw.async_scheduling,
        defaults.async_scheduling && !gives_way,
        match gives_way {
            true => Source::Assumption("its default gives way to a pipeline".to_string()),
            false => profile.source(),
        },
    );
    let policy = policy(judge, raw, &profile);
    hybrid::check_formats(judge, raw, model);
    let keeps_windows = hybrid::keeps_windows(judge, raw, model);
    let around = speculation::Around {
        is_asynchronous: asynchronous,
        runner_tokens: batch.tokens,
        budget: batch.budget,
        max_model_len: batch.max_model_len,
    };
    let drafts = speculation::speculation(judge, raw, &profile, model, around);
    let drafted = drafts.as_ref().map_or(0, |drafts| drafts.drafting.drafts);
    let Launches {
        graphs,
        is_eager,
        is_fully_optimized,
    } = launches(judge, raw, &profile);
    let capture_sizes = capture_sizes(judge, raw, &profile, device, (batch.seqs, drafted), batch.tokens);
    let max_num_queued_reqs = raw
        .max_num_queued_reqs
        .map(|limit| judge.required("engine.max_num_queued_reqs", limit, (1, TOKENS_MAX)));
    let api_server_count = api_servers(judge, raw);
    let blocks = raw
        .num_gpu_blocks_override
        .map(|blocks| judge.required("engine.num_gpu_blocks_override", blocks, (2, TOKENS_MAX)));
    let config = EngineConfig {
        profile: profile.profile.clone(),
        max_model_len: batch.max_model_len,
        max_num_seqs: batch.running,
        max_num_batched_tokens: batch.budget,
        enable_chunked_prefill: batch.chunked,
        long_prefill_token_threshold: threshold,
        policy,
        block_size,
        num_gpu_blocks: 0,
        kv_groups: KvGroups::ONE,
        enable_prefix_caching: batch.caching,
        watermark_blocks: 0,
        prefill_schedule_interval: interval,
        stages: 1,
        queue_depth: if asynchronous { 2 } else { 1 },
        max_num_queued_reqs,
        idle_pass_sleep: profile.idle_pass_sleep(),
        speculation: drafts.as_ref().map(|drafts| drafts.scheduled.clone()),
        switches: profile.version_switches(reserve),
    };
    EngineFlags {
        config,
        api_server_count,
        outputs_at_once,
        max_num_seqs: batch.seqs,
        max_num_batched_tokens: batch.tokens,
        gpu_memory_utilization: utilization,
        kv_cache_memory_bytes: raw.kv_cache_memory_bytes.map(|bytes| bytes.0),
        num_gpu_blocks_override: blocks,
        watermark,
        graph_mode: graphs,
        is_eager,
        is_fully_optimized,
        capture_sizes,
        asynchronous,
        drafting: drafts.map(|drafts| drafts.drafting),
        hands_kv_over: false,
        keeps_windows,
        profile,
    }
}

/// `api_server_count`, where it is given.
fn api_servers(judge: &mut Judge, raw: &RawEngine) -> Option<NonZeroU32> {
    let given = raw.api_server_count?;
    NonZeroU32::new(judge.required("engine.api_server_count", given, (1, API_SERVERS_MAX)))
}

/// Outputs that an API server takes at once; the variable of the environment has no flag.
fn outputs_at_once(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> u32 {
    let source = profile.source();
    let (key, given) = ("engine.output_proc_chunk_size", raw.output_proc_chunk_size);
    judge.count(
        key,
        given,
        (1, TOKENS_MAX),
        profile.defaults.output_proc_chunk_size,
        source,
    )
}

/// As many as engines, where nobody says, of which there may be so many.
const API_SERVERS_MAX: u64 = REPLICAS_MAX;

/// `long_prefill_token_threshold` and `prefill_schedule_interval`.
fn prefill_limits(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> (u32, u32) {
    let threshold = judge.count(
        "engine.long_prefill_token_threshold",
        raw.long_prefill_token_threshold,
        (0, TOKENS_MAX),
        profile.defaults.long_prefill_token_threshold,
        profile.source(),
    );
    let interval = judge.count(
        "engine.prefill_schedule_interval",
        raw.prefill_schedule_interval,
        (1, 1 << 20),
        profile.defaults.prefill_schedule_interval,
        profile.source(),
    );
    (threshold, interval)
}

/// `gpu_memory_utilization` and `watermark`, both shares.
fn memory_shares(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> (f64, f64) {
    let key = "engine.gpu_memory_utilization";
    let default = profile.defaults.gpu_memory_utilization;
    let utilization = judge.take(key, raw.gpu_memory_utilization, default, profile.source());
    judge.fraction(key, utilization, false, true);
    let key = "engine.watermark";
    let watermark = judge.take(key, raw.watermark, profile.defaults.watermark, profile.source());
    judge.fraction(key, watermark, true, false);
    (utilization, watermark)
}

/// `latent` is what the backend of a latent cache takes on this device.
fn block_size(judge: &mut Judge, raw: &RawEngine, profile: &Profile, latent: Option<u64>) -> u32 {
    let key = "engine.block_size";
    let source = match latent {
        Some(_) => Source::Profile(format!("{} for a latent cache on this GPU", profile.profile)),
        None => profile.source(),
    };
    let default = latent.unwrap_or(profile.defaults.block_size);
    let block_size = judge.count(key, raw.block_size, (1, 1 << 16), default, source);
    if profile.latent_blocks.overrules && latent.is_some() && u64::from(block_size) != default {
        let name = &profile.profile;
        judge.ignore(format!(
            "block_size = {block_size} has no effect: {name} takes blocks of {default} tokens for a latent cache on this GPU"
        ));
        return u32::try_from(default).expect("profiles have blocks of few tokens");
    }
    if !BLOCK_SIZES.contains(&block_size) && !judge.is_wrong(&[key]) {
        let label = format!("{block_size} is none of them");
        judge.wrong(
            key,
            "must be 1, 8, 16, 32, 64, 128 or 256, which vLLM takes",
            label,
        );
    }
    block_size
}

/// Chunks of several tokens change when a client sees those between the first and the last, and nothing else: the first is sent
/// at once (vLLM 0.33 `RequestState.make_request_output`).
fn check_stream_interval(judge: &mut Judge, raw: &RawEngine, profile: &Profile) {
    let source = profile.source();
    let default = profile.defaults.stream_interval;
    let interval = judge.count(
        "engine.stream_interval",
        raw.stream_interval,
        (1, TOKENS_MAX),
        default,
        source,
    );
    note_chunks(judge, interval);
}

/// What a client sees of tokens that are sent so many at a time.
pub(super) fn note_chunks(judge: &mut Judge, interval: u32) {
    if interval != 1 && !judge.is_wrong(&["engine.stream_interval"]) {
        judge.notes.push(format!(
            "stream_interval = {interval}: TTFT, TPOT and E2EL are as without it, but for what API servers have less to do; ITL here is that of tokens, and a client who counts \
             chunks sees gaps of up to {interval} of them"
        ));
    }
}

/// A flag that this version of the engine does not have is an error, as it would be there, unless it asks for what
/// the version does anyway (as a resolved input does).
fn refuse_gone(judge: &mut Judge, raw: &RawEngine, profile: &Profile) {
    let (asked, defaults) = (given(raw), given(&profile.defaults));
    for (flag, why) in &profile.gone {
        if asked.contains_key(flag) && asked.get(flag) != defaults.get(flag) {
            judge.wrong(
                &format!("engine.{flag}"),
                &format!("is not a flag of {}", profile.profile),
                why.clone(),
            );
        }
    }
}

fn policy(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> Policy {
    let key = "engine.scheduling_policy";
    let default = profile.defaults.scheduling_policy;
    match judge.choose(key, raw.scheduling_policy, default, profile.source()) {
        RawPolicy::Fcfs => Policy::Fcfs,
        RawPolicy::Priority => Policy::Priority,
    }
}

fn capture_sizes(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    (seqs, drafts): (u32, u32),
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
    let cap = if device.is_some_and(Device::is_datacenter_blackwell) {
        rule.max_datacenter_blackwell
    } else {
        rule.max
    };
    let drafts = if rule.counts_drafts { drafts } else { 0 };
    let default_max = (2 * u64::from(seqs) * (1 + u64::from(drafts))).min(cap);
    let max = match raw.max_cudagraph_capture_size {
        Some(max) => u64::from(judge.required("engine.max_cudagraph_capture_size", max, (1, TOKENS_MAX))),
        None => default_max,
    };
    // A range that is given is left as it is (`VllmConfig._set_cudagraph_sizes`).
    let seqs = raw
        .max_cudagraph_capture_size
        .is_none()
        .then_some(u64::from(seqs));
    let mut sizes = profile::capture_sizes(rule, max, seqs.filter(|_| drafts == 0), u64::from(tokens));
    if let (Some(seqs), 1..) = (seqs, drafts) {
        sizes.extend(profile::decode_sizes(
            seqs.min(cap),
            drafts,
            max.min(tokens.into()),
        ));
        sizes.sort_unstable();
        sizes.dedup();
    }
    if raw.performance_mode == Some(RawPerformanceMode::Interactivity) {
        sizes.extend((1..=32).filter(|&size| u64::from(size) <= max));
        sizes.sort_unstable();
        sizes.dedup();
    }
    sizes
}
