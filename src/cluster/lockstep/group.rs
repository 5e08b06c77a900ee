//! The ranks of one server, their balancer, and the loop over all of them.

use std::collections::VecDeque;

use super::attending::Attending;
use super::leap::{Share, top};
use super::{LockStepAccount, LockStepSpec};
use crate::cluster::dispatch::tokens_of;
use crate::cluster::fleet::Ticket;
use crate::cluster::lane::Lane;
use crate::cluster::lives::{Lives, Payroll};
use crate::cost::SharedCost;
use crate::cost::jitter::Jitter;
use crate::engine::leap::{progression, steps_before};
use crate::engine::lockstep::RankRun;
use crate::engine::sglang::SglangReplica;
use crate::engine::{Engine, Refusal, Replica};
use crate::facts::{Completion, Observer};
use crate::units::Picos;
use crate::workload::Request;

/// Ranks that step together.
pub(crate) struct LockStep {
    pub(super) spec: LockStepSpec,
    pub(super) engines: Vec<Engine>,
    pub(super) lane: Lane,
    /// All serve, from first to last.
    pub(super) lives: Lives,
    /// What the experts take of the tokens of all ranks.
    pub(super) shared: Box<dyn SharedCost>,
    /// How the steps of all scatter; without it runs are leapt over.
    pub(super) jitter: Option<Jitter>,
    /// Steps in flight on each rank, at most.
    pub(super) depth: usize,
    pub(super) next_pass: Option<Picos>,
    /// Ranks go on stepping until they agree that nobody has work left.
    pub(super) is_running: bool,
    /// Steps that have ended since they began.
    pub(super) steps_in_wave: u64,
    /// Each rank's own share of the steps in flight, oldest first; `None` is a dummy.
    pub(super) shares: VecDeque<Vec<Option<Picos>>>,
    pub(super) account: LockStepAccount,
    /// Of TensorRT-LLM's ranks.
    pub(super) attending: Option<Box<Attending>>,
}

impl LockStep {
    /// The ranks behind one balancer.
    pub(in crate::cluster) fn new(
        spec: LockStepSpec,
        engines: Vec<Engine>,
        lane: Lane,
        lives: Lives,
        shared: Box<dyn SharedCost>,
    ) -> LockStep {
        let depths: Vec<usize> = engines.iter().map(Engine::steps_ahead).collect();
        assert!(
            depths.windows(2).all(|pair| pair[0] == pair[1]),
            "the ranks of a server are alike"
        );
        LockStep {
            spec,
            account: LockStepAccount {
                ranks: engines.len() as u32,
                ..LockStepAccount::default()
            },
            depth: depths[0],
            attending: match spec {
                LockStepSpec::Attending(how) => Some(Box::new(Attending::new(how, engines.len()))),
                LockStepSpec::Agreed { .. } | LockStepSpec::Gathered(_) => None,
            },
            engines,
            lane,
            lives,
            shared,
            jitter: None,
            next_pass: None,
            is_running: false,
            steps_in_wave: 0,
            shares: VecDeque::new(),
        }
    }

    /// Who gets a request that is sent at `now`; of TensorRT-LLM's ranks the first stands for all.
    pub(crate) fn route(&mut self, now: Picos, request: &Request) -> Option<usize> {
        if self.attending.is_some() {
            return Some(0);
        }
        let engines = &self.engines;
        self.lane.dispatch.route(request, now, &|index| &engines[index])
    }

    /// A request that was routed to a rank reaches its loop at `entry`; no ticket where ranks have yet to share it out.
    pub(crate) fn offer(
        &mut self,
        replica: usize,
        entry: Picos,
        request: &mut Request,
    ) -> Result<Option<Ticket>, Refusal> {
        if self.attending.is_some() {
            self.take_in(entry, request)?;
            self.wake_at(entry);
            return Ok(None);
        }
        let (id, tokens) = (request.id, tokens_of(request));
        let dispatch = &mut self.lane.dispatch;
        let handle = self.engines[replica].offer(entry, request).inspect_err(|_| {
            dispatch.left(id);
        })?;
        dispatch.sent(replica, id, tokens);
        self.wake_at(entry);
        Ok(Some(Ticket { replica, handle }))
    }

    /// Somebody comes at `entry`, whom ranks that stand still see then.
    fn wake_at(&mut self, entry: Picos) {
        if !self.is_running {
            self.next_pass = Some(self.next_pass.map_or(entry, |pass| pass.min(entry)));
        }
    }

    /// A client has its answer, whatever it is.
    pub(crate) fn answered(&mut self, completion: &Completion) {
        self.lane.dispatch.left(completion.id);
    }

    /// Whether the balancer counts nobody any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.lane.dispatch.is_settled()
    }

    /// The client of a request gave up.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        ticket: Ticket,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        self.engines[ticket.replica].abort(ticket.handle, now, observer)
    }

    /// When ranks next report how full they are.
    pub(crate) fn next_change(&self) -> Option<Picos> {
        self.lane.next_report
    }

    /// Every rank says how full it is. All of them have come as far as `now`.
    pub(crate) fn change(&mut self, now: Picos) {
        for (index, engine) in self.engines.iter().enumerate() {
            self.lane.dispatch.hear(index, engine, now);
        }
        self.lane.dispatch.has_heard();
        let every = self.lane.dispatch.reports_every();
        self.lane.next_report = every.and_then(|every| now.checked_add(every));
    }

    /// What the ranks cost until `now`.
    pub(crate) fn payroll(&self, now: Picos) -> Payroll {
        self.lives.payroll(now)
    }

    /// When ranks began to serve.
    pub(crate) fn service(&self) -> &[(Picos, i32)] {
        self.lives.service()
    }

    /// Steps scatter around their cost, all ranks' alike.
    pub(crate) fn disturb(&mut self, jitter: Jitter) {
        self.jitter = Some(jitter);
    }

    /// What stepping together has cost.
    pub(crate) fn account(&self) -> &LockStepAccount {
        &self.account
    }

    /// Whether nothing will happen without anything from outside.
    pub(crate) fn is_idle(&self) -> bool {
        self.next_pass.is_none() && self.shares.is_empty()
    }

    /// Whether each replica schedules a step while the one before is in flight.
    pub(crate) fn schedules_ahead(&self) -> Vec<bool> {
        self.engines.iter().map(Engine::schedules_ahead).collect()
    }

    /// When something happens next without anything from outside.
    pub(crate) fn next_instant(&self) -> Option<Picos> {
        let step = self.engines[0].oldest_step();
        let end = step.map(|(begin, duration)| begin + duration);
        [self.next_pass, end].into_iter().flatten().min()
    }

    /// Requests inside.
    pub(crate) fn inside(&self) -> usize {
        let unplaced = self.attending.as_ref().map_or(0, |all| all.unplaced());
        unplaced + self.engines.iter().map(Engine::inside).sum::<usize>()
    }

    /// Some rank goes round in circles.
    pub(crate) fn is_livelocked(&self) -> bool {
        self.engines.iter().any(Engine::is_livelocked)
    }

    /// Nobody waits for KV from outside.
    pub(crate) fn is_stuck(&self) -> bool {
        false
    }

    /// Tokens whose cached KV was evicted, on all ranks.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.engines.iter().map(Engine::evicted_tokens).sum()
    }

    /// Usable KV blocks of each rank.
    pub(crate) fn total_blocks(&self) -> impl Iterator<Item = u32> {
        self.engines.iter().map(Engine::total_blocks)
    }

    /// Everything that has happened is told.
    pub(crate) fn tell<O: Observer>(&mut self, _: Picos, observer: &mut O) {
        self.engines.iter_mut().for_each(|engine| engine.tell(observer));
    }

    /// Keeps a record of every step of the first rank.
    pub(crate) fn keep_log(&mut self) {
        self.engines[0].keep_log();
    }

    /// Goes on to `horizon`, or until a request has left; ends and passes at the horizon as [`Replica::run`] takes them.
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let mut now = Picos::ZERO;
        loop {
            let step = self.engines[0].oldest_step();
            let end = step.map(|(begin, duration)| begin + duration);
            match (self.next_pass, end) {
                (Some(pass), end) if end.is_none_or(|end| pass < end) => {
                    if pass >= horizon || self.is_livelocked() {
                        return now;
                    }
                    if self.pass(pass, observer, ended) {
                        now = pass;
                    }
                    if !ended.is_empty() {
                        return now;
                    }
                }
                (_, Some(end)) if end <= horizon => match self.leap(horizon, observer) {
                    Some(last) => now = last,
                    None => {
                        if self.end_step(end, observer, ended) {
                            now = end;
                        }
                        if !ended.is_empty() {
                            return now;
                        }
                    }
                },
                _ => return now,
            }
        }
    }

    /// The pass that is due at `now`, the horizon of [`LockStep::run`], if one is.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if self.next_pass == Some(now) {
            self.pass(now, observer, ended);
        }
    }

    /// Every rank launches steps at `now` until it has as many in flight as it may; whether any is more than dummies.
    fn pass<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) -> bool {
        self.next_pass = None;
        if !self.is_running {
            (self.is_running, self.steps_in_wave) = (true, 0);
        }
        while self.shares.len() < self.depth {
            match self.spec {
                LockStepSpec::Agreed { .. } => {
                    for engine in &mut self.engines {
                        vllm(engine).launch(now, observer);
                    }
                }
                LockStepSpec::Gathered(_) => {
                    if !self.launch_gathered(now, observer, ended) {
                        break;
                    }
                }
                LockStepSpec::Attending(_) => {
                    if !self.launch_attending(now, observer) {
                        break;
                    }
                }
            }
            self.price();
        }
        self.shares.iter().flatten().any(Option::is_some)
    }

    /// Every rank decides at `now`; if any has a batch, all launch. If none has, and none is in flight, all wait for input.
    fn launch_gathered<O: Observer>(
        &mut self,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> bool {
        let mut has_batch = false;
        for engine in &mut self.engines {
            has_batch |= sglang(engine).decide(now, observer, ended);
        }
        if self.is_livelocked() {
            return false;
        }
        if has_batch {
            self.engines
                .iter_mut()
                .for_each(|engine| sglang(engine).launch_decided(now));
        } else if self.shares.is_empty() {
            self.is_running = false;
            let inputs = self.engines.iter_mut();
            let inputs = inputs.filter_map(|engine| sglang(engine).rest_in_step(now));
            self.next_pass = inputs.min();
        }
        has_batch
    }

    /// The oldest step ends at `now`, on all ranks; whether anybody worked in it.
    fn end_step<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) -> bool {
        let (_, duration) = self.engines[0].oldest_step().expect("a step in flight ends");
        let before = ended.len();
        for engine in &mut self.engines {
            engine.end_in_step(observer, ended);
        }
        if let Some(attending) = &mut self.attending {
            attending.forget(&ended[before..]);
        }
        let shares = self.shares.pop_front().expect("a step in flight has shares");
        let is_work = shares.iter().any(Option::is_some);
        self.account.steps += 1;
        self.account.stepping += duration;
        for share in shares {
            match share {
                // A step that scatters may be shorter than a share is on average.
                Some(own) => self.account.waited += u128::from(duration.0.saturating_sub(own.0)),
                None => {
                    self.account.dummies += 1;
                    self.account.idle += u128::from(duration.0);
                }
            }
        }
        if !self.is_running {
            return is_work;
        }
        self.steps_in_wave += 1;
        let agrees = match self.spec {
            LockStepSpec::Agreed { sync_interval } => self.steps_in_wave.is_multiple_of(sync_interval),
            LockStepSpec::Gathered(_) | LockStepSpec::Attending(_) => false,
        };
        if agrees
            && !self
                .engines
                .iter_mut()
                .any(|engine| vllm(engine).knows_requests())
        {
            // What reaches a loop later, or is in its inbox, wakes all ranks again.
            self.is_running = false;
            let inputs = self.engines.iter().filter_map(Engine::next_request);
            self.next_pass = inputs.min().map(|at| at.max(now));
        } else {
            self.next_pass = Some(now);
        }
        is_work
    }

    /// Leaps over the steps that end before `horizon` if the steps in flight are alike on every rank; when the last of
    /// them ends.
    fn leap<O: Observer>(&mut self, horizon: Picos, observer: &mut O) -> Option<Picos> {
        if self.jitter.is_some() || !self.is_running || self.shares.len() != self.depth {
            return None;
        }
        let mut horizon = horizon;
        let unplaced = self.attending.as_ref().and_then(|all| all.next_request());
        for input in self
            .engines
            .iter()
            .filter_map(Engine::next_request)
            .chain(unplaced)
        {
            horizon = horizon.min(input);
        }
        let (begin, duration) = self.engines[0].oldest_step()?;
        if begin + duration >= horizon {
            return None;
        }
        let runs = Engine::runs_in_step(&mut self.engines, horizon)?;
        let (shares, limit) = self.shares_of(&runs)?;
        let top = top(&shares);
        debug_assert_eq!(top.at_first, duration, "a run goes on as its oldest step is");
        let steps = steps_before(horizon - begin, top.at_first, top.growth, limit.min(top.steps));
        if steps == 0 {
            return None;
        }
        let end = begin + progression(top.at_first, top.growth, steps);
        self.jump(&runs, &shares, (steps, top.growth, end), observer);
        Some(end)
    }

    /// Moves all ranks on by `steps` steps, the last of which ends at `end`.
    fn jump<O: Observer>(
        &mut self,
        runs: &[RankRun],
        shares: &[Share],
        (steps, growth, end): (u64, Picos, Picos),
        observer: &mut O,
    ) {
        let begin = self.engines[0].oldest_step().map_or(end, |(begin, _)| begin);
        let (mut times, mut at) = (Vec::with_capacity(self.depth), end);
        self.shares.clear();
        for ahead in (steps..).take(self.depth) {
            let slowest = shares.iter().map(|share| share.at(ahead)).max();
            let duration = slowest.expect("there are ranks");
            times.push((at, duration));
            at += duration;
            let own = |(share, run): (&Share, &RankRun)| {
                matches!(run, RankRun::Plain { .. }).then(|| share.at(ahead))
            };
            self.shares.push_back(shares.iter().zip(runs).map(own).collect());
        }
        let stepping = end - begin;
        self.account.steps += steps;
        self.account.stepping += stepping;
        self.steps_in_wave += steps;
        if let Some(attending) = &mut self.attending {
            attending.pass_over(steps);
        }
        for ((engine, run), share) in self.engines.iter_mut().zip(runs).zip(shares) {
            engine.leap_in_step(steps, growth, end, observer);
            engine.retime(&times);
            match run {
                RankRun::Idle => {
                    self.account.dummies += steps;
                    self.account.idle += u128::from(stepping.0);
                }
                RankRun::Plain { .. } => self.account.waited += u128::from(stepping.0) - share.sum(steps),
            }
        }
    }
}

/// Ranks that agree on an end are vLLM's, and TensorRT-LLM's have its loop.
pub(super) fn vllm(engine: &mut Engine) -> &mut Replica {
    engine
        .vllm_mut()
        .expect("config lets no other ranks step together so")
}

/// Ranks that exchange sizes are SGLang's.
fn sglang(engine: &mut Engine) -> &mut SglangReplica {
    match engine {
        Engine::Sglang(rank) => rank,
        Engine::Vllm(_) | Engine::Scheduled(_) => {
            unreachable!("config lets SGLang's ranks alone exchange sizes")
        }
    }
}
