//! Mistakes of a scenario file, each with its place and remedy.

use insta::assert_snapshot;

use crate::config::tests::{BASE, told};
use crate::config::{Document, NoFiles, axes, resolve};

#[test]
fn mistakes_in_the_traffic_are_located_and_mended() {
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
    assert_snapshot!(told("input_len = 1024", "input_len = 0"), @r#"
    error: `input_len` must be at least 1, not 0
      --> a.toml:11:13
       |
    11 | input_len = 0
       |             ^
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
    assert_snapshot!(told("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]"), @r#"
    error: `num_prompts` does not fit the simulated clock
     --> a.toml:7:15
      |
    7 | num_prompts = 1000000000000
      |               ^^^^^^^^^^^^^ 1000000000000 requests at 4 per second take 7922 years
      |
    help: a run can last 213 days: at most 70097627 requests, or a higher rate
    "#);
}

#[test]
fn mistakes_in_the_engines_flags_are_located_and_mended() {
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
    error: `max_num_seqs` must be at least 1, not 0
     --> a.toml:7:16
      |
    7 | max_num_seqs = 0
      |                ^
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
    assert_snapshot!(told("max_model_len = 8192", "profile = \"tensorrt-llm@0.20\""), @r#"
    error: `profile` cannot be used
     --> a.toml:7:11
      |
    7 | profile = "tensorrt-llm@0.20"
      |           ^^^^^^^^^^^^^^^^^^^ TensorRT-LLM 0.20 ran engines that were built before, whose executor is not modelled
      |
    help: modelled is tensorrt-llm@1.2
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
}

#[test]
fn mistakes_in_model_and_cluster_are_located_and_mended() {
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"RTX4091\""), @r#"
    error: unknown GPU `RTX4091`
     --> a.toml:5:7
      |
    5 | gpu = "RTX4091"
      |       ^^^^^^^^^
      |
    help: did you mean RTX-4090-24GB or RTX-PRO-4000-24GB or RTX-4000-ADA-20GB?
    help: `plimsoll hw` lists the known ones; the path of a hardware profile will do, too
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\npipeline_parallel_size = 33"), @r#"
    error: `pipeline_parallel_size` is larger than the model is deep
     --> a.toml:6:26
      |
    6 | pipeline_parallel_size = 33
      |                          ^^ it has only 32 layers to share
    "#);
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\noverlap_weight = 2.0\nmean_time_to_recovery = \"1 s\"\n[[cluster.events]]\nat = \"1 s\"\nreplica = 1\nkind = \"fail\""), @r#"
    error: `overlap_weight` has no effect
     --> a.toml:6:18
      |
    6 | overlap_weight = 2.0
      |                  ^^^ only the router kv_events has it
      |
    help: add --router kv_events, or leave it out

    error: `mean_time_to_recovery` needs a mean time between failures
     --> a.toml:7:25
      |
    7 | mean_time_to_recovery = "1 s"
      |                         ^^^^^ given alone
      |
    help: add --mean-time-between-failures

    error: `replica` is no replica
      --> a.toml:10:11
       |
    10 | replica = 1
       |           ^ there are 1, numbered from 0
    "#);
    // Replicas that fail all the time are a run of nothing else.
    assert_snapshot!(told("gpu = \"H100-SXM-80GB\"", "gpu = \"H100-SXM-80GB\"\nmean_time_between_failures = \"1 ns\"\nmean_time_to_recovery = \"1 ns\""), @r#"
    error: `mean_time_between_failures` and the mean time to recovery must be 1 ms together at least
     --> a.toml:6:30
      |
    6 | mean_time_between_failures = "1 ns"
      |                              ^^^^^^ a replica would fail 500000000 times a second
      |
    help: servers fail hours or days apart, and a restart takes a minute: "12 h" and "60 s"
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
    error: does not fit: needs 15.0 GiB weights + 1.2 GiB activations and runtime a GPU, T4-16GB offers 13.4 GiB
     --> a.toml:5:7
      |
    5 | gpu = "T4"
      |       ^^^^
      |
    help: smallest change that fits: --quantization fp8   |   -tp 2
    note: T4-16GB has no bfloat16: the model runs in float16
    note: assumed max_num_batched_tokens = 2048, max_num_seqs = 256, gpu_memory_utilization = 0.92
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
}

#[test]
fn mistakes_in_promises_are_located_and_mended() {
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
}

#[test]
fn a_file_that_is_no_toml_is_told_where() {
    assert_snapshot!(told("[engine]", "[engine"), @r#"
    error: a.toml is not TOML: unclosed table, expected `]`
     --> a.toml:6:8
      |
    6 | [engine
      |        ^
    "#);
}

#[test]
fn a_number_that_toml_does_not_hold_is_too_large() {
    let told = told("max_model_len = 8192", "max_model_len = 99999999999999999999");
    assert!(
        told.contains("99999999999999999999 is too large, a whole number is at most 9223372036854775807"),
        "{told}"
    );
}

#[test]
fn a_misspelt_key_is_told_where_a_flag_takes_the_place_of_its_table() {
    let told = |line: &str, instead: &str, flags: &[(&str, &str)]| {
        let text = BASE.replacen(line, instead, 1);
        let mut document = Document::parse("a.toml", &text).unwrap();
        let set = |(name, value): &(&str, &str)| axes::apply(&mut document, name, value);
        assert!(flags.iter().flat_map(set).next().is_none());
        resolve(document, &NoFiles).map_or_else(|problems| problems.to_string(), |_| "accepted".to_owned())
    };
    let rate = [("request_rate", "9")];
    assert_snapshot!(told("arrivals.poisson]\nrequest_rate", "arrivals.possion]\nrequest_rte", &rate), @r#"
    error: unknown key `possion`
     --> a.toml:8:20
      |
    8 | [workload.arrivals.possion]
      |                    ^^^^^^^
      |
    help: did you mean `poisson`?
    "#);
    let file = [("dataset_path", "lengths.json")];
    assert!(told("input_len", "input_ln", &file).contains("unknown key `input_ln`"));
    assert!(told("lengths.fixed]", "lengths.fxied]", &file).contains("unknown key `fxied`"));
    // What is right in itself gives way without a word.
    assert_eq!(
        told(
            "request_rate",
            "request_rate",
            &[("request_rate", "inf"), ("num_prompts", "9")]
        ),
        "accepted"
    );
}
