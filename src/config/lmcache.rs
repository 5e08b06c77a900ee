//! Tiers of KV: LMCache's keys and vLLM's flags for it, judged.

mod asked;
mod rates;
mod sizes;

use std::collections::BTreeMap;

use self::asked::Asked;
use self::rates::Rates;
use self::sizes::{Sizes, check_room};
use super::document::Source;
use super::judge::Judge;
use super::raw::{RawCachePolicy, RawLmcache, RawScenario};
use crate::cost::calibration::{Copies, Direction};
use crate::engine::lmcache::{LmcacheConfig, TierConfig};
use crate::kv::CachePolicy;
use crate::model::{Attention, KvFormat, ModelShape};

/// Why SGLang's own tiers are not modelled in these terms (SGLang 0.5.4 and 0.5.23, `HiRadixCache`, `HiCacheController`).
pub(super) const HICACHE: &str = "SGLang's HiCache is not modelled: it backs nodes of the radix tree page by page (--hicache-write-policy \
     write_through, write_through_selective or write_back), loads them layer by layer while the prefill runs, fetches from \
     storage until a policy stops it, and evicts leaf by leaf, where LMCache keeps chunks by hash, loads before the prefill and \
     evicts by recency";

/// Copies between a GPU and its host as a calibration has them; none where it was not measured.
pub(super) type Measured = BTreeMap<Direction, Copies>;

/// Resolves the tiers; `None` if there are none, or something was reported.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    model: &ModelShape,
    kv_format: KvFormat,
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
    if model.recurrence().is_some() {
        let (key, help) = ("lmcache", "choose a model whose layers all attend");
        let why = "states at the ends of its chunks are not modelled";
        judge.wrong_help(key, "does not go with recurrent layers", why, help);
        return None;
    }
    if model.has_windows() {
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
        bytes_per_token: model.kv_bytes_per_token(kv_format, tensor_parallel),
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
