//! The clock, the loop, and the facts it tells.

mod events;
mod scenario;
mod simulation;

pub use events::{Completion, Fact, Observer, Outcome, Steps};
pub use scenario::{CostFactory, Frontend, Scenario};
pub use simulation::{Counts, Pause, Simulation, Until};
