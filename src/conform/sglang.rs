//! The file format of recorded SGLang schedules.

use serde::Deserialize;

use super::check::{RecordingError, check_ids, check_steps, fail};
use super::recording::{CostLaw, RecordedResult};
use crate::config::sglang::{Algorithm, DRAFT_TOKENS_MAX};
use crate::engine::sglang::DOOR;

/// One recorded run of SGLang's scheduler. The field names are the file's.
#[derive(Clone, Debug, Deserialize)]
pub struct SglangRecording {
    /// Name of the case.
    pub case: String,
    /// Which engine recorded it: `sglang@0.5.4`, or in words, `sglang 0.5.23 scheduler, event_loop_normal`.
    pub engine: String,
    /// Engine flags.
    pub params: SglangParams,
    /// What the engine made of its flags.
    pub engine_state: SglangState,
    /// The step-time law.
    pub cost: CostLaw,
    /// What was sent.
    pub requests: Vec<SglangRequest>,
    /// One entry for each pass of the loop that ran something or had something running.
    pub steps: Vec<SglangStep>,
    /// What came of it.
    pub results: Vec<RecordedResult>,
}

/// Engine flags of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SglangParams {
    /// Tokens of a page.
    pub page_size: u32,
    /// Tokens of the KV pool.
    pub kv_pool_tokens: u32,
    /// Tokens of a chunk; -1 is off.
    pub chunked_prefill_size: i64,
    /// Prompt tokens of a batch.
    pub max_prefill_tokens: u32,
    /// Most running requests.
    pub max_running_requests: u32,
    /// Order of the queue.
    pub schedule_policy: String,
    /// Factor of the new-token ratio.
    pub schedule_conservativeness: f64,
    /// No radix cache.
    pub disable_radix_cache: bool,
    /// Decodes ride along in prefill batches.
    pub enable_mixed_chunk: bool,
    /// Longest sequence.
    pub context_length: u32,
    /// Order and preemption by priority.
    #[serde(default)]
    pub enable_priority_scheduling: bool,
    /// A smaller priority is served first.
    #[serde(default)]
    pub schedule_low_priority_values_first: bool,
    /// By how much a priority must be higher to push out.
    #[serde(default = "ten")]
    pub priority_scheduling_preemption_threshold: i64,
    /// Decode rounds between two prefill batches.
    #[serde(default)]
    pub prefill_decode_interval: u32,
    /// Most requests of a prefill batch.
    #[serde(default)]
    pub prefill_max_requests: Option<u32>,
    /// Speculative decoding with a chain of drafts.
    #[serde(default)]
    pub speculative: Option<SglangSpeculative>,
}

/// Speculative decoding of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SglangSpeculative {
    /// SGLang's name of what drafts.
    pub algorithm: String,
    /// Tokens of a verification, the sequence's own included.
    pub num_draft_tokens: u32,
    /// Branches of each draft of a tree.
    #[serde(default = "one")]
    pub topk: u32,
    /// Levels of a tree; a chain has as many as drafts.
    #[serde(default)]
    pub num_steps: Option<u32>,
}

fn one() -> u32 {
    1
}

fn ten() -> i64 {
    10
}

/// What the engine made of its flags.
#[derive(Clone, Debug, Deserialize)]
pub struct SglangState {
    /// The overlap loop.
    pub overlap: bool,
    /// Order of eviction.
    pub eviction: String,
    /// Requests that the engine gave up, of which `results` says nothing.
    #[serde(default)]
    pub aborted: Vec<u64>,
}

/// A request of a recording.
#[derive(Clone, Debug, Deserialize)]
pub struct SglangRequest {
    /// Its number.
    pub id: u64,
    /// Seconds.
    pub arrival_s: f64,
    /// (segment, tokens); `OUT` stands for generated tokens.
    pub prompt: Vec<(String, u32)>,
    /// Output length.
    pub output_tokens: u32,
    /// What was asked for.
    pub max_new_tokens: u32,
    /// No end-of-sequence token ends it.
    pub ignore_eos: bool,
    /// Larger is served first, where priorities are enabled.
    #[serde(default)]
    pub priority: i64,
    /// How many drafts stand, for each verification that is launched for it; past the end none do.
    #[serde(default)]
    pub accepted: Vec<u32>,
}

/// A pass of the loop, after `get_next_batch_to_run`.
#[derive(Clone, Debug, Deserialize)]
pub struct SglangStep {
    /// When it was decided, seconds.
    pub t: f64,
    /// When it began on the GPU (overlap recordings).
    #[serde(default)]
    pub gpu_start: Option<f64>,
    /// Duration, seconds.
    pub dt: f64,
    /// `extend`, `decode`, `mixed` or `none`.
    pub mode: String,
    /// (id, tokens with KV before, tokens computed).
    pub scheduled: Vec<(u64, u32, u32)>,
    /// Retracted ids.
    pub preempted: Vec<u64>,
    /// Free pages.
    pub free_blocks: u32,
    /// Unprotected tokens of the tree.
    pub evictable: u64,
    /// Protected tokens of the tree.
    pub protected: u64,
    /// Size of the running batch.
    pub running: u32,
    /// Size of the queue.
    pub waiting: u32,
    /// `batch_is_full`, 0 or 1.
    pub full: u8,
    /// The new-token ratio, rounded to 1e-6.
    pub ratio: f64,
    /// The partly prefilled request.
    #[serde(default)]
    pub chunked: Option<u64>,
    /// The queue in its order (policy `random`).
    #[serde(default)]
    pub waiting_ids: Option<Vec<u64>>,
}

impl SglangRecording {
    /// Finds what makes no sense.
    pub(super) fn check(&self) -> Result<(), RecordingError> {
        let params = &self.params;
        check_steps(self.steps.len())?;
        let page = params.page_size;
        if page == 0 || params.max_running_requests == 0 || params.max_prefill_tokens == 0 {
            return fail(
                "`params` leaves no room: page_size, max_running_requests and max_prefill_tokens are at least 1",
            );
        }
        if params.kv_pool_tokens < page
            || !params.kv_pool_tokens.is_multiple_of(page)
            || params.context_length < 4
        {
            return fail("`params`: kv_pool_tokens is a whole number of pages, context_length at least 4");
        }
        if params.chunked_prefill_size > 0 && params.chunked_prefill_size < i64::from(page) {
            return fail("`params.chunked_prefill_size` is below a page: nothing would ever be computed");
        }
        if !(0.0..100.0).contains(&params.schedule_conservativeness) {
            return fail("`params.schedule_conservativeness` lies between 0 and 100");
        }
        if self.engine_state.eviction != "lru" {
            return fail(format!(
                "`engine_state.eviction` is \"{}\"; only lru is modelled",
                self.engine_state.eviction
            ));
        }
        if let Some(speculative) = &params.speculative {
            let is_known = Algorithm::named(&speculative.algorithm).is_some();
            let steps = speculative.num_steps.unwrap_or(1);
            let sizes = [
                speculative.num_draft_tokens.saturating_sub(1),
                speculative.topk,
                steps,
            ];
            if !is_known || !sizes.iter().all(|size| (1..DRAFT_TOKENS_MAX).contains(size)) {
                return fail("`params.speculative`: the algorithm is not modelled, or drafts nothing");
            }
        }
        self.cost.check()?;
        check_ids(
            self.requests.iter().map(|request| request.id),
            self.results
                .iter()
                .map(|result| result.id)
                .chain(self.engine_state.aborted.iter().copied()),
        )?;
        let most = (params.context_length - 1).min(params.kv_pool_tokens - 1);
        for request in &self.requests {
            let tokens: u64 = request.prompt.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
            let is_empty = tokens == 0 || request.output_tokens == 0;
            if is_empty || request.prompt.iter().any(|piece| piece.1 == 0) {
                return fail(format!("request {}: needs a prompt and an output", request.id));
            }
            if request.output_tokens > request.max_new_tokens || !(0.0..1e7).contains(&request.arrival_s) {
                return fail(format!(
                    "request {}: output_tokens is at most max_new_tokens, arrival_s is not negative",
                    request.id
                ));
            }
            if tokens + (2 * u64::from(page) + 2).max(DOOR.into()) > u64::from(most) {
                return fail(format!(
                    "request {}: its prompt of {tokens} tokens leaves no room",
                    request.id
                ));
            }
        }
        Ok(())
    }
}
