//! The command from files to a calibration: the host from results, a probe and a result, the scatter of steps.

use std::path::Path;

use crate::fitting::request;
use crate::{plimsoll, text};
use plimsoll::calibrate::calibrate_while;
use plimsoll::calibrate::observation::{Block, Kernel, Observation};
use plimsoll::cost::Trust;
use plimsoll::cost::calibration::{Calibration, Copies, Direction, shipped};
use plimsoll::cost::kernel::copy_seconds;

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
    let refused = plimsoll(folder.path(), &args);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("c1.json is a prediction of Plimsoll itself"),
        "{said}"
    );
    args.push("--allow-predictions");
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
    let found = Calibration::parse("found", &found).unwrap();
    assert_eq!(found.host["vllm"].trust, Trust::Prior);
    assert!(
        found
            .provenance
            .notes
            .iter()
            .any(|note| note.contains("no measurement")),
        "{:?}",
        found.provenance
    );
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
fn runs_that_no_host_explains_are_doubtful_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 16,
        "num_prompts": 64, "completed": 64, "duration": 1.2, "total_input_tokens": 32768, "total_output_tokens": 8192,
        "request_throughput": 53.0, "mean_tpot_ms": 1.9}"#;
    std::fs::write(folder.path().join("run.json"), result).unwrap();
    let args = ["calibrate", "run.json", "--gpu", "L40S-48GB", "-o", "out.toml"];
    let ran = plimsoll(folder.path(), &args);
    assert_eq!(
        ran.status.code(),
        Some(1),
        "nothing was fitted: {}",
        text(&ran.stderr)
    );
    let report = text(&ran.stdout);
    let lines: Vec<&str> = report.lines().collect();
    assert!(
        lines[1].starts_with("IMPOSSIBLE: run.json: mean tpot is shorter than reading the weights once")
            && lines[2].starts_with("DOUBTFUL: no host explains these runs"),
        "{report}"
    );
    assert!(!folder.path().join("out.toml").exists());
    assert!(
        text(&ran.stderr).contains("out.toml was not written"),
        "{}",
        text(&ran.stderr)
    );
}

/// Three closed loops as one server has them, and the time per token of the last as no GPU can have it: reading the weights
/// alone takes nine times as long.
#[test]
fn one_impossible_run_among_sound_ones_is_doubted_and_no_fit_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let result = |clients: u32, prompts: u32, throughput: f64, ttft: f64, tpot: f64| {
        format!(
            r#"{{"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf",
            "max_concurrency": {clients}, "num_prompts": {prompts}, "completed": {prompts}, "duration": {},
            "total_input_tokens": {}, "total_output_tokens": {}, "request_throughput": {throughput},
            "median_ttft_ms": {ttft}, "mean_tpot_ms": {tpot}}}"#,
            f64::from(prompts) / throughput,
            256 * prompts,
            64 * prompts
        )
    };
    let fitted = |last_tpot: f64, code: i32| {
        for (name, clients, prompts, throughput, ttft, tpot) in [
            ("c1.json", 1, 200, 2.34, 15.0, 6.53),
            ("c16.json", 16, 320, 29.6, 60.0, 7.32),
            ("c64.json", 64, 1280, 71.8, 268.0, last_tpot),
        ] {
            std::fs::write(
                folder.path().join(name),
                result(clients, prompts, throughput, ttft, tpot),
            )
            .unwrap();
        }
        let args = [
            "calibrate",
            "c1.json",
            "c16.json",
            "c64.json",
            "--gpu",
            "H100-SXM-80GB",
            "-o",
            "out.toml",
        ];
        let ran = plimsoll(folder.path(), &args);
        assert_eq!(ran.status.code(), Some(code), "{}", text(&ran.stderr));
        let file = std::fs::read_to_string(folder.path().join("out.toml")).unwrap();
        (text(&ran.stdout), Calibration::parse("out", &file).unwrap())
    };
    let (report, written) = fitted(10.4, 0);
    assert!(!report.contains("DOUBTFUL"), "{report}");
    assert_eq!(written.host["vllm"].trust, Trust::Measured);
    let (report, written) = fitted(0.5, 1);
    let mut lines = report.lines();
    let answer = lines.next().unwrap();
    assert!(answer.contains("2 of 3 end-to-end runs within"), "{report}");
    assert!(
        lines.next().unwrap().starts_with("IMPOSSIBLE: c64.json"),
        "{report}"
    );
    let doubt = lines.next().unwrap();
    assert!(
        doubt.starts_with("DOUBTFUL: 1 of 3 runs is off by more than a factor of 1.25"),
        "{report}"
    );
    assert!(
        doubt.contains("c64.json") && doubt.contains("tpot_mean_ms 0.5"),
        "{report}"
    );
    assert_eq!(written.host["vllm"].trust, Trust::Doubtful);
    let doubts = written.evidence.unwrap().doubts;
    assert!(
        doubts.iter().any(|doubt| doubt.contains("1 of 3 runs")),
        "{doubts:?}"
    );
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
    // Between two draws, too, of which there may be many.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let goes_on = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 20;
    assert!(calibrate_while(&request, &goes_on).is_none());
    assert!(calibrate_while(&request, &|| true).is_some());
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
        let flags = [
            "calibrate",
            name,
            "--gpu",
            gpu,
            "-o",
            "own.toml",
            "--allow-predictions",
        ];
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
