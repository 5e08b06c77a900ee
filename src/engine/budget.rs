//! What is left of a step while it is composed.

use super::replica::Replica;

/// What is left of a step's budget, and whether prefill work is held back in it.
pub(super) struct Budget {
    pub(super) tokens: u32,
    /// Slots of the model runner, which drafters share.
    pub(super) slots: u32,
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
            threshold: u32::MAX,
            hold_prefill: false,
            runs_prefill: false,
            picked_anybody: false,
        }
    }
}

impl Replica {
    /// Somebody can be given something.
    #[inline]
    pub(super) fn has_room(&self, budget: &Budget) -> bool {
        budget.tokens > 0 && budget.slots > self.draft_slots()
    }

    /// The most tokens that a share may have.
    #[inline]
    pub(super) fn most(&self, budget: &Budget) -> u32 {
        budget.tokens.min(budget.slots - self.draft_slots())
    }

    /// A share of so many tokens is scheduled.
    #[inline]
    pub(super) fn spend(&self, budget: &mut Budget, tokens: u32) {
        budget.tokens -= tokens;
        budget.slots -= tokens + self.draft_slots();
    }

    /// The share of whoever is evicted is scheduled for others, if it had one.
    #[inline]
    pub(super) fn restore(&self, budget: &mut Budget, tokens: u32) {
        budget.tokens += tokens;
        budget.slots += tokens + u32::from(tokens > 0) * self.draft_slots();
    }
}
