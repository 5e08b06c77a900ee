//! What is the same whoever schedules, and who does.

use std::fmt;
use std::sync::Arc;

use super::policies::{HfConfig, StaticConfig, V0Config};
use super::policies::{HfContinuous, StaticBatching, VllmV0};
use crate::engine::scheduler::Scheduler;
use crate::units::Picos;

/// An engine and its scheduler after every default has been resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledConfig {
    /// Profile this came from, `vllm@0.6`, or the name of a scheduler of one's own.
    pub profile: String,
    /// Longest sequence, prompt plus output.
    pub max_model_len: u32,
    /// Most sequences that run at once. For reports and for the scheduler; the engine itself has no limit.
    pub max_num_seqs: u32,
    /// Most tokens of a step, likewise.
    pub max_num_batched_tokens: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV blocks, all of them usable: there is no null block (V0-5).
    pub num_gpu_blocks: u32,
    /// Equal prefixes are computed once.
    pub enable_prefix_caching: bool,
    /// KV blocks in the host's memory (V0-8).
    pub swap_blocks: u32,
    /// Time to move one block to or from the host's memory, on the step's critical path.
    pub swap_time_per_block: Picos,
    /// Who decides.
    pub scheduler: SchedulerChoice,
}

impl ScheduledConfig {
    /// An engine for a scheduler of one's own: `num_gpu_blocks` blocks of 16 tokens, without prefix caching and swapping.
    pub fn own<S: Scheduler + 'static>(
        name: &str,
        num_gpu_blocks: u32,
        max_model_len: u32,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ScheduledConfig {
        let make = move || -> Box<dyn Scheduler> { Box::new(make()) };
        ScheduledConfig {
            profile: name.to_owned(),
            max_model_len,
            max_num_seqs: u32::MAX,
            max_num_batched_tokens: u32::MAX,
            block_size: 16,
            num_gpu_blocks,
            enable_prefix_caching: false,
            swap_blocks: 0,
            swap_time_per_block: Picos::ZERO,
            scheduler: SchedulerChoice::Own(MakeScheduler(Arc::new(make))),
        }
    }

    /// Whoever has ended stays for the step after, whose decision does not know it yet.
    pub(super) fn ends_late(&self) -> bool {
        matches!(&self.scheduler, SchedulerChoice::VllmV0(v0) if v0.async_output_proc)
    }

    /// A fresh scheduler: each replica has its own, and a new one after a failure.
    pub(crate) fn make_scheduler(&self) -> Box<dyn Scheduler> {
        match &self.scheduler {
            SchedulerChoice::VllmV0(config) => Box::new(VllmV0::new(*config, self)),
            SchedulerChoice::Static(config) => Box::new(StaticBatching::new(*config)),
            SchedulerChoice::HfContinuous(config) => Box::new(HfContinuous::new(*config)),
            SchedulerChoice::Own(MakeScheduler(make)) => make(),
        }
    }
}

/// Who decides what a step computes.
#[derive(Clone, Debug, PartialEq)]
pub enum SchedulerChoice {
    /// vLLM's V0 engine.
    VllmV0(V0Config),
    /// Batches that are closed when they start.
    Static(StaticConfig),
    /// Continuous batching of Transformers.
    HfContinuous(HfConfig),
    /// A scheduler that a user wrote.
    Own(MakeScheduler),
}

/// Makes a user's scheduler, once for each replica.
#[derive(Clone)]
pub struct MakeScheduler(Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>);

impl fmt::Debug for MakeScheduler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MakeScheduler")
    }
}

impl PartialEq for MakeScheduler {
    /// Whether both are the same one; what they make cannot be compared.
    fn eq(&self, other: &MakeScheduler) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
