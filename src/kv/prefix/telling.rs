//! What the pool tells its journal, if somebody hears of changes with a delay.

use super::{Free, Held, Node, PrefixPool, ROOT};
use crate::kv::content::{self, Cursor};
use crate::workload::Piece;

impl PrefixPool {
    /// Whether taking so many blocks would reach cached ones.
    pub(in crate::kv) fn would_evict(&self, blocks: u32) -> bool {
        let (mut at, mut blank) = (self.head, 0);
        while let Some(entry) = at
            && blank < blocks
            && let Free::Blank(count) = self.entries[entry].what
        {
            blank += count;
            at = self.entries[entry].next;
        }
        blank < blocks
    }

    /// The next `blocks` blocks of a sequence are registered now, and were cached nowhere.
    pub(super) fn note_storing(&mut self, held: &Held, pieces: &[Piece], blocks: u32) {
        if let Some(journal) = &mut self.journal {
            let from = held.registered * self.block_size;
            let to = from + blocks * self.block_size;
            let mut text = journal.blank();
            content::copy(pieces, Cursor::START, to, &mut text);
            journal.stored(text, from, to);
        }
    }

    /// The `blocks` deepest blocks of a run go, and nobody else has a copy.
    pub(super) fn note_removal(&mut self, node: usize, blocks: u32) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            path.push(at);
            at = self.nodes[at].parent;
        }
        let (mut text, mut to) = (journal.blank(), 0);
        for &run in path.iter().rev() {
            let Node { blocks, pieces, .. } = &self.nodes[run];
            let tokens = blocks * self.block_size;
            content::copy(pieces, Cursor::START, tokens, &mut text);
            to += tokens;
        }
        journal.removed(text, to - blocks * self.block_size, to);
    }
}
