//! vLLM's V0 scheduler, version 0.6.6 (`core/scheduler.py`, `core/block_manager.py`; V0-1 to V0-14).
//!
//! Default mode: a step is either prefills or decodes. Chunked mode: decodes, running prefills, resumed and new prefills
//! under one budget. With asynchronous output processing, the default where CUDA graphs are used, a decision does not know
//! yet who has ended with the step before.
//!
//! Where the recorded rules are silent the source is followed: a running sequence may go on only while a block is free for
//! it even if its last one has room (`can_append_slots` counts *touched* blocks), and a preempted one that has grown too
//! long for the pool or the budget is failed as a new one would be. Left out: several sequences per request, LoRA, and
//! multi-step scheduling (V0-11). Prefix caching is V1's: 0.6.6 finds, shares and evicts blocks by rules of its own.

use crate::engine::Policy;
use crate::engine::scheduled::ScheduledConfig;
use crate::engine::scheduler::{Scheduler, SequenceId, SequenceView, StepPlan};
use crate::units::Picos;

/// What becomes of a running sequence that loses its blocks (V0-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreemptionMode {
    /// It waits at the head of the queue and computes everything anew.
    Recompute,
    /// Its blocks go to the host's memory.
    Swap,
}

/// The scheduler's flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct V0Config {
    /// Prompts may be split over steps, and share them with decodes.
    pub enable_chunked_prefill: bool,
    /// Order of `waiting` (V0-10). In chunked mode 0.6.6 ignores it.
    pub policy: Policy,
    /// What preempting does.
    pub preemption_mode: PreemptionMode,
    /// `scheduler_delay_factor` (V0-9).
    pub delay_factor: f64,
    /// Output is processed while the next step runs, which therefore still holds whoever has ended with the one before:
    /// its seat, its blocks and, in a step of decodes, a token more (`use_async_output_proc`).
    pub async_output_proc: bool,
}

/// Blocks that admission leaves free, a hundredth of them: `watermark` of `SelfAttnBlockSpaceManager` (V0-5).
#[must_use]
pub fn watermark(num_gpu_blocks: u32) -> u32 {
    (0.01 * f64::from(num_gpu_blocks)) as u32
}

/// The scheduler.
#[derive(Debug)]
pub struct VllmV0 {
    config: V0Config,
    max_num_seqs: usize,
    max_num_batched_tokens: u32,
    /// Longest prompt that is not failed (V0-4).
    prompt_limit: u32,
    /// Blocks that admission leaves free (V0-5).
    watermark: u32,
    caches: bool,
    /// When the last step that computed a prompt was decided, until its latency is known.
    prompt_at: Option<Picos>,
    /// `last_prompt_latency`.
    prompt_latency: Picos,
    budget: u32,
    order: Vec<SequenceId>,
    /// Sequences at the head of the queue that this decision preempted: it does not admit them again.
    set_aside: usize,
    /// The next decision may be another even if nobody comes or goes: running sequences are not in the order of their
    /// turns, or one has made room.
    is_mixed: bool,
    resumed: Vec<SequenceId>,
}

/// What `can_allocate` answers (V0-5).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Now,
    Later,
    Never,
}

impl VllmV0 {
    /// Nothing runs.
    #[must_use]
    pub fn new(config: V0Config, engine: &ScheduledConfig) -> VllmV0 {
        let prompt_limit = if config.enable_chunked_prefill {
            engine.max_model_len
        } else {
            engine.max_model_len.min(engine.max_num_batched_tokens)
        };
        VllmV0 {
            config,
            max_num_seqs: engine.max_num_seqs as usize,
            max_num_batched_tokens: engine.max_num_batched_tokens,
            prompt_limit,
            watermark: watermark(engine.num_gpu_blocks),
            caches: engine.enable_prefix_caching,
            prompt_at: None,
            prompt_latency: Picos::ZERO,
            budget: 0,
            order: Vec::new(),
            set_aside: 0,
            is_mixed: false,
            resumed: Vec::new(),
        }
    }

    /// `_schedule_default`: prefills, or else decodes.
    fn schedule_default(&mut self, plan: &mut StepPlan<'_>) {
        let prefills = plan.swapped().next().is_none() && self.prefill(plan);
        if prefills {
            return;
        }
        let is_reordered = self.config.policy == Policy::Priority && self.make_way(plan);
        if self.go_on(plan) {
            return;
        }
        self.resume(plan);
        if !is_reordered && !self.is_mixed {
            self.repeat(plan);
        }
    }

    /// `_schedule_chunked_prefill`: whoever runs, resumed and new prefills. The next decision takes them in this order: who
    /// got nothing for want of budget, who was resumed, decodes, prefills.
    fn schedule_chunked(&mut self, plan: &mut StepPlan<'_>) {
        let disturbed = self.go_on(plan);
        if !disturbed {
            self.resume(plan);
        }
        self.prefill(plan);
        if self.is_mixed || !self.resumed.is_empty() {
            let resumed = &self.resumed;
            plan.sort_running_by_key(|sequence| {
                let was_resumed = resumed.contains(&sequence.id);
                (sequence.given_tokens > 0, !was_resumed, sequence.is_prefilling)
            });
        } else if !disturbed {
            self.repeat(plan);
        }
    }

    /// The next decision is the same unless somebody comes or goes. A delay is over at a time of its own.
    fn repeat(&self, plan: &mut StepPlan<'_>) {
        let delays = plan.waiting().next().is_some() || self.prompt_at.is_some();
        if self.config.delay_factor == 0.0 || !delays {
            plan.repeat_while_spare(1);
        }
    }

    /// `_passed_delay` (V0-9). `others_run`: somebody runs whom this step gave nothing yet; in chunked mode that is
    /// nobody as a rule, so that there is no delay.
    fn has_passed_delay(&self, plan: &StepPlan<'_>, others_run: bool) -> bool {
        let waiting = plan.waiting().skip(self.set_aside);
        let Some(earliest) = waiting.map(|sequence| sequence.arrival).min() else {
            return true;
        };
        let delay = Picos((self.config.delay_factor * self.prompt_latency.0 as f64) as u64);
        plan.now() - earliest > delay || !others_run
    }

    /// `_schedule_prefills`: whole prompts, or in chunked mode the pieces that the budget leaves room for, in the queue's
    /// order up to the first that does not fit (V0-3, V0-13). Whether any.
    fn prefill(&mut self, plan: &mut StepPlan<'_>) -> bool {
        if let Some(at) = self.prompt_at.take() {
            self.prompt_latency = plan.now() - at;
        }
        let delays = self.config.delay_factor > 0.0;
        let others_run = delays && plan.running().any(|sequence| sequence.given_tokens == 0);
        let mut any = false;
        while let Some(head) = plan.waiting().nth(self.set_aside) {
            if delays && !self.has_passed_delay(plan, others_run) {
                break;
            }
            let missing = plan
                .missing_tokens(head.id)
                .expect("the head of the queue is inside");
            let tokens = self.chunk(plan, missing);
            if self.is_failed(plan, &head) {
                plan.reject(head.id).expect("the head of the queue waits");
                continue;
            }
            let is_full = plan.running().len() >= self.max_num_seqs;
            if tokens == 0 || tokens > self.budget || is_full || self.room(plan, &head) != Room::Now {
                break;
            }
            plan.compute_reserving(head.id, tokens, head.known_tokens)
                .expect("the watermark leaves more than the sequence needs");
            self.budget -= tokens;
            any = true;
        }
        if any {
            self.prompt_at = Some(plan.now());
        }
        any
    }

    /// Who can never be served is failed when it is met (V0-4, V0-5).
    fn is_failed(&self, plan: &StepPlan<'_>, head: &SequenceView) -> bool {
        let asked = if self.config.enable_chunked_prefill {
            0
        } else {
            head.known_tokens
        };
        asked > self.prompt_limit || self.room(plan, head) == Room::Never
    }

    /// `can_allocate`: the whole sequence, cached blocks not deducted (V0-5).
    fn room(&self, plan: &StepPlan<'_>, head: &SequenceView) -> Room {
        let need = plan.blocks_for(head.known_tokens) + self.watermark;
        if plan.total_blocks() < need {
            Room::Never
        } else if plan.free_blocks() >= need {
            Room::Now
        } else {
            Room::Later
        }
    }

    /// Tokens of a sequence that misses `missing` (V0-13).
    fn chunk(&self, plan: &StepPlan<'_>, missing: u32) -> u32 {
        if !self.config.enable_chunked_prefill || missing <= self.budget {
            return missing;
        }
        if self.caches {
            self.budget - self.budget % plan.block_size()
        } else {
            self.budget
        }
    }

    /// `_schedule_running`: everybody in turn, in chunked mode decodes before prefills as a rule; the last is preempted for
    /// the first (V0-6, V0-12). Whether anybody was.
    fn go_on(&mut self, plan: &mut StepPlan<'_>) -> bool {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(plan.prefilling().map(|one| one.id));
        let mut last = plan.running().rev().take(order.len());
        self.is_mixed = !last.all(|one| one.is_prefilling);
        let decoding = if self.is_mixed {
            None
        } else {
            plan.decode_all(self.budget, 1)
        };
        if let Some(decoding) = decoding {
            self.budget -= decoding;
        } else {
            order.clear();
            order.extend(plan.running().map(|one| one.id));
        }
        let (mut at, mut end) = (0, order.len());
        let mut disturbed = false;
        while at < end {
            let Some(sequence) = plan.get(order[at]) else {
                break;
            };
            let tokens = self.chunk(plan, sequence.missing_tokens());
            if tokens == 0 || tokens > self.budget {
                self.is_mixed = true;
                break;
            }
            at += 1;
            let touched = u32::from(!sequence.is_prefilling || sequence.known_tokens % plan.block_size() > 0);
            let mut stays = true;
            while plan.free_blocks() < touched {
                let victim = if at < end {
                    end -= 1;
                    order[end]
                } else {
                    sequence.id
                };
                // Its output is processed before: whoever turns out to have ended leaves instead.
                if plan.retire(victim) {
                    self.is_mixed = true;
                } else {
                    disturbed = true;
                    self.preempt(plan, victim);
                }
                if victim == sequence.id {
                    stays = false;
                    break;
                }
            }
            if stays {
                plan.compute(sequence.id, tokens).expect("a block is free for it");
                self.budget -= tokens;
            }
        }
        self.order = order;
        disturbed
    }

    /// `_preempt` (V0-7). The process dies when the host's memory is full (V0-8).
    fn preempt(&mut self, plan: &mut StepPlan<'_>, victim: SequenceId) {
        match self.config.preemption_mode {
            PreemptionMode::Recompute => {
                plan.preempt(victim).expect("victims run");
                self.set_aside += 1;
            }
            PreemptionMode::Swap => {
                if plan.swap_out(victim).is_err() {
                    plan.halt();
                    plan.preempt(victim).expect("victims run");
                }
            }
        }
    }

    /// `_schedule_swapped`: those in the host's memory come back, in their order, up to the first that does not fit (V0-8).
    /// Even in chunked mode whoever misses more than the budget does not.
    fn resume(&mut self, plan: &mut StepPlan<'_>) {
        while let Some(head) = plan.swapped().next() {
            let tokens = head.missing_tokens();
            let touched = plan.blocks_for(head.computed_tokens + 1).max(head.blocks);
            if touched > plan.total_blocks() {
                plan.reject(head.id).expect("it is swapped out");
                continue;
            }
            let is_full = plan.running().len() >= self.max_num_seqs;
            let fits = plan.free_blocks() >= touched + self.watermark;
            if !fits || is_full || tokens > self.budget {
                break;
            }
            plan.swap_in(head.id).expect("its blocks are free");
            plan.compute(head.id, tokens).expect("a block is free for it");
            self.budget -= tokens;
            self.resumed.push(head.id);
        }
    }

    /// `_schedule_priority_preemption` (V0-10): running sequences that rank behind the head of the queue make way until it
    /// fits; it is admitted by the next decision. Whether anything may have changed.
    fn make_way(&mut self, plan: &mut StepPlan<'_>) -> bool {
        let rank = |sequence: &SequenceView| (sequence.priority, sequence.arrival);
        plan.sort_running_by_key(rank);
        let Some(head) = plan.waiting().next() else {
            return false;
        };
        while let Some(last) = plan.running().next_back()
            && rank(&last) > rank(&head)
        {
            let missing = plan
                .missing_tokens(head.id)
                .expect("the head of the queue is inside");
            let has_seat = plan.running().len() < self.max_num_seqs;
            if self.room(plan, &head) == Room::Now && has_seat && missing <= self.budget {
                break;
            }
            // Nobody looks here whether it has ended. 0.6.6 queues it nevertheless, and fails when it comes to its head.
            if plan.retire(last.id) {
                plan.halt();
                break;
            }
            plan.preempt(last.id).expect("it runs");
        }
        plan.sort_waiting_by_key(rank);
        true
    }
}

impl Scheduler for VllmV0 {
    fn schedule(&mut self, plan: &mut StepPlan<'_>) {
        self.budget = self.max_num_batched_tokens;
        self.set_aside = 0;
        self.is_mixed = false;
        self.resumed.clear();
        if self.config.enable_chunked_prefill {
            self.schedule_chunked(plan);
        } else {
            self.schedule_default(plan);
        }
    }
}
