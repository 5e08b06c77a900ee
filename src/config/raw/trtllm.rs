//! TensorRT-LLM's flags. These keys are flags, too.

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::scalar::Count;

/// How a TensorRT-LLM server is configured (`engine.profile = "tensorrt-llm"`); what is left out comes from the engine profile.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Engine (TensorRT-LLM's flags)")]
pub struct RawTrtllm {
    /// Most requests that run at once.
    #[arg(long, value_name = "N")]
    pub max_batch_size: Option<Count>,
    /// Most tokens computed in a step.
    #[arg(long, value_name = "TOKENS")]
    pub max_num_tokens: Option<Count>,
    /// Longest sequence, prompt plus output; default what the model allows.
    #[arg(long, value_name = "TOKENS")]
    pub max_seq_len: Option<Count>,
    /// Share of what weights and a step's activations leave of the GPU's memory, for the KV cache.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub kv_cache_free_gpu_memory_fraction: Option<f64>,
    /// Most tokens of the KV cache, below what the memory holds (`kv_cache_config.max_tokens`).
    #[arg(long, value_name = "TOKENS")]
    pub kv_cache_max_tokens: Option<Count>,
    /// Tokens of a KV block (`kv_cache_config.tokens_per_block`).
    #[arg(long, value_name = "TOKENS")]
    pub tokens_per_block: Option<Count>,
    /// Equal prefixes share blocks and are computed once (`kv_cache_config.enable_block_reuse`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_block_reuse: Option<bool>,
    /// The head of a block is reused, too, where the rest differs (`kv_cache_config.enable_partial_reuse`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_partial_reuse: Option<bool>,
    /// Who may run (`scheduler_config.capacity_scheduler_policy`).
    #[arg(long, value_name = "POLICY", ignore_case = true)]
    pub capacity_scheduler_policy: Option<RawCapacityPolicy>,
    /// Steps that prompts may be put off while others decode, for more of them to come.
    #[arg(long, value_name = "STEPS")]
    pub batch_wait_timeout_iters: Option<Count>,
    /// Share of max_num_tokens with which they are put off no longer.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub batch_wait_max_tokens_ratio: Option<f64>,
    /// Decide a step only when the one before has ended.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_overlap_scheduler: Option<bool>,
    /// Each GPU attends for requests of its own, with all heads; experts stay shared out.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_attention_dp: Option<bool>,
    /// Prompts wait until every rank has some (`attention_dp_config.enable_balance`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub attention_dp_enable_balance: Option<bool>,
    /// Steps for which they wait for ranks that have none (`attention_dp_config.timeout_iters`).
    #[arg(long, value_name = "STEPS")]
    pub attention_dp_timeout_iters: Option<Count>,
    /// Steps for which prompts that every rank has wait for more of them (`attention_dp_config.batching_wait_iters`).
    #[arg(long, value_name = "STEPS")]
    pub attention_dp_batching_wait_iters: Option<Count>,
    /// Largest decode batch that is captured (`cuda_graph_config.max_batch_size`).
    #[arg(long, value_name = "N")]
    pub cuda_graph_max_batch_size: Option<Count>,
    /// Decode batches between two captured sizes are padded to the larger (`cuda_graph_config.enable_padding`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub cuda_graph_padding: Option<bool>,
}

/// TensorRT-LLM's `capacity_scheduler_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawCapacityPolicy {
    /// A request starts when its longest answer fits, too.
    GuaranteedNoEvict,
    /// A request starts when its prompt fits; the last is paused where memory runs out.
    MaxUtilization,
    /// Nobody starts while anybody decodes.
    StaticBatch,
}
