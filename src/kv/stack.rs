//! How large a prefix cache must be: stack distances over blocks, for every size at once, in one pass.
//!
//! Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies" (IBM Systems Journal, 1970): under
//! least recently used the cache of `C` blocks holds the first `C` of one list, so an access that finds its block at place
//! `d` of the list is a hit of every cache of at least `d` blocks. Here the list is of the blocks of a tree of contents. A
//! request puts all of its blocks on top, the first block topmost, because the engines evict the deepest block first
//! (V1-37, SG-40); a block's ancestors are therefore always above it, and what a cache holds is whole prefixes.
//!
//! Blocks that were always accessed together are one run with one place, so a request costs O(runs it touches · log runs),
//! not O(its blocks). Left out is all that needs a clock: requests come one after the other, each ends before the next,
//! and nobody's blocks are pinned, computed twice or held by a decode while others need room. Memory is O(runs).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::content::{self, Cursor};
use crate::workload::Piece;

/// The empty prefix, parent of every first block.
const ROOT: usize = usize::MAX;

/// Consecutive blocks below a parent, and their common place in the list.
#[derive(Debug)]
struct Run {
    blocks: u32,
    pieces: Vec<Piece>,
    /// The larger, the nearer the top.
    place: usize,
}

/// Blocks at each place, with sums from a place to the top in O(log).
#[derive(Debug, Default)]
struct Places {
    /// Fenwick tree, from 1.
    sums: Vec<u64>,
    total: u64,
    /// Places given away.
    taken: usize,
}

impl Places {
    fn with_room(room: usize) -> Places {
        Places {
            sums: vec![0; room + 1],
            ..Places::default()
        }
    }

    fn room(&self) -> usize {
        self.sums.len().saturating_sub(1)
    }

    fn change(&mut self, place: usize, by: impl Fn(u64) -> u64) {
        self.total = by(self.total);
        let mut node = place + 1;
        while node < self.sums.len() {
            self.sums[node] = by(self.sums[node]);
            node += node & node.wrapping_neg();
        }
    }

    /// Blocks above a place.
    fn above(&self, place: usize) -> u64 {
        let (mut node, mut below) = (place + 1, 0);
        while node > 0 {
            below += self.sums[node];
            node &= node - 1;
        }
        self.total - below
    }
}

/// Hits for every size of a cache.
#[derive(Debug)]
pub(crate) struct StackDistances {
    block: u32,
    runs: Slab<Run>,
    children: FxHashMap<(usize, u64), usize>,
    places: Places,
    /// Where the number of hits begins (or ends) to rise by so many blocks with each block of size.
    slopes: BTreeMap<u64, i64>,
    path: Vec<usize>,
    /// Prompt tokens looked up.
    queried: u64,
    largest: u64,
}

impl StackDistances {
    /// An empty list of blocks of `block` tokens.
    pub(crate) fn new(block: u32) -> StackDistances {
        assert!(block > 0, "a block holds a token");
        StackDistances {
            block,
            runs: Slab::new(),
            children: FxHashMap::default(),
            places: Places::with_room(1024),
            slopes: BTreeMap::new(),
            path: Vec::new(),
            queried: 0,
            largest: 0,
        }
    }

    /// Runs that memory is spent on.
    pub(crate) fn texts(&self) -> usize {
        self.runs.len()
    }

    /// A request comes and goes: its prompt is looked up, all but its last token (V1-46), and the whole blocks of its
    /// first `tokens` tokens are cached.
    pub(crate) fn visit(&mut self, pieces: &[Piece], prompt_tokens: u32, tokens: u32) {
        self.queried += u64::from(prompt_tokens);
        let all = tokens / self.block;
        self.largest = self.largest.max(u64::from(tokens.div_ceil(self.block)));
        let looked_up = (prompt_tokens.saturating_sub(1) / self.block).min(all);
        let (known, at) = self.descend(pieces, looked_up, all);
        if known < all {
            let parent = self.path.last().copied().unwrap_or(ROOT);
            let key = content::key(pieces, at, self.block).expect("a request knows its own tokens");
            let mut own = Vec::new();
            content::copy(pieces, at, (all - known) * self.block, &mut own);
            let run = self.runs.insert(Run {
                blocks: all - known,
                pieces: own,
                place: usize::MAX,
            });
            self.children.insert((parent, key), run);
            self.path.push(run);
        }
        self.put_on_top();
    }

    /// Goes down along known blocks, `all` at most, counting the places of the first `looked_up`. Leaves the runs in
    /// `path`, cut so that all of each is met.
    fn descend(&mut self, pieces: &[Piece], looked_up: u32, all: u32) -> (u32, Cursor) {
        let (mut parent, mut known, mut at) = (ROOT, 0, Cursor::START);
        self.path.clear();
        while known < all {
            let key = content::key(pieces, at, self.block).expect("a request knows its own tokens");
            let Some(&child) = self.children.get(&(parent, key)) else {
                break;
            };
            let run = &self.runs[child];
            let limit = run.blocks.min(all - known) * self.block;
            let common = content::common_tokens(&run.pieces, Cursor::START, pieces, at, limit);
            let met = common / self.block;
            if met == 0 {
                break;
            }
            let hits = met.min(looked_up.saturating_sub(known));
            if hits > 0 {
                let above = self.places.above(run.place);
                *self.slopes.entry(above).or_insert(0) += 1;
                *self.slopes.entry(above + u64::from(hits)).or_insert(0) -= 1;
            }
            let is_whole = met == run.blocks;
            let run = if is_whole {
                child
            } else {
                self.split(parent, key, child, met)
            };
            self.path.push(run);
            at = content::advance(pieces, at, met * self.block);
            (parent, known) = (run, known + met);
            if !is_whole {
                break;
            }
        }
        (known, at)
    }

    /// Gives the first `blocks` blocks of a run a run of their own, at the same place, and returns that.
    fn split(&mut self, parent: usize, key: u64, deep: usize, blocks: u32) -> usize {
        let run = &mut self.runs[deep];
        let tokens = blocks * self.block;
        let mut head = Vec::new();
        content::copy(&run.pieces, Cursor::START, tokens, &mut head);
        let cut = content::advance(&run.pieces, Cursor::START, tokens);
        content::remove_before(&mut run.pieces, cut);
        run.blocks -= blocks;
        let place = run.place;
        let deep_key = content::key(&run.pieces, Cursor::START, self.block).expect("the rest holds a block");
        let upper = self.runs.insert(Run {
            blocks,
            pieces: head,
            place,
        });
        self.children.insert((parent, key), upper);
        self.children.insert((upper, deep_key), deep);
        upper
    }

    /// Moves the runs of the path to the top, the first topmost.
    fn put_on_top(&mut self) {
        if self.places.taken + self.path.len() > self.places.room() {
            self.renumber();
        }
        for &at in self.path.iter().rev() {
            let run = &mut self.runs[at];
            let blocks = u64::from(run.blocks);
            if run.place != usize::MAX {
                self.places.change(run.place, |sum| sum - blocks);
            }
            run.place = self.places.taken;
            self.places.taken += 1;
            self.places.change(run.place, |sum| sum + blocks);
        }
    }

    /// Numbers the places anew, without those that nobody has. Runs that were one share a place until they are moved.
    fn renumber(&mut self) {
        let mut placed: Vec<(usize, usize)> = self
            .runs
            .iter()
            .filter(|(_, run)| run.place != usize::MAX)
            .map(|(at, run)| (run.place, at))
            .collect();
        placed.sort_unstable();
        let mut places = Places::with_room((2 * (placed.len() + self.path.len())).max(1024));
        let mut last = None;
        for (place, at) in placed {
            if last != Some(place) {
                places.taken += 1;
                last = Some(place);
            }
            let run = &mut self.runs[at];
            run.place = places.taken - 1;
            let blocks = u64::from(run.blocks);
            places.change(run.place, |sum| sum + blocks);
        }
        self.places = places;
    }

    /// Corners of the number of hit tokens over the size in blocks, ascending in both; between two it is a straight line,
    /// after the last it is flat.
    pub(crate) fn corners(&self) -> Vec<(u64, u64)> {
        let (mut corners, mut slope, mut hits, mut from) = (vec![(0, 0)], 0i64, 0u64, 0u64);
        for (&size, &change) in &self.slopes {
            let rise = slope.unsigned_abs() * (size - from);
            hits += rise * u64::from(self.block);
            (slope, from) = (slope + change, size);
            if change != 0 {
                corners.push((size, hits));
            }
        }
        corners
    }

    /// Prompt tokens looked up.
    pub(crate) fn queried_tokens(&self) -> u64 {
        self.queried
    }

    /// Blocks of different content: a cache that holds them never evicts.
    pub(crate) fn distinct_blocks(&self) -> u64 {
        self.places.total
    }

    /// Blocks that the largest request needs for itself.
    pub(crate) fn largest_request_blocks(&self) -> u64 {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentId;
    use proptest::prelude::*;

    /// A list of blocks, each named by all tokens up to its end; the first is the most recently used.
    #[derive(Default)]
    struct Naive {
        list: Vec<Vec<(u64, u32)>>,
    }

    impl Naive {
        /// Hit tokens of a request in a cache of `size` blocks.
        fn visit(&mut self, text: &[(u64, u32)], block: usize, prompt: usize, size: usize) -> u64 {
            let names: Vec<Vec<(u64, u32)>> = (1..=text.len() / block)
                .map(|n| text[..n * block].to_vec())
                .collect();
            let looked_up = ((prompt - 1) / block).min(names.len());
            let hits = names[..looked_up]
                .iter()
                .take_while(|name| self.list.contains(name))
                .count();
            self.list.retain(|name| !names.contains(name));
            self.list.splice(0..0, names);
            self.list.truncate(size);
            (hits * block) as u64
        }
    }

    fn piece(segment: u64, start: u32, tokens: u32) -> Piece {
        Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        }
    }

    fn spelt(pieces: &[Piece], tokens: u32) -> Vec<(u64, u32)> {
        let all = pieces
            .iter()
            .flat_map(|piece| (0..piece.tokens).map(|at| (piece.segment.0, piece.start + at)));
        all.take(tokens as usize).collect()
    }

    /// Requests: a shared beginning, perhaps a second shared part, then a text of their own.
    fn requests() -> impl Strategy<Value = Vec<(Vec<Piece>, u32, u32)>> {
        let one = (0u64..3, 0u32..14, 0u64..3, 0u32..8, 0u64..6, 1u32..9, 0u32..6);
        prop::collection::vec(one, 1..60).prop_map(|all| {
            let build = |(group, shared, second, more, own, tail, output)| {
                let pieces = [
                    piece(group, 0, shared),
                    piece(10 + second, shared, more),
                    piece(100 + own, 0, tail + output),
                ];
                let pieces: Vec<Piece> = pieces.into_iter().filter(|piece| piece.tokens > 0).collect();
                let prompt = shared + more + tail;
                (pieces, prompt, prompt + output)
            };
            all.into_iter().map(build).collect()
        })
    }

    fn at(corners: &[(u64, u64)], size: u64) -> u64 {
        let after = corners.partition_point(|&(corner, _)| corner <= size);
        let (from, hits) = corners[after - 1];
        match corners.get(after) {
            None => hits,
            Some(&(to, more)) => hits + (more - hits) * (size - from) / (to - from),
        }
    }

    proptest! {
        #[test]
        fn the_curve_is_every_cache_simulated_for_itself(requests in requests(), block in 1u32..5) {
            let mut stack = StackDistances::new(block);
            for (pieces, prompt, tokens) in &requests {
                stack.visit(pieces, *prompt, *tokens);
            }
            let corners = stack.corners();
            prop_assert!(corners.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
            for size in 0..=stack.distinct_blocks() + 2 {
                let mut naive = Naive::default();
                let hits: u64 = requests
                    .iter()
                    .map(|(pieces, prompt, tokens)| naive.visit(&spelt(pieces, *tokens), block as usize, *prompt as usize, size as usize))
                    .sum();
                prop_assert_eq!(at(&corners, size), hits, "size {}", size);
            }
        }
    }

    #[test]
    fn places_are_numbered_anew_without_a_change() {
        let mut stack = StackDistances::new(16);
        for round in 0..2000u64 {
            let pieces = [piece(round % 7, 0, 160), piece(1000 + round, 0, 32)];
            stack.visit(&pieces, 192, 192);
        }
        // Seven prefixes of 10 blocks, tails of 2: between two uses of one prefix six others come, each with its tail.
        let corners = stack.corners();
        assert_eq!(at(&corners, 72), 0);
        assert_eq!(at(&corners, 82), 1993 * 160);
        assert_eq!(stack.distinct_blocks(), 70 + 4000);
    }
}
