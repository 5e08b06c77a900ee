//! How often results that differ by chance alone are told to differ, and whether a true difference is found.

use std::sync::Arc;

use super::super::present;
use crate::analysis::simulate;
use crate::audit::compare::{Comparison, compare};
use crate::config::{Document, NoFiles, Resolved, resolve};
use crate::cost::roofline::RooflineCost;
use crate::cost::uncertainty::Component;
use crate::metrics::Records;
use crate::report::json::{self, Arrays};
use crate::results::{self, Measured};

/// Lengths that are drawn.
const DRAWN: &str = "[workload.lengths.random]\ninput_len = 512\noutput_len = 128\nrange_ratio = 0.5\n";
/// Lengths that are all alike.
const FIXED: &str = "[workload.lengths.fixed]\ninput_len = 512\noutput_len = 128\n";
const OPEN: &str = "num_prompts = 1000\n[workload.arrivals.poisson]\nrequest_rate = 10.0\n";
const CLOSED: &str = "num_prompts = 640\n[workload.arrivals.closed]\nmax_concurrency = 32\n";
/// Pairs of runs of each load.
const PAIRS: u64 = 20;

fn resolved(workload: &str, seed: u64) -> Resolved {
    let text = format!(
        "[model]\nname = \"Qwen/Qwen3-8B\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[engine]\nprofile = \"vllm@0.33\"\n\
         [workload]\nseed = {seed}\n{workload}"
    );
    resolve(Document::parse("test", &text).unwrap(), &NoFiles).unwrap()
}

/// The result file of a run whose steps take so many times as long, as `diff` reads it.
fn result(workload: &str, seed: u64, times: f64) -> Measured {
    results::read(written(workload, seed, times).as_bytes(), "run.json")
        .unwrap()
        .rows
        .remove(0)
}

/// The same as a client would have written it: without what only Plimsoll says.
fn measured(workload: &str, seed: u64) -> Measured {
    let mut file: serde_json::Value = serde_json::from_str(&written(workload, seed, 1.0)).unwrap();
    file.as_object_mut().unwrap().remove("plimsoll");
    results::read(file.to_string().as_bytes(), "measured.json")
        .unwrap()
        .rows
        .remove(0)
}

fn written(workload: &str, seed: u64, times: f64) -> String {
    let mut resolved = resolved(workload, seed);
    let server = &resolved.servers[0];
    let slower = server.calibration.scaled(Component::Step, times);
    let cost = RooflineCost::maker(&server.device, &server.model, &slower, &server.placement).unwrap();
    resolved.scenario.pools[0].cost = Arc::new(cost);
    let experiment = present::experiment(&resolved, Records::None);
    let outcome = simulate(&resolved.scenario, &experiment, |_| true);
    json::run(
        &outcome.result,
        &present::meta_of(&resolved, &outcome),
        Arrays::None,
    )
}

/// Pairs of results of one load and no seed in common, of which the second has steps so many times as long.
fn compared(workload: &str, times: f64) -> impl Iterator<Item = Comparison> {
    (0..PAIRS).map(move |pair| {
        let [one, other] =
            [(2 * pair, 1.0), (2 * pair + 1, times)].map(|(seed, times)| result(workload, seed, times));
        compare(&one, &other)
    })
}

#[test]
fn results_that_differ_in_seed_are_seldom_told_to_differ_and_given_no_cause() {
    let (mut pairs, mut moved, mut moved_alone) = (0, 0, 0);
    for workload in [
        format!("{OPEN}{FIXED}"),
        format!("{OPEN}{DRAWN}"),
        format!("{CLOSED}{DRAWN}"),
    ] {
        for comparison in compared(&workload, 1.0) {
            let each = comparison.figures.iter();
            let is_beyond = |chance: (f64, f64), change: f64| change < chance.0 || change > chance.1;
            let alone = each
                .filter(|figure| figure.is_judged() && figure.change().abs() > 0.01)
                .any(|figure| is_beyond(figure.chance_alone().unwrap(), figure.change()));
            assert_eq!(comparison.together.unwrap().figures, 23, "{workload}");
            assert_eq!(comparison.causes, [], "{workload}");
            assert_eq!(comparison.unlike, Vec::<String>::new(), "{workload}");
            pairs += 1;
            moved += u32::from(comparison.largest().is_some());
            moved_alone += u32::from(alone);
        }
    }
    assert_eq!(pairs, 3 * PAIRS);
    // A twentieth of them at most; each figure by itself is beyond its own interval more often.
    assert!(moved <= 3, "{moved} of {pairs} pairs are told to have moved");
    assert!(moved_alone > 3, "{moved_alone} of {pairs}");
}

#[test]
fn steps_that_are_a_tenth_slower_are_found_in_every_pair() {
    for workload in [format!("{OPEN}{FIXED}"), format!("{CLOSED}{DRAWN}")] {
        let mut blamed = 0;
        for comparison in compared(&workload, 1.1) {
            let step = comparison.figure("mean tpot").unwrap();
            assert!(step.is_real() && step.change() > 0.08, "{workload}: {step:?}");
            let kinds: Vec<&str> = comparison.causes.iter().map(|cause| cause.kind).collect();
            assert!(
                !kinds.contains(&"queueing") && !kinds.contains(&"setup"),
                "{kinds:?}"
            );
            blamed += u64::from(kinds.iter().any(|kind| ["bandwidth", "step-time"].contains(kind)));
        }
        // Gaps of two kinds may be contradicted by one percentile of them.
        assert!(blamed >= PAIRS - 2, "{workload}: {blamed}");
    }
}

#[test]
fn what_clients_write_of_runs_that_differ_in_seed_is_seldom_told_to_differ() {
    let widely = DRAWN.replace("0.5", "0.8");
    let (few_open, few_closed) = (
        OPEN.replace("1000", "500").replace("10.0", "4.0"),
        CLOSED.replace("640", "200").replace("32", "16"),
    );
    let mut moved = Vec::new();
    for workload in [
        format!("{OPEN}{FIXED}"),
        format!("{few_open}{DRAWN}"),
        format!("{few_closed}{widely}"),
        format!("{CLOSED}{DRAWN}"),
    ] {
        for pair in 0..PAIRS {
            let [one, other] = [2 * pair, 2 * pair + 1].map(|seed| measured(&workload, seed));
            let comparison = compare(&one, &other);
            let named = comparison.figures.iter().filter(|figure| figure.is_real());
            let named: Vec<String> = named.map(|figure| figure.name.clone()).collect();
            assert!(comparison.together.unwrap().figures > 10, "{workload}");
            moved.extend((!named.is_empty()).then(|| named.join(", ")));
        }
    }
    // A twentieth of them at most; without the jumps of gaps and the tails of few crowds a quarter is.
    assert!(moved.len() as u64 <= 4 * PAIRS / 20, "{moved:?}");
}
