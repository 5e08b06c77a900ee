//! Tiers of KV: LMCache's keys and vLLM's flags for it, judged.

use std::collections::BTreeMap;

use super::disaggregation;
use super::document::Source;
use super::judge::Judge;
use super::raw::{RawCachePolicy, RawEngine, RawLmcache, RawScenario};
use super::scalar::Duration;
use crate::cost::calibration::{Copies, Direction};
use crate::engine::lmcache::{LmcacheConfig, TierConfig};
use crate::kv::CachePolicy;
use crate::model::{Attention, Dtype, ModelShape};
use crate::quantity::{format_rate, parse_rate};
use crate::units::{Bytes, BytesPerSec, Picos};

const GIB: f64 = (1u64 << 30) as f64;
/// Room without a limit: more than any cluster has.
const NO_LIMIT: Bytes = Bytes(1 << 60);
/// Bandwidths that a tier may have, bytes per second.
const SLOWEST: f64 = 1e6;
const FASTEST: f64 = 1e18;
/// Why SGLang's own tiers are not modelled in these terms (SGLang 0.5.4 and 0.5.23, `HiRadixCache`, `HiCacheController`).
pub(super) const HICACHE: &str = "SGLang's HiCache is not modelled: it backs nodes of the radix tree page by page (--hicache-write-policy \
     write_through, write_through_selective or write_back), loads them layer by layer while the prefill runs, fetches from \
     storage until a policy stops it, and evicts leaf by leaf, where LMCache keeps chunks by hash, loads before the prefill and \
     evicts by recency";

/// The connector that is LMCache.
const CONNECTOR: &str = "LMCacheConnectorV1";

/// Copies between a GPU and its host as a calibration has them; none where it was not measured.
pub(super) type Measured = BTreeMap<Direction, Copies>;

/// Resolves the tiers; `None` if there are none, or something was reported.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    model: &ModelShape,
    kv_dtype: Dtype,
    tensor_parallel: u32,
    serves_vllm: bool,
    copies: &Measured,
) -> Option<LmcacheConfig> {
    let asked = Asked::of(judge, &raw.engine);
    let keys = raw.lmcache != RawLmcache::default();
    if !keys && !asked.lmcache {
        return None;
    }
    if !serves_vllm {
        let key = if keys {
            "lmcache"
        } else {
            "engine.kv_transfer_config"
        };
        let help = format!("use a vLLM profile; {HICACHE}");
        judge.wrong_help(key, "goes with vLLM only", "another engine serves here", help);
        return None;
    }
    let windowed = |attention: &Attention| matches!(attention, Attention::Grouped { window: Some(_), .. });
    if model.layers.iter().any(|group| windowed(&group.attention)) {
        let help = "choose a model whose layers all attend to everything";
        let key = "lmcache";
        judge.wrong_help(
            key,
            "does not go with sliding windows",
            "what it keeps of them is not modelled",
            help,
        );
        return None;
    }
    let before = judge.problems.len();
    let raw = &raw.lmcache;
    let sizes = Sizes::of(
        judge,
        raw,
        asked.host_gib.map(|gib| gib / f64::from(tensor_parallel)),
    );
    let is_latent = matches!(
        model.layers.first().map(|group| &group.attention),
        Some(Attention::Latent { .. })
    );
    let (layerwise, aside) = overlaps(judge, raw);
    let policy = policy(judge, raw);
    let flag =
        |judge: &mut Judge, key: &str, given| judge.take(&format!("lmcache.{key}"), given, false, default());
    let rates = Rates::of(judge, raw, copies);
    let config = LmcacheConfig {
        chunk_size: judge.count("lmcache.chunk_size", raw.chunk_size, (1, 1 << 20), 256, default()),
        save_unfull_chunk: flag(judge, "save_unfull_chunk", raw.save_unfull_chunk),
        save_decode_cache: flag(judge, "save_decode_cache", raw.save_decode_cache),
        min_retrieve_tokens: judge.count(
            "lmcache.min_retrieve_tokens",
            raw.min_retrieve_tokens,
            (0, 1 << 30),
            0,
            default(),
        ),
        cache_policy: policy,
        enable_async_loading: aside,
        layers: layerwise.then(|| model.layer_count()),
        bytes_per_token: model.kv_bytes_per_token(kv_dtype, tensor_parallel),
        // Every rank of a latent model has the same KV, and the first alone keeps it (`save_only_first_rank`).
        ranks: if is_latent { 1 } else { tensor_parallel },
        lookup_latency: rates.lookup,
        load_bandwidth: rates.load,
        store_bandwidth: rates.store,
        host: sizes.host,
        disk: sizes.disk.map(|capacity| TierConfig {
            capacity,
            ..rates.disk
        }),
        remote: sizes.remote.map(|capacity| TierConfig {
            capacity,
            ..rates.remote
        }),
    };
    check_room(judge, &config);
    if config.save_decode_cache {
        let note = "save_decode_cache: every sequence is visited in every step, which is slower to simulate";
        judge.notes.push(note.to_string());
    }
    (judge.problems.len() == before).then_some(config)
}

fn default() -> Source {
    Source::Assumption("LMCache's default".to_string())
}

/// What vLLM's flags say.
struct Asked {
    lmcache: bool,
    /// `kv_offloading_size`, of all ranks together.
    host_gib: Option<f64>,
}

impl Asked {
    fn of(judge: &mut Judge, raw: &RawEngine) -> Asked {
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

/// Room in each tier.
struct Sizes {
    host: Option<Bytes>,
    disk: Option<Bytes>,
    remote: Option<Bytes>,
}

impl Sizes {
    fn of(judge: &mut Judge, raw: &RawLmcache, offloaded_gib: Option<f64>) -> Sizes {
        let local_cpu = judge.take("lmcache.local_cpu", raw.local_cpu, true, default());
        let host = local_cpu.then(|| {
            let key = "lmcache.max_local_cpu_size";
            if let (Some(_), Some(gib)) = (raw.max_local_cpu_size, offloaded_gib) {
                let label = format!("--kv-offloading-size leaves {gib} GiB to each rank");
                judge.wrong_help(key, "is given twice", label, "give one of them");
            }
            let gib = match offloaded_gib {
                Some(gib) => gib,
                None => judge.take(key, raw.max_local_cpu_size, 5.0, default()),
            };
            gibibytes(judge, key, gib)
        });
        let disk = raw.local_disk.as_ref().map(|path| {
            judge.given("lmcache.local_disk", path);
            let key = "lmcache.max_local_disk_size";
            let gib = raw.max_local_disk_size.unwrap_or(0.0);
            judge.given(key, gib);
            if raw.max_local_disk_size.is_none() {
                let help = "add max_local_disk_size, in GiB: LMCache's default of 0 keeps nothing";
                judge.wrong_help(
                    "lmcache.local_disk",
                    "needs a size",
                    "this disk would hold nothing",
                    help,
                );
                return Bytes(0);
            }
            gibibytes(judge, key, gib)
        });
        if raw.local_disk.is_none() && raw.max_local_disk_size.is_some() {
            let key = "lmcache.max_local_disk_size";
            judge.wrong_help(
                key,
                "has no effect",
                "no disk is given",
                "add local_disk = \"/path\"",
            );
        }
        let remote = raw.remote_url.as_ref().map(|url| {
            judge.given("lmcache.remote_url", url);
            match raw.max_remote_size {
                None => NO_LIMIT,
                Some(gib) => {
                    judge.given("lmcache.max_remote_size", gib);
                    gibibytes(judge, "lmcache.max_remote_size", gib)
                }
            }
        });
        if host.is_none() && disk.is_none() && remote.is_none() {
            let help = "add local_disk or remote_url, or leave local_cpu true";
            judge.wrong_help(
                "lmcache.local_cpu",
                "leaves no tier",
                "nothing would be kept",
                help,
            );
        }
        Sizes { host, disk, remote }
    }
}

fn gibibytes(judge: &mut Judge, key: &str, gib: f64) -> Bytes {
    let is_right = |gib: f64| gib > 0.0 && gib < 1e9;
    judge.number(
        key,
        gib,
        is_right,
        "must be a number of GiB above 0 and below 1e9",
    );
    Bytes(if is_right(gib) { (gib * GIB) as u64 } else { 0 })
}

/// A tier that holds no chunk is a mistake.
fn check_room(judge: &mut Judge, config: &LmcacheConfig) {
    let chunk = config.chunk_size;
    let (rank, all) = (config.rank_bytes(chunk), config.all_bytes(chunk));
    for (key, room, size) in [
        ("lmcache.max_local_cpu_size", config.host, rank),
        (
            "lmcache.max_local_disk_size",
            config.disk.map(|disk| disk.capacity),
            rank,
        ),
        (
            "lmcache.max_remote_size",
            config.remote.map(|remote| remote.capacity),
            all,
        ),
    ] {
        if room.is_some_and(|room| room < size) && !judge.is_wrong(&[key, "lmcache.local_disk"]) {
            let label = format!("one chunk of {chunk} tokens takes {:.3} GiB", size.gib());
            judge.wrong_help(
                key,
                "holds no chunk",
                label,
                "give more room, or a smaller chunk_size",
            );
        }
    }
}

/// How loads overlap: layer by layer, or aside.
fn overlaps(judge: &mut Judge, raw: &RawLmcache) -> (bool, bool) {
    let (layers, aside) = ("lmcache.use_layerwise", "lmcache.enable_async_loading");
    let layerwise = judge.take(layers, raw.use_layerwise, false, default());
    let asynchronous = judge.take(aside, raw.enable_async_loading, false, default());
    if layerwise && asynchronous {
        let help = "keep one of them";
        judge.wrong_help(
            aside,
            "does not go with use_layerwise",
            "the two together are not modelled",
            help,
        );
    }
    (layerwise, asynchronous)
}

fn policy(judge: &mut Judge, raw: &RawLmcache) -> CachePolicy {
    let key = "lmcache.cache_policy";
    let (name, policy) = match raw.cache_policy {
        None | Some(RawCachePolicy::Lru) => ("LRU", CachePolicy::Lru),
        Some(RawCachePolicy::Lfu) => ("LFU", CachePolicy::Lfu),
        Some(RawCachePolicy::Fifo) => ("FIFO", CachePolicy::Fifo),
        Some(RawCachePolicy::Mru) => ("MRU", CachePolicy::Mru),
    };
    let given = raw.cache_policy.map(|_| name.to_string());
    judge.take(key, given, name.to_string(), default());
    policy
}

/// Bandwidths and latencies (LM-11): assumptions, each with the range that is usual.
struct Rates {
    lookup: Picos,
    load: BytesPerSec,
    store: BytesPerSec,
    disk: TierConfig,
    remote: TierConfig,
}

impl Rates {
    fn of(judge: &mut Judge, raw: &RawLmcache, copies: &Measured) -> Rates {
        let measured = |direction: Direction| {
            let copies = copies.get(&direction)?;
            Some(format_rate(BytesPerSec(copies.gbs * 1e9)))
        };
        const PROBED: &str = "as the calibration has copies over the host link";
        let (usual, why) = match measured(Direction::HostToDevice) {
            Some(rate) => (rate, PROBED),
            None => ("20 GB/s".to_owned(), "paged KV over PCIe, usual: 10 to 25 GB/s"),
        };
        let given = raw.load_bandwidth.as_deref();
        let load = rate(judge, "load_bandwidth", given, &usual, why);
        let (same, why) = match (given, measured(Direction::DeviceToHost)) {
            (Some(given), _) => (given.to_owned(), "as load_bandwidth"),
            (None, Some(rate)) => (rate, PROBED),
            (None, None) => (usual, "as load_bandwidth"),
        };
        let given = raw.store_bandwidth.as_deref();
        let store = rate(judge, "store_bandwidth", given, &same, why);
        let lookup = delay(
            judge,
            "lookup_latency",
            raw.lookup_latency.as_ref(),
            "1 ms",
            "usual: 0.5 to 5 ms",
        );
        let mut disk = TierConfig {
            capacity: Bytes(0),
            read_bandwidth: BytesPerSec(1.0),
            write_bandwidth: BytesPerSec(1.0),
            latency: Picos::ZERO,
        };
        let mut remote = disk;
        let has_disk_keys = [
            ("disk_read_bandwidth", raw.disk_read_bandwidth.is_some()),
            ("disk_write_bandwidth", raw.disk_write_bandwidth.is_some()),
            ("disk_latency", raw.disk_latency.is_some()),
        ];
        let has_remote_keys = [
            ("remote_bandwidth", raw.remote_bandwidth.is_some()),
            ("remote_latency", raw.remote_latency.is_some()),
            ("max_remote_size", raw.max_remote_size.is_some()),
        ];
        if raw.local_disk.is_some() {
            disk.read_bandwidth = rate(
                judge,
                "disk_read_bandwidth",
                raw.disk_read_bandwidth.as_deref(),
                "5 GB/s",
                "NVMe, usual: 3 to 7 GB/s",
            );
            disk.write_bandwidth = rate(
                judge,
                "disk_write_bandwidth",
                raw.disk_write_bandwidth.as_deref(),
                "2 GB/s",
                "NVMe, usual: 1 to 5 GB/s",
            );
            disk.latency = delay(judge, "disk_latency", raw.disk_latency.as_ref(), "100 us", "NVMe");
        } else {
            refuse_idle(
                judge,
                &has_disk_keys,
                "no disk is given",
                "add local_disk and max_local_disk_size",
            );
        }
        if raw.remote_url.is_some() {
            remote.read_bandwidth = rate(
                judge,
                "remote_bandwidth",
                raw.remote_bandwidth.as_deref(),
                "5 GB/s",
                "network store, usual: 1 to 12 GB/s",
            );
            remote.write_bandwidth = remote.read_bandwidth;
            remote.latency = delay(
                judge,
                "remote_latency",
                raw.remote_latency.as_ref(),
                "500 us",
                "a round trip and the server's own time",
            );
        } else {
            refuse_idle(judge, &has_remote_keys, "no server is given", "add remote_url");
        }
        Rates {
            lookup,
            load,
            store,
            disk,
            remote,
        }
    }
}

/// Keys of a tier that is not there.
fn refuse_idle(judge: &mut Judge, keys: &[(&str, bool)], why: &str, help: &str) {
    for (key, _) in keys.iter().filter(|(_, is_given)| *is_given) {
        judge.wrong_help(&format!("lmcache.{key}"), "has no effect", why, help);
    }
}

fn rate(judge: &mut Judge, key: &str, given: Option<&str>, usual: &str, why: &str) -> BytesPerSec {
    let key = format!("lmcache.{key}");
    let source = Source::Assumption(why.to_string());
    let text = judge.take(&key, given.map(str::to_string), usual.to_string(), source);
    match parse_rate(&text) {
        Ok(rate) if (SLOWEST..FASTEST).contains(&rate.0) => rate,
        Ok(_) => {
            let label = format!("`{text}` is below 1 MB/s or beyond reason");
            judge.wrong(&key, "is no bandwidth of a tier", label);
            BytesPerSec(1.0)
        }
        Err(error) => {
            judge.wrong(&key, "is not a bandwidth", error.to_string());
            BytesPerSec(1.0)
        }
    }
}

fn delay(judge: &mut Judge, key: &str, given: Option<&Duration>, usual: &str, why: &str) -> Picos {
    let key = format!("lmcache.{key}");
    if let Some(given) = given {
        return judge.duration(&key, given, true).unwrap_or(Picos::ZERO);
    }
    judge.assume(&key, usual.to_string(), Source::Assumption(why.to_string()));
    crate::quantity::parse_duration(usual).expect("the usual delays are durations")
}

#[cfg(test)]
mod tests {
    use crate::config::diagnostic::Diagnostics;
    use crate::config::{Document, Files, NoFiles, Resolved, resolve};

    const BASE: &str = "[model]\nname = \"Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"h100\"\n\
        [workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 100\noutput_len = 10\n";

    fn told(more: &str) -> Result<Resolved, String> {
        let document = Document::parse("a.toml", &format!("{BASE}{more}"))
            .map_err(|error| Diagnostics(vec![error]).to_string())?;
        resolve(document, &NoFiles).map_err(|problems| problems.to_string())
    }

    #[test]
    fn five_gib_hold_160_chunks_of_the_8b() {
        let resolved = told("[lmcache]\nlocal_cpu = true\n").unwrap_or_else(|problems| panic!("{problems}"));
        let tiers = resolved.scenario.tiers.expect("it was asked for");
        let host = tiers.host.expect("the default");
        assert_eq!(host.0 / tiers.rank_bytes(tiers.chunk_size).0, 160);
        assert!(told("").is_ok_and(|resolved| resolved.scenario.tiers.is_none()));
    }

    #[test]
    fn copies_that_a_probe_measured_are_what_tiers_are_read_and_written_at() {
        let probed = BASE.replacen("[cluster]\n", "[cluster]\ncalibration = \"mine.toml\"\n", 1);
        let rates = |more: &str| {
            let document = Document::parse("a.toml", &format!("{probed}{more}")).unwrap();
            let resolved = resolve(document, &Probed).unwrap_or_else(|problems| panic!("{problems}"));
            let tiers = resolved.scenario.tiers.unwrap();
            (tiers.load_bandwidth.0, tiers.store_bandwidth.0)
        };
        assert_eq!(rates("[lmcache]\nlocal_cpu = true\n"), (40e9, 36e9));
        // What the user says goes before, and for stores, too.
        assert_eq!(rates("[lmcache]\nload_bandwidth = \"10 GB/s\"\n"), (10e9, 10e9));
    }

    /// A folder with one file: a probe's copies over the host link.
    struct Probed;

    impl Files for Probed {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let text = "schema = 1\n[provenance]\nsource = \"probe\"\ngpu = \"H100-SXM-80GB\"\n\
                        [host_link.h2d]\nalpha_us = 8.0\nper_copy_us = 1.5\ngbs = 40.0\n\
                        [host_link.d2h]\nalpha_us = 8.0\nper_copy_us = 1.5\ngbs = 36.0\n";
            (path == "mine.toml")
                .then(|| text.as_bytes().to_vec())
                .ok_or_else(|| "no such file".to_owned())
        }
    }

    #[test]
    fn vllms_flags_switch_it_on() {
        let json = "kv_transfer_config = '{\"kv_connector\":\"LMCacheConnectorV1\",\"kv_role\":\"kv_both\"}'";
        for engine in [
            json,
            "kv_offloading_size = 10.0\nkv_offloading_backend = \"lmcache\"",
        ] {
            let resolved =
                told(&format!("[engine]\n{engine}\n")).unwrap_or_else(|problems| panic!("{problems}"));
            let gib = resolved
                .scenario
                .tiers
                .and_then(|tiers| tiers.host)
                .map(|host| host.gib());
            assert_eq!(gib, Some(if engine == json { 5.0 } else { 10.0 }));
        }
        let total = "[engine]\nkv_offloading_size = 10.0\nkv_offloading_backend = \"lmcache\"\n";
        let two = told(&format!("{total}[lmcache]\nchunk_size = 128\n"));
        assert!(two.is_ok_and(|resolved| {
            resolved
                .scenario
                .tiers
                .is_some_and(|tiers| tiers.chunk_size == 128)
        }));
    }

    #[test]
    fn what_is_not_modelled_or_has_no_effect_is_refused() {
        for (more, because) in [
            (
                "[engine]\nkv_offloading_size = 4.0\n",
                "needs a backend that is modelled",
            ),
            (
                "[engine]\nkv_offloading_backend = \"lmcache\"\n",
                "has no effect alone",
            ),
            (
                "[engine]\nkv_transfer_config = '{\"kv_connector\":\"Other\"}'\n",
                "connector that is not modelled",
            ),
            (
                "[engine]\nprofile = \"sglang\"\n[lmcache]\nchunk_size = 64\n",
                "goes with vLLM only",
            ),
            ("[lmcache]\nlocal_disk = \"/d\"\n", "needs a size"),
            ("[lmcache]\nremote_latency = \"1 ms\"\n", "has no effect"),
            ("[lmcache]\nlocal_cpu = false\n", "leaves no tier"),
            ("[lmcache]\nmax_local_cpu_size = 0.01\n", "holds no chunk"),
            (
                "[lmcache]\nuse_layerwise = true\nenable_async_loading = true\n",
                "does not go with",
            ),
            ("[lmcache]\nload_bandwidth = \"fast\"\n", "is not a bandwidth"),
            ("[lmcache]\ncache_policy = \"ARC\"\n", "cache_policy"),
        ] {
            let problems = told(more).map(|_| ()).expect_err(more);
            assert!(problems.contains(because), "{more}: {problems}");
        }
    }
}
