//! Prefill and decode pools: what goes between them, judged when the servers of both are known.

pub(super) mod links;
mod losses;
#[cfg(test)]
mod tests;

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawFlow, RawLink, RawScenario};
use super::server::Server;
use crate::cluster::router::Policy;
use crate::cluster::{ClusterSpec, Disaggregation, Flow, LinkRate};
use crate::engine::EngineSpec;
use crate::sim::{Pool, Role};
use crate::units::Picos;

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
            let key = judge.document.first_given("cluster.link");
            judge.wrong_help(
                key.as_deref().unwrap_or("cluster.link"),
                "has no effect",
                "no pool only prefills or decodes",
                help,
            );
        }
        return false;
    }
    if roles.len() == 1 {
        let (done, missing) = match roles[0] {
            Role::Prefill => ("only prefills", "--decode N"),
            _ => ("only decodes", "--prefill N"),
        };
        let label = format!("what {done} needs the other beside it");
        judge.wrong_help(
            "cluster.pools.0.replicas",
            "stands alone",
            label,
            format!("add {missing}"),
        );
    } else if prefill == 0 || decode == 0 || prefill + decode < roles.len() {
        let label = format!(
            "{prefill} pools prefill, {decode} decode, {} do both",
            roles.len() - prefill - decode
        );
        let help = "give every pool role = \"prefill\" or role = \"decode\", or --prefill N --decode N";
        judge.wrong_help(
            "cluster.pools",
            "must be some that prefill and some that decode",
            label,
            help,
        );
    }
    true
}

/// What goes with fleets whose replicas do everything, and not with roles.
pub(super) fn check_cluster(judge: &mut Judge, raw: &RawScenario, cluster: &ClusterSpec) {
    let help = "leave it out, or let every replica do both";
    if !cluster.scalers.is_empty() {
        let label = "who is sent where while a pool grows is not modelled";
        let pools = (0..raw.cluster.pools.len()).map(|pool| format!("pools.{pool}"));
        let mut own = (["prefill", "decode"].map(str::to_owned).into_iter())
            .chain(pools)
            .map(|pool| format!("cluster.{pool}.autoscale"));
        let own = own.find(|key| judge.document.get(key).is_some());
        let key = own.as_deref().unwrap_or("cluster.autoscale");
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
fn refuse_interval(judge: &mut Judge, pools: &[Pool]) {
    let has_interval = |engine: &EngineSpec| matches!(engine, EngineSpec::Sglang(config) if config.prefill_decode_interval > 0);
    if pools.iter().map(|pool| &pool.engine).any(has_interval) {
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

/// The flow and the network between prefill pools and decode pools, in this order.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    pools: &mut [Pool],
    servers: &[Server],
    cluster: &ClusterSpec,
) -> Option<Disaggregation> {
    let prefills = pools.iter().take_while(|pool| pool.role == Role::Prefill).count();
    if prefills == 0 || prefills == pools.len() {
        return None;
    }
    let [for_prompts, for_answers] = cluster.groups.as_slice() else {
        let label = format!("they are behind {} routers", cluster.groups.len());
        let help = "let all that prefill serve the same prompts and models, and all that decode";
        judge.wrong_help("cluster.pools", "must be one group for each role", label, help);
        return None;
    };
    refuse_interval(judge, pools);
    let link = &losses::with_connector(judge, raw);
    let flow = flow(judge, raw, pools);
    check_alike(judge, pools, servers);
    for pool in &mut pools[prefills..] {
        if let EngineSpec::Sglang(config) = &mut pool.engine
            && std::mem::replace(&mut config.radix_cache, false)
        {
            let note = "a decode server has no radix cache, so every prompt is sent whole".to_string();
            if !judge.notes.contains(&note) {
                judge.notes.push(note);
            }
        }
    }
    let rates = links::rates(judge, link, pools, servers)?;
    let links = pools.iter().zip(rates).flat_map(|(pool, rate)| {
        let bytes_per_s = (rate.0 * f64::from(pool.gpus)).round() as u64;
        let rate = LinkRate {
            send: bytes_per_s,
            receive: bytes_per_s,
        };
        std::iter::repeat_n(rate, pool.replicas as usize)
    });
    let host = pools.iter().zip(servers).flat_map(|(pool, server)| {
        let bytes_per_s = (server.device.pcie.0 * f64::from(pool.gpus)).round() as u64;
        std::iter::repeat_n(bytes_per_s, pool.replicas as usize)
    });
    let replicas = |pools: &[Pool]| pools.iter().map(|pool| pool.replicas).sum();
    let engine = &pools[0].engine;
    Some(Disaggregation {
        flow,
        prefill: replicas(&pools[..prefills]),
        prefill_policy: for_prompts.policy,
        decode: replicas(&pools[prefills..]),
        decode_policy: for_answers.policy,
        kv_bytes_per_token: servers[prefills..].iter().map(received_bytes).max().unwrap_or(0),
        layers: servers[0].model.layer_count(),
        links: links.collect(),
        host_bytes_per_s: host.collect(),
        latency: links::time(judge, "cluster.link.latency", link.latency.as_ref(), LATENCY),
        handshake: losses::handshake(judge, link, flow),
        lease: losses::lease(judge, link, flow, engine),
        on_load_failure: losses::on_load_failure(judge, link, flow, engine, cluster),
        transfer_failure_rate: losses::transfer_failure_rate(judge, link, flow),
        hop: links::time(judge, "cluster.link.hop", link.hop.as_ref(), HOP),
        receive_buffer: match link.kv_buffer_size {
            Some(size) => {
                let key = "cluster.link.kv_buffer_size";
                judge.given(key, size);
                refuse_foreign(judge, key, flow, Flow::P2pNccl);
                size.0
            }
            None => KV_BUFFER_SIZE,
        },
        num_reserved_decode_tokens: match link.num_reserved_decode_tokens {
            Some(tokens) => {
                let key = "cluster.link.num_reserved_decode_tokens";
                refuse_foreign(judge, key, flow, Flow::Sglang);
                judge.required(key, tokens, (0, 1 << 20))
            }
            None => RESERVED_DECODE_TOKENS,
        },
    })
}

/// A key that only one flow knows is refused beside another.
fn refuse_foreign(judge: &mut Judge, key: &str, flow: Flow, knows: Flow) {
    if flow != knows {
        let label = format!("KV goes the way of {}, which does not know it", flow.name());
        let help = format!("leave it out, or let KV go the way of {}", knows.name());
        judge.wrong_help(key, &format!("belongs to {}", knows.name()), label, help);
    }
}

/// KV of a token that crosses to a server: each of its ranks reads all that it keeps, a latent or a head that several keep as often
/// (vLLM's NIXL and P2P NCCL workers and SGLang's managers pair ranks, and none shares what it got).
fn received_bytes(server: &Server) -> u64 {
    let tensor_parallel = server.placement.tensor_parallel;
    let of_rank = server
        .model
        .kv_bytes_per_token(server.placement.kv_format, tensor_parallel);
    u64::from(tensor_parallel) * of_rank.0
}

/// KV of a token, each head of it once.
fn kv_bytes(server: &Server) -> u64 {
    server.model.kv_bytes_per_token(server.placement.kv_format, 1).0
}

/// What goes from one pool must be what the others keep.
fn check_alike(judge: &mut Judge, pools: &[Pool], servers: &[Server]) {
    let first = kv_bytes(&servers[0]);
    if let Some(other) = servers.iter().map(kv_bytes).find(|&other| other != first) {
        let label = format!("{first} and {other} bytes of KV a token");
        let help = "give all the same kv_cache_dtype";
        judge.wrong_help("cluster.pools", "must keep KV in the same format", label, help);
    }
    let first = pools[0].engine.block_size();
    let others = pools.iter().map(|pool| pool.engine.block_size());
    if let Some(other) = others.into_iter().find(|&other| other != first) {
        let label = format!("{first} and {other} tokens");
        let help = "give all the same block size";
        judge.wrong_help("cluster.pools", "must have blocks of the same size", label, help);
    }
}

/// How KV gets across: as asked, else as the engine does.
fn flow(judge: &mut Judge, raw: &RawScenario, pools: &[Pool]) -> Flow {
    let prefill = &pools[0].engine;
    let is_sglang = |engine: &EngineSpec| matches!(engine, EngineSpec::Sglang(_));
    let mut others = pools.iter().map(|pool| &pool.engine);
    if let Some(other) = others.find(|&other| is_sglang(other) != is_sglang(prefill)) {
        let label = format!("{} and {}", prefill.profile(), other.profile());
        let help = "give all pools the same engine";
        judge.wrong_help("cluster.pools", "must be of one engine", label, help);
    }
    let mut told = Vec::new();
    for pool in pools {
        let profile = pool.engine.profile();
        if matches!(pool.engine, EngineSpec::Trtllm(_) | EngineSpec::Scheduled(_)) && !told.contains(&profile)
        {
            told.push(profile);
            let help = "serve by vLLM 0.8 or later, or by SGLang";
            let label = match pool.engine {
                EngineSpec::Trtllm(_) => format!("{profile}'s transfers between servers are not modelled"),
                _ => format!("{profile} does both in one place"),
            };
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
    let default = if is_sglang(prefill) {
        Flow::Sglang
    } else {
        Flow::Nixl
    };
    let Some(flow) = asked else {
        let source = Source::Assumption("the engine's own way".to_string());
        judge.assume(key, default.name().to_string(), source);
        return default;
    };
    if (flow == Flow::Sglang) != is_sglang(prefill) {
        let whose = if flow == Flow::Sglang {
            "SGLang's"
        } else {
            "vLLM's"
        };
        let label = format!("{} is {whose} way, and {} serves", flow.name(), prefill.profile());
        let help = format!("leave it out: this engine's own way is {}", default.name());
        judge.wrong_help(key, "does not go with the engine", label, help);
    }
    flow
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

/// The flow of `--kv-transfer-config`; what names no connector between pools is reported.
fn connector(judge: &mut Judge, raw: &RawScenario) -> Option<Flow> {
    let json = raw.engine.kv_transfer_config.as_deref()?;
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
