//! Who waited for whom, told from facts made for it.

use super::*;
use crate::ids::ReplicaId;
use crate::workload::Piece;

fn request(id: u64, arrival: u64, prefix: u64) -> Request {
    let piece = |segment| Piece {
        segment: SegmentId(segment),
        start: 0,
        tokens: 8,
    };
    Request {
        id: RequestId(id),
        arrival: Picos(arrival),
        client_queue_time: Picos::ZERO,
        prompt_tokens: 16,
        output_tokens: 4,
        max_tokens: 4,
        class: 0,
        priority: 0,
        prompt: Prompt::Pieces(Box::new([piece(prefix), piece(100 + id)])),
        output_segment: SegmentId(1000 + id),
        session: None,
        ignore_eos: true,
        deadline: None,
    }
}

fn admit(waits: &mut Waits, id: u64, now: u64, cached_tokens: u32) {
    waits.observe(&Fact::Admitted {
        now: Picos(now),
        replica: ReplicaId(0),
        id: RequestId(id),
        waiting_since: Picos::ZERO,
        queued_since: Picos::ZERO,
        known_tokens: 16,
        cached_tokens,
        resumed: false,
    });
}

#[test]
fn a_wait_is_the_front_end_and_then_the_engines_queue() {
    let mut waits = Waits::new(true);
    waits.observe(&Fact::Arrived {
        request: &request(0, 1_000_000, 7),
    });
    waits.observe(&Fact::Admitted {
        now: Picos(9_000_000),
        replica: ReplicaId(0),
        id: RequestId(0),
        waiting_since: Picos(1_000_000),
        queued_since: Picos(7_000_000),
        known_tokens: 16,
        cached_tokens: 0,
        resumed: false,
    });
    let report = waits.finish(Picos(9_000_000));
    let mean_s = |of: &Distribution| of.mean_s().unwrap();
    assert!((mean_s(&report.front_end) - 6e-6).abs() < 1e-9);
    assert!((mean_s(&report.engine_queue) - 2e-6).abs() < 1e-9);
    assert!((mean_s(&report.misses.waits) - 8e-6).abs() < 1e-9);
}

#[test]
fn priorities_are_told_apart_where_there_are_several() {
    let report = |priorities: [i64; 3]| {
        let mut waits = Waits::default();
        for (id, priority) in (0..3).zip(priorities) {
            let request = Request {
                priority,
                ..request(id, 0, 7)
            };
            waits.observe(&Fact::Arrived { request: &request });
            admit(&mut waits, id, 1_000_000 * (id + 1), 0);
        }
        waits.finish(Picos(9_000_000)).priorities
    };
    assert_eq!(report([0, 0, 0]), []);
    let told = report([5, -1, 5]);
    let shape: Vec<(i64, u64, u64)> = told
        .iter()
        .map(|of| (of.priority, of.sent, of.waits.count()))
        .collect();
    assert_eq!(shape, [(-1, 1, 1), (5, 2, 2)]);
    assert!((told[1].waits.mean_s().unwrap() - 2e-6).abs() < 1e-8);
}

#[test]
fn who_comes_again_from_a_failed_replica_has_waited_once() {
    let mut waits = Waits::default();
    for id in 0..3 {
        waits.observe(&Fact::Arrived {
            request: &request(id, id, 7),
        });
    }
    admit(&mut waits, 0, 1_000, 0);
    admit(&mut waits, 1, 2_000, 0);
    admit(&mut waits, 2, 3_000, 0);
    admit(&mut waits, 0, 4_000, 0);
    let report = waits.finish(Picos(5_000));
    assert_eq!((report.admitted(), report.never_admitted), (3, 0));
    assert_eq!(report.prefixes[0].requests, 3);
}

#[test]
fn who_waits_while_others_pass_is_named() {
    let mut waits = Waits::default();
    let second = 1_000_000_000_000;
    for (id, prefix) in [(0, 7), (1, 8), (2, 7), (3, 7), (4, 8)] {
        waits.observe(&Fact::Arrived {
            request: &request(id, id, prefix),
        });
    }
    admit(&mut waits, 0, second, 0);
    // Two in one step, ahead of request 1; they do not overtake each other.
    admit(&mut waits, 3, 2 * second, 8);
    admit(&mut waits, 2, 2 * second, 8);
    admit(&mut waits, 1, 9 * second, 0);
    let report = waits.finish(Picos(10 * second));
    let most = report.most_overtaken.unwrap();
    assert_eq!(
        (most.id, most.overtaken_by, most.prefix),
        (RequestId(1), 2, Some(2))
    );
    assert!(!most.is_hit && (most.wait_s - 9.0).abs() < 1e-6);
    assert_eq!((report.admitted(), report.never_admitted), (4, 1));
    assert_eq!(report.starved(), None, "it has waited hardly longer than another");
    assert!((report.overtaken_share() - 0.25).abs() < 1e-12);
    let (requests, waited) = report.shares_of_misses().unwrap();
    assert!(
        (requests - 0.5).abs() < 1e-12 && (waited - 10.0 / 14.0).abs() < 1e-6,
        "{waited}"
    );
    // The one who never came in waited longest, then the overtaken one.
    let longest: Vec<u64> = report.longest.iter().map(|waiter| waiter.id.0).collect();
    assert_eq!(longest[..2], [4, 1]);
    assert_eq!(report.prefixes[0].prefix, 2);
    assert_eq!((report.prefixes[1].requests, report.prefixes[1].hits), (3, 2));
}

#[test]
fn who_came_last_is_not_starved_and_who_waits_far_longer_than_all_is() {
    let second = 1_000_000_000_000;
    let at = |id, arrival| Request {
        arrival: Picos(arrival),
        ..request(id, arrival, 7)
    };
    let seen = |never: u64| {
        let mut waits = Waits::default();
        waits.observe(&Fact::Arrived { request: &at(0, 0) });
        admit(&mut waits, 0, second, 0);
        waits.observe(&Fact::Arrived {
            request: &at(1, never),
        });
        waits.finish(Picos(10 * second)).starved()
    };
    assert_eq!(seen(10 * second - 1), None);
    assert_eq!(seen(8 * second), None, "it waited twice as long, and no longer");
    let (count, longest_s) = seen(second).unwrap();
    assert!(count == 1 && (longest_s - 9.0).abs() < 0.1, "{longest_s}");
}
