//! What a step computes: `schedule()` of vLLM V1 (`v1/core/sched/scheduler.py`, `Scheduler.schedule`).
//!
//! Part A serves the running sequences in order of admission, part B (`admit.rs`) admits waiting ones with what is left
//! of the token budget. Where the budget and the free blocks suffice for everybody running, order decides nothing and the
//! pack is served as a whole; else part A walks `running` as the engine does.

use std::hint::cold_path;

use super::Policy;
use super::budget::Budget;
use super::replica::Replica;
use super::sequence::Phase;
use super::step::Step;
use crate::facts::Observer;
use crate::units::Picos;

impl Replica {
    /// Decides the next step; `None` if nothing can be scheduled.
    #[inline(always)]
    pub(super) fn schedule<O: Observer>(&mut self, now: Picos, observer: &mut O) -> Option<Box<Step>> {
        let mut step = self.spare_steps.pop().unwrap_or_default();
        self.open(&mut step, now);
        self.pool.set_clock(now);
        if self.external.is_some() {
            cold_path();
            self.notice_loads(now);
        }
        if self.singles.is_empty() && self.nobody_waits() && self.pack_can_go_on() {
            self.admission_closed = true;
            self.close_with_pack(&mut step);
            return Some(step);
        }
        self.choose(step, now, observer)
    }

    /// Decides a step in which not only the pack may compute.
    #[inline(never)]
    fn choose<O: Observer>(
        &mut self,
        mut step: Box<Step>,
        now: Picos,
        observer: &mut O,
    ) -> Option<Box<Step>> {
        step.load.clear();
        step.carries_prefill = false;
        if self.capacity.is_some() {
            cold_path();
            self.compose(&mut step, now, observer);
            return self.close_unless_empty(step);
        }
        let mut budget = self.open_budget();
        if !self.serve_all(&mut step, &mut budget) {
            cold_path();
            self.serve_in_order(&mut step, &mut budget, now, observer);
        }
        (budget.runs_prefill, budget.picked_anybody) = (step.carries_prefill, !self.picks.is_empty());
        self.admit(&mut step, &mut budget, now, observer);
        self.note_prefill(&step, budget.hold_prefill);
        self.close_unless_empty(step)
    }

    /// The step is closed, unless nobody computes in it.
    #[inline(always)]
    fn close_unless_empty(&mut self, mut step: Box<Step>) -> Option<Box<Step>> {
        if self.pack.members == 0 && step.load.decode_seqs == 0 && step.load.chunks.is_empty() {
            cold_path();
            step.clear();
            self.spare_steps.push(step);
            return None;
        }
        self.close(&mut step);
        Some(step)
    }

    /// Somebody is in the pack, and budget and free blocks suffice for all of it.
    #[inline(always)]
    pub(super) fn pack_can_go_on(&self) -> bool {
        self.pack.members > 0
            && self.pack.members <= self.config.max_num_batched_tokens
            && self.pack.blocks_due() + self.phantom_blocks() <= self.pool.free()
    }

    #[inline(always)]
    fn open_budget(&self) -> Budget {
        let eligible = self.sequences.running + self.waiting.len();
        let limit = self.config.long_prefill_token_threshold;
        let off = limit == 0 || (self.config.switches.threshold_not_when_alone && eligible <= 1);
        let hold_prefill = self.within_prefill_interval() && !self.queue_undrained && self.someone_decodes();
        Budget {
            tokens: self.config.max_num_batched_tokens,
            slots: self.config.runner_slots(),
            slots_aside: self.draft_slots(),
            threshold: if off { u32::MAX } else { limit },
            hold_prefill,
            runs_prefill: false,
            picked_anybody: false,
        }
    }

    /// Fewer steps than the interval have passed since one that carried prefill (V1-16).
    #[inline]
    pub(super) fn within_prefill_interval(&self) -> bool {
        if self.last_prefill_step == 0 {
            return false;
        }
        cold_path();
        let interval = u64::from(self.config.prefill_schedule_interval);
        self.scheduled_steps + 1 - self.last_prefill_step < interval
    }

    /// A running sequence sampled in its last share (V1-16 asks for one that is decoding).
    fn someone_decodes(&self) -> bool {
        let mut at = self.sequences.first_running;
        while let Some(slot) = at {
            let sequence = &self.sequences[slot];
            if sequence.phase != Phase::Single || sequence.sampled_last {
                return true;
            }
            at = sequence.next;
        }
        false
    }

    /// Tokens that a running sequence outside the pack asks for, before the budget.
    #[inline]
    fn demand(&self, slot: usize, budget: &Budget) -> u32 {
        let sequence = &self.sequences[slot];
        if budget.hold_prefill && !sequence.sampled_last {
            return 0;
        }
        if self.is_sure_to_end(slot) || self.is_before_its_turn(slot) {
            return 0;
        }
        let room = self.config.max_model_len.saturating_sub(sequence.computed + 1);
        let wanted = sequence.missing_tokens() + self.drafts_of(slot);
        wanted.min(budget.threshold).min(room)
    }

    /// Part A where everybody gets what it asks for (only the last in `running` may be cut by the budget).
    #[inline(always)]
    fn serve_all(&mut self, step: &mut Step, budget: &mut Budget) -> bool {
        if self.pack.members > budget.tokens || budget.slots_aside > 0 {
            return false;
        }
        self.picks.clear();
        if !self.singles.is_empty() {
            return self.serve_all_singles(step, budget);
        }
        let blocks = self.pack.blocks_due();
        if blocks > self.pool.free() {
            return false;
        }
        self.serve_pack(blocks, budget);
        true
    }

    /// The pack is served as a whole, with so many blocks, its own among them.
    #[inline]
    fn serve_pack(&mut self, blocks: u32, budget: &mut Budget) {
        self.pool.take(blocks);
        self.pool.give_back(self.pack.blocks_passed(0));
        budget.slots -= self.pack.members;
        budget.tokens -= self.pack.members;
    }

    /// Part A where everybody gets what it asks for, and somebody runs outside the pack.
    #[inline(never)]
    fn serve_all_singles(&mut self, step: &mut Step, budget: &mut Budget) -> bool {
        let mut left = budget.tokens - self.pack.members;
        // As if windows gave back nothing: where only that does not suffice, order decides.
        let mut blocks = self.pack.blocks_due();
        for at in 0..self.singles.len() {
            let slot = self.singles[at];
            let mut tokens = self.demand(slot, budget);
            if tokens > left {
                if self.sequences.last_running != Some(slot) {
                    return false;
                }
                tokens = left;
            }
            if tokens == 0 {
                continue;
            }
            let computed = self.sequences[slot].computed;
            blocks += self.blocks_for_share(slot, computed, tokens);
            left -= tokens;
            self.picks.push((slot, tokens));
        }
        if blocks > self.pool.free() {
            return false;
        }
        self.serve_pack(blocks, budget);
        budget.slots -= budget.tokens - left;
        budget.tokens = left;
        for at in 0..self.picks.len() {
            let (slot, tokens) = self.picks[at];
            step.carries_prefill |= !self.sequences[slot].sampled_last;
            self.pass_windows(slot);
            self.extend_reach(slot, tokens);
            self.share_out(slot, tokens, step);
        }
        true
    }

    /// Part A as the engine walks it: in order of admission, preempting where blocks run out (V1-11 to V1-26).
    #[inline(never)]
    fn serve_in_order<O: Observer>(
        &mut self,
        step: &mut Step,
        budget: &mut Budget,
        now: Picos,
        observer: &mut O,
    ) {
        self.picks.clear();
        let mut at = self.sequences.first_running;
        while let Some(slot) = at
            && budget.has_room()
        {
            let tokens = match self.sequences[slot].phase {
                Phase::Packed => 1,
                Phase::Single => self.demand(slot, budget).min(budget.most()),
                Phase::Final => 0,
                Phase::Waiting | Phase::Loading => {
                    unreachable!("a waiting sequence is not in running")
                }
            };
            if tokens == 0 {
                at = self.sequences[slot].next;
                continue;
            }
            self.pass_windows(slot);
            let computed = self.computed(slot);
            let blocks = self.blocks_for_share(slot, computed, tokens);
            let made = self.preempt_for(slot, blocks, step, budget, now, observer);
            at = self.sequences[slot].next;
            let Some(passed_over) = made else {
                if self.config.policy == Policy::Fcfs || !self.config.switches.eviction_restores_budget {
                    break;
                }
                continue;
            };
            self.pool.take(blocks);
            let sequence = &self.sequences[slot];
            // Also if it is preempted later in this step (V1-16).
            step.carries_prefill |= sequence.phase == Phase::Single && !sequence.sampled_last;
            self.register_share(slot, tokens, step);
            self.picks.push((slot, tokens));
            budget.spend(tokens);
            if !self.config.switches.eviction_restores_budget {
                // 0.11 keeps its index when an earlier element goes, and so passes over one request each.
                for _ in 0..passed_over {
                    at = at.and_then(|slot| self.sequences[slot].next);
                }
            }
        }
        self.unpack_passed_over();
        for at in 0..self.picks.len() {
            let (slot, tokens) = self.picks[at];
            if self.sequences[slot].phase == Phase::Single {
                self.share_out(slot, tokens, step);
            }
        }
    }

    /// Registers what a sequence outside the pack fills with its share, as `allocate` does (V1-43): whoever is preempted in
    /// this step registers what it holds after those served before it.
    fn register_share(&mut self, slot: usize, tokens: u32, step: &Step) {
        if self.sequences[slot].phase != Phase::Single {
            return;
        }
        if self.config.speculation.is_some() {
            self.extend_reach(slot, tokens);
            return self.register_drafted(slot, self.sequences[slot].computed + tokens);
        }
        let unknown_input = self.input_is_unknown(slot, step);
        let sequence = &mut self.sequences[slot];
        let placeholder = u32::from(sequence.missing_tokens() == 1 && unknown_input);
        let allocated = sequence.computed + tokens;
        self.pool.register(
            &mut sequence.held,
            &sequence.pieces,
            allocated - placeholder,
            allocated,
        );
    }

    /// Gives back the blocks of a running sequence that its windows have passed since it last took some (V1-35).
    fn pass_windows(&mut self, slot: usize) {
        if self.config.kv_groups.keeps_all() {
            return;
        }
        let computed = self.computed(slot);
        let sequence = &self.sequences[slot];
        let (from, settled) = match sequence.phase {
            Phase::Packed => {
                let settled = computed.saturating_sub(self.pack.in_flight);
                (settled.saturating_sub(1), settled)
            }
            _ => (sequence.settled, self.settled(slot)),
        };
        self.pool.give_back(self.pool.passed_between(from, settled));
        self.sequences[slot].settled = settled;
    }

    /// Computed tokens of a sequence outside the pack that its windows may count on.
    fn settled(&self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        let is_in_flight = self.config.switches.windows_settle && sequence.last_step > self.processed_steps;
        sequence.computed - u32::from(is_in_flight) * sequence.last_share
    }

    /// Members of the pack that got nothing leave it.
    fn unpack_passed_over(&mut self) {
        let served = self
            .picks
            .iter()
            .filter(|(slot, _)| self.sequences[*slot].phase == Phase::Packed)
            .count();
        if served == self.pack.members as usize {
            return;
        }
        let mut picked = self.picks.iter().map(|&(slot, _)| slot).peekable();
        let mut at = self.sequences.first_running;
        let mut passed_over = Vec::new();
        while let Some(slot) = at {
            at = self.sequences[slot].next;
            if picked.next_if_eq(&slot).is_none() && self.sequences[slot].phase == Phase::Packed {
                passed_over.push(slot);
            }
        }
        for slot in passed_over {
            self.leave_pack(slot, Phase::Single);
            self.singles.push(slot);
        }
        let sequences = &self.sequences;
        self.singles.sort_unstable_by_key(|&slot| sequences[slot].order);
    }

    /// Computed tokens of any running sequence.
    pub(super) fn computed(&self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        match sequence.phase {
            Phase::Packed => self.pack.computed(&sequence.place),
            _ => sequence.computed,
        }
    }

    /// Tokens at the end of a sequence's computed ones whose content was not known when they were scheduled, and whose
    /// step is still in flight: their blocks are not registered yet (V1-43, V1-44).
    #[inline]
    pub(super) fn unregistered_tokens(&self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        if sequence.last_step > self.processed_steps {
            sequence.placeholder
        } else {
            0
        }
    }

    /// Gives a sequence outside the pack `tokens` tokens of the step; its blocks are taken already.
    pub(super) fn share_out(&mut self, slot: usize, tokens: u32, step: &mut Step) {
        if self.config.speculation.is_some() {
            cold_path();
            return self.share_out_drafted(slot, tokens, step);
        }
        let unknown_input = self.input_is_unknown(slot, step);
        let sequence = &mut self.sequences[slot];
        let (before, missing) = (sequence.computed, sequence.missing_tokens());
        step.load.add_within(before, tokens, self.reads_at_most);
        if self.external.is_some() {
            cold_path();
            step.shares.push((slot, before, before + tokens));
        }
        sequence.computed += tokens;
        sequence.last_share = tokens;
        sequence.placeholder = u32::from(missing == 1 && unknown_input);
        sequence.last_step = step.number;
        sequence.sampled_last = tokens == missing;
        step.recomputed_tokens += sequence.story.recomputed(before, sequence.computed);
        let registered = sequence.computed - sequence.placeholder;
        self.pool.register(
            &mut sequence.held,
            &sequence.pieces,
            registered,
            sequence.computed,
        );
        if sequence.sampled_last {
            self.await_token(slot, step);
            self.sample(slot, step);
        }
    }

    /// A sequence outside the pack samples a token in the step.
    #[inline(always)]
    fn sample(&mut self, slot: usize, step: &mut Step) {
        let predicted = self.ending_is_predicted(slot);
        let sequence = &mut self.sequences[slot];
        step.load.sampled_rows += 1;
        sequence.sampled += 1;
        let handle = sequence.handle;
        if sequence.sampled > sequence.output_tokens {
            // The over-run of an ending that the scheduler did not foresee: computed, then thrown away.
            return;
        }
        step.samples.push(handle);
        if sequence.sampled == sequence.output_tokens {
            step.finishes(sequence.order, handle);
            if predicted {
                sequence.phase = Phase::Final;
                self.singles.retain(|&other| other != slot);
            }
        }
    }

    /// Nothing is scheduled behind the last token: its length is known (V1-15), or `max_model_len` leaves no room.
    #[inline]
    pub(super) fn ending_is_predicted(&self, slot: usize) -> bool {
        if self.stages.is_some() && !self.config.is_asynchronous() {
            cold_path();
            // Whose token is not known is not asked for another one.
            return false;
        }
        let sequence = &self.sequences[slot];
        let cut = sequence.request.prompt_tokens + sequence.output_tokens >= self.config.max_model_len;
        cut || (self.config.switches.overrun_guard && !sequence.request.ends_by_eos())
    }

    /// Remembers what V1-16 asks about, also of a pass that computes nothing. A queue that was not looked at, because
    /// prefill was held or somebody was preempted, says nothing.
    #[inline]
    fn note_prefill(&mut self, step: &Step, held: bool) {
        if self.config.prefill_schedule_interval <= 1 {
            return;
        }
        cold_path();
        let empty = self.pack.members == 0 && step.load.decode_seqs == 0 && step.load.chunks.is_empty();
        if step.carries_prefill {
            self.last_prefill_step = if empty { self.scheduled_steps } else { step.number };
        }
        if !held && self.preempted.is_empty() {
            let deferred = self.stages.as_ref().map_or(0, |stages| stages.deferred());
            self.queue_undrained = self.waiting.len() > deferred;
        }
    }
}
