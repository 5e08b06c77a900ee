//! Taking blocks from the head of the free queue, and forgetting what they cache; now, or when somebody asks.

use super::{Copy, Free, Node, PrefixPool};
use crate::kv::content;

impl PrefixPool {
    /// Takes blocks for many sequences at once; each is given its share later by [`Held::assign`].
    pub(in crate::kv) fn evict(&mut self, blocks: u32) {
        assert!(blocks <= self.free, "no more blocks are taken than are free");
        self.free -= blocks;
        self.owed += blocks;
        if !self.puts_off || self.journal.is_some() {
            self.settle();
        }
    }

    /// Evicts what is owed.
    #[inline]
    pub(in crate::kv) fn settle(&mut self) {
        if self.owed > 0 {
            self.evict_owed();
        }
    }

    fn evict_owed(&mut self) {
        let mut left = std::mem::take(&mut self.owed);
        while left > 0 {
            let head = self.head.expect("the free queue holds every free block");
            match self.entries[head].what {
                Free::Blank(count) if count > left => {
                    self.entries[head].what = Free::Blank(count - left);
                    left = 0;
                }
                Free::Blank(count) => {
                    left -= count;
                    self.unlink(head);
                }
                Free::Unsought(count) => {
                    let taken = count.min(left);
                    self.evicted += u64::from(taken);
                    self.cached -= taken;
                    left -= taken;
                    if taken < count {
                        self.entries[head].what = Free::Unsought(count - taken);
                    } else {
                        self.unlink(head);
                    }
                }
                Free::Cached(copy, node) => {
                    let run = self.nodes[node].blocks;
                    self.evicted += u64::from(run.min(left));
                    if run > left {
                        self.note_removal(node, left);
                        self.shorten(node, left);
                        left = 0;
                    } else {
                        left -= run;
                        self.unlink(head);
                        self.drop_copy(copy);
                    }
                }
            }
        }
    }

    /// Evicts the `blocks` deepest blocks of a run.
    fn shorten(&mut self, node: usize, blocks: u32) {
        let node = &mut self.nodes[node];
        debug_assert_eq!(node.children, 0, "children are evicted before their parent");
        node.blocks -= blocks;
        self.cached -= blocks;
        content::drop_last(&mut node.pieces, blocks * self.block_size);
    }

    /// Forgets a copy; with its last copy the node goes.
    fn drop_copy(&mut self, copy: usize) {
        let Copy { node, next_copy, .. } = self.copies.remove(copy);
        let first = self.nodes[node].first_copy;
        if first != copy {
            let mut before = first;
            while self.copies[before].next_copy != Some(copy) {
                before = self.copies[before]
                    .next_copy
                    .expect("a copy is in its node's list");
            }
            self.copies[before].next_copy = next_copy;
            return;
        }
        if let Some(next) = next_copy {
            self.nodes[node].first_copy = next;
            return;
        }
        debug_assert_eq!(
            self.nodes[node].children, 0,
            "children are evicted before their parent"
        );
        self.note_removal(node, self.nodes[node].blocks);
        let Node {
            parent,
            key,
            mut pieces,
            blocks,
            ..
        } = self.nodes.remove(node);
        self.cached -= blocks;
        self.nodes[parent].children -= 1;
        self.children.remove(parent, key, node);
        pieces.clear();
        self.spare.push(pieces);
    }
}
