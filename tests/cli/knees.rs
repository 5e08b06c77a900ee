//! Searches for a knee and for a number of replicas, held against runs at that rate and with that number.

use serde_json::Value;

use super::{Desk, SMALL, text, unfolded};

const MACHINE: &str =
    "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --goodput ttft:500 tpot:50";

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// Twenty-four prompts at once, once in twenty seconds.
fn bursts() -> String {
    let rows = (0..60).flat_map(|burst| (0..24).map(move |_| format!("{}.0,2000,20\n", 20 * burst)));
    format!(
        "arrived_at,num_prefill_tokens,num_decode_tokens\n{}",
        rows.collect::<String>()
    )
}

/// One replica has all of a burst to itself, however much the trace is slowed down; several share it.
#[test]
fn replicas_for_a_trace_are_as_many_as_a_run_of_it_needs() {
    let desk = Desk::new();
    std::fs::write(desk.path().join("bursts.csv"), bursts()).unwrap();
    for router in ["round_robin", "least_requests"] {
        let traffic = format!("{MACHINE} --trace bursts.csv --router {router}");
        let found = json(&desk.expect(0, &format!("knee {traffic} --for-rate 2 --format json")));
        let sizing = &found["sizing"];
        assert_eq!(
            (&sizing["counted_by"], &sizing["routing"]),
            (&"simulation".into(), &router.into())
        );
        let replicas = sizing["replicas"].as_u64().unwrap();
        assert!(replicas > 1, "{sizing}");
        let run = |replicas: u64| {
            let words = format!("run {traffic} --request-rate 2 --replicas {replicas}");
            desk.run(&words).status.code()
        };
        assert_eq!(
            (run(replicas), run(replicas - 1)),
            (Some(0), Some(3)),
            "{replicas}"
        );
        let tried = sizing["tried"].as_array().unwrap();
        let kept = |crew: &Value| crew["kept"].as_bool().unwrap();
        let fewest = tried.iter().find(|crew| kept(crew)).unwrap();
        assert_eq!(fewest["replicas"], sizing["replicas"]);
        // No share of the trace for one alone meets the SLO.
        assert!(found["knee"].is_null() && sizing["load"].is_null(), "{found}");
    }
    let printed = desk.expect(0, &format!("knee {MACHINE} --trace bursts.csv --for-rate 2"));
    let told = unfolded(&printed);
    assert!(
        told.contains("counted by simulating so many behind round_robin, which share all 2.00 req/s:"),
        "{printed}"
    );
    assert!(
        told.contains("where one alone meets the SLO at no rate"),
        "{printed}"
    );
    // Nor does any number, where the requests themselves take longer than they may.
    let hopeless = "--goodput ttft:1 --for-rate 2";
    let printed = desk.expect(3, &format!("knee {MACHINE} --trace bursts.csv {hopeless}"));
    assert!(printed.contains("no number of them helps"), "{printed}");
}

#[test]
fn what_cannot_be_simulated_is_counted_by_the_knee_and_says_so() {
    let desk = Desk::new();
    let servers = "--input-len 1024 --output-len 128 --for-rate 200 --data-parallel-size 2 --precision 0.2";
    let found = json(&desk.expect(0, &format!("knee {MACHINE} {servers} --format json")));
    let sizing = &found["sizing"];
    assert_eq!(
        (&sizing["counted_by"], &sizing["routing"]),
        (&"knee".into(), &"perfect round robin".into())
    );
    let why = sizing["not_simulated"].as_str().unwrap();
    assert!(why.contains("data-parallel servers"), "{why}");
    let knee = found["knee"]["value"].as_f64().unwrap();
    assert_eq!(sizing["replicas"].as_f64(), Some((200.0 / knee).ceil()));
    let printed = unfolded(&desk.expect(0, &format!("knee {MACHINE} {servers}")));
    assert!(
        printed.contains("counted by the knee of one, not simulated:"),
        "{printed}"
    );
}

/// One process tokenizes 16,016 tokens in 24 ms (1.5 µs each), for however many engines, and no more than 41.6 prompts a second.
#[test]
fn engines_of_one_server_wait_for_its_api_servers() {
    let desk = Desk::new();
    let traffic = "--dataset-name prefix_repetition --prefix-repetition-prefix-len 16000 --prefix-repetition-suffix-len 16 \
                   --prefix-repetition-num-prefixes 1 --prefix-repetition-output-len 2 --goodput ttft:1000";
    let knee = |more: &str| {
        let model = "Qwen/Qwen2.5-0.5B-Instruct --gpu h100";
        unfolded(&desk.expect(0, &format!("knee {model} {traffic} --max-rate 120 {more}")))
    };
    let one = knee("--data-parallel-size 4 --api-server-count 1");
    assert!(one.contains("saturates at 41."), "{one}");
    assert!(
        one.contains("Hardest pressed is the API server, which takes requests in and hands tokens on one after the other"),
        "{one}"
    );
    // Four by default.
    let four = knee("--data-parallel-size 4");
    assert!(four.contains("nothing up to 120 req/s"), "{four}");
}

#[test]
fn what_the_client_holds_back_is_no_limit_of_the_server() {
    let desk = Desk::new();
    let traffic = format!("{MACHINE} --input-len 512 --output-len 64");
    let of = |limit: u32| format!("knee {traffic} --request-rate 4 --max-concurrency {limit}");
    let found = json(&desk.expect(0, &format!("{} --format json", of(4))));
    assert!(
        found["knee"].is_null() && found["saturation"].is_null(),
        "{found}"
    );
    assert_eq!(found["client_limit_within_slo"], true);
    let plateau = found["client_limit"]["value"].as_f64().unwrap();
    // Little: four in flight, each for as long as it takes.
    let points = found["points"].as_array().unwrap();
    let kept = points
        .iter()
        .rfind(|point| !point["median_e2el_ms"].is_null())
        .unwrap();
    let by_little = 4.0 / (kept["median_e2el_ms"].as_f64().unwrap() / 1e3);
    assert!((plateau / by_little - 1.0).abs() < 0.1, "{plateau} {by_little}");
    assert!(kept["mean_client_queue_time_ms"].as_f64() > Some(0.0), "{kept}");
    let printed = desk.expect(0, &of(4));
    assert!(
        printed.starts_with("THE CLIENT IS THE LIMIT: 4 in flight push at most "),
        "{printed}"
    );
    let told = unfolded(&printed);
    assert!(
        told.contains("limited by the client, not the server:")
            && told.contains("UNSTABLE: client's queue grows"),
        "{printed}"
    );
    let sized = desk.expect(3, &format!("{} --for-rate 100", of(4)));
    assert!(
        unfolded(&sized).contains("of one it is the client that holds requests back"),
        "{sized}"
    );

    // A client that has more places than the server has reason to fill shows the server's knee.
    let free = json(&desk.expect(0, &format!("knee {traffic} --request-rate 4 --format json")));
    let roomy = json(&desk.expect(0, &format!("{} --format json", of(2000))));
    assert!(roomy.get("client_limit").is_none(), "{roomy}");
    assert_eq!(free["knee"], roomy["knee"]);
    assert!(plateau < 0.9 * free["knee"]["value"].as_f64().unwrap());
}

/// Its knee lies between two rates that were far apart, and few requests in a hundred decide.
#[test]
fn the_interval_of_a_knee_is_a_tenth_of_it_wide_or_says_why_not() {
    let desk = Desk::new();
    for scenario in ["queue-shared", "no-chunked-prefill"] {
        let found = json(&desk.expect(
            0,
            &format!("knee {scenario} --goodput ttft:500 tpot:50 --format json"),
        ));
        let end = |end: &str| found["knee"][end].as_f64().unwrap();
        let width = (end("high") - end("low")) / end("value");
        let notes = found["notes"].to_string();
        assert!(
            width <= 0.105 || notes.contains("which is chance"),
            "{scenario} {width}"
        );
    }
    // Less precise runs are asked for no more.
    let output = desk.run("knee no-chunked-prefill --goodput ttft:500 tpot:50 --precision 0.2");
    assert!(
        !text(&output.stdout).contains("which is chance"),
        "{}",
        text(&output.stdout)
    );
}

const SETTINGS: &str = "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --input-len 512 --output-len 64 --goodput ttft:500 \
                        tpot:50 --precision 0.1";

/// A setting's knee is the one that is found of it alone, and its cost follows from it.
#[test]
fn settings_have_the_knees_that_each_has_alone() {
    let desk = Desk::new();
    let all = desk.expect(0, &format!("knee {SETTINGS} -L gpu h100,l40s,t4 --format json"));
    let all = json(&all);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 3);
    for (row, gpu) in all.iter().zip(["h100", "l40s"]) {
        let alone = json(&desk.expect(0, &format!("knee {SETTINGS} --gpu {gpu} --format json")));
        assert_eq!(row["cell"]["gpu"], gpu);
        // One shape, of one search, of a setting, and of one that is not searched.
        let keys = |object: &serde_json::Value| {
            let keys = object.as_object().unwrap().keys().cloned();
            keys.collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(keys(&alone), keys(row), "{gpu}");
        assert_eq!(keys(&all[2]), keys(row), "t4");
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(row["scenario"], serde_json::json!({"name": null, "seed": 0}));
        let prose = row["limited_by"].as_str().unwrap();
        let (metric, first) = match row["breaks_first"].as_str().unwrap() {
            "p99_ttft" => ("TTFT p99", true),
            "p99_tpot" => ("TPOT p99", true),
            other => (other, false),
        };
        assert!(first && prose.starts_with(metric), "{prose}");
        let pressed = row["hardest_pressed"].as_str().unwrap();
        let pressed = pressed.replace("memory_", "memory ");
        assert!(
            prose.contains(&format!("Hardest pressed is {pressed} (")),
            "{prose}"
        );
        // What it is ranked by stands in its cost, too.
        for (key, value) in alone
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| !["cost", "cell", "standing", "alike_by"].contains(&key.as_str()))
        {
            assert_eq!(&row[key], value, "{gpu}: {key}");
        }
        for key in ["gpus", "usd_per_hour", "usd_per_million_output_tokens"] {
            assert_eq!(row["cost"][key], alone["cost"][key], "{gpu}: {key}");
        }
        let number = |key: &str| row["cost"][key].as_f64().unwrap();
        let tokens_per_hour = 3600.0 * row["knee"]["value"].as_f64().unwrap() * 64.0;
        let per_million = number("usd_per_hour") / (tokens_per_hour / 1e6);
        let ranked = number("usd_per_million_output_tokens");
        assert!((ranked / per_million - 1.0).abs() < 1e-9);
        assert!(number("usd_low") < ranked && ranked < number("usd_high"));
    }
    assert_eq!(all[2]["verdict"], "does_not_fit");
}

#[test]
fn what_the_search_of_settings_contradicts_is_refused() {
    let desk = Desk::new();
    for (words, told) in [
        ("--gpu h100 -L request-rate 2,3", "knee looks for the rate itself"),
        (
            "--gpu h100 -L workload.arrivals.poisson.request_rate 2,3",
            "knee looks for the rate itself",
        ),
        ("--gpu h100 -L gpu h100,l40s", "leave the flag out"),
        ("-L gpu h100,l40s --price 2", "one price for every GPU-hour"),
        ("--gpu h100 --link", "--link has no effect without axes"),
    ] {
        let output = desk.run(&format!("knee {SETTINGS} {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}");
        let error = unfolded(&text(&output.stderr));
        assert!(error.contains(told), "{words}: {error}");
    }
}

/// Twice the cards at the same price: an hour of the fleet is what ranks them, the cheapest first in the table.
#[test]
fn settings_for_a_rate_are_ranked_by_the_hour() {
    let desk = Desk::new();
    let sized = format!("knee {SETTINGS} --gpu h100 -L tensor-parallel-size 2,1 --for-rate 30 --price 2");
    let rows = desk.expect(0, &format!("{sized} --format csv"));
    let mut reader = csv::Reader::from_reader(rows.as_bytes());
    let head = reader.headers().unwrap().clone();
    let of = |row: &csv::StringRecord, key: &str| -> f64 {
        let at = head.iter().position(|name| name == key).unwrap();
        row[at].parse().unwrap()
    };
    let mut hours = Vec::new();
    for (row, each) in reader.records().map(Result::unwrap).zip([2.0, 1.0]) {
        assert_eq!(of(&row, "gpus"), each * of(&row, "replicas_counted"));
        assert_eq!(of(&row, "usd_per_hour"), 2.0 * of(&row, "gpus"));
        assert_eq!(of(&row, "for_rate"), 30.0);
        hours.push(of(&row, "usd_per_hour"));
    }
    let table = desk.expect(0, &sized);
    let first = |size: &str| {
        let is_row = |line: &&str| line.trim_start().starts_with(&format!("{size} "));
        table.lines().position(|line| is_row(&line)).unwrap()
    };
    assert_eq!(first("1") < first("2"), hours[1] < hours[0], "{table}");
}

/// A promise that the client keeps for the server is kept, and no knee of it.
#[test]
fn settings_that_their_client_holds_back_keep_their_promise() {
    let desk = Desk::new();
    let limited = format!("knee {SETTINGS} --request-rate 2 --max-concurrency 2 -L gpu h100,l40s");
    let table = desk.expect(0, &limited);
    assert!(table.starts_with("THE CLIENT IS THE LIMIT"), "{table}");
    let rows = desk.expect(0, &format!("{limited} --format csv"));
    assert_eq!(rows.matches(",kept,").count(), 2, "{rows}");
}

/// A setting that cannot be run is a row that says why, and no reason against the others, in `sweep` as here.
#[test]
fn settings_that_are_refused_are_rows_beside_the_others() {
    let desk = Desk::new();
    let knee = format!("knee {SETTINGS} --gpu h100");
    let sizes = format!("{knee} -L tensor-parallel-size 1,16");
    let table = desk.expect(0, &sizes);
    assert!(
        table.starts_with("cheapest within the SLO: tensor-parallel-size = 1, "),
        "{table}"
    );
    assert!(table.contains("refused: larger than a node\n"), "{table}");
    let told = unfolded(&table);
    let why = "`--tensor-parallel-size` is larger than a node: 16 GPUs; a node has 8";
    assert!(
        told.contains(&format!("but tensor-parallel-size = 16: is refused: {why}")),
        "{table}"
    );
    let rows = desk.expect(0, &format!("{sizes} --format csv"));
    assert!(
        rows.lines()
            .last()
            .unwrap()
            .contains(&format!(",refused,\"{why}")),
        "{rows}"
    );
    let formats = desk.expect(0, &format!("{knee} -L quantization mxfp4,fp8 --format json"));
    let formats = json(&formats);
    assert_eq!(formats[0]["verdict"], "refused");
    assert_eq!(formats[0]["in_short"], "has no effect on this model");
    assert!(
        formats[0]["why"]
            .as_str()
            .unwrap()
            .contains("mxfp4 stores experts")
    );
    assert!(formats[1]["knee"]["value"].as_f64() > Some(1.0));

    let sweep = SMALL.replacen("run", "sweep", 1) + " -L tensor-parallel-size 1,16";
    let table = desk.expect(0, &sweep);
    assert!(
        table.starts_with("1 run; 1 cell is refused; most output "),
        "{table}"
    );
    assert!(table.contains("refused: larger than a node\n"), "{table}");
    let rows = desk.expect(0, &format!("{sweep} --format csv"));
    assert!(rows.lines().last().unwrap().ends_with(",refused"), "{rows}");
    let dry = unfolded(&desk.expect(0, &format!("{sizes} --dry-run")));
    assert!(
        dry.contains(&format!("tensor-parallel-size = 16 is refused: {why}")),
        "{dry}"
    );
}

#[test]
fn what_every_setting_is_refused_for_is_an_error_and_what_all_share_is_told_once() {
    let desk = Desk::new();
    for command in ["knee", "sweep"] {
        let refused = |words: &str| {
            let traffic = SETTINGS.replace("--precision 0.1", "--request-rate 2 --num-prompts 50");
            let output = desk.run(&format!("{command} {traffic} {words}"));
            assert_eq!(output.status.code(), Some(2), "{command} {words}");
            text(&output.stderr)
        };
        let told = refused("--gpu h100 -L tensor-parallel-size 16,32");
        for size in [16, 32] {
            let named = format!(
                "error: tensor-parallel-size = {size}: `--tensor-parallel-size` is larger than a node: {size} GPUs"
            );
            assert!(told.contains(&named), "{told}");
        }
        // Of one that does not fit and one that is refused each has its own reason.
        let told = refused("--gpu t4 -L tensor-parallel-size 1,16");
        assert!(
            told.contains("error: tensor-parallel-size = 1 does not fit: needs ")
                && told.contains(
                    "error: tensor-parallel-size = 16: `--tensor-parallel-size` is larger than a node"
                ),
            "{told}"
        );
        let unknown = SETTINGS.replace("3.1-8B-Instruct", "nonesuch");
        let output = desk.run(&format!("{command} {unknown} --request-rate 2 -L gpu h100,l40s"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.starts_with("error: no shape of the model ") && told.matches("error").count() == 1,
            "{told}"
        );
        let told = refused("-L gpu h100,h100-sxm-80gb");
        assert!(
            told.contains("`gpu` = h100-sxm-80gb is given twice: h100 is H100-SXM-80GB, too"),
            "{told}"
        );
    }
    // Linked they may be told apart by something else.
    desk.expect(
        0,
        &format!("knee {SETTINGS} -L gpu h100,h100-sxm-80gb -L max-num-seqs 16,32 --link --dry-run"),
    );
}

/// What `-o FILE.jsonl` holds is not searched again, what is missing is, and what was kept of other inputs is refused.
#[test]
fn a_search_of_settings_goes_on_from_its_file() {
    let desk = Desk::new();
    let gpus = |gpus: &str| format!("knee {SETTINGS} -L gpu {gpus} -o kept.jsonl --charts pictures");
    desk.expect(0, &gpus("h100,t4"));
    let lines = || std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap();
    let picture = || std::fs::read_to_string(desk.path().join("pictures/knees.svg")).unwrap();
    let (first, drawn) = (lines(), picture());
    assert_eq!(first.lines().count(), 2, "{first}");
    assert!(desk.path().join("pictures/knees.png").is_file());
    assert!(desk.path().join("pictures/knee-cell000.svg").is_file());
    // One more setting, and one line that was being written when the search stopped.
    std::fs::write(
        desk.path().join("kept.jsonl"),
        format!("{first}{{\"cell\":\"gpu=l4"),
    )
    .unwrap();
    let output = desk.run(&gpus("h100,t4,l40s"));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("kept.jsonl already holds 2 settings, not searched again"),
        "{told}"
    );
    assert!(
        told.contains("2 settings read back: in the picture of all"),
        "{told}"
    );
    let all = lines();
    assert!(all.starts_with(&first) && all.lines().count() == 3, "{all}");
    let states: Vec<Value> = all
        .lines()
        .map(|line| json(line)["result"]["state"].clone())
        .collect();
    assert_eq!(states, ["kept", "does_not_fit", "kept"]);
    assert!(picture().contains("l40s") && !drawn.contains("l40s"));
    // As one search of all three would have written and drawn it.
    let drawn = picture();
    std::fs::remove_file(desk.path().join("kept.jsonl")).unwrap();
    desk.expect(0, &gpus("h100,t4,l40s"));
    assert!(lines() == all && picture() == drawn);
    for other in ["--seed 2", "--max-rate 20", "--for-rate 100"] {
        let output = desk.run(&format!("{} {other}", gpus("h100,t4,l40s")));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{other}: {told}");
        assert!(
            told.contains("holds settings of another search, scenario or seed"),
            "{other}: {told}"
        );
        assert_eq!(lines(), all);
    }
}

/// What a search cannot do beside another, and what is too long to be read, is told as any other problem is.
#[test]
fn what_a_search_does_not_take_is_told_with_its_remedy() {
    let desk = Desk::new();
    let refused = |words: &str| {
        let output = desk.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        text(&output.stderr)
    };
    for flag in ["--charts pictures", "--for-rate 9", "-L gpu h100,l40s"] {
        let told = refused(&format!("knee pd-input-length --disaggregated --gpus 4 {flag}"));
        let named = flag.split(' ').next().unwrap();
        assert!(
            told.contains(&format!("--disaggregated takes no {named}: ")) && told.contains("help: "),
            "{told}"
        );
    }
    let told = refused("knee autoscale --for-rate 50");
    assert!(told.contains("leave [cluster.autoscale] out"), "{told}");
    // Nor where the scaler alone says how many there are.
    let shipped = include_str!("../../scenarios/autoscale.toml").replace("\nreplicas = 2\n", "\n");
    std::fs::write(desk.path().join("scaled.toml"), shipped).unwrap();
    let told = refused("knee scaled.toml --for-rate 50");
    assert!(told.contains("an autoscaler starts and stops"), "{told}");
    let told = refused("knee quickstart -L gpu h100,l40s --price 2");
    assert!(
        told.contains("one price for every GPU-hour") && told.contains("--format toml"),
        "{told}"
    );
    // Where a file has the price it is the file that is pointed at.
    let priced =
        include_str!("../../scenarios/quickstart.toml").replace("[cluster]\n", "[cluster]\nprice = 2\n");
    std::fs::write(desk.path().join("priced.toml"), priced).unwrap();
    let told = refused("knee priced.toml -L gpu h100,l40s");
    assert!(
        told.contains("`cluster.price` is one price for every GPU-hour")
            && told.contains("priced.toml:")
            && told.contains("| price = 2")
            && !told.contains("--price"),
        "{told}"
    );
    let told = refused(&format!("fit {} --gpu h100", "x".repeat(20_000)));
    assert!(told.contains("x…` is bundled") && told.len() < 400, "{told}");
}

/// Its first requests come at night, which tells nothing of the knee.
#[test]
fn a_day_curve_has_a_model_interval_and_a_trace_says_that_it_is_sped_up() {
    let desk = Desk::new();
    let day = "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"h100\"\n[engine]\nmax_model_len = 8192\n\
               [workload]\nduration = \"2400 s\"\n[workload.arrivals.profile]\npiece = \"200 s\"\n\
               rates = [1, 1, 1, 2, 4, 6, 8, 8, 6, 4, 2, 1]\n[workload.lengths.fixed]\ninput_len = 512\noutput_len = 64\n\
               [slo.goodput]\nttft = \"500 ms\"\ntpot = \"50 ms\"\n";
    std::fs::write(desk.path().join("day.toml"), day).unwrap();
    let found = json(&desk.expect(0, "knee day.toml --precision 0.2 --format json"));
    let factors = &found["model_interval"]["factors_90"];
    assert!(factors[0].as_f64() < Some(0.97), "{found}");
    let notes = |found: &Value| found["notes"].to_string();
    assert!(
        notes(&found).contains("the same curve gone through in"),
        "{}",
        notes(&found)
    );

    std::fs::write(desk.path().join("bursts.csv"), bursts()).unwrap();
    let sized = format!("knee {MACHINE} --trace bursts.csv --for-rate 12 --precision 0.2 --format json");
    let found = json(&desk.expect(0, &sized));
    assert!(
        notes(&found)
            .contains("at 12.0 req/s the trace's 1,180 s are gone through in 120 s: its hours are shorter"),
        "{}",
        notes(&found)
    );
}

#[test]
fn one_of_a_kind_is_told_as_one() {
    let desk = Desk::new();
    let fits = desk.expect(0, "fit deepseek-ai/DeepSeek-V2-Lite --gpu h100 --why");
    assert!(fits.contains("1 layer × ("), "{fits}");
    let shown = desk.expect(0, "models show ibm-granite/granite-4.0-h-small");
    assert!(shown.contains(" in 1 group, "), "{shown}");
}

#[test]
fn what_one_replica_of_each_kind_would_not_need_is_not_said_of_every_way() {
    let desk = Desk::new();
    let words = "knee pd-together --disaggregated --gpus 2 --router random --min-rate 1 --max-rate 2";
    let told = text(&desk.run(words).stderr);
    assert!(!told.contains("router = random has no effect"), "{told}");
    assert_eq!(told.matches("KV crosses").count(), 1, "{told}");
}

/// The length of the context has a name of its own in each engine, and means the same.
#[test]
fn settings_that_engines_share_are_said_to_each_in_its_own_words() {
    let desk = Desk::new();
    let words = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 512 --output-len 64 --goodput ttft:500 tpot:50 \
                 --max-model-len 8192 --max-num-seqs 32 --request-rate 4 -L engine vllm,sglang,tensorrt-llm";
    let planned = desk.expect(0, &format!("sweep {words} --dry-run"));
    for own in [
        "max_model_len = 8192",
        "context_length = 8192",
        "max_seq_len = 8192",
        "max_num_seqs = 32",
        "max_running_requests = 32",
        "max_batch_size = 32",
    ] {
        assert!(planned.contains(own), "{own} in {planned}");
    }
    let found = desk.expect(
        0,
        &format!("knee {words} --max-rate 5 --precision 0.2 --format csv"),
    );
    assert_eq!(found.matches(",kept,").count(), 3, "{found}");
    // Of one engine another's flag stays an error.
    let one = words.replace("-L engine vllm,sglang,tensorrt-llm", "--engine sglang");
    let output = desk.run(&format!("run {one}"));
    assert!(text(&output.stderr).contains("SGLang calls it --context-length 8192"));
}

/// Ranks in lock-step have a machine as one replica has, and what is pressed on it is named.
#[test]
fn data_parallel_ranks_say_what_limits_them() {
    let desk = Desk::new();
    let vllm = "deepseek-ai/DeepSeek-V2-Lite --gpu h100 -dp 2 --enable-expert-parallel --max-model-len 8192 --input-len 512 \
                --output-len 128 --goodput ttft:500 tpot:50";
    for words in [vllm, "dp-attention"] {
        let run = json(&desk.expect(
            0,
            &format!("run {words} --request-rate 4 --num-prompts 400 --format json"),
        ));
        let used = &run["plimsoll"]["utilisation"];
        for share in ["mfu", "memory_bandwidth", "busy"] {
            let share = used[share].as_f64().unwrap();
            assert!(share > 0.0 && share < 1.0, "{words}: {used}");
        }
        let found = desk.expect(0, &format!("knee {words} --precision 0.3"));
        assert!(unfolded(&found).contains("Hardest pressed is "), "{found}");
    }
}

#[test]
fn splits_of_a_closed_loop_are_refused_before_anything_is_noted() {
    let words = "knee meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 100 --output-len 100 --max-concurrency 16 --goodput ttft:500 \
                 --disaggregated --gpus 4";
    let output = Desk::new().run(words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("error: --disaggregated looks for rates"),
        "{said}"
    );
}
