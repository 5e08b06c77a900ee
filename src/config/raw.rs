//! The scenario file as it is written: only data, every key optional, unknown keys refused.
//!
//! The doc comment of each key is its documentation: it feeds `--help` (the engine and cluster keys are flags of
//! the same name), the JSON Schema that `plimsoll schema` prints, and the reference page. Nothing is checked here
//! but the shape; `resolve` is the only judge of values.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Count, Duration, Rate};

/// A Plimsoll scenario: a GPU, a model, an engine, traffic and what is asked of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawScenario {
    /// What is served.
    pub model: RawModel,
    /// What it is served on.
    pub cluster: RawCluster,
    /// How the engine is configured; the keys are vLLM's flags.
    pub engine: RawEngine,
    /// What arrives.
    pub workload: RawWorkload,
    /// What is promised to users.
    pub slo: RawSlo,
    /// What a result reports; no figure depends on it.
    pub report: RawReport,
    /// Values of this file that nobody gave, `KEY = VALUE (REASON)`, as `--dry-run` writes them. A key that still has
    /// the recorded value goes on being listed as assumed.
    pub assumed: Vec<String>,
    /// Axes of a sweep: a key path (`engine.max_num_seqs`) or a flag's name (`request_rate`) and its values.
    /// All combinations run, the axes nested in alphabetical order.
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
}

/// What a result reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawReport {
    /// Percentiles, between 0 and 100; 50, 90, 95 and 99 if not given.
    pub percentiles: Option<Vec<f64>>,
    /// Metrics to report percentiles of: ttft, tpot, itl, e2el; all if not given.
    pub metrics: Option<Vec<String>>,
    /// First part of a saved result's name.
    pub label: Option<String>,
    /// Pairs to keep in the JSON, KEY=VALUE.
    pub metadata: Option<Vec<String>>,
}

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

/// What it is served on.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawCluster {
    /// GPU id, `H100-SXM-80GB` (`plimsoll hw`; any shortening by whole parts), or the path of a hardware profile.
    #[arg(long, value_name = "GPU", help_heading = "Machines")]
    pub gpu: Option<String>,
    /// Calibration of the step time: the name of a shipped one, or a path; default the best for this GPU and engine.
    #[arg(long, value_name = "NAME", help_heading = "Machines")]
    pub calibration: Option<String>,
    /// Engine instances behind a router.
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub replicas: Option<Count>,
    /// GPUs that share every layer of one replica (-tp).
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub tensor_parallel_size: Option<Count>,
    /// Stages that a replica's layers are split into (-pp).
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub pipeline_parallel_size: Option<Count>,
    /// Data-parallel engines inside one server (-dp).
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub data_parallel_size: Option<Count>,
}

/// How the engine is configured; what is left out comes from the engine profile.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Engine (vLLM's flags)")]
pub struct RawEngine {
    /// Engine and version whose defaults and behaviours apply, `vllm@0.33` (default) or `vllm@0.11`.
    #[arg(long = "engine", value_name = "NAME@VERSION")]
    #[serde(rename = "profile")]
    pub profile: Option<String>,
    /// Longest sequence, prompt plus output; default what the model allows.
    #[arg(long, value_name = "TOKENS")]
    pub max_model_len: Option<Count>,
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
    #[arg(long, value_name = "BYTES", value_parser = super::scalar::bytes)]
    pub kv_cache_memory_bytes: Option<Count>,
    /// KV blocks, the null block included; replaces every memory formula.
    #[arg(long, value_name = "N")]
    pub num_gpu_blocks_override: Option<Count>,
    /// Admit a request only when its whole sequence fits in free blocks.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub scheduler_reserve_full_isl: Option<bool>,
    /// Share of blocks kept free when admitting beside running sequences.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub watermark: Option<f64>,
    /// Executed steps between two releases of prefill work; 1 is off.
    #[arg(long, value_name = "STEPS")]
    pub prefill_schedule_interval: Option<Count>,
    /// Tokens between two chunks of an answer; only 1 is modelled.
    #[arg(long, value_name = "TOKENS")]
    pub stream_interval: Option<Count>,
    /// Requests in flight above which the server answers 503.
    #[arg(long, value_name = "N")]
    pub max_num_queued_reqs: Option<Count>,
    /// Never replay CUDA graphs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enforce_eager: Option<bool>,
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
    /// What unset sizes are tuned for.
    #[arg(long, value_name = "MODE")]
    pub performance_mode: Option<RawPerformanceMode>,
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

/// What arrives, how long it is, what it shares, who sends it and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawWorkload {
    /// A workload file to start from (`workloads/azure-conv-2023`, or a path); the tables given here replace its own.
    pub base: Option<String>,
    /// Seed of every random stream.
    pub seed: Option<Count>,
    /// Requests to send. Left out, and without a duration: as many as the asked precision needs.
    pub num_prompts: Option<Count>,
    /// Stop sending after so long.
    pub duration: Option<Duration>,
    /// Relative half-width of the 95 % interval at which an automatic run stops.
    pub precision: Option<f64>,
    /// When requests are sent.
    pub arrivals: Option<RawArrivals>,
    /// How long prompts and outputs are.
    pub lengths: Option<RawLengths>,
    /// What prompts share.
    pub prefix: Option<RawPrefix>,
    /// How the client behaves.
    pub client: RawClient,
    /// Outputs that end before `output_len` by an end-of-sequence token; default none does (`ignore_eos`).
    pub endings: Option<RawEndings>,
}

/// When requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawArrivals {
    /// Independent exponential gaps.
    Poisson(RawPoisson),
    /// Gamma gaps: burstiness 1 is Poisson, less is burstier.
    Gamma(RawGamma),
    /// Equal gaps.
    Constant(RawPoisson),
    /// Everything at once; with `client.max_concurrency` a closed loop.
    AllAtOnce(RawEmpty),
    /// So many requests in flight at all times.
    Closed(RawClosed),
    /// Users who think between an answer and their next request.
    Users(RawUsers),
    /// A rate that goes from one value to another over the requests.
    Ramp(RawRamp),
    /// A rate that jumps between states.
    Mmpp(RawMmpp),
    /// A rate that follows a curve, repeated at its end.
    Profile(RawProfile),
    /// The requests of a trace file, with their lengths and shared prefixes.
    Trace(RawTrace),
}

/// A table without keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawEmpty {}

/// A rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawPoisson {
    /// Requests per second.
    pub request_rate: Rate,
}

/// A rate and its burstiness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawGamma {
    /// Requests per second.
    pub request_rate: Rate,
    /// Shape of the gamma law; the gaps' coefficient of variation is 1/√burstiness.
    pub burstiness: f64,
}

/// A number in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawClosed {
    /// Requests in flight.
    pub max_concurrency: Count,
}

/// Users and their think time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawUsers {
    /// How many.
    pub users: Count,
    /// Mean of their exponential think time.
    pub think_time: Duration,
}

/// From one rate to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRamp {
    /// Requests per second at the first request.
    pub start_rate: Rate,
    /// Requests per second at the last.
    pub end_rate: Rate,
    /// The shape in between.
    #[serde(default)]
    pub strategy: RawRampStrategy,
}

/// vLLM's `--ramp-up-strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawRampStrategy {
    /// Equal steps from request to request.
    #[default]
    Linear,
    /// Equal ratios.
    Exponential,
}

/// A cycle of rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawMmpp {
    /// The states, visited in order and again from the first.
    pub states: Vec<RawMmppState>,
}

/// One state of a Markov-modulated Poisson process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawMmppState {
    /// Requests per second in it; 0 is silence.
    pub request_rate: Rate,
    /// Mean time in it.
    pub mean_sojourn: Duration,
}

/// A curve of rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawProfile {
    /// Length of one piece.
    pub piece: Duration,
    /// Requests per second in each piece.
    pub rates: Vec<f64>,
    /// Shape of the gamma law of gaps; 1 (default) is Poisson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burstiness: Option<f64>,
    /// Scale the curve to this mean rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
}

/// A trace file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawTrace {
    /// The file: Mooncake, Azure, BurstGPT, vLLM `--save-detailed` and others, recognised by content.
    pub path: String,
    /// Unit of its time stamps where the format leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<RawTimeUnit>,
    /// Factor on arrival times: 2 halves the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_scale: Option<f64>,
    /// Scale arrival times to this mean rate instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
}

/// Unit of a trace's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawTimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// How long prompts and outputs are, in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawLengths {
    /// Always the same.
    Fixed(RawFixed),
    /// vLLM's `random` data set: uniform within `range_ratio` around the lengths; 0 is exact.
    Random(RawRandom),
    /// SGLang's `random` data set: uniform from `range_ratio` times the length up to the length.
    RandomSglang(RawRandom),
    /// Lognormal, correlated.
    Lognormal(RawLognormal),
    /// Quantile functions joined by a Gaussian copula, as `plimsoll trace` fits them.
    Quantiles(RawQuantiles),
    /// Pairs drawn with replacement from a file of lengths or a trace.
    File(RawLengthFile),
}

/// Two lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFixed {
    /// Prompt tokens.
    pub input_len: Count,
    /// Output tokens.
    pub output_len: Count,
}

/// Two lengths and a spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRandom {
    /// Prompt tokens.
    pub input_len: Count,
    /// Output tokens.
    pub output_len: Count,
    /// The spread, from 0.
    #[serde(default)]
    pub range_ratio: f64,
}

/// Two lognormal lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawLognormal {
    /// Prompt tokens.
    pub input: RawLognormalLength,
    /// Output tokens.
    pub output: RawLognormalLength,
    /// Correlation of the two logarithms, between -1 and 1.
    #[serde(default)]
    pub correlation: f64,
}

/// A lognormal length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawLognormalLength {
    /// Median in tokens.
    pub median: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Longest; draws above it are repeated.
    pub max: Count,
}

/// Two quantile functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawQuantiles {
    /// Prompt tokens at equally spaced probabilities from 0 to 1.
    pub input: Vec<f64>,
    /// Output tokens likewise.
    pub output: Vec<f64>,
    /// Correlation of the normal scores, between -1 and 1.
    #[serde(default)]
    pub correlation: f64,
}

/// A file of lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawLengthFile {
    /// The file: any trace format, or a CSV of prompt and output lengths.
    pub path: String,
    /// Which rows a benchmark client would drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<RawLengthFilter>,
    /// Replace every output length by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_len: Option<Count>,
}

/// Which rows a benchmark client drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawLengthFilter {
    /// vLLM's `sharegpt`: prompts of 4 to 1,024 tokens, outputs of at least 4, together at most 2,048.
    Sharegpt,
}

/// What prompts share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawPrefix {
    /// Nothing.
    None(RawEmpty),
    /// Each prompt starts with one of a number of prefixes, added to its length.
    Groups(RawGroups),
    /// Prompts that begin as an earlier one did, within their own length.
    Reuse(RawReuse),
    /// Conversations whose prompts repeat all that was said.
    Sessions(RawSessions),
}

/// Shared prefixes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawGroups {
    /// How many.
    pub count: Count,
    /// Tokens of each.
    pub prefix_len: Count,
    /// Zipf exponent of their popularity; 0 is uniform.
    #[serde(default)]
    pub zipf: f64,
    /// Exactly num_prompts/count requests each, shuffled (vLLM's `prefix_repetition`).
    #[serde(default)]
    pub exact_shares: bool,
}

/// Prompts that begin as an earlier one did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawReuse {
    /// Tokens with which every prompt begins.
    pub system_len: Count,
    /// Probability that a request continues an earlier prompt, between 0 and 1.
    pub probability: f64,
    /// Most of a prompt that may be an earlier one's, between 0 and 1.
    pub share: f64,
    /// Median number of requests back to the one that is continued.
    pub distance_median: f64,
    /// Standard deviation of that number's logarithm.
    pub distance_sigma: f64,
}

/// Conversations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawSessions {
    /// Mean number of turns.
    pub turns: f64,
    /// Exactly so many turns instead of a geometric number.
    #[serde(default)]
    pub fixed_turns: bool,
    /// Mean of the exponential think time between an answer and the next turn.
    pub think_time: Duration,
    /// Tokens of a system prompt that all conversations share.
    #[serde(default = "no_tokens")]
    pub shared_system_len: Count,
}

fn no_tokens() -> Count {
    Count(0)
}

/// How the client behaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawClient {
    /// Most requests in flight; a request's clock starts when it gets its place.
    pub max_concurrency: Option<Count>,
    /// Rescale arrivals so that the last falls at num_prompts/request_rate, as `vllm bench serve` does.
    pub rescale_arrivals: Option<bool>,
    /// The client gives up after so long; default never.
    pub timeout: Option<Duration>,
    /// Classes of priority.
    pub priorities: Option<Vec<RawPriority>>,
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawPriority {
    /// Smaller is served first.
    pub priority: i64,
    /// Its share of the requests; shares are relative to their sum.
    pub share: f64,
}

/// Outputs that end by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawEndings {
    /// Each token ends the output with this probability.
    Hazard(RawHazard),
    /// A share of the requests ends early, uniformly before its limit.
    Share(RawShare),
}

/// A probability per token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawHazard {
    /// Between 0 and 1.
    pub per_token: f64,
}

/// A share of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawShare {
    /// Between 0 and 1.
    pub early: f64,
}

/// What is promised to users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawSlo {
    /// Share of requests that must meet every goodput limit.
    pub attainment: Option<f64>,
    /// Limits that a good request meets all of.
    pub goodput: RawGoodput,
    /// Limits on percentiles over requests, `p99_ttft = "500 ms"`.
    pub percentiles: BTreeMap<String, Duration>,
}

/// Limits per request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawGoodput {
    /// Time to first token.
    pub ttft: Option<Duration>,
    /// Time per output token after the first.
    pub tpot: Option<Duration>,
    /// Whole answer.
    pub e2el: Option<Duration>,
}
