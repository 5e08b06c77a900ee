//! Flags, low level: what was typed, and the edits of the scenario that it means.
//!
//! A flag edits the scenario as if its key had been written in the file. Flags of the engine, the model and the
//! cluster are keys of the same name; those of traffic and promises follow `vllm bench serve` and are translated here.

mod arrivals;
mod disaggregation;
mod editor;
mod gsp;
mod lengths;
mod overrides;
mod promises;
mod server;
mod speculation;
mod traffic;

use clap::Args;

use super::raw::{RawBatching, RawCluster, RawEngine, RawModel, RawSglang, RawTrtllm};

pub use disaggregation::DisaggregationFlags;
pub(crate) use overrides::OverrideFlags;
pub use promises::SloFlags;
pub(crate) use speculation::SpeculationFlags;
pub use traffic::{ClientKind, Dataset, GroupDistribution, TrafficFlags};

pub(super) use arrivals::{apply_traffic, client_defaults};
pub(super) use editor::By;
pub(super) use gsp::prompts as gsp_prompts;
pub(super) use lengths::random_ids;
pub(super) use promises::{apply_slo, meant_in_seconds, replaced_limits, without_last_limit};
pub(super) use server::apply_serve;

/// Everything that says what to simulate.
#[derive(Args, Clone, Debug, Default)]
pub struct ScenarioFlags {
    /// What the command line holds without effect, as sentences that were told when it was read.
    #[arg(skip)]
    pub ignored: Vec<String>,
    /// Model, or scenario: a file ending in .toml or the name of a shipped one.
    #[arg(value_name = "MODEL|SCENARIO")]
    pub target: Option<String>,
    /// Scenario file or shipped scenario, where the model is given too.
    #[arg(long, value_name = "SCENARIO")]
    pub scenario: Option<String>,
    /// Model: Hugging Face id of a bundled shape, or the path of a config.json.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub model: Option<String>,
    #[command(flatten)]
    pub(crate) shape: RawModel,
    #[command(flatten)]
    pub(crate) overrides: OverrideFlags,
    #[command(flatten)]
    pub(crate) cluster: RawCluster,
    #[command(flatten)]
    pub(crate) disaggregation: DisaggregationFlags,
    #[command(flatten)]
    pub(crate) engine: RawEngine,
    #[command(flatten)]
    pub(crate) sglang: RawSglang,
    #[command(flatten)]
    pub(crate) trtllm: RawTrtllm,
    #[command(flatten)]
    pub(crate) batching: RawBatching,
    /// LMCache's keys, which a pasted command sets by the environment.
    #[arg(skip)]
    pub(crate) lmcache: toml::Table,
    /// vLLM's compilation config as JSON (-cc); its CUDA-graph keys are used.
    #[arg(long, value_name = "JSON", help_heading = "Engine (vLLM's flags)")]
    pub compilation_config: Option<String>,
    #[command(flatten)]
    pub(crate) speculation: SpeculationFlags,
    #[command(flatten)]
    pub(crate) traffic: TrafficFlags,
    #[command(flatten)]
    pub(crate) slo: SloFlags,
    /// A whole `vllm serve …`, `python -m sglang.launch_server …` or `trtllm-serve …` command to take model and engine flags from.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub serve_cmd: Option<String>,
    /// A whole `vllm bench serve …` or `python -m sglang.bench_serving …` command to take traffic from, with that client's
    /// defaults.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub bench_cmd: Option<String>,
}

#[cfg(test)]
pub(super) mod tests;
