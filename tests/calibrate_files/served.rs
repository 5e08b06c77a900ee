//! `calibrate` on what a real server did: vLLM 0.25.1 on an H100 whose CPU is slow (`tests/data/measured/README.md`).

use std::path::{Path, PathBuf};

use crate::{plimsoll, text};

const SERVE: &str = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192";
/// Loads that are fitted to, light ones and the one that is then asked for; others of the server are predicted.
const GIVEN: [&str; 5] = ["a-c1", "a-c16", "a-c64", "a-r8", "a-c256"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/measured/serving-h100/{name}.json.gz"))
}

fn measured(name: &str) -> serde_json::Value {
    let packed = std::fs::File::open(file(name)).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap()
}

/// The same run, simulated: the client's own flags, seed included.
fn predicted(folder: &Path, measured: &serde_json::Value, calibration: Option<&str>) -> serde_json::Value {
    let flags = measured["flags"].as_str().unwrap();
    let bench = format!("vllm bench serve --dataset-name random --ignore-eos --temperature 0 {flags}");
    let mut args = vec![
        "run",
        "--gpu",
        "H100-SXM-80GB",
        "--serve-cmd",
        SERVE,
        "--bench-cmd",
        &bench,
    ];
    args.extend(["--format", "json", "--quiet"]);
    args.extend(calibration.into_iter().flat_map(|name| ["--calibration", name]));
    let ran = plimsoll(folder, &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Predicted over measured, less one.
fn error(predicted: &serde_json::Value, measured: &serde_json::Value, figure: &str) -> f64 {
    predicted[figure].as_f64().unwrap() / measured[figure].as_f64().unwrap() - 1.0
}

#[test]
fn launches_and_streaming_of_a_slow_host_are_found_in_its_runs_and_tell_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let files: Vec<String> = GIVEN
        .iter()
        .map(|name| file(name).display().to_string())
        .collect();
    let mut args = vec![
        "calibrate",
        "--gpu",
        "H100-SXM-80GB",
        "--serve-cmd",
        SERVE,
        "-o",
        "own.toml",
    ];
    args.extend(files.iter().map(String::as_str));
    let ran = plimsoll(folder, &args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    assert!(!said.contains("DOUBTFUL"), "{said}");
    let own: toml::Table = std::fs::read_to_string(folder.join("own.toml"))
        .unwrap()
        .parse()
        .unwrap();
    // 32 layers take 31 to 34 ms to launch, by steps of one and of two prompts that take equally long.
    let host = &own["host"]["vllm"];
    let term = |name: &str| host[name].as_float().unwrap();
    let layers =
        32.0 * (term("eager_launch_us") * term("eager_kernels_per_layer") + term("piecewise_us_per_layer"));
    assert!((25e3..37e3).contains(&layers), "{layers} µs");
    // One process was seen to hand on 11,000 tokens a second, which 256 in flight ask for.
    let streaming = term("per_output_token_us");
    assert!((70.0..130.0).contains(&streaming), "{streaming} µs");
    for name in ["a-r24", "a-r48", "a-mix20", "a-inf", "a-long32", "a-decode128"] {
        let run = measured(name);
        let own = predicted(folder, &run, Some("own.toml"));
        // Open loops hang on how steps of prompts are launched and when their tokens are taken, which is not modelled (docs/probe.md).
        let (tpot, e2el) = match name {
            "a-r24" | "a-r48" => (0.1, 0.12),
            _ => (0.07, 0.05),
        };
        for (figure, bar) in [
            ("mean_tpot_ms", tpot),
            ("mean_e2el_ms", e2el),
            ("output_throughput", 0.05),
        ] {
            let off = error(&own, &run, figure);
            assert!(off.abs() < bar, "{name}: {figure} {:+.1} %", 100.0 * off);
        }
    }
    // What is shipped knows no such host.
    let run = measured("a-r24");
    assert!(error(&predicted(folder, &run, None), &run, "mean_e2el_ms") < -0.25);
}

/// Four in flight at 180 tokens a prompt: a whole round of prompts fits the largest graph if they are of one length, and not always if
/// they scatter, so that one reading of the file speaks about launches and the other does not.
const ROUNDS: &str = r#"{"backend": "openai-chat", "model_id": "meta-llama/Llama-3.1-8B", "num_prompts": 16, "request_rate": "inf",
    "max_concurrency": 4, "duration": 2.048, "completed": 16, "total_input_tokens": 2881, "total_output_tokens": 1025,
    "request_throughput": 7.8125, "output_throughput": 500.0, "total_token_throughput": 1906.25, "mean_ttft_ms": 60,
    "median_ttft_ms": 60, "mean_tpot_ms": 8.0, "median_tpot_ms": 8.0, "mean_itl_ms": 8.0, "median_itl_ms": 8.0}"#;

#[test]
fn what_is_sought_does_not_hang_on_how_lengths_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rounds.json"), ROUNDS).unwrap();
    let serve = "vllm serve meta-llama/Llama-3.1-8B";
    let args = [
        "calibrate",
        "rounds.json",
        "--gpu",
        "H100-SXM-80GB",
        "--base",
        "prior-hopper",
        "--serve-cmd",
        serve,
    ];
    let ran = plimsoll(folder.path(), &args);
    assert!(matches!(ran.status.code(), Some(0..=2)), "{}", text(&ran.stderr));
    assert!(
        text(&ran.stdout).contains("host.vllm"),
        "{}\n{}",
        text(&ran.stdout),
        text(&ran.stderr)
    );
}
