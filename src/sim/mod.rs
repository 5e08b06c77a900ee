//! The clock, the loop, and the facts it tells.

mod events;
mod scenario;

pub use events::{Completion, Fact, Observer, Outcome, Steps};
pub use scenario::{CostFactory, Frontend, Scenario};
