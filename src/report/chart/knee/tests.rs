//! Whose answer the title tells, and what was asked.

use super::super::super::fixtures;
use super::*;
use crate::report::ClassPromise;

#[test]
fn the_title_says_whose_answer_it_is_whatever_the_number() {
    let mut view = fixtures::knee_view();
    view.subject = "4 replicas of M on G".into();
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
