//! A recording of TensorRT-LLM's schedulers: its flags as this simulator has them.

use super::Recording;
use super::check::{RecordingError, fail};
use super::recording::Params;
use crate::engine::trtllm::{BlockReuse, CapacityPolicy, TrtllmConfig};

/// The version that is recorded and modelled.
pub(super) const PROFILE: &str = "tensorrt-llm@1.2";

/// The engine of a recording.
pub(super) fn config(recording: &Recording) -> TrtllmConfig {
    let params = &recording.params;
    let wait = params.batch_wait_max_tokens_ratio * f64::from(params.max_num_batched_tokens);
    TrtllmConfig {
        profile: recording.profile.clone(),
        max_seq_len: params.max_model_len,
        max_batch_size: params.max_num_seqs,
        max_num_tokens: params.max_num_batched_tokens,
        enable_chunked_prefill: params.enable_chunked_prefill,
        capacity_scheduler_policy: policy(params).expect("a recording is checked when it is read"),
        batch_wait_iters: params.batch_wait_timeout_iters,
        batch_wait_tokens: wait.ceil() as u32,
        overlap_scheduler: params.async_scheduling,
        tokens_per_block: params.block_size,
        num_blocks: params.num_gpu_blocks,
        block_reuse: BlockReuse::Off,
    }
}

fn policy(params: &Params) -> Option<CapacityPolicy> {
    match params.capacity_scheduler_policy.as_deref() {
        Some("guaranteed_no_evict") => Some(CapacityPolicy::GuaranteedNoEvict),
        Some("max_utilization") => Some(CapacityPolicy::MaxUtilization),
        Some("static_batch") => Some(CapacityPolicy::StaticBatch),
        _ => None,
    }
}

/// Finds flags that are not modelled.
pub(super) fn check(params: &Params) -> Result<(), RecordingError> {
    let Some(policy) = policy(params) else {
        return fail(
            "`params.capacity_scheduler_policy` is none of guaranteed_no_evict, max_utilization and static_batch",
        );
    };
    if params.enable_prefix_caching || params.policy != "fcfs" {
        return fail("`params`: block reuse and priorities of TensorRT-LLM are not modelled");
    }
    if params.max_num_batched_tokens < params.max_num_seqs {
        return fail("`params`: max_num_batched_tokens below max_num_seqs is not modelled");
    }
    let is_short = params.max_num_batched_tokens < params.max_model_len;
    if policy == CapacityPolicy::MaxUtilization && (params.enable_chunked_prefill || is_short) {
        return fail(
            "`params`: max_utilization goes with whole prompts, and with a step that holds the longest sequence",
        );
    }
    if !(0.0..=1.0).contains(&params.batch_wait_max_tokens_ratio) {
        return fail("`params.batch_wait_max_tokens_ratio` lies between 0 and 1");
    }
    Ok(())
}
