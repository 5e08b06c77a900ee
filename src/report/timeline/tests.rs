//! Facts told by hand, and what is written of them.

use super::*;
use crate::cost::{Chunk, StepLoad};
use crate::workload::Request;

const MS: u64 = 1_000_000_000;

fn at(ms: u64) -> Picos {
    Picos(ms * MS)
}

fn replica(name: &str) -> TimelineReplica {
    TimelineReplica {
        name: name.to_owned(),
        steps: "steps".to_owned(),
        kv_blocks: 100,
        block_size: 16,
        answers_whole: false,
    }
}

fn timeline(window: &str) -> Timeline {
    let replicas = [replica("prefill 0"), replica("decode 0")];
    let about = [("scenario", "a \"quoted\" name".to_owned())];
    Timeline::new(&replicas, &about, TimeWindow::parse(window).unwrap())
}

fn arrive(timeline: &mut Timeline, id: u64, now: Picos) {
    let request = Request {
        id: RequestId(id),
        arrival: now,
        prompt_tokens: 64,
        ..Request::default()
    };
    timeline.observe(&Fact::Arrived { request: &request });
}

fn send(timeline: &mut Timeline, id: u64, now: Picos, entry: Picos) {
    timeline.observe(&Fact::Sent {
        now,
        replica: ReplicaId(0),
        id: RequestId(id),
        entry,
    });
}

fn admit(timeline: &mut Timeline, id: u64, replica: u32, now: Picos, resumed: bool) {
    timeline.observe(&Fact::Admitted {
        now,
        replica: ReplicaId(replica),
        id: RequestId(id),
        waiting_since: now,
        queued_since: now,
        known_tokens: 64,
        cached_tokens: 16,
        resumed,
    });
}

/// `count` steps of a load from `begin` on, each 1 µs longer than the one before.
fn step(timeline: &mut Timeline, replica: u32, begin: Picos, ms: u64, count: u64, load: &StepLoad) {
    let increment = Picos(if count > 1 { 1_000_000 } else { 0 });
    let span = ms * MS * count + increment.0 * (count * (count - 1) / 2);
    timeline.observe(&Fact::Steps(&Steps {
        replica: ReplicaId(replica),
        begin,
        end: begin + Picos(span),
        count,
        duration: at(ms),
        duration_increment: increment,
        gap_seqs: 0,
        gap: at(ms),
        handed: load.sampled_rows,
        seen: None,
        load,
        recomputed_tokens: 0,
        running: 1,
        waiting: 0,
        free_blocks: 96,
        free_meanwhile: 96,
        kv_slots: load.decode_seqs,
    }));
}

fn first_token(timeline: &mut Timeline, id: u64, replica: u32, now: Picos) {
    timeline.observe(&Fact::FirstToken {
        now,
        replica: ReplicaId(replica),
        id: RequestId(id),
        arrival: Picos::ZERO,
    });
}

fn end(timeline: &mut Timeline, id: u64, replica: u32, now: Picos, outcome: Outcome) {
    timeline.observe(&Fact::Ended(&Completion {
        id: RequestId(id),
        replica: ReplicaId(replica),
        outcome,
        arrival: Picos::ZERO,
        client_queue_time: Picos::ZERO,
        first_scheduled: Picos::ZERO,
        first_token: None,
        end: now,
        prompt_tokens: 64,
        output_tokens: 3,
        cached_tokens: 16,
        preemptions: 0,
        waiting_time: Picos::ZERO,
    }));
}

fn prompt() -> StepLoad {
    let chunk = Chunk {
        computed: 16,
        new: 48,
    };
    StepLoad {
        chunks: vec![chunk],
        sampled_rows: 1,
        ..StepLoad::default()
    }
}

/// One line an event, without what names processes and threads: phase, name, place, start and duration; and what is held.
fn lines(timeline: &mut Timeline) -> (String, Held) {
    let held = timeline.finish();
    let text = timeline.take();
    let file: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let events = file["traceEvents"].as_array().unwrap().iter();
    let line = |event: &serde_json::Value| {
        let keys = ["ph", "name", "pid", "tid", "ts", "dur"];
        let said = keys.into_iter().filter_map(|key| match &event[key] {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        said.collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = events.filter(|event| event["ph"] != "M").map(line).collect();
    (lines.join("\n"), held)
}

/// A request that waits, is prefilled, decodes twice, and ends.
fn tell_one(timeline: &mut Timeline) {
    arrive(timeline, 7, at(1));
    send(timeline, 7, at(1), at(2));
    admit(timeline, 7, 0, at(3), false);
    step(timeline, 0, at(3), 2, 1, &prompt());
    first_token(timeline, 7, 0, at(5));
    step(timeline, 0, at(5), 1, 2, &StepLoad::of_decodes(1, 65));
    end(timeline, 7, 0, at(7) + Picos(1_000_000), Outcome::Completed);
}

#[test]
fn a_request_is_seen_from_its_front_end_to_its_end() {
    let mut timeline = timeline("10s");
    tell_one(&mut timeline);
    let (lines, held) = lines(&mut timeline);
    insta::assert_snapshot!(lines, @r#"
    C requests 1 0.0
    b front end 1 1000.0
    e front end 1 2000.0
    b queued 1 2000.0
    e queued 1 3000.0
    C requests 1 2000.0
    C KV blocks 1 3000.0
    X prefill 48 in 1 1 3 3000.0 2000.0
    X decode 1 1 3 5000.0 1000.0
    X decode 1 1 3 6000.0 1001.0
    B request 7 1 5 3000.0
    B prefill 1 5 3000.0
    s first token 1 5 3000.0
    f first token 1 3 4999.999
    E 1 5 5000.0
    B decode 1 5 5000.0
    E 1 5 7001.0
    E 1 5 7001.0
    C requests 1 3000.0
    C requests 1 7001.0
    C requests 2 0.0
    "#);
    assert_eq!((held.steps, held.left_out), (3, 0));
}

#[test]
fn a_window_cuts_runs_and_leaves_out_steps_that_reach_beyond_it() {
    let mut timeline = timeline("4ms..7ms");
    tell_one(&mut timeline);
    // The prompt's step began before; the second decode step ends after.
    let (lines, held) = lines(&mut timeline);
    insta::assert_snapshot!(lines, @r#"
    C KV blocks 1 5000.0
    X decode 1 1 3 5000.0 1000.0
    B request 7 1 5 4000.0
    B prefill 1 5 4000.0
    E 1 5 5000.0
    B decode 1 5 5000.0
    E 1 5 7000.0
    E 1 5 7000.0
    C requests 1 4000.0
    C requests 2 4000.0
    "#);
    assert_eq!((held.steps, held.left_out), (1, 2));
}

#[test]
fn steps_told_at_once_one_by_one_or_in_parts_are_the_same_bytes() {
    let told = |parts: &[u64]| {
        let mut timeline = timeline("10s");
        let mut done = 0;
        let begin = |done: u64| at(done) + Picos(1_000_000 * (done * done.saturating_sub(1) / 2));
        for count in parts {
            let load = StepLoad::of_decodes(1, 65 + done as u32);
            timeline.observe(&Fact::Steps(&Steps {
                replica: ReplicaId(0),
                begin: begin(done),
                end: begin(done + count),
                count: *count,
                duration: at(1) + Picos(1_000_000 * done),
                duration_increment: Picos(1_000_000),
                gap_seqs: 1,
                gap: at(1),
                handed: 1,
                seen: None,
                load: &load,
                recomputed_tokens: 0,
                running: 1,
                waiting: 0,
                free_blocks: 96 - done as u32 / 16,
                free_meanwhile: 96 - done as u32 / 16,
                kv_slots: 1,
            }));
            done += count;
        }
        timeline.finish();
        timeline.take()
    };
    let whole = told(&[40]);
    assert_eq!(told(&[1; 40]), whole);
    assert_eq!(told(&[3, 30, 7]), whole);
    assert_eq!(whole.matches("\"ph\":\"X\"").count(), 40);
    assert_eq!(whole.matches("kv_blocks_used").count(), 1);
}

#[test]
fn a_preempted_request_waits_and_resumes_and_who_gives_up_is_told_of() {
    let mut timeline = timeline("10s");
    arrive(&mut timeline, 1, at(0));
    send(&mut timeline, 1, at(0), at(0));
    admit(&mut timeline, 1, 0, at(0), false);
    step(&mut timeline, 0, at(0), 2, 1, &prompt());
    first_token(&mut timeline, 1, 0, at(2));
    timeline.observe(&Fact::Preempted {
        now: at(3),
        replica: ReplicaId(0),
        id: RequestId(1),
        running_since: at(0),
        lost_tokens: 65,
    });
    arrive(&mut timeline, 2, at(4));
    send(&mut timeline, 2, at(4), at(4));
    admit(&mut timeline, 1, 0, at(5), true);
    timeline.observe(&Fact::Gap {
        now: at(7),
        replica: ReplicaId(0),
        id: RequestId(1),
        gap: at(4),
        seen: at(4),
    });
    end(&mut timeline, 2, 0, at(8), Outcome::TimedOut);
    // The first one is inside when the run ends.
    step(&mut timeline, 0, at(7), 3, 1, &StepLoad::of_decodes(1, 66));
    let (lines, _) = lines(&mut timeline);
    insta::assert_snapshot!(lines, @r#"
    C KV blocks 1 0.0
    X prefill 48 in 1 1 3 0.0 2000.0
    B request 1 1 5 0.0
    B prefill 1 5 0.0
    s first token 1 5 0.0
    f first token 1 3 1999.999
    E 1 5 2000.0
    B decode 1 5 2000.0
    E 1 5 3000.0
    E 1 5 3000.0
    C requests 1 0.0
    i preempted 1 3 3000.0
    C requests 1 3000.0
    b preempted 1 3000.0
    e preempted 1 5000.0
    C requests 1 4000.0
    b queued 1 4000.0
    e queued 1 8000.0
    C requests 1 5000.0
    i timed out 1 3 8000.0
    X decode 1 1 3 7000.0 3000.0
    B request 1 1 5 5000.0
    B resume 1 5 5000.0
    E 1 5 7000.0
    B decode 1 5 7000.0
    E 1 5 10000.0
    E 1 5 10000.0
    C requests 1 8000.0
    C requests 2 0.0
    "#);
}

#[test]
fn a_request_goes_from_the_replica_that_prefills_to_the_one_that_decodes() {
    let mut timeline = timeline("10s");
    let id = RequestId(3);
    arrive(&mut timeline, 3, at(0));
    send(&mut timeline, 3, at(0), at(0));
    admit(&mut timeline, 3, 0, at(1), false);
    step(&mut timeline, 0, at(1), 2, 1, &prompt());
    let (from, to) = (ReplicaId(0), ReplicaId(1));
    timeline.observe(&Fact::HandedOver {
        now: at(3),
        from,
        to,
        id,
        running_since: at(1),
    });
    timeline.observe(&Fact::Sent {
        now: at(4),
        replica: to,
        id,
        entry: at(5),
    });
    timeline.observe(&Fact::Crossing { now: at(6), to, id });
    timeline.observe(&Fact::Transferred {
        now: at(8),
        from,
        to,
        id,
        bytes: 1000,
        asked: at(6),
    });
    timeline.observe(&Fact::Crossed {
        now: at(8),
        to,
        id,
        since: at(6),
    });
    admit(&mut timeline, 3, 1, at(9), true);
    step(&mut timeline, 1, at(9), 1, 1, &StepLoad::of_decodes(1, 65));
    first_token(&mut timeline, 3, 1, at(10));
    end(&mut timeline, 3, 1, at(10), Outcome::Completed);
    let (lines, _) = lines(&mut timeline);
    insta::assert_snapshot!(lines, @r#"
    b queued 1 0.0
    e queued 1 1000.0
    C requests 1 0.0
    C KV blocks 1 1000.0
    X prefill 48 in 1 1 3 1000.0 2000.0
    B request 3 1 5 1000.0
    B prefill 1 5 1000.0
    E 1 5 3000.0
    E 1 5 3000.0
    C requests 1 1000.0
    C requests 2 0.0
    b front end 2 3000.0
    e front end 2 5000.0
    b queued 2 5000.0
    e queued 2 6000.0
    C requests 2 5000.0
    b KV transfer 2 6000.0
    e KV transfer 2 8000.0
    b waits for KV 2 6000.0
    e waits for KV 2 8000.0
    C requests 2 6000.0
    b queued 2 8000.0
    e queued 2 9000.0
    C requests 2 8000.0
    C KV blocks 2 9000.0
    X decode 1 2 4 9000.0 1000.0
    B request 3 2 6 9000.0
    B first decode 2 6 9000.0
    s handed over 1 5 2999.999
    f handed over 2 6 9000.0
    s first token 2 6 9000.0
    f first token 2 4 9999.999
    E 2 6 10000.0
    E 2 6 10000.0
    C requests 2 9000.0
    C requests 1 3000.0
    C requests 2 10000.0
    "#);
}

#[test]
fn a_file_says_what_it_is_of_and_how_its_replicas_are_called() {
    let mut timeline = timeline("60s..");
    timeline.finish();
    let text = timeline.take();
    insta::assert_snapshot!(text, @r#"
    {"displayTimeUnit":"ms","otherData":{"scenario":"a \"quoted\" name","window":"60 s.."},"traceEvents":[
    {"ph":"M","name":"process_name","pid":1,"args":{"name":"prefill 0"}},
    {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":0}},
    {"ph":"M","name":"process_labels","pid":1,"args":{"labels":"100 KV blocks of 16 tokens"}},
    {"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"steps"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":3,"args":{"sort_index":0}},
    {"ph":"M","name":"process_name","pid":2,"args":{"name":"decode 0"}},
    {"ph":"M","name":"process_sort_index","pid":2,"args":{"sort_index":1}},
    {"ph":"M","name":"process_labels","pid":2,"args":{"labels":"100 KV blocks of 16 tokens"}},
    {"ph":"M","name":"thread_name","pid":2,"tid":4,"args":{"name":"steps"}},
    {"ph":"M","name":"thread_sort_index","pid":2,"tid":4,"args":{"sort_index":0}},
    {"ph":"C","name":"requests","pid":1,"ts":60000000.000,"args":{"running":0,"waiting":0}},
    {"ph":"C","name":"requests","pid":2,"ts":60000000.000,"args":{"running":0,"waiting":0}}
    ]}
    "#);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}
