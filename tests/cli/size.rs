//! What to buy: its answers held against runs of what it says to buy, and of one replica less.

use serde_json::Value;

use super::{Desk, text, unfolded};

const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --input-len 512 --output-len 64 --goodput ttft:500 \
                     tpot:50 --precision 0.1";

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

fn purchases(found: &Value) -> &Vec<Value> {
    found["purchases"].as_array().unwrap()
}

#[test]
fn what_is_bought_meets_the_slo_and_one_replica_less_does_not() {
    let desk = Desk::new();
    let wanted = format!("size {MODEL} --gpus h100,l40s --for-rate 150");
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    let best = &purchases(&found)[0];
    let replicas = best["replicas"].as_u64().unwrap();
    assert!(replicas > 1 && best["survives_a_failure"] == false, "{best}");
    assert!(
        best["load"].as_f64() <= Some(1.0) && best["load_one_lost"].as_f64() > Some(1.0),
        "{best}"
    );
    let run = |replicas: u64| {
        let (gpu, size) = (best["gpu"].as_str().unwrap(), &best["tensor_parallel_size"]);
        let words = format!("run {MODEL} --gpu {gpu} -tp {size} --request-rate 150 --replicas {replicas}");
        desk.run(&words).status.code()
    };
    // One less misses the SLO, or is overloaded.
    assert_eq!(run(replicas), Some(0), "{replicas}");
    assert!(matches!(run(replicas - 1), Some(3 | 4)), "{replicas}");
    // The commands that it names do what they say.
    let next = |name: &str| {
        found["next"][name]
            .as_str()
            .unwrap()
            .strip_prefix("plimsoll ")
            .unwrap()
            .to_owned()
    };
    let ran = desk.expect(0, &next("run"));
    assert!(ran.contains("150 req/s"), "{ran}");
    let knee = desk.expect(0, &next("knee"));
    assert!(
        knee.starts_with(&format!("{replicas} replicas for 150 req/s")),
        "{knee}"
    );
    let compared = desk.run(&format!("{} --num-prompts 200 --seeds 2", next("compare")));
    assert!(
        text(&compared.stdout).contains("second"),
        "{}",
        text(&compared.stderr)
    );
    // The first line says what is to be bought, for how much, and what a failure does.
    let printed = desk.expect(0, &wanted);
    let first = printed.lines().next().unwrap();
    let usd = best["usd_per_hour"].as_f64().unwrap();
    assert!(
        first.starts_with(&format!(
            "buy {}: {usd:.2} $/h for 150 req/s within the SLO; with one down it is missed",
            best["buy"].as_str().unwrap()
        )),
        "{printed}"
    );
}

#[test]
fn a_spare_is_bought_and_the_others_carry_the_demand_when_one_fails() {
    let desk = Desk::new();
    let wanted = format!("size {MODEL} --gpus h100 --tensor-parallel-size 1 --for-rate 150 --format json");
    let bare = json(&desk.expect(0, &wanted));
    let safe = json(&desk.expect(0, &format!("{wanted} --spare 1")));
    let (bare, safe) = (&purchases(&bare)[0], &purchases(&safe)[0]);
    let of = |offer: &Value, key: &str| offer[key].as_f64().unwrap();
    assert_eq!(of(safe, "replicas"), of(bare, "replicas") + 1.0);
    assert_eq!(of(safe, "usd_per_hour"), of(bare, "usd_per_hour_surviving"));
    assert_eq!(safe["survives_a_failure"], true);
    assert!((of(safe, "load_one_lost") / of(bare, "load") - 1.0).abs() < 1e-9);
    let printed = desk.expect(0, &wanted.replace("--format json", "--spare 1"));
    assert!(
        printed
            .lines()
            .next()
            .unwrap()
            .ends_with("with one down still within it"),
        "{printed}"
    );
    // A factor on the demand is part of it, and is said.
    let roomy = desk.expect(0, &wanted.replace("--format json", "--headroom 1.5"));
    assert!(roomy.contains(" for 225 req/s within the SLO"), "{roomy}");
    assert!(
        unfolded(&roomy).contains("1.50 times what is asked for (--headroom)"),
        "{roomy}"
    );
}

/// Little's law of a closed loop: N = λ(Z + R), of the answer and of a run of it.
#[test]
fn users_are_counted_for_as_they_think_and_wait() {
    let desk = Desk::new();
    let users = format!("{MODEL} --users 1500 --think-time 20s");
    let found = json(&desk.expect(
        0,
        &format!("size {users} --gpus h100 --tensor-parallel-size 1 --format json"),
    ));
    let best = &purchases(&found)[0];
    assert_eq!(
        (&found["demand"]["users"], &found["demand"]["think_time_s"]),
        (&1500.into(), &20.0.into())
    );
    let of = |key: &str| best[key].as_f64().unwrap();
    let by_little = of("request_rate") * (20.0 + of("answer_s"));
    assert!((by_little / 1500.0 - 1.0).abs() < 0.03, "{by_little} {best}");
    assert!(
        (of("in_flight") / (of("request_rate") * of("answer_s")) - 1.0).abs() < 1e-9,
        "{best}"
    );
    let replicas = best["replicas"].as_u64().unwrap();
    assert!(replicas > 1, "{best}");
    let run = |replicas: u64| {
        let words = format!("run {users} --gpu h100 --num-prompts 60000 --replicas {replicas} --format json");
        let output = desk.run(&words);
        (output.status.code(), json(&text(&output.stdout)))
    };
    let (code, run_of_it) = run(replicas);
    let seen = run_of_it["request_throughput"].as_f64().unwrap();
    assert!((seen / of("request_rate") - 1.0).abs() < 0.05, "{seen} {best}");
    assert_eq!((code, run(replicas - 1).0), (Some(0), Some(3)), "{replicas}");
    // How many users one replica serves is more than the share of each, and less than all.
    let knee = found["next"]["knee"].as_str().unwrap();
    assert!(!knee.contains("--for-rate"), "{knee}");
    let knee = json(&desk.expect(
        0,
        &format!("{} --format json", knee.strip_prefix("plimsoll ").unwrap()),
    ));
    let served = knee["in_flight"]["within_slo"].as_f64().unwrap();
    assert!(
        (1500.0 / replicas as f64..1500.0).contains(&served),
        "{served} {replicas}"
    );
    let printed = desk.expect(0, &format!("size {users} --gpus h100 --tensor-parallel-size 1"));
    assert!(
        printed.contains(" for 1,500 users within the SLO")
            && unfolded(&printed).contains("(Little: N = λ(Z + R))"),
        "{printed}"
    );
}

/// A client's limit is that of all replicas together: each of several has a part of it in flight, and answers sooner than one that has
/// all of it.
#[test]
fn a_limit_in_flight_is_that_of_all_replicas() {
    let desk = Desk::new();
    let wanted = "quickstart --max-concurrency 64 --precision 0.1 --gpus h100 --tensor-parallel-size 1";
    let found = json(&desk.expect(0, &format!("size {wanted} --for-rate 25 --format json")));
    let best = &purchases(&found)[0];
    let replicas = best["replicas"].as_u64().unwrap();
    assert!(replicas > 1 && best["knee_of_one"].is_null(), "{best}");
    let run = |replicas: u64| {
        let words =
            format!("run quickstart --max-concurrency 64 --gpu h100 --request-rate 25 --replicas {replicas}");
        desk.run(&words).status.code()
    };
    assert_eq!(run(replicas), Some(0), "{replicas}");
    assert!(matches!(run(replicas - 1), Some(3 | 4)), "{replicas}");
    // The knee of one says so, too.
    let knee = desk.expect(
        0,
        "knee quickstart --max-concurrency 64 --precision 0.1 --for-rate 25",
    );
    assert!(
        knee.starts_with(&format!("{replicas} replicas for 25.0 req/s")),
        "{knee}"
    );
    // That it is the limit that asks for so many is told.
    let printed = unfolded(&desk.expect(0, &format!("size {wanted} --for-rate 25")));
    assert!(
        printed.contains("for 25.0 req/s, ≤ 64 in flight, within the SLO")
            && printed.contains("but the client's limit asks for so many"),
        "{printed}"
    );
    let unseen = desk.expect(
        3,
        &format!("size {MODEL} --gpus h100 -tp 1 --max-concurrency 4 --request-rate 100"),
    );
    assert!(
        unseen.starts_with("NOTHING was seen to meet the SLO for 100 req/s, ≤ 4 in flight: the client holds"),
        "{unseen}"
    );
    // Sooner than at once no number of them answers.
    let none = desk.expect(3, &format!("size {wanted} --for-rate 400"));
    assert!(
        none.starts_with("THE CLIENT IS THE LIMIT: 64 in flight at most are too few for 400 req/s"),
        "{none}"
    );
}

#[test]
fn cards_have_the_prices_that_they_are_given() {
    let desk = Desk::new();
    std::fs::write(
        desk.path().join("prices.toml"),
        "H100-SXM-80GB = 10.0\nl40s = 0.01\n",
    )
    .unwrap();
    let wanted = format!(
        "size --precision 0.1 {} --for-rate 20 --gpus h100,l40s --tensor-parallel-size 1 --format json",
        MODEL.replace(" --precision 0.1", "")
    );
    let found = json(&desk.expect(0, &format!("{wanted} --unpruned --prices prices.toml")));
    let of = |found: &Value, gpu: &str| {
        let offer = purchases(found).iter().find(|offer| offer["gpu"] == gpu).cloned();
        let offer = offer.unwrap_or_else(|| panic!("{gpu} {found}"));
        offer["usd_per_hour"].as_f64().unwrap() / offer["gpus"].as_f64().unwrap()
    };
    assert_eq!(purchases(&found)[0]["gpu"], "L40S-48GB");
    assert!((of(&found, "L40S-48GB") - 0.01).abs() < 1e-12);
    // The commands that look at it again know it.
    let again = found["next"].to_string();
    assert_eq!(again.matches("--price 0.01").count(), 2, "{again}");
    // A comparison, which tells no cost, takes no price.
    let compared = found["next"]["compare"].as_str().unwrap();
    assert!(!compared.contains("--price"), "{compared}");
    // A flag of several values does not swallow the variants.
    let compared = compared.strip_prefix("plimsoll ").unwrap();
    let compared = desk.run(&format!("{compared} --num-prompts 100 --seeds 2 --format json"));
    assert!(
        text(&compared.stdout).contains("\"second\""),
        "{}",
        text(&compared.stderr)
    );
    // A flag wins, and a card without either has its list price.
    let found = json(&desk.expect(0, &format!("{wanted} --price h100=1.25")));
    assert!((of(&found, "H100-SXM-80GB") - 1.25).abs() < 1e-12);
    let prices = found["settings"][1]["cost"]["prices"].as_str().unwrap();
    assert!(prices.starts_with("assumed list price of "), "{prices}");
    // All that is wrong with a file, at once and where.
    std::fs::write(
        desk.path().join("wrong.toml"),
        "h100x = 1.0\nl40s = -2\nb200 = nan\n",
    )
    .unwrap();
    let output = desk.run(&format!("{wanted} --prices wrong.toml --spare 5000"));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in [
        "unknown GPU, `h100x`",
        "did you mean",
        "wrong.toml:2:",
        "the price of l40s must be US dollars per GPU-hour",
        "the price of b200",
        "--spare 5000 is more than",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
}

#[test]
fn what_holds_no_model_is_named_with_why() {
    let desk = Desk::new();
    let large = "meta-llama/Llama-3.1-70B-Instruct --max-model-len 8192 --input-len 512 --output-len 64 --goodput ttft:2000 tpot:100 \
                 --precision 0.2 --for-rate 2";
    let printed = unfolded(&desk.expect(0, &format!("size {large} --gpus h100,a100-sxm-80gb")));
    assert!(
        printed.contains("no fit A100-SXM-80GB TP1 (needs 131.4 GiB weights")
            || printed.contains("no fit H100-SXM-80GB TP1 (needs 131.4 GiB weights"),
        "{printed}"
    );
    assert!(
        printed.starts_with("buy ") && !printed.contains("TP 1)"),
        "{printed}"
    );
    let nowhere = desk.expect(3, &format!("size {large} --gpus t4,l4 --tensor-parallel-size 1"));
    assert!(nowhere.starts_with("NOTHING FITS"), "{nowhere}");
    assert!(nowhere.contains("L4-24GB TP1 (needs 131.4 GiB"), "{nowhere}");
    let missed = desk.expect(
        3,
        &format!("size {MODEL} --goodput ttft:1 --for-rate 2 --gpus l40s -tp 1"),
    );
    assert!(
        missed.starts_with("NOTHING meets the SLO for 2.00 req/s"),
        "{missed}"
    );
}

#[test]
fn a_demand_and_an_slo_are_needed_and_there_is_one_of_each() {
    let desk = Desk::new();
    for (words, why) in [
        (
            MODEL.to_owned(),
            "give --for-rate 100 (requests per second in all)",
        ),
        (
            format!("{MODEL} --for-rate 1 --request-rate 2"),
            "are two demands",
        ),
        (
            format!("{MODEL} --for-rate 1 --users 2 --think-time 1s"),
            "are two demands",
        ),
        (
            format!("{MODEL} --for-rate 1 --headroom 0.5"),
            "is not a factor from 1",
        ),
        (format!("{MODEL} --for-rate nan"), "is not a rate"),
        (
            format!("{MODEL} --for-rate 5 --max-concurrency 4"),
            "or give --request-rate 5 in its place",
        ),
        (
            format!("{MODEL} --for-rate 1 -L request-rate 1,2"),
            "size buys for one demand",
        ),
        (
            format!("{MODEL} --for-rate 1 --gpus h100,h1000"),
            "unknown GPU \"h1000\"",
        ),
        (
            format!("{MODEL} --for-rate 1 --gpus h100 --gpu l40s"),
            "both say which cards",
        ),
        (
            format!("{MODEL} --for-rate 1 --replicas 2"),
            "size counts replicas, and the scenario has 2",
        ),
        (
            format!("{MODEL} --for-rate 1 --step-time 10ms"),
            "no machine that could be bought",
        ),
        (
            "meta-llama/Llama-3.1-8B-Instruct --input-len 512 --output-len 64 --for-rate 1".to_owned(),
            "no SLO is given: what to buy",
        ),
    ] {
        let output = desk.run(&format!("size {words}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        assert!(told.contains(why), "{words}\n{told}");
    }
}

#[test]
fn what_cannot_cost_less_than_twice_the_cheapest_is_named_and_not_searched() {
    let desk = Desk::new();
    let wanted = format!("size {MODEL} --for-rate 20 --gpus h100");
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    let states = |found: &Value| -> Vec<String> {
        let settings = found["settings"].as_array().unwrap().iter();
        settings
            .map(|setting| setting["state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(states(&found), ["kept", "pruned", "pruned", "pruned"]);
    let why = found["settings"][1]["why"].as_str().unwrap();
    assert!(why.contains("twice the 2.99 $/h"), "{why}");
    let printed = desk.expect(0, &wanted);
    assert!(
        printed.contains("\npruned    H100-SXM-80GB TP2, TP4, TP8: even"),
        "{printed}"
    );
    let all = json(&desk.expect(0, &format!("{wanted} --unpruned --format json")));
    assert_eq!(states(&all), ["kept"; 4]);
    let usd = |at: usize| purchases(&all)[at]["usd_per_hour"].as_f64().unwrap();
    assert!(usd(1) >= 2.0 * usd(0), "{all}");
}

#[test]
fn finished_settings_are_kept_and_every_form_has_the_answer() {
    let desk = Desk::new();
    let wanted =
        format!("size {MODEL} --for-rate 60 --precision 0.15 --gpus h100,l40s --tensor-parallel-size 1");
    let printed = desk.expect(0, &format!("{wanted} -o kept.jsonl"));
    let kept = std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap();
    let again = desk.run(&format!("{wanted} -o kept.jsonl"));
    let told = text(&again.stderr);
    assert!(
        told.contains("already holds 2 settings, not searched again"),
        "{told}"
    );
    // What was kept stays as it was, and the table is that of the settings, whichever command searched them.
    assert_eq!(
        std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap(),
        kept
    );
    assert_eq!(text(&again.stdout), printed);
    let bare = desk.expect(0, &wanted);
    assert_eq!(printed.lines().next(), bare.lines().next());
    let rows = |printed: &str| -> Vec<String> {
        let from = printed.lines().skip_while(|line| !line.starts_with("  rank"));
        from.take(3).map(str::to_owned).collect()
    };
    assert_eq!(rows(&printed), rows(&bare));
    let commands = |printed: &str| -> Vec<String> {
        let all = printed.lines().filter(|line| line.contains(" plimsoll "));
        all.map(str::to_owned).collect()
    };
    assert_eq!(commands(&printed), commands(&bare));
    let other = desk.run(&format!("{wanted} --spare 1 -o kept.jsonl"));
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    let best = &purchases(&found)[0];
    let csv = desk.expect(0, &format!("{wanted} --format csv"));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let at = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let first = rows.iter().find(|row| &row[at("rank")] == "1").unwrap();
    assert_eq!(
        first[at("usd_per_hour")].parse::<f64>().ok(),
        best["usd_per_hour"].as_f64()
    );
    assert_eq!(&first[at("buy")], best["buy"].as_str().unwrap());
    let md = desk.expect(0, &format!("{wanted} --format md"));
    assert!(
        md.starts_with("buy ") && md.contains("| rank |") && md.contains("* run: `plimsoll run "),
        "{md}"
    );
    desk.expect(0, &format!("{wanted} --charts pictures --quiet"));
    assert!(desk.path().join("pictures/knees.svg").exists());
    let spelt = desk.expect(0, &format!("{wanted} --dry-run"));
    assert!(spelt.contains("gpu = H100-SXM-80GB"), "{spelt}");
}

/// Prefill and decode pools stand in the same order, by what they cost.
#[test]
fn pools_stand_beside_replicas_that_do_both() {
    let desk = Desk::new();
    let wanted = format!(
        "size {MODEL} --for-rate 60 --gpus h100 --tensor-parallel-size 1 --disaggregated --format json"
    );
    let found = json(&desk.expect(0, &wanted));
    let pools = purchases(&found).iter().find(|offer| offer["setting"].is_null());
    let pools = pools.unwrap_or_else(|| panic!("{found}"));
    let number = |key: &str| pools[key].as_u64().unwrap();
    assert_eq!(
        number("replicas"),
        number("prefill_replicas") + number("decode_replicas")
    );
    assert_eq!(number("gpus"), number("replicas"));
    let ranks: Vec<u64> = purchases(&found)
        .iter()
        .map(|offer| offer["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(ranks, [1, 2]);
    // All of them are told apart from the cheapest, whichever that is.
    let standing = |at: usize| purchases(&found)[at]["standing"].as_str().unwrap();
    assert_eq!(standing(0), "best");
    assert!(["alike", "worse"].contains(&standing(1)), "{found}");
}

/// A trace is bought for at its own rate, with its peaks.
#[test]
fn a_trace_is_a_demand() {
    let desk = Desk::new();
    let rows: String = (0..1200)
        .map(|at| format!("{},800,40\n", f64::from(at) / 4.0))
        .collect();
    std::fs::write(
        desk.path().join("steady.csv"),
        format!("arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}"),
    )
    .unwrap();
    let wanted = "size meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --goodput ttft:500 tpot:50 --trace steady.csv --gpus h100 \
                  --tensor-parallel-size 1";
    let printed = unfolded(&desk.expect(0, wanted));
    assert!(printed.starts_with("buy 1 × H100-SXM-80GB (TP 1): 2.99 $/h for 4.00 req/s within the SLO; with it down nothing is served"), "{printed}");
    assert!(
        printed.contains("4.00 req/s, the trace's own mean, whose busiest minute has 4.00 req/s"),
        "{printed}"
    );
}

/// Sizes that a replica has beside the one that is tried are in every name, and in what is counted.
#[test]
fn stages_are_named_and_counted() {
    let desk = Desk::new();
    let wanted = format!("size {MODEL} --for-rate 100 --precision 0.15 -pp 2 --gpus h100,l40s -tp 1");
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    for best in purchases(&found) {
        assert_eq!(best["pipeline_parallel_size"], 2, "{best}");
        assert_eq!(
            best["gpus"].as_u64(),
            best["replicas"].as_u64().map(|replicas| 2 * replicas)
        );
        assert!(
            best["buy"].as_str().unwrap().contains("replicas, TP 1, PP 2)"),
            "{best}"
        );
    }
    // What an axis says is said once.
    let swept = wanted.replace("-pp 2", "-L pp 1,2");
    let printed = desk.expect(0, &swept.replace("h100,l40s", "l40s"));
    assert!(
        printed.contains("(TP 1), pp = 1") && printed.contains("replicas, TP 1), pp = 2"),
        "{printed}"
    );
}

/// Whoever says a size means it: a pasted command's is held, which is told, and an axis opens it.
#[test]
fn a_size_that_a_pasted_command_says_is_held() {
    let desk = Desk::new();
    let traffic = MODEL.strip_prefix("meta-llama/Llama-3.1-8B-Instruct ").unwrap();
    let wanted = format!(
        "size --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2' {traffic} --for-rate 20 --gpus h100 --unpruned --format json"
    );
    let sizes = |words: &str| -> (Vec<u64>, String) {
        let output = desk.run(words);
        let found = json(&text(&output.stdout));
        let all = purchases(&found).iter();
        let mut sizes: Vec<u64> = all
            .map(|one| one["tensor_parallel_size"].as_u64().unwrap())
            .collect();
        sizes.sort_unstable();
        (sizes, text(&output.stderr))
    };
    let (held, told) = sizes(&wanted);
    assert_eq!(held, [2]);
    assert!(
        told.contains("tensor_parallel_size = 2 is held, as the pasted command says"),
        "{told}"
    );
    let (opened, told) = sizes(&format!("{wanted} -L tensor-parallel-size 1,2"));
    assert_eq!(opened, [1, 2]);
    assert!(!told.contains("is held"), "{told}");
    // A scenario's is one of those that are tried.
    let quickstart = include_str!("../../scenarios/quickstart.toml");
    let own = quickstart.replace("[cluster]\n", "[cluster]\ntensor_parallel_size = 2\n");
    std::fs::write(desk.path().join("own.toml"), own).unwrap();
    let told = text(
        &desk
            .run("size own.toml --for-rate 20 --gpus h100 --dry-run")
            .stderr,
    );
    assert!(
        told.contains("tensor_parallel_size = 2 is the scenario's, and 1,2,4,8 are tried"),
        "{told}"
    );
}

/// Ways of serving that say how many GPUs share a replica are what is tried, and the commands have their flags.
#[test]
fn variants_say_their_own_sizes() {
    let desk = Desk::new();
    let wanted = format!(
        "size {MODEL} --for-rate 20 --gpus h100 --unpruned --variant 'wide: -tp 2 --max-num-seqs 64' --variant 'plain: -tp 1'"
    );
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    let sizes = purchases(&found).iter().map(|one| one["buy"].as_str().unwrap());
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [
            "1 × H100-SXM-80GB (TP 1), variant = plain",
            "2 × H100-SXM-80GB (1 replica, TP 2), variant = wide"
        ]
    );
    let next = found["next"]["compare"].as_str().unwrap();
    let second = "'second: --gpu H100-SXM-80GB --tensor-parallel-size 2 --max-num-seqs 64 --replicas 1'";
    assert!(next.contains(second), "{next}");
    let next = next.strip_prefix("plimsoll ").unwrap();
    desk.run(&format!("{next} --num-prompts 100 --seeds 2 --dry-run"));
    let both = desk.run(&format!("{wanted} --variant 'other: --gpu l40s'"));
    let told = text(&both.stderr);
    assert!(
        both.status.code() == Some(2) && told.contains("a variant and --gpus both say which cards"),
        "{told}"
    );
}

/// A profile of one's own is called by the path that was given, where the commands find it.
#[test]
fn a_profile_of_ones_own_is_called_by_its_path() {
    let desk = Desk::new();
    let profile = desk.expect(0, "hw show h100 --format toml");
    let own = profile.replace("id = \"H100-SXM-80GB\"", "id = \"MINE\"");
    std::fs::write(desk.path().join("mine.toml"), own).unwrap();
    let wanted = format!("size {MODEL} --for-rate 20 --gpus mine.toml -tp 1 --price MINE=1.5 --format json");
    let found = json(&desk.expect(0, &wanted));
    assert_eq!(purchases(&found)[0]["buy"], "1 × MINE (TP 1)");
    let next = found["next"]["run"].as_str().unwrap();
    assert!(next.contains("--gpu mine.toml "), "{next}");
    desk.expect(0, next.strip_prefix("plimsoll ").unwrap());
}

/// More replicas than are simulated are said to be as many as their knees make, and every command that is printed is accepted.
#[test]
fn more_replicas_than_are_simulated_are_said_to_be_that() {
    let desk = Desk::new();
    let wanted = format!("size {MODEL} --for-rate 300000 --gpus h100,l40s -tp 1");
    let printed = desk.expect(0, &wanted);
    let first = printed.lines().next().unwrap();
    assert!(
        first.contains("within the SLO, by the knee of one and NOT SIMULATED; with one down"),
        "{printed}"
    );
    assert!(
        unfolded(&printed).contains("(more than 1,024 at once take too long)"),
        "{printed}"
    );
    let found = json(&desk.expect(0, &format!("{wanted} --format json")));
    let next = found["next"].as_object().unwrap();
    let names: Vec<&String> = next.keys().collect();
    assert_eq!(names, ["knee", "run_one"]);
    for command in next.values() {
        let words = command.as_str().unwrap().strip_prefix("plimsoll ").unwrap();
        desk.expect(0, words);
    }
}
