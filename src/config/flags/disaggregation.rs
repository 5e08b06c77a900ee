//! The flags of prefill and decode pools.

use clap::Args;

use super::editor::{By, Editor, count};
use crate::config::diagnostic::Diagnostic;
use crate::config::document::Document;
use crate::config::raw::{RawFlow, RawLoadFailure, spelled};
use crate::config::scalar::{Count, Duration};

/// Prefill and decode on different replicas.
#[derive(Args, Clone, Debug, Default)]
pub struct DisaggregationFlags {
    /// Replicas that only prefill; with --decode.
    #[arg(long, value_name = "N", help_heading = "Prefill and decode apart")]
    pub prefill: Option<Count>,
    /// Replicas that only decode; with --prefill.
    #[arg(long, value_name = "N", help_heading = "Prefill and decode apart")]
    pub decode: Option<Count>,
    /// SGLang: which half a pasted command starts; --prefill and --decode ask for both.
    #[arg(
        long,
        value_name = "MODE",
        hide = true,
        help_heading = "Prefill and decode apart"
    )]
    pub disaggregation_mode: Option<String>,
    /// How KV gets from prefill to decode; default by engine.
    #[arg(long, value_name = "FLOW", help_heading = "Prefill and decode apart")]
    pub pd_flow: Option<RawFlow>,
    /// The link of each GPU that KV crosses: nvlink, pcie, pcie5, ib-400, eth-100, ….
    #[arg(long, value_name = "KIND", help_heading = "Prefill and decode apart")]
    pub kv_link: Option<String>,
    /// Bandwidth of each GPU's link, one direction, 25GB/s.
    #[arg(long, value_name = "RATE", help_heading = "Prefill and decode apart")]
    pub kv_link_bandwidth: Option<String>,
    /// Latency of each message on it, 30us.
    #[arg(long, value_name = "TIME", help_heading = "Prefill and decode apart")]
    pub kv_link_latency: Option<Duration>,
    /// One HTTP hop between the proxy and a server, 1ms.
    #[arg(long, value_name = "TIME", help_heading = "Prefill and decode apart")]
    pub pd_hop: Option<Duration>,
    /// NIXL: what the first contact of a prefill and a decode replica costs, 200ms; default 0.
    #[arg(long, value_name = "TIME", help_heading = "Prefill and decode apart")]
    pub pd_handshake: Option<Duration>,
    /// NIXL: what becomes of a request whose KV cannot be read.
    #[arg(long, value_name = "POLICY", help_heading = "Prefill and decode apart")]
    pub kv_load_failure_policy: Option<RawLoadFailure>,
    /// NIXL and SGLang: share of transfers that fail.
    #[arg(long, value_name = "SHARE", help_heading = "Prefill and decode apart")]
    pub transfer_failure_rate: Option<f64>,
    /// SGLang: tokens that a decode server keeps free for each request inside.
    #[arg(long, value_name = "N", help_heading = "Prefill and decode apart")]
    pub num_reserved_decode_tokens: Option<Count>,
}

/// Writes the flags into the scenario.
pub(super) fn apply(document: &mut Document, flags: &DisaggregationFlags, by: By<'_>) -> Vec<Diagnostic> {
    let mut editor = Editor::new(document, by);
    editor.set_some("cluster.prefill.replicas", flags.prefill.map(count), "prefill");
    editor.set_some("cluster.decode.replicas", flags.decode.map(count), "decode");
    editor.set_some("cluster.link.flow", flags.pd_flow.map(spelled), "pd-flow");
    editor.set_some("cluster.link.kind", flags.kv_link.clone(), "kv-link");
    let bandwidth = flags.kv_link_bandwidth.clone();
    editor.set_some("cluster.link.bandwidth", bandwidth, "kv-link-bandwidth");
    let text = |time: &Option<Duration>| time.as_ref().map(|time| time.0.clone());
    editor.set_some(
        "cluster.link.latency",
        text(&flags.kv_link_latency),
        "kv-link-latency",
    );
    editor.set_some("cluster.link.hop", text(&flags.pd_hop), "pd-hop");
    editor.set_some(
        "cluster.link.handshake",
        text(&flags.pd_handshake),
        "pd-handshake",
    );
    let policy = flags.kv_load_failure_policy.map(spelled);
    let key = "cluster.link.kv_load_failure_policy";
    editor.set_some(key, policy, "kv-load-failure-policy");
    let key = "cluster.link.transfer_failure_rate";
    editor.set_some(key, flags.transfer_failure_rate, "transfer-failure-rate");
    let reserved = flags.num_reserved_decode_tokens.map(count);
    editor.set_some(
        "cluster.link.num_reserved_decode_tokens",
        reserved,
        "num-reserved-decode-tokens",
    );
    editor.problems
}
