//! An ideal server, and one that does not come back from being full.

use serde_json::Value;

use super::{Desk, text, unfolded};

fn json(desk: &Desk, words: &str) -> Value {
    serde_json::from_str(&desk.expect(0, &format!("{words} --format json"))).unwrap()
}

/// ρ = 0.8 and a constant service of 100 ms: λ·S²/(2·(1 − ρ)) = 200 ms.
#[test]
fn an_ideal_server_waits_as_the_books_say_and_claims_no_machine() {
    let desk = Desk::new();
    let told = desk.expect(0, "run ideal-queue --num-prompts 60000");
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("by Pollaczek and Khinchine; simulated"), "{told}");
    assert!(words.contains("calibration none (a step lasts 100 ms)"), "{told}");
    for machine in ["trust", "model ±", "MFU", "calibration ="] {
        assert!(!told.contains(machine), "{machine} in {told}");
    }
    let run = json(&desk, "run ideal-queue --num-prompts 60000");
    let wait_ms = run["plimsoll"]["steady"]["mean_queue_time_ms"].as_f64().unwrap();
    assert!((wait_ms / 200.0 - 1.0).abs() < 0.1, "{wait_ms}");
    let shared = json(
        &desk,
        "run ideal-queue --num-prompts 20000 --max-num-seqs 1024 --step-time 1ms/token --output-len 100 --request-rate 5",
    );
    // A shared processor: E[S]/(1 − ρ) = 100 ms / 0.5.
    let stay_ms = shared["mean_e2el_ms"].as_f64().unwrap();
    assert!((stay_ms / 200.0 - 1.0).abs() < 0.1, "{stay_ms}");
}

/// Each queue of the books beside its closed form, which is the simulated figure within a few per cent.
#[test]
fn queues_of_the_books_have_their_closed_forms_beside_them() {
    let desk = Desk::new();
    let near = |told: &Value, seen: &Value, words: &str| {
        let (told, seen) = (told.as_f64().unwrap(), seen.as_f64().unwrap());
        assert!(
            (told / seen - 1.0).abs() < 0.06,
            "{words}: {told} foretold, {seen} simulated"
        );
    };
    for (flags, queue, load, key) in [
        ("", "M/G/1", 0.8, "mean_queue_time_ms"),
        (
            "--max-num-seqs 4 --request-rate 32",
            "M/M/4",
            0.8,
            "mean_queue_time_ms",
        ),
        (
            "--max-num-seqs 1024 --step-time 1ms/token",
            "M/G/1-PS",
            0.8,
            "mean_e2el_ms",
        ),
        (
            "--users 12 --think-time 1s",
            "M/M/1//12",
            0.88,
            "request_throughput",
        ),
        ("--users 12 --think-time 1s", "M/M/1//12", 0.88, "mean_e2el_ms"),
        (
            "--users 12 --think-time 1s --max-num-seqs 3",
            "M/M/3//12",
            0.36,
            "mean_e2el_ms",
        ),
    ] {
        let words = format!("run memoryless-queue --num-prompts 60000 {flags}");
        let run = json(&desk, &words);
        let told = &run["plimsoll"]["closed_form"];
        assert_eq!(told["queue"], queue, "{words}");
        let utilisation = told["utilisation"].as_f64().unwrap();
        assert!((utilisation - load).abs() < 0.03, "{words}: {utilisation}");
        let seen = match run["plimsoll"]["steady"].is_null() {
            true => &run["plimsoll"]["whole"],
            false => &run["plimsoll"]["steady"],
        };
        near(&told[key], &seen[key], &words);
    }
    let printed = desk.expect(
        0,
        "run memoryless-queue --num-prompts 20000 --max-num-seqs 4 --request-rate 32",
    );
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("this is M/M/4: at ρ = "), "{printed}");
    // What is none of them has none beside it: lengths that remember, an engine, steps that do both.
    for words in [
        "run ideal-queue --max-num-seqs 4 --request-rate 32",
        "run memoryless-queue --step-time 1ms+1us/token --max-num-seqs 4",
        "run memoryless-queue --async-scheduling --max-num-seqs 4",
        "run quickstart",
    ] {
        let run = json(&desk, &format!("{words} --num-prompts 2000"));
        assert!(run["plimsoll"]["closed_form"].is_null(), "{words}");
    }
}

/// `sweep` has the closed forms, the mean wait and any percentile as columns.
#[test]
fn a_sweep_shows_the_books_and_any_percentile_where_it_is_asked() {
    let desk = Desk::new();
    let sweep = "sweep memoryless-queue --num-prompts 20000 --no-interval -L request-rate 2,5";
    let told = desk.expect(0, &format!("{sweep} --columns theory"));
    assert!(
        told.contains("queue, closed form") && told.contains("E2EL, closed form"),
        "{told}"
    );
    let told = desk.expect(0, &format!("{sweep} --columns p99.9_ttft_ms,p99.9_e2el,queue"));
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(
        lines[0].contains("TTFT p99.9") && lines[0].contains("E2EL p99.9") && lines[0].contains("queue mean"),
        "{told}"
    );
    assert!(!lines[1].contains('–'), "{told}");
    let csv = desk.expect(0, &format!("{sweep} --format csv"));
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let row: Vec<&str> = csv.lines().nth(2).unwrap().split(',').collect();
    let of = |name: &str| {
        row[head.iter().position(|one| *one == name).unwrap()]
            .parse::<f64>()
            .unwrap()
    };
    let (told, seen) = (
        of("closed_form_mean_queue_time_ms"),
        of("closed_form_simulated_mean_queue_time_ms"),
    );
    assert!((told / seen - 1.0).abs() < 0.1, "{told} {seen}");
    // What is simulated beside the closed form is of the stretch that it is of, and the whole run has its own.
    let run = json(&desk, "run memoryless-queue --num-prompts 20000 --request-rate 5");
    let of_run = |part: &str| run["plimsoll"][part]["mean_queue_time_ms"].as_f64().unwrap();
    assert_eq!(
        (seen, of("mean_queue_time_ms")),
        (of_run("steady"), of_run("whole"))
    );
}

/// Names choose the columns of CSV as they do those of the table, each figure once, and what has no closed form says why.
#[test]
fn the_figures_that_are_asked_for_stand_once_and_without_closed_forms_there_is_a_reason() {
    let desk = Desk::new();
    let sweep = "sweep memoryless-queue --num-prompts 5000 --no-interval -L request-rate 2,5";
    let csv = desk.expect(
        0,
        &format!("{sweep} --columns ttft,p50_queue,running --format csv"),
    );
    assert_eq!(
        csv.lines().next().unwrap(),
        "request-rate,median_ttft_ms,p99_ttft_ms,p50_queue_time_ms,running,shares_of,verdict"
    );
    let all = desk.expect(0, &format!("{sweep} --format csv"));
    let cell = |csv: &str, name: &str| {
        let mut lines = csv.lines();
        let at = lines.next().unwrap().split(',').position(|one| one == name);
        lines
            .next()
            .unwrap()
            .split(',')
            .nth(at.unwrap())
            .unwrap()
            .to_owned()
    };
    assert_eq!(cell(&csv, "p99_ttft_ms"), cell(&all, "p99_ttft_ms"));
    let table = desk.expect(0, &format!("{sweep} --columns theory,queue,p50_queue"));
    let head = table.lines().nth(1).unwrap();
    assert!(
        head.contains("queue, simulated")
            && !head.contains("queue mean")
            && head.matches("queue p50").count() == 1,
        "{table}"
    );
    for (words, why) in [
        (
            "quickstart -L request-rate 2,4",
            "a step lasts the longer the more sequences are in it",
        ),
        (
            "ideal-queue --max-num-seqs 4 -L request-rate 8",
            "answers are not without memory",
        ),
        (
            "memoryless-queue -L request-rate 5,12",
            "no closed form of request-rate = 12: the run does not tell enough",
        ),
    ] {
        let output = desk.run(&format!(
            "sweep {words} --num-prompts 2000 --no-interval --columns theory"
        ));
        let told = unfolded(&text(&output.stderr));
        assert!(told.contains(why), "{words}: {told}");
    }
}

/// A law of lengths without memory says what is wrong with it.
#[test]
fn a_law_of_lengths_without_memory_is_judged() {
    let desk = Desk::new();
    let law = "[workload.lengths.geometric]\ninput_len = 1\noutput_mean = 100";
    let shipped = include_str!("../../scenarios/memoryless-queue.toml");
    let told = |other: &str| {
        let text = shipped.replace(law, other);
        assert_ne!(text, shipped);
        std::fs::write(desk.path().join("law.toml"), text).unwrap();
        text_of(&desk.run("run law.toml --num-prompts 200"))
    };
    for (other, said) in [
        (
            "[workload.lengths.geometric]\noutput_mean = 100",
            "does not say how long prompts are",
        ),
        (
            "[workload.lengths.geometric]\ninput_len = 1\ninput_mean = 2\noutput_mean = 100",
            "stands beside `input_len`",
        ),
        (
            "[workload.lengths.exponential]\ninput_len = 1\noutput_mean = 0.5",
            "must be at least 1",
        ),
        (
            "[workload.lengths.exponential]\ninput_len = 1\noutput_mean = 100\noutput_max = 50",
            "must be at most the longest",
        ),
        (
            "[workload.lengths.geometric]\ninput_len = 1\ninput_max = 9\noutput_mean = 100",
            "stands beside `input_len`",
        ),
        (
            "[workload.lengths.geometric]\ninput_len = 1\noutput_mean = 9000",
            "max_model_len",
        ),
    ] {
        let error = told(other);
        assert!(error.contains(said), "{other}: {error}");
    }
    let fine = told("[workload.lengths.exponential]\ninput_mean = 2\noutput_mean = 100");
    assert!(!fine.contains("error"), "{fine}");
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_law_that_is_none_or_stands_beside_another_is_an_error() {
    let desk = Desk::new();
    for (flags, said) in [
        ("--step-time 6", "is no law of step times"),
        ("--step-time 1ns/pair", "a step takes no time"),
        (
            "--step-time 6ms --calibration h100-sxm-80gb-vllm",
            "--calibration says so, too",
        ),
        ("--step-time 6ms -pp 2", "stages of a pipeline"),
    ] {
        let refused = desk.run(&format!("run ideal-queue {flags}"));
        assert_eq!(refused.status.code(), Some(2), "{flags}");
        assert!(text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_knee_says_where_a_full_server_serves_less_than_it_saturates_at() {
    let desk = Desk::new();
    let words = "knee meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --input-len 512 --output-len 256 --max-model-len 8192 \
                 --request-rate 34 --goodput ttft:500 tpot:50";
    let knee = json(&desk, words);
    let full = knee["when_full"]["served"]["high"].as_f64().unwrap();
    assert!(full < knee["saturation"]["low"].as_f64().unwrap(), "{full}");
    let calm = json(&desk, "knee ideal-queue --goodput ttft:1000");
    assert!(calm["when_full"].is_null(), "{}", calm["when_full"]);
    // The picture has it, too, and where settings are ranked it is a column.
    desk.expect(0, &format!("{words} --charts drawn"));
    let drawn = std::fs::read_to_string(desk.path().join("drawn/knee.svg")).unwrap();
    assert!(drawn.contains("\nonce full 3"), "{drawn}");
    let ranked = desk.expect(0, &format!("{words} -L max-num-seqs 1024"));
    assert!(ranked.contains("  saturates  once full  "), "{ranked}");
}

#[test]
fn an_overloaded_run_says_what_the_server_serves_and_a_short_one_decides_nothing() {
    let desk = Desk::new();
    let over = desk.expect(3, "run quickstart --request-rate 32 --num-prompts 3000");
    assert!(over.contains("  served      "), "{over}");
    let short = desk.expect(0, "run quickstart --request-rate 20 --num-prompts 100");
    assert!(
        short.contains("SLO         NOT DECIDED: 100 % of requests are good"),
        "{short}"
    );
    assert!(!short.contains("SLO         met"), "{short}");
    let drawn = desk.expect(0, "run quickstart --request-rate 5 --num-prompts 2000");
    assert!(
        drawn.contains("a second (5.00 asked: the draw of seed 0)"),
        "{drawn}"
    );
}

/// Who is served in another order waits by another law.
#[test]
fn a_queue_in_another_order_is_held_against_no_law_of_one_that_is_served_as_it_comes() {
    let desk = Desk::new();
    let law = "by Pollaczek and Khinchine";
    let words = "run ideal-queue --num-prompts 20000";
    assert!(
        desk.expect(0, words)
            .replace("\n              ", " ")
            .contains(law)
    );
    let other = desk.expect(0, &format!("{words} --scheduling-policy priority"));
    assert!(!other.contains("Pollaczek"), "{other}");
}

#[test]
fn settings_of_an_ideal_server_are_told_apart_without_any_doubt_of_a_machine() {
    let desk = Desk::new();
    let told = desk.expect(0, "knee ideal-queue --goodput ttft:1000 -L step-time 50ms,100ms");
    assert!(!told.contains("not known of"), "{told}");
    let one = desk.expect(0, "knee ideal-queue --goodput ttft:1000");
    assert!(
        one.contains("model ±     none: how long a step lasts was said"),
        "{one}"
    );
    let fits = desk.run("fit ideal-queue");
    assert!(text(&fits.stdout).contains("the ceilings here are the GPU's"));
}
