//! What the loop of [`crate::sim`] asks of whatever serves: a fleet whose replicas do everything, or pools with roles.

use std::hint::cold_path;

use super::Disaggregated;
use super::fleet::{self, Cluster};
use super::lives::Payroll;
use super::lockstep::{LockStep, LockStepAccount, LockStepSpec};
use crate::cost::SharedCost;
use crate::cost::jitter::Jitter;
use crate::engine::lmcache::LmcacheConfig;
use crate::engine::sglang::{RecordedPass, SglangRecord};
use crate::engine::{Acceptance, Outlook, Refusal, ScheduleRecord};
use crate::facts::{Completion, Observer};
use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::Request;

/// Whatever serves.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in a run, and a fleet is asked at every event"
)]
// A tag of its own, which is read at every event, in place of one that is hidden among the values of a field.
#[repr(u8)]
pub(crate) enum Serving {
    /// Every replica prefills and decodes.
    Fleet(Cluster),
    /// Some prefill, some decode.
    Disaggregated(Box<Disaggregated>),
    /// Ranks of one server that step together.
    LockStep(Box<LockStep>),
}

/// A request's place in what serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ticket {
    /// On a replica.
    Placed(fleet::Ticket),
    /// On its way over two replicas.
    InFlight(RequestId),
    /// Before ranks that have yet to share it out.
    Unplaced(RequestId),
}

/// Calls the same method of whichever it is.
macro_rules! each {
    ($self:expr, $serving:ident => $call:expr) => {
        match $self {
            Serving::Fleet($serving) => $call,
            Serving::Disaggregated($serving) => {
                cold_path();
                $call
            }
            Serving::LockStep($serving) => {
                cold_path();
                $call
            }
        }
    };
}

impl Serving {
    /// Whether [`Serving::next_change`] may be another one when time has passed. One engine alone has no changes.
    #[inline]
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Serving::Fleet(fleet) => fleet.is_routed(),
            Serving::Disaggregated(_) | Serving::LockStep(_) => true,
        }
    }

    /// Who gets a request that is sent at `now` first; `None` if no replica is up.
    #[inline]
    pub(crate) fn route<O: Observer>(
        &mut self,
        now: Picos,
        request: &Request,
        observer: &mut O,
    ) -> Option<usize> {
        match self {
            Serving::Fleet(fleet) => fleet.route(now, request, observer),
            Serving::Disaggregated(pools) => {
                cold_path();
                pools.route(now, request)
            }
            Serving::LockStep(ranks) => {
                cold_path();
                ranks.route(now, request)
            }
        }
    }

    /// A request that was routed to `replica` at `now` reaches its engine at `entry`.
    #[inline(always)]
    pub(crate) fn offer(
        &mut self,
        replica: usize,
        now: Picos,
        entry: Picos,
        request: &mut Request,
    ) -> Result<Ticket, Refusal> {
        match self {
            Serving::Fleet(fleet) => fleet.offer(replica, entry, request).map(Ticket::Placed),
            Serving::LockStep(ranks) => {
                cold_path();
                let id = request.id;
                let ticket = ranks.offer(replica, entry, request)?;
                Ok(ticket.map_or(Ticket::Unplaced(id), Ticket::Placed))
            }
            Serving::Disaggregated(pools) => {
                cold_path();
                let id = request.id;
                pools
                    .offer(replica, now, entry, request)
                    .map(|()| Ticket::InFlight(id))
            }
        }
    }

    /// Goes on to `horizon`, or until a request has left.
    #[inline]
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        each!(self, serving => serving.run(horizon, observer, ended))
    }

    /// The passes of loops that are due at `now`.
    #[inline]
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        match self {
            Serving::Fleet(fleet) => fleet.pass_at(now, observer, ended),
            Serving::Disaggregated(pools) => {
                cold_path();
                pools.pass_at(now, observer, ended);
            }
            Serving::LockStep(ranks) => {
                cold_path();
                ranks.pass_at(now, observer, ended);
            }
        }
    }

    /// Whether nothing will happen without anything from outside.
    pub(crate) fn is_idle(&self) -> bool {
        each!(self, serving => serving.is_idle())
    }

    /// Whether each replica schedules a step while the one before is in flight.
    pub(crate) fn schedules_ahead(&self) -> Vec<bool> {
        each!(self, serving => serving.schedules_ahead())
    }

    /// When something happens next without anything from outside.
    pub(crate) fn next_instant(&mut self) -> Option<Picos> {
        each!(self, serving => serving.next_instant())
    }

    /// Requests inside.
    pub(crate) fn inside(&self) -> usize {
        each!(self, serving => serving.inside())
    }

    /// Some engine goes round in circles.
    #[inline]
    pub(crate) fn is_livelocked(&self) -> bool {
        each!(self, serving => serving.is_livelocked())
    }

    /// Requests inside wait for blocks that each other hold while KV is loaded.
    pub(crate) fn is_stuck(&self) -> bool {
        each!(self, serving => serving.is_stuck())
    }

    /// What the replicas cost until `now`, and what came of the orders to them.
    pub(crate) fn payroll(&self, now: Picos) -> Payroll {
        each!(self, serving => serving.payroll(now))
    }

    /// When replicas began or ceased to serve, in order of time: one more, or one fewer.
    pub(crate) fn service(&self) -> &[(Picos, i32)] {
        each!(self, serving => serving.service())
    }

    /// Tokens whose cached KV was evicted, on all replicas.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        each!(self, serving => serving.evicted_tokens())
    }

    /// Gives every engine tiers of KV beside its GPUs.
    pub(crate) fn add_tiers(&mut self, config: &LmcacheConfig) {
        match self {
            Serving::Fleet(fleet) => fleet.add_tiers(config),
            Serving::Disaggregated(_) | Serving::LockStep(_) => {
                unreachable!("config refuses tiers beside pools with roles and ranks in lock-step")
            }
        }
    }

    /// The client of a request gave up.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        ticket: Ticket,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        match (self, ticket) {
            (Serving::Fleet(fleet), Ticket::Placed(ticket)) => fleet.abort(ticket, now, observer),
            (Serving::LockStep(ranks), Ticket::Placed(ticket)) => ranks.abort(ticket, now, observer),
            (Serving::LockStep(ranks), Ticket::Unplaced(id)) => ranks.abort_taken_in(id, now, observer),
            (Serving::Disaggregated(pools), Ticket::InFlight(id)) => pools.abort(id, now, observer),
            _ => unreachable!("a ticket is of whoever gave it"),
        }
    }

    /// A client has its answer, whatever it is.
    #[inline]
    pub(crate) fn answered(&mut self, completion: &Completion) {
        each!(self, serving => serving.answered(completion));
    }

    /// Whether no router counts anybody any more, as it must be when everybody has left.
    pub(crate) fn is_settled(&self) -> bool {
        each!(self, serving => serving.is_settled())
    }

    /// When something next happens to a replica, rather than on it.
    #[inline]
    pub(crate) fn next_change(&self) -> Option<Picos> {
        each!(self, serving => serving.next_change())
    }

    /// What happens to replicas at `now`. Everything before has been run.
    pub(crate) fn change<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        match self {
            Serving::Fleet(fleet) => fleet.change(now, observer, ended),
            Serving::Disaggregated(pools) => pools.change(now, observer, ended),
            Serving::LockStep(ranks) => ranks.change(now),
        }
    }

    /// Everything that has happened up to `now` is told.
    pub(crate) fn tell<O: Observer>(&mut self, now: Picos, observer: &mut O) {
        each!(self, serving => serving.tell(now, observer));
    }

    /// What has happened on one replica up to `now` and is not told yet; `None` if it is not known.
    #[inline]
    pub(crate) fn outlook<O: Observer>(
        &mut self,
        replica: usize,
        now: Picos,
        observer: &mut O,
    ) -> Option<Outlook> {
        match self {
            Serving::Fleet(fleet) => fleet.outlook(replica, now, observer),
            Serving::LockStep(_) | Serving::Disaggregated(_) => None,
        }
    }

    /// Everything that has happened on one replica up to `now` is told. Pools with roles tell when they are asked for all: what comes in
    /// to prefill waits for hardly any answers.
    #[inline]
    pub(crate) fn tell_of<O: Observer>(&mut self, replica: usize, now: Picos, observer: &mut O) {
        match self {
            Serving::Fleet(fleet) => fleet.tell_of(replica, now, observer),
            Serving::LockStep(ranks) => ranks.tell(now, observer),
            Serving::Disaggregated(_) => {}
        }
    }

    /// Usable KV blocks of each replica.
    pub(crate) fn total_blocks(&self) -> Vec<u32> {
        each!(self, serving => serving.total_blocks().collect())
    }

    /// Says how many drafts stand where engines speculate.
    pub(crate) fn accept(&mut self, acceptance: impl Fn() -> Acceptance) {
        match self {
            Serving::Fleet(fleet) => fleet.accept(acceptance),
            // Neither speculates, which the configuration sees to.
            Serving::Disaggregated(_) | Serving::LockStep(_) => {}
        }
    }

    /// Makes the steps of every engine scatter.
    pub(crate) fn disturb(&mut self, jitter: impl Fn(u64) -> Jitter) {
        match self {
            Serving::Fleet(fleet) => fleet.disturb(jitter),
            Serving::Disaggregated(pools) => pools.disturb(jitter),
            Serving::LockStep(ranks) => ranks.disturb(jitter(0)),
        }
    }

    /// Keeps a record of every step of the first engine.
    pub(crate) fn keep_log(&mut self) {
        each!(self, serving => serving.keep_log());
    }

    /// The replicas become ranks that step together.
    pub(crate) fn into_lock_step(self, spec: LockStepSpec, shared: Box<dyn SharedCost>) -> Serving {
        match self {
            Serving::Fleet(fleet) => {
                let (engines, lane, lives) = fleet.into_ranks();
                Serving::LockStep(Box::new(LockStep::new(spec, engines, lane, lives, shared)))
            }
            Serving::Disaggregated(_) | Serving::LockStep(_) => {
                unreachable!("the ranks of a server prefill and decode")
            }
        }
    }

    /// What stepping together has cost, if ranks do.
    pub(crate) fn lock_step(&self) -> Option<&LockStepAccount> {
        match self {
            Serving::LockStep(ranks) => Some(ranks.account()),
            Serving::Fleet(_) | Serving::Disaggregated(_) => None,
        }
    }

    /// The records kept so far.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        match self {
            Serving::Fleet(fleet) => fleet.take_log(),
            Serving::Disaggregated(_) | Serving::LockStep(_) => Vec::new(),
        }
    }

    /// The records of an SGLang engine kept so far.
    pub(crate) fn take_sglang_log(&mut self) -> Vec<SglangRecord> {
        match self {
            Serving::Fleet(fleet) => fleet.take_sglang_log(),
            Serving::Disaggregated(_) | Serving::LockStep(_) => Vec::new(),
        }
    }

    /// What chance decides in an SGLang engine is taken from these passes, one for each logged one.
    pub(crate) fn replay(&mut self, passes: Vec<RecordedPass>) {
        if let Serving::Fleet(fleet) = self {
            fleet.replay(passes);
        }
    }
}
