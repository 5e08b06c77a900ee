//! One replica of a serving engine: the life of a sequence, the composition of steps.

mod config;

pub use config::{EngineConfig, Policy, VersionSwitches};
