//! Groups of layers that draw blocks from one pool, as vLLM's hybrid allocator makes them (V1-34, V1-35).
//!
//! A group is a number of layers that have their blocks in common; all groups have equally many, so a block is as large
//! in each. Groups that attend to everything keep a block for every `block_size` tokens. A group with a window gives back
//! the blocks that lie wholly before the window of the next token, each time its sequence is about to take more.
//! Layers of constant state have a block in each of their groups, which holds the state of one sequence.
//! A model without windows is one group, and so is what keeps every token though it has windows.

use std::hint::cold_path;

/// The groups of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvGroups {
    /// Groups whose sequences keep all of their tokens.
    pub full: u32,
    /// Groups whose sequences keep a window, by window.
    pub windows: Vec<WindowGroups>,
    /// Blocks that a sequence has for its recurrent layers, over all groups of such layers: from its admission on and whatever
    /// its length (vLLM `MambaManager` without prefix caching, one a group).
    pub states: u32,
}

/// Groups of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowGroups {
    /// Tokens of the window, that of the query included.
    pub window: u32,
    /// How many groups.
    pub groups: u32,
}

impl WindowGroups {
    /// Blocks of one group that lie wholly before the window of the token behind the first `tokens` ones (vLLM
    /// `SlidingWindowManager.get_num_skipped_tokens`).
    #[inline]
    pub(crate) fn passed(&self, tokens: u32, block_size: u32) -> u32 {
        (tokens + 1).saturating_sub(self.window) / block_size
    }

    /// Blocks of one group that a sequence holds at most while `in_flight` tokens are scheduled and not settled yet
    /// (vLLM `SlidingWindowSpec.max_admission_blocks_per_request`): a window may begin inside a block.
    pub(crate) fn held_at_most(&self, in_flight: u32, max_model_len: u32, block_size: u32) -> u32 {
        let tokens = (self.window - 1).saturating_add(in_flight).min(max_model_len);
        tokens.div_ceil(block_size) + 1
    }
}

impl KvGroups {
    /// One group that keeps everything.
    pub const ONE: KvGroups = KvGroups {
        full: 1,
        windows: Vec::new(),
        states: 0,
    };

    /// How many groups whose sequences take blocks as they grow.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.full + self.windows.iter().map(|kind| kind.groups).sum::<u32>()
    }

    /// Whether no group has a window.
    #[inline]
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.windows.is_empty()
    }

    /// Blocks of all groups that lie before the windows behind the first `tokens` tokens.
    #[inline]
    pub(crate) fn passed(&self, tokens: u32, block_size: u32) -> u32 {
        if self.windows.is_empty() {
            return 0;
        }
        cold_path();
        let of_kind = |kind: &WindowGroups| kind.groups * kind.passed(tokens, block_size);
        self.windows.iter().map(of_kind).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_passed_once_no_later_token_sees_it() {
        let kind = WindowGroups { window: 4, groups: 1 };
        // Behind 7 tokens the window of the eighth begins at the fifth: four are passed, one block of four.
        let passed = |tokens| kind.passed(tokens, 4);
        assert_eq!([0, 3, 6, 7, 10, 11].map(passed), [0, 0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_window_and_a_step_may_touch_one_more_block_than_they_fill() {
        let kind = WindowGroups {
            window: 128,
            groups: 1,
        };
        assert_eq!(
            kind.held_at_most(8192, 131_072, 16),
            (127_u32 + 8192).div_ceil(16) + 1
        );
        assert_eq!(kind.held_at_most(8192, 100, 16), 8);
    }
}
