//! Blocks of prompts as pieces of texts: blocks that were new together are one text, so that a prompt has few pieces.
//!
//! Law: two blocks have one place in one text if and only if they have one id in one conversation (with global ids, in any).

use rustc_hash::FxHashMap;

use crate::ids::SegmentId;
use crate::workload::trace::json_lines::HashId;
use crate::workload::trace::rows::{TAIL_SEGMENTS, is_tail};
use crate::workload::{Piece, Prompt};

/// Tokens of one text at most, far below what a place in it can be.
const TEXT_MAX: u32 = 1 << 30;

/// Where in the texts of all conversations the blocks of prompts are.
#[derive(Default)]
pub(super) struct Texts {
    /// Text and first token of each block, by its id: of this conversation's own ids, and of those that all share.
    own: FxHashMap<u64, (u32, u32)>,
    shared: FxHashMap<u64, (u32, u32)>,
    /// This conversation's ids are those that all share.
    is_shared: bool,
    /// Tokens of each text.
    lengths: Vec<u32>,
}

impl Texts {
    /// Ids that come now are another conversation's, of its own or `shared` by all that say so.
    pub(super) fn begin(&mut self, shared: bool) {
        self.own.clear();
        self.is_shared = shared;
    }

    fn places(&mut self) -> &mut FxHashMap<u64, (u32, u32)> {
        match self.is_shared {
            true => &mut self.shared,
            false => &mut self.own,
        }
    }

    /// A prompt's tokens: its blocks, of which neighbours in one text are one piece, and the end that no id covers.
    pub(super) fn prompt(&mut self, ids: &[HashId], input: u32, block: u32, index: u64) -> Prompt {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut left = input;
        // Text and token at which the block before ended.
        let mut before: Option<(u32, u32)> = None;
        for id in ids {
            let (text, start) = match self.places().get(&id.0) {
                Some(place) => *place,
                None => {
                    let place = self.place(before, block);
                    self.places().insert(id.0, place);
                    place
                }
            };
            let tokens = block.min(left);
            match pieces.last_mut() {
                Some(last) if before == Some((text, start)) => last.tokens += tokens,
                _ => pieces.push(Piece {
                    segment: SegmentId(u64::from(text)),
                    start,
                    tokens,
                }),
            }
            before = Some((text, start + block));
            left -= tokens;
        }
        if pieces.is_empty() {
            return Prompt::Unique;
        }
        if left > 0 {
            pieces.push(Piece {
                segment: SegmentId(TAIL_SEGMENTS | index),
                start: 0,
                tokens: left,
            });
        }
        Prompt::Pieces(pieces.into_boxed_slice())
    }

    /// Where a new block is: behind the one before it, if that is the end of its text, or in a text of its own.
    fn place(&mut self, before: Option<(u32, u32)>, block: u32) -> (u32, u32) {
        if let Some((text, end)) = before
            && self.lengths[text as usize] == end
            && end <= TEXT_MAX
        {
            self.lengths[text as usize] += block;
            return (text, end);
        }
        self.lengths.push(block);
        (self.lengths.len() as u32 - 1, 0)
    }
}

/// Whether two prompts of equal length have the same blocks; ends that no id covers are of either alone.
pub(super) fn same_blocks(one: &Prompt, other: &Prompt) -> bool {
    let blocks = |prompt: &Prompt| -> Vec<Piece> {
        let pieces = prompt.shared().iter().copied();
        pieces.filter(|piece| !is_tail(piece.segment)).collect()
    };
    blocks(one) == blocks(other)
}
