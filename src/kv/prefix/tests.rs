//! A pool that puts its evictions off is the pool that does not, and one that forgets who shares with nobody the pool that does not.

use proptest::prelude::*;

use crate::ids::SegmentId;
use crate::kv::{BlockPool, Held, Match, Taken};
use crate::workload::Piece;

const BLOCK: u32 = 4;

/// A prompt of a shared head and a tail of its own.
fn prompt(head: u32, own: u64, tail: u32) -> Vec<Piece> {
    let piece = |segment, tokens| Piece {
        segment: SegmentId(segment),
        start: 0,
        tokens,
    };
    [piece(1, head), piece(10 + own, tail)]
        .into_iter()
        .filter(|piece| piece.tokens > 0)
        .collect()
}

/// A sequence that was admitted: what it holds, its prompt, and tokens that it has blocks for.
type Inside = (Held, Vec<Piece>, u32);

/// What two pools must agree upon.
#[derive(Debug, PartialEq)]
struct Answer {
    free: u32,
    cached: u64,
    hit: u32,
    unreferenced: u32,
    evicted: u64,
}

/// Admits, grows, registers and releases sequences; what was answered.
fn run(puts_off: bool, to_head: bool, ops: &[(u8, u32, u64, u32)]) -> Vec<Answer> {
    let mut pool = BlockPool::new(40, BLOCK, true, to_head);
    if puts_off {
        pool.put_off_evictions();
    }
    let mut inside: Vec<Inside> = Vec::new();
    let mut answers = Vec::new();
    for &(op, head, own, tail) in ops {
        let mut found = Match::MISS;
        match op {
            0 | 1 => {
                let pieces = prompt(head, own, tail);
                let tokens = head + tail;
                pool.settle();
                found = pool.look_up(&pieces, tokens);
                let new = tokens.div_ceil(BLOCK) - found.blocks;
                if new + found.unreferenced <= pool.free() {
                    let mut held = pool.admit(found, Taken::of_one_group(new));
                    pool.register(&mut held, &pieces, tokens, tokens);
                    inside.push((held, pieces, tokens));
                }
            }
            2 if !inside.is_empty() => {
                let at = own as usize % inside.len();
                let blocks = (inside[at].2 + tail).div_ceil(BLOCK) - inside[at].2.div_ceil(BLOCK);
                if blocks <= pool.free() {
                    pool.take(blocks);
                    inside[at].2 += tail;
                }
            }
            _ if !inside.is_empty() => {
                let (held, pieces, tokens) = inside.swap_remove(own as usize % inside.len());
                let known: u32 = pieces.iter().map(|piece| piece.tokens).sum();
                pool.release(held, &pieces, known, tokens);
            }
            _ => {}
        }
        answers.push(Answer {
            free: pool.free(),
            cached: 0,
            hit: found.blocks,
            unreferenced: found.unreferenced,
            evicted: pool.evicted_tokens(),
        });
    }
    answers
}

proptest! {
    #[test]
    fn evictions_may_be_put_off(
        to_head in any::<bool>(),
        ops in prop::collection::vec((0u8..4, 0u32..30, 0u64..6, 1u32..20), 1..200),
    ) {
        prop_assert_eq!(run(true, to_head, &ops), run(false, to_head, &ops));
    }
}

/// Sequences with texts of their own beside others, in the tree or alone; some are preempted, and come back.
fn run_beside(alone: bool, to_head: bool, ops: &[(u8, u32, u64, u32)]) -> Vec<Answer> {
    let mut pool = BlockPool::new(40, BLOCK, true, to_head);
    pool.put_off_evictions();
    let mut inside: Vec<Inside> = Vec::new();
    let mut preempted: Vec<Vec<Piece>> = Vec::new();
    let mut answers = Vec::new();
    for (number, &(op, head, own, tail)) in ops.iter().enumerate() {
        let mut found = Match::MISS;
        match op {
            // Somebody with a text that others have, somebody with one of its own, somebody who comes back.
            0..=2 => {
                let pieces = match op {
                    0 => prompt(head, own, tail),
                    1 => prompt(0, 100 + number as u64, head + tail),
                    _ => match preempted.pop() {
                        Some(pieces) => pieces,
                        None => continue,
                    },
                };
                let tokens: u32 = pieces.iter().map(|piece| piece.tokens).sum();
                let is_alone = alone && op == 1;
                if !is_alone {
                    pool.settle();
                    found = pool.look_up(&pieces, tokens);
                }
                let new = Taken::of_one_group(tokens.div_ceil(BLOCK) - found.blocks);
                if new.all() + found.unreferenced <= pool.free() {
                    let mut held = Held::default();
                    match is_alone {
                        true => pool.admit_alone(&mut held, new),
                        false => held = pool.admit(found, new),
                    }
                    // The rest is registered when it leaves.
                    let computed = if tail % 3 == 0 { tokens / 2 } else { tokens };
                    pool.register(&mut held, &pieces, computed, tokens);
                    inside.push((held, pieces, tokens));
                }
            }
            3 | 4 if !inside.is_empty() => {
                let (mut held, pieces, tokens) = inside.swap_remove(own as usize % inside.len());
                if op == 3 {
                    pool.expect_again(&mut held, &pieces);
                    preempted.push(pieces.clone());
                }
                pool.release(held, &pieces, tokens, tokens);
            }
            _ => {}
        }
        let (free, evicted) = (pool.free(), pool.evicted_tokens());
        let is_asked = head % 2 == 0;
        if is_asked {
            pool.settle();
        }
        answers.push(Answer {
            free,
            cached: if is_asked { pool.cached_tokens() } else { 0 },
            hit: found.blocks,
            unreferenced: found.unreferenced,
            evicted,
        });
    }
    answers
}

proptest! {
    #[test]
    fn who_shares_with_nobody_need_not_stand_in_the_tree(
        to_head in any::<bool>(),
        ops in prop::collection::vec((0u8..5, 0u32..30, 0u64..6, 1u32..20), 1..200),
    ) {
        prop_assert_eq!(run_beside(true, to_head, &ops), run_beside(false, to_head, &ops));
    }
}

/// Whoever computes a text beside others holds copies of its own of all that it shares with them, deeper and deeper, and gives
/// back those and no others, whoever goes first.
#[test]
fn copies_of_one_text_are_given_back_each_by_its_holder() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut pool = BlockPool::new(40, BLOCK, true, false);
        let all = pool.free();
        let texts = [0, 1, 2].map(|own| prompt(5 * BLOCK, own, 2 * BLOCK));
        let mut inside = texts.each_ref().map(|text| {
            // Nobody has found anything yet, as where prompts are in parts at the same time.
            let mut held = pool.admit(Match::MISS, Taken::of_one_group(7));
            pool.register(&mut held, text, 7 * BLOCK, 7 * BLOCK);
            Some(held)
        });
        for (gone, &at) in order.iter().enumerate() {
            assert_eq!(pool.free(), all - 7 * (3 - gone as u32));
            let held = inside[at].take().expect("each goes once");
            pool.release(held, &texts[at], 7 * BLOCK, 7 * BLOCK);
        }
        assert_eq!(pool.free(), all);
        // All is found again, and nobody holds it.
        for text in &texts {
            let found = pool.look_up(text, 7 * BLOCK + 1);
            assert_eq!((found.blocks, found.unreferenced), (7, 7), "{order:?}");
        }
    }
}
