//! Static batching, the baseline of `generate()` in Transformers (ST-1 to ST-5).
//!
//! A batch is closed when it starts: the oldest waiting requests, as many as there are rows, or as there are when the
//! oldest has waited long enough. Prompts are padded on the left to the longest, every row is computed until the last is
//! done, and answers leave with the batch. A row more whose KV cache might not fit beside the others' at full length is
//! not taken in; `generate()` would run out of memory.

use crate::engine::scheduler::{Binding, Scheduler, SequenceView, StepPlan};
use crate::units::Picos;

/// How batches are formed and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticConfig {
    /// Rows of a batch, `B`.
    pub batch_size: u32,
    /// How long the oldest waits for a full batch, `W`.
    pub batch_timeout: Picos,
    /// An answer leaves when it is complete; its row is computed on all the same (ST-4).
    pub release_rows_early: bool,
    /// Longest sequence.
    pub max_model_len: u32,
}

/// The scheduler.
#[derive(Debug)]
pub struct StaticBatching {
    config: StaticConfig,
    rows: Vec<SequenceView>,
}

impl StaticBatching {
    /// Nothing runs.
    #[must_use]
    pub fn new(config: StaticConfig) -> StaticBatching {
        StaticBatching {
            config,
            rows: Vec::new(),
        }
    }

    /// The oldest that fit together; `None` if more may come in time.
    fn choose(&mut self, plan: &mut StepPlan<'_>) -> Option<()> {
        self.rows.clear();
        let (mut longest_prompt, mut longest_answer) = (0, 0);
        for row in plan.waiting().take(self.config.batch_size as usize) {
            let prompt = row.prompt_tokens.max(longest_prompt);
            let room = self.config.max_model_len - row.prompt_tokens;
            let answer = row.max_tokens.min(room).max(longest_answer);
            let blocks = u64::from(plan.blocks_for(prompt + answer - 1)) * (self.rows.len() as u64 + 1);
            if !self.rows.is_empty() && blocks > u64::from(plan.total_blocks()) {
                // No request that comes later makes this batch any larger.
                return Some(());
            }
            (longest_prompt, longest_answer) = (prompt, answer);
            self.rows.push(row);
        }
        let oldest = self.rows.iter().map(|row| row.queued_since).min()?;
        let closes = oldest + self.config.batch_timeout;
        if self.rows.len() < self.config.batch_size as usize && plan.now() < closes {
            plan.wake_at(closes);
            return None;
        }
        Some(())
    }

    /// The prompts of the chosen, padded to the longest (ST-2).
    fn prefill(&mut self, plan: &mut StepPlan<'_>) {
        let longest = self.rows.iter().map(|row| row.prompt_tokens).max().unwrap_or(0);
        let binding = if self.config.release_rows_early {
            Binding::EachWhole
        } else {
            Binding::Together
        };
        for row in &self.rows {
            let taken = plan
                .pad(row.id, longest - row.prompt_tokens)
                .and_then(|()| plan.bind(row.id, binding))
                .and_then(|()| plan.compute(row.id, longest));
            taken.expect("the rows were chosen so that they fit an empty cache");
        }
    }
}

impl Scheduler for StaticBatching {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        self.rows.clear();
        self.rows.extend(plan.running());
        if self.rows.is_empty() {
            if self.choose(plan).is_some() {
                self.prefill(plan);
            }
            return;
        }
        for row in &self.rows {
            let taken = plan.compute(row.id, 1);
            taken.expect("a batch was closed with room for all its rows at full length");
        }
        plan.repeat_while_spare(0);
    }
}
