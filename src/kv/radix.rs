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
//! Laws: a protected chain's parent is protected; an evictable leaf is in `leaves` and nothing else is; evictable plus
//! protected tokens are the tokens of the tree. Chains are joined by insertions only, so that what a look-up returned
//! stays a chain's end until then.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::Journal;
use super::content::{self, Cursor};
use crate::units::Picos;
use crate::workload::Piece;

/// The deep end of a chain. It stays the same when the chain is cut or a chain above is joined to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(usize);

/// The empty prefix. It is never evicted and counts no tokens.
pub(crate) const ROOT: NodeId = NodeId(0);

/// Nodes in a row below `parent`.
#[derive(Debug)]
struct Chain {
    parent: NodeId,
    /// Tokens from the beginning of the chain to the end of each of its nodes, ascending; none only for the root.
    ends: Vec<u32>,
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
}

impl Chain {
    fn tokens(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// When its last node was touched.
    fn end_touched(&self) -> u64 {
        self.touched + (self.ends.len() as u64).saturating_sub(1)
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

/// The cache.
#[derive(Debug)]
pub(crate) struct RadixTree {
    page: u32,
    chains: Slab<Chain>,
    children: FxHashMap<(NodeId, u64), NodeId>,
    /// Chains whose last node is a leaf that nobody protects, that of the least recently used node first.
    leaves: BTreeSet<(u64, NodeId)>,
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
            ends: Vec::new(),
            pieces: Vec::new(),
            key: 0,
            locks: 0,
            touched: 0,
            born: 0,
            children: 0,
        };
        let at = chains.insert(root);
        assert_eq!(NodeId(at), ROOT, "the root is the first chain");
        RadixTree {
            page,
            chains,
            children: FxHashMap::default(),
            leaves: BTreeSet::new(),
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
        self.chains[node.0].parent
    }

    /// Siblings in the order of this number are in the order in which their places were made.
    pub(crate) fn born(&self, node: NodeId) -> u64 {
        self.chains[node.0].born
    }

    /// The whole pages of a number of tokens.
    pub(crate) fn floor(&self, tokens: u32) -> u32 {
        tokens - tokens % self.page
    }

    /// The longest cached prefix of the first `limit` tokens. What is met becomes the most recently used, the deepest
    /// last; a node in which the look-up ends is split, and both halves are touched (SG-35).
    pub(crate) fn find(&mut self, pieces: &[Piece], limit: u32) -> Found {
        let (found, _) = self.descend(pieces, self.floor(limit));
        found
    }

    /// How long [`RadixTree::find`] would find, for somebody who only asks: nothing is touched or split.
    pub(crate) fn peek(&self, pieces: &[Piece], limit: u32) -> u32 {
        let want = self.floor(limit);
        let (mut node, mut tokens, mut at) = (ROOT, 0, Cursor::START);
        while let Some((child, run)) = self.step(node, pieces, at, want - tokens) {
            tokens += run;
            if run < self.chains[child.0].tokens() {
                break;
            }
            at = content::advance(pieces, at, run);
            node = child;
        }
        tokens
    }

    /// From now on look-ups may also ask what was cached `latency` ago (RT-12).
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        self.journal = Some(Box::new(Journal::new(latency)));
    }

    /// How late changes of the cache are heard of, if anybody listens.
    pub(crate) fn event_latency(&self) -> Option<Picos> {
        self.journal.as_ref().map(|journal| journal.latency())
    }

    /// Contents that change from now on do so at `now`.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: Picos) {
        if let Some(journal) = &mut self.journal {
            journal.set_clock(now);
        }
    }

    /// What [`RadixTree::peek`] finds, as far as somebody has heard of it who looks at `now`.
    pub(crate) fn heard_tokens(&self, pieces: &[Piece], limit: u32, now: Picos) -> u32 {
        let tokens = self.peek(pieces, limit);
        match &self.journal {
            Some(journal) => journal.heard(now, pieces, tokens, self.floor(limit), self.page),
            None => tokens,
        }
    }

    /// Caches the whole pages of the first `tokens` tokens. Returns how many were cached before; the rest belongs to
    /// the tree now, evictable.
    pub(crate) fn insert(&mut self, pieces: &[Piece], tokens: u32) -> u32 {
        let want = self.floor(tokens);
        let (found, at) = self.descend(pieces, want);
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
            if self.chains[at.0].locks == 0 {
                self.unlist(at);
                let tokens = u64::from(self.chains[at.0].tokens());
                self.evictable -= tokens;
                self.protected += tokens;
            }
            self.chains[at.0].locks += 1;
            at = self.chains[at.0].parent;
        }
    }

    /// Takes one protection back.
    pub(crate) fn unlock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            self.chains[at.0].locks -= 1;
            if self.chains[at.0].locks == 0 {
                let tokens = u64::from(self.chains[at.0].tokens());
                self.protected -= tokens;
                self.evictable += tokens;
                self.list(at);
            }
            at = self.chains[at.0].parent;
        }
    }

    /// Evicts whole leaves, least recently used first, until `tokens` are free or nothing is evictable (SG-40).
    /// Returns how many tokens became free.
    pub(crate) fn evict(&mut self, tokens: u64) -> u64 {
        let mut freed = 0;
        while freed < tokens {
            let Some((_, leaf)) = self.leaves.pop_first() else {
                break;
            };
            freed += u64::from(self.drop_last_node(leaf));
        }
        self.evictable -= freed;
        self.evicted += freed;
        freed
    }

    /// Forgets the last node of an unlisted chain, and the chain with its only one. Returns the node's tokens.
    fn drop_last_node(&mut self, leaf: NodeId) -> u32 {
        if self.journal.is_some() {
            self.note_removal(leaf);
        }
        let chain = &mut self.chains[leaf.0];
        let end = chain.ends.pop().expect("a chain has a node");
        if let Some(&rest) = chain.ends.last() {
            content::drop_last(&mut chain.pieces, end - rest);
            self.list(leaf);
            return end - rest;
        }
        let chain = self.chains.remove(leaf.0);
        self.children.remove(&(chain.parent, chain.key));
        self.chains[chain.parent.0].children -= 1;
        self.list(chain.parent);
        self.recycle(chain.pieces);
        end
    }

    /// The last node of a chain goes.
    fn note_removal(&mut self, leaf: NodeId) {
        let mut path = Vec::new();
        let mut at = leaf;
        while at != ROOT {
            path.push(at);
            at = self.chains[at.0].parent;
        }
        let journal = self.journal.as_mut().expect("asked only where there is one");
        let (mut text, mut to) = (journal.blank(), 0);
        for chain in path.iter().rev().map(|node| &self.chains[node.0]) {
            content::copy(&chain.pieces, Cursor::START, chain.tokens(), &mut text);
            to += chain.tokens();
        }
        let ends = &self.chains[leaf.0].ends;
        let node = ends[ends.len() - 1] - ends.len().checked_sub(2).map_or(0, |before| ends[before]);
        journal.removed(text, to - node, to);
    }

    /// Walks down along equal contents, splitting the last node if need be, and touches what it met. Leaves the chains
    /// that were met in `path`.
    fn descend(&mut self, pieces: &[Piece], want: u32) -> (Found, Cursor) {
        let (mut node, mut tokens, mut at) = (ROOT, 0, Cursor::START);
        self.path.clear();
        while let Some((child, run)) = self.step(node, pieces, at, want - tokens) {
            tokens += run;
            at = content::advance(pieces, at, run);
            if run < self.chains[child.0].tokens() {
                node = self.part(child, run);
                self.path.push(node);
                break;
            }
            node = child;
            self.path.push(node);
        }
        let path = std::mem::take(&mut self.path);
        path.iter().for_each(|&met| self.touch(met));
        self.path = path;
        (Found { node, tokens }, at)
    }

    /// The child of `node` that shares at least a page with what follows, and how much of it.
    fn step(&self, node: NodeId, pieces: &[Piece], at: Cursor, left: u32) -> Option<(NodeId, u32)> {
        if left == 0 {
            return None;
        }
        let key = content::key(pieces, at, self.page).expect("a look-up asks for no more than is there");
        let child = *self.children.get(&(node, key))?;
        let under = &self.chains[child.0];
        let limit = under.tokens().min(left);
        let common = content::common_tokens(&under.pieces, Cursor::START, pieces, at, limit);
        let run = self.floor(common);
        (run > 0).then_some((child, run))
    }

    /// Touches the nodes of a chain from the first to the last.
    fn touch(&mut self, node: NodeId) {
        let chain = &mut self.chains[node.0];
        let was = chain.end_touched();
        chain.touched = self.clock + 1;
        self.clock += chain.ends.len() as u64;
        let is = chain.end_touched();
        if self.leaves.remove(&(was, node)) {
            self.leaves.insert((is, node));
        }
    }

    /// Ends a look-up inside a chain, after `tokens` tokens of it: the chain is cut there, and returned is what lies
    /// above. A node that is split is told from those behind it, because its deep half was touched.
    fn part(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let ends = &self.chains[node.0].ends;
        let at = ends.partition_point(|&end| end <= tokens);
        let is_split = at == 0 || ends[at - 1] != tokens;
        if !is_split {
            return self.cut(node, tokens);
        }
        let half = ends[at];
        let deep_half = if at + 1 < ends.len() {
            self.cut(node, half)
        } else {
            node
        };
        let upper = self.cut(deep_half, tokens);
        self.touch(deep_half);
        upper
    }

    /// Cuts a chain after `tokens` tokens, in two halves of a node if no node ends there; the chain keeps the deep part.
    /// Returns the upper one.
    fn cut(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let page = self.page;
        let mut head = self.spare.pop().unwrap_or_default();
        let deep = &mut self.chains[node.0];
        content::copy(&deep.pieces, Cursor::START, tokens, &mut head);
        let at = content::advance(&deep.pieces, Cursor::START, tokens);
        content::remove_before(&mut deep.pieces, at);
        let whole = deep.ends.partition_point(|&end| end <= tokens);
        let below: Vec<u32> = deep.ends[whole..].iter().map(|end| end - tokens).collect();
        let mut ends = std::mem::replace(&mut deep.ends, below);
        ends.truncate(whole);
        if ends.last() != Some(&tokens) {
            ends.push(tokens);
        }
        let (parent, key, born) = (deep.parent, deep.key, deep.born);
        let upper = Chain {
            parent,
            ends,
            pieces: head,
            key,
            locks: deep.locks,
            touched: deep.touched,
            born,
            children: 1,
        };
        deep.touched += whole as u64;
        deep.key = content::key(&deep.pieces, Cursor::START, page).expect("a chain has at least a page");
        let deep_key = deep.key;
        let upper = NodeId(self.chains.insert(upper));
        self.chains[node.0].parent = upper;
        self.children.insert((parent, key), upper);
        self.children.insert((upper, deep_key), node);
        upper
    }

    /// Makes one of chains that were just touched one after the other and need not be told apart.
    fn join_path(&mut self) {
        for at in 1..self.path.len() {
            let (upper, deep) = (self.path[at - 1], self.path[at]);
            let [above, below] = [upper, deep].map(|node| &self.chains[node.0]);
            let is_one =
                above.children == 1 && above.locks == below.locks && above.end_touched() + 1 == below.touched;
            if is_one {
                self.join(upper, deep);
            }
        }
    }

    /// Puts a chain in front of its only child, which stays.
    fn join(&mut self, upper: NodeId, deep: NodeId) {
        let above = self.chains.remove(upper.0);
        let offset = above.tokens();
        let below = &mut self.chains[deep.0];
        self.children.remove(&(upper, below.key));
        self.children.insert((above.parent, above.key), deep);
        let mut ends = above.ends;
        ends.extend(below.ends.iter().map(|end| offset + end));
        let (mut pieces, tokens) = (above.pieces, below.tokens());
        content::copy(&below.pieces, Cursor::START, tokens, &mut pieces);
        below.ends = ends;
        let short = std::mem::replace(&mut below.pieces, pieces);
        (below.parent, below.key) = (above.parent, above.key);
        (below.touched, below.born) = (above.touched, above.born);
        self.recycle(short);
    }

    fn add_leaf(&mut self, below: Found, pieces: &[Piece], at: Cursor, tokens: u32) {
        let key = content::key(pieces, at, self.page).expect("an insertion is at least a page longer");
        let mut run = self.spare.pop().unwrap_or_default();
        content::copy(pieces, at, tokens, &mut run);
        self.clock += 1;
        self.births += 1;
        self.unlist(below.node);
        self.chains[below.node.0].children += 1;
        let leaf = NodeId(self.chains.insert(Chain {
            parent: below.node,
            ends: vec![tokens],
            pieces: run,
            key,
            locks: 0,
            touched: self.clock,
            born: self.births,
            children: 0,
        }));
        let taken = self.children.insert((below.node, key), leaf);
        assert!(taken.is_none(), "different contents have different keys");
        self.evictable += u64::from(tokens);
        self.list(leaf);
    }

    /// A chain's last node becomes evictable if it is an unprotected leaf.
    fn list(&mut self, node: NodeId) {
        let state = &self.chains[node.0];
        if node != ROOT && state.locks == 0 && state.children == 0 {
            self.leaves.insert((state.end_touched(), node));
        }
    }

    fn unlist(&mut self, node: NodeId) {
        let state = &self.chains[node.0];
        if state.locks == 0 && state.children == 0 {
            self.leaves.remove(&(state.end_touched(), node));
        }
    }

    fn recycle(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare.push(pieces);
    }
}
