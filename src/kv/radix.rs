//! SGLang's radix cache: which contents are cached, who protects them, and in which order they are evicted.
//!
//! A node is a run of tokens below its parent (`RadixCache` of SGLang, rules SG-34 to SG-40). Its tokens are named, not
//! stored: an edge is a list of [`Piece`]s, so a look-up costs O(runs it passes), not O(tokens). Everything is a
//! multiple of the page size, except that with pages of one token it is single tokens.
//!
//! A prompt that is computed in small chunks makes a node of each chunk, and every chunk looks the whole path up again.
//! Nodes that are each the only child of the one above, are protected by the same sequences and were last touched one
//! right after the other are therefore kept as one [`Chain`]: the ends of its nodes and the time at which the first was
//! touched say all that the nodes would. A walk costs O(chains), and a chain is cut where a look-up ends inside it. That
//! is bookkeeping: what is evicted, and when, is decided node by node as in the engine.
//!
//! Laws: a protected chain's parent is protected; every evictable leaf is queued in `leaves`; evictable plus protected
//! tokens are the tokens of the tree. Chains are joined by insertions only, so that what a look-up returned stays a
//! chain's end until then.

mod eviction;
mod shape;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::Journal;
use super::content::{self, Cursor};
use crate::units::Picos;
use crate::workload::Piece;

/// The deep end of a chain. It stays the same when the chain is cut or a chain above is joined to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

impl NodeId {
    fn new(place: usize) -> NodeId {
        NodeId(u32::try_from(place).expect("a tree has fewer nodes than a pool tokens"))
    }

    #[inline]
    fn place(self) -> usize {
        self.0 as usize
    }
}

/// The empty prefix. It is never evicted and counts no tokens.
pub(crate) const ROOT: NodeId = NodeId(0);

/// Nodes in a row below `parent`.
#[derive(Debug)]
struct Chain {
    parent: NodeId,
    /// Tokens of all its nodes; none only for the root.
    tokens: u32,
    /// Tokens from the beginning of the chain to the end of each of its nodes but the last, ascending.
    inner_ends: Vec<u32>,
    pieces: Vec<Piece>,
    /// Key of the first page, under which the parent finds this node.
    key: u64,
    /// Sequences that protect it, through itself or through a descendant.
    locks: u32,
    /// When its first node was last touched, on the tree's own counter; the n-th after it, n later.
    touched: u64,
    /// When its place among its siblings was made; a split keeps the place.
    born: u64,
    /// Chains below its last node.
    children: u32,
    /// One of them, with its key: the only one of most.
    child: Option<(u64, NodeId)>,
    /// When its last node was touched as the queue of leaves has it; 0 if it is not queued.
    queued: u64,
}

impl Chain {
    /// Its last node is a leaf that nobody protects.
    fn is_free_leaf(&self) -> bool {
        self.locks == 0 && self.children == 0
    }

    /// When its last node was touched.
    fn end_touched(&self) -> u64 {
        self.touched + self.inner_ends.len() as u64
    }
}

/// Where a look-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// What was found; it ends where the look-up did.
    pub(crate) node: NodeId,
    /// Tokens up to there.
    pub(crate) tokens: u32,
}

/// The look-up that found nothing.
pub(crate) const EMPTY: Found = Found {
    node: ROOT,
    tokens: 0,
};

/// The cache.
#[derive(Debug)]
pub(crate) struct RadixTree {
    page: u32,
    chains: Slab<Chain>,
    /// Whoever is not its parent's [`Chain::child`].
    others: FxHashMap<(NodeId, u64), NodeId>,
    /// Chains whose last node is or was a leaf that nobody protects, that of the least recently used node first.
    leaves: BinaryHeap<Reverse<(u64, NodeId)>>,
    clock: u64,
    births: u64,
    evictable: u64,
    protected: u64,
    evicted: u64,
    path: Vec<NodeId>,
    spare: Vec<Vec<Piece>>,
    /// What was stored and removed lately, if somebody hears of it with a delay.
    journal: Option<Box<Journal>>,
}

impl RadixTree {
    /// An empty tree of pages of `page` tokens.
    pub(crate) fn new(page: u32) -> RadixTree {
        let mut chains = Slab::new();
        let root = Chain {
            parent: ROOT,
            tokens: 0,
            inner_ends: Vec::new(),
            pieces: Vec::new(),
            key: 0,
            locks: 0,
            touched: 0,
            born: 0,
            children: 0,
            child: None,
            queued: 0,
        };
        let at = chains.insert(root);
        assert_eq!(NodeId::new(at), ROOT, "the root is the first chain");
        RadixTree {
            page,
            chains,
            others: FxHashMap::default(),
            leaves: BinaryHeap::new(),
            clock: 0,
            births: 0,
            evictable: 0,
            protected: 0,
            evicted: 0,
            path: Vec::new(),
            spare: Vec::new(),
            journal: None,
        }
    }

    /// Tokens that nobody protects.
    pub(crate) fn evictable(&self) -> u64 {
        self.evictable
    }

    /// Tokens that somebody protects.
    pub(crate) fn protected(&self) -> u64 {
        self.protected
    }

    /// Tokens evicted since the beginning.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The chain above; the root is above itself.
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        self.chains[node.place()].parent
    }

    /// Siblings in the order of this number are in the order in which their places were made.
    pub(crate) fn born(&self, node: NodeId) -> u64 {
        self.chains[node.place()].born
    }

    /// The whole pages of a number of tokens.
    pub(crate) fn floor(&self, tokens: u32) -> u32 {
        tokens - tokens % self.page
    }

    /// The longest cached prefix of the first `limit` tokens. What is met becomes the most recently used, the deepest
    /// last; a node in which the look-up ends is split, and both halves are touched (SG-35).
    pub(crate) fn find(&mut self, pieces: &[Piece], limit: u32) -> Found {
        self.find_below(EMPTY, pieces, limit)
    }

    /// The same for somebody who protects the prefix `known` of it.
    pub(crate) fn find_below(&mut self, known: Found, pieces: &[Piece], limit: u32) -> Found {
        self.descend(known, pieces, self.floor(limit)).0
    }

    /// How long [`RadixTree::find`] would find, for somebody who only asks: nothing is touched or split.
    #[cfg(test)]
    pub(crate) fn peek(&self, pieces: &[Piece], limit: u32) -> u32 {
        let want = self.floor(limit);
        let (mut node, mut tokens, mut at) = (ROOT, 0, Cursor::START);
        while let Some((child, run)) = self.step(node, pieces, at, want - tokens) {
            tokens += run;
            if run < self.chains[child.place()].tokens {
                break;
            }
            at = content::advance(pieces, at, run);
            node = child;
        }
        tokens
    }

    /// From now on changes are written down, for somebody who hears of them `latency` later (RT-12).
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        self.journal = Some(Box::new(Journal::new(latency, self.page)));
    }

    /// The changes, if somebody listens.
    #[inline]
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Contents that change from now on do so at `now`.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: Picos) {
        if let Some(journal) = &mut self.journal {
            journal.set_clock(now);
        }
    }

    /// Caches the whole pages of the first `tokens` tokens. Returns how many were cached before; the rest belongs to
    /// the tree now, evictable.
    pub(crate) fn insert(&mut self, pieces: &[Piece], tokens: u32) -> u32 {
        self.insert_below(EMPTY, pieces, tokens)
    }

    /// The same for somebody who knows where an earlier look-up for these pieces ended, and has protected that since: what
    /// lies above is touched, but not looked up again.
    pub(crate) fn insert_below(&mut self, known: Found, pieces: &[Piece], tokens: u32) -> u32 {
        let want = self.floor(tokens);
        let (found, at) = self.descend(known, pieces, want);
        self.join_path();
        if found.tokens < want {
            if let Some(journal) = &mut self.journal {
                let mut text = journal.blank();
                content::copy(pieces, Cursor::START, want, &mut text);
                journal.stored(text, found.tokens, want);
            }
            self.add_leaf(found, pieces, at, want - found.tokens);
        }
        found.tokens
    }

    /// Protects a node and all above it.
    pub(crate) fn lock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            if self.chains[at.place()].locks == 0 {
                let tokens = u64::from(self.chains[at.place()].tokens);
                self.evictable -= tokens;
                self.protected += tokens;
            }
            self.chains[at.place()].locks += 1;
            at = self.chains[at.place()].parent;
        }
    }

    /// Takes one protection back.
    pub(crate) fn unlock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            self.chains[at.place()].locks -= 1;
            if self.chains[at.place()].locks == 0 {
                let tokens = u64::from(self.chains[at.place()].tokens);
                self.protected -= tokens;
                self.evictable += tokens;
                self.list(at);
            }
            at = self.chains[at.place()].parent;
        }
    }

    /// Walks down along equal contents, splitting the last node if need be, and touches what it met, what is known above
    /// included. Leaves the chains that were met in `path`. Where more is known than is wanted it walks from the root.
    fn descend(&mut self, known: Found, pieces: &[Piece], want: u32) -> (Found, Cursor) {
        let Found { mut node, mut tokens } = if known.tokens <= want { known } else { EMPTY };
        let mut at = content::advance(pieces, Cursor::START, tokens);
        self.path.clear();
        let mut above = node;
        while above != ROOT {
            self.path.push(above);
            above = self.parent(above);
        }
        self.path.reverse();
        while let Some((child, run)) = self.step(node, pieces, at, want - tokens) {
            tokens += run;
            at = content::advance(pieces, at, run);
            if run < self.chains[child.place()].tokens {
                node = self.part(child, run);
                self.path.push(node);
                break;
            }
            node = child;
            self.path.push(node);
        }
        for met in 0..self.path.len() {
            self.touch(self.path[met]);
        }
        (Found { node, tokens }, at)
    }

    /// The child of `node` that shares at least a page with what follows, and how much of it.
    fn step(&self, node: NodeId, pieces: &[Piece], at: Cursor, left: u32) -> Option<(NodeId, u32)> {
        if left == 0 {
            return None;
        }
        let key = content::key(pieces, at, self.page).expect("a look-up asks for no more than is there");
        let child = self.child(node, key)?;
        let under = &self.chains[child.place()];
        let limit = under.tokens.min(left);
        let common = content::common_tokens(&under.pieces, Cursor::START, pieces, at, limit);
        let run = self.floor(common);
        (run > 0).then_some((child, run))
    }

    /// Touches the nodes of a chain from the first to the last.
    fn touch(&mut self, node: NodeId) {
        let chain = &mut self.chains[node.place()];
        chain.touched = self.clock + 1;
        self.clock += 1 + chain.inner_ends.len() as u64;
    }

    fn add_leaf(&mut self, below: Found, pieces: &[Piece], at: Cursor, tokens: u32) {
        let key = content::key(pieces, at, self.page).expect("an insertion is at least a page longer");
        let mut run = self.spare.pop().unwrap_or_default();
        content::copy(pieces, at, tokens, &mut run);
        self.clock += 1;
        self.births += 1;
        let leaf = NodeId::new(self.chains.insert(Chain {
            parent: below.node,
            tokens,
            inner_ends: Vec::new(),
            pieces: run,
            key,
            locks: 0,
            touched: self.clock,
            born: self.births,
            children: 0,
            child: None,
            queued: 0,
        }));
        self.add_child(below.node, key, leaf);
        self.evictable += u64::from(tokens);
        self.list(leaf);
    }

    fn recycle(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare.push(pieces);
    }
}

#[cfg(test)]
mod tests;
