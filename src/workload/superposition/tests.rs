//! Clients side by side: nobody changes another's traffic, and each obeys its own laws.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ids::SegmentId;
use crate::workload::generator::tests::spec;
use crate::workload::{Class, Lengths, MmppState, Piece, Prefix, Promise, endless, mean_rate, with_rate};

fn seconds(seconds: f64) -> Picos {
    Picos::from_seconds(seconds)
}

fn poisson(request_rate: f64) -> WorkloadSpec {
    endless(&spec(Arrivals::Poisson { request_rate }))
}

fn closed(limit: u32, num_prompts: Option<u64>) -> WorkloadSpec {
    let mut closed = endless(&spec(Arrivals::AllAtOnce));
    closed.client.max_concurrency = Some(limit);
    WorkloadSpec {
        num_prompts,
        ..closed
    }
}

/// Clients by name, each with traffic of its own.
fn superposed(clients: Vec<(&str, WorkloadSpec)>) -> WorkloadSpec {
    let class = |(name, own): &(&str, WorkloadSpec)| Class {
        name: (*name).to_owned(),
        share: 1.0,
        lengths: own.lengths.clone(),
        priority: name.len() as i64,
        model: None,
        promise: Promise::default(),
    };
    let classes = clients.iter().map(class).collect();
    let streams = clients.into_iter().enumerate();
    let streams: Arc<[Stream]> = streams
        .map(|(index, (_, spec))| Stream {
            classes: vec![index as u32],
            start: Picos::ZERO,
            hash_space: index as u32,
            spec,
        })
        .collect();
    WorkloadSpec {
        classes,
        num_prompts: None,
        ..spec(Arrivals::Superposed { streams })
    }
}

fn stream(all: &mut WorkloadSpec, index: usize) -> &mut Stream {
    let Arrivals::Superposed { streams } = &mut all.arrivals else {
        panic!("it is superposed");
    };
    &mut Arc::make_mut(streams)[index]
}

/// Answers every request after `service`, on as many servers as are needed, until so many are sent.
fn serve(all: &WorkloadSpec, seed: u64, most: usize, service: impl Fn(&Request) -> Picos) -> Vec<Request> {
    let mut traffic = Superposition::new(all, seed);
    let (mut ends, mut sent) = (BTreeSet::new(), Vec::new());
    loop {
        let arrival = traffic.next_arrival().filter(|_| sent.len() < most);
        match (arrival, ends.first().copied()) {
            (None, None) => return sent,
            (arrival, Some((end, id))) if arrival.is_none_or(|arrival| end <= arrival) => {
                ends.pop_first();
                traffic.ended(id, end);
            }
            (Some(arrival), _) => {
                let request = traffic.take();
                assert_eq!(
                    request.arrival, arrival,
                    "a request arrives when it was announced"
                );
                ends.insert((arrival + service(&request), request.id));
                sent.push(request);
            }
            (None, Some(_)) => unreachable!("without an arrival the next end is taken"),
        }
    }
}

fn of_class(sent: &[Request], class: u32) -> Vec<&Request> {
    sent.iter().filter(|request| request.class == class).collect()
}

/// Instants and lengths of a class.
fn traffic_of(sent: &[Request], class: u32) -> Vec<(Picos, u32, u32)> {
    let of = |request: &&Request| (request.arrival, request.prompt_tokens, request.output_tokens);
    of_class(sent, class).iter().map(of).collect()
}

fn drawn(request_rate: f64) -> WorkloadSpec {
    let lengths = Lengths::RandomVllm {
        input_len: 500,
        output_len: 100,
        range_ratio: 0.9,
        output_range_ratio: 0.9,
    };
    WorkloadSpec {
        lengths,
        ..poisson(request_rate)
    }
}

#[test]
fn a_class_keeps_its_traffic_whoever_sends_beside_it_and_wherever_it_stands() {
    let answer = |_: &Request| seconds(0.3);
    let alone = serve(&superposed(vec![("chat", drawn(4.0))]), 7, 500, answer);
    let mut bursty = drawn(3.0);
    bursty.arrivals = Arrivals::Mmpp {
        states: vec![
            MmppState {
                request_rate: 9.0,
                mean_sojourn: seconds(2.0)
            };
            2
        ],
    };
    let others = vec![("batch", closed(5, None)), ("code", bursty), ("chat", drawn(4.0))];
    let among = serve(&superposed(others.clone()), 7, 6000, answer);
    let (alone, chat) = (traffic_of(&alone, 0), traffic_of(&among, 2));
    assert!(chat.len() > 400);
    assert_eq!(alone[..400], chat[..400]);

    // Another one beside it changes, and the code's traffic does not.
    let mut changed = others;
    changed[2].1 = drawn(8.0);
    let other = serve(&superposed(changed), 7, 6000, answer);
    let (before, after) = (traffic_of(&among, 1), traffic_of(&other, 1));
    assert!(before.len() > 200 && after.len() > 200);
    assert_eq!(before[..200], after[..200]);
    // Neither are two classes alike, nor two seeds.
    let twins = serve(
        &superposed(vec![("a", drawn(4.0)), ("b", drawn(4.0))]),
        7,
        500,
        answer,
    );
    assert_ne!(traffic_of(&twins, 0)[..100], traffic_of(&twins, 1)[..100]);
    let reseeded = serve(&superposed(vec![("chat", drawn(4.0))]), 8, 500, answer);
    assert_ne!(alone[..100], traffic_of(&reseeded, 0)[..100]);
}

#[test]
fn equal_instants_leave_in_the_order_of_the_classes() {
    let constant = |rate| endless(&spec(Arrivals::Constant { request_rate: rate }));
    let all = superposed(vec![
        ("a", constant(1.0)),
        ("bb", constant(2.0)),
        ("c", constant(1.0)),
    ]);
    let sent = serve(&all, 0, 8, |_| seconds(0.1));
    let order: Vec<u32> = sent.iter().map(|request| request.class).collect();
    assert_eq!(order, [1, 0, 1, 2, 1, 0, 1, 2]);
    let ids: Vec<u64> = sent.iter().map(|request| request.id.0).collect();
    assert_eq!(ids, (0..8).collect::<Vec<u64>>());
    assert_eq!((sent[0].priority, sent[1].priority), (2, 1));
}

#[test]
fn a_closed_loop_hears_of_its_own_answers_only() {
    // Each of its requests takes 1 s, the others' 0.2 s: it sends two every second, whatever the others do.
    let all = superposed(vec![("chat", poisson(50.0)), ("batch", closed(2, None))]);
    let sent = serve(&all, 3, 2000, |request| {
        seconds(if request.class == 0 { 0.2 } else { 1.0 })
    });
    for (index, request) in of_class(&sent, 1).iter().enumerate() {
        assert_eq!(request.arrival, seconds((index / 2) as f64));
        assert_eq!(request.client_queue_time, Picos::ZERO, "a loop has no queue");
    }
    assert!(of_class(&sent, 1).len() > 60);
}

#[test]
fn who_has_no_end_sends_until_the_last_of_those_who_have_one_has_left() {
    let all = superposed(vec![("chat", poisson(50.0)), ("batch", closed(2, Some(20)))]);
    let sent = serve(&all, 3, usize::MAX, |request| {
        seconds(if request.class == 0 { 0.2 } else { 1.0 })
    });
    assert_eq!(of_class(&sent, 1).len(), 20);
    // Ten pairs of a second each.
    let last = sent.last().unwrap().arrival;
    assert!(last < seconds(10.0) && last > seconds(9.5), "{last}");
    let mut traffic = Superposition::new(
        &superposed(vec![("a", poisson(1.0)), ("b", closed(1, Some(1)))]),
        0,
    );
    let first = traffic.take();
    assert_eq!((first.class, first.arrival), (1, Picos::ZERO));
    assert!(traffic.next_arrival().is_some());
    traffic.failed(first.id, seconds(0.01));
    assert_eq!(traffic.next_arrival(), None);
    let until = traffic.all_send().unwrap().until;
    assert_eq!(until, Picos::ZERO, "the loop sent for the last time at once");
    assert_eq!(
        traffic.fresh_until(),
        Picos::ZERO,
        "what comes later is the other's"
    );
}

#[test]
fn who_sends_nothing_is_none_of_all_who_send() {
    let mut brief = poisson(5.0);
    brief.duration = Some(Picos(1));
    let mut all = superposed(vec![
        ("a", poisson(5.0)),
        ("b", closed(1, Some(30))),
        ("c", brief),
    ]);
    stream(&mut all, 1).start = seconds(60.0);
    all.num_prompts = Some(100);
    let mut traffic = Superposition::new(&all, 1);
    let whole = |from| {
        Some(AllSend {
            from,
            until: Picos::MAX,
        })
    };
    // The brief one is over without a request; of the late one it is not known yet.
    assert_eq!(traffic.all_send(), whole(seconds(60.0)));
    while traffic.next_arrival().is_some() {
        let request = traffic.take();
        traffic.ended(request.id, request.arrival + seconds(0.1));
    }
    assert_eq!(traffic.all_sent(), whole(Picos::ZERO));
}

#[test]
fn a_number_of_requests_and_a_duration_are_of_all_together() {
    let mut counted = superposed(vec![
        ("a", poisson(5.0)),
        ("b", poisson(5.0)),
        ("c", closed(1, Some(3))),
    ]);
    counted.num_prompts = Some(100);
    assert_eq!(serve(&counted, 1, usize::MAX, |_| seconds(0.1)).len(), 100);
    counted.num_prompts = None;
    counted.duration = Some(seconds(30.0));
    let sent = serve(&counted, 1, usize::MAX, |_| seconds(0.1));
    assert!(sent.iter().all(|request| request.arrival < seconds(30.0)));
    assert!(sent.last().unwrap().arrival > seconds(28.0));
    assert_eq!(of_class(&sent, 2).len(), 3);
}

#[test]
fn a_client_that_starts_later_sends_the_same_later() {
    let mut batch = closed(3, Some(30));
    batch.client.timeout = Some(seconds(5.0));
    let mut all = superposed(vec![("chat", poisson(5.0)), ("batch", batch)]);
    let now = serve(&all, 2, usize::MAX, |_| seconds(0.7));
    stream(&mut all, 1).start = seconds(60.0);
    let later = serve(&all, 2, usize::MAX, |_| seconds(0.7));
    let (now, later) = (of_class(&now, 1), of_class(&later, 1));
    assert_eq!(now.len(), 30);
    for (now, later) in now.iter().zip(&later) {
        assert_eq!(later.arrival, now.arrival + seconds(60.0));
        assert_eq!(later.deadline, Some(later.arrival + seconds(5.0)));
    }
    assert_eq!(later.len(), 30);
}

/// A trace of prompts of two blocks with these hash ids as their numbers.
fn trace(ids: [[u64; 2]; 3]) -> WorkloadSpec {
    let request = |(index, ids): (usize, &[u64; 2])| {
        let piece = |&id: &u64| Piece {
            segment: SegmentId(id),
            start: 0,
            tokens: 16,
        };
        let mut request = Generator::new(&poisson(1.0), 0).take();
        request.arrival = seconds(index as f64);
        request.prompt_tokens = 32;
        request.prompt = Prompt::Pieces(ids.iter().map(piece).collect());
        request
    };
    let requests = ids.iter().enumerate().map(request).collect();
    endless(&spec(Arrivals::Replay {
        requests,
        time_scale: 1.0,
    }))
}

#[test]
fn hash_ids_of_two_traces_are_two_texts_unless_they_share_a_space() {
    let mut all = superposed(vec![
        ("a", trace([[0, 1], [0, 2], [0, 1]])),
        ("b", trace([[0, 1], [0, 3], [4, 1]])),
    ]);
    let texts = |all: &WorkloadSpec, class| -> BTreeSet<SegmentId> {
        let sent = serve(all, 0, usize::MAX, |_| seconds(0.1));
        assert_eq!(sent.len(), 6, "a trace is over with its last request");
        let of = of_class(&sent, class);
        of.iter()
            .flat_map(|request| request.prompt_pieces())
            .map(|piece| piece.segment)
            .collect()
    };
    let apart = (texts(&all, 0), texts(&all, 1));
    assert_eq!((apart.0.len(), apart.1.len()), (3, 4));
    assert!(apart.0.is_disjoint(&apart.1));
    stream(&mut all, 1).hash_space = 0;
    assert_eq!(texts(&all, 0).intersection(&texts(&all, 1)).count(), 2);
}

#[test]
fn prefixes_conversations_and_answers_of_two_clients_are_never_one_text() {
    let conversations = |system| WorkloadSpec {
        prefix: Prefix::Sessions {
            turns: 3.0,
            fixed_turns: true,
            think_time: seconds(1.0),
            shared_system_len: system,
        },
        ..poisson(2.0)
    };
    let groups = WorkloadSpec {
        prefix: Prefix::Groups {
            count: 3,
            prefix_len: 64,
            zipf: 0.0,
            exact_shares: false,
        },
        ..poisson(2.0)
    };
    let all = superposed(vec![
        ("a", conversations(32)),
        ("b", conversations(32)),
        ("c", groups.clone()),
        ("d", groups),
    ]);
    let sent = serve(&all, 5, 600, |_| seconds(0.2));
    let texts = |class| -> BTreeSet<SegmentId> {
        let of = of_class(&sent, class);
        let prompts = of
            .iter()
            .flat_map(|request| request.prompt_pieces())
            .map(|piece| piece.segment);
        prompts
            .chain(of.iter().map(|request| request.output_segment))
            .collect()
    };
    for class in 0..4 {
        assert!(of_class(&sent, class).len() > 50);
        for other in 0..class {
            assert!(texts(class).is_disjoint(&texts(other)), "{class} and {other}");
        }
    }
    let talks = |class| -> BTreeSet<u64> {
        of_class(&sent, class)
            .iter()
            .filter_map(|one| one.session)
            .collect()
    };
    assert!(talks(0).len() > 20 && talks(0).is_disjoint(&talks(1)));
}

#[test]
fn an_endless_load_is_one_in_which_all_send_from_the_first() {
    let mut all = superposed(vec![("a", poisson(6.0)), ("b", closed(4, Some(10)))]);
    stream(&mut all, 1).start = seconds(3600.0);
    let endless = endless(&all);
    let Arrivals::Superposed { streams } = &endless.arrivals else {
        panic!("it is superposed");
    };
    assert!(streams.iter().all(|stream| stream.start == Picos::ZERO));
    assert!(endless.parts().iter().all(|part| !part.has_end()));
    assert_eq!(mean_rate(&endless), mean_rate(&all));
}

#[test]
fn one_factor_scales_every_rate_and_leaves_loops_alone() {
    let all = superposed(vec![
        ("a", poisson(6.0)),
        ("b", poisson(2.0)),
        ("c", closed(4, None)),
    ]);
    assert_eq!(mean_rate(&all), Some(8.0));
    let twice = with_rate(&all, 16.0);
    let rates: Vec<Option<f64>> = twice.parts().into_iter().map(mean_rate).collect();
    assert_eq!(rates, [Some(12.0), Some(4.0), None]);
    assert_eq!(twice.parts()[2], all.parts()[2]);
    assert_eq!(mean_rate(&superposed(vec![("c", closed(4, None))])), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever clients there are, requests come in order of time with numbers in a row, equal seeds give equal bytes, and a
    /// loop never has more in flight than it is given.
    #[test]
    fn any_clients_obey_the_laws_of_traffic(
        kinds in prop::collection::vec((0u8..5, 1u32..6, prop::option::of(1u64..60)), 1..6),
        seed in any::<u64>(), service_ms in 1u64..900,
    ) {
        let of = |&(kind, size, count): &(u8, u32, Option<u64>)| {
            let rate = f64::from(size);
            let own = match kind {
                0 => poisson(rate),
                1 => endless(&spec(Arrivals::Constant { request_rate: rate })),
                2 => endless(&spec(Arrivals::Users { users: size, think_time: seconds(0.5) })),
                3 => WorkloadSpec { prefix: Prefix::Sessions {
                    turns: 2.5, fixed_turns: false, think_time: seconds(0.2), shared_system_len: 8 }, ..poisson(rate) },
                _ => closed(size, None),
            };
            WorkloadSpec { num_prompts: count, ..own }
        };
        let names = ["a", "b", "c", "d", "e"];
        let all = superposed(names.into_iter().zip(kinds.iter().map(of)).collect());
        let service = Picos(service_ms * 1_000_000_000);
        let sent = serve(&all, seed, 400, |_| service);
        prop_assert_eq!(&sent, &serve(&all, seed, 400, |_| service));
        for (index, request) in sent.iter().enumerate() {
            prop_assert_eq!(request.id.0, index as u64);
            prop_assert!(index == 0 || sent[index - 1].arrival <= request.arrival);
        }
        for (class, &(kind, size, count)) in kinds.iter().enumerate() {
            let own = of_class(&sent, class as u32);
            prop_assert!(count.is_none_or(|count| own.len() as u64 <= count));
            if matches!(kind, 2 | 4) {
                for at in size as usize..own.len() {
                    prop_assert!(own[at].arrival >= own[at - size as usize].arrival + service);
                }
            }
        }
    }
}
