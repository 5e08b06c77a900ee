//! What the recorder makes of small streams of facts.

use super::super::single_server::{self, Server};
use super::*;
use crate::cost::StepLoad;
use crate::ids::ReplicaId;
use crate::metrics::{Fleet, LittleAudit, SloLimits};
use proptest::prelude::*;

fn recorder(records: Records) -> Recorder {
    let fleet = Fleet::alike(1, 100, 16);
    let slo = SloLimits {
        e2el: Some(Picos::from_seconds(5.0)),
        ..SloLimits::default()
    };
    Recorder::new(RecorderOptions { fleet, slo, records })
}

#[test]
fn little_holds_for_every_subsystem_and_nothing_is_lost() {
    for stop_early in [false, true] {
        let mut recorder = recorder(Records::None);
        let server = Server {
            stop_early,
            ..Server::mm1(0.7, 20_000, 1)
        };
        let end = single_server::run(&server, &mut recorder);
        let seen = recorder.finish(end);
        assert_eq!(seen.violations, Vec::<String>::new());
        let LittleAudit {
            system,
            waiting,
            running,
            ..
        } = seen.little;
        for check in [system, waiting, running] {
            assert!((check.l - check.lambda * check.w).abs() < 1e-9 * check.l);
        }
        assert!((seen.whole.occupancy.busy - 0.7).abs() < 0.05);
        assert!((system.l - waiting.l - running.l).abs() < 1e-9);
        assert_eq!(seen.whole.sent, 20_000);
        assert_eq!(seen.whole.completed + seen.whole.inside, 20_000);
    }
}

#[test]
fn batches_add_up_to_the_whole() {
    let mut recorder = recorder(Records::Requests);
    let end = single_server::run(&Server::mm1(0.6, 30_011, 2), &mut recorder);
    assert!((32..64).contains(&recorder.batches().len()));
    let seen = recorder.finish(end);
    let records = seen.records.as_ref().unwrap();
    let mut direct = Distribution::default();
    records
        .iter()
        .for_each(|r| direct.record(r.completion.end - r.completion.arrival, 1));
    assert_eq!(seen.whole.e2el.mean_s(), direct.mean_s());
    assert_eq!(seen.whole.e2el.steps(), direct.steps());
    let good = records
        .iter()
        .filter(|r| (r.completion.end - r.completion.arrival).seconds() <= 5.0)
        .count();
    assert_eq!(seen.whole.good, Some(good as u64));
    let all = seen.summary_of(0..seen.stretches.len()).unwrap();
    assert_eq!(all.completed, 30_011);
    let area: f64 = seen.stretches.iter().map(Stretch::system_area_s).sum();
    let sojourns: f64 = seen.whole.e2el.sum_s();
    assert!((area - sojourns).abs() < 1e-9 * area);
    let width = seen.series[1].t_s - seen.series[0].t_s;
    let by_series: f64 = seen.series.iter().map(|p| p.in_system * width).sum();
    assert!((by_series - area).abs() < 0.01 * area);
    let tokens: f64 = seen.series.iter().map(|p| p.output_tokens_per_s * width).sum();
    assert!((tokens - 30_011.0).abs() < 0.01 * 30_011.0);
    let sampled: u64 = seen.sampled_steps.iter().flatten().map(|sample| sample.2).sum();
    assert_eq!(sampled, seen.whole.work.steps);
}

/// A request waits for 1 s, runs for 2, and its answer is 4 s on its way; the next one is on its way for 1 s when the run ends.
#[test]
fn an_answer_on_its_way_neither_waits_nor_runs() {
    let mut recorder = recorder(Records::None);
    let s = |seconds: u64| Picos(seconds * crate::units::PICOS_PER_SECOND);
    for (id, arrival) in [(0, s(0)), (1, s(5))] {
        recorder.observe(&Fact::Arrived {
            request: &single_server::request(id, arrival),
        });
        recorder.observe(&Fact::Admitted {
            now: arrival + s(1),
            replica: ReplicaId(0),
            id: RequestId(id),
            waiting_since: arrival,
            queued_since: arrival,
            known_tokens: 8,
            cached_tokens: 0,
            resumed: false,
        });
        let now = arrival + s(3);
        recorder.observe(&Fact::Leaving {
            now,
            id: RequestId(id),
        });
    }
    recorder.observe(&Fact::Ended(&single_server::completion(0, s(0), s(1), s(7), 1)));
    let seen = recorder.finish(s(9));
    assert_eq!(seen.violations, Vec::<String>::new());
    let LittleAudit { waiting, running, .. } = seen.little;
    assert_eq!((waiting.l, running.l), (2.0 / 9.0, 4.0 / 9.0));
    let occupancy = &seen.whole.occupancy;
    assert!(
        (occupancy.handing_on() - 5.0 / 9.0).abs() < 1e-12,
        "{occupancy:?}"
    );
    assert_eq!(occupancy.running_max, 1);
}

/// Waves of ten requests, one a second: wherever a stretch begins and ends, its rate is that.
#[test]
fn a_wave_counts_at_one_end_of_a_stretch() {
    let mut recorder = recorder(Records::None);
    let s = |seconds: u64| Picos(seconds * crate::units::PICOS_PER_SECOND);
    for wave in 0..50 {
        let (begin, end) = (s(wave), s(wave + 1));
        let ids = 10 * wave..10 * wave + 10;
        for id in ids.clone() {
            recorder.observe(&Fact::Arrived {
                request: &single_server::request(id, begin),
            });
        }
        for id in ids {
            recorder.observe(&Fact::Ended(&single_server::completion(id, begin, begin, end, 1)));
        }
    }
    let seen = recorder.finish(s(50));
    let last = seen.whole_batches;
    for (from, to) in [(1, last), (3, 9), (7, 20)] {
        let summary = seen.summary_of(from..to).unwrap();
        assert_eq!(
            summary.completed as f64,
            10.0 * summary.duration_s,
            "{from}..{to}"
        );
    }
    assert_eq!(seen.summary_of(0..seen.stretches.len()).unwrap().completed, 500);
}

#[test]
fn a_request_that_leaves_twice_is_a_violation() {
    let mut recorder = recorder(Records::None);
    let server = Server {
        doubled: Some(17),
        ..Server::mm1(0.5, 100, 3)
    };
    let end = single_server::run(&server, &mut recorder);
    assert_eq!(
        recorder.finish(end).violations,
        ["request 17 left while not inside"]
    );
}

#[test]
fn work_that_no_step_did_is_a_violation() {
    let mut recorder = recorder(Records::None);
    let end = single_server::run(&Server::mm1(0.5, 100, 3), &mut recorder);
    // As if a step had been booked twice.
    recorder.open.work.busy += 10 * end.0;
    let violations = recorder.finish(end).violations;
    assert!(
        matches!(&violations[..], [one] if one.starts_with("replicas computed for ")),
        "{violations:?}"
    );
}

/// Two sequences decode together; the second was preempted once and comes back.
#[test]
fn token_gaps_of_each_request_are_rebuilt_from_leaps() {
    let mut recorder = recorder(Records::WithItls);
    let end = single_server::two_sequences(&mut recorder);
    let seen = recorder.finish(end);
    assert_eq!(seen.violations, Vec::<String>::new());
    let itls: Vec<Vec<f64>> = seen.records.unwrap().into_iter().map(|r| r.itls_s).collect();
    assert_eq!(itls, [vec![0.010, 0.011, 0.012, 0.020], vec![0.010, 0.043]]);
    assert_eq!(seen.whole.itl.count(), 6);
    assert_eq!(seen.whole.preemptions, 1);
    assert_eq!(seen.whole.max_output_tokens_per_s, 8.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_leap_is_its_steps(leaps in prop::collection::vec((1u64..40, 1u64..300, 0u64..5, 1u32..9), 1..12)) {
        let (mut leaping, mut stepping) = (recorder(Records::None), recorder(Records::None));
        let mut now = Picos::ZERO;
        for (count, duration, increment, seqs) in leaps {
            let (duration, increment) = (Picos(duration * 1_000_000_000), Picos(increment * 7_000_000));
            let load = |i| StepLoad {
                decode_seqs: seqs,
                decode_kv_tokens: 1_000 + i * u64::from(seqs),
                sampled_rows: seqs,
                ..StepLoad::default()
            };
            let begin = now;
            for i in 0..count {
                let end = now + duration + increment * i;
                let load = load(i);
                stepping.observe(&Fact::Steps(&single_server::steps(now, end, 1, Picos::ZERO, seqs, &load)));
                now = end;
            }
            let load = load(0);
            let leap = single_server::steps(begin, now, count, increment, seqs, &load);
            leaping.observe(&Fact::Steps(&leap));
        }
        let (leaping, stepping) = (leaping.finish(now).whole, stepping.finish(now).whole);
        prop_assert_eq!(leaping.itl.steps(), stepping.itl.steps());
        prop_assert_eq!(leaping.itl.std_s(), stepping.itl.std_s());
        prop_assert_eq!(leaping.work, stepping.work);
        prop_assert_eq!(leaping.max_output_tokens_per_s, stepping.max_output_tokens_per_s);
    }
}
