//! What stepping together costs: how long ranks wait for the slowest, and how long they compute dummies.

use crate::units::Picos;

/// Sums over ranks and steps, in picoseconds where they are times: u128, because ranks add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockStepAccount {
    /// Ranks.
    pub ranks: u32,
    /// Steps of all ranks together that have ended.
    pub steps: u64,
    /// Time of these steps.
    pub stepping: Picos,
    /// Shares of a rank in a step that were dummies.
    pub dummies: u64,
    /// Time of ranks in dummies.
    pub idle: u128,
    /// Time of ranks that had work and waited for a slower rank.
    pub waited: u128,
    /// Shares of a rank in a step to which it brought prompts.
    pub with_prompts: u64,
    /// Tokens that the other ranks computed in those steps, padding included, summed.
    pub beside_prompts: u64,
}

impl LockStepAccount {
    /// Share of all ranks' step time in which a rank that had work waited for a slower one; `None` without steps.
    #[must_use]
    pub fn waited_share(&self) -> Option<f64> {
        self.share(self.waited)
    }

    /// Share of all ranks' step time in dummies; `None` without steps.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        self.share(self.idle)
    }

    /// Tokens that the other ranks compute in a step of a rank with prompts, padding included, on average; `None` where no rank had any.
    #[must_use]
    pub fn tokens_beside_prompts(&self) -> Option<f64> {
        (self.with_prompts > 0).then(|| self.beside_prompts as f64 / self.with_prompts as f64)
    }

    fn share(&self, part: u128) -> Option<f64> {
        let all = u128::from(self.stepping.0) * u128::from(self.ranks);
        (all > 0).then(|| part as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_prompts_is_a_mean_over_steps_with_prompts() {
        let account = LockStepAccount {
            with_prompts: 4,
            beside_prompts: 1000,
            ..LockStepAccount::default()
        };
        assert_eq!(account.tokens_beside_prompts(), Some(250.0));
        assert_eq!(LockStepAccount::default().tokens_beside_prompts(), None);
    }
}
