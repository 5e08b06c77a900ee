//! Rows of tables, and the scenarios that they become.

use super::version::other_profile;
use super::*;
use crate::results::{Load, Tool};

pub(super) fn plan(row: &Measured, trace: &dyn Fn(&str) -> Option<String>) -> Result<Plan, String> {
    super::plan(row, trace).map_err(String::from)
}

pub(super) fn row(load: Load) -> Measured {
    let mut row = Measured::new(Tool::Table, "row a");
    row.setup.model = Some("Meta-Llama/Llama-3.1-8B-Instruct".into());
    row.setup.gpu = Some("A100-PCIe-80GB (NVLink pair)".into());
    row.setup.engine = Some("vllm".into());
    row.setup.engine_version = Some("v0.11.0 (a remark)".into());
    row.setup.load = load;
    row.setup.num_prompts = Some(60);
    (row.setup.input_tokens, row.setup.output_tokens) = (Some(204.1), Some(63.0));
    row
}

fn planned(row: &Measured) -> Plan {
    let plan = plan(row, &|_| None).unwrap();
    toml::from_str::<toml::Table>(&plan.scenario).unwrap();
    plan
}

#[test]
fn a_sweep_of_prefills_reaches_over_the_lengths_that_nobody_told() {
    let mut row = row(Load::Closed { clients: 1 });
    (row.setup.input_tokens, row.setup.output_tokens) = (None, None);
    row.setup.workload = "single cache-miss prefill sweep".into();
    let plan = planned(&row);
    assert!(
        plan.scenario.contains("input_len = 8192\noutput_len = 1\n"),
        "{}",
        plan.scenario
    );
    let others: Vec<Plan> = plan
        .readings
        .iter()
        .map(|reading| plan.read_as(reading))
        .collect();
    for length in ["input_len = 2048\n", "input_len = 32768\n"] {
        assert!(
            others.iter().any(|other| other.scenario.contains(length)),
            "{length}"
        );
    }
    row.setup.workload = String::new();
    assert!(super::plan(&row, &|_| None).is_err());
}

#[test]
fn requests_longer_than_the_models_context_have_a_longer_one() {
    let mut row = row(Load::Closed { clients: 1 });
    row.setup.model = Some("01-ai/Yi-34B".into());
    row.setup.engine_version = None;
    for (prompt, answer, positions) in [
        (4000.0, Some(96.0), None),
        (4000.0, Some(97.0), Some(8192)),
        (4000.0, Some(96.5), Some(8192)),
        (4096.0, Some(1.0), Some(8192)),
        (16383.0, Some(1.0), Some(16384)),
    ] {
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(prompt), answer);
        row.setup.workload = "single prefill".into();
        let plan = planned(&row);
        let told = positions.map(|positions| format!("\nmax_position_embeddings = {positions}\n"));
        match told {
            Some(told) => assert!(plan.scenario.contains(&told), "{}", plan.scenario),
            None => assert!(!plan.scenario.contains("max_position"), "{}", plan.scenario),
        }
        let is_assumed = plan
            .assumptions
            .iter()
            .any(|told| told.contains("longer than the model's 4096"));
        assert_eq!(is_assumed, positions.is_some(), "{prompt}");
    }
}

#[test]
fn an_open_loop_keeps_its_flags_its_law_and_the_limit_of_its_client() {
    let mut row = row(Load::Open { rate: 31.4 });
    row.setup.workload = "inference-perf shared_prefix: system 128 + question 64".into();
    row.setup.notes = "client caps 44 workers x 10 = 440 requests in flight, so it plateaus".into();
    row.setup.flags = "--gpu_memory_utilization=0.9 --max-model-len=512 --no-enable-prefix-caching".into();
    (row.setup.tensor_parallel, row.setup.precision) = (Some(2), Some("fp8 (gemm fp8, moe fp8)".into()));
    insta::assert_snapshot!(planned(&row).scenario, @r#"
    [model]
    name = "meta-llama/Llama-3.1-8B-Instruct"
    quantization = "fp8"

    [cluster]
    gpu = "A100-PCIe-80GB"
    nvlink_bridge = true
    tensor_parallel_size = 2

    [engine]
    profile = "vllm@0.11.0"
    enable_prefix_caching = false
    gpu_memory_utilization = 0.9
    max_model_len = 512

    [workload]
    seed = 0
    num_prompts = 60

    [workload.arrivals.poisson]
    request_rate = 31.4

    [workload.client]
    max_concurrency = 440
    rescale_arrivals = true

    [workload.lengths.fixed]
    input_len = 204
    output_len = 63
    "#);
}

#[test]
fn closed_loops_bursts_and_lengths_have_their_own_words() {
    let text = |load: Load, workload: &str| {
        let mut row = row(load);
        row.setup.workload = workload.into();
        if let Load::Closed { clients } = load {
            row.setup.max_concurrency = Some(clients);
        }
        planned(&row).scenario
    };
    let closed = text(
        Load::Closed { clients: 8 },
        "random isl=1024 osl=8192 range_ratio=0.8",
    );
    assert!(closed.contains("[workload.arrivals.all_at_once]\n\n[workload.client]\nmax_concurrency = 8"));
    assert!(closed.contains(
        "[workload.lengths.random_sglang]\ninput_len = 1024\noutput_len = 8192\nrange_ratio = 0.8"
    ));
    assert!(text(Load::Burst, "random isl<=1000 osl<=1000").contains("input_len = 408"));
    assert!(text(Load::Burst, "ShareGPT").contains("[workload.lengths.lognormal]"));
    assert!(text(Load::StaticBatch { batch: 4 }, "").contains("all_at_once"));
}

#[test]
fn what_a_row_leaves_open_is_read_both_ways() {
    let mut row = row(Load::Burst);
    row.setup.workload = "ShareGPT".into();
    row.setup.gpu = Some("H100-80GB".into());
    row.setup.engine_version = Some("0.18.0".into());
    let plan = planned(&row);
    let read: Vec<String> = plan
        .readings
        .iter()
        .map(|one| plan.read_as(one).scenario)
        .collect();
    assert_eq!(read.len(), 3);
    for (scenario, part) in read
        .iter()
        .zip(["H100-PCIE-80GB", "vllm@0.33", "[workload.lengths.fixed]"])
    {
        assert!(
            scenario.contains(part) && !plan.scenario.contains(part),
            "{scenario}"
        );
    }
    assert_eq!(other_profile("vllm", Some("0.11.2")), None);
    assert_eq!(other_profile("vllm", Some("0.9.2")), None);
    assert_eq!(other_profile("vllm", None), Some("vllm@0.11"));
}

#[test]
fn a_cache_and_hits_that_notes_tell_of_are_taken() {
    let mut row = row(Load::Burst);
    row.setup.gpu = Some("A100-80GB".into());
    row.setup.input_tokens = Some(1024.0);
    row.setup.notes = "available KV cache 12.02 GiB per GPU; engine log samples \
                       running/waiting/kv%/prefix_hit%: 1/0/0.4/49.2 0/0/0.0/49.2"
        .into();
    let plan = planned(&row);
    assert!(
        plan.scenario.contains("kv_cache_memory_bytes = 12906376724"),
        "{}",
        plan.scenario
    );
    let read = plan.read_as(plan.readings.last().unwrap()).scenario;
    assert!(
        read.contains("input_len = 16\n") && read.contains("prefix_len = 1008"),
        "{read}"
    );
    // A flag of the server's goes before a remark.
    row.setup.flags = "--gpu_memory_utilization=0.9".into();
    assert!(!planned(&row).scenario.contains("kv_cache_memory_bytes"));
}

#[test]
fn clients_of_a_closed_loop_may_be_in_step_or_not() {
    let mut row = row(Load::Closed { clients: 8 });
    row.setup.workload = "random isl=1024 osl=128".into();
    let plan = planned(&row);
    let read = plan.read_as(plan.readings.last().unwrap()).scenario;
    let law = "[workload.lengths.random]\ninput_len = 204\noutput_len = 63\nrange_ratio = 0.111\n";
    assert!(read.contains(law), "{read}");
    assert!(
        plan.scenario
            .contains("[workload.lengths.fixed]\ninput_len = 204\noutput_len = 63\n"),
        "{}",
        plan.scenario
    );
}

#[test]
fn flags_say_what_columns_leave_open_and_may_not_contradict_them() {
    let with = |change: &dyn Fn(&mut Measured)| {
        let mut row = row(Load::Burst);
        change(&mut row);
        plan(&row, &|_| None)
    };
    let scenario = with(&|row| {
        row.setup.n_gpus = Some(8);
        row.setup.flags =
            "vllm serve Llama-3.1-8B-Instruct -tp 4 -dp 2 --kv-cache-dtype fp8 -q fp8 -O0".into();
    })
    .unwrap()
    .scenario;
    for line in [
        "quantization = \"fp8\"",
        "kv_cache_dtype = \"fp8\"",
        "tensor_parallel_size = 4",
        "data_parallel_size = 2",
        "optimization_level = 0",
    ] {
        assert!(scenario.contains(&format!("\n{line}\n")), "{line}: {scenario}");
    }
    for (flags, word) in [
        ("-tp 8", "tensor-parallel-size 8"),
        ("--quantization awq", "--quantization \"awq\""),
        ("vllm serve Qwen/Qwen3-8B", "serve `Qwen/Qwen3-8B`"),
        ("--kv-cache-dtype fp8", "kv_cache_dtype is `bf16`"),
        ("-dp 4", "need 8 GPUs, and n_gpus is 2"),
        (
            "vllm serve RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8 -dp 4",
            "need 8 GPUs",
        ),
    ] {
        let reason = with(&|row| {
            (row.setup.n_gpus, row.setup.tensor_parallel) = (Some(2), Some(2));
            (row.setup.precision, row.setup.kv_cache_dtype) = (Some("fp8".into()), Some("bf16".into()));
            row.setup.flags = flags.into();
        });
        let reason = reason.unwrap_err();
        assert!(
            reason.contains("contradicts itself") && reason.contains(word),
            "{flags}: {reason}"
        );
    }
    let precision = |written: &str| with(&|row| row.setup.precision = Some(written.into()));
    assert!(
        precision("bf16+kv-fp8")
            .unwrap()
            .scenario
            .contains("kv_cache_dtype = \"fp8\"")
    );
    let cache = |written: &str| with(&|row| row.setup.kv_cache_dtype = Some(written.into()));
    let mixed = cache("fp8 skip-SW").unwrap().scenario;
    for line in [
        "kv_cache_dtype = \"fp8\"",
        "kv_cache_dtype_skip_layers = [\"sliding_window\"]",
    ] {
        assert!(mixed.contains(&format!("\n{line}\n")), "{line}: {mixed}");
    }
    let between = with(&|row| {
        row.setup.engine_version = Some("0.19.1".into());
        row.setup.kv_cache_dtype = Some("fp8 skip-SW".into());
    });
    let between = between.unwrap();
    assert!(
        between.scenario.contains("profile = \"vllm@0.33\""),
        "{}",
        between.scenario
    );
    let is_told = |told: &String| told.contains("vllm@0.19.1 is taken for vllm@0.33");
    assert!(
        between.assumptions.iter().any(is_told),
        "{:?}",
        between.assumptions
    );
    assert!(between.readings.is_empty(), "{:?}", between.readings);
    let wide = cache("bf16 skip-SW").unwrap_err();
    assert!(wide.contains("`bf16 skip-sw` is not modelled"), "{wide}");
    assert!(
        precision("bf16+kv-int8")
            .unwrap_err()
            .contains("`int8` is not modelled")
    );
}

#[test]
fn a_days_newest_release_served_unless_an_image_says_another() {
    let profile = |date: &str, flags: &str| {
        let mut row = row(Load::Burst);
        row.setup.engine_version = None;
        (row.setup.date, row.setup.flags) = (date.into(), flags.into());
        let plan = planned(&row);
        let at = plan.scenario.find("profile = ").unwrap();
        plan.scenario[at..].lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(profile("2024-06", ""), "profile = \"vllm@0.6\"");
    assert_eq!(profile("2025-10-29", "--port 80"), "profile = \"vllm@0.11\"");
    assert_eq!(profile("", ""), "profile = \"vllm\"");
    let image = "docker run --gpus all vllm/vllm-openai:v0.11.0 --model Llama-3.1-8B-Instruct";
    assert_eq!(profile("2026-10", image), "profile = \"vllm@0.11.0\"");
}

#[test]
fn the_number_of_requests_is_that_of_rate_and_duration_where_nobody_counts() {
    let requests = |load: Load, prompts: Option<u64>, duration: Option<f64>| {
        let mut row = row(load);
        row.setup.num_prompts = prompts;
        row.outcome.duration_s = duration;
        plan(&row, &|_| None).map(|plan| {
            let at = plan.scenario.find("num_prompts = ").unwrap();
            plan.scenario[at..].lines().next().unwrap_or_default().to_owned()
        })
    };
    let open = Load::Open { rate: 60.0 };
    assert_eq!(requests(open, None, Some(30.0)).unwrap(), "num_prompts = 1800");
    assert_eq!(requests(open, Some(7), Some(30.0)).unwrap(), "num_prompts = 7");
    assert_eq!(requests(open, None, None).unwrap(), "num_prompts = 2000");
    let batch = Load::StaticBatch { batch: 16 };
    assert_eq!(requests(batch, Some(200), None).unwrap(), "num_prompts = 16");
    assert!(requests(open, Some(0), None).is_err());
}

#[test]
fn the_checkpoint_that_is_served_counts() {
    let with = |precision: Option<&str>, flags: &str| {
        let mut row = row(Load::Burst);
        row.setup.model = Some("Qwen/Qwen3-8B".into());
        (row.setup.precision, row.setup.flags) = (precision.map(str::to_owned), flags.into());
        plan(&row, &|_| None)
    };
    let served = with(None, "vllm serve Qwen/Qwen3-8B-FP8").unwrap();
    assert!(
        served.scenario.contains("name = \"Qwen/Qwen3-8B-FP8\"\n"),
        "{}",
        served.scenario
    );
    assert!(
        served.assumptions.join("; ").contains("that its flags serve"),
        "{:?}",
        served.assumptions
    );
    let copy = with(None, "vllm serve RedHatAI/Qwen3-8B-quantized.w4a16").unwrap();
    assert!(copy.scenario.contains("w4a16"), "{}", copy.scenario);
    let same = with(Some("bf16"), "vllm serve qwen/qwen3-8b").unwrap();
    assert!(
        same.scenario.contains("name = \"Qwen/Qwen3-8B\"\n"),
        "{}",
        same.scenario
    );
    let reason = with(Some("bf16"), "vllm serve Qwen/Qwen3-8B-FP8").unwrap_err();
    assert!(reason.contains("precision is `bf16`"), "{reason}");
}

#[test]
fn experts_in_fp8_are_the_publishers_own() {
    let mut row = row(Load::Burst);
    (row.setup.model, row.setup.gpu) = (Some("Qwen/Qwen3-235B-A22B".into()), Some("H200".into()));
    (row.setup.precision, row.setup.n_gpus) = (Some("fp8".into()), Some(4));
    row.setup.expert_parallel = Some(4);
    let plan = planned(&row);
    assert!(
        plan.scenario.contains("name = \"Qwen/Qwen3-235B-A22B-FP8\"\n"),
        "{}",
        plan.scenario
    );
    assert!(
        plan.scenario.contains("enable_expert_parallel = true\n"),
        "{}",
        plan.scenario
    );
    let other = plan.read_as(plan.readings.first().unwrap());
    assert!(
        other.scenario.contains("name = \"Qwen/Qwen3-235B-A22B\"\n"),
        "{}",
        other.scenario
    );
}

#[test]
fn what_cannot_be_modelled_is_said() {
    let reason = |change: &dyn Fn(&mut Measured)| {
        let mut row = row(Load::Burst);
        change(&mut row);
        plan(&row, &|_| None).unwrap_err()
    };
    assert_eq!(
        reason(&|row| row.setup.flags = "--speculative-algorithm EAGLE3".into()),
        "the row speculates, and does not say how many drafts stood"
    );
    assert_eq!(
        reason(&|row| row.setup.precision = Some("int3".into())),
        "the precision `int3` is not modelled"
    );
    assert_eq!(
        reason(&|row| row.setup.output_tokens = None),
        "the row does not say how long answers are"
    );
    assert!(reason(&|row| row.setup.engine = Some("somebody's vLLM fork".into())).contains("not modelled"));
    let sarathi = |row: &mut Measured| row.setup.engine = Some("sarathi-serve (vLLM fork)".into());
    assert_eq!(reason(&sarathi), "the row does not say its chunk_size");
    let trace =
        |row: &mut Measured| (row.setup.load, row.setup.trace) = (Load::Trace, Some("a.jsonl".into()));
    assert_eq!(
        reason(&trace),
        "the trace `a.jsonl` is not at hand (--traces DIR)"
    );
}

#[test]
fn prompts_that_were_cached_share_a_prefix() {
    let mut row = row(Load::Open { rate: 5.0 });
    row.setup.notes = "prefix caching is on: about 98 % of prompt tokens are cache hits".into();
    row.setup.input_tokens = Some(591.6);
    let scenario = planned(&row).scenario;
    assert!(
        scenario.contains("input_len = 16\n") && scenario.contains("prefix_len = 576"),
        "{scenario}"
    );
}

#[test]
fn a_row_that_says_one_thing_and_starts_another_is_refused() {
    let reason = |row: &Measured| plan(row, &|_| None).unwrap_err();
    let mut said = row(Load::Closed { clients: 4 });
    said.setup.flags = "docker run vllm/vllm-openai:v0.6.1 --max-num-seqs 8".into();
    assert_eq!(
        reason(&said),
        "the row contradicts itself: its version is 0.11.0, its flags start an image of 0.6.1"
    );
    said.setup.flags = "docker run vllm/vllm-openai:v0.11.2 --max-num-seqs 8".into();
    assert!(planned(&said).scenario.contains("profile = \"vllm@0.11.0\""));
    said.setup.flags = "python3 -m sglang.launch_server --model-path m".into();
    assert_eq!(
        reason(&said),
        "the row contradicts itself: its engine is `vllm`, its flags start sglang"
    );
}

#[test]
fn flags_of_an_engine_that_has_none_here_are_named() {
    let mut row = row(Load::StaticBatch { batch: 4 });
    row.setup.engine = Some("static".into());
    assert!(planned(&row).ignored.is_empty());
    row.setup.flags = "--max-batch 4".into();
    assert_eq!(
        planned(&row).ignored,
        ["`--max-batch 4` has no effect: flags of static are not read"]
    );
}

#[test]
fn numbers_that_nobody_meant_are_no_panic() {
    let reason = |row: &Measured| plan(row, &|_| None).unwrap_err();
    let mut long = row(Load::Closed { clients: 4 });
    long.setup.workload = "ShareGPT".into();
    long.setup.input_tokens = Some(1e30);
    assert!(reason(&long).contains("prompts have"), "{}", reason(&long));
    let mut many = row(Load::Closed { clients: 4 });
    let all = Some(u32::MAX);
    (many.setup.tensor_parallel, many.setup.pipeline_parallel) = (all, all);
    (many.setup.data_parallel, many.setup.n_gpus) = (all, Some(8));
    assert!(reason(&many).contains("n_gpus is 8"), "{}", reason(&many));
    let mut crowd = row(Load::Closed {
        clients: u64::MAX / 8,
    });
    crowd.setup.num_prompts = None;
    assert!(planned(&crowd).scenario.contains("num_prompts"));
}

#[test]
fn a_part_that_a_plan_does_not_have_is_not_exchanged_in_silence() {
    let plan = planned(&row(Load::Burst));
    assert!(plan.with_seed(7).scenario.contains("\nseed = 7\n"));
    let missing = Reading {
        instead_of: "nowhere".to_owned(),
        put: String::new(),
    };
    assert!(std::panic::catch_unwind(|| plan.read_as(&missing)).is_err());
}
