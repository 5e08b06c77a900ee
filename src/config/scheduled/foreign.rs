//! Flags of one engine that were given although another serves.

use super::Kind;
use crate::config::foreign::given;
use crate::config::judge::Judge;
use crate::config::raw::{RawBatching, RawEngine};

/// Keys of `[engine]` that each of these engines has.
const COMMON: [&str; 7] = [
    "profile",
    "enforce_eager",
    "max_model_len",
    "max_num_seqs",
    "gpu_memory_utilization",
    "num_gpu_blocks_override",
    "stream_interval",
];
const OF_V0: [&str; 9] = [
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "scheduling_policy",
    "block_size",
    "swap_space",
    "preemption_mode",
    "scheduler_delay_factor",
    "disable_async_output_proc",
];
const OF_HF: [&str; 3] = ["max_num_batched_tokens", "enable_prefix_caching", "block_size"];

/// What the engine is called in sentences.
pub(in crate::config) fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::V0 => "vLLM 0.6",
        Kind::Static => "static batching",
        Kind::HfContinuous => "Transformers' continuous batching",
    }
}

/// Whether it has a key of `[engine]`.
pub(in crate::config) fn has_key(kind: Kind, key: &str) -> bool {
    let own: &[&str] = match kind {
        Kind::V0 => &OF_V0,
        Kind::Static => &[],
        Kind::HfContinuous => &OF_HF,
    };
    COMMON.contains(&key) || own.contains(&key) || key == "num_scheduler_steps" && kind == Kind::V0
}

/// Reports keys of `[engine]` that this engine does not have.
pub(super) fn refuse_foreign(judge: &mut Judge, raw: &RawEngine, kind: Kind) {
    let name = called(kind);
    for key in given(raw).keys().map(String::as_str) {
        if has_key(kind, key) {
            continue;
        }
        let help = match key {
            "max_num_batched_tokens" => {
                "max_num_seqs is the rows of a batch, whose prompts are computed whole"
            }
            _ => "--engine says which engine serves",
        };
        let problem = format!("is not a flag of {name}");
        judge.wrong_help(&format!("engine.{key}"), &problem, "not of this engine", help);
    }
}

/// Transformers bounds the running sequences by nothing but the tokens of a step.
pub(super) fn note_seats(judge: &mut Judge, raw: &RawEngine, kind: Kind) {
    if kind == Kind::HfContinuous && raw.max_num_seqs.is_some() {
        let name = judge.document.name_of("engine.max_num_seqs");
        judge.ignore(format!(
            "{name} has no effect: hf-cb runs as many sequences as the tokens of a step and the KV cache allow"
        ));
    }
}

/// Multi-step scheduling (V0-11) is not modelled: what is known of it is its price, tokens in bursts and arrivals that wait.
/// What it was for, the host's work that is saved, no calibration has, so it would only ever be seen to do harm.
pub(super) fn only_one_step(judge: &mut Judge, raw: &RawEngine) {
    let key = "engine.num_scheduler_steps";
    if let Some(steps) = raw.num_scheduler_steps
        && judge.required(key, steps, (1, 1024)) != 1
    {
        judge.wrong_help(
            key,
            "other than 1 is not modelled yet",
            "what the host saves by it is not known",
            "leave it out",
        );
    }
}

/// Flags of vLLM's V0 engine, given to its V1 engine.
pub(in crate::config) fn refuse_flags_of_v0(judge: &mut Judge, raw: &RawEngine) {
    let help = "V0 is --engine vllm@0.6";
    if raw.swap_space.is_some() {
        let name = judge.document.name_of("engine.swap_space");
        judge.ignore(format!(
            "{name} has no effect: vLLM's V1 engine recomputes what it preempts and never swaps"
        ));
    }
    if raw.num_scheduler_steps.is_some_and(|steps| steps.0 != 1) {
        let problem = "is not a flag of vLLM's V1 engine";
        judge.wrong_help(
            "engine.num_scheduler_steps",
            problem,
            "multi-step scheduling was a feature of V0",
            "leave it out",
        );
    }
    let delays = raw.scheduler_delay_factor.is_some_and(|factor| factor != 0.0);
    for (key, is_given, why) in [
        (
            "scheduler_delay_factor",
            delays,
            "the delay factor was a feature of V0",
        ),
        (
            "disable_async_output_proc",
            raw.disable_async_output_proc == Some(true),
            "asynchronous output processing was a feature of V0",
        ),
        (
            "preemption_mode",
            raw.preemption_mode.is_some(),
            "V1 recomputes what it preempts",
        ),
    ] {
        if is_given {
            let problem = "is not a flag of vLLM's V1 engine";
            judge.wrong_help(&format!("engine.{key}"), problem, why, help);
        }
    }
}

/// Keys of `[batching]` beside an engine that does not read them: a scenario may be swept over engines.
pub(in crate::config) fn note_batching(judge: &mut Judge, raw: &RawBatching, serves: &str) {
    for key in given(raw).keys() {
        let reader = match key.as_str() {
            "batch_timeout" | "release_rows_early" => "static",
            _ => "hf-cb",
        };
        if serves != reader {
            judge.ignore(format!(
                "{key} has no effect: {serves} serves, and it is for {reader}"
            ));
        }
    }
}
