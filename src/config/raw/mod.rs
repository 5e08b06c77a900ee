//! The scenario file as it is written: only data, every key optional, unknown keys refused.
//!
//! The doc comment of each key is its documentation: it feeds `--help` (the engine and cluster keys are flags of
//! the same name), the JSON Schema that `plimsoll schema` prints, and the reference page. Nothing is checked here
//! but the shape; `resolve` is the only judge of values.

mod arrivals;
mod batching;
mod cluster;
mod disaggregation;
mod lengths;
mod lmcache;
mod server;
mod sglang;
mod trtllm;
mod workload;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

pub use arrivals::{
    RawArrivals, RawClosed, RawGamma, RawMmpp, RawMmppState, RawPoisson, RawProfile, RawRamp,
    RawRampStrategy, RawTimeUnit, RawTrace, RawUsers,
};
pub use batching::{RawBatching, RawCbScheduler, RawPreemptionMode};
pub use cluster::{
    RawAdmission, RawAutoscale, RawCluster, RawPool, RawRateLimit, RawReplicaChange, RawReplicaEvent,
    RawRetries, RawRole, RawRouter, RawSignal,
};
pub use disaggregation::{RawFlow, RawLink, RawLoadFailure};
pub use lengths::{
    RawFixed, RawGroups, RawLengthFile, RawLengthFilter, RawLengths, RawLognormal, RawLognormalLength,
    RawMemoryless, RawPrefix, RawQuantiles, RawRandom, RawReuse, RawSessions,
};
pub use lmcache::{RawCachePolicy, RawLmcache};
pub use server::{
    RawAll2All, RawDtype, RawEngine, RawGraphMode, RawKvDtype, RawModel, RawPerformanceMode, RawPolicy,
    RawRopeScaling, RawSpeculation,
};
pub use sglang::{RawBalanceMethod, RawQueuePolicy, RawSglang};
pub use trtllm::{RawCapacityPolicy, RawTrtllm};
pub use workload::{
    RawClass, RawClient, RawDraws, RawEndings, RawHazard, RawPriority, RawShare, RawWorkload,
};

/// A Plimsoll scenario: a GPU, a model, an engine, traffic and what is asked of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawScenario {
    /// What is served.
    pub model: RawModel,
    /// What it is served on.
    pub cluster: RawCluster,
    /// Which engine serves, and how vLLM is configured; the keys are vLLM's flags.
    pub engine: RawEngine,
    /// How SGLang is configured where it serves; the keys are its flags.
    pub sglang: RawSglang,
    /// How TensorRT-LLM is configured where it serves; the keys are its flags.
    pub trtllm: RawTrtllm,
    /// How static batching and Transformers' continuous batching form batches where one of them serves.
    pub batching: RawBatching,
    /// Tiers of KV beside the GPUs; the keys are LMCache's.
    pub lmcache: RawLmcache,
    /// What arrives.
    pub workload: RawWorkload,
    /// Service level objectives: limits on latencies, and who must meet them.
    pub slo: RawSlo,
    /// What a result reports; no figure depends on it.
    pub report: RawReport,
    /// Values of this file that nobody gave, `KEY = VALUE (REASON)`, as `--dry-run` writes them. A key that still has
    /// the recorded value goes on being listed as assumed.
    pub assumed: Vec<String>,
    /// What the command line that this file spells out said without effect, as `--dry-run` writes it: told again beside
    /// the result.
    pub ignored: Vec<String>,
    /// What else was said beside its result.
    pub notes: Vec<String>,
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
    /// The client's `backend` in a saved result; the engine's name if not given.
    pub backend: Option<String>,
    /// The model as a client names it, where the server has a name of its own for it.
    pub model_id: Option<String>,
    /// Pairs to keep in the JSON, KEY=VALUE.
    pub metadata: Option<Vec<String>>,
}

/// A choice in the word that a file and a flag have for it.
pub(super) fn spelled(choice: impl Serialize) -> String {
    match toml::Value::try_from(choice) {
        Ok(toml::Value::String(word)) => word,
        other => unreachable!("a choice is one word, not {other:?}"),
    }
}

/// A table without keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawEmpty {}

/// Service level objectives: limits on latencies, and who must meet them.
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
