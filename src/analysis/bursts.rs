//! Traffic that changes its rate by chance: how long a run must be to have seen its states often enough.
//!
//! A run that ends inside the first state of a Markov-modulated process is one of Poisson traffic at that state's rate. The
//! states follow each other in cycles, a renewal process as failures are ([`super::failures`]): the share of time that a state
//! has over `n` cycles is known within about `1/√n`.

use crate::workload::{Arrivals, WorkloadSpec};

/// Cycles that should be expected in a run before its figures are taken for those of the traffic.
const CYCLES_ENOUGH: f64 = 30.0;
/// Cycles that a run must span before anything is said of a steady state or of overload.
pub(super) const CYCLES_MIN: f64 = 10.0;

/// Seconds of a mean cycle through all states, of the slowest of several clients; 0 where no rate changes by chance.
pub(super) fn cycle_s(workload: &WorkloadSpec) -> f64 {
    match &workload.arrivals {
        Arrivals::Mmpp { states } if states.len() > 1 => {
            states.iter().map(|state| state.mean_sojourn.seconds()).sum()
        }
        Arrivals::Superposed { .. } => workload.parts().into_iter().map(cycle_s).fold(0.0, f64::max),
        _ => 0.0,
    }
}

/// Seconds in which enough cycles are expected; 0 where no rate changes by chance.
#[must_use]
pub fn bursts_span_s(workload: &WorkloadSpec) -> f64 {
    CYCLES_ENOUGH * cycle_s(workload)
}
