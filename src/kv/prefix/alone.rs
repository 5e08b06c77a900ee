//! Sequences whose first token is in no other one's text: nobody else finds what they register.
//!
//! They stand in no tree. Their registered blocks are counted, and forgotten when they end; one that was preempted looks for its own
//! blocks when it comes back, so it is entered into the tree first. Law: free blocks, hits and evictions are those of a pool in
//! whose tree everybody stands.

use super::{Free, Held, PrefixPool};
use crate::workload::Piece;

impl PrefixPool {
    /// Blocks for a sequence none of whose contents is or will be in another one. Where a journal tells of what is cached it stands in
    /// the tree like any other: the journal names contents.
    pub(crate) fn adopt_alone(&mut self, blocks: u32) -> Held {
        let mut held = Held {
            is_alone: self.journal.is_none(),
            ..Held::default()
        };
        self.take(&mut held, blocks);
        held
    }

    /// What a sequence that is alone has registered can be found from now on: by itself, when it comes back.
    pub(crate) fn enter(&mut self, held: &mut Held, pieces: &[Piece]) {
        if std::mem::take(&mut held.is_alone) {
            let registered = std::mem::take(&mut held.registered);
            held.private += registered;
            self.cached -= registered;
            self.register(held, pieces, registered);
        }
    }

    /// Registers its blocks up to `full_blocks`.
    #[inline]
    pub(super) fn register_alone(&mut self, held: &mut Held, full_blocks: u32) {
        let blocks = full_blocks.saturating_sub(held.registered);
        assert!(blocks <= held.private, "only allocated blocks are registered");
        held.registered += blocks;
        held.private -= blocks;
        self.cached += blocks;
    }

    /// Frees blocks with a hash that nobody will ask for.
    pub(super) fn free_unsought(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        self.free += blocks;
        match self.tail.map(|tail| &mut self.entries[tail].what) {
            Some(Free::Unsought(count)) => *count += blocks,
            _ => drop(self.push_back(Free::Unsought(blocks))),
        }
    }
}
