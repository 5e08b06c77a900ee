//! What the figures mean: validity, Little's law, theory, capacity and knee.

mod growth;
mod judge;
mod length;
mod steady;
mod verdict;

pub use growth::Growth;
pub use judge::{LoadKind, Precision, judge};
pub use length::{Decision, decide};
pub use steady::CONFIDENCE;
pub use verdict::{Estimate, RunResult, Verdict};
