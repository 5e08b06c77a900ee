//! What prefill and decode pools cost, and how many of each a rate needs.

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
        printed.contains("  cost        8.00 $/h for 4 GPUs (prefill 2.00, decode 6.00), "),
        "{printed}"
    );
    // One pool has it, too, in one line.
    let alone = desk.expect(0, "run quickstart --num-prompts 100");
    let cost = |printed: &str| {
        let line = printed.lines().find(|line| line.starts_with("  cost  "));
        line.map(|line| line.trim_start_matches("  cost").trim().to_owned())
    };
    let told = cost(&alone).expect("a line of it");
    assert!(
        told.starts_with("2.99 $/h, ") && told.ends_with(" in + out); assumed list price of 2025-10-01"),
        "{alone}"
    );
    let keys = |run: &Value| -> Vec<String> {
        let cost = run["plimsoll"]["cost"].as_object().unwrap();
        cost.keys().cloned().collect()
    };
    let alone = json(&desk.expect(0, "run quickstart --num-prompts 100 --format json"));
    assert_eq!(keys(&alone), keys(&run));
    assert_eq!(alone["plimsoll"]["cost"]["usd_per_hour"].as_f64(), Some(2.99));
    let priced = "knee quickstart --price 2 --precision 0.2";
    let told = cost(&desk.expect(0, priced)).expect("a line of it");
    assert!(
        told.starts_with("2.00 $/h, ") && told.ends_with("; 2.00 $ per GPU-hour, as given"),
        "{told}"
    );
    let knee = json(&desk.expect(0, &format!("{priced} --format json")));
    let tokens = knee["points"].as_array().unwrap().iter().rfind(|point| {
        point["request_rate"].as_f64().unwrap() <= knee["knee"]["value"].as_f64().unwrap() * (1.0 + 1e-9)
    });
    let tokens = tokens.unwrap()["output_throughput"].as_f64().unwrap();
    let million = knee["cost"]["usd_per_million_output_tokens"].as_f64().unwrap();
    // The knee lies between this rate and the next.
    let there = 2.0 / (tokens * 3600.0 / 1e6);
    assert!((0.9..=1.01).contains(&(million / there)), "{million} and {there}");
    // Replicas that are counted bring their own line, and an ideal server is nothing that one pays.
    let sized = desk.expect(0, "knee quickstart --for-rate 20 --precision 0.2");
    assert_eq!(sized.matches("\n  cost  ").count(), 1, "{sized}");
    for ideal in [
        "run ideal-queue --num-prompts 2000",
        "knee ideal-queue --goodput ttft:1000 --precision 0.2",
    ] {
        let told = desk.expect(0, ideal);
        assert_eq!(cost(&told), None, "{told}");
    }
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

const SIZED: &str = "knee pd-input-length --precision 0.2 --for-rate 30";

/// What is found meets the SLO in a run of it, and nothing that is cheaper was seen to.
#[test]
fn the_cheapest_numbers_of_both_pools_are_found_for_a_rate() {
    let desk = Desk::new();
    let found = json(&desk.expect(0, &format!("{SIZED} --format json")));
    let sizing = &found["sizing"];
    let (prefill, decode) = (
        sizing["prefill"].as_u64().unwrap(),
        sizing["decode"].as_u64().unwrap(),
    );
    assert_eq!(sizing["is_cheapest"], true);
    assert_eq!(sizing["gpus"].as_u64(), Some(prefill + decode));
    let usd = sizing["usd_per_hour"].as_f64().unwrap();
    assert!((usd - 2.99 * (prefill + decode) as f64).abs() < 1e-9, "{sizing}");
    let million = sizing["usd_per_million_output_tokens"].as_f64().unwrap();
    assert!(
        (million - usd / (30.0 * 256.0 * 3600.0 / 1e6)).abs() < 1e-6,
        "{sizing}"
    );
    // The ends of the model's interval lie on both sides of it.
    let ends = ["gpus_model_low", "gpus_model_high"].map(|key| sizing[key].as_u64().unwrap());
    let holds = (ends[0]..=ends[1]).contains(&(prefill + decode));
    assert!(holds && ends[0] < ends[1], "{sizing}");
    assert!(found["model_interval"].is_object(), "{found}");
    let tried = sizing["tried"].as_array().unwrap();
    let of = |pair: &Value| {
        (
            pair["prefill"].as_u64().unwrap(),
            pair["decode"].as_u64().unwrap(),
        )
    };
    for pair in tried {
        let is_cheaper = pair["usd_per_hour"].as_f64().unwrap() < usd - 1e-9;
        assert!(!is_cheaper || pair["kept"] == false, "{pair}");
    }
    // The pairs about the answer are among them, and a run of the answer and of one less says the same.
    for about in [(prefill - 1, decode), (prefill, decode - 1)] {
        let is_possible = about.0 > 0 && about.1 > 0;
        assert!(
            !is_possible || tried.iter().any(|pair| of(pair) == about),
            "{about:?} in {sizing}"
        );
    }
    let run = |(prefill, decode): (u64, u64)| {
        let words = format!(
            "run pd-input-length --request-rate 30 --num-prompts 20000 --prefill {prefill} --decode {decode}"
        );
        desk.run(&words).status.code()
    };
    assert_eq!(run((prefill, decode)), Some(0));
    assert_eq!(run((prefill - 1, decode)), Some(3), "{sizing}");
    let printed = desk.expect(0, SIZED);
    let first = format!("{prefill} prefill + {decode} decode replicas for 30.0 req/s  (95 % [");
    assert!(printed.starts_with(&first), "{printed}");
    assert!(
        printed.contains("$/M output tokens") && printed.contains(&format!("▶ {prefill}")),
        "{printed}"
    );
    assert!(
        printed.contains("  replicas ±  ") && printed.contains("  model ±     knee −"),
        "{printed}"
    );
    // One of each would be far beyond what it can do at this rate: what is seen of it is seen at ease.
    let hurried = json(&desk.expect(0, &format!("{SIZED} --request-rate 200 --format json")));
    assert_eq!(hurried["sizing"]["tried"], sizing["tried"]);
    let table = desk.expect(0, &format!("{SIZED} --format csv"));
    assert_eq!(table.lines().count(), tried.len() + 1);
    assert_eq!(
        table.lines().filter(|line| line.ends_with(",true,true")).count(),
        1,
        "{table}"
    );
}

/// A card that decodes costs a third of one that prefills: prices decide between pairs, and not how many GPUs they have.
#[test]
fn each_pool_is_paid_at_the_price_of_its_own_card() {
    let desk = Desk::new();
    let own = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[cluster.prefill]\n\
               replicas = 1\n[cluster.decode]\nreplicas = 1\ngpu = \"L40S-48GB\"\n[engine]\nmax_model_len = 8192\n\
               [workload.arrivals.poisson]\nrequest_rate = 4.0\n[workload.lengths.fixed]\ninput_len = 2048\noutput_len = 256\n\
               [slo.goodput]\nttft = \"1000 ms\"\ntpot = \"40 ms\"\n";
    std::fs::write(desk.path().join("two.toml"), own).unwrap();
    let printed = desk.expect(0, "knee two.toml --precision 0.2 --for-rate 20 --format json");
    let sizing = &json(&printed)["sizing"];
    let pairs = sizing["tried"].as_array().unwrap();
    let of = |pair: &Value, key: &str| pair[key].as_f64().unwrap();
    for pair in pairs.iter().chain([sizing]) {
        let usd = 2.99 * of(pair, "prefill") + 0.99 * of(pair, "decode");
        assert!((of(pair, "usd_per_hour") - usd).abs() < 1e-9, "{pair}");
    }
    // With one less that prefills, as many that decode as are cheaper.
    let fewer = (of(sizing, "prefill") - 1.0, of(sizing, "decode") + 3.0);
    let is_tried = |pair: &Value| (of(pair, "prefill"), of(pair, "decode")) == fewer;
    assert!(pairs.iter().any(is_tried), "{fewer:?} in {sizing}");
    let refused = desk.run("knee two.toml --for-rate 20 --price 3");
    assert!(text(&refused.stderr).contains("`--price` is one price for every GPU-hour"));
}

#[test]
fn what_cannot_be_counted_of_two_pools_says_so() {
    let desk = Desk::new();
    let told = |words: &str| {
        let output = desk.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        text(&output.stderr)
    };
    let failing = told("knee pd-failover --for-rate 20");
    assert!(failing.contains("counts replicas that do not fail"), "{failing}");
    let drawn = told("knee pd-input-length --for-rate 20 --charts pictures");
    assert!(drawn.contains("--charts has no picture"), "{drawn}");
    // What is looked for cannot be given; a file's own numbers may stand, and are told.
    let given = told("knee pd-input-length --for-rate 10 --prefill 3 --decode 5");
    let refused = "--for-rate finds how many replicas prefill and decode need: `--prefill` and `--decode` cannot be given";
    assert!(given.contains(refused), "{given}");
    assert!(given.contains("write --prefill 1 --decode 1"), "{given}");
    assert_eq!(given.matches("error:").count(), 1, "{given}");
    let planned = desk.run("knee pd-input-length --for-rate 10 --prefill 1 --dry-run");
    let planned = (planned.status.code(), text(&planned.stderr));
    assert_eq!(planned.0, Some(0), "{}", planned.1);
    assert!(
        planned
            .1
            .contains("cluster.decode.replicas = 3 has no effect where --for-rate counts")
            && !planned.1.contains("cluster.prefill.replicas"),
        "{}",
        planned.1
    );
    let planned = desk.run("knee pd-input-length --for-rate 10 --request-rate 7 --precision 0.2 --dry-run");
    let planned = text(&planned.stderr);
    assert!(
        planned.contains("request_rate = 7 has no effect where --for-rate counts prefill and decode replicas but on the guess")
            && !planned.contains("first rate that is tried")
            && !planned.contains("precision has no effect"),
        "{planned}"
    );
    // Who is sent where while a pool grows is not modelled, with a rate to count for or without one.
    let shipped = include_str!("../../scenarios/pd-input-length.toml");
    let scaled = "[cluster.decode.autoscale]\nmin_replicas = 1\nmax_replicas = 6\nsignal = \"in_flight\"\ntarget = 24.0\n";
    std::fs::write(desk.path().join("scaled.toml"), format!("{shipped}\n{scaled}")).unwrap();
    let scaled = told("knee scaled.toml --for-rate 20");
    assert!(
        scaled.contains("`autoscale` does not go with prefill and decode pools yet")
            && scaled.contains("[cluster.decode.autoscale]")
            && scaled.contains("help: leave it out"),
        "{scaled}"
    );
    let swept = desk.run("knee pd-input-length --for-rate 20 -L input-len 512,1024");
    assert!(text(&swept.stderr).contains("count without -L and -S"));
    // No number helps where a prompt alone takes longer than is promised.
    let hopeless = desk.expect(
        3,
        "knee pd-input-length --for-rate 1 --precision 0.2 --goodput ttft:1 tpot:none",
    );
    assert!(
        hopeless.starts_with("NO NUMBERS of prefill and decode replicas"),
        "{hopeless}"
    );
}

/// The client would be the limit of every way alike.
#[test]
fn a_limit_of_the_client_is_no_question_of_shares() {
    let output = Desk::new().run("knee quickstart --disaggregated --gpus 4 --max-concurrency 16");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("max_concurrency = 16 is the limit of all of them")
            && told.contains("help: leave it out;"),
        "{told}"
    );
}
