//! Which node goes next, and how it goes.
//!
//! Chains become evictable, are touched and protected far more often than they are evicted, so the queue of leaves is put
//! right only when something is evicted: whoever has its turn and was touched since is queued anew, and whoever is
//! protected or no leaf is forgotten until it is listed again. A chain's last node is only ever touched later, hence
//! nobody's turn comes too late.

use std::cmp::Reverse;

use super::{NodeId, ROOT, RadixTree};
use crate::kv::content::{self, Cursor};

impl RadixTree {
    /// Evicts whole leaves, least recently used first, until `tokens` are free or nothing is evictable (SG-40).
    /// Returns how many tokens became free.
    pub(crate) fn evict(&mut self, tokens: u64) -> u64 {
        let mut freed = 0;
        while freed < tokens {
            let Some(leaf) = self.next_leaf() else {
                break;
            };
            freed += u64::from(self.drop_last_node(leaf));
        }
        self.evictable -= freed;
        self.evicted += freed;
        freed
    }

    /// The chain whose last node is the least recently used leaf that nobody protects. It leaves the queue.
    fn next_leaf(&mut self) -> Option<NodeId> {
        while let Some(Reverse((touched, node))) = self.leaves.pop() {
            // The place of a chain that was joined to another may be another's by now.
            let Some(chain) = self
                .chains
                .get_mut(node.place())
                .filter(|chain| chain.queued == touched)
            else {
                continue;
            };
            chain.queued = 0;
            if chain.end_touched() == touched && chain.is_free_leaf() {
                return Some(node);
            }
            self.list(node);
        }
        None
    }

    /// Forgets the last node of an unlisted chain, and the chain with its only one. Returns the node's tokens.
    fn drop_last_node(&mut self, leaf: NodeId) -> u32 {
        if self.journal.is_some() {
            self.note_removal(leaf);
        }
        let chain = &mut self.chains[leaf.place()];
        if let Some(rest) = chain.inner_ends.pop() {
            let node = chain.tokens - rest;
            content::drop_last(&mut chain.pieces, node);
            chain.tokens = rest;
            self.list(leaf);
            return node;
        }
        let chain = self.chains.remove(leaf.place());
        self.remove_child(chain.parent, chain.key);
        self.list(chain.parent);
        self.recycle(chain.pieces);
        chain.tokens
    }

    /// The last node of a chain goes.
    fn note_removal(&mut self, leaf: NodeId) {
        let mut path = Vec::new();
        let mut at = leaf;
        while at != ROOT {
            path.push(at);
            at = self.chains[at.place()].parent;
        }
        let journal = self.journal.as_mut().expect("asked only where there is one");
        let (mut text, mut to) = (journal.blank(), 0);
        for chain in path.iter().rev().map(|node| &self.chains[node.place()]) {
            content::copy(&chain.pieces, Cursor::START, chain.tokens, &mut text);
            to += chain.tokens;
        }
        let chain = &self.chains[leaf.place()];
        let node = chain.tokens - chain.inner_ends.last().unwrap_or(&0);
        journal.removed(text, to - node, to);
    }

    /// Queues a chain for eviction if its last node is an unprotected leaf and it is not queued.
    pub(super) fn list(&mut self, node: NodeId) {
        let chain = &mut self.chains[node.place()];
        if node != ROOT && chain.queued == 0 && chain.is_free_leaf() {
            chain.queued = chain.end_touched();
            self.leaves.push(Reverse((chain.queued, node)));
        }
    }
}
