//! The real binary from end to end: exit codes, first lines, what it writes, and that the same input gives the same bytes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "cli/limits.rs"]
mod limits;

/// Plimsoll in a folder of its own: an installed binary needs no other file.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command
            .args(shlex::split(words).unwrap())
            .current_dir(self.path())
            .env("SOURCE_DATE_EPOCH", "1767225600")
            .env_remove("RAYON_NUM_THREADS");
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Demands an exit code; gives what was printed.
    fn expect(&self, code: i32, words: &str) -> String {
        let output = self.run(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "plimsoll {words}\n{out}\n{err}");
        out
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

const SMALL: &str = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --request-rate 5 \
                     --input-len 512 --output-len 64 --num-prompts 200";

#[test]
fn knee_without_arguments_answers_in_its_first_line() {
    let printed = Desk::new().expect(0, "knee");
    let first = printed.lines().next().unwrap();
    assert!(first.contains(" req/s within SLO"), "{first}");
    assert!(first.contains("saturates at "), "{first}");
}

#[test]
fn a_promise_that_is_not_kept_exits_with_3() {
    let desk = Desk::new();
    let printed = desk.expect(3, "knee quickstart --slo p99_ttft_ms<=1");
    assert!(printed.starts_with("NO RATE meets the SLO"), "{printed}");
    // Too few requests would leave the promise undecided.
    let longer = SMALL.replace("--num-prompts 200", "--num-prompts 2000");
    assert_ne!(longer, SMALL);
    desk.expect(3, &format!("{longer} --goodput ttft:1"));
    let printed = desk.expect(3, "fit meta-llama/Llama-3.1-70B-Instruct --gpu h100");
    assert!(printed.contains("DOES NOT FIT"), "{printed}");
}

#[test]
fn more_tokens_than_one_api_server_streams_are_told() {
    let desk = Desk::new();
    let said = |more: &str| {
        let line = "run meta-llama/Llama-3.1-8B-Instruct --gpu b200 --max-concurrency 500 --num-prompts 1000 \
                    --input-len 64 --output-len 128";
        text(&desk.run(&format!("{line} {more}")).stderr)
    };
    let alone = said("");
    assert!(
        alone.contains("each API server process streams") && alone.contains("--api-server-count 3 would do"),
        "{alone}"
    );
    assert!(!said("--api-server-count 3").contains("API server process streams"));
}

#[test]
fn steps_scatter_where_they_are_asked_to_and_the_same_each_time() {
    let desk = Desk::new();
    let law = "--step-jitter cv=0.1,stall-rate=1,stall=20ms --format json";
    let jittery = desk.expect(0, &format!("{SMALL} {law}"));
    assert_eq!(jittery, desk.expect(0, &format!("{SMALL} {law}")));
    let figure = |json: &str, key: &str| {
        let result: serde_json::Value = serde_json::from_str(json).unwrap();
        result[key].as_f64().unwrap()
    };
    let plain = desk.expect(0, &format!("{SMALL} --format json"));
    assert!(figure(&jittery, "std_itl_ms") > 1.2 * figure(&plain, "std_itl_ms"));
    let refused = desk.run(&format!("{SMALL} --step-jitter cv=-1"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is no law of step times"));
}

#[test]
fn overload_has_no_steady_state_and_exits_with_4() {
    let printed = Desk::new().expect(4, "run quickstart --request-rate 60");
    assert!(printed.starts_with("UNSTABLE at 60.0 req/s"), "{printed}");
}

#[test]
fn a_bad_file_is_told_with_line_and_remedy_all_problems_at_once() {
    let desk = Desk::new();
    let scenario = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100\"\n[engine]\n\
                    gpu_memory_utilization = 92\nmax_num_seq = 4\n[workload.arrivals.poisson]\nrequest_rate = 3\n";
    std::fs::write(desk.path().join("bad.toml"), scenario).unwrap();
    let output = desk.run("run bad.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let told = text(&output.stderr);
    for part in [
        "bad.toml:6:26",
        "for 92 % write 0.92",
        "bad.toml:7:1",
        "did you mean `max_num_seqs`?",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
}

#[test]
fn json_has_the_keys_of_vllm_bench_serve() {
    let printed = Desk::new().expect(0, &format!("{SMALL} --format json"));
    let result: serde_json::Value = serde_json::from_str(&printed).unwrap();
    for key in
        "date backend model_id num_prompts request_rate burstiness max_concurrency duration completed failed \
                total_input_tokens total_output_tokens request_throughput output_throughput mean_ttft_ms \
                median_tpot_ms std_itl_ms p99_e2el_ms"
            .split_whitespace()
    {
        assert!(
            !result[key].is_null() || key == "max_concurrency",
            "{key} is missing"
        );
    }
    assert_eq!(result["completed"], 200);
    assert!(result["plimsoll"]["verdict"].is_string());
}

#[test]
fn pasted_commands_run_and_save_under_vllms_file_name() {
    let desk = Desk::new();
    let words = "run --gpu h100 --save-result \
                 --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1 --max-model-len 8192' \
                 --bench-cmd 'vllm bench serve --dataset-name random --input-len 512 --output-len 32 \
                 --request-rate 10 --num-prompts 100'";
    desk.expect(0, words);
    let saved = desk
        .path()
        .join("vllm-10.0qps-Llama-3.1-8B-Instruct-20260101-000000.json");
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    assert_eq!(result["num_prompts"], 100);
    assert_eq!(result["latencies"].as_array().unwrap().len(), 100);
}

#[test]
fn a_scenario_spelt_out_gives_the_bytes_of_the_one_it_came_from() {
    let desk = Desk::new();
    let pasted = "run --gpu H100-SXM-80GB \
                  --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192' \
                  --bench-cmd 'vllm bench serve --input-len 512 --output-len 32 --request-rate 10 --num-prompts 100 \
                  --metric-percentiles 50,95 --goodput ttft:500 --metadata cluster=blue'";
    let others = [
        "run static-batching",
        "run quickstart --num-prompts 100 --engine vllm@0.6",
        "run quickstart --num-prompts 100 --engine hf-cb",
    ];
    for words in [SMALL].into_iter().chain(others).chain([pasted]) {
        let spelt_out = desk.expect(0, &format!("{words} --dry-run"));
        std::fs::write(desk.path().join("resolved.toml"), &spelt_out).unwrap();
        let once = desk.expect(0, &format!("{words} --format json"));
        assert_eq!(once, desk.expect(0, "run resolved.toml --format json"));
        assert_eq!(spelt_out, desk.expect(0, "run resolved.toml --dry-run"));
    }
    let result: serde_json::Value =
        serde_json::from_str(&desk.expect(0, "run resolved.toml --format json")).unwrap();
    assert!(result["p95_ttft_ms"].is_f64() && result["p99_ttft_ms"].is_null());
    assert_eq!(result["plimsoll"]["goodput_s"]["ttft"], 0.5);
    // A value that is changed was given.
    let assumed = |words: &str| desk.expect(0, words).contains("seed = 0");
    assert!(
        assumed("run resolved.toml --format json") && !assumed("run resolved.toml --format json --seed 0")
    );
}

#[test]
fn closed_batches_say_what_they_compute_for_nobody() {
    let desk = Desk::new();
    let printed = desk.expect(0, "run static-batching");
    assert!(
        printed.contains("of the tokens computed are of an answer"),
        "{printed}"
    );
    let json = |words: &str| -> serde_json::Value { serde_json::from_str(&desk.expect(0, words)).unwrap() };
    let closed = json("run static-batching --format json");
    assert_eq!(closed["plimsoll"]["scenario"]["engine"], "static");
    assert_eq!(closed["mean_ttft_ms"], closed["mean_e2el_ms"]);
    let useful = |result: &serde_json::Value| {
        result["plimsoll"]["batches"]["useful_token_efficiency"]
            .as_f64()
            .unwrap()
    };
    assert!((0.2..0.4).contains(&useful(&closed)));
    // With answers of one length nothing is computed for nobody.
    let alike = json("run static-batching --input-len 256 --output-len 64 --format json");
    assert_eq!(useful(&alike), 1.0);
    assert_eq!(alike["plimsoll"]["batches"]["prompt_padding_waste"], 0.0);
    let open = json("run continuous-batching --format json");
    let throughput = |result: &serde_json::Value| result["output_throughput"].as_f64().unwrap();
    assert!(throughput(&open) > 3.0 * throughput(&closed));
}

#[test]
fn a_model_that_does_not_fit_exits_with_3_and_a_file_that_is_not_there_with_2() {
    let desk = Desk::new();
    let traffic = "--request-rate 1 --input-len 8 --output-len 8";
    let large = "meta-llama/Llama-3.1-70B-Instruct --gpu h100";
    for words in [
        format!("fit {large}"),
        format!("run {large} {traffic}"),
        format!("knee {large} {traffic} --goodput ttft:500"),
        format!("sweep {large} {traffic} -L request-rate 1,2"),
    ] {
        desk.expect(3, &words);
        desk.expect(2, &words.replace("h100", "no.toml"));
    }
    for words in [
        "run no.toml",
        "knee no.toml",
        "hw show no.toml",
        "models show no.json",
        "hw add --from no.txt",
    ] {
        desk.expect(2, words);
    }
    desk.expect(2, "fit Qwen/Qwen3-8B --gpu h100 --quantization mxfp4");
}

#[test]
fn no_control_character_of_the_input_reaches_the_terminal() {
    let desk = Desk::new();
    let scenario = "[model]\nname = \"\\u001b[31m\"\n[cluster]\ngpu = \"\\u001b[31m\"\n";
    std::fs::write(desk.path().join("odd.toml"), scenario).unwrap();
    for words in [
        "run 'm\u{1b}[31m' --gpu h100",
        "run --format '\u{1b}[31m'",
        "run odd.toml",
        "trace '\u{1b}[31m'",
    ] {
        let output = desk.run(&format!("{words} --color never"));
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!text(&output.stderr).contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn what_most_requests_met_comes_first() {
    let crowded = SMALL.replace("--request-rate 5", "--request-rate 60 --max-num-queued-reqs 2");
    let printed = Desk::new().expect(0, &crowded);
    assert!(printed.starts_with("REFUSED "), "{printed}");
}

#[test]
fn a_fitted_day_runs_once_over_its_span() {
    let desk = Desk::new();
    desk.expect(
        0,
        &format!("trace '{}' --fit day.toml", fixture("traces/servegen.tar.gz")),
    );
    let words = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --workload day.toml --format json";
    let result: serde_json::Value = serde_json::from_str(&desk.expect(0, words)).unwrap();
    let completed = result["completed"].as_u64().unwrap();
    assert!((1_000..3_000).contains(&completed), "{completed}");
    assert!(
        result["plimsoll"]["assumptions"]
            .to_string()
            .contains("duration = ")
    );
}

#[test]
fn a_place_that_cannot_be_written_is_found_out_first() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("file"), "").unwrap();
    // So many requests would take hours.
    let long = SMALL.replace("--num-prompts 200", "--num-prompts 9000000000");
    for flags in [
        "-o .",
        "-o file/x.json",
        "--charts file",
        "--save-result --result-dir file",
    ] {
        desk.expect(2, &format!("{long} {flags}"));
    }
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let desk = Desk::new();
    for words in [
        "knee quickstart --format json".to_owned(),
        SMALL.replacen("run", "sweep", 1) + " -L request-rate 2,4,6,8 --format csv",
    ] {
        let with = |threads: &str| {
            let output = desk
                .command(&words)
                .env("RAYON_NUM_THREADS", threads)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout)
        };
        assert_eq!(with("1"), with("4"), "{words}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Desk::new()
        .command("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn recorded_schedules_are_repeated_and_a_changed_one_is_told() {
    let desk = Desk::new();
    let file = fixture("schedules/two_requests.json");
    let printed = desk.expect(0, &format!("conform '{file}'"));
    assert!(
        printed.contains("1 of 1 recordings are repeated step by step"),
        "{printed}"
    );
    let recording = std::fs::read_to_string(file).unwrap();
    let changed = recording.replace("\"free_blocks\":90", "\"free_blocks\":89");
    assert_ne!(recording, changed);
    std::fs::write(desk.path().join("changed.json"), changed).unwrap();
    let printed = desk.expect(1, "conform changed.json");
    assert!(
        printed.contains("the engine has 89, the simulator 90"),
        "{printed}"
    );
    let json = desk.expect(
        1,
        &format!(
            "conform '{}' changed.json --format json",
            fixture("schedules/two_requests.json")
        ),
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answer"], "1 of 2 recordings are repeated step by step");
    assert_eq!(json["files"][0]["result"], "equal");
    assert_eq!(json["files"][1]["difference"]["engine"], "89");
    desk.expect(2, "conform nothing.json");
}

#[test]
fn replicas_for_a_rate_are_the_first_line_and_agree_in_every_form() {
    let desk = Desk::new();
    let asked = "knee quickstart --for-rate 100 --price 2.5";
    let printed = desk.expect(0, asked);
    let first = printed.lines().next().unwrap();
    let replicas = first.split(' ').next().unwrap();
    assert!(
        first.contains("replicas for 100 req/s") && first.contains("$/h"),
        "{first}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&desk.expect(0, &format!("{asked} --format json"))).unwrap();
    let sizing = &json["sizing"];
    assert_eq!(sizing["replicas"].as_u64(), replicas.parse().ok());
    let knee = json["knee"]["value"].as_f64().unwrap();
    assert_eq!(sizing["replicas"].as_f64(), Some((100.0 / knee).ceil()));
    assert_eq!(
        sizing["usd_per_hour"].as_f64(),
        sizing["gpus"].as_f64().map(|gpus| 2.5 * gpus)
    );
    let table = desk.expect(0, &format!("{asked} --format csv"));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "replicas").unwrap();
    assert!(rows[1..].iter().all(|row| row[column] == replicas), "{table}");
    desk.expect(2, "knee quickstart --price 2.5");
    desk.expect(2, "knee quickstart --for-rate -1");
}

#[test]
fn a_cluster_s_own_result_is_possible_on_all_its_gpus_and_predicted_on_as_many() {
    let desk = Desk::new();
    let server = "meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --data-parallel-size 8";
    let traffic = "--request-rate 450 --num-prompts 1500 --input-len 512 --output-len 64";
    desk.expect(
        0,
        &format!("run {server} {traffic} --save-result --result-filename 8.json"),
    );
    desk.expect(0, "audit 8.json");
    let scored = desk.expect(0, "validate 8.json --no-interval --format json");
    let scored: serde_json::Value = serde_json::from_str(&scored).unwrap();
    for figure in ["ttft", "tpot", "throughput"] {
        let error = scored["overall"]["figures"][figure]["median_error"].as_f64();
        assert!(error.is_some_and(|error| error < 1e-6), "{figure} {error:?}");
    }
}

#[test]
fn replicas_for_a_rate_are_counted_by_one_that_does_not_fail_and_with_all_its_gpus() {
    let desk = Desk::new();
    let refused = |flags: &str, why: &str| {
        let output = desk.run(&format!("knee quickstart --for-rate 100 {flags}"));
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(why), "{printed}");
    };
    refused("--replicas 2", "leave --replicas and --router out");
    refused(
        "--mean-time-between-failures 1h --mean-time-to-recovery 1min",
        "replicas that do not fail",
    );

    let server = "knee quickstart --for-rate 100 --data-parallel-size 2 --price 1 --format json";
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, server)).unwrap();
    let sizing = &json["sizing"];
    assert_eq!(
        sizing["gpus"].as_u64(),
        sizing["replicas"].as_u64().map(|n| 2 * n)
    );
    assert_eq!(sizing["usd_per_hour"].as_f64(), sizing["gpus"].as_f64());
}

/// Every column that a sweep's CSV has is a key of its JSON, with the same value, and the verdict; no plain key is left out.
#[test]
fn the_columns_of_a_sweep_are_the_keys_of_its_json() {
    let desk = Desk::new();
    let sweep =
        "sweep quickstart --num-prompts 200 -L request-rate 2,4 --metadata team=blue --label x --format";
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, &format!("{sweep} json"))).unwrap();
    let table = desk.expect(0, &format!("{sweep} csv"));
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let (axis, keys) = (head[0], &head[1..head.len() - 1]);
    assert_eq!((axis, head.last()), ("request-rate", Some(&"verdict")));
    for (run, line) in json.as_array().unwrap().iter().zip(lines) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.last().copied(), run["plimsoll"]["verdict"].as_str());
        let plain = run
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| !value.is_object() && !value.is_array());
        let plain: std::collections::BTreeSet<&str> = plain.map(|(key, _)| key.as_str()).collect();
        assert_eq!(plain, keys.iter().copied().collect());
        for (key, cell) in keys.iter().zip(&cells[1..]) {
            let value = match &run[*key] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(*cell, value, "{key}");
        }
    }
}

/// A row a request in CSV, and vLLM's lists in the saved JSON: the same requests, in the same order.
#[test]
fn the_rows_of_a_run_are_the_lists_of_its_saved_result() {
    let desk = Desk::new();
    let table = desk.expect(
        0,
        &format!("{SMALL} --format csv --save-detailed --result-filename saved.json"),
    );
    let saved = std::fs::read_to_string(desk.path().join("saved.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    for (column, list) in [
        ("input_tokens", "input_lens"),
        ("output_tokens", "output_lens"),
        ("ttft_s", "ttfts"),
        ("start_time_s", "start_times"),
        ("latency_s", "latencies"),
    ] {
        let at = rows[0].iter().position(|name| *name == column).unwrap();
        let cells = rows[1..].iter().map(|row| row[at].parse::<f64>().unwrap());
        let list = saved[list]
            .as_array()
            .unwrap_or_else(|| panic!("{list} is no list"));
        assert_eq!(cells.len(), list.len(), "{column}");
        for (cell, value) in cells.zip(list) {
            let value = value.as_f64().unwrap();
            assert!(
                (cell - value).abs() <= 1e-12 * value.abs(),
                "{column}: {cell} {value}"
            );
        }
    }
}

/// A profile of one's own that is broken is told wherever it is looked at, and never passed over.
#[test]
fn a_broken_profile_is_not_passed_over() {
    let desk = Desk::new();
    let folder = desk.path().join("hardware_profiles");
    std::fs::create_dir(&folder).unwrap();
    for name in ["mine", "h100-sxm-80gb"] {
        std::fs::write(folder.join(format!("{name}.toml")), b"id = \"X\"\xff\n").unwrap();
        let output = desk.run(&format!("fit Qwen/Qwen3-8B --gpu {name}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.contains("is not a hardware profile") && told.contains(name),
            "{told}"
        );
    }
    let listed = desk.expect(0, "hw");
    assert!(
        listed.contains("left out: hardware_profiles/mine.toml"),
        "{listed}"
    );
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, "hw --format json")).unwrap();
    assert_eq!(json["unusable"].as_array().unwrap().len(), 2);
}

/// What the schema documents is what a spelt-out scenario has.
#[test]
fn a_spelt_out_scenario_has_only_keys_of_the_schema() {
    let desk = Desk::new();
    let schema: serde_json::Value = serde_json::from_str(&desk.expect(0, "schema")).unwrap();
    let scenario: toml::Table = desk.expect(0, "run quickstart --dry-run").parse().unwrap();
    let mut checked = 0;
    for (section, table) in scenario
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_table()?)))
    {
        let named = &schema["properties"][section];
        assert!(!named.is_null(), "[{section}] is not in the schema");
        let reference = named["$ref"].as_str().or(named["anyOf"][0]["$ref"].as_str());
        let of = reference.map_or(named, |path| {
            schema.pointer(path.trim_start_matches('#')).unwrap()
        });
        for key in table.keys() {
            checked += 1;
            assert!(
                !of["properties"][key].is_null(),
                "{section}.{key} is not in the schema: {of:#}"
            );
        }
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn fit_counts_the_blocks_and_trace_describes_a_file() {
    let desk = Desk::new();
    let printed = desk.expect(0, "fit meta-llama/Llama-3.1-8B-Instruct --gpu h100 --format json");
    let fit: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert!(fit["num_gpu_blocks"].as_u64().unwrap() > 20_000, "{printed}");
    let printed = desk.expect(0, &format!("trace '{}'", fixture("traces/mooncake.jsonl")));
    assert!(printed.starts_with("5 requests in 9.00 s"), "{printed}");
    desk.expect(2, "trace nothing.csv");
}

#[test]
fn every_command_explains_itself() {
    let desk = Desk::new();
    assert!(desk.expect(0, "--version").starts_with("plimsoll 0."));
    for command in
        "fit run knee sweep compare working-set conform course trace hw models schema completions".split(' ')
    {
        let printed = desk.expect(0, &format!("{command} --help"));
        assert!(printed.contains("Usage: plimsoll"), "{command}: {printed}");
    }
    desk.expect(2, "run --no-such-flag");
    desk.expect(
        2,
        "run no-such-model --gpu h100 --request-rate 1 --input-len 8 --output-len 8",
    );
}

#[test]
fn variants_are_compared_under_the_same_seeds_and_answer_first() {
    let desk = Desk::new();
    let line = "compare prefix-caching 'on: ' 'off: --no-enable-prefix-caching' --num-prompts 120 --seeds 3";
    let printed = desk.expect(0, line);
    assert!(
        printed.starts_with("on is better than off, which has mean TTFT +"),
        "{printed}"
    );
    assert!(
        printed.contains("hit rate") && printed.contains("mean TTFT, warm"),
        "{printed}"
    );
    assert_eq!(
        printed,
        desk.expect(0, line),
        "the same bytes for any number of threads"
    );
    let json = desk.expect(0, &format!("{line} --format json --charts pictures"));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        parsed["variants"][1]["figures_by_seed"]["mean_ttft_s"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert!(
        parsed["variants"][1]["differences"]["mean_ttft_s"]["relative"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(
        desk.path().join("pictures/difference.png").is_file()
            && desk.path().join("pictures/itl.svg").is_file()
    );
    // Flags in quotes begin with a dash; one alone is held against the scenario as it stands.
    let one = desk.expect(
        0,
        "compare prefix-caching '--max-num-seqs 4' --num-prompts 60 --seeds 2 --format csv",
    );
    assert!(one.contains("\nB,--max-num-seqs 4,mean_ttft_s,s,"), "{one}");
    let refused = desk.run("compare prefix-caching");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("nothing to compare"));
}

#[test]
fn starvation_is_told_where_a_policy_looks_at_the_cache() {
    let desk = Desk::new();
    let said = |policy: &str| {
        desk.expect(
            0,
            &format!("run queue-shared --num-prompts 600 --schedule-policy {policy} --why --quiet"),
        )
    };
    let (fcfs, lpm) = (said("fcfs"), said("lpm"));
    assert!(fcfs.contains("nobody was overtaken by a later request"), "{fcfs}");
    assert!(lpm.contains("% of requests by later ones; request"), "{lpm}");
    assert!(lpm.contains("prefixes that waited longest"), "{lpm}");
}

#[test]
fn the_working_set_of_a_scenario_and_of_a_trace_is_drawn() {
    let desk = Desk::new();
    let printed = desk.expect(0, "working-set radix-cache --charts pictures");
    assert!(
        printed.starts_with("an endless prefix cache finds 88."),
        "{printed}"
    );
    assert!(desk.path().join("pictures/working-set.png").is_file());
    let rows: String = (0..40)
        .map(|at| format!("{{\"timestamp\": {at}, \"input_length\": 1024, \"output_length\": 16, \"hash_ids\": [{}, {}]}}\n", at % 4, 100 + at))
        .collect();
    std::fs::write(desk.path().join("trace.jsonl"), rows).unwrap();
    let of_trace = desk.expect(
        0,
        "trace trace.jsonl --working-set --gpu h100 --model Qwen/Qwen3-8B --format json",
    );
    let parsed: serde_json::Value = serde_json::from_str(&of_trace).unwrap();
    // 36 of 40 prompts find their first half.
    assert!(
        (parsed["endless_hit_rate"].as_f64().unwrap() - 0.45).abs() < 1e-9,
        "{of_trace}"
    );
    assert!(parsed["pool"]["tokens"].as_u64().unwrap() > 0);
}

#[test]
fn an_audit_answers_first_and_its_exit_code_says_whether_something_was_found() {
    let desk = Desk::new();
    let printed = desk.expect(1, &format!("audit {}", fixture("results/course_tables.json")));
    let first = printed.lines().next().unwrap();
    assert_eq!(
        first,
        "25 of 45 rows cannot be what their column names say; 7 more are doubtful"
    );
    let clean = desk.expect(0, &format!("audit {} --gpu h100", fixture("results/vllm.json")));
    assert_eq!(clean, "nothing speaks against the result\n");
    // What a file lacks can be given: 16 were asked for and 8 were there.
    desk.expect(
        1,
        &format!(
            "audit {} --max-concurrency 2 --request-rate inf",
            fixture("results/aiperf_console.txt")
        ),
    );
    let json = desk.expect(
        1,
        &format!("audit {} --format json", fixture("results/vllm_all_failed.json")),
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"][0]["rows"][0]["findings"][0]["check"], "failures");
    desk.expect(2, &format!("audit {}", fixture("kernels")));
}

#[test]
fn a_prediction_passes_its_own_audit_and_does_not_differ_from_itself() {
    let desk = Desk::new();
    desk.expect(0, &format!("{SMALL} --format json -o first.json"));
    desk.expect(
        0,
        &format!("{SMALL} --max-num-seqs 2 --format json -o second.json"),
    );
    desk.expect(0, "audit first.json");
    let same = desk.expect(0, "diff first.json first.json --tolerance 0");
    assert_eq!(same.lines().next(), Some("nothing moved by more than chance"));
    let other = desk.expect(1, "diff first.json second.json --tolerance 5");
    assert!(
        other.lines().next().unwrap().contains("than predicted"),
        "{other}"
    );
    desk.expect(2, "diff first.json missing.json");
    let failed = fixture("results/vllm_all_failed.json");
    let nothing = desk.expect(2, &format!("diff {failed} first.json"));
    assert!(
        nothing.starts_with("nothing to compare: the first result"),
        "{nothing}"
    );
}

#[test]
fn a_result_names_the_engine_that_served_and_its_version_is_known_again() {
    let desk = Desk::new();
    let run = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine sglang --request-rate 5 --input-len 512 \
               --output-len 64 --num-prompts 200";
    let result = desk.expect(
        0,
        &format!("{run} --format json -o sglang.json --save-result --result-filename saved.json"),
    );
    assert_eq!(result, "");
    for name in ["sglang.json", "saved.json"] {
        let text = std::fs::read_to_string(desk.path().join(name)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["backend"], &json["endpoint_type"]),
            (&"sglang".into(), &"sglang".into())
        );
    }
    let fitted = desk.expect(
        0,
        "calibrate sglang.json --gpu H100-SXM-80GB --engine sglang -o fitted.toml",
    );
    assert!(
        fitted.contains("took: sglang.json") && !fitted.contains("is not said: the newest"),
        "{fitted}"
    );
    let spelt = desk.expect(0, &format!("{run} --dry-run"));
    assert!(spelt.contains("profile = \"sglang@0.5.23\""), "{spelt}");
}

#[test]
fn narrow_screens_get_narrow_text_and_files_do_not() {
    let desk = Desk::new();
    let narrow = |words: &str| {
        let output = desk.command(words).env("COLUMNS", "60").output().unwrap();
        let printed = text(&output.stdout);
        for line in printed.lines() {
            assert!(line.chars().count() <= 60, "{words}\n{line}");
        }
        printed
    };
    let whole = desk.expect(0, SMALL);
    assert!(whole.lines().any(|line| line.chars().count() > 60));
    let folded = narrow(SMALL);
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(words(&whole), words(&folded), "nothing is cut off");
    narrow("fit meta-llama/Llama-3.1-8B-Instruct --gpu h100");
    narrow("sweep dp-router --num-prompts 500 -L router round_robin,cache_aware -L request_rate 40,80");
    narrow("knee quickstart --max-rate 64");
    desk.command(&format!("{SMALL} -o kept.txt"))
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    assert_eq!(
        std::fs::read_to_string(desk.path().join("kept.txt")).unwrap(),
        whole
    );
}

#[test]
fn a_run_that_answers_nobody_is_a_failure_and_says_what_to_raise() {
    let output = Desk::new().run(
        "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine sglang --max-total-tokens 512 --input-len 1000 \
         --output-len 20 --request-rate 5 --num-prompts 50",
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("NO ANSWERS at 5.00 req/s: of 50 requests"));
    assert!(text(&output.stderr).contains("the token pool (--mem-fraction-static)"));
}

#[test]
fn kernel_tables_are_scored_alone_or_beside_runs() {
    let desk = Desk::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels");
    let text = desk.expect(0, &format!("validate --kernels {folder}"));
    assert!(text.starts_with("median error over "), "{text}");
    let table = fixture("results/table.csv");
    let both = desk.expect(
        0,
        &format!("validate {table} --no-interval --kernels {folder} --format json"),
    );
    let both: serde_json::Value = serde_json::from_str(&both).unwrap();
    assert!(both["overall"]["inside_90"].is_null());
    assert!(both["kernels"]["scores"].as_array().unwrap().len() > 50);
    desk.expect(2, &format!("validate {table} --kernels {folder} --format csv"));
    desk.expect(2, "validate");
    // Three rows are left, and a record is of one run.
    desk.expect(2, &format!("validate {table} --requests {table}"));
}

#[test]
fn every_row_of_a_table_is_scored_or_counted_with_its_reason() {
    let desk = Desk::new();
    let table = fixture("results/table.csv");
    let json = desk.expect(0, &format!("validate {table} --format json --chart errors.svg"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["overall"]["rows"], &json["overall"]["modelled"]),
        (&3.into(), &3.into())
    );
    let inside = json["overall"]["inside_90"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&inside), "{inside}");
    assert!(
        json["families"]["fam"]["figures"]["throughput"]["median_error"]
            .as_f64()
            .unwrap()
            < 0.5
    );
    assert!(
        std::fs::read_to_string(desk.path().join("errors.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    assert!(
        desk.expect(0, &format!("validate {table} --scenarios"))
            .contains("[workload.lengths.fixed]")
    );
    desk.expect(
        2,
        &format!("validate {}", fixture("results/vllm_all_failed.json.missing")),
    );
}
