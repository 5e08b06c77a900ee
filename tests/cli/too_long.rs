//! Prompts that do not fit the context: an error that counts them, or refused by the server one by one where that is asked for.

use crate::{Desk, text};

/// Four requests of which the third does not fit 8192 tokens.
fn desk() -> Desk {
    let desk = Desk::new();
    let rows = [("03.0", 500), ("03.5", 400), ("04.0", 20_000), ("04.5", 300)];
    let rows = rows.map(|(second, input)| format!("2023-11-16 18:17:{second},{input},8\n"));
    let trace = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{}", rows.concat());
    std::fs::write(desk.path().join("t.csv"), trace).unwrap();
    desk
}

const SERVER: &str = "meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB";

#[test]
fn a_prompt_that_is_too_long_is_counted_and_placed() {
    let output = desk().run(&format!("run {SERVER} --max-model-len 8192 --trace t.csv"));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in [
        "1 of 4 requests, 25 %, is too long: request 3 in order of arrival",
        "--refuse-too-long",
        "refuse that one",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
}

#[test]
fn every_engine_refuses_it_where_that_is_asked_for_and_serves_the_rest() {
    let desk = desk();
    for server in [
        "--max-model-len 8192",
        "--engine vllm@0.6 --max-model-len 8192",
        "--engine sglang --context-length 8192",
        "--engine tensorrt-llm --max-seq-len 8192",
        "--engine static --max-model-len 8192",
        "--engine hf-cb --max-model-len 8192",
    ] {
        let line = format!("run {SERVER} {server} --trace t.csv --refuse-too-long");
        let json: serde_json::Value =
            serde_json::from_str(&desk.expect(0, &format!("{line} --format json"))).unwrap();
        assert_eq!(json["completed"], 3, "{server}: {json}");
        assert_eq!(
            json["plimsoll"]["requests_by_fate"]["prompt_too_long"], 1,
            "{server}: {json}"
        );
        let notes = json["plimsoll"]["notes"].as_array().unwrap();
        assert!(
            notes
                .iter()
                .any(|note| note.as_str().unwrap().contains("): 1 of 4 requests, 25 %")),
            "{server}: {notes:?}"
        );
        let are_cut = notes
            .iter()
            .any(|note| note.as_str().unwrap().contains("answers are cut"));
        assert!(!are_cut, "{server}: those that are served fit whole: {notes:?}");
        let printed = desk.expect(0, &line);
        assert!(
            printed.contains("4 sent · 3 completed · 1 refused"),
            "{server}: {printed}"
        );
        assert!(!printed.contains("starved"), "{server}: {printed}");
    }
    let spelt = desk.expect(
        0,
        &format!("run {SERVER} --max-model-len 8192 --trace t.csv --refuse-too-long --dry-run"),
    );
    assert!(spelt.contains("refuse_too_long = true"), "{spelt}");
    std::fs::write(desk.path().join("spelt.toml"), spelt).unwrap();
    desk.expect(0, "run spelt.toml");
}

/// Prompts of 7,808 to 8,192 tokens: one in 385 is too long.
#[test]
fn a_tail_is_refused_in_searches_and_sweeps_and_no_law_is_refused_whole() {
    let desk = Desk::new();
    let tail =
        format!("{SERVER} --max-model-len 8192 --input-len 8000 --random-range-ratio 0.024 --output-len 16");
    let output = desk.run(&format!("run {tail} --request-rate 1"));
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("refuse about 0.26 % of the requests"), "{told}");
    let knee = desk.run(&format!("knee {tail} --goodput ttft:5000 --refuse-too-long"));
    assert_eq!(knee.status.code(), Some(0), "{}", text(&knee.stderr));
    assert!(
        text(&knee.stdout).contains("about 0.26 % of the requests"),
        "{}",
        text(&knee.stdout)
    );
    desk.expect(
        0,
        &format!("sweep {tail} -L request-rate 1,2 --num-prompts 100 --refuse-too-long"),
    );
    let whole =
        format!("run {SERVER} --max-model-len 8192 --input-len 9000 --output-len 16 --request-rate 1");
    desk.expect(2, &format!("{whole} --refuse-too-long"));
}

/// A prompt is too long at any load: no rate is too high because of it, and the context that serves all is the one to buy.
#[test]
fn what_is_too_long_saturates_nothing_and_makes_nothing_cheaper() {
    let desk = Desk::new();
    // Prompts of 7,000 to 9,000 tokens.
    let server =
        "--input-len 8000 --random-range-ratio 0.125 --output-len 16 --goodput ttft:5000 --refuse-too-long";
    let knee = text(
        &desk
            .run(&format!("knee {SERVER} --max-model-len 8192 {server}"))
            .stdout,
    );
    assert!(knee.starts_with("NO RATE meets the SLO"), "{knee}");
    assert!(knee.contains("with prompts longer than"), "{knee}");
    assert!(
        !knee.contains("LOSES") && !knee.contains("saturates below"),
        "{knee}"
    );
    // The same two in five at every rate: what the load makes of the others limits it.
    let half = desk.expect(
        0,
        &format!("knee {SERVER} --max-model-len 8192 {server} --attainment 0.5"),
    );
    assert!(half.contains("limited by  TTFT"), "{half}");
    let settings = desk.expect(
        0,
        &format!("knee {SERVER} -L max-model-len 8192,16384 {server} --attainment 0.5"),
    );
    assert!(
        settings.starts_with("cheapest within the SLO: max-model-len = 16384"),
        "{settings}"
    );
    assert!(settings.contains("refused as too long"), "{settings}");
}

#[test]
fn a_door_that_is_narrower_than_the_context_is_told() {
    let output = Desk::new().run(&format!(
        "run {SERVER} --engine sglang --context-length 8192 --input-len 8190 --output-len 1 --request-rate 1"
    ));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("with context_length = 8192 the server takes at most 8185"),
        "{told}"
    );
    assert!(told.contains("write context_length = 8197 or more"), "{told}");
}
