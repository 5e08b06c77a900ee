//! `sweep --pareto` and `--variant`: which ways of serving nobody beats in what a user and a GPU get.

use serde_json::Value;

use crate::{Desk, text, unfolded};

const LOOP: &str = "sweep meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 512 --output-len 64 \
                    --random-range-ratio 0.2 --request-rate inf --num-prompts 400";

/// The cells of a table's marked lines.
fn marked(printed: &str) -> Vec<Vec<&str>> {
    let lines = printed.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with(['●', '○']));
    lines
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect()
}

#[test]
fn a_frontier_is_that_of_the_runs_own_figures() {
    let desk = Desk::new();
    let sweep = format!("{LOOP} -L max-concurrency 1,16,128 -L tp 1,2");
    let printed = desk.expect(0, &format!("{sweep} --pareto"));
    let runs: Vec<Value> =
        serde_json::from_str(&desk.expect(0, &format!("{sweep} --format json --no-interval"))).unwrap();
    let figures = |run: &Value| {
        let steady = &run["plimsoll"]["steady"];
        let of = |key: &str| steady[key].as_f64().or(run[key].as_f64()).unwrap();
        let gpus = run["plimsoll"]["scenario"]["gpus"].as_f64().unwrap();
        (1e3 / of("median_tpot_ms"), of("output_throughput") / gpus)
    };
    let all: Vec<(f64, f64)> = runs.iter().map(figures).collect();
    let is_beaten = |own: &(f64, f64)| {
        all.iter()
            .any(|other| other != own && other.0 >= own.0 && other.1 >= own.1)
    };
    let mut front: Vec<(f64, f64)> = all.iter().filter(|own| !is_beaten(own)).copied().collect();
    front.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told: Vec<(f64, f64)> = marked(&printed)
        .iter()
        .filter(|cells| cells[0] == "●")
        .map(|cells| {
            let number = |cell: &str| cell.replace(',', "").parse::<f64>().unwrap();
            (number(cells[3]), number(cells[4]))
        })
        .collect();
    assert_eq!(told.len(), front.len(), "{printed}");
    for (told, own) in told.iter().zip(&front) {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.006;
        assert!(near(told.0, own.0) && near(told.1, own.1), "{told:?} {own:?}");
    }
    assert!(front.len() >= 3 && front.len() < 6, "{printed}");
    let first = format!("{} of 6 settings are on the frontier, from ", front.len());
    assert!(printed.starts_with(&first), "{printed}");
    let table = desk.expect(0, &format!("{sweep} --columns pareto"));
    assert!(
        table.contains("tok/s/user") && table.contains("tok/s/GPU"),
        "{table}"
    );
    // Where it is not told, that is told.
    for (words, told) in [
        (
            "--pareto --format csv",
            "--pareto is told by the table and Markdown",
        ),
        (
            "--pareto --columns tpot",
            "--columns has no effect beside --pareto",
        ),
    ] {
        let err = unfolded(&text(&desk.run(&format!("{sweep} {words} --no-interval")).stderr));
        assert!(err.contains(told), "{words}\n{err}");
    }
}

#[test]
fn variants_are_ways_of_serving_beside_each_other_and_axes() {
    let desk = Desk::new();
    let variants = "--variant 'whole: --replicas 2' --variant 'split: --prefill 1 --decode 1' --variant '--engine sglang -tp 2'";
    let sweep = format!("{LOOP} -L max-concurrency 4,64 {variants}");
    let printed = desk.expect(0, &format!("{sweep} --pareto --charts pictures"));
    let first = unfolded(&printed);
    assert!(first.contains("of 6 settings are on the frontier"), "{printed}");
    for picture in ["pareto.svg", "pareto.png", "sweep.svg"] {
        assert!(desk.path().join("pictures").join(picture).exists(), "{picture}");
    }
    let svg = std::fs::read_to_string(desk.path().join("pictures/pareto.svg")).unwrap();
    assert!(svg.contains("variant = ") && svg.contains("$/M out"), "{svg}");
    // Each is the run that its flags are.
    let csv = desk.expect(0, &format!("{sweep} --format csv --no-interval"));
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let at = |key: &str| head.iter().position(|own| *own == key).unwrap();
    let split = rows.find(|row| row[0] == "split" && row[1] == "64").unwrap();
    let alone = LOOP.replace("sweep", "run") + " --max-concurrency 64 --prefill 1 --decode 1 --format json";
    let alone: Value = serde_json::from_str(&desk.expect(0, &alone)).unwrap();
    assert_eq!(
        split[at("output_throughput")],
        alone["output_throughput"].to_string()
    );
    // A variant is called by what it says.
    let named = desk.expect(
        0,
        &format!(
            "{LOOP} --max-concurrency 4 --variant '--kv-cache-dtype fp8_e4m3' --format csv --no-interval"
        ),
    );
    assert!(named.contains("\n--kv-cache-dtype fp8_e4m3,"), "{named}");
    // A knee of each.
    let knees = desk.expect(
        0,
        "knee quickstart --variant 'plain:' --variant 'eager: --enforce-eager' --format csv",
    );
    assert!(
        knees.starts_with("variant,") && knees.contains("\neager,"),
        "{knees}"
    );
}

#[test]
fn variants_that_are_none_are_told() {
    let desk = Desk::new();
    for (words, told) in [
        (
            "--variant 'a: -tp 2' --variant 'a: -tp 4'",
            "the variant `a` is given twice",
        ),
        ("--variant ''", "`--variant` has neither a name nor flags"),
        (
            "--variant 'a: --max-concurrency 4'",
            "sets `max-concurrency`, which is swept over, too",
        ),
        ("--variant 'a: quickstart'", "names `quickstart`"),
        ("--variant 'a: --no-such-flag 3'", "--no-such-flag"),
        ("--variant \"a: '-tp 2\"", "has a quote that does not end"),
        ("--pareto=watt", "invalid value 'watt'"),
    ] {
        let output = desk.run(&format!("{LOOP} -L max-concurrency 4,64 {words}"));
        let err = unfolded(&text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{words}\n{err}");
        assert!(err.contains(told), "{words}\n{err}");
    }
}
