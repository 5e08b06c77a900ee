//! Flags as people and tools write them, and as clap understands them.

use super::*;

fn check(line: &str, expected: &str) {
    let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    assert_eq!(normalise(&args).args.join(" "), expected, "{line}");
}

#[test]
fn sglangs_spellings_are_understood() {
    check(
        "--model-path m --tp-size 2 --chunked_prefill_size -1 --enable-mixed-chunk",
        "--model m --tensor-parallel-size 2 --chunked-prefill-size=-1 --enable-mixed-chunk",
    );
    check(
        "--enable-metrics --tool-call-parser qwen --tp 4 --random-seed 7",
        "--tensor-parallel-size 4",
    );
}

#[test]
fn every_spelling_of_vllm_becomes_one() {
    check(
        "-tp 2 --max_num_seqs=8",
        "--tensor-parallel-size 2 --max-num-seqs=8",
    );
    check("-tp=2 -tp4", "--tensor-parallel-size=2 --tensor-parallel-size=4");
    check("--no-enable-prefix-caching", "--enable-prefix-caching=false");
    check(
        "--no_enable_chunked_prefill m",
        "--enable-chunked-prefill=false m",
    );
    check("-q fp8 -o out.json", "--quantization fp8 -o out.json");
    check("-- --host x", "-- --host x");
    check(
        "--enable-chunked-prefill=True --enforce-eager False m",
        "--enable-chunked-prefill=true --enforce-eager=false m",
    );
    check(
        "--mem-frac 0.8 --cuda-graph-bs 1 2 4 --page-size 16",
        "--mem-fraction-static 0.8 --page-size 16",
    );
    check("--pd-hop -5us --seed 1", "--pd-hop=-5us --seed 1");
}

#[test]
fn dotted_flags_are_put_together_as_vllm_does() {
    check(
        "m -cc.cudagraph_mode=PIECEWISE --compilation-config.mode 3 -tp 2",
        r#"m --tensor-parallel-size 2 --compilation-config={"cudagraph_mode":"PIECEWISE","mode":3}"#,
    );
    check(
        r#"--compilation-config {"custom_ops":["+rms_norm"],"mode":3} --seed 1"#,
        r#"--compilation-config={"mode":3} --seed 1"#,
    );
    check("--compilation-config 3", "--compilation-config=3");
    check("-O.level=0", r#"--compilation-config={"level":0}"#);
    check(
        "-cc.cudagraph_capture_sizes+=1,2 -cc.pass_config.fuse_norm_quant true",
        r#"--compilation-config={"cudagraph_capture_sizes":[1,2]}"#,
    );
    check(
        "-cc.cudagraph_capture_sizes+=1,2 -cc.cudagraph_capture_sizes+=4,8 -cc.cudagraph_capture_sizes=[16] -cc.mode 0 -cc.mode 3",
        r#"--compilation-config={"cudagraph_capture_sizes":[1,2,4,8,16],"mode":3}"#,
    );
    check(
        "-O0 -O 1 -O=2",
        "--optimization-level=0 --optimization-level 1 --optimization-level=2",
    );
    check(
        "--speculative-config.method ngram -sc.num_speculative_tokens 3 --max-num-seqs 4",
        r#"--max-num-seqs 4 --speculative-config={"method":"ngram","num_speculative_tokens":3}"#,
    );
    let args = ["--diffusion-config.canvas_length", "8", "--max-num-seqs", "4"].map(String::from);
    let normal = normalise(&args);
    assert_eq!(normal.args, ["--max-num-seqs", "4"]);
    assert!(
        normal.problems[0]
            .message
            .contains("--diffusion-config.canvas_length")
    );
    check(
        "--request-rate .5 --gpu-memory-utilization=.9 -1.5",
        "--request-rate .5 --gpu-memory-utilization=.9 -1.5",
    );
}

#[test]
fn a_dotted_flag_does_not_take_a_flag_for_its_value() {
    let of = |line: &str| normalise(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>());
    for line in [
        "-cc.mode --seed 1",
        "--seed 1 -cc.mode",
        "-cc.mode -tp 1 --seed 1",
    ] {
        let normal = of(line);
        assert!(normal.args.join(" ").contains("--seed 1"), "{line}");
        let told: Vec<&str> = normal
            .problems
            .iter()
            .map(|problem| problem.message.as_str())
            .collect();
        assert_eq!(
            told,
            ["`--compilation-config.mode` needs a value, and none follows"],
            "{line}"
        );
    }
    assert!(of("-cc.mode -1").problems.is_empty());
    let whole = of("--compilation-config --seed 1");
    assert_eq!(whole.args, ["--seed", "1"]);
    assert_eq!(
        whole.problems[0].message,
        "`--compilation-config` needs a value, and none follows"
    );
    let twice = of("-cc.mode 0 -cc.mode=3").ignored;
    assert!(
        twice[0].starts_with("--compilation-config.mode 0 has no effect"),
        "{twice:?}"
    );
}

#[test]
fn a_length_that_vllm_chooses_is_a_value() {
    check(
        "m --max-model-len auto --seed 1",
        "m --max-model-len auto --seed 1",
    );
    check("m --max_model_len=-1", "m --max-model-len=-1");
    check("m --max-model-len -1", "m --max-model-len=-1");
    check("m --max-model-len 4096", "m --max-model-len 4096");
}

#[test]
fn flags_without_effect_are_taken_out_with_their_values_and_named() {
    check(
        "m --host 0.0.0.0 --port 8000 --disable-log-requests --max-num-seqs 4",
        "m --max-num-seqs 4",
    );
    check("--served-model-name a b --max-num-seqs 4", "--max-num-seqs 4");
    let args = ["--temperature".to_string(), "0".to_string()];
    assert!(normalise(&args).ignored[0].starts_with("--temperature has no effect"));
}

#[test]
fn a_command_keeps_the_flags_that_it_has_itself() {
    let args = [
        "--served_model_name=a",
        "--port",
        "0",
        "--ssl-keyfile",
        "k",
        "--max_num_seqs",
        "4",
    ];
    let normal = normalise_beside(&args.map(str::to_owned), &["port", "served-model-name"]);
    assert_eq!(
        normal.args.join(" "),
        "--served-model-name=a --port 0 --max-num-seqs 4"
    );
    assert!(
        normal.ignored[0].starts_with("--ssl-keyfile has no effect"),
        "{:?}",
        normal.ignored
    );
}

#[test]
fn a_switch_may_be_negated_where_its_being_off_is_what_is_simulated() {
    check(
        "--no-enable-lora --no-log-error-stack -q fp8",
        "--quantization fp8",
    );
    check("--device-memory-utilization 0.8", "--gpu-memory-utilization 0.8");
    let args = ["--no-enable-dbo".to_string()];
    assert_eq!(
        normalise(&args).ignored,
        ["--no-enable-dbo has no effect: it is off in any case"]
    );
}

#[test]
fn what_would_change_the_result_is_refused_unless_neutral() {
    let problems = |line: &str| {
        normalise(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
            .problems
            .len()
    };
    assert_eq!(problems("--enable-lora"), 1);
    assert_eq!(problems("--cpu-offload-gb 0"), 0);
    assert_eq!(problems("--cpu-offload-gb 4"), 1);
    assert_eq!(problems("--mem-fraction-static 0.8"), 0);
    assert_eq!(problems("--speculative-algorithm EAGLE"), 0);
    assert_eq!(problems("--speculative-token-map some/map.pt"), 1);
    assert_eq!(problems("--enable-hierarchical-cache"), 1);
}
