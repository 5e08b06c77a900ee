//! Prefill and decode pools: what goes between them, judged when the servers of both are known.

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawFlow, RawLink, RawScenario};
use super::server::Server;
use crate::cluster::router::Policy;
use crate::cluster::{ClusterSpec, Disaggregation, Flow, LinkRate};
use crate::engine::EngineSpec;
use crate::hardware::Device;
use crate::nearest::nearest;
use crate::quantity::{format_rate, parse_rate};
use crate::sim::{Pool, Role};
use crate::units::{BytesPerSec, Picos};

/// Links that are not the GPU's own: name and bytes per second one way, as their standards have it. PCIe is ×16.
const LINKS: [(&str, f64); 15] = [
    ("pcie3", 16e9),
    ("pcie4", 32e9),
    ("pcie5", 64e9),
    ("pcie6", 128e9),
    ("ib-100", 12.5e9),
    ("ib-200", 25e9),
    ("ib-400", 50e9),
    ("ib-800", 100e9),
    ("eth-10", 1.25e9),
    ("eth-25", 3.125e9),
    ("eth-50", 6.25e9),
    ("eth-100", 12.5e9),
    ("eth-200", 25e9),
    ("eth-400", 50e9),
    ("eth-800", 100e9),
];

/// `kv_buffer_size` of vLLM's `KVTransferConfig` (0.11).
const KV_BUFFER_SIZE: u64 = 1_000_000_000;
/// `--num-reserved-decode-tokens` of SGLang.
const RESERVED_DECODE_TOKENS: u32 = 512;
/// PD-2 gives 10 to 50 µs for a group of RDMA writes.
const LATENCY: Picos = Picos(30_000_000);
/// The hop of golden example G7.
const HOP: Picos = Picos(1_000_000_000);

/// Whether a scenario's pools have roles, and those go together; what does not is reported.
pub(super) fn check_roles(judge: &mut Judge, raw: &RawScenario, roles: &[Role]) -> bool {
    let count = |wanted: Role| roles.iter().filter(|&&role| role == wanted).count();
    let (prefill, decode) = (count(Role::Prefill), count(Role::Decode));
    if prefill + decode == 0 {
        if raw.cluster.link != RawLink::default() {
            let help = "add --prefill N --decode N, or leave it out";
            judge.wrong_help(
                "cluster.link",
                "has no effect",
                "no pool only prefills or decodes",
                help,
            );
        }
        return false;
    }
    if (prefill, decode) != (1, 1) || roles.len() != 2 {
        let label = format!(
            "{prefill} pools prefill, {decode} decode, {} do both",
            roles.len() - prefill - decode
        );
        let help = "give one pool role = \"prefill\" and one role = \"decode\", or --prefill N --decode N";
        judge.wrong_help(
            "cluster.pools",
            "must be one that prefills and one that decodes",
            label,
            help,
        );
    }
    true
}

/// What goes with fleets whose replicas do everything, and not with roles.
pub(super) fn check_cluster(judge: &mut Judge, cluster: &ClusterSpec) {
    let help = "leave it out, or let every replica do both";
    if !cluster.changes.is_empty() {
        let label = "what happens to a transfer then is not modelled";
        judge.wrong_help(
            "cluster.events",
            "does not go with prefill and decode pools yet",
            label,
            help,
        );
    }
    if !cluster.scalers.is_empty() {
        let label = "who is sent where while a pool grows is not modelled";
        let key = "cluster.autoscale";
        judge.wrong_help(key, "does not go with prefill and decode pools yet", label, help);
    }
    if cluster.outages.is_some() {
        let key = "cluster.mean_time_between_failures";
        let label = "what happens to a transfer then is not modelled";
        judge.wrong_help(key, "does not go with prefill and decode pools yet", label, help);
    }
    if cluster
        .groups
        .iter()
        .any(|group| matches!(group.policy, Policy::VllmDataParallel(_)))
    {
        let label = "it balances the engines of one server";
        let help = "choose another router, round_robin is what vLLM's proxy does";
        judge.wrong_help("cluster.router", "is no router between pools", label, help);
    }
}

/// The loops of SGLang's two halves are not its scheduler's: what an interval would do in them is not known.
fn refuse_interval(judge: &mut Judge, engines: [&EngineSpec; 2]) {
    let has_interval = |engine: &&EngineSpec| matches!(engine, EngineSpec::Sglang(config) if config.prefill_decode_interval > 0);
    if engines.iter().any(has_interval) {
        let key = "sglang.prefill_decode_interval";
        let label = "a server either prefills or decodes";
        judge.wrong_help(
            key,
            "does not go with prefill and decode pools",
            label,
            "leave it out",
        );
    }
}

/// The flow and the network between a prefill pool and a decode pool, in this order.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    pools: &mut [Pool],
    servers: &[Server],
    cluster: &ClusterSpec,
) -> Option<Disaggregation> {
    let ([prefill, decode], [at_prefill, at_decode]) = (pools, servers) else {
        return None;
    };
    if (prefill.role, decode.role) != (Role::Prefill, Role::Decode) {
        return None;
    }
    refuse_interval(judge, [&prefill.engine, &decode.engine]);
    let link = &raw.cluster.link;
    let flow = flow(judge, raw, &prefill.engine, &decode.engine);
    let bytes = |server: &Server| server.model.kv_bytes_per_token(server.placement.kv_dtype, 1).0;
    let (kv_bytes_per_token, theirs) = (bytes(at_prefill), bytes(at_decode));
    if kv_bytes_per_token != theirs {
        let label = format!("{kv_bytes_per_token} and {theirs} bytes of KV a token");
        let help = "give both the same kv_cache_dtype";
        judge.wrong_help("cluster.pools", "must keep KV in the same format", label, help);
    }
    if prefill.engine.block_size() != decode.engine.block_size() {
        let label = format!(
            "{} and {} tokens",
            prefill.engine.block_size(),
            decode.engine.block_size()
        );
        let help = "give both the same block size";
        judge.wrong_help("cluster.pools", "must have blocks of the same size", label, help);
    }
    if let EngineSpec::Sglang(config) = &mut decode.engine
        && std::mem::replace(&mut config.radix_cache, false)
    {
        judge
            .notes
            .push("a decode server has no radix cache, so every prompt is sent whole".to_string());
    }
    let gpus = prefill.gpus * prefill.replicas + decode.gpus * decode.replicas;
    let devices = [&at_prefill.device, &at_decode.device];
    let rates = rates(judge, link, devices, gpus)?;
    let rate = |rate: BytesPerSec, pool: &Pool| {
        let bytes_per_s = (rate.0 * f64::from(pool.gpus)).round() as u64;
        LinkRate {
            send: bytes_per_s,
            receive: bytes_per_s,
        }
    };
    let host_bytes_per_s = at_decode.device.pcie.0 * f64::from(decode.gpus);
    Some(Disaggregation {
        flow,
        prefill: prefill.replicas,
        prefill_policy: cluster.groups.first()?.policy,
        decode: decode.replicas,
        decode_policy: cluster.groups.last()?.policy,
        kv_bytes_per_token,
        layers: at_prefill.model.layer_count(),
        prefill_link: rate(rates[0], prefill),
        decode_link: rate(rates[1], decode),
        latency: time(judge, "cluster.link.latency", link.latency.as_ref(), LATENCY),
        hop: time(judge, "cluster.link.hop", link.hop.as_ref(), HOP),
        receive_buffer: match link.kv_buffer_size {
            Some(size) => size.0,
            None => KV_BUFFER_SIZE,
        },
        host_bytes_per_s: host_bytes_per_s.round() as u64,
        num_reserved_decode_tokens: match link.num_reserved_decode_tokens {
            Some(tokens) => judge.required("cluster.link.num_reserved_decode_tokens", tokens, (0, 1 << 20)),
            None => RESERVED_DECODE_TOKENS,
        },
    })
}

fn time(judge: &mut Judge, key: &str, given: Option<&super::scalar::Duration>, default: Picos) -> Picos {
    match given {
        Some(text) => judge.duration(key, text, true).unwrap_or(default),
        None => {
            let source = Source::Assumption("of the usual order; measure it".to_string());
            judge.assume(key, default.to_string(), source);
            default
        }
    }
}

/// How KV gets across: as asked, else as the engine does.
fn flow(judge: &mut Judge, raw: &RawScenario, prefill: &EngineSpec, decode: &EngineSpec) -> Flow {
    let are_sglang = [prefill, decode].map(|engine| matches!(engine, EngineSpec::Sglang(_)));
    if are_sglang[0] != are_sglang[1] {
        let label = format!("{} and {}", prefill.profile(), decode.profile());
        let help = "give both pools the same engine";
        judge.wrong_help("cluster.pools", "must be of one engine", label, help);
    }
    for engine in [prefill, decode] {
        if let EngineSpec::Scheduled(_) = engine {
            let help = "serve by vLLM 0.8 or later, or by SGLang";
            let label = format!("{} does both in one place", engine.profile());
            judge.wrong_help("cluster.pools", "must be of an engine that sends KV", label, help);
        }
    }
    let by_connector = connector(judge, raw);
    let key = "cluster.link.flow";
    let asked = match raw.cluster.link.flow {
        Some(flow) => {
            let flow = match flow {
                RawFlow::Nixl => Flow::Nixl,
                RawFlow::P2pNccl => Flow::P2pNccl,
                RawFlow::Sglang => Flow::Sglang,
            };
            judge.given(key, flow.name());
            Some(flow)
        }
        None => by_connector,
    };
    let default = if are_sglang[0] { Flow::Sglang } else { Flow::Nixl };
    let Some(flow) = asked else {
        let source = Source::Assumption("the engine's own way".to_string());
        judge.assume(key, default.name().to_string(), source);
        return default;
    };
    if (flow == Flow::Sglang) != are_sglang[0] {
        let label = format!("{} serves", prefill.profile());
        let help = format!("leave it out; this engine's default is {}", default.name());
        judge.wrong_help(key, "is the way of another engine", label, help);
    }
    flow
}

/// The flow of `--kv-transfer-config`.
fn connector(judge: &mut Judge, raw: &RawScenario) -> Option<Flow> {
    let json = raw.engine.kv_transfer_config.as_deref()?;
    flow_of_connector(judge, json)
}

/// A connector between pools has nothing to connect where every replica does both.
pub(super) fn refuse_connector(judge: &mut Judge, raw: &RawScenario) {
    let is_asked = raw
        .engine
        .kv_transfer_config
        .as_deref()
        .is_some_and(is_between_pools);
    if judge.problems.is_empty() && is_asked {
        let help = "say how many replicas do what: --prefill 1 --decode 1";
        let label = "every replica prefills and decodes";
        judge.wrong_help("engine.kv_transfer_config", "connects nothing", label, help);
    }
}

/// Whether a `KVTransferConfig` names a connector between prefill and decode.
pub(super) fn is_between_pools(json: &str) -> bool {
    let config = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    let name = config.get("kv_connector").and_then(serde_json::Value::as_str);
    matches!(name, Some("NixlConnector" | "P2pNcclConnector"))
}

/// Reads vLLM's `KVTransferConfig`; what names no connector between pools is reported.
pub(super) fn flow_of_connector(judge: &mut Judge, json: &str) -> Option<Flow> {
    let key = "engine.kv_transfer_config";
    judge.given(key, json);
    let help = "write '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}'";
    let Ok(serde_json::Value::Object(config)) = serde_json::from_str(json) else {
        judge.wrong_help(key, "is not a JSON object", "this cannot be read", help);
        return None;
    };
    let text = |name: &str| config.get(name).and_then(serde_json::Value::as_str);
    let role = text("kv_role");
    if !matches!(role, None | Some("kv_producer" | "kv_consumer" | "kv_both")) {
        let label = "kv_producer, kv_consumer or kv_both";
        judge.wrong_help(key, "has no such role", label, help);
    }
    match text("kv_connector") {
        Some("NixlConnector") => Some(Flow::Nixl),
        Some("P2pNcclConnector") => Some(Flow::P2pNccl),
        other => {
            let label = other.unwrap_or("none is given").to_string();
            judge.wrong_help(
                key,
                "names a connector that is not modelled between pools",
                label,
                help,
            );
            None
        }
    }
}

/// The bandwidth of each GPU's link in both pools.
fn rates(judge: &mut Judge, link: &RawLink, devices: [&Device; 2], gpus: u32) -> Option<[BytesPerSec; 2]> {
    if let Some(text) = &link.bandwidth {
        let key = "cluster.link.bandwidth";
        judge.given(key, text);
        return match parse_rate(text) {
            Ok(rate) if rate.0 >= 1e6 && rate.0 < 1e18 => Some([rate; 2]),
            Ok(_) => {
                judge.wrong_help(
                    key,
                    "is no bandwidth of a link",
                    "below 1 MB/s or beyond reason",
                    "write 25GB/s",
                );
                None
            }
            Err(error) => {
                judge.wrong_help(key, "is no bandwidth", error.to_string(), "write 25GB/s");
                None
            }
        };
    }
    let key = "cluster.link.kind";
    let kind = match &link.kind {
        Some(kind) => {
            judge.given(key, kind);
            kind.to_lowercase()
        }
        None => {
            let fits_a_node = devices.iter().all(|device| device.nvlink_of(gpus).is_some());
            let (kind, why) = match fits_a_node {
                true => ("nvlink", "all GPUs fit one node"),
                false => ("ib-400", "a usual network between nodes"),
            };
            judge.assume(key, kind.to_string(), Source::Assumption(why.to_string()));
            kind.to_string()
        }
    };
    let own = |pick: &dyn Fn(&Device) -> Option<BytesPerSec>| -> Option<[BytesPerSec; 2]> {
        Some([pick(devices[0])?, pick(devices[1])?])
    };
    let rates = match kind.as_str() {
        "nvlink" => own(&|device| device.nvlink),
        "pcie" => own(&|device| Some(device.pcie)),
        name => {
            let found = LINKS.iter().find(|(known, _)| *known == name);
            found.map(|&(_, rate)| [BytesPerSec(rate); 2])
        }
    };
    match rates {
        Some(rates) => {
            let each = rates.map(format_rate);
            let said = if each[0] == each[1] {
                each[0].clone()
            } else {
                each.join(" and ")
            };
            judge.notes.push(format!(
                "KV crosses {kind} at {said} a GPU each way, as the standard has it"
            ));
        }
        None if kind == "nvlink" => {
            let help = "choose pcie5, ib-400 or eth-100";
            judge.wrong_help(key, "is not there", "one of the GPUs has no NVLink", help);
        }
        None => {
            let names = ["nvlink", "pcie"]
                .into_iter()
                .chain(LINKS.iter().map(|&(name, _)| name));
            let near = nearest(&kind, names.clone(), 1).first().map(ToString::to_string);
            let known: Vec<&str> = names.collect();
            let help = match near {
                Some(near) => format!("did you mean {near}? known are {}", known.join(", ")),
                None => format!("known are {}", known.join(", ")),
            };
            judge.wrong_help(key, "is no link", "unknown", help);
        }
    }
    rates
}
