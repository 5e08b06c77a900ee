//! What each sort of traffic promises.

use std::collections::BTreeSet;

use super::*;
use crate::workload::{Client, Endings, Lengths};

/// A thousand requests of 512/128 tokens, sent by `arrivals`.
pub(crate) fn spec(arrivals: Arrivals) -> WorkloadSpec {
    WorkloadSpec {
        arrivals,
        lengths: Lengths::Fixed {
            input_len: 512,
            output_len: 128,
        },
        prefix: Prefix::None,
        client: Client::default(),
        num_prompts: Some(1000),
        duration: None,
        endings: None,
        classes: Vec::new(),
    }
}

/// What open traffic sends.
pub(crate) fn arrivals_of(spec: &WorkloadSpec, seed: u64) -> Vec<Request> {
    let mut traffic = Generator::new(spec, seed);
    let mut requests = Vec::new();
    while let Some(arrival) = traffic.next_arrival() {
        requests.push(traffic.take());
        assert_eq!(
            requests[requests.len() - 1].arrival,
            arrival,
            "a request arrives when it was announced"
        );
    }
    requests
}

#[derive(Clone, Copy, PartialEq)]
pub(in crate::workload) enum Fate {
    Answered,
    Failed,
}

/// Answers every request after `service`, on as many servers as are needed; requests with their ends.
pub(in crate::workload) fn serve(
    spec: &WorkloadSpec,
    seed: u64,
    limit: usize,
    service: impl Fn(&Request) -> (Picos, Fate),
) -> Vec<(Request, Picos)> {
    let mut traffic = Generator::new(spec, seed);
    let mut ends = BTreeSet::new();
    let mut served: Vec<(Request, Picos)> = Vec::new();
    loop {
        match (
            traffic.next_arrival().filter(|_| served.len() < limit),
            ends.first().copied(),
        ) {
            (None, None) => return served,
            (arrival, Some((end, id, is_answered))) if arrival.is_none_or(|arrival| end <= arrival) => {
                ends.pop_first();
                if is_answered {
                    traffic.ended(id, end)
                } else {
                    traffic.failed(id, end)
                }
            }
            (Some(arrival), _) => {
                let request = traffic.take();
                assert_eq!(
                    request.arrival, arrival,
                    "a request arrives when it was announced"
                );
                let (service, fate) = service(&request);
                ends.insert((arrival + service, request.id, fate == Fate::Answered));
                served.push((request, arrival + service));
            }
            (None, Some(_)) => unreachable!("without an arrival the next end is taken"),
        }
    }
}

pub(in crate::workload) fn answered_after(
    spec: &WorkloadSpec,
    seed: u64,
    service: Picos,
) -> Vec<(Request, Picos)> {
    serve(spec, seed, usize::MAX, |_| (service, Fate::Answered))
}

pub(in crate::workload) fn seconds(seconds: f64) -> Picos {
    Picos::from_seconds(seconds)
}

pub(in crate::workload) fn sessions(turns: f64, fixed_turns: bool, shared_system_len: u32) -> Prefix {
    Prefix::Sessions {
        turns,
        fixed_turns,
        think_time: seconds(2.0),
        shared_system_len,
    }
}

pub(in crate::workload) fn pieces(request: &Request) -> &[Piece] {
    match &request.prompt {
        Prompt::Unique => panic!("request {:?} shares something", request.id),
        Prompt::Pieces(pieces) => pieces,
    }
}

#[test]
fn a_closed_loop_keeps_its_limit_in_flight_and_sends_in_order() {
    let mut closed = spec(Arrivals::AllAtOnce);
    closed.client.max_concurrency = Some(4);
    let served = answered_after(&closed, 0, seconds(1.0));
    assert_eq!(served.len(), 1000);
    for (index, (request, _)) in served.iter().enumerate() {
        assert_eq!(request.id, RequestId(index as u64));
        assert_eq!(request.arrival, seconds((index / 4) as f64));
        assert_eq!(request.client_queue_time, request.arrival);
    }
}

#[test]
fn a_limited_client_queues_like_a_server_with_as_many_places() {
    // With gaps of 1 s and a service of 1.5 s in one place, request k (from 0) is submitted at k+1 and passes at 1+1.5k.
    let mut limited = spec(Arrivals::Constant { request_rate: 1.0 });
    limited.client.max_concurrency = Some(1);
    limited.client.timeout = Some(seconds(9.0));
    for (index, (request, _)) in answered_after(&limited, 0, seconds(1.5)).iter().enumerate() {
        assert_eq!(request.arrival, seconds(1.0 + 1.5 * index as f64));
        assert_eq!(request.client_queue_time, seconds(0.5 * index as f64));
        assert_eq!(request.deadline, Some(request.arrival + seconds(9.0)));
    }
}

#[test]
fn users_obey_the_closed_network_law() {
    // X = N/(R + Z) with N = 20, R = 3, Z = 2, so 4 requests/s. A cycle's coefficient of variation is 2/5 and
    // 40,000 cycles are observed: relative error 0.4/200 = 0.002; five of them.
    let mut users = spec(Arrivals::Users {
        users: 20,
        think_time: seconds(2.0),
    });
    users.num_prompts = Some(40_000);
    let served = answered_after(&users, 1, seconds(3.0));
    let rate = 40_000.0 / served[served.len() - 1].0.arrival.seconds();
    assert!((rate / 4.0 - 1.0).abs() < 0.01, "{rate} requests/s");
    let in_flight = |now: Picos| {
        served
            .iter()
            .filter(|(request, end)| request.arrival <= now && *end > now)
            .count()
    };
    assert!((1..50).all(|k| in_flight(seconds(f64::from(k) * 100.0)) <= 20));
}

#[test]
fn a_slower_server_changes_no_think_time_and_no_length() {
    let mut users = spec(Arrivals::Users {
        users: 1,
        think_time: seconds(2.0),
    });
    users.lengths = Lengths::RandomVllm {
        input_len: 100,
        output_len: 100,
        range_ratio: 0.5,
        output_range_ratio: 0.5,
    };
    let (fast, slow) = (
        answered_after(&users, 1, seconds(1.0)),
        answered_after(&users, 1, seconds(5.0)),
    );
    for (index, (fast, slow)) in fast.iter().zip(&slow).enumerate() {
        assert_eq!(slow.0.arrival - fast.0.arrival, seconds(4.0 * index as f64));
        assert_eq!(
            (slow.0.prompt_tokens, slow.0.max_tokens),
            (fast.0.prompt_tokens, fast.0.max_tokens)
        );
    }
}

#[test]
fn the_rate_and_the_endings_leave_lengths_as_they_were() {
    let mut slow = spec(Arrivals::Poisson { request_rate: 1.0 });
    slow.lengths = Lengths::RandomSglang {
        input_len: 1000,
        output_len: 1000,
        range_ratio: 0.0,
    };
    let mut fast = slow.clone();
    fast.arrivals = Arrivals::Gamma {
        request_rate: 50.0,
        burstiness: 0.2,
    };
    fast.endings = Some(Endings::Hazard { per_token: 0.01 });
    for (slow, fast) in arrivals_of(&slow, 9).iter().zip(&arrivals_of(&fast, 9)) {
        assert_eq!(
            (slow.prompt_tokens, slow.max_tokens),
            (fast.prompt_tokens, fast.max_tokens)
        );
        assert!(!slow.ends_by_eos());
        assert_eq!(fast.ends_by_eos(), fast.output_tokens < fast.max_tokens);
    }
}

#[test]
fn shares_of_prefixes_are_exact_or_follow_zipf() {
    let groups = |zipf, exact_shares| {
        let mut shared = spec(Arrivals::Poisson { request_rate: 1.0 });
        shared.prefix = Prefix::Groups {
            count: 7,
            prefix_len: 64,
            zipf,
            exact_shares,
        };
        let mut counts = [0; 7];
        for request in arrivals_of(&shared, 2) {
            assert_eq!(request.prompt_tokens, 512 + 64);
            let first = (0..7)
                .find(|group| segments::group(*group) == pieces(&request)[0].segment)
                .unwrap();
            counts[first as usize] += 1;
        }
        counts
    };
    assert_eq!(groups(0.0, true), [143, 143, 143, 143, 143, 143, 142]);
    for zipf in [0.0, 1.0] {
        let harmonic: f64 = (1..=7).map(|k| f64::from(k).powf(-zipf)).sum();
        for (group, count) in groups(zipf, false).into_iter().enumerate() {
            let share = ((group + 1) as f64).powf(-zipf) / harmonic;
            let deviation = (1000.0 * share * (1.0 - share)).sqrt();
            let difference = f64::from(count) - 1000.0 * share;
            assert!(difference.abs() < 4.0 * deviation, "prefix {group}: {count}");
        }
    }
}

#[test]
fn priorities_come_in_their_shares() {
    let mut mixed = spec(Arrivals::Poisson { request_rate: 1.0 });
    mixed.client.priorities = vec![(-1, 0.25), (7, 0.75), (9, 0.0)];
    let requests = arrivals_of(&mixed, 0);
    let urgent = requests.iter().filter(|request| request.priority == -1).count() as f64;
    // Binomial(1000, 1/4): standard deviation 13.7.
    assert!((urgent - 250.0).abs() < 55.0, "{urgent}");
    assert!(requests.iter().all(|request| [-1, 7].contains(&request.priority)));
}

#[test]
fn a_replay_keeps_what_it_was_given_and_stretches_time() {
    let mut shared = spec(Arrivals::Poisson { request_rate: 5.0 });
    shared.prefix = Prefix::Groups {
        count: 3,
        prefix_len: 16,
        zipf: 0.0,
        exact_shares: false,
    };
    shared.client.timeout = Some(seconds(1.0));
    let given = arrivals_of(&shared, 4);
    let mut replay = spec(Arrivals::Replay {
        requests: given.clone().into(),
        time_scale: 1.0,
    });
    assert_eq!(arrivals_of(&replay, 99), given);
    replay.arrivals = Arrivals::Replay {
        requests: given.clone().into(),
        time_scale: 2.0,
    };
    for (given, stretched) in given.iter().zip(arrivals_of(&replay, 99)) {
        assert_eq!(stretched.arrival.0, 2 * given.arrival.0);
        assert_eq!(stretched.deadline, Some(stretched.arrival + seconds(1.0)));
    }
}

#[test]
fn nothing_is_sent_at_or_after_the_end() {
    let mut timed = spec(Arrivals::Constant { request_rate: 1.0 });
    timed.duration = Some(seconds(10.0));
    assert_eq!(arrivals_of(&timed, 0).len(), 9);
    assert!(!Generator::new(&timed, 0).clock_exhausted());
}

#[test]
fn traffic_past_the_end_of_the_clock_ends_and_says_so() {
    let rare = spec(Arrivals::Constant { request_rate: 1e-6 });
    let mut traffic = Generator::new(&rare, 0);
    while traffic.next_arrival().is_some() {
        traffic.take();
    }
    assert_eq!(traffic.sent(), 18);
    assert!(traffic.clock_exhausted());
    let never = spec(Arrivals::Poisson { request_rate: 1e-12 });
    let mut traffic = Generator::new(&never, 0);
    assert_eq!(traffic.next_arrival(), None);
    assert!(traffic.clock_exhausted());
}

#[test]
#[should_panic(expected = "needs num_prompts or max_concurrency")]
fn an_endless_batch_is_refused() {
    let mut endless = spec(Arrivals::AllAtOnce);
    endless.num_prompts = None;
    let _ = Generator::new(&endless, 0);
}
