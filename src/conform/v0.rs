//! A recording of vLLM's V0 engine: its flags as this simulator has them.

use super::Recording;
use super::check::{RecordingError, fail};
use super::recording::Params;
use crate::engine::scheduled::policies::{PreemptionMode, V0Config, watermark};
use crate::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use crate::units::Picos;

/// The version that is recorded and modelled.
pub(super) const PROFILE: &str = "vllm@0.6";

/// The engine of a recording. Swapping takes no time there.
pub(super) fn config(recording: &Recording) -> ScheduledConfig {
    let params = &recording.params;
    let scheduler = SchedulerChoice::VllmV0(V0Config {
        enable_chunked_prefill: params.enable_chunked_prefill,
        policy: params.policy(),
        preemption_mode: match params.preemption_mode.as_deref() {
            Some("swap") => PreemptionMode::Swap,
            _ => PreemptionMode::Recompute,
        },
        delay_factor: params.scheduler_delay_factor,
        async_output_proc: params.async_output_proc,
    });
    ScheduledConfig {
        profile: recording.profile.clone(),
        max_model_len: params.max_model_len,
        max_num_seqs: params.max_num_seqs,
        max_num_batched_tokens: params.max_num_batched_tokens,
        block_size: params.block_size,
        num_gpu_blocks: params.num_gpu_blocks,
        enable_prefix_caching: params.enable_prefix_caching,
        swap_blocks: params.num_cpu_blocks,
        swap_time_per_block: Picos::ZERO,
        scheduler,
    }
}

/// Finds flags that V0 does not have or would refuse.
pub(super) fn check(params: &Params) -> Result<(), RecordingError> {
    let mode = params.preemption_mode.as_deref();
    if !matches!(mode, None | Some("recompute" | "swap")) {
        return fail("`params.preemption_mode` is neither \"recompute\" nor \"swap\"");
    }
    if !(0.0..1e6).contains(&params.scheduler_delay_factor) {
        return fail("`params.scheduler_delay_factor` lies between 0 and 1,000,000");
    }
    let is_split = params.enable_chunked_prefill && params.enable_prefix_caching;
    if is_split && !params.max_num_batched_tokens.is_multiple_of(params.block_size) {
        return fail(
            "`params.max_num_batched_tokens` is a multiple of block_size where cached prompts are computed in chunks",
        );
    }
    Ok(())
}

/// Blocks that one sequence may fill: there is no null block, but a watermark.
pub(super) fn usable_blocks(params: &Params) -> u32 {
    params.num_gpu_blocks - watermark(params.num_gpu_blocks)
}
