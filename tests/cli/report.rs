//! `report`: one file that holds what the commands say, and nothing from elsewhere.

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Desk, text};

/// What stands between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after}")).0
}

/// The answers in a report.
fn kept(html: &str) -> Value {
    let letters = between(html, "id=\"kept\">", "</script>");
    let packed = BASE64_STANDARD.decode(letters).unwrap();
    let mut unpacked = String::new();
    let mut gzip = flate2::read::GzDecoder::new(packed.as_slice());
    gzip.read_to_string(&mut unpacked).unwrap();
    serde_json::from_str(&unpacked).unwrap()
}

fn report(desk: &Desk, code: i32, words: &str) -> (String, Value) {
    desk.expect(code, &format!("report {words} -o report.html"));
    let html = std::fs::read_to_string(desk.path().join("report.html")).unwrap();
    let answers = kept(&html);
    (html, answers)
}

/// What the command that an answer names prints; it ends as the answer says.
fn printed(desk: &Desk, answer: &Value) -> Value {
    let command = answer["command"].as_str().unwrap();
    let words = command.strip_prefix("plimsoll ").unwrap();
    let code = answer["exit"].as_u64().unwrap() as i32;
    serde_json::from_str(&desk.expect(code, &format!("{words} --format json"))).unwrap()
}

#[test]
fn a_report_holds_what_the_commands_that_it_names_print() {
    let desk = Desk::new();
    let words = "quickstart --request-rate 9 --precision 0.2 --title 'Long & short'";
    let (html, kept) = report(&desk, 0, words);
    assert!(html.contains("<title>Long &amp; short</title>"));
    assert_eq!(kept["title"], "Long & short");
    assert_eq!(kept["made"], "2026-01-01 00:00 UTC");
    assert_eq!(
        kept["start"]["base"],
        "quickstart --request-rate 9 --precision 0.2"
    );
    assert_eq!(
        (&kept["axes"], kept["runs"].as_array().unwrap().len()),
        (&json!([]), 1)
    );
    let run = &kept["runs"][0]["answer"];
    assert!(run["result"] == printed(&desk, run), "another run");
    assert!(run["film"]["requests"]["arrival"].as_array().unwrap().len() > 100);
    let knee = &kept["knees"][0]["answer"];
    // The command says, too, what of its words has no effect on a knee.
    let mut told = printed(&desk, knee);
    assert_eq!(told["ignored"].as_array().unwrap().len(), 1);
    told["ignored"] = json!([]);
    assert!(knee["knee"] == told, "another search");
    let explained = &kept["explained"];
    assert!(
        explained["explained"] == printed(&desk, explained),
        "explained otherwise"
    );
    assert!(explained["explained"]["anatomy"] == run["anatomy"], "other parts");
}

#[test]
fn a_report_needs_nothing_from_elsewhere_and_has_the_same_bytes_again() {
    let desk = Desk::new();
    let words = "prefix-warm --num-prompts 500 --no-knee --no-what-if --no-film";
    let (html, kept) = report(&desk, 0, words);
    assert_eq!((&kept["knees"], &kept["explained"]), (&json!([]), &Value::Null));
    let run = &kept["runs"][0]["answer"];
    assert!(
        run["film"].is_null()
            && run["anatomy"]["ttft"]
                .as_array()
                .is_some_and(|groups| !groups.is_empty())
    );
    let (again, _) = report(&desk, 0, words);
    assert!(html == again, "the same input, other bytes");
    assert!(html.contains("default-src 'none'"));
    let imports: Value = serde_json::from_str(between(&html, "type=\"importmap\">", "</script>")).unwrap();
    let imports = imports["imports"].as_object().unwrap();
    for (name, address) in imports {
        let code = address
            .as_str()
            .unwrap()
            .strip_prefix("data:text/javascript;base64,")
            .unwrap();
        let code = String::from_utf8(BASE64_STANDARD.decode(code).unwrap()).unwrap();
        assert!(!code.contains("from \"./"), "{name} imports a file");
        for line in code.lines().filter(|line| line.starts_with("import ")) {
            let imported = line.rsplit('"').nth(1).unwrap();
            assert!(imports.contains_key(imported), "{name}: {line}");
        }
    }
    // Nothing that a browser would fetch.
    for attribute in [" src=\"", " href=\""] {
        for link in html.split(attribute).skip(1) {
            let address = link.split('"').next().unwrap();
            assert!(
                address.starts_with('#') || address.starts_with("data:"),
                "{address}"
            );
        }
    }
}

#[test]
fn what_can_be_turned_was_simulated_in_all_combinations() {
    let desk = Desk::new();
    let words = "quickstart --num-prompts 800 --precision 0.3 --no-film -L request-rate 6,9 -L max_num_seqs 8,1024,9999999999";
    let (_, kept) = report(&desk, 0, words);
    let names: Vec<_> = (kept["axes"].as_array().unwrap().iter())
        .map(|axis| {
            (
                axis["flag"].as_str().unwrap(),
                axis["name"].as_str().unwrap(),
                axis["value"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("request-rate", "Request rate", "6"),
            ("max-num-seqs", "Most running sequences", "1024")
        ]
    );
    let runs = kept["runs"].as_array().unwrap();
    assert_eq!((runs.len(), kept["knees"].as_array().unwrap().len()), (6, 3));
    for run in runs {
        let flags = &run["flags"];
        if flags["max-num-seqs"] == "9999999999" {
            assert!(run["problem"]["problems"][0]["message"].is_string(), "{flags}");
            continue;
        }
        let answer = &run["answer"];
        assert!(answer["result"] == printed(&desk, answer), "{flags}");
        let rate: f64 = flags["request-rate"].as_str().unwrap().parse().unwrap();
        assert_eq!(answer["result"]["request_rate"], rate);
    }
    let knees: Vec<&Value> = kept["knees"]
        .as_array()
        .unwrap()
        .iter()
        .map(|knee| &knee["answer"]["knee"]["knee"]["value"])
        .collect();
    assert!(
        knees[0].as_f64().unwrap() < knees[1].as_f64().unwrap(),
        "{knees:?}"
    );
}

#[test]
fn a_rate_may_be_given_by_an_axis_alone() {
    let desk = Desk::new();
    let words = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 256 --output-len 64 --num-prompts 300 --no-film \
                 -L request-rate 2,4";
    let (_, kept) = report(&desk, 0, words);
    assert_eq!(kept["axes"][0]["value"], "2");
    assert_eq!(kept["runs"].as_array().unwrap().len(), 2);
    let knees = kept["knees"].as_array().unwrap();
    assert_eq!((knees.len(), &knees[0]["flags"]), (1, &json!({})));
    let problem = &knees[0]["problem"]["problems"][0]["message"];
    assert!(problem.as_str().unwrap().contains("no SLO is given"), "{problem}");
}

#[test]
fn a_page_begins_with_a_combination_that_is_possible_and_says_why_others_are_not() {
    let desk = Desk::new();
    let words = "meta-llama/Llama-3.1-70B-Instruct --gpu h100 --max-model-len 4096 --request-rate 1 --input-len 256 --output-len 64 \
                 --num-prompts 200 --no-knee --no_film -L tp 1,4";
    let (_, kept) = report(&desk, 0, words);
    let axis = &kept["axes"][0];
    assert_eq!(
        (&axis["flag"], &axis["value"]),
        (&json!("tensor-parallel-size"), &json!("4"))
    );
    let why = &kept["runs"][0]["problem"]["problems"][0]["message"];
    assert!(why.as_str().unwrap().starts_with("does not fit"), "{why}");
    let run = &kept["runs"][1]["answer"];
    assert!(run["result"] == printed(&desk, run), "another run");
    let none = desk.run("report meta-llama/Llama-3.1-70B-Instruct --gpu l4 --request-rate 1 --input-len 256 --output-len 64 -L tp 1,2 -o none.html");
    let error = text(&none.stderr);
    assert_eq!(none.status.code(), Some(3), "{error}");
    assert!(
        error.contains("none of the 2 combinations of -L is possible"),
        "{error}"
    );
}

#[test]
fn each_setting_has_its_own_list_and_each_load_its_own_knee() {
    let desk = Desk::new();
    let words = "quickstart --num-prompts 500 --no-film --no-knee -L gpu l40s,h100 -L max-concurrency 4,256";
    let (_, kept) = report(&desk, 0, words);
    assert_eq!(kept["axes"][0]["value"], "h100", "the scenario's own card");
    let budget = |run: &Value| {
        let groups = run["answer"]["groups"].as_array().unwrap().iter();
        let mut controls = groups.flat_map(|group| group["controls"].as_array().unwrap());
        controls
            .find(|control| control["flag"] == "max-num-batched-tokens")
            .unwrap()["value"]
            .clone()
    };
    let runs = kept["runs"].as_array().unwrap();
    assert_eq!([&runs[0], &runs[3]].map(budget), [json!(2048.0), json!(8192.0)]);
    // Of an open stream a limit in flight is a setting; of a closed loop it is the load, which a knee looks for.
    let words = "quickstart --precision 0.3 --num-prompts 500 --no-film -L max-concurrency 4,256";
    let (_, kept) = report(&desk, 0, words);
    assert_eq!(kept["knees"].as_array().unwrap().len(), 2);
    let words =
        "quickstart --precision 0.3 --request-rate inf --num-prompts 300 --no-film -L max-concurrency 8,32";
    let (_, kept) = report(&desk, 0, words);
    assert_eq!(kept["knees"].as_array().unwrap().len(), 1);
    assert_eq!(kept["knees"][0]["answer"]["knee"]["knee_of"], "requests");
}

#[test]
fn exit_codes_are_those_of_the_run() {
    let desk = Desk::new();
    let missed = "quickstart --request-rate 19 --precision 0.3 --goodput ttft:20 tpot:10 --no-knee --no-what-if --no-film";
    let said = desk.expect(3, &format!("report {missed} -o report.html"));
    assert!(said.contains("SLO MISSED"), "{said}");
    desk.expect(
        3,
        &format!("run {missed}").replace(" --no-knee --no-what-if --no-film", ""),
    );
    assert!(desk.path().join("report.html").exists());
}

#[test]
fn what_is_wrong_is_told_before_anything_is_simulated() {
    let desk = Desk::new();
    for (words, told) in [
        ("quickstart", "--output <FILE>"),
        (
            "quickstart -L request-rat 4,8 -o r.html",
            "a similar argument exists: '--request-rate'",
        ),
        ("quickstart -L request-rate 4,,8 -o r.html", "has an empty value"),
        (
            "quickstart -L request-rate 4,4 -o r.html",
            "has the value 4 twice",
        ),
        (
            "quickstart -L seed 1 -L seed 2 -o r.html",
            "`-L seed` is given twice",
        ),
        ("quickstart -L request-rate=4,8 -o r.html", "2 values required"),
        ("quickstart --request-rate -3 -o r.html", "request-rate"),
        (
            "quickstart -L request-rate 5,abc -o r.html",
            "`abc` is not a rate",
        ),
        (
            "quickstart -L request-rate 5,5.0 -o r.html",
            "has the value 5.0 twice",
        ),
        (
            "quickstart -L engine.max_num_seqs 8,16 -o r.html",
            "is the path of a key",
        ),
        ("quickstart --title ' ' -o r.html", "--title is empty"),
    ] {
        let output = desk.run(&format!("report {words}"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {error}");
        assert!(error.contains(told), "{words}: {error}");
    }
    let many = (1..=1001)
        .map(|seed| seed.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let output = desk.run(&format!("report quickstart -L seed {many} -o r.html"));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("more than 1000 combinations"), "{error}");
    assert_eq!(
        std::fs::read_dir(desk.path()).unwrap().count(),
        0,
        "nothing is written"
    );
}
