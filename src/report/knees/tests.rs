//! Rankings of invented searches, by arithmetic that can be done by hand.

use super::super::fixtures;
use super::*;
use crate::report::Sizing;

/// A setting that takes so much within the promise, known within a tenth by chance; its model's doubt is a factor either way.
fn row(gpu: &str, knee: f64, doubt: f64, usd_per_hour: Option<f64>) -> KneeRow {
    let reach = f64::ln(doubt);
    let model = FigureInterval {
        name: "knee",
        sigma_ln: reach / 1.645,
        reach_ln: (reach, reach),
        parts: Vec::new(),
    };
    let view = KneeView {
        knee: Some(Estimate {
            value: knee,
            low: knee / 1.1,
            high: knee * 1.1,
        }),
        model: Some(model),
        ..fixtures::knee_view()
    };
    KneeRow {
        labels: vec![("gpu".to_owned(), gpu.to_owned())],
        found: Found::Knee(Box::new(Priced {
            view,
            gpus: 2,
            usd_per_hour,
            output_tokens_per_s: Some(100.0 * knee),
        })),
    }
}

fn knees(rows: Vec<KneeRow>) -> Knees {
    Knees {
        subject: "Llama-3.1-8B-Instruct".to_owned(),
        rows,
        price_source: "assumed list prices, $ per GPU-hour: a 1.80 (2025-10-01)".to_owned(),
    }
}

/// 3.6 dollars buy an hour of 1,000 output tokens a second, 3.6 million.
#[test]
fn a_million_tokens_cost_what_an_hour_at_the_knee_does() {
    let all = row("a", 10.0, 1.0, Some(3.6));
    let priced = all.priced().unwrap();
    assert!((priced.usd_per_million_output_tokens().unwrap() - 1.0).abs() < 1e-12);
    let (low, high) = priced.cost_range();
    assert!((low - 1.0 / 1.1).abs() < 1e-12 && (high - 1.1).abs() < 1e-12);
    // Two independent factors of 1.1 are one of exp(√2·ln 1.1) = 1.144.
    let doubted = row("a", 10.0, 1.1, Some(3.6));
    let (low, high) = doubted.priced().unwrap().cost_range();
    assert!((high - 1.1443).abs() < 1e-4 && (low * high - 1.0).abs() < 1e-12);
    let mut unknown = doubted.priced().unwrap().clone();
    unknown.view.model = None;
    assert_eq!(unknown.cost_range(), (0.0, f64::INFINITY));
}

#[test]
fn the_cheapest_is_named_with_those_that_may_be_as_cheap() {
    let told = |rows| text(&knees(rows), None).lines().next().unwrap().to_owned();
    let three = |doubt| {
        vec![
            row("a", 10.0, doubt, Some(3.6)),
            row("b", 40.0, doubt, Some(7.2)),
            row("c", 5.0, doubt, Some(7.2)),
        ]
    };
    assert_eq!(
        told(three(1.0)),
        "cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h)"
    );
    assert_eq!(
        told(three(1.6)),
        "cheapest within the SLO: gpu = b, 0.50 $/M output tokens (40.0 req/s on 2 GPUs, 7.20 $/h); \
         gpu = a cannot be told from it"
    );
    let dear = vec![row("a", 10.0, 1.0, Some(1.0)), row("b", 40.0, 1.0, Some(99.0))];
    assert_eq!(
        told(dear),
        "cheapest within the SLO: gpu = a, 0.28 $/M output tokens (10.0 req/s on 2 GPUs, 1.00 $/h); \
         most req/s: gpu = b, 40.0"
    );
    let unpriced = vec![row("a", 10.0, 1.0, None), row("b", 40.0, 1.0, None)];
    assert_eq!(told(unpriced), "most req/s within the SLO: gpu = b, 40.0");
    let cut = vec![
        row("a", 10.0, 1.0, None),
        KneeRow {
            found: Found::NotRun,
            ..row("b", 1.0, 1.0, None)
        },
    ];
    assert_eq!(
        told(cut),
        "INTERRUPTED after 1 of 2 settings: most req/s within the SLO: gpu = a, 10.0"
    );
}

/// A replica of two cards takes 24.2 of 40 req/s.
#[test]
fn fleets_are_ranked_by_the_hour() {
    let sized = |gpu: &str, usd: f64| {
        let mut row = row(gpu, 24.2, 1.0, Some(2.0 * usd));
        let Found::Knee(priced) = &mut row.found else {
            unreachable!("it was searched")
        };
        let mut asked: Sizing = fixtures::sizing();
        let fleet = asked.fleet.as_mut().unwrap();
        fleet.usd_per_hour = Some(usd * fleet.gpus as f64);
        priced.view.sizing = Some(asked);
        row
    };
    let told = text(&knees(vec![sized("a", 3.0), sized("b", 2.0)]), None);
    let first = told.lines().next().unwrap();
    assert!(
        first.starts_with("cheapest for 40.0 req/s: gpu = b, 8.00 $/h (2 replicas, 4 GPUs, "),
        "{first}"
    );
}

#[test]
fn what_does_not_fit_is_a_row_with_its_reason() {
    let misfit = KneeRow {
        found: Found::DoesNotFit("needs 131.4 GiB".to_owned()),
        ..row("t4", 1.0, 1.0, None)
    };
    let mixed = knees(vec![row("a", 10.0, 1.0, Some(3.6)), misfit.clone()]);
    let table = text(&mixed, None);
    assert!(
        table.contains("gpu = t4 does not fit: needs 131.4 GiB"),
        "{table}"
    );
    let rows: Vec<Vec<String>> = csv_rows(&csv(&mixed));
    assert_eq!(rows[1].len(), rows[2].len());
    assert_eq!(rows[2][rows[2].len() - 2..], ["does_not_fit", "needs 131.4 GiB"]);
    let none = knees(vec![misfit]);
    assert!(text(&none, None).starts_with("NO SETTING fits\n"));
    assert!(!none.is_any_kept());
}

fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    let rows = reader
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect());
    rows.collect()
}
