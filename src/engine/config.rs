//! The engine's flags after every default has been resolved.

use super::speculation::Speculation;
use crate::kv::{BlockPool, KvGroups};
use crate::units::Picos;

/// How one replica schedules. Plain numbers: nothing here means "later" or "default".
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Profile this came from, `vllm@0.33`.
    pub profile: String,
    /// Longest sequence, prompt plus output.
    pub max_model_len: u32,
    /// Most sequences in `running`.
    pub max_num_seqs: u32,
    /// Token budget of a step (`max_num_scheduled_tokens` where that is set).
    pub max_num_batched_tokens: u32,
    /// Prompts may be split over steps.
    pub enable_chunked_prefill: bool,
    /// Most tokens that a prefill takes in one step; 0 is off.
    pub long_prefill_token_threshold: u32,
    /// Order of `waiting` and choice of victims.
    pub policy: Policy,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV blocks, the null block included (V1-29).
    pub num_gpu_blocks: u32,
    /// Groups of layers that draw from these blocks.
    pub kv_groups: KvGroups,
    /// Automatic prefix caching.
    pub enable_prefix_caching: bool,
    /// Blocks kept free when admitting beside running sequences (V1-32).
    pub watermark_blocks: u32,
    /// Steps between two releases of prefill work; 1 is off (V1-16).
    pub prefill_schedule_interval: u32,
    /// Stages of the pipeline over which the layers are spread; 1 is no pipeline (V1-84).
    pub stages: u32,
    /// Steps that may be scheduled and not yet processed: as many as there are stages, one more if asynchronous (V1-6).
    pub queue_depth: u32,
    /// Waiting requests above which the server answers 503; `None` never does.
    pub max_num_queued_reqs: Option<u32>,
    /// Pause of a loop pass that schedules nothing while requests remain (V1-9).
    pub idle_pass_sleep: Picos,
    /// Speculative decoding, if it does.
    pub speculation: Option<Speculation>,
    /// What changed between versions.
    pub switches: VersionSwitches,
}

impl EngineConfig {
    /// Token slots of a step in the model runner.
    #[must_use]
    pub fn runner_slots(&self) -> u32 {
        let of_speculation = self.speculation.as_ref();
        of_speculation.map_or(self.max_num_batched_tokens, |speculation| {
            speculation.runner_tokens
        })
    }

    /// The scheduler goes on behind tokens that it has not seen.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.queue_depth > self.stages
    }

    /// Steps whose tokens windows do not count as settled when the next is decided.
    #[must_use]
    pub fn unsettled_steps(&self) -> u32 {
        if self.switches.windows_settle {
            self.queue_depth - 1
        } else {
            0
        }
    }

    /// Its KV blocks, all free.
    pub(super) fn empty_pool(&self) -> BlockPool {
        let mut pool = BlockPool::new(
            self.num_gpu_blocks,
            self.block_size,
            self.enable_prefix_caching,
            self.switches.unhashed_to_head,
        )
        .of_groups(
            &self.kv_groups,
            self.max_num_batched_tokens * (1 + self.unsettled_steps()),
            self.max_model_len,
        );
        pool.put_off_evictions();
        pool
    }
}

/// Order of the waiting queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// First come, first served.
    Fcfs,
    /// Smallest `(priority, arrival)` first.
    Priority,
}

/// Behaviours that differ between engine versions; `true` is vLLM 0.33.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionSwitches {
    /// VS-1: a request is admitted only if its whole sequence fits (`scheduler_reserve_full_isl`).
    pub reserve_full_isl: bool,
    /// VS-2: freed blocks without a hash go to the head of the free queue.
    pub unhashed_to_head: bool,
    /// VS-5: the long-prefill threshold is off for a request that is alone.
    pub threshold_not_when_alone: bool,
    /// VS-6: without chunking, a prompt above the budget stops the scan instead of being set aside.
    pub oversize_prompt_stops: bool,
    /// VS-7: evicting a scheduled request takes its share out of the step and gives its tokens back, and nobody is passed
    /// over.
    pub eviction_restores_budget: bool,
    /// V1-15: asynchronous scheduling does not schedule past a known length ending.
    pub overrun_guard: bool,
    /// Windows pass a block once the step that saw it last has been processed, not once it is scheduled.
    pub windows_settle: bool,
    /// Who was preempted comes back when its steps in flight have been processed, not before (`num_stale_output_tokens`).
    pub stale_output_drains: bool,
    /// The queue of steps in flight is filled before an output is taken, by passes that schedule nothing if need be.
    pub fills_queue_first: bool,
}

impl VersionSwitches {
    /// As vLLM 0.33 behaves.
    pub const VLLM_0_33: Self = Self {
        reserve_full_isl: true,
        unhashed_to_head: true,
        threshold_not_when_alone: true,
        oversize_prompt_stops: true,
        eviction_restores_budget: true,
        overrun_guard: true,
        windows_settle: true,
        stale_output_drains: true,
        fills_queue_first: true,
    };
}
