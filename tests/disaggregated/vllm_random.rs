//! Random pools of vLLM, small on both sides, whose requests must fare as in the twin.

use std::cell::RefCell;

use plimsoll::cluster::Flow;
use plimsoll::engine::EngineConfig;
use plimsoll::workload::Request;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::draws::draws;
use crate::setup::{run, vllm};
use crate::twin_parts::{costs, specs, traffic};
use crate::vllm_twin::{BLOCK, Setting, Story, twin};

fn settings(flow: Flow) -> impl Strategy<Value = Setting> {
    let budgets = prop_oneof![Just(1u32 << 20), 24u32..300];
    (specs(flow), costs(), [27u32..70, 27u32..70], budgets).prop_map(|(spec, cost, blocks, budget)| Setting {
        spec,
        cost,
        blocks,
        budget,
    })
}

/// Any answer with which a request still fits the smallest pool.
fn that_fits(prompt: u32, draw: u32) -> u32 {
    1 + (draw * draw / 12).min(26 * BLOCK - 1 - prompt)
}

fn engine(blocks: u32, budget: u32) -> EngineConfig {
    EngineConfig {
        num_gpu_blocks: blocks,
        max_num_batched_tokens: budget,
        ..vllm()
    }
}

/// Whether somebody was preempted, and whether a prompt was cut.
fn check(set: &Setting, requests: &[Request], pauses: bool) -> Result<[bool; 2], TestCaseError> {
    let engines = set.blocks.map(|blocks| engine(blocks, set.budget).into());
    let told = run(engines, set.cost, &set.spec, requests, pauses);
    prop_assert_eq!(&told.seen.violations, &Vec::<String>::new());
    let mut stories: Vec<Option<Story>> = vec![None; requests.len()];
    for story in &told.stories {
        stories[story.id.0 as usize] = Some((
            story.outcome,
            story.first_token.map(|at| at.0),
            story.end.0,
            story.output_tokens,
            story.waiting_time.0,
            story.preemptions,
        ));
    }
    prop_assert_eq!(stories, twin(set, requests));
    let has_preempted = told.stories.iter().any(|story| story.preemptions > 0);
    let is_cut = requests.iter().any(|request| request.prompt_tokens > set.budget);
    Ok([has_preempted, is_cut])
}

/// Every draw is as the twin has it, and a tenth at least preempts and a tenth cuts prompts.
fn all_fare_as_in_the_twin(flow: Flow, shortest: u32) {
    let strategy = (settings(flow), traffic(shortest..400, that_fits), any::<bool>());
    let seen = RefCell::new([0u32; 3]);
    let outcome = TestRunner::new(draws(400)).run(&strategy, |(set, requests, pauses)| {
        let [has_preempted, is_cut] = check(&set, &requests, pauses)?;
        let mut seen = seen.borrow_mut();
        seen[0] += 1;
        seen[1] += u32::from(has_preempted);
        seen[2] += u32::from(is_cut);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let [all, preempting, cutting] = seen.into_inner();
    assert!(
        10 * preempting > all && 10 * cutting > all,
        "of {all} draws {preempting} preempt and {cutting} cut prompts"
    );
}

#[test]
fn what_is_read_fares_as_in_the_twin() {
    all_fare_as_in_the_twin(Flow::Nixl, 2);
}

#[test]
fn what_is_pushed_fares_as_in_the_twin() {
    all_fare_as_in_the_twin(Flow::P2pNccl, 1);
}
