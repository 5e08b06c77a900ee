//! Exit codes and first lines: a promise kept or not, overload, what does not fit, what nobody answers.

use crate::{Desk, SMALL, fixture, text};

#[test]
fn knee_without_arguments_answers_in_its_first_line() {
    let printed = Desk::new().expect(0, "knee");
    let first = printed.lines().next().unwrap();
    assert!(first.contains(" req/s within SLO"), "{first}");
    assert!(first.contains("saturates at "), "{first}");
}

#[test]
fn a_promise_that_is_not_kept_exits_with_3() {
    let desk = Desk::new();
    let printed = desk.expect(3, "knee quickstart --slo p99_ttft_ms<=1");
    assert!(printed.starts_with("NO RATE meets the SLO"), "{printed}");
    // Too few requests would leave the promise undecided.
    let longer = SMALL.replace("--num-prompts 200", "--num-prompts 2000");
    assert_ne!(longer, SMALL);
    desk.expect(3, &format!("{longer} --goodput ttft:1"));
    let printed = desk.expect(3, "fit meta-llama/Llama-3.1-70B-Instruct --gpu h100");
    assert!(printed.contains("DOES NOT FIT"), "{printed}");
}

#[test]
fn overload_has_no_steady_state_and_exits_with_4() {
    let printed = Desk::new().expect(4, "run quickstart --request-rate 60");
    assert!(printed.starts_with("UNSTABLE at 60.0 req/s"), "{printed}");
}

#[test]
fn a_model_that_does_not_fit_exits_with_3_and_a_file_that_is_not_there_with_2() {
    let desk = Desk::new();
    let traffic = "--request-rate 1 --input-len 8 --output-len 8";
    let large = "meta-llama/Llama-3.1-70B-Instruct --gpu h100";
    for words in [
        format!("fit {large}"),
        format!("run {large} {traffic}"),
        format!("knee {large} {traffic} --goodput ttft:500"),
        format!("sweep {large} {traffic} -L request-rate 1,2"),
    ] {
        desk.expect(3, &words);
        desk.expect(2, &words.replace("h100", "no.toml"));
    }
    for words in [
        "run no.toml",
        "knee no.toml",
        "hw show no.toml",
        "models show no.json",
        "hw add --from no.txt",
    ] {
        desk.expect(2, words);
    }
    desk.expect(2, "fit Qwen/Qwen3-8B --gpu h100 --quantization mxfp4");
}

#[test]
fn what_most_requests_met_comes_first() {
    let crowded = SMALL.replace("--request-rate 5", "--request-rate 60 --max-num-queued-reqs 2");
    let printed = Desk::new().expect(0, &crowded);
    assert!(printed.starts_with("REFUSED "), "{printed}");
}

#[test]
fn a_fitted_day_runs_once_over_its_span() {
    let desk = Desk::new();
    desk.expect(
        0,
        &format!("trace '{}' --fit day.toml", fixture("traces/servegen.tar.gz")),
    );
    let words = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --workload day.toml --format json";
    let result: serde_json::Value = serde_json::from_str(&desk.expect(0, words)).unwrap();
    let completed = result["completed"].as_u64().unwrap();
    assert!((1_000..3_000).contains(&completed), "{completed}");
    assert!(
        result["plimsoll"]["assumptions"]
            .to_string()
            .contains("duration = ")
    );
}

#[test]
fn replicas_for_a_rate_are_the_first_line_and_agree_in_every_form() {
    let desk = Desk::new();
    let asked = "knee quickstart --for-rate 100 --price 2.5";
    let printed = desk.expect(0, asked);
    let first = printed.lines().next().unwrap();
    let replicas = first.split(' ').next().unwrap();
    assert!(
        first.contains("replicas for 100 req/s") && first.contains("$/h"),
        "{first}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&desk.expect(0, &format!("{asked} --format json"))).unwrap();
    let sizing = &json["sizing"];
    assert_eq!(sizing["replicas"].as_u64(), replicas.parse().ok());
    let knee = json["knee"]["value"].as_f64().unwrap();
    assert_eq!(sizing["replicas"].as_f64(), Some((100.0 / knee).ceil()));
    assert_eq!(
        sizing["usd_per_hour"].as_f64(),
        sizing["gpus"].as_f64().map(|gpus| 2.5 * gpus)
    );
    let table = desk.expect(0, &format!("{asked} --format csv"));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "replicas").unwrap();
    assert!(rows[1..].iter().all(|row| row[column] == replicas), "{table}");
    desk.expect(2, "knee quickstart --price 2.5");
    desk.expect(2, "knee quickstart --for-rate -1");
}

#[test]
fn replicas_for_a_rate_are_counted_by_one_that_does_not_fail_and_with_all_its_gpus() {
    let desk = Desk::new();
    let refused = |flags: &str, why: &str| {
        let output = desk.run(&format!("knee quickstart --for-rate 100 {flags}"));
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(why), "{printed}");
    };
    refused("--replicas 2", "leave --replicas and --router out");
    refused(
        "--mean-time-between-failures 1h --mean-time-to-recovery 1min",
        "replicas that do not fail",
    );

    let server = "knee quickstart --for-rate 100 --data-parallel-size 2 --price 1 --format json";
    let json: serde_json::Value = serde_json::from_str(&desk.expect(0, server)).unwrap();
    let sizing = &json["sizing"];
    assert_eq!(
        sizing["gpus"].as_u64(),
        sizing["replicas"].as_u64().map(|n| 2 * n)
    );
    assert_eq!(sizing["usd_per_hour"].as_f64(), sizing["gpus"].as_f64());
}

#[test]
fn a_run_that_answers_nobody_is_a_failure_and_says_what_to_raise() {
    let output = Desk::new().run(
        "run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --engine sglang --max-total-tokens 512 --input-len 1000 \
         --output-len 20 --request-rate 5 --num-prompts 50",
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("NO ANSWERS at 5.00 req/s: of 50 requests"));
    assert!(text(&output.stderr).contains("the token pool (--mem-fraction-static)"));
}
