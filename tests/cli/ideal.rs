//! An ideal server, and one that does not come back from being full.

use serde_json::Value;

use super::{Desk, text};

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
