//! TensorRT-LLM's flags after every default has been resolved.

use crate::engine::{EngineConfig, Policy, VersionSwitches};
use crate::kv::KvGroups;
use crate::units::Picos;

/// Who may run (`capacity_scheduler_policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapacityPolicy {
    /// A request starts when its whole sequence, with the longest answer that it may have, fits beside everybody's: nobody is
    /// ever paused.
    GuaranteedNoEvict,
    /// A request starts when its prompt fits; who started last is paused where blocks run out, and computes everything again.
    MaxUtilization,
    /// As the first, but nobody starts while anybody decodes.
    StaticBatch,
}

/// What of a prompt that others have computed is taken from them (`kv_cache_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockReuse {
    /// Nothing.
    Off,
    /// Whole blocks.
    Whole,
    /// Whole blocks, and then the head of one more (`enable_partial_reuse`).
    Partial,
}

/// How one replica schedules. Plain numbers: nothing here means "later" or "default".
#[derive(Clone, Debug, PartialEq)]
pub struct TrtllmConfig {
    /// Profile this came from, `tensorrt-llm@1.2`.
    pub profile: String,
    /// Longest sequence, prompt plus output.
    pub max_seq_len: u32,
    /// Most requests that run.
    pub max_batch_size: u32,
    /// Most tokens of a step; at least `max_batch_size`.
    pub max_num_tokens: u32,
    /// Prompts may be split over steps, at multiples of a block.
    pub enable_chunked_prefill: bool,
    /// Who may run.
    pub capacity_scheduler_policy: CapacityPolicy,
    /// Steps that prompts may be put off while others decode; 0 is off.
    pub batch_wait_iters: u32,
    /// With so many tokens in a step they are put off no longer: a share of `max_num_tokens`, rounded up.
    pub batch_wait_tokens: u32,
    /// A step is decided while the one before runs.
    pub overlap_scheduler: bool,
    /// Tokens of a KV block.
    pub tokens_per_block: u32,
    /// KV blocks, all of them usable.
    pub num_blocks: u32,
    /// Equal prefixes are not computed again.
    pub block_reuse: BlockReuse,
}

impl TrtllmConfig {
    /// The loop that the two engines share. vLLM's pool counts a block that nobody may use.
    pub(super) fn as_loop(&self) -> EngineConfig {
        EngineConfig {
            profile: self.profile.clone(),
            max_model_len: self.max_seq_len,
            max_num_seqs: self.max_batch_size,
            max_num_batched_tokens: self.max_num_tokens,
            enable_chunked_prefill: self.enable_chunked_prefill,
            long_prefill_token_threshold: 0,
            policy: Policy::Fcfs,
            block_size: self.tokens_per_block,
            num_gpu_blocks: self.num_blocks + 1,
            kv_groups: KvGroups::ONE,
            enable_prefix_caching: false,
            watermark_blocks: 0,
            prefill_schedule_interval: 1,
            stages: 1,
            queue_depth: if self.overlap_scheduler { 2 } else { 1 },
            max_num_queued_reqs: None,
            idle_pass_sleep: Picos::ZERO,
            speculation: None,
            // Of these only the guard is asked about here: a request whose last token is being computed is not scheduled again
            // (`GENERATION_TO_COMPLETE`).
            switches: VersionSwitches {
                reserve_full_isl: false,
                ..VersionSwitches::VLLM_0_33
            },
        }
    }
}
