//! Tables of sweeps: the answer first, what is told of cells, trust.

use super::*;

/// The usual table.
fn text(rows: &[SweepRow<'_>], width: Option<usize>) -> String {
    super::text(rows, &Columns::default(), width)
}

fn md(rows: &[SweepRow<'_>]) -> String {
    super::md(rows, &Columns::default())
}

#[test]
fn a_row_is_its_axes_and_its_plain_figures() {
    let run: Value = serde_json::from_str(
        r#"{"request_rate": "inf", "output_throughput": 12.5, "ttfts": [1], "plimsoll": {"verdict": "stable"}}"#,
    )
    .unwrap();
    let settings = [("gpu".to_owned(), "l40s, one".to_owned())];
    let rows = [SweepRow {
        of_whole: false,
        settings: &settings,
        run: &run,
        attainment: None,
    }];
    assert_eq!(
        csv(&rows, &Columns::default()),
        "gpu,output_throughput,request_rate,verdict\n\"l40s, one\",12.5,inf,stable\n"
    );
    assert!(text(&rows, None).starts_with("1 run; most output 12.5 tok/s at gpu = l40s, one\n"));
}

#[test]
fn every_part_is_told_as_little_trusted_as_in_any_run() {
    let run = |host: &str| {
        serde_json::json!({"output_throughput": 1.0, "plimsoll": {"verdict": "stable",
            "trust": {"gemm": "calibrated", "host": host}}})
    };
    let misfit = serde_json::json!({"plimsoll": {"verdict": "does_not_fit"}});
    let runs = [run("prior"), misfit, run("measured")];
    let settings = [("gpu".to_owned(), "l4".to_owned())];
    let row = |run| SweepRow {
        of_whole: false,
        settings: &settings,
        run,
        attainment: None,
    };
    let rows: Vec<SweepRow<'_>> = runs.iter().map(row).collect();
    let line = "trust, of all runs the least: ●●○ gemm calibrated   ●◐○ host prior\n";
    assert!(text(&rows, None).ends_with(line), "{}", text(&rows, None));
    assert!(md(&rows).ends_with(line), "{}", md(&rows));
    let one = text(&rows[..1], Some(100));
    assert!(
        one.ends_with("\ntrust: ●●○ gemm calibrated   ●◐○ host prior\n"),
        "{one}"
    );
}

#[test]
fn a_model_interval_is_two_columns_in_the_unit_of_its_figure() {
    let run: Value = serde_json::from_str(
        r#"{"p99_ttft_ms": 9.0, "plimsoll": {"verdict": "stable",
            "model_interval": {"p99_ttft_ms": {"factors_90": [0.75, 1.5], "sigma_ln": 0.2}}}}"#,
    )
    .unwrap();
    let settings = [("rate".to_owned(), "2".to_owned())];
    let row = |run| SweepRow {
        of_whole: false,
        settings: &settings,
        run,
        attainment: None,
    };
    assert_eq!(
        csv(&[row(&run), row(&Value::Null)], &Columns::default()),
        "rate,p99_ttft_ms,p99_ttft_ms_model_low,p99_ttft_ms_model_high,verdict\n2,9.0,6.75,13.5,stable\n2,,,,not_run\n"
    );
}

#[test]
fn a_cell_that_does_not_fit_is_a_row_without_figures_and_no_run() {
    let run = |tokens: f64, kept: bool| serde_json::json!({"output_throughput": tokens, "plimsoll": {"verdict": "stable", "slo_kept": kept}});
    let misfit = serde_json::json!({"plimsoll": {"verdict": "does_not_fit", "why": "needs 15.0 GiB"}});
    let cell = |gpu: &str| [("gpu".to_owned(), gpu.to_owned())];
    let cells = ["t4", "l4", "h100"].map(cell);
    let told = |kept: bool| {
        let runs = [misfit.clone(), run(100.0, kept), run(200.0, false)];
        let row = |(settings, run)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment: None,
        };
        let rows: Vec<SweepRow<'_>> = cells.iter().map(|cell| &cell[..]).zip(&runs).map(row).collect();
        (
            text(&rows, None),
            csv(&rows, &Columns::default()),
            none_keeps(&rows),
        )
    };
    let (table, lines, is_none) = told(true);
    assert!(
        table.starts_with(
            "2 runs; 1 cell does not fit; 1 misses the SLO; most output within it 100 tok/s at gpu = l4\n"
        ),
        "{table}"
    );
    assert!(table.contains("does not fit\n") && !is_none, "{table}");
    assert_eq!(
        lines,
        "gpu,output_throughput,slo,good_share,good_share_low,good_share_high,shares_of,verdict\n\
         t4,,,,,,,does_not_fit\nl4,100.0,kept,,,,whole,stable\nh100,200.0,broken,,,,whole,stable\n"
    );
    assert!(told(false).2, "no run keeps it");
}

#[test]
fn the_table_shows_the_steady_stretch_and_judges_the_promise_as_a_run_does() {
    // Over the whole run, ramp and all, 98 of 100 are good; the steady stretch meets the SLO.
    let whole = serde_json::json!({"duration_s": 100.0, "completed": 100, "request_goodput": 0.98, "request_throughput": 1.0});
    let steady = serde_json::json!({
        "duration_s": 50.0, "completed": 45, "timed_out": 5, "request_goodput": 0.9, "request_throughput": 0.9,
        "median_ttft_ms": 40.0, "p99_tpot_ms": 0.0,
    });
    let run = |kept: bool| {
        serde_json::json!({
            "output_throughput": 100.0, "request_throughput": 1.0, "request_goodput": 0.98, "median_ttft_ms": 70.0,
            "median_tpot_ms": 0.0, "p99_tpot_ms": 0.0,
            "plimsoll": {"verdict": "stable", "slo_kept": kept, "steady": steady, "whole": whole},
        })
    };
    let settings = [("seed".to_owned(), "0".to_owned())];
    let row = |run| SweepRow {
        of_whole: false,
        settings: &settings,
        run,
        attainment: Some(0.99),
    };
    let kept = run(true);
    let shown = text(&[row(&kept)], None);
    assert!(shown.starts_with("1 run; most output within the SLO"), "{shown}");
    // Of 50 that left 45 were answered, all of them well; and a gap that nobody sees is none of 0 ms.
    assert!(
        shown.contains("40.0 ms") && shown.contains("90.0 %") && !shown.contains(" 0 ms"),
        "{shown}"
    );
    let mut broken = run(false);
    broken["plimsoll"]["ended_by"] = "livelock".into();
    let shown = text(&[row(&broken)], None);
    assert!(shown.starts_with("1 run; none meets the SLO"), "{shown}");
    assert!(shown.contains(", ended by a livelock, misses the SLO"), "{shown}");
}

#[test]
fn a_run_that_was_not_made_is_marked_and_quotes_nothing() {
    let run: Value =
        serde_json::from_str(r#"{"output_throughput": 12.5, "plimsoll": {"verdict": "stable"}}"#).unwrap();
    let settings = ["2", "4"].map(|rate| [("request-rate".to_owned(), rate.to_owned())]);
    let rows = [
        SweepRow {
            of_whole: false,
            settings: &settings[0],
            run: &Value::Null,
            attainment: None,
        },
        SweepRow {
            of_whole: false,
            settings: &settings[1],
            run: &run,
            attainment: None,
        },
    ];
    assert_eq!(
        csv(&rows, &Columns::default()),
        "request-rate,output_throughput,verdict\n2,,not_run\n4,12.5,stable\n"
    );
    let table = text(&rows, Some(60));
    assert!(
        table.starts_with(
            "INTERRUPTED: 1 of 2 runs finished; most output 12.5 tok/s at\n  request-rate = 4\n"
        )
    );
    assert!(
        table.lines().skip(1).all(|line| line.chars().count() <= 60),
        "{table}"
    );
}

#[test]
fn gaps_are_told_where_they_are_limited_and_hits_where_there_are_any() {
    let run = |hits: f64, limits: serde_json::Value| {
        let stretch = serde_json::json!({
            "completed": 10, "p99_itl_ms": 87.5, "cache_queries_tokens": 200.0, "cache_hit_tokens": hits,
        });
        serde_json::json!({
            "output_throughput": 100.0, "request_throughput": 1.0,
            "plimsoll": {"verdict": "stable", "whole": stretch, "percentile_limits_s": limits},
        })
    };
    let settings = [("chunk".to_owned(), "512".to_owned())];
    let row = |run| SweepRow {
        of_whole: false,
        settings: &settings,
        run,
        attainment: None,
    };
    let with_both = run(50.0, serde_json::json!({"p99_itl": 0.1}));
    let shown = text(&[row(&with_both)], None);
    for said in ["ITL p99", "87.5 ms", "hits", "25.0 %"] {
        assert!(shown.contains(said), "{said}\n{shown}");
    }
    let table = csv(&[row(&with_both)], &Columns::default());
    assert!(
        table.contains("prefix_cache_hit_rate") && table.contains("0.25"),
        "{table}"
    );
    let without = run(0.0, serde_json::json!({"p99_ttft": 0.1}));
    let shown = text(&[row(&without)], None) + &csv(&[row(&without)], &Columns::default());
    assert!(!shown.contains("ITL") && !shown.contains("hit"), "{shown}");
}

#[test]
fn a_promise_that_only_a_longer_run_decides_is_told_so() {
    let state = |verdict: &str, kept: bool, decided: bool| {
        let run = serde_json::json!({
            "plimsoll": {"verdict": verdict, "slo_kept": kept, "slo_decided": decided},
        });
        let row = SweepRow {
            of_whole: false,
            settings: &[],
            run: &run,
            attainment: None,
        };
        row.state()
    };
    assert_eq!(state("stable", true, true), "stable");
    assert_eq!(state("stable", true, false), "stable, too short for the SLO");
    assert_eq!(state("stable", false, false), "stable, too short for the SLO");
    assert_eq!(state("stable", false, true), "stable, misses the SLO");
    assert_eq!(state("too_short", true, false), "too short, SLO not decided");
}

/// A file says what became of the promise, and of what the shares in it are.
#[test]
fn a_file_has_the_promise_and_the_share_with_its_interval() {
    let stretch = |good: f64, hits: u64| {
        serde_json::json!({"request_throughput": 8.0, "request_goodput": good,
        "cache_queries_tokens": 200, "cache_hit_tokens": hits})
    };
    let run = |verdict: &str, decided: bool, steady: Value| {
        serde_json::json!({
            "request_throughput": 10.0, "request_goodput": 9.0,
            "plimsoll": {"verdict": verdict, "slo_kept": true, "slo_decided": decided, "steady": steady, "whole": stretch(1.0, 50),
                "intervals_95": {"attainment": [0.75, 1.0]}},
        })
    };
    let runs = [
        run("stable", true, stretch(8.0, 100)),
        run("critical", false, stretch(8.0, 100)),
        run("unstable", true, Value::Null),
        Value::Null,
    ];
    let settings = [("rate".to_owned(), "2".to_owned())];
    let row = |run| SweepRow {
        of_whole: false,
        settings: &settings,
        run,
        attainment: None,
    };
    let mut rows: Vec<SweepRow<'_>> = runs.iter().map(row).collect();
    assert_eq!(
        csv(&rows, &Columns::default()),
        "rate,request_goodput,request_throughput,prefix_cache_hit_rate,slo,good_share,good_share_low,good_share_high,shares_of,verdict\n\
         2,9.0,10.0,0.5,kept,1,0.75,1,steady,stable\n\
         2,9.0,10.0,0.5,not_decided,1,0.75,1,steady,critical\n\
         2,9.0,10.0,0.25,kept,0.9,0.75,1,whole,unstable\n\
         2,,,,,,,,,not_run\n"
    );
    rows[0].of_whole = true;
    assert!(
        csv(&rows, &Columns::default()).contains("\n2,9.0,10.0,0.25,kept,0.9,,,whole,stable\n"),
        "{}",
        csv(&rows, &Columns::default())
    );
}

/// Of two runs on the same arrivals the stable one would show more requests a second than it was sent.
#[test]
fn runs_beside_one_that_is_too_short_are_told_as_a_whole() {
    let run = |verdict: &str, steady: Value| {
        serde_json::json!({
            "request_throughput": 3.9, "output_throughput": 500.0, "completed": 150,
            "plimsoll": {"verdict": verdict, "steady": steady, "whole": {}, "intervals_95": {"output_throughput": [550.0, 560.0]}},
        })
    };
    let runs = [
        run("too_short", Value::Null),
        run(
            "stable",
            serde_json::json!({"request_throughput": 4.4, "output_throughput": 558.0}),
        ),
    ];
    let settings = [("gpu".to_owned(), "a".to_owned())];
    let rows = |runs: &[Value]| -> Vec<Option<f64>> {
        let row = |run| SweepRow {
            settings: &settings,
            run,
            attainment: None,
            of_whole: false,
        };
        let rows = alike(runs.iter().map(row).collect());
        rows.iter().map(|row| row.figure("request_throughput")).collect()
    };
    assert_eq!(rows(&runs), [Some(3.9), Some(3.9)]);
    assert_eq!(rows(&runs[1..]), [Some(4.4)]);
}

/// Replicas that come and go, or cards of several prices: what a cell costs is part of its answer.
#[test]
fn costs_stand_in_csv_always_and_in_the_table_where_they_differ() {
    let run = |usd_per_hour: f64, scales: bool| {
        let mut run = serde_json::json!({"output_throughput": 1000.0, "plimsoll": {"verdict": "finite",
            "cost": {"usd_per_hour": usd_per_hour, "usd_per_million_output_tokens": usd_per_hour / 3.6}}});
        if scales {
            run["plimsoll"]["scaling"] = serde_json::json!({"replica_hours": 1.25});
        }
        run
    };
    let settings = [
        [("target".to_owned(), "8".to_owned())],
        [("target".to_owned(), "16".to_owned())],
    ];
    let shown = |runs: &[Value]| {
        let row = |(run, settings)| SweepRow {
            of_whole: false,
            settings,
            run,
            attainment: None,
        };
        let rows: Vec<SweepRow<'_>> = runs
            .iter()
            .zip(settings.iter().map(|one| &one[..]))
            .map(row)
            .collect();
        (text(&rows, None), csv(&rows, &Columns::default()))
    };
    let (table, file) = shown(&[run(2.99, false), run(2.99, false)]);
    assert!(!table.contains("$/h"), "{table}");
    let head = file.lines().next().unwrap();
    assert_eq!(
        head,
        "target,output_throughput,usd_per_hour,usd_per_million_output_tokens,verdict"
    );
    assert!(file.contains(",2.99,0.830"), "{file}");
    let (table, _) = shown(&[run(2.99, false), run(5.98, false)]);
    assert!(
        table.contains("$/h  $/M out") && table.contains("2.99     0.83"),
        "{table}"
    );
    assert!(table.contains("; cheapest 2.99 $/h at target = 8"), "{table}");
    let (table, file) = shown(&[run(2.99, true), run(2.99, true)]);
    assert!(table.contains("replica-h   $/h  $/M out"), "{table}");
    assert!(file.contains("replica_hours,usd_per_hour"), "{file}");
}

/// What a request finds in its GPU's cache says little of a run whose host keeps the rest.
#[test]
fn what_tiers_of_kv_brought_is_found_too() {
    let run = serde_json::json!({"output_throughput": 1.0, "plimsoll": {"verdict": "stable",
        "whole": {"cache_queries_tokens": 1000, "cache_hit_tokens": 630},
        "kv_tiers": {"asked_tokens": 1000, "local_tokens": 633, "host": {"served_tokens": 307},
            "disk": {"served_tokens": 0}}}});
    let settings = [("size".to_owned(), "100".to_owned())];
    let rows = [SweepRow {
        of_whole: false,
        settings: &settings,
        run: &run,
        attainment: None,
    }];
    let shown = text(&rows, None);
    assert!(
        shown.contains("hits   found") && shown.contains("63.0 %  94.0 %"),
        "{shown}"
    );
    assert!(
        csv(&rows, &Columns::default()).contains("prefix_cache_hit_rate,found_anywhere,"),
        "{}",
        csv(&rows, &Columns::default())
    );
}
