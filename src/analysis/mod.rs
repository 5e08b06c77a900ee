//! What the figures mean: validity, Little's law, theory, capacity and knee.

mod verdict;

pub use verdict::{Estimate, RunResult, Verdict};
