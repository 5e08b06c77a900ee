//! Runs of steps against the steps, by hand.

use super::*;
use crate::cost::StepLoad;
use crate::ids::ReplicaId;
use proptest::prelude::*;

fn run<'a>(
    begin: u64,
    duration: u64,
    increment: u64,
    count: u64,
    handed: u32,
    load: &'a StepLoad,
) -> Steps<'a> {
    Steps {
        replica: ReplicaId(0),
        begin: Picos(begin),
        end: Picos(begin + duration * count + increment * (count * (count - 1) / 2)),
        count,
        duration: Picos(duration),
        duration_increment: Picos(increment),
        gap_seqs: handed,
        gap: Picos(duration),
        handed,
        seen: None,
        load,
        recomputed_tokens: 0,
        running: handed,
        waiting: 0,
        free_blocks: 0,
        free_meanwhile: 0,
        kv_slots: handed,
    }
}

/// One process that needs so long for a token, whether the piece holds another or not.
fn alone(each: u64) -> Streaming {
    Streaming::new(Pace {
        token: Picos(each),
        piece: Picos(each),
        at_once: 128,
        servers: 1,
        sharers: 1,
    })
}

#[test]
fn replicas_that_share_a_process_wait_for_each_other_s_tokens_once_it_is_behind() {
    let load = StepLoad::default();
    let shared = Pace {
        sharers: 4,
        ..alone(10).pace
    };
    // Two tokens take 20, those of all four 80: steps of 100 leave nothing behind, those of 50 do.
    let mut way = Streaming::new(shared);
    way.hand_on(&run(0, 100, 0, 9, 2, &load));
    assert_eq!(way.lag_at(Picos(900)), Picos(20));
    way.hand_on(&run(900, 50, 0, 5, 2, &load));
    assert_eq!(way.lag_at(Picos(1150)), Picos(20 + 5 * 30));
}

#[test]
fn a_loop_that_is_behind_writes_the_tokens_of_several_steps_in_one_piece() {
    let load = StepLoad::default();
    let pace = Pace {
        token: Picos(2),
        piece: Picos(10),
        at_once: 4,
        servers: 1,
        sharers: 1,
    };
    // Four tokens in steps of 30 take 40, or 8 where they find the loop behind: it stays 40 behind the steps.
    let mut way = Streaming::new(pace);
    let seen = way.hand_on(&run(0, 30, 0, 5, 4, &load));
    assert_eq!(
        (seen.first, seen.behind, seen.caught_up),
        (Picos(70), 0, Picos(30))
    );
    assert_eq!(way.lag_at(Picos(150)), Picos(40));
    // Of five one after the other writes its piece between them, so each step adds 20 to what is left to do.
    let mut way = Streaming::new(pace);
    let seen = way.hand_on(&run(0, 30, 0, 5, 5, &load));
    assert_eq!((seen.first, seen.behind, seen.each), (Picos(80), 4, Picos(50)));
    assert_eq!(way.lag_at(Picos(150)), Picos(130));
}

/// Gaps as the metrics spell them out.
fn listed(steps: &Steps<'_>, seen: SeenGaps) -> Vec<u64> {
    let mut gaps = vec![seen.first.0];
    gaps.extend((0..seen.behind).map(|_| seen.each.0));
    if seen.behind + 1 < steps.count {
        gaps.push(seen.caught_up.0);
    }
    gaps.extend((seen.behind + 2..steps.count).map(|i| steps.duration.0 + steps.duration_increment.0 * i));
    gaps
}

#[test]
fn tokens_wait_for_those_of_their_step_and_for_requests_that_came_before() {
    let load = StepLoad::default();
    let mut way = alone(2);
    // Three tokens at 100: the step's are through at 106, and so they stay.
    let seen = way.hand_on(&run(0, 100, 0, 4, 3, &load));
    assert_eq!(
        (seen.first, seen.behind, seen.caught_up),
        (Picos(106), 0, Picos(100))
    );
    assert_eq!(way.lag_at(Picos(100)), Picos(6));
    assert_eq!(way.lag_at(Picos(400)), Picos(6));
    // A request that takes 50 stands before the tokens of 500, which are 3 · 2 behind it.
    way.take_in(Picos(480), Picos(50));
    let seen = way.hand_on(&run(400, 100, 0, 2, 3, &load));
    assert_eq!(way.lag_at(Picos(500)), Picos(36));
    assert_eq!(
        (seen.first, seen.behind, seen.caught_up),
        (Picos(130), 0, Picos(70))
    );
    assert_eq!(way.lag_at(Picos(600)), Picos(6));
    // What is not of a step waits for what is there.
    assert_eq!(way.lag_at(Picos(602)), Picos(4));
    assert_eq!(way.lag_at(Picos(700)), Picos::ZERO);
}

#[test]
fn several_processes_share_what_comes_in() {
    let load = StepLoad::default();
    let mut way = Streaming::new(Pace {
        servers: 4,
        ..alone(2).pace
    });
    way.take_in(Picos(90), Picos(80));
    way.hand_on(&run(0, 100, 0, 1, 5, &load));
    // 10 of the request are left, and one process hands on two of the five tokens.
    assert_eq!(way.lag_at(Picos(100)), Picos(14));
}

proptest! {
    /// However a run is cut, each step's tokens are handed on when a queue that takes step after step hands them on.
    #[test]
    fn a_run_is_its_steps(
        duration in 1_u64..60, increment in 0_u64..6, count in 1_u64..60, cut in 0_u64..60, handed in 0_u32..9, token in 0_u64..6,
        piece in 0_u64..12, at_once in 0_u32..9,
        idle in 0_u64..50, late in 0_u64..400,
    ) {
        let load = StepLoad::default();
        let cut = cut.min(count);
        let pace = Pace { token: Picos(token), piece: Picos(token + piece), at_once, servers: 1, sharers: 1 };
        let (mut stepping, mut leaping) = (Streaming::new(pace), Streaming::new(pace));
        let whole_work = pace.piece.0 * u64::from(handed);
        let work = if handed <= at_once { token * u64::from(handed) } else { whole_work };
        for way in [&mut stepping, &mut leaping] {
            way.hand_on(&run(0, 7, 0, 1, handed, &load));
            way.take_in(Picos(7), Picos(late));
        }
        let (mut begin, mut free) = (7 + idle, stepping.done.0);
        let whole = run(begin, duration, increment, count, handed, &load);
        let mut expected = Vec::new();
        let mut gaps = Vec::new();
        let mut last = 7 + stepping.lag_at(Picos(7)).0;
        for index in 0..count {
            let lasts = duration + increment * index;
            let mut step = run(begin, lasts, 0, 1, handed, &load);
            step.gap = Picos(lasts + if index == 0 { idle } else { 0 });
            begin += lasts;
            free = (free + work).max(begin + whole_work);
            expected.push((begin, free));
            prop_assert_eq!(stepping.hand_on(&step).first.0, free - last);
            gaps.push(free - last);
            last = free;
        }
        let mut seen = Vec::new();
        let parts = [(0, cut), (cut, count)];
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            let lasts = duration + increment * from;
            let start = whole.begin.0 + duration * from + increment * (from * from.saturating_sub(1) / 2);
            let mut part = run(start, lasts, increment, to - from, handed, &load);
            part.gap = Picos(lasts + if from == 0 { idle } else { 0 });
            let told = leaping.hand_on(&part);
            seen.extend(listed(&part, told));
        }
        prop_assert_eq!(&seen, &gaps);
        for (end, done) in expected {
            prop_assert_eq!(leaping.lag_at(Picos(end)).0, done - end);
            prop_assert_eq!(stepping.lag_at(Picos(end)).0, done - end);
        }
        prop_assert_eq!(leaping.done, stepping.done);
    }
}
