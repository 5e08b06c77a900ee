//! Continuous batching of Transformers, commit 028fa5390d (`generation/continuous_batching/scheduler.py`; ST-7 to ST-9).
//!
//! Paged memory and a budget of tokens per step. Nobody is preempted: where every running sequence needs a block and none
//! is free the server hangs, here as there, and the run ends and says so. Left out: a request that was looked at and found
//! no blocks is lost there (its state is changed before the blocks are asked for); here it waits. There a request takes up
//! to a block more than its tokens fill.

use crate::engine::scheduler::{Denied, Scheduler, SequenceView, StepPlan};

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HfOrder {
    /// Decoding requests, partly prefilled ones, then those that wait (`FIFOScheduler`).
    Fifo,
    /// Partly prefilled requests, decoding ones, then those that wait (`PrefillFirstScheduler`).
    PrefillFirst,
}

/// The scheduler's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HfConfig {
    /// Who comes first.
    pub order: HfOrder,
    /// Tokens of a step (`max_batch_tokens`).
    pub max_batch_tokens: u32,
    /// Under so many free blocks only decodes are scheduled, and a prefill where nothing else is (ST-8). First in, first out
    /// only.
    pub margin_blocks: u32,
}

/// The scheduler.
#[derive(Debug)]
pub struct HfContinuous {
    config: HfConfig,
    candidates: Vec<SequenceView>,
}

impl HfContinuous {
    /// Nothing runs.
    #[must_use]
    pub fn new(config: HfConfig) -> HfContinuous {
        HfContinuous {
            config,
            candidates: Vec::new(),
        }
    }
}

impl Scheduler for HfContinuous {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        let prefills_first = self.config.order == HfOrder::PrefillFirst;
        let mut budget = self.config.max_batch_tokens;
        let mut given = 0;
        self.candidates.clear();
        let decodes_first = !prefills_first || plan.prefilling().next().is_none();
        if decodes_first && let Some(decoding) = plan.decode_all(budget, 0) {
            budget -= decoding;
            given = decoding;
            self.candidates.extend(plan.prefilling());
        } else {
            self.candidates.extend(plan.running());
            // A stable sort: within a kind in order of admission.
            self.candidates
                .sort_by_key(|sequence| sequence.is_prefilling != prefills_first);
        }
        let running = self.candidates.len();
        // Each that waits uses at least one token of the budget, or ends the scan, or finds no blocks.
        let mut at = 0;
        let mut skipped = 0;
        while budget > 0 {
            let candidate = if at < running {
                self.candidates[at]
            } else if let Some(next) = plan.waiting().nth(skipped) {
                next
            } else {
                break;
            };
            let waits = at >= running;
            at += 1;
            let is_short = !prefills_first && plan.free_blocks() < self.config.margin_blocks;
            if is_short && given > 0 && (waits || candidate.is_prefilling) {
                break;
            }
            let missing = if waits {
                plan.missing_tokens(candidate.id).expect("candidates are inside")
            } else {
                candidate.known_tokens - candidate.computed_tokens
            };
            let tokens = missing.min(budget);
            match plan.compute(candidate.id, tokens) {
                Ok(()) => {
                    budget -= tokens;
                    given += 1;
                }
                Err(Denied::NoBlocks { .. }) if plan.free_blocks() == 0 => break,
                Err(Denied::NoBlocks { .. }) => skipped += usize::from(waits),
                Err(other) => panic!("the scheduler of Transformers took an illegal action: {other}"),
            }
        }
        // The scan of a full cache stops at the first that wants a block, whoever would come after it.
        plan.repeat_while_spare(1);
    }
}
