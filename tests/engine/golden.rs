//! Golden traces, derived by hand from the rules, on the naive twin.

use crate::trace::{check, request};
use crate::twin::TwinConfig;

/// vLLM 0.33 with the synchronous loop, which the golden traces use.
fn v33() -> TwinConfig {
    TwinConfig {
        queue_depth: 1,
        ..TwinConfig::v33()
    }
}

/// vLLM 0.11 with the loop it has by default.
fn v11() -> TwinConfig {
    TwinConfig {
        queue_depth: 1,
        ..TwinConfig::v11()
    }
}

#[test]
fn g1_chunked_prefill_shares_the_budget() {
    let requests = [request('A', 7, 3), request('B', 12, 2), request('C', 3, 2)];
    let expected = [
        "A7 B3 -> A1",
        "A1 B9 -> A2 B1",
        "A1 B1 C3 -> A3. B2. C1",
        "C1 -> C2.",
    ];
    for version in [v33(), v11()] {
        let config = TwinConfig {
            max_num_batched_tokens: 10,
            ..version
        };
        check(&config, &requests, &expected);
    }
}

fn check_g2(version: TwinConfig, enable_prefix_caching: bool, step_7: &str) {
    let config = TwinConfig {
        num_gpu_blocks: 7,
        max_num_batched_tokens: 64,
        enable_prefix_caching,
        ..version
    };
    let requests = [request('A', 8, 6), request('B', 7, 6), request('C', 3, 4)];
    let expected = [
        "A8 B7 C3 -> A1 B1 C1",
        "A1 B1 C1 -> A2 B2 C2",
        "A1 B1 !C -> A3 B3",
        "A1 B1 -> A4 B4",
        "A1 B1 -> A5 B5",
        "A1 !B -> A6.",
        step_7,
        "C1 -> C4.",
    ];
    let run = check(&config, &requests, &expected);
    let used: Vec<usize> = run.steps.iter().map(|step| 6 - step.free_blocks).collect();
    assert_eq!(used[..3], [5, 6, 6]);
    let cached = if enable_prefix_caching { 8 } else { 0 };
    assert_eq!(run.steps[6].scheduled, [(1, cached, 12 - cached), (2, 0, 5)]);
}

#[test]
fn g2_preemption_by_recompute_without_caching() {
    check_g2(v33(), false, "B12 C5 -> B6. C3");
    check_g2(v11(), false, "B12 C5 -> B6. C3");
}

#[test]
fn g2_preemption_by_recompute_with_caching() {
    check_g2(v33(), true, "B4 C5 -> B6. C3");
    check_g2(v11(), true, "B4 C5 -> B6. C3");
}

#[test]
fn g3_a_prefix_is_shared_within_its_first_step() {
    let config = TwinConfig {
        enable_prefix_caching: true,
        num_gpu_blocks: 100,
        ..v33()
    };
    let shared = (100, 0, 8);
    let mut requests = [request('A', 0, 2), request('B', 0, 2), request('C', 0, 2)];
    requests[0].prompt = vec![shared, (0, 0, 2)];
    requests[1].prompt = vec![shared, (1, 0, 1)];
    requests[2].prompt = vec![shared];
    let run = check(
        &config,
        &requests,
        &["A10 B1 C4 -> A1 B1 C1", "A1 B1 C1 -> A2. B2. C2."],
    );
    assert_eq!(99 - run.steps[0].free_blocks, 5);
    let cached: Vec<Option<u32>> = run.outcomes.iter().map(|outcome| outcome.cached_tokens).collect();
    assert_eq!(cached, [Some(0), Some(8), Some(4)]);
}

fn check_g4(version: TwinConfig, expected: &[&str], preemptions: u32) {
    let config = TwinConfig {
        num_gpu_blocks: 9,
        max_num_batched_tokens: 8,
        ..version
    };
    let run = check(&config, &[request('A', 16, 3), request('B', 20, 3)], expected);
    assert_eq!(run.outcomes[1].preemptions, preemptions);
}

#[test]
fn g4_admission_reserves_the_whole_prompt() {
    let expected = [
        "A8 ->",
        "A8 -> A1",
        "A1 -> A2",
        "A1 -> A3.",
        "B8 ->",
        "B8 ->",
        "B4 -> B1",
        "B1 -> B2",
        "B1 -> B3.",
    ];
    check_g4(v33(), &expected, 0);
}

#[test]
fn g4_admission_by_first_chunk_wastes_a_chunk() {
    let expected = [
        "A8 ->",
        "A8 -> A1",
        "A1 B7 -> A2",
        "A1 !B -> A3.",
        "B8 ->",
        "B8 ->",
        "B4 -> B1",
        "B1 -> B2",
        "B1 -> B3.",
    ];
    check_g4(v11(), &expected, 1);
}
