//! `explain`: times taken apart, and changes tried alone.

use serde_json::Value;

use super::{Desk, text, unfolded};

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A group of a list by its name.
fn group<'a>(of: &'a Value, name: &str) -> &'a Value {
    let groups = of.as_array().unwrap();
    groups.iter().find(|group| group["group"] == name).unwrap()
}

/// The sum of a group's parts.
fn sum(group: &Value) -> f64 {
    group["parts_ms"].as_object().unwrap().values().map(number).sum()
}

#[test]
fn the_parts_add_up_to_what_the_run_says() {
    let desk = Desk::new();
    let line = "quickstart --request-rate 9 --num-prompts 3000 --format json --quiet";
    let explained = json(&desk.expect(0, &format!("explain {line} --no-knee --what-if none")));
    let run = json(&desk.expect(0, &format!("run {line} --why")));
    let (own, of_run) = (&explained["anatomy"], &run["plimsoll"]["anatomy"]);
    assert_eq!(own, of_run, "run --why tells the same");
    for (latency, key) in [("ttft", "mean_ttft_ms"), ("tpot", "mean_tpot_ms")] {
        for group in own[latency].as_array().unwrap() {
            let (mean, sum) = (number(&group[key]), sum(group));
            assert!((mean - sum).abs() < 1e-9 * mean, "{group}");
        }
        let all = number(&group(&own[latency], "all")[key]);
        let steady = number(&run["plimsoll"]["steady"][key]);
        // Whoever leaves in the very instants at its ends may be counted on either side.
        assert!(
            (all - steady).abs() < 1e-3 * steady,
            "{latency}: {all} vs {steady}"
        );
    }
    let around = number(&group(&own["ttft"], "p99")["mean_ttft_ms"]);
    let p99 = number(&explained["as_it_is"]["p99_ttft_ms"]);
    assert!((around / p99 - 1.0).abs() < 0.1, "{around} vs {p99}");
    assert!(run["plimsoll"]["waits"].is_object());
    let without = json(&desk.expect(0, &format!("run {line}")));
    assert!(without["plimsoll"].get("anatomy").is_none());
    let mut same = run.clone();
    for key in ["anatomy", "waits"] {
        same["plimsoll"].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(same, without, "who looks on changes nothing");
}

#[test]
fn light_load_is_the_front_end_and_the_own_prompt() {
    let desk = Desk::new();
    let line =
        "explain quickstart --request-rate 0.02 --num-prompts 1000 --no-knee --what-if none --format json";
    let explained = json(&desk.expect(0, line));
    let all = group(&explained["anatomy"]["ttft"], "all");
    let part = |name: &str| number(&all["parts_ms"][name]);
    let expected = part("front_end_in") + part("own_prefill") + part("front_end_out");
    assert!(number(&all["mean_ttft_ms"]) - expected < 0.02 * expected, "{all}");
    // Eight seats are what a crowd waits for.
    let line = "explain quickstart --max-num-seqs 8 --request-rate 3 --num-prompts 3000 --no-knee --what-if none --format json";
    // They miss the SLO, which the exit code says as that of `run` does.
    let explained = json(&desk.expect(3, line));
    let slow = group(&explained["anatomy"]["ttft"], "slowest_1_percent");
    assert!(
        number(&slow["parts_ms"]["seats"]) > 0.8 * number(&slow["mean_ttft_ms"]),
        "{slow}"
    );
}

#[test]
fn changes_are_tried_alone_and_their_knees_stand_beside() {
    let desk = Desk::new();
    let line = "explain quickstart --request-rate 12 --num-prompts 2000 --precision 0.2 --what-if \"two: --replicas 2\" --what-if \"--max-num-seqs 8\"";
    let printed = desk.expect(0, &format!("{line} --charts pictures"));
    let first = printed.lines().next().unwrap();
    assert!(
        first.starts_with("p99 TTFT ") && first.contains("; headroom +"),
        "{first}"
    );
    assert!(
        first.contains("; most help: two (knee ") && first.contains(", 2 GPUs for 1)"),
        "{first}"
    );
    assert!(
        printed.contains("where the time per output token goes") && !printed.contains("fp8 weights"),
        "{printed}"
    );
    for name in ["anatomy.svg", "anatomy.png"] {
        assert!(desk.path().join("pictures").join(name).exists(), "{name}");
    }
    let told = json(&desk.expect(0, &format!("{line} --format json")));
    let base = number(&told["as_it_is"]["knee"]["value"]);
    let [two, eight] = [0, 1].map(|at| &told["what_ifs"][at]);
    assert!(number(&two["knee"]["value"]) > 1.5 * base, "{two}");
    assert!(
        number(&two["knee_change_beyond_chance"]) > 0.5 && two["gpus"] == 2 && two["kind"] == "own",
        "{two}"
    );
    assert_eq!(eight["verdict"], "unstable");
    assert!(
        eight["p99_ttft_ms"].is_null() && number(&eight["knee"]["value"]) < base,
        "{eight}"
    );
    assert_eq!(told["load_value"], 12.0);
}

#[test]
fn what_is_refused_is_left_out_and_what_is_asked_wrongly_is_an_error() {
    let desk = Desk::new();
    let printed = unfolded(&desk.expect(0, "explain chunked-prefill --num-prompts 1500 --no-knee"));
    assert!(
        printed.contains("chunked prefill off: `max_num_batched_tokens` must hold the longest prompt"),
        "{printed}"
    );
    assert!(
        printed.contains("prefix caching off: no prompts of this traffic begin alike"),
        "{printed}"
    );
    for (flags, why) in [
        ("--what-if \"--max-num-seq 8\"", "in the change `--max-num-seq 8`"),
        ("--what-if \"--gpu nothing\"", "the change `--gpu nothing`"),
        ("--what-if \"name:\"", "`--what-if` without flags changes nothing"),
        (
            "--what-if \"-tp 2\" --what-if \"-tp 2\"",
            "the change `-tp 2` is given twice",
        ),
    ] {
        let output = desk.run(&format!("explain quickstart --num-prompts 100 {flags}"));
        let error = unfolded(&text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{flags}: {error}");
        assert!(error.contains(why), "{flags}: {error}");
    }
}

#[test]
fn past_saturation_nothing_is_quoted_and_loops_have_their_own_knee() {
    let desk = Desk::new();
    let printed = desk.expect(
        4,
        "explain quickstart --request-rate 60 --no-knee --what-if \"--replicas 4\"",
    );
    assert!(
        printed.starts_with("PAST SATURATION: 60.0 req/s is more than is served"),
        "{printed}"
    );
    assert!(
        !printed.contains("where the time to first token goes"),
        "{printed}"
    );
    let row = printed
        .lines()
        .find(|line| line.trim_start().starts_with("--replicas 4"))
        .unwrap();
    assert!(row.contains(" ms *") && row.contains("  4  "), "{printed}");
    let first = printed.lines().next().unwrap();
    assert!(
        first.contains("; most help: --replicas 4 (stable, p99 TTFT "),
        "{first}"
    );
    let closed = desk.expect(
        0,
        "explain quickstart --request-rate inf --max-concurrency 16 --num-prompts 1500 --precision 0.2 --what-if \"--kv-cache-dtype fp8\"",
    );
    assert!(
        closed.contains("knee in flight") && closed.contains("16 in flight"),
        "{closed}"
    );
    let no_slo = desk.expect(
        0,
        "explain meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 4 --input-len 500 --output-len 50 --num-prompts 1500 --what-if \"-tp 2\"",
    );
    assert!(no_slo.contains("no knees    there is no SLO to meet"), "{no_slo}");
}

#[test]
fn whoever_loses_its_blocks_waits_for_them() {
    let desk = Desk::new();
    let line = "explain quickstart --num-gpu-blocks-override 1100 --max-model-len 16384 --request-rate 4 --num-prompts 2000 --no-knee --what-if none --format json";
    let output = desk.run(line);
    let explained = json(&text(&output.stdout));
    let slow = group(&explained["anatomy"]["ttft"], "slowest_10_percent");
    let kv = number(&slow["parts_ms"]["kv_pool"]);
    assert!(kv > 0.5 * number(&slow["queue_ms"]), "{slow}");
    let tokens = group(&explained["anatomy"]["tpot"], "slowest_1_percent");
    assert!(number(&tokens["parts_ms"]["preempted"]) > 0.0, "{tokens}");
}

#[test]
fn a_client_that_is_the_limit_is_told_as_one() {
    let desk = Desk::new();
    let line = "explain quickstart --max-concurrency 4 --request-rate 20 --num-prompts 2000 --no-knee --what-if none";
    let printed = text(&desk.run(line).stdout);
    assert!(
        printed.starts_with("THE CLIENT IS THE LIMIT: 4 in flight ") && printed.contains("≤ 4 in flight"),
        "{printed}"
    );
    assert!(!printed.contains("PAST SATURATION"), "{printed}");
}

#[test]
fn requests_without_an_answer_stand_before_any_latency() {
    let desk = Desk::new();
    let line = "explain quickstart --request-rate 12 --num-prompts 2000 --no-knee";
    let refused = desk.run(&format!("{line} --max-num-queued-reqs 1 --what-if \"-tp 2\""));
    let (printed, run) = (
        text(&refused.stdout),
        desk.run("run quickstart --request-rate 12 --num-prompts 2000 --max-num-queued-reqs 1"),
    );
    assert_eq!(refused.status.code(), run.status.code(), "{printed}");
    let lost = |printed: &str| {
        printed
            .split_once("those served: ")
            .map(|(lost, _)| lost.to_owned())
    };
    assert!(lost(&printed).is_some(), "{printed}");
    assert_eq!(lost(&printed), lost(&text(&run.stdout)), "as `run` says it");
    assert!(printed.contains("no answer"), "{printed}");
    let nobody = desk.expect(
        1,
        "explain quickstart --request-rate 30 --num-prompts 500 --no-knee --what-if none --timeout 10ms",
    );
    assert!(nobody.starts_with("NO ANSWERS at 30.0 req/s"), "{nobody}");
}

#[test]
fn the_exit_code_is_that_of_a_run_and_places_are_checked_first() {
    let desk = Desk::new();
    let missed = desk.expect(
        3,
        "explain quickstart --request-rate 12 --num-prompts 2000 --no-knee --what-if none --goodput ttft:60",
    );
    assert!(missed.contains("; SLO MISSED at this load; "), "{missed}");
    std::fs::write(desk.path().join("taken"), "a file, and no folder").unwrap();
    let output = desk.run("explain quickstart --num-prompts 100000000 --charts taken/in");
    assert_ne!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_tried_is_a_row_beside_what_can() {
    let desk = Desk::new();
    let line = "explain quickstart --num-prompts 1500 --no-knee --what-if \"--max-num-seqs 64\"";
    let printed = unfolded(&desk.expect(0, &format!("{line} --what-if \"--max-model-len 99999999\"")));
    assert!(
        printed.contains("left out --max-model-len 99999999: `--max-model-len` is longer")
            && printed.contains("--max-num-seqs 64 "),
        "{printed}"
    );
    let error = text(&desk.run("explain quickstart --what-if \"a: --gpu\"").stderr);
    assert!(
        error.contains("the change `") && !error.contains("variant"),
        "{error}"
    );
}

#[test]
fn seats_are_asked_where_they_bind_at_the_knee_and_a_pool_of_blocks_by_its_number() {
    let desk = Desk::new();
    let told = json(&desk.expect(
        0,
        "explain quickstart --precision 0.2 --num-prompts 2000 --request-rate 1 --max-num-seqs 16 --format json",
    ));
    assert!(
        told["at_the_knee"]
            .as_str()
            .unwrap()
            .contains("Hardest pressed is max_num_seqs")
    );
    let asked = told["what_ifs"].as_array().unwrap();
    assert!(
        asked.iter().any(|one| one["name"] == "max-num-seqs 16 → 32"),
        "{told}"
    );
    let pool = "explain quickstart --num-gpu-blocks-override 1100 --max-model-len 16384 --request-rate 4 --num-prompts 2000 --no-knee --format json";
    let told = json(&text(&desk.run(pool).stdout));
    let asked = told["what_ifs"].as_array().unwrap();
    let names: Vec<&str> = asked.iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(
        names.contains(&"num-gpu-blocks-override 1,100 → 2,200"),
        "{names:?}"
    );
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("gpu-memory-utilization")),
        "{names:?}"
    );
}
