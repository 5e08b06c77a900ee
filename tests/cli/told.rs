//! What is ignored, what differs between pools, and how sure the model is: told wherever a result is read.

use serde_json::Value;

use crate::{Desk, SMALL, text};

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
        let used = pool["utilisation"]["memory_bandwidth"].as_f64().unwrap();
        assert!(used > 0.05 && used < 1.0, "{pool}");
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

#[test]
fn the_model_s_interval_is_in_every_form_for_programs() {
    let desk = Desk::new();
    let sweep = "sweep quickstart --num-prompts 100 -L request-rate 2,4 --format";
    let table = desk.expect(0, &format!("{sweep} csv"));
    assert!(
        table.lines().next().unwrap().contains("p99_ttft_ms_model_high"),
        "{table}"
    );
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
