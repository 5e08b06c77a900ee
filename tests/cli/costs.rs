//! What GPUs cost: at the list price, at a price that is given, and in one shape in every file.

use serde_json::Value;

use super::{Desk, text, unfolded};

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// What is told as a cost takes a price, and what is spelt out of it costs the same.
#[test]
fn a_price_is_given_to_every_command_that_tells_a_cost() {
    let desk = Desk::new();
    let short = "quickstart --num-prompts 100 --price 1.5";
    let told = desk.expect(0, &format!("run {short}"));
    assert!(
        told.contains("  cost        1.50 $/h, ") && told.contains("; 1.50 $ per GPU-hour, as given"),
        "{told}"
    );
    let spelt = desk.expect(0, &format!("run {short} --dry-run"));
    std::fs::write(desk.path().join("spelt.toml"), spelt).unwrap();
    let again = desk.expect(0, "run spelt.toml --num-prompts 100");
    assert!(again.contains("  cost        1.50 $/h, "), "{again}");
    let swept = desk.expect(
        0,
        "sweep quickstart --num-prompts 100 -L gpu h100,l40s -L price 1.5,0.5 --link --format csv",
    );
    let mut reader = csv::Reader::from_reader(swept.as_bytes());
    let at = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "usd_per_hour")
        .unwrap();
    let usd: Vec<String> = reader.records().map(|row| row.unwrap()[at].to_owned()).collect();
    assert_eq!(usd, ["1.5", "0.5"]);
    for (words, why) in [
        (
            "sweep quickstart -L gpu h100,l40s --price 2",
            "--price is one price for every GPU-hour",
        ),
        (
            "knee quickstart --price -1",
            "`--price` must be US dollars per GPU-hour, like 2.99: -1 is not",
        ),
        (
            "compare quickstart \"a: --max-num-seqs 8\" \"b: --price 2\"",
            "compare, which tells no cost",
        ),
        (
            "working-set prefix-lpm --price 2",
            "working-set, which tells no cost",
        ),
        (
            "knee autoscale --price 2",
            "`run` tells what a run of them costs, and takes --price",
        ),
    ] {
        let output = desk.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        let error = unfolded(&text(&output.stderr));
        assert!(error.contains(why), "{words}: {error}");
    }
}

#[test]
fn every_cost_in_json_has_one_shape() {
    let desk = Desk::new();
    let of = |words: &str, path: &str| {
        let printed = json(&desk.expect(0, &format!("{words} --format json")));
        printed
            .pointer(path)
            .cloned()
            .unwrap_or_else(|| panic!("{words}: no {path}"))
    };
    let knee = "quickstart --precision 0.2 --price 2";
    let apart = "pd-input-length --max-rate 8 --precision 0.2";
    let all = [
        of("run quickstart --num-prompts 100", "/plimsoll/cost"),
        of(
            "sweep quickstart --num-prompts 100 -L seed 1,2",
            "/0/plimsoll/cost",
        ),
        of(&format!("knee {knee}"), "/cost"),
        of(&format!("knee {knee} --for-rate 50"), "/cost"),
        of(&format!("knee {knee} -L max-num-seqs 64,128"), "/0/cost"),
        of(&format!("knee {apart} --for-rate 5"), "/cost"),
        of(
            "knee pd-together --disaggregated --gpus 2 --max-rate 8 --precision 0.2",
            "/ways/0/cost",
        ),
    ];
    for cost in &all {
        for key in [
            "gpus",
            "usd_per_hour",
            "usd_per_million_output_tokens",
            "usd_per_million_tokens",
        ] {
            assert!(cost[key].is_number(), "{key} of {cost}");
        }
        assert!(
            cost["usd_per_hour_by_pool"].is_object() && cost["prices"].is_string(),
            "{cost}"
        );
        let least = cost["usd_per_million_tokens"].as_f64();
        assert!(least < cost["usd_per_million_output_tokens"].as_f64(), "{cost}");
    }
    // Of the replicas that were counted.
    assert_eq!(
        all[3]["usd_per_hour"].as_f64(),
        all[3]["gpus"].as_f64().map(|gpus| 2.0 * gpus)
    );
    assert!(
        all[3]["gpus"].as_u64() > Some(1) && all[2]["gpus"] == 1,
        "{}",
        all[3]
    );
    for apart in &all[5..] {
        let pools = &apart["usd_per_hour_by_pool"];
        let of = |pool: &str| {
            pools[pool]
                .as_f64()
                .unwrap_or_else(|| panic!("{pool} of {apart}"))
        };
        let both = of("prefill") + of("decode");
        assert_eq!(Some(both), apart["usd_per_hour"].as_f64(), "{apart}");
    }
}

/// Tokens that come late cost less than those in time.
#[test]
fn what_an_overloaded_server_costs_says_so() {
    let desk = Desk::new();
    let told = unfolded(&desk.expect(3, "run quickstart --request-rate 40 --num-prompts 4000"));
    assert!(
        told.contains(
            " of what is served in overload, late: `plimsoll knee` says what they cost within an SLO; assumed"
        ),
        "{told}"
    );
    let swept = desk.expect(
        3,
        "sweep quickstart --request-rate 40 --num-prompts 4000 -L gpu h100,l40s",
    );
    assert!(
        swept.contains("$/M out of an unstable run is of what is served in overload, late"),
        "{swept}"
    );
}
