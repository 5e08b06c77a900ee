use super::*;

fn read_as(command: &str) -> Result<Translated, Vec<Diagnostic>> {
    let words = shlex::split(command).unwrap();
    in_vllms_words(&words).expect("a client that is read")
}

fn words(command: &str) -> String {
    match read_as(command) {
        Ok(read) => read.words.join(" "),
        Err(problems) => panic!("{problems:?}"),
    }
}

fn refused(command: &str) -> String {
    let problems = read_as(command).unwrap_err();
    problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn aiperf_says_its_load_and_lengths_in_vllms_words() {
    let flags =
        "--model Qwen/Qwen3-8B --url localhost:8000 --endpoint-type chat --streaming --isl 1024 --osl 128";
    assert_eq!(
        words(&format!(
            "aiperf profile {flags} --concurrency 64 --request-count 640"
        )),
        "--dataset-name random --model Qwen/Qwen3-8B --num-prompts 640 --max-concurrency 64 --random-input-len 1024 --random-output-len 128"
    );
    assert_eq!(
        words(&format!(
            "aiperf profile {flags} --request-rate 5.5 --arrival-pattern gamma --arrival-smoothness 0.5 --benchmark-duration 60"
        )),
        "--dataset-name random --model Qwen/Qwen3-8B --request-rate 5.5 --burstiness 0.5 --duration 60s --random-input-len 1024 \
         --random-output-len 128"
    );
    let read =
        read_as("aiperf profile -m x --osl 100 --goodput 'time_to_first_token:500 inter_token_latency:50'")
            .unwrap();
    assert_eq!(
        read.words.join(" "),
        "--dataset-name random --model x --goodput time_to_first_token:500 inter_token_latency:50 --max-concurrency 1 \
         --random-input-len 550 --random-output-len 100"
    );
    assert!(read.notes[0].starts_with("aiperf is read as `vllm bench serve --dataset-name random --model x"));
    assert!(
        read.notes.iter().any(|note| note.contains("550 tokens")),
        "{:?}",
        read.notes
    );
    let read = read_as("aiperf profile -m x --isl 600 --isl-stddev 60 --osl 100 --concurrency=8 --extra-inputs ignore_eos:true top_p:1").unwrap();
    // 60 / 600 · √3.
    assert!(
        read.words
            .contains(&r#"{"input": 0.1732, "output": 0.0000}"#.to_owned()),
        "{:?}",
        read.words
    );
    assert_eq!(read.ignored.len(), 1, "{:?}", read.ignored);
    assert_eq!(
        words(
            "aiperf profile -m x --input-file t.jsonl --custom-dataset-type mooncake_trace --fixed-schedule"
        ),
        "--model x --trace t.jsonl"
    );
    let trace = "aiperf profile -m x --input-file t.jsonl --custom-dataset-type mooncake_trace --request-rate 3 --random-seed 5 --concurrency 9";
    let read = read_as(trace).unwrap();
    assert_eq!(
        read.words.join(" "),
        "--model x --seed 5 --max-concurrency 9 --trace t.jsonl"
    );
    assert_eq!(
        read.ignored,
        ["--request-rate of aiperf has no effect: a trace has times of its own"]
    );
    assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
}

#[test]
fn what_has_no_effect_is_named() {
    let idle = |flags: &str| {
        let command = format!("aiperf profile -m x --osl 9 --isl 9 --concurrency 2 {flags}");
        read_as(&command).unwrap().ignored.join("; ")
    };
    for (flags, told) in [
        (
            "--arrival-pattern gamma --arrival-smoothness 2",
            "--arrival-pattern of aiperf has no effect: requests are sent at no rate",
        ),
        (
            "--num-prefix-prompts 1",
            "--num-prefix-prompts of aiperf has no effect",
        ),
        ("--custom-dataset-type mooncake_trace", "no file is named"),
        (
            "--concurrency 3",
            "--concurrency 2 of aiperf has no effect: the last one counts",
        ),
        (
            "-- -v --max-threads=256",
            "what stands behind -- tunes the client",
        ),
    ] {
        assert!(idle(flags).contains(told), "{flags}: {}", idle(flags));
    }
    let rate = "guidellm benchmark --profile throughput --rate 3 --data prompt_tokens=5,output_tokens=5";
    assert!(read_as(rate).unwrap().ignored[0].contains("--rate of guidellm has no effect"));
    // From 100 to 300 evenly: 200 on average, half of it either way.
    let bounds = "guidellm benchmark --profile synchronous --data prompt_tokens=250,prompt_tokens_min=100,prompt_tokens_max=300,output_tokens=5";
    let words = read_as(bounds).unwrap().words;
    assert!(
        words.contains(&"200".to_owned())
            && words.contains(&r#"{"input": 0.5000, "output": 0.0000}"#.to_owned()),
        "{words:?}"
    );
}

#[test]
fn a_container_s_image_may_be_the_client() {
    let image = "podman run --rm -e X=1 ghcr.io/vllm-project/guidellm:latest benchmark --profile synchronous --data prompt_tokens=9,output_tokens=9";
    assert!(words(image).contains("--max-concurrency 1"), "{}", words(image));
}

#[test]
fn genai_perf_sends_at_constant_gaps() {
    let read = "genai-perf profile -m x --service-kind openai --synthetic-input-tokens-mean 200 --output-tokens-mean 100 --request-rate 4 -v";
    assert_eq!(
        words(read),
        "--dataset-name random --model x --request-rate 4 --burstiness inf --random-input-len 200 --random-output-len 100"
    );
}

#[test]
fn guidellm_says_its_profile_and_data_in_vllms_words() {
    let of = |load: &str| {
        words(&format!(
            "guidellm benchmark --target http://localhost:8000 {load} --data prompt_tokens=256,output_tokens=128"
        ))
    };
    let lengths = "--random-input-len 256 --random-output-len 128";
    for (load, expected) in [
        (
            "--rate-type constant --rate 10",
            "--request-rate 10 --burstiness inf ",
        ),
        (
            "--profile poisson --rate 2.5 --max-seconds 30",
            "--request-rate 2.5 --duration 30s ",
        ),
        ("--rate-type concurrent --rate 16", "--max-concurrency 16 "),
        ("--rate-type synchronous", "--max-concurrency 1 "),
        ("run --rate-type throughput", "--request-rate inf "),
    ] {
        let (action, load) = load
            .strip_prefix("run ")
            .map_or(("", load), |load| ("run ", load));
        let command = format!(
            "guidellm benchmark {action}--target http://x {load} --data prompt_tokens=256,output_tokens=128"
        );
        assert_eq!(
            words(&command),
            format!("--dataset-name random {expected}{lengths}"),
            "{load}"
        );
    }
    assert!(of("--rate-type concurrent --rate 4 --max-requests 100").contains("--num-prompts 100"));
    let json = r#"guidellm benchmark --profile synchronous --data '{"prompt_tokens": 300, "prompt_tokens_stdev": 30, "output_tokens": 50}'"#;
    assert!(
        words(json).contains(r#"{"input": 0.1732, "output": 0.0000}"#),
        "{}",
        words(json)
    );
}

/// What is said in place of several loads is a command that is read.
#[test]
fn guidellms_several_loads_are_one_that_is_varied() {
    let data = "prompt_tokens=256,output_tokens=128";
    for (load, one, axis) in [
        ("", "--profile constant --rate 1", "-L request-rate 1,2,4"),
        (
            "--rate-type sweep --rate 10",
            "--rate-type constant --rate 1",
            "-L request-rate 1,2,4",
        ),
        (
            "--profile=poisson --rate=2,8",
            "--profile poisson --rate 2",
            "-L request-rate 2,8",
        ),
        (
            "--rate_type concurrent --rate 4,16",
            "--rate_type concurrent --rate 4",
            "-L max-concurrency 4,16",
        ),
    ] {
        let problems = read_as(&format!(
            "guidellm benchmark --target http://x {load} --data {data}"
        ))
        .unwrap_err();
        assert_eq!(problems.len(), 1, "{load}: {problems:?}");
        let help = problems[0].help.join(" ");
        let told = help.split('`').find(|told| told.contains(" -L ")).unwrap();
        let told = shlex::split(told).unwrap();
        assert_eq!(
            (told[0].as_str(), told[2..].join(" ").as_str()),
            ("--bench-cmd", axis),
            "{help}"
        );
        let command = shlex::split(&told[1]).unwrap().join(" ");
        let expected = format!("guidellm benchmark --target http://x --data {data} {one}");
        assert_eq!(command, expected, "{help}");
        assert!(
            help.contains("`plimsoll knee`") && read_as(&command).is_ok(),
            "{help}"
        );
    }
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    for (command, told) in [
        (
            "guidellm benchmark --data prompt_tokens=1,output_tokens=2",
            "`--profile` of guidellm is sweep",
        ),
        (
            "guidellm benchmark --profile constant --rate 1,2 --data prompt_tokens=1,output_tokens=2",
            "several rates",
        ),
        (
            "guidellm benchmark --profile constant --data prompt_tokens=1,output_tokens=2",
            "`--rate` of guidellm is not given",
        ),
        (
            "guidellm benchmark --profile synchronous --data some/dataset",
            "has `some/dataset`, which is not read",
        ),
        (
            "guidellm benchmark --profile synchronous --data prompt_tokens=5",
            "has not both lengths",
        ),
        (
            "guidellm benchmark --profile synchronous --data prompt_tokens=5,output_tokens=5,output_tokens_stdev=abc",
            "output_tokens_stdev = `abc`",
        ),
        (
            "aiperf profile -m x --osl 9 --request-rate 4 --arrival-pattern concurrency_burst",
            "is `concurrency_burst`",
        ),
        ("aiperf profile -m x --isl 100", "`--osl` of aiperf is not given"),
        (
            "aiperf profile -m x --osl 9 --isl many",
            "`--isl` of aiperf is `many`",
        ),
        (
            "aiperf profile -m x --osl 9 --frobnicate 3",
            "`--frobnicate` of aiperf is not known here",
        ),
        (
            "aiperf profile -m x --osl 9 --session-turns-mean 4",
            "`--session-turns-mean` of aiperf is 4",
        ),
        (
            "aiperf profile -m x --osl 9 --isl 100 --isl-stddev 90",
            "more than 58 %",
        ),
        ("aiperf profile -m x --input-file p.jsonl", "is a file of prompts"),
    ] {
        let said = refused(command);
        assert!(said.contains(told), "{command}: {said}");
    }
    let other = shlex::split("vllm bench serve --model aiperf").unwrap();
    assert!(in_vllms_words(&shlex::split("vllm bench serve --model x").unwrap()).is_none());
    assert!(in_vllms_words(&other).is_none(), "a value is no program");
}
