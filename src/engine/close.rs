//! A step is closed: the pack computes in it, it is priced and put on the GPU, and the pack moves on.
//!
//! A batch is closed when its step is scheduled. Members of the pack whose last token the step samples leave it at once
//! if the scheduler can know (V1-15); sequences that sampled their first token in it join.

use std::hint::cold_path;

use super::replica::Replica;
use super::sequence::{Phase, Sequence};
use super::step::{Orphan, ScheduleRecord, Step};
use crate::kv::BlockPool;
use crate::units::Picos;

impl Replica {
    /// Makes a step of what is left of an old one; what it computes is to be set.
    #[inline(always)]
    pub(super) fn open(&mut self, step: &mut Step, now: Picos) {
        debug_assert!(step.is_blank(), "steps are put aside blank");
        step.number = self.scheduled_steps + 1;
        step.scheduled = now;
        step.overlapped = !self.in_flight.is_empty();
        self.preempted.clear();
    }

    /// Closes a step in which nobody but the pack computes, while nobody waits or whoever waits must go on waiting.
    #[inline(always)]
    pub(super) fn close_with_pack(&mut self, step: &mut Step) {
        self.pool.take(self.pack.blocks_due());
        self.pool.give_back(self.pack.blocks_passed(0));
        self.queue_undrained = self.waiting.len() > 0;
        let members = self.pack.members;
        (step.load.decode_seqs, step.load.sampled_rows) = (members, members);
        step.load.decode_kv_tokens = self.pack.context + u64::from(members);
        step.load.decode_longest = self.pack.longest();
        (step.load.decode_beyond, step.load.seqs_beyond) = self.pack.beyond();
        self.note_crowd(step);
        step.duration = self.cost.decodes(&step.load);
        self.put_on_gpu(step);
        self.advance_pack(1);
        if self.pack.has_ended() {
            self.end_members(step);
        }
        step.mark(step.discarded == 0);
    }

    /// Adds the pack to the step, prices it, and moves the pack's clock on.
    #[inline(always)]
    pub(super) fn close(&mut self, step: &mut Step) {
        self.add_pack(step);
        if self.stages.is_some() {
            cold_path();
            return self.put_on_stages(step);
        }
        step.duration = self.cost.any(&step.load);
        self.put_on_gpu(step);
        self.move_pack(step);
    }

    /// The pack computes in the step too; everybody else who does has been added.
    #[inline(always)]
    fn add_pack(&mut self, step: &mut Step) {
        let members = self.pack.members;
        step.load.decode_seqs += members;
        step.load.decode_kv_tokens += self.pack.context + u64::from(members);
        step.load.sampled_rows += members;
        step.load.decode_longest = step.load.decode_longest.max(self.pack.longest());
        let (tokens, beyond) = self.pack.beyond();
        step.load.decode_beyond += tokens;
        step.load.seqs_beyond += beyond;
        self.note_crowd(step);
    }

    /// Notes who computes in a step, who else is there and what is free; whoever samples a token ends a row of fruitless preemptions.
    #[inline(always)]
    fn note_crowd(&mut self, step: &mut Step) {
        if step.load.sampled_rows > 0 {
            self.fruitless_preemptions = 0;
        }
        (step.packed, step.membership) = (self.pack.members, self.membership);
        step.discarded = self.overrunning;
        step.running = self.sequences.running;
        step.waiting = self.not_admitted();
        step.free_blocks = self.pool.free();
        step.kv_slots = self.pack.slots_a_step();
    }

    /// Moves the pack on. Where windows begin to give back blocks, or sparse attention to leave tokens unread, steps are not alike with
    /// those before.
    #[inline(always)]
    pub(super) fn advance_pack(&mut self, steps: u64) {
        self.membership += u64::from(self.pack.advance(steps));
    }

    /// The step is queued behind those in flight.
    #[inline(always)]
    fn put_on_gpu(&mut self, step: &mut Step) {
        if let Some(jitter) = &mut self.jitter {
            cold_path();
            step.duration = jitter.disturb(step.duration);
        }
        step.begin = step.scheduled.max(self.gpu_free);
        if self.external.is_some() {
            cold_path();
            self.move_kv(step);
        }
        self.gpu_free = step.end();
        self.scheduled_steps = step.number;
        if self.log.is_some() {
            cold_path();
            self.log_step(step);
        }
    }

    /// The pack's clock passes the step: endings leave, sequences that have begun to decode join.
    #[inline(always)]
    fn move_pack(&mut self, step: &mut Step) {
        self.advance_pack(1);
        if self.pack.has_ended() {
            self.end_members(step);
        }
        if !self.stepwise {
            self.admit_to_pack(step);
        }
        step.note_whether_uniform();
    }

    /// Members whose last token the newest step samples leave the pack, whose clock has passed it.
    pub(super) fn end_members(&mut self, step: &mut Step) {
        while let Some(slot) = self.pack.pop_ended() {
            let sequence = &self.sequences[slot];
            step.finishes(sequence.order, sequence.handle);
            self.overrunning += 1;
            if self.ending_is_predicted(slot) {
                self.leave_pack(slot, Phase::Final);
                self.sequences[slot].last_step = step.number;
                self.sequences[slot].placeholder = u32::from(step.overlapped);
            }
        }
    }

    /// Sequences that sampled a token in the step and go on join the pack.
    #[inline(always)]
    fn admit_to_pack(&mut self, step: &Step) {
        let members = self.pack.members;
        for handle in &step.samples {
            let sequence = &mut self.sequences[handle.slot];
            if sequence.phase == Phase::Single
                && sequence.sampled < sequence.output_tokens
                && passes_as_in_pack(&self.pool, sequence, self.pack.in_flight)
            {
                let left = sequence.output_tokens - sequence.sampled;
                sequence.phase = Phase::Packed;
                sequence.place = self.pack.join(handle.slot, sequence.computed, left);
                sequence.packed_steps = (step.number + 1, u64::MAX);
            }
        }
        let joined = self.pack.members - members;
        self.membership += u64::from(joined);
        if joined as usize == self.singles.len() {
            self.singles.clear();
        } else if joined > 0 {
            let sequences = &self.sequences;
            self.singles
                .retain(|&slot| sequences[slot].phase == Phase::Single);
        }
    }

    /// Takes a sequence out of the pack and gives it a state of its own.
    pub(super) fn leave_pack(&mut self, slot: usize, phase: Phase) {
        let newest_overlapped = self.in_flight.back().is_some_and(|step| step.overlapped);
        let sequence = &mut self.sequences[slot];
        debug_assert_eq!(sequence.phase, Phase::Packed, "only members leave");
        let moved = self.pack.has_moved(&sequence.place);
        sequence.computed = self.pack.leave(slot, &sequence.place);
        let settled = sequence.computed.saturating_sub(1 + self.pack.in_flight);
        sequence.settled = sequence.settled.max(settled);
        let sampled = sequence.computed + 1 - sequence.request.prompt_tokens;
        sequence.sampled = sampled.min(sequence.output_tokens);
        sequence.phase = phase;
        sequence.packed_steps.1 = self.scheduled_steps;
        self.membership += 1;
        self.overrunning -= u32::from(sequence.sampled == sequence.output_tokens);
        if moved {
            (sequence.last_step, sequence.last_share) = (self.scheduled_steps, 1);
            sequence.placeholder = u32::from(newest_overlapped);
            sequence.sampled_last = true;
            let handle = sequence.handle;
            match self.in_flight.back_mut() {
                // Its last token comes with the common gap.
                _ if phase == Phase::Final => {}
                Some(newest) => newest.is_left_by(handle),
                None => sequence.story.note_token_at(self.last_end),
            }
        }
    }

    pub(super) fn log_step(&mut self, step: &Step) {
        let mut shares = Vec::new();
        let mut at = self.sequences.first_running;
        while let Some(slot) = at {
            let sequence = &self.sequences[slot];
            match sequence.phase {
                Phase::Packed => {
                    let before = self.pack.computed(&sequence.place);
                    shares.push((sequence.order, (sequence.request.id, before, 1)));
                }
                _ if sequence.last_step == step.number => {
                    let before = sequence.computed - sequence.last_share;
                    shares.push((sequence.order, (sequence.request.id, before, sequence.last_share)));
                }
                _ => {}
            }
            at = sequence.next;
        }
        let told = |orphan: &Orphan| (orphan.order, (orphan.id, orphan.before, orphan.tokens));
        shares.extend(step.orphans.iter().map(told));
        shares.sort_by_key(|&(order, _)| order);
        // A share whose sequence was preempted is not verified.
        let is_orphan = |order: u64| step.orphans.iter().any(|orphan| orphan.order == order);
        let mut verified = step.verified.iter().map(|share| share.drafts);
        let drafts = match step.verified.is_empty() {
            true => Vec::new(),
            false => shares
                .iter()
                .map(|&(order, _)| match is_orphan(order) {
                    true => 0,
                    false => verified.next().expect("every share that stays is verified"),
                })
                .collect(),
        };
        let record = ScheduleRecord {
            scheduled: step.scheduled,
            begin: step.begin,
            duration: step.duration,
            shares: shares.into_iter().map(|(_, share)| share).collect(),
            drafts,
            preempted: self.preempted.clone(),
            free_blocks: step.free_blocks,
            running: step.running,
            waiting: step.waiting,
        };
        self.log.as_mut().expect("only called with a log").push(record);
    }
}

/// Whether the windows of a sequence have passed, and will pass in its next step, what they pass of a member of the pack,
/// whose steps were all of one token. Behind a chunk they lag by a step or two.
#[inline]
fn passes_as_in_pack(pool: &BlockPool, sequence: &Sequence, in_flight: u32) -> bool {
    let computed = sequence.computed;
    let lags = |share: u32| computed.saturating_sub(in_flight * share);
    pool.passes_alike(sequence.settled, computed.saturating_sub(1 + in_flight))
        && pool.passes_alike(lags(sequence.last_share), lags(1))
}
