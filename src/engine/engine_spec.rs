//! Which engine a replica is, with its resolved flags: what all of them can be asked about alike.

use super::scheduled::{ScheduledConfig, SchedulerChoice};
use super::sglang::{QueuePolicy, SglangConfig};
use super::trtllm::{BlockReuse, TrtllmConfig};
use super::{BlockHashes, EngineConfig, Policy};

/// An engine's resolved flags.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineSpec {
    /// vLLM V1.
    Vllm(EngineConfig),
    /// SGLang.
    Sglang(SglangConfig),
    /// TensorRT-LLM.
    Trtllm(TrtllmConfig),
    /// An engine whose scheduler is separate: vLLM V0, static batching, Transformers, or a user's own.
    Scheduled(ScheduledConfig),
}

/// What an engine verifies in a decode step beside each token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculates<'a> {
    /// Drafts.
    pub drafts: u32,
    /// Those of them that can stand one behind another: all of a chain.
    pub levels: u32,
    /// Which share of the verifications accepts its first 1, 2, … drafts; empty where nobody said it.
    pub acceptance: &'a [f64],
    /// What the prefix cache knows a token by includes the one behind it.
    pub names_ahead: bool,
    /// Who calls the share of all drafts that stand what.
    pub logged: &'static str,
}

impl From<EngineConfig> for EngineSpec {
    fn from(config: EngineConfig) -> EngineSpec {
        EngineSpec::Vllm(config)
    }
}

impl From<SglangConfig> for EngineSpec {
    fn from(config: SglangConfig) -> EngineSpec {
        EngineSpec::Sglang(config)
    }
}

impl From<TrtllmConfig> for EngineSpec {
    fn from(config: TrtllmConfig) -> EngineSpec {
        EngineSpec::Trtllm(config)
    }
}

impl From<ScheduledConfig> for EngineSpec {
    fn from(config: ScheduledConfig) -> EngineSpec {
        EngineSpec::Scheduled(config)
    }
}

impl EngineSpec {
    /// The flags, if vLLM serves.
    #[must_use]
    pub fn vllm(&self) -> Option<&EngineConfig> {
        match self {
            EngineSpec::Vllm(config) => Some(config),
            EngineSpec::Sglang(_) | EngineSpec::Trtllm(_) | EngineSpec::Scheduled(_) => None,
        }
    }

    /// Tokens that a decoding sequence gets in a step on average: where the engine speculates, more than one.
    #[must_use]
    pub fn tokens_per_decode(&self) -> f64 {
        let Some(speculation) = self.speculates() else {
            return 1.0;
        };
        match speculation.acceptance.is_empty() {
            true => f64::from(1 + speculation.levels),
            false => 1.0 + speculation.acceptance.iter().sum::<f64>(),
        }
    }

    /// What is verified in a decode step, where the engine speculates.
    #[must_use]
    pub fn speculates(&self) -> Option<Speculates<'_>> {
        match self {
            EngineSpec::Vllm(config) => config.speculation.as_ref().map(|speculation| Speculates {
                drafts: speculation.drafts,
                levels: speculation.drafts,
                acceptance: &speculation.acceptance,
                names_ahead: speculation.hashes == BlockHashes::Ahead,
                logged: "vLLM logs as `Avg Draft acceptance rate`",
            }),
            EngineSpec::Sglang(config) => config.drafts.as_ref().map(|drafts| Speculates {
                drafts: drafts.tokens - 1,
                levels: drafts.levels,
                acceptance: &drafts.acceptance,
                names_ahead: drafts.names_pairs,
                logged: "SGLang logs as `accept rate` beside `accept len`",
            }),
            EngineSpec::Trtllm(_) | EngineSpec::Scheduled(_) => None,
        }
    }

    /// The engine without its version.
    #[must_use]
    pub fn name(&self) -> &str {
        let profile = self.profile();
        profile.split_once('@').map_or(profile, |(name, _)| name)
    }

    /// Name and version, `vllm@0.33`.
    #[must_use]
    pub fn profile(&self) -> &str {
        match self {
            EngineSpec::Vllm(config) => &config.profile,
            EngineSpec::Sglang(config) => &config.profile,
            EngineSpec::Trtllm(config) => &config.profile,
            EngineSpec::Scheduled(config) => &config.profile,
        }
    }

    /// Whether prompts are looked up in a prefix cache.
    #[must_use]
    pub fn caches_prefixes(&self) -> bool {
        match self {
            EngineSpec::Vllm(config) => config.enable_prefix_caching,
            EngineSpec::Sglang(config) => config.radix_cache,
            EngineSpec::Trtllm(config) => config.block_reuse != BlockReuse::Off,
            EngineSpec::Scheduled(config) => config.enable_prefix_caching,
        }
    }

    /// Whether answers leave whole: nobody sees a gap between their tokens, and no request has a TPOT.
    #[must_use]
    pub fn answers_whole(&self) -> bool {
        match self {
            EngineSpec::Scheduled(config) => matches!(config.scheduler, SchedulerChoice::Static(_)),
            EngineSpec::Vllm(_) | EngineSpec::Sglang(_) | EngineSpec::Trtllm(_) => false,
        }
    }

    /// Whether the queue is served in order of arrival.
    #[must_use]
    pub fn serves_in_order(&self) -> bool {
        match self {
            EngineSpec::Vllm(config) => config.policy == Policy::Fcfs,
            EngineSpec::Sglang(config) => config.policy == QueuePolicy::Fcfs && config.priority.is_none(),
            EngineSpec::Trtllm(_) => true,
            EngineSpec::Scheduled(config) => match &config.scheduler {
                SchedulerChoice::VllmV0(v0) => v0.policy == Policy::Fcfs,
                SchedulerChoice::Static(_) | SchedulerChoice::HfContinuous(_) => true,
                SchedulerChoice::Own(_) => false,
            },
        }
    }

    /// Tokens of a KV block, or page.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.block_size,
            EngineSpec::Sglang(config) => config.page_size,
            EngineSpec::Trtllm(config) => config.tokens_per_block,
            EngineSpec::Scheduled(config) => config.block_size,
        }
    }

    /// Blocks that hold so many tokens in all layers: more than one where layers are allocated in groups.
    #[must_use]
    pub fn kv_groups(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.kv_groups.count(),
            EngineSpec::Sglang(_) | EngineSpec::Trtllm(_) | EngineSpec::Scheduled(_) => 1,
        }
    }

    /// KV blocks as the engine counts them, vLLM's null block included.
    #[must_use]
    pub fn num_gpu_blocks(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.num_gpu_blocks,
            EngineSpec::Sglang(config) => config.max_total_tokens / config.page_size,
            EngineSpec::Trtllm(config) => config.num_blocks,
            EngineSpec::Scheduled(config) => config.num_gpu_blocks,
        }
    }

    /// KV blocks that sequences can use: vLLM's null block is none of them.
    #[must_use]
    pub fn usable_blocks(&self) -> u32 {
        match self {
            EngineSpec::Sglang(_) | EngineSpec::Trtllm(_) => self.num_gpu_blocks(),
            EngineSpec::Vllm(_) | EngineSpec::Scheduled(_) => self.num_gpu_blocks() - 1,
        }
    }

    /// Tokens whose KV all of them hold, in all layers.
    #[must_use]
    pub fn kv_tokens(&self) -> u64 {
        u64::from(self.usable_blocks() / self.kv_groups()) * u64::from(self.block_size())
    }

    /// Longest sequence.
    #[must_use]
    pub fn max_model_len(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_model_len,
            EngineSpec::Sglang(config) => config.context_length,
            EngineSpec::Trtllm(config) => config.max_seq_len,
            EngineSpec::Scheduled(config) => config.max_model_len,
        }
    }

    /// Most running sequences.
    #[must_use]
    pub fn max_num_seqs(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_num_seqs,
            EngineSpec::Sglang(config) => config.max_running_requests,
            EngineSpec::Trtllm(config) => config.max_batch_size,
            EngineSpec::Scheduled(config) => config.max_num_seqs,
        }
    }

    /// Whether what a step decodes takes its share of [`EngineSpec::prompt_tokens_per_step`].
    #[must_use]
    pub fn decodes_share_the_budget(&self) -> bool {
        !matches!(self, EngineSpec::Sglang(_))
    }

    /// Most prompt tokens of a step: vLLM's `max_num_batched_tokens`, SGLang's chunk or else `max_prefill_tokens`.
    #[must_use]
    pub fn prompt_tokens_per_step(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_num_batched_tokens,
            EngineSpec::Sglang(config) => config.chunked_prefill_size.unwrap_or(config.max_prefill_tokens),
            EngineSpec::Trtllm(config) => config.max_num_tokens,
            EngineSpec::Scheduled(config) => config.max_num_batched_tokens,
        }
    }
}
