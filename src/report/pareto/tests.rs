//! Frontiers of made-up runs.

use serde_json::{Value, json};

use super::*;

/// A run of (TPOT in ms, output tokens a second, GPUs) and how sure its output is.
fn run(tpot: f64, output: f64, gpus: u32, verdict: &str) -> Value {
    json!({
        "output_throughput": output, "median_tpot_ms": tpot, "median_ttft_ms": 40.0, "p99_ttft_ms": 90.0,
        "plimsoll": {
            "verdict": verdict,
            "scenario": {"gpus": gpus},
            "cost": {"usd_per_million_output_tokens": f64::from(gpus) * 3.0 / (output * 0.0036)},
            "intervals_95": {"output_throughput": [0.97 * output, 1.03 * output]},
        },
    })
}

/// Cells of (`tp`, `max-concurrency`) with their runs.
fn frontier<T>(cells: &[(&str, &str, Value)], measure: Measure, told: impl Fn(&Frontier<'_, '_>) -> T) -> T {
    let labels: Vec<Vec<(String, String)>> = cells
        .iter()
        .map(|(tp, load, _)| {
            vec![
                ("tensor-parallel-size".to_owned(), (*tp).to_owned()),
                ("max-concurrency".to_owned(), (*load).to_owned()),
            ]
        })
        .collect();
    let rows: Vec<SweepRow<'_>> = cells
        .iter()
        .zip(&labels)
        .map(|((_, _, run), settings)| SweepRow {
            settings,
            run,
            attainment: None,
            of_whole: false,
        })
        .collect();
    told(&Frontier::of(&rows, measure))
}

fn cells() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("1", "1", run(8.0, 120.0, 1, "stable")),
        ("1", "64", run(12.5, 4000.0, 1, "stable")),
        ("4", "1", run(4.0, 240.0, 4, "stable")),
        // Beaten by 80 tok/s and 4,000 a GPU.
        ("4", "64", run(16.0, 12_000.0, 4, "stable")),
        // By less than its interval.
        ("8", "1", run(4.0, 472.0, 8, "stable")),
        ("8", "64", run(5.0, 9000.0, 8, "unstable")),
        ("16", "1", Value::Null),
    ]
}

#[test]
fn nobody_on_the_frontier_is_beaten_and_the_others_are() {
    let told = frontier(&cells(), Measure::Gpu, |frontier| {
        let point = |point: &Point<'_, '_>| (point.server(), point.load(), point.user, point.standing);
        frontier.points.iter().map(point).collect::<Vec<_>>()
    });
    let named = |tp: &str, load: &str, user: f64, standing: Standing| {
        let server = format!("tensor-parallel-size = {tp}");
        (server, Some(load.to_owned()), user, standing)
    };
    assert_eq!(
        told,
        [
            named("8", "1", 250.0, Standing::Near),
            named("4", "1", 250.0, Standing::Front),
            named("1", "1", 125.0, Standing::Front),
            named("1", "64", 80.0, Standing::Front),
            named("4", "64", 62.5, Standing::Beaten),
        ]
    );
}

#[test]
fn the_answer_names_both_ends_and_what_became_of_the_others() {
    let text = frontier(&cells(), Measure::Gpu, |frontier| frontier.text(None));
    insta::assert_snapshot!(text, @r"
    INTERRUPTED: 6 of 7 runs finished; 3 of 5 settings are on the frontier, from 250 tok/s per user and 60.0 tok/s per GPU (tensor-parallel-size = 4, max-concurrency = 1) to 80.0 and 4,000 (tensor-parallel-size = 1, max-concurrency = 64)
         tensor-parallel-size  max-concurrency  tok/s/user  tok/s/GPU  out tok/s  TTFT p50      p99  TPOT p50  $/M out  state
      ○  8                     1                       250       59.0        472   40.0 ms  90.0 ms   4.00 ms    14.12  stable
      ●  4                     1                       250       60.0        240   40.0 ms  90.0 ms   4.00 ms    13.89  stable
      ●  1                     1                       125        120        120   40.0 ms  90.0 ms   8.00 ms     6.94  stable
      ●  1                     64                     80.0      4,000      4,000   40.0 ms  90.0 ms   12.5 ms     0.21  stable
    of the others: 2 give a user and a GPU no more than another (1 of them, ○, by no more than chance); 1 was not run; 1 is unstable
    ");
    let dear = frontier(&cells(), Measure::Dollar, |frontier| frontier.answer());
    assert!(dear.contains("M tok per $"), "{dear}");
}

#[test]
fn seeds_are_one_setting_and_one_that_beats_all_is_alone() {
    let labels = |seed: &str| vec![("seed".to_owned(), seed.to_owned())];
    let (a, b) = (run(10.0, 1000.0, 1, "stable"), run(5.0, 3000.0, 1, "stable"));
    let (first, second) = (labels("1"), labels("2"));
    let row = |settings, run| SweepRow {
        settings,
        run,
        attainment: None,
        of_whole: false,
    };
    let rows = [row(&first, &a), row(&second, &b)];
    let frontier = Frontier::of(&rows, Measure::Gpu);
    assert_eq!(frontier.points.len(), 1);
    // The mean of 100 and 200, and of 1,000 and 3,000.
    assert_eq!(
        (frontier.points[0].user, frontier.points[0].made),
        (150.0, 2000.0)
    );
    assert_eq!(
        frontier.answer(),
        "one of 1 setting beats all others, in tok/s per user and tok/s per GPU: 150 and 2,000"
    );
}

#[test]
fn where_nothing_has_a_place_that_is_the_answer() {
    let cells = [
        ("1", "1", run(8.0, 120.0, 1, "unstable")),
        ("2", "1", run(0.0, 120.0, 1, "stable")),
    ];
    let text = frontier(&cells, Measure::Gpu, |frontier| frontier.text(None));
    assert_eq!(
        text,
        "no setting has a place on the frontier: 1 is unstable; 1 has no gaps between tokens\n"
    );
}
