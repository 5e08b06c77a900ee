//! Speculative decoding in random scenarios: vLLM 0.33 in both loops and 0.11, whatever drafts, however many drafts stand.
//!
//! Versions differ in many rules at once, so one is drawn as a whole. Where vLLM refuses a combination (`config::speculation`),
//! it is not drawn. Pools hold little more than the longest sequence, so that drafts are preempted.

use plimsoll::engine::{BlockHashes, Speculation};
use plimsoll::rng::{Purpose, stream};
use proptest::prelude::*;
use rand::RngExt;

use super::agree::{Law, agree_with};
use super::draw::draw_traffic;
use crate::draws::{Draw, draws};
use crate::trace::{SECOND, request};
use crate::twin::{TwinConfig, TwinDrafter, TwinDrafts, TwinLastBlock, TwinOutcome, TwinRequest, TwinRun};

#[derive(Clone, Copy, Debug)]
enum Version {
    V33Sync,
    V33Async,
    V11,
}

fn draw_drafts(draw: &mut Draw, is_v11: bool) -> TwinDrafts {
    let drafters = [TwinDrafter::Eagle, TwinDrafter::NGram, TwinDrafter::DraftModel];
    // 0.11 has no draft models.
    let drafter = drafters[draw.below(if is_v11 { 2 } else { 3 }) as usize];
    let last_block = match drafter {
        TwinDrafter::DraftModel | TwinDrafter::NGram => TwinLastBlock::Kept,
        TwinDrafter::Eagle if is_v11 => TwinLastBlock::Dropped,
        TwinDrafter::Eagle => match draw.below(4) {
            0 => TwinLastBlock::Kept,
            1 => TwinLastBlock::Dropped,
            _ => TwinLastBlock::NamedWithNext,
        },
    };
    TwinDrafts {
        drafter,
        most: 1 + draw.below(5),
        last_block,
        is_v11,
    }
}

fn draw_config(draw: &mut Draw, version: Version) -> TwinConfig {
    let is_v11 = matches!(version, Version::V11);
    let drafts = draw_drafts(draw, is_v11);
    let base = if is_v11 {
        TwinConfig::v11()
    } else {
        TwinConfig::v33()
    };
    // A step holds a token with all its drafts.
    let least = 2 + drafts.most;
    let enable_chunked_prefill = draw.chance();
    let max_num_batched_tokens = least
        + if enable_chunked_prefill {
            draw.below(30)
        } else {
            100
        };
    let budget = least - 1 + draw.below(max_num_batched_tokens - least + 1);
    let max_model_len = 40 + draw.below(60);
    let block_size = 1 + draw.below(6);
    let spare = if draw.chance() { 12 } else { 80 };
    let blocks = 1 + max_model_len.div_ceil(block_size) + draw.below(spare);
    let threshold = match draw.below(3) {
        0 => 0,
        // 0.33 fails where a threshold cuts padding.
        _ if !is_v11 => 1 + drafts.most + draw.below(10),
        _ => 1 + draw.below(10),
    };
    TwinConfig {
        max_model_len,
        max_num_seqs: 1 + draw.below(10) as usize,
        max_num_batched_tokens,
        max_num_scheduled_tokens: (enable_chunked_prefill && draw.chance()).then_some(budget),
        enable_chunked_prefill,
        block_size,
        num_gpu_blocks: blocks as usize,
        enable_prefix_caching: draw.chance(),
        priority_policy: !is_v11 && draw.below(3) == 0,
        long_prefill_token_threshold: threshold,
        queue_depth: if matches!(version, Version::V33Async) {
            2
        } else {
            1
        },
        watermark_blocks: if is_v11 { 0 } else { draw.below(4) as usize },
        prefill_schedule_interval: if is_v11 || draw.chance() {
            1
        } else {
            1 + draw.below(4)
        },
        reserve_full_isl: !is_v11 && draw.chance(),
        drafts: Some(drafts),
        ..base
    }
}

/// `P(a >= i)` for each `i`: none stands, all do, or fewer and fewer.
fn draw_rates(draw: &mut Draw, drafts: u32) -> Vec<f64> {
    let mut rate = 1.0;
    let kind = draw.below(4);
    let next = |draw: &mut Draw| match kind {
        0 => 0.0,
        1 => 1.0,
        _ => f64::from(draw.below(101)) / 100.0,
    };
    let rates = (0..drafts).map(|_| {
        rate *= next(draw);
        rate
    });
    rates.collect()
}

/// The same as the engine's configuration has it.
fn speculation(config: &TwinConfig, drafts: &TwinDrafts, acceptance: Vec<f64>) -> Speculation {
    let (eagle, n_grams) = (TwinDrafter::Eagle, TwinDrafter::NGram);
    Speculation {
        drafts: drafts.most,
        runner_tokens: config.max_num_batched_tokens,
        slots: u32::from(drafts.drafter == TwinDrafter::DraftModel),
        lookahead: if drafts.drafter == n_grams { 0 } else { drafts.most },
        looks_ahead_at_admission: !drafts.is_v11,
        pads_admissions: !drafts.is_v11,
        registers_output: !drafts.is_v11,
        keeps_drafts: drafts.is_v11,
        drafts_for_chunks: drafts.is_v11 && drafts.drafter == eagle,
        drafts_near_longest: !drafts.is_v11,
        hashes: match drafts.last_block {
            TwinLastBlock::Kept => BlockHashes::Own,
            TwinLastBlock::Dropped => BlockHashes::LastDropped,
            TwinLastBlock::NamedWithNext => BlockHashes::Ahead,
        },
        acceptance,
    }
}

/// What the engine will draw for a request: the twin is told.
fn accepted(request: &TwinRequest, seed: u64, rates: &[f64]) -> Vec<u32> {
    // Each verification brings a token at least; a few may be in flight behind the last.
    let rounds = u128::from(request.output_tokens) + 4;
    let run = |round: u128| {
        let mut stream = stream(seed, Purpose::Acceptance, request.id);
        stream.set_word_pos(round * 2);
        let uniform: f64 = stream.random();
        rates.iter().filter(|&&rate| uniform < rate).count() as u32
    };
    (0..rounds).map(run).collect()
}

fn check(seed: u64, version: Version, aborts: bool) -> TwinRun {
    let mut draw = Draw::of(seed);
    let config = draw_config(&mut draw, version);
    let drafts = config.drafts.as_ref().expect("drawn");
    let rates = draw_rates(&mut draw, drafts.most);
    let shares_answers = draw.chance();
    let (mut requests, law) = draw_traffic(&mut draw, &config, shares_answers, aborts);
    for request in &mut requests {
        request.accepted = accepted(request, seed, &rates);
    }
    let speculation = speculation(&config, drafts, rates);
    let name = format!("seed {seed}, {version:?}");
    agree_with(
        &name,
        &config,
        Some((speculation, seed)),
        &requests,
        law,
        shares_answers,
    )
}

#[test]
fn the_scenarios_reach_what_drafts_change() {
    for version in [Version::V33Sync, Version::V33Async, Version::V11] {
        let mut reached = [0; 4];
        for seed in 1..200 {
            let run = check(seed, version, false);
            let any = |is_so: fn(&TwinOutcome) -> bool| run.outcomes.iter().any(is_so);
            let reaches = [
                run.steps
                    .iter()
                    .flat_map(|step| &step.drafts)
                    .any(|&drafts| drafts > 0),
                any(|outcome| !outcome.token_times_ps.is_sorted_by(|one, next| one < next)),
                any(|outcome| outcome.preemptions > 0),
                any(|outcome| outcome.cached_tokens > Some(0)),
            ];
            reached
                .iter_mut()
                .zip(reaches)
                .for_each(|(runs, reaches)| *runs += u32::from(reaches));
        }
        assert!(reached.iter().all(|&runs| runs > 50), "{version:?}: {reached:?}");
    }
}

/// Blocks are known by their tokens, whatever pieces a text comes in: the one behind the first token, too.
#[test]
fn answers_to_a_single_token_are_found_again() {
    let drafts = TwinDrafts {
        drafter: TwinDrafter::Eagle,
        most: 2,
        last_block: TwinLastBlock::NamedWithNext,
        is_v11: false,
    };
    let config = TwinConfig {
        block_size: 1,
        max_model_len: 100,
        max_num_batched_tokens: 100,
        enable_prefix_caching: true,
        drafts: Some(drafts.clone()),
        ..TwinConfig::v33()
    };
    let answered = |id: u64, prompt: &[(u64, u32, u32)]| TwinRequest {
        id,
        arrival_ps: id * 100 * SECOND,
        prompt: prompt.to_vec(),
        output_segment: 500,
        accepted: vec![0; 20],
        ..request('A', 1, 6)
    };
    let requests = [
        answered(0, &[(1, 0, 1), (500, 1, 8)]),
        // One token of the answer more.
        answered(1, &[(1, 0, 1), (500, 1, 9)]),
        // The segment goes on behind its first token.
        answered(2, &[(500, 0, 1), (500, 1, 9)]),
        answered(3, &[(500, 0, 10)]),
    ];
    let law = Law {
        per_step: SECOND,
        per_token: 0,
        per_pair: 0,
        reads_at_most: None,
    };
    let speculation = speculation(&config, &drafts, vec![0.0; 2]);
    let run = agree_with("pieces", &config, Some((speculation, 1)), &requests, law, true);
    let cached: Vec<Option<u32>> = run.outcomes.iter().map(|outcome| outcome.cached_tokens).collect();
    assert_eq!(cached, [0, 9, 0, 9].map(Some));
}

proptest! {
    #![proptest_config(draws(1000))]

    #[test]
    fn drafts_are_the_same(seed in any::<u64>()) {
        check(seed, Version::V33Sync, false);
    }

    #[test]
    fn drafts_in_flight_are_the_same(seed in any::<u64>()) {
        check(seed, Version::V33Async, false);
    }

    #[test]
    fn drafts_of_v11_are_the_same(seed in any::<u64>()) {
        check(seed, Version::V11, false);
    }

    #[test]
    fn drafts_are_the_same_under_aborts(seed in any::<u64>()) {
        check(seed, Version::V33Sync, true);
    }

    #[test]
    fn drafts_in_flight_are_the_same_under_aborts(seed in any::<u64>()) {
        check(seed, Version::V33Async, true);
    }

    #[test]
    fn drafts_of_v11_are_the_same_under_aborts(seed in any::<u64>()) {
        check(seed, Version::V11, true);
    }
}
