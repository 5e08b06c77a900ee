//! Prefill and decode on different replicas: what goes between them.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::scalar::{Count, Duration};

/// The way of KV from prefill to decode replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawLink {
    /// How KV gets across; default nixl for vLLM, sglang for SGLang.
    pub flow: Option<RawFlow>,
    /// The link of each GPU: nvlink, pcie (as the GPU's profile has them), pcie3 to pcie6, ib-100 to ib-800 and eth-10 to
    /// eth-800 by their Gbit/s.
    pub kind: Option<String>,
    /// Bandwidth of each GPU's link, one direction, `"25 GB/s"`; replaces the kind's.
    pub bandwidth: Option<String>,
    /// Latency of each message; default 30 µs.
    pub latency: Option<Duration>,
    /// One HTTP hop between the proxy and a server; P's answer takes two to become D's request; default 1 ms.
    pub hop: Option<Duration>,
    /// NIXL: what the first contact of a prefill and a decode replica costs; 50 to 500 ms in practice, default 0.
    pub handshake: Option<Duration>,
    /// NIXL of vLLM 0.33: how long a prefill replica keeps KV that nobody reads, renewed while the decode replica lives;
    /// default 30 s.
    pub kv_lease_duration: Option<Duration>,
    /// NIXL of vLLM 0.11: how long a prefill replica keeps KV that is not read (VLLM_NIXL_ABORT_REQUEST_TIMEOUT); default
    /// 120 s.
    pub nixl_abort_request_timeout: Option<Duration>,
    /// NIXL: what becomes of a request whose KV cannot be read; default fail, and recompute in vLLM 0.11.
    pub kv_load_failure_policy: Option<RawLoadFailure>,
    /// NIXL and SGLang: share of transfers that fail, default 0.
    pub transfer_failure_rate: Option<f64>,
    /// P2P NCCL: what a decode replica receives into before it asks for it, in bytes; default 1e9.
    pub kv_buffer_size: Option<Count>,
    /// SGLang: tokens that a decode server keeps free for each request inside; default 512.
    pub num_reserved_decode_tokens: Option<Count>,
}

/// What becomes of a request whose KV cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawLoadFailure {
    /// It fails.
    Fail,
    /// Its decode replica computes it.
    Recompute,
}

/// How KV gets from prefill to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawFlow {
    /// vLLM: decode reads after prefill.
    Nixl,
    /// vLLM 0.11: prefill pushes in its last step.
    P2pNccl,
    /// SGLang: decode reserves first, prefill sends chunk by chunk.
    Sglang,
}
