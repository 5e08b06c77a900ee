//! What a run says of its server: scatter, API servers, closed batches, starvation, variants side by side.

use crate::{Desk, SMALL, fixture, text};

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
        alone.contains("note: API servers have work for 9") && alone.contains("--api-server-count 2 would"),
        "{alone}"
    );
    assert!(!said("--api-server-count 3").contains("note: API servers"));
    let swept = "sweep Qwen/Qwen2.5-0.5B-Instruct --gpu h100-sxm-80gb --input-len 256 --output-len 256 --num-prompts 600 \
                 -L max-concurrency 4,128,129";
    let swept = text(&desk.run(swept).stderr);
    assert!(
        swept
            .contains("note: API servers are busy in 2 of 3 runs; of one of these: API servers would take 1"),
        "{swept}"
    );
}

/// A backlog behind an engine is a queue: nobody else runs for it, and it is overload.
#[test]
fn answers_that_pile_up_in_an_api_server_are_overload() {
    let run = "run meta-llama/Llama-3.2-1B-Instruct --gpu h100-sxm-80gb --input-len 256 --output-len 256 --data-parallel-size 2 \
               --api-server-count 1 --request-rate 300 --num-prompts 20000 --format json";
    let desk = Desk::new();
    let found: serde_json::Value = serde_json::from_str(&text(&desk.run(run).stdout)).unwrap();
    assert_eq!(
        found["plimsoll"]["verdict"], "unstable",
        "{}",
        found["plimsoll"]["reasons"]
    );
    let occupancy = &found["plimsoll"]["whole"]["occupancy"];
    let of = |key: &str| occupancy[key].as_f64().unwrap();
    assert!(of("running") <= of("running_max"), "{occupancy}");
    assert!(of("handing_on") > of("running"), "{occupancy}");
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
fn variants_are_compared_under_the_same_seeds_and_answer_first() {
    let desk = Desk::new();
    let line = "compare prefix-caching 'on: ' 'off: --no-enable-prefix-caching' --num-prompts 120 --seeds 3";
    let printed = desk.expect(0, line);
    assert!(
        printed.starts_with("on is better than off, which has p99 ITL 15.3 times [15.2, 15.4], mean TTFT +"),
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

/// The loop sends its next as soon as one is refused: while nobody is up no time passes, and without an end it never does.
#[test]
fn a_closed_loop_that_nobody_lets_in_ends_and_says_so() {
    let desk = Desk::new();
    let failing = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --replicas 2 --request-rate inf --max-concurrency 16 \
                   --input-len 512 --output-len 64 --mean-time-between-failures 60s --mean-time-to-recovery 20s";
    let endless = desk.run(&format!("{failing} --duration 600s"));
    let said = unfolded(&endless.stderr);
    assert_eq!(endless.status.code(), Some(1), "{said}");
    assert!(
        said.contains("livelock: 10,") && said.contains("[cluster.retries]"),
        "{said}"
    );
    assert!(!said.contains("preempt each other"), "{said}");
    // A number of requests is used up at once, which is no share of anything.
    let counted = desk.run(&format!("{failing} --num-prompts 4000"));
    let said = unfolded(&counted.stderr);
    assert!(said.contains("They say how many it had left to send"), "{said}");
    let printed = unfolded(&counted.stdout);
    assert!(
        printed.contains("TTFT") && !printed.contains("steady from"),
        "{printed}"
    );

    let head = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n";
    let lengths = "[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n";
    let gate = "[cluster.admission]\nmax_in_flight = 4\nmax_queue = 0\n";
    let users = "[workload.arrivals.users]\nusers = 8\nthink_time = \"0 s\"\n";
    let classes = "[[workload.classes]]\nname = \"loop\"\narrivals.closed.max_concurrency = 8\n\
                   [[workload.classes]]\nname = \"chat\"\narrivals.poisson.request_rate = 1.0\n";
    for traffic in [users, classes] {
        let case = format!("{head}{gate}[workload]\nduration = \"60 s\"\n{lengths}{traffic}");
        std::fs::write(desk.path().join("case.toml"), case).unwrap();
        let output = desk.run("run case.toml");
        let said = unfolded(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("livelock: 10,"), "{said}");
    }
    // With time between two tries it goes on.
    let case = std::fs::read_to_string(desk.path().join("case.toml")).unwrap();
    let patient = format!("{case}[cluster.retries]\nmax_retries = 3\nbackoff = \"1 s\"\n");
    std::fs::write(desk.path().join("patient.toml"), patient).unwrap();
    let output = desk.run("run patient.toml");
    assert!(
        !unfolded(&output.stderr).contains("livelock"),
        "{}",
        text(&output.stderr)
    );
}

/// Words without the line breaks of the page.
fn unfolded(printed: &[u8]) -> String {
    text(printed).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_prompt_that_both_sides_are_ready_for_at_one_instant_is_prefilled_once() {
    // The tenth of a burst is known to the prefill server just when it hears of the memory reserved for it.
    let words = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine sglang@0.5.4 --prefill 1 --decode 2 \
                 --max-running-requests 2 --input-len 4 --output-len 1 --max-concurrency 10 --num-prompts 100 \
                 --request-rate inf --format json";
    let json: serde_json::Value = serde_json::from_str(&Desk::new().expect(0, words)).unwrap();
    assert_eq!(json["completed"], 100);
}

/// One request a second through a client that has one in flight, of 6.75 s each: a seventh of them is sent.
#[test]
fn requests_that_pile_up_at_their_client_are_told() {
    let desk = Desk::new();
    let told = |words: &str| {
        let output = desk.run(words);
        assert!(output.status.success());
        unfolded(&output.stderr)
    };
    let limited = told("run matrix-c");
    assert!(
        limited.contains("the client is the limit: with 1 in flight it pushes 0.147 of the 1.00 req/s"),
        "{limited}"
    );
    let free = told("run matrix-c --max-concurrency 64");
    assert!(!free.contains("the client is the limit"), "{free}");
}

/// Equal answers bring a closed loop and a fleet behind a router by load into step, which any scatter ends.
#[test]
fn figures_of_answers_in_step_are_told() {
    const SAME: &str =
        "run --gpu h100-sxm-80gb --model llama-3.1-8b --random-input-len 512 --random-output-len 128";
    let desk = Desk::new();
    let told = |words: &str| {
        let output = desk.run(&format!("{SAME} {words}"));
        assert!(output.status.success());
        unfolded(&output.stderr)
    };
    let closed = "--request-rate inf --max-concurrency 64 --num-prompts 1000";
    let fleet = "--replicas 5 --request-rate 215 --num-prompts 30000";
    let in_step = "every answer has 128 tokens, so";
    for (words, how) in [
        (closed.to_owned(), "those who begin together end together"),
        (
            format!("{fleet} --router least_requests"),
            "least_requests sends whoever comes next to that replica",
        ),
    ] {
        let said = told(&words);
        assert!(
            said.contains(&format!("{in_step} ")) && said.contains(how),
            "{words}: {said}"
        );
        let scattered = told(&format!("{words} --random-range-ratio 0.05"));
        assert!(!scattered.contains(in_step), "{words}: {scattered}");
    }
    // Those who wait for a step become more for minutes as batches fall into step, and are no backlog.
    let long = "--replicas 5 --request-rate 200 --num-prompts 80000 --router least_requests";
    let printed = desk.run(&format!("{SAME} {long}"));
    let first = String::from_utf8(printed.stdout).unwrap();
    assert!(first.starts_with("stable at 200 req/s"), "{first}");
    for words in [
        format!("{fleet} --router random"),
        "--request-rate inf --max-concurrency 1 --num-prompts 20".to_owned(),
    ] {
        assert!(!told(&words).contains(in_step), "{words}");
    }
}

/// What waits behind a full batch has a memory; the pace of those who are served does not depend on it.
#[test]
fn intervals_of_a_closed_loop_beyond_its_batch_are_those_of_its_batches() {
    let words = "run --gpu h100-sxm-80gb --model llama-3.1-8b --input-len 1024 --output-len 128 --max-concurrency 3000 --format json";
    let json: serde_json::Value = serde_json::from_str(&Desk::new().expect(0, words)).unwrap();
    let interval = &json["plimsoll"]["intervals_95"]["mean_tpot_ms"];
    let (low, high) = (interval[0].as_f64().unwrap(), interval[1].as_f64().unwrap());
    assert!(low < high && high < 1.05 * low, "{low} to {high}");
}
