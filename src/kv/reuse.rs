//! Block reuse as TensorRT-LLM's block manager has it: a tree of blocks, and one queue of those that nobody uses.
//!
//! Blocks here are the manager's own, one by one. vLLM's cache can be kept as runs of contents ([`super::PrefixPool`]), because there
//! a cached block's parent is cached. Here a block may hang below another sequence's copy of its parent, which is evicted on its own and
//! takes all beneath it out of the tree (TR-4); and part of a block may be reused (TR-2). So an admission costs O(blocks).
//!
//! Rules are those of `engine/trtllm`. Left out: priorities, retention, a second level in the host's memory, beams. Law: a content has
//! one block in the tree at most, and whoever is in the tree has its parent there.

use std::collections::BTreeMap;

use super::content::{self, Cursor};
use crate::ids::SegmentId;
use crate::workload::Piece;

/// No block, and no parent: out of the tree.
const NONE: u32 = u32::MAX;
/// The parent of first blocks.
const ROOT: u32 = u32::MAX - 1;

/// Blocks below one, by the first token of each and then in order of their coming.
type Children = BTreeMap<(SegmentId, u32), Vec<u32>>;

#[derive(Debug)]
struct Block {
    /// Sequences that hold it.
    refs: u32,
    parent: u32,
    /// What is in it, as far as it is in the tree.
    pieces: Vec<Piece>,
    tokens: u32,
    key: u64,
    children: Children,
    /// Neighbours in the queue while nobody holds it.
    previous: u32,
    next: u32,
}

/// A tree of blocks with contents, and the queue from which blocks are taken.
#[derive(Debug)]
pub(crate) struct ReusePool {
    size: u32,
    /// Part of a block is reused, too.
    partial: bool,
    blocks: Vec<Block>,
    first: Children,
    /// Ends of the queue.
    head: u32,
    tail: u32,
    /// Blocks that are held without anybody's asking which.
    blank: Vec<u32>,
    /// Blocks of each seat.
    held: Vec<Held>,
    /// Holders beyond the first, over all blocks.
    shared: u32,
    cached_tokens: u64,
    evicted_tokens: u64,
}

#[derive(Clone, Debug, Default)]
struct Held {
    blocks: Vec<u32>,
    /// Those of the prompt are in the tree.
    is_stored: bool,
}

/// What a look-up in one node finds.
enum Hit {
    Nothing,
    /// All of a block.
    Whole(u32),
    /// So many tokens at a block's head.
    Part(u32, u32),
}

impl ReusePool {
    /// All blocks blank and free, in order of their numbers.
    pub(crate) fn new(total: u32, size: u32, partial: bool) -> ReusePool {
        let mut pool = ReusePool {
            size,
            partial,
            blocks: Vec::with_capacity(total as usize),
            first: Children::new(),
            head: NONE,
            tail: NONE,
            blank: Vec::new(),
            held: Vec::new(),
            shared: 0,
            cached_tokens: 0,
            evicted_tokens: 0,
        };
        for id in 0..total {
            pool.blocks.push(Block {
                refs: 0,
                parent: NONE,
                pieces: Vec::new(),
                tokens: 0,
                key: 0,
                children: Children::new(),
                previous: NONE,
                next: NONE,
            });
            pool.queue(id);
        }
        pool
    }

    /// Whether part of a block is reused.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// Holders of blocks beyond the first of each.
    pub(crate) fn shared(&self) -> u32 {
        self.shared
    }

    /// Tokens in the tree.
    pub(crate) fn cached_tokens(&self) -> u64 {
        self.cached_tokens
    }

    /// Tokens that were in the tree and whose blocks were taken, since ever.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.evicted_tokens
    }

    /// Names the first whole block of a prompt that is not in the tree (TR-6); `None` if all are.
    pub(crate) fn new_block(&self, pieces: &[Piece], prompt: u32) -> Option<u64> {
        let (mut root, mut at) = (ROOT, Cursor::START);
        for block in 1..=prompt / self.size {
            let Some(found) = self.find(root, pieces, at, self.size) else {
                return content::key(pieces, Cursor::START, block * self.size);
            };
            (root, at) = (found, content::advance(pieces, at, self.size));
        }
        None
    }

    /// Blocks for a prompt, which whoever sits there holds from now on: tokens that are found, and how many blocks were free (TR-1 to
    /// TR-3).
    pub(crate) fn admit(&mut self, seat: usize, pieces: &[Piece], prompt: u32) -> (u32, u32) {
        if self.held.len() <= seat {
            self.held.resize(seat + 1, Held::default());
        }
        debug_assert!(
            self.held[seat].blocks.is_empty(),
            "a seat is free before it is taken"
        );
        let mut blocks = Vec::with_capacity(prompt.div_ceil(self.size) as usize);
        let (mut matched, mut taken) = (0, 0);
        let (mut root, mut at) = (Some(ROOT), Cursor::START);
        for start in (0..prompt).step_by(self.size as usize) {
            // The last token is always computed.
            let tokens = self.size.min(prompt - 1 - start);
            let hit = root.map_or(Hit::Nothing, |root| self.look_up(root, pieces, at, tokens));
            let block = match hit {
                Hit::Whole(block) => {
                    root = Some(block);
                    at = content::advance(pieces, at, tokens);
                    matched += tokens;
                    taken += u32::from(self.blocks[block as usize].refs == 0);
                    block
                }
                Hit::Part(block, common) => {
                    root = None;
                    matched += common;
                    taken += 1;
                    self.own(block)
                }
                Hit::Nothing => {
                    root = None;
                    taken += 1;
                    self.free_block()
                }
            };
            self.hold(block);
            blocks.push(block);
        }
        self.held[seat] = Held {
            blocks,
            is_stored: false,
        };
        (matched, taken)
    }

    /// The whole blocks of a prompt that is computed are in the tree from now on (TR-5).
    pub(crate) fn store_prompt(&mut self, seat: usize, pieces: &[Piece], prompt: u32) {
        if std::mem::replace(&mut self.held[seat].is_stored, true) {
            return;
        }
        let blocks = std::mem::take(&mut self.held[seat].blocks);
        self.store(&blocks, pieces, prompt / self.size * self.size);
        self.held[seat].blocks = blocks;
    }

    /// Whoever sits there leaves: what it has computed is in the tree from now on, the last block in part (TR-5), and its blocks
    /// are free, the last first. How many are.
    pub(crate) fn release(&mut self, seat: usize, pieces: &[Piece], tokens: u32, allocated: u32) -> u32 {
        let mut blocks = std::mem::take(&mut self.held[seat].blocks);
        while blocks.len() < allocated.div_ceil(self.size) as usize {
            blocks.push(self.blank.pop().expect("what is given back was taken"));
        }
        self.store(&blocks, pieces, tokens);
        let mut freed = 0;
        for &id in blocks.iter().rev() {
            let block = &mut self.blocks[id as usize];
            block.refs -= 1;
            if block.refs > 0 {
                self.shared -= 1;
                continue;
            }
            freed += 1;
            self.queue(id);
        }
        freed
    }

    /// Takes blocks for whoever decodes; who gets which does not matter.
    pub(crate) fn take(&mut self, blocks: u32) {
        for _ in 0..blocks {
            let block = self.free_block();
            self.hold(block);
            self.blank.push(block);
        }
    }

    /// The block of exactly these tokens below `root`.
    fn find(&self, root: u32, pieces: &[Piece], at: Cursor, tokens: u32) -> Option<u32> {
        let alike = self.children(root).get(&content::first(pieces, at)?)?;
        let key = content::key(pieces, at, tokens)?;
        let is_it = |id: &&u32| {
            let block = &self.blocks[**id as usize];
            block.key == key && block.tokens == tokens
        };
        alike.iter().find(is_it).copied()
    }

    /// `findMatchingBlock`: the block of these tokens, or the one that begins with most of them, of equals the first that came.
    fn look_up(&self, root: u32, pieces: &[Piece], at: Cursor, tokens: u32) -> Hit {
        if tokens == 0 {
            return Hit::Nothing;
        }
        match self.find(root, pieces, at, tokens) {
            Some(block) if tokens == self.size => return Hit::Whole(block),
            Some(block) => return Hit::Part(block, tokens),
            None if !self.partial => return Hit::Nothing,
            None => {}
        }
        let alike = content::first(pieces, at).and_then(|first| self.children(root).get(&first));
        let mut best = Hit::Nothing;
        let mut most = 0;
        for &id in alike.into_iter().flatten() {
            let block = &self.blocks[id as usize];
            let limit = tokens.min(block.tokens);
            let common = content::common_tokens(&block.pieces, Cursor::START, pieces, at, limit);
            if common > most {
                (best, most) = (Hit::Part(id, common), common);
            }
        }
        best
    }

    /// A block whose head is that of another and that nobody else holds: the other one itself, out of the tree, if it is a leaf that
    /// nobody holds, or else a copy.
    fn own(&mut self, block: u32) -> u32 {
        let found = &self.blocks[block as usize];
        if found.refs > 0 || !found.children.is_empty() {
            return self.free_block();
        }
        self.cached_tokens -= u64::from(found.tokens);
        self.detach(block);
        self.unqueue(block);
        block
    }

    /// The first of the queue, which leaves the tree with all beneath it (`getFreeBlock`, `freeChildren`).
    fn free_block(&mut self) -> u32 {
        let block = self.head;
        assert!(block != NONE, "no more blocks are taken than are free");
        self.unqueue(block);
        if self.blocks[block as usize].parent == NONE {
            return block;
        }
        self.detach(block);
        let mut below = vec![block];
        while let Some(id) = below.pop() {
            let block = &mut self.blocks[id as usize];
            block.parent = NONE;
            self.cached_tokens -= u64::from(block.tokens);
            self.evicted_tokens += u64::from(block.tokens);
            below.extend(std::mem::take(&mut block.children).into_values().flatten());
        }
        block
    }

    fn hold(&mut self, id: u32) {
        if self.blocks[id as usize].refs > 0 {
            self.shared += 1;
        } else if self.is_queued(id) {
            self.unqueue(id);
        }
        self.blocks[id as usize].refs += 1;
    }

    /// `storeBlocks`: of the first tokens of a sequence that holds these blocks, what is not in the tree comes into it.
    fn store(&mut self, held: &[u32], pieces: &[Piece], tokens: u32) {
        let (mut root, mut at, mut matches) = (ROOT, Cursor::START, true);
        for (start, &own) in (0..tokens).step_by(self.size as usize).zip(held) {
            let tokens = self.size.min(tokens - start);
            let found = matches.then(|| self.find(root, pieces, at, tokens)).flatten();
            root = found.unwrap_or_else(|| {
                matches = false;
                self.attach(own, root, pieces, at, tokens);
                own
            });
            at = content::advance(pieces, at, tokens);
        }
    }

    fn attach(&mut self, id: u32, parent: u32, pieces: &[Piece], at: Cursor, tokens: u32) {
        let block = &mut self.blocks[id as usize];
        assert!(
            block.parent == NONE && block.children.is_empty(),
            "a content that is not found is in no block"
        );
        block.parent = parent;
        block.tokens = tokens;
        block.pieces.clear();
        content::copy(pieces, at, tokens, &mut block.pieces);
        block.key = content::key(pieces, at, tokens).expect("a sequence knows what it has computed");
        self.cached_tokens += u64::from(tokens);
        let first = content::first(pieces, at).expect("a block holds a token");
        self.children_mut(parent).entry(first).or_default().push(id);
    }

    /// Out of its parent's children.
    fn detach(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        let parent = std::mem::replace(&mut block.parent, NONE);
        let first = content::first(&block.pieces, Cursor::START).expect("a block holds a token");
        let children = self.children_mut(parent);
        let alike = children.get_mut(&first).expect("a block is below its parent");
        alike.retain(|&other| other != id);
        if alike.is_empty() {
            children.remove(&first);
        }
    }

    fn children(&self, parent: u32) -> &Children {
        match parent {
            ROOT => &self.first,
            id => &self.blocks[id as usize].children,
        }
    }

    fn children_mut(&mut self, parent: u32) -> &mut Children {
        match parent {
            ROOT => &mut self.first,
            id => &mut self.blocks[id as usize].children,
        }
    }

    fn is_queued(&self, id: u32) -> bool {
        self.head == id || self.blocks[id as usize].previous != NONE
    }

    /// To the queue's end.
    fn queue(&mut self, id: u32) {
        let tail = std::mem::replace(&mut self.tail, id);
        (self.blocks[id as usize].previous, self.blocks[id as usize].next) = (tail, NONE);
        match tail {
            NONE => self.head = id,
            tail => self.blocks[tail as usize].next = id,
        }
    }

    fn unqueue(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        let (previous, next) = (block.previous, block.next);
        (block.previous, block.next) = (NONE, NONE);
        match previous {
            NONE => self.head = next,
            previous => self.blocks[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.blocks[next as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests;
