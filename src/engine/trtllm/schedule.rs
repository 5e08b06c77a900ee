//! What a step computes: whoever decodes, then prompts in order of arrival as far as memory, seats and tokens go.
//!
//! Memory is a sum where nobody is ever paused: the blocks that are free, less those that everybody running still needs to its
//! end (`NoEvictScheduledBlocksManager`), are all blocks less the whole sequences of everybody running.

use std::hint::cold_path;

use super::config::{BlockReuse, CapacityPolicy, TrtllmConfig};
use super::reuse::Contributed;
use crate::cost::StepCost;
use crate::engine::budget::Budget;
use crate::engine::sequence::Phase;
use crate::engine::step::Step;
use crate::engine::{Handle, Replica};
use crate::facts::Observer;
use crate::ids::ReplicaId;
use crate::kv::{Held, ReusePool};
use crate::units::Picos;

/// Who may run, and what was promised to whoever does.
#[derive(Debug)]
pub(crate) struct Capacity {
    policy: CapacityPolicy,
    /// A part of a prompt is a multiple of so many tokens; `None` where prompts are never split.
    chunk_unit: Option<u32>,
    /// Blocks of the whole sequences of everybody running, where they are promised.
    promised: u64,
    /// No prompt that ever came is shorter: with fewer tokens left there is nobody to look for.
    shortest_prompt: u32,
    /// Steps that prompts may be put off while others decode, and the tokens of a step that is not.
    wait_iters: u32,
    wait_tokens: u32,
    /// Steps for which they have been.
    waited: u32,
    /// All ranks put their prompts off (TR-15).
    pub(super) are_put_off: bool,
}

/// Prompts that memory, seats and tokens allow in a step.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    /// Who goes on with its prompt, and with how many tokens.
    pub(super) going_on: Option<(usize, u32)>,
    /// Who starts, and with how many tokens.
    pub(super) starting: Vec<(Handle, u32)>,
    /// Who keeps seat and blocks, and waits, or is put off for another's blocks: all stand at the head of the queue, in their orders.
    passed_over: Vec<Handle>,
    /// Tokens of all their prompts, whole.
    whole_tokens: u64,
}

impl Prompts {
    /// How many at the head of the queue have their place in the step or behind it.
    fn looked_at(&self) -> usize {
        self.starting.len() + self.passed_over.len()
    }
}

impl Capacity {
    fn new(config: &TrtllmConfig) -> Capacity {
        Capacity {
            policy: config.capacity_scheduler_policy,
            chunk_unit: config.enable_chunked_prefill.then_some(config.tokens_per_block),
            promised: 0,
            shortest_prompt: u32::MAX,
            wait_iters: config.batch_wait_iters,
            wait_tokens: config.batch_wait_tokens,
            waited: 0,
            are_put_off: false,
        }
    }

    /// Whole sequences are promised their blocks.
    pub(in crate::engine) fn promises(&self) -> bool {
        self.policy != CapacityPolicy::MaxUtilization
    }

    /// Nobody computes in one step with another what both could share.
    pub(super) fn puts_off_equals(&self) -> bool {
        self.policy != CapacityPolicy::StaticBatch
    }

    /// A request of so many prompt tokens has come.
    pub(in crate::engine) fn note_prompt(&mut self, tokens: u32) {
        self.shortest_prompt = self.shortest_prompt.min(tokens);
    }

    /// Nobody runs any more.
    pub(in crate::engine) fn forget(&mut self) {
        (self.promised, self.waited) = (0, 0);
    }

    /// Whether these prompts are put off although they might be computed (`_waiting_requests`).
    fn puts_off(&mut self, prompts: &Prompts, decodes: u32) -> bool {
        let anybody = prompts.going_on.is_some() || !prompts.starting.is_empty();
        if self.are_put_off || !anybody || decodes == 0 {
            return self.are_put_off && anybody;
        }
        let tokens = prompts.whole_tokens + u64::from(decodes);
        let puts_off = self.waited < self.wait_iters && tokens < u64::from(self.wait_tokens);
        self.waited = if puts_off { self.waited + 1 } else { 0 };
        puts_off
    }

    /// Tokens of a prompt that lacks `missing`, where `left` may be computed: all, or a part of whole units
    /// (`setCtxRequestsChunkSize`, first come first served).
    fn share(&self, missing: u32, left: u32) -> u32 {
        match self.chunk_unit {
            _ if missing <= left => missing,
            Some(unit) => left / unit * unit,
            None => 0,
        }
    }
}

impl Replica {
    /// An empty server of TensorRT-LLM.
    pub(crate) fn of_trtllm(
        id: ReplicaId,
        config: &TrtllmConfig,
        cost: Box<dyn StepCost>,
        stepwise: bool,
    ) -> Replica {
        let mut replica = Replica::new(id, config.as_loop(), cost, stepwise);
        replica.capacity = Some(Box::new(Capacity::new(config)));
        if config.block_reuse != BlockReuse::Off {
            assert!(
                config.capacity_scheduler_policy != CapacityPolicy::MaxUtilization,
                "nobody is paused where blocks are reused"
            );
            replica.pool = replica.pool.reusing(config.block_reuse == BlockReuse::Partial);
        }
        replica
    }

    /// Blocks of a request's whole sequence, with the longest answer that it may have (`getRemainingBlocksToCompletion`).
    pub(in crate::engine) fn whole_sequence(&self, prompt_tokens: u32, max_tokens: u32) -> u32 {
        let longest = u64::from(prompt_tokens) + u64::from(max_tokens);
        let longest = longest.min(u64::from(self.config.max_model_len)) as u32;
        self.pool.blocks_for(longest)
    }

    fn promise_to(&self, slot: usize) -> u64 {
        let request = &self.sequences[slot].request;
        self.whole_sequence(request.prompt_tokens, request.max_tokens)
            .into()
    }

    /// A sequence that ran does so no longer, and needs no more blocks.
    #[inline]
    pub(in crate::engine) fn take_back_promise(&mut self, slot: usize) {
        if self.capacity.is_none() {
            return;
        }
        cold_path();
        let blocks = self.promise_to(slot);
        if let Some(capacity) = &mut self.capacity {
            capacity.promised -= blocks;
        }
    }

    /// Tokens for which a running sequence holds blocks: all that it knew when it started, from its first chunk on.
    pub(in crate::engine) fn allocated_tokens(&self, slot: usize) -> u32 {
        let sequence = &self.sequences[slot];
        match sequence.sampled_last || self.capacity.is_none() {
            true => sequence.computed,
            false => sequence.known_tokens(),
        }
    }

    /// Blocks that are counted for whoever's last token is being computed as if another were to come, and that it never takes
    /// (`getNeededBlocksOneStep`).
    #[inline]
    pub(in crate::engine) fn phantom_blocks(&self) -> u32 {
        let Some(rule) = &self.capacity else {
            return 0;
        };
        cold_path();
        match rule.promises() {
            true => 0,
            false => self.blocks_of_finals(),
        }
    }

    fn blocks_of_finals(&self) -> u32 {
        let finishing = self.in_flight.iter().flat_map(|step| &step.finishing);
        let last = finishing.filter_map(|(_, handle)| self.sequences.get(*handle));
        let last = last.filter(|sequence| sequence.phase == Phase::Final);
        last.map(|sequence| self.pool.blocks_between(sequence.computed, sequence.computed + 1))
            .sum()
    }

    /// Blocks for those who wait.
    pub(super) fn room(&self) -> u64 {
        match &self.capacity {
            Some(rule) if rule.promises() => {
                // A block that several hold is promised to each.
                let shared = self.pool.reuse().map_or(0, ReusePool::shared);
                u64::from(self.pool.total() + shared) - rule.promised
            }
            _ => u64::from(self.pool.free() - self.phantom_blocks()),
        }
    }

    /// Composes a step.
    pub(in crate::engine) fn compose<O: Observer>(&mut self, step: &mut Step, now: Picos, observer: &mut O) {
        let (left, owed) = self.decode_everybody(step, now, observer);
        let room = self.room();
        let mut capacity = self.capacity.take().expect("asked of TensorRT-LLM only");
        self.admission_closed = self.nobody_waits();
        self.admission_needs = u32::MAX;
        if self.may_prefill(&capacity) {
            let mut prompts = Prompts::default();
            let left = self.pick_prefilling(&capacity, left, &mut prompts);
            // Nobody behind whoever is paused is looked at.
            if self.preempted.is_empty() {
                self.pick_waiting(&capacity, left, room, &mut prompts);
            }
            let decodes = step.load.decode_seqs + self.pack.members;
            if capacity.puts_off(&prompts, decodes) {
                self.admission_closed = false;
            } else {
                self.give_out(&mut capacity, prompts, step, now, observer);
            }
        } else {
            self.admission_closed = true;
        }
        self.pool.take(owed);
        self.admission_closed |= self.nobody_waits();
        self.capacity = Some(capacity);
    }

    /// Whoever decodes gets its token, and those who started last are paused if blocks run out. What is left of the budget, and the
    /// blocks that are taken when prompts have theirs, where it matters which those are (TR-3).
    fn decode_everybody<O: Observer>(&mut self, step: &mut Step, now: Picos, observer: &mut O) -> (u32, u32) {
        self.picks.clear();
        let mut blocks = self.pack.blocks_due();
        for at in 0..self.singles.len() {
            let slot = self.singles[at];
            let sequence = &self.sequences[slot];
            if sequence.sampled_last {
                blocks += self.pool.blocks_between(sequence.computed, sequence.computed + 1);
                self.picks.push((slot, 1));
            }
        }
        if blocks + self.phantom_blocks() > self.pool.free() {
            let promises = self.capacity.as_ref().is_some_and(|rule| rule.promises());
            assert!(!promises, "blocks that were promised are free");
            self.decode_in_order(step, now, observer);
            blocks = 0;
        } else if !self.reuses() {
            self.pool.take(blocks);
            blocks = 0;
        }
        let mut served = self.pack.members;
        for at in 0..self.picks.len() {
            let (slot, tokens) = self.picks[at];
            if self.sequences[slot].phase == Phase::Single {
                self.share_out(slot, tokens, step);
                served += 1;
            }
        }
        let budget = self.config.max_num_batched_tokens;
        let left = budget
            .checked_sub(served)
            .expect("a step has room for a token of everybody running");
        (left, blocks)
    }

    /// As the engine walks, in order of admission, where blocks do not suffice for all (`MaxUtilizationScheduler`).
    fn decode_in_order<O: Observer>(&mut self, step: &mut Step, now: Picos, observer: &mut O) {
        self.picks.clear();
        let mut budget = Budget::of_tokens(self.config.max_num_batched_tokens);
        let mut at = self.sequences.first_running;
        let mut phantom = 0;
        while let Some(slot) = at {
            let computed = self.computed(slot);
            let blocks = self.pool.blocks_between(computed, computed + 1);
            let stays = self.preempt_for(slot, blocks + phantom, step, &mut budget, now, observer);
            if stays.is_none() {
                break;
            }
            at = self.sequences[slot].next;
            if self.sequences[slot].phase == Phase::Final {
                phantom += blocks;
            } else {
                self.pool.take(blocks);
                self.picks.push((slot, 1));
            }
        }
    }

    /// In static batches nobody computes a prompt while anybody decodes.
    pub(super) fn may_prefill(&self, capacity: &Capacity) -> bool {
        let prefilling = self.singles.iter();
        let prefilling = prefilling.filter(|&&slot| !self.sequences[slot].sampled_last);
        let decoding = self.sequences.running - prefilling.count() as u32;
        capacity.policy != CapacityPolicy::StaticBatch || decoding == 0
    }

    /// Whoever has computed a part of its prompt goes on; there is one at most, and nobody who waits came before it. What is left
    /// of the budget.
    pub(super) fn pick_prefilling(&self, capacity: &Capacity, left: u32, prompts: &mut Prompts) -> u32 {
        let mut prefilling = self.singles.iter().copied();
        let Some(slot) = prefilling.find(|&slot| !self.sequences[slot].sampled_last) else {
            return left;
        };
        let tokens = capacity.share(self.sequences[slot].missing_tokens(), left);
        if tokens > 0 {
            prompts.going_on = Some((slot, tokens));
            prompts.whole_tokens += u64::from(self.sequences[slot].known_tokens());
        }
        left - tokens
    }

    /// Who waits is picked, in order of arrival, while there are seats, blocks and tokens. With fewer tokens left than make a unit
    /// whoever lacks no more than those may still pass those who lack more, and who keep their seats and blocks meanwhile.
    pub(super) fn pick_waiting(
        &mut self,
        capacity: &Capacity,
        mut left: u32,
        mut room: u64,
        prompts: &mut Prompts,
    ) {
        let mut seats = self.config.max_num_seqs - self.sequences.running;
        let mut contributed: Option<Contributed> = self.contributed(capacity);
        while left > 0
            && let Some(handle) = self.waiting.nth(prompts.looked_at())
        {
            if let Some(contributed) = &mut contributed
                && self.is_made_for(handle.slot, contributed)
            {
                prompts.passed_over.push(handle);
                continue;
            }
            let known = self.sequences[handle.slot].known_tokens();
            let need = match capacity.promises() {
                true => self.promise_to(handle.slot),
                false => self.pool.blocks_for(known).into(),
            };
            if seats == 0 || need > room {
                self.admission_closed = prompts.passed_over.is_empty();
                break;
            }
            let tokens = capacity.share(known, left);
            if tokens > 0 {
                prompts.starting.push((handle, tokens));
                prompts.whole_tokens += u64::from(known);
            } else if capacity.chunk_unit.is_none() || left < capacity.shortest_prompt {
                break;
            } else {
                prompts.passed_over.push(handle);
            }
            (seats, room, left) = (seats - 1, room - need, left - tokens);
        }
    }

    /// Those who were picked compute.
    fn give_out<O: Observer>(
        &mut self,
        capacity: &mut Capacity,
        prompts: Prompts,
        step: &mut Step,
        now: Picos,
        observer: &mut O,
    ) {
        if let Some((slot, tokens)) = prompts.going_on {
            self.share_out(slot, tokens, step);
        }
        // Whoever was passed over goes back to the head.
        for _ in 0..prompts.looked_at() {
            self.waiting.pop();
        }
        for &handle in prompts.passed_over.iter().rev() {
            self.waiting
                .push_front(handle, &self.sequences[handle.slot].request);
        }
        let mut starting = prompts.starting;
        let found = match self.reuses() {
            true => self.find_prompts(&mut starting),
            false => Vec::new(),
        };
        for (at, (handle, tokens)) in starting.into_iter().enumerate() {
            let slot = handle.slot;
            capacity.promised += self.promise_to(slot);
            let known = self.sequences[slot].known_tokens();
            let found = found.get(at).copied().unwrap_or_else(|| {
                self.pool.take(self.pool.blocks_for(known));
                0
            });
            let sequence = &mut self.sequences[slot];
            (sequence.held, sequence.settled, sequence.computed) = (Held::default(), 0, found);
            self.start(slot, found, 0, now, observer);
            self.share_out(slot, tokens, step);
        }
    }
}
