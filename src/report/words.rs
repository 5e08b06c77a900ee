//! What an engine calls its own limits: a report names a limit as whoever raises it would type it.

use crate::engine::EngineSpec;

/// Names of one engine's limits. The default is vLLM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineWords {
    /// Most sequences that run at once.
    pub running: &'static str,
    /// Most prompt tokens of a step.
    pub prompt_tokens: &'static str,
    /// Longest sequence.
    pub context: &'static str,
    /// What holds the KV cache, with the flag that sizes it where one does.
    pub pool: &'static str,
    /// The same in a list of shares.
    pub pool_share: &'static str,
    /// What a sequence loses where the pool is short.
    pub preempted: &'static str,
    /// The flag for more processes of the API server, where there is one.
    pub more_api_servers: Option<&'static str>,
}

impl Default for EngineWords {
    fn default() -> EngineWords {
        EngineWords {
            running: "max_num_seqs",
            prompt_tokens: "max_num_batched_tokens",
            context: "max_model_len",
            pool: "the pool of KV blocks",
            pool_share: "KV blocks",
            preempted: "sequences lose their KV blocks and are computed again",
            more_api_servers: Some("--api-server-count"),
        }
    }
}

impl EngineWords {
    /// The words of the engine that serves.
    #[must_use]
    pub fn of(engine: &EngineSpec) -> EngineWords {
        match engine {
            EngineSpec::Vllm(_) => EngineWords::default(),
            EngineSpec::Scheduled(_) => EngineWords {
                more_api_servers: None,
                ..EngineWords::default()
            },
            EngineSpec::Trtllm(_) => EngineWords {
                running: "--max-batch-size",
                prompt_tokens: "--max-num-tokens",
                context: "--max-seq-len",
                pool: "the KV cache (--kv-cache-free-gpu-memory-fraction)",
                pool_share: "KV blocks",
                preempted: "requests are paused, lose their KV blocks and are computed again",
                more_api_servers: None,
            },
            EngineSpec::Sglang(config) => EngineWords {
                running: "--max-running-requests",
                prompt_tokens: match config.chunked_prefill_size {
                    Some(_) => "--chunked-prefill-size",
                    None => "--max-prefill-tokens",
                },
                context: "--context-length",
                pool: "the token pool (--mem-fraction-static)",
                pool_share: "token pool",
                preempted: "sequences are retracted from the token pool (--mem-fraction-static) and computed again",
                more_api_servers: None,
            },
        }
    }
}
