//! What vLLM's flags say of tiers: a connector, or the size of an offload.

use super::super::disaggregation;
use super::super::judge::Judge;
use super::super::raw::RawEngine;

/// The connector that is LMCache.
const CONNECTOR: &str = "LMCacheConnectorV1";

/// What vLLM's flags say.
pub(super) struct Asked {
    pub(super) lmcache: bool,
    /// `kv_offloading_size`, of all ranks together.
    pub(super) host_gib: Option<f64>,
}

impl Asked {
    pub(super) fn of(judge: &mut Judge, raw: &RawEngine) -> Asked {
        let connector = raw
            .kv_transfer_config
            .as_deref()
            .filter(|json| !disaggregation::is_between_pools(json))
            .is_some_and(|json| is_lmcache(judge, json));
        let (size, backend) = ("engine.kv_offloading_size", "engine.kv_offloading_backend");
        let name = raw.kv_offloading_backend.as_deref();
        let host_gib = raw.kv_offloading_size.filter(|&gib| gib != 0.0);
        if let Some(gib) = host_gib {
            judge.given(size, gib);
            judge.number(size, gib, |gib| gib > 0.0, "must be above 0 GiB");
            if name != Some("lmcache") {
                let help = "add --kv-offloading-backend lmcache; vLLM's own (native) is not modelled";
                judge.wrong_help(
                    size,
                    "needs a backend that is modelled",
                    name.unwrap_or("native"),
                    help,
                );
            }
        }
        if let Some(name) = name {
            judge.given(backend, name);
            if host_gib.is_none() {
                let help = "add --kv-offloading-size GIB";
                judge.wrong_help(backend, "has no effect alone", "there is no size", help);
            }
        }
        Asked {
            lmcache: connector || host_gib.is_some(),
            host_gib,
        }
    }
}

/// Whether a `--kv-transfer-config` means LMCache; anything else was reported.
fn is_lmcache(judge: &mut Judge, json: &str) -> bool {
    let key = "engine.kv_transfer_config";
    judge.given(key, json);
    let help = format!("write '{{\"kv_connector\":\"{CONNECTOR}\",\"kv_role\":\"kv_both\"}}'");
    let Ok(serde_json::Value::Object(config)) = serde_json::from_str(json) else {
        judge.wrong_help(key, "is not a JSON object", "this cannot be read", help);
        return false;
    };
    let text = |name: &str| config.get(name).and_then(serde_json::Value::as_str);
    if text("kv_connector") != Some(CONNECTOR) {
        let label = text("kv_connector").unwrap_or("none is given").to_string();
        judge.wrong_help(key, "names a connector that is not modelled", label, help);
        return false;
    }
    if !matches!(text("kv_role"), None | Some("kv_both")) {
        let label = "an engine that only stores or only loads is not modelled";
        judge.wrong_help(key, "must have the role kv_both", label, help);
    }
    for name in config
        .keys()
        .filter(|name| !matches!(name.as_str(), "kv_connector" | "kv_role"))
    {
        let help = "LMCache's own keys stand in the scenario's table [lmcache]";
        judge.wrong_help(key, "has a key that is not modelled", name.clone(), help);
    }
    true
}
