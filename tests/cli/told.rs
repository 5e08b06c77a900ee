//! What is ignored, what differs between pools, and how sure the model is: told wherever a result is read.

use serde_json::Value;

use crate::{Desk, SMALL, text, unfolded};

/// Two pools of unlike GPUs behind one router.
const MIXED: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
router = "round_robin"
[[cluster.pools]]
name = "new"
replicas = 2
[[cluster.pools]]
name = "old"
replicas = 1
gpu = "A100-SXM-80GB"
[engine]
max_model_len = 8192
[workload]
num_prompts = 600
[workload.arrivals.poisson]
request_rate = 12.0
[workload.lengths.fixed]
input_len = 512
output_len = 64
[slo.goodput]
ttft = "500 ms"
tpot = "50 ms"
"#;

fn mixed() -> Desk {
    let desk = Desk::new();
    std::fs::write(desk.path().join("mixed.toml"), MIXED).unwrap();
    desk
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_is_ignored_or_substituted_stands_in_the_result() {
    let desk = Desk::new();
    let line = "run --gpu t4 --quiet --serve-cmd 'vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 2048 \
                --disable-log-requests' --request-rate 2 --num-prompts 60 --input-len 128 --output-len 32";
    let result = json(&desk.expect(0, &format!("{line} --format json")));
    let has = |key: &str, words: &str| {
        let sentences = result["plimsoll"][key].as_array().unwrap();
        sentences
            .iter()
            .any(|sentence| sentence.as_str().unwrap().contains(words))
    };
    assert!(
        has("ignored", "--disable-log-requests has no effect"),
        "{}",
        result["plimsoll"]["ignored"]
    );
    assert!(has("notes", "bfloat16"), "{}", result["plimsoll"]["notes"]);
    let printed = desk.expect(0, line);
    assert!(
        printed.contains("ignored") && printed.contains("--disable-log-requests"),
        "{printed}"
    );
    // Flags of plimsoll's own command line are no exception.
    let own = json(&desk.expect(0, &format!("{SMALL} --disable-log-requests --format json")));
    assert!(!own["plimsoll"]["ignored"].as_array().unwrap().is_empty());
}

#[test]
fn each_pool_has_its_machine_its_law_and_its_explanation() {
    let desk = mixed();
    let result = json(&desk.expect(0, "run mixed.toml --format json"));
    let result = &result["plimsoll"];
    assert!(result["scenario"]["gpu"].is_null() && result["scenario"]["gpus"] == 3);
    for pool in result["pools"].as_array().unwrap() {
        for place in ["inside", "waiting", "running"] {
            let of = |key: &str| pool[place][key].as_f64().unwrap();
            let (l, product) = (of("l"), of("lambda_per_s") * of("w_s"));
            assert!(l > 0.0 && (l - product).abs() < 1e-6 * l, "{place}: {pool}");
        }
        let used = |key: &str| pool["utilisation"][key].as_f64().unwrap();
        assert!(
            used("memory_bandwidth") > 0.05 && used("memory_bandwidth") < 1.0,
            "{pool}"
        );
        // Busy is the share of all the time of the pool's replicas, and what is used of all the time is that part of it.
        assert!(
            (used("busy") - pool["busy"].as_f64().unwrap()).abs() < 1e-9,
            "{pool}"
        );
        for key in ["mfu", "memory_bandwidth"] {
            let of_all = used(&format!("wall_clock_{key}"));
            assert!((of_all - used(key) * used("busy")).abs() < 1e-12, "{pool}");
        }
    }
    let printed = desk.expect(0, "run mixed.toml --why");
    for pool in ["new", "old"] {
        assert!(printed.contains(&format!("\n{pool}: running L ")), "{printed}");
    }
    assert_eq!(
        printed.matches("where the time goes in a decode step").count(),
        2,
        "{printed}"
    );
    assert!(printed.contains("machines    new: MFU"), "{printed}");
}

#[test]
fn prefill_and_decode_say_where_requests_are_and_what_limits() {
    let desk = Desk::new();
    let line = "run pd-input-length --num-prompts 400 --quiet";
    let result = json(&desk.expect(0, &format!("{line} --format json")));
    let result = &result["plimsoll"];
    let l = |of: &serde_json::Value| of["l"].as_f64().unwrap();
    let apart = &result["disaggregation"];
    let parts = [
        &apart["prefill"]["inside"],
        &apart["decode"]["crossing"],
        &apart["decode"]["inside"],
        &result["little"]["front_ends"],
    ];
    assert!(parts.iter().all(|part| l(part) > 0.0), "{apart}");
    let sum: f64 = parts.into_iter().map(l).sum();
    let system = l(&result["little"]["system"]);
    assert!((sum - system).abs() < 1e-6 * system, "{sum} against {system}");
    // One GPU prefills for three that decode.
    let printed = desk.expect(0, &format!("{line} --why"));
    for told in [
        "by place",
        " ✓",
        "\nwhat limits prefill and decode: the prefill pool, at ",
        "\n  prefill   1 replica ÷ ",
        "\n  decode    3 replicas × ",
        "\n  KV links  ",
    ] {
        assert!(printed.contains(told), "{told}: {printed}");
    }
    // What a pool could serve does not depend on how much it was asked for.
    let most = |rate: &str| {
        let printed = desk.expect(
            0,
            &format!("{line} --why --request-rate {rate} --input-len 32 --output-len 16"),
        );
        let line = printed
            .lines()
            .find(|line| line.starts_with("  prefill   1 replica"))
            .unwrap()
            .to_owned();
        line.split(" = ")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(most("5"), most("400"));
    let long = desk.expect(
        0,
        &format!("{line} --input-len 64 --output-len 4000 --request-rate 2 --why"),
    );
    assert!(
        long.contains("\nwhat limits prefill and decode: the decode pool, at "),
        "{long}"
    );
}

#[test]
fn the_knee_of_unlike_pools_names_the_one_that_is_pressed() {
    let printed = mixed().expect(0, "knee mixed.toml");
    let limited: Vec<&str> = printed
        .lines()
        .skip_while(|line| !line.contains("limited by"))
        .take(4)
        .collect();
    assert!(limited.join(" ").contains(" of old"), "{printed}");
}

/// Clients whose answers are of one length fall into step: `sweep` says so of its cells as `run` does.
#[test]
fn a_sweep_says_which_cells_are_of_equal_lengths() {
    let desk = Desk::new();
    let line = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 4096 --request-rate inf --input-len 1024 --output-len 256 \
                --num-prompts 1500 --no-interval -L max-concurrency 1,64";
    let told = |more: &str| {
        let output = desk.run(&format!("sweep {line} {more}"));
        unfolded(&text(&output.stderr))
    };
    let equal = told("");
    assert!(
        equal.contains(
            "the TTFT is one of equal lengths in 1 of 2 runs; of one of these: every answer has 256 tokens"
        ),
        "{equal}"
    );
    let spread = told("--random-range-ratio 0.1");
    assert!(!spread.contains("equal lengths"), "{spread}");
}

#[test]
fn the_model_s_interval_is_in_every_form_for_programs() {
    let desk = Desk::new();
    let sweep = "sweep quickstart --num-prompts 100 -L request-rate 2,4 --format";
    let table = desk.expect(0, &format!("{sweep} csv"));
    assert!(
        table.lines().next().unwrap().contains("p99_ttft_ms_model_high"),
        "{table}"
    );
    // In the figure's own unit, around the figure.
    let row: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    let column = |name: &str| {
        let at = table
            .lines()
            .next()
            .unwrap()
            .split(',')
            .position(|head| head == name);
        row[at.unwrap_or_else(|| panic!("no {name}: {table}"))]
            .parse::<f64>()
            .unwrap()
    };
    for figure in ["mean_tpot_ms", "p99_ttft_ms"] {
        let ends = ["low", "high"].map(|end| column(&format!("{figure}_model_{end}")));
        assert!(
            ends[0] < column(figure) && column(figure) < ends[1],
            "{figure}: {table}"
        );
    }
    let bare = desk.expect(0, &format!("{sweep} csv --no-interval"));
    assert!(!bare.contains("_model_high"), "{bare}");
    let runs = json(&desk.expect(0, &format!("{sweep} json")));
    let factors = &runs[0]["plimsoll"]["model_interval"]["mean_tpot_ms"]["factors_90"];
    assert!(
        factors[0].as_f64().unwrap() < 1.0 && factors[1].as_f64().unwrap() > 1.0,
        "{factors}"
    );
    let line = "compare quickstart \" --max-num-seqs 8\" --num-prompts 100 --seeds 2 --format json";
    let compared = json(&desk.expect(0, line));
    for variant in compared["variants"].as_array().unwrap() {
        assert!(
            variant["model_interval"]["mean_tpot_ms"]["sigma_ln"]
                .as_f64()
                .unwrap()
                > 0.0,
            "{variant}"
        );
    }
}

#[test]
fn the_knee_of_a_trace_says_how_sure_the_model_is() {
    let desk = Desk::new();
    let mut trace = String::from("TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for at in 0..400 {
        trace += &format!(
            "2023-11-16 18:{:02}:{:02}.{},{},{}\n",
            10 + at / 240,
            at / 4 % 60,
            at % 4 * 25,
            300 + at % 7 * 100,
            20 + at % 5 * 20
        );
    }
    std::fs::write(desk.path().join("trace.csv"), trace).unwrap();
    let line = "knee meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --trace trace.csv --goodput ttft:300 tpot:30";
    let printed = desk.expect(0, line);
    assert!(printed.contains("model ±"), "{printed}");
}

#[test]
fn a_table_of_requests_is_known_for_what_it_is() {
    let desk = Desk::new();
    let table = "request_id,arrival_s,first_token_s,last_token_s,input_tokens,output_tokens\na,0,0.1,1,10,20\nb,1,1.1,2,10,20\n";
    std::fs::write(desk.path().join("requests.csv"), table).unwrap();
    let output = desk.run("validate requests.csv");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("--requests") && told.lines().count() < 4, "{told}");
}

/// What stands for all requests and no class reads changes nothing, and must not be printed as if it had been judged.
#[test]
fn limits_and_lengths_that_no_class_reads_are_refused() {
    let desk = Desk::new();
    for (words, flag) in [
        ("run load-shaping --goodput ttft:1", "`--goodput` has no effect"),
        (
            "knee load-shaping --goodput ttft:1 tpot:1",
            "`--goodput` has no effect",
        ),
        ("run rate-limit --input-len 10 --output-len 10", "has no effect"),
    ] {
        let output = desk.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        assert!(
            told.contains(flag) && told.contains("every class of requests has"),
            "{told}"
        );
    }
}

/// Where answers leave whole, a limit on the gaps between their tokens would be kept by every one of them.
#[test]
fn gaps_that_nobody_sees_keep_no_promise() {
    let desk = Desk::new();
    let whole = format!("{SMALL} --engine static --max-num-seqs 16");
    let output = desk.run(&format!("{whole} --goodput tpot:1"));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("`--goodput` cannot be judged"));
    // Overload, which misses the SLO on TTFT.
    let result = json(&desk.expect(
        3,
        "run quickstart --engine static --max-num-seqs 16 --num-prompts 100 --attainment 0.01 --format json",
    ));
    let ignored = result["plimsoll"]["ignored"].to_string();
    assert!(
        ignored.contains("the limit goodput.tpot has no effect"),
        "{ignored}"
    );
    let whole = &result["plimsoll"]["whole"];
    assert!(
        whole["mean_tpot_ms"].is_null() && whole["mean_ttft_ms"].is_number(),
        "{whole}"
    );
}

/// The last batch of a static server is told of where all before were full, and not where the time ran out for others, too.
#[test]
fn only_a_batch_that_was_surely_left_over_is_told_of() {
    let desk = Desk::new();
    let static_batch = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine static --max-model-len 4096 --max-num-seqs 8 \
                        --batch-timeout 5s --input-len 128 --output-len 16 --num-prompts 21";
    let told = |load: &str| {
        let output = desk.run(&format!("{static_batch} {load}"));
        text(&output.stderr)
    };
    let together = told("--request-rate inf");
    assert!(
        together.contains("the last 5 requests filled no batch"),
        "{together}"
    );
    let slowly = told("--request-rate 1");
    assert!(!slowly.contains("filled no batch"), "{slowly}");
}

/// Two prefill pools are what one of as many replicas is: every pool of a role counts.
#[test]
fn what_limits_prefill_and_decode_counts_every_pool_of_a_role() {
    let pool = |name: &str, role: &str, replicas: u32| {
        format!("[[cluster.pools]]\nname = \"{name}\"\nrole = \"{role}\"\nreplicas = {replicas}\n")
    };
    let said = |pools: &str| {
        let desk = Desk::new();
        let scenario = format!(
            "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n{pools}\
             [engine]\nmax_model_len = 16384\n[workload]\nnum_prompts = 300\n\
             [workload.arrivals.poisson]\nrequest_rate = 8.0\n\
             [workload.lengths.fixed]\ninput_len = 4096\noutput_len = 128\n"
        );
        std::fs::write(desk.path().join("case.toml"), scenario).unwrap();
        desk.expect(0, "run case.toml --why --quiet")
    };
    let (prefill, decode) = (pool("p", "prefill", 3), pool("d", "decode", 2));
    let one = said(&(prefill + &decode));
    let several = said(
        &(pool("p", "prefill", 1)
            + &pool("q", "prefill", 2)
            + &pool("d", "decode", 1)
            + &pool("e", "decode", 1)),
    );
    let limit = |text: &str| -> (f64, f64) {
        let line = text
            .lines()
            .find(|line| line.starts_with("what limits"))
            .unwrap_or_else(|| panic!("{text}"));
        let number = |before: &str| -> f64 {
            let rest = line.split(before).nth(1).unwrap();
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        (number(", at "), number("requests/s; "))
    };
    let ((most, came), (mosts, comes)) = (limit(&one), limit(&several));
    assert!(
        (most / mosts - 1.0).abs() < 0.03 && (came / comes - 1.0).abs() < 0.03,
        "{one}\n{several}"
    );
    assert_eq!(
        several
            .lines()
            .filter(|line| line.starts_with("  prefill   "))
            .count(),
        3,
        "{several}"
    );
    assert!(
        several.contains("what limits prefill and decode: the prefill pools, at "),
        "{several}"
    );
}

/// What must be said beside a run is said of every cell of a sweep and of every variant of a comparison.
#[test]
fn remarks_reach_sweeps_and_comparisons() {
    let desk = Desk::new();
    let crowded = SMALL.replace("--request-rate 5", "--request-rate 60 --max-num-queued-reqs 2");
    let swept = crowded
        .replacen("run ", "sweep ", 1)
        .replace("--request-rate 60", "-L request-rate 50,60");
    let cells = json(&desk.expect(0, &format!("{swept} --format json --no-interval")));
    let notes = cells[1]["plimsoll"]["notes"].to_string();
    assert!(notes.contains("the server was full (503)"), "{notes}");
    let compared = crowded.replacen("run ", "compare ", 1) + " ' --max-num-seqs 64' --seeds 1";
    let table = desk.expect(0, &compared);
    assert!(
        table.contains("A: ") && table.contains("the server was full (503)"),
        "{table}"
    );
    assert!(table.contains("figures of whole runs"), "{table}");
    let markdown = desk.expect(0, &compared.replace("--seeds 1", "--seeds 2 --format md"));
    assert!(
        markdown.contains("\n- A, in all 2 runs, here the first: "),
        "{markdown}"
    );
    assert!(markdown.contains("\n- figures of whole runs"), "{markdown}");
}

/// Tokens that tiers of KV serve are part of what a comparison tells.
#[test]
fn a_comparison_tells_what_tiers_served() {
    let table = Desk::new().expect(0, "compare lmcache-cold lmcache-warm --num-prompts 300 --seeds 1");
    let row = table
        .lines()
        .find(|line| line.trim_start().starts_with("from KV tiers"));
    let row = row.unwrap_or_else(|| panic!("{table}"));
    assert!(row.contains(" 0 % ") && !row.trim_end().ends_with("0 %"), "{row}");
}

/// A promise that no run keeps is no success.
#[test]
fn a_sweep_in_which_no_run_keeps_the_promise_exits_with_3() {
    let desk = Desk::new();
    let swept = SMALL
        .replacen("run ", "sweep ", 1)
        .replace("--request-rate 5", "-L request-rate 4,5")
        .replace("--num-prompts 200", "--num-prompts 1000");
    let none = desk.expect(3, &format!("{swept} --slo p99_ttft_ms<=1"));
    assert!(none.starts_with("2 runs; none meets the SLO"), "{none}");
    assert!(none.contains("misses the SLO"), "{none}");
    desk.expect(0, &format!("{swept} --slo p99_ttft_ms<=10000"));
}

#[test]
fn arrivals_too_bursty_for_their_number_are_told() {
    let desk = Desk::new();
    let told = |flags: &str| {
        let printed = desk.expect(0, &format!("{SMALL} {flags}"));
        printed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let few = told("--burstiness 0.05");
    assert!(
        few.contains("200 requests whose gaps have shape 0.05 are as uneven as 10")
            && few.contains("320 requests would do"),
        "{few}"
    );
    let enough = told("--burstiness 0.1");
    assert!(!enough.contains("as uneven as"), "{enough}");
}

#[test]
fn a_shipped_queue_of_unlike_prompts_is_long_enough_to_be_judged() {
    let desk = Desk::new();
    let table = desk.expect(0, "sweep queue-unique");
    let states: Vec<&str> = table
        .lines()
        .skip(2)
        .take(3)
        .filter_map(|row| row.split_whitespace().last())
        .collect();
    assert_eq!(states, ["stable"; 3], "{table}");
}

/// One process hands on 20,000 tokens a second in steps of more than 128, and somewhat more in smaller ones; the GPU makes 54,000 of so small a
/// model, 212 answers a second.
#[test]
fn a_knee_is_no_higher_than_what_an_api_server_hands_on() {
    let desk = Desk::new();
    let knee = |command: &str| {
        desk.expect(
            0,
            &format!("knee {command} --gpu H100-SXM-80GB --goodput tpot:100"),
        )
    };
    let small = knee("Qwen/Qwen2.5-0.5B-Instruct --input-len 256 --output-len 256");
    let saturation = small.split("saturates at ").nth(1).expect("it does");
    let rate: f64 = saturation.split_whitespace().next().unwrap().parse().unwrap();
    assert!((80.0..140.0).contains(&rate), "{small}");
    assert!(small.contains("each API server process hands on"), "{small}");
    let told = small.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("Hardest pressed is the API server"), "{small}");
    assert!(told.contains("steps of more than 128 outputs"), "{small}");
    let large = knee(
        "meta-llama/Llama-3.1-8B-Instruct --input-len 16 --output-len 500 --max-num-seqs 4096 --precision 0.2",
    );
    let words = large.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Hardest pressed is the API server"), "{large}");
}

/// A trace or a day curve is one traffic: the bracket of the search is not how far its knee lies from that of another day.
#[test]
fn the_bracket_of_a_load_with_a_span_of_its_own_claims_no_certainty() {
    let desk = Desk::new();
    let row = |i: u32| {
        format!(
            "2023-11-16 18:{:02}:{:02}.{:03}0000,200,40\n",
            i / 240,
            i / 4 % 60,
            i % 4 * 250
        )
    };
    let rows: String = (0..400).map(row).collect();
    let trace = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}");
    std::fs::write(desk.path().join("trace.csv"), trace).unwrap();
    let printed = desk.expect(
        0,
        "knee meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --trace trace.csv --goodput ttft:500 tpot:50",
    );
    let first = printed.lines().next().unwrap();
    assert!(
        first.contains("req/s within SLO  (in this traffic ["),
        "{printed}"
    );
    assert!(printed.contains("one and the same traffic"), "{printed}");
}

#[test]
fn the_bound_of_bandwidth_is_a_tokens_where_a_step_brings_several() {
    let desk = Desk::new();
    let line = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --num-prompts 40 --max-concurrency 1 \
                --input-len 128 --output-len 161 --format json";
    let bound_and_tpot = |more: &str| {
        let told = json(&desk.expect(0, &format!("{line} {more}")));
        let bound = told["plimsoll"]["utilisation"]["bandwidth_bound_tpot_ms"].as_f64();
        (bound.unwrap(), told["mean_tpot_ms"].as_f64().unwrap())
    };
    let (plain, _) = bound_and_tpot("");
    let (bound, tpot) = bound_and_tpot("--spec-method ngram --spec-tokens 7 --acceptance-rate 1");
    assert!(bound < tpot, "{bound} ms, and {tpot} ms simulated");
    // The cache is hardly read beside the weights.
    assert!(
        (bound * 8.0 / plain - 1.0).abs() < 0.01,
        "{bound} ms, and {plain} ms of a step"
    );
}

/// α is of drafts whose predecessors stood; what vLLM logs is of all, and both are told with what they have to do with each other.
#[test]
fn what_is_accepted_is_told_with_its_arithmetic() {
    let desk = Desk::new();
    let drafts = "--spec-method eagle3 --spec-tokens 3 --acceptance-rate 0.7";
    let told = desk.expect(0, &format!("{SMALL} {drafts} --why"));
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "tokens a verification = 1 + ",
        "accepted ÷ drafted as servers log it",
        "1 + α + α² + α³ with α = 0.700 is 1 + 0.700 + 0.490 + 0.343 = 2.53 tokens a verification",
        "÷ 3 = 51.1 % of all drafts stand, which vLLM logs as `Avg Draft acceptance rate`",
    ] {
        assert!(told.contains(words), "`{words}` is not in\n{told}");
    }
    let fit = format!("fit meta-llama/Llama-3.1-8B-Instruct --gpu h100 {drafts} --why");
    assert!(desk.expect(0, &fit).contains("1 + α + α² + α³"));
    assert!(desk.expect(0, "run --help").contains("Avg Draft acceptance rate"));
}

/// A trace says what is wrong with numbers where Azure has dates, and what its pictures are of.
#[test]
fn a_trace_with_seconds_under_azures_header_is_told_what_to_write() {
    let desk = Desk::new();
    let rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n0.5,100,10\n1.5,200,20\n";
    std::fs::write(desk.path().join("mine.csv"), rows).unwrap();
    let refused = desk.run("trace mine.csv");
    let told = crate::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(
        told.contains("`arrived_at,num_prefill_tokens,num_decode_tokens` over columns with seconds"),
        "{told}"
    );
    assert!(!told.contains("leave it out"), "{told}");
    let told = crate::text(&desk.run("trace mine.csv --charts drawn").stderr);
    assert!(
        told.contains("add --working-set") && told.contains("--trace mine.csv"),
        "{told}"
    );
}

/// A fleet that idles half of the time uses half of what it uses while it is busy.
#[test]
fn what_is_used_is_told_of_busy_time_and_of_all_time() {
    let desk = Desk::new();
    let line = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --request-rate 4 --num-prompts 2000 \
                --input-len 512 --output-len 64 --replicas 4";
    let told = json(&desk.expect(0, &format!("{line} --format json")));
    let used = |key: &str| told["plimsoll"]["utilisation"][key].as_f64().unwrap();
    let busy = told["plimsoll"]["steady"]["busy"].as_f64();
    let busy = busy.unwrap_or_else(|| told["plimsoll"]["steady"]["occupancy"]["busy"].as_f64().unwrap());
    assert!((used("busy") - busy).abs() < 1e-6 && busy < 0.6, "{busy}");
    assert!((used("wall_clock_mfu") / used("mfu") - busy).abs() < 1e-6);
    let printed = desk.expect(0, line);
    assert!(printed.contains(" while busy ("), "{printed}");
}

/// Rates of kernels count a graph's padding, MFU does not: the text says which.
#[test]
fn a_padded_decode_step_says_so() {
    let line = "run meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --request-rate 10 --input-len 1024 --output-len 128 --why";
    let printed = Desk::new().expect(0, line);
    assert!(
        printed.contains("a decode step of 11 sequences")
            && printed.contains("the CUDA graph pads 11 tokens to 16:"),
        "{printed}"
    );
    assert!(
        !printed.contains("starved"),
        "the last to arrive has had no turn yet: {printed}"
    );
}

/// Five turns with half a minute of thinking before each: of 2,000 requests the first conversations are hardly over when the last begins.
#[test]
fn conversations_settle_before_a_run_is_steady() {
    let desk = Desk::new();
    let short = desk.expect(0, "run multi-turn --num-prompts 2000");
    let short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(short.starts_with("TOO SHORT at 10.0 req/s"), "{short}");
    assert!(
        short.contains("conversations that began first still go on: it takes 25"),
        "{short}"
    );
    let long = desk.expect(0, "run multi-turn --num-prompts 12000");
    assert!(long.starts_with("stable at 10.0 req/s"), "{long}");
}
