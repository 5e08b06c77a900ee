//! Where requests are, and Little's law for each place.

use super::*;
use crate::ids::ReplicaId;
use crate::sim::Outcome;
use crate::workload::{Prompt, Request};

const MS: u64 = 1_000_000_000;
const ID: RequestId = RequestId(7);

/// What a request of two servers tells, in milliseconds.
#[derive(Clone)]
struct Story {
    /// When it reaches the two queues, as the routers say, and as the engines do.
    entries: [u64; 2],
    queued: [u64; 2],
    handed_over: u64,
    /// Since when it ran by then.
    ran_since: u64,
    asked: u64,
    /// Since when it waited for its KV, as the transfer says.
    crossed_since: u64,
    crossed: u64,
    joined: u64,
    preempted: u64,
    /// Since when it ran by then.
    joined_since: u64,
    again: u64,
    left: u64,
    waited: u64,
    ended: u64,
}

/// 2 ms to the first queue, 3 there, 5 of prefill, 1 to the second queue, 2 there, 4 for the KV, 2 there, 6 of decode,
/// 3 of waiting again, 5 of decode, 1 to the client.
const RIGHT: Story = Story {
    entries: [12, 21],
    queued: [12, 21],
    handed_over: 20,
    ran_since: 15,
    asked: 23,
    crossed_since: 23,
    crossed: 27,
    joined: 29,
    preempted: 35,
    joined_since: 29,
    again: 38,
    left: 43,
    waited: 17,
    ended: 44,
};

fn at(ms: u64) -> Picos {
    Picos(ms * MS)
}

/// Tells a story as far as it goes until `end`.
fn tell(stays: &mut Stays, story: &Story, end: Picos) {
    let (p, d) = (ReplicaId(0), ReplicaId(1));
    let admitted = |replica, now, waiting_since, queued_since, resumed| Fact::Admitted {
        now: at(now),
        replica,
        id: ID,
        waiting_since: at(waiting_since),
        queued_since: at(queued_since),
        known_tokens: 8,
        cached_tokens: 0,
        resumed,
    };
    let sent = |replica, now, entry| Fact::Sent {
        now: at(now),
        replica,
        id: ID,
        entry: at(entry),
    };
    let request = Request {
        id: ID,
        arrival: at(10),
        client_queue_time: Picos::ZERO,
        prompt_tokens: 8,
        output_tokens: 2,
        max_tokens: 2,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: crate::ids::SegmentId(0),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    };
    let completion = Completion {
        id: ID,
        replica: d,
        outcome: Outcome::Completed,
        arrival: at(10),
        client_queue_time: Picos::ZERO,
        first_scheduled: at(15),
        first_token: Some(at(35)),
        end: at(story.ended),
        prompt_tokens: 8,
        output_tokens: 2,
        cached_tokens: 0,
        preemptions: 1,
        waiting_time: at(story.waited),
    };
    for fact in [
        Fact::Arrived { request: &request },
        sent(p, 10, story.entries[0]),
        admitted(p, 15, 10, story.queued[0], false),
        Fact::HandedOver {
            now: at(story.handed_over),
            from: p,
            to: d,
            id: ID,
            running_since: at(story.ran_since),
        },
        sent(d, 20, story.entries[1]),
        Fact::Crossing {
            now: at(story.asked),
            to: d,
            id: ID,
        },
        Fact::Crossed {
            now: at(story.crossed),
            to: d,
            id: ID,
            since: at(story.crossed_since),
        },
        admitted(d, story.joined, 20, story.queued[1], true),
        Fact::Preempted {
            now: at(story.preempted),
            replica: d,
            id: ID,
            running_since: at(story.joined_since),
            lost_tokens: 0,
        },
        admitted(d, story.again, 35, 35, true),
        Fact::Leaving {
            now: at(story.left),
            id: ID,
        },
        Fact::Ended(&completion),
    ] {
        let now = match fact {
            Fact::Sent { now, .. }
            | Fact::Admitted { now, .. }
            | Fact::HandedOver { now, .. }
            | Fact::Crossing { now, .. }
            | Fact::Crossed { now, .. }
            | Fact::Preempted { now, .. }
            | Fact::Leaving { now, .. } => now,
            Fact::Ended(story) => story.end,
            _ => at(10),
        };
        if now <= end {
            stays.observe(&fact);
        }
    }
}

/// Of a run of 44 ms with one request, from 10 ms on.
fn concluded(story: &Story) -> (LittleCheck, Vec<PlaceChecks>, Vec<String>) {
    let mut stays = Stays::new(2);
    tell(&mut stays, story, Picos::MAX);
    stays.conclude(at(44), i128::from(34 * MS))
}

#[test]
fn a_request_is_at_one_place_at_a_time() {
    let (front_ends, replicas, broken) = concluded(&RIGHT);
    assert_eq!(broken, Vec::<String>::new());
    let ms = |check: &LittleCheck| (check.l * 44.0).round() as u64;
    let places = |of: &PlaceChecks| [&of.inside, &of.waiting, &of.running, &of.crossing].map(ms);
    assert_eq!(ms(&front_ends), 2 + 1 + 1);
    assert_eq!(places(&replicas[0]), [8, 3, 5, 0]);
    assert_eq!(places(&replicas[1]), [18, 7, 11, 4]);
    // Who comes back from crossing was there before.
    let visits = |check: &LittleCheck| (check.lambda * 0.044).round() as u64;
    assert_eq!(
        [visits(&replicas[1].inside), visits(&replicas[1].waiting)],
        [1, 2]
    );
}

#[test]
fn one_instant_that_is_told_otherwise_breaks_a_law() {
    let wrong = |change: &dyn Fn(&mut Story)| {
        let mut story = RIGHT;
        change(&mut story);
        concluded(&story).2
    };
    type Falsify<'a> = &'a dyn Fn(&mut Story);
    let cases: [(Falsify<'_>, &str); 10] = [
        (&|story| story.entries[0] += 1, "front ends"),
        (&|story| story.entries[1] -= 1, "queue of replica 1"),
        (&|story| story.queued[0] += 1, "queue of replica 0"),
        (&|story| story.queued[1] -= 1, "front ends"),
        (&|story| story.ran_since += 1, "running batch of replica 0"),
        (&|story| story.asked += 1, "transfers of replica 1"),
        (&|story| story.crossed_since -= 1, "transfers of replica 1"),
        (&|story| story.again += 1, "running batch of replica 1"),
        (&|story| story.waited -= 1, "running batch of replica 1"),
        (&|story| story.ended += 1, "the system"),
    ];
    for (case, (change, place)) in cases.into_iter().enumerate() {
        let broken = wrong(change);
        assert!(
            broken.iter().any(|law| law.contains(place)),
            "case {case}: {broken:?}"
        );
    }
}

#[test]
fn a_run_that_is_cut_short_counts_who_is_inside() {
    // Nothing is told behind each of these instants; a transfer, a queue and a front end are among them.
    for end in 10..44 {
        let mut stays = Stays::new(2);
        tell(&mut stays, &RIGHT, at(end));
        let (_, _, broken) = stays.conclude(at(end), i128::from((end - 10) * MS));
        assert_eq!(broken, Vec::<String>::new(), "at {end} ms");
    }
}
