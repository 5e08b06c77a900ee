//! What a cache looked like a while ago, to somebody who hears of its changes with a delay.
//!
//! Engines publish what they store and remove (vLLM `KVEventBatch`, SGLang `BlockStored` and `BlockRemoved`), and a
//! router hears of it a latency later (RT-12). Instead of a second, late copy of the cache this keeps the changes of the
//! last latency only: a look-up asks the cache as it is, and takes back what was not heard of yet, newest first.
//!
//! Recording a change costs O(runs on its path), a look-up in addition O(changes within the latency), which are those of
//! a step or two at the usual milliseconds. A look-up is exact because a cached block's parent is cached: what is cached of
//! one prompt is a length, and each change moves it.
//!
//! Left out: generated tokens enter the caches here when their sequence leaves, so they are told then, all at once; only a
//! request that continues an answer within the latency of its end could tell.

use std::collections::VecDeque;

use super::content::{self, Cursor};
use crate::units::Picos;
use crate::workload::Piece;

/// The changes that have not been heard of everywhere.
#[derive(Debug)]
pub(crate) struct Journal {
    latency: Picos,
    now: Picos,
    /// In order of time.
    changes: VecDeque<Change>,
    spare: Vec<Vec<Piece>>,
}

/// Tokens `from..to` of a text began or ceased to be cached.
#[derive(Debug)]
struct Change {
    at: Picos,
    text: Vec<Piece>,
    from: u32,
    to: u32,
    is_stored: bool,
}

impl Journal {
    /// Nothing has changed yet; changes are heard of `latency` later.
    pub(crate) fn new(latency: Picos) -> Journal {
        Journal {
            latency,
            now: Picos::ZERO,
            changes: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// How late changes are heard of.
    pub(crate) fn latency(&self) -> Picos {
        self.latency
    }

    /// Changes from now on happen at `now`; what has been heard of everywhere is forgotten.
    pub(crate) fn set_clock(&mut self, now: Picos) {
        debug_assert!(now >= self.now, "a cache changes in order of time");
        self.now = now;
        while let Some(first) = self.changes.front()
            && first.at + self.latency <= now
        {
            let heard = self.changes.pop_front().expect("it was just looked at");
            self.recycle(heard.text);
        }
    }

    /// An empty text to write a change's into.
    pub(crate) fn blank(&mut self) -> Vec<Piece> {
        self.spare.pop().unwrap_or_default()
    }

    /// The tokens of `text` from `from` on are cached now, and were not.
    pub(crate) fn stored(&mut self, text: Vec<Piece>, from: u32, to: u32) {
        self.push(text, from, to, true);
    }

    /// The tokens of `text` from `from` on are not cached any more.
    pub(crate) fn removed(&mut self, text: Vec<Piece>, from: u32, to: u32) {
        self.push(text, from, to, false);
    }

    fn push(&mut self, text: Vec<Piece>, from: u32, to: u32, is_stored: bool) {
        self.changes.push_back(Change {
            at: self.now,
            text,
            from,
            to,
            is_stored,
        });
    }

    fn recycle(&mut self, mut text: Vec<Piece>) {
        text.clear();
        self.spare.push(text);
    }

    /// Of a prompt of which `tokens` are cached, how many somebody thinks are who looks at `now`. Both are whole blocks of
    /// `block` tokens, and no more than `limit`.
    pub(crate) fn heard(&self, now: Picos, prompt: &[Piece], tokens: u32, limit: u32, block: u32) -> u32 {
        let mut heard = tokens;
        for change in self.changes.iter().rev() {
            if change.at + self.latency <= now {
                break;
            }
            let upto = change.to.min(limit);
            let common = content::common_tokens(&change.text, Cursor::START, prompt, Cursor::START, upto);
            let common = common - common % block;
            if common <= change.from {
                continue;
            }
            if change.is_stored {
                heard = heard.min(change.from);
            } else if heard >= change.from {
                heard = heard.max(common);
            }
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentId;
    use crate::kv::{BlockPool, Held, RadixTree, Taken};
    use proptest::prelude::*;

    const BLOCK: u32 = 4;

    fn piece(segment: u64, start: u32, tokens: u32) -> Piece {
        Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        }
    }

    /// Few texts that share heads: a common one, one of three, and a tail of their own.
    fn prompt(dice: u64) -> Vec<Piece> {
        let common = 4 + (dice % 3) as u32 * 4;
        let group = 1 + dice / 3 % 3;
        let tail = 100 + dice / 9 % 4;
        vec![
            piece(0, 0, common),
            piece(group, 0, 3 + (dice / 40 % 12) as u32),
            piece(tail, 0, 1 + (dice / 500 % 14) as u32),
        ]
    }

    fn length(pieces: &[Piece]) -> u32 {
        pieces.iter().map(|piece| piece.tokens).sum()
    }

    /// What every probe finds after every change, by the time of the change: the brute-force model of delayed events.
    struct Past {
        probes: Vec<Vec<Piece>>,
        seen: Vec<(u64, Vec<u32>)>,
    }

    impl Past {
        fn new(empty: u32) -> Past {
            let probes: Vec<Vec<Piece>> = (0..60).map(|probe| prompt(probe * 37)).collect();
            let seen = vec![(0, vec![empty; probes.len()])];
            Past { probes, seen }
        }

        fn note(&mut self, at: u64, look_up: impl Fn(&[Piece]) -> u32) {
            let found = self.probes.iter().map(|probe| look_up(probe)).collect();
            self.seen.push((at, found));
        }

        fn at(&self, time: u64) -> &[u32] {
            let known = self.seen.iter().rev().find(|(at, _)| *at <= time);
            &known.expect("the cache was empty at the beginning").1
        }
    }

    proptest! {
        #[test]
        fn a_late_look_up_into_blocks_finds_what_was_there(
            dice in prop::collection::vec((any::<u64>(), 0u64..6, 0u8..3), 1..80), latency in 1u64..30,
        ) {
            let mut pool = BlockPool::new(30, BLOCK, true, dice[0].0 % 2 == 0);
            pool.delay_events(Picos(latency));
            let mut past = Past::new(0);
            let mut held: Vec<(Held, Vec<Piece>)> = Vec::new();
            let mut now = 0;
            for (draw, gap, what) in dice {
                now += gap;
                pool.set_clock(Picos(now));
                let pieces = prompt(draw);
                let tokens = length(&pieces);
                let found = pool.look_up(&pieces, tokens);
                let new = pool.blocks_for(tokens) - found.blocks;
                if what > 0 && new + found.unreferenced <= pool.free() {
                    let mut own = pool.admit(found, Taken::of_one_group(new));
                    pool.register(&mut own, &pieces, tokens, tokens);
                    held.push((own, pieces));
                } else if !held.is_empty() {
                    let (own, pieces) = held.swap_remove(draw as usize % held.len());
                    let tokens = length(&pieces);
                    pool.release(own, &pieces, tokens, tokens);
                }
                past.note(now, |probe| pool.look_up(probe, length(probe)).blocks * BLOCK);
                for look in [now, now + latency / 2, now + latency] {
                    // Nothing that has not happened yet can have been heard of.
                    let expected = past.at(look.saturating_sub(latency));
                    for (probe, expected) in past.probes.iter().zip(expected) {
                        let heard = if look < latency {
                            continue;
                        } else {
                            pool.heard_tokens(probe, length(probe), Picos(look))
                        };
                        prop_assert_eq!(heard, *expected, "at {}", look);
                    }
                }
            }
        }

        #[test]
        fn a_late_look_up_into_a_tree_finds_what_was_there(
            dice in prop::collection::vec((any::<u64>(), 0u64..6, 0u8..3), 1..80), latency in 1u64..30, page in 1u32..5,
        ) {
            let mut tree = RadixTree::new(page);
            tree.delay_events(Picos(latency));
            let mut past = Past::new(0);
            let mut now = 0;
            for (draw, gap, what) in dice {
                now += gap;
                tree.set_clock(Picos(now));
                let pieces = prompt(draw);
                if what > 0 {
                    tree.insert(&pieces, length(&pieces));
                } else {
                    tree.evict(draw % 30);
                }
                past.note(now, |probe| tree.peek(probe, length(probe) - 1));
                for look in [now, now + latency / 2, now + latency] {
                    if look < latency {
                        continue;
                    }
                    let expected = past.at(look - latency);
                    for (probe, expected) in past.probes.iter().zip(expected) {
                        let heard = tree.heard_tokens(probe, length(probe) - 1, Picos(look));
                        prop_assert_eq!(heard, *expected, "at {}", look);
                    }
                }
            }
        }
    }
}
