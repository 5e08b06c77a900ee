//! Paged KV memory: how many blocks are free, what they cache, and in which order cached contents are evicted; and how
//! large a cache a workload can use.

mod chunks;
mod content;
mod groups;
mod heard;
mod journal;
mod pool;
mod prefix;
mod radix;
mod reuse;
mod shelf;
mod stack;
mod trie;
mod whole;

pub(crate) use chunks::{Chain, ChunkName};
pub use groups::{KvGroups, WindowGroups};
pub(crate) use heard::Heard;
pub(crate) use journal::Journal;
pub(crate) use pool::{BlockPool, Taken};
pub(crate) use prefix::{Held, Match, PrefixPool};
pub(crate) use radix::{Found, NodeId, ROOT, RadixTree};
pub(crate) use reuse::ReusePool;
pub use shelf::CachePolicy;
pub(crate) use shelf::Shelf;
pub(crate) use stack::StackDistances;
pub(crate) use trie::{Place, TRUNK, Trie};
pub(crate) use whole::Whole;
