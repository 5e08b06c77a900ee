//! Command lines and what they come to.

use clap::{CommandFactory, FromArgMatches, Parser};
use insta::assert_snapshot;

use super::ScenarioFlags;
use crate::config::*;
use crate::workload::{Arrivals, Prefix};

#[derive(Parser)]
#[command(no_binary_name = true)]
pub(in crate::config) struct Line {
    #[command(flatten)]
    pub(in crate::config) flags: ScenarioFlags,
}

pub(in crate::config) struct Memory(pub(in crate::config) &'static [(&'static str, &'static str)]);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let file = self.0.iter().find(|(name, _)| *name == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| format!("there is no file `{path}`"))
    }
}

/// A Llama of two layers whose checkpoint, quantized by its weights only, asks for a KV cache in fp8.
const ASKS_FOR_FP8_KV: &str = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}},
    "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float"}}}"#;

pub(in crate::config) const FILES: Memory = Memory(&[
    ("kv.json", ASKS_FOR_FP8_KV),
    (
        "modelopt/config.json",
        include_str!("../../model/shapes/llama-3.1-8b.json"),
    ),
    (
        "modelopt/hf_quant_config.json",
        r#"{"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": {"quant_algo": "FP8",
            "kv_cache_quant_algo": "FP8", "group_size": null, "exclude_modules": ["lm_head"]}}"#,
    ),
    (
        "trace.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,100,10\n2023-11-16 18:17:04.0,200,20\n2023-11-16 18:17:07.0,300,30\n",
    ),
]);

/// A command line as clap has it.
pub(in crate::config) fn flags_of(line: &str) -> ScenarioFlags {
    let words = shlex::split(line).unwrap();
    let normal = argv::normalise(&words);
    assert!(normal.problems.is_empty(), "{:?}", normal.problems);
    let matches = Line::command()
        .try_get_matches_from(normal.args)
        .unwrap_or_else(|error| panic!("{error}"));
    Line::from_arg_matches(&matches).unwrap().flags
}

pub(in crate::config) fn resolve_line(line: &str) -> Result<Resolved, Diagnostics> {
    let flags = flags_of(line);
    let input = assemble_run(&flags, &FILES)?;
    let mut resolved = resolve(input.document, &FILES)?;
    resolved.said_before(&input.notes, &input.ignored);
    Ok(resolved)
}

#[test]
fn all_that_is_wrong_with_a_pasted_command_is_told_at_once() {
    let command =
        "vllm serve Qwen/Qwen3-8B -pp 40 -tp 8 --cpu-offload-gb 10 --foo 3 --num-scheduler-steps 8 --bar=1";
    let line = format!("--gpu h100-sxm {TRAFFIC} --serve-cmd \"{command}\"");
    let told = resolve_line(&line).map(|_| ()).unwrap_err().to_string();
    for wrong in [
        "`--cpu-offload-gb` is not supported",
        "unexpected argument '--foo'",
        "unexpected argument '--bar'",
        "--pipeline-parallel-size` is larger than the model is deep",
        "--num-scheduler-steps`",
    ] {
        assert_eq!(told.matches(wrong).count(), 1, "{wrong}:\n{told}");
    }
}

pub(in crate::config) const MACHINE: &str =
    "meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --max-model-len 8192";

/// Some requests.
pub(in crate::config) const TRAFFIC: &str = "--request-rate 4 --input-len 128 --output-len 16";

/// The traffic that flags mean.
pub(in crate::config) fn traffic(flags: &str) -> String {
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

/// What is told about a line: its errors, or its notes.
pub(in crate::config) fn said(line: &str) -> String {
    match resolve_line(line) {
        Ok(resolved) => resolved.notes.join("\n"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_trace_takes_the_place_of_the_traffic_that_a_scenario_starts_from() {
    let told = said("quickstart --trace trace.csv");
    assert!(
        told.contains("the trace takes the place of workloads/azure-conv-2023"),
        "{told}"
    );
}

#[test]
fn flags_of_the_benchmark_client_mean_what_they_mean_there() {
    let lens = "--input-len 1024 --output-len 128";
    assert_snapshot!(traffic(&format!("--request-rate 4 {lens}")), @r#"Poisson { request_rate: 4.0 }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic(&format!("--request-rate 4 --burstiness 0.5 --num-prompts 50 {lens}")), @r#"Gamma { request_rate: 4.0, burstiness: 0.5 }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic(&format!("--request-rate inf --num-prompts 50 {lens}")), @r#"AllAtOnce; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic(&format!("--max-concurrency 32 {lens}")), @r#"AllAtOnce, 32 in flight; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic(&format!("--users 100 --think-time 30s --duration 600s {lens}")), @r#"Users { users: 100, think_time: Picos(30000000000000) }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Duration(Picos(600000000000000))"#);
    assert_snapshot!(traffic(&format!("--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9 --num-prompts 50 {lens}")), @r#"Ramp { start_rate: 1.0, end_rate: 9.0, exponential: false }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Requests(50)"#);
    assert_snapshot!(traffic("--request-rate 4 --client vllm"), @r#"Poisson { request_rate: 4.0 }, rescaled; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.0, output_range_ratio: 0.0 }; Requests(1000)"#);
    assert_snapshot!(traffic("--request-rate 4 --random-input-len 512 --random-output-len 64 --random-range-ratio 0.2 --random-prefix-len 100"), @r#"Poisson { request_rate: 4.0 }; RandomVllm { input_len: 512, output_len: 64, range_ratio: 0.2, output_range_ratio: 0.2 }; Groups { count: 1, prefix_len: 100, zipf: 0.0, exact_shares: false }; Auto { precision: 0.02 }"#);
    let apart = r#"--random-range-ratio '{"input": 0.2, "output": 0.5}'"#;
    assert_snapshot!(traffic(&format!("--request-rate 4 {lens} {apart}")), @r#"Poisson { request_rate: 4.0 }; RandomVllm { input_len: 1024, output_len: 128, range_ratio: 0.2, output_range_ratio: 0.5 }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-name prefix_repetition --num-prompts 100"), @r#"Poisson { request_rate: 4.0 }; Fixed { input_len: 256, output_len: 128 }; Groups { count: 10, prefix_len: 256, zipf: 0.0, exact_shares: true }; Requests(100)"#);
    assert_snapshot!(traffic("--request-rate 4 --dataset-path trace.csv"), @r#"Poisson { request_rate: 4.0 }; Empirical { pairs: [(100, 10), (200, 20), (300, 30)] }; Auto { precision: 0.02 }"#);
    assert_snapshot!(traffic("--trace trace.csv"), @r#"Replay of 3 x 1.000; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
    assert_snapshot!(traffic("--trace trace.csv --request-rate 3"), @r#"Replay of 3 x 0.250; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
    assert_snapshot!(traffic("--trace trace.csv --time-scale 2"), @r#"Replay of 3 x 2.000; Fixed { input_len: 1, output_len: 1 }; Requests(3)"#);
}

#[test]
fn limits_that_were_meant_in_seconds_are_told() {
    let told = |flags: &str| said(&format!("{MACHINE} {TRAFFIC} {flags}"));
    for (flags, sentence) in [
        (
            "--goodput ttft:0.5 tpot:50",
            "--goodput ttft:0.5 is 0.5 ms: --goodput and --slo are in milliseconds, and 0.5 s is ttft:500",
        ),
        ("--goodput 'tpot:0.05 e2el:10'", "and 0.05 s is tpot:50"),
        ("--goodput e2el:10", "and 10 s is e2el:10000"),
        ("--slo 'p99_ttft_ms<=0.5'", "and 0.5 s is p99_ttft_ms<=500"),
    ] {
        let notes = told(flags);
        assert!(notes.contains(sentence), "{flags}: {notes}");
    }
    assert!(!told("--goodput ttft:50 tpot:5 e2el:100").contains("milliseconds"));
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
    assert_snapshot!(traffic("--request-rate 4 --input-len 100 --output-len 10 --compilation-config '{\"backend\": \"eager\"}'"), @r#"
    error: `--compilation-config`: `backend` is not modelled
     |
     = help: mode, cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size are
    "#);
}

#[test]
fn the_answers_of_a_custom_data_set_are_of_no_other() {
    let told = said(&format!(
        "{MACHINE} --request-rate 4 --input-len 128 --custom-output-len 64"
    ));
    assert!(told.contains("belongs to another data set"), "{told}");
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
    let twice = "quickstart --goodput ttft:200 tpot:20 ttft:300";
    assert!(said(twice).contains("--goodput ttft:200 gives way to ttft:300"));
    assert_eq!(
        slo("--goodput ttft:200 tpot:20 ttft:300"),
        slo("--goodput ttft:300 tpot:20")
    );
    let percentile = slo("--slo 'p99_ttft_ms<=500' 'p99.9_itl_ms<=80'").percentiles;
    assert_eq!(
        percentile
            .iter()
            .map(|limit| (limit.percentile, limit.metric))
            .collect::<Vec<_>>(),
        [(Some(99.9), SloMetric::Itl), (Some(99.0), SloMetric::Ttft)]
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
fn the_random_data_set_of_sglangs_client_has_its_lengths() {
    let line = format!(
        "{MACHINE} --bench-cmd 'python -m sglang.bench_serving --dataset-name random --request-rate 4 --num-prompts 9'"
    );
    let resolved = resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
    let lengths = &resolved.scenario.workload.lengths;
    let client = crate::workload::Lengths::RandomSglang {
        input_len: 1024,
        output_len: 1024,
        range_ratio: 0.0,
    };
    assert_eq!(*lengths, client);
}

#[test]
fn a_limit_is_dropped_by_name_and_others_stay() {
    let goodput = |limits: &str| {
        let line = format!("quickstart --goodput {limits}");
        resolve_line(&line)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .slo
            .goodput
            .len()
    };
    assert_eq!(goodput("ttft:100"), 2);
    assert_eq!(goodput("ttft:100 tpot:none"), 1);
}

#[test]
fn one_mistake_of_a_trace_is_told_once() {
    for scale in ["-1", "nan"] {
        let line = format!("{MACHINE} --trace trace.csv --time-scale {scale}");
        let problems = resolve_line(&line).err().unwrap();
        assert_eq!(problems.0.len(), 1, "{problems}");
    }
}

#[test]
fn a_pasted_server_that_takes_the_place_of_a_scenarios_model_is_told() {
    let line = "quickstart --serve-cmd 'vllm serve Qwen/Qwen3-8B'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    let told = resolved.notes.join("\n");
    assert!(
        told.contains("--serve-cmd serves Qwen/Qwen3-8B, which takes the place of the scenario's"),
        "{told}"
    );
}
