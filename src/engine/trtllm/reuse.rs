//! Block reuse in the loop: who is put off for whom, what a start finds, and when blocks can be found (TR-1 to TR-8 of [`super`]).

use rustc_hash::FxHashSet;

use super::schedule::Capacity;
use crate::engine::step::Step;
use crate::engine::{Handle, Replica};
use crate::kv::ReusePool;

/// Blocks that those who compute their prompts are about to make.
#[derive(Debug, Default)]
pub(super) struct Contributed(FxHashSet<u64>);

impl Replica {
    /// Whether blocks are reused.
    #[inline]
    pub(in crate::engine) fn reuses(&self) -> bool {
        self.pool.reuse().is_some()
    }

    /// Blocks that those who have computed a part of their prompts are about to make; `None` where nobody is put off for them.
    pub(super) fn contributed(&self, capacity: &Capacity) -> Option<Contributed> {
        if !self.reuses() || !capacity.puts_off_equals() {
            return None;
        }
        let mut contributed = Contributed::default();
        let prefilling = self.singles.iter();
        for &slot in prefilling.filter(|&&slot| !self.sequences[slot].sampled_last) {
            contributed.0.extend(self.new_block(slot));
        }
        Some(contributed)
    }

    /// Whether whoever comes before is about to make the next block that this prompt lacks (TR-6); if not, this one is.
    pub(super) fn is_made_for(&self, slot: usize, contributed: &mut Contributed) -> bool {
        self.new_block(slot)
            .is_some_and(|block| !contributed.0.insert(block))
    }

    fn new_block(&self, slot: usize) -> Option<u64> {
        let sequence = &self.sequences[slot];
        let reuse = self.pool.reuse()?;
        reuse.new_block(&sequence.pieces, sequence.request.prompt_tokens)
    }

    /// Blocks for those who start, those who compute all of their prompts first: what each finds, and what is left of its share (TR-7).
    pub(super) fn find_prompts(&mut self, starting: &mut [(Handle, u32)]) -> Vec<u32> {
        let mut found = vec![0; starting.len()];
        let shared = |replica: &Replica| replica.pool.reuse().map_or(0, ReusePool::shared);
        let shared_before = shared(self);
        let prompt = |replica: &Replica, handle: Handle| replica.sequences[handle.slot].request.prompt_tokens;
        for is_whole in [true, false] {
            for (at, (handle, share)) in starting.iter_mut().enumerate() {
                let all = prompt(self, *handle);
                if (*share == all) != is_whole {
                    continue;
                }
                let sequence = &self.sequences[handle.slot];
                found[at] = self.pool.reuse_for(handle.slot, &sequence.pieces, all);
            }
        }
        // What they share need not be free a second time, so whoever lacked room may have it in the next step.
        self.admission_closed &= shared(self) == shared_before;
        let size = self.config.block_size;
        for (&found, (handle, share)) in found.iter().zip(starting) {
            let end = found + *share;
            *share = match prompt(self, *handle) {
                all if end >= all => all - found,
                _ if found == 0 => *share,
                _ => end / size * size - found,
            };
        }
        found
    }

    /// The prompts whose last part a step has computed can be found from now on (TR-5).
    pub(in crate::engine) fn store_prompts(&mut self, step: &Step) {
        for &handle in &step.samples {
            if let Some(sequence) = self.sequences.get(handle) {
                let prompt = sequence.request.prompt_tokens;
                self.pool.store_prompt(handle.slot, &sequence.pieces, prompt);
            }
        }
    }

    /// Those who end with a step leave in order of arrival.
    pub(in crate::engine) fn sort_by_arrival(&self, step: &mut Step) {
        let arrival = |handle: Handle| {
            let sequence = self.sequences.get(handle);
            sequence.map(|sequence| (sequence.request.arrival, sequence.request.id))
        };
        step.finishing.sort_by_key(|&(_, handle)| arrival(handle));
    }

    /// Blocks of somebody who leaves. What was not computed is not stored.
    pub(in crate::engine) fn give_back_reused(&mut self, slot: usize) {
        let allocated = self.allocated_tokens(slot);
        let sequence = &self.sequences[slot];
        let outputs = sequence.sampled.min(sequence.output_tokens) - sequence.undelivered;
        let known = sequence.request.prompt_tokens + outputs - 1;
        let stored = known.min(sequence.computed);
        self.pool
            .release_reused(slot, &sequence.pieces, stored, allocated);
    }
}
