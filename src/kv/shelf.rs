//! One tier of chunks of KV: what it holds, who is pinned, and who goes next.
//!
//! Room is made one unpinned chunk at a time, as the policy has it (LM-7); nothing is known here of time but when a
//! chunk has been written. Law: what was put = what is there + what was evicted + what was lost.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::chunks::ChunkName;
use crate::units::{Bytes, Picos};

/// LMCache's `cache_policy`: which chunk goes when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CachePolicy {
    /// The one whose last use lies furthest back.
    Lru,
    /// The one that was put there first.
    Fifo,
    /// The one used least often; of equals the one whose last use lies furthest back.
    Lfu,
    /// The one used last.
    Mru,
}

/// A chunk in a tier.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    size: Bytes,
    /// From when on it can be found.
    there: Picos,
    pins: u32,
    /// Its place in the order of eviction, which it keeps while it is pinned.
    rank: (u64, u64),
    uses: u64,
}

/// A tier.
#[derive(Debug)]
pub(crate) struct Shelf {
    policy: CachePolicy,
    capacity: Bytes,
    used: Bytes,
    chunks: FxHashMap<ChunkName, Chunk>,
    /// Chunks that nobody pins, the next to be evicted first.
    order: BTreeSet<((u64, u64), ChunkName)>,
    touches: u64,
    evicted: u64,
}

impl Shelf {
    /// An empty tier.
    pub(crate) fn new(policy: CachePolicy, capacity: Bytes) -> Shelf {
        Shelf {
            policy,
            capacity,
            used: Bytes(0),
            chunks: FxHashMap::default(),
            order: BTreeSet::new(),
            touches: 0,
            evicted: 0,
        }
    }

    /// Whether a chunk is found at `now`.
    pub(crate) fn holds(&self, name: ChunkName, now: Picos) -> bool {
        self.chunks.get(&name).is_some_and(|chunk| chunk.there <= now)
    }

    /// Whether a chunk is there or on its way.
    pub(crate) fn knows(&self, name: ChunkName) -> bool {
        self.chunks.contains_key(&name)
    }

    /// Chunks evicted so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How many chunks there are, those on their way included.
    pub(crate) fn len(&self) -> u64 {
        self.chunks.len() as u64
    }

    /// Keeps a chunk from being evicted until it is [unpinned](Shelf::unpin) as often.
    pub(crate) fn pin(&mut self, name: ChunkName) {
        let chunk = self
            .chunks
            .get_mut(&name)
            .expect("only a chunk that is there is pinned");
        if chunk.pins == 0 {
            self.order.remove(&(chunk.rank, name));
        }
        chunk.pins += 1;
    }

    /// Takes back one pin. A chunk that was lost meanwhile is none any more.
    pub(crate) fn unpin(&mut self, name: ChunkName) {
        if let Some(chunk) = self.chunks.get_mut(&name) {
            chunk.pins -= 1;
            if chunk.pins == 0 {
                self.order.insert((chunk.rank, name));
            }
        }
    }

    /// A chunk is used.
    pub(crate) fn touch(&mut self, name: ChunkName) {
        let Some(chunk) = self.chunks.get_mut(&name) else {
            return;
        };
        if self.policy == CachePolicy::Fifo {
            return;
        }
        if chunk.pins == 0 {
            self.order.remove(&(chunk.rank, name));
        }
        self.touches += 1;
        chunk.uses += 1;
        chunk.rank = rank(self.policy, chunk.uses, self.touches);
        if chunk.pins == 0 {
            self.order.insert((chunk.rank, name));
        }
    }

    /// Makes room for `size` beside `reserved`, evicting one chunk at a time. `false` if nothing evictable is left; what
    /// was evicted until then is gone all the same.
    pub(crate) fn make_room(&mut self, size: Bytes, reserved: Bytes) -> bool {
        while self.used + reserved + size > self.capacity {
            let Some((_, name)) = self.order.pop_first() else {
                return false;
            };
            let chunk = self.chunks.remove(&name).expect("what is ordered is there");
            self.used = self.used - chunk.size;
            self.evicted += 1;
        }
        true
    }

    /// Puts a chunk for which there is room; it is found from `there` on. One that is known already stays as it is.
    pub(crate) fn put(&mut self, name: ChunkName, size: Bytes, there: Picos) {
        if self.knows(name) {
            return;
        }
        self.used += size;
        assert!(self.used <= self.capacity, "room was made before");
        self.touches += 1;
        let chunk = Chunk {
            size,
            there,
            pins: 0,
            rank: rank(self.policy, 1, self.touches),
            uses: 1,
        };
        self.order.insert((chunk.rank, name));
        self.chunks.insert(name, chunk);
    }

    /// Takes out a chunk that did not arrive; whether it was expected.
    pub(crate) fn lose(&mut self, name: ChunkName) -> bool {
        let Some(chunk) = self.chunks.remove(&name) else {
            return false;
        };
        self.order.remove(&(chunk.rank, name));
        self.used = self.used - chunk.size;
        true
    }

    /// Loses everything.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.order.clear();
        self.used = Bytes(0);
    }
}

/// Place in the order of eviction, smallest first, of a chunk used `uses` times, last at `touch`.
fn rank(policy: CachePolicy, uses: u64, touch: u64) -> (u64, u64) {
    match policy {
        CachePolicy::Lru | CachePolicy::Fifo => (0, touch),
        CachePolicy::Lfu => (uses, touch),
        CachePolicy::Mru => (0, u64::MAX - touch),
    }
}
