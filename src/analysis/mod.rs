//! What the figures mean: validity of a run, promises kept, the knee.

mod break_even;
mod experiment;
mod growth;
mod judge;
pub mod knee;
mod length;
mod load;
mod reasons;
mod saturation;
mod steady;
mod verdict;

pub use break_even::{BreakEven, TierBreakEven, break_even};
pub use experiment::{Experiment, Outcome, Scaling, simulate};
pub use growth::Growth;
pub use judge::{Precision, judge};
pub use length::{Decision, decide};
pub use load::{Load, LoadKind};
pub use steady::CONFIDENCE;
pub use verdict::{Estimate, RunResult, Verdict};
