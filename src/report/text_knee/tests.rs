//! What a knee prints, of invented searches.

use insta::assert_snapshot;

use super::super::fixtures;
use super::*;

#[test]
fn a_knee_search_reads_from_answer_to_curve() {
    assert_snapshot!(knee(&fixtures::knee_view(), Style::default()), @r"
    24.2 req/s within SLO  (95 % [22.9, 25.3])   saturates at 27.6 req/s (95 % [26.1, 29.0])
      SLO         99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
      limited by  prefill compute (91 % of roof at the knee)
      simulated   Llama-3.1-8B-Instruct on H100-SXM-80GB
      trust       ●●○ decode calibrated   ●○○ prefill roofline only
      assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

       req/s  attain  TTFT p50      p99  TPOT p50      p99  running      KV  state
        4.00   100 %   28.0 ms  61.0 ms   7.00 ms  8.60 ms     4.00  1.00 %  stable
        8.00   100 %   31.0 ms  88.0 ms   7.40 ms  9.90 ms     8.00  2.00 %  stable
        16.0  99.9 %   44.0 ms   171 ms   11.0 ms  16.2 ms     23.0  5.75 %  stable
        22.0  99.6 %   78.0 ms   362 ms   15.9 ms  27.0 ms     45.0  11.2 %  stable
      ▶ 24.2  99.0 %    112 ms   498 ms   18.8 ms  33.1 ms     60.0  15.0 %  stable, SLO knee
        26.0  75.8 %    340 ms   2.10 s   24.1 ms  41.7 ms     74.0  18.5 %  critical: ±33.3 %
        28.0       –         –        –         –        –        –       –  UNSTABLE: backlog grows 0.400 req/s

      p99 TTFT │                                                      ┊  ▃▆█
         (log) │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▁▁▂▂▃▄▅████┄┄┄┄ SLO 500 ms
               │                             ▁▁▁▂▂▂▂▃▃▄▄▅▅▆▆▆▇▇█████████████
               │         ▂▃▃▃▄▄▄▅▅▅▆▆▆▆▇▇▇██████████████████████████████████
               └──────────────────────────────────────────────────────▲───────── req/s
                0                                                   24.2     28.0
    ");
}

#[test]
fn a_search_that_finds_nothing_says_so() {
    let mut view = fixtures::knee_view();
    (view.knee, view.saturation) = (None, None);
    view.points.drain(..6);
    assert_snapshot!(knee(&view, Style::default()), @r"
    NO RATE meets the SLO
      SLO         99.0 % of requests with TTFT ≤ 500 ms and TPOT ≤ 50.0 ms
      limited by  prefill compute (91 % of roof at the knee)
      simulated   Llama-3.1-8B-Instruct on H100-SXM-80GB
      trust       ●●○ decode calibrated   ●○○ prefill roofline only
      assumed     gpu_memory_utilization 0.92 (default of vllm@0.33)

      req/s  attain  TTFT p50  p99  TPOT p50  p99  running  KV  state
       28.0       –         –    –         –    –        –   –  UNSTABLE: backlog grows 0.400 req/s
    ");
    view.points.clear();
    assert_snapshot!(answer(&view), @"NO RATE meets the SLO");
    view.limits.clear();
    assert_snapshot!(answer(&view), @"no SLO given and no saturation found");
}

#[test]
fn rates_that_were_left_out_are_not_said_to_miss_the_promise() {
    let mut view = fixtures::knee_view();
    view.knee = None;
    view.points.drain(..6);
    view.min_rate = Some(28.0);
    view.saturation = Some(Estimate {
        value: 27.6,
        low: 0.0,
        high: 28.0,
    });
    assert_snapshot!(answer(&view), @"NO RATE from 28.0 req/s up meets the SLO   saturates below 28.0 req/s");
    view.min_rate = Some(2.0);
    assert!(answer(&view).starts_with("NO RATE meets"));
}

#[test]
fn what_must_be_known_of_the_search_stands_apart_from_what_was_assumed() {
    let mut view = fixtures::knee_view();
    view.model_unknown = Some("no SLO is missed".to_owned());
    view.notes = vec!["the search ran out of runs".to_owned()];
    let printed = knee(&view, Style::default());
    let lines = "  model ±     not known: no SLO is missed\n  note        the search ran out of runs\n  assumed     gpu";
    assert!(printed.contains(lines), "{printed}");
}

#[test]
fn a_promised_percentile_is_printed_and_has_its_columns() {
    let mut view = fixtures::knee_view();
    view.limits.clear();
    view.promises = vec![Promise {
        metric: "itl".into(),
        percentile: Some(99.0),
        limit_s: 0.1,
    }];
    let printed = knee(&view, Style::default());
    assert!(
        printed.contains("\n  SLO         ITL p99 ≤ 100 ms\n"),
        "{printed}"
    );
    assert!(printed.contains("TPOT p50      p99  ITL p50"), "{printed}");
    view.knee = None;
    assert!(answer(&view).starts_with("NO RATE meets the SLO"));
}

#[test]
fn a_search_that_was_stopped_claims_no_more_than_it_tried() {
    let mut view = fixtures::knee_view();
    view.is_interrupted = true;
    view.knee = None;
    assert_eq!(
        answer(&view),
        "INTERRUPTED after 7 rates, none of which met the SLO"
    );
    view.points.clear();
    assert_eq!(answer(&view), "INTERRUPTED before any rate was simulated");
}

#[test]
fn what_follows_from_a_search_may_be_cut_short_and_the_first_line_says_so() {
    let mut view = fixtures::knee_view();
    view.is_cut_after = true;
    let first = |view: &KneeView| {
        let printed = knee(view, Style::default());
        printed.lines().next().unwrap().to_owned()
    };
    assert!(first(&view).starts_with("INTERRUPTED after the search: 24.2 req/s within SLO"));
    assert!(super::super::csv::knee(&view).contains("\n,interrupted,"));
    let json = super::super::json::knee(&view);
    assert!(
        json.contains(r#""interrupted": true, "interrupted_after_search": true"#),
        "{json}"
    );
    view.sizing = Some(fixtures::sizing());
    assert!(first(&view).starts_with("INTERRUPTED: 2 replicas for 40.0 req/s"));
    assert!(answer(&view).starts_with("24.2 req/s within SLO"));
    assert!(knee_markdown(&view).starts_with("**INTERRUPTED: 2 replicas"));
    let sizing = view.sizing.as_mut().unwrap();
    (sizing.fleet, sizing.counted) = (None, None);
    assert!(
        first(&view).starts_with(
            "INTERRUPTED before replicas were counted for 40.0 req/s; of one: 24.2 req/s within SLO"
        ),
        "{}",
        first(&view)
    );
}

#[test]
fn the_plateau_of_a_client_is_the_answer_and_no_knee() {
    use crate::analysis::knee::ClientLimit;
    let mut view = fixtures::knee_view();
    let rate = view.saturation.take().unwrap();
    view.max_concurrency = Some(16);
    view.client = Some(ClientLimit {
        rate,
        is_within: false,
    });
    assert_snapshot!(answer(&view), @"24.2 req/s within SLO  (95 % [22.9, 25.3])   16 in flight push at most 27.6 req/s (95 % [26.1, 29.0])");
    view.knee = None;
    assert_snapshot!(answer(&view), @"NO RATE meets the SLO   16 in flight push at most 27.6 req/s (95 % [26.1, 29.0])");
    view.client = Some(ClientLimit {
        rate,
        is_within: true,
    });
    assert_snapshot!(answer(&view), @"THE CLIENT IS THE LIMIT: 16 in flight push at most 27.6 req/s (95 % [26.1, 29.0]), within SLO");
}

#[test]
fn the_small_curve_says_why_no_promise_to_a_class_stands_in_it() {
    let mut view = fixtures::knee_view();
    let limits = std::mem::take(&mut view.limits);
    view.classes = vec![crate::report::ClassPromise {
        name: "chat".into(),
        request_rate: None,
        limits,
    }];
    let printed = knee(&view, Style::default());
    assert!(
        printed.ends_with("\n            of all requests; each SLO is of a class, and has no line here\n"),
        "{printed}"
    );
}

#[test]
fn markdown_has_the_same_rows() {
    let text = knee_markdown(&fixtures::knee_view());
    assert_eq!(
        text.lines().filter(|line| line.starts_with('|')).count(),
        2 + 7,
        "{text}"
    );
}

/// Its run from an empty system saw no more than a lower bound of what a longer one would see.
#[test]
fn what_may_be_past_saturation_is_quoted_as_a_bound() {
    let mut view = fixtures::knee_view();
    let critical = &mut view.points[5];
    let known = critical.p99_ttft.as_mut().unwrap();
    known.high = f64::INFINITY;
    let told = knee(&view, Style::default());
    let row = told
        .lines()
        .find(|line| line.trim_start().starts_with("26.0"))
        .unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "26.0 ≤ 75.8 % ≥ 340 ms ≥ 2.10 s ≥ 24.1 ms ≥ 41.7 ms 74.0 18.5 % critical: may be past saturation"
    );
    let csv = crate::report::csv::knee(&view);
    let row = csv.lines().find(|line| line.starts_with("26,")).unwrap();
    assert!(row.contains(",2100,1400,,"), "no upper end: {row}");
}

#[test]
fn answers_that_the_context_cuts_stand_before_the_rate() {
    let view = KneeView {
        answers_cut: 0.956,
        ..fixtures::knee_view()
    };
    assert!(answer(&view).starts_with(
        "ANSWERS CUT: 95.6 % of their tokens are beyond the engine's context; 24.2 req/s within SLO"
    ));
}

#[test]
fn a_burst_is_not_called_a_rate() {
    let view = |lasts_s: f64| KneeView {
        sending: Some(Sending {
            rate: 706.0,
            requests: 30,
            lasts_s,
            stay_s: 2.0,
        }),
        ..fixtures::knee_view()
    };
    assert!(
        answer(&view(0.0425))
            .starts_with("A BURST, NO RATE: 30 requests within 42.5 ms; 24.2 req/s within SLO")
    );
    assert!(answer(&view(2.5)).starts_with("24.2 req/s within SLO"));
}
