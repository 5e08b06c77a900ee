//! LMCache beside vLLM V1: chunks of KV in host memory, on disk and on a server (LM-1 to LM-13).
//!
//! What is modelled: look-up tier by tier behind the prefix cache, whole chunks, pins, the copy back into host memory,
//! stores within the step that computed, writes onward without waiting, four policies of eviction, loads with the step,
//! layer by layer or aside, and what survives a failure.
//!
//! What is left out. Bandwidths are this file's assumptions, not LMCache's (LM-11): each link is used by one load after the
//! other, and the loads of several replicas from one server do not slow each other. Host memory has no fragments, and
//! a chunk that is still written onward may be evicted from it. A look-up takes as long on a miss as on a hit. In
//! vLLM's asynchronous loop, stores of a step make room when the step is decided, one step early. Loads aside are as LM-4
//! has them: blocks are held while the KV comes.
//!
//! Cost: an admission costs O(chunks of its prompt), a step O(chunks that it completes).

mod connector;
#[cfg(test)]
mod tests;
mod tiers;

use std::cell::RefCell;
use std::rc::Rc;

use connector::Lmcache;
use tiers::RemoteServer;

use super::any::Engine;
use crate::kv::{CachePolicy, Shelf};
use crate::units::{Bytes, BytesPerSec, Picos};

/// LMCache after every default has been resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct LmcacheConfig {
    /// Tokens of a chunk, `chunk_size`.
    pub chunk_size: u32,
    /// The last, partial chunk of a prompt is stored, too.
    pub save_unfull_chunk: bool,
    /// Generated tokens are stored, too; every sequence is then visited in every step.
    pub save_decode_cache: bool,
    /// Fewer tokens than these are computed rather than loaded.
    pub min_retrieve_tokens: u32,
    /// Which chunk goes first, in host memory and on disk.
    pub cache_policy: CachePolicy,
    /// Loads do not hold up the batch (`enable_async_loading`).
    pub enable_async_loading: bool,
    /// Layers, if loads and stores overlap with the computation layer by layer (`use_layerwise`).
    pub layers: Option<u32>,
    /// KV bytes of a token on one rank.
    pub bytes_per_token: Bytes,
    /// Ranks that store a share each, all at once.
    pub ranks: u32,
    /// What a look-up takes.
    pub lookup_latency: Picos,
    /// Host memory → GPU, of one rank.
    pub load_bandwidth: BytesPerSec,
    /// GPU → host memory, of one rank.
    pub store_bandwidth: BytesPerSec,
    /// Host memory of one rank for chunks; `None` without `local_cpu`.
    pub host: Option<Bytes>,
    /// The local disk.
    pub disk: Option<TierConfig>,
    /// The server that all replicas share.
    pub remote: Option<TierConfig>,
}

/// A tier behind host memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierConfig {
    /// Room: of one rank on disk, of all ranks and replicas on a server.
    pub capacity: Bytes,
    /// Of all ranks of a replica together.
    pub read_bandwidth: BytesPerSec,
    /// Likewise.
    pub write_bandwidth: BytesPerSec,
    /// What a load takes before its first byte.
    pub latency: Picos,
}

impl LmcacheConfig {
    /// Bytes of so many tokens on one rank.
    #[must_use]
    pub fn rank_bytes(&self, tokens: u32) -> Bytes {
        self.bytes_per_token * u64::from(tokens)
    }

    /// Bytes of so many tokens on all ranks that store.
    #[must_use]
    pub fn all_bytes(&self, tokens: u32) -> Bytes {
        self.rank_bytes(tokens) * u64::from(self.ranks)
    }
}

/// Gives each of the engines, which are vLLM's, an LMCache of its own, and all of them one server.
pub(crate) fn connect(engines: &mut [Engine], config: &LmcacheConfig) {
    let server: Option<RemoteServer> = config.remote.map(|remote| {
        let shelf = Shelf::new(CachePolicy::Lru, remote.capacity);
        Rc::new(RefCell::new(shelf))
    });
    for engine in engines {
        let replica = engine.vllm_mut().expect("LMCache is judged to go with vLLM");
        replica.connect(Box::new(Lmcache::new(config.clone(), server.clone())));
        replica.stepwise |= config.save_decode_cache;
    }
}

/// How long `bytes` take.
#[must_use]
pub fn transfer_time(bytes: Bytes, rate: BytesPerSec) -> Picos {
    Picos::from_seconds((bytes / rate).0)
}
