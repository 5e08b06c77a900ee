//! LMCache's keys, as its own configuration file has them, and what Plimsoll asks beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::scalar::{Count, Duration};

/// Tiers of KV beside a vLLM replica's GPUs: LMCache. Any key switches it on, as `--kv-transfer-config` with
/// LMCacheConnectorV1 does. Keys without a bandwidth or a latency in their name are LMCache's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawLmcache {
    /// Tokens of a chunk, the unit that is stored, found and loaded; 256.
    pub chunk_size: Option<Count>,
    /// Chunks are kept in host memory; true.
    pub local_cpu: Option<bool>,
    /// Host memory for chunks, in GiB, of each rank; 5.
    pub max_local_cpu_size: Option<f64>,
    /// Folder of a local disk that chunks are kept on, too; its name does not matter here.
    pub local_disk: Option<String>,
    /// Room on that disk, in GiB, of each rank.
    pub max_local_disk_size: Option<f64>,
    /// Server that chunks are kept on, too, and that all replicas share; its name does not matter here.
    pub remote_url: Option<String>,
    /// Generated tokens are stored, too; false.
    pub save_decode_cache: Option<bool>,
    /// The last, partial chunk of a prompt is stored, too; false.
    pub save_unfull_chunk: Option<bool>,
    /// Loads and stores overlap with the computation layer by layer; false.
    pub use_layerwise: Option<bool>,
    /// A sequence waits aside for its load, and nobody with it; false.
    pub enable_async_loading: Option<bool>,
    /// Which chunk goes when there is no room; LRU.
    pub cache_policy: Option<RawCachePolicy>,
    /// Fewer tokens than these are computed rather than loaded; 0.
    pub min_retrieve_tokens: Option<Count>,
    /// Not LMCache's: what a look-up takes; 1 ms.
    pub lookup_latency: Option<Duration>,
    /// Not LMCache's: host memory to GPU, of one rank; 20 GB/s.
    pub load_bandwidth: Option<String>,
    /// Not LMCache's: GPU to host memory, of one rank; as load_bandwidth.
    pub store_bandwidth: Option<String>,
    /// Not LMCache's: reading from disk, all ranks of a replica together; 5 GB/s.
    pub disk_read_bandwidth: Option<String>,
    /// Not LMCache's: writing to disk; 2 GB/s.
    pub disk_write_bandwidth: Option<String>,
    /// Not LMCache's: before a load's first byte from disk; 100 µs.
    pub disk_latency: Option<Duration>,
    /// Not LMCache's: from the server and to it, of one replica; 5 GB/s.
    pub remote_bandwidth: Option<String>,
    /// Not LMCache's: before a load's first byte from the server; 500 µs.
    pub remote_latency: Option<Duration>,
    /// Not LMCache's: room on the server, in GiB, of all replicas together; no limit.
    pub max_remote_size: Option<f64>,
}

/// LMCache's `cache_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RawCachePolicy {
    /// The one whose last use lies furthest back.
    Lru,
    /// The one used least often.
    Lfu,
    /// The one stored first.
    Fifo,
    /// The one used last.
    Mru,
}
