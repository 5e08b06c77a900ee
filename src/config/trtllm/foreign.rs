//! Keys of vLLM's and SGLang's where TensorRT-LLM serves, and of TensorRT-LLM's where it does not.

use toml::Value;

use crate::config::foreign::{Foreign, given};
use crate::config::judge::Judge;
use crate::config::raw::RawScenario;
use crate::config::sglang::is_shared;

/// Keys of `[engine]` that TensorRT-LLM has, too.
const COMMON: [&str; 4] = [
    "profile",
    "stream_interval",
    "enable_chunked_prefill",
    "enforce_eager",
];

/// What TensorRT-LLM calls a flag of vLLM's or SGLang's that means the same; a switch may mean the opposite.
const TWINS: [(&str, &str); 20] = [
    ("max_num_seqs", "max_batch_size"),
    ("max_running_requests", "max_batch_size"),
    ("max_num_batched_tokens", "max_num_tokens"),
    ("chunked_prefill_size", "max_num_tokens"),
    ("max_prefill_tokens", "max_num_tokens"),
    ("max_model_len", "max_seq_len"),
    ("context_length", "max_seq_len"),
    ("gpu_memory_utilization", "kv_cache_free_gpu_memory_fraction"),
    ("mem_fraction_static", "kv_cache_free_gpu_memory_fraction"),
    ("num_gpu_blocks_override", "kv_cache_max_tokens"),
    ("max_total_tokens", "kv_cache_max_tokens"),
    ("block_size", "tokens_per_block"),
    ("page_size", "tokens_per_block"),
    ("enable_prefix_caching", "enable_block_reuse"),
    ("disable_radix_cache", "enable_block_reuse"),
    ("async_scheduling", "disable_overlap_scheduler"),
    ("disable_overlap_schedule", "disable_overlap_scheduler"),
    ("max_cudagraph_capture_size", "cuda_graph_max_batch_size"),
    ("cuda_graph_max_bs", "cuda_graph_max_batch_size"),
    ("disable_cuda_graph", "enforce_eager"),
];

/// Refuses keys of the others, as TensorRT-LLM serves.
pub(super) fn refuse_others(judge: &mut Judge, raw: &RawScenario) {
    for key in given(&raw.engine).keys() {
        if !COMMON.contains(&key.as_str()) {
            refuse(judge, "engine", "vLLM", key);
        }
    }
    for key in given(&raw.sglang).keys() {
        if !is_shared(judge, key) {
            refuse(judge, "sglang", "SGLang", key);
        }
    }
}

fn refuse(judge: &mut Judge, section: &'static str, owner: &'static str, key: &str) {
    let foreign = Foreign {
        section,
        owner,
        serves: "TensorRT-LLM",
        own: "trtllm",
    };
    let twin = TWINS
        .iter()
        .find(|(theirs, _)| *theirs == key)
        .map(|(_, ours)| *ours);
    foreign.refuse(judge, key, twin, |_| match twin {
        Some(twin) => format!("TensorRT-LLM calls it --{}", twin.replace('_', "-")),
        None => "TensorRT-LLM has no such flag; --engine says which engine serves".to_string(),
    });
}

/// Refuses TensorRT-LLM's keys where another engine serves.
pub(in crate::config) fn refuse_trtllms(judge: &mut Judge, raw: &RawScenario, serves: &str) {
    for (key, value) in &given(&raw.trtllm) {
        let twin = TWINS
            .iter()
            .find(|(_, ours)| ours == key)
            .map(|(theirs, _)| *theirs);
        let help = match (twin, serves, value) {
            (Some(twin), "vLLM", Value::Integer(_)) => format!("vLLM calls it --{}", twin.replace('_', "-")),
            _ => "--engine tensorrt-llm serves by TensorRT-LLM".to_string(),
        };
        let problem = format!("is a flag of TensorRT-LLM, and {serves} serves");
        judge.wrong_help(&format!("trtllm.{key}"), &problem, "not of this engine", help);
    }
}
