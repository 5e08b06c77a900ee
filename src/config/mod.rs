//! From what a user wrote to a valid scenario: the only judge of user input.
//!
//! Low to high, as in ripgrep: [`raw`] mirrors a file and [`flags`] a command line, [`Document`] layers them and
//! remembers where each value came from, [`resolve`] checks everything and builds the plain types that the simulation
//! runs on. What it returns is valid; what it refuses it refuses with a place and a remedy, all problems at once.
//! Nothing is clamped, ignored or substituted in silence: each assumed value is listed with its reason.

mod admission;
pub mod argv;
mod assemble;
mod assumed;
mod autoscale;
pub mod axes;
mod base;
mod blocks;
mod calibrated;
mod capacity;
mod carried_over;
mod checkpoint;
mod cluster;
pub mod diagnostic;
mod disaggregation;
mod document;
mod drafter;
mod engine;
mod expert_parallel;
mod experts;
pub mod files;
pub mod flags;
mod foreign;
mod formats;
mod from_outside;
mod fusion;
mod gate;
mod hybrid;
mod idle;
mod jitter;
mod judge;
mod lmcache;
mod lockstep;
mod longest;
mod machine;
mod misfit;
mod of_class;
mod overlooked;
pub mod pasted;
mod pipeline;
mod pools;
mod price;
mod prices;
pub mod profile;
mod quantization;
mod ranks;
pub mod raw;
mod read;
mod remedies;
mod report;
mod resolve;
mod rooted;
mod routers;
pub mod scalar;
mod scheduled;
mod schema;
mod server;
mod serving;
mod settings;
pub(crate) mod sglang;
mod skipped;
pub mod slo;
mod sparse;
pub(crate) mod speculation;
mod step_time;
mod trtllm;
mod unlike;
pub mod variant;
pub(crate) mod version;
mod workload;
mod written;
mod yarn;

pub(crate) use assemble::is_scenario;
pub use assemble::{Assembled, Ground, QUICKSTART, assemble, assemble_run, served};
pub use capacity::{Capacity, capacity};
pub use checkpoint::{Unreadable, read as checkpoint};
pub use cluster::REPLICAS_MAX;
pub use diagnostic::{Diagnostic, Diagnostics, Place, readable, visible};
pub use document::{Document, Source};
pub use files::{Files, NoFiles};
pub use from_outside::without_traffic;
pub use judge::Provenance;
pub use price::OF_EACH_CARD;
pub use prices::Prices;
pub use profile::ENGINES;
pub use report::{Report, apply_report};
pub use resolve::{Resolved, resolve};
pub use schema::scenario_schema;
pub use server::Server;
pub use slo::{PercentileLimit, Slo, SloMetric};
pub use step_time::StepTime;
pub use workload::RunLength;
pub use written::{resolved_as_given, resolved_toml};

#[cfg(test)]
mod tests;
