//! How much a step may hold: context, token budget and sequences, as vLLM's start-up derives and checks them.

use super::TOKENS_MAX;
use crate::config::document::Source;
use crate::config::hybrid;
use crate::config::judge::Judge;
use crate::config::profile::Profile;
use crate::config::raw::{RawEngine, RawPerformanceMode, spelled};
use crate::config::scalar::{Context, Count};
use crate::config::yarn;
use crate::hardware::Device;
use crate::model::ModelShape;

const TOKENS_KEY: &str = "engine.max_num_batched_tokens";
const SEQS_KEY: &str = "engine.max_num_seqs";

/// What a step may hold.
pub(super) struct Batch {
    pub(super) max_model_len: u32,
    pub(super) chunked: bool,
    pub(super) caching: bool,
    /// `max_num_batched_tokens`, which sizes buffers.
    pub(super) tokens: u32,
    /// `max_num_seqs`, likewise.
    pub(super) seqs: u32,
    /// Tokens that the scheduler gives out at most.
    pub(super) budget: u32,
    /// Sequences that the scheduler runs at most.
    pub(super) running: u32,
}

/// Resolves the sizes of a step and what decides how prompts are put into it.
pub(super) fn batch(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    model: Option<&ModelShape>,
    exchanges_experts: bool,
) -> Batch {
    let is_batched = batches_experts(judge, raw, exchanges_experts);
    let max_model_len = max_model_len(judge, raw, profile, model);
    let chunked = chunked(judge, raw, profile);
    let caching = match model.is_some_and(|model| model.recurrence().is_some()) {
        true => hybrid::caching(judge, raw, profile),
        false => judge.take(
            "engine.enable_prefix_caching",
            raw.enable_prefix_caching,
            profile.defaults.enable_prefix_caching,
            profile.source(),
        ),
    };
    let defaults = default_batch_sizes(raw, profile, device, max_model_len, chunked, is_batched);
    let (tokens, seqs) = batch_sizes(judge, raw, profile, device, defaults);
    check_budget(judge, tokens, seqs, max_model_len, chunked);
    let budget = "engine.max_num_scheduled_tokens";
    let running = "engine.max_num_active_seqs";
    Batch {
        max_model_len,
        chunked,
        caching,
        tokens,
        seqs,
        budget: lower(judge, (budget, TOKENS_KEY), raw.max_num_scheduled_tokens, tokens),
        running: lower(judge, (running, SEQS_KEY), raw.max_num_active_seqs, seqs),
    }
}

/// Whether prompts are cut. A version that always cuts them takes the flag and does nothing with it, so it is noted.
fn chunked(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> bool {
    let key = "engine.enable_chunked_prefill";
    let given = raw.enable_chunked_prefill;
    let chunked = judge.take(
        key,
        given,
        profile.defaults.enable_chunked_prefill,
        profile.source(),
    );
    if !chunked && profile.startup.always_chunks {
        let name = &profile.profile;
        let note = format!(
            "enable_chunked_prefill = false has no effect: {name} cuts prompts whatever the flag says"
        );
        judge.ignore(note);
        return true;
    }
    chunked
}

/// The longest that fits is known once memory is planned ([`crate::config::longest`]): until then it is what the model allows.
fn max_model_len(judge: &mut Judge, raw: &RawEngine, profile: &Profile, model: Option<&ModelShape>) -> u32 {
    let model_len = model.map(|model| model.max_position);
    let key = "engine.max_model_len";
    if raw.max_model_len == Some(Context::Longest) && !profile.startup.fits_context {
        judge.wrong_help(
            key,
            "must be a number of tokens",
            format!(
                "{} finds no length by itself, which vLLM does since 0.14",
                profile.profile
            ),
            "write a number, leave it out for what the model allows, or use vllm@0.33",
        );
    }
    let given = raw.max_model_len.and_then(Context::tokens);
    let allowed = model_len.unwrap_or(u32::MAX >> 2);
    let source = Source::Assumption("what the model allows".to_string());
    let most = (1 << 30) - 1;
    let value = match (given, model_len) {
        (None, None) => return allowed,
        _ => judge.count(key, given, (2, most), u64::from(allowed), source),
    };
    if value > allowed && given.is_some() && !judge.is_wrong(&[key]) {
        let label = format!("the model's context is {allowed} tokens");
        let longer = yarn::longer(model, value, "--hf-overrides");
        let longer = longer.map(|longer| format!("{longer}; under vllm@0.11 YaRN makes it so by itself"));
        let help = longer.unwrap_or_else(|| format!("write at most {allowed}"));
        judge.wrong_help(key, "is longer than the model allows", label, help);
    }
    value
}

/// Whether the kernels that exchange experts' tokens take one small batch of each engine. What they do not change is told.
fn batches_experts(judge: &mut Judge, raw: &RawEngine, exchanges_experts: bool) -> bool {
    let Some(backend) = raw.all2all_backend else {
        return false;
    };
    let name = spelled(backend);
    judge.given("engine.all2all_backend", name.clone());
    let is_small = exchanges_experts && backend.is_batched() && raw.max_num_batched_tokens.is_none();
    judge.ignore(match exchanges_experts {
        true if is_small => format!(
            "all2all_backend = {name} changes the time of no exchange here: experts' tokens are exchanged in one way. Its kernels take few \
             tokens of each engine, and max_num_batched_tokens follows where it is not given: prompts are cut into small chunks"
        ),
        true => format!("all2all_backend = {name} changes no time here: experts' tokens are exchanged in one way"),
        false => format!(
            "all2all_backend = {name} has no effect: it matters to experts that data-parallel engines hold whole \
             (--data-parallel-size with --enable-expert-parallel)"
        ),
    });
    exchanges_experts && backend.is_batched()
}

/// `max_num_batched_tokens` and `max_num_seqs` as vLLM's start-up derives and checks them
/// (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args` in vLLM 0.33).
fn batch_sizes(
    judge: &mut Judge,
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    (default_tokens, default_seqs): (u64, u64),
) -> (u32, u32) {
    if let Some(mode) = raw.performance_mode {
        judge.given("engine.performance_mode", spelled(mode));
    }
    let on = device.map_or(String::new(), |device| format!(" on {}", device.id));
    let source = || Source::Profile(format!("{}{on}", profile.profile));
    let tokens = judge.count(
        TOKENS_KEY,
        raw.max_num_batched_tokens,
        (1, TOKENS_MAX),
        default_tokens,
        source(),
    );
    let seqs = judge.count(
        SEQS_KEY,
        raw.max_num_seqs,
        (1, TOKENS_MAX),
        default_seqs.min(u64::from(tokens)),
        source(),
    );
    (tokens, seqs)
}

/// What vLLM takes for (`max_num_batched_tokens`, `max_num_seqs`) on this device where they are not given.
fn default_batch_sizes(
    raw: &RawEngine,
    profile: &Profile,
    device: Option<&Device>,
    max_model_len: u32,
    chunked: bool,
    is_batched: bool,
) -> (u64, u64) {
    let smallest = || {
        let row = profile.batch.last();
        row.expect("profiles have rows, which a test checks")
    };
    let row = device.map_or_else(smallest, |device| profile.batch_for(device));
    let doubled = match raw.performance_mode {
        Some(RawPerformanceMode::Throughput) => 2,
        _ => 1,
    };
    let small = profile.startup.batched_expert_tokens.filter(|_| is_batched);
    let mut tokens = small.unwrap_or(row.max_num_batched_tokens) * doubled;
    let mut seqs = row.max_num_seqs * doubled;
    let longest = u64::from(max_model_len);
    if profile.startup.budget_keeps_default {
        if !chunked {
            tokens = tokens.max(longest);
        }
        let most = raw.max_num_seqs.map_or(seqs, |given| given.0);
        tokens = tokens.min(most.saturating_mul(longest).max(1));
    } else if !chunked {
        tokens = longest;
    }
    if let Some(given) = raw.max_num_batched_tokens {
        seqs = seqs.min(given.0.max(1));
    }
    (tokens, seqs)
}

/// A step must be able to hold one token of every sequence and, where prompts are not cut, the longest of them.
pub(in crate::config) fn check_budget(
    judge: &mut Judge,
    tokens: u32,
    seqs: u32,
    max_model_len: u32,
    chunked: bool,
) {
    let is_wrong = judge.is_wrong(&[TOKENS_KEY]);
    if !chunked && tokens < max_model_len && !is_wrong && !judge.is_wrong(&["engine.max_model_len"]) {
        judge.wrong_help(
            TOKENS_KEY,
            "must hold the longest prompt when chunked prefill is off",
            format!("{tokens} tokens, but prompts may have {max_model_len}"),
            format!(
                "write {max_model_len} or more, a smaller max_model_len, or enable_chunked_prefill = true"
            ),
        );
    }
    if tokens < seqs && !is_wrong && !judge.is_wrong(&[SEQS_KEY]) {
        judge.wrong_help(
            TOKENS_KEY,
            "must be at least max_num_seqs",
            format!("{tokens} is less than max_num_seqs = {seqs}"),
            format!("write at least {seqs}, or a smaller max_num_seqs"),
        );
    }
}

/// A second limit that may only lower the first.
fn lower(judge: &mut Judge, (key, of): (&str, &str), given: Option<Count>, first: u32) -> u32 {
    let most = if judge.is_wrong(&[of]) {
        TOKENS_MAX
    } else {
        u64::from(first)
    };
    match given {
        Some(limit) => judge.required(key, limit, (1, most)),
        None => first,
    }
}
