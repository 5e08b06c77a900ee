//! What is written: the keys of vLLM's client, the same bytes each time, files and columns that agree.

use std::process::Stdio;

use crate::{Desk, SMALL, text};

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
        .join("openai-10.0qps-Llama-3.1-8B-Instruct-20260101-000000.json");
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
        "run quickstart --num-prompts 100 --engine hf-cb --request-rate 1",
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
fn the_number_of_threads_changes_no_byte() {
    let desk = Desk::new();
    for words in [
        "knee quickstart --precision 0.1 --format json".to_owned(),
        // Several searches beside each other, of traffic that is quick to simulate.
        "knee meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --input-len 512 --output-len 64 --goodput ttft:500 tpot:50 \
         -L gpu h100,l40s,a100 --precision 0.2 --format json"
            .to_owned(),
        // Long enough for threads within a run: to its end, until it is precise, and of a closed loop, which nobody draws ahead.
        "run quickstart --num-prompts 30000 --format csv".to_owned(),
        "run quickstart --seed 1".to_owned(),
        "run quickstart --users 20 --think-time 1s --num-prompts 10000".to_owned(),
        SMALL.replacen("run", "sweep", 1).replace("--request-rate 5", "")
            + " -L request-rate 2,4,6,8 --format csv",
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
fn files_are_written_where_nobody_reads_what_is_printed() {
    let desk = Desk::new();
    let saved = format!("{SMALL} --save-result --result-filename b.json --charts one --quiet");
    let swept = "sweep quickstart --num-prompts 60 -L request-rate 2,4 --charts many --quiet".to_owned();
    for (words, files) in [
        (saved, ["b.json", "b.resolved.toml", "one/latency.svg"].as_slice()),
        (swept, ["many"].as_slice()),
    ] {
        let mut child = desk
            .command(&words)
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
        for file in files {
            assert!(desk.path().join(file).exists(), "{words}: {file}");
        }
    }
    assert!(std::fs::read_dir(desk.path().join("many")).unwrap().count() > 0);
    // The exit code is the command's own.
    let mut child = desk
        .command(&format!("{SMALL} --goodput ttft:0.001"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// Every column that a sweep's CSV has is a key of its JSON, with the same value, and the promise and the verdict; no plain key is left
/// out.
#[test]
fn the_columns_of_a_sweep_are_the_keys_of_its_json() {
    let desk = Desk::new();
    let sweep =
        "sweep quickstart --num-prompts 200 -L request-rate 2,4 --metadata team=blue --label x --format";
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, &format!("{sweep} json"))).unwrap();
    let table = desk.expect(0, &format!("{sweep} csv"));
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    // Before the verdict stand the factors of the model's intervals, which are lists in JSON, and what became of the promise.
    let promise = [
        "slo",
        "good_share",
        "good_share_low",
        "good_share_high",
        "shares_of",
    ];
    assert_eq!(head[head.len() - 6..head.len() - 1], promise);
    // What is known beside vLLM's keys stands deeper in the JSON.
    let own = [
        ("mean_queue_time_ms", "whole/mean_queue_time_ms"),
        ("preemptions", "whole/preemptions"),
        ("kv_usage", "whole/occupancy/kv_usage"),
        ("kv_usage_max", "whole/occupancy/kv_usage_max"),
        ("mfu", "utilisation/mfu"),
        ("usd_per_hour", "cost/usd_per_hour"),
        (
            "usd_per_million_output_tokens",
            "cost/usd_per_million_output_tokens",
        ),
        ("usd_per_million_tokens", "cost/usd_per_million_tokens"),
    ];
    let is_own = |name: &str| own.iter().any(|(key, _)| *key == name);
    let is_key = |name: &&&str| !name.contains("_model_") && !promise.contains(name) && !is_own(name);
    let keys: Vec<&str> = head[1..head.len() - 1].iter().filter(is_key).copied().collect();
    let axis = head[0];
    assert_eq!((axis, head.last()), ("request-rate", Some(&"verdict")));
    for (run, line) in json.as_array().unwrap().iter().zip(lines) {
        let cells: Vec<&str> = line.split(',').collect();
        let told = &run["plimsoll"];
        assert_eq!(cells.last().copied(), told["verdict"].as_str());
        let slo = match (told["slo_decided"].as_bool(), told["slo_kept"].as_bool()) {
            (Some(false), _) => "not_decided",
            (_, Some(true)) => "kept",
            _ => "broken",
        };
        assert_eq!(cells[cells.len() - 6], slo, "{line}");
        let plain = run
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| !value.is_object() && !value.is_array());
        let plain: std::collections::BTreeSet<&str> = plain.map(|(key, _)| key.as_str()).collect();
        assert_eq!(plain, keys.iter().copied().collect());
        for (key, place) in own {
            let at = head.iter().position(|name| *name == key).unwrap();
            let value = told
                .pointer(&format!("/{place}"))
                .and_then(serde_json::Value::as_f64);
            assert_eq!(cells[at].parse().ok(), value, "{key}");
        }
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

/// A sweep is drawn from what was kept of it, and what no picture could show is refused before anything runs.
#[test]
fn a_sweep_is_drawn_also_when_it_is_read_back() {
    let desk = Desk::new();
    let sweep = SMALL.replacen("run", "sweep", 1).replace("--request-rate 5", "")
        + " -L request-rate 2,400 -L max-num-seqs 8,64 --goodput ttft:500 --no-interval -o kept.jsonl --charts";
    desk.expect(0, &format!("{sweep} first"));
    let kept = std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap();
    desk.expect(0, &format!("{sweep} again"));
    assert_eq!(
        std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap(),
        kept
    );
    let picture = |folder: &str| std::fs::read_to_string(desk.path().join(folder).join("sweep.svg")).unwrap();
    let first = picture("first");
    assert_eq!(first, picture("again"));
    assert!(desk.path().join("first/sweep.png").is_file());
    for words in [
        "max-num-seqs",
        "Time to first token, p99",
        "SLO 500 ms",
        "UNSTABLE",
        "request-rate, requests per",
    ] {
        assert!(first.contains(words), "{words}");
    }
    assert!(
        !first.contains("scenario ="),
        "the key of a file's lines is no axis"
    );
    let four = "sweep quickstart --num-prompts 50 -L request-rate 2,4 -L max-num-seqs 8,16 -L gpu h100,l40s \
                -L max-num-batched-tokens 512,1024 --charts none";
    let refused = desk.run(four);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(
        told.contains("--charts") && told.contains("varies 4: request-rate"),
        "{told}"
    );
    assert!(!desk.path().join("none").join("sweep.svg").exists());
}

/// Overload is seen sooner the worse it is; what its runs served compares all the same.
#[test]
fn cells_beyond_saturation_are_of_one_length() {
    let desk = Desk::new();
    let printed = desk.expect(
        3,
        "sweep quickstart -L request-rate 24,48 --goodput ttft:500 --format json",
    );
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let served: Vec<f64> = (json.as_array().unwrap().iter())
        .map(|run| {
            assert_eq!(run["plimsoll"]["verdict"], "unstable");
            assert!(run["completed"].as_u64().unwrap() >= 10_000);
            run["request_throughput"].as_f64().unwrap()
        })
        .collect();
    assert!((served[1] / served[0] - 1.0).abs() < 0.03, "{served:?}");
}

#[test]
fn results_of_one_second_have_files_of_their_own() {
    let desk = Desk::new();
    let words = format!("{SMALL} --save-result");
    let running: Vec<_> = (0..4)
        .map(|_| desk.command(&words).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut one in running {
        assert!(one.wait().unwrap().success());
    }
    let mut names: Vec<String> = (std::fs::read_dir(desk.path()).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names.iter().filter(|name| name.ends_with(".json")) {
        let scenario = name.replace(".json", ".resolved.toml");
        assert!(names.contains(&scenario), "{names:?}");
        assert!(std::fs::metadata(desk.path().join(name)).unwrap().len() > 0);
    }
    assert!(names.iter().any(|name| name.ends_with("-4.json")), "{names:?}");
}

#[test]
fn a_file_that_is_named_is_replaced_and_that_is_told() {
    let desk = Desk::new();
    let told = |words: &str| text(&desk.run(&format!("{SMALL} {words}")).stderr);
    let named = "--save-result --result-filename mine.json";
    assert!(!told(named).contains("replaced"));
    assert!(told(named).contains("mine.json was there and is replaced"));
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 2);
    let nowhere = told("--append-result");
    assert!(nowhere.contains("add --result-filename"), "{nowhere}");
}

#[test]
fn one_s_own_results_pass_the_audit_where_requests_wait_for_answers() {
    let desk = Desk::new();
    for (words, key) in [
        ("run multi-turn", "turns_per_session"),
        (
            "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 512 --output-len 64 --users 50 --think-time 5s \
             --duration 100s",
            "users",
        ),
    ] {
        desk.run(&format!("{words} --save-result --result-filename {key}.json"));
        let saved = std::fs::read(desk.path().join(format!("{key}.json"))).unwrap();
        let result: serde_json::Value = serde_json::from_slice(&saved).unwrap();
        let scenario = &result["plimsoll"]["scenario"];
        assert!(scenario[key].is_number() && scenario["think_time_s"].is_number());
        desk.expect(0, &format!("audit {key}.json"));
    }
}

#[test]
fn prefill_and_decode_apart_is_another_setup_than_together() {
    let desk = Desk::new();
    let small = SMALL.replace("--input-len 512", "--input-len 2000");
    desk.run(&format!("{small} --replicas 2 -o together.json"));
    desk.run(&format!("{small} --prefill 1 --decode 1 -o apart.json"));
    let told = desk.run("diff together.json apart.json");
    let told = text(&told.stdout);
    assert!(
        told.contains("1 against 2 pools; prefill and decode together against apart"),
        "{told}"
    );
    assert!(!told.contains("step-time"), "{told}");
}

#[test]
fn a_setting_in_which_two_simulations_differ_is_the_cause_and_nothing_is_guessed() {
    let desk = Desk::new();
    desk.run(&format!("{SMALL} -o graphs.json"));
    desk.run(&format!("{SMALL} --enforce-eager -o eager.json"));
    let told = desk.run("diff graphs.json eager.json");
    let told = text(&told.stdout);
    let causes: Vec<&str> = told.lines().filter(|line| line.starts_with("likely")).collect();
    assert_eq!(causes.len(), 1, "{told}");
    assert!(
        causes[0].starts_with("likely [setup]")
            && causes[0].contains("enforce_eager = true in the second alone"),
        "{told}"
    );
    let saved = std::fs::read(desk.path().join("eager.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!(result["plimsoll"]["settings"]["engine.enforce_eager"], "true");
}

#[test]
fn the_table_of_a_sweep_shows_the_figures_that_are_asked_for() {
    let desk = Desk::new();
    let sweep = "sweep quickstart --num-prompts 200 -L request-rate 2,4 --columns";
    let printed = desk.expect(0, &format!("{sweep} tpot,cost,kv,preemptions,mfu,p95_ttft_ms"));
    let head: Vec<&str> = printed.lines().nth(1).unwrap().split_whitespace().collect();
    let asked = "request-rate TPOT p50 p99 $/h $/M out $/M in+out KV KV max preempted MFU TTFT p95 state";
    assert_eq!(head.join(" "), asked, "{printed}");
    let output = desk.run(&format!("{sweep} tpot,preemtions"));
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    let near = "a sweep has no figure `preemtions`; did you mean `preemptions`?";
    assert!(
        told.contains(near) && told.contains("figures are ttft, tpot,"),
        "{told}"
    );
}

/// Of the six replicas that there may be four or five are there on average: shares are of those that were there.
#[test]
fn shares_of_an_autoscaled_run_are_of_the_replicas_in_service() {
    let desk = Desk::new();
    let json: serde_json::Value =
        serde_json::from_str(&desk.expect(3, "run autoscale --format json")).unwrap();
    let told = &json["plimsoll"];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let worked = told["replicas"].as_array().unwrap().iter();
    let worked_s: f64 = worked.map(|replica| number(&replica["busy_s"])).sum();
    let whole = &told["whole"];
    // The mean number that the share of the time is one of.
    let replicas = worked_s / number(&whole["duration_s"]) / number(&whole["occupancy"]["busy"]);
    let paid = number(&told["scaling"]["replicas_mean"]);
    assert!(replicas > 1.0 && replicas <= paid, "{replicas} of {paid}");
    // What tokens cost is told in both, of the whole run: there is no steady stretch.
    let million = number(&told["cost"]["usd_per_million_output_tokens"]);
    let tokens = number(&whole["output_tokens"]);
    assert!((million * tokens / 1e6 - number(&told["scaling"]["usd"])).abs() < 1e-6);
    let printed = desk.expect(3, "run autoscale");
    assert!(printed.contains("GPUs on average, "), "{printed}");
    let usd = number(&told["cost"]["usd_per_hour"]) * number(&whole["duration_s"]) / 3600.0;
    assert!((usd - number(&told["scaling"]["usd"])).abs() < 1e-9);
}

/// As the client has it, which takes what NumPy does.
#[test]
fn the_hundredth_percentile_is_the_largest() {
    let desk = Desk::new();
    let printed = desk.expect(
        0,
        &format!(
            "{SMALL} --metric-percentiles 50,100 --save-detailed --result-filename all.json --format json"
        ),
    );
    let json: serde_json::Value = serde_json::from_str(printed.trim()).unwrap();
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(desk.path().join("all.json")).unwrap()).unwrap();
    let each = kept["ttfts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(serde_json::Value::as_f64);
    let largest_ms = 1e3 * each.fold(0.0, f64::max);
    let said = json["p100_ttft_ms"].as_f64().unwrap();
    assert!((said / largest_ms - 1.0).abs() < 1e-3, "{said} {largest_ms}");
    let output = desk.run(&format!("{SMALL} --metric-percentiles 100.5"));
    assert!(
        text(&output.stderr).contains("at most 100, which is the largest"),
        "{}",
        text(&output.stderr)
    );
}
