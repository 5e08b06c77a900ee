use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::cost::StepLoad;
use crate::ids::{ReplicaId, RequestId};
use crate::metrics::scraped::EngineInfo;
use crate::metrics::single_server::{request, steps};
use crate::sim::{Fact, Observer, Steps};

fn info(model: &str, profile: &str) -> EngineInfo {
    EngineInfo {
        pool: String::new(),
        model: model.to_owned(),
        profile: profile.to_owned(),
        block_size: 16,
        num_gpu_blocks: 101,
        usable_blocks: 100,
        max_model_len: 131_072,
        enable_prefix_caching: true,
    }
}

/// What a family is, as the registry of vLLM has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    bounds: Vec<String>,
}

/// The families of a page; bounds are those of engine 0.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE vllm:") {
            let (name, kind) = typed.split_once(' ').unwrap();
            current = name.to_owned();
            all.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some(sample) = line.strip_prefix("vllm:") {
            let family = all.get_mut(&current).unwrap();
            let (_, labels) = sample.split_once('{').unwrap();
            let (labels, _) = labels.rsplit_once("} ").unwrap();
            for (name, value) in labels.split(',').map(|label| label.split_once('=').unwrap()) {
                let value = value.trim_matches('"');
                match name {
                    "engine" | "model_name" => drop(family.labels.insert(name.to_owned())),
                    "le" if labels.contains("engine=\"0\"") => family.bounds.push(value.to_owned()),
                    "le" => {}
                    _ => drop(family.labels.insert(format!("{name}={value}"))),
                }
            }
        }
    }
    all
}

/// What facts do not tell.
const LEFT_OUT: [&str; 4] = [
    "engine_sleep_state",
    "mm_cache_queries_total",
    "mm_cache_hits_total",
    "admission_rejections_total",
];

#[test]
fn names_types_labels_and_buckets_are_those_of_vllm() {
    let scraped = Scraped::of([info("m", "vllm@0.33"), info("m", "vllm@0.33")]);
    let mut ours = families(&text(&scraped, &Exposition::default(), Picos::ZERO));
    let info = ours.remove("cache_config_info").unwrap();
    assert_eq!(info.kind, "gauge");
    let created = ours.extract_if(.., |name, _| name.ends_with("_created")).count();
    let registered = include_str!("../../../tests/data/metrics/vllm-0.33.txt");
    let mut seen = 0;
    for line in registered.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, name, labels, ref bounds @ ..] = words[..] else {
            panic!("{line}");
        };
        let theirs = Family {
            kind: kind.to_owned(),
            labels: labels.split(',').map(str::to_owned).collect(),
            bounds: bounds.iter().map(|bound| (*bound).to_owned()).collect(),
        };
        assert_eq!(LEFT_OUT.contains(&name), !ours.contains_key(name), "{name}");
        if let Some(ours) = ours.remove(name) {
            assert_eq!(ours, theirs, "{name}");
            seen += usize::from(kind != "gauge");
        }
    }
    assert!(ours.is_empty(), "vLLM knows none of {:?}", ours.keys());
    assert_eq!(created, seen, "each counter and histogram says when it began");
}

#[test]
fn deprecated_names_come_when_asked_for() {
    let scraped = Scraped::of([info("m", "vllm@0.33")]);
    let exposition = Exposition {
        deprecated: true,
        ..Exposition::default()
    };
    let without = families(&text(&scraped, &Exposition::default(), Picos::ZERO));
    let with = families(&text(&scraped, &exposition, Picos::ZERO));
    let mut more: Vec<&str> = with.keys().map(String::as_str).collect();
    more.retain(|name| !without.contains_key(*name));
    assert_eq!(
        more,
        [
            "gpu_cache_usage_perc",
            "time_per_output_token_seconds",
            "time_per_output_token_seconds_created"
        ]
    );
    let [old, new] = ["time_per_output_token_seconds", "inter_token_latency_seconds"];
    assert_eq!(with[old].bounds, with[new].bounds);
}

#[test]
fn what_users_name_cannot_break_a_line() {
    let mut odd = info("a\"b\\c\nd", "sglang@0.5.23");
    odd.pool = "x\ny".to_owned();
    let scraped = Scraped::of([odd]);
    let page = text(&scraped, &Exposition::default(), Picos::ZERO);
    assert!(
        page.contains("# engine 0: sglang@0.5.23, pool x\\ny, told under vLLM's names\n"),
        "{page}"
    );
    assert!(page.contains(r#"vllm:num_requests_running{engine="0",model_name="a\"b\\c\nd"} 0.0"#));
    let is_whole = |line: &str| line.starts_with("# ") || line.starts_with("vllm:");
    assert!(page.lines().all(is_whole));
    let named = Exposition {
        model_name: Some("other"),
        ..Exposition::default()
    };
    assert!(text(&scraped, &named, Picos::ZERO).contains("model_name=\"other\""));
}

#[test]
fn numbers_are_written_as_the_client_of_python_writes_them() {
    for (value, written) in [
        (0.0, "0.0"),
        (0.3, "0.3"),
        (2560.0, "2560.0"),
        (999_999.5, "999999.5"),
        (1e6, "1e+06"),
        (1_234_567.25, "1.23456725e+06"),
        (20_000_000.0, "2e+07"),
        (1_795_939_434.5, "1.7959394345e+09"),
    ] {
        assert_eq!(number(value), written);
        assert_eq!(written.parse::<f64>().unwrap(), value);
    }
}

#[test]
fn a_million_alike_steps_are_counted_at_once() {
    let mut scraped = Scraped::of([info("m", "vllm@0.33")]);
    let arrived = request(0, Picos::ZERO);
    scraped.observe(&Fact::Arrived { request: &arrived });
    let (replica, id) = (ReplicaId(0), RequestId(0));
    scraped.observe(&Fact::Sent {
        now: Picos::ZERO,
        replica,
        id,
        entry: Picos::ZERO,
    });
    let seen = |scraped: &Scraped, line: &str| {
        let page = text(scraped, &Exposition::default(), Picos::ZERO);
        assert!(page.contains(&format!("vllm:{line}\n")), "no {line} in\n{page}");
    };
    seen(
        &scraped,
        "num_requests_waiting{engine=\"0\",model_name=\"m\"} 1.0",
    );
    scraped.observe(&Fact::Admitted {
        now: Picos::ZERO,
        replica,
        id,
        waiting_since: Picos::ZERO,
        queued_since: Picos::ZERO,
        known_tokens: 8,
        cached_tokens: 3,
        resumed: false,
    });
    // 10 ms, and 1 ns more from step to step: only the first gap is in the first bucket.
    let (load, end) = (StepLoad::default(), Picos(10_499_999_500_000_000));
    let told = Steps {
        gap: Picos(10_000_000_000),
        free_blocks: 90,
        kv_slots: 0,
        ..steps(Picos(0), end, 1_000_000, Picos(1_000), 1, &load)
    };
    scraped.observe(&Fact::Steps(&told));
    seen(
        &scraped,
        "num_requests_running{engine=\"0\",model_name=\"m\"} 1.0",
    );
    seen(&scraped, "kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.1");
    seen(
        &scraped,
        "generation_tokens_total{engine=\"0\",model_name=\"m\"} 1e+06",
    );
    seen(
        &scraped,
        "inter_token_latency_seconds_bucket{engine=\"0\",le=\"0.01\",model_name=\"m\"} 1.0",
    );
    seen(
        &scraped,
        "inter_token_latency_seconds_bucket{engine=\"0\",le=\"0.025\",model_name=\"m\"} 1e+06",
    );
    seen(
        &scraped,
        "iteration_tokens_total_bucket{engine=\"0\",le=\"1.0\",model_name=\"m\"} 1e+06",
    );
    seen(
        &scraped,
        "prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 3.0",
    );
}
