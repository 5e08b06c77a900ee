//! Random scenarios: small pools, batches and budgets, so that seats, blocks and tokens run out; clients that give up.

use std::collections::BTreeMap;

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::ScheduleRecord;
use plimsoll::engine::trtllm::{CapacityPolicy, TrtllmConfig};
use plimsoll::ids::RequestId;
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use super::serve;
use crate::draws::draws;
use crate::scheduled::request;
use crate::sglang::Given;
use crate::sglang_leaps::Told;

fn cost() -> LinearCost {
    LinearCost::new(0.006, 2e-5, 1.5e-9)
}

/// Serves the requests by the engine.
pub(super) fn run(
    config: &TrtllmConfig,
    requests: &[Request],
    cost: LinearCost,
    stepwise: bool,
    logs: bool,
) -> (Vec<ScheduleRecord>, Told) {
    let traffic = Given(Vec::from(requests).into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut simulation = make(config.clone(), Box::new(cost), Frontend::default(), traffic);
    if logs {
        simulation = simulation.logging();
    }
    let mut told = Told::default();
    told.drained = simulation.advance(Until::DRAINED, &mut told) == Pause::Drained;
    (simulation.take_log(), told)
}

prop_compose! {
    fn engines()(
        (tokens_per_block, num_blocks, max_batch_size) in (1u32..6, 12u32..150, 1u32..10),
        (max_seq_len, budget) in (30u32..90, 4u32..60),
        (chunks, overlap_scheduler) in any::<(bool, bool)>(),
        policy in prop_oneof![
            3 => Just(CapacityPolicy::GuaranteedNoEvict),
            3 => Just(CapacityPolicy::MaxUtilization),
            1 => Just(CapacityPolicy::StaticBatch),
        ],
        (batch_wait_iters, batch_wait_tokens) in prop_oneof![2 => Just((0, 0)), 1 => (1u32..20, 1u32..50)],
    ) -> TrtllmConfig {
        let pauses = policy == CapacityPolicy::MaxUtilization;
        // As the flags are judged.
        let least = if pauses { max_seq_len } else { tokens_per_block };
        TrtllmConfig {
            profile: "tensorrt-llm@1.2".to_owned(),
            max_seq_len,
            max_batch_size,
            max_num_tokens: budget.max(max_batch_size).max(least),
            enable_chunked_prefill: chunks && !pauses,
            capacity_scheduler_policy: policy,
            batch_wait_iters,
            batch_wait_tokens,
            overlap_scheduler,
            tokens_per_block,
            num_blocks,
        }
    }
}

prop_compose! {
    /// Gap before it, prompt, outputs, headroom, patience.
    fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..30_000, 0u64..900_000],
        prompt in prop_oneof![1u32..12, 1u32..60],
        (outputs, headroom) in (prop_oneof![1u32..8, 1u32..60], prop_oneof![Just(0u32), 0u32..30]),
        patience in prop_oneof![4 => Just(None), 1 => (1u64..1_500_000).prop_map(Some)],
    ) -> (u64, [u32; 3], Option<u64>) {
        (gap, [prompt, outputs, headroom], patience)
    }
}

fn requests(wishes: Vec<(u64, [u32; 3], Option<u64>)>) -> Vec<Request> {
    let micros = |micros: u64| Picos(micros * 1_000_000);
    let mut now = 0;
    let made = (0..)
        .zip(wishes)
        .map(|(id, (gap, [prompt, outputs, headroom], patience))| {
            now += gap;
            Request {
                id: RequestId(id),
                arrival: micros(now),
                max_tokens: outputs + headroom,
                ignore_eos: headroom == 0,
                deadline: patience.map(|patience| micros(now + patience)),
                ..request('A', 0, prompt, outputs)
            }
        });
    made.collect()
}

/// Engine and twin agree, step by step and token by token.
fn agree(config: &TrtllmConfig, requests: &[Request]) -> Result<(), TestCaseError> {
    let expected = serve(config, requests, cost());
    let (log, told) = run(config, requests, cost(), false, true);
    for (at, (got, expected)) in log.iter().zip(&expected.log).enumerate() {
        prop_assert_eq!(got, expected, "step {}", at);
    }
    prop_assert_eq!(log.len(), expected.log.len());
    prop_assert!(told.drained);
    let mut gaps: BTreeMap<Picos, u64> = BTreeMap::new();
    for pair in expected.seqs.iter().flat_map(|seq| seq.had.windows(2)) {
        *gaps.entry(pair[1] - pair[0]).or_default() += 1;
    }
    prop_assert_eq!(&told.gaps, &gaps);
    prop_assert_eq!(told.completions.len(), requests.len());
    for end in &told.completions {
        let seq = &expected.seqs[end.id.0 as usize];
        prop_assert_eq!(Some((end.outcome, end.end)), seq.end, "request {}", end.id.0);
        prop_assert_eq!(end.first_token, seq.had.first().copied());
        prop_assert_eq!(end.output_tokens as usize, seq.had.len());
        prop_assert_eq!(end.preemptions, seq.pauses);
    }
    Ok(())
}

/// Leaps and steps agree.
fn leaps(config: &TrtllmConfig, requests: &[Request]) -> Result<(), TestCaseError> {
    let (log, told) = run(config, requests, cost(), false, true);
    let (expected_log, expected) = run(config, requests, cost(), true, true);
    for (at, (got, expected)) in log.iter().zip(&expected_log).enumerate() {
        prop_assert_eq!(got, expected, "step {}", at);
    }
    prop_assert_eq!(log.len(), expected_log.len());
    prop_assert_eq!(&told, &expected);
    let (_, unlogged) = run(config, requests, cost(), false, false);
    prop_assert_eq!(&unlogged, &expected);
    Ok(())
}

proptest! {
    #![proptest_config(draws(2000))]

    #[test]
    fn tensorrt_llm_equals_its_twin(config in engines(), wishes in prop::collection::vec(wishes(), 1..30)) {
        agree(&config, &requests(wishes))?;
    }

    #[test]
    fn leaping_is_stepping_in_tensorrt_llm(
        config in engines(),
        wishes in prop::collection::vec(wishes(), 1..30),
    ) {
        leaps(&config, &requests(wishes))?;
    }
}
