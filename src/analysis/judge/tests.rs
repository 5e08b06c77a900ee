//! Verdicts on queues whose truth is known, and intervals that cover it as often as they say.

use super::*;
use crate::analysis::{Decision, decide};
use crate::metrics::single_server::{self, Server};
use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use crate::units::Picos;

fn recorder() -> Recorder {
    // As many as any test here has servers.
    let fleet = Fleet::alike(600, 100, 16);
    let slo = SloLimits {
        e2el: Some(Picos::from_seconds(8.0)),
        ..SloLimits::default()
    };
    Recorder::new(RecorderOptions {
        fleet,
        slo,
        records: Records::None,
    })
}

fn result(server: &Server) -> RunResult {
    let mut recorder = recorder();
    let end = single_server::run(server, &mut recorder);
    judge(recorder.finish(end), LoadKind::Open, &Precision::default())
}

/// How many of 40 seeds get one of the verdicts.
fn share(rate: f64, requests: u64, verdicts: &[Verdict]) -> f64 {
    let hits = (0..40).filter(|&seed| verdicts.contains(&result(&Server::mm1(rate, requests, seed)).verdict));
    hits.count() as f64 / 40.0
}

#[test]
fn overload_is_unstable_at_any_length_and_quotes_no_latency() {
    for (rate, requests) in [
        (1.5, 1_000),
        (1.3, 2_000),
        (1.2, 5_000),
        (1.1, 20_000),
        (2.0, 100_000),
    ] {
        let unstable = share(rate, requests, &[Verdict::Unstable]);
        assert!(unstable >= 0.95, "load {rate}, {requests} requests: {unstable}");
    }
    let overloaded = result(&Server::mm1(1.25, 20_000, 1));
    assert!(overloaded.steady.is_none());
    assert!((overloaded.growth_per_s - 0.25).abs() < 0.05);
    assert!(overloaded.reasons[0].contains("grows"));
    assert_eq!(overloaded.intervals.len(), 1);
    assert!((overloaded.intervals[0].1.value - 1.0).abs() < 0.03);
}

#[test]
fn overload_so_deep_that_the_drain_hides_it_is_unstable_too() {
    // What is sent within seconds is served for hours: hardly any interval of the series lies in the sending.
    for (rate, requests) in [(40.0, 1_000), (200.0, 5_000), (1_000.0, 2_000), (1e5, 20_000)] {
        let unstable = share(rate, requests, &[Verdict::Unstable]);
        assert!(unstable >= 0.95, "load {rate}, {requests} requests: {unstable}");
    }
    // As many servers as are filled by what comes: nobody waits, however short the sending.
    let roomy = Server {
        servers: 600,
        ..Server::mm1(400.0, 450, 4)
    };
    assert_ne!(result(&roomy).verdict, Verdict::Unstable);
}

#[test]
fn overload_by_a_few_per_cent_that_is_too_short_to_see_is_not_called_stable() {
    for (rate, requests) in [(1.06, 1_000), (1.12, 1_000), (1.06, 2_000)] {
        let stable = share(rate, requests, &[Verdict::Stable]);
        assert!(stable <= 0.15, "load {rate}, {requests} requests: {stable}");
    }
}

#[test]
fn half_load_is_stable() {
    for (rate, requests) in [(0.5, 5_000), (0.7, 20_000), (0.2, 3_000)] {
        let stable = share(rate, requests, &[Verdict::Stable]);
        assert!(stable >= 0.95, "load {rate}, {requests} requests: {stable}");
    }
}

#[test]
fn nearly_full_load_seen_for_a_short_time_is_no_steady_state() {
    for requests in [2_000, 10_000] {
        let open = share(0.98, requests, &[Verdict::Critical, Verdict::TooShort]);
        assert!(open >= 0.85, "{requests} requests: {open}");
    }
}

#[test]
fn filling_up_is_not_overload() {
    // 600 servers at a load of 500: nothing waits, and the number inside rises for several service times.
    let room = |requests, stop_early| {
        let server = Server {
            servers: 600,
            stop_early,
            ..Server::mm1(500.0, requests, 4)
        };
        result(&server).verdict
    };
    for stop_early in [false, true] {
        for requests in [100, 300, 700, 2_000] {
            assert_eq!(
                room(requests, stop_early),
                Verdict::TooShort,
                "{requests} requests"
            );
        }
        for requests in [4_000, 10_000] {
            assert_eq!(room(requests, stop_early), Verdict::Stable, "{requests} requests");
        }
    }
    let full = Server {
        servers: 600,
        ..Server::mm1(750.0, 12_000, 4)
    };
    assert_eq!(result(&full).verdict, Verdict::Unstable);
}

#[test]
fn a_limit_on_requests_in_flight_hides_no_overload() {
    let limited = |rate| {
        result(&Server {
            client_limit: 8,
            ..Server::mm1(rate, 10_000, 6)
        })
    };
    let over = limited(1.3);
    assert_eq!(over.verdict, Verdict::Unstable);
    assert!((over.growth_per_s - 0.3).abs() < 0.06, "{}", over.growth_per_s);
    assert_eq!(limited(0.6).verdict, Verdict::Stable);
}

#[test]
fn a_closed_loop_has_steady_figures_and_no_verdict_of_overload() {
    let server = Server {
        client_limit: 4,
        ..Server::mm1(50.0, 20_000, 8)
    };
    let mut recorder = recorder();
    let end = single_server::run(&server, &mut recorder);
    let run = judge(recorder.finish(end), LoadKind::Closed, &Precision::default());
    assert_eq!(run.verdict, Verdict::Finite);
    let steady = run.steady.unwrap();
    assert!((steady.occupancy.in_system - 4.0).abs() < 1e-6);
    // Little's law of the loop: four in flight, each staying four service times.
    assert!((steady.e2el.mean_s().unwrap() - 4.0).abs() < 0.2);
}

#[test]
fn waves_of_a_closed_loop_are_cut_whole_or_not_at_all() {
    // 64 users whose requests take a second each and leave together: 64 requests/s, whatever the number of waves.
    for requests in [128, 256, 300, 640, 2_000, 10_000] {
        let server = Server {
            servers: 64,
            client_limit: 64,
            exponential: false,
            ..Server::mm1(1e6, requests, 8)
        };
        let mut recorder = recorder();
        let end = single_server::run(&server, &mut recorder);
        let run = judge(recorder.finish(end), LoadKind::Closed, &Precision::default());
        let shown = run.quotable().unwrap();
        let per_s = shown.completed as f64 / shown.duration_s;
        // The last of 300 requests are a wave of 44.
        let floor = if requests == 300 { 59.0 } else { 62.0 };
        assert!((floor..=65.5).contains(&per_s), "{requests} requests: {per_s}/s");
        assert!(requests > 256 || run.steady.is_none() && run.intervals.is_empty());
        // However batches cut the waves, the rate is known as well as the law makes it.
        if let Some((_, rate)) = run.intervals.iter().find(|(name, _)| name == "throughput") {
            assert_eq!(rate.value, per_s, "{requests}");
            assert!(rate.low <= 64.0 && rate.high >= 64.0, "{requests}: {rate:?}");
            assert!(rate.high - rate.low < 0.05 * per_s, "{requests}: {rate:?}");
        }
        assert!(!run.reasons[0].contains("waves"), "{requests}: {:?}", run.reasons);
    }
}

#[test]
fn a_closed_loop_that_hardly_began_says_so() {
    let server = Server {
        client_limit: 64,
        ..Server::mm1(1e6, 100, 8)
    };
    let mut recorder = recorder();
    let end = single_server::run(&server, &mut recorder);
    let run = judge(recorder.finish(end), LoadKind::Closed, &Precision::default());
    assert!(
        run.reasons[0].contains("100 answers are 1.56 waves of the 64 in flight"),
        "{:?}",
        run.reasons
    );
}

#[test]
fn traffic_that_changes_is_finite_unless_it_overloads() {
    let verdict = |rate| {
        let mut recorder = recorder();
        let end = single_server::run(&Server::mm1(rate, 5_000, 9), &mut recorder);
        let run = judge(recorder.finish(end), LoadKind::Varying, &Precision::default());
        assert!(run.steady.is_none());
        run.verdict
    };
    assert_eq!(verdict(0.5), Verdict::Finite);
    assert_eq!(verdict(1.5), Verdict::Unstable);
}

#[test]
fn a_varying_load_saturates_where_its_backlog_outlasts_its_span() {
    let run = |rate, requests| {
        let mut recorder = recorder();
        let end = single_server::run(&Server::mm1(rate, requests, 9), &mut recorder);
        judge(recorder.finish(end), LoadKind::Varying, &Precision::default())
    };
    // 20,000 at 1.2 a second take 16,667 s to come and 20,000 s to serve: 20 % too long. At 1.02 it is 2 %.
    let behind = run(1.2, 20_000);
    assert_eq!(behind.verdict, Verdict::Unstable);
    assert!(
        (behind.growth_per_s - 0.2).abs() < 0.03,
        "{}",
        behind.growth_per_s
    );
    assert!(
        behind.reasons[0].contains("after the last arrival"),
        "{}",
        behind.reasons[0]
    );
    assert_eq!(run(1.02, 20_000).verdict, Verdict::Finite);
}

/// Twenty servers at 1.2 times what they can do, from the first request on: everybody waits longer and longer, at the emptiest too.
#[test]
fn a_backlog_makes_no_allowance_for_itself() {
    let unstable = (0..20).filter(|&seed| {
        let server = Server {
            servers: 20,
            ..Server::mm1(24.0, 6_000, seed)
        };
        let mut recorder = recorder();
        let end = single_server::run(&server, &mut recorder);
        judge(recorder.finish(end), LoadKind::Varying, &Precision::default()).verdict == Verdict::Unstable
    });
    let unstable = unstable.count();
    assert!(unstable >= 19, "{unstable} of 20");
}

/// Twenty servers of whom three are busy: what is left over at the end of a hundred requests is the longest of their answers.
#[test]
fn the_last_answers_of_a_short_trace_are_no_backlog() {
    let unstable = |servers: u32, rate: f64| {
        let runs = (0..100).filter(|&seed| {
            let server = Server {
                servers,
                ..Server::mm1(rate, 100, seed)
            };
            let mut recorder = recorder();
            let end = single_server::run(&server, &mut recorder);
            judge(recorder.finish(end), LoadKind::Varying, &Precision::default()).verdict == Verdict::Unstable
        });
        runs.count()
    };
    let idle = unstable(20, 3.0);
    assert!(idle <= 5, "{idle} of 100");
    let overloaded = unstable(20, 40.0);
    assert!(overloaded >= 95, "{overloaded} of 100");
}

/// What stays is of what came, over the same time.
#[test]
fn a_queue_grows_no_faster_than_requests_arrive() {
    for (rate, requests) in [(1.3, 2_000), (5.0, 3_000), (40.0, 2_000), (200.0, 2_000)] {
        for seed in 0..20 {
            let run = result(&Server::mm1(rate, requests, seed));
            let said = &run.reasons[0];
            let per_s: Vec<f64> = said
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            if let [grows, arrive] = per_s[..] {
                assert!(grows <= arrive + 0.01, "{rate}, {requests}, seed {seed}: {said}");
            }
            assert!(run.growth_per_s <= 1.3 * rate, "{said}");
        }
    }
}

#[test]
fn a_handful_of_requests_is_too_short() {
    assert_eq!(result(&Server::mm1(0.5, 60, 1)).verdict, Verdict::TooShort);
}

#[test]
fn intervals_cover_the_closed_form_nineteen_times_in_twenty() {
    // M/M/1 at ρ = 0.7: W = 1/(μ − λ), the sojourn is exponential with that mean.
    let w = 1.0 / 0.3;
    let truth = [
        ("e2el", w),
        ("in_system", 0.7 * w),
        ("p99_e2el", w * 100f64.ln()),
        ("p50_e2el", w * 2f64.ln()),
        ("attainment", 1.0 - (-8.0 / w).exp()),
        ("throughput", 0.7),
    ];
    let mut covered = [0; 6];
    for seed in 0..200 {
        let run = result(&Server::mm1(0.7, 12_000, 1_000 + seed));
        for (hits, (name, value)) in covered.iter_mut().zip(truth) {
            let (_, interval) = run.intervals.iter().find(|(n, _)| n == name).unwrap();
            *hits += u32::from(interval.low <= value && value <= interval.high);
        }
    }
    // 190 expected; 5 binomial deviations of 3.1 below, and not so wide that they always cover.
    for (hits, (name, _)) in covered.iter().zip(truth) {
        assert!((175..=199).contains(hits), "{name}: {hits} of 200");
    }
}

#[test]
fn a_run_is_as_long_as_its_precision_asks_and_overload_stops_early() {
    let length = |rate: f64| {
        let precision = Precision {
            relative: 0.05,
            min_requests: 1_000,
            max_requests: 300_000,
            ..Precision::default()
        };
        let mut requests = 500;
        loop {
            let mut recorder = recorder();
            single_server::run(
                &Server {
                    stop_early: true,
                    ..Server::mm1(rate, requests, 5)
                },
                &mut recorder,
            );
            match decide(&recorder, LoadKind::Open, &precision) {
                Decision::Continue(more) => requests += more,
                Decision::Stop(verdict) => return (requests, verdict),
            }
        }
    };
    let (half, verdict) = length(0.5);
    assert_eq!(verdict, Verdict::Stable);
    let (high, verdict) = length(0.8);
    assert_eq!(verdict, Verdict::Stable);
    assert!(half < high, "{half} {high}");
    let (over, verdict) = length(1.3);
    assert_eq!(verdict, Verdict::Unstable);
    assert!(over <= 3_000, "{over}");
    let (full, verdict) = length(0.995);
    assert_eq!(full, 300_000);
    assert_eq!(verdict, Verdict::Critical);
}
