//! What a fit keeps, and what it says that it does not, on traces made for it.

use std::fmt::Write as _;

use plimsoll::analysis::hit_rates;
use plimsoll::units::Picos;
use plimsoll::workload::Arrivals;
use plimsoll::workload::trace::{self, FittedWorkload, ReadOptions};

use super::read;

/// The fit to requests of (arrival in seconds, prompt, answer).
fn fitted(requests: impl IntoIterator<Item = (f64, u32, u32)>) -> FittedWorkload {
    let mut text = "arrived_at,num_prefill_tokens,num_decode_tokens\n".to_owned();
    for (arrival_s, prompt, answer) in requests {
        writeln!(text, "{arrival_s:.6},{prompt},{answer}").unwrap();
    }
    trace::fit(&read(text.as_bytes(), "made.csv").unwrap(), &hit_rates).unwrap()
}

/// Trace and twin of a row of the table.
fn row(fitted: &FittedWorkload, what: &str) -> (f64, f64) {
    let rows = fitted.comparison();
    let found = rows.iter().find(|row| row.what == what);
    found.map(|row| (row.trace, row.twin)).unwrap()
}

fn losses(fitted: &FittedWorkload) -> String {
    fitted.losses.join("\n")
}

/// A uniform law without a random number: the golden ratio's multiples.
fn spread(index: u32) -> f64 {
    (f64::from(index) * 0.618_033_988_749_895).fract()
}

/// Exponential gaps.
fn gap(index: u32) -> f64 {
    -(1.0 - spread(index * 7919 % 10_007)).ln()
}

#[test]
fn a_long_trace_is_held_against_a_twin_of_its_own_span() {
    // A day in two levels: a twin that stops half way would see the higher one alone.
    let mut arrival_s = 0.0;
    let of = |index: u32| {
        let rate = if arrival_s < 43_200.0 { 5.0 } else { 0.5 };
        arrival_s += gap(index) / rate;
        (arrival_s, 100, 10)
    };
    let day = (0..237_600)
        .map(of)
        .take_while(|(arrival_s, ..)| *arrival_s < 86_400.0);
    let fitted = fitted(day.collect::<Vec<_>>());
    let (trace, twin) = row(&fitted, "request rate (1/s)");
    assert!((twin / trace - 1.0).abs() < 0.02, "{trace} {twin}");
    let (trace, twin) = row(&fitted, "dispersion over 60 s");
    assert!((twin / trace - 1.0).abs() < 0.05, "{trace} {twin}");
    assert!(
        fitted.twin_basis().contains("drawn over the trace's 86"),
        "{}",
        fitted.twin_basis()
    );
    assert!(fitted.toml("made.csv", None).contains(&fitted.twin_basis()));
}

#[test]
fn what_comes_all_at_once_is_fitted_as_that() {
    let fitted = fitted((0..200).map(|index| (0.0, 500 + index, 50)));
    assert!(matches!(fitted.spec().arrivals, Arrivals::AllAtOnce));
    let toml = fitted.toml("made.csv", None);
    assert!(toml.contains("[workload.arrivals.all_at_once]") && toml.contains("num_prompts = 200"));
    assert!(!toml.contains("no arrival times"), "{toml}");
}

#[test]
fn lengths_that_jump_near_their_end_keep_their_mean() {
    let long = |index: u32| {
        if index.is_multiple_of(107) { 100_000 } else { 100 }
    };
    let fitted = fitted((0..10_000).map(|index| (f64::from(index), long(index), 50)));
    let (trace, twin) = row(&fitted, "input mean (tokens)");
    // 100,000 draws of a few long ones scatter by 3 %.
    assert!((twin / trace - 1.0).abs() < 0.08, "{trace} {twin}");
    assert_eq!(row(&fitted, "input p99 (tokens)"), (100.0, 100.0));
    // Where too few knots cannot have both, the percentile gives way and is told.
    let few = |index: u32| {
        if index.is_multiple_of(25) { 100_000 } else { 100 }
    };
    let rough = self::fitted((0..100).map(|index| (f64::from(index), few(index), 50)));
    assert!(
        losses(&rough).contains("the lengths of prompts: "),
        "{}",
        losses(&rough)
    );
}

/// Poisson arrivals at one a second, each with the length of its number.
fn with_lengths(length: impl Fn(u32) -> u32) -> FittedWorkload {
    let mut arrival_s = 0.0;
    fitted((0..8_000).map(|index| {
        arrival_s += gap(index);
        (arrival_s, length(index), 10)
    }))
}

#[test]
fn a_wait_is_put_down_to_what_makes_it() {
    let long_or_short = |is_long: bool| if is_long { 5_000 } else { 100 };
    // One in five is long; forty of them in a row.
    let together = with_lengths(|index| long_or_short(index % 200 < 40));
    assert!(
        losses(&together).contains("- that long requests come together")
            || losses(&together).contains("that long requests come together; behind"),
        "{}",
        losses(&together)
    );
    // Every fifth one: never two.
    let apart = with_lengths(|index| long_or_short(index.is_multiple_of(5)));
    let (trace, twin) = row(&apart, "p99 wait at 70 % load (s)");
    assert!(twin > 1.1 * trace, "{trace} {twin}");
    assert!(
        losses(&apart).contains("that long requests keep apart"),
        "{}",
        losses(&apart)
    );
    // In no order, and nothing of the order is blamed.
    let mixed = with_lengths(|index| long_or_short(spread(index * 31 % 997) < 0.2));
    assert!(!losses(&mixed).contains("come together"), "{}", losses(&mixed));
}

#[test]
fn gaps_that_the_twin_does_not_have_are_told() {
    // Five at a time, every ten seconds or so: no gamma law has these gaps and these counts.
    let mut arrival_s = 0.0;
    let fives = (0..5_000).map(|index| {
        arrival_s += if u32::is_multiple_of(index, 5) {
            10.0 * gap(index)
        } else {
            0.001
        };
        (arrival_s, 100, 10)
    });
    let fitted = fitted(fives.collect::<Vec<_>>());
    let (trace, twin) = row(&fitted, "gap CV");
    let is_told = losses(&fitted).contains("how regular single gaps are");
    assert_eq!(is_told, (twin / trace - 1.0).abs() > 0.1, "{trace} {twin}");
    // Nearly regular ones stay nearly so.
    let regular = self::fitted((0..64u32).map(|i| (f64::from(i) + 0.01 * spread(i), 100 + i, 10)));
    assert!(
        losses(&regular).contains("how regular gaps are"),
        "{}",
        losses(&regular)
    );
    let Arrivals::Profile {
        piece, burstiness, ..
    } = regular.spec().arrivals
    else {
        panic!("a rate curve");
    };
    assert!(burstiness == 100.0 && piece > Picos::ZERO);
}

#[test]
fn a_sparse_trace_has_a_twin_that_ends_before_the_clock_does() {
    // 100,000 requests of these would last longer than the 213 days of a clock.
    for (count, days) in [(5_000, 14.0), (100, 1.0)] {
        let gap_s = days * 86_400.0 / f64::from(count);
        let mut arrival_s = 0.0;
        let sparse = (0..count).map(|index| {
            arrival_s += gap_s * gap(index);
            (arrival_s, 100 + index % 7, 10)
        });
        let fitted = fitted(sparse.collect::<Vec<_>>());
        for what in ["request rate (1/s)", "gap CV"] {
            // Of a hundred gaps the shape is known to a tenth or so.
            let (trace, twin) = row(&fitted, what);
            assert!(
                (twin / trace - 1.0).abs() < 0.1,
                "{count}, {what}: {trace} {twin}"
            );
        }
        assert!(
            !losses(&fitted).contains("coefficient of variation"),
            "{}",
            losses(&fitted)
        );
    }
}

#[test]
fn answers_in_proportion_to_prompts_are_said_to_be_lost() {
    let lengths = |index: u32| 100 + index * 7919 % 10_007;
    let proportional = fitted((0..2_000).map(|index| (f64::from(index), 2 * lengths(index), lengths(index))));
    assert!(
        losses(&proportional)
            .contains("how closely answers follow prompts: their rank correlation 1.00 → 0.9"),
        "{}",
        losses(&proportional)
    );
    let loose = |index: u32| lengths(index) + (2_000.0 * spread(index)) as u32;
    let near = fitted((0..2_000).map(|index| (f64::from(index), lengths(index), loose(index))));
    let (trace, twin) = row(&near, "rank correlation");
    assert!(trace > 0.9 && (twin / trace - 1.0).abs() < 0.02, "{trace} {twin}");
    assert!(!losses(&near).contains("how closely"), "{}", losses(&near));
}

/// Conversations of growing prompts among questions about a few documents, in Mooncake's form.
fn shared_prompts() -> String {
    let mut rows: Vec<(f64, u32, Vec<u32>)> = Vec::new();
    let mut fresh = 1_000;
    let mut grow = |ids: &mut Vec<u32>, tokens: u32| {
        while ids.len() < tokens.div_ceil(16) as usize {
            ids.push(fresh);
            fresh += 1;
        }
    };
    for number in 0..900 {
        let (mut at, mut tokens, mut ids) = (f64::from(number), 0, Vec::new());
        for turn in 0..1 + (spread(number) * 7.0) as u32 {
            tokens += 60 + (spread(number * 31 + turn) * 400.0) as u32;
            grow(&mut ids, tokens);
            rows.push((at, tokens, ids.clone()));
            at += 5.0 + 60.0 * gap(number * 13 + turn);
        }
        let document = (spread(number * 3 + 1).powi(2) * 20.0) as u32;
        let mut ids: Vec<u32> = (document * 50..document * 50 + 50).collect();
        let tokens = 801 + (spread(number * 17) * 100.0) as u32;
        grow(&mut ids, tokens);
        rows.push((f64::from(number) + 0.5, tokens, ids));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let line = |(at, tokens, ids): &(f64, u32, Vec<u32>)| {
        format!(
            "{{\"timestamp\": {}, \"input_length\": {tokens}, \"output_length\": 32, \"hash_ids\": {ids:?}}}\n",
            (at * 1e3) as u64
        )
    };
    rows.iter().map(line).collect()
}

#[test]
fn a_twin_hits_as_often_in_a_cache_of_any_size() {
    let options = ReadOptions {
        block: Some(16),
        ..ReadOptions::default()
    };
    let trace = trace::read(shared_prompts().as_bytes(), "made.jsonl", &options).unwrap();
    let fitted = trace::fit(&trace, &hit_rates).unwrap();
    assert!(fitted.hit_rates.len() > 3, "{:?}", fitted.hit_rates);
    for rates in &fitted.hit_rates {
        assert!((rates.trace - rates.twin).abs() < 0.05, "{:?}", fitted.hit_rates);
    }
    let most = fitted.hit_rates.last().unwrap();
    let seen = row(&fitted, "prompt tokens seen before").0;
    assert!((seen - most.trace).abs() < 0.05, "{seen} {most:?}");
    // What is told is what a cache finds that a law without the distances would not.
    assert!(
        fitted
            .hit_rates
            .iter()
            .any(|rates| rates.trace < 0.5 * most.trace)
    );
    let told = fitted.toml("made.jsonl", None);
    assert!(
        told.contains("# hits, cache of ") && told.contains("distances = ["),
        "{told}"
    );
    assert_eq!(
        trace::fit(&trace, &hit_rates).unwrap(),
        fitted,
        "one trace, one fit"
    );
}
