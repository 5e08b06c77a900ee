//! SGLang's flags. These keys are flags, too.

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::scalar::Count;

/// How an SGLang server is configured (`engine.profile = "sglang"`); what is left out comes from the engine profile.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Engine (SGLang's flags)")]
pub struct RawSglang {
    /// Longest sequence, prompt plus output; default what the model allows.
    #[arg(long, value_name = "TOKENS")]
    pub context_length: Option<Count>,
    /// Share of the GPU's memory for weights and KV pool; default by SGLang's rule for the GPU.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub mem_fraction_static: Option<f64>,
    /// Most tokens of the KV pool, below what the memory holds.
    #[arg(long, value_name = "TOKENS")]
    pub max_total_tokens: Option<Count>,
    /// Most requests that run at once; default by the pool.
    #[arg(long, value_name = "N")]
    pub max_running_requests: Option<Count>,
    /// Requests in the queue above which the server answers 503.
    #[arg(long, value_name = "N")]
    pub max_queued_requests: Option<Count>,
    /// Prompt tokens computed in a step; -1 never splits a prompt.
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub chunked_prefill_size: Option<i64>,
    /// Prompt tokens admitted to a batch.
    #[arg(long, value_name = "TOKENS")]
    pub max_prefill_tokens: Option<Count>,
    /// Decode rounds after each prefill batch before the next (0.5.23); 0 prefills first.
    #[arg(long, value_name = "N")]
    pub prefill_decode_interval: Option<Count>,
    /// Most requests of a prefill batch.
    #[arg(long, value_name = "N")]
    pub prefill_max_requests: Option<Count>,
    /// Order of the waiting queue.
    #[arg(long, value_name = "POLICY")]
    pub schedule_policy: Option<RawQueuePolicy>,
    /// Factor of the output that admission expects: above 1 admits fewer, below 1 more.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub schedule_conservativeness: Option<f64>,
    /// Tokens of a page of the KV pool.
    #[arg(long, value_name = "TOKENS")]
    pub page_size: Option<Count>,
    /// Attention kernels, which decide the size of a page on some cards; how fast they are, the calibration says.
    #[arg(long, value_name = "NAME")]
    pub attention_backend: Option<String>,
    /// The same of prefill alone.
    #[arg(long, value_name = "NAME")]
    pub prefill_attention_backend: Option<String>,
    /// The same of decode alone.
    #[arg(long, value_name = "NAME")]
    pub decode_attention_backend: Option<String>,
    /// Decodes ride along in prefill batches.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_mixed_chunk: Option<bool>,
    /// Share no prefixes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_radix_cache: Option<bool>,
    /// Decide a batch only when the one before has ended.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_overlap_schedule: Option<bool>,
    /// Decode steps between two decisions; only 1 is modelled.
    #[arg(long, value_name = "N")]
    pub num_continuous_decode_steps: Option<Count>,
    /// Serve by priority, and let a much higher one push others out.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_priority_scheduling: Option<bool>,
    /// With priorities: a smaller value is served first.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub schedule_low_priority_values_first: Option<bool>,
    /// With priorities: how much lower one must be to be pushed out.
    #[arg(long, value_name = "N")]
    pub priority_scheduling_preemption_threshold: Option<Count>,
    /// What drafts: EAGLE, EAGLE3, NEXTN (a model's own multi-token prediction), STANDALONE or NGRAM (0.5.23). How many drafts stand is asked
    /// for: --acceptance-length or --acceptance-rate.
    #[arg(long, visible_alias = "speculative-algo", value_name = "NAME")]
    pub speculative_algorithm: Option<String>,
    /// The drafter: of STANDALONE a bundled id; of others its size is taken from the model's.
    #[arg(long, visible_alias = "speculative-draft-model", value_name = "MODEL")]
    pub speculative_draft_model_path: Option<String>,
    /// Drafts one behind another.
    #[arg(long, value_name = "N")]
    pub speculative_num_steps: Option<Count>,
    /// Branches of each draft; 1 is a chain.
    #[arg(long, value_name = "N")]
    pub speculative_eagle_topk: Option<Count>,
    /// Tokens that a verification computes of a request, its own included; of a chain one more than its steps.
    #[arg(long, value_name = "N")]
    pub speculative_num_draft_tokens: Option<Count>,
    /// Never replay CUDA graphs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_cuda_graph: Option<bool>,
    /// Largest decode batch that is captured; default by the GPU's memory.
    #[arg(long, value_name = "N")]
    pub cuda_graph_max_bs: Option<Count>,
    /// Serve with the vision tower where SGLang leaves it out by default (Gemma 3, Llama 4).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_multimodal: Option<bool>,
    /// Leave the vision tower out (0.5.23); of vLLM without effect here.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub language_model_only: Option<bool>,
    /// Attention of each of --dp-size ranks by itself, all else over all --tp-size GPUs; ranks step together. 0.5.23 spells both --attn-dp-size.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_dp_attention: Option<bool>,
    /// With it: each rank computes the logits of its own requests, and all GPUs together those of all without it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_dp_lm_head: Option<bool>,
    /// Kernels that send tokens only where they are routed; any but none deals experts out to all GPUs.
    #[arg(long, value_name = "NAME")]
    pub moe_a2a_backend: Option<String>,
    /// Who of the data-parallel ranks gets a request (--dp-size).
    #[arg(long, value_name = "METHOD")]
    pub load_balance_method: Option<RawBalanceMethod>,
    /// shortest_queue (0.5.4): seconds from one look at the ranks' loads to the next.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub load_watch_interval: Option<f64>,
    /// total_requests, total_tokens (0.5.23): decode steps from one snapshot of a rank's load to the next.
    #[arg(long, value_name = "N")]
    pub load_snapshot_publish_interval: Option<Count>,
}

/// SGLang's `--load-balance-method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawBalanceMethod {
    /// 0.5.23: in turn.
    Auto,
    /// In turn.
    RoundRobin,
    /// 0.5.4: the ranks with the fewest requests are levelled, by answers every load_watch_interval.
    ShortestQueue,
    /// 0.5.4: deprecated there, and in turn.
    MinimumTokens,
    /// 0.5.23: fewest requests, by snapshots.
    TotalRequests,
    /// 0.5.23: fewest tokens, by snapshots.
    TotalTokens,
    /// Not modelled: where prefill and decode are apart.
    #[schemars(skip)]
    #[value(hide = true)]
    FollowBootstrapRoom,
}

/// SGLang's `--schedule-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab")]
pub enum RawQueuePolicy {
    /// First come, first served.
    Fcfs,
    /// Longest cached prefix first.
    Lpm,
    /// Depth-first through the radix tree, heavier subtrees first.
    DfsWeight,
    /// Longest `max_new_tokens` first.
    Lof,
    /// Shuffled in every pass.
    Random,
    /// By priority: said with `--enable-priority-scheduling` here.
    #[schemars(skip)]
    #[value(hide = true)]
    Priority,
    /// Not modelled.
    #[schemars(skip)]
    #[value(hide = true)]
    RoutingKey,
    /// Not modelled.
    #[schemars(skip)]
    #[value(hide = true)]
    Hrrn,
    /// Not modelled.
    #[schemars(skip)]
    #[value(hide = true)]
    ShortestPrefillFirst,
}
