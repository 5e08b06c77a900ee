//! The knee of a closed loop: the most in flight, of one setting and of several beside each other.

use serde_json::Value;

use super::{Desk, text, unfolded};

const MACHINE: &str = "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --goodput ttft:500 tpot:50";
/// Each of N in the loop has an answer every N × 100 ms, and eleven are too many.
const OF_BOOKS: &str = "ideal-queue --request-rate inf --max-concurrency 3 --goodput e2el:1050";

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// A server of the books that takes 100 ms for each has an answer for each of N in a loop every N × 100 ms.
#[test]
fn a_closed_loop_has_the_most_in_flight_for_its_knee() {
    let desk = Desk::new();
    let traffic = OF_BOOKS;
    let found = json(&desk.expect(0, &format!("knee {traffic} --format json")));
    let answer = &found["in_flight"];
    assert_eq!(
        (&answer["within_slo"], &answer["low"], &answer["high"]),
        (&10.into(), &10.into(), &10.into()),
        "{answer}"
    );
    let served = answer["request_throughput"].as_f64().unwrap();
    assert!((served - 10.0).abs() < 1e-9, "{served}");
    let printed = desk.expect(0, &format!("knee {traffic}"));
    assert!(
        printed.starts_with("10 in flight within SLO  (95 % [10, 10])   10.0 req/s"),
        "{printed}"
    );
    assert!(unfolded(&printed).contains("with 11 in flight"), "{printed}");
    let strict = desk.expect(
        3,
        "knee ideal-queue --request-rate inf --max-concurrency 3 --goodput e2el:99",
    );
    assert!(
        strict.starts_with("NOT EVEN ONE request in flight meets the SLO"),
        "{strict}"
    );
    let loose = desk.expect(
        0,
        "knee ideal-queue --request-rate inf --max-concurrency 3 --goodput tpot:50",
    );
    assert!(
        loose.contains("within SLO  and no SLO is missed with more"),
        "{loose}"
    );
}

/// A machine's answer is a run that keeps the SLO, and one more is a run that does not.
#[test]
fn one_more_in_flight_than_the_knee_misses_the_slo() {
    let desk = Desk::new();
    let traffic = format!(
        "{MACHINE} --gpu h100 --request-rate inf --input-len 512 --output-len 64 --random-range-ratio 0.5"
    );
    let found = json(&desk.expect(0, &format!("knee {traffic} --max-concurrency 16 --format json")));
    let most = found["in_flight"]["within_slo"].as_u64().unwrap();
    let tried = found["in_flight"]["tried"].as_array().unwrap();
    let kept = |number: u64| {
        tried
            .iter()
            .find(|run| run["in_flight"] == number)
            .map(|run| run["kept"].clone())
    };
    assert_eq!(
        (kept(most), kept(most + 1)),
        (Some(true.into()), Some(false.into())),
        "{found}"
    );
    let (low, high) = found["model_interval"]["factors_90"]
        .as_array()
        .map_or((1.0, 1.0), |ends| {
            (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap())
        });
    assert!(low < 1.0 && high > 1.0, "{}", found["model_interval"]);
    let run = |number: u64| {
        let words = format!(
            "run {traffic} --max-concurrency {number} --num-prompts {}",
            40 * number
        );
        desk.run(&words).status.code()
    };
    assert_eq!(
        (run(most - most / 4), run(most + most / 4)),
        (Some(0), Some(3)),
        "{most}"
    );
}

/// Each of several servers of the books has a loop of its own length.
#[test]
fn settings_of_a_closed_loop_stand_beside_each_other() {
    let desk = Desk::new();
    let words = format!("knee {OF_BOOKS} -L replicas 1,2,3");
    let printed = desk.expect(0, &words);
    assert!(
        printed.starts_with("most in flight within the SLO: replicas = 3, 30\n"),
        "{printed}"
    );
    let settings = json(&desk.expect(0, &format!("{words} --format json")));
    let knees = settings.as_array().unwrap().iter().map(|setting| {
        assert_eq!(setting["knee_of"], "requests");
        assert!(setting["points"][0]["in_flight"] == 1, "{setting}");
        setting["knee"]["value"].as_f64().unwrap()
    });
    assert_eq!(knees.collect::<Vec<f64>>(), [10.0, 20.0, 30.0]);
    let csv = desk.expect(0, &format!("{words} --format csv"));
    assert!(
        csv.lines().nth(1).unwrap().starts_with("1,requests,10,10,10,"),
        "{csv}"
    );
}

/// By what a million tokens cost, or a user an hour; what is in the file is not searched again.
#[test]
fn settings_of_a_closed_loop_are_ranked_by_cost_and_kept() {
    let desk = Desk::new();
    let traffic =
        format!("{MACHINE} --input-len 512 --output-len 64 --random-range-ratio 0.5 --precision 0.1");
    let cost = |setting: &Value, key: &str| setting["result"]["cost"][key].as_f64().unwrap();
    let words = format!("knee {traffic} --users 8 --think-time 10s -o users.jsonl -L gpu");
    desk.expect(0, &format!("{words} h100"));
    let again = desk.run(&format!("{words} h100,l40s"));
    assert!(text(&again.stderr).contains("already holds 1 setting, not searched again"));
    let kept = std::fs::read_to_string(desk.path().join("users.jsonl")).unwrap();
    let kept: Vec<Value> = kept.lines().map(json).collect();
    assert_eq!(kept.len(), 2);
    for setting in &kept {
        let users = setting["result"]["knee"]["value"].as_f64().unwrap();
        assert_eq!(setting["result"]["knee_of"], "users");
        let each = cost(setting, "usd_per_hour") / users;
        assert!((cost(setting, "usd_per_user_hour") / each - 1.0).abs() < 1e-12);
        assert_eq!(setting["result"]["cost"]["ranked_by"], "usd_per_user_hour");
        // So many users send as often as they think and wait.
        let served = cost(setting, "request_throughput_at_knee");
        assert!(served < users / 10.0 && served > users / 20.0, "{setting}");
    }
    let best = kept
        .iter()
        .find(|setting| setting["result"]["standing"] == "best")
        .unwrap();
    for setting in &kept {
        assert!(cost(setting, "usd_per_user_hour") >= cost(best, "usd_per_user_hour"));
    }
    let loops = format!("knee {traffic} --request-rate inf --max-concurrency 8 -L gpu h100,l40s");
    let printed = desk.expect(0, &loops);
    let first = printed.lines().next().unwrap();
    assert!(
        first.starts_with("cheapest within the SLO: gpu = ")
            && first.contains(" $/M output tokens (")
            && first.contains(" in flight on 1 GPU, "),
        "{printed}"
    );
}

#[test]
fn what_a_closed_loop_is_not_asked_is_refused_once_with_what_to_ask() {
    let desk = Desk::new();
    let refused = |words: &str| {
        let output = desk.run(&format!("knee {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}");
        let told = text(&output.stderr);
        assert_eq!(told.matches("error: ").count(), 1, "{words}: {told}");
        told
    };
    let swept = "knee looks for how many a closed loop may have in flight, and an axis sets it";
    for words in [
        "quickstart --request-rate inf -L max-concurrency 8,16",
        "quickstart --request-rate inf --max-concurrency 8 -L max-concurrency 8,16",
        "quickstart --users 8 --think-time 5s -L users 8,16",
        "quickstart --think-time 5s -L users 8,16",
    ] {
        let told = refused(words);
        assert!(
            told.contains(swept) && told.contains("`plimsoll sweep`"),
            "{told}"
        );
    }
    let told = refused("quickstart --users 8 --think-time 5s --for-rate 10");
    assert!(
        told.contains("a closed loop has none") && unfolded(&told).contains("the most users of one server"),
        "{told}"
    );
    let told = refused(&format!("{OF_BOOKS} --min-rate 2"));
    assert!(
        told.contains("--min-rate has no effect on a closed loop"),
        "{told}"
    );
}

/// The same axis for numbers in flight as for rates, with the SLO and the knee on it; and the list under the table.
#[test]
fn a_closed_loop_is_drawn_and_told_in_markdown() {
    let desk = Desk::new();
    let page = desk.expect(0, &format!("knee {OF_BOOKS} --charts pictures --format md"));
    assert!(
        page.contains("\n* SLO: 99.0 % of requests with E2EL ≤ 1.05 s\n"),
        "{page}"
    );
    assert!(page.contains("\n* limited by: E2EL p99"), "{page}");
    let drawn = std::fs::read_to_string(desk.path().join("pictures/knee.svg")).unwrap();
    for words in [
        "10 in flight within the SLO",
        "knee 10 in flight",
        "requests in flight",
    ] {
        assert!(drawn.contains(words), "{words}");
    }
    assert!(!drawn.contains("offered"), "a loop has no diagonal");
    let open = desk.expect(
        0,
        "knee ideal-queue --goodput e2el:1050 --precision 0.3 --format md",
    );
    assert!(
        open.contains("\n* SLO: 99.0 % of requests with E2EL ≤ 1.05 s\n"),
        "{open}"
    );
}
