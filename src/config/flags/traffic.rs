//! The traffic's flags as they are typed: only data.

use clap::{Args, ValueEnum};

use crate::config::raw::{RawRampStrategy, RawTimeUnit};
use crate::config::scalar::{Count, Rate};

/// The traffic, in the words of `vllm bench serve`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Traffic (vllm bench serve's flags)")]
pub struct TrafficFlags {
    /// Requests per second on average, to which the scenario's law of arrivals is scaled; inf sends everything at once.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub request_rate: Option<Rate>,
    /// Shape of the gamma law of gaps: 1 is Poisson, less is burstier, inf is constant.
    #[arg(long, value_name = "SHAPE", allow_negative_numbers = true)]
    pub burstiness: Option<f64>,
    /// Most requests in flight; without a rate a closed loop.
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<Count>,
    /// Requests to send; left out, as many as the asked precision needs.
    #[arg(long, value_name = "N")]
    pub num_prompts: Option<Count>,
    /// Stop sending after so long, `600s`.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Relative half-width of the 95 % interval at which an automatic run stops.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub precision: Option<f64>,
    /// Prompt tokens.
    #[arg(long, value_name = "TOKENS")]
    pub input_len: Option<Count>,
    /// Output tokens.
    #[arg(long, value_name = "TOKENS")]
    pub output_len: Option<Count>,
    /// Prompt tokens of the random data set.
    #[arg(long, value_name = "TOKENS")]
    pub random_input_len: Option<Count>,
    /// Output tokens of the random data set.
    #[arg(long, value_name = "TOKENS")]
    pub random_output_len: Option<Count>,
    /// Spread of the random lengths around the given ones; 0 is exact. Of prompts and outputs apart:
    /// '{"input": 0.3, "output": 0.5}'.
    #[arg(long, value_name = "FRACTION|JSON", allow_negative_numbers = true, value_parser = range_ratio)]
    pub random_range_ratio: Option<RangeRatio>,
    /// Tokens in front of every prompt, the same for all, added to its length.
    #[arg(long, value_name = "TOKENS")]
    pub random_prefix_len: Option<Count>,
    /// Which lengths to draw.
    #[arg(long, value_name = "NAME")]
    pub dataset_name: Option<Dataset>,
    /// File of the data set; token counts, not text: any trace, or a CSV that begins num_prefill_tokens,num_decode_tokens.
    #[arg(long, value_name = "FILE")]
    pub dataset_path: Option<String>,
    /// Output tokens of every ShareGPT request.
    #[arg(long, value_name = "TOKENS")]
    pub sharegpt_output_len: Option<Count>,
    /// Output tokens of every request of a custom data set.
    #[arg(long, value_name = "TOKENS")]
    pub custom_output_len: Option<Count>,
    /// Tokens of each prefix of the prefix_repetition data set.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_prefix_len: Option<Count>,
    /// Tokens of each suffix.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_suffix_len: Option<Count>,
    /// Number of prefixes.
    #[arg(long, value_name = "N")]
    pub prefix_repetition_num_prefixes: Option<Count>,
    /// Output tokens.
    #[arg(long, value_name = "TOKENS")]
    pub prefix_repetition_output_len: Option<Count>,
    /// System prompts of the generated-shared-prefix data set.
    #[arg(long, value_name = "N")]
    pub gsp_num_groups: Option<Count>,
    /// Questions to each of them.
    #[arg(long, value_name = "N")]
    pub gsp_prompts_per_group: Option<Count>,
    /// Tokens of each system prompt.
    #[arg(long, value_name = "TOKENS")]
    pub gsp_system_prompt_len: Option<Count>,
    /// Tokens of each question.
    #[arg(long, value_name = "TOKENS")]
    pub gsp_question_len: Option<Count>,
    /// Output tokens.
    #[arg(long, value_name = "TOKENS")]
    pub gsp_output_len: Option<Count>,
    /// Whether the groups have equal shares of the requests.
    #[arg(long, value_name = "LAW")]
    pub gsp_group_distribution: Option<GroupDistribution>,
    /// Exponent of their popularity, for zipf.
    #[arg(long, value_name = "EXPONENT", allow_negative_numbers = true)]
    pub gsp_zipf_alpha: Option<f64>,
    /// Replay a trace file: Mooncake, Azure, BurstGPT, vLLM --save-detailed and others, recognised by content; a CSV of your
    /// own begins arrived_at,num_prefill_tokens,num_decode_tokens. Of kv-cache-tester's agentic sessions, a folder too, --users or
    /// --request-rate says when conversations begin.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<String>,
    /// Factor on the trace's arrival times; 2 halves the rate.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub time_scale: Option<f64>,
    /// Unit of the trace's time stamps where its format leaves it open.
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<RawTimeUnit>,
    /// Spread the requests of each tick of the trace's coarse clock over it, instead of sending them at once.
    #[arg(long)]
    pub spread_ticks: bool,
    /// Of a trace of conversations: send no turn later than this after the answers that it waits for, `60s`.
    #[arg(long, value_name = "TIME")]
    pub max_think_time: Option<String>,
    /// Users who send, wait for the answer, think and send again. With a trace of conversations: so many are under way at all times.
    #[arg(long, value_name = "N")]
    pub users: Option<Count>,
    /// Mean of their think time, `30s`.
    #[arg(long, value_name = "TIME")]
    pub think_time: Option<String>,
    /// How the rate goes from --ramp-up-start-rps to --ramp-up-end-rps.
    #[arg(long, value_name = "SHAPE")]
    pub ramp_up_strategy: Option<RawRampStrategy>,
    /// Requests per second at the first request.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub ramp_up_start_rps: Option<Rate>,
    /// Requests per second at the last.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub ramp_up_end_rps: Option<Rate>,
    /// Whose habits the client has: vllm rescales arrivals and has the defaults of `vllm bench serve`, sglang has those of
    /// `sglang.bench_serving`; both send the very requests that the real client draws with the same --seed.
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<ClientKind>,
    /// The client gives up after so long, `300s`.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Requests whose prompt does not fit the context are refused by the server, as vLLM does with HTTP 400, and the rest are served;
    /// else such a prompt is an error before the run.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub refuse_too_long: Option<bool>,
    /// Seed of every random stream.
    #[arg(long, value_name = "N")]
    pub seed: Option<Count>,
    /// A workload to start from: a shipped one (workloads/azure-conv-2023) or a file.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
}

/// vLLM's `--dataset-name`, and SGLang's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake")]
pub enum Dataset {
    /// Lengths around the given ones.
    Random,
    /// SGLang's name for those of prompts that are made of random tokens.
    #[value(name = "random-ids", alias = "random_ids")]
    RandomIds,
    /// Lengths of a ShareGPT file, filtered as vLLM does.
    Sharegpt,
    /// Lengths of a BurstGPT file; its arrival times are not used (--trace uses them).
    Burstgpt,
    /// Prefixes that repeat.
    PrefixRepetition,
    /// Lengths of any file.
    Custom,
    /// A Mooncake trace with its arrival times.
    TimedTrace,
    /// Prompts of 550 tokens, 200 of them shared, answers of 150.
    Sonnet,
    /// SGLang's system prompts, each with a number of questions.
    #[value(name = "generated-shared-prefix", alias = "generated_shared_prefix")]
    GeneratedSharedPrefix,
}

/// How the requests of the generated-shared-prefix data set are spread over its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupDistribution {
    /// Equally.
    Uniform,
    /// By Zipf's law.
    Zipf,
}

/// Whose habits the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientKind {
    /// `vllm bench serve`.
    Vllm,
    /// `python -m sglang.bench_serving`.
    Sglang,
    /// Nobody's: arrivals as drawn.
    Plain,
}

/// vLLM's `RangeRatio`: one spread, or one of prompts and one of outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeRatio {
    /// Of prompts.
    pub input: f64,
    /// Of outputs, where it is given apart.
    pub output: Option<f64>,
}

fn range_ratio(text: &str) -> Result<RangeRatio, String> {
    if let Ok(input) = text.trim().parse() {
        return Ok(RangeRatio { input, output: None });
    }
    let both = serde_json::from_str::<std::collections::BTreeMap<String, f64>>(text).ok();
    let both = both.filter(|both| both.len() == 2);
    let of = |name: &str| both.as_ref()?.get(name).copied();
    match (of("input"), of("output")) {
        (Some(input), output @ Some(_)) => Ok(RangeRatio { input, output }),
        _ => Err(r#"write a number, or {"input": 0.3, "output": 0.5}"#.to_owned()),
    }
}
