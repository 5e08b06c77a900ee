//! Closed loops: what moves there together, and what names its cause.

use super::tests::{moved, run, stats};
use super::*;
use crate::results::Load;

/// 64 clients of one length, 640 requests: first tokens wait behind other prompts, steps are of two kinds.
fn looped() -> Measured {
    let mut row = run();
    row.setup.load = Load::Closed { clients: 64 };
    row.setup.max_concurrency = Some(64);
    row.outcome.completed = Some(640);
    row.outcome.output_tokens = Some(640.0 * 128.0);
    row.outcome.duration_s = Some(20.3);
    (row.outcome.request_throughput, row.outcome.output_throughput) = (Some(31.5), Some(4032.0));
    row.ttft = stats(0.355, 0.319, 0.694, 0.19);
    row.tpot = stats(0.0127, 0.0130, 0.0152, 0.0011);
    row.itl = stats(0.0127, 0.00985, 0.129, 0.020);
    row.e2el = stats(1.97, 1.97, 2.14, 0.07);
    row
}

/// The same where steps take so many times as long and first tokens so much more, at the median twice that.
fn slower(steps: f64, first_s: f64) -> Measured {
    let mut row = looped();
    moved(&mut row.tpot, |step| step * steps);
    moved(&mut row.itl, |gap| gap * steps);
    moved(&mut row.ttft, |first| first + first_s);
    row.ttft.median = row.ttft.median.map(|first| first + first_s);
    let longer = first_s + 127.0 * 0.0127 * (steps - 1.0);
    moved(&mut row.e2el, |whole| whole + longer);
    let times = 1.97 / (1.97 + longer);
    row.outcome.request_throughput = Some(31.5 * times);
    row.outcome.output_throughput = Some(4032.0 * times);
    row
}

fn kinds(compared: &Comparison) -> Vec<&'static str> {
    compared.causes.iter().map(|cause| cause.kind).collect()
}

#[test]
fn throughput_of_a_loop_is_known_as_well_as_its_mean_answer() {
    let compared = compare(&looped(), &slower(1.02, 0.0));
    let noise = |name: &str| compared.figure(name).unwrap().noise.unwrap();
    for name in ["request throughput", "output throughput"] {
        assert_eq!(noise(name), noise("mean e2el"), "{name}");
    }
    // So the two are judged alike: by Little's law they are one fact.
    assert!(compared.largest().is_none());
    // That of an open loop is known as well as so many arrivals at random are counted.
    let mut few = run();
    few.outcome.completed = Some(300);
    few.setup.has_fixed_lengths = Some(true);
    (few.e2el.std, few.own) = (Some(0.0), None);
    let compared = compare(&few, &few);
    let noise = compared.figure("request throughput").unwrap().noise.unwrap();
    assert!((noise - 1.96 * (2.0f64 / 300.0).sqrt()).abs() < 1e-3, "{noise}");
}

#[test]
fn steps_are_the_cause_in_a_loop_where_answers_moved_and_steps_went_with_them() {
    let compared = compare(&looped(), &slower(1.09, 0.111));
    assert!(!compared.figure("mean tpot").unwrap().is_real());
    assert_eq!(kinds(&compared), ["step-time"]);
    let (figure, cause) = compared.headline().unwrap();
    assert!(
        figure.name.ends_with("throughput") || figure.name == "mean e2el",
        "{}",
        figure.name
    );
    assert!(
        cause.unwrap().words.contains("mean tpot +9.0 %"),
        "{}",
        cause.unwrap().words
    );
    // First tokens that take longer while steps do not are no slower steps.
    let first = compare(&looped(), &slower(1.0, 0.3));
    assert!(!kinds(&first).contains(&"step-time"), "{:?}", first.causes);
    // No client waits for another where there is one.
    let alone = |mut row: Measured| {
        row.setup.load = Load::Closed { clients: 1 };
        row.setup.max_concurrency = Some(1);
        row
    };
    let first = compare(&alone(looped()), &alone(slower(1.0, 0.3)));
    assert_eq!(kinds(&first), ["first-token"]);
}

#[test]
fn a_median_of_first_tokens_alone_names_no_cause() {
    let mut other = looped();
    other.ttft.median = other.ttft.median.map(|first| 0.8 * first);
    let mut open = [looped(), other];
    for row in &mut open {
        row.setup.load = Load::Open { rate: 31.5 };
        row.ttft.std = Some(0.02);
    }
    let compared = compare(&open[0], &open[1]);
    assert!(compared.figure("median ttft").unwrap().is_real());
    assert!(!compared.figure("mean ttft").unwrap().is_real());
    assert_eq!(compared.causes, []);
}

#[test]
fn slower_steps_are_found_whatever_the_tail_of_the_gaps_does() {
    let mut measured = run();
    let slow = |gap: f64| gap * 1.05;
    moved(&mut measured.tpot, slow);
    moved(&mut measured.e2el, |whole| whole + 127.0 * 0.05 * 0.0081);
    let mut predicted = run();
    // One gap in a hundred is of steps with a prompt.
    predicted.itl.percentiles = vec![(99.0, 0.0240)];
    (predicted.itl.mean, predicted.itl.std) = (Some(0.00796), Some(0.0016));
    measured.itl = predicted.itl.clone();
    moved(&mut measured.itl, slow);
    measured.itl.percentiles = vec![(99.0, 0.0090)];
    let compared = compare(&predicted, &measured);
    assert!(!compared.figure("p99 itl").unwrap().is_real());
    assert_eq!(kinds(&compared), ["step-time"]);
    // Nor where the tail did move, by more than any kind of gap explains.
    measured.itl.percentiles = vec![(99.0, 0.0009)];
    let compared = compare(&predicted, &measured);
    assert!(compared.figure("p99 itl").unwrap().is_real());
    assert_eq!(kinds(&compared), ["step-time"]);
    // A mean with a cause is told first, however far a tail without one moved.
    let (figure, cause) = compared.headline().unwrap();
    assert!(figure.name.starts_with("mean "), "{}", figure.name);
    assert_eq!(cause.unwrap().kind, "step-time");
    assert!(!crate::report::diffed::answer(&[compared]).contains("no pattern"));
}
