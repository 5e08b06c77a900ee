//! Facts told by hand, and what a film shows of them.

use super::*;
use crate::cost::StepLoad;
use crate::ids::ReplicaId;
use crate::sim::{Completion, Rejection};
use crate::workload::Request;

fn at(ms: u64) -> Picos {
    Picos(ms * 1_000_000_000)
}

fn filming(most_requests: usize, most_rows: usize) -> Filming {
    let replica = FilmReplica {
        name: "replica 0".to_owned(),
        role: "serves",
        kv_blocks: 100,
        block_size: 16,
        max_num_seqs: 8,
        max_num_batched_tokens: 512,
    };
    Filming::new(vec![replica], most_requests, most_rows)
}

fn arrive(film: &mut Filming, id: u64, ms: u64) {
    let request = Request {
        id: RequestId(id),
        arrival: at(ms),
        prompt_tokens: 64,
        ..Request::default()
    };
    film.observe(&Fact::Arrived { request: &request });
    film.observe(&Fact::Sent {
        now: at(ms),
        replica: ReplicaId(0),
        id: RequestId(id),
        entry: at(ms + 1),
    });
}

fn admit(film: &mut Filming, id: u64, ms: u64, resumed: bool) {
    film.observe(&Fact::Admitted {
        now: at(ms),
        replica: ReplicaId(0),
        id: RequestId(id),
        waiting_since: at(ms),
        queued_since: at(ms),
        known_tokens: 64,
        cached_tokens: 16,
        resumed,
    });
}

fn step(film: &mut Filming, begin: u64, end: u64, free_meanwhile: u32) {
    let load = StepLoad::of_decodes(3, 100);
    film.observe(&Fact::Steps(&Steps {
        replica: ReplicaId(0),
        begin: at(begin),
        end: at(end),
        count: 2,
        duration: at((end - begin) / 2),
        duration_increment: Picos::ZERO,
        gap_seqs: 3,
        gap: at(1),
        handed: 3,
        seen: None,
        load: &load,
        recomputed_tokens: 0,
        running: 3,
        waiting: 1,
        free_blocks: 100,
        free_meanwhile,
        kv_slots: 1,
    }));
}

fn end(film: &mut Filming, id: u64, ms: u64) {
    let story = Completion {
        id: RequestId(id),
        replica: ReplicaId(0),
        outcome: Outcome::Completed,
        arrival: at(0),
        client_queue_time: Picos::ZERO,
        first_scheduled: at(0),
        first_token: Some(at(ms)),
        end: at(ms),
        prompt_tokens: 64,
        output_tokens: 7,
        cached_tokens: 16,
        preemptions: 1,
        waiting_time: Picos::ZERO,
    };
    film.observe(&Fact::Ended(&story));
}

#[test]
fn a_request_is_followed_from_its_arrival_to_its_end() {
    let mut film = filming(10, 10);
    arrive(&mut film, 0, 10);
    admit(&mut film, 0, 20, false);
    film.observe(&Fact::Preempted {
        now: at(40),
        replica: ReplicaId(0),
        id: RequestId(0),
        running_since: at(20),
        lost_tokens: 64,
    });
    admit(&mut film, 0, 50, true);
    step(&mut film, 50, 60, 30);
    film.observe(&Fact::FirstToken {
        now: at(60),
        replica: ReplicaId(0),
        id: RequestId(0),
        arrival: at(10),
    });
    film.observe(&Fact::Leaving {
        now: at(70),
        id: RequestId(0),
    });
    end(&mut film, 0, 75);
    let film = film.finish(at(100));
    let requests = &film.requests;
    assert_eq!(requests.arrival, [0.01]);
    assert_eq!(requests.queued, [Some(0.011)]);
    assert_eq!(
        (requests.admitted[0], requests.first_token[0]),
        (Some(0.02), Some(0.06))
    );
    // It left the engine before its client had all of it.
    assert_eq!(requests.end, [Some(0.07)]);
    assert_eq!((requests.output[0], requests.cached[0]), (Some(7), 16));
    assert_eq!((requests.preemptions[0], requests.replica[0]), (1, Some(0)));
    assert_eq!(requests.fate, [Some("completed")]);
    assert_eq!(film.waits.from, [0.011, 0.04]);
    assert_eq!(film.waits.to, [Some(0.02), Some(0.05)]);
    assert_eq!(film.waits.replica, [Some(0), Some(0)]);
    assert_eq!(film.stays.from, [0.02, 0.05]);
    assert_eq!(film.stays.to, [Some(0.04), Some(0.07)]);
    let steps = &film.steps;
    assert_eq!((steps.begin[0], steps.end[0], steps.count[0]), (0.05, 0.06, 2));
    assert_eq!((steps.decodes[0], steps.prefills[0]), (3, 0));
    assert_eq!((steps.kv_used[0], film.until), (70, 0.1));
}

#[test]
fn a_refused_request_never_runs() {
    let mut film = filming(10, 10);
    arrive(&mut film, 4, 10);
    let request = Request {
        id: RequestId(4),
        arrival: at(10),
        ..Request::default()
    };
    film.observe(&Fact::Rejected {
        now: at(10),
        request: &request,
        why: Rejection::Unavailable,
    });
    let film = film.finish(at(100));
    assert_eq!(film.requests.fate, [Some("refused")]);
    assert_eq!(
        (film.requests.admitted[0], film.requests.end[0]),
        (None, Some(0.01))
    );
    // Its way into the queue would have ended after it was refused: no wait ends before it begins.
    assert_eq!(film.waits.from, [0.011]);
    assert_eq!(film.waits.to, [Some(0.011)]);
}

#[test]
fn a_film_is_full_when_one_request_more_comes() {
    let mut film = filming(2, 10);
    arrive(&mut film, 0, 10);
    admit(&mut film, 0, 12, false);
    arrive(&mut film, 1, 20);
    arrive(&mut film, 2, 30);
    step(&mut film, 25, 31, 30);
    step(&mut film, 31, 40, 30);
    admit(&mut film, 1, 31, false);
    end(&mut film, 0, 40);
    let film = film.finish(at(100));
    assert_eq!((film.until, film.last_arrival), (0.03, 0.02));
    assert_eq!(film.requests.arrival, [0.01, 0.02]);
    // What comes about behind the end is not told, nor that it will.
    assert_eq!(film.requests.admitted, [Some(0.012), None]);
    assert_eq!(film.requests.end, [None, None]);
    assert_eq!((film.requests.output[0], film.requests.fate[0]), (None, None));
    assert_eq!(film.waits.to, [Some(0.012), None]);
    assert_eq!(film.steps.begin, [0.025]);
}

#[test]
fn a_film_is_full_when_there_are_more_steps_than_it_holds() {
    let mut film = filming(10, 1);
    arrive(&mut film, 0, 0);
    step(&mut film, 1, 5, 30);
    arrive(&mut film, 1, 4);
    arrive(&mut film, 2, 8);
    step(&mut film, 5, 9, 30);
    let film = film.finish(at(100));
    assert_eq!(film.until, 0.005);
    assert_eq!(film.requests.arrival, [0.0, 0.004]);
    assert_eq!(film.steps.begin.len(), 1);
    let json = serde_json::to_value(&film).unwrap();
    assert_eq!(json["requests"]["end"][0], serde_json::Value::Null);
    assert_eq!(json["replicas"][0]["role"], "serves");
}
