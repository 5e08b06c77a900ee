//! Who goes when blocks run out while part A of `schedule()` walks `running`, and what it loses (V1-22 to V1-26).

use super::Policy;
use super::budget::Budget;
use super::external::Leaving;
use super::replica::Replica;
use super::sequence::Phase;
use super::step::{Orphan, Step};
use crate::facts::Observer;
use crate::units::Picos;

impl Replica {
    /// Preempts until so many blocks are free for a running sequence. How many went that stand before it; `None` if it
    /// went itself, though it still tells who stood behind it.
    pub(super) fn preempt_for<O: Observer>(
        &mut self,
        slot: usize,
        blocks: u32,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) -> Option<u32> {
        let mut earlier = 0;
        while blocks > self.pool.free() {
            let victim = self.victim();
            self.preempt(victim, step, budget, now, observer);
            if victim == slot {
                return None;
            }
            earlier += u32::from(self.sequences[victim].order < self.sequences[slot].order);
        }
        Some(earlier)
    }

    /// Whom to preempt (V1-22): the last admitted, or the largest `(priority, arrival)`, the first of equals.
    fn victim(&self) -> usize {
        if self.config.policy == Policy::Fcfs {
            return self
                .sequences
                .last_running
                .expect("somebody runs while part A walks");
        }
        let mut at = self.sequences.first_running;
        let mut worst: Option<(i64, Picos, usize)> = None;
        while let Some(slot) = at {
            let sequence = &self.sequences[slot];
            let rank = (sequence.request.priority, sequence.request.arrival);
            if worst.is_none_or(|(priority, arrival, _)| rank > (priority, arrival)) {
                worst = Some((rank.0, rank.1, slot));
            }
            at = sequence.next;
        }
        worst.expect("somebody runs while part A walks").2
    }

    /// Takes everything from a running sequence and puts it back into the waiting queue (V1-23, V1-24).
    fn preempt<O: Observer>(
        &mut self,
        slot: usize,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) {
        self.telling.flush(observer);
        let picked = self.picks.iter().position(|&(other, _)| other == slot);
        let tokens = picked.map_or(0, |at| self.picks.remove(at).1);
        if self.config.switches.eviction_restores_budget {
            budget.restore(tokens);
        }
        match self.sequences[slot].phase {
            Phase::Packed => self.leave_pack(slot, Phase::Waiting),
            Phase::Single => self.singles.retain(|&other| other != slot),
            Phase::Final | Phase::Waiting | Phase::Loading => {}
        }
        let decodes = self.sequences[slot].missing_tokens() <= 1;
        let unknown = if tokens == 1 && decodes {
            u32::from(self.input_is_unknown(slot, step))
        } else if tokens > 0 {
            0
        } else {
            self.unregistered_tokens(slot)
        };
        self.sequences.unlink_running(slot);
        self.take_back_promise(slot);
        let allocated = self.allocated_tokens(slot) + tokens;
        let (allocated, registered) = match self.config.speculation {
            Some(_) => self.drop_drafts(slot),
            None => (allocated, allocated - unknown),
        };
        let sequence = &mut self.sequences[slot];
        let (held, pieces) = (&mut sequence.held, &sequence.pieces);
        self.pool.expect_again(held, pieces);
        self.pool
            .release_rest(held, pieces, registered, allocated, sequence.settled);
        let lost = std::mem::take(&mut sequence.computed);
        observer.observe(&sequence.story.preempt(&sequence.request, self.id, now, lost));
        if tokens > 0 && !self.config.switches.eviction_restores_budget {
            // 0.11 takes the victim out of `running` and not out of the step: its share is computed, and counts as its
            // computed tokens when it comes back.
            let before = match self.config.speculation {
                // Drafts that were rejected have gone off `computed` since.
                Some(_) => sequence.drafting.began,
                None => lost - sequence.last_share,
            };
            let (order, id) = (sequence.order, sequence.request.id);
            step.orphans.push(Orphan {
                order,
                id,
                before,
                tokens,
            });
            step.load.add_within(before, tokens, self.reads_at_most);
            step.recomputed_tokens += sequence.story.recomputed(0, tokens);
            sequence.computed = tokens;
        }
        sequence.phase = Phase::Waiting;
        self.fruitless_preemptions += 1;
        self.preempted.push(sequence.request.id);
        let handle = sequence.handle;
        self.waiting.push_front(handle, &self.sequences[slot].request);
        self.tell_connector(slot, now, Leaving::Preempted);
    }
}
