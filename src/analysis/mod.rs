//! What the figures mean: validity of a run, promises kept, the knee.

mod attainment;
pub mod balance;
mod books;
mod break_even;
mod bursts;
pub mod closed_form;
mod conversations;
pub mod costs;
mod experiment;
mod failures;
mod generations;
mod growth;
mod in_service;
mod judge;
pub mod knee;
mod length;
mod load;
mod longer;
mod memory;
mod overload;
mod paired;
mod percentile;
mod reasons;
mod refusals;
mod saturation;
mod silent;
mod steady;
mod users;
mod verdict;
mod working_set;

pub use break_even::{BreakEven, TierBreakEven, break_even};
pub use bursts::bursts_span_s;
pub use conversations::Conversations;
pub(crate) use experiment::simulate_whole;
pub use experiment::{
    Experiment, IN_FLIGHT_BYTES, IN_FLIGHT_MAX, Outcome, Scaling, class_limits, simulate,
    simulate_in_threads, simulate_watched,
};
pub use failures::{FAILURES_ENOUGH, failures_span_s};
pub use growth::Growth;
pub use judge::{Precision, judge};
pub use length::{Decision, decide};
pub use load::{Load, LoadKind};
pub use paired::Difference;
pub use refusals::{REFUSED_AT_ONCE, RefusedAgain};
pub use silent::{SilentClass, heard, silent_classes};
pub use steady::{CONFIDENCE, GROUPS};
pub use users::Thinkers;
pub use verdict::{Estimate, RunResult, Verdict};
pub use working_set::{KNEE_SHARE, Looked, TEXTS_MAX, WorkingSet, hit_rates};
