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

pub use disaggregation::DisaggregationFlags;
pub(crate) use overrides::OverrideFlags;
pub use promises::SloFlags;
pub use server::{EngineFlags, MachineFlags, ServerFlags};
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
    #[command(flatten)]
    pub(crate) server: ServerFlags,
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
