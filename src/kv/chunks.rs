//! Names of chunks: runs of `chunk_size` tokens, each standing for everything up to its end (LM-1).
//!
//! LMCache chains a hash over the chunks of a prompt. So does this, over runs of tokens instead of tokens, so a chunk
//! costs O(its pieces). Equal names are taken for equal contents, as they are there.

use std::hash::{DefaultHasher, Hasher};

use super::content::{self, Cursor};
use crate::workload::Piece;

/// The name of a chunk's content and of all before it. Its order means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkName(u64);

/// The names of a sequence's chunks, found out as far as they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    chunk: u32,
    names: Vec<ChunkName>,
    /// Behind the last named chunk.
    at: Cursor,
}

impl Chain {
    /// Of chunks of `chunk` tokens.
    pub(crate) fn new(chunk: u32) -> Chain {
        Chain {
            chunk,
            names: Vec::new(),
            at: Cursor::START,
        }
    }

    /// The `nth` whole chunk of a sequence, which must be long enough.
    pub(crate) fn whole(&mut self, pieces: &[Piece], nth: usize) -> ChunkName {
        while self.names.len() <= nth {
            let name = self.next(pieces, self.chunk);
            self.names.push(name);
            self.at = content::advance(pieces, self.at, self.chunk);
        }
        self.names[nth]
    }

    /// The chunk that holds the rest of the first `tokens` tokens, fewer than a whole one.
    pub(crate) fn rest(&mut self, pieces: &[Piece], tokens: u32) -> ChunkName {
        let whole = (tokens / self.chunk) as usize;
        if whole > 0 {
            self.whole(pieces, whole - 1);
        }
        let mut behind = self.clone();
        behind.names.truncate(whole);
        behind.at = content::advance(pieces, Cursor::START, tokens - tokens % self.chunk);
        behind.next(pieces, tokens % self.chunk)
    }

    fn next(&self, pieces: &[Piece], tokens: u32) -> ChunkName {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.names.last().map_or(0, |name| name.0));
        let known = content::write_key(&mut hasher, pieces, self.at, tokens);
        assert!(known.is_some(), "a chunk is named when its tokens are known");
        ChunkName(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentId;

    fn piece(segment: u64, start: u32, tokens: u32) -> Piece {
        Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        }
    }

    #[test]
    fn a_name_stands_for_everything_before_it() {
        let (a, b) = ([piece(1, 0, 32)], [piece(2, 0, 16), piece(1, 16, 16)]);
        let cut = [piece(1, 0, 5), piece(1, 5, 27)];
        let name = |pieces: &[Piece], nth| Chain::new(8).whole(pieces, nth);
        assert_eq!(name(&a, 2), name(&cut, 2));
        assert_ne!(name(&a, 2), name(&b, 2));
        assert_ne!(name(&a, 2), name(&a, 1));
    }

    #[test]
    fn a_rest_is_no_whole_chunk() {
        let a = [piece(1, 0, 32)];
        let mut chain = Chain::new(8);
        assert_ne!(chain.rest(&a, 12), chain.whole(&a, 1));
        assert_eq!(chain.rest(&a, 12), Chain::new(8).rest(&a, 12));
        assert_ne!(chain.rest(&a, 12), chain.rest(&a, 11));
        assert_ne!(chain.rest(&a, 4), chain.rest(&a, 12));
    }
}
