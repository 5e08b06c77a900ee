//! The traffic as a whole, its client and its endings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RawArrivals, RawGoodput, RawLengths, RawPrefix};
use crate::config::scalar::{Count, Duration, Rate};

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
    /// The server refuses requests whose prompt does not fit the context, as vLLM does with HTTP 400, and serves the rest: they count as
    /// sent and as refused. Default: such a prompt is an error before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_too_long: Option<bool>,
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
    /// Kinds of requests, each a share of them or with arrivals of its own, with lengths, a model and an SLO of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<RawClass>,
    /// Scale the arrivals of classes that have their own by one factor, to so many requests per second together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
}

/// A kind of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawClass {
    /// What results call it.
    pub name: Option<String>,
    /// Its share of the requests of [workload.arrivals], or its rate: shares are relative to their sum.
    pub share: Option<f64>,
    /// When its requests are sent, in place of a share: it is a client of its own.
    pub arrivals: Option<RawArrivals>,
    /// When it begins, with arrivals of its own; default at once.
    pub start: Option<Duration>,
    /// Requests that it sends, with arrivals of its own. Left out, and without a duration: as long as the others.
    pub num_prompts: Option<Count>,
    /// It stops sending so long after its start, with arrivals of its own.
    pub duration: Option<Duration>,
    /// How long its prompts and outputs are; default those of the workload.
    pub lengths: Option<RawLengths>,
    /// What its prompts share with each other, with arrivals of its own; default as those of the workload.
    pub prefix: Option<RawPrefix>,
    /// How its client behaves, with arrivals of its own; default as that of the workload.
    pub client: RawClient,
    /// Smaller is served first by an engine that schedules by priority; default 0.
    pub priority: Option<i64>,
    /// The model that it asks for, as a pool names it; needed where pools serve several.
    pub model: Option<String>,
    /// Limits that a good request of this class meets all of; default those of [slo.goodput].
    pub goodput: RawGoodput,
}

/// How the client behaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawClient {
    /// Most requests in flight; a request's clock starts when it gets its place.
    pub max_concurrency: Option<Count>,
    /// Rescale arrivals so that the last falls at num_prompts/request_rate, as `vllm bench serve` does.
    pub rescale_arrivals: Option<bool>,
    /// Whose random numbers lengths and gaps are made of; default own.
    pub draws: Option<RawDraws>,
    /// The client gives up after so long; default never.
    pub timeout: Option<Duration>,
    /// Classes of priority.
    pub priorities: Option<Vec<RawPriority>>,
}

/// Whose random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawDraws {
    /// The simulator's, of which every purpose has a stream.
    Own,
    /// Those that `vllm bench serve` draws with the same seed: it is the very requests of that client that are sent.
    Vllm,
    /// Those that `sglang.bench_serving` draws with it.
    Sglang,
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
