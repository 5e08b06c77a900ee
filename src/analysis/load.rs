//! What kind of traffic a run saw, which decides what may be asked of it.

use crate::metrics::Sending;
use crate::sim::Scenario;
use crate::units::Picos;
use crate::workload::{Arrivals, WorkloadSpec};

/// What kind of traffic a run saw, as far as a steady state goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// A constant law of arrivals that ask nobody: overload makes the queue grow without bound.
    Open,
    /// The number of users or of requests in flight is fixed: nothing can grow without bound.
    Closed,
    /// The load changes on purpose (a trace, a day curve, a ramp), or replicas come and go at set times.
    Varying,
    /// Everything at once.
    AllAtOnce,
}

impl LoadKind {
    /// The kind of a scenario: what replicas can take changes on purpose, too.
    #[must_use]
    pub fn of_scenario(scenario: &Scenario) -> LoadKind {
        match LoadKind::of(&scenario.workload) {
            LoadKind::Open
                if !scenario.cluster.changes.is_empty() || !scenario.cluster.scalers.is_empty() =>
            {
                LoadKind::Varying
            }
            kind => kind,
        }
    }

    /// The kind of a workload.
    #[must_use]
    pub fn of(workload: &WorkloadSpec) -> LoadKind {
        match &workload.arrivals {
            Arrivals::AllAtOnce if workload.client.max_concurrency.is_some() => LoadKind::Closed,
            Arrivals::AllAtOnce => LoadKind::AllAtOnce,
            Arrivals::Users { .. } => LoadKind::Closed,
            Arrivals::Ramp { .. } | Arrivals::Profile { .. } | Arrivals::Replay { .. } => LoadKind::Varying,
            Arrivals::Poisson { .. }
            | Arrivals::Gamma { .. }
            | Arrivals::Constant { .. }
            | Arrivals::Mmpp { .. } => LoadKind::Open,
        }
    }
}

/// What is known of the traffic beside what a run shows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// What may be asked of it.
    pub kind: LoadKind,
    /// Output tokens of a request, on average over those sent. `None` leaves it to those that completed, who are the
    /// short ones as long as others are inside.
    pub output_tokens: Option<f64>,
    /// Seconds that a run must span to have seen enough of what happens seldom ([`super::failures`]).
    pub span_s: f64,
    /// A replica has failed, or may have: a queue that grows may be that of an outage, until the span is over.
    pub is_disturbed: bool,
}

impl From<LoadKind> for Load {
    fn from(kind: LoadKind) -> Load {
        Load {
            kind,
            output_tokens: None,
            span_s: 0.0,
            is_disturbed: false,
        }
    }
}

impl LoadKind {
    /// When the drain began. Where the load asks nobody, requests that a limit in the client held back are drain
    /// too; a closed loop is loaded as long as it sends.
    pub(super) fn last_arrival(self, sending: &Sending) -> Picos {
        match self {
            LoadKind::Open | LoadKind::Varying => sending.last_wished,
            LoadKind::Closed | LoadKind::AllAtOnce => sending.last,
        }
    }
}
