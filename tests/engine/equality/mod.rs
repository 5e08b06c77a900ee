//! The fast engine equals its naive twin: equal schedules, equal clocks, equal token times, in random scenarios.
//!
//! Scenarios are drawn from a seed (`draw.rs`, `drafts.rs`), which a failure prints, and judged in `agree.rs`. `leaps`
//! scenarios have outputs that no running request shares, so the engine packs and leaps; `stepwise` ones share generated
//! tokens too.

mod agree;
mod drafts;
mod draw;

use proptest::prelude::*;

use crate::draws::Draw;
use crate::twin::TwinRun;
pub(crate) use agree::{Fixed, Law, MILLISECOND, Seen, agree, engine_config};
pub(crate) use draw::{draw_config, draw_requests, draw_switches};
use draw::{draw_groups, draw_stages, draw_tiers, draw_traffic};

/// The same with groups of layers.
fn check_groups(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let mut config = draw_config(&mut draw);
    draw_groups(&mut draw, &mut config);
    // Windows leave room: as little as one sequence may need.
    if draw.chance() {
        let longest = config.max_model_len.div_ceil(config.block_size) as usize;
        config.num_gpu_blocks = config
            .num_gpu_blocks
            .min(longest * config.groups.len() + 1 + draw.below(9) as usize);
    }
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

/// The same with groups of recurrent layers, some beside windows: a pool with room for the states of few sequences or of many.
fn check_states(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let mut config = draw_config(&mut draw);
    config.enable_prefix_caching = false;
    if draw.below(3) == 0 {
        draw_groups(&mut draw, &mut config);
    }
    config.states = 1 + draw.below(6) as usize;
    config.num_gpu_blocks += config.states * (1 + draw.below(8) as usize);
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

/// The same where attention is sparse: its bound lies within most contexts, so that sequences cross it as they decode.
fn check_sparse(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let mut config = draw_config(&mut draw);
    if draw.below(3) == 0 {
        draw_groups(&mut draw, &mut config);
    }
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    let law = Law {
        per_pair: u64::from(1 + draw.below(3)) * 1_000_001,
        reads_at_most: Some(1 + draw.below(50)),
        ..law
    };
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

/// The same with layers on the stages of a pipeline.
fn check_stages(seed: u64, shared: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let mut config = draw_config(&mut draw);
    draw_stages(&mut draw, &mut config);
    let (requests, law) = draw_traffic(&mut draw, &config, shared, aborts);
    agree(&format!("seed {seed}"), &config, &requests, law, shared)
}

fn check(seed: u64, stepwise: bool, aborts: bool, tiers: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let mut config = draw_config(&mut draw);
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    config.tiers = tiers.then(|| draw_tiers(&mut draw));
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

#[test]
fn the_scenarios_reach_every_tier() {
    let mut reached = [[0_u64; 3]; 2];
    let mut given_up = 0_u64;
    for seed in 1..300 {
        let moved = check(seed, false, true, true).moved;
        for (reached, moved) in reached
            .iter_mut()
            .zip([moved.served_tokens, moved.evicted_chunks])
        {
            for (runs, moved) in reached.iter_mut().zip(moved) {
                *runs += u64::from(moved > 0);
            }
        }
        given_up += u64::from(moved.given_up_chunks > 0);
    }
    let most = reached.as_flattened().iter().all(|&runs| runs > 20);
    assert!(most && given_up > 20, "{reached:?}, {given_up}");
}

/// Who waits for KV holds blocks, and may stand behind somebody more urgent who lacks them. One draw in some hundred thousand.
#[test]
fn loads_behind_somebody_more_urgent_are_a_livelock_for_both() {
    assert!(check(7_072_540_872_777_398_671, true, true, true).is_stuck);
}

/// Loads hold the blocks that two others lack, who preempt each other and themselves. One draw in some thousands.
#[test]
fn preemptions_around_loads_are_a_livelock_for_both() {
    assert!(check(13_653_193_260_981_197_131, false, true, true).is_stuck);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn packing_and_leaping_change_nothing(seed in any::<u64>()) {
        check(seed, false, false, false);
    }

    #[test]
    fn sparse_attention_reads_the_same_tokens(seed in any::<u64>()) {
        check_sparse(seed, false, false);
    }

    #[test]
    fn sparse_attention_reads_the_same_tokens_under_aborts_and_step_by_step(seed in any::<u64>()) {
        check_sparse(seed, false, true);
        check_sparse(seed, true, true);
    }

    #[test]
    fn windows_pass_the_same_blocks(seed in any::<u64>()) {
        check_groups(seed, false, false);
    }

    #[test]
    fn windows_pass_the_same_blocks_under_aborts(seed in any::<u64>()) {
        check_groups(seed, false, true);
    }

    #[test]
    fn windows_pass_the_same_blocks_step_by_step(seed in any::<u64>()) {
        check_groups(seed, true, true);
    }

    #[test]
    fn states_take_the_same_blocks(seed in any::<u64>()) {
        check_states(seed, false, false);
    }

    #[test]
    fn states_take_the_same_blocks_under_aborts(seed in any::<u64>()) {
        check_states(seed, true, true);
    }

    #[test]
    fn stages_take_the_same_steps(seed in any::<u64>()) {
        check_stages(seed, false, false);
    }

    #[test]
    fn stages_take_the_same_steps_under_aborts(seed in any::<u64>()) {
        check_stages(seed, true, true);
    }

    #[test]
    fn aborts_are_the_same(seed in any::<u64>()) {
        check(seed, false, true, false);
    }

    #[test]
    fn shared_answers_are_the_same(seed in any::<u64>()) {
        check(seed, true, true, false);
    }

    #[test]
    fn tiers_of_kv_are_the_same(seed in any::<u64>()) {
        check(seed, false, true, true);
    }

    #[test]
    fn tiers_of_kv_are_the_same_step_by_step(seed in any::<u64>()) {
        check(seed, true, true, true);
    }
}
