//! One replica of any engine that is modelled: what the loop of [`crate::sim`] asks of it.
//!
//! The set of engines is closed, so this is an enum and not a trait; the loop's calls cost one predictable branch.

use super::external::Connector;
use super::scheduled::ScheduledReplica;
use super::sglang::{DecodeOptions, LoadSnapshot, RecordedPass, SglangRecord, SglangReplica};
use super::speculation::Acceptance;
use super::telling::Outlook;
use super::{EngineSpec, Handle, Refusal, Replica, ScheduleRecord, State, Told, Wake};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::facts::{Completion, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::kv::Journal;
use crate::units::Picos;
use crate::workload::Request;

/// One engine instance.
pub(crate) enum Engine {
    /// vLLM's V1 loop, of TensorRT-LLM with another scheduler.
    Vllm(Box<Replica>),
    Sglang(Box<SglangReplica>),
    Scheduled(Box<ScheduledReplica>),
}

/// Calls the same method of whichever engine it is.
macro_rules! each {
    ($self:expr, $replica:ident => $call:expr) => {
        match $self {
            Engine::Vllm($replica) => $call,
            Engine::Sglang($replica) => $call,
            Engine::Scheduled($replica) => $call,
        }
    };
}

impl Engine {
    /// An empty engine. `stepwise` visits every sequence in every step; see [`Replica::new`].
    pub(crate) fn new(id: ReplicaId, spec: EngineSpec, cost: Box<dyn StepCost>, stepwise: bool) -> Engine {
        match spec {
            EngineSpec::Vllm(config) => Engine::Vllm(Box::new(Replica::new(id, config, cost, stepwise))),
            EngineSpec::Sglang(config) => {
                Engine::Sglang(Box::new(SglangReplica::new(id, config, cost, stepwise)))
            }
            EngineSpec::Trtllm(config) => {
                Engine::Vllm(Box::new(Replica::of_trtllm(id, &config, cost, stepwise)))
            }
            EngineSpec::Scheduled(config) => {
                Engine::Scheduled(Box::new(ScheduledReplica::new(id, config, cost, stepwise)))
            }
        }
    }

    /// From now on drafts stand as `acceptance` says, where the engine speculates.
    pub(crate) fn accept(&mut self, acceptance: Acceptance) {
        match self {
            Engine::Vllm(replica) => replica.accept(acceptance),
            Engine::Sglang(replica) => replica.accept(acceptance),
            Engine::Scheduled(_) => {}
        }
    }

    /// The replica, if it is vLLM's: only there KV comes from outside (`engine/external.rs`).
    pub(crate) fn vllm_mut(&mut self) -> Option<&mut Replica> {
        match self {
            Engine::Vllm(replica) => Some(replica),
            Engine::Sglang(_) | Engine::Scheduled(_) => None,
        }
    }

    /// Makes steps scatter around their cost, and takes them one by one.
    pub(crate) fn disturb(&mut self, jitter: Jitter) {
        each!(self, replica => replica.disturb(jitter));
    }

    /// Keeps a record of every step.
    pub(crate) fn keep_log(&mut self) {
        each!(self, replica => replica.keep_log());
    }

    /// The records of an engine other than SGLang.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        match self {
            Engine::Vllm(replica) => replica.take_log(),
            Engine::Scheduled(replica) => replica.take_log(),
            Engine::Sglang(_) => Vec::new(),
        }
    }

    /// The records of an SGLang engine.
    pub(crate) fn take_sglang_log(&mut self) -> Vec<SglangRecord> {
        match self {
            Engine::Vllm(_) | Engine::Scheduled(_) => Vec::new(),
            Engine::Sglang(replica) => replica.take_log(),
        }
    }

    /// What chance decides in an SGLang engine is taken from these passes, one for each logged one.
    pub(crate) fn replay(&mut self, passes: Vec<RecordedPass>) {
        if let Engine::Sglang(replica) = self {
            replica.recorded = Some(passes);
        }
    }

    /// Usable KV blocks.
    pub(crate) fn total_blocks(&self) -> u32 {
        each!(self, replica => replica.total_blocks())
    }

    /// Tokens whose cached KV was evicted since it came up.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        each!(self, replica => replica.evicted_tokens())
    }

    /// Whether a step is scheduled while the one before is in flight, and who is preempted then has a token of that one.
    pub(crate) fn schedules_ahead(&self) -> bool {
        match self {
            Engine::Vllm(replica) => replica.schedules_ahead(),
            Engine::Sglang(_) | Engine::Scheduled(_) => false,
        }
    }

    /// Requests inside, drained or not.
    pub(crate) fn inside(&self) -> usize {
        each!(self, replica => replica.inside())
    }

    /// Takes in a request that reaches the engine at `now`. One that is refused stays where it is.
    #[inline(always)]
    pub(crate) fn offer(&mut self, now: Picos, request: &mut Request) -> Result<Handle, Refusal> {
        each!(self, replica => replica.offer(now, request))
    }

    /// Why a request would not be taken in now, if so.
    pub(crate) fn refusal(&self, request: &Request) -> Option<Refusal> {
        each!(self, replica => replica.refusal(request))
    }

    /// Tokens of a KV block, or page.
    pub(crate) fn block_size(&self) -> u32 {
        each!(self, replica => replica.block_size())
    }

    /// Connects a vLLM replica to where its KV comes from or goes to.
    pub(crate) fn connect(&mut self, connector: Box<dyn Connector>) {
        let replica = self.vllm_mut().expect("vLLM's flows are between vLLM's servers");
        replica.connect(connector);
    }

    /// The load for request `id` is complete at `now`.
    pub(crate) fn loaded(&mut self, id: RequestId, now: Picos) {
        if let Some(replica) = self.vllm_mut() {
            replica.loaded(id, now);
        }
    }

    /// The load for request `id` has failed at `now`, and what it was to bring is computed here.
    pub(crate) fn load_failed(&mut self, id: RequestId, now: Picos) {
        if let Some(replica) = self.vllm_mut() {
            replica.load_failed(id, now);
        }
    }

    /// Calls a completed request whose blocks are held back by another name.
    pub(crate) fn rename_held_back(&mut self, id: RequestId, other: RequestId) {
        if let Some(replica) = self.vllm_mut() {
            replica.rename_held_back(id, other);
        }
    }

    /// Whether it holds back the blocks of completed requests.
    pub(crate) fn holds_back(&self) -> bool {
        match self {
            Engine::Vllm(replica) => replica.holds_back(),
            Engine::Sglang(_) | Engine::Scheduled(_) => false,
        }
    }

    /// Frees the blocks that were held back when request `id` completed.
    pub(crate) fn release_held_back(&mut self, id: RequestId, now: Picos) {
        if let Some(replica) = self.vllm_mut() {
            replica.release_held_back(id, now);
        }
    }

    /// The engine, where only SGLang has what is asked of it.
    fn sglang(&mut self) -> &mut SglangReplica {
        match self {
            Engine::Vllm(_) | Engine::Scheduled(_) => {
                unreachable!("SGLang's flow is between SGLang's servers")
            }
            Engine::Sglang(replica) => replica,
        }
    }

    /// Makes an SGLang server prefill only.
    pub(crate) fn only_prefill(&mut self) {
        self.sglang().only_prefill();
    }

    /// Makes an SGLang server decode only.
    pub(crate) fn only_decode(&mut self, options: DecodeOptions) {
        self.sglang().only_decode(options);
    }

    /// Takes in a request that an SGLang server's loop will not see before it is let in.
    pub(crate) fn take_in(&mut self, request: &mut Request) -> Result<Handle, Refusal> {
        self.sglang().take_in(request)
    }

    /// A request that was taken in reaches the server at `now`.
    pub(crate) fn enter(&mut self, handle: Handle, now: Picos) {
        self.sglang().enter(handle, now);
    }

    /// A request that was taken in reaches the loop at `now`.
    pub(crate) fn let_in(&mut self, handle: Handle, now: Picos) {
        self.sglang().let_in(handle, now);
    }

    /// What an SGLang prefill server sent of a request has arrived.
    pub(crate) fn transferred(&mut self, handle: Handle, now: Picos) {
        self.sglang().transferred(handle, now);
    }

    /// The KV of a request has arrived at an SGLang decode server.
    pub(crate) fn arrived(&mut self, handle: Handle, now: Picos) {
        self.sglang().arrived(handle, now);
    }

    /// What a replica of a pool with a role has to tell.
    pub(crate) fn take_signals(&mut self, into: &mut Vec<Told>) {
        if let Engine::Sglang(replica) = self {
            replica.take_signals(into);
        }
    }

    /// When something happens next here without anything from outside.
    pub(crate) fn next(&self) -> Option<Picos> {
        each!(self, replica => replica.next())
    }

    /// Goes on to `horizon` or until a request has left; the last instant at which something happened.
    #[inline]
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        each!(self, replica => replica.run(horizon, observer, ended))
    }

    /// Whether nobody inside can ever go on.
    #[inline]
    pub(crate) fn is_livelocked(&self) -> bool {
        each!(self, replica => replica.is_livelocked())
    }

    /// Requests inside wait for blocks that each other hold while KV is loaded, and nothing will happen by itself.
    pub(crate) fn is_stuck(&self) -> bool {
        match self {
            Engine::Vllm(replica) => replica.spins() && replica.next().is_none(),
            Engine::Sglang(_) | Engine::Scheduled(_) => false,
        }
    }

    /// The pass of the loop that is due at `now`, the horizon of [`Engine::run`], if one is.
    #[inline]
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        match self {
            Engine::Vllm(replica) => replica.pass_at(now, observer),
            Engine::Sglang(replica) => replica.pass_at(now, observer, ended),
            Engine::Scheduled(replica) => replica.pass_at(now, observer, ended),
        }
    }

    /// The client of a request gave up at `now`; `None` if it has ended before.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        handle: Handle,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        each!(self, replica => replica.abort(handle, now, observer))
    }

    /// When something next happens here that others may notice.
    pub(crate) fn wake(&mut self) -> Option<Wake> {
        each!(self, replica => replica.wake())
    }

    /// How full it is.
    pub(crate) fn reported_state(&self) -> State {
        each!(self, replica => replica.reported_state())
    }

    /// An SGLang server writes what load it has, of decodes with each `interval`th result.
    pub(crate) fn publish_loads(&mut self, interval: u32) {
        if let Engine::Sglang(replica) = self {
            replica.publish_loads(interval);
        }
    }

    /// What an SGLang server tells somebody who asks for its load at `now`; others have nothing of the kind.
    pub(crate) fn load_snapshot(&self, now: Picos) -> LoadSnapshot {
        match self {
            Engine::Sglang(replica) => replica.load_snapshot(now),
            Engine::Vllm(_) | Engine::Scheduled(_) => LoadSnapshot::default(),
        }
    }

    /// What changes in its cache, if somebody listens and it tells (RT-12).
    #[inline]
    pub(crate) fn journal(&self) -> Option<&Journal> {
        match self {
            Engine::Vllm(replica) => replica.pool.journal(),
            Engine::Sglang(replica) => replica.journal(),
            Engine::Scheduled(_) => None,
        }
    }

    /// Tokens at the head of a request's prompt that are cached here, where that is not told.
    pub(crate) fn cached_tokens(&self, request: &Request) -> u32 {
        match self {
            Engine::Scheduled(replica) => replica.cached_tokens(request),
            // These tell whatever they cache.
            Engine::Vllm(_) | Engine::Sglang(_) => 0,
        }
    }

    /// Tokens of everything that is cached here.
    pub(crate) fn index_tokens(&self) -> u64 {
        match self {
            Engine::Vllm(replica) => replica.pool.cached_tokens(),
            Engine::Sglang(replica) => replica.index_tokens(),
            Engine::Scheduled(replica) => replica.index_tokens(),
        }
    }

    /// Others hear of changes of the cache so late.
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        match self {
            Engine::Vllm(replica) => replica.delay_events(latency),
            Engine::Sglang(replica) => replica.delay_events(latency),
            Engine::Scheduled(_) => {}
        }
    }

    /// Fails at `now`: everybody inside leaves unfinished, and the cache is lost.
    pub(crate) fn fail<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        each!(self, replica => replica.fail(now, observer, ended));
    }

    /// What is not told yet, of an engine that holds steps back; `None` of one that does not, or whose steps end together.
    #[inline]
    pub(crate) fn outlook(&self) -> Option<Outlook> {
        match self {
            Engine::Vllm(replica) => replica.outlook(),
            Engine::Sglang(_) | Engine::Scheduled(_) => None,
        }
    }

    /// Tells everything that has happened.
    pub(crate) fn tell<O: Observer>(&mut self, observer: &mut O) {
        each!(self, replica => replica.tell(observer));
    }
}
