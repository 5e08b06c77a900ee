//! Turns in order, gaps to the picosecond, so many conversations under way, every request once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::workload::generator::tests::{Fate, answered_after, seconds, serve, spec};
use crate::workload::{Arrivals, Plan, PlannedTurn, Prefix, Source, Traffic, WorkloadSpec};

/// Conversations whose turns wait for those given, with think times in milliseconds; a prompt has as many tokens as its turn's number.
fn recording(conversations: &[Vec<(Vec<u32>, u64)>]) -> Arc<Recording> {
    let mut plan = Plan::default();
    let mut requests = Vec::new();
    for turns in conversations {
        let first = requests.len() as u32;
        plan.starts.push(first);
        for (after, ms) in turns {
            plan.turns.push(PlannedTurn {
                after: after.iter().map(|turn| first + turn).collect(),
                think_time: Picos(ms * 1_000_000_000),
            });
            requests.push(Request {
                prompt_tokens: requests.len() as u32 + 1,
                output_tokens: 1,
                max_tokens: 1,
                ..Request::default()
            });
        }
    }
    Arc::new(Recording::new(requests, &plan))
}

fn led(recording: &Arc<Recording>, arrivals: Arrivals) -> WorkloadSpec {
    WorkloadSpec {
        prefix: Prefix::Recorded(recording.clone()),
        num_prompts: None,
        ..spec(arrivals)
    }
}

fn users(users: u32) -> Arrivals {
    Arrivals::Users {
        users,
        think_time: Picos::ZERO,
    }
}

/// An agent and two subagents: 0 → 1, then 2 → 3 and 4 beside each other, then 5 after all of them.
fn with_subagents() -> Vec<(Vec<u32>, u64)> {
    vec![
        (vec![], 0),
        (vec![0], 4_000),
        (vec![1], 1_000),
        (vec![2], 7_000),
        (vec![1], 2_000),
        (vec![1, 3, 4], 500),
    ]
}

fn turn(request: &Request) -> u32 {
    request.prompt_tokens - 1
}

#[test]
fn subagents_run_beside_each_other_and_are_waited_for() {
    let recording = recording(&[with_subagents()]);
    let sent: BTreeMap<u32, f64> = answered_after(&led(&recording, users(1)), 0, seconds(10.0))
        .iter()
        .map(|(request, _)| (turn(request), request.arrival.seconds()))
        .collect();
    // Answers take 10 s each: 0-10, 14-24, then 25-35 and 42-52 beside 26-36, then 0.5 s after the last of them.
    let expected = [(0, 0.0), (1, 14.0), (2, 25.0), (3, 42.0), (4, 26.0), (5, 52.5)];
    assert_eq!(sent, BTreeMap::from(expected));
}

#[test]
fn a_conversation_that_breaks_off_sends_no_more_and_lets_the_next_begin() {
    let recording = recording(&[with_subagents(), with_subagents()]);
    let spec = led(&recording, users(1));
    // The first subagent's first turn fails while the other one is inside.
    let served = serve(&spec, 0, usize::MAX, |request| match turn(request) {
        2 => (seconds(3.0), Fate::Failed),
        _ => (seconds(10.0), Fate::Answered),
    });
    let turns: Vec<u32> = served.iter().map(|(request, _)| turn(request)).collect();
    assert_eq!(turns, [0, 1, 2, 4, 6, 7, 8, 10, 9, 11]);
    assert_eq!(
        served[4].0.arrival, served[3].1,
        "the next begins when the last inside has left"
    );
    assert_eq!(served[4].0.session, Some(4));
}

#[test]
fn a_conversation_is_cut_to_the_requests_that_are_left() {
    let recording = recording(&[with_subagents(), with_subagents()]);
    let mut spec = led(&recording, Arrivals::Constant { request_rate: 1.0 });
    spec.num_prompts = Some(9);
    let mut turns: Vec<u32> = answered_after(&spec, 0, seconds(1.0))
        .iter()
        .map(|(request, _)| turn(request))
        .collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn more_users_than_conversations_and_a_think_time_past_the_clock_do_no_harm() {
    let weeks_ms = 20 * 7 * 86_400_000;
    let long = vec![(vec![], 0), (vec![0], weeks_ms), (vec![1], weeks_ms)];
    let recording = recording(&[long, vec![(vec![], 0)]]);
    let spec = led(&recording, users(5));
    assert_eq!(
        answered_after(&spec, 0, seconds(1.0)).len(),
        3,
        "40 weeks are not on the clock"
    );
    let mut traffic = super::super::Generator::new(&spec, 0);
    while traffic.next_arrival().is_some() {
        let request = traffic.take();
        traffic.ended(request.id, request.arrival);
    }
    assert!(traffic.clock_exhausted());
}

/// Random conversations: each turn waits for none to three of those before it.
fn conversations() -> impl Strategy<Value = Vec<Vec<(Vec<u32>, u64)>>> {
    let turn = (prop::collection::vec(0_u32..12, 0..3), 0_u64..5_000);
    let conversation = prop::collection::vec(turn, 1..12).prop_map(|turns| {
        let waits = |(at, (after, ms)): (u32, (Vec<u32>, u64))| {
            let after: BTreeSet<u32> = after.iter().filter(|_| at > 0).map(|turn| turn % at).collect();
            (after.into_iter().collect(), ms)
        };
        (0..).zip(turns).map(waits).collect()
    });
    prop::collection::vec(conversation, 1..10)
}

proptest! {
    /// The slow way: what each turn waits for is looked up in what was served.
    #[test]
    fn gaps_are_exact_and_so_many_conversations_are_under_way(
        conversations in conversations(),
        under_way in 1_u32..4,
        service_ms in prop::collection::vec(0_u64..4_000, 1..8),
        is_open in any::<bool>(),
    ) {
        let recording = recording(&conversations);
        let arrivals = if is_open { Arrivals::Poisson { request_rate: 0.3 } } else { users(under_way) };
        let served = serve(&led(&recording, arrivals), 7, usize::MAX, |request| {
            let ms = service_ms[turn(request) as usize % service_ms.len()];
            (Picos(ms * 1_000_000_000), Fate::Answered)
        });
        let all: usize = conversations.iter().map(Vec::len).sum();
        let by_turn: BTreeMap<u32, (Picos, Picos)> =
            served.iter().map(|(request, end)| (turn(request), (request.arrival, *end))).collect();
        prop_assert_eq!((served.len(), by_turn.len()), (all, all), "every request once");
        let mut spans = Vec::new();
        let mut first = 0;
        for turns in &conversations {
            let begun = by_turn[&first].0;
            for (at, (after, ms)) in (first..).zip(turns).skip(1) {
                let since = after.iter().map(|turn| by_turn[&(first + turn)].1).max().unwrap_or(begun);
                prop_assert_eq!(by_turn[&at].0, since + Picos(ms * 1_000_000_000));
            }
            let of = (first..).take(turns.len());
            spans.push((begun, of.map(|turn| by_turn[&turn].1).max().unwrap()));
            first += turns.len() as u32;
        }
        prop_assert!(spans.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in their order");
        if !is_open {
            for (at, (begun, _)) in spans.iter().enumerate() {
                let still = spans[..at].iter().filter(|(_, end)| end > begun).count();
                prop_assert!(still < under_way as usize, "{} are under way when the next begins", still);
                // As one ends the next begins: nobody idles while there is one to lead.
                prop_assert!(begun.0 == 0 || spans.iter().any(|(_, end)| end == begun));
            }
        }
    }
}
