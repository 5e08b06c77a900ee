//! What the figures mean: validity, Little's law, theory, capacity and knee.

pub mod curves;
mod experiment;
mod growth;
mod judge;
pub mod knee;
mod length;
mod load;
mod reasons;
mod steady;
pub mod theory;
mod verdict;

pub use experiment::{Experiment, Outcome, simulate};
pub use growth::Growth;
pub use judge::{Precision, judge};
pub use length::{Decision, decide};
pub use load::LoadKind;
pub use steady::CONFIDENCE;
pub use verdict::{Estimate, RunResult, Verdict};
