//! SGLang's radix cache: which contents are cached, who protects them, and in which order they are evicted.
//!
//! A node is a run of tokens below its parent (`RadixCache` of SGLang, rules SG-34 to SG-40). Its tokens are named, not
//! stored: an edge is a list of [`Piece`]s, so a look-up costs O(runs it passes), not O(tokens). Everything is a
//! multiple of the page size, except that with pages of one token it is single tokens.
//!
//! Laws: a protected node's parent is protected; an evictable leaf is in `leaves` and nothing else is; evictable plus
//! protected tokens are the tokens of the tree.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::content::{self, Cursor};
use crate::workload::Piece;

/// A node of the tree. It stays the same node when it is split: it keeps the deep end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(usize);

/// The empty prefix. It is never evicted and counts no tokens.
pub(crate) const ROOT: NodeId = NodeId(0);

/// A run of tokens below `parent`.
#[derive(Debug)]
struct Node {
    parent: NodeId,
    tokens: u32,
    pieces: Vec<Piece>,
    /// Key of the first page, under which the parent finds this node.
    key: u64,
    /// Sequences that protect it, through itself or through a descendant.
    locks: u32,
    /// When it was last touched, on the tree's own counter.
    touched: u64,
    /// When its place among its siblings was made; a split keeps the place.
    born: u64,
    children: u32,
}

/// Where a look-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The deepest node; it ends where the look-up did.
    pub(crate) node: NodeId,
    /// Tokens up to there.
    pub(crate) tokens: u32,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct RadixTree {
    page: u32,
    nodes: Slab<Node>,
    children: FxHashMap<(NodeId, u64), NodeId>,
    /// Leaves that nobody protects, the least recently used first.
    leaves: BTreeSet<(u64, NodeId)>,
    clock: u64,
    births: u64,
    evictable: u64,
    protected: u64,
    path: Vec<NodeId>,
    spare: Vec<Vec<Piece>>,
}

impl RadixTree {
    /// An empty tree of pages of `page` tokens.
    pub(crate) fn new(page: u32) -> RadixTree {
        let mut nodes = Slab::new();
        let root = Node {
            parent: ROOT,
            tokens: 0,
            pieces: Vec::new(),
            key: 0,
            locks: 0,
            touched: 0,
            born: 0,
            children: 0,
        };
        let at = nodes.insert(root);
        assert_eq!(NodeId(at), ROOT, "the root is the first node");
        RadixTree {
            page,
            nodes,
            children: FxHashMap::default(),
            leaves: BTreeSet::new(),
            clock: 0,
            births: 0,
            evictable: 0,
            protected: 0,
            path: Vec::new(),
            spare: Vec::new(),
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

    /// The node above; the root is above itself.
    pub(crate) fn parent(&self, node: NodeId) -> NodeId {
        self.nodes[node.0].parent
    }

    /// Siblings in the order of this number are in the order in which their places were made.
    pub(crate) fn born(&self, node: NodeId) -> u64 {
        self.nodes[node.0].born
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
            if run < self.nodes[child.0].tokens {
                break;
            }
            at = content::advance(pieces, at, run);
            node = child;
        }
        tokens
    }

    /// Caches the whole pages of the first `tokens` tokens. Returns how many were cached before; the rest belongs to
    /// the tree now, evictable.
    pub(crate) fn insert(&mut self, pieces: &[Piece], tokens: u32) -> u32 {
        let want = self.floor(tokens);
        let (found, at) = self.descend(pieces, want);
        if found.tokens < want {
            self.add_leaf(found, pieces, at, want - found.tokens);
        }
        found.tokens
    }

    /// Protects a node and all above it.
    pub(crate) fn lock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            if self.nodes[at.0].locks == 0 {
                self.unlist(at);
                let tokens = u64::from(self.nodes[at.0].tokens);
                self.evictable -= tokens;
                self.protected += tokens;
            }
            self.nodes[at.0].locks += 1;
            at = self.nodes[at.0].parent;
        }
    }

    /// Takes one protection back.
    pub(crate) fn unlock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            self.nodes[at.0].locks -= 1;
            if self.nodes[at.0].locks == 0 {
                let tokens = u64::from(self.nodes[at.0].tokens);
                self.protected -= tokens;
                self.evictable += tokens;
                self.list(at);
            }
            at = self.nodes[at.0].parent;
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
            let node = self.nodes.remove(leaf.0);
            self.children.remove(&(node.parent, node.key));
            self.nodes[node.parent.0].children -= 1;
            self.list(node.parent);
            freed += u64::from(node.tokens);
            self.recycle(node.pieces);
        }
        self.evictable -= freed;
        freed
    }

    /// Walks down along equal contents, splitting the last node if need be, and touches what it met.
    fn descend(&mut self, pieces: &[Piece], want: u32) -> (Found, Cursor) {
        let (mut node, mut tokens, mut at) = (ROOT, 0, Cursor::START);
        self.path.clear();
        while let Some((child, run)) = self.step(node, pieces, at, want - tokens) {
            tokens += run;
            at = content::advance(pieces, at, run);
            if run < self.nodes[child.0].tokens {
                self.touch(child);
                node = self.split(child, run);
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
        let under = &self.nodes[child.0];
        let limit = under.tokens.min(left);
        let common = content::common_tokens(&under.pieces, Cursor::START, pieces, at, limit);
        let run = self.floor(common);
        (run > 0).then_some((child, run))
    }

    fn touch(&mut self, node: NodeId) {
        self.clock += 1;
        let was = std::mem::replace(&mut self.nodes[node.0].touched, self.clock);
        if self.leaves.remove(&(was, node)) {
            self.leaves.insert((self.clock, node));
        }
    }

    /// Gives the first `tokens` tokens of a node a node of their own, and returns that.
    fn split(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let page = self.page;
        let mut head = self.spare.pop().unwrap_or_default();
        let deep = &mut self.nodes[node.0];
        content::copy(&deep.pieces, Cursor::START, tokens, &mut head);
        let at = content::advance(&deep.pieces, Cursor::START, tokens);
        content::remove_before(&mut deep.pieces, at);
        deep.tokens -= tokens;
        let (parent, key, born) = (deep.parent, deep.key, deep.born);
        let upper = Node {
            parent,
            tokens,
            pieces: head,
            key,
            locks: deep.locks,
            touched: deep.touched,
            born,
            children: 1,
        };
        deep.key = content::key(&deep.pieces, Cursor::START, page).expect("a node has at least a page");
        let deep_key = deep.key;
        let upper = NodeId(self.nodes.insert(upper));
        self.nodes[node.0].parent = upper;
        self.children.insert((parent, key), upper);
        self.children.insert((upper, deep_key), node);
        upper
    }

    fn add_leaf(&mut self, below: Found, pieces: &[Piece], at: Cursor, tokens: u32) {
        let key = content::key(pieces, at, self.page).expect("an insertion is at least a page longer");
        let mut run = self.spare.pop().unwrap_or_default();
        content::copy(pieces, at, tokens, &mut run);
        self.clock += 1;
        self.births += 1;
        self.unlist(below.node);
        self.nodes[below.node.0].children += 1;
        let leaf = NodeId(self.nodes.insert(Node {
            parent: below.node,
            tokens,
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

    /// A node becomes evictable if it is an unprotected leaf.
    fn list(&mut self, node: NodeId) {
        let state = &self.nodes[node.0];
        if node != ROOT && state.locks == 0 && state.children == 0 {
            self.leaves.insert((state.touched, node));
        }
    }

    fn unlist(&mut self, node: NodeId) {
        let state = &self.nodes[node.0];
        if state.locks == 0 && state.children == 0 {
            self.leaves.remove(&(state.touched, node));
        }
    }

    fn recycle(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare.push(pieces);
    }
}
