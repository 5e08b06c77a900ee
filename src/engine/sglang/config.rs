//! Resolved flags of an SGLang server and the behaviours that differ between its versions. Everything here is valid.

use super::SglangSpeculation;
use crate::ids::SegmentId;

/// Order of the waiting queue (`--schedule-policy`, SG-26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// First come, first served.
    Fcfs,
    /// Longest cached prefix first; first come, first served while more than 128 requests wait (SG-27).
    Lpm,
    /// Depth-first through the radix tree, the subtree with more waiting requests first (SG-29).
    DfsWeight,
    /// Longest `max_new_tokens` first.
    Lof,
    /// Shuffled in every pass.
    Random,
}

/// `--enable-priority-scheduling` and what goes with it (SG-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    /// A smaller value is served first.
    pub low_values_first: bool,
    /// A running request makes room for one whose priority is higher by more than this.
    pub preemption_threshold: i64,
}

impl PriorityRule {
    /// How early a request of such a priority is served, larger first. Wider than priorities are, so that any two have a
    /// difference.
    #[must_use]
    pub(super) fn urgency(self, priority: i64) -> i128 {
        if self.low_values_first {
            -i128::from(priority)
        } else {
            priority.into()
        }
    }
}

/// Resolved SGLang flags.
#[derive(Clone, Debug, PartialEq)]
pub struct SglangConfig {
    /// Engine profile, `sglang@0.5.23`.
    pub profile: String,
    /// Longest sequence.
    pub context_length: u32,
    /// Most running requests; also the rows of the token table.
    pub max_running_requests: u32,
    /// Tokens of prompts computed in a step; `None` never splits a prompt.
    pub chunked_prefill_size: Option<u32>,
    /// Prompt tokens admitted in a step, the first request excepted.
    pub max_prefill_tokens: u32,
    /// Decode rounds between two prefill batches, if nobody who waits is to hold up who decodes; 0 prefills first (SG-11).
    pub prefill_decode_interval: u32,
    /// Most requests of a prefill batch (SG-25).
    pub prefill_max_requests: Option<u32>,
    /// Order of the waiting queue.
    pub policy: QueuePolicy,
    /// Order and preemption by priority, if enabled.
    pub priority: Option<PriorityRule>,
    /// Tokens of a page of the KV pool.
    pub page_size: u32,
    /// Tokens of the KV pool, whole pages.
    pub max_total_tokens: u32,
    /// Equal prefixes are shared between requests.
    pub radix_cache: bool,
    /// Decodes ride along in prefill batches.
    pub enable_mixed_chunk: bool,
    /// A batch is decided before the one on the GPU ends (`event_loop_overlap`).
    pub overlap_schedule: bool,
    /// `min(0.7 · schedule_conservativeness, 1)` (SG-32).
    pub init_new_token_ratio: f64,
    /// Where the decay of the ratio ends.
    pub min_new_token_ratio: f64,
    /// Subtracted in every decode step.
    pub new_token_ratio_decay: f64,
    /// Requests in the waiting queue above which the server answers 503.
    pub max_queued_requests: Option<u32>,
    /// Speculative decoding, if there is any.
    pub drafts: Option<SglangSpeculation>,
    /// Behaviours that differ between versions.
    pub switches: SglangSwitches,
    /// Seed of the shuffled queue.
    pub seed: u64,
    /// The text of end-of-sequence tokens, where a later prompt never contains one; `None` takes it for a token of the
    /// answer like any other.
    pub eos_segment: Option<SegmentId>,
}

impl SglangConfig {
    /// Sets the three constants of the new-token ratio from `--schedule-conservativeness` (SG-32).
    #[must_use]
    pub fn with_conservativeness(mut self, conservativeness: f64) -> SglangConfig {
        self.init_new_token_ratio = (0.7 * conservativeness).min(1.0);
        self.min_new_token_ratio = (self.init_new_token_ratio * 0.14).min(1.0);
        self.new_token_ratio_decay = (self.init_new_token_ratio - self.min_new_token_ratio) / 600.0;
        self
    }
}

/// Behaviours that differ between versions of SGLang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a change between two releases"
)]
pub struct SglangSwitches {
    /// Under overlap an ending by length is known while its step runs, and no further token is launched (SG-5).
    pub predicts_length_endings: bool,
    /// Finished requests leave the running batch in every pass, not only when it decodes (SG-9).
    pub drops_finished_each_pass: bool,
    /// The new-token ratio of requests with `ignore_eos` is 1 (SG-17).
    pub ignore_eos_is_certain: bool,
    /// Admission charges and asks for one page more than the request's tokens (SG-18, SG-19).
    pub reserves_a_page: bool,
    /// The cap on the tokens of a batch binds only where chunking is off (SG-20).
    pub input_cap_only_unchunked: bool,
    /// A budget that is spent already ends the scan before a candidate is looked at (SG-23).
    pub asks_budget_first: bool,
    /// A refusal closes admission only if somebody runs or was admitted (SG-14).
    pub full_needs_company: bool,
    /// Admission is bounded by the free rows of the token table, too (SG-13).
    pub counts_table_rows: bool,
    /// Eviction frees what is missing, not what was asked for (SG-40).
    pub evicts_shortfall: bool,
    /// An insertion longer than the prompt is followed by one of the prompt alone (SG-39).
    pub reinserts_prompt: bool,
    /// Under overlap the token that an ending wastes is cached, too (SG-39).
    pub caches_wasted_token: bool,
    /// Waiting prefixes are touched in every 32nd pass under policies that do not match them all (SG-36).
    pub retouches_waiting: bool,
    /// `max_new_tokens` is clipped to what the pool can hold (SG-25).
    pub clips_to_pool: bool,
    /// A lone request that cannot grow is aborted; otherwise the server dies (SG-33).
    pub aborts_lone_request: bool,
    /// Mixing is skipped when decode memory is short (SG-12).
    pub mixes_only_with_memory: bool,
    /// Preempts no more running requests than the candidate needs, and counts what each of them gives back; otherwise all
    /// that may be preempted are, and each is counted as if it gave back what the candidate is expected to need (SG-43).
    pub preempts_sparingly: bool,
    /// The memory of the next decode is counted from the KV that is there. Otherwise, under overlap with pages, from the tokens
    /// processed, as if a decode were in flight, though it may be a prefill batch (SG-33).
    pub counts_pages_by_kv: bool,
    /// `lpm` counts no more of a prefix than can be used, which leaves a token to compute (SG-27).
    pub ranks_by_usable_prefix: bool,
    /// An idle loop goes back to the initial new-token ratio only if nobody waits (SG-32).
    pub resets_ratio_if_all_left: bool,
    /// A request that leaves while another of its tokens is being computed gives that token's memory back at once; otherwise
    /// with the result of that step (SG-5).
    pub frees_wasted_token_at_once: bool,
}

impl SglangSwitches {
    /// SGLang 0.5.23.
    pub const V0_5_23: SglangSwitches = SglangSwitches::all(true);
    /// SGLang 0.5.4.
    pub const V0_5_4: SglangSwitches = SglangSwitches::all(false);

    const fn all(on: bool) -> SglangSwitches {
        SglangSwitches {
            predicts_length_endings: on,
            drops_finished_each_pass: on,
            ignore_eos_is_certain: on,
            reserves_a_page: on,
            input_cap_only_unchunked: on,
            asks_budget_first: on,
            full_needs_company: on,
            counts_table_rows: on,
            evicts_shortfall: on,
            reinserts_prompt: on,
            caches_wasted_token: on,
            retouches_waiting: on,
            clips_to_pool: on,
            aborts_lone_request: on,
            mixes_only_with_memory: on,
            preempts_sparingly: on,
            counts_pages_by_kv: on,
            ranks_by_usable_prefix: on,
            resets_ratio_if_all_left: on,
            frees_wasted_token_at_once: on,
        }
    }
}
