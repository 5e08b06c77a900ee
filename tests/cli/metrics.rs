//! `--metrics`: what servers show at the end of a run is what the run's result says of it, on every engine and cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Desk, SMALL, text};

/// The samples of a page, by name and then by labels.
type Samples = BTreeMap<String, BTreeMap<String, f64>>;

fn read(page: &str) -> Samples {
    let mut samples = Samples::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = key.split_once('{').unwrap();
        let before = samples
            .entry(name.trim_start_matches("vllm:").to_owned())
            .or_default()
            .insert(labels.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{key} is there twice");
    }
    samples
}

/// The sum over all engines that have this in their labels.
fn sum_of(samples: &Samples, name: &str, with: &str) -> f64 {
    let found = samples.get(name).unwrap_or_else(|| panic!("no {name}"));
    found
        .iter()
        .filter(|(labels, _)| labels.contains(with))
        .map(|(_, value)| value)
        .sum()
}

fn sum(samples: &Samples, name: &str) -> f64 {
    sum_of(samples, name, "")
}

/// The result of a run in JSON, and the page of its servers.
fn run(words: &str) -> (Value, String) {
    let desk = Desk::new();
    let output = desk.run(&format!("{words} --format json --metrics m.txt"));
    let said = text(&output.stderr);
    let result = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("plimsoll {words}: {error}\n{said}"));
    assert!(
        said.contains("m.txt holds the metrics of its servers at the end of the run"),
        "{said}"
    );
    let page = std::fs::read_to_string(desk.path().join("m.txt")).unwrap();
    (result, page)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn assert_close(value: f64, expected: f64, within: f64, what: &str) {
    assert!(
        (value - expected).abs() <= within * expected.abs() + 1e-9,
        "{what}: {value} and not {expected}"
    );
}

/// Buckets ascend to the count, of every histogram of every engine.
fn buckets_are_cumulative(page: &str) {
    let mut before = 0.0;
    for line in page.lines() {
        let Some((key, value)) = line.rsplit_once(' ').filter(|(key, _)| key.contains("_bucket{")) else {
            before = if line.contains("_count{") {
                let count: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
                assert_eq!(count, before, "{line}");
                0.0
            } else {
                0.0
            };
            continue;
        };
        let value: f64 = value.parse().unwrap();
        assert!(value >= before, "{key}");
        before = value;
    }
}

const LLAMA: &str = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm-80gb --input-len 1000 --output-len 64 --num-prompts 100";

#[test]
fn servers_show_what_the_result_says() {
    for engine in [
        "--request-rate 30",
        "--request-rate 30 --no-async-scheduling",
        "--request-rate inf --max-model-len 8192 --num-gpu-blocks-override 700",
        "--request-rate 30 --engine sglang@0.5.23",
        "--request-rate 30 --engine trtllm@1.2",
        "--request-rate 30 --engine vllm@0.6",
        "--request-rate 30 --engine hf-cb",
        "--request-rate 30 --replicas 3",
        "--max-concurrency 8",
        "--request-rate 30 --dataset-name prefix_repetition",
    ] {
        let (result, page) = run(&format!("{LLAMA} {engine}"));
        let shown = read(&page);
        let whole = &result["plimsoll"]["whole"];
        buckets_are_cumulative(&page);
        assert_eq!(sum(&shown, "request_success_total"), 100.0, "{engine}");
        let all_of = |name: &str| sum(&shown, name);
        assert_eq!(all_of("e2e_request_latency_seconds_count"), 100.0, "{engine}");
        assert_eq!(
            all_of("generation_tokens_total"),
            number(&result, "total_output_tokens"),
            "{engine}"
        );
        let prompts = number(&result, "total_input_tokens");
        assert_eq!(all_of("prompt_tokens_total"), prompts, "{engine}");
        assert_eq!(all_of("request_prompt_tokens_sum"), prompts, "{engine}");
        assert_eq!(
            all_of("num_preemptions_total"),
            number(whole, "preemptions"),
            "{engine}"
        );
        let hits = number(whole, "cache_hit_tokens");
        assert_eq!(all_of("prefix_cache_hits_total"), hits, "{engine}");
        assert!(hits > 0.0 || !engine.contains("prefix"), "{engine}");
        let computed = sum_of(&shown, "prompt_tokens_by_source_total", "local_compute");
        assert_eq!(
            all_of("iteration_tokens_total_sum"),
            computed + 6400.0,
            "{engine}"
        );
        let mean = |name: &str| all_of(&format!("{name}_sum")) / all_of(&format!("{name}_count"));
        assert_eq!(all_of("inter_token_latency_seconds_count"), 6300.0, "{engine}");
        let mean_itl = number(&result, "mean_itl_ms") / 1e3;
        assert_close(mean("inter_token_latency_seconds"), mean_itl, 1e-9, engine);
        // What the front end adds after a step is in none; it is some milliseconds.
        for (name, figure) in [
            ("time_to_first_token_seconds", "mean_ttft_ms"),
            ("e2e_request_latency_seconds", "mean_e2el_ms"),
        ] {
            let beside = number(&result, figure) / 1e3 - mean(name);
            assert!((0.0..0.02).contains(&beside), "{engine}: {name} and {beside}");
        }
        for gauge in [
            "num_requests_running",
            "num_requests_waiting",
            "kv_cache_usage_perc",
        ] {
            assert_eq!(all_of(gauge), 0.0, "{engine}: {gauge}");
        }
        let engines = if engine.contains("replicas") { 3 } else { 1 };
        assert_eq!(shown["cache_config_info"].len(), engines, "{engine}");
        let is_vllm = !engine.contains("--engine") || engine.contains("vllm@");
        assert_eq!(page.contains("told under vLLM's names"), !is_vllm, "{engine}");
    }
}

#[test]
fn two_servers_of_a_request_show_it_each() {
    for engine in ["vllm", "sglang@0.5.23"] {
        let (result, page) = run(&format!(
            "{LLAMA} --request-rate 10 --prefill 1 --decode 2 --engine {engine}"
        ));
        let shown = read(&page);
        let success = |engine: &str| sum_of(&shown, "request_success_total", engine);
        assert_eq!(success("engine=\"0\""), 100.0, "{engine}");
        assert_eq!(
            success("engine=\"1\"") + success("engine=\"2\""),
            100.0,
            "{engine}"
        );
        let tokens = number(&result, "total_output_tokens");
        assert_eq!(sum(&shown, "generation_tokens_total"), tokens + 100.0, "{engine}");
        let of = |source: &str| sum_of(&shown, "prompt_tokens_by_source_total", source);
        assert_eq!(
            (of("local_compute"), of("external_kv_transfer")),
            (100_000.0, 100_000.0)
        );
        assert!(
            page.contains("pool prefill") && page.contains("pool decode"),
            "{page}"
        );
    }
}

#[test]
fn who_gives_up_is_no_success_and_in_no_gauge() {
    let (result, page) = run(&format!("{LLAMA} --request-rate 30 --timeout 1.3s"));
    let shown = read(&page);
    let completed = number(&result, "completed");
    assert!((1.0..100.0).contains(&completed), "{completed}");
    assert_eq!(sum(&shown, "request_success_total"), completed);
    assert_eq!(sum(&shown, "request_generation_tokens_sum"), 64.0 * completed);
    assert!(sum(&shown, "generation_tokens_total") > 64.0 * completed);
    assert_eq!(sum(&shown, "num_requests_running"), 0.0);
    assert_eq!(sum(&shown, "num_requests_waiting"), 0.0);
}

#[test]
fn the_result_is_another_in_nothing_and_the_page_the_same_bytes() {
    let desk = Desk::new();
    let plain = desk.expect(0, SMALL);
    let page = |words: &str| {
        let output = desk.run(&format!("{SMALL} --metrics new/m.txt {words}"));
        assert_eq!(text(&output.stdout), plain);
        std::fs::read_to_string(desk.path().join("new/m.txt")).unwrap()
    };
    let (one, old) = (page(""), page("--metrics-deprecated"));
    assert_eq!(page(""), one);
    assert!(!one.contains("gpu_cache_usage_perc") && old.contains("\nvllm:gpu_cache_usage_perc{"));
    assert!(old.contains("\nvllm:time_per_output_token_seconds_bucket{"));
    assert!(
        one.contains("model_name=\"meta-llama/Llama-3.1-8B-Instruct\""),
        "{one}"
    );
    desk.expect(0, &format!("{SMALL} --metrics none.txt --dry-run"));
    assert!(!desk.path().join("none.txt").exists());
}

#[test]
fn the_tour_shows_what_the_quickstart_writes() {
    let desk = Desk::new();
    desk.expect(0, "run quickstart --metrics metrics.txt");
    let page = std::fs::read_to_string(desk.path().join("metrics.txt")).unwrap();
    let tour = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tour.md")).unwrap();
    let shown: Vec<&str> = tour.lines().filter(|line| line.starts_with("vllm:")).collect();
    assert!(shown.len() >= 2, "{shown:?}");
    for line in shown {
        assert!(page.lines().any(|written| written == line), "{line}");
    }
}

#[test]
fn what_cannot_be_written_is_said_before_anything_runs() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path().join("folder")).unwrap();
    for (words, problem) in [
        ("--metrics -", "--metrics writes beside the result"),
        ("--metrics folder", "it is a folder"),
        ("--metrics-deprecated", "--metrics <FILE>"),
        ("--metrics m.txt -o m.txt", "both write m.txt"),
        ("--metrics m.txt --timeline m.txt", "both write m.txt"),
    ] {
        let output = desk.run(&format!("{SMALL} {words}"));
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{words}: {said}"
        );
        assert!(said.contains(problem), "{words}: {said}");
    }
    if std::path::Path::new("/dev/full").exists() {
        let output = desk.run(&format!("{SMALL} --metrics /dev/full"));
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stdout), desk.expect(0, SMALL));
        assert!(text(&output.stderr).contains("cannot write /dev/full"));
    }
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 1);
}
