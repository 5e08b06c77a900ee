//! Who gets a request: the routers of the field.
//!
//! A router sees what a real one sees: the requests that it sent and that have not been answered, and, where the real
//! one is told, the engines' own reports. It sees replicas that are up only.

mod active;
mod balance;
mod cache_aware;
mod expiring;
mod hashing;
mod kv_events;
mod reports;
mod sglang;
mod text_tree;

pub use cache_aware::CacheAware;
pub use kv_events::{KvEvents, Overlap};
pub use reports::DataParallelScore;
pub use sglang::TotalLoad;

use crate::engine::State;
use crate::engine::sglang::LoadSnapshot;
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};
use crate::units::Picos;
use crate::workload::Request;

/// A routing policy and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// In turn.
    RoundRobin,
    /// Uniformly at random.
    Random,
    /// Fewest requests in flight; of equals the first.
    LeastRequests,
    /// Fewest tokens in flight: prompt plus `max_tokens` of each request; of equals the first.
    LeastTokens,
    /// The less loaded by requests of two distinct random ones; the first of equals (`sglang_router`, `power_of_two`).
    PowerOfTwo,
    /// The replica that a conversation or user was on before; a new one in turn.
    SessionAffinity,
    /// By a hash of the first 256 prompt tokens on a ring, if its load is at most 1.25 times the mean, else the least
    /// loaded (`sglang_router`, `prefix_hash`).
    PrefixHash,
    /// `sglang_router`, `cache_aware`.
    CacheAware(CacheAware),
    /// A router that follows the engines' KV events (NVIDIA Dynamo, `DefaultWorkerSelector` at temperature 0).
    KvEvents(KvEvents),
    /// vLLM's balancer between the engines of one data-parallel server (`DPLBAsyncMPClient`).
    VllmDataParallel(DataParallelScore),
    /// SGLang 0.5.4 between the ranks of one data-parallel server, `load_balance_method = shortest_queue` (SG-49).
    ShortestQueue {
        /// From one question to all ranks to the next (`load_watch_interval`).
        watch_interval: Picos,
    },
    /// SGLang 0.5.23 between them, `total_requests` or `total_tokens` (SG-49).
    TotalLoad {
        /// Which load.
        by: TotalLoad,
        /// Results of decodes from one snapshot of a rank to the next (`load_snapshot_publish_interval`).
        publish_interval: u32,
    },
}

/// What a router knows of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// It takes requests.
    pub is_up: bool,
    /// Requests sent to it and not answered.
    pub requests: u32,
    /// Their prompt tokens and `max_tokens`.
    pub tokens: u64,
    /// What it reported last, where reports are asked for.
    pub reported: State,
    /// Requests sent to it since then.
    pub sent_since_report: u32,
    /// What it told of its load when that was last read, where SGLang's controller asks for it.
    pub snapshot: LoadSnapshot,
}

/// All replicas, as a router sees them.
pub struct View<'a> {
    /// One for each replica.
    pub loads: &'a [Load],
    /// Tokens of the request's prompt that each replica has cached, as far as its KV events have been heard, for a router
    /// that [follows](Router::follows_events) them.
    pub cached_tokens: &'a [u32],
    /// Tokens of everything that a replica has cached, as it is now.
    pub index_tokens: &'a dyn Fn(usize) -> u64,
}

impl View<'_> {
    /// The replicas that are up, with their loads.
    pub fn up(&self) -> impl Iterator<Item = (usize, &Load)> {
        self.loads.iter().enumerate().filter(|(_, load)| load.is_up)
    }

    /// The first of those that are up whose `key` is smallest.
    fn least<K: PartialOrd>(&self, key: impl Fn(usize, &Load) -> K) -> Option<usize> {
        let mut best: Option<(K, usize)> = None;
        for (index, load) in self.up() {
            let rank = key(index, load);
            if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, index));
            }
        }
        best.map(|(_, index)| index)
    }

    fn fewest_requests(&self) -> Option<usize> {
        self.least(|_, load| load.requests)
    }
}

/// Decides who gets a request. One method is needed; a policy with a memory of its own also hears of answers.
pub trait Router: Send {
    /// The replica that gets `request` at `now`, one of those up; `None` if none is.
    fn route(&mut self, request: &Request, now: Picos, view: &View<'_>) -> Option<usize>;

    /// The first token of a request has come; told only to those who [ask](Router::follows_first_tokens).
    fn first_token(&mut self, _request: RequestId) {}

    /// Whether [`Router::first_token`] is called.
    fn follows_first_tokens(&self) -> bool {
        false
    }

    /// A request that was routed has left its replica, or was refused there.
    fn left(&mut self, _request: RequestId) {}

    /// Whether it hears what replicas store and evict.
    fn follows_events(&self) -> bool {
        false
    }

    /// Requests that it still counts as somewhere.
    fn remembered(&self) -> usize {
        0
    }

    /// How often engines report how full they are; `None` if nobody asks.
    fn reports_every(&self) -> Option<Picos> {
        None
    }

    /// All of them have reported.
    fn heard(&mut self, _loads: &[Load]) {}

    /// Whether it reads what engines have written of their load before it routes a request at `now`.
    fn reads_snapshots(&self, _now: Picos) -> bool {
        false
    }
}

impl Policy {
    /// How late a router of this policy hears what replicas store and evict; `None` if it does not.
    #[must_use]
    pub fn event_latency(self) -> Option<Picos> {
        match self {
            Policy::KvEvents(KvEvents {
                overlap: Overlap::Events { latency },
                ..
            }) => Some(latency),
            _ => None,
        }
    }

    /// How often engines behind a router of this policy write what load they have, if they do.
    #[must_use]
    pub fn publish_interval(self) -> Option<u32> {
        match self {
            Policy::TotalLoad { publish_interval, .. } => Some(publish_interval),
            _ => None,
        }
    }

    /// Whether it sends a request to whoever has least to do, whatever the request is.
    #[must_use]
    pub fn levels_loads(self) -> bool {
        match self {
            Policy::LeastRequests
            | Policy::LeastTokens
            | Policy::PowerOfTwo
            | Policy::VllmDataParallel(_)
            | Policy::ShortestQueue { .. }
            | Policy::TotalLoad { .. } => true,
            Policy::RoundRobin
            | Policy::Random
            | Policy::SessionAffinity
            | Policy::PrefixHash
            | Policy::CacheAware(_)
            | Policy::KvEvents(_) => false,
        }
    }

    /// The name, as a scenario spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::RoundRobin => "round_robin",
            Policy::Random => "random",
            Policy::LeastRequests => "least_requests",
            Policy::LeastTokens => "least_tokens",
            Policy::PowerOfTwo => "power_of_two",
            Policy::SessionAffinity => "session_affinity",
            Policy::PrefixHash => "prefix_hash",
            Policy::CacheAware(_) => "cache_aware",
            Policy::KvEvents(_) => "kv_events",
            Policy::VllmDataParallel(_) => "vllm_data_parallel",
            Policy::ShortestQueue { .. } => "shortest_queue",
            Policy::TotalLoad { by, .. } => by.name(),
        }
    }

    /// A router of this policy for replicas with KV blocks of these sizes. Routers of one run draw from streams of
    /// their own, which `entity` tells apart.
    #[must_use]
    pub fn router(self, block_sizes: &[u32], seed: u64, entity: u64) -> Box<dyn Router> {
        let replicas = block_sizes.len();
        let rng = || stream(seed, Purpose::Routing, entity);
        match self {
            Policy::RoundRobin => Box::new(balance::RoundRobin::default()),
            Policy::Random => Box::new(balance::Random::new(rng())),
            Policy::LeastRequests => Box::new(balance::LeastRequests),
            Policy::LeastTokens => Box::new(balance::LeastTokens),
            Policy::PowerOfTwo => Box::new(balance::PowerOfTwo::new(rng())),
            Policy::SessionAffinity => Box::new(hashing::SessionAffinity::default()),
            Policy::PrefixHash => Box::new(hashing::PrefixHash::new(replicas)),
            Policy::CacheAware(options) => Box::new(cache_aware::CacheAwareRouter::new(options, replicas)),
            Policy::KvEvents(options) => Box::new(kv_events::KvEventRouter::new(options, block_sizes, rng())),
            Policy::VllmDataParallel(score) => Box::new(reports::VllmDataParallel::new(score)),
            Policy::ShortestQueue { watch_interval } => Box::new(sglang::ShortestQueue::new(watch_interval)),
            Policy::TotalLoad { by, .. } => Box::new(sglang::LeastTotal::new(by, replicas)),
        }
    }
}

#[cfg(test)]
mod tests;
