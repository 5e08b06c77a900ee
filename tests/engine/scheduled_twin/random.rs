//! Random scenarios: small pools and budgets, so that preemption, refusal and full caches are common; clients that give up.

use plimsoll::engine::Policy;
use plimsoll::engine::scheduled::policies::{HfConfig, HfOrder, PreemptionMode, StaticConfig, V0Config};
use plimsoll::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::sim::Outcome;
use plimsoll::workload::{Piece, Prompt, Request};
use proptest::prelude::*;

use super::{Seen, hf, serve, static_batch, v0};
use crate::draws::{Verdict, draws, judge};
use crate::runs::{cost, leaps, micros, request, run, same_steps};
use crate::sglang_leaps::Told;

prop_compose! {
    fn engines()(
        (block_size, num_gpu_blocks, max_num_seqs) in (1u32..6, 12u32..150, 1u32..10),
        (max_model_len, budget) in (30u32..90, 4u32..60),
        (swap_blocks, swap_micros) in (0u32..60, 0u64..500),
        enable_prefix_caching in any::<bool>(),
    ) -> ScheduledConfig {
        ScheduledConfig {
            max_model_len,
            max_num_seqs,
            max_num_batched_tokens: budget,
            block_size,
            num_gpu_blocks,
            enable_prefix_caching,
            swap_blocks,
            swap_time_per_block: micros(swap_micros),
            ..crate::scheduled::v0(false)
        }
    }
}

prop_compose! {
    fn v0s(enable_chunked_prefill: bool)(
        engine in engines(),
        (priority, swap, async_output_proc) in any::<(bool, bool, bool)>(),
        delay_factor in prop_oneof![2 => Just(0.0), 1 => 0.0f64..4.0],
    ) -> ScheduledConfig {
        let scheduler = SchedulerChoice::VllmV0(V0Config {
            enable_chunked_prefill,
            policy: if priority && !enable_chunked_prefill { Policy::Priority } else { Policy::Fcfs },
            preemption_mode: if swap { PreemptionMode::Swap } else { PreemptionMode::Recompute },
            delay_factor,
            async_output_proc,
        });
        // Every running sequence must have its token in a step (as the flags are judged).
        let max_num_batched_tokens = engine.max_num_batched_tokens.max(engine.max_num_seqs);
        // Below a hundred blocks there is no watermark: a prompt that fills the pool, computed in pieces, wants a free
        // block between them (V0-6) and pushes itself out for ever.
        let few = if enable_chunked_prefill { 100 } else { 0 };
        let block_size = if enable_chunked_prefill { engine.block_size.min(2) } else { engine.block_size };
        let num_gpu_blocks = engine.num_gpu_blocks.max(few);
        ScheduledConfig { scheduler, max_num_batched_tokens, block_size, num_gpu_blocks, ..engine }
    }
}

prop_compose! {
    fn statics()(engine in engines(), wait in prop_oneof![Just(0u64), 1u64..200_000], release_rows_early in any::<bool>())
        -> ScheduledConfig
    {
        let scheduler = SchedulerChoice::Static(StaticConfig {
            batch_size: engine.max_num_seqs,
            batch_timeout: micros(wait),
            release_rows_early,
            max_model_len: engine.max_model_len,
        });
        ScheduledConfig { scheduler, enable_prefix_caching: false, ..engine }
    }
}

prop_compose! {
    fn hfs()(engine in engines(), (fifo, is_ample) in any::<(bool, bool)>()) -> ScheduledConfig {
        let num_gpu_blocks = engine.num_gpu_blocks * if is_ample { 4 } else { 1 };
        let scheduler = SchedulerChoice::HfContinuous(HfConfig {
            order: if fifo { HfOrder::Fifo } else { HfOrder::PrefillFirst },
            max_batch_tokens: engine.max_num_batched_tokens,
            margin_blocks: (0.2 * f64::from(num_gpu_blocks)).ceil() as u32,
        });
        ScheduledConfig { scheduler, num_gpu_blocks, ..engine }
    }
}

prop_compose! {
    /// Gap before it, prompt, outputs, headroom, priority, patience.
    fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..30_000, 0u64..900_000],
        (shared, own) in (0u32..25, 1u32..25),
        (outputs, headroom) in (prop_oneof![1u32..8, 1u32..60], prop_oneof![Just(0u32), 0u32..30]),
        priority in 0i64..4,
        patience in prop_oneof![4 => Just(None), 1 => (1u64..1_500_000).prop_map(Some)],
    ) -> (u64, [u32; 4], i64, Option<u64>) {
        (gap, [shared, own, outputs, headroom], priority, patience)
    }
}

fn requests(wishes: Vec<(u64, [u32; 4], i64, Option<u64>)>) -> Vec<Request> {
    let mut now = 0;
    let mut made: Vec<Request> = Vec::new();
    for (id, (gap, [shared, own, outputs, headroom], priority, patience)) in (0..).zip(wishes) {
        now += gap;
        let piece = |segment, start, tokens| Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        };
        // Some go on with what somebody before them said and was answered.
        let earlier = made.get((shared * 7) as usize % made.len().max(1));
        let earlier = earlier.filter(|earlier| own % 5 == 0 && earlier.prompt_tokens < 40);
        let mut pieces = Vec::new();
        if let Some(earlier) = earlier
            && let Prompt::Pieces(prompt) = &earlier.prompt
        {
            pieces.extend(prompt.iter().copied());
            let (segment, start) = (earlier.output_segment.0, earlier.prompt_tokens);
            pieces.push(piece(segment, start, earlier.output_tokens));
        } else if shared > 0 {
            pieces.push(piece(id % 3, 0, shared));
        }
        pieces.push(piece(5000 + id, 0, own));
        let prompt_tokens = pieces.iter().map(|piece| piece.tokens).sum();
        made.push(Request {
            id: RequestId(id),
            arrival: micros(now),
            max_tokens: outputs + headroom,
            priority,
            prompt: Prompt::Pieces(pieces.into()),
            output_segment: SegmentId(10_000 + id),
            deadline: patience.map(|patience| micros(now + patience)),
            ..request('A', 0, prompt_tokens, outputs)
        });
    }
    made
}

/// The twin of whoever schedules.
fn twin(config: &ScheduledConfig, requests: &[Request]) -> Seen {
    let too_long = |request: &Request| request.prompt_tokens >= config.max_model_len;
    let never_fits = |request: &Request| {
        let longest = (request.prompt_tokens + request.max_tokens).min(config.max_model_len) - 1;
        too_long(request) || longest.div_ceil(config.block_size) > config.num_gpu_blocks
    };
    match &config.scheduler {
        SchedulerChoice::VllmV0(settings) => {
            let mut memory = v0::Memory::default();
            serve(config, requests, cost(), false, too_long, |world| {
                v0::decide(world, settings, &mut memory)
            })
        }
        SchedulerChoice::Static(settings) => {
            let early = settings.release_rows_early;
            serve(config, requests, cost(), early, never_fits, |world| {
                static_batch::decide(world, settings)
            })
        }
        SchedulerChoice::HfContinuous(settings) => {
            serve(config, requests, cost(), false, never_fits, |world| {
                hf::decide(world, settings)
            })
        }
        SchedulerChoice::Own(_) => unreachable!("twins are of the schedulers that ship"),
    }
}

/// Engine and twin agree, step by step and token by token.
fn agree(config: &ScheduledConfig, requests: &[Request]) -> Result<Verdict, TestCaseError> {
    let expected = twin(config, requests);
    let (log, told) = run(config.clone(), requests, cost(), false, true);
    same_steps(&log, &expected.log)?;
    prop_assert_eq!(told.drained, !expected.hung);
    if expected.hung {
        return Ok(Verdict::Excused);
    }
    let (gaps, at_once) = expected.gaps();
    prop_assert_eq!(&told.gaps, &gaps);
    prop_assert_eq!(told.at_once, at_once);
    prop_assert_eq!(told.completions.len(), requests.len());
    for end in &told.completions {
        let seq = &expected.seqs[end.id.0 as usize];
        prop_assert_eq!(Some((end.outcome, end.end)), seq.end, "request {}", end.id.0);
        prop_assert_eq!(end.first_token, seq.had.first().copied());
        prop_assert_eq!(end.output_tokens as usize, seq.had.len());
        prop_assert_eq!(end.preemptions, seq.preemptions);
        prop_assert_eq!(end.cached_tokens as usize, seq.found.unwrap_or(0));
    }
    Ok(Verdict::Agree)
}

fn conserves(told: &Told, requests: &[Request]) -> Result<(), TestCaseError> {
    prop_assert_eq!(told.completions.len(), requests.len());
    let tokens: u64 = told
        .completions
        .iter()
        .map(|end| u64::from(end.output_tokens))
        .sum();
    let first = told.story.iter().filter(|event| event.0 == 'T').count() as u64;
    prop_assert_eq!(tokens, first + told.gaps.values().sum::<u64>() + told.at_once);
    for end in &told.completions {
        let request = &requests[end.id.0 as usize];
        let is_whole = end.output_tokens == request.output_tokens || end.outcome != Outcome::Completed;
        prop_assert!(
            is_whole || end.prompt_tokens + request.output_tokens > end.prompt_tokens + end.output_tokens
        );
    }
    Ok(())
}

/// Holds every draw against the twin. One that hangs is judged up to there only; no more than so large a share may.
fn all_agree(engines: impl Strategy<Value = ScheduledConfig>, hung: f64) {
    let strategy = (engines, prop::collection::vec(wishes(), 1..30));
    judge(draws(300), &strategy, hung, |(config, wishes)| {
        agree(&config, &requests(wishes))
    });
}

#[test]
fn v0_default_equals_its_twin() {
    // Without room in the host's memory the process dies (V0-8).
    all_agree(v0s(false), 0.1);
}

#[test]
fn v0_chunked_equals_its_twin() {
    all_agree(v0s(true), 0.1);
}

#[test]
fn static_batching_equals_its_twin() {
    all_agree(statics(), 0.0);
}

#[test]
fn transformers_equals_its_twin() {
    // Nobody is preempted, so that a full cache hangs (ST-9).
    all_agree(hfs(), 0.2);
}

proptest! {
    #![proptest_config(draws(300))]

    #[test]
    fn leaping_is_stepping(
        config in prop_oneof![v0s(false), v0s(true), statics(), hfs()],
        wishes in prop::collection::vec(wishes(), 1..30),
    ) {
        let requests = requests(wishes);
        let told = leaps(config, &requests)?;
        if told.drained {
            conserves(&told, &requests)?;
        }
    }
}
