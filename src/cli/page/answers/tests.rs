//! What a page is answered.

use serde_json::{Value, json};

use super::*;

fn explorer(line: &str) -> Explorer {
    let typed = shlex::split(line).expect("quotes end");
    let args: Vec<String> = ["run".to_owned()].into_iter().chain(typed).collect();
    let (cli, _, problems) = super::super::super::parse(&args).expect("flags are understood");
    assert!(problems.is_none());
    let super::super::super::Command::Run(run) = cli.command else {
        panic!("another command");
    };
    Explorer::new(run.scenario, args[1..].to_vec(), None)
        .expect("the scenario is valid")
        .0
}

fn asked(flags: &[(&str, &str)], film: bool) -> Asked {
    let flags = flags
        .iter()
        .map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned()));
    Asked {
        flags: flags.collect(),
        film,
    }
}

fn ran(explorer: &Explorer, flags: &[(&str, &str)]) -> Value {
    let ran = explorer
        .run(&asked(flags, true), &|| true)
        .map_err(|_| "refused")
        .expect("it runs");
    serde_json::to_value(ran).expect("it is JSON")
}

fn problems(explorer: &Explorer, flags: &[(&str, &str)]) -> Vec<Problem> {
    match explorer.run(&asked(flags, false), &|| true) {
        Err(Unanswered::Wrong { problems, .. }) => problems,
        _ => panic!("it is refused"),
    }
}

fn control<'a>(answer: &'a Value, flag: &str) -> &'a Value {
    let groups = answer["groups"].as_array().expect("there are groups");
    let mut controls = groups
        .iter()
        .flat_map(|group| group["controls"].as_array().expect("each has some"));
    controls
        .find(|control| control["flag"] == flag)
        .expect("the control is there")
}

#[test]
fn what_was_turned_is_simulated_and_its_command_does_the_same() {
    let explorer = explorer("quickstart --request-rate 9 --seed 3");
    let answer = ran(
        &explorer,
        &[("request-rate", "12"), ("enable-prefix-caching", "false")],
    );
    assert_eq!(
        answer["command"],
        "plimsoll run quickstart --seed 3 --no-enable-prefix-caching --request-rate 12"
    );
    assert_eq!(answer["result"]["request_rate"], 12.0);
    assert_eq!(control(&answer, "request-rate")["value"], 12.0);
    assert_eq!(control(&answer, "enable-prefix-caching")["value"], false);
    assert_eq!(control(&answer, "seed")["value"], 3.0);
    let said = answer["said"].as_str().expect("text");
    assert!(said.starts_with("stable at 12.0 req/s"), "{said}");
    // The film is of that run, and ends when it is full.
    let film = &answer["film"];
    assert_eq!(film["requests"]["arrival"].as_array().map(Vec::len), Some(1000));
    let until = film["until"].as_f64().expect("a time");
    assert!((60.0..120.0).contains(&until), "{until}");
}

#[test]
fn values_that_depend_on_another_are_those_of_the_run() {
    let explorer = explorer("quickstart");
    let of = |gpu: &str| {
        let answer = ran(&explorer, &[("gpu", gpu)]);
        control(&answer, "max-num-batched-tokens")["value"].clone()
    };
    assert_eq!(
        (of("H100-SXM-80GB"), of("L40S-48GB")),
        (json!(8192.0), json!(2048.0))
    );
}

#[test]
fn every_control_takes_the_value_that_it_has() {
    let users = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 256 --output-len 32 --users 20 --think-time 2s";
    for base in ["quickstart --replicas 2", "radix-cache", "static-batching", users] {
        let start = serde_json::to_value(explorer(base).start()).expect("it is JSON");
        let groups = start["groups"].as_array().expect("there are groups").iter();
        for control in groups.flat_map(|group| group["controls"].as_array().expect("each has some")) {
            let flag = control["flag"].as_str().expect("text");
            let value = control["value"]
                .as_str()
                .map_or_else(|| control["value"].to_string(), str::to_owned);
            assert_eq!(super::super::allowed::refused(flag, &value), None, "{base}");
        }
    }
}

#[test]
fn one_limit_leaves_the_other() {
    let answer = ran(&explorer("quickstart"), &[("goodput:ttft", "100")]);
    let command = answer["command"].as_str().expect("text");
    assert!(command.ends_with("--goodput tpot:50 ttft:100"), "{command}");
    assert_eq!(control(&answer, "goodput:tpot")["value"], 50.0);
}

#[test]
fn one_length_brings_the_mean_of_the_other() {
    let answer = ran(&explorer("quickstart"), &[("output-len", "50")]);
    let command = answer["command"].as_str().expect("text");
    assert!(command.ends_with("--output-len 50 --input-len 1155"), "{command}");
    assert_eq!(control(&answer, "input-len")["value"], 1155.0);
    // Where all have one length already, that stays.
    let model =
        "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 1 --input-len 256 --output-len 32";
    let answer = ran(&explorer(model), &[("output-len", "50")]);
    let command = answer["command"].as_str().expect("text");
    assert!(command.ends_with("--input-len 256 --output-len 50"), "{command}");
}

#[test]
fn the_command_takes_the_place_of_what_the_base_says_in_other_words() {
    let command = |base: &str, flags: &[(&str, &str)]| {
        let answer = ran(&explorer(base), flags);
        answer["command"].as_str().expect("text").to_owned()
    };
    assert_eq!(
        command(
            "quickstart -tp 2 --no-enable_prefix_caching",
            &[("tensor-parallel-size", "1"), ("enable-prefix-caching", "true")]
        ),
        "plimsoll run quickstart --enable-prefix-caching --tensor-parallel-size 1"
    );
    let model = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 1";
    assert_eq!(
        command(
            &format!("{model} --random-input-len 256 --random-output-len 32"),
            &[("input-len", "300")]
        ),
        format!("plimsoll run {model} --random-output-len 32 --random-input-len 300")
    );
}

#[test]
fn users_and_closed_loops_have_other_knobs_than_rates() {
    let model = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 256 --output-len 32";
    let users = explorer(&format!("{model} --users 20 --think-time 2s"));
    let answer = ran(&users, &[("think-time", "4")]);
    assert_eq!(control(&answer, "users")["value"], 20.0);
    assert_eq!(control(&answer, "think-time")["value"], 4.0);
    let closed = explorer(&format!("{model} --request-rate inf --max-concurrency 16"));
    let answer = ran(&closed, &[("max-concurrency", "4")]);
    assert_eq!(control(&answer, "max-concurrency")["value"], 4.0);
    assert_eq!(answer["result"]["max_concurrency"], 4);
}

#[test]
fn what_is_wrong_is_told_as_of_a_command_line() {
    let explorer = explorer("quickstart");
    let of = |flags: &[(&str, &str)]| problems(&explorer, flags)[0].message.clone();
    assert_eq!(
        of(&[("save-result", "true")]),
        "there is no control `save-result`"
    );
    assert!(of(&[("goodput:tpot", "-1")]).contains("is no limit"));
    // A path would be read for whoever can open the page.
    for (flag, value) in [
        ("gpu", "h1000"),
        ("model", "/dev/zero"),
        ("model", "."),
        ("gpu", "mine.toml"),
    ] {
        let told = of(&[(flag, value)]);
        assert_eq!(
            told.split(':').next(),
            Some(format!("there is no {flag} `{value}` on this page").as_str())
        );
    }
    let told = of(&[("request-rate", "1e9")]);
    assert!(told.contains("a page takes at most 100000"), "{told}");
    // A value is one word, whatever is in it.
    let told = of(&[("request-rate", "3 --save-result")]);
    assert!(told.contains("3 --save-result"), "{told}");
    let misfit = problems(&explorer, &[("model", "meta-llama/Llama-3.1-70B-Instruct")]);
    assert!(misfit[0].message.contains("does not fit"), "{misfit:?}");
    assert!(!misfit[0].help.is_empty());
    let told = of(&[("max-num-seqs", "0")]);
    assert!(told.starts_with("`--max-num-seqs` must be"), "{told}");
}

#[test]
fn a_knee_is_that_of_what_was_turned() {
    let explorer = explorer("quickstart");
    let found = explorer.knee(&asked(&[("gpu", "L40S-48GB")], false), &|| true);
    let found =
        serde_json::to_value(found.map_err(|_| "refused").expect("there is one")).expect("it is JSON");
    assert_eq!(found["command"], "plimsoll knee quickstart --gpu L40S-48GB");
    let knee = found["knee"]["knee"]["value"].as_f64().expect("a rate");
    assert!((0.2..3.0).contains(&knee), "{knee}");
    let cut = explorer.knee(&asked(&[], false), &|| false);
    assert!(matches!(cut, Err(Unanswered::Gone)));
}

#[test]
fn a_closed_loop_has_numbers_for_its_knee() {
    let model = "meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 256 --output-len 32";
    let explorer = explorer(&format!(
        "{model} --request-rate inf --max-concurrency 16 --goodput ttft:500"
    ));
    let found = explorer.knee(&asked(&[], false), &|| true);
    let found =
        serde_json::to_value(found.map_err(|_| "refused").expect("there is one")).expect("it is JSON");
    assert_eq!(found["knee"]["knee_of"], "requests");
    assert!(
        found["knee"]["points"]
            .as_array()
            .is_some_and(|points| points.len() > 3)
    );
}
