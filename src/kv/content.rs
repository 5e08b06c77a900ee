//! What the tokens of a sequence are, at the granularity of runs, and how equal contents are recognised.
//!
//! A token's identity is `(segment, index)`. Two prefixes are equal when they agree token by token, which is what a
//! chain of block hashes decides in the engine (V1-42); here runs are compared instead, so that a prompt costs
//! O(pieces), not O(tokens).

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::ids::SegmentId;
use crate::workload::Piece;

/// A position in a list of pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Index of the piece.
    piece: usize,
    /// Tokens of it that lie before the position.
    offset: u32,
}

impl Cursor {
    /// The beginning.
    pub(crate) const START: Cursor = Cursor { piece: 0, offset: 0 };
}

/// The rest of the piece under the cursor.
fn rest(pieces: &[Piece], at: Cursor) -> Option<Piece> {
    let piece = pieces.get(at.piece)?;
    Some(Piece {
        segment: piece.segment,
        start: piece.start + at.offset,
        tokens: piece.tokens - at.offset,
    })
}

/// The token behind the cursor.
#[inline]
pub(crate) fn first(pieces: &[Piece], at: Cursor) -> Option<(SegmentId, u32)> {
    let piece = pieces.get(at.piece)?;
    Some((piece.segment, piece.start + at.offset))
}

/// Moves the cursor on by `tokens`, which must not pass the end.
pub(crate) fn advance(pieces: &[Piece], mut at: Cursor, mut tokens: u32) -> Cursor {
    while tokens > 0 {
        let left = pieces[at.piece].tokens - at.offset;
        if tokens < left {
            at.offset += tokens;
            return at;
        }
        tokens -= left;
        at = Cursor {
            piece: at.piece + 1,
            offset: 0,
        };
    }
    at
}

/// How many tokens agree from two positions on, `limit` at most.
pub(crate) fn common_tokens(a: &[Piece], mut at_a: Cursor, b: &[Piece], mut at_b: Cursor, limit: u32) -> u32 {
    let mut agreed = 0;
    while agreed < limit {
        let (Some(x), Some(y)) = (rest(a, at_a), rest(b, at_b)) else {
            break;
        };
        if x.segment != y.segment || x.start != y.start {
            break;
        }
        let run = x.tokens.min(y.tokens).min(limit - agreed);
        agreed += run;
        at_a = advance(a, at_a, run);
        at_b = advance(b, at_b, run);
    }
    agreed
}

/// A key for the next `tokens` tokens; equal runs have equal keys, however they are cut into pieces.
/// `None` if fewer tokens are left.
pub(crate) fn key(pieces: &[Piece], at: Cursor, tokens: u32) -> Option<u64> {
    let mut hasher = FxHasher::default();
    write_key(&mut hasher, pieces, at, tokens)?;
    Some(hasher.finish())
}

/// Writes what makes up the [`key`] of a run of tokens; `None` if fewer are left.
pub(crate) fn write_key(
    hasher: &mut impl Hasher,
    pieces: &[Piece],
    mut at: Cursor,
    tokens: u32,
) -> Option<()> {
    let mut left = tokens;
    let mut pending: Option<(SegmentId, u32, u32)> = None;
    while left > 0 {
        let run = rest(pieces, at)?;
        let taken = run.tokens.min(left);
        pending = match pending {
            Some((segment, start, length)) if segment == run.segment && start + length == run.start => {
                Some((segment, start, length + taken))
            }
            other => {
                write_run(hasher, other);
                Some((run.segment, run.start, taken))
            }
        };
        left -= taken;
        at = advance(pieces, at, taken);
    }
    write_run(hasher, pending);
    Some(())
}

fn write_run(hasher: &mut impl Hasher, run: Option<(SegmentId, u32, u32)>) {
    if let Some((segment, start, length)) = run {
        hasher.write_u64(segment.0);
        hasher.write_u64(u64::from(start) << 32 | u64::from(length));
    }
}

/// Appends the `tokens` tokens after `from` to `out`, joining runs that continue each other.
pub(crate) fn copy(pieces: &[Piece], from: Cursor, tokens: u32, out: &mut Vec<Piece>) {
    let (mut at, mut left) = (from, tokens);
    while left > 0 {
        let run = rest(pieces, at).expect("a sequence knows the tokens whose blocks it registers");
        let taken = run.tokens.min(left);
        match out.last_mut() {
            Some(last) if last.segment == run.segment && last.start + last.tokens == run.start => {
                last.tokens += taken;
            }
            _ => out.push(Piece { tokens: taken, ..run }),
        }
        left -= taken;
        at = advance(pieces, at, taken);
    }
}

/// Drops everything before the cursor.
pub(crate) fn remove_before(pieces: &mut Vec<Piece>, at: Cursor) {
    pieces.drain(..at.piece);
    if at.offset > 0 {
        let first = &mut pieces[0];
        first.start += at.offset;
        first.tokens -= at.offset;
    }
}

/// Drops the last `tokens` tokens.
pub(crate) fn drop_last(pieces: &mut Vec<Piece>, mut tokens: u32) {
    while tokens > 0 {
        let last = pieces.last_mut().expect("no more is dropped than is there");
        if last.tokens > tokens {
            last.tokens -= tokens;
            return;
        }
        tokens -= last.tokens;
        pieces.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(segment: u64, start: u32, tokens: u32) -> Piece {
        Piece {
            segment: SegmentId(segment),
            start,
            tokens,
        }
    }

    #[test]
    fn the_cut_into_pieces_does_not_matter() {
        let whole = [piece(1, 0, 16), piece(2, 0, 8)];
        let cut = [piece(1, 0, 5), piece(1, 5, 11), piece(2, 0, 8)];
        let start = Cursor::default();
        assert_eq!(common_tokens(&whole, start, &cut, start, 100), 24);
        assert_eq!(key(&whole, start, 20), key(&cut, start, 20));
        let mut joined = Vec::new();
        copy(&cut, start, 24, &mut joined);
        assert_eq!(joined, whole);
    }

    #[test]
    fn equal_text_at_another_index_is_another_content() {
        let a = [piece(1, 0, 16)];
        let b = [piece(1, 1, 16)];
        assert_eq!(common_tokens(&a, Cursor::default(), &b, Cursor::default(), 16), 0);
        assert_ne!(key(&a, Cursor::default(), 16), key(&b, Cursor::default(), 16));
        assert_eq!(key(&a, Cursor::default(), 17), None);
    }
}
