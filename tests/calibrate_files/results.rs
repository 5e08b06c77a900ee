//! Results of every benchmark tool become runs, or say why not.

use std::path::{Path, PathBuf};

use plimsoll::calibrate::bench::{self, Said};
use plimsoll::config::{Document, NoFiles};
use plimsoll::results::{self, Load, Setup};

fn said(engine: &str, load: Load) -> Said {
    let text = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n";
    Said {
        document: Document::parse("said.toml", text).unwrap(),
        setup: Setup {
            load,
            input_tokens: Some(512.0),
            output_tokens: Some(128.0),
            ..Setup::default()
        },
        engine: engine.to_owned(),
        version: None,
        is_of_file: false,
    }
}

/// What a fixture gives: its figures, or why it gives none.
fn given(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/results")
        .join(name);
    let file = results::read(&std::fs::read(path).unwrap(), name).unwrap();
    let load = if name.contains("latency") {
        Load::StaticBatch { batch: 8 }
    } else {
        Load::Closed { clients: 8 }
    };
    let taken = bench::runs(&file, &said("vllm", load), &NoFiles, 0);
    let runs = taken.runs.iter().map(|run| {
        let figures = run
            .measured
            .iter()
            .map(|(figure, value)| format!("{} {value:.1}", figure.name()));
        format!("{name}: {}", figures.collect::<Vec<_>>().join(", "))
    });
    let refused = taken.refused.iter().map(|(place, reason)| {
        let short: String = reason.chars().take(80).collect();
        format!("{place}: refused, {short}")
    });
    runs.chain(refused).collect()
}

#[test]
fn every_tools_results_become_runs_or_say_why_not() {
    let names = [
        "vllm.json",
        "vllm_appended.jsonl",
        "vllm_2024.json",
        "vllm_all_failed.json",
        "vllm_sweep.json",
        "vllm_block.txt",
        "vllm_latency.json",
        "vllm_latency.txt",
        "sglang.jsonl",
        "sglang_one_batch.jsonl",
        "aiperf_aggregate.json",
        "aiperf_records.jsonl",
        "genai_perf_aggregate.json",
        "guidellm_v2.json",
        "llmperf_summary.json",
        "inference_perf.json",
        "inferencex.json",
        "trtllm_bench.txt",
        "table.csv",
    ];
    let text: Vec<String> = names.iter().flat_map(|name| given(name)).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    vllm.json: tpot_mean_ms 7.4, request_throughput 8.0
    vllm_appended.jsonl: tpot_mean_ms 6.0, ttft_p50_ms 29.0
    vllm_appended.jsonl: tpot_mean_ms 6.2, ttft_p50_ms 30.0
    vllm_2024.json: tpot_mean_ms 20.0, ttft_p50_ms 110.0
    vllm_all_failed.json: refused, no request was answered
    vllm_sweep.json: tpot_mean_ms 7.0, ttft_mean_ms 20.0
    vllm_sweep.json: tpot_mean_ms 7.1, ttft_mean_ms 21.0
    vllm_block.txt: tpot_mean_ms 7.4, request_throughput 8.0
    vllm_latency.json: e2el_max_ms 912.0
    vllm_latency.txt: e2el_max_ms 912.0
    sglang.jsonl, line 1: refused, it ran on sglang, and vllm is fitted; --engine sglang fits that engine's host
    sglang.jsonl, line 2: refused, it ran on sglang, and vllm is fitted; --engine sglang fits that engine's host
    sglang_one_batch.jsonl, line 1: refused, it ran on sglang, and vllm is fitted; --engine sglang fits that engine's host
    sglang_one_batch.jsonl, line 2: refused, it ran on sglang, and vllm is fitted; --engine sglang fits that engine's host
    aiperf_aggregate.json: tpot_mean_ms 2.0, ttft_p50_ms 15.0
    aiperf_records.jsonl: refused, 1 of 3 requests failed: what was served is not what was sent
    genai_perf_aggregate.json: tpot_mean_ms 2.0, ttft_p50_ms 15.0
    guidellm_v2.json: tpot_mean_ms 7.2, ttft_p50_ms 29.0
    llmperf_summary.json: tpot_mean_ms 8.9, ttft_p50_ms 200.0
    inference_perf.json: tpot_mean_ms 7.8, ttft_p50_ms 29.0
    inferencex.json: tpot_p50_ms 10.3, request_throughput 1.6
    trtllm_bench.txt: refused, it ran on trtllm, and vllm is fitted; --engine trtllm fits that engine's host
    table.csv: tpot_mean_ms 7.4, request_throughput 8.0
    table.csv: request_throughput 8.0
    table.csv: tpot_mean_ms 6.9, ttft_p50_ms 29.0
    ");
}

#[test]
fn authentic_results_are_taken_or_refused_with_a_reason() {
    let Some(data) = std::env::var_os("PLIMSOLL_DATA").map(PathBuf::from) else {
        // Past the test's capture, so that a check that did not happen is not taken for one that passed.
        let told = b"PLIMSOLL_DATA is not set: authentic results are not taken\n";
        std::io::Write::write_all(&mut std::io::stderr(), told).unwrap();
        return;
    };
    let mut runs = 0;
    for entry in std::fs::read_dir(data.join("formats")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(file) = results::read(&std::fs::read(&path).unwrap(), &name) else {
            continue;
        };
        // They are of many models, and one is said.
        let said = Said {
            is_of_file: true,
            ..said("vllm", Load::Closed { clients: 8 })
        };
        let taken = bench::runs(&file, &said, &NoFiles, 0);
        assert_eq!(taken.runs.len() + taken.refused.len(), file.rows.len(), "{name}");
        assert_eq!(taken.took.len(), taken.runs.len(), "{name}");
        assert!(
            taken.refused.iter().all(|(_, reason)| reason.len() > 10),
            "{name}: {:?}",
            taken.refused
        );
        runs += taken.runs.len();
    }
    assert!(runs >= 12, "{runs}");
}

/// The lengths of the first run of a text, and whether they were only assumed to be equal.
fn lengths(text: &str, engine: &str) -> (String, bool) {
    let file = results::read(text.as_bytes(), "a.json").unwrap();
    let taken = bench::runs(&file, &said(engine, Load::Unknown), &NoFiles, 0);
    let run = taken.runs.first().expect("it can be simulated");
    let law = format!("{:?}", run.resolved.scenario.workload.lengths);
    (law, run.scattered.is_some())
}

#[test]
fn lengths_are_drawn_as_the_file_says() {
    let sglang = include_str!("../data/results/sglang.jsonl")
        .lines()
        .next()
        .unwrap();
    let (law, is_assumed) = lengths(
        &sglang
            .replace("\"tp_size\": 2", "\"tp_size\": 1")
            .replace("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        "sglang",
    );
    assert!(
        law.contains("512") && law.contains("Sglang") && !is_assumed,
        "{law}"
    );
    let vllm = r#"{"backend": "vllm", "request_rate": "inf", "max_concurrency": 8, "num_prompts": 100, "completed": 100,
        "duration": 10.0, "total_input_tokens": 51170, "total_output_tokens": 12810, "request_throughput": 10.0,
        "mean_ttft_ms": 40.0, "median_ttft_ms": 40.0, "mean_tpot_ms": 7.4, "mean_itl_ms": 7.4 }"#;
    let (law, is_assumed) = lengths(vllm, "vllm");
    assert!(
        law.contains("512") && is_assumed,
        "a broken mean is none of equal lengths: {law}"
    );
    let (law, is_assumed) = lengths(&vllm.replace(" }", ", \"random_range_ratio\": \"0.5\"}"), "vllm");
    assert!(law.contains("0.5") && !is_assumed, "{law}");
    let whole = vllm.replace("51170", "51200").replace("12810", "12800");
    assert!(
        !lengths(&whole, "vllm").1,
        "whole means of 100 requests are those of equal lengths"
    );
}

#[test]
fn what_is_left_is_named_with_its_reason() {
    let text = r#"{"backend": "vllm", "request_rate": 30.0, "num_prompts": 600, "completed": 600, "duration": 60.0,
        "total_input_tokens": 307200, "total_output_tokens": 76800, "request_throughput": 10.0, "mean_ttft_ms": 19000.0,
        "median_ttft_ms": 19000.0, "p99_ttft_ms": 39000.0, "mean_tpot_ms": 40.0, "mean_itl_ms": 40.0}"#;
    let file = results::read(text.as_bytes(), "a.json").unwrap();
    let taken = bench::runs(&file, &said("vllm", Load::Unknown), &NoFiles, 0);
    let left: Vec<&str> = taken.left.iter().map(|(_, reason)| reason.as_str()).collect();
    let left = left.join("\n");
    assert!(
        left.contains("ttft: above saturation it is the queue's"),
        "{left}"
    );
    assert!(left.contains("percentiles and deviations of ttft"), "{left}");
    assert!(
        taken.took[0].contains("tpot_mean_ms 40.0, request_throughput 10.0"),
        "{:?}",
        taken.took
    );
    let other = bench::runs(&file, &said("sglang", Load::Unknown), &NoFiles, 0);
    assert!(
        other.refused[0].1.contains("--engine vllm"),
        "{:?}",
        other.refused
    );
}

#[test]
fn lengths_of_another_run_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results/vllm.json");
    let file = results::read(&std::fs::read(path).unwrap(), "vllm.json").unwrap();
    let mut said = said("vllm", Load::Unknown);
    said.document
        .set("workload.lengths.random.input_len", 2048.into(), "--bench-cmd");
    let taken = bench::runs(&file, &said, &NoFiles, 0);
    assert!(
        taken.refused[0]
            .1
            .contains("512 tokens in the mean, and 2048 are said"),
        "{:?}",
        taken.refused
    );
    said.document
        .set("workload.lengths.random.input_len", 512.into(), "--bench-cmd");
    said.document
        .set("workload.lengths.random.output_len", 128.into(), "--bench-cmd");
    assert_eq!(bench::runs(&file, &said, &NoFiles, 0).runs.len(), 1);
}

#[test]
fn the_number_of_gpus_is_assumed_aloud_where_nobody_says_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results/vllm.json");
    let file = results::read(&std::fs::read(path).unwrap(), "vllm.json").unwrap();
    let took = |said: &Said| bench::runs(&file, said, &NoFiles, 0).took.join("\n");
    let mut said = said("vllm", Load::Closed { clients: 8 });
    let assumed = took(&said);
    assert!(
        assumed.contains("assumed: one GPU held the model, TP1"),
        "{assumed}"
    );
    said.document
        .set("cluster.tensor_parallel_size", 1.into(), "--tensor-parallel-size");
    assert!(!took(&said).contains("TP1"));
}
