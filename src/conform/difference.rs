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

    /// The same, said of one request.
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

/// A step of a recording, which knows how to be held against ours.
pub(super) trait Step {
    /// A step of this simulator.
    type Ours;
    /// What a difference in their number is called.
    const NUMBER: &'static str;

    /// When the engine decided it, in seconds.
    fn at_s(&self) -> f64;

    /// When this simulator decided it.
    fn ours_at(ours: &Self::Ours) -> Picos;

    /// What is not the same in ours; `largest` keeps the largest difference of times so far.
    fn difference(&self, ours: &Self::Ours, largest: &mut f64) -> Option<StepDifference>;
}

/// Compares all steps, and then how many there are.
pub(super) fn compare_steps<S: Step>(
    recorded: &[S],
    ours: &[S::Ours],
    largest: &mut f64,
) -> Result<(), Box<Difference>> {
    for (index, (step, got)) in recorded.iter().zip(ours).enumerate() {
        if let Some(difference) = step.difference(got, largest) {
            return Err(Box::new(difference.of(index, step.at_s())));
        }
    }
    let common = recorded.len().min(ours.len());
    let further = recorded.get(common).map(S::at_s);
    match further.or_else(|| Some(S::ours_at(ours.get(common)?).seconds())) {
        None => Ok(()),
        Some(at_s) => {
            let number = StepDifference::new(S::NUMBER, recorded.len(), ours.len());
            Err(Box::new(number.of(common, at_s)))
        }
    }
}

/// What a request computes in a step: its number, its tokens with KV before, and its new tokens.
pub(super) type Share = (u64, u32, u32);

/// The first share that is not the same in two steps: the engine's, then ours.
pub(super) fn first_other_share(
    expected: &[Share],
    got: &[(RequestId, u32, u32)],
) -> Option<(Option<Share>, Option<Share>)> {
    let of = |at: usize| {
        let ours = got.get(at).map(|&(id, computed, new)| (id.0, computed, new));
        (expected.get(at).copied(), ours)
    };
    let mut all = (0..expected.len().max(got.len())).map(of);
    all.find(|(expected, ours)| expected != ours)
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
