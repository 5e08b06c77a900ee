//! From a plan to a step: what it computes, and how long that takes.

use super::replica::ScheduledReplica;
use crate::cost::StepLoad;
use crate::engine::{Handle, ScheduleRecord};
use crate::units::Picos;

/// A sequence's part in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) handle: Handle,
    pub(super) tokens: u32,
    /// It computed a prompt, not a next token.
    pub(super) is_prefill: bool,
}

/// One launched step.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) entries: Vec<Entry>,
    pub(super) load: StepLoad,
    pub(super) begin: Picos,
    pub(super) duration: Picos,
    pub(super) recomputed_tokens: u64,
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) free_blocks: u32,
    /// Blocks that must stay free for the scheduler to decide the same again; `None` if it may not.
    pub(super) repeat: Option<u32>,
    /// Everybody who streams had a token at the end of the step before.
    pub(super) is_uniform: bool,
}

impl Step {
    /// When its output is there.
    #[inline]
    pub(super) fn end(&self) -> Picos {
        self.begin + self.duration
    }

    /// Empties it for another step; the buffers keep their memory.
    fn clear(&mut self) {
        self.entries.clear();
        self.load.clear();
        self.recomputed_tokens = 0;
        (self.repeat, self.is_uniform) = (None, true);
    }
}

impl ScheduledReplica {
    /// Starts the step that was planned.
    pub(super) fn launch(&mut self, now: Picos) {
        let mut step = self.spare_step.take().unwrap_or_default();
        step.clear();
        let shares = std::mem::take(&mut self.ledger.shares);
        for &slot in &shares {
            self.enter(&mut step, slot);
        }
        step.begin = now;
        step.duration = self.cost.any(&step.load);
        // Blocks on their way to and from the host hold the step up (V0-8).
        step.duration += self.config.swap_time_per_block * u64::from(self.ledger.moved_blocks);
        if let Some(jitter) = &mut self.jitter {
            step.duration = jitter.disturb(step.duration);
        }
        if step.load.only_decodes() && self.ledger.moved_blocks == 0 && !self.stepwise {
            step.repeat = self.ledger.repeat;
        }
        step.running = self.ledger.running.len() as u32;
        step.waiting = self.ledger.waiting.len() as u32 + self.ledger.swapped.len() as u32;
        step.free_blocks = self.ledger.pool.free();
        self.log_step(&step, now, &shares);
        self.plan = None;
        self.ledger.shares = shares;
        self.in_flight = Some(step);
    }

    /// A sequence's tokens join the step.
    fn enter(&mut self, step: &mut Step, slot: usize) {
        let sequence = &self.ledger.sequences[slot];
        let tokens = sequence.share;
        let after = sequence.computed + tokens;
        step.load.add(sequence.computed, tokens);
        step.load.sampled_rows += u32::from(after == sequence.known());
        step.recomputed_tokens += sequence.story.recomputed(sequence.computed, after);
        let streams = sequence.binding.is_none();
        let had_token = sequence.story.had_token_at(self.last_end);
        step.is_uniform &= had_token || !streams;
        step.entries.push(Entry {
            handle: sequence.handle,
            tokens,
            is_prefill: sequence.computed < sequence.fill,
        });
    }

    fn log_step(&mut self, step: &Step, now: Picos, shares: &[usize]) {
        let Some(log) = &mut self.log else { return };
        let share = |&slot: &usize| {
            let sequence = &self.ledger.sequences[slot];
            (sequence.request.id, sequence.computed, sequence.share)
        };
        log.push(ScheduleRecord {
            scheduled: now,
            begin: now,
            duration: step.duration,
            shares: shares.iter().map(share).collect(),
            preempted: self.ledger.preempted.clone(),
            free_blocks: step.free_blocks,
            running: step.running,
            waiting: step.waiting,
        });
    }
}
