//! Replicas come and go with the load.
//!
//! Every interval the autoscaler asks for `⌈Σ signal / target⌉` replicas, as the Kubernetes Horizontal Pod Autoscaler
//! does (`desired = ⌈current · value / target⌉`), within its limits. More start at once and serve after the start-up
//! delay, empty; some are given back once fewer have been enough for the whole of the scale-in delay: first those that
//! have not served yet, as its `ReplicaSet` deletes pods that are not ready before those that are
//! (`controller_utils.go`, `ActivePodsWithRanks.Less`), then those that serve, of either the last. The latter drain: they
//! take no new requests, finish those inside, and are given back. Those that drain are taken back before others are
//! started.
//!
//! Law: an autoscaler never leaves fewer serving than its least by draining.
//!
//! A replica is paid for from its start, the delay included, until it is given back; one that failed is paid for, too.
//! Left out: the autoscaler's own tolerance of 10 %, metrics that arrive late, and nodes that are not to be had.

use super::lives::Stage;
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
    /// How long fewer must be enough before any is given back.
    pub scale_in_delay: Picos,
}

/// What an autoscaler wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Start it: it serves after the delay.
    Start(u32),
    /// It has not served yet; give it back.
    Cancel(u32),
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
    pub(super) fn decide(&mut self, now: Picos, sum: f64, stage: impl Fn(u32) -> Stage) -> Vec<Order> {
        self.next = now.checked_add(self.spec.interval).unwrap_or(Picos::MAX);
        let most = self.spec.members.len() as u32;
        let wanted = (sum / self.spec.target).ceil().clamp(0.0, f64::from(most)) as u32;
        let wanted = wanted.max(self.spec.least);
        let in_stage = |wanted: Stage| {
            let members = self.spec.members.iter().copied();
            members
                .filter(|&member| stage(member) == wanted)
                .collect::<Vec<_>>()
        };
        let (serving, starting) = (in_stage(Stage::Serving), in_stage(Stage::Starting));
        let there = (serving.len() + starting.len()) as u32;
        if wanted > there {
            self.low = None;
            let kept = in_stage(Stage::Draining).into_iter().map(Order::Keep);
            let started = in_stage(Stage::Off).into_iter().map(Order::Start);
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
        // Of those there were when fewer began to be enough, some may have failed since: then none is too many.
        // At least `least` are enough, so as many serve after all that start are cancelled and the rest is drained.
        let cancelled = starting.into_iter().rev().map(Order::Cancel);
        let drained = serving.into_iter().rev().map(Order::Drain);
        let too_many = there.saturating_sub(enough) as usize;
        cancelled.chain(drained).take(too_many).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    fn decide(scaler: &mut Scaler, now: Picos, sum: f64, stages: &[Stage]) -> Vec<Order> {
        scaler.decide(now, sum, |member| stages[member as usize])
    }

    #[test]
    fn as_many_start_as_the_signal_asks_for_within_the_limit() {
        use Stage::{Draining, Off, Serving, Starting};
        let mut scaler = scaler(0);
        assert_eq!(decide(&mut scaler, Picos(5), 10.0, &[Serving, Off, Off, Off]), []);
        let orders = decide(&mut scaler, Picos(10), 25.0, &[Serving, Off, Off, Off]);
        assert_eq!(orders, [Order::Start(1), Order::Start(2)]);
        assert_eq!(
            decide(&mut scaler, Picos(15), 25.0, &[Serving, Starting, Starting, Off]),
            []
        );
        let orders = decide(&mut scaler, Picos(20), 99.0, &[Serving, Draining, Off, Off]);
        assert_eq!(orders, [Order::Keep(1), Order::Start(2), Order::Start(3)]);
    }

    #[test]
    fn the_last_are_drained_once_fewer_have_been_enough_for_long() {
        use Stage::Serving;
        let all = [Serving; 4];
        let mut scaler = scaler(10);
        assert_eq!(decide(&mut scaler, Picos(5), 8.0, &all), []);
        // Two were needed meanwhile.
        assert_eq!(decide(&mut scaler, Picos(10), 15.0, &all), []);
        assert_eq!(
            decide(&mut scaler, Picos(15), 8.0, &all),
            [Order::Drain(3), Order::Drain(2)]
        );
        assert_eq!(
            decide(
                &mut scaler,
                Picos(20),
                0.0,
                &[Serving, Serving, Stage::Off, Stage::Off]
            ),
            []
        );
    }

    #[test]
    fn those_that_do_not_serve_yet_are_given_back_first() {
        use Stage::{Serving, Starting};
        let mut scaler = scaler(0);
        let orders = decide(
            &mut scaler,
            Picos(5),
            10.0,
            &[Serving, Starting, Serving, Starting],
        );
        assert_eq!(orders, [Order::Cancel(3), Order::Cancel(1), Order::Drain(2)]);
    }

    proptest! {
        /// Whatever stands where, an autoscaler leaves as many serving as it must, or touches none of those that do.
        #[test]
        fn nobody_is_drained_below_the_least(
            least in 1u32..4,
            looks in prop::collection::vec((0.0f64..60.0, prop::array::uniform6(0usize..5)), 1..20),
        ) {
            use Stage::{Draining, Failed, Off, Serving, Starting};
            let mut scaler = Scaler::new(Autoscale {
                members: (0..6).collect(),
                least,
                ..scaler(0).spec
            });
            for ((sum, stages), now) in looks.into_iter().zip(1..) {
                let stages = stages.map(|stage| [Off, Starting, Serving, Draining, Failed][stage]);
                let orders = decide(&mut scaler, Picos(5 * now), sum, &stages);
                let serving = stages.iter().filter(|&&stage| stage == Serving).count() as u32;
                let drained = orders.iter().filter(|order| matches!(order, Order::Drain(_))).count() as u32;
                prop_assert!(drained == 0 || serving - drained >= least, "{stages:?}: {orders:?}");
                for order in orders {
                    let (member, stage) = match order {
                        Order::Start(member) => (member, Off),
                        Order::Cancel(member) => (member, Starting),
                        Order::Keep(member) => (member, Draining),
                        Order::Drain(member) => (member, Serving),
                    };
                    prop_assert_eq!(stages[member as usize], stage);
                }
            }
        }
    }
}
