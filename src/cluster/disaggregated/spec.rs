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

/// How long a NIXL prefill replica keeps blocks that are not read (PD-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// vLLM 0.11: so long after the prefill, whatever happens (`VLLM_NIXL_ABORT_REQUEST_TIMEOUT`).
    Fixed(Picos),
    /// vLLM 0.33: so long after the prefill (`kv_lease_duration`), and two thirds of it after every heartbeat of a decode
    /// replica that knows the request; it sends six in that time.
    Renewed(Picos),
}

impl Lease {
    /// Until when the blocks of a prefill that ended at `prefilled` are kept, if the decode replica has known the request
    /// since `known` and has been silent about it since `silent`.
    #[must_use]
    pub fn end(self, prefilled: Picos, known: Option<Picos>, silent: Picos) -> Picos {
        match self {
            Lease::Fixed(time) => prefilled + time,
            Lease::Renewed(time) => {
                let every = (time.0 / 6).max(1);
                let beat = Picos(silent.0 / every * every);
                let first = prefilled + time;
                match known {
                    Some(known) if beat >= known => first.max(beat + Picos(time.0 / 3 * 2)),
                    _ => first,
                }
            }
        }
    }
}

/// What becomes of a request whose KV a NIXL decode replica could not read (`kv_load_failure_policy`, PD-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadFailure {
    /// It fails.
    Fail,
    /// The decode replica computes what is missing itself.
    Recompute,
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
    /// KV of one token that all ranks of a server receive, each over a link of its own (PD-1): what several ranks keep crosses
    /// as often.
    pub kv_bytes_per_token: u64,
    /// Layers, by which P2P NCCL sends.
    pub layers: u32,
    /// The links of each replica, all its ranks together.
    pub links: Vec<LinkRate>,
    /// Of each message (PD-2).
    pub latency: Picos,
    /// NIXL: what the first contact of a prefill replica and a decode replica adds to the transfer (PD-13).
    pub handshake: Picos,
    /// NIXL: how long blocks are kept for a transfer.
    pub lease: Lease,
    /// NIXL: what becomes of a request whose transfer failed.
    pub on_load_failure: LoadFailure,
    /// NIXL and SGLang: share of transfers that fail, when their last byte should be there.
    pub transfer_failure_rate: f64,
    /// One HTTP hop between the proxy and a server; P's answer takes two to become D's request (PD-14).
    pub hop: Picos,
    /// P2P NCCL: what D receives into before it asks for it (`kv_buffer_size`), in bytes; beyond it host memory is used.
    pub receive_buffer: u64,
    /// Bytes per second at which each replica gets KV back from host memory.
    pub host_bytes_per_s: Vec<u64>,
    /// SGLang: `--num-reserved-decode-tokens`.
    pub num_reserved_decode_tokens: u32,
}

#[cfg(test)]
impl Disaggregation {
    /// So many replicas that prefill and that decode, for tests that look at neither links nor requests.
    pub(crate) fn plain(prefill: u32, decode: u32) -> Disaggregation {
        let link = LinkRate { send: 1, receive: 1 };
        let replicas = (prefill + decode) as usize;
        Disaggregation {
            flow: Flow::Nixl,
            prefill,
            prefill_policy: Policy::RoundRobin,
            decode,
            decode_policy: Policy::RoundRobin,
            kv_bytes_per_token: 1,
            layers: 1,
            links: vec![link; replicas],
            latency: Picos::ZERO,
            handshake: Picos::ZERO,
            lease: Lease::Fixed(Picos::ZERO),
            on_load_failure: LoadFailure::Fail,
            transfer_failure_rate: 0.0,
            hop: Picos::ZERO,
            receive_buffer: 0,
            host_bytes_per_s: vec![1; replicas],
            num_reserved_decode_tokens: 0,
        }
    }
}
