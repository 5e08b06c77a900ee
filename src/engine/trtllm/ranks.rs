//! A server as one of several ranks whose attention is data parallel: what it could compute, before all ranks decide whether they do (TR-13,
//! TR-15 of [`super`]).

use super::schedule::Prompts;
use crate::engine::Replica;
use crate::engine::sequence::Phase;
use crate::units::Picos;

/// Requests that would compute in the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtHand {
    /// Who computes a prompt, or a part of it.
    pub(crate) prompts: u32,
    /// Who decodes.
    pub(crate) decodes: u32,
}

impl Replica {
    /// What a step decided at `now` would compute. Nothing but the inbox is touched.
    pub(crate) fn at_hand(&mut self, now: Picos) -> AtHand {
        self.drain(now);
        let decodes = |&&slot: &&usize| {
            let sequence = &self.sequences[slot];
            sequence.sampled_last && sequence.phase == Phase::Single
        };
        let decodes = self.pack.members + self.singles.iter().filter(decodes).count() as u32;
        let (room, was_closed) = (self.room(), self.admission_closed);
        let capacity = self.capacity.take().expect("asked of TensorRT-LLM only");
        let mut prompts = Prompts::default();
        if self.may_prefill(&capacity) {
            let left = self.config.max_num_batched_tokens - decodes;
            let left = self.pick_prefilling(&capacity, left, &mut prompts);
            self.pick_waiting(&capacity, left, room, &mut prompts);
        }
        (self.capacity, self.admission_closed) = (Some(capacity), was_closed);
        let going_on = usize::from(prompts.going_on.is_some());
        AtHand {
            prompts: (going_on + prompts.starting.len()) as u32,
            decodes,
        }
    }

    /// Whether the prompts of the next step are put off.
    pub(crate) fn put_prompts_off(&mut self, is_so: bool) {
        if let Some(capacity) = &mut self.capacity {
            capacity.are_put_off = is_so;
        }
    }
}
