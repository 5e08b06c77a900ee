//! Whose answer the title tells, and what was asked.

use super::super::super::fixtures;
use super::super::scene::Shape;
use super::*;
use crate::analysis::knee::{ClientLimit, WhenFull};
use crate::report::views::ClassTails;
use crate::report::{ClassPromise, Limit, Promise};

#[test]
fn the_title_says_whose_answer_it_is_whatever_the_number() {
    let mut view = fixtures::knee_view();
    view.subject = "4 replicas of M on G".into();
    assert_eq!(title(&view), "4 replicas of M on G: 24.2 req/s within the SLO");
    // What the title promises is within the SLO.
    view.knee = view.knee.map(|knee| Estimate { value: 24.26, ..knee });
    assert_eq!(title(&view), "4 replicas of M on G: 24.2 req/s within the SLO");
    view.is_interrupted = true;
    assert_eq!(
        title(&view),
        "4 replicas of M on G: INTERRUPTED after 7 rates; until then 24.2 req/s within the SLO"
    );
    view.points.clear();
    assert_eq!(
        title(&view),
        "4 replicas of M on G: INTERRUPTED before any rate was simulated"
    );
}

#[test]
fn promises_to_classes_are_promises() {
    let mut view = fixtures::knee_view();
    view.knee = None;
    let limits = std::mem::take(&mut view.limits);
    assert!(title(&view).ends_with("on H100-SXM-80GB: saturates at 27.6 req/s"));
    view.classes = vec![ClassPromise {
        name: "chat".into(),
        request_rate: None,
        limits,
    }];
    assert!(
        title(&view).ends_with(": no simulated rate meets the SLO; saturates at 27.6 req/s"),
        "{}",
        title(&view)
    );
    assert!(
        subtitle(&view).starts_with("SLO: 99.0 % of the requests of each class: chat with TTFT ≤ 500 ms"),
        "{}",
        subtitle(&view)
    );
}

/// The words of a picture.
fn words(view: &KneeView) -> String {
    knee(view).svg()
}

#[test]
fn what_is_promised_to_classes_is_drawn_with_their_figures() {
    let mut view = fixtures::knee_view();
    let limit = |metric: &str, limit_s| Limit {
        metric: metric.into(),
        limit_s,
    };
    let class = |name: &str, limits: Vec<Limit>| ClassPromise {
        name: name.into(),
        request_rate: None,
        limits,
    };
    view.classes = vec![
        class("chat", vec![limit("ttft", 0.3), limit("tpot", 0.05)]),
        class("code", vec![limit("ttft", 0.3)]),
        class("batch", vec![]),
        class("agent", vec![limit("ttft", 0.9)]),
    ];
    // Nothing is known of a class yet, and what is promised to all is what is promised to each.
    let printed = words(&view);
    assert!(
        printed.contains("TTFT SLO of chat and code 300 ms") && printed.contains("TTFT SLO of agent 900 ms"),
        "{printed}"
    );
    assert!(
        printed.contains("TPOT SLO of chat 50.0 ms") && !printed.contains("TTFT SLO 500 ms"),
        "{printed}"
    );
    assert!(!printed.contains("chat p99"), "{printed}");
    for point in &mut view.points[..3] {
        point.by_class = vec![
            ClassTails {
                p99_ttft_s: Some(0.25),
                p99_tpot_s: Some(0.04),
            };
            4
        ];
    }
    let printed = words(&view);
    assert!(
        printed.contains("chat p99 250 ms")
            && printed.contains("agent p99 250 ms")
            && printed.contains("chat p99 40.0 ms"),
        "{printed}"
    );
    assert!(!printed.contains("batch p99"), "nothing is promised to it");
    assert!(!printed.contains("code p99 40.0 ms"), "no TPOT is promised to it");
}

#[test]
fn a_promised_percentile_is_drawn_where_its_curve_is() {
    let mut view = fixtures::knee_view();
    view.limits.clear();
    let promise = |percentile, limit_s| Promise {
        metric: "ttft".into(),
        percentile: Some(percentile),
        limit_s,
    };
    view.promises = vec![promise(99.0, 0.4), promise(90.0, 0.2)];
    let printed = words(&view);
    assert!(
        printed.contains("TTFT p99 SLO 400 ms") && !printed.contains("TTFT p90 SLO"),
        "{printed}"
    );
}

#[test]
fn the_plateau_of_a_client_is_drawn_as_the_clients() {
    let mut view = fixtures::knee_view();
    let rate = view.saturation.take().unwrap();
    (view.knee, view.max_concurrency) = (None, Some(16));
    view.client = Some(ClientLimit {
        rate,
        is_within: true,
    });
    assert!(
        title(&view).ends_with(": 16 in flight push at most 27.6 req/s, which is no limit of the server"),
        "{}",
        title(&view)
    );
    let printed = words(&view);
    assert!(
        printed.contains("the client pushes at most 27.6 req/s") && !printed.contains("saturates"),
        "{printed}"
    );
}

#[test]
fn the_name_of_a_limit_stands_where_no_curve_and_no_mark_is() {
    let view = fixtures::knee_view();
    let svg = words(&view);
    let at = svg.find("TTFT SLO").or_else(|| svg.find("TTFT")).unwrap();
    assert!(svg[at..].contains("SLO"), "{svg}");
    let panel = Panel {
        left: 0.0,
        top: 0.0,
        right: 400.0,
        bottom: 100.0,
        x: Axis::fixed(0.0, 4.0, Quantity::Number),
        y: Axis::fixed(0.0, 1.0, Quantity::Number),
    };
    // Curves fill the left half to both sides of the limit.
    let left: Vec<(f64, f64)> = (0..200)
        .flat_map(|x| (20..90).map(move |y| (f64::from(x), f64::from(y))))
        .collect();
    let mut picture = Picture::new("", 400.0, 100.0);
    panel.limits(&mut picture, &[(0.5, "SLO 50 ms".to_owned())], &left);
    let svg = picture.svg();
    let text = &svg[..svg.find("SLO 50 ms").unwrap()];
    let x = text.rfind(" x=\"").map(|at| &text[at + 4..]).unwrap();
    let x: f64 = x[..x.find('"').unwrap()].parse().unwrap();
    assert!(x > 200.0, "{svg}");
}

#[test]
fn what_a_full_server_serves_is_a_line_with_its_name() {
    let mut view = fixtures::knee_view();
    let dashes = |view: &KneeView| words(view).matches("stroke=\"#D55E00\"").count();
    let (without, plain) = (words(&view), dashes(&view));
    assert!(!without.contains("once full"), "{without}");
    view.when_full = Some(WhenFull {
        served: Estimate {
            value: 23.0,
            low: 22.5,
            high: 23.5,
        },
        rate: 36.0,
        preemptions: 0.2,
    });
    let printed = words(&view);
    assert!(
        printed.contains("once full 23.0 req/s") && printed.contains("95 % [22.5, 23.5]"),
        "{printed}"
    );
    assert!(
        subtitle(&view).ends_with(
            "Between what it serves once full and saturation a burst that fills it is never worked off."
        ),
        "{}",
        subtitle(&view)
    );
    // Dashes in each of the three panels.
    assert!(dashes(&view) >= plain + 3 * 10, "{} after {plain}", dashes(&view));
}

/// From where to where a label reaches.
fn place_of(picture: &Picture, words: &str) -> (f64, f64) {
    let text = picture.shapes.iter().find_map(|shape| match shape {
        Shape::Text { at, text, anchor, .. } if text == words => Some((at.0, *anchor)),
        _ => None,
    });
    let (x, width) = (text.expect("it is there"), Font::LABEL.width(words));
    match x {
        (x, Anchor::End) => (x - width, x),
        (x, _) => (x, x + width),
    }
}

/// The knee's line stands where the name would be next to its own.
#[test]
fn the_name_of_what_a_full_server_serves_lies_on_no_line() {
    let mut view = fixtures::knee_view();
    for served in [16.0, 20.0, 24.0, 25.0, 26.0] {
        view.when_full = Some(WhenFull {
            served: Estimate {
                value: served,
                low: served - 0.1,
                high: served + 0.1,
            },
            rate: 36.0,
            preemptions: 0.2,
        });
        let (left, right) = place_of(
            &knee(&view),
            &format!("once full {} req/s", figures::significant_down(served)),
        );
        let x = rate_axis(&view);
        let at = |rate: f64| LEFT + x.position(rate) * (RIGHT - LEFT);
        for line in [view.knee.unwrap().value, view.saturation.unwrap().value, served] {
            assert!(
                !(left..right).contains(&at(line)),
                "{line} in {left} to {right} of {served}"
            );
        }
    }
}
