//! Golden traces of SGLang's scheduler and rules that no recording shows.

use std::fmt::Write as _;

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::sglang::{
    BatchMode, PriorityRule, QueuePolicy, SglangConfig, SglangRecord, SglangSwitches,
};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::sim::{Completion, Frontend, Outcome, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Prompt, Request};

use crate::given::{Ends, Given};

/// The server of the golden traces: pages of one token, first come first served, no overlap.
pub(crate) fn server(pool: u32, chunk: u32) -> SglangConfig {
    SglangConfig {
        profile: "sglang@0.5.23".into(),
        context_length: 8192,
        max_running_requests: 48,
        chunked_prefill_size: Some(chunk),
        max_prefill_tokens: 16384,
        prefill_decode_interval: 0,
        prefill_max_requests: None,
        policy: QueuePolicy::Fcfs,
        priority: None,
        page_size: 1,
        max_total_tokens: pool,
        radix_cache: true,
        enable_mixed_chunk: false,
        overlap_schedule: false,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        drafts: None,
        switches: SglangSwitches::V0_5_23,
        seed: 0,
        eos_segment: None,
    }
    .with_conservativeness(1.0)
}

/// A request named by a letter: sent at a second, prompt, outputs, `max_new_tokens`.
fn request(name: char, at: u64, prompt: u32, outputs: u32, max_new: u32) -> Request {
    let id = u64::from(name) - u64::from('A');
    Request {
        id: RequestId(id),
        arrival: Picos::from_seconds(at as f64),
        client_queue_time: Picos::ZERO,
        prompt_tokens: prompt,
        output_tokens: outputs,
        max_tokens: max_new,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: SegmentId(100 + id),
        session: None,
        class: 0,
        ignore_eos: false,
        deadline: None,
    }
}

/// Serves the requests with batches of one second.
fn serve(config: SglangConfig, requests: Vec<Request>) -> (Vec<SglangRecord>, Vec<Completion>) {
    let cost = LinearCost::new(1.0, 0.0, 0.0);
    let traffic = Given(requests.into_iter());
    let mut simulation = Simulation::new(config, Box::new(cost), Frontend::default(), traffic).logging();
    let mut ends = Ends::default();
    simulation.advance(Until::DRAINED, &mut ends);
    (simulation.take_sglang_log(), ends.0)
}

/// `EXTEND A6 B2`, `DECODE A B`, `MIXED C3 A1`, `retract B`: one pass; equal decodes that follow each other are one line.
fn trace(log: &[SglangRecord]) -> Vec<String> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    for record in log {
        let mut line = String::new();
        for id in &record.retracted {
            write!(line, "retract {} ", letter(*id)).unwrap();
        }
        line += match record.mode {
            BatchMode::Extend => "EXTEND",
            BatchMode::Decode => "DECODE",
            BatchMode::Mixed => "MIXED",
            BatchMode::None => "-",
        };
        for &(id, _, tokens) in &record.shares {
            write!(line, " {}", letter(id)).unwrap();
            if record.mode != BatchMode::Decode {
                write!(line, "{tokens}").unwrap();
            }
        }
        match lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => lines.push((line, 1)),
        }
    }
    lines
        .into_iter()
        .map(|(line, times)| {
            if times > 1 {
                format!("{line} x{times}")
            } else {
                line
            }
        })
        .collect()
}

fn letter(id: RequestId) -> char {
    char::from(b'A' + u8::try_from(id.0).unwrap())
}

fn ends(completions: &[Completion]) -> Vec<(char, f64)> {
    completions
        .iter()
        .map(|completion| (letter(completion.id), completion.end.seconds()))
        .collect()
}

#[test]
fn s1_a_prompt_is_chunked_and_decodes_wait() {
    let requests = vec![
        request('A', 0, 6, 4, 4),
        request('B', 0, 12, 3, 3),
        request('C', 0, 3, 3, 3),
        request('D', 10, 2, 1, 1),
    ];
    let (log, completions) = serve(server(60, 8), requests);
    let expected = [
        "EXTEND A6 B2",
        "EXTEND B8",
        "EXTEND B2 C3",
        "DECODE A B C x2",
        "DECODE A",
        "EXTEND D2",
    ];
    assert_eq!(trace(&log), expected);
    assert_eq!(
        ends(&completions),
        [('B', 5.0), ('C', 5.0), ('A', 6.0), ('D', 11.0)]
    );
    assert!((log[3].ratio - 0.698_997).abs() < 1e-6);
    // After A: 32 tokens are free, of which D takes two, and 28 are cached.
    assert_eq!((log[6].free_pages, log[6].evictable), (30, 28));
}

#[test]
fn sg11_decodes_run_between_chunks_as_often_as_the_interval_says() {
    let with_interval = |interval| SglangConfig {
        prefill_decode_interval: interval,
        ..server(60, 8)
    };
    let requests = vec![request('A', 0, 6, 6, 6), request('B', 0, 12, 3, 3)];
    let (log, _) = serve(with_interval(2), requests);
    let expected = [
        "EXTEND A6 B2",
        "DECODE A x2",
        "EXTEND B8",
        "DECODE A x2",
        "EXTEND B2",
        "DECODE A B",
        "DECODE B",
    ];
    assert_eq!(trace(&log), expected);
    // Nobody decodes whom a prompt that is alone could hold up: the loop goes round, and its chunks follow each other.
    let (log, completions) = serve(with_interval(3), vec![request('A', 0, 20, 1, 1)]);
    assert_eq!(trace(&log), ["EXTEND A8 x2", "EXTEND A4"]);
    assert_eq!(ends(&completions), [('A', 3.0)]);
}

#[test]
fn sg25_a_prefill_batch_has_no_more_requests_than_asked_for() {
    let config = SglangConfig {
        prefill_max_requests: Some(2),
        ..server(60, 64)
    };
    let requests = ['A', 'B', 'C'].map(|name| request(name, 0, 4, 2, 2));
    let (log, _) = serve(config, requests.to_vec());
    assert_eq!(trace(&log), ["EXTEND A4 B4", "EXTEND C4", "DECODE A B C"]);
}

#[test]
fn s2_lengths_that_are_certain_admit_one_after_the_other() {
    let certain = |name, prompt| Request {
        session: None,
        class: 0,
        ignore_eos: true,
        ..request(name, 0, prompt, 20, 20)
    };
    let requests = vec![certain('A', 10), certain('B', 12), certain('C', 8)];
    let (log, _) = serve(server(60, 64), requests.clone());
    assert_eq!(
        trace(&log),
        [
            "EXTEND A10",
            "DECODE A x19",
            "EXTEND B12",
            "DECODE B x19",
            "EXTEND C8",
            "DECODE C x19"
        ]
    );
    assert!(log[0].full);

    // S2b: the same where an answer may end before its limit, so that 0.7 of it is expected.
    let requests = requests
        .into_iter()
        .map(|request| Request {
            session: None,
            class: 0,
            ignore_eos: false,
            ..request
        })
        .collect();
    let (log, _) = serve(server(60, 64), requests);
    assert_eq!(
        trace(&log),
        [
            "EXTEND A10",
            "EXTEND B12",
            "DECODE A B x19",
            "EXTEND C8",
            "DECODE C x19"
        ]
    );
    assert!(log[1].full && log[20].free_pages == 0);
}

#[test]
fn s2c_the_full_flag_is_sticky() {
    let requests = vec![
        request('Z', 0, 4, 6, 6),
        request('A', 2, 10, 14, 14),
        request('B', 2, 12, 20, 20),
        request('C', 2, 8, 20, 20),
    ];
    let (log, _) = serve(server(60, 64), requests);
    assert_eq!(
        trace(&log),
        [
            "EXTEND Z4",
            "DECODE Z",
            "EXTEND A10",
            "DECODE Z A x4",
            "EXTEND B12",
            "DECODE A B x9",
            "EXTEND C8",
            "DECODE B C x10",
            "DECODE C x9"
        ]
    );
}

#[test]
fn s3_a_retracted_request_computes_its_outputs_again() {
    let requests = vec![request('A', 0, 8, 30, 30), request('B', 2, 6, 20, 20)];
    let (log, _) = serve(server(50, 64).with_conservativeness(0.3), requests);
    assert_eq!(
        trace(&log),
        [
            "EXTEND A8",
            "DECODE A",
            "EXTEND B6",
            "DECODE A B x17",
            "retract B DECODE A",
            "DECODE A x10",
            "EXTEND B24",
            "DECODE B"
        ]
    );
    assert!((log[20].ratio - 1.0).abs() < 1e-12);
    assert_eq!((log[19].free_pages, log[20].free_pages), (1, 23));
}

#[test]
fn s4_under_overlap_an_eos_wastes_a_token_and_a_length_does_not() {
    let requests = vec![request('A', 0, 10, 4, 20), request('B', 0, 12, 6, 6)];
    let config = SglangConfig {
        overlap_schedule: true,
        ..server(200, 64)
    };
    let (log, completions) = serve(config, requests);
    assert_eq!(trace(&log), ["EXTEND A10 B12", "DECODE A B x4", "DECODE B"]);
    let times: Vec<f64> = log.iter().map(|record| record.scheduled.seconds()).collect();
    assert_eq!(times, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        (log[0].free_pages, log[5].free_pages, log[5].evictable),
        (178, 169, 14)
    );
    assert_eq!(ends(&completions), [('A', 4.0), ('B', 6.0)]);
}

#[test]
fn a_lower_priority_makes_room_for_a_much_higher_one() {
    let rule = PriorityRule {
        low_values_first: false,
        preemption_threshold: 10,
    };
    let config = SglangConfig {
        priority: Some(rule),
        max_running_requests: 2,
        ..server(200, 64)
    };
    let with = |request: Request, priority| Request { priority, ..request };
    let requests = vec![
        with(request('A', 0, 4, 9, 9), 0),
        with(request('B', 0, 4, 9, 9), 5),
        with(request('C', 2, 4, 3, 3), 10),
        with(request('D', 2, 4, 3, 3), 12),
    ];
    let (log, completions) = serve(config, requests);
    // D is 12 above A and 7 above B: A goes. C is 10 above A, which is not more than the threshold, and waits.
    assert_eq!(
        trace(&log),
        [
            "EXTEND B4 A4",
            "DECODE B A",
            "retract A EXTEND D4",
            "DECODE B D x2",
            "EXTEND C4",
            "DECODE B C x2",
            "EXTEND A2",
            "DECODE B A x3",
            "DECODE A x3"
        ]
    );
    assert!(
        completions
            .iter()
            .all(|completion| completion.outcome == Outcome::Completed)
    );
}

/// The widest priorities there are have a difference, too, whichever are served first.
#[test]
fn the_lowest_priority_of_all_makes_room_for_the_highest() {
    for (low_values_first, first, second) in [(false, i64::MIN, i64::MAX), (true, i64::MAX, i64::MIN)] {
        let config = SglangConfig {
            priority: Some(PriorityRule {
                low_values_first,
                preemption_threshold: 10,
            }),
            max_running_requests: 1,
            ..server(200, 64)
        };
        let with = |request: Request, priority| Request { priority, ..request };
        let requests = vec![
            with(request('A', 0, 4, 6, 6), first),
            with(request('B', 1, 4, 2, 2), 0),
            with(request('C', 2, 4, 2, 2), second),
        ];
        let (log, _) = serve(config, requests);
        let expected = ["EXTEND A4", "retract A EXTEND B4", "retract B EXTEND C4"];
        assert_eq!(trace(&log)[..3], expected, "low values first: {low_values_first}");
    }
}

/// `ReqTimeStats.set_wait_queue_entry_time` is called again where a request goes back to the queue, and the sort is by it.
#[test]
fn sg43_whoever_was_pushed_out_goes_behind_those_of_its_priority() {
    let config = SglangConfig {
        priority: Some(PriorityRule {
            low_values_first: false,
            preemption_threshold: 3,
        }),
        max_running_requests: 1,
        ..server(200, 64)
    };
    let requests = vec![
        request('A', 0, 4, 6, 6),
        request('B', 1, 4, 2, 2),
        Request {
            priority: 9,
            ..request('C', 2, 4, 2, 2)
        },
    ];
    let (log, _) = serve(config, requests);
    let expected = [
        "EXTEND A4",
        "DECODE A",
        "retract A EXTEND C4",
        "DECODE C",
        "EXTEND B4",
        "DECODE B",
        "EXTEND A2",
        "DECODE A x3",
    ];
    assert_eq!(trace(&log), expected);
}

#[test]
fn c18_all_end_at_once_and_the_next_are_admitted() {
    for switches in [SglangSwitches::V0_5_4, SglangSwitches::V0_5_23] {
        for overlap_schedule in [false, true] {
            let config = SglangConfig {
                max_running_requests: 2,
                overlap_schedule,
                switches,
                ..server(200, 64)
            };
            let requests = ['A', 'B', 'C', 'D', 'E'].map(|name| request(name, 0, 4, 3, 3));
            let (log, completions) = serve(config, requests.to_vec());
            assert_eq!(completions.len(), 5, "{switches:?}");
            assert!(log[0].full);
        }
    }
}

/// A prompt leaves seven tokens of the context or of the pool, whichever is shorter (`max_req_input_len`).
#[test]
fn a_prompt_that_is_longer_than_the_server_takes_is_refused() {
    for switches in [SglangSwitches::V0_5_4, SglangSwitches::V0_5_23] {
        for (pool, context_length) in [(400, 50), (50, 400)] {
            for (prompt, outcome) in [(43, Outcome::Completed), (44, Outcome::Rejected)] {
                let config = SglangConfig {
                    context_length,
                    switches,
                    ..server(pool, 64)
                };
                let (_, completions) = serve(config, vec![request('A', 0, prompt, 3, 3)]);
                assert_eq!(
                    completions[0].outcome, outcome,
                    "{prompt} of {pool}, {context_length}"
                );
            }
        }
    }
}

#[test]
fn a_request_that_gives_up_leaves_no_trace() {
    for overlap_schedule in [false, true] {
        for chunk in [4, 64] {
            let config = SglangConfig {
                overlap_schedule,
                ..server(100, chunk)
            };
            let mut requests = vec![
                request('A', 0, 10, 30, 30),
                request('B', 0, 12, 30, 30),
                request('C', 0, 11, 20, 20),
            ];
            for (patience, request) in requests.iter_mut().enumerate() {
                request.deadline = Some(Picos::from_seconds(2.5 + 3.0 * patience as f64));
            }
            requests.push(request('D', 40, 60, 5, 5));
            let (log, completions) = serve(config, requests);
            assert_eq!(completions.len(), 4);
            let last = log.last().unwrap();
            // D may evict everything that the others left: its own tokens are what is protected or private.
            assert_eq!(u64::from(last.free_pages) + last.evictable + 60 + 4, 100);
        }
    }
}
