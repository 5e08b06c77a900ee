//! A tree of the texts that were routed, each part with the replicas that got it.
//!
//! The real one is over characters; this one is over runs of tokens of named texts, which branch at the same places
//! (RT-1). A node may have several owners; a match goes to the one that used it last (RT-6).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use slab::Slab;

use crate::ids::SegmentId;
use crate::workload::{Piece, Request};

/// One match in so many refreshes what it touched (RT-5).
const REFRESH_EVERY: u64 = 8;

/// A run of tokens behind its parent's.
#[derive(Debug)]
struct Node {
    run: Piece,
    parent: usize,
    children: BTreeMap<(SegmentId, u32), usize>,
    /// (replica, when it last used the node), in order of coming.
    owners: Vec<(usize, u64)>,
}

/// The tree.
#[derive(Debug)]
pub(super) struct TextTree {
    nodes: Slab<Node>,
    root: usize,
    /// Tokens owned by each replica.
    tokens: Vec<u64>,
    /// Counts uses.
    clock: u64,
    matches: u64,
}

impl TextTree {
    pub(super) fn new(replicas: usize) -> TextTree {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node {
            run: Piece {
                segment: SegmentId(0),
                start: 0,
                tokens: 0,
            },
            parent: 0,
            children: BTreeMap::new(),
            owners: Vec::new(),
        });
        TextTree {
            nodes,
            root,
            tokens: vec![0; replicas],
            clock: 0,
            matches: 0,
        }
    }

    /// The tokens of the request's prompt that are in the tree, and who used the last of them last.
    pub(super) fn longest_match(&mut self, request: &Request) -> (u32, Option<usize>) {
        let (mut at, mut matched) = (self.root, 0);
        'pieces: for mut piece in request.prompt_pieces() {
            while piece.tokens > 0 {
                let Some(&child) = self.nodes[at].children.get(&(piece.segment, piece.start)) else {
                    break 'pieces;
                };
                let common = self.nodes[child].run.tokens.min(piece.tokens);
                matched += common;
                at = child;
                if common < self.nodes[child].run.tokens {
                    break 'pieces;
                }
                piece = behind(piece, common);
            }
        }
        let owner = self.nodes[at]
            .owners
            .iter()
            .max_by_key(|&&(_, used)| used)
            .map(|&(owner, _)| owner);
        self.matches += 1;
        if let Some(owner) = owner
            && self.matches.is_multiple_of(REFRESH_EVERY)
        {
            self.clock += 1;
            self.refresh(at, owner);
        }
        (matched, owner)
    }

    /// A replica uses a node and all above it.
    fn refresh(&mut self, mut at: usize, replica: usize) {
        while at != self.root {
            for (owner, used) in &mut self.nodes[at].owners {
                if *owner == replica {
                    *used = self.clock;
                }
            }
            at = self.nodes[at].parent;
        }
    }

    /// The whole prompt is sent to `replica`; one that nobody shares takes its room, too.
    pub(super) fn insert(&mut self, request: &Request, replica: usize) {
        self.insert_at(request, replica, self.clock + 1);
    }

    /// The same, at a time of the caller's own clock.
    pub(super) fn insert_at(&mut self, request: &Request, replica: usize, clock: u64) {
        self.clock = clock;
        let mut at = self.root;
        for mut piece in request.prompt_pieces() {
            while piece.tokens > 0 {
                at = match self.nodes[at].children.get(&(piece.segment, piece.start)) {
                    Some(&child) => {
                        if self.nodes[child].run.tokens > piece.tokens {
                            self.split(child, piece.tokens);
                        }
                        child
                    }
                    None => self.grow(at, piece),
                };
                let taken = self.nodes[at].run.tokens;
                self.own(at, replica);
                piece = behind(piece, taken);
            }
        }
    }

    /// A new leaf.
    fn grow(&mut self, parent: usize, run: Piece) -> usize {
        let leaf = self.nodes.insert(Node {
            run,
            parent,
            children: BTreeMap::new(),
            owners: Vec::new(),
        });
        self.nodes[parent].children.insert((run.segment, run.start), leaf);
        leaf
    }

    /// Cuts a node after `tokens`; the node keeps the head, a new child of it the rest and the children.
    fn split(&mut self, node: usize, tokens: u32) {
        let rest = behind(self.nodes[node].run, tokens);
        let children = std::mem::take(&mut self.nodes[node].children);
        let owners = self.nodes[node].owners.clone();
        let tail = self.grow(node, rest);
        for &child in children.values() {
            self.nodes[child].parent = tail;
        }
        (self.nodes[tail].children, self.nodes[tail].owners) = (children, owners);
        self.nodes[node].run.tokens = tokens;
    }

    /// `replica` owns the node, and uses it now.
    fn own(&mut self, node: usize, replica: usize) {
        let clock = self.clock;
        let Node { run, owners, .. } = &mut self.nodes[node];
        match owners.iter_mut().find(|(owner, _)| *owner == replica) {
            Some((_, used)) => *used = clock,
            None => {
                owners.push((replica, clock));
                self.tokens[replica] += u64::from(run.tokens);
            }
        }
    }

    /// For each replica drops the leaves that it used longest ago until no more than `limit` tokens are left (RT-5).
    pub(super) fn trim(&mut self, limit: u64) {
        for replica in 0..self.tokens.len() {
            if self.tokens[replica] > limit {
                self.shrink(replica, limit);
            }
        }
    }

    /// A replica is gone.
    pub(super) fn forget(&mut self, replica: usize) {
        self.shrink(replica, 0);
    }

    /// How many tokens at the head of the request's prompt each replica was sent after `since`, into `found`.
    pub(super) fn sent_after(&self, request: &Request, since: Option<u64>, found: &mut [u32]) {
        found.fill(0);
        let (mut at, mut depth) = (self.root, 0);
        for mut piece in request.prompt_pieces() {
            while piece.tokens > 0 {
                let Some(&child) = self.nodes[at].children.get(&(piece.segment, piece.start)) else {
                    return;
                };
                let Node { run, owners, .. } = &self.nodes[child];
                let common = run.tokens.min(piece.tokens);
                for &(owner, used) in owners {
                    // Whoever got a text got its head no earlier.
                    if since.is_none_or(|since| used > since) {
                        found[owner] = depth + common;
                    }
                }
                if common < run.tokens {
                    return;
                }
                (at, depth) = (child, depth + common);
                piece = behind(piece, common);
            }
        }
    }

    /// Drops what no replica was sent after `since`.
    pub(super) fn forget_before(&mut self, since: u64) {
        for replica in 0..self.tokens.len() {
            self.drop_leaves(replica, |_, used| used > since);
        }
    }

    /// Tokens of all that a replica owns.
    pub(super) fn tokens(&self, replica: usize) -> u64 {
        self.tokens[replica]
    }

    /// Whether a replica owns anything.
    pub(super) fn knows(&self, replica: usize) -> bool {
        self.tokens[replica] > 0
    }

    fn shrink(&mut self, replica: usize, limit: u64) {
        self.drop_leaves(replica, |tokens, _| tokens <= limit);
    }

    /// Drops a replica's leaves, that used longest ago first, until `is_enough` of its tokens and of the next leaf's use.
    fn drop_leaves(&mut self, replica: usize, is_enough: impl Fn(u64, u64) -> bool) {
        let mut leaves: BinaryHeap<Reverse<(u64, usize)>> = self
            .nodes
            .iter()
            .filter_map(|(node, _)| Some(Reverse((self.leaf_of(node, replica)?, node))))
            .collect();
        while let Some(Reverse((used, node))) = leaves.pop()
            && !is_enough(self.tokens[replica], used)
        {
            let parent = self.nodes[node].parent;
            self.disown(node, replica);
            if let Some(used) = self.leaf_of(parent, replica) {
                leaves.push(Reverse((used, parent)));
            }
        }
    }

    /// When `replica` used the node last, if it owns it and nothing below it.
    fn leaf_of(&self, node: usize, replica: usize) -> Option<u64> {
        let owns = |node: usize| {
            let owner = self.nodes[node]
                .owners
                .iter()
                .find(|(owner, _)| *owner == replica);
            owner.map(|&(_, used)| used)
        };
        let used = owns(node)?;
        let below = self.nodes[node].children.values();
        below
            .into_iter()
            .all(|&child| owns(child).is_none())
            .then_some(used)
    }

    fn disown(&mut self, node: usize, replica: usize) {
        let Node {
            run,
            parent,
            owners,
            children,
        } = &mut self.nodes[node];
        owners.retain(|&(owner, _)| owner != replica);
        self.tokens[replica] -= u64::from(run.tokens);
        if owners.is_empty() && children.is_empty() {
            let (key, parent) = ((run.segment, run.start), *parent);
            self.nodes[parent].children.remove(&key);
            self.nodes.remove(node);
        }
    }
}

/// What is left of a run behind its first `tokens`.
fn behind(run: Piece, tokens: u32) -> Piece {
    Piece {
        segment: run.segment,
        start: run.start + tokens,
        tokens: run.tokens - tokens,
    }
}
