//! Rules the recorded schedules do not exercise, each in the smallest scenario that shows it.

use crate::trace::{SECOND, check, request, serve};
use crate::twin::{TwinConfig, TwinRequest};

fn sync() -> TwinConfig {
    TwinConfig {
        queue_depth: 1,
        ..TwinConfig::v33()
    }
}

fn at(arrival_ps: u64, request: TwinRequest) -> TwinRequest {
    TwinRequest {
        arrival_ps,
        ..request
    }
}

#[test]
fn a_length_ending_wastes_no_step_but_a_stop_token_does() {
    let by_length = request('A', 4, 2);
    let by_eos = TwinRequest {
        ends_by_eos: true,
        ..by_length.clone()
    };
    check(
        &TwinConfig::v33(),
        std::slice::from_ref(&by_length),
        &["A4 -> A1", "A1 -> A2."],
    );
    let wasted = ["A4 -> A1", "A1 -> A2.", "A1 ->"];
    check(&TwinConfig::v33(), &[by_eos], &wasted);
    let unguarded = TwinConfig {
        async_overrun_guard: false,
        ..TwinConfig::v33()
    };
    check(&unguarded, &[by_length], &wasted);
}

#[test]
fn async_arrival_waits_for_the_step_already_scheduled() {
    let requests = [request('A', 4, 4), at(SECOND / 2, request('B', 4, 1))];
    let run = check(
        &TwinConfig::v33(),
        &requests,
        &["A4 -> A1", "A1 -> A2", "A1 B4 -> A3 B1.", "A1 -> A4."],
    );
    assert_eq!(run.steps[2].scheduled_at_ps, SECOND);
    assert_eq!(run.steps[2].gpu_start_ps, 2 * SECOND);
}

#[test]
fn a_last_token_in_flight_ends_a_preempted_request_in_waiting() {
    let config = TwinConfig {
        num_gpu_blocks: 5,
        ..TwinConfig::v33()
    };
    let requests = [request('A', 7, 4), request('B', 4, 2)];
    let run = check(
        &config,
        &requests,
        &["A7 B4 -> A1 B1", "A1 B1 -> A2 B2.", "A1 !B -> A3", "A1 -> A4."],
    );
    assert_eq!(run.outcomes[1].preemptions, 1);
    assert_eq!(run.steps[3].waiting, 0);
}

#[test]
fn an_abort_during_a_step_drops_its_token_and_frees_its_blocks() {
    let config = TwinConfig {
        num_gpu_blocks: 5,
        ..sync()
    };
    let gives_up = TwinRequest {
        abort_at: Some(SECOND + SECOND / 2),
        ..request('A', 12, 4)
    };
    let run = check(
        &config,
        &[gives_up, request('B', 8, 1)],
        &["A12 -> A1.", "A1 ->", "B8 -> B1."],
    );
    assert!(run.outcomes[0].is_aborted);
    assert_eq!(run.steps[2].free_blocks, 2);
}

#[test]
fn an_abort_at_the_end_of_a_step_comes_after_its_token() {
    let gives_up = TwinRequest {
        abort_at: Some(SECOND),
        ..request('A', 12, 4)
    };
    check(&sync(), &[gives_up], &["A12 -> A1."]);
}

#[test]
fn an_abort_in_the_queue_unblocks_those_behind() {
    let config = TwinConfig {
        num_gpu_blocks: 5,
        ..sync()
    };
    let gives_up = TwinRequest {
        abort_at: Some(SECOND / 2),
        ..request('B', 12, 4)
    };
    let requests = [request('A', 8, 3), gives_up, request('C', 3, 1)];
    let run = check(&config, &requests, &["A8 -> A1", "A1 C3 -> A2 C1.", "A1 -> A3."]);
    assert_eq!(run.outcomes[1].cached_tokens, None);
}

#[test]
fn the_watermark_holds_back_admissions_while_something_runs() {
    let requests = [request('A', 4, 3), request('B', 8, 1)];
    let config = |watermark_blocks| TwinConfig {
        num_gpu_blocks: 5,
        watermark_blocks,
        ..sync()
    };
    check(
        &config(1),
        &requests,
        &["A4 B8 -> A1 B1.", "A1 -> A2", "A1 -> A3."],
    );
    check(
        &config(2),
        &requests,
        &["A4 -> A1", "A1 -> A2", "A1 -> A3.", "B8 -> B1."],
    );
}

#[test]
fn prefill_steps_keep_their_distance_while_something_decodes() {
    let config = TwinConfig {
        prefill_schedule_interval: 3,
        max_num_batched_tokens: 8,
        ..sync()
    };
    let requests = [request('A', 4, 9), at(SECOND / 2, request('B', 10, 1))];
    let expected = [
        "A4 -> A1",
        "A1 -> A2",
        "A1 -> A3",
        "A1 B7 -> A4",
        "A1 -> A5",
        "A1 -> A6",
        "A1 B3 -> A7 B1.",
        "A1 -> A8",
        "A1 -> A9.",
    ];
    check(&config, &requests, &expected);
}

#[test]
fn a_prompt_of_one_token_is_admitted_while_prefill_is_held_and_does_not_prolong_it() {
    let config = TwinConfig {
        prefill_schedule_interval: 3,
        ..sync()
    };
    let requests = [
        request('A', 4, 6),
        at(SECOND / 2, request('B', 1, 1)),
        at(SECOND / 2, request('C', 3, 1)),
    ];
    let expected = [
        "A4 -> A1",
        "A1 B1 -> A2 B1.",
        "A1 -> A3",
        "A1 C3 -> A4 C1.",
        "A1 -> A5",
        "A1 -> A6.",
    ];
    check(&config, &requests, &expected);
}

#[test]
fn prefill_steps_follow_at_once_when_a_release_leaves_a_queue() {
    let config = TwinConfig {
        prefill_schedule_interval: 3,
        max_num_batched_tokens: 4,
        ..sync()
    };
    let requests = [
        request('A', 4, 4),
        request('B', 3, 1),
        at(SECOND / 2, request('C', 3, 1)),
    ];
    check(
        &config,
        &requests,
        &["A4 -> A1", "A1 B3 -> A2 B1.", "A1 C3 -> A3 C1.", "A1 -> A4."],
    );
}

#[test]
fn freed_blocks_without_identity_are_reused_first() {
    let again = TwinRequest {
        prompt: vec![(0, 0, 5)],
        ..request('D', 5, 1)
    };
    let requests = [request('A', 5, 1), request('B', 5, 1), request('C', 5, 1), again];
    let cached = |unhashed_freed_blocks_to_head| {
        let config = TwinConfig {
            unhashed_freed_blocks_to_head,
            num_gpu_blocks: 5,
            max_num_seqs: 1,
            enable_prefix_caching: true,
            ..sync()
        };
        serve(&config, &requests).outcomes[3].cached_tokens
    };
    assert_eq!(cached(true), Some(4));
    assert_eq!(cached(false), Some(0));
}

#[test]
fn the_long_prefill_threshold_spares_a_lone_request() {
    let config = TwinConfig {
        long_prefill_token_threshold: 4,
        ..sync()
    };
    check(&config, &[request('A', 10, 1)], &["A10 -> A1."]);
    let always = TwinConfig {
        no_threshold_when_alone: false,
        ..config
    };
    check(&always, &[request('A', 10, 1)], &["A4 ->", "A4 ->", "A2 -> A1."]);
}

#[test]
fn an_oversize_prompt_without_chunking_stops_or_steps_aside() {
    let stops = TwinConfig {
        enable_chunked_prefill: false,
        max_num_batched_tokens: 10,
        ..sync()
    };
    let requests = [request('A', 4, 2), request('B', 10, 1), request('C', 2, 1)];
    check(
        &stops,
        &requests,
        &["A4 -> A1", "A1 -> A2.", "B10 -> B1.", "C2 -> C1."],
    );
    let steps_aside = TwinConfig {
        oversize_prompt_stops_admission: false,
        ..stops
    };
    check(
        &steps_aside,
        &requests,
        &["A4 C2 -> A1 C1.", "A1 -> A2.", "B10 -> B1."],
    );
    // Those set aside come back in reverse.
    let requests = [
        request('A', 4, 1),
        request('B', 10, 1),
        request('C', 10, 1),
        request('D', 2, 1),
    ];
    check(
        &steps_aside,
        &requests,
        &["A4 D2 -> A1. D1.", "C10 -> C1.", "B10 -> B1."],
    );
}

/// A, of the least urgent class, is served first in the step in which B takes its blocks.
fn eviction_of_a_served_sequence(num_gpu_blocks: usize) -> (TwinConfig, [TwinRequest; 3]) {
    let config = TwinConfig {
        num_gpu_blocks,
        priority_policy: true,
        max_num_batched_tokens: 7,
        long_prefill_token_threshold: 4,
        reserve_full_isl: false,
        ..sync()
    };
    let last = TwinRequest {
        priority: 5,
        ..request('A', 20, 1)
    };
    (
        config,
        [
            last,
            at(SECOND / 2, request('B', 4, 2)),
            at(SECOND / 2 + 1, request('C', 8, 1)),
        ],
    )
}

#[test]
fn a_priority_eviction_gives_tokens_and_place_back() {
    let (config, requests) = eviction_of_a_served_sequence(8);
    let before = ["A7 ->", "A4 B3 ->", "A4 B1 C2 -> B1"];
    let run = serve(&config, &requests);
    assert_eq!(crate::trace::trace(&run)[..3], before);
    assert_eq!(crate::trace::trace(&run)[3], "B1 C4 !A -> B2.");
    let forgets = TwinConfig {
        priority_eviction_restores: false,
        ..config
    };
    // 0.11 forgets to take the share out of the step, and takes its tokens for computed when A comes back.
    let run = serve(&forgets, &requests);
    assert_eq!(crate::trace::trace(&run)[..3], before);
    assert_eq!(crate::trace::trace(&run)[3], "A4 B1 !A -> B2.");
    assert_eq!(run.steps[4].scheduled, [(2, 2, 4), (0, 4, 3)]);
}

/// In the step in which A is served and evicted nobody but B computes, and later prompts keep their distance from it; it is none
/// of those behind it.
#[test]
fn a_step_whose_prefill_was_evicted_carries_it_and_the_next_one_does_not() {
    let mut alone = 0;
    for nth in 0..12_000_u64 {
        // Blocks, interval, the prompts of A and B, when D comes and what it asks for.
        let digit = |below: u64, of: u64| nth / below % of;
        let (config, [a, b, _]) = eviction_of_a_served_sequence(9 + digit(1, 5) as usize);
        let config = TwinConfig {
            prefill_schedule_interval: 2 + digit(5, 4) as u32,
            ..config
        };
        let a = TwinRequest {
            prompt: vec![(0, 0, 14 + 3 * digit(20, 4) as u32)],
            ..a
        };
        let b = TwinRequest {
            prompt: vec![(1, 0, 2 + digit(2000, 6) as u32)],
            output_tokens: 24,
            ..b
        };
        let d = request('D', 1 + digit(80, 5) as u32, 2);
        let run = crate::trace::serve_packed(
            &config,
            &[a, b, at((2 + digit(400, 5) * 2) * SECOND + SECOND / 2, d)],
        );
        let lines = crate::trace::trace(&run);
        alone += lines.iter().filter(|line| line.starts_with("B1 !A")).count();
    }
    assert!(alone > 0, "A is evicted when B is all that is left of a step");
}

#[test]
fn a_self_preemption_under_priority_lets_the_others_run() {
    let (config, requests) = eviction_of_a_served_sequence(7);
    let run = serve(&config, &requests);
    assert_eq!(crate::trace::trace(&run)[3], "B1 C4 !A -> B2.");
    // 0.11 ends the loop there: the step is empty, and the next one starts with the blocks A gave back.
    let stops = TwinConfig {
        priority_eviction_restores: false,
        ..config
    };
    let run = serve(&stops, &requests);
    assert_eq!(crate::trace::trace(&run)[3], "B1 C4 A2 -> B2.");
    assert_eq!(run.outcomes[0].preemptions, 1);
}

#[test]
fn ids_break_exact_ties_as_strings() {
    let config = TwinConfig {
        priority_policy: true,
        max_num_seqs: 1,
        ..sync()
    };
    let requests = [2, 10].map(|id| TwinRequest {
        id,
        ..request('A', 4, 1)
    });
    let run = serve(&config, &requests);
    assert_eq!(run.steps[0].scheduled[0].0, 10);
}

#[test]
fn the_model_length_ends_a_request_without_a_wasted_step() {
    let config = TwinConfig {
        max_model_len: 8,
        ..TwinConfig::v33()
    };
    let run = check(
        &config,
        &[request('A', 5, 9)],
        &["A5 -> A1", "A1 -> A2", "A1 -> A3."],
    );
    assert_eq!(run.outcomes[0].token_times_ps.len(), 3);
}

#[test]
fn a_sequence_with_nothing_to_do_does_not_stop_those_behind_it() {
    let config = TwinConfig {
        max_model_len: 8,
        ..TwinConfig::v33()
    };
    let requests = [request('A', 6, 9), request('B', 4, 4)];
    let expected = ["A6 B4 -> A1 B1", "A1 B1 -> A2. B2", "B1 -> B3", "B1 -> B4."];
    let run = check(&config, &requests, &expected);
    // B is scheduled while the last step of A still runs.
    assert_eq!(run.steps[2].scheduled_at_ps, SECOND);
}

#[test]
fn hit_blocks_in_the_free_queue_are_not_free_for_the_rest_of_the_prompt() {
    let config = TwinConfig {
        num_gpu_blocks: 5,
        enable_prefix_caching: true,
        reserve_full_isl: false,
        ..sync()
    };
    let again = TwinRequest {
        prompt: vec![(0, 0, 8), (2, 0, 5)],
        ..request('C', 0, 1)
    };
    let requests = [
        request('A', 9, 1),
        at(SECOND, request('B', 2, 2)),
        at(SECOND + 1, again),
    ];
    check(
        &config,
        &requests,
        &["A9 -> A1.", "B2 -> B1", "B1 -> B2.", "C5 -> C1."],
    );
}
