//! How many drafts of a speculating engine stood, as vLLM counts them (SD-5, `v1/spec_decode/metrics.py`).

/// Drafts of a whole run, all replicas together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeculationSummary {
    /// Verifications: shares of a step that brought drafts.
    pub verifications: u64,
    /// Draft tokens that were verified.
    pub draft_tokens: u64,
    /// Of them accepted, those behind the end of an answer included.
    pub accepted_tokens: u64,
    /// Of the verifications, how many accepted the first, the second, … draft.
    pub accepted_at: Vec<u64>,
}

impl SpeculationSummary {
    pub(super) fn verified(&mut self, drafts: u32, accepted: u32) {
        self.verifications += 1;
        self.draft_tokens += u64::from(drafts);
        self.accepted_tokens += u64::from(accepted);
        if self.accepted_at.len() < drafts as usize {
            self.accepted_at.resize(drafts as usize, 0);
        }
        for count in &mut self.accepted_at[..accepted as usize] {
            *count += 1;
        }
    }

    /// Tokens of a verification on average: its accepted drafts and one.
    #[must_use]
    pub fn acceptance_length(&self) -> f64 {
        1.0 + self.accepted_tokens as f64 / self.verifications.max(1) as f64
    }

    /// Share of the draft tokens that were accepted.
    #[must_use]
    pub fn acceptance_rate(&self) -> f64 {
        self.accepted_tokens as f64 / self.draft_tokens.max(1) as f64
    }

    /// Share of the verifications that accepted the draft at each position.
    #[must_use]
    pub fn rates_by_position(&self) -> Vec<f64> {
        let share = |&count: &u64| count as f64 / self.verifications.max(1) as f64;
        self.accepted_at.iter().map(share).collect()
    }
}
