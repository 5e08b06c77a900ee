//! Replicas come and go with the load.
//!
//! Every interval the autoscaler asks for `⌈Σ signal / target⌉` replicas, as the Kubernetes Horizontal Pod Autoscaler
//! does (`desired = ⌈current · value / target⌉`), within its limits. More start at once and serve after the start-up
//! delay, empty; fewer are drained once fewer have been enough for the whole of the scale-in delay: they take no new
//! requests, finish those inside, and are given back. Those that drain are taken back before others are started.
//!
//! A replica is paid for from its start, the delay included, until it is given back; one that failed is paid for, too.
//! Left out: the autoscaler's own tolerance of 10 %, metrics that arrive late, and nodes that are not to be had.

use crate::units::Picos;

/// What an autoscaler looks at, summed over the replicas that serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests sent to them and not answered.
    InFlight,
    /// Requests that wait in their engines.
    Waiting,
    /// Shares of their KV blocks in use.
    KvUsage,
}

/// Who decides how many replicas of a pool serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscale {
    /// The replicas that may serve, from 0.
    pub members: Vec<u32>,
    /// How many serve at first, and at least.
    pub at_first: u32,
    /// How many serve at least.
    pub least: u32,
    /// What is looked at.
    pub signal: Signal,
    /// Its value for each replica that is aimed at, above 0.
    pub target: f64,
    /// Time between two looks.
    pub interval: Picos,
    /// From the start of a replica until it serves.
    pub startup: Picos,
    /// How long fewer must be enough before any is drained.
    pub scale_in_delay: Picos,
}

/// Where a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Off,
    Starting,
    Serving,
    Draining,
    Failed,
}

/// What an autoscaler wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Start it: it serves after the delay.
    Start(u32),
    /// It drains; let it serve on.
    Keep(u32),
    /// Let it take no more requests.
    Drain(u32),
}

/// An autoscaler at work.
#[derive(Debug)]
pub(super) struct Scaler {
    pub(super) spec: Autoscale,
    pub(super) next: Picos,
    /// Since when fewer than there are would have been enough, and the most that were asked for since.
    low: Option<(Picos, u32)>,
}

impl Scaler {
    pub(super) fn new(spec: Autoscale) -> Scaler {
        Scaler {
            next: spec.interval,
            low: None,
            spec,
        }
    }

    /// Decides at `now`, given the sum of the signal and where each replica of the cluster stands.
    pub(super) fn decide(&mut self, now: Picos, sum: f64, stages: &[Stage]) -> Vec<Order> {
        self.next = now.checked_add(self.spec.interval).unwrap_or(Picos::MAX);
        let most = self.spec.members.len() as u32;
        let wanted = (sum / self.spec.target).ceil().clamp(0.0, f64::from(most)) as u32;
        let wanted = wanted.max(self.spec.least);
        let in_stage = |stage: Stage| {
            let members = self.spec.members.iter().copied();
            members.filter(move |&member| stages[member as usize] == stage)
        };
        let there = (in_stage(Stage::Serving).count() + in_stage(Stage::Starting).count()) as u32;
        if wanted > there {
            self.low = None;
            let kept = in_stage(Stage::Draining).map(Order::Keep);
            let started = in_stage(Stage::Off).map(Order::Start);
            return kept.chain(started).take((wanted - there) as usize).collect();
        }
        if wanted == there {
            self.low = None;
            return Vec::new();
        }
        let (since, enough) = self.low.unwrap_or((now, wanted));
        let enough = enough.max(wanted);
        self.low = Some((since, enough));
        if now - since < self.spec.scale_in_delay {
            return Vec::new();
        }
        self.low = None;
        let mut serving: Vec<u32> = in_stage(Stage::Serving).collect();
        serving.reverse();
        // Of those there were when fewer began to be enough, some may have failed since: then none is too many.
        let drained = serving.into_iter().take(there.saturating_sub(enough) as usize);
        drained.map(Order::Drain).collect()
    }
}

/// Where replicas stand and how long they have been paid for.
#[derive(Debug)]
pub(super) struct Payroll {
    pub(super) stages: Vec<Stage>,
    /// Since when each is paid for.
    since: Vec<Option<Picos>>,
    paid: Vec<Picos>,
    pub(super) started: u64,
    pub(super) drained: u64,
    /// When replicas began or ceased to serve: one more, or one fewer.
    pub(super) service: Vec<(Picos, i32)>,
}

impl Payroll {
    /// All replicas but those that an autoscaler leaves off at first.
    pub(super) fn new(replicas: u32, scalers: &[Autoscale]) -> Payroll {
        let mut stages = vec![Stage::Serving; replicas as usize];
        for scaler in scalers {
            for &member in &scaler.members[scaler.at_first as usize..] {
                stages[member as usize] = Stage::Off;
            }
        }
        let at_first = stages.iter().filter(|&&stage| stage == Stage::Serving).count();
        Payroll {
            service: vec![(Picos::ZERO, at_first as i32)],
            since: stages
                .iter()
                .map(|&stage| (stage != Stage::Off).then_some(Picos::ZERO))
                .collect(),
            paid: vec![Picos::ZERO; stages.len()],
            stages,
            started: 0,
            drained: 0,
        }
    }

    pub(super) fn start(&mut self, replica: usize, now: Picos) {
        self.stages[replica] = Stage::Starting;
        self.since[replica] = Some(now);
        self.started += 1;
    }

    /// It serves.
    pub(super) fn serve(&mut self, replica: usize, now: Picos) {
        if !matches!(self.stages[replica], Stage::Serving | Stage::Draining) {
            self.service.push((now, 1));
        }
        self.stages[replica] = Stage::Serving;
    }

    /// It is down.
    pub(super) fn fail(&mut self, replica: usize, now: Picos) {
        self.leave(replica, now);
        self.stages[replica] = Stage::Failed;
    }

    fn leave(&mut self, replica: usize, now: Picos) {
        if matches!(self.stages[replica], Stage::Serving | Stage::Draining) {
            self.service.push((now, -1));
        }
    }

    pub(super) fn drain(&mut self, replica: usize) {
        self.stages[replica] = Stage::Draining;
        self.drained += 1;
    }

    /// It drained and is empty.
    pub(super) fn give_back(&mut self, replica: usize, now: Picos) {
        self.leave(replica, now);
        self.stages[replica] = Stage::Off;
        if let Some(since) = self.since[replica].take() {
            self.paid[replica] += now.saturating_sub(since);
        }
    }

    /// How long each has been paid for by `now`.
    pub(super) fn paid(&self, now: Picos) -> Vec<Picos> {
        let open = self.since.iter();
        let open = open.map(|since| since.map_or(Picos::ZERO, |since| now.saturating_sub(since)));
        self.paid
            .iter()
            .zip(open)
            .map(|(&paid, open)| paid + open)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaler(scale_in_delay: u64) -> Scaler {
        Scaler::new(Autoscale {
            members: vec![0, 1, 2, 3],
            at_first: 1,
            least: 1,
            signal: Signal::InFlight,
            target: 10.0,
            interval: Picos(5),
            startup: Picos(20),
            scale_in_delay: Picos(scale_in_delay),
        })
    }

    #[test]
    fn as_many_start_as_the_signal_asks_for_within_the_limit() {
        use Stage::{Draining, Off, Serving, Starting};
        let mut scaler = scaler(0);
        assert_eq!(scaler.decide(Picos(5), 10.0, &[Serving, Off, Off, Off]), []);
        let orders = scaler.decide(Picos(10), 25.0, &[Serving, Off, Off, Off]);
        assert_eq!(orders, [Order::Start(1), Order::Start(2)]);
        assert_eq!(
            scaler.decide(Picos(15), 25.0, &[Serving, Starting, Starting, Off]),
            []
        );
        let orders = scaler.decide(Picos(20), 99.0, &[Serving, Draining, Off, Off]);
        assert_eq!(orders, [Order::Keep(1), Order::Start(2), Order::Start(3)]);
    }

    #[test]
    fn the_last_are_drained_once_fewer_have_been_enough_for_long() {
        use Stage::Serving;
        let all = [Serving; 4];
        let mut scaler = scaler(10);
        assert_eq!(scaler.decide(Picos(5), 8.0, &all), []);
        // Two were needed meanwhile.
        assert_eq!(scaler.decide(Picos(10), 15.0, &all), []);
        assert_eq!(
            scaler.decide(Picos(15), 8.0, &all),
            [Order::Drain(3), Order::Drain(2)]
        );
        assert_eq!(
            scaler.decide(Picos(20), 0.0, &[Serving, Serving, Stage::Off, Stage::Off]),
            []
        );
    }
}
