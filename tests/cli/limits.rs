//! Sizes that nobody can mean, promises to classes, and figures that would mislead: what a newcomer meets first.

use crate::{Desk, SMALL, text};

/// Two classes on one card: one that anybody can serve, one whose promise is as strict as `ttft` says.
fn two_classes(ttft: &str) -> String {
    format!(
        r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
[engine]
max_model_len = 8192
[workload]
num_prompts = 1500
[workload.arrivals.poisson]
request_rate = 4.0
[workload.lengths.fixed]
input_len = 512
output_len = 64
[[workload.classes]]
name = "patient"
share = 3.0
goodput = {{ ttft = "5 s", tpot = "200 ms" }}
[[workload.classes]]
name = "hasty"
share = 1.0
goodput = {{ ttft = "{ttft}" }}
"#
    )
}

fn with_file(text: &str) -> Desk {
    let desk = Desk::new();
    std::fs::write(desk.path().join("case.toml"), text).unwrap();
    desk
}

/// Words without the line breaks of the page.
fn unfolded(printed: &str) -> String {
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rate_beyond_all_bounds_is_overload_and_not_the_end_of_the_memory() {
    let printed = Desk::new().expect(4, "run quickstart --request-rate 1e6");
    assert!(printed.starts_with("UNSTABLE at 1,000,000 req/s"), "{printed}");
}

#[test]
fn overload_that_is_over_before_anybody_is_served_is_overload() {
    let printed = Desk::new().expect(3, "run quickstart --request-rate 2000 --num-prompts 4000");
    assert!(printed.starts_with("UNSTABLE at 2,000 req/s"), "{printed}");
}

#[test]
fn what_no_memory_holds_is_refused_beforehand() {
    let desk = Desk::new();
    let refused = |words: &str| {
        let output = desk.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}\n{told}");
        told
    };
    let told = refused("run quickstart --num-prompts 50000000 --save-result --save-detailed");
    assert!(
        told.contains("--num-prompts") && told.contains("at most"),
        "{told}"
    );
    let told = refused("compare quickstart --seeds 1000000000 \"--max-num-seqs 8\"");
    assert!(told.contains("`--seeds` must lie between 1 and 10000"), "{told}");
    let told = refused("run static-batching --max-num-seqs 100000");
    assert!(told.contains("more rows than the memory holds"), "{told}");
}

#[test]
fn a_cell_that_does_not_fit_is_a_row_and_the_others_run() {
    let desk = Desk::new();
    let sweep = format!(
        "{} -L gpu t4,h100",
        SMALL.replacen("run", "sweep", 1).replace("--gpu h100", "")
    );
    let printed = desk.expect(0, &sweep);
    assert!(
        printed.starts_with("1 run; 1 cell does not fit; most output"),
        "{printed}"
    );
    let csv = desk.expect(0, &format!("{sweep} --format csv"));
    let line = csv.lines().nth(1).unwrap();
    assert!(
        line.starts_with("t4,,") && line.ends_with(",does_not_fit"),
        "{line}"
    );
    let json = desk.expect(0, &format!("{sweep} --format json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["plimsoll"]["verdict"], "does_not_fit");
    assert!(
        json[0]["plimsoll"]["why"].as_str().unwrap().starts_with("needs "),
        "{json}"
    );
    assert_eq!(json[1]["completed"], 200);
    // Every cell says which it is.
    for (at, gpu) in ["t4", "h100"].into_iter().enumerate() {
        assert_eq!(json[at]["plimsoll"]["cell"]["gpu"], gpu);
    }
    let kept = format!("{sweep} --format jsonl -o kept.jsonl --charts pictures");
    desk.expect(0, &kept);
    let lines = || std::fs::read_to_string(desk.path().join("kept.jsonl")).unwrap();
    let first = lines();
    assert_eq!(first.lines().count(), 2, "{first}");
    let row: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(row["cell"], serde_json::json!({"gpu": "t4"}));
    assert!(
        row["key"].as_str().unwrap().starts_with("gpu=t4 scenario="),
        "{first}"
    );
    desk.expect(0, &kept);
    assert_eq!(lines(), first);
    desk.expect(0, "audit kept.jsonl");
    let dry = desk.expect(0, &format!("{sweep} --dry-run"));
    assert!(
        dry.starts_with("2 cells\n   0  gpu = t4\n        does not fit: needs "),
        "{dry}"
    );
    desk.expect(3, &sweep.replace("t4,h100", "t4"));
}

#[test]
fn promises_to_classes_count_in_every_command() {
    let strict = with_file(&two_classes("1 ms"));
    let printed = unfolded(&strict.expect(3, "run case.toml"));
    assert!(
        printed.contains("MISSED for hasty (0 % good)")
            && printed.contains("NOT DECIDED of patient (100 % good) (95 % 98.8 % to 100 %)"),
        "{printed}"
    );
    let json = strict.expect(3, "run case.toml --format json");
    let run: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(run["plimsoll"]["slo_kept"], false);
    assert_eq!(run["plimsoll"]["classes"][0]["attainment"], 1.0);
    let printed = strict.expect(3, "sweep case.toml -L request-rate 1,2");
    assert!(printed.starts_with("2 runs; none meets the SLO"), "{printed}");
    let printed = unfolded(&strict.expect(3, "knee case.toml"));
    assert!(
        printed.starts_with("NO RATE meets the SLO") && printed.contains("of class hasty"),
        "{printed}"
    );
}

#[test]
fn the_knee_of_classes_is_that_of_the_first_to_break() {
    let desk = with_file(&two_classes("60 ms"));
    desk.expect(0, "run case.toml --request-rate 1");
    // Which class it is shows long before the rate is known well.
    let printed = unfolded(&desk.expect(0, "knee case.toml --precision 0.2"));
    assert!(
        printed.contains(
            "of the requests of each class: patient with TTFT ≤ 5.00 s and TPOT ≤ 200 ms; hasty with"
        ),
        "{printed}"
    );
    assert!(
        printed.contains("TTFT p99 of class hasty, which reaches its"),
        "{printed}"
    );
}

#[test]
fn tables_of_classes_and_measurements_fold_to_the_screen() {
    let desk = with_file(&two_classes("1 s"));
    let table = super::fixture("results/table.csv");
    for words in [
        "run case.toml".to_owned(),
        "course".to_owned(),
        format!("audit {table}"),
        format!("validate {table} --no-interval"),
    ] {
        let output = desk.command(&words).env("COLUMNS", "70").output().unwrap();
        let printed = text(&output.stdout);
        let widest = printed.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 70, "{words}: {widest}\n{printed}");
    }
}

#[test]
fn a_closed_batch_shows_no_gap_of_nothing_and_no_more_rows_than_it_has() {
    let desk = Desk::new();
    let printed = desk.expect(0, "run static-batching");
    assert!(printed.contains("running (max 16)"), "{printed}");
    assert!(
        !printed.contains("TPOT     0 ms") && printed.contains("–: every answer leaves whole"),
        "{printed}"
    );
    let printed = desk.expect(0, "sweep static-batching -L engine static");
    assert!(!printed.contains(" 0 ms"), "{printed}");
    let late = desk.run("run static-batching --request-rate 2 --num-prompts 50 --batch-timeout 10h");
    let told = text(&late.stderr);
    assert!(
        told.contains("the last 2 requests filled no batch and waited 36,000 s for others that never came"),
        "{told}"
    );
}

#[test]
fn what_fits_is_what_the_engine_takes() {
    let printed = Desk::new().expect(0, "fit Llama-3.1-8B --gpu h100 --engine hf-cb");
    assert!(printed.contains("in 4,096 blocks"), "{printed}");
}

#[test]
fn a_working_set_says_why_there_is_none() {
    let desk = Desk::new();
    let off = desk.expect(0, "working-set prefix-warm --no-enable-prefix-caching");
    assert!(off.contains("finds nothing, for prefix caching is off"), "{off}");
}

#[test]
fn names_and_bounds_that_mean_nothing_are_refused_by_what_is_wrong() {
    let desk = Desk::new();
    let told = |words: &str| {
        let output = desk.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        text(&output.stderr)
    };
    assert!(told("run quickstart --engine static@9").contains("`static` has no versions"));
    assert!(told("compare quickstart \": --max-num-seqs 8\"").contains("has an empty name"));
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/autoscale.toml");
    let autoscale = std::fs::read_to_string(shipped).unwrap();
    let wrong = autoscale.replace("max_replicas = ", "min_replicas = 99\nmax_replicas = ");
    assert_ne!(wrong, autoscale);
    std::fs::write(
        desk.path().join("scale.toml"),
        wrong.replace("min_replicas = 1\n", ""),
    )
    .unwrap();
    assert!(told("run scale.toml").contains("is below min_replicas"));
}

#[test]
fn every_pool_is_told_how_far_its_step_times_are_to_be_trusted() {
    let desk = with_file(
        r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[engine]
max_model_len = 8192
[[cluster.pools]]
name = "known"
replicas = 1
gpu = "H100-SXM-80GB"
[[cluster.pools]]
name = "guessed"
replicas = 1
gpu = "rtx-4090"
[cluster.pools.model]
quantization = "fp8"
[workload]
num_prompts = 300
[workload.arrivals.poisson]
request_rate = 2.0
[workload.lengths.fixed]
input_len = 512
output_len = 64
"#,
    );
    let printed = desk.expect(0, "run case.toml");
    assert!(
        printed.contains("known: ●●○ linear layers calibrated")
            && printed.contains("guessed: ●◐○ linear layers prior"),
        "{printed}"
    );
}
