//! What kind of traffic a run saw, which decides what may be asked of it.

use crate::metrics::{Sending, SeriesPoint};
use crate::sim::Scenario;
use crate::units::Picos;
use crate::workload::{AllSend, Arrivals, WorkloadSpec};

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
            Arrivals::Superposed { .. } => LoadKind::of_several(&workload.parts()),
        }
    }

    /// The kind of several clients together: what one of them changes on purpose changes the load, a batch sent at once
    /// among others does so, too, and one that asks nobody can overload the server.
    fn of_several(parts: &[&WorkloadSpec]) -> LoadKind {
        let kinds: Vec<LoadKind> = parts.iter().map(|part| LoadKind::of(part)).collect();
        let has = |kind| kinds.contains(&kind);
        let is_all_at_once = kinds.iter().all(|kind| *kind == LoadKind::AllAtOnce);
        match () {
            () if is_all_at_once => LoadKind::AllAtOnce,
            () if has(LoadKind::Varying) || has(LoadKind::AllAtOnce) => LoadKind::Varying,
            () if has(LoadKind::Open) => LoadKind::Open,
            () => LoadKind::Closed,
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
    /// Where several clients send, the stretch in which all of them do; only there is the load what it is meant to be.
    pub all_send: Option<AllSend>,
    /// Seconds that a run must span to have seen enough of what happens seldom (`analysis::failures`).
    pub span_s: f64,
    /// A replica has failed, or may have: a queue that grows may be that of an outage, until the span is over.
    pub is_disturbed: bool,
    /// What varies is what serves and not what is sent: replicas come and go at set times, or with the load.
    pub servers_change: bool,
}

impl Load {
    /// The kind, which varies where there is no stretch in which all clients send.
    pub(super) fn kind_seen(&self) -> LoadKind {
        match self.all_send {
            Some(AllSend { from, until }) if from >= until => LoadKind::Varying,
            _ => self.kind,
        }
    }

    /// The stretch in which all clients send, where it is not the whole of a load that has a steady state in question. One
    /// that changes on purpose is judged by the whole of it.
    fn cut(&self) -> Option<AllSend> {
        let is_steady = matches!(self.kind, LoadKind::Open | LoadKind::Closed);
        let is_cut =
            |all: &AllSend| all.from < all.until && (all.from > Picos::ZERO || all.until < Picos::MAX);
        self.all_send.filter(|all| is_steady && is_cut(all))
    }

    /// When sending began and ended, as far as a steady state goes.
    pub(super) fn sending(&self, sending: &Sending) -> (Picos, Picos) {
        let (first, last) = (sending.first, self.kind.last_arrival(sending));
        match self.cut() {
            Some(AllSend { from, until }) => (first.max(from), last.min(until)),
            None => (first, last),
        }
    }

    /// How many requests were sent then, of `sent` in all.
    pub(super) fn sent(&self, sent: u64, series: &[SeriesPoint], (first, last): (Picos, Picos)) -> u64 {
        if self.cut().is_none() {
            return sent;
        }
        let inside = |point: &&SeriesPoint| point.t_s > first.seconds() && point.t_s <= last.seconds();
        let rates = series.iter().filter(inside).map(|point| point.arrivals_per_s);
        let (sum, points) = rates.fold((0.0, 0u32), |(sum, points), rate| (sum + rate, points + 1));
        let span_s = last.saturating_sub(first).seconds();
        let counted = (sum / f64::from(points.max(1)) * span_s) as u64;
        if points == 0 { sent } else { counted.min(sent) }
    }
}

impl From<LoadKind> for Load {
    fn from(kind: LoadKind) -> Load {
        Load {
            kind,
            output_tokens: None,
            all_send: None,
            span_s: 0.0,
            is_disturbed: false,
            servers_change: false,
        }
    }
}

impl LoadKind {
    /// When the drain began. Where the load asks nobody, requests that a limit in the client held back are drain
    /// too; a closed loop is loaded as long as it sends.
    fn last_arrival(self, sending: &Sending) -> Picos {
        match self {
            LoadKind::Open | LoadKind::Varying => sending.last_wished,
            LoadKind::Closed | LoadKind::AllAtOnce => sending.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_load_with_a_steady_state_is_cut_to_where_all_send() {
        let seconds = Picos::from_seconds;
        let seen = Sending {
            first: seconds(1.0),
            last: seconds(90.0),
            last_wished: seconds(90.0),
        };
        let of = |kind, from, until| Load {
            all_send: Some(AllSend { from, until }),
            ..Load::from(kind)
        };
        let (ten, fifty) = (seconds(10.0), seconds(50.0));
        assert_eq!(of(LoadKind::Open, ten, fifty).sending(&seen), (ten, fifty));
        assert_eq!(
            of(LoadKind::Closed, Picos::ZERO, fifty).sending(&seen),
            (seconds(1.0), fifty)
        );
        let whole = (seconds(1.0), seconds(90.0));
        assert_eq!(of(LoadKind::Open, Picos::ZERO, Picos::MAX).sending(&seen), whole);
        // A day curve goes on when a batch beside it is over: what comes after is no drain.
        assert_eq!(of(LoadKind::Varying, ten, fifty).sending(&seen), whole);
        let apart = of(LoadKind::Open, fifty, ten);
        assert_eq!(
            (apart.sending(&seen), apart.kind_seen()),
            (whole, LoadKind::Varying)
        );
    }
}
