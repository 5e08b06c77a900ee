//! What kind of traffic a run saw, which decides what may be asked of it.

use super::bursts::CYCLES_MIN;
use super::conversations::Conversations;
use super::generations::interval_s;
use super::users::Thinkers;
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
            // A list is gone through once: it has no steady state.
            _ if workload.listed().is_some() => LoadKind::Varying,
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
    /// When the last request was sent that begins something ([`crate::workload::Source::fresh_until`]): what comes later is part
    /// of the drain.
    pub fresh_until: Picos,
    /// Seconds that a run must span to have seen enough of what happens seldom (`analysis::failures`, `analysis::bursts`).
    pub span_s: f64,
    /// Seconds of a mean cycle through the states of traffic whose rate changes by chance; 0 of any other (`analysis::bursts`).
    pub cycle_s: f64,
    /// A replica has failed, or may have, or the rate changes by chance: a queue that grows may be that of an outage or of a busy
    /// state, until the span is over.
    pub is_disturbed: bool,
    /// What varies is what serves and not what is sent: replicas come and go at set times, or with the load.
    pub servers_change: bool,
    /// Who sends, where it is users who think between requests.
    pub users: Option<Thinkers>,
    /// What requests belong to, where it is conversations that others begin.
    pub conversations: Option<Conversations>,
}

impl Load {
    /// The kind, which varies where there is no stretch in which all clients send.
    pub(super) fn kind_seen(&self, sending: &Sending) -> LoadKind {
        match self.all_send {
            Some(all) if !all.is_stretch(sending) => LoadKind::Varying,
            _ => self.kind,
        }
    }

    /// The stretch in which all clients send, where it is not the whole of a load that has a steady state in question. One
    /// that changes on purpose is judged by the whole of it.
    fn cut(&self, sending: &Sending) -> Option<AllSend> {
        let is_steady = matches!(self.kind, LoadKind::Open | LoadKind::Closed);
        let is_cut =
            |all: &AllSend| all.is_stretch(sending) && (all.from > Picos::ZERO || all.until < Picos::MAX);
        self.all_send.filter(|all| is_steady && is_cut(all))
    }

    /// When sending began and ended, as far as a steady state goes.
    pub(super) fn sending(&self, sending: &Sending) -> (Picos, Picos) {
        let last = self.kind.last_arrival(sending).min(self.fresh_until);
        let first = sending.first;
        match self.cut(sending) {
            Some(AllSend { from, until }) => (first.max(from), last.min(until)),
            None => (first, last),
        }
    }

    /// How often traffic whose rate changes by chance went through its states, on average, where that is too seldom to judge it.
    pub(super) fn too_few_cycles(&self, sending: &Sending) -> Option<f64> {
        let (first, last) = self.sending(sending);
        let cycles = last.saturating_sub(first).seconds() / self.cycle_s;
        (self.cycle_s > 0.0 && cycles < CYCLES_MIN).then_some(cycles)
    }

    /// How many requests were sent then, of `sent` in all.
    pub(super) fn sent(&self, sent: u64, series: &[SeriesPoint], sending: &Sending) -> u64 {
        let (first, last) = self.sending(sending);
        if self.cut(sending).is_none() && self.fresh_until >= sending.last {
            return sent;
        }
        let (first_s, last_s) = (first.seconds(), last.seconds());
        // A point stands in the middle of its interval, and one that lies across an end holds some of another load.
        let width_s = interval_s(series);
        let rate = |margin_s: f64| {
            let inside =
                |point: &&SeriesPoint| point.t_s - margin_s >= first_s && point.t_s + margin_s <= last_s;
            let rates = series.iter().filter(inside).map(|point| point.arrivals_per_s);
            let (sum, points) = rates.fold((0.0, 0u32), |(sum, points), rate| (sum + rate, points + 1));
            (points > 0).then(|| sum / f64::from(points))
        };
        let per_s = rate(width_s / 2.0).or_else(|| rate(0.0));
        per_s.map_or(sent, |per_s| ((per_s * (last_s - first_s)) as u64).min(sent))
    }
}

impl AllSend {
    /// Whether it is more than an instant. Nothing was sent before the first request, though all may have begun.
    pub(super) fn is_stretch(&self, sending: &Sending) -> bool {
        self.from.max(sending.first) < self.until
    }
}

impl From<LoadKind> for Load {
    fn from(kind: LoadKind) -> Load {
        Load {
            kind,
            output_tokens: None,
            all_send: None,
            fresh_until: Picos::MAX,
            span_s: 0.0,
            cycle_s: 0.0,
            is_disturbed: false,
            servers_change: false,
            users: None,
            conversations: None,
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
    fn what_was_sent_while_all_send_is_not_thinned_by_what_came_before_and_after() {
        let seconds = Picos::from_seconds;
        let seen = Sending {
            first: seconds(0.0),
            last: seconds(95.0),
            last_wished: seconds(95.0),
        };
        let load = Load {
            all_send: Some(AllSend {
                from: seconds(24.0),
                until: Picos::MAX,
            }),
            ..Load::from(LoadKind::Open)
        };
        // One a second, from 24 s on ten, until 95 s: intervals of ten seconds.
        let rates = [1.0, 1.0, 6.4, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 5.0];
        let point = |(at, arrivals_per_s): (u32, f64)| SeriesPoint {
            t_s: 5.0 + 10.0 * f64::from(at),
            arrivals_per_s,
            ..SeriesPoint::default()
        };
        let series: Vec<SeriesPoint> = (0..).zip(rates).map(point).collect();
        assert_eq!(load.sent(734, &series, &seen), 710);
        // Of too short a stretch the points are taken that there are.
        assert_eq!(load.sent(734, &series[..3], &seen), 454);
    }

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
            (apart.sending(&seen), apart.kind_seen(&seen)),
            (whole, LoadKind::Varying)
        );
        // One request of somebody, the first of all, is no stretch.
        let at_first = of(LoadKind::Open, Picos::ZERO, seconds(1.0));
        assert_eq!(at_first.kind_seen(&seen), LoadKind::Varying);
    }
}
