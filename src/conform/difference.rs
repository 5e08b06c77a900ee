//! What a comparison with a recording says: all equal, or the first place where the two part.

use std::fmt;

use crate::ids::RequestId;
use crate::units::Picos;

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

/// What differs within a step, before anybody says which.
pub(super) struct StepDifference {
    request: Option<u64>,
    what: &'static str,
    expected: String,
    got: String,
}

impl StepDifference {
    pub(super) fn new(
        what: &'static str,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> StepDifference {
        StepDifference {
            request: None,
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// The same of one request.
    pub(super) fn about(self, request: Option<u64>) -> StepDifference {
        StepDifference { request, ..self }
    }

    /// The first of several figures, (what, the engine's, ours), that are not equal.
    pub(super) fn first<T: PartialEq + fmt::Display>(
        figures: impl IntoIterator<Item = (&'static str, T, T)>,
    ) -> Option<StepDifference> {
        let mut figures = figures.into_iter();
        let (what, expected, got) = figures.find(|(_, expected, got)| expected != got)?;
        Some(StepDifference::new(what, expected, got))
    }

    /// The first of several times that are further apart than rounding; `largest` keeps the largest difference so far.
    pub(super) fn of_times(
        times: [(&'static str, Option<f64>, Picos); 3],
        largest: &mut f64,
    ) -> Option<StepDifference> {
        for (what, expected, got) in times {
            let Some(expected) = expected else { continue };
            let difference = (expected - got.seconds()).abs();
            *largest = largest.max(difference);
            if difference > TIME_TOLERANCE_S {
                let text = |seconds: f64| format!("{seconds:.9} s");
                return Some(StepDifference::new(what, text(expected), text(got.seconds())));
            }
        }
        None
    }

    pub(super) fn of(self, step: usize, at_s: f64) -> Difference {
        Difference::Step {
            step,
            at_s,
            request: self.request,
            what: self.what,
            expected: self.expected,
            got: self.got,
        }
    }
}

/// The first step that only one of the two has, by the times of all.
pub(super) fn further_step(
    what: &'static str,
    recorded: impl ExactSizeIterator<Item = f64>,
    ours: impl ExactSizeIterator<Item = f64>,
) -> Option<Difference> {
    let number = StepDifference::new(what, recorded.len(), ours.len());
    let step = recorded.len().min(ours.len());
    let at_s = recorded.skip(step).chain(ours.skip(step)).next()?;
    Some(number.of(step, at_s))
}

/// Requests of a list without an order, recorded or ours.
pub(super) fn unordered(ids: impl Iterator<Item = u64>) -> String {
    let mut ids: Vec<u64> = ids.collect();
    ids.sort_unstable();
    format!("{ids:?}")
}

/// Requests as recordings name them.
pub(super) fn numbers(ids: &[RequestId]) -> impl Iterator<Item = u64> {
    ids.iter().map(|id| id.0)
}
