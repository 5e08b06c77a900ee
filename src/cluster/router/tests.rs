//! The rules that closed forms do not reach: thresholds, trees, reports.

use super::*;
use crate::engine::sglang::LoadSnapshot;
use crate::ids::SegmentId;
use crate::workload::{Piece, Prompt};

/// A request of `tokens` tokens of text `segment`, behind those of `before`.
fn request(id: u64, pieces: &[(u64, u32)]) -> Request {
    let pieces: Vec<Piece> = pieces
        .iter()
        .map(|&(segment, tokens)| Piece {
            segment: SegmentId(segment),
            start: 0,
            tokens,
        })
        .collect();
    Request {
        id: RequestId(id),
        arrival: Picos::ZERO,
        client_queue_time: Picos::ZERO,
        prompt_tokens: pieces.iter().map(|piece| piece.tokens).sum(),
        output_tokens: 1,
        max_tokens: 1,
        priority: 0,
        prompt: Prompt::Pieces(pieces.into()),
        output_segment: SegmentId(u64::MAX),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

fn loads(requests: &[u32]) -> Vec<Load> {
    let load = |&requests| Load {
        is_up: true,
        requests,
        ..Load::default()
    };
    requests.iter().map(load).collect()
}

fn route(router: &mut dyn Router, request: &Request, loads: &[Load]) -> Option<usize> {
    let view = View {
        loads,
        cached_tokens: &[],
        index_tokens: &|_| 0,
    };
    router.route(request, Picos::ZERO, &view)
}

/// RT-2: both conditions are needed; (0, 65) is out of balance, (200, 280) and (0, 64) are not.
#[test]
fn cache_aware_balances_where_both_thresholds_are_passed() {
    for (counts, expected) in [([65, 0], 1), ([280, 200], 0), ([64, 0], 0)] {
        let mut router = Policy::CacheAware(CacheAware::default()).router(&[16; 2], 0, 0);
        let long = request(0, &[(1, 1000)]);
        assert_eq!(route(&mut *router, &long, &loads(&[0, 0])), Some(0));
        assert_eq!(
            route(&mut *router, &long, &loads(&counts)),
            Some(expected),
            "{counts:?}"
        );
    }
}

/// Below the threshold the least loaded gets it, and owns the text from then on; a match takes the latest owner (RT-6).
#[test]
fn cache_aware_follows_the_longest_match() {
    let mut router = Policy::CacheAware(CacheAware::default()).router(&[16; 3], 0, 0);
    let at = |router: &mut dyn Router, pieces: &[(u64, u32)], counts: [u32; 3]| {
        route(router, &request(0, pieces), &loads(&counts))
    };
    assert_eq!(at(&mut *router, &[(1, 100), (2, 50)], [2, 1, 1]), Some(1));
    // 100 of 400 tokens match, a quarter: not above 0.3.
    assert_eq!(at(&mut *router, &[(1, 100), (3, 300)], [2, 2, 1]), Some(2));
    assert_eq!(
        at(&mut *router, &[(1, 100), (2, 50), (4, 10)], [0, 3, 3]),
        Some(1)
    );
    assert_eq!(at(&mut *router, &[(1, 100), (3, 200)], [0, 3, 3]), Some(2));
    // Both own the first text; the second used it last.
    assert_eq!(at(&mut *router, &[(1, 100), (9, 10)], [0, 3, 3]), Some(2));
    // Its owner is down: its texts are forgotten, the first one up gets it.
    let mut without = loads(&[5, 3, 3]);
    without[2].is_up = false;
    assert_eq!(
        route(&mut *router, &request(0, &[(1, 100), (3, 200)]), &without),
        Some(0)
    );
}

/// A part of a named text is a text that branches there.
#[test]
fn a_shorter_piece_of_a_text_matches_its_head() {
    let mut tree = text_tree::TextTree::new(2);
    tree.insert(&request(0, &[(1, 100)]), 0);
    tree.insert(&request(1, &[(1, 40), (2, 60)]), 1);
    assert_eq!(tree.longest_match(&request(2, &[(1, 100)])), (100, Some(0)));
    assert_eq!(
        tree.longest_match(&request(3, &[(1, 40), (2, 10)])),
        (50, Some(1))
    );
    assert_eq!(tree.longest_match(&request(4, &[(7, 10)])), (0, None));
    tree.trim(60);
    // Replica 0 had 100 tokens in two nodes of 40 and 60; its leaf went. So did replica 1's.
    assert_eq!(tree.longest_match(&request(5, &[(1, 100)])), (40, Some(1)));
    tree.forget(1);
    assert_eq!(
        tree.longest_match(&request(6, &[(1, 40), (2, 60)])),
        (40, Some(0))
    );
}

/// V1-86, 0.33: in flight, unless the engines report more; waiting weighs more the fuller the cache is.
#[test]
fn a_data_parallel_server_ranks_by_what_it_sent_and_what_is_reported() {
    let mut router = Policy::VllmDataParallel(DataParallelScore::InFlight).router(&[16; 2], 0, 0);
    let mut seen = loads(&[4, 3]);
    assert_eq!(route(&mut *router, &request(0, &[(1, 1)]), &seen), Some(1));
    seen[1].reported = State {
        running: 3,
        waiting: 2,
        kv_usage: 0.4,
    };
    assert_eq!(route(&mut *router, &request(1, &[(1, 1)]), &seen), Some(0));
    (seen[0].requests, seen[1].requests) = (6, 0);
    assert_eq!(route(&mut *router, &request(2, &[(1, 1)]), &seen), Some(1));
    // 5 + 2 · 6 · 0.4 = 9.8 against 6.
    seen[1].reported.kv_usage = 0.9;
    assert_eq!(route(&mut *router, &request(3, &[(1, 1)]), &seen), Some(0));
}

/// V1-86, 0.11: what was sent since the last report counts as waiting, four times what runs.
#[test]
fn an_old_data_parallel_server_counts_what_it_sent_as_waiting() {
    let mut router = Policy::VllmDataParallel(DataParallelScore::FourfoldWaiting).router(&[16; 2], 0, 0);
    let mut seen = loads(&[9, 9]);
    seen[0].reported.running = 3;
    assert_eq!(route(&mut *router, &request(0, &[(1, 1)]), &seen), Some(1));
    seen[1].sent_since_report = 1;
    assert_eq!(route(&mut *router, &request(1, &[(1, 1)]), &seen), Some(0));
    (seen[1].sent_since_report, seen[1].reported.running) = (0, 2);
    assert_eq!(route(&mut *router, &request(2, &[(1, 1)]), &seen), Some(1));
}

/// RT-10: a warm replica is worth its tokens in blocks; a first token takes the prefill off the account.
#[test]
fn kv_events_weigh_prefill_against_blocks_in_use() {
    let mut router = Policy::KvEvents(KvEvents::default()).router(&[16; 2], 0, 0);
    let loads = loads(&[0, 0]);
    let at = |router: &mut dyn Router, id: u64, tokens: u32, cached: [u32; 2]| {
        let view = View {
            loads: &loads,
            cached_tokens: &cached,
            index_tokens: &|index| index as u64,
        };
        router.route(&request(id, &[(id, tokens)]), Picos::ZERO, &view)
    };
    // 160 tokens cost 10 blocks of prefill on either; the first gets it: 10 + 10 from now on.
    assert_eq!(at(&mut *router, 0, 160, [0, 0]), Some(0));
    assert_eq!(at(&mut *router, 1, 160, [160, 0]), Some(1));
    router.first_token(RequestId(1));
    // 0: (160 + 16)/16 + 10 + 1 = 22; 1: 16/16 + 10 + 1 = 12.
    assert_eq!(at(&mut *router, 2, 16, [0, 0]), Some(1));
    router.left(RequestId(0));
    assert_eq!(at(&mut *router, 3, 16, [0, 0]), Some(0));
}

/// RT-11: of equals the one with the smallest index, of these any.
#[test]
fn kv_events_break_ties_by_the_size_of_the_index_and_then_by_chance() {
    let mut router = Policy::KvEvents(KvEvents::default()).router(&[16; 4], 0, 0);
    let loads = loads(&[0; 4]);
    let mut taken = [0_u32; 4];
    for id in 0..3000 {
        let view = View {
            loads: &loads,
            cached_tokens: &[0; 4],
            index_tokens: &|index| if index == 1 { 900 } else { 300 },
        };
        let chosen = router.route(&request(id, &[(id, 64)]), Picos::ZERO, &view);
        taken[chosen.expect("all are up")] += 1;
        router.left(RequestId(id));
    }
    assert_eq!(taken[1], 0, "the largest index");
    // 1,000 each, and 26 a standard deviation.
    let is_fair = |count: u32| (870..1130).contains(&count);
    assert!([0, 2, 3].iter().all(|&index| is_fair(taken[index])), "{taken:?}");
}

/// Equal heads meet on one replica, also when others come and go.
#[test]
fn prefix_hash_keeps_equal_heads_together() {
    let mut router = Policy::PrefixHash.router(&[16; 8], 0, 0);
    let idle = loads(&[1; 8]);
    let mut homes = Vec::new();
    for text in 0..64 {
        let first = route(
            &mut *router,
            &request(0, &[(text, 300), (1000 + text, 50)]),
            &idle,
        );
        let second = route(
            &mut *router,
            &request(1, &[(text, 300), (2000 + text, 70)]),
            &idle,
        );
        assert_eq!(first, second);
        homes.extend(first);
    }
    homes.sort_unstable();
    homes.dedup();
    assert_eq!(homes.len(), 8, "64 texts find every replica");
}

fn snapshots(loads: &mut [Load], at: u64, told: &[(u32, u64)]) {
    for (load, &(requests, tokens)) in loads.iter_mut().zip(told) {
        load.snapshot = LoadSnapshot {
            at: Picos(at),
            requests,
            tokens,
        };
    }
}

/// SG-49, 0.5.4: the least loaded are levelled with the next, in turn; then it goes round, where it had been.
#[test]
fn shortest_queue_levels_the_ranks_by_a_list() {
    let policy = Policy::ShortestQueue {
        watch_interval: Picos(1),
    };
    let mut router = policy.router(&[1; 3], 0, 0);
    let mut seen = loads(&[0; 3]);
    let take = |router: &mut dyn Router, seen: &[Load], count: usize| -> Vec<usize> {
        let next = |_| route(router, &request(0, &[(1, 1)]), seen).expect("all are up");
        (0..count).map(next).collect()
    };
    assert_eq!(take(&mut *router, &seen, 4), [0, 1, 2, 0]);
    snapshots(&mut seen, 1, &[(3, 0), (1, 0), (2, 0)]);
    router.heard(&seen);
    // 1 alone is levelled with 2, then both with 0; then in turn from where that was left.
    assert_eq!(take(&mut *router, &seen, 5), [1, 1, 2, 1, 2]);
    router.heard(&seen);
    assert_eq!(take(&mut *router, &seen, 1), [1]);
    // New answers replace what is left of the list, also by nothing.
    snapshots(&mut seen, 2, &[(4, 0), (4, 0), (4, 0)]);
    router.heard(&seen);
    assert_eq!(take(&mut *router, &seen, 2), [0, 1]);
}

/// SG-49, 0.5.23: what was sent counts until a newer snapshot comes; snapshots are read every 20 ms at most.
#[test]
fn totals_are_those_of_the_last_snapshot_and_what_was_sent_since() {
    let policy = |by| Policy::TotalLoad {
        by,
        publish_interval: 15,
    };
    let at = |router: &mut dyn Router, tokens: u32, ms: u64, loads: &[Load]| {
        let view = View {
            loads,
            cached_tokens: &[],
            index_tokens: &|_| 0,
        };
        router.route(&request(0, &[(1, tokens)]), Picos(ms * 1_000_000_000), &view)
    };
    let mut seen = loads(&[0; 2]);
    snapshots(&mut seen, 7, &[(2, 10), (0, 50)]);
    let mut router = policy(TotalLoad::Requests).router(&[1; 2], 0, 0);
    let turns: Vec<_> = (0..4).map(|_| at(&mut *router, 9, 0, &seen)).collect();
    assert_eq!(turns, [Some(1), Some(1), Some(0), Some(1)]);
    // Looked at too early; then both newer, then not newer.
    snapshots(&mut seen, 8, &[(9, 0), (0, 0)]);
    assert_eq!(at(&mut *router, 9, 19, &seen), Some(0));
    assert_eq!(at(&mut *router, 9, 20, &seen), Some(1));
    assert!(
        (0..8).all(|_| at(&mut *router, 9, 60, &seen) == Some(1)),
        "1 had 1 of 9"
    );
    assert_eq!(at(&mut *router, 9, 61, &seen), Some(0), "of equals the first");

    snapshots(&mut seen, 7, &[(2, 10), (0, 50)]);
    let mut router = policy(TotalLoad::Tokens).router(&[1; 2], 0, 0);
    assert_eq!(at(&mut *router, 40, 0, &seen), Some(0));
    // 50 tokens each: the one with fewer requests.
    assert_eq!(at(&mut *router, 1, 1, &seen), Some(1));
    assert_eq!(at(&mut *router, 1, 2, &seen), Some(0));
}
