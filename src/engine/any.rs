//! One replica of any engine that is modelled: what the loop of [`crate::sim`] asks of it.
//!
//! The set of engines is closed, so this is an enum and not a trait; the loop's calls cost one predictable branch.

use super::sglang::{QueuePolicy, SglangConfig, SglangRecord, SglangReplica};
use super::{EngineConfig, Handle, Policy, Refusal, Replica, ScheduleRecord, State, Wake};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::facts::{Completion, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// An engine's resolved flags.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineSpec {
    /// vLLM V1.
    Vllm(EngineConfig),
    /// SGLang.
    Sglang(SglangConfig),
}

impl From<EngineConfig> for EngineSpec {
    fn from(config: EngineConfig) -> EngineSpec {
        EngineSpec::Vllm(config)
    }
}

impl From<SglangConfig> for EngineSpec {
    fn from(config: SglangConfig) -> EngineSpec {
        EngineSpec::Sglang(config)
    }
}

impl EngineSpec {
    /// The flags, if vLLM serves.
    #[must_use]
    pub fn vllm(&self) -> Option<&EngineConfig> {
        match self {
            EngineSpec::Vllm(config) => Some(config),
            EngineSpec::Sglang(_) => None,
        }
    }

    /// Name and version, `vllm@0.33`.
    #[must_use]
    pub fn profile(&self) -> &str {
        match self {
            EngineSpec::Vllm(config) => &config.profile,
            EngineSpec::Sglang(config) => &config.profile,
        }
    }

    /// Whether prompts are looked up in a prefix cache.
    #[must_use]
    pub fn caches_prefixes(&self) -> bool {
        match self {
            EngineSpec::Vllm(config) => config.enable_prefix_caching,
            EngineSpec::Sglang(config) => config.radix_cache,
        }
    }

    /// Whether the queue is served in order of arrival.
    #[must_use]
    pub fn serves_in_order(&self) -> bool {
        match self {
            EngineSpec::Vllm(config) => config.policy == Policy::Fcfs,
            EngineSpec::Sglang(config) => config.policy == QueuePolicy::Fcfs && config.priority.is_none(),
        }
    }

    /// Tokens of a KV block, or page.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.block_size,
            EngineSpec::Sglang(config) => config.page_size,
        }
    }

    /// KV blocks as the engine counts them, vLLM's null block included.
    #[must_use]
    pub fn num_gpu_blocks(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.num_gpu_blocks,
            EngineSpec::Sglang(config) => config.max_total_tokens / config.page_size,
        }
    }

    /// Longest sequence.
    #[must_use]
    pub fn max_model_len(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_model_len,
            EngineSpec::Sglang(config) => config.context_length,
        }
    }

    /// Most running sequences.
    #[must_use]
    pub fn max_num_seqs(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_num_seqs,
            EngineSpec::Sglang(config) => config.max_running_requests,
        }
    }

    /// Most prompt tokens of a step: vLLM's `max_num_batched_tokens`, SGLang's chunk or else `max_prefill_tokens`.
    #[must_use]
    pub fn prompt_tokens_per_step(&self) -> u32 {
        match self {
            EngineSpec::Vllm(config) => config.max_num_batched_tokens,
            EngineSpec::Sglang(config) => config.chunked_prefill_size.unwrap_or(config.max_prefill_tokens),
        }
    }
}

/// One engine instance.
pub(crate) enum Engine {
    Vllm(Box<Replica>),
    Sglang(Box<SglangReplica>),
}

/// Calls the same method of whichever engine it is.
macro_rules! each {
    ($self:expr, $replica:ident => $call:expr) => {
        match $self {
            Engine::Vllm($replica) => $call,
            Engine::Sglang($replica) => $call,
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

    /// The records of a vLLM engine.
    pub(crate) fn take_log(&mut self) -> Vec<ScheduleRecord> {
        match self {
            Engine::Vllm(replica) => replica.take_log(),
            Engine::Sglang(_) => Vec::new(),
        }
    }

    /// The records of an SGLang engine.
    pub(crate) fn take_sglang_log(&mut self) -> Vec<SglangRecord> {
        match self {
            Engine::Vllm(_) => Vec::new(),
            Engine::Sglang(replica) => replica.take_log(),
        }
    }

    /// Replaces the order of an SGLang queue in each logged pass.
    pub(crate) fn replay_orders(&mut self, orders: Vec<Vec<RequestId>>) {
        if let Engine::Sglang(replica) = self {
            replica.replayed_orders = Some(orders);
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

    /// Requests inside, drained or not.
    pub(crate) fn inside(&self) -> usize {
        each!(self, replica => replica.inside())
    }

    /// Takes in a request that reaches the engine at `now`.
    #[inline]
    pub(crate) fn offer(&mut self, now: Picos, request: Request) -> Result<Handle, (Refusal, Request)> {
        each!(self, replica => replica.offer(now, request))
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

    /// The pass of the loop that is due at `now`, the horizon of [`Engine::run`], if one is.
    #[inline]
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        match self {
            Engine::Vllm(replica) => replica.pass_at(now, observer),
            Engine::Sglang(replica) => replica.pass_at(now, observer, ended),
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

    /// Tokens at the head of a request's prompt that are cached here.
    pub(crate) fn cached_tokens(&self, request: &Request) -> u32 {
        each!(self, replica => replica.cached_tokens(request))
    }

    /// Fails at `now`: everybody inside leaves unfinished, and the cache is lost.
    pub(crate) fn fail<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        each!(self, replica => replica.fail(now, observer, ended));
    }

    /// Tells everything that has happened.
    pub(crate) fn tell<O: Observer>(&mut self, observer: &mut O) {
        each!(self, replica => replica.tell(observer));
    }
}
