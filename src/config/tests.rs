//! What users can write, and what they are told.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const BASE: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
[engine]
max_model_len = 8192
[workload.arrivals.poisson]
request_rate = 4.0
[workload.lengths.fixed]
input_len = 1024
output_len = 128
"#;

pub(super) fn resolve_text(text: &str) -> Result<Resolved, Diagnostics> {
    resolve(Document::parse("a.toml", text)?, &NoFiles)
}

/// The message for a scenario with one line put in the place of another.
pub(super) fn told_of(base: &str, line: &str, instead: &str) -> String {
    assert!(base.contains(line), "`{line}` is not in the base");
    match resolve_text(&base.replacen(line, instead, 1)) {
        Ok(_) => "accepted".to_string(),
        Err(problems) => problems.to_string(),
    }
}

fn told(line: &str, instead: &str) -> String {
    told_of(BASE, line, instead)
}

#[test]
fn the_base_scenario_is_valid() {
    if let Err(problems) = resolve_text(BASE) {
        panic!("{problems}");
    }
}

#[test]
fn a_group_of_ranks_stays_within_a_node_and_replicated_heads_are_noted() {
    let on = |ranks: u32| told("gpu = ", &format!("tensor_parallel_size = {ranks}\ngpu = "));
    let refused = on(16);
    assert!(
        refused.contains("`tensor_parallel_size` is larger than a node"),
        "{refused}"
    );
    assert_eq!(on(8), "accepted");
    let notes = |ranks: u32, model: &str| {
        let text = BASE
            .replacen("gpu = ", &format!("tensor_parallel_size = {ranks}\ngpu = "), 1)
            .replacen("meta-llama/Llama-3.1-8B-Instruct", model, 1);
        resolve_text(&text)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .notes
    };
    let replicated = |notes: Vec<String>| notes.iter().any(|note| note.contains("KV heads on 8 ranks"));
    assert!(replicated(notes(8, "Qwen/Qwen3-30B-A3B")), "it has four");
    assert!(
        !replicated(notes(8, "meta-llama/Llama-3.1-8B-Instruct")),
        "it has eight"
    );
}

#[test]
fn the_kernels_of_fp8_experts_are_named() {
    let about = |gpu: &str, model: &str, engine: &str| {
        let text = BASE.replacen("H100-SXM-80GB", gpu, 1).replacen(
            "meta-llama/Llama-3.1-8B-Instruct\"",
            &format!("{model}\"{engine}"),
            1,
        );
        let resolved = resolve_text(&text).unwrap_or_else(|problems| panic!("{problems}"));
        let about = resolved
            .notes
            .into_iter()
            .find(|note| note.starts_with("routed experts"));
        about.unwrap_or_default()
    };
    assert!(about("H100-SXM-80GB", "Qwen/Qwen3-30B-A3B-FP8", "").contains("in block fp8"));
    let fp8 = "\nquantization = \"fp8\"";
    assert!(about("H100-SXM-80GB", "Qwen/Qwen3-30B-A3B-FP8", fp8).contains("in block fp8"));
    assert!(about("H100-SXM-80GB", "Qwen/Qwen3-30B-A3B", fp8).contains("per-tensor fp8 reach 19 %"));
    assert_eq!(about("L40S-48GB", "Qwen/Qwen3-30B-A3B", fp8), "");
    assert_eq!(about("H100-SXM-80GB", "Qwen/Qwen3-8B-FP8", ""), "");
}

#[test]
fn every_shipped_scenario_resolves_and_so_does_its_spelt_out_form() {
    for (name, text) in files::SHIPPED
        .iter()
        .filter(|(name, _)| !name.starts_with("workloads/"))
    {
        let document =
            Document::parse(name, text).unwrap_or_else(|problem| panic!("{}", problem.render(false)));
        let axes = axes::of_scenario(&document).unwrap();
        for cell in
            axes::cells(&document, &axes, false).unwrap_or_else(|problems| panic!("{name}: {problems}"))
        {
            let first =
                resolve(cell.document, &NoFiles).unwrap_or_else(|problems| panic!("{name}: {problems}"));
            let spelt_out = resolved_toml(&first);
            let second =
                resolve_text(&spelt_out).unwrap_or_else(|problems| panic!("{name}: {problems}\n{spelt_out}"));
            assert_eq!(
                first.scenario.first_pool().engine,
                second.scenario.first_pool().engine,
                "{name}"
            );
            assert_eq!(first.scenario.workload, second.scenario.workload, "{name}");
            assert_eq!(
                first.scenario.first_pool().frontend,
                second.scenario.first_pool().frontend,
                "{name}"
            );
            assert_eq!(first.scenario.seed, second.scenario.seed, "{name}");
            assert_eq!(
                (&first.placement, first.length),
                (&second.placement, second.length),
                "{name}"
            );
            assert_eq!(
                (&first.model, &first.device, &first.slo),
                (&second.model, &second.device, &second.slo),
                "{name}"
            );
            assert_eq!(
                spelt_out.split("\n\n").nth(1),
                resolved_toml(&second).split("\n\n").nth(1),
                "{name}"
            );
        }
    }
}

#[test]
fn an_old_engine_spelt_out_is_accepted_again() {
    let text = BASE.replace("[engine]", "[engine]\nprofile = \"vllm@0.11\"");
    let first = resolve_text(&text).unwrap();
    let second = resolve_text(&resolved_toml(&first)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        first.scenario.first_pool().engine,
        second.scenario.first_pool().engine
    );
    assert!(
        !first
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .switches
            .reserve_full_isl
    );
    assert_eq!(first.scenario.first_pool().engine.vllm().unwrap().queue_depth, 1);
}

#[test]
fn the_schema_is_the_committed_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == scenario_schema(),
        "write it anew: cargo run -- schema > scenarios/schema.json"
    );
}

#[test]
fn assumed_values_name_their_reason() {
    let resolved = resolve_text(BASE).unwrap();
    let text: Vec<String> = resolved
        .assumptions()
        .filter(|value| !value.key.ends_with("calibration"))
        .map(|value| format!("{} = {} {:?}", value.key, value.value, value.source))
        .collect();
    assert_snapshot!(text.join("\n"), @r#"
    workload.seed = 0 Assumption("the first seed")
    cluster.tensor_parallel_size = 1 Assumption("one GPU")
    engine.profile = vllm@0.33 Assumption("the newest profile")
    engine.enable_chunked_prefill = true Profile("vllm@0.33")
    engine.enable_prefix_caching = true Profile("vllm@0.33")
    engine.max_num_batched_tokens = 8192 Profile("vllm@0.33 on H100-SXM-80GB")
    engine.max_num_seqs = 1024 Profile("vllm@0.33 on H100-SXM-80GB")
    engine.block_size = 16 Profile("vllm@0.33")
    engine.long_prefill_token_threshold = 0 Profile("vllm@0.33")
    engine.prefill_schedule_interval = 1 Profile("vllm@0.33")
    engine.stream_interval = 1 Profile("vllm@0.33")
    engine.gpu_memory_utilization = 0.92 Profile("vllm@0.33")
    engine.watermark = 0 Profile("vllm@0.33")
    engine.scheduler_reserve_full_isl = true Profile("vllm@0.33")
    engine.async_scheduling = true Profile("vllm@0.33")
    engine.scheduling_policy = fcfs Profile("vllm@0.33")
    engine.cudagraph_mode = full_and_piecewise Profile("vllm@0.33")
    workload.precision = 0.02 Assumption("the run goes on until its 95 % intervals are so narrow")
    "#);
}

#[test]
fn mistakes_are_located_and_mended() {
    assert_snapshot!(told("request_rate = 4.0", "request_rte = 4.0"), @r#"
    error: unknown key `request_rte`
     --> a.toml:9:1
      |
    9 | request_rte = 4.0
      | ^^^^^^^^^^^
      |
    help: did you mean `request_rate`?
    "#);
    assert_snapshot!(told("request_rate = 4.0", "request_rate = -4.0"), @r#"
    error: `request_rate` must be above 0 requests per second
     --> a.toml:9:16
      |
    9 | request_rate = -4.0
      |                ^^^^ -4 is not
    "#);
    assert_snapshot!(told("request_rate = 4.0", "request_rate = nan"), @r#"
    error: `request_rate` must be above 0 requests per second
     --> a.toml:9:16
      |
    9 | request_rate = nan
      |                ^^^ NaN is not
    "#);
    assert_snapshot!(told("request_rate = 4.0", "request_rate = \"fast\""), @r#"
    error: `request_rate`: `fast` is not a rate: write requests per second, or inf for all at once
     --> a.toml:9:16
      |
    9 | request_rate = "fast"
      |                ^^^^^^
    "#);
    assert_snapshot!(told("max_model_len = 8192", "gpu_memory_utilization = 92"), @r#"
    error: `gpu_memory_utilization` must be above 0 and at most 1
     --> a.toml:7:26
      |
    7 | gpu_memory_utilization = 92
      |                          ^^ 92 is not a fraction
      |
    help: for 92 % write 0.92
    "#);
    assert_snapshot!(told("max_model_len = 8192", "max_num_seqs = 0"), @r#"
    error: `max_num_seqs` must be at least 1
     --> a.toml:7:16
      |
    7 | max_num_seqs = 0
      |                ^ nothing could happen
    "#);
    assert_snapshot!(told("max_model_len = 8192", "max_num_seqs = -1"), @r#"
    error: `max_num_seqs` must be a whole number of at least 0
     --> a.toml:7:16
      |
    7 | max_num_seqs = -1
      |                ^^ found integer `-1`
    "#);
    assert_snapshot!(told("max_model_len = 8192", "enable_prefix_caching = 1"), @r#"
    error: `enable_prefix_caching` must be true or false
     --> a.toml:7:25
      |
    7 | enable_prefix_caching = 1
      |                         ^ found integer `1`
    "#);
    assert_snapshot!(told("max_model_len = 8192", "scheduling_policy = \"fcsf\""), @r#"
    error: `fcsf` is not a value of `scheduling_policy`
     --> a.toml:7:21
      |
    7 | scheduling_policy = "fcsf"
      |                     ^^^^^^
      |
    help: did you mean `fcfs`?
    "#);
    assert_snapshot!(told("max_model_len = 8192", "profile = \"tensorrt-llm\""), @r#"
    error: `profile tensorrt-llm` cannot be used
     --> a.toml:7:11
      |
    7 | profile = "tensorrt-llm"
      |           ^^^^^^^^^^^^^^ TensorRT-LLM's scheduler is not modelled yet
      |
    help: modelled are vllm@0.33, vllm@0.11, vllm@0.6, sglang@0.5.23, sglang@0.5.4, static and hf-cb
    "#);
    assert_snapshot!(told("max_model_len = 8192", "profile = \"vllm@0.11\"\nwatermark = 0.1"), @r#"
    error: `watermark` is not a flag of vllm@0.11
     --> a.toml:8:13
      |
    8 | watermark = 0.1
      |             ^^^ newer than vLLM 0.11
    "#);
    assert_snapshot!(told("max_model_len = 8192", "max_model_len = 900000"), @r#"
    error: `max_model_len` is longer than the model allows
     --> a.toml:7:17
      |
    7 | max_model_len = 900000
      |                 ^^^^^^ the model's context is 131072 tokens
      |
    help: write at most 131072
    "#);
    assert_snapshot!(told("max_model_len = 8192", "max_model_len = 1024"), @r#"
    error: `input_len` does not fit the engine's context
      --> a.toml:11:13
       |
    11 | input_len = 1024
       |             ^^^^ prompts of up to 1024 tokens, and max_model_len is 1024
       |
    help: write max_model_len = 1152 or more, or shorter prompts
    "#);
    assert_snapshot!(told("max_model_len = 8192", "enable_chunked_prefill = false\nmax_num_batched_tokens = 2048"), @r#"
    error: `max_num_batched_tokens` must hold the longest prompt when chunked prefill is off
     --> a.toml:8:26
      |
    8 | max_num_batched_tokens = 2048
      |                          ^^^^ 2048 tokens, but prompts may have 131072
      |
    help: write 131072 or more, a smaller max_model_len, or enable_chunked_prefill = true
    "#);
    assert_snapshot!(told("input_len = 1024", "input_len = 0"), @r#"
    error: `input_len` must be at least 1
      --> a.toml:11:13
       |
    11 | input_len = 0
       |             ^ nothing could happen
    "#);
    assert_snapshot!(told("[workload.lengths.fixed]", "[workload.lengths.fxed]"), @r#"
    error: unknown key `fxed`
      --> a.toml:10:19
       |
    10 | [workload.lengths.fxed]
       |                   ^^^^
       |
    help: did you mean `fixed`?
    "#);
    assert_snapshot!(told("[workload.lengths.fixed]", "[workload.lengths.random]\ninput_len = 1\noutput_len = 1\n[workload.lengths.fixed]"), @r#"
    error: `lengths` can be one thing only
      --> a.toml:10:11
       |
    10 | [workload.lengths.random]
       |           ^^^^^^^ this chooses fixed and random
       |
    help: keep one of [workload.lengths.fixed], [workload.lengths.random]
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"RTX4091\""), @r#"
    error: unknown GPU `RTX4091`
     --> a.toml:5:7
      |
    5 | gpu = "RTX4091"
      |       ^^^^^^^^^
      |
    help: did you mean RTX-4090-24GB or RTX-5090-32GB?
    help: `plimsoll hw` lists the known ones; the path of a hardware profile will do, too
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\npipeline_parallel_size = 2"), @r#"
    error: `pipeline_parallel_size` must be 1
     --> a.toml:6:26
      |
    6 | pipeline_parallel_size = 2
      |                          ^ pipeline parallelism is not modelled yet
      |
    help: simulate one stage's share, or use tensor parallelism
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\noverlap_weight = 2.0\nmean_time_to_recovery = \"1 s\"\n[[cluster.events]]\nat = \"1 s\"\nreplica = 1\nkind = \"fail\""), @r#"
    error: `overlap_weight` has no effect
     --> a.toml:6:18
      |
    6 | overlap_weight = 2.0
      |                  ^^^ only the router kv_events has it
      |
    help: add --router kv_events, or leave it out

    error: `replica` is no replica
      --> a.toml:10:11
       |
    10 | replica = 1
       |           ^ there are 1, numbered from 0

    error: `mean_time_to_recovery` needs a mean time between failures
     --> a.toml:7:25
      |
    7 | mean_time_to_recovery = "1 s"
      |                         ^^^^^ given alone
      |
    help: add --mean-time-between-failures
    "#);
    // Of one instant the later one has no effect.
    let fail = "[[cluster.events]]\nat = \"1 s\"\nreplica = 0\nkind = \"fail\"\n";
    assert_snapshot!(told("[engine]", &format!("{fail}{fail}[engine]")), @r#"
    error: `kind` has no effect
      --> a.toml:13:8
       |
    13 | kind = "fail"
       |        ^^^^^^ it has failed before
       |
    help: leave the event out
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"T4\""), @r#"
    error: does not fit: needs 15.0 GiB weights + 1.5 GiB activations and runtime a GPU, T4-16GB offers 13.4 GiB
     --> a.toml:5:7
      |
    5 | gpu = "T4"
      |       ^^^^
      |
    help: smallest change that fits: --quantization fp8   |   -tp 2
    "#);
    assert_snapshot!(told("Llama-3.1-8B-Instruct", "Llama-3.1-8B-Instrukt"), @r#"
    error: no shape of the model `meta-llama/Llama-3.1-8B-Instrukt` is bundled
     --> a.toml:3:8
      |
    3 | name = "meta-llama/Llama-3.1-8B-Instrukt"
      |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
    help: did you mean meta-llama/Llama-3.1-8B-Instruct or meta-llama/Llama-3.1-70B-Instruct or meta-llama/Llama-3.2-1B-Instruct?
    help: or give the path of its config.json
    "#);
    assert_snapshot!(told("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]"), @r#"
    error: `num_prompts` does not fit the simulated clock
     --> a.toml:7:15
      |
    7 | num_prompts = 1000000000000
      |               ^^^^^^^^^^^^^ 1000000000000 requests at 4 per second take 7922 years
      |
    help: a run can last 213 days: at most 70097627 requests, or a higher rate
    "#);
    assert_snapshot!(told("[engine]", "[slo.goodput]\nttft = 500\n[engine]"), @r#"
    error: `ttft` must be a duration with its unit, such as "500 ms"
     --> a.toml:7:8
      |
    7 | ttft = 500
      |        ^^^ found integer `500`
    "#);
    assert_snapshot!(told("[engine]", "[slo.percentiles]\np99_speed = \"5 ms\"\n[engine]"), @r#"
    error: `p99_speed` is not a percentile of a latency
     --> a.toml:7:13
      |
    7 | p99_speed = "5 ms"
      |             ^^^^^^ p99_speed
      |
    help: name a statistic and a metric: p99_ttft, p95_tpot, median_itl, mean_e2el
    "#);
    assert_snapshot!(told("[engine]", "[slo]\nattainment = 99\n[engine]"), @r#"
    error: `attainment` has nothing to attain
     --> a.toml:7:14
      |
    7 | attainment = 99
      |              ^^ no goodput limit is given
      |
    help: say what a good request is: --goodput ttft:500 tpot:50, or [slo.goodput]

    error: `attainment` must be above 0 and at most 1
     --> a.toml:7:14
      |
    7 | attainment = 99
      |              ^^ 99 is not a fraction
      |
    help: for 99 % write 0.99
    "#);
    assert_snapshot!(told("[engine]", "[engine"), @r#"
    error: a.toml is not TOML: unclosed table, expected `]`
     --> a.toml:6:8
      |
    6 | [engine
      |        ^
    "#);
}

#[test]
fn all_problems_are_told_at_once() {
    let text = BASE
        .replace("request_rate = 4.0", "request_rate = 0")
        .replace("max_model_len", "max_model_length")
        .replace("1024", "\"many\"");
    assert_eq!(
        resolve_text(&text).err().map(|problems| problems.0.len()),
        Some(3)
    );
}

#[test]
fn an_empty_input_says_what_is_missing() {
    let problems = resolve(Document::default(), &NoFiles).err().unwrap();
    assert_snapshot!(problems.to_string(), @r#"
    error: no model is given
     |
     = help: give its Hugging Face id, meta-llama/Llama-3.1-8B-Instruct (`plimsoll models` lists the bundled ones)

    error: no GPU is given
     |
     = help: give --gpu H100-SXM-80GB (`plimsoll hw` lists the known ones)

    error: no traffic is given: how many requests arrive?
     |
     = help: give --request-rate 4, --users 100 --think-time 30s, --max-concurrency 32, --trace FILE, or [workload.arrivals.poisson] request_rate = 4.0
    "#);
}

#[test]
fn a_long_run_is_accepted_where_the_clock_can_show_it() {
    let text = |rate: &str| {
        BASE.replace("request_rate = 4.0", &format!("request_rate = {rate}"))
            .replace("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]")
    };
    assert!(resolve_text(&text("1e6")).is_ok());
    assert!(resolve_text(&text("1e4")).is_err());
    let closed = text("1")
        .replace("poisson", "closed")
        .replace("request_rate = 1", "max_concurrency = 32");
    assert!(
        resolve_text(&closed)
            .err()
            .is_some_and(|problems| problems.to_string().contains("32 at a time"))
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in r#"(\[?[a-z_.]{0,12}\]?( = )?[-0-9a-z".{}\[\], ]{0,12}\n){0,8}"#) {
        if let Err(problems) = Document::parse("f.toml", &text).map_err(Diagnostics::from).and_then(|document| resolve(document, &NoFiles)) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }

    #[test]
    fn no_value_in_a_known_key_makes_the_reader_panic(
        key in prop::sample::select(vec![
            "engine.max_num_seqs", "engine.max_num_batched_tokens", "engine.max_model_len", "engine.block_size", "engine.watermark",
            "engine.gpu_memory_utilization", "engine.num_gpu_blocks_override", "engine.kv_cache_memory_bytes", "engine.cudagraph_capture_sizes",
            "cluster.tensor_parallel_size", "workload.num_prompts", "workload.duration", "workload.precision", "workload.seed",
            "workload.arrivals.poisson.request_rate", "workload.arrivals.gamma.burstiness", "workload.lengths.fixed.input_len",
            "workload.arrivals.mmpp.states", "workload.lengths.quantiles.input", "slo.attainment", "slo.goodput.ttft", "workload.client.timeout",
            "workload.prefix.groups.count", "model.quantization", "cluster.gpu", "cluster.calibration", "model", "workload.lengths",
        ]),
        value in prop_oneof![
            any::<i64>().prop_map(toml::Value::Integer), any::<f64>().prop_map(toml::Value::Float), any::<bool>().prop_map(toml::Value::Boolean),
            "[0-9a-z .]{0,8}".prop_map(toml::Value::String), prop::collection::vec(any::<i64>().prop_map(toml::Value::Integer), 0..4).prop_map(toml::Value::Array),
        ],
    ) {
        let mut document = Document::parse("a.toml", BASE).unwrap();
        document.set(key, value, "--flag");
        if let Err(problems) = resolve(document, &NoFiles) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }
}

/// Every key path of a table that holds a plain value.
fn leaves(path: &str, table: &toml::Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match value {
            toml::Value::Table(inner) => leaves(&path, inner, found),
            _ => found.push(path),
        }
    }
}

#[test]
fn one_mistake_is_told_once() {
    let resolved = resolve_text(BASE).unwrap_or_else(|problems| panic!("{problems}"));
    let mut whole: toml::Table = toml::from_str(&resolved_toml(&resolved)).unwrap();
    whole.remove("assumed");
    let mut keys = Vec::new();
    leaves("", &whole, &mut keys);
    assert!(keys.len() > 20, "{keys:?}");
    keys.extend(
        [
            "max_num_scheduled_tokens",
            "max_num_active_seqs",
            "max_num_queued_reqs",
        ]
        .map(|key| format!("engine.{key}")),
    );
    keys.extend(
        ["replicas", "data_parallel_size", "pipeline_parallel_size"].map(|key| format!("cluster.{key}")),
    );
    keys.push("workload.num_prompts".into());
    let bad = [
        "-1",
        "0",
        "1",
        "3",
        "92",
        "70000",
        "2000000000",
        "9223372036854775807",
        "-0.5",
        "1e300",
        "nan",
        "\"nonsense\"",
        "true",
        "[]",
    ];
    let mut refused = 0;
    for key in &keys {
        for bad in bad {
            let mut document = Document::parse("a.toml", &toml::to_string(&whole).unwrap()).unwrap();
            let value: toml::Table = toml::from_str(&format!("x = {bad}")).unwrap();
            document.set(key, value["x"].clone(), "--the-flag");
            let Err(Diagnostics(problems)) = resolve(document, &NoFiles) else {
                continue;
            };
            refused += 1;
            let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            assert_eq!(told.len(), 1, "{key} = {bad}: {told:?}");
        }
    }
    assert!(refused > 4 * keys.len(), "{refused}");
}

#[test]
fn the_gpus_of_a_rack_are_one_node() {
    let on = |gpu: &str, ranks: u32| {
        told(
            "gpu = \"H100-SXM-80GB\"",
            &format!("tensor_parallel_size = {ranks}\ngpu = \"{gpu}\""),
        )
    };
    assert_eq!(on("gb200", 16), "accepted");
    assert!(on("b200", 16).contains("larger than a node"));
}

#[test]
fn the_rate_of_a_run_is_of_requests_whatever_starts_them() {
    let rate = |more: &str| {
        let text = BASE.replacen("[workload.arrivals.poisson]\nrequest_rate = 4.0\n", more, 1);
        assert_ne!(text, BASE);
        resolve_text(&text)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .request_rate()
    };
    let sessions = "[workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.prefix.sessions]\nturns = 5.0\nthink_time = \"5 s\"\n";
    assert_eq!(rate(sessions), 5.0, "conversations have five requests each");
    let ramp = "[workload]\nnum_prompts = 100\n[workload.arrivals.ramp]\nstart_rate = 1.0\nend_rate = 4.0\n";
    let mean = rate(ramp);
    assert!(
        (mean - 3.0 / 4f64.ln()).abs() < 1e-9,
        "{mean}: a hundred requests take ∫dx/rate(x)"
    );
}

#[test]
fn a_rate_is_refused_in_its_own_unit_and_below_what_the_clock_shows() {
    let poisson = |rate: &str| told("request_rate = 4.0", &format!("request_rate = {rate}"));
    let slow = poisson("1e-300");
    assert!(
        slow.contains("must be at least 1.1e-7 requests per second"),
        "{slow}"
    );
    assert!(slow.lines().all(|line| line.len() < 200), "{slow}");
    assert!(poisson("0").contains("must be above 0 requests per second"));
    let limit = |keys: &str| told("[engine]", &format!("[[cluster.rate_limits]]\n{keys}\n[engine]"));
    for (keys, problem) in [
        ("tokens_per_second = -1.0", "must be above 0 tokens per second"),
        (
            "tokens_per_second = 1e10",
            "must be at most 1e9 tokens per second",
        ),
        (
            "requests_per_second = -1.0",
            "must be above 0 requests per second",
        ),
    ] {
        let told = limit(keys);
        assert!(told.contains(problem), "{keys}: {told}");
    }
}

#[test]
fn a_token_bucket_that_refuses_everybody_is_refused() {
    let limit = |keys: &str| told("[engine]", &format!("[[cluster.rate_limits]]\n{keys}\n[engine]"));
    // Every request has 1024 + 128 tokens.
    let small = limit("tokens_per_second = 100.0");
    assert!(
        small.contains("all would be refused") && small.contains("write token_burst = 1152"),
        "{small}"
    );
    assert_eq!(
        limit("tokens_per_second = 100.0\ntoken_burst = 1152.0"),
        "accepted"
    );
    let slow = limit("tokens_per_second = 1e-5\ntoken_burst = 1152.0");
    assert!(slow.contains("does not fill within the 213 days"), "{slow}");
}

#[test]
fn a_retry_that_would_wait_past_the_clock_is_refused() {
    let retries = |keys: &str| told("[engine]", &format!("[cluster.retries]\n{keys}\n[engine]"));
    let patient = retries("max_retries = 40");
    assert!(patient.contains("does not fit the simulated clock"), "{patient}");
    assert!(patient.contains("write max_retries = 28 or less"), "{patient}");
    assert_eq!(retries("max_retries = 28"), "accepted");
    assert_eq!(retries("max_retries = 100\nbackoff = \"0 s\""), "accepted");
}

#[test]
fn steps_of_unlike_pools_scatter_by_their_own_law() {
    /// A calibration of one's own beside the shipped ones.
    struct Own;
    impl Files for Own {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let law = match path {
                "calm.toml" => "0.05",
                "wild.toml" => "0.5",
                _ => return Err(format!("there is no file `{path}`")),
            };
            let text = "schema = 1\n[provenance]\nsource = \"public-fit\"\ngpu = \"H100-SXM-80GB\"\ncredit = \"x\"\n\
                        date = \"2026-01-01\"\n[jitter.vllm]\ncv = ";
            Ok(format!("{text}{law}\n").into_bytes())
        }
    }
    let pools = |second: &str| {
        let pool = |name: &str, calibration: &str| {
            let own = match calibration {
                "" => String::new(),
                file => format!("calibration = \"{file}\"\n"),
            };
            format!("[[cluster.pools]]\nname = \"{name}\"\nreplicas = 2\n{own}")
        };
        let cluster = format!(
            "router = \"round_robin\"\nstep_jitter = \"calibrated\"\n{}{}",
            pool("a", "calm.toml"),
            pool("b", second)
        );
        let text = BASE.replacen("[engine]", &format!("{cluster}[engine]"), 1);
        resolve(Document::parse("a.toml", &text).unwrap(), &Own)
    };
    let both = pools("wild.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let laws: Vec<f64> = both
        .scenario
        .jitter_by_replica()
        .iter()
        .map(|law| law.cv)
        .collect();
    assert_eq!(laws, [0.05, 0.05, 0.5, 0.5]);
    let lacking = pools("").err().map(|problems| problems.to_string());
    assert!(lacking.is_some_and(|told| told.contains("has no law for vllm")));
}
