//! The naive twin: vLLM V1's scheduler written out per sequence, per token and per physical block.
//!
//! It models the V1 rules of `docs/engine-rules.md`: the engine loop with a queue of steps in
//! flight, `schedule()`, preemption by recompute, paged blocks with a free queue, and the prefix cache.
//! The rule each decision follows is named beside it (`V1-22`, ...), as read from vLLM 0.33.0, with the
//! differences to 0.11 behind one switch each. LMCache may stand beside it, though not with drafts. It leaves out
//! adapters and host time. Groups of layers with a window are not looked up: what they hold is anonymous.
//!
//! Its law: it shares no code with the library it checks and never trades an obvious line for a fast one.
//! When twin and engine disagree, one of them breaks a rule; the recorded schedules say which.
//!
//! Reading order: this file (what goes in and comes out), [`engine`] (the loop), [`scheduler`]
//! (`schedule()`), [`output`] (what happens when a step ends), [`sequence`] and [`pool`] (state), [`drafts`] (speculative
//! decoding, whose rules stand at that file's head), [`stages`] (the loop of a pipeline), [`tiers`] (LMCache).

mod drafts;
mod engine;
mod output;
mod pool;
pub(crate) mod ranks;
mod scheduler;
mod sequence;
mod stages;
pub(crate) mod tiers;

pub(crate) use drafts::{TwinDrafter, TwinDrafts, TwinLastBlock};
pub(crate) use stages::{TwinLaw, TwinStages};
use tiers::{TwinMoved, TwinTiers};

/// The engine flags, under vLLM's names where vLLM has one.
#[derive(Debug, Clone)]
pub(crate) struct TwinConfig {
    /// Longest sequence, prompt and outputs together.
    pub(crate) max_model_len: u32,
    /// Most sequences in `running`.
    pub(crate) max_num_seqs: usize,
    /// Token budget of a step, unless `max_num_scheduled_tokens` says otherwise.
    pub(crate) max_num_batched_tokens: u32,
    /// Token budget of a step; `None` means `max_num_batched_tokens`.
    pub(crate) max_num_scheduled_tokens: Option<u32>,
    /// Whether a prompt may be split over steps.
    pub(crate) enable_chunked_prefill: bool,
    /// Tokens per block.
    pub(crate) block_size: u32,
    /// Blocks of the pool, the null block included (V1-29).
    pub(crate) num_gpu_blocks: usize,
    /// The window of each group of layers, `None` if it keeps everything (V1-34). Prefixes are those of the first, which
    /// then is the only one that keeps everything.
    pub(crate) groups: Vec<Option<u32>>,
    /// Groups of recurrent layers: a sequence has a block in each from its admission on. Nothing is cached then.
    pub(crate) states: usize,
    /// Windows pass what steps saw that have been processed; otherwise what steps see that are scheduled.
    pub(crate) windows_settle: bool,
    /// Whether full blocks are found again by their content (V1-42).
    pub(crate) enable_prefix_caching: bool,
    /// `true` for the priority policy, `false` for first come, first served.
    pub(crate) priority_policy: bool,
    /// Most tokens one sequence gets per step; 0 means no limit.
    pub(crate) long_prefill_token_threshold: u32,
    /// Steps in flight: 1 is the synchronous loop (V1-4), 2 is asynchronous scheduling (V1-5); one for each stage of a pipeline,
    /// and another one with asynchronous scheduling (V1-84).
    pub(crate) queue_depth: usize,
    /// Layers spread over several stages.
    pub(crate) stages: Option<TwinStages>,
    /// Blocks kept free when admitting while something runs (V1-32).
    pub(crate) watermark_blocks: usize,
    /// Steps from one step with prefill to the next while something decodes; 1 means off (V1-16).
    pub(crate) prefill_schedule_interval: u32,
    /// Admit only a sequence that fits whole, VS-1 (`scheduler_reserve_full_isl`, V1-31).
    pub(crate) reserve_full_isl: bool,
    /// Put freed blocks without identity at the head of the free queue, VS-2 (V1-38).
    pub(crate) unhashed_freed_blocks_to_head: bool,
    /// Drop the long-prefill threshold when there is only one sequence, VS-5.
    pub(crate) no_threshold_when_alone: bool,
    /// Without chunking, stop at a prompt above the budget, VS-6; otherwise set it aside and go on.
    pub(crate) oversize_prompt_stops_admission: bool,
    /// After a priority eviction give the victim's tokens back and mend the loop position, VS-7 (V1-26), and
    /// go on after a self-preemption (V1-25). Otherwise the victim's share is computed all the same.
    pub(crate) priority_eviction_restores: bool,
    /// Do not schedule a sequence whose last step is surely in flight (V1-15).
    pub(crate) async_overrun_guard: bool,
    /// LMCache beside the engine.
    pub(crate) tiers: Option<TwinTiers>,
    /// Speculative decoding.
    pub(crate) drafts: Option<TwinDrafts>,
}

impl TwinConfig {
    /// vLLM 0.33 with asynchronous scheduling, blocks of 4 tokens and ample everything else: a base to change.
    pub(crate) fn v33() -> Self {
        Self {
            max_model_len: 1_000_000,
            max_num_seqs: 1000,
            max_num_batched_tokens: 1_000_000,
            max_num_scheduled_tokens: None,
            enable_chunked_prefill: true,
            block_size: 4,
            num_gpu_blocks: 10_000,
            groups: vec![None],
            states: 0,
            windows_settle: true,
            enable_prefix_caching: false,
            priority_policy: false,
            long_prefill_token_threshold: 0,
            queue_depth: 2,
            stages: None,
            watermark_blocks: 0,
            prefill_schedule_interval: 1,
            reserve_full_isl: true,
            unhashed_freed_blocks_to_head: true,
            no_threshold_when_alone: true,
            oversize_prompt_stops_admission: true,
            priority_eviction_restores: true,
            async_overrun_guard: true,
            tiers: None,
            drafts: None,
        }
    }

    /// Whether steps are scheduled behind tokens that are not known (V1-5).
    pub(crate) fn is_async(&self) -> bool {
        self.queue_depth > self.stages.as_ref().map_or(1, |stages| stages.laws.len())
    }

    /// vLLM 0.11: every version switch thrown (VS-1, VS-2, VS-5 to VS-7).
    pub(crate) fn v11() -> Self {
        Self {
            windows_settle: false,
            reserve_full_isl: false,
            unhashed_freed_blocks_to_head: false,
            no_threshold_when_alone: false,
            oversize_prompt_stops_admission: false,
            priority_eviction_restores: false,
            async_overrun_guard: false,
            ..Self::v33()
        }
    }
}

/// A request as its user sent it.
#[derive(Debug, Clone)]
pub(crate) struct TwinRequest {
    /// Unique name; decides ties.
    pub(crate) id: u64,
    /// When it reaches the engine's input queue.
    pub(crate) arrival_ps: u64,
    /// The prompt in pieces `(segment, start, len)`: the tokens `(segment, start)`, `(segment, start + 1)`, ...
    pub(crate) prompt: Vec<(u64, u32, u32)>,
    /// Tokens it generates unless `max_model_len` or an abort cuts it short.
    pub(crate) output_tokens: u32,
    /// Segment of its generated tokens: the one at absolute position `p` is `(output_segment, p)`.
    pub(crate) output_segment: u64,
    /// Whether it ends by a stop token, which asynchronous scheduling cannot foresee (V1-15).
    pub(crate) ends_by_eos: bool,
    /// Smaller is served first under the priority policy.
    pub(crate) priority: i64,
    /// When its user gives up, if ever (V1-10).
    pub(crate) abort_at: Option<u64>,
    /// Drafts accepted in each of its shares that were executed with drafts proposed for it; none past the end.
    pub(crate) accepted: Vec<u32>,
    /// Drafts proposed after each of its shares that sampled, none past the end; `None` for as many as there can be.
    pub(crate) proposed: Option<Vec<u32>>,
}

/// One scheduled sequence: `(id, tokens computed before the step, tokens scheduled)`.
pub(crate) type Scheduled = (u64, u32, u32);

/// One step that scheduled something. A call of `schedule()` that only preempts is no step; its victims appear
/// in [`TwinOutcome::preemptions`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinStep {
    /// When `schedule()` decided it.
    pub(crate) scheduled_at_ps: u64,
    /// When it began to run.
    pub(crate) gpu_start_ps: u64,
    /// How long it ran.
    pub(crate) duration_ps: u64,
    /// Who got how many tokens: running sequences in admission order, then those admitted now.
    pub(crate) scheduled: Vec<Scheduled>,
    /// How many drafts are in each share, padding included.
    pub(crate) drafts: Vec<u32>,
    /// Who was preempted, in order of eviction.
    pub(crate) preempted: Vec<u64>,
    /// Blocks in the free queue after scheduling.
    pub(crate) free_blocks: usize,
    /// Length of `running` after scheduling.
    pub(crate) running: usize,
    /// Length of `waiting` after scheduling.
    pub(crate) waiting: usize,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinOutcome {
    /// The request.
    pub(crate) id: u64,
    /// Tokens found in the prefix cache at the first admission; `None` if never admitted.
    pub(crate) cached_tokens: Option<u32>,
    /// End of the step that sampled each output token.
    pub(crate) token_times_ps: Vec<u64>,
    /// How often it was preempted.
    pub(crate) preemptions: u32,
    /// Whether it ended by its user's abort.
    pub(crate) is_aborted: bool,
}

/// The whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwinRun {
    /// Steps that scheduled something, in order.
    pub(crate) steps: Vec<TwinStep>,
    /// Outcomes, in the order the requests were given.
    pub(crate) outcomes: Vec<TwinOutcome>,
    /// What LMCache moved.
    pub(crate) moved: TwinMoved,
    /// Nobody will ever be served again: the head of the queue lacks blocks that those hold who wait behind it, or sequences
    /// preempt each other without anybody getting a token.
    pub(crate) is_stuck: bool,
}

/// Serves `requests` to the end; `cost` prices each step in picoseconds.
///
/// # Panics
///
/// Panics when nothing can be scheduled and nothing more will arrive, though nobody waits who holds blocks.
pub(crate) fn simulate(
    config: &TwinConfig,
    requests: &[TwinRequest],
    cost: &mut dyn FnMut(&[Scheduled]) -> u64,
) -> TwinRun {
    engine::Engine::new(config, requests).run(cost)
}
