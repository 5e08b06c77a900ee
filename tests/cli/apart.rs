//! What prefill and decode pools cost.

use serde_json::Value;

use super::{Desk, text};

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// Four H100 at 2.99 $ are 11.96 $ an hour, and the tokens of a run or of the knee share it.
#[test]
fn pools_have_a_price_as_replicas_do() {
    let desk = Desk::new();
    let run = json(&desk.expect(0, "run pd-input-length --num-prompts 400 --format json"));
    let cost = &run["plimsoll"]["cost"];
    assert_eq!((&cost["gpus"], &cost["usd_per_hour"]), (&4.into(), &11.96.into()));
    let by_pool = &cost["usd_per_hour_by_pool"];
    assert_eq!(
        (by_pool["prefill"].as_f64(), by_pool["decode"].as_f64()),
        (Some(2.99), Some(8.97))
    );
    // Each request has 2,048 tokens in and 256 out.
    let each = |of: &str| cost[of].as_f64().unwrap();
    let ratio = each("usd_per_million_output_tokens") / each("usd_per_million_tokens");
    assert!((ratio - 9.0).abs() < 1e-9, "{cost}");
    let words = "knee pd-input-length --max-rate 8 --precision 0.2 --price 2";
    let found = json(&desk.expect(0, &format!("{words} --format json")));
    let (cost, knee) = (&found["cost"], found["knee"]["value"].as_f64().unwrap());
    let expected = 8.0 / (knee * 256.0 * 3600.0 / 1e6);
    let told = cost["usd_per_million_output_tokens"].as_f64().unwrap();
    assert!((told - expected).abs() < 1e-9 * expected, "{cost}");
    let printed = desk.expect(0, words);
    assert!(
        printed.contains("  cost        8.00 $/h for 4 GPUs (prefill 2.00, decode 6.00); "),
        "{printed}"
    );
    // One pool has no such line: a rate to size for brings its costs.
    let alone = desk.expect(0, "run quickstart --num-prompts 100");
    assert!(!alone.contains("  cost  "), "{alone}");
    let refused = desk.run("knee quickstart --price 2");
    assert!(text(&refused.stderr).contains("--price has no effect on the knee of one setting"));
}

#[test]
fn every_share_of_gpus_says_what_its_tokens_cost() {
    let desk = Desk::new();
    let words =
        "knee pd-together --disaggregated --gpus 2 --max-rate 8 --precision 0.2 --price 3 --format csv";
    let table = desk.expect(0, words);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let (rate, hour, token) = (
        at("rate"),
        at("usd_per_hour"),
        at("usd_per_million_output_tokens"),
    );
    assert_eq!(rows.len(), 3, "{table}");
    for row in &rows[1..] {
        let of = |at: usize| row[at].parse::<f64>().unwrap();
        assert_eq!(of(hour), 6.0);
        let expected = 6.0 / (of(rate) * 256.0 * 3600.0 / 1e6);
        assert!((of(token) - expected).abs() < 1e-9, "{table}");
    }
}
