//! What is left of a step while it is composed.

/// What is left of a step's budget, and whether prefill work is held back in it.
pub(super) struct Budget {
    pub(super) tokens: u32,
    /// Slots of the model runner, which drafters share.
    pub(super) slots: u32,
    /// Slots that a share takes beside its tokens (V1-59).
    pub(super) slots_aside: u32,
    /// Most tokens of one prefill; `u32::MAX` without a threshold.
    pub(super) threshold: u32,
    /// Prompts and admissions wait: a step with prefill was not long enough ago (V1-16).
    pub(super) hold_prefill: bool,
    /// Somebody who ran before computes part of a prompt in this step.
    pub(super) runs_prefill: bool,
    /// Somebody who ran before is given anything in this step.
    pub(super) picked_anybody: bool,
}

impl Budget {
    /// So many tokens, for whoever asks.
    pub(super) fn of_tokens(tokens: u32) -> Budget {
        Budget {
            tokens,
            slots: tokens,
            slots_aside: 0,
            threshold: u32::MAX,
            hold_prefill: false,
            runs_prefill: false,
            picked_anybody: false,
        }
    }

    /// Somebody can be given something.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.tokens > 0 && self.slots > self.slots_aside
    }

    /// The most tokens that a share may have.
    #[inline]
    pub(super) fn most(&self) -> u32 {
        self.tokens.min(self.slots - self.slots_aside)
    }

    /// A share of so many tokens is scheduled.
    #[inline]
    pub(super) fn spend(&mut self, tokens: u32) {
        self.tokens -= tokens;
        self.slots -= tokens + self.slots_aside;
    }

    /// The share of whoever is evicted is scheduled for others, if it had one.
    #[inline]
    pub(super) fn restore(&mut self, tokens: u32) {
        self.tokens += tokens;
        self.slots += tokens + u32::from(tokens > 0) * self.slots_aside;
    }
}
