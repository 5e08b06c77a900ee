//! Ways to share GPUs out, as printed.

use super::*;
use crate::analysis::knee::Statistic;
use crate::metrics::Metric;

const P99_TTFT: First = First::Promise(Metric::Ttft, Statistic::Quantile(0.99));
const P99_TPOT: First = First::Promise(Metric::Tpot, Statistic::Quantile(0.99));

fn row(split: Option<(u32, u32)>, rate: f64, breaks: First) -> SplitRow {
    let estimate = Estimate {
        value: rate,
        low: rate * 0.95,
        high: rate * 1.05,
    };
    SplitRow {
        split,
        within_slo: (rate > 0.0).then_some(estimate),
        saturation: None,
        breaks: Some(breaks),
        busy: Some((0.5, 0.9)),
        transfer_share: split.map(|_| 0.125),
        costs: Some(Costs {
            prompt_tokens: 1000.0,
            prompt_s: split.map(|_| 0.1),
            output_tokens: 200.0,
            tpot_s: 0.01,
            itl_s: [0.01, 0.05],
            transfer: split.map(|_| (268_435_456.0, 0.0012)),
        }),
        usd_per_hour: Some(12.0),
        usd_by_pool: Vec::new(),
        bound: None,
    }
}

fn splits(rows: Vec<SplitRow>) -> Splits {
    Splits {
        missing: 0,
        gpus: 4,
        replicas: 4,
        promises: "p99 TPOT ≤ 50 ms".to_owned(),
        rows,
        price_source: String::new(),
        subject: "a model".to_owned(),
        scenario: None,
        seed: 0,
        explains: false,
    }
}

#[test]
fn the_first_line_and_the_reason_follow_the_rates() {
    let all = |both| {
        splits(vec![
            row(Some((1, 3)), 10.0, P99_TTFT),
            row(Some((2, 2)), 12.0, P99_TTFT),
            row(None, both, P99_TPOT),
        ])
    };
    let first = |both| text(&all(both)).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first(8.0),
        "4 GPUs: APART HELPS by 50.0 %: 2 prefill + 2 decode 12.0 req/s, all 4 doing both 8.00 req/s"
    );
    assert_eq!(
        first(16.0),
        "4 GPUs: APART HURTS by 25.0 %: 2 prefill + 2 decode 12.0 req/s, all 4 doing both 16.0 req/s"
    );
    assert!(text(&all(8.0)).contains("where all do both, p99 TPOT breaks first"));
    assert!(text(&all(8.0)).lines().all(|line| line.chars().count() <= 110));
    let mut prefill = all(16.0);
    prefill.rows[1].busy = Some((0.8, 0.9));
    assert!(text(&prefill).contains("at 2:2 the prefill pool is the limit, busy 80.0 % where p99 TTFT"));
    // Half of the time it waits for prompts, and a late first token is not its.
    assert!(text(&all(16.0)).contains("at 2:2 the prefill pool is busy only 50.0 %"));
    // A decode pool at its limit leaves the other's time unused.
    let mut decode = all(16.0);
    decode.rows[1].breaks = Some(P99_TPOT);
    assert!(text(&decode).contains("the prefill pool is busy only 50.0 %"));
    assert_eq!(
        first(11.5),
        "4 GPUs: NOT DECIDED whether apart is better, the intervals overlap: 2 prefill + 2 decode 12.0 req/s, all 4 \
         doing both 11.5 req/s"
    );
    assert!(first(0.0).contains("only apart is the SLO met"));
    let none = splits(vec![
        row(Some((1, 3)), 0.0, First::Saturation),
        row(None, 0.0, First::Saturation),
    ]);
    assert!(!none.is_kept());
    assert!(
        text(&none).starts_with("NO RATE") && !text(&none).contains('▶'),
        "none is best"
    );
}

/// 12 $ an hour of 12 requests a second with 200 tokens are 12 $ for 8.64 million.
#[test]
fn a_way_costs_what_its_gpus_do_at_its_rate() {
    let all = splits(vec![
        row(Some((2, 2)), 12.0, P99_TTFT),
        row(None, 0.0, First::Saturation),
    ]);
    assert!((all.rows[0].usd_per_million_output_tokens().unwrap() - 12.0 / 8.64).abs() < 1e-12);
    assert_eq!(
        all.rows[1].usd_per_million_output_tokens(),
        None,
        "no rate is kept"
    );
    let (text, csv) = (text(&all), csv(&all));
    assert!(text.contains("    1.39  p99 TTFT"), "{text}");
    assert!(csv.lines().nth(1).unwrap().contains(",12,1.388"), "{csv}");
}

#[test]
fn a_way_that_cannot_win_says_so_and_the_arithmetic_adds_up() {
    let pruned = SplitRow {
        bound: Some(5.0),
        breaks: None,
        ..row(Some((1, 3)), 0.0, First::Saturation)
    };
    let mut all = splits(vec![
        pruned,
        row(Some((2, 2)), 12.0, P99_TTFT),
        row(None, 8.0, P99_TPOT),
    ]);
    all.explains = true;
    let text = text(&all);
    assert!(text.contains("≤ 5.00"), "{text}");
    // Broken into lines somewhere.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("12.0 req/s × 100 ms of prompt = 1.20 prefill replicas at work of 2"),
        "{text}"
    );
    assert!(
        words.contains("12.0 req/s × 200 tokens × 10.0 ms TPOT / 2 = 12.0 sequences"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(csv(&all).lines().nth(1).is_some_and(|line| line.contains(",5,")));
}
