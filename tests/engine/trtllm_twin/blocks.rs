//! The block manager, block by block and token by token (`WindowBlockManager` of `kvCacheManager.cpp`, `LRUEvictionPolicy`).
//!
//! Where the manager goes through an unordered map to find the block with most tokens in common, the one that came first wins here.

use std::collections::{BTreeMap, VecDeque};

/// A token: its text and its place there.
pub(crate) type Token = (u64, u32);

#[derive(Clone, Debug, Default)]
struct Block {
    refs: usize,
    /// `mPrevBlock`: where it hangs, the root being none of the blocks.
    parent: Option<usize>,
    key: Vec<Token>,
    /// `mNextBlocks`, in order of their coming.
    next: Vec<usize>,
}

/// All blocks, the root last.
#[derive(Debug)]
pub(crate) struct Blocks {
    size: usize,
    partial: bool,
    blocks: Vec<Block>,
    free: VecDeque<usize>,
    /// `mAllocatedBlocksPerSeq`.
    held: BTreeMap<usize, Vec<usize>>,
}

impl Blocks {
    pub(crate) fn new(total: usize, size: usize, partial: bool) -> Blocks {
        Blocks {
            size,
            partial,
            blocks: vec![Block::default(); total + 1],
            free: (0..total).collect(),
            held: BTreeMap::new(),
        }
    }

    fn root(&self) -> usize {
        self.blocks.len() - 1
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn held(&self, who: usize) -> usize {
        self.held.get(&who).map_or(0, Vec::len)
    }

    /// `chopVectorIntoBlocks`.
    fn chop(&self, tokens: &[Token], partial: bool) -> Vec<Vec<Token>> {
        let chunks = tokens.chunks(self.size);
        chunks
            .filter(|chunk| partial || chunk.len() == self.size)
            .map(<[Token]>::to_vec)
            .collect()
    }

    /// `findNewContextBlock`: the tokens up to the first whole block that is not in the tree.
    pub(crate) fn new_context_block(&self, tokens: &[Token]) -> Option<Vec<Token>> {
        let (mut root, mut until) = (self.root(), 0);
        for key in self.chop(tokens, false) {
            until += key.len();
            match self.child(root, &key) {
                Some(found) => root = found,
                None => return Some(tokens[..until].to_vec()),
            }
        }
        None
    }

    fn child(&self, root: usize, key: &[Token]) -> Option<usize> {
        let next = self.blocks[root].next.iter().copied();
        next.into_iter().find(|&block| self.blocks[block].key == key)
    }

    /// `findMatchingBlock`: whether it is matched in part, tokens, block.
    fn matching(&self, root: usize, key: &[Token]) -> Option<(bool, usize, usize)> {
        if key.is_empty() {
            return None;
        }
        if let Some(found) = self.child(root, key) {
            return Some((key.len() < self.size, key.len(), found));
        }
        let mut best: Option<(bool, usize, usize)> = None;
        if self.partial {
            for &block in &self.blocks[root].next {
                let pairs = self.blocks[block].key.iter().zip(key);
                let common = pairs.take_while(|(one, other)| one == other).count();
                if common > best.map_or(0, |(_, most, _)| most) {
                    best = Some((true, common, block));
                }
            }
        }
        best
    }

    /// `loadOrAllocateBlocks`: tokens that are there already.
    pub(crate) fn add_sequence(&mut self, who: usize, tokens: &[Token]) -> usize {
        let keys = self.chop(&tokens[..tokens.len() - 1], true);
        let (mut matched, mut root) = (0, Some(self.root()));
        for at in 0..tokens.len().div_ceil(self.size) {
            let key = keys.get(at).map_or(&[][..], |key| key);
            let found = root.and_then(|root| self.matching(root, key));
            let block = match found {
                Some((false, common, block)) => {
                    matched += common;
                    self.free.retain(|&other| other != block);
                    root = Some(block);
                    block
                }
                Some((true, common, block)) => {
                    matched += common;
                    root = None;
                    if self.blocks[block].refs > 0 || !self.blocks[block].next.is_empty() {
                        self.take_free()
                    } else {
                        self.free_leaf(block);
                        self.free.retain(|&other| other != block);
                        block
                    }
                }
                None => {
                    root = None;
                    self.take_free()
                }
            };
            self.blocks[block].refs += 1;
            self.held.entry(who).or_default().push(block);
        }
        matched
    }

    /// `addToken`, for a sequence of so many tokens with the new one.
    pub(crate) fn add_token(&mut self, who: usize, tokens: usize) {
        while self.held(who) < tokens.div_ceil(self.size) {
            let block = self.take_free();
            self.blocks[block].refs += 1;
            self.held.entry(who).or_default().push(block);
        }
    }

    /// `getFreeBlock`.
    fn take_free(&mut self) -> usize {
        let block = self.free.pop_front().expect("a block is free");
        self.free_children(block);
        block
    }

    fn free_children(&mut self, block: usize) {
        for child in self.blocks[block].next.clone() {
            self.free_children(child);
        }
        self.free_leaf(block);
    }

    fn free_leaf(&mut self, block: usize) {
        assert!(self.blocks[block].next.is_empty(), "a leaf has nobody beneath it");
        if let Some(parent) = self.blocks[block].parent.take() {
            self.blocks[parent].next.retain(|&other| other != block);
        }
    }

    /// `storeContextBlocks`.
    pub(crate) fn store_context(&mut self, who: usize, tokens: &[Token]) {
        if self.held.contains_key(&who) {
            self.store(who, &self.chop(tokens, false));
        }
    }

    /// `storeBlocks`.
    fn store(&mut self, who: usize, keys: &[Vec<Token>]) {
        let (mut root, mut matches) = (self.root(), true);
        for (at, key) in keys.iter().enumerate() {
            let found = if matches { self.child(root, key) } else { None };
            root = found.unwrap_or_else(|| {
                matches = false;
                let block = self.held[&who][at];
                assert!(self.blocks[block].parent.is_none());
                self.blocks[block].key = key.clone();
                self.blocks[block].parent = Some(root);
                self.blocks[root].next.push(block);
                block
            });
        }
    }

    /// `releaseBlocks`, after storing these tokens.
    pub(crate) fn release(&mut self, who: usize, tokens: &[Token]) {
        if !self.held.contains_key(&who) {
            return;
        }
        self.store(who, &self.chop(tokens, true));
        for block in self.held.remove(&who).into_iter().flatten().rev() {
            self.blocks[block].refs -= 1;
            if self.blocks[block].refs == 0 {
                self.free.push_back(block);
            }
        }
    }
}
