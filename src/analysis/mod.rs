//! What the figures mean: validity, Little's law, theory, capacity and knee.

pub mod curves;
mod growth;
mod judge;
pub mod knee;
mod length;
mod steady;
pub mod theory;
mod verdict;

pub use growth::Growth;
pub use judge::{LoadKind, Precision, judge};
pub use length::{Decision, decide};
pub use steady::CONFIDENCE;
pub use verdict::{Estimate, RunResult, Verdict};
