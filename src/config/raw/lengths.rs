//! How long prompts and outputs are, and what prompts share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawEmpty;
use crate::config::scalar::{Count, Duration};

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
    /// Exponential: laws without memory, rounded to whole tokens and at least 1.
    Exponential(RawMemoryless),
    /// Geometric on 1, 2, …: without memory in whole tokens, so that a server with steps of one length serves as in M/M/1.
    Geometric(RawMemoryless),
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
    /// The spread of outputs, where it is another; of vLLM's data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_range_ratio: Option<f64>,
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

/// Two lengths without memory; a prompt may also be always the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawMemoryless {
    /// Prompt tokens, always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_len: Option<Count>,
    /// Mean prompt tokens, in place of `input_len`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mean: Option<f64>,
    /// Longest prompt; draws above it are repeated. Left out, 20 times the mean, which one in 500 million exceeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_max: Option<Count>,
    /// Mean output tokens.
    pub output_mean: f64,
    /// Longest output, as of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_max: Option<Count>,
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
    /// The file: any trace format, or a CSV with the header `num_prefill_tokens,num_decode_tokens` over prompt and output lengths.
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
    /// Of the requests that continue one, how many go back 1, 2 to 3, 4 to 7, … requests to whoever last had it: relative to
    /// their sum, 20 numbers at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distances: Option<Vec<f64>>,
    /// In place of `distances`: median of the number of requests back, which is lognormal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance_median: Option<f64>,
    /// Beside it: standard deviation of that number's logarithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance_sigma: Option<f64>,
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
