use super::*;
use crate::analysis::knee::{Binding, Statistic};
use crate::analysis::{Estimate, Verdict};
use crate::metrics::Metric;
use crate::report::knee_limit::tests::tried as point_at;
use crate::report::{KneeContext, KneeView, Promise, Sought, json};

fn point(rate: f64, slack: (f64, f64, f64)) -> Point {
    let mut point = point_at(rate, Verdict::Stable);
    let (low, value, high) = slack;
    point.slack = Some(Estimate { value, low, high });
    point.output_tokens_per_s = Some(100.0 * rate);
    point.tokens_each = Some((300.0, 100.0));
    point
}

fn view(tried: Vec<(u64, Point)>, ending: InFlightEnding) -> InFlightView {
    let found = InFlight { ending, tried };
    let context = KneeContext {
        promises: vec![Promise {
            metric: "ttft".to_owned(),
            percentile: Some(99.0),
            limit_s: 0.5,
        }],
        subject: "a model on a card".to_owned(),
        ..KneeContext::default()
    };
    InFlightView {
        knee: KneeView::of_loop(&found, Sought::InFlight, context),
        found,
    }
}

const KEPT: (f64, f64, f64) = (0.1, 0.2, 0.3);
const BROKEN: (f64, f64, f64) = (-0.3, -0.2, -0.1);

fn found() -> InFlightView {
    let ending = InFlightEnding::Found {
        most: 23,
        surely: Some(21),
        at_most: Some(25),
    };
    let mut beyond = point(14.8, BROKEN);
    beyond.binding = Some(Binding {
        metric: Metric::Ttft,
        statistic: Statistic::Quantile(0.99),
        value_s: 0.512,
        limit_s: 0.5,
        class: None,
        queue: None,
        stages: None,
    });
    view(vec![(23, point(14.6, KEPT)), (24, beyond)], ending)
}

#[test]
fn the_answer_stands_first_with_its_interval_and_what_is_served() {
    let view = found();
    let told = text(&view, Style::default());
    let first = told.lines().next();
    let expected = "23 in flight within SLO  (95 % [21, 25])   14.6 req/s, 1,460 output tok/s";
    assert_eq!(first, Some(expected), "{told}");
    assert!(told.contains("▶ 23") && told.contains("not met"), "{told}");
    assert!(md(&view).starts_with(&format!("**{expected}**\n")));
    assert_eq!(view.tokens_per_s(), Some((14.6 * 300.0, 14.6 * 100.0)));
}

#[test]
fn what_breaks_first_is_told_with_its_number() {
    let view = found();
    let told = view.knee.limited_by;
    let expected = "TTFT p99, which is beyond its limit first (512 ms of 500 ms with 24 in flight): ";
    assert!(
        told.as_ref().is_some_and(|told| told.starts_with(expected)),
        "{told:?}"
    );
}

#[test]
fn a_search_without_an_answer_says_why() {
    let first = |ending, is_interrupted| {
        let mut view = view(vec![(1, point(2.0, BROKEN))], ending);
        view.knee.is_interrupted = is_interrupted;
        text(&view, Style::default()).lines().next().map(str::to_owned)
    };
    let told = first(InFlightEnding::None, false);
    assert_eq!(
        told.as_deref(),
        Some("NOT EVEN ONE request in flight meets the SLO")
    );
    let cut = first(InFlightEnding::Stopped, true);
    let expected = "INTERRUPTED before it was known how many in flight meet the SLO";
    assert_eq!(cut.as_deref(), Some(expected));
    let all = view(vec![(64, point(9.0, KEPT))], InFlightEnding::Unbounded(64));
    let told = text(&all, Style::default());
    assert!(
        told.starts_with("64 in flight within SLO  and no SLO is missed with more   9.00 req/s"),
        "{told}"
    );
}

#[test]
fn files_hold_every_number_and_which_is_the_answer() {
    let view = found();
    let written = csv(&view);
    let rows: Vec<&str> = written.lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[1].starts_with("23,stable,1000,14.6,1460,") && rows[1].ends_with(",true,true"));
    assert!(rows[2].ends_with(",false,false"), "{}", rows[2]);
    let object: serde_json::Value = serde_json::from_str(&json::in_flight(&view)).unwrap();
    let found = &object["in_flight"];
    assert_eq!(
        (&found["within_slo"], &found["low"], &found["high"]),
        (&23.into(), &21.into(), &25.into())
    );
    assert_eq!(found["tried"][1]["kept"], false);
    assert_eq!(found["of"], "requests");
}
