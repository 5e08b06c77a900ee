//! The clock, the loop, and the facts it tells ([`crate::facts`], named here again for those who listen).

mod admission;
mod held;
mod progress;
mod scenario;
mod simulation;

pub use crate::cluster::Frontend;
pub use crate::facts::{Completion, Fact, Observer, Outcome, Rejection, SeenGaps, Steps};
pub use admission::{Admission, Bucket, RateLimit, Retries};
pub use progress::{Counts, Pause, Refusals, Until};
pub use scenario::{CostFactory, GpuPrice, LockStepRanks, Pool, Role, Scenario, SharedFactory};
pub use simulation::{Server, Simulation};
