//! What the first lines of small sweeps say.

mod loads;
mod slos;

use serde_json::Value;

use super::*;

#[test]
fn the_first_line_crowns_what_keeps_the_promise_and_no_noise() {
    let run = |tokens: f64, good: f64, half: f64| {
        serde_json::json!({
            "output_throughput": tokens, "request_throughput": 1.0, "request_goodput": good,
            "plimsoll": {"verdict": "stable",
                "intervals_95": {"output_throughput": [tokens - half, tokens + half]}},
        })
    };
    let runs = [run(100.0, 1.0, 5.0), run(200.0, 0.5, 5.0)];
    assert_eq!(first(&runs, None), "2 runs; most output 200 tok/s at rate = 1");
    assert_eq!(
        first(&runs, Some(0.99)),
        "2 runs; 1 misses the SLO; most output within it 100 tok/s at rate = 0"
    );
    let some_alike = [
        run(100.0, 1.0, 5.0),
        run(103.0, 1.0, 5.0),
        run(101.0, 0.2, 5.0),
        run(60.0, 0.0, 5.0),
    ];
    assert_eq!(
        first(&some_alike, Some(0.99)),
        "4 runs; 2 miss the SLO; output within it alike within noise, 100 to 103 tok/s"
    );
    assert_eq!(first(&runs[1..], Some(0.99)), "1 run; none meets the SLO");
    let mut open = runs.clone();
    open[1]["plimsoll"]["slo_decided"] = Value::Bool(false);
    assert_eq!(
        first(&open, Some(0.99)),
        "2 runs; 1 is too short for the SLO; most output surely within it 100 tok/s at rate = 0; most output \
         where the SLO is not decided 200 tok/s at rate = 1 (50.0 % good so far)"
    );
    assert_eq!(
        first(&open[1..], Some(0.99)),
        "1 run; 1 is too short for the SLO; most output where the SLO is not decided 200 tok/s at rate = 0 (50.0 % good so far)"
    );
    // What is not more than chance has it is not named.
    open[1]["output_throughput"] = 104.0.into();
    open[1]["plimsoll"]["intervals_95"]["output_throughput"] = serde_json::json!([99.0, 109.0]);
    let alike = first(&open, Some(0.99));
    assert!(
        alike.ends_with("surely within it 100 tok/s at rate = 0"),
        "{alike}"
    );
    let noise = [run(100.0, 1.0, 5.0), run(103.0, 1.0, 5.0)];
    assert_eq!(
        first(&noise, None),
        "2 runs; output alike within noise, 100 to 103 tok/s"
    );
    // Of a closed loop in lock-step hardly anything is known, and one still serves two and a half times as much.
    let wide = [run(2200.0, 1.0, 1700.0), run(5510.0, 1.0, 4000.0)];
    let told =
        "most output 5,510 tok/s at rate = 1, though the runs' intervals overlap: more prompts would tell";
    assert_eq!(first(&wide, None), format!("2 runs; {told}"));
    let told = told.replace("output", "output within the SLO");
    assert_eq!(first(&wide, Some(0.99)), format!("2 runs; {told}"));
    let mut open = wide.clone();
    (open.iter_mut()).for_each(|run| run["plimsoll"]["slo_decided"] = Value::Bool(false));
    let undecided = first(&open, Some(0.99));
    assert!(
        undecided.ends_with(
            "; most output where the SLO is not decided 5,510 tok/s at rate = 1, though the runs' intervals overlap: more prompts would \
             tell (100 % good so far)"
        ),
        "{undecided}"
    );
}

/// Their steady stretches have intervals, which say nothing of whole runs.
#[test]
fn whole_runs_that_hardly_differ_are_alike() {
    let first = |tokens: &[f64], may_keep: &[bool]| {
        let runs: Vec<Value> = (tokens.iter().zip(may_keep))
            .map(|(tokens, is_decided)| {
                serde_json::json!({
                    "output_throughput": tokens,
                    "plimsoll": {"verdict": "too_short", "slo_kept": true, "slo_decided": is_decided,
                        "intervals_95": {"output_throughput": [tokens - 300.0, tokens + 300.0]}},
                })
            })
            .collect();
        let settings: Vec<_> = (0..runs.len())
            .map(|at| [("chunk".to_owned(), at.to_string())])
            .collect();
        let row = |(run, settings)| SweepRow {
            of_whole: true,
            settings,
            run,
            attainment: None,
        };
        let settings = settings.iter().map(|one| &one[..]);
        answer(&runs.iter().zip(settings).map(row).collect::<Vec<_>>())
    };
    assert_eq!(
        first(&[825.84, 826.0, 825.9], &[true; 3]),
        "3 runs; output within the SLO alike within 1 %, about 826 tok/s"
    );
    assert_eq!(
        first(&[800.0, 826.0, 825.0], &[true; 3]),
        "3 runs; most output within the SLO 826 tok/s at chunk = 1 (1 other within 1 % of it)"
    );
    assert_eq!(
        first(&[825.84, 826.0], &[true, false]),
        "2 runs; 1 is too short for the SLO; most output surely within it 826 tok/s at chunk = 0"
    );
    assert_eq!(
        first(&[825.84, 826.0], &[false; 2]),
        "2 runs; 2 are too short for the SLO; output where the SLO is not decided alike within 1 %, about 826 tok/s (met so far)"
    );
}

/// Open loops serve what they are sent: what a short run of them serves more is chance, and how its last requests drain.
#[test]
fn none_is_crowned_by_so_few_requests() {
    let of = |tokens: &[f64], requests: u64, rate: Value, in_flight: Option<u64>| {
        let runs: Vec<Value> = (tokens.iter())
            .map(|tokens| {
                serde_json::json!({
                    "output_throughput": tokens, "request_rate": rate, "completed": requests,
                    "request_throughput": 1.9, "max_concurrency": in_flight,
                    "plimsoll": {"verdict": "finite"},
                })
            })
            .collect();
        let settings: Vec<_> = (0..runs.len())
            .map(|at| [("seqs".to_owned(), at.to_string())])
            .collect();
        let row = |(run, settings)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment: None,
        };
        let settings = settings.iter().map(|one| &one[..]);
        answer(&runs.iter().zip(settings).map(row).collect::<Vec<_>>())
    };
    let first = |tokens: &[f64], requests, rate| of(tokens, requests, rate, None);
    // A client that holds requests back and an engine in which they pile up serve what they can.
    let told = "2 runs; most output 397 tok/s at seqs = 1";
    assert_eq!(of(&[366.0, 397.0], 300, 2.0.into(), Some(8)), told);
    assert_eq!(first(&[366.0, 397.0], 300, 1000.0.into()), told);
    // 1.96 · √(2/300) = 16 %.
    assert_eq!(
        first(&[394.0, 366.0, 397.0], 300, 2.0.into()),
        "3 runs; which has the most output cannot be told from so few requests, 366 to 397 tok/s ± 16.0 %: a longer run tells"
    );
    assert_eq!(
        first(&[200.0, 366.0, 397.0], 300, 2.0.into()),
        "3 runs; most output 397 tok/s at seqs = 2 (1 other cannot be told from it by so few requests)"
    );
    // 0.88 % either way.
    let many = first(&[394.0, 366.0, 398.0], 100_000, 2.0.into());
    assert_eq!(
        many,
        "3 runs; most output 398 tok/s at seqs = 2 (1 other coincides with it within 0.877 %)"
    );
    assert_eq!(
        first(&[398.0, 398.0, 398.0], 100_000, 2.0.into()),
        "3 runs; output alike within 0.877 %, about 398 tok/s; latencies are not ranked: runs without a steady stretch have no \
         intervals"
    );
    // All at once they come as fast as they can.
    assert_eq!(
        first(&[394.0, 366.0, 397.0], 300, "inf".into()),
        "3 runs; most output 397 tok/s at seqs = 2 (1 other within 1 % of it)"
    );
}

#[test]
fn no_seed_is_crowned() {
    let run = |tokens: f64| {
        serde_json::json!({"output_throughput": tokens, "request_rate": 4.0, "plimsoll": {"verdict": "stable",
            "intervals_95": {"output_throughput": [tokens - 3.0, tokens + 3.0]}}})
    };
    let cell = |seed: &str, rate: &str| {
        vec![
            ("workload.seed".to_owned(), seed.to_owned()),
            ("request-rate".to_owned(), rate.to_owned()),
        ]
    };
    let cells = [cell("1", "4"), cell("2", "4"), cell("1", "8"), cell("2", "8")];
    let runs = [run(100.0), run(104.0), run(220.0), run(200.0)];
    let row = |(settings, run)| SweepRow {
        of_whole: false,
        settings,
        run,
        attainment: None,
    };
    let rows: Vec<SweepRow<'_>> = cells.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
    assert_eq!(
        answer(&rows),
        "4 runs; heaviest load carried: request-rate = 8, 210 tok/s, mean of 2 seeds"
    );
    // Seeds alone are one setting, which is like no other.
    let seeds: Vec<Vec<_>> = cells[..2].iter().map(|cell| cell[..1].to_vec()).collect();
    let rows: Vec<SweepRow<'_>> = seeds.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
    assert_eq!(answer(&rows), "2 runs; most output 102 tok/s, mean of 2 seeds");
    // Runs that say nothing of a seed are no seeds.
    let same = [cells[0][1..].to_vec(), cells[1][1..].to_vec()];
    let rows: Vec<SweepRow<'_>> = same.iter().map(Vec::as_slice).zip(&runs).map(row).collect();
    assert!(!answer(&rows).contains("seeds"), "{}", answer(&rows));
}

/// Rows with one axis each, named `rate`.
fn first(runs: &[Value], attainment: Option<f64>) -> String {
    let settings: Vec<_> = (0..runs.len())
        .map(|at| [("rate".to_owned(), at.to_string())])
        .collect();
    let rows: Vec<SweepRow<'_>> = (runs.iter().zip(&settings))
        .map(|(run, settings)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment,
        })
        .collect();
    answer(&rows)
}

/// Past saturation a run's output is what the engine can do, and its first tokens come after minutes.
#[test]
fn no_unstable_run_is_ranked_beside_a_stable_one() {
    let run = |verdict: &str, tokens: f64| {
        serde_json::json!({
            "output_throughput": tokens, "request_throughput": 1.0, "request_goodput": 1.0,
            "plimsoll": {"verdict": verdict,
                "intervals_95": {"output_throughput": [tokens - 4.0, tokens + 4.0]}},
        })
    };
    let (slow, fast, over) = (
        run("stable", 1240.0),
        run("stable", 5130.0),
        run("unstable", 6110.0),
    );
    assert_eq!(
        first(&[slow.clone(), fast, over.clone()], None),
        "3 runs; 1 is unstable; most output 5,130 tok/s at rate = 1"
    );
    // Nor is it one of those that are alike.
    let under = [
        run("unstable", 121.0),
        run("stable", 122.0),
        run("too_short", 126.0),
    ];
    assert_eq!(
        first(&under, None),
        "3 runs; 1 is unstable; output alike within noise, 122 to 126 tok/s"
    );
    assert_eq!(
        first(&under, Some(0.9)),
        "3 runs; 1 is unstable; output within the SLO alike within noise, 122 to 126 tok/s"
    );
    // Nothing else is known where all are; a server that answers nobody is no better.
    assert_eq!(
        first(
            &[run("no_answers", 0.0), run("unstable", 100.0), over.clone()],
            None
        ),
        "3 runs; 2 are unstable; most output 6,110 tok/s at rate = 2"
    );
    assert_eq!(
        first(&[over.clone(), over], Some(0.9)),
        "2 runs; 2 are unstable; none meets the SLO"
    );
    // Offline runs and closed loops have no steady state to miss.
    let finite = run("finite", 800.0);
    assert_eq!(
        first(&[slow, finite], None),
        "2 runs; most output 1,240 tok/s at rate = 0"
    );
}

#[test]
fn where_all_serve_what_is_offered_the_lowest_latencies_are_named() {
    let run = |tpot: f64, ttft: f64| {
        serde_json::json!({
            "output_throughput": 1000.0, "request_rate": 4.0,
            "median_tpot_ms": tpot, "median_ttft_ms": ttft,
            "plimsoll": {"verdict": "stable", "intervals_95": {
                "output_throughput": [960.0, 1040.0], "p50_tpot_ms": [tpot - 0.03, tpot + 0.03],
                "p50_ttft_ms": [ttft - 0.5, ttft + 0.5]}},
        })
    };
    let alike = "output alike within noise, about 1,000 tok/s";
    let drafts = [run(7.12, 32.5), run(4.95, 33.2), run(4.35, 35.0), run(4.9, 39.1)];
    assert_eq!(
        first(&drafts, None),
        format!(
            "4 runs; {alike}; lowest TPOT p50 4.35 ms at rate = 2; lowest TTFT p50 32.5 ms at rate = 0 (1 other within noise \
             of it)"
        )
    );
    assert_eq!(
        first(&[run(7.12, 32.5), run(4.95, 28.1)], None),
        format!("2 runs; {alike}; lowest TPOT p50 4.95 ms and TTFT p50 28.1 ms at rate = 1")
    );
    assert_eq!(
        first(&[run(7.12, 32.5), run(7.13, 32.1)], None),
        format!(
            "2 runs; {alike}; TPOT p50 alike within noise, 7.12 ms to 7.13 ms; TTFT p50 alike within noise, 32.1 ms to 32.5 ms"
        )
    );
    // Of a closed loop output is the answer, and of one figure without an interval nothing is known.
    for (key, value) in [
        ("max_concurrency", Value::from(8)),
        ("median_tpot_ms", 0.0.into()),
    ] {
        let mut other = drafts.to_vec();
        other.iter_mut().for_each(|run| run[key] = value.clone());
        assert!(!first(&other, None).contains("lowest TPOT"), "{key}");
    }
}

/// The first line of runs, each with what was set for it.
fn of_settings(runs: &[(Vec<(&str, &str)>, Value)], attainment: Option<f64>) -> String {
    let own = |(axis, value): &(&str, &str)| ((*axis).to_owned(), (*value).to_owned());
    let settings: Vec<Vec<(String, String)>> = (runs.iter())
        .map(|(labels, _)| labels.iter().map(own).collect())
        .collect();
    let rows: Vec<SweepRow<'_>> = (runs.iter().zip(&settings))
        .map(|((_, run), settings)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment,
        })
        .collect();
    answer(&rows)
}

/// A run of an open loop: tokens per second out and in all, and TPOT in ms.
fn open(verdict: &str, tokens: f64, all: f64, tpot: f64, good: f64) -> Value {
    serde_json::json!({
        "output_throughput": tokens, "input_throughput": all - tokens, "request_rate": 4.0,
        "request_throughput": 1.0, "request_goodput": good,
        "median_tpot_ms": tpot, "median_ttft_ms": 5.0 * tpot,
        "plimsoll": {"verdict": verdict, "intervals_95": {
            "output_throughput": [0.99 * tokens, 1.01 * tokens], "p50_tpot_ms": [0.99 * tpot, 1.01 * tpot],
            "p50_ttft_ms": [4.95 * tpot, 5.05 * tpot]}},
    })
}

#[test]
fn why_no_latency_is_ranked_is_said() {
    let short = |verdict: &str| {
        let mut run = open(verdict, 400.0, 2000.0, 7.0, 1.0);
        run["completed"] = 100_000.into();
        run["plimsoll"].as_object_mut().unwrap().remove("intervals_95");
        run
    };
    let why = "; latencies are not ranked: runs without a steady stretch have no intervals";
    for verdict in ["too_short", "finite"] {
        let told = first(&[short(verdict), short(verdict)], None);
        assert!(told.ends_with(why), "{told}");
    }
    // Of a closed loop output is the answer.
    let mut held = [short("finite"), short("finite")];
    (held.iter_mut()).for_each(|run| run["max_concurrency"] = 8.into());
    assert!(!first(&held, None).contains("ranked"), "{}", first(&held, None));
}
