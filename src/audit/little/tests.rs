//! Who was in flight tells of a limit that was not stated, of an open loop and of a burst that were none.

use super::super::tests::{after, found};
use crate::results::{Load, Measured, RequestTimes, Stats, Tool};

/// An open loop at 10/s, of which nothing else is known.
fn open(requests: u64, throughput: f64, e2el_s: f64, p99_s: f64) -> Measured {
    let mut row = Measured::new(Tool::Table, "");
    row.setup.load = Load::Open { rate: 10.0 };
    row.setup.num_prompts = Some(requests);
    row.outcome.request_throughput = Some(throughput);
    row.e2el = Stats {
        mean: Some(e2el_s),
        percentiles: vec![(99.0, p99_s)],
        ..Stats::default()
    };
    row
}

#[test]
fn littles_law_is_held_against_the_limit() {
    assert_eq!(
        after(|row| (row.setup.max_concurrency, row.setup.load) = (Some(6), Load::Closed { clients: 6 })),
        "impossible above-the-limit"
    );
    let labelled = |clients: u64| {
        after(|row| {
            (row.setup.max_concurrency, row.setup.load) = (Some(clients), Load::Closed { clients });
        })
    };
    // 7.9 in flight, in a run that twelve would have ended a fifth sooner and sixteen in half the time.
    assert_eq!(labelled(12), "doubtful below-the-limit");
    assert_eq!(labelled(16), "impossible below-the-limit");
    // Nor do few waves excuse it: 400 answers of a second by 128 hands take four seconds, and not fifty.
    assert_eq!(labelled(128), "impossible below-the-limit");
    let ramps = after(|row| {
        (row.setup.max_concurrency, row.setup.load) = (Some(128), Load::Closed { clients: 128 });
        (row.outcome.duration_s, row.outcome.output_throughput) = (None, None);
    });
    assert_eq!(ramps, "note below-the-limit", "three waves never fill the limit");
}

#[test]
fn a_burst_that_outlasts_its_longest_answer_was_no_burst() {
    let burst = |row: &mut Measured| {
        (row.setup.load, row.setup.max_concurrency) = (Load::Burst, None);
        row.e2el.max = Some(1.3);
    };
    assert_eq!(after(burst), "impossible hidden-limit");
    // All 400 really at once: the last answer is the whole run.
    let real = |row: &mut Measured| {
        burst(row);
        (row.setup.gpu, row.ttft, row.tpot, row.itl) =
            (None, Stats::default(), Stats::default(), Stats::default());
        row.e2el = Stats {
            mean: Some(26.0),
            max: Some(50.0),
            ..Stats::default()
        };
    };
    assert_eq!(after(real), "");
}

#[test]
fn an_open_loop_is_told_from_a_limited_one_and_from_a_short_one() {
    // 3000 at 10/s take 300 s to send. Answered at 5/s a true open loop waits 150 s on average.
    assert_eq!(found(&[open(3000, 5.0, 2.0, 3.0)]), "impossible hidden-limit");
    assert_eq!(found(&[open(3000, 5.0, 140.0, 290.0)]), "doubtful overload");
    assert_eq!(found(&[open(3000, 9.9, 2.0, 3.0)]), "");
    // Half were refused: the others came at 5/s, and were answered at that.
    let mut refused = open(3000, 5.0, 2.0, 3.0);
    (refused.outcome.completed, refused.outcome.failed) = (Some(1500), Some(1500));
    assert_eq!(found(&[refused]), "doubtful failures");
    // 100 at 10/s: the last answer alone costs a quarter of the throughput.
    assert_eq!(found(&[open(100, 7.5, 2.5, 3.5)]), "note too-short");
    // Arrivals at random: 150 of them may take 162 s instead of 150.
    let mut random = open(150, 0.9227, 1.58, 1.66);
    random.setup.load = Load::Open { rate: 1.0 };
    assert_eq!(found(&[random]), "");
}

#[test]
fn bunched_arrivals_may_take_longer_to_send() {
    // 500 at 10/s take 50 s; gaps of shape 0.1 end within 71 s, and Poisson's within 57 s.
    let mut row = open(500, 7.58, 1.0, 2.0);
    assert_eq!(found(std::slice::from_ref(&row)), "impossible hidden-limit");
    row.setup.burstiness = Some(0.1);
    assert_eq!(found(&[row]), "");
    // When each was sent is known where all say so.
    let told = |starts: fn(usize) -> f64| {
        let mut row = requests(starts, 500, |_| 0.1);
        row.setup.load = Load::Open { rate: 10.0 };
        row.setup.num_prompts = Some(500);
        (row.outcome.request_throughput, row.outcome.duration_s) = (Some(7.58), Some(66.0));
        row.e2el.mean = Some(1.0);
        found(&[row])
    };
    let late = told(|index| index as f64 * 0.118);
    assert!(!late.contains("counts-agree"), "{late}");
    // Six deviations late.
    assert_eq!(told(|index| index as f64 * 0.128), "doubtful counts-agree");
    assert!(told(|_| 0.0).starts_with("impossible counts-agree"));
}

#[test]
fn a_burst_ends_with_its_longest_answer_by_whatever_tells_of_it() {
    let burst = |requests: u64, duration_s: f64, e2el: Stats| {
        let mut row = Measured::new(Tool::VllmBench, "");
        row.setup.load = Load::Burst;
        row.outcome.completed = Some(requests);
        row.outcome.duration_s = Some(duration_s);
        row.e2el = e2el;
        found(&[row])
    };
    // 159.5 ms + 4.4 ms · √7 = 171 ms is the longest that eight answers can be.
    let few = Stats {
        mean: Some(0.1595),
        std: Some(0.0044),
        ..Stats::default()
    };
    assert_eq!(burst(8, 0.642, few.clone()), "impossible hidden-limit");
    assert_eq!(burst(8, 0.18, few), "");
    // Beyond p99 of 320 there are four, which may have hung.
    let many = Stats {
        median: Some(9.398),
        percentiles: vec![(99.0, 21.046)],
        ..Stats::default()
    };
    assert_eq!(burst(320, 131.2, many.clone()), "doubtful hidden-limit");
    assert_eq!(burst(320, 22.0, many), "");
}

#[test]
fn a_rate_under_a_full_limit_is_a_closed_loop() {
    let rated = |row: &mut Measured| row.setup.load = Load::Open { rate: 20.0 };
    assert_eq!(after(rated), "doubtful overload");
    assert_eq!(
        after(|row| (rated(row), row.setup.max_concurrency = Some(64)).0),
        "impossible hidden-limit"
    );
}

/// 640 answers of 128 tokens in the keys that the client writes unless asked for more, 60/s asked for.
fn without_e2el(duration_s: f64, tokens: f64) -> Measured {
    let mut row = Measured::new(Tool::VllmBench, "");
    (row.setup.load, row.setup.num_prompts) = (Load::Open { rate: 60.0 }, Some(640));
    (row.outcome.completed, row.outcome.duration_s) = (Some(640), Some(duration_s));
    (row.outcome.output_tokens, row.setup.output_tokens) = (Some(640.0 * tokens), Some(tokens));
    let stats = |mean: f64, p99: f64| Stats {
        mean: Some(mean),
        percentiles: vec![(99.0, p99)],
        ..Stats::default()
    };
    (row.ttft, row.tpot) = (stats(0.370, 0.748), stats(0.01185, 0.01446));
    row
}

#[test]
fn a_limit_is_found_where_no_answer_is_timed() {
    // 640 at 60/s end within 11.9 s, and nearly every answer takes 748 ms + 127 × 14.5 ms = 2.58 s: 18.8 s are no drain.
    assert_eq!(found(&[without_e2el(18.76, 128.0)]), "impossible hidden-limit");
    assert!(!found(&[without_e2el(14.5, 128.0)]).contains("hidden-limit"));
    // Of answers that vary one may be many times as long as their mean.
    assert!(!found(&[without_e2el(18.76, 128.3)]).contains("hidden-limit"));
}

#[test]
fn a_wait_in_the_client_is_for_a_limit() {
    let waited = |wait_s: f64, limit: Option<u64>| {
        let mut row = without_e2el(12.5, 128.0);
        (row.outcome.client_queue_s, row.setup.max_concurrency) = (Some(wait_s), limit);
        found(&[row])
    };
    assert!(!waited(0.01, None).contains("hidden-limit"));
    assert!(waited(8.5, None).contains("impossible hidden-limit"));
    assert!(!waited(8.5, Some(64)).contains("hidden-limit"));
}

fn requests(starts: impl Fn(usize) -> f64, count: usize, ttft_s: impl Fn(usize) -> f64) -> Measured {
    let mut row = Measured::new(Tool::VllmBench, "");
    row.setup.load = Load::Open { rate: 2.0 };
    let of = |index: usize| RequestTimes {
        start_s: Some(starts(index)),
        ttft_s: ttft_s(index),
        e2el_s: Some(ttft_s(index) + 0.9),
        output_tokens: 100.0,
        ..RequestTimes::default()
    };
    row.requests = (0..count).map(of).collect();
    row
}

#[test]
fn requests_tell_who_waited_for_whom() {
    // Four at a time, each sent when the one four before it ended.
    let waves = |index: usize| (index / 4) as f64 + 0.05 * (index % 4) as f64;
    assert_eq!(found(&[requests(waves, 200, |_| 0.1)]), "impossible hidden-limit");
    // Steady arrivals that follow nobody.
    assert_eq!(
        found(&[requests(|index| index as f64 * 0.4871, 200, |_| 0.1)]),
        ""
    );
    let slow_start = |index: usize| if index < 5 { 1.0 } else { 0.1 };
    assert_eq!(
        found(&[requests(|index| index as f64 * 0.4871, 200, slow_start)]),
        "note warm-up"
    );
    let growing = |index: usize| 0.1 + 0.03 * index as f64;
    assert_eq!(
        found(&[requests(|index| index as f64 * 0.4871, 200, growing)]),
        "doubtful overload"
    );
    let mut stated = requests(|index| index as f64 * 0.4871, 200, |_| 0.1);
    stated.outcome.output_tokens = Some(10_000.0);
    assert_eq!(found(&[stated]), "impossible counts-agree");
}

#[test]
fn a_run_far_longer_than_its_loop_can_take_is_no_loop_of_that_many() {
    // 200 answers of 1.28 s through 64 hands are 4 s, and the longest is no longer than 1.7 s.
    let row = |clients: u64, duration_s: f64| {
        after(|row| {
            row.setup.load = Load::Closed { clients };
            (row.setup.max_concurrency, row.setup.num_prompts) = (Some(clients), Some(200));
            row.outcome.completed = Some(200);
            row.outcome.duration_s = Some(duration_s);
            row.outcome.request_throughput = Some(200.0 / duration_s);
            row.outcome.output_throughput = Some(25_600.0 / duration_s);
            row.outcome.total_throughput = Some(128_000.0 / duration_s);
            row.outcome.output_tokens = Some(25_600.0);
            row.ttft.mean = Some(0.161);
            (row.ttft.median, row.ttft.std, row.ttft.percentiles) =
                (Some(0.2), Some(0.04), vec![(99.0, 0.217)]);
            (row.tpot.mean, row.tpot.median) = (Some(0.0088), Some(0.0088));
            (row.itl.mean, row.itl.median) = (Some(0.0088), Some(0.0088));
            (row.e2el.mean, row.e2el.median) = (Some(1.2777), Some(1.28));
            (row.e2el.std, row.e2el.percentiles) = (Some(0.03), vec![(99.0, 1.294)]);
        })
    };
    assert_eq!(row(64, 16.5), "impossible below-the-limit");
    // A client that is busy between answers, and the ramp and drain of three waves.
    assert_eq!(row(64, 8.0), "doubtful below-the-limit");
    assert!(!row(64, 5.2).contains("doubtful"), "{}", row(64, 5.2));
    assert!(!row(16, 16.5).contains("below-the-limit"), "{}", row(16, 16.5));
}
