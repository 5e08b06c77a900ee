//! What is lost between prefill and decode, and what a first contact costs: judged flow by flow, version by version.

use super::links::time;
use super::refuse_foreign;
use crate::cluster::{ChangeKind, ClusterSpec, Flow, Lease, LoadFailure};
use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::{RawLink, RawLoadFailure, RawScenario};
use crate::config::scalar::{Count, Duration};
use crate::engine::EngineSpec;
use crate::units::Picos;

/// `kv_lease_duration` of vLLM 0.33's NIXL connector (PD-8).
const KV_LEASE_DURATION: Picos = Picos(30_000_000_000_000);
/// `VLLM_NIXL_ABORT_REQUEST_TIMEOUT` of vLLM 0.11 (PD-8).
const ABORT_REQUEST_TIMEOUT: Picos = Picos(120_000_000_000_000);
/// What the first contact costs; nothing unless somebody says so.
pub(super) fn handshake(judge: &mut Judge, link: &RawLink, flow: Flow) -> Picos {
    let key = "cluster.link.handshake";
    if let Some(text) = &link.handshake {
        refuse_foreign(judge, key, flow, Flow::Nixl);
        return time(judge, key, Some(text), Picos::ZERO);
    }
    if flow == Flow::Nixl {
        let why = "the first contact of two replicas, 50 to 500 ms in practice, is left out".to_string();
        judge.assume(key, "0 s".to_string(), Source::Assumption(why));
    }
    Picos::ZERO
}

/// The link's keys, and where they leave something out what vLLM's `KVTransferConfig` says of it.
pub(super) fn with_connector(judge: &mut Judge, raw: &RawScenario) -> RawLink {
    let mut link = raw.cluster.link.clone();
    let json = raw.engine.kv_transfer_config.as_deref().unwrap_or_default();
    // What cannot be read is told where the flow is looked for.
    let config = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    let has = |name: &str| config.get("kv_connector").and_then(serde_json::Value::as_str) == Some(name);
    if has("P2pNcclConnector") && link.kv_buffer_size.is_none() {
        let size = config.get("kv_buffer_size").and_then(serde_json::Value::as_f64);
        link.kv_buffer_size = size
            .filter(|size| *size >= 0.0)
            .map(|size| Count(size.round() as u64));
    }
    if !has("NixlConnector") {
        return link;
    }
    let lease = config.pointer("/kv_connector_extra_config/kv_lease_duration");
    if let (None, Some(seconds)) = (&link.kv_lease_duration, lease) {
        link.kv_lease_duration = Some(Duration(format!("{seconds} s")));
    }
    let policy = config
        .get("kv_load_failure_policy")
        .and_then(serde_json::Value::as_str);
    if link.kv_load_failure_policy.is_none() {
        link.kv_load_failure_policy = match policy {
            Some("fail") => Some(RawLoadFailure::Fail),
            Some("recompute") => Some(RawLoadFailure::Recompute),
            Some(other) => {
                let label = format!("kv_load_failure_policy is `{other}`");
                let help = "vLLM knows fail and recompute";
                judge.wrong_help("engine.kv_transfer_config", "names no such policy", label, help);
                None
            }
            None => None,
        };
    }
    link
}

/// How long KV is kept that nobody reads, as the engine's version does it.
pub(super) fn lease(judge: &mut Judge, link: &RawLink, flow: Flow, engine: &EngineSpec) -> Lease {
    let is_fixed = engine.profile() == "vllm@0.11";
    let keys = [
        (
            "cluster.link.nixl_abort_request_timeout",
            &link.nixl_abort_request_timeout,
            is_fixed,
        ),
        (
            "cluster.link.kv_lease_duration",
            &link.kv_lease_duration,
            !is_fixed,
        ),
    ];
    let mut given = None;
    for (key, text, is_own) in keys {
        let Some(text) = text else { continue };
        refuse_foreign(judge, key, flow, Flow::Nixl);
        let asked = judge.duration(key, text, false);
        match is_own {
            true => given = asked,
            false => {
                let label = format!("{} does not know it", engine.profile());
                let help = "leave it out: 0.11 has a timeout, 0.33 a lease";
                judge.wrong_help(key, "is another version's", label, help);
            }
        }
    }
    match is_fixed {
        true => Lease::Fixed(given.unwrap_or(ABORT_REQUEST_TIMEOUT)),
        false => Lease::Renewed(given.unwrap_or(KV_LEASE_DURATION)),
    }
}

/// What becomes of a request whose KV cannot be read; said where it can happen.
pub(super) fn on_load_failure(
    judge: &mut Judge,
    link: &RawLink,
    flow: Flow,
    engine: &EngineSpec,
    cluster: &ClusterSpec,
) -> LoadFailure {
    let key = "cluster.link.kv_load_failure_policy";
    let is_old = engine.profile() == "vllm@0.11";
    if let Some(policy) = link.kv_load_failure_policy {
        let (policy, name) = match policy {
            RawLoadFailure::Fail => (LoadFailure::Fail, "fail"),
            RawLoadFailure::Recompute => (LoadFailure::Recompute, "recompute"),
        };
        judge.given(key, name);
        refuse_foreign(judge, key, flow, Flow::Nixl);
        return policy;
    }
    let (policy, name) = match is_old {
        true => (LoadFailure::Recompute, "recompute"),
        false => (LoadFailure::Fail, "fail"),
    };
    let fails = cluster.outages.is_some()
        || link.transfer_failure_rate.is_some()
        || cluster
            .changes
            .iter()
            .any(|change| change.kind == ChangeKind::Fail);
    if flow == Flow::Nixl && fails {
        judge.assume(
            key,
            name.to_string(),
            Source::Profile(engine.profile().to_string()),
        );
    }
    policy
}

pub(super) fn transfer_failure_rate(judge: &mut Judge, link: &RawLink, flow: Flow) -> f64 {
    let key = "cluster.link.transfer_failure_rate";
    let Some(rate) = link.transfer_failure_rate else {
        return 0.0;
    };
    judge.given(key, rate);
    judge.fraction(key, rate, true, true);
    if flow == Flow::P2pNccl && rate > 0.0 {
        let label = "a receive of p2p_nccl that never ends holds its whole batch up";
        judge.wrong_help(key, "is not modelled", label, "leave it out, or choose nixl");
    }
    rate
}
