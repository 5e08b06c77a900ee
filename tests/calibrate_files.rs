//! `calibrate` on files: results of every benchmark tool, a probe's output, tables with prefixes and copies, and what is
//! no input at all.

#[path = "common/fitting.rs"]
mod fitting;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fitting::request;
use plimsoll::calibrate::bench::{self, Said};
use plimsoll::calibrate::observation::{Block, Kernel, Observation};
use plimsoll::calibrate::tables::{self, Selection};
use plimsoll::calibrate::{Calibrated, calibrate, calibrate_while};
use plimsoll::config::{Document, NoFiles};
use plimsoll::cost::Trust;
use plimsoll::cost::calibration::{self, Calibration, Copies, Direction, shipped};
use plimsoll::cost::kernel::copy_seconds;
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
    trtllm_bench.txt: refused, it ran on trtllm, and vllm is fitted; trtllm is not simulated, so its runs fit n
    table.csv: tpot_mean_ms 7.4, request_throughput 8.0
    table.csv: request_throughput 8.0
    table.csv: tpot_mean_ms 6.9, ttft_p50_ms 29.0
    ");
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that lacks its data says so")]
fn authentic_results_are_taken_or_refused_with_a_reason() {
    let Some(data) = std::env::var_os("PLIMSOLL_DATA").map(PathBuf::from) else {
        eprintln!("PLIMSOLL_DATA is not set: authentic results are not taken");
        return;
    };
    let mut runs = 0;
    for entry in std::fs::read_dir(data.join("formats")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(file) = results::read(&std::fs::read(&path).unwrap(), &name) else {
            continue;
        };
        let taken = bench::runs(&file, &said("vllm", Load::Closed { clients: 8 }), &NoFiles, 0);
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

fn evidence(fitted: &Calibrated, block: &str) -> calibration::BlockEvidence {
    let evidence = fitted.calibration.evidence.as_ref().unwrap();
    evidence.blocks[block].clone()
}

#[test]
fn copies_give_their_line_back_and_are_kept_in_the_file() {
    let truth = Copies {
        alpha_us: 9.0,
        per_copy_us: 1.5,
        gbs: 24.0,
    };
    let sizes = [
        (65_536.0, 1.0),
        (1e6, 1.0),
        (1.6e7, 1.0),
        (2.5e8, 1.0),
        (6.4e7, 1024.0),
        (6.4e7, 64.0),
    ];
    let rows = sizes.map(|(bytes, pieces)| Observation {
        block: Block::Copy(Direction::HostToDevice),
        kernel: Kernel::Copy { bytes, pieces },
        seconds: copy_seconds(&truth, bytes, pieces),
        shape: format!("{bytes} in {pieces}"),
        input: 0,
    });
    let fitted = calibrate(&request("L40S-48GB", "prior-ada", rows.to_vec()));
    let copies = fitted.calibration.copies[&Direction::HostToDevice];
    assert!((copies.gbs / 24.0 - 1.0).abs() < 0.03, "{copies:?}");
    assert!((copies.per_copy_us / 1.5 - 1.0).abs() < 0.1, "{copies:?}");
    assert!(evidence(&fitted, "copy.h2d").hold_out_median_pct.is_some());
    let again = Calibration::parse("x", &fitted.calibration.to_toml()).unwrap();
    assert_eq!(again.copies, fitted.calibration.copies);
}

/// Vidur's times on A30 (FlashInfer, MIT): another card and library, so only the form is checked, on the nearest card's
/// ceilings. Chunks of 64 to 512 tokens behind a prefix jump where kernels split by the size of the chunk.
#[test]
fn chunks_behind_a_prefix_have_the_form_of_prompts() {
    let path = format!("{}/tests/data/chunked_attention.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let selection = Selection {
        gpu: "a30".to_owned(),
        framework: "vllm".to_owned(),
    };
    let table = tables::read("chunked_attention.csv", &text, 0, &selection).unwrap();
    assert_eq!((table.rows, table.observations.len()), (120, 120));
    let fitted = calibrate(&request("a10", "prior-ampere", table.observations));
    let prefill = evidence(&fitted, "attention.prefill");
    assert_eq!(prefill.rows, 60);
    assert!(
        prefill.residual_median_pct <= 16.0 && prefill.residual_p95_pct <= 45.0,
        "{prefill:?}"
    );
    assert!(prefill.hold_out_median_pct.unwrap() <= 20.0, "{prefill:?}");
}

#[test]
fn collectives_of_a_published_table_are_fitted_with_two_branches() {
    let path = format!(
        "{}/tests/data/kernels/collectives.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    for (key, gpu, base) in [
        ("h100_sxm", "H100-SXM-80GB", "prior-hopper"),
        ("h200_sxm", "H200-SXM-141GB", "prior-hopper"),
        ("b200_sxm", "B200-SXM-180GB", "prior-blackwell"),
    ] {
        let selection = Selection {
            gpu: key.to_owned(),
            framework: "vllm".to_owned(),
        };
        let table = tables::read("collectives.csv", &text, 0, &selection).unwrap();
        let fitted = calibrate(&request(gpu, base, table.observations));
        for gpus in [2, 4, 8] {
            let block = evidence(&fitted, &format!("allreduce.{gpus}"));
            // Published times of eight B200 fall where messages grow: 26 µs at half a megabyte, 21 at two.
            let most = if (key, gpus) == ("b200_sxm", 8) { 15.0 } else { 7.0 };
            assert!(
                block.residual_median_pct <= most && block.residual_p95_pct <= 35.0,
                "{gpu} {gpus}: {block:?}"
            );
        }
        let two_branches = fitted.calibration.allreduce.iter();
        assert!(
            two_branches
                .filter(|link| link.gpus > 2)
                .all(|link| link.one_shot.is_some())
        );
    }
}

fn plimsoll(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The shipped H100 with a slow host, as a file.
fn slow_host(folder: &Path) -> (f64, f64) {
    let mut truth = shipped("h100-sxm-80gb-vllm").unwrap();
    let host = truth.host.get_mut("vllm").unwrap();
    (host.async_gap_us, host.async_gap_per_seq_us, host.request_ms) = (1200.0, 30.0, 14.0);
    std::fs::write(folder.join("truth.toml"), truth.to_toml()).unwrap();
    (1200.0, 30.0)
}

/// Runs a server with a slow host under several loads, and saves what `vllm bench serve` would.
fn measured(folder: &Path) -> Vec<String> {
    let loads: [(&str, &[&str]); 4] = [
        ("c1.json", &["--max-concurrency", "1", "--num-prompts", "12"]),
        ("c16.json", &["--max-concurrency", "16", "--num-prompts", "160"]),
        ("c64.json", &["--max-concurrency", "64", "--num-prompts", "320"]),
        (
            "r4.json",
            &["--request-rate", "4", "--num-prompts", "200", "--save-detailed"],
        ),
    ];
    for (name, load) in loads {
        let mut args = vec![
            "run",
            "meta-llama/Llama-3.1-8B-Instruct",
            "--gpu",
            "H100-SXM-80GB",
            "--calibration",
            "truth.toml",
            "--input-len",
            "256",
            "--output-len",
            "64",
            "--save-result",
            "--result-filename",
            name,
        ];
        args.extend(load);
        let ran = plimsoll(folder, &args);
        assert!(folder.join(name).exists(), "{}", text(&ran.stderr));
    }
    loads.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn the_hosts_terms_are_found_again_from_results() {
    let folder = tempfile::tempdir().unwrap();
    let (gap, per_seq) = slow_host(folder.path());
    let files = measured(folder.path());
    let mut args = vec!["calibrate"];
    args.extend(files.iter().map(String::as_str));
    args.extend(["--gpu", "H100-SXM-80GB", "--format", "json", "-o", "found.toml"]);
    let ran = plimsoll(folder.path(), &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let host = &report["calibration"]["host"]["vllm"];
    for (name, truth, within) in [
        ("async_gap_us", gap, 0.15),
        ("async_gap_per_seq_us", per_seq, 0.2),
        ("request_ms", 14.0, 0.2),
    ] {
        let found = host[name].as_f64().unwrap();
        assert!(
            (found / truth - 1.0).abs() < within,
            "{name}: {found}, not {truth}\n{report:#}"
        );
    }
    let block = &report["evidence"]["blocks"]["host.vllm"];
    assert!(block["hold_out_median_pct"].as_f64().unwrap() < 3.0, "{block}");
    assert!(block["residual_median_pct"].as_f64().unwrap() < 2.0, "{block}");
    let took = report["took"].to_string();
    assert!(
        took.contains("the times and lengths of its 200 requests"),
        "{took}"
    );
    let found = std::fs::read_to_string(folder.path().join("found.toml")).unwrap();
    assert!(Calibration::parse("found", &found).is_ok());
}

/// A probe's file of a card that is a tenth slower than H200, with exact times.
fn probe(folder: &Path) {
    let mut points = String::new();
    for (n, k) in [
        (6144_u64, 4096_u64),
        (4096, 4096),
        (28_672, 4096),
        (4096, 14_336),
        (8192, 8192),
    ] {
        for m in [1_u64, 16, 64, 256, 1024, 4096] {
            let flops = 2.0 * (m * n * k) as f64 / 700e12;
            let bytes = 2.0 * (n * k + m * k + m * n) as f64 / 3900e9;
            let us =
                1e6 * (3.3e-6 + 0.38e-9 * k as f64 + (flops.powf(3.9) + bytes.powf(3.9)).powf(1.0 / 3.9));
            points += &format!("[{m}, {n}, {k}, {us:.4}, {us:.4}, {us:.4}, 9],\n");
        }
    }
    let file = format!(
        "schema = 1\n[provenance]\nsource = \"probe\"\ngpu = \"NVIDIA H200\"\nnotes = [\"clocks drifted\"]\n\
         [gemm.bf16]\nmodel = \"C5\"\nstatus = \"ok\"\np_tflops = 690.0\nw_gbs = 3950.0\nt0_us = 3.0\npnorm = 3.5\n\
         kappa_ns = 0.3\nsustained_over_burst = 0.94\npoints = [\n{points}]\n\
         [attention]\nw_att_gbs = 4000.0\nt0_kernel_us = 5.0\nt0_engine_extra_us = 7.0\nper_seq_head_ns = 16.0\n\
         per_token_ns = 0.13\nprefill_r = 0.8\nprefill_w_ratio = 0.3\n\
         [host_link]\nh2d = {{ alpha_us = 7.0, gbs = 55.0 }}\nper_copy_us = 1.9\n"
    );
    std::fs::write(folder.join("probe.toml"), file).unwrap();
}

#[test]
fn a_probe_and_a_result_make_one_calibration() {
    let folder = tempfile::tempdir().unwrap();
    probe(folder.path());
    let result = r#"{"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 1,
        "num_prompts": 20, "completed": 20, "duration": 12.3, "total_input_tokens": 10240, "total_output_tokens": 2560,
        "request_throughput": 1.63, "median_ttft_ms": 26.0, "mean_tpot_ms": 5.6}"#;
    std::fs::write(folder.path().join("run.json"), result).unwrap();
    let ran = plimsoll(
        folder.path(),
        &[
            "calibrate",
            "probe.toml",
            "run.json",
            "--gpu",
            "h200",
            "--format",
            "json",
        ],
    );
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let gemm = &report["calibration"]["gemm"]["bf16"];
    for (key, truth) in [("p_tflops", 700.0), ("w_gbs", 3900.0)] {
        assert!(
            (gemm[key].as_f64().unwrap() / truth - 1.0).abs() < 0.01,
            "{key}: {gemm}"
        );
    }
    assert_eq!(gemm["sustained_over_burst"], 0.94);
    assert_eq!(report["calibration"]["attention"]["w_att_gbs"], 4000.0);
    assert_eq!(report["calibration"]["host_link"]["h2d"]["per_copy_us"], 1.9);
    let runs = &report["evidence"]["runs"];
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    assert!(report["took"].to_string().contains("note: clocks drifted"));
}

#[test]
fn runs_that_no_host_explains_are_doubtful_and_stay_a_prior() {
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 16,
        "num_prompts": 64, "completed": 64, "duration": 1.2, "total_input_tokens": 32768, "total_output_tokens": 8192,
        "request_throughput": 53.0, "mean_tpot_ms": 1.9}"#;
    std::fs::write(folder.path().join("run.json"), result).unwrap();
    let args = ["calibrate", "run.json", "--gpu", "L40S-48GB", "-o", "out.toml"];
    let ran = plimsoll(folder.path(), &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let report = text(&ran.stdout);
    let second = report.lines().nth(1).unwrap();
    assert!(
        second.starts_with("DOUBTFUL: no host explains these runs"),
        "{report}"
    );
    let file = std::fs::read_to_string(folder.path().join("out.toml")).unwrap();
    let written = Calibration::parse("out", &file).unwrap();
    assert_eq!(written.host["vllm"].trust, Trust::Prior);
    assert!(written.evidence.unwrap().remarks[0].contains("no host explains"));
}

#[test]
fn a_fit_that_is_stopped_gives_nothing() {
    let truth = Copies {
        alpha_us: 9.0,
        per_copy_us: 1.5,
        gbs: 24.0,
    };
    let row = |bytes: f64| Observation {
        block: Block::Copy(Direction::HostToDevice),
        kernel: Kernel::Copy { bytes, pieces: 1.0 },
        seconds: copy_seconds(&truth, bytes, 1.0),
        shape: bytes.to_string(),
        input: 0,
    };
    let request = request("L40S-48GB", "prior-ada", [1e5, 1e6, 1e7].map(row).to_vec());
    assert!(calibrate_while(&request, &|| false).is_none());
    assert!(calibrate_while(&request, &|| true).is_some());
}

/// Writes a file and calibrates from it: exit code, what was said.
fn refused(name: &str, bytes: &[u8], flags: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let mut args = vec!["calibrate", name, "--gpu", "H100-SXM-80GB", "-o", "out.toml"];
    args.extend(flags);
    let ran = plimsoll(folder.path(), &args);
    assert!(
        !folder.path().join("out.toml").exists(),
        "{name} left a calibration"
    );
    (ran.status.code(), text(&ran.stderr))
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place_and_a_remedy() {
    let vllm = r#"{"backend": "vllm", "request_rate": 4.0, "num_prompts": 9, "completed": 9, "duration": 2.0, "mean_tpot_ms": 6.0,
        "total_input_tokens": 900, "total_output_tokens": 900, "median_ttft_ms": 20.0}"#;
    let cases: [(&str, String, &[&str], &str); 13] = [
        ("empty.json", String::new(), &[], "is empty"),
        (
            "cut.json",
            "{\"duration\": 3,".to_owned(),
            &[],
            "line 1, column 15",
        ),
        (
            "other.json",
            "{\"a\": 1}".to_owned(),
            &[],
            "is no known result; looked for",
        ),
        (
            "negative.json",
            vllm.replace("6.0", "-6.0"),
            &[],
            "`mean_tpot_ms`: -6 must be",
        ),
        (
            "nan.json",
            vllm.replace("6.0", "NaN").replace("20.0", "NaN"),
            &["--model", "Qwen/Qwen3-8B"],
            "no figure that shows",
        ),
        ("nameless.json", vllm.to_owned(), &[], "add --model"),
        (
            "unknown.json",
            vllm.to_owned(),
            &["--model", "nobody/nothing"],
            "nobody/nothing",
        ),
        (
            "odd.csv",
            "a,b\n1,2\n".to_owned(),
            &[],
            "CSV tables with a column",
        ),
        (
            "cell.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,4096,4096,1,NaN,0\n".to_owned(),
            &[],
            "line 2: `us` is `NaN`",
        ),
        (
            "huge.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,18446744073709551615,4096,1,9,0\n".to_owned(),
            &[],
            "line 2: `n` is 18446744073709551615",
        ),
        (
            "card.csv",
            "gpu,fw,dtype,n,k,m,us,l2_warm\na100_sxm,vllm,bf16,4096,4096,1,9,0\n".to_owned(),
            &[],
            "it has a100_sxm under vllm",
        ),
        (
            "prior.toml",
            "schema = 1\n[provenance]\nsource = \"prior\"\n".to_owned(),
            &[],
            "--base prior.toml",
        ),
        (
            "latency.json",
            "{\"avg_latency\": 1.0, \"latencies\": [1.0]}".to_owned(),
            &["--model", "Qwen/Qwen3-8B"],
            "--batch-size",
        ),
    ];
    for (name, bytes, flags, expected) in cases {
        let (code, said) = refused(name, bytes.as_bytes(), flags);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
        assert!(said.contains(name), "{name}: {said}");
    }
    let (code, said) = refused("binary.json", &[0xff, 0xfe, 0x00], &[]);
    assert!(code == Some(2) && said.contains("is not UTF-8 text"), "{said}");
}

#[test]
fn a_file_that_is_given_twice_counts_once_and_all_bad_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let table = "gpu,fw,dtype,n,k,m,us,l2_warm\nh100_sxm,vllm,bf16,4096,4096,1,12,0\nh100_sxm,vllm,bf16,4096,4096,64,13,0\n";
    for name in ["a.csv", "b.csv"] {
        std::fs::write(folder.path().join(name), table).unwrap();
    }
    let ran = plimsoll(
        folder.path(),
        &["calibrate", "a.csv", "b.csv", "--gpu", "H100-SXM-80GB"],
    );
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("b.csv holds the same as a.csv: counted once"));
    let ran = plimsoll(
        folder.path(),
        &[
            "calibrate",
            "none.csv",
            "a.csv",
            "gone.json",
            "--gpu",
            "H100-SXM-80GB",
        ],
    );
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("none.csv") && said.contains("gone.json"), "{said}");
}

/// A server whose steps scatter by a known law is found out by its gaps: from all of them scatter and stalls, from
/// printed percentiles the scatter; one that does not scatter is found to scatter
/// by little more than the ratios' own error hides.
#[test]
fn the_scatter_of_steps_is_found_from_gaps_and_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let (model, gpu) = ("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB");
    let measure = |law: &str, name: &str, detail: &str| {
        let flags = format!(
            "run --model {model} --gpu {gpu} --request-rate 4 --num-prompts 250 --random-input-len 256 \
             --random-output-len 128 --step-jitter {law} {detail} --result-filename {name} --percentile-metrics ttft,tpot,itl,e2el \
             --metric-percentiles 90,95,99"
        );
        let ran = plimsoll(folder.path(), &flags.split_whitespace().collect::<Vec<_>>());
        assert!(ran.status.success(), "{}", text(&ran.stderr));
    };
    let fitted = |name: &str| {
        let flags = ["calibrate", name, "--gpu", gpu, "-o", "own.toml"];
        let ran = plimsoll(folder.path(), &flags);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let written = std::fs::read_to_string(folder.path().join("own.toml")).unwrap();
        let calibration = Calibration::parse("own", &written).unwrap();
        (calibration.jitter["vllm"], text(&ran.stdout))
    };
    measure("cv=0.1,stall-rate=0.6,stall=60ms", "all.json", "--save-detailed");
    let (law, said) = fitted("all.json");
    assert!((0.08..0.125).contains(&law.cv), "{law:?}\n{said}");
    let share = law.stalls_per_s * law.stall.seconds();
    assert!((0.02..0.06).contains(&share), "{law:?}\n{said}");
    assert!((0.04..0.09).contains(&law.stall.seconds()), "{law:?}\n{said}");
    let uses = "run --model meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --request-rate 4 --num-prompts 50 --input-len 256 --output-len 64 \
                --calibration own.toml --step-jitter calibrated";
    let ran = plimsoll(folder.path(), &uses.split_whitespace().collect::<Vec<_>>());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let without = uses.replace("--calibration own.toml", "");
    let ran = plimsoll(folder.path(), &without.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("has no law for vllm"),
        "{}",
        text(&ran.stderr)
    );

    measure("cv=0.2", "some.json", "--save-result");
    let (law, said) = fitted("some.json");
    assert!(
        (0.16..0.24).contains(&law.cv) && law.stalls_per_s == 0.0,
        "{law:?}\n{said}"
    );
    assert!(said.contains("stalls of steps were not sought"), "{said}");

    measure("cv=0", "none.json", "--save-detailed");
    let (law, said) = fitted("none.json");
    assert!(law.cv < 0.015 && law.stalls_per_s == 0.0, "{law:?}\n{said}");
}
