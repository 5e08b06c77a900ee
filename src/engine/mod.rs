//! One replica of a serving engine: the life of a sequence, the composition of steps.

pub mod ceilings;
mod config;
pub mod memory;

pub use config::{EngineConfig, Policy, VersionSwitches};
