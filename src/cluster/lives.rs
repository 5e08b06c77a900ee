//! The life of each replica: what it does now, what is planned to happen to it, and for how long it is paid for.
//!
//! ```text
//!           start              up (delay over)
//!     Off ────────► Starting ────────────────► Serving ◄──── keep, up ──── Draining
//!      ▲                                        │   ▲  └──── drain ─────────▲  │
//!      │                                   fail │   │ up                       │ fail, or empty
//!      │                                        ▼   │                          │
//!      ├───────────────── drain ───────────────Failed                          │
//!      └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A replica that serves or drains has one failure before it, and one that failed has one recovery: whatever was planned
//! by chance for an earlier stage no longer comes. One that was drained does not come back by itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use super::autoscale::Autoscale;
use super::spec::{ChangeKind, ClusterSpec, Outages};
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// Stream of the outages, beside that of the routers' draws.
pub(super) const OUTAGE_STREAM: u64 = 1;

/// Where a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Off,
    Starting,
    Serving,
    Draining,
    Failed,
}

impl Stage {
    /// Whether it works on requests, old or new.
    fn serves(self) -> bool {
        matches!(self, Stage::Serving | Stage::Draining)
    }
}

/// Why a change is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The scenario says so.
    Given,
    /// It was planned when the replica's stage had this number.
    Planned(u32),
}

/// What replicas cost, and what came of the orders to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payroll {
    /// How long each replica has been paid for, its start included.
    pub paid: Vec<Picos>,
    /// How often one was started.
    pub started: u64,
    /// How often one was drained and given back.
    pub drained: u64,
    /// Changes at given times that found nothing to change: a failure of a replica that was off, or had failed.
    pub without_effect: u64,
}

#[derive(Clone, Debug)]
struct Life {
    stage: Stage,
    /// How many stages it has been through.
    number: u32,
    /// Since when it is paid for.
    since: Option<Picos>,
}

/// The lives of all replicas.
#[derive(Debug)]
pub(super) struct Lives {
    lives: Vec<Life>,
    changes: BinaryHeap<Reverse<(Picos, u32, ChangeKind, Cause)>>,
    outages: Option<(Outages, ChaCha8Rng)>,
    payroll: Payroll,
    /// When replicas began or ceased to serve, those that drain included: how many more, or fewer.
    service: Vec<(Picos, i32)>,
}

impl Lives {
    /// All serve, but those whose first change is to come up, and those that an autoscaler leaves off at first.
    pub(super) fn new(spec: &ClusterSpec, seed: u64) -> Lives {
        let life = |replica: u32| {
            let first = spec.changes.iter().find(|change| change.replica == replica);
            let is_left_off =
                |scaler: &Autoscale| scaler.members[scaler.at_first as usize..].contains(&replica);
            let is_off = first.is_some_and(|change| change.kind == ChangeKind::Up)
                || spec.scalers.iter().any(is_left_off);
            Life {
                stage: if is_off { Stage::Off } else { Stage::Serving },
                number: 0,
                since: (!is_off).then_some(Picos::ZERO),
            }
        };
        let given = spec.changes.iter();
        let given = given.map(|change| Reverse((change.at, change.replica, change.kind, Cause::Given)));
        let mut lives = Lives {
            lives: (0..spec.replicas).map(life).collect(),
            changes: given.collect(),
            outages: spec
                .outages
                .map(|outages| (outages, stream(seed, Purpose::Routing, OUTAGE_STREAM))),
            payroll: Payroll {
                paid: vec![Picos::ZERO; spec.replicas as usize],
                ..Payroll::default()
            },
            service: Vec::new(),
        };
        let at_first = lives.lives.iter().filter(|life| life.stage.serves()).count();
        lives.service.push((Picos::ZERO, at_first as i32));
        (0..spec.replicas).for_each(|replica| lives.plan_by_chance(replica, Picos::ZERO));
        lives
    }

    pub(super) fn stage(&self, replica: usize) -> Stage {
        self.lives[replica].stage
    }

    /// Whether it takes requests.
    pub(super) fn is_up(&self, replica: usize) -> bool {
        self.stage(replica) == Stage::Serving
    }

    /// When something next happens to any.
    pub(super) fn next_change(&self) -> Option<Picos> {
        self.changes.peek().map(|&Reverse((at, ..))| at)
    }

    /// The next change that is due at `now` and has an effect; the replica has made it.
    pub(super) fn take_due(&mut self, now: Picos) -> Option<(usize, ChangeKind)> {
        while self.next_change().is_some_and(|at| at <= now) {
            let Reverse((_, replica, kind, cause)) = self.changes.pop()?;
            let index = replica as usize;
            if matches!(cause, Cause::Planned(number) if number != self.lives[index].number) {
                continue;
            }
            match after(self.stage(index), kind, cause) {
                Some(stage) => {
                    self.enter(index, stage, now);
                    return Some((index, kind));
                }
                None => self.payroll.without_effect += 1,
            }
        }
        None
    }

    /// An autoscaler starts one; it serves `delay` later.
    pub(super) fn start(&mut self, replica: usize, now: Picos, delay: Picos) {
        self.enter(replica, Stage::Starting, now);
        self.payroll.started += 1;
        if let Some(at) = now.checked_add(delay) {
            self.plan(at, replica as u32, ChangeKind::Up);
        }
    }

    /// It takes no more requests.
    pub(super) fn drain(&mut self, replica: usize, now: Picos) {
        self.enter(replica, Stage::Draining, now);
    }

    /// One that drains serves on.
    pub(super) fn keep(&mut self, replica: usize, now: Picos) {
        self.enter(replica, Stage::Serving, now);
    }

    /// It drained and is empty.
    pub(super) fn give_back(&mut self, replica: usize, now: Picos) {
        self.payroll.drained += 1;
        self.enter(replica, Stage::Off, now);
    }

    /// When replicas began or ceased to serve: how many more, or fewer.
    pub(super) fn service(&self) -> &[(Picos, i32)] {
        &self.service
    }

    /// What they cost until `now`.
    pub(super) fn payroll(&self, now: Picos) -> Payroll {
        let mut payroll = self.payroll.clone();
        for (paid, life) in payroll.paid.iter_mut().zip(&self.lives) {
            *paid += life.since.map_or(Picos::ZERO, |since| now.saturating_sub(since));
        }
        payroll
    }

    fn enter(&mut self, replica: usize, stage: Stage, now: Picos) {
        let life = &mut self.lives[replica];
        let change = i32::from(stage.serves()) - i32::from(life.stage.serves());
        if change != 0 {
            self.service.push((now, change));
        }
        life.stage = stage;
        life.number += 1;
        if stage == Stage::Off {
            let since = life.since.take().unwrap_or(now);
            self.payroll.paid[replica] += now.saturating_sub(since);
        } else {
            life.since.get_or_insert(now);
        }
        self.plan_by_chance(replica as u32, now);
    }

    /// Draws when a replica fails, or comes back, if replicas fail at random.
    fn plan_by_chance(&mut self, replica: u32, now: Picos) {
        let Some((outages, rng)) = &mut self.outages else {
            return;
        };
        let (mean_s, what) = match self.lives[replica as usize].stage {
            Stage::Serving | Stage::Draining => (outages.mean_up_s, ChangeKind::Fail),
            Stage::Failed => (outages.mean_down_s, ChangeKind::Up),
            // Nothing runs that could fail.
            Stage::Off | Stage::Starting => return,
        };
        let law = Exp::new(1.0 / mean_s).expect("the mean of a time is positive");
        let delay = Picos::from_seconds(law.sample(rng));
        if let Some(at) = now.checked_add(delay) {
            self.plan(at, replica, what);
        }
    }

    fn plan(&mut self, at: Picos, replica: u32, what: ChangeKind) {
        let cause = Cause::Planned(self.lives[replica as usize].number);
        self.changes.push(Reverse((at, replica, what, cause)));
    }
}

/// What a change makes of a replica; `None` if it changes nothing.
fn after(stage: Stage, kind: ChangeKind, cause: Cause) -> Option<Stage> {
    match (kind, stage) {
        (ChangeKind::Up, Stage::Serving) => None,
        // An order to come up is not the start that it may overtake.
        (ChangeKind::Up, Stage::Starting) => (cause != Cause::Given).then_some(Stage::Serving),
        (ChangeKind::Up, Stage::Off | Stage::Draining | Stage::Failed) => Some(Stage::Serving),
        (ChangeKind::Drain, Stage::Serving) => Some(Stage::Draining),
        // Nobody is inside, and it is not to come back.
        (ChangeKind::Drain, Stage::Failed) => Some(Stage::Off),
        (ChangeKind::Drain, Stage::Off | Stage::Starting | Stage::Draining) => None,
        (ChangeKind::Fail, Stage::Serving) => Some(Stage::Failed),
        // It was not to come back either.
        (ChangeKind::Fail, Stage::Draining) => Some(Stage::Off),
        (ChangeKind::Fail, Stage::Off | Stage::Starting | Stage::Failed) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::Change;

    fn lives(changes: &[(u64, ChangeKind)], outages: Option<Outages>) -> Lives {
        let change = |&(at, kind): &(u64, ChangeKind)| Change {
            at: Picos(at),
            replica: 0,
            kind,
        };
        let spec = ClusterSpec {
            changes: changes.iter().map(change).collect(),
            outages,
            ..ClusterSpec::single()
        };
        Lives::new(&spec, 7)
    }

    /// (when, what) until `end`.
    fn story(lives: &mut Lives, end: Picos) -> Vec<(Picos, ChangeKind)> {
        let mut story = Vec::new();
        while let Some(at) = lives.next_change().filter(|&at| at <= end) {
            while let Some((_, kind)) = lives.take_due(at) {
                story.push((at, kind));
            }
        }
        story
    }

    #[test]
    fn what_changes_nothing_is_counted() {
        use ChangeKind::{Drain, Fail, Up};
        let mut lives = lives(
            &[
                (1, Fail),
                (2, Fail),
                (3, Up),
                (4, Up),
                (5, Drain),
                (6, Drain),
                (7, Up),
            ],
            None,
        );
        let told: Vec<u64> = story(&mut lives, Picos(9))
            .iter()
            .map(|change| change.0.0)
            .collect();
        assert_eq!(told, [1, 3, 5, 7]);
        assert_eq!(lives.payroll(Picos(9)).without_effect, 3);
    }

    #[test]
    fn one_that_fails_while_it_drains_is_given_back() {
        use ChangeKind::{Drain, Fail};
        let mut lives = lives(&[(1, Drain), (4, Fail)], None);
        story(&mut lives, Picos(9));
        assert_eq!(lives.stage(0), Stage::Off);
        assert_eq!(lives.payroll(Picos(9)).paid, [Picos(4)]);
    }

    /// Failures and recoveries take turns, as often as their means say, also where the scenario interferes.
    #[test]
    fn chance_has_one_clock_for_each_stage() {
        let outages = Outages {
            mean_up_s: 300.0,
            mean_down_s: 100.0,
        };
        let interfered: Vec<(u64, ChangeKind)> = (0..2_000)
            .map(|i| {
                (
                    i * 1_000_000_000_000_000,
                    [ChangeKind::Fail, ChangeKind::Up][i as usize % 2],
                )
            })
            .collect();
        for given in [Vec::new(), interfered] {
            let mut lives = lives(&given, Some(outages));
            let end = Picos::from_seconds(2_000_000.0);
            let story = story(&mut lives, end);
            assert!(
                story.windows(2).all(|pair| pair[0].1 != pair[1].1),
                "they take turns"
            );
            if given.is_empty() {
                let failures = story.iter().filter(|change| change.1 == ChangeKind::Fail).count();
                assert!(
                    (4_780..5_220).contains(&failures),
                    "{failures} failures in 5,000 cycles' time"
                );
            }
        }
    }

    #[test]
    fn one_that_was_drained_does_not_come_back_by_itself() {
        let outages = Outages {
            mean_up_s: 300.0,
            mean_down_s: 100.0,
        };
        let mut lives = lives(&[(1, ChangeKind::Drain)], Some(outages));
        let end = Picos::from_seconds(1e6);
        let after: Vec<ChangeKind> = story(&mut lives, end)
            .into_iter()
            .map(|change| change.1)
            .collect();
        assert_eq!(after, [ChangeKind::Drain, ChangeKind::Fail]);
        assert_eq!(lives.stage(0), Stage::Off);
    }
}
