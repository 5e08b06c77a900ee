//! What is served, on what, and how the engine is configured. These keys are flags, too.

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawPreemptionMode;
use crate::config::scalar::{Context, Count};
use crate::config::version::EngineKind;

/// What is served.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawModel {
    /// Hugging Face id of a bundled shape (`plimsoll models`), or the path of a `config.json`.
    #[arg(skip)]
    pub name: Option<String>,
    /// Format of unquantized weights and activations.
    #[arg(long, value_name = "DTYPE", help_heading = "Model")]
    pub dtype: Option<RawDtype>,
    /// How the linear layers are quantized: none, fp8, int8, awq, gptq, mxfp4, nvfp4; default as the model's config has it.
    #[arg(long, value_name = "METHOD", help_heading = "Model")]
    pub quantization: Option<String>,
    /// Format of the KV cache: auto is the model's dtype.
    #[arg(long, value_name = "DTYPE", help_heading = "Model")]
    pub kv_cache_dtype: Option<RawKvDtype>,
    /// Layers that an fp8 KV cache leaves in the model's dtype: sliding_window for all that have one.
    #[arg(long, value_name = "LAYERS", num_args = 1.., help_heading = "Model")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_dtype_skip_layers: Option<Vec<String>>,
    /// `max_position_embeddings` that overrides the model's config: its longest context (--hf-overrides).
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_position_embeddings: Option<Count>,
    /// Scaling of rotary positions that overrides the model's config (--hf-overrides, --rope-scaling): it decides the longest context.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rope_scaling: Option<RawRopeScaling>,
}

/// What of a scaling of rotary positions decides the longest context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawRopeScaling {
    /// yarn, linear, dynamic …; default is none.
    pub rope_type: Option<String>,
    /// Times that positions are stretched, 1 at least.
    pub factor: Option<f64>,
    /// Positions that the model was trained with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_max_position_embeddings: Option<Count>,
}

/// vLLM's `--dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum RawDtype {
    /// The model's own.
    Auto,
    /// 16 bits, 8 of exponent.
    Bfloat16,
    /// 16 bits, 5 of exponent.
    Float16,
    /// float16.
    Half,
    /// 32 bits.
    Float32,
    /// float32.
    Float,
}

/// vLLM's `--kv-cache-dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawKvDtype {
    /// The model's dtype.
    Auto,
    /// 16 bits.
    Bfloat16,
    /// 16 bits.
    Float16,
    /// 8 bits (e4m3).
    Fp8,
    /// 8 bits.
    #[serde(rename = "fp8_e4m3")]
    #[value(name = "fp8_e4m3")]
    Fp8E4m3,
    /// 8 bits.
    #[serde(rename = "fp8_e5m2")]
    #[value(name = "fp8_e5m2")]
    Fp8E5m2,
}

/// How the engine is configured; what is left out comes from the engine profile.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Engine (vLLM's flags)")]
pub struct RawEngine {
    /// Engine and version whose defaults and behaviours apply: `vllm@0.33` (default), `vllm@0.11`, `vllm@0.6` (the V0
    /// engine), `sglang@0.5.23`, `sglang@0.5.4`, `tensorrt-llm@1.2`, `static` (batches closed when they start) or `hf-cb`
    /// (Transformers' continuous batching).
    #[arg(long = "engine", value_name = "NAME@VERSION")]
    #[serde(rename = "profile")]
    pub profile: Option<String>,
    /// Longest sequence, prompt plus output; default what the model allows; auto or -1 takes the longest that fits.
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub max_model_len: Option<Context>,
    /// Most sequences that run at once.
    #[arg(long, value_name = "N")]
    pub max_num_seqs: Option<Count>,
    /// Most tokens computed in a step.
    #[arg(long, value_name = "TOKENS")]
    pub max_num_batched_tokens: Option<Count>,
    /// Most tokens scheduled in a step, where that should be less than max_num_batched_tokens.
    #[arg(long, value_name = "TOKENS")]
    pub max_num_scheduled_tokens: Option<Count>,
    /// Most sequences admitted to run, where that should be less than max_num_seqs.
    #[arg(long, value_name = "N")]
    pub max_num_active_seqs: Option<Count>,
    /// Prompts may be split over steps.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_chunked_prefill: Option<bool>,
    /// Blocks of equal token prefixes are shared between requests.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_prefix_caching: Option<bool>,
    /// Most prompt tokens of one request in a step; 0 is off.
    #[arg(long, value_name = "TOKENS")]
    pub long_prefill_token_threshold: Option<Count>,
    /// Order of the waiting queue.
    #[arg(long, value_name = "POLICY")]
    pub scheduling_policy: Option<RawPolicy>,
    /// Tokens of a KV block.
    #[arg(long, value_name = "TOKENS")]
    pub block_size: Option<Count>,
    /// Share of the GPU's memory that the engine takes.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub gpu_memory_utilization: Option<f64>,
    /// Bytes of the KV cache per GPU; replaces gpu_memory_utilization.
    #[arg(long, value_name = "BYTES", value_parser = crate::config::scalar::bytes)]
    pub kv_cache_memory_bytes: Option<Count>,
    /// KV blocks, the null block included; replaces every memory formula.
    #[arg(long, value_name = "N")]
    pub num_gpu_blocks_override: Option<Count>,
    /// Admit a request only when its whole sequence fits in free blocks.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub scheduler_reserve_full_isl: Option<bool>,
    /// Layers with a window keep the KV of all tokens, too.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_hybrid_kv_cache_manager: Option<bool>,
    /// Format of what recurrent layers keep of their inputs; auto is what is modelled.
    #[arg(long, value_name = "DTYPE")]
    pub mamba_cache_dtype: Option<String>,
    /// Format of the states of recurrent layers; auto is what is modelled.
    #[arg(long, value_name = "DTYPE")]
    pub mamba_ssm_cache_dtype: Option<String>,
    /// Share of blocks kept free when admitting beside running sequences.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub watermark: Option<f64>,
    /// Executed steps between two releases of prefill work; 1 is off.
    #[arg(long, value_name = "STEPS")]
    pub prefill_schedule_interval: Option<Count>,
    /// Tokens between two chunks of an answer, of which the first is sent at once; changes nothing but gaps between chunks.
    #[arg(long, value_name = "TOKENS")]
    pub stream_interval: Option<Count>,
    /// Requests in flight above which the server answers 503.
    #[arg(long, value_name = "N")]
    pub max_num_queued_reqs: Option<Count>,
    /// API server processes, among which requests are shared; of a data-parallel server those of all its engines.
    #[arg(long, value_name = "N")]
    pub api_server_count: Option<Count>,
    /// `VLLM_V1_OUTPUT_PROC_CHUNK_SIZE`: most outputs of a step that an API server puts to their streams before any of those runs.
    #[arg(skip)]
    pub output_proc_chunk_size: Option<Count>,
    /// Never replay CUDA graphs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enforce_eager: Option<bool>,
    /// vLLM's -O: 0 compiles nothing and has no CUDA graphs, 1 has piecewise graphs, 2 and 3 are the defaults. Of vLLM 0.11
    /// it is the compilation mode.
    #[arg(long, value_name = "LEVEL")]
    pub optimization_level: Option<Count>,
    /// `mode` of vLLM's compilation config: 0 compiles nothing, 3 is the default; others are not modelled.
    #[arg(skip)]
    pub compilation_mode: Option<Count>,
    /// `fuse_allreduce_rms` of the compilation config's `pass_config`: all-reduce, the residual's sum and the norm are one kernel.
    #[arg(skip)]
    pub fuse_allreduce_rms: Option<bool>,
    /// Which steps replay CUDA graphs.
    #[arg(long, value_name = "MODE")]
    pub cudagraph_mode: Option<RawGraphMode>,
    /// Batch sizes (tokens) that are captured (-sc); default by the engine version's rule.
    #[arg(long, value_name = "TOKENS", num_args = 1.., value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cudagraph_capture_sizes: Option<Vec<Count>>,
    /// Largest batch size (tokens) that is captured.
    #[arg(long, value_name = "TOKENS")]
    pub max_cudagraph_capture_size: Option<Count>,
    /// Schedule the next step while this one runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub async_scheduling: Option<bool>,
    /// Speculative decoding: `--speculative-config '{"method": "eagle3", "num_speculative_tokens": 3, "acceptance_rate": 0.7}'`.
    #[arg(long, value_name = "JSON", value_parser = speculation)]
    pub speculative_config: Option<RawSpeculation>,
    /// Host memory for KV, in GiB, of all ranks together; with --kv-offloading-backend lmcache.
    #[arg(long, value_name = "GIB", allow_negative_numbers = true)]
    pub kv_offloading_size: Option<f64>,
    /// What keeps KV in host memory; only lmcache is modelled.
    #[arg(long, value_name = "NAME")]
    pub kv_offloading_backend: Option<String>,
    /// vLLM's KV connector as JSON: NixlConnector or P2pNcclConnector between prefill and decode pools, or
    /// LMCacheConnectorV1, whose keys stand in the scenario's table `[lmcache]`.
    #[arg(long, value_name = "JSON")]
    pub kv_transfer_config: Option<String>,
    /// What unset sizes are tuned for.
    #[arg(long, value_name = "MODE")]
    pub performance_mode: Option<RawPerformanceMode>,
    /// How data-parallel engines exchange the tokens of their experts: two of them make unset batch sizes small; how long
    /// an exchange takes is the same for all.
    #[arg(long, value_name = "BACKEND")]
    pub all2all_backend: Option<RawAll2All>,
    /// vLLM 0.6: GiB of the host's memory for each GPU, for KV blocks that are swapped out.
    #[arg(long, value_name = "GIB", allow_negative_numbers = true)]
    pub swap_space: Option<f64>,
    /// vLLM 0.6: what becomes of a sequence that loses its KV blocks.
    #[arg(long, value_name = "MODE")]
    pub preemption_mode: Option<RawPreemptionMode>,
    /// vLLM 0.6: a prompt waits for so many times the last prompt's step, unless nothing runs.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub scheduler_delay_factor: Option<f64>,
    /// vLLM 0.6: process a step's output before the next one is decided, not while it runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_async_output_proc: Option<bool>,
    /// vLLM 0.6: steps that are decided together; only 1 is modelled.
    #[arg(long, value_name = "N")]
    pub num_scheduler_steps: Option<Count>,
}

impl RawEngine {
    /// Who serves.
    pub(in crate::config) fn kind(&self) -> EngineKind {
        EngineKind::of(self.profile.as_deref())
    }
}

/// Reads the flag.
fn speculation(json: &str) -> Result<RawSpeculation, String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)
        .map_err(|_| "must be a JSON object, like '{\"method\": \"eagle3\", …}'".to_owned())?;
    serde_json::from_value(object.into())
        .map_err(|error| format!("has a key or value that is not modelled: {error}"))
}

/// vLLM's speculative configuration, and how many of the drafts stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawSpeculation {
    /// What drafts: `eagle`, `eagle3`, `mtp`, `draft_model` or `ngram`.
    pub method: Option<String>,
    /// The drafter: of `draft_model` a bundled id, of others a name without effect.
    pub model: Option<String>,
    /// Drafts that are verified beside each decoded token.
    pub num_speculative_tokens: Option<Count>,
    /// Share of the drafts that stand once those before them do: the first of the rates that vLLM logs by position, and not the share of
    /// all drafts that it logs.
    pub acceptance_rate: Option<f64>,
    /// Tokens that a verification brings on average, its own included.
    pub synthetic_acceptance_length: Option<f64>,
    /// Share of the verifications that accept their first 1, 2, … drafts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic_acceptance_rates: Option<Vec<f64>>,
    /// Ranks of the drafter; only as many as the model has.
    pub draft_tensor_parallel_size: Option<Count>,
    /// Of `ngram`: no effect here, where it is said how many drafts stand.
    pub prompt_lookup_max: Option<Count>,
    /// Likewise.
    pub prompt_lookup_min: Option<Count>,
    /// How drafts are judged: no effect here, likewise.
    pub rejection_sample_method: Option<String>,
    /// Blocks of the prefix cache are known by their own tokens alone.
    pub disable_lookahead_block_hashes: Option<bool>,
    /// A prefix hit keeps its last block.
    pub disable_eagle_block_drop: Option<bool>,
}

/// vLLM's `--scheduling-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawPolicy {
    /// First come, first served.
    Fcfs,
    /// Smallest `(priority, arrival)` first.
    Priority,
}

/// vLLM's `cudagraph_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawGraphMode {
    /// Every step is launched kernel by kernel.
    None,
    /// Attention is launched eagerly between captured pieces.
    Piecewise,
    /// Uniform decode batches replay whole graphs, other steps run eagerly.
    FullDecodeOnly,
    /// Whole graphs for uniform decode batches, pieces for the rest.
    FullAndPiecewise,
    /// Whole graphs for every step, which is not modelled.
    Full,
}

/// vLLM's `--all2all-backend` (`All2AllBackend` in `config/parallel.py`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum RawAll2All {
    /// vLLM's default.
    AllgatherReducescatter,
    /// DeepEP's kernels for prompts.
    DeepepHighThroughput,
    /// DeepEP's kernels for decoding: batches of at most 256 tokens unless they are told otherwise.
    DeepepLowLatency,
    /// DeepEP's second version.
    DeepepV2,
    /// AMD's kernels for prompts.
    MoriHighThroughput,
    /// AMD's kernels for decoding.
    MoriLowLatency,
    /// Experts that are copied to where they are asked for.
    Moonep,
    /// NIXL's kernels: batches of at most 256 tokens unless they are told otherwise.
    NixlEp,
    /// The older name of `flashinfer_nvlink_two_sided`.
    FlashinferAll2allv,
    /// FlashInfer's two-sided kernels.
    FlashinferNvlinkTwoSided,
    /// FlashInfer's one-sided kernels.
    FlashinferNvlinkOneSided,
    /// Removed, and taken as vLLM's default.
    Naive,
    /// Removed, and taken as vLLM's default.
    Pplx,
}

impl RawAll2All {
    /// Whether its kernels take one small batch of each engine (`ParallelConfig.use_batched_dp_moe`).
    pub(in crate::config) fn is_batched(self) -> bool {
        matches!(self, RawAll2All::DeepepLowLatency | RawAll2All::NixlEp)
    }
}

/// vLLM's `--performance-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawPerformanceMode {
    /// The engine's defaults.
    Balanced,
    /// Finer capture sizes.
    Interactivity,
    /// Twice the unset batch sizes.
    Throughput,
}
