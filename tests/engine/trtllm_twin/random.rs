//! Random scenarios: small pools, batches and budgets, so that seats, blocks and tokens run out; clients that give up.

use std::collections::BTreeMap;

use plimsoll::engine::trtllm::{BlockReuse, CapacityPolicy, TrtllmConfig};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::units::Picos;
use plimsoll::workload::{Piece, Prompt, Request};
use proptest::prelude::*;

use super::serve;
use crate::draws::draws;
use crate::runs::{cost, leaps, micros, request, run, same_steps};

prop_compose! {
    pub(super) fn engines()(
        (tokens_per_block, num_blocks, max_batch_size) in (1u32..6, 12u32..150, 1u32..10),
        (max_seq_len, budget) in (30u32..90, 4u32..60),
        (chunks, overlap_scheduler) in any::<(bool, bool)>(),
        policy in prop_oneof![
            3 => Just(CapacityPolicy::GuaranteedNoEvict),
            3 => Just(CapacityPolicy::MaxUtilization),
            1 => Just(CapacityPolicy::StaticBatch),
        ],
        (batch_wait_iters, batch_wait_tokens) in prop_oneof![2 => Just((0, 0)), 1 => (1u32..20, 1u32..50)],
        block_reuse in prop_oneof![1 => Just(BlockReuse::Off), 1 => Just(BlockReuse::Whole), 2 => Just(BlockReuse::Partial)],
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
            block_reuse: if pauses { BlockReuse::Off } else { block_reuse },
        }
    }
}

prop_compose! {
    /// Gap before it, prompt, outputs, headroom, patience, a text with which its prompt begins and how much of it.
    pub(super) fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..30_000, 0u64..900_000],
        prompt in prop_oneof![1u32..12, 1u32..60],
        (outputs, headroom) in (prop_oneof![1u32..8, 1u32..60], prop_oneof![Just(0u32), 0u32..30]),
        patience in prop_oneof![4 => Just(None), 1 => (1u64..1_500_000).prop_map(Some)],
        (text, shared) in (0usize..4, prop_oneof![Just(0u32), 1u32..60]),
    ) -> Wish {
        Wish { gap, prompt, outputs, headroom, patience, text, shared }
    }
}

#[derive(Debug)]
pub(super) struct Wish {
    gap: u64,
    prompt: u32,
    outputs: u32,
    headroom: u32,
    patience: Option<u64>,
    /// One of three texts, or else all that the request before has said and been told.
    text: usize,
    shared: u32,
}

pub(super) fn requests(wishes: Vec<Wish>) -> Vec<Request> {
    let (mut now, mut told) = (0, Vec::new());
    let made = (0..).zip(wishes).map(|(id, wish)| {
        now += wish.gap;
        let piece = |segment, start, tokens| Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        };
        let text = match wish.text {
            3 => std::mem::take(&mut told),
            text => vec![piece(text as u64, 0, 1000)],
        };
        let mut prompt: Vec<Piece> = Vec::new();
        let mut left = wish.shared.min(wish.prompt);
        for whole in text {
            let tokens = whole.tokens.min(left);
            left -= tokens;
            prompt.extend((tokens > 0).then_some(Piece { tokens, ..whole }));
        }
        let own = wish.prompt - prompt.iter().map(|piece| piece.tokens).sum::<u32>();
        prompt.extend((own > 0).then(|| piece(1000 + id, 0, own)));
        told = prompt.clone();
        told.push(piece(2000 + id, wish.prompt, wish.outputs));
        Request {
            id: RequestId(id),
            arrival: micros(now),
            max_tokens: wish.outputs + wish.headroom,
            ignore_eos: wish.headroom == 0,
            deadline: wish.patience.map(|patience| micros(now + patience)),
            prompt: Prompt::Pieces(prompt.into()),
            output_segment: SegmentId(2000 + id),
            ..request('A', 0, wish.prompt, wish.outputs)
        }
    });
    made.collect()
}

/// Engine and twin agree, step by step and token by token.
fn agree(config: &TrtllmConfig, requests: &[Request]) -> Result<(), TestCaseError> {
    let expected = serve(config, requests, cost());
    let (log, told) = run(config.clone(), requests, cost(), false, true);
    same_steps(&log, &expected.log)?;
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
        leaps(config, &requests(wishes))?;
    }
}
