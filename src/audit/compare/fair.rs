//! A comparison is fair: each result by its own times, neither first, and nothing that differs is passed over.

use super::tests::{moved, run};
use super::*;
use crate::results::Load;

/// Answers of 128 tokens each, whose time per token is what the rest of an answer takes.
fn of_one_length(ttft: f64, e2el: f64) -> Measured {
    let mut row = run();
    row.outcome.output_tokens = Some(2000.0 * 128.0);
    let step = (e2el - ttft) / 127.0;
    for (stats, value) in [
        (&mut row.ttft, ttft),
        (&mut row.e2el, e2el),
        (&mut row.tpot, step),
        (&mut row.itl, step),
    ] {
        let times = value / stats.mean.unwrap();
        moved(stats, |old| old * times);
    }
    row
}

#[test]
fn a_time_per_token_is_held_against_its_own_answer() {
    // 1957 / 128 is 15.29 ms, and so is (2406 − 464) / 127: the second is right.
    let (one, sound) = (of_one_length(0.593, 1.95659), of_one_length(0.46415, 2.40613));
    let told = |one: &Measured, other: &Measured| {
        let causes = compare(one, other).causes;
        let found = causes.iter().find(|cause| cause.kind == "definition");
        found.map(|cause| cause.words.clone())
    };
    assert_eq!(told(&one, &sound), None);
    assert_eq!(told(&sound, &one), None);
    let mut odd = sound.clone();
    odd.tpot.mean = Some(2.40613 / 128.0);
    assert_eq!(
        told(&one, &odd).unwrap(),
        "the second result's tpot 18.8 ms is latency over tokens, 2.41 s / 128: it counts the first token, and without that is 15.3 ms"
    );
    assert!(
        told(&odd, &one)
            .unwrap()
            .starts_with("the first result's tpot 18.8 ms")
    );
    // Of answers of several lengths means say neither.
    odd.outcome.output_tokens = Some(2000.0 * 128.0 + 7.0);
    assert_eq!(told(&one, &odd), None);
}

#[test]
fn which_result_comes_first_decides_nothing() {
    let mut other = run();
    moved(&mut other.ttft, |ttft| 1.408 * ttft);
    let mut compared = [compare(&run(), &other), compare(&other, &run())];
    for one in &mut compared {
        for figure in &mut one.figures {
            (figure.noise, figure.widening) = (Some(0.36), 1.0);
        }
    }
    let mean = compared
        .each_ref()
        .map(|one| one.figure("mean ttft").unwrap().clone());
    assert!(mean[0].change() > 0.36 && !mean[0].is_real() && !mean[1].is_real());
    // Beyond the same chance both are real, by less than a third though one is.
    let real = mean.map(|mean| Moved {
        noise: Some(0.3),
        ..mean
    });
    assert!(real[0].is_real() && real[1].is_real() && real[1].change().abs() < 0.3);
}

#[test]
fn what_was_run_otherwise_is_said_where_nothing_moved() {
    let told = |change: &dyn Fn(&mut crate::results::Setup, u64)| {
        let [one, other] = [1, 64].map(|number| {
            let mut row = run();
            change(&mut row.setup, number);
            row
        });
        let compared = compare(&one, &other);
        assert_eq!(compared.causes, []);
        crate::report::diffed::answer(&[compared])
    };
    let alike = "nothing moved by more than chance";
    let but = |what: &str| format!("{alike}, but they were not run alike: {what}");
    assert!(told(&|_, _| {}).starts_with("nothing moved: the two are the same measurement"));
    assert_eq!(
        told(&|setup, clients| setup.load = Load::Closed { clients }),
        but("load: 1 in flight against 64 in flight")
    );
    assert_eq!(
        told(&|setup, tokens| setup.output_tokens = Some(tokens as f64)),
        but("answers differ: 1 against 64 tokens")
    );
    assert_eq!(
        told(&|setup, limit| setup.max_concurrency = Some(limit)),
        but("limits of 1 against 64 in flight")
    );
    assert_eq!(
        told(&|setup, size| setup.model = Some(format!("acme/bot-{size}b"))),
        but("model acme/bot-1b against acme/bot-64b")
    );
    assert_eq!(
        told(&|setup, size| setup.gpu = Some(if size > 1 { "H100-SXM-80GB" } else { "L40S" }.to_owned())),
        but("GPU L40S against H100-SXM-80GB")
    );
}

#[test]
fn what_a_cause_says_is_not_said_again() {
    let mut other = run();
    other.setup.load = Load::Closed { clients: 64 };
    moved(&mut other.ttft, |ttft| 2.0 * ttft);
    let compared = compare(&run(), &other);
    assert_eq!(compared.causes[0].kind, "load");
    assert_eq!(compared.unlike, Vec::<String>::new());
}
