//! Preemption by priority (`PrefillAdder.preempt_to_schedule`, SG-43).

use std::cmp::Reverse;

use super::PriorityRule;
use super::adder::Adder;
use super::replica::SglangReplica;
use super::sequence::CLIP_MAX_NEW_TOKENS;
use crate::engine::Handle;
use crate::facts::Observer;
use crate::units::Picos;

impl SglangReplica {
    /// Sends running requests of a much lower priority back to the queue, the lowest and among equals the newest first,
    /// until a candidate fits. All or nothing: whether it was done.
    pub(super) fn push_out_for<O: Observer>(
        &mut self,
        slot: usize,
        adder: &mut Adder,
        now: Picos,
        observer: &mut O,
    ) -> bool {
        let Some(rule) = self.config.priority else {
            return false;
        };
        let mut lower = self.much_lower_than(slot, rule);
        // Of a candidate that was never tried the engine does not know the length yet.
        let (known, prefix) = self.sequences[slot].tried;
        let extend = known - prefix;
        let output = self.sequences[slot].max_new.min(CLIP_MAX_NEW_TOKENS);
        let mut missing = f64::from(extend + output) - self.rem_total(adder);
        let mut victims = 0;
        for handle in &lower {
            if victims > 0 && missing <= 0.0 && self.config.switches.preempts_sparingly {
                break;
            }
            missing -= self.expected(handle.slot);
            victims += 1;
        }
        if victims == 0 || missing > 0.0 {
            return false;
        }
        lower.truncate(victims);
        let running = std::mem::take(&mut self.running);
        let (pushed_out, rest): (Vec<Handle>, Vec<Handle>) =
            running.iter().partition(|&handle| lower.contains(handle));
        self.running = rest;
        let mut left = running.len();
        for handle in pushed_out {
            let giver = if self.config.switches.preempts_sparingly {
                handle.slot
            } else {
                slot
            };
            adder.offset -= self.expected(giver);
            self.send_back(handle.slot, now, observer);
            left -= 1;
            self.make_headroom(left);
        }
        self.membership += 1;
        true
    }

    /// Running requests that may make room for a candidate, in the order in which they go.
    fn much_lower_than(&self, slot: usize, rule: PriorityRule) -> Vec<Handle> {
        let urgency = |slot: usize| rule.urgency(self.sequences[slot].request.priority);
        let threshold = rule.preemption_threshold.into();
        let is_lower =
            |handle: &Handle| self.is_running(*handle) && urgency(slot) - urgency(handle.slot) > threshold;
        let mut lower: Vec<Handle> = self.running.iter().copied().filter(is_lower).collect();
        lower.sort_by_key(|handle| {
            let joined = self.sequences[handle.slot].joined;
            (urgency(handle.slot), Reverse(joined))
        });
        lower
    }

    /// Tokens that a running request is expected to generate yet.
    fn expected(&self, slot: usize) -> f64 {
        let sequence = &self.sequences[slot];
        f64::from(sequence.remaining()) * self.ratio_of(sequence)
    }
}
