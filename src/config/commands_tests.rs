//! Command lines and what they come to.

use clap::{CommandFactory, FromArgMatches, Parser};
use insta::assert_snapshot;

use super::flags::ScenarioFlags;
use super::*;
use crate::workload::{Arrivals, Lengths, Prefix};

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    flags: ScenarioFlags,
}

struct Memory(&'static [(&'static str, &'static str)]);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let file = self.0.iter().find(|(name, _)| *name == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| format!("there is no file `{path}`"))
    }
}

const FILES: Memory = Memory(&[(
    "trace.csv",
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,100,10\n2023-11-16 18:17:04.0,200,20\n2023-11-16 18:17:07.0,300,30\n",
)]);

fn resolve_line(line: &str) -> Result<Resolved, Diagnostics> {
    let words = shlex::split(line).unwrap();
    let normal = argv::normalise(&words);
    assert!(normal.problems.is_empty(), "{:?}", normal.problems);
    let matches = Line::command()
        .try_get_matches_from(normal.args)
        .unwrap_or_else(|error| panic!("{error}"));
    let Line { flags } = Line::from_arg_matches(&matches).unwrap();
    let input = assemble(&flags, &FILES)?;
    let mut resolved = resolve(input.document, &FILES)?;
    resolved.said_before(&input.notes, &input.ignored);
    Ok(resolved)
}

const MACHINE: &str = "meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --max-model-len 8192";

/// The traffic that flags mean.
fn traffic(flags: &str) -> String {
    match resolve_line(&format!("{MACHINE} {flags}")) {
        Ok(resolved) => {
            let spec = &resolved.scenario.workload;
            let arrivals = match &spec.arrivals {
                Arrivals::Replay { requests, time_scale } => {
                    format!("Replay of {} x {time_scale:.3}", requests.len())
                }
                other => format!("{other:?}"),
            };
            let limit = spec
                .client
                .max_concurrency
                .map_or(String::new(), |limit| format!(", {limit} in flight"));
            let rescaled = if spec.client.rescale_arrivals {
                ", rescaled"
            } else {
                ""
            };
            let prefix = if spec.prefix == Prefix::None {
                String::new()
            } else {
                format!("; {:?}", spec.prefix)
            };
            format!(
                "{arrivals}{limit}{rescaled}; {:?}{prefix}; {:?}",
                spec.lengths, resolved.length
            )
        }
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn flags_of_the_benchmark_client_mean_what_they_mean_there() {
    let lens = "--input-len 1024 --output-len 128";
    assert_snapshot!(traffic(&format!("--request-rate 4 {lens}")), @r#"Poisson { request_rate: 4.0 }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic(&format!("--request-rate 4 --burstiness 0.5 --num-prompts 50 {lens}")), @r#"Gamma { request_rate: 4.0, burstiness: 0.5 }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic(&format!("--request-rate inf --num-prompts 50 {lens}")), @r#"AllAtOnce; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic(&format!("--max-concurrency 32 {lens}")), @r#"AllAtOnce, 32 in flight; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic(&format!("--users 100 --think-time 30s --duration 600s {lens}")), @r#"Users { users: 100, think_time: Picos(30000000000000) }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Duration(Picos(600000000000000))"#);
    assert_snapshot!(traffic(&format!("--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9 --num-prompts 50 {lens}")), @r#"Ramp { start_rate: 1.0, end_rate: 9.0, exponential: false }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic("--request-rate 4 --client vllm"), @r#"Poisson { request_rate: 4.0 }, rescaled; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0 }; Requests(1000)"#);
    assert_snapshot!(traffic("--request-rate 4 --random-input-len 512 --random-output-len 64 --random-range-ratio 0.2 --random-prefix-len 100"), @r#"Poisson { request_rate: 4.0 }; RandomVllm { input_len: 512, output_len: 64, range_ratio: 0.2 }; Groups { count: 1, prefix_len: 100, zipf: 0.0, exact_shares: false }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-name prefix_repetition --num-prompts 100"), @r#"Poisson { request_rate: 4.0 }; Fixed { input_len: 256, output_len: 128 }; Groups { count: 10, prefix_len: 256, zipf: 0.0, exact_shares: true }; Requests(100)"#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-path trace.csv"), @r#"Poisson { request_rate: 4.0 }; Empirical { pairs: [(100, 10), (200, 20), (300, 30)] }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic("--trace trace.csv"), @r#"Replay of 3 x 1.000; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
    assert_snapshot!(traffic("--trace trace.csv --request-rate 3"), @r#"Replay of 3 x 0.250; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
    assert_snapshot!(traffic("--trace trace.csv --time-scale 2"), @r#"Replay of 3 x 2.000; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
}

#[test]
fn flags_that_cannot_be_honoured_say_why() {
    assert_snapshot!(traffic("--request-rate 4"), @r#"
    error: no lengths are given: how long are prompts and outputs?
     |
     = help: give --input-len 1024 --output-len 128, or [workload.lengths.random]
    "#);
    assert_snapshot!(traffic("--request-rate 4 --input-len 100"), @r#"
    error: `--input-len` needs `--output-len`: a request has a prompt and an output
     |
     = help: give --output-len TOKENS
    "#);
    assert_snapshot!(traffic("--request-rate -4 --input-len 100 --output-len 10"), @r#"error: `--request-rate` must be above 0 requests per second: -4 is not"#);
    assert_snapshot!(traffic("--request-rate inf --input-len 100 --output-len 10"), @r#"
    error: `arrivals` needs the number of requests when all are sent at once (or a --max-concurrency): it is not given
     |
     = help: add --num-prompts, or num_prompts in [workload]
    "#);
    assert_snapshot!(traffic("--users 10 --input-len 100 --output-len 10"), @r#"
    error: `--users` needs a think time
     |
     = help: give --think-time 30s (0s sends again at once)
    "#);
    assert_snapshot!(traffic("--users 10 --think-time 5s --request-rate 3 --input-len 100 --output-len 10"), @r#"
    error: `--request-rate` and `--users` both say when requests arrive
     |
     = help: keep one
    "#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-name generated-shared-prefix"), @r#"Poisson { request_rate: 4.0 }; Fixed { input_len: 128, output_len: 256 }; Groups { count: 64, prefix_len: 2048, zipf: 0.0, exact_shares: true }; Requests(1024)"#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-name generated-shared-prefix --gsp-num-groups 8 --gsp-prompts-per-group 4 --gsp-system-prompt-len 512 --gsp-question-len 64 --gsp-output-len 32 --gsp-group-distribution zipf --gsp-zipf-alpha 1.1"), @r#"Poisson { request_rate: 4.0 }; Fixed { input_len: 64, output_len: 32 }; Groups { count: 8, prefix_len: 512, zipf: 1.1, exact_shares: false }; Requests(32)"#);
    assert!(
        traffic("--request-rate 4 --input-len 8 --output-len 8 --gsp-num-groups 8")
            .contains("give --dataset-name generated-shared-prefix")
    );
    assert_snapshot!(traffic("--request-rate 4 --dataset-name sharegpt"), @r#"
    error: this data set is a file, and none is given
     |
     = help: give --dataset-path FILE with token counts, or --input-len and --output-len
    "#);
    assert_snapshot!(traffic("--trace absent.csv"), @r#"error: `--trace` cannot be read: there is no file `absent.csv`"#);
    assert_snapshot!(traffic("--request-rate 4 --input-len 9000 --output-len 10"), @r#"
    error: `--input-len` does not fit the engine's context: prompts of up to 9000 tokens, and max_model_len is 8192
     |
     = help: write max_model_len = 9010 or more, or shorter prompts
    "#);
    assert_snapshot!(traffic("--request-rate 4 --input-len 100 --output-len 10 --goodput ttft:fast itl:5"), @r#"
    error: `ttft:fast` is not a limit per request
     |
     = help: write METRIC:MS with ttft, tpot or e2el, like ttft:500

    error: `itl:5`: a request has many gaps
     |
     = help: limit its mean with tpot, or gaps with --slo p99_itl_ms<=50
    "#);
    assert_snapshot!(traffic("--request-rate 4 --input-len 100 --output-len 10 --gpu-memory-utilization 92 -tp 3"), @r#"
    error: `--gpu-memory-utilization` must be above 0 and at most 1: 92 is not a fraction
     |
     = help: for 92 % write 0.92
    "#);
    assert_snapshot!(traffic("--request-rate 4 --input-len 100 --output-len 10 --compilation-config '{\"mode\": 3}'"), @r#"
    error: `--compilation-config`: `mode` is not modelled
     |
     = help: cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size are
    "#);
}

#[test]
fn promises_are_read_in_vllms_and_aiperfs_spelling() {
    let slo = |flags: &str| {
        resolve_line(&format!("quickstart {flags}"))
            .map(|resolved| resolved.slo)
            .unwrap_or_else(|problems| panic!("{problems}"))
    };
    let vllm = slo("--goodput ttft:200 tpot:20 e2el:9000 --attainment 0.95");
    let aiperf = slo(
        "--goodput 'time_to_first_token:200 inter_token_latency:20 request_latency:9000' --attainment 0.95",
    );
    assert_eq!(vllm, aiperf);
    assert_eq!(vllm.goodput.len(), 3);
    let percentile = slo("--slo 'p99_ttft_ms<=500' 'p99.9_itl_ms<=80'").percentiles;
    assert_eq!(
        percentile
            .iter()
            .map(|limit| (limit.percentile, limit.metric))
            .collect::<Vec<_>>(),
        [(Some(99.9), Metric::Itl), (Some(99.0), Metric::Ttft)]
    );
}

#[test]
fn flags_win_over_pasted_commands_and_those_over_the_file() {
    let seqs = |flags: &str| {
        resolve_line(&format!("matrix-a {flags}"))
            .unwrap_or_else(|problems| panic!("{problems}"))
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .max_num_seqs
    };
    assert_eq!(seqs(""), 64);
    assert_eq!(
        seqs("--serve-cmd 'vllm serve m --max-num-seqs 32' --model meta-llama/Llama-3.1-8B-Instruct"),
        32
    );
    assert_eq!(
        seqs(
            "--serve-cmd 'vllm serve m --max-num-seqs 32' --model meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 16"
        ),
        16
    );
}

#[test]
fn pasted_commands_are_understood_with_their_clients_defaults() {
    let line = "--gpu h100-sxm --serve-cmd 'VLLM_USE_V1=1 vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1 --max_num_batched_tokens 4096 \
        --max-model-len 8192 --host 0.0.0.0 --disable-log-requests' --bench-cmd 'vllm bench serve --backend vllm --dataset-name random \
        --random-input-len 1024 --random-output-len 128 --request-rate 20 --ignore-eos --goodput ttft:500'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    let spec = &resolved.scenario.workload;
    assert_eq!(
        resolved
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .max_num_batched_tokens,
        4096
    );
    assert_eq!(
        (spec.num_prompts, spec.client.rescale_arrivals),
        (Some(1000), true)
    );
    assert_eq!(spec.arrivals, Arrivals::Poisson { request_rate: 20.0 });
    assert!(matches!(
        spec.lengths,
        Lengths::RandomVllm {
            input_len: 1024,
            output_len: 128,
            ..
        }
    ));
    assert_eq!(resolved.slo.goodput.len(), 1);
    assert_eq!(
        resolved
            .notes
            .iter()
            .filter(|note| note.contains("has no effect"))
            .count(),
        4
    );
    let bare = "--gpu h100-sxm --serve-cmd 'python3 -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B-Instruct' \
        --bench-cmd 'python3 benchmarks/benchmark_serving.py --model meta-llama/Llama-3.1-8B-Instruct'";
    let spec = resolve_line(bare)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .scenario
        .workload;
    assert_eq!(
        (spec.arrivals, spec.num_prompts),
        (Arrivals::AllAtOnce, Some(1000))
    );
}

#[test]
fn pasted_commands_that_cannot_be_honoured_say_why() {
    let told = |line: &str| {
        resolve_line(line)
            .err()
            .map_or_else(|| "accepted".to_string(), |problems| problems.to_string())
    };
    assert_snapshot!(told("--serve-cmd 'vllm serve m --speculative-config {} --max-num-sekws 4'"), @r#"
    error: in --serve-cmd: `--speculative-config` would change the result, and cannot be honoured: speculative decoding is not modelled yet

    error: in --serve-cmd: unexpected argument '--max-num-sekws' found
     |
     = help: a similar argument exists: '--max-num-seqs'
    "#);
    assert_snapshot!(told("--serve-cmd 'docker run vllm'"), @r#"
    error: `--serve-cmd` must hold a whole command
     |
     = help: begin it with `vllm serve`
    "#);
    assert_snapshot!(told("--bench-cmd 'vllm bench serve --num-prompts \"5'"), @r#"error: `--bench-cmd` has a quote that does not end"#);
    assert_snapshot!(told("--scenario quikstart"), @r#"
    error: there is no scenario `quikstart`: there is no file `quikstart`
     |
     = help: did you mean `quickstart`?
     = help: shipped are quickstart, course-week1, course-week2-latency, course-week2-throughput, matrix-a, matrix-b, matrix-c, matrix-d, matrix-e, matrix-f, chunked-prefill, no-chunked-prefill, prefix-cold, prefix-warm, prefix-lpm, prefix-caching, radix-cache, queue-shared, queue-unique, chunk-sizes, dp-router, dp-attention, kv-events, failover, static-batching, continuous-batching, v0-prefill-stall, lmcache-cold, lmcache-warm, lmcache-restart, gateway, gateway-classes, load-shaping, load-shaping-mixed, pd-input-length, pd-together, pd-failover, rate-limit, autoscale
    "#);
}

/// Some requests.
const TRAFFIC: &str = "--request-rate 4 --input-len 128 --output-len 16";

/// What is told about a line: its errors, or its notes.
fn said(line: &str) -> String {
    match resolve_line(line) {
        Ok(resolved) => resolved.notes.join("\n"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_pool_beyond_the_gpus_memory_is_an_error_with_a_place() {
    for flag in [
        "--kv-cache-memory-bytes '900 TiB'",
        "--num-gpu-blocks-override 99999999",
    ] {
        let told = said(&format!("{MACHINE} {TRAFFIC} {flag}"));
        assert!(
            told.contains("does not fit: --") && told.contains("without --"),
            "{told}"
        );
    }
}

#[test]
fn formats_that_the_card_or_the_model_lacks_are_not_taken_in_silence() {
    let on = |flags: &str| {
        said(&format!(
            "meta-llama/Llama-3.2-1B --max-model-len 8192 {TRAFFIC} {flags}"
        ))
    };
    for (flags, part) in [
        ("--gpu t4 --dtype bfloat16", "T4-16GB has no bfloat16"),
        ("--gpu t4 --kv-cache-dtype fp8", "T4-16GB has no fp8 units"),
        ("--gpu a100-sxm-80gb --quantization fp8", "has no fp8 units"),
        ("--gpu h100 --quantization mxfp4", "mxfp4 stores experts"),
        ("--gpu h100 --dtype float32", "timed at the 16-bit rate"),
        (
            "--gpu t4 --quantization fp8",
            "weights are stored so and computed in 16 bits",
        ),
        (
            "--gpu t4 --quantization fp8 --engine vllm@0.11",
            "fp8 needs 8.0 in vllm@0.11",
        ),
    ] {
        let told = on(flags);
        assert!(told.contains(part), "{flags}: {told}");
    }
    assert!(!on("--gpu t4 --dtype float16").contains("bfloat16"));
    let told = said(&format!(
        "openai/gpt-oss-20b --gpu t4 --tensor-parallel-size 4 {TRAFFIC}"
    ));
    assert!(told.contains("mxfp4 needs 8.0"), "{told}");
}

#[test]
fn the_budget_of_a_step_is_what_each_version_derives() {
    let short = "--max-model-len 4096 --no-enable-chunked-prefill";
    let resolved = |line: &str| resolve_line(line).unwrap();
    let budget = |flags: &str| {
        let line = format!("{TRAFFIC} --gpu h100-sxm --model meta-llama/Llama-3.1-8B-Instruct {flags}");
        resolve_line(&line)
            .unwrap()
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .max_num_batched_tokens
    };
    assert_eq!(budget(&format!("--engine vllm@0.33 {short}")), 8192);
    // V1 of that time cut prompts whatever it was told, so the budget is the usual one.
    assert_eq!(budget(&format!("--engine vllm@0.11 {short}")), 8192);
    let overruled = resolved(&format!(
        "{TRAFFIC} --gpu h100-sxm --model meta-llama/Llama-3.1-8B-Instruct --engine vllm@0.11 {short}"
    ));
    assert!(
        overruled
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .enable_chunked_prefill
    );
    assert!(overruled.notes.iter().any(|note| note.contains("has no effect")));
    let few = "--max-model-len 4096 --max-num-seqs 1";
    assert_eq!(budget(&format!("--engine vllm@0.33 {few}")), 4096);
    assert_eq!(budget(&format!("--engine vllm@0.11 {few}")), 8192);
}

#[test]
fn another_cards_calibration_is_noted_and_trusted_less() {
    let line = format!("{MACHINE} {TRAFFIC} --calibration b200-sxm-180gb-vllm");
    let resolved = resolve_line(&line).unwrap();
    assert_eq!(resolved.trust, crate::cost::Trust::Prior);
    assert!(resolved.notes.iter().any(|note| note.contains("was made on")));
}

#[test]
fn a_profile_of_ones_own_is_found_by_its_name() {
    struct Own(String);
    impl Files for Own {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let is_it = path == "hardware_profiles/my-gpu-48gb.toml";
            is_it
                .then(|| self.0.clone().into_bytes())
                .ok_or_else(|| format!("there is no file `{path}`"))
        }
    }
    let device = crate::hardware::find("L40S-48GB").unwrap().0;
    let own = Own(device.to_toml(&device.name));
    for name in ["MY-GPU-48GB", "my_gpu_48gb"] {
        let mut document = Document::default();
        document.set("cluster.gpu", toml::Value::from(name), "--gpu");
        let mut problems = resolve(document, &own).err().unwrap().to_string();
        problems.retain(|char| char != '\n');
        assert!(!problems.contains("unknown GPU"), "{problems}");
    }
}

#[test]
fn what_a_command_line_overrides_or_a_data_set_ignores_is_noted() {
    let told = said(
        "--gpu h100 --request-rate 7 --bench-cmd 'vllm bench serve --request-rate 5' \
         --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n  --max-model-len 4096' --max-model-len 8192",
    );
    assert!(
        told.contains("--max-model-len 8192 replaces --serve-cmd --max-model-len 4096"),
        "{told}"
    );
    assert!(told.contains("--request-rate 7"), "{told}");
    let told = said(&format!(
        "{MACHINE} --request-rate 4 --dataset-name sonnet --input-len 5"
    ));
    assert!(told.contains("--input-len has no effect"), "{told}");
}

#[test]
fn a_switch_may_be_followed_by_its_value() {
    let line = format!("{MACHINE} {TRAFFIC} --enable-prefix-caching false");
    assert!(
        !resolve_line(&line)
            .unwrap()
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .enable_prefix_caching
    );
}

#[test]
fn a_cell_that_does_not_fit_is_named() {
    let words = shlex::split(&format!("{MACHINE} {TRAFFIC}")).unwrap();
    let Line { flags } =
        Line::from_arg_matches(&Line::command().try_get_matches_from(words).unwrap()).unwrap();
    let input = assemble(&flags, &FILES).unwrap();
    let axes = [axes::Axis::list("gpu", "h100,t4").unwrap()];
    let cells = axes::cells(&input.document, &axes, false).unwrap();
    let told = resolve(cells[1].document.clone(), &FILES)
        .err()
        .unwrap()
        .to_string();
    assert!(told.contains("the cell gpu = t4 does not fit"), "{told}");
}

#[test]
fn two_names_for_the_model_or_a_length_are_told_apart_and_refused() {
    let refused = |line: &str| match resolve_line(line) {
        Ok(_) => String::new(),
        Err(problems) => problems.render(false),
    };
    let rest = "--gpu h100-sxm --max-model-len 8192 --request-rate 1 --input-len 9 --output-len 9";
    let serve = "--serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct'";
    let printed = refused(&format!("Qwen/Qwen3-8B {rest} {serve}"));
    assert!(
        printed.contains("name two models") && printed.contains("--serve-cmd"),
        "{printed}"
    );
    assert_eq!(
        refused(&format!("meta-llama/Llama-3.1-8B-Instruct {rest} {serve}")),
        ""
    );
    assert_eq!(refused(&format!("{rest} {serve} --model Qwen/Qwen3-8B")), "");
    let bench = |model: &str| format!("--bench-cmd 'vllm bench serve --model {model} --request-rate 1'");
    let printed = refused(&format!("{rest} {serve} {}", bench("Qwen/Qwen3-8B")));
    assert!(printed.contains("answers 404"), "{printed}");
    assert_eq!(
        refused(&format!(
            "{rest} {serve} {}",
            bench("meta-llama/Llama-3.1-8B-Instruct")
        )),
        ""
    );
    let printed = refused(&format!(
        "{MACHINE} --request-rate 1 --input-len 100 --random-input-len 200"
    ));
    assert!(printed.contains("set the same length"), "{printed}");
    let printed = refused(&format!("{MACHINE} --request-rate 1 --goodput ttft:500ms"));
    assert!(printed.contains("the unit is implied"), "{printed}");
    assert_eq!(
        refused(&format!(
            "{MACHINE} --request-rate 1 --input-len 100 --random-input-len 100 --output-len 9"
        )),
        ""
    );
}

/// SGLang on a machine of its own, with these flags.
fn sglang(flags: &str) -> Result<crate::engine::sglang::SglangConfig, Diagnostics> {
    let machine = "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64";
    match resolve_line(&format!("{machine} {flags}"))?
        .scenario
        .first_pool()
        .engine
        .clone()
    {
        crate::engine::EngineSpec::Sglang(config) => Ok(config),
        _ => panic!("SGLang was asked for"),
    }
}

#[test]
fn an_order_by_prefix_without_a_cache_is_told_to_be_none() {
    let machine = "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64";
    let is_noted = |flags: &str| {
        let resolved = resolve_line(&format!("{machine} --engine sglang {flags}")).unwrap();
        let mut notes = resolved.notes.iter();
        notes.any(|note| note.contains("no effect without the radix cache"))
    };
    assert!(is_noted("--disable-radix-cache --schedule-policy lpm"));
    assert!(!is_noted("--disable-radix-cache") && !is_noted("--schedule-policy lpm"));
}

#[test]
fn a_prompt_beyond_sglang_s_context_is_told_in_its_words() {
    assert_snapshot!(sglang("--engine sglang --context-length 100").unwrap_err(), @r#"
    error: `--input-len` does not fit the engine's context: prompts of up to 512 tokens, and context_length is 100
     |
     = help: write context_length = 576 or more, or shorter prompts
    "#);
    let outside = sglang("--engine sglang --context-length 0").unwrap_err();
    assert_snapshot!(outside, @"error: `--context-length` must lie between 4 and 131072: 0 does not");
}

#[test]
fn sglang_has_its_own_defaults_and_flags() {
    use crate::engine::sglang::{QueuePolicy, SglangSwitches};
    let plain = sglang("--engine sglang").unwrap();
    assert_eq!(plain.profile, "sglang@0.5.23");
    assert_eq!(
        (
            plain.chunked_prefill_size,
            plain.max_prefill_tokens,
            plain.page_size
        ),
        (Some(8192), 16384, 1)
    );
    assert_eq!(
        (plain.context_length, plain.max_running_requests),
        (131_072, 2048)
    );
    assert!(plain.overlap_schedule && plain.radix_cache && !plain.enable_mixed_chunk);
    // 0.828 of 79.2 GiB, less 15 GiB of weights, at 128 KiB a token.
    assert!(
        (380_000..420_000).contains(&plain.max_total_tokens),
        "{}",
        plain.max_total_tokens
    );
    let old = sglang("--engine sglang@0.5.4").unwrap();
    assert_eq!(old.switches, SglangSwitches::V0_5_4);
    assert!(old.max_total_tokens > plain.max_total_tokens);

    let set = "--engine sglang --schedule-policy dfs-weight --chunked-prefill-size -1 --disable-overlap-schedule \
               --max-total-tokens 4096 --page-size 16 --schedule-conservativeness 2 --disable-radix-cache";
    let set = sglang(set).unwrap();
    assert_eq!(
        (set.policy, set.chunked_prefill_size),
        (QueuePolicy::DfsWeight, None)
    );
    assert_eq!((set.max_total_tokens, set.max_running_requests), (4096, 2048));
    assert!(!set.overlap_schedule && !set.radix_cache && (set.init_new_token_ratio - 1.0).abs() < 1e-12);

    let pasted = "--serve-cmd 'python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2 \
                  --schedule-policy lpm --mem-fraction-static 0.8 --host 0.0.0.0 --enable-metrics'";
    let pasted = sglang(pasted).unwrap();
    assert_eq!(pasted.policy, QueuePolicy::Lpm);
    assert!(pasted.max_total_tokens > 2 * plain.max_total_tokens);
}

#[test]
fn flags_of_the_other_engine_are_refused() {
    let problem = |flags: &str| sglang(flags).map(|_| ()).unwrap_err().to_string();
    let check = |flags: &str, expected: &str| {
        let printed = problem(flags);
        assert!(printed.contains(expected), "{printed}");
    };
    check(
        "--engine sglang --max-num-seqs 8",
        "SGLang calls it --max-running-requests",
    );
    check(
        "--engine sglang --watermark 0.1",
        "`--watermark` is a flag of vLLM, and SGLang serves",
    );
    check("--page-size 16", "vLLM calls it --block-size");
    check(
        "--schedule-conservativeness 2",
        "is a flag of SGLang, and vLLM serves",
    );
    check(
        "--engine sglang --num-continuous-decode-steps 4",
        "other than 1 is not modelled",
    );
    check(
        "--engine sglang --chunked-prefill-size 8 --page-size 16",
        "must be at least page_size",
    );
    check("--engine sglang@0.2", "cannot be used");
    check(
        "--engine sglang --enable-priority-scheduling --schedule-policy lpm",
        "goes with the policies fcfs and lof only",
    );
    check("--engine sglang --mem-fraction-static 0.1", "mem-fraction-static");
    let eagle = "--serve-cmd 'python -m sglang.launch_server --model-path m --speculative-algorithm EAGLE'";
    check(eagle, "speculative decoding is not modelled yet");
}

#[test]
fn keys_of_a_scenario_for_the_other_engine_say_what_replaces_them() {
    let told = |line: &str| match resolve_line(line) {
        Ok(resolved) => resolved.notes.join("\n"),
        Err(problems) => {
            let lines = problems
                .0
                .iter()
                .map(|problem| format!("{}; {}", problem.message, problem.help.join(" ")));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    assert_snapshot!(told("matrix-a --engine sglang"), @r"
    `enable_prefix_caching` is a flag of vLLM, and SGLang serves; SGLang calls it disable_radix_cache: add --disable-radix-cache=false, which replaces this line, or write disable_radix_cache = false under [sglang] in its place
    `gpu_memory_utilization` is a flag of vLLM, and SGLang serves; SGLang calls it mem_fraction_static (of vLLM all memory that it takes, of SGLang that of weights and KV pool alone): add --mem-fraction-static, which replaces this line, or write a mem_fraction_static under [sglang] in its place
    `max_model_len` is a flag of vLLM, and SGLang serves; SGLang calls it context_length: add --context-length 8192, which replaces this line, or write context_length = 8192 under [sglang] in its place
    `max_num_batched_tokens` is a flag of vLLM, and SGLang serves; SGLang calls it chunked_prefill_size: add --chunked-prefill-size 8192, which replaces this line, or write chunked_prefill_size = 8192 under [sglang] in its place
    `max_num_seqs` is a flag of vLLM, and SGLang serves; SGLang calls it max_running_requests: add --max-running-requests 64, which replaces this line, or write max_running_requests = 64 under [sglang] in its place
    ");
    assert_snapshot!(told("prefix-lpm --engine vllm --max-num-seqs 32"), @r"
    `max_total_tokens` is a flag of SGLang, and vLLM serves; vLLM calls it num_gpu_blocks_override (vLLM counts blocks, SGLang tokens): add --num-gpu-blocks-override, which replaces this line, or write a num_gpu_blocks_override under [engine] in its place
    ");
    let replaced = resolve_line("dp-router --engine sglang --context-length 8192").unwrap();
    assert_eq!(replaced.scenario.first_pool().engine.max_model_len(), 8192);
    assert!(
        replaced.notes.contains(
            &"--context-length replaces the scenario's max_model_len, which is a flag of vLLM".to_string()
        ),
        "{:?}",
        replaced.notes
    );
    // Spelt out, it names the version and is read again.
    let spelt = crate::config::resolved_toml(&replaced);
    assert!(
        spelt.contains("profile = \"sglang@0.5.23\"") && !spelt.contains("max_model_len = "),
        "{spelt}"
    );
    let again = resolve(Document::parse("again.toml", &spelt).unwrap(), &FILES).unwrap();
    assert_eq!(
        again.scenario.first_pool().engine,
        replaced.scenario.first_pool().engine
    );
}

#[test]
fn a_share_that_leaves_a_step_no_memory_is_refused_and_the_nearest_is_named() {
    let refused = |flags: &str| {
        let problems = sglang(&format!("--engine sglang {flags}"))
            .map(|_| ())
            .unwrap_err();
        assert!(problems.is_misfit(), "{problems}");
        let problem = &problems.0[0];
        format!("{}; {}", problem.message, problem.help.join(" "))
    };
    assert_snapshot!(refused("--mem-fraction-static 0.99999"), @"`--mem-fraction-static` leaves 1 MiB outside weights and KV pool, and a step of 8192 prompt tokens with the captured graphs needs about 1.7 GiB; smallest change that fits: --mem-fraction-static 0.978");
    sglang("--engine sglang --mem-fraction-static 0.978").unwrap();
    let low = refused("--mem-fraction-static 0.1");
    let (_, changes) = low
        .split_once("smallest change that fits: --mem-fraction-static ")
        .unwrap();
    let (least, usual) = changes.split_once("   |   --mem-fraction-static ").unwrap();
    assert_eq!(usual, "0.828");
    sglang(&format!("--engine sglang --mem-fraction-static {least}")).unwrap();
    let below = least.parse::<f64>().unwrap() - 0.001;
    sglang(&format!("--engine sglang --mem-fraction-static {below}")).unwrap_err();
    let problems = sglang("--engine sglang --chunked-prefill-size 131072")
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        problems.contains("SGLang's own rule leaves no memory"),
        "{problems}"
    );
}

#[test]
fn a_flag_that_a_pasted_command_repeats_counts_once_and_the_last_time() {
    let line = "--gpu h100 --serve-cmd 'vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --max-model-len 8192 --max_num_seqs=4 -tp 1 -tp 2' \
                --bench-cmd 'vllm bench serve --request-rate 2 --goodput ttft:100 --num-prompts 50 --request-rate 3 --goodput tpot:50'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(resolved.scenario.first_pool().engine.max_num_seqs(), 4);
    assert_eq!(resolved.placement.tensor_parallel, 2);
    assert_eq!(resolved.request_rate(), 3.0);
    assert_eq!(resolved.slo.goodput.len(), 1, "argparse keeps the last list");
    let notes: Vec<&String> = resolved
        .notes
        .iter()
        .filter(|note| note.contains("is given"))
        .collect();
    assert_snapshot!(notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n"), @r"
    in --serve-cmd: --max-num-seqs is given twice: the last, 4, counts, as in vLLM
    in --serve-cmd: --tensor-parallel-size is given twice: the last, 2, counts, as in vLLM
    in --bench-cmd: --goodput is given twice: the last, tpot:50, counts, as in vLLM
    in --bench-cmd: --request-rate is given twice: the last, 3, counts, as in vLLM
    ");
}

#[test]
fn a_misspelt_scenario_is_one_mistake() {
    let told = |line: &str| match resolve_line(line) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems
            .0
            .into_iter()
            .map(|problem| format!("{}; {}", problem.message, problem.help.join(" ")))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    assert_snapshot!(told("quikstart"), @"`quikstart` is no scenario and no bundled model; did you mean the scenario `quickstart`?");
    assert!(
        told("Qwen3-9B --gpu h100").contains("no shape of the model"),
        "a model is nearer"
    );
    assert!(told("nosuch --gpu h100-sxm").starts_with("no shape of the model `nosuch` is bundled"));
}

#[test]
fn a_pasted_sglang_benchmark_has_that_clients_habits() {
    let command = "python -m sglang.bench_serving --backend sglang --port 8001 --dataset-name generated-shared-prefix \
                   --num-prompts 200 --request-rate 4 --gsp-range-ratio 1";
    let resolved = resolve_line(&format!("{MACHINE} --bench-cmd '{command}'")).unwrap();
    let spec = &resolved.scenario.workload;
    // The client sends all that its data set has, and does not rescale its arrivals.
    assert_eq!(
        (spec.num_prompts, spec.client.rescale_arrivals),
        (Some(1024), false)
    );
    let told = resolved.notes.join("\n");
    assert!(
        told.contains(
            "--bench-cmd --num-prompts 200 has no effect: generated-shared-prefix has 1024 prompts"
        ),
        "{told}"
    );
    assert_snapshot!(
        traffic("--bench-cmd 'python3 -m sglang.bench_serving --dataset-name random --random-input 512 --num-prompt 50'"),
        @"AllAtOnce; RandomSglang { input_len: 512, output_len: 1024, range_ratio: 0.0 }; Requests(50)"
    );
    let refused = resolve_line(&format!("{MACHINE} --bench-cmd '{command} --gsp-num-turns 3'"));
    assert!(
        refused
            .err()
            .is_some_and(|error| error.to_string().contains("cannot be honoured"))
    );
}

#[test]
fn what_has_no_effect_is_told_apart_and_survives_being_spelt_out() {
    let line = "--gpu t4 --serve-cmd 'vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 4096 --disable-log-requests \
                --swap-space 4' --bench-cmd 'vllm bench serve --request-rate 2 --num-prompts 50 --seed 7 --seed 8'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    let has = |sentences: &[String], text: &str| sentences.iter().any(|sentence| sentence.contains(text));
    assert!(
        has(&resolved.ignored, "--disable-log-requests has no effect"),
        "{:?}",
        resolved.ignored
    );
    assert!(has(&resolved.ignored, "never swaps"), "{:?}", resolved.ignored);
    let others = resolved.other_notes();
    assert!(
        has(&others, "bfloat16") && !has(&others, "no effect"),
        "{others:?}"
    );
    let text = resolved_toml(&resolved);
    let again = resolve(Document::parse("a.toml", &text).unwrap(), &NoFiles).unwrap();
    assert_eq!(again.ignored, resolved.ignored);
    assert_eq!(again.other_notes(), others);
    assert_eq!(resolved_toml(&again), text);
}
