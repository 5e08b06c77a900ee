//! What a disaggregated cluster is made of, beside its engines.

use crate::cluster::links::LinkRate;
use crate::cluster::router::Policy;
use crate::units::Picos;

/// How KV gets from prefill to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// vLLM, NIXL: decode reads after prefill.
    Nixl,
    /// vLLM, P2P NCCL: prefill pushes in its last step.
    P2pNccl,
    /// SGLang: both know at once, chunks are sent as they are computed.
    Sglang,
}

impl Flow {
    /// As `--pd-flow` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flow::Nixl => "nixl",
            Flow::P2pNccl => "p2p_nccl",
            Flow::Sglang => "sglang",
        }
    }
}

/// Pools with roles and the network between them. The first `prefill` replicas of the cluster prefill, the rest decodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Disaggregation {
    /// How KV gets across.
    pub flow: Flow,
    /// Replicas that prefill.
    pub prefill: u32,
    /// Who of them gets a request.
    pub prefill_policy: Policy,
    /// Replicas that decode.
    pub decode: u32,
    /// Who of them gets it then.
    pub decode_policy: Policy,
    /// KV of one token, all ranks together, each of which moves its share over a link of its own (PD-1).
    pub kv_bytes_per_token: u64,
    /// Layers, by which P2P NCCL sends.
    pub layers: u32,
    /// The links of a prefill replica, all its ranks together.
    pub prefill_link: LinkRate,
    /// The links of a decode replica.
    pub decode_link: LinkRate,
    /// Of each message (PD-2).
    pub latency: Picos,
    /// One HTTP hop between the proxy and a server; P's answer takes two to become D's request (PD-14).
    pub hop: Picos,
    /// P2P NCCL: what D receives into before it asks for it (`kv_buffer_size`), in bytes; beyond it host memory is used.
    pub receive_buffer: u64,
    /// Bytes per second at which D gets KV back from host memory.
    pub host_bytes_per_s: u64,
    /// SGLang: `--num-reserved-decode-tokens`.
    pub num_reserved_decode_tokens: u32,
}
