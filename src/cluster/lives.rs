//! The life of each replica, in a fleet, in pools with roles and among ranks in lock-step: what it does now, what is
//! planned to happen to it, and for how long it is paid for.
//!
//! ```text
//!           start              up (delay over)
//!     Off ────────► Starting ────────────────► Serving ◄──── keep, up ──── Draining
//!      ▲                │                       │   ▲  └──── drain ─────────▲  │
//!      │                │                  fail │   │ up                       │ fail, or empty
//!      │                │                       ▼   │                          │
//!      ├── cancel ──────┴──── drain ───────────Failed                          │
//!      └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A replica that serves or drains has one failure before it, and one that failed has one recovery: whatever was planned
//! by chance for an earlier stage no longer comes. One that was drained does not come back by itself. One that comes up
//! from `Off` is a new process: its memory is empty, which whoever owns the engines sees to.
//!
//! Each replica draws its failures from a stream of its own, named by its pool and its place there: what happens to one
//! replica is the same whatever becomes of the others, and however many there are behind it.
//!
//! Changes of one instant are taken in the order in which they are given, and those that were planned after them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use super::autoscale::Autoscale;
use super::spec::{ChangeKind, ClusterSpec, Outages};
use crate::rng::{Purpose, stream};
use crate::units::Picos;

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

/// A change that is to come: the first is that of the earliest time, then in order of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Picos,
    nth: u64,
    replica: u32,
    kind: ChangeKind,
    cause: Cause,
}

/// A change that a replica has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) replica: usize,
    pub(super) kind: ChangeKind,
    /// Where it stood before.
    pub(super) from: Stage,
}

impl Turn {
    /// A new process has come up.
    pub(super) fn is_start(self) -> bool {
        self.kind == ChangeKind::Up && matches!(self.from, Stage::Off | Stage::Starting)
    }
}

/// What replicas cost, and what came of the orders to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payroll {
    /// How long each replica has been paid for, its start included.
    pub paid: Vec<Picos>,
    /// How often one was started.
    pub started: u64,
    /// How often a start was cancelled before the replica served.
    pub cancelled: u64,
    /// How often one was drained and given back, empty or because it failed meanwhile.
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
    changes: BinaryHeap<Reverse<Due>>,
    planned: u64,
    /// Replicas that drain.
    draining: Vec<usize>,
    /// Failures at random times, and the draws of each replica.
    outages: Option<(Outages, Vec<ChaCha8Rng>)>,
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
        let draws = |entity| stream(seed, Purpose::Outages, entity);
        let mut lives = Lives {
            lives: (0..spec.replicas).map(life).collect(),
            changes: BinaryHeap::new(),
            planned: 0,
            draining: Vec::new(),
            outages: spec
                .outages
                .map(|outages| (outages, entities(spec).into_iter().map(draws).collect())),
            payroll: Payroll {
                paid: vec![Picos::ZERO; spec.replicas as usize],
                ..Payroll::default()
            },
            service: Vec::new(),
        };
        for change in &spec.changes {
            lives.push(change.at, change.replica, change.kind, Cause::Given);
        }
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

    /// Whether it works on requests, old or new.
    pub(super) fn is_alive(&self, replica: usize) -> bool {
        self.stage(replica).serves()
    }

    /// Replicas that drain.
    pub(super) fn draining(&self) -> &[usize] {
        &self.draining
    }

    /// When something next happens to any.
    pub(super) fn next_change(&self) -> Option<Picos> {
        self.changes.peek().map(|Reverse(due)| due.at)
    }

    /// The next change that is due at `now` and has an effect; the replica has made it.
    pub(super) fn take_due(&mut self, now: Picos) -> Option<Turn> {
        while self.next_change().is_some_and(|at| at <= now) {
            let Reverse(Due {
                replica, kind, cause, ..
            }) = self.changes.pop()?;
            let replica = replica as usize;
            if matches!(cause, Cause::Planned(number) if number != self.lives[replica].number) {
                continue;
            }
            let from = self.stage(replica);
            match after(from, kind, cause) {
                Some(stage) => {
                    self.enter(replica, stage, now);
                    return Some(Turn { replica, kind, from });
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

    /// An autoscaler gives one back that has not served yet.
    pub(super) fn cancel(&mut self, replica: usize, now: Picos) {
        self.enter(replica, Stage::Off, now);
        self.payroll.cancelled += 1;
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
        if life.stage == Stage::Draining {
            self.draining.retain(|&other| other != replica);
            self.payroll.drained += u64::from(stage == Stage::Off);
        }
        if stage == Stage::Draining {
            self.draining.push(replica);
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

    /// Draws when a replica fails, or comes back, if replicas fail at random; what is drawn beyond the clock never comes.
    fn plan_by_chance(&mut self, replica: u32, now: Picos) {
        let index = replica as usize;
        let Some((outages, draws)) = &mut self.outages else {
            return;
        };
        let (mean_s, what) = match self.lives[index].stage {
            Stage::Serving | Stage::Draining => (outages.mean_up_s, ChangeKind::Fail),
            Stage::Failed => (outages.mean_down_s, ChangeKind::Up),
            // Nothing runs that could fail.
            Stage::Off | Stage::Starting => return,
        };
        let law = Exp::new(1.0 / mean_s).expect("the mean of a time is positive");
        let delay = Picos::try_from_seconds(law.sample(&mut draws[index]));
        if let Some(at) = delay.and_then(|delay| now.checked_add(delay)) {
            self.plan(at, replica, what);
        }
    }

    fn plan(&mut self, at: Picos, replica: u32, what: ChangeKind) {
        let cause = Cause::Planned(self.lives[replica as usize].number);
        self.push(at, replica, what, cause);
    }

    fn push(&mut self, at: Picos, replica: u32, kind: ChangeKind, cause: Cause) {
        let nth = self.planned;
        self.planned += 1;
        self.changes.push(Reverse(Due {
            at,
            nth,
            replica,
            kind,
            cause,
        }));
    }
}

/// The name of each replica's draws: its pool or group, and its place there.
fn entities(spec: &ClusterSpec) -> Vec<u64> {
    let entity = |part: usize, place: u32| (part as u64) << 32 | u64::from(place);
    match &spec.disaggregation {
        Some(pools) => {
            let prefill = (0..pools.prefill).map(|place| entity(0, place));
            prefill
                .chain((0..pools.decode).map(|place| entity(1, place)))
                .collect()
        }
        None => {
            let mut entities = vec![0; spec.replicas as usize];
            for (part, group) in spec.groups.iter().enumerate() {
                for (place, &member) in (0..).zip(&group.members) {
                    entities[member as usize] = entity(part, place);
                }
            }
            entities
        }
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
mod tests;
