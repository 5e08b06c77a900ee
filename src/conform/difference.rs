//! What a comparison with a recording says: all equal, or the first place where the two part.

use std::fmt;

/// Recorded times are rounded to nanoseconds, arrivals to microseconds; the clocks may differ by this much.
pub(super) const TIME_TOLERANCE_S: f64 = 1e-6;

/// A recording that is repeated step by step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Steps compared, all equal.
    pub steps: usize,
    /// Requests compared, all equal.
    pub requests: usize,
    /// Largest difference of any time, in seconds.
    pub largest_time_difference_s: f64,
}

/// The first place where simulator and engine part.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// A step differs.
    Step {
        /// Index in the file, from 0.
        step: usize,
        /// Recorded time of the step in seconds.
        at_s: f64,
        /// The request it is about, if it is about one.
        request: Option<u64>,
        /// What is compared.
        what: &'static str,
        /// The engine's.
        expected: String,
        /// Ours.
        got: String,
    },
    /// The schedules agree and a request's result does not.
    Result {
        /// Which.
        request: u64,
        /// What is compared.
        what: &'static str,
        /// The engine's.
        expected: String,
        /// Ours.
        got: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Step {
                step,
                at_s,
                request,
                what,
                expected,
                got,
            } => {
                write!(f, "step {step} (t = {at_s:.6} s)")?;
                if let Some(request) = request {
                    write!(f, ", request {request}")?;
                }
                write!(f, ": {what}: the engine has {expected}, the simulator {got}")
            }
            Difference::Result {
                request,
                what,
                expected,
                got,
            } => {
                write!(
                    f,
                    "request {request}: {what}: the engine has {expected}, the simulator {got}"
                )
            }
        }
    }
}
