//! Recorded conversations, led again: from a file, an archive or a folder.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Desk, fixture, text, unfolded};

const MACHINE: &str =
    "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --enable-prefix-caching";

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// The requests of a list, those of subagents in their place.
fn requests_of(list: &Value) -> Vec<&Value> {
    let mut all = Vec::new();
    for one in list.as_array().unwrap() {
        match one["type"] == "subagent" {
            true => all.extend(requests_of(&one["requests"])),
            false => all.push(one),
        }
    }
    all
}

/// The slow way: of each prompt the blocks at its beginning that its conversation had before, in an endless cache of 16-token
/// blocks that computes a prompt's last token anyhow.
fn found_again(lines: &str) -> (u64, u64) {
    let (mut tokens, mut hits) = (0, 0);
    for line in lines.lines() {
        let conversation = json(line);
        let mut seen = BTreeSet::new();
        for request in requests_of(&conversation["requests"]) {
            let input = request["in"].as_u64().unwrap();
            let ids: Vec<u64> = request["hash_ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap())
                .collect();
            let known = ids.iter().take_while(|id| seen.contains(*id)).count() as u64;
            hits += (known * 64).min((input - 1) / 16 * 16);
            tokens += input;
            seen.extend(ids);
        }
    }
    (tokens, hits)
}

#[test]
fn every_turn_is_sent_and_finds_what_its_conversation_said_before() {
    let desk = Desk::new();
    let file = fixture("traces/weka.jsonl");
    let (tokens, hits) = found_again(&std::fs::read_to_string(&file).unwrap());
    assert!(hits > tokens / 2);
    for begin in ["--users 1", "--users 2", "--request-rate 0.02"] {
        let result = json(&desk.expect(0, &format!("{MACHINE} --trace {file} {begin} --format json")));
        let whole = &result["plimsoll"]["whole"];
        assert_eq!(
            (
                &result["completed"],
                &result["total_input_tokens"],
                &whole["cache_hit_tokens"]
            ),
            (&11.into(), &tokens.into(), &hits.into()),
            "{begin}"
        );
    }
}

/// As many under way at a time as there are users: with one the conversations take as long as both by themselves.
#[test]
fn users_lead_one_conversation_after_the_other() {
    let desk = Desk::new();
    let file = fixture("traces/weka.jsonl");
    let lasts = |more: &str| {
        let printed = desk.expect(0, &format!("{MACHINE} --trace {file} {more} --format json"));
        json(&printed)["duration"].as_f64().unwrap()
    };
    // The longest way through the first has 4 + 4.5 + 7.5 + 254 s of thinking, the second 7 + 1.5 + 3 s.
    let (one, two) = (lasts("--users 1"), lasts("--users 2"));
    assert!(one > two + 11.5 && two > 270.0, "{one} {two}");
    let brief = lasts("--users 2 --max-think-time 1s");
    assert!(brief < 30.0, "{brief}");
}

#[test]
fn a_folder_an_archive_and_a_spelt_out_scenario_say_the_same() {
    let desk = Desk::new();
    let file = std::fs::read_to_string(fixture("traces/weka.jsonl")).unwrap();
    std::fs::create_dir(desk.path().join("traces")).unwrap();
    for (number, line) in file.lines().enumerate() {
        std::fs::write(desk.path().join(format!("traces/{number}.json")), line).unwrap();
    }
    std::fs::write(desk.path().join("traces/README"), "not this").unwrap();
    std::fs::write(desk.path().join("all.jsonl"), &file).unwrap();
    let run = |from: &str| {
        json(&desk.expect(
            0,
            &format!("{MACHINE} --trace {from} --users 2 --seed 3 --format json"),
        ))
    };
    let (folder, lines) = (run("traces"), run("all.jsonl"));
    assert_eq!(folder["mean_ttft_ms"], lines["mean_ttft_ms"]);
    assert_eq!(folder["duration"], lines["duration"]);
    let spelt_out = desk.expect(
        0,
        &format!("{MACHINE} --trace all.jsonl --users 2 --seed 3 --dry-run"),
    );
    std::fs::write(desk.path().join("again.toml"), spelt_out).unwrap();
    assert_eq!(
        json(&desk.expect(0, "run again.toml --format json"))["duration"],
        lines["duration"]
    );
    assert!(desk.expect(0, "trace traces").starts_with("11 requests, "));
    assert!(
        desk.expect(0, &format!("trace {}", fixture("traces/weka.tar.gz")))
            .contains("sessions    3, of 4.00 turns")
    );
}

#[test]
fn what_a_trace_of_conversations_needs_and_what_it_cannot_have_is_told() {
    let desk = Desk::new();
    let file = fixture("traces/weka.jsonl");
    let instants = fixture("traces/vidur_trace.csv");
    for (words, told) in [
        (
            format!("{MACHINE} --trace {file}"),
            "does not say when conversations begin",
        ),
        (
            format!("{MACHINE} --trace {file} --users 2 --request-rate 1"),
            "contradicts users",
        ),
        (
            format!("{MACHINE} --trace {file} --users 2 --time-scale 2"),
            "has no meaning for this trace",
        ),
        (
            format!("{MACHINE} --trace {file} --users 2 --think-time 1s"),
            "have think times of their own",
        ),
        (
            format!("{MACHINE} --trace {instants} --users 2"),
            "come at their own instants",
        ),
        (
            format!("{MACHINE} --trace {instants} --max-think-time 1s"),
            "come at their own instants",
        ),
        (format!("trace {file} --fit a.toml"), "turns wait for answers"),
        (
            format!(
                "{} --trace {file} --users 2 --goodput ttft:500",
                MACHINE.replacen("run", "knee", 1)
            ),
            "has no knee",
        ),
    ] {
        let output = desk.run(&words);
        let err = unfolded(&text(&output.stderr));
        assert!(!output.status.success() && err.contains(told), "{words}\n{err}");
    }
    let output = desk.run(&format!("{MACHINE} --trace {file} --request-rate 0.1"));
    let err = unfolded(&text(&output.stderr));
    assert!(
        err.contains("is of conversations, which send 5.5 requests each on average"),
        "{err}"
    );
}
