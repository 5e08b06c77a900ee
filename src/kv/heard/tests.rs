//! Look-ups into what was heard of several caches, against what those held at the time.

use proptest::prelude::*;

use crate::ids::SegmentId;
use crate::kv::*;
use crate::units::Picos;
use crate::workload::Piece;

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

/// A cache with a journal, as an engine has one.
enum Cache {
    Blocks(BlockPool, Vec<(Held, Vec<Piece>)>),
    Tree(RadixTree),
}

impl Cache {
    fn blocks(blank_to_head: bool, latency: u64) -> Cache {
        let mut pool = BlockPool::new(30, BLOCK, true, blank_to_head);
        pool.delay_events(Picos(latency));
        Cache::Blocks(pool, Vec::new())
    }

    fn tree(page: u32, latency: u64) -> Cache {
        let mut tree = RadixTree::new(page);
        tree.delay_events(Picos(latency));
        Cache::Tree(tree)
    }

    fn journal(&self) -> &Journal {
        let journal = match self {
            Cache::Blocks(pool, _) => pool.journal(),
            Cache::Tree(tree) => tree.journal(),
        };
        journal.expect("somebody listens")
    }

    /// Something is stored, or something leaves.
    fn change(&mut self, now: u64, dice: u64, stores: bool) {
        let pieces = prompt(dice);
        let tokens = length(&pieces);
        match self {
            Cache::Tree(tree) => {
                tree.set_clock(Picos(now));
                match stores {
                    true => {
                        tree.insert(&pieces, tokens);
                    }
                    false => {
                        tree.evict(dice % 30);
                    }
                }
            }
            Cache::Blocks(pool, held) => {
                pool.set_clock(Picos(now));
                let found = pool.look_up(&pieces, tokens);
                let new = pool.blocks_for(tokens) - found.blocks;
                if stores && new + found.unreferenced <= pool.free() {
                    let mut own = pool.admit(found, Taken::of_one_group(new));
                    pool.register(&mut own, &pieces, tokens, tokens);
                    held.push((own, pieces));
                } else if !held.is_empty() {
                    let (own, pieces) = held.swap_remove(dice as usize % held.len());
                    let tokens = length(&pieces);
                    pool.release(own, &pieces, tokens, tokens);
                }
            }
        }
    }

    fn look_up(&self, pieces: &[Piece]) -> u32 {
        match self {
            Cache::Blocks(pool, _) => pool.look_up(pieces, length(pieces)).blocks * BLOCK,
            Cache::Tree(tree) => tree.peek(pieces, length(pieces) - 1),
        }
    }
}

/// What every probe finds in a cache after every change: the brute-force model of delayed events.
struct Past {
    seen: Vec<(u64, Vec<u32>)>,
}

impl Past {
    fn at(&self, time: u64) -> &[u32] {
        let known = self.seen.iter().rev().find(|(at, _)| *at <= time);
        &known.expect("the cache was empty at the beginning").1
    }
}

proptest! {
    #[test]
    fn a_late_look_up_finds_what_was_there(
        dice in prop::collection::vec((any::<u64>(), 0u64..6, 0u8..8), 1..120), latency in 0u64..30, page in 1u32..5,
    ) {
        let probes: Vec<Vec<Piece>> = (0..60).map(|probe| prompt(probe * 37)).collect();
        let new = |cache: usize| match cache {
            0 => Cache::blocks(true, latency),
            1 => Cache::blocks(false, latency),
            _ => Cache::tree(page, latency),
        };
        let empty = || Past { seen: vec![(0, vec![0; probes.len()])] };
        let mut caches: Vec<Cache> = (0..4).map(new).collect();
        let mut past: Vec<Past> = (0..4).map(|_| empty()).collect();
        let mut heard = Heard::new(caches.len());
        let mut now = 0;
        for (draw, gap, what) in dice {
            now += gap;
            let at = (draw >> 50) as usize % caches.len();
            match what {
                // A replica fails, and is empty at once when it is back.
                7 if draw % 4 == 0 => {
                    caches[at] = new(at);
                    past[at] = empty();
                }
                _ => caches[at].change(now, draw, what > 2),
            }
            past[at].seen.push((now, probes.iter().map(|probe| caches[at].look_up(probe)).collect()));
            if draw % 3 == 0 {
                continue;
            }
            for (index, cache) in caches.iter().enumerate() {
                heard.listen(index, cache.journal(), Picos(now));
            }
            for (nth, probe) in probes.iter().enumerate() {
                heard.look_up(probe, length(probe));
                for (index, past) in past.iter().enumerate() {
                    let expected = now.checked_sub(latency).map_or(0, |time| past.at(time)[nth]);
                    prop_assert_eq!(heard.found()[index], expected, "cache {} at {}", index, now);
                }
            }
        }
        // Nothing is left of caches that are gone.
        for (index, cache) in caches.iter_mut().enumerate() {
            *cache = new(index);
            heard.listen(index, cache.journal(), Picos(now));
        }
        prop_assert_eq!(heard.runs(), 0);
    }
}
