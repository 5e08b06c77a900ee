//! Who waits for whom, which blocks are whose, and what is wrong where.

use super::*;
use crate::workload::trace::{Format, ReadOptions, describe, read as read_trace};

fn trace(text: &str) -> Trace {
    read_trace(text.as_bytes(), "t.json", &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn complaint(text: &str) -> String {
    let options = ReadOptions {
        format: Some(Format::Weka),
        ..ReadOptions::default()
    };
    read_trace(text.as_bytes(), "t.json", &options)
        .unwrap_err()
        .to_string()
}

fn conversation(requests: &str) -> String {
    let requests = requests.replace('\n', " ");
    format!(
        "{{\"id\": \"c\", \"models\": [], \"block_size\": 64, \"hash_id_scope\": \"local\", \"requests\": [{requests}]}}"
    )
}

/// Turns as `after + seconds`.
fn plan(trace: &Trace) -> Vec<(Vec<u32>, f64)> {
    let turns = &trace.conversations.as_ref().unwrap().turns;
    turns
        .iter()
        .map(|turn| (turn.after.clone(), turn.think_time.seconds()))
        .collect()
}

#[test]
fn gaps_are_think_times_or_what_an_answer_leaves_of_the_time_between_requests() {
    let trace = trace(&conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "hash_ids": [1], "api_time": 7.5},
           {"t": 19.0, "type": "s", "in": 64, "out": 5, "hash_ids": [2], "think_time": 12.0, "api_time": 2.0},
           {"t": 24.25, "type": "s", "in": 64, "out": 5, "hash_ids": [3]},
           {"t": 30.0, "type": "n", "in": 64, "out": 0, "hash_ids": [4], "api_time": 3.0},
           {"t": 31.0, "type": "n", "in": 64, "out": 5, "hash_ids": [4]}"#,
    ));
    let after = |turn| vec![turn];
    assert_eq!(
        plan(&trace),
        [
            (vec![], 0.0),
            (after(0), 12.0),
            (after(1), 3.25),
            (after(2), 5.75),
            (after(3), 0.0)
        ]
    );
    assert_eq!(trace.requests[3].output_tokens, 1);
    insta::assert_snapshot!(trace.notes.join("\n"), @r"
    from an answer to the next request: think_time as recorded (1); the time since the request before, less its api_time (2); the time since the request before, the answer of the server that was recorded in it (1)
    1 request was recorded before the answer that it follows: it is sent with it
    1 request has no output tokens: 1 is asked of each, as AIPerf does
    1 request repeats the prompt before it (a call made twice, once of them streamed): all are sent
    ");
}

/// As in kv-cache-tester's own folder: `t` of a subagent is its end.
#[test]
fn a_subagent_told_at_its_end_runs_after_the_request_before_and_is_waited_for() {
    let trace = trace(&conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "api_time": 7.0},
           {"t": 134.25, "type": "subagent", "duration_ms": 126000, "requests": [
              {"t": 0.0, "type": "n", "in": 64, "out": 5, "think_time": 0.0, "api_time": 3.0},
              {"t": 6.0, "type": "n", "in": 64, "out": 5, "think_time": 3.0}]},
           {"t": 100.0, "type": "subagent", "duration_ms": 91000, "requests": [
              {"t": 0.0, "type": "n", "in": 64, "out": 5}]},
           {"t": 153.0, "type": "n", "in": 64, "out": 5, "think_time": 146.0}"#,
    ));
    assert_eq!(
        plan(&trace),
        [
            (vec![], 0.0),
            (vec![0], 0.0),
            (vec![1], 3.0),
            (vec![0], 2.0),
            (vec![0, 2, 3], 18.75)
        ]
    );
    assert!(
        trace
            .notes
            .iter()
            .any(|note| note.contains("their t is their end")),
        "{:?}",
        trace.notes
    );
}

/// As in later captures: `t` is the beginning and times inside count from the conversation's.
#[test]
fn a_subagent_that_outlasts_a_request_is_waited_for_by_a_later_one_or_nobody() {
    let trace = trace(&conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "api_time": 7.0},
           {"t": 10.0, "type": "subagent", "duration_ms": 40000, "requests": [
              {"t": 10.0, "type": "n", "in": 64, "out": 5}, {"t": 46.0, "type": "n", "in": 64, "out": 5}]},
           {"t": 20.0, "type": "n", "in": 64, "out": 5, "think_time": 13.0, "api_time": 1.0},
           {"t": 55.0, "type": "n", "in": 64, "out": 5, "think_time": 34.0},
           {"t": 60.0, "type": "subagent", "duration_ms": null, "requests": [{"t": 60.0, "type": "n", "in": 64, "out": 5}]}"#,
    ));
    assert_eq!(
        plan(&trace),
        [
            (vec![], 0.0),
            (vec![0], 3.0),
            (vec![1], 36.0),
            (vec![0], 13.0),
            (vec![3, 2], 5.0),
            (vec![4], 5.0),
        ]
    );
    let told = trace.notes.join("\n");
    assert!(told.contains("1 of them is waited for by nobody"), "{told}");
    assert!(told.contains("count from the conversation's beginning"), "{told}");
}

#[test]
fn ids_are_a_conversation_s_own_unless_they_are_global() {
    let talk = r#"{"t": 0.0, "type": "n", "in": 200, "out": 5, "hash_ids": [1, 2, 3]},
                  {"t": 9.0, "type": "n", "in": 300, "out": 5, "hash_ids": [1, 2, 3, 9]}"#;
    let local = format!("{}\n{}\n", conversation(talk), conversation(talk));
    let share = |text: &str| {
        let described = describe(&trace(text));
        (described.sessions.unwrap().count, described.prefix.unwrap())
    };
    let (sessions, shared) = share(&local);
    assert_eq!((sessions, shared.block), (2, 64));
    assert_eq!((shared.blocks * 14.0, shared.tokens * 1000.0), (6.0, 384.0));
    let (_, shared) = share(&local.replace("local", "global"));
    assert_eq!(shared.blocks * 14.0, 10.0);
    // Neighbours are one piece: the whole of the first prompt, then its end, which no id covers.
    let pieces = |trace: &Trace, index: usize| -> Vec<(u64, u32, u32)> {
        let pieces = trace.requests[index].prompt.shared();
        pieces
            .iter()
            .map(|piece| (piece.segment.0 & 0xff, piece.start, piece.tokens))
            .collect()
    };
    let trace = trace(&local);
    assert_eq!(pieces(&trace, 0), [(0, 0, 192), (0, 0, 8)]);
    assert_eq!(pieces(&trace, 1), [(0, 0, 256), (1, 0, 44)]);
    assert_eq!(pieces(&trace, 2)[0], (1, 0, 192));
}

/// Where some conversations share ids and others have their own, the one knows nothing of the other.
#[test]
fn ids_that_all_share_outlast_a_conversation_of_its_own() {
    let talk = |scope: &str| {
        let asks = r#"{"t": 0.0, "type": "n", "in": 128, "out": 5, "hash_ids": [1, 2]}"#;
        conversation(asks).replace("local", scope) + "\n"
    };
    let seen = |scopes: &[&str]| {
        let text: String = scopes.iter().map(|scope| talk(scope)).collect();
        describe(&trace(&text)).prefix.unwrap().blocks
    };
    assert_eq!(seen(&["local", "global"]), 0.0);
    assert_eq!(seen(&["global", "global"]), 0.5);
    assert_eq!(seen(&["global", "local", "global"]), 1.0 / 3.0);
}

#[test]
fn times_inside_a_subagent_told_at_its_end_may_count_from_the_conversation() {
    let trace = trace(&conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "api_time": 7.0},
           {"t": 134.25, "type": "subagent", "duration_ms": 126000, "requests": [
              {"t": 9.0, "type": "n", "in": 64, "out": 5, "api_time": 3.0}, {"t": 20.0, "type": "n", "in": 64, "out": 5}]},
           {"t": 153.0, "type": "n", "in": 64, "out": 5, "think_time": 146.0}"#,
    ));
    assert_eq!(
        plan(&trace),
        [(vec![], 0.0), (vec![0], 2.0), (vec![1], 8.0), (vec![0, 2], 18.75)]
    );
}

/// A subagent of a subagent that goes on when its own is done is waited for all the same.
#[test]
fn subagents_within_subagents_are_waited_for() {
    let trace = trace(&conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "api_time": 7.0},
           {"t": 10.0, "type": "subagent", "duration_ms": 16000, "requests": [
              {"t": 10.0, "type": "n", "in": 64, "out": 5, "api_time": 1.0},
              {"t": 12.0, "type": "subagent", "duration_ms": 20000, "requests": [
                 {"t": 12.0, "type": "n", "in": 64, "out": 5}]}]},
           {"t": 15.0, "type": "n", "in": 64, "out": 5, "think_time": 8.0, "api_time": 1.0},
           {"t": 40.0, "type": "n", "in": 64, "out": 5, "think_time": 24.0}"#,
    ));
    let waits: Vec<Vec<u32>> = plan(&trace).into_iter().map(|(after, _)| after).collect();
    assert_eq!(waits, [vec![], vec![0], vec![1], vec![0], vec![3, 1, 2]]);
}

/// Blocks of a text that goes on in two ways are told apart, and each is found again.
#[test]
fn a_prompt_that_branches_keeps_what_it_shares() {
    let trace = trace(&conversation(
        r#"{"t": 0, "type": "n", "in": 256, "out": 5, "hash_ids": [1, 2, 3, 4]},
           {"t": 1, "type": "n", "in": 256, "out": 5, "hash_ids": [1, 2, 7, 8]},
           {"t": 2, "type": "n", "in": 320, "out": 5, "hash_ids": [1, 2, 7, 8, 4]},
           {"t": 3, "type": "n", "in": 320, "out": 5, "hash_ids": [1, 2, 3, 4, 5]}"#,
    ));
    let prefix = describe(&trace).prefix.unwrap();
    assert_eq!(prefix.blocks * 18.0, 2.0 + 5.0 + 4.0);
    let covered = |request: &Request| {
        request
            .prompt
            .shared()
            .iter()
            .map(|piece| piece.tokens)
            .sum::<u32>()
    };
    assert!(
        trace
            .requests
            .iter()
            .all(|request| covered(request) == request.prompt_tokens)
    );
}

#[test]
fn all_that_is_wrong_is_told_with_its_place() {
    insta::assert_snapshot!(complaint(&conversation(
        r#"{"t": -1.0, "type": "n", "in": 64, "out": 5}, {"t": 0.0, "type": "x", "in": 64, "out": 5},
           {"type": "n", "in": 64.5}, {"t": 2.0, "type": "n", "in": 0, "out": 5},
           {"t": 3.0, "type": "n", "in": 65, "out": 5, "hash_ids": [1, 2, 3]},
           {"t": 4.0, "type": "subagent", "duration_ms": -5, "requests": []},
           {"t": 4.0, "type": "subagent", "requests": [{"t": 0.0, "type": "n", "in": 64}]}"#
    )), @r#"
    t.json (read as kv-cache-tester sessions)
      request 1: `t` is -1: a time cannot be negative
        help: a time is a number of the unit from some start; leave the row out or mend it
      request 2: `type` is `x`
        help: known are n, s and subagent
      request 3: `in` is 64.5: a token count is a whole number
        help: mend the row or leave it out of the file
      request 3: `out` is missing
        help: every request needs its prompt and output length
      request 3: `t` is missing
        help: every request has its time in seconds from the conversation's beginning
      request 4: `in` has no prompt tokens
        help: a request has at least 1: leave it out of the file
      request 5: `hash_ids` has 3 ids, 65 tokens make 2 blocks of 64
        help: a prompt has an id for each block at most: mend `in`, or leave the request out
      request 6: `duration_ms` is -5: a time cannot be negative
        help: a time is a number of the unit from some start; leave the row out or mend it
      request 7.1: `out` is missing
        help: every request needs its prompt and output length
    "#);
    let two = format!(
        "{}\n{}\n{{\"block_size\": 0, \"requests\": []}}\n{{\"block_size\": 64, \"requests\": [{{\"in\": \"six\"}}]}}\n{{\"blo",
        conversation(""),
        conversation(r#"{"t": 0.0, "type": "n", "in": 64, "out": 5}"#).replace("64,", "16,")
    );
    insta::assert_snapshot!(complaint(&two), @r#"
    t.json (read as kv-cache-tester sessions)
      line 1: `requests` holds no request
        help: leave the conversation out
      line 3: `block_size` is 0
        help: a block has 1 to 65536 tokens; kv-cache-tester's have 64
      line 4: `requests[0].in` is not as expected: string "six" where a number belongs at line 1 column 44
        help: a conversation is a JSON object with `block_size` and `requests`; fetch the file again, or leave it out
      line 5: is cut off: its JSON does not end
    "#);
    let days = conversation(
        r#"{"t": 0.0, "type": "n", "in": 64, "out": 5}, {"t": 1e9, "type": "n", "in": 64, "out": 5}"#,
    );
    assert!(
        complaint(&days).contains("request 2: `t` comes more than 213 days"),
        "{}",
        complaint(&days)
    );
}

#[test]
fn one_conversation_a_list_and_lines_are_read_alike() {
    let one = conversation(r#"{"t": 0.0, "type": "n", "in": 64, "out": 5, "hash_ids": [1]}"#);
    let pretty = one.replace('{', "{\n ").replace(", ", ",\n ");
    let lines = format!("{one}\n\n{one}\n");
    let list = format!("[{one},\n{one}]");
    assert_eq!(trace(&one).requests, trace(&pretty).requests);
    assert_eq!(trace(&lines), trace(&list));
    assert_eq!(trace(&list).sessions, [0, 1]);
}
