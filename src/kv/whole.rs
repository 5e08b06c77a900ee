//! Whole blocks of lengths that are mostly alike: a division is remembered until something else is asked.

/// The last answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    tokens: u32,
    size: u32,
    blocks: u32,
}

impl Whole {
    /// Nothing has been asked.
    pub(crate) const NONE: Whole = Whole {
        tokens: 0,
        size: 1,
        blocks: 0,
    };

    /// Whole blocks of `size` tokens among `tokens`.
    #[inline]
    pub(crate) fn blocks(&mut self, tokens: u32, size: u32) -> u32 {
        if (tokens, size) != (self.tokens, self.size) {
            *self = Whole {
                tokens,
                size,
                blocks: tokens / size,
            };
        }
        self.blocks
    }
}
