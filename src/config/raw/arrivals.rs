//! When requests are sent.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawEmpty;
use crate::config::scalar::{Count, Duration, Rate};

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
    /// Scale both rates so that the mean over all requests is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
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
    /// Scale the states' rates to this mean rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
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
    /// The file: Mooncake, Azure, BurstGPT, vLLM `--save-detailed`, kv-cache-tester and others, recognised by content; of
    /// kv-cache-tester's sessions a folder, too.
    pub path: String,
    /// Unit of its time stamps where the format leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<RawTimeUnit>,
    /// Factor on arrival times: 2 halves the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_scale: Option<f64>,
    /// Scale arrival times to this mean rate instead. Of a trace of conversations: how many begin per second, at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
    /// Requests of one tick of a coarse clock come spread over it, at random, instead of all at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_ticks: Option<bool>,
    /// Of a class: traces with this name of a space mean the same texts by their hash ids. Default each its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_space: Option<String>,
    /// Of a trace of conversations: so many are under way at all times, and as one ends the next of the file begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Count>,
    /// Of a trace of conversations: no turn is sent later than this after the answers that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_think_time: Option<Duration>,
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
