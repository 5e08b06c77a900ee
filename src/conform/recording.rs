//! The file format of recorded schedules of vLLM and TensorRT-LLM, and which engine a file is about.

use std::collections::BTreeSet;
use std::io::Read;

use serde::Deserialize;

use super::sglang::SglangRecording;
use super::{trtllm, v0, whose};
use crate::config::profile::{self, Profile};
use crate::config::speculation::Method;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A recording unpacks to at most this much.
const BYTES_MAX: u64 = 1 << 30;
/// Sums of a few counts fit into 32 bits.
const COUNT_MAX: u32 = 1 << 28;

/// One recorded run. The field names are the file's.
#[derive(Clone, Debug, Deserialize)]
pub struct Recording {
    /// Name of the case.
    pub case: String,
    /// Which engine recorded it, in words.
    pub engine: String,
    /// Which version's behaviours it has, as `--engine` names it.
    #[serde(default = "newest")]
    pub profile: String,
    /// Engine flags.
    pub params: Params,
    /// Whole-sequence admission (VS-1).
    #[serde(default = "yes")]
    pub scheduler_reserve_full_isl: bool,
    /// The step-time law; of a pipeline that of its stages together.
    pub cost: CostLaw,
    /// The stages of a pipeline.
    #[serde(default)]
    pub pipeline: Option<Pipeline>,
    /// What was sent.
    pub requests: Vec<RecordedRequest>,
    /// What was scheduled.
    pub steps: Vec<RecordedStep>,
    /// What came of it.
    pub results: Vec<RecordedResult>,
}

/// Engine flags of a recording; `num_gpu_blocks` counts the null block, which V0 and TensorRT-LLM do not have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Longest sequence.
    pub max_model_len: u32,
    /// Most running sequences.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Prompts may be split.
    pub enable_chunked_prefill: bool,
    /// Tokens of a block.
    pub block_size: u32,
    /// Blocks, null block included.
    pub num_gpu_blocks: u32,
    /// Groups of recurrent layers, in each of which a sequence has one block.
    #[serde(default)]
    pub state_groups: u32,
    /// Automatic prefix caching.
    pub enable_prefix_caching: bool,
    /// `fcfs` or `priority`.
    pub policy: String,
    /// Cap on one prefill's share, 0 is off.
    #[serde(default)]
    pub long_prefill_token_threshold: u32,
    /// Queue depth 2 rather than 1.
    #[serde(default)]
    pub async_scheduling: bool,
    /// Share of blocks kept free when admitting.
    #[serde(default)]
    pub watermark: f64,
    /// Steps between releases of prefill.
    #[serde(default = "one")]
    pub prefill_schedule_interval: u32,
    /// Speculative decoding.
    #[serde(default)]
    pub speculative: Option<Speculative>,
    /// V0: output is processed while the next step runs.
    #[serde(default = "yes")]
    pub async_output_proc: bool,
    /// V0: `recompute` or `swap`.
    #[serde(default)]
    pub preemption_mode: Option<String>,
    /// V0: blocks of the host's memory.
    #[serde(default)]
    pub num_cpu_blocks: u32,
    /// V0: a prompt waits for so many times the last prompt's step.
    #[serde(default)]
    pub scheduler_delay_factor: f64,
    /// TensorRT-LLM: who may run, in lower case.
    #[serde(default)]
    pub capacity_scheduler_policy: Option<String>,
    /// TensorRT-LLM: steps that prompts may be put off.
    #[serde(default)]
    pub batch_wait_timeout_iters: u32,
    /// TensorRT-LLM: share of the budget with which they are put off no longer.
    #[serde(default)]
    pub batch_wait_max_tokens_ratio: f64,
}

/// Speculative decoding of a recording; the names are vLLM's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculative {
    /// What drafts.
    pub method: String,
    /// Drafts beside each decoded token.
    pub num_speculative_tokens: u32,
    /// Blocks are known by their own tokens alone.
    #[serde(default)]
    pub disable_lookahead_block_hashes: bool,
    /// A hit keeps its last block.
    #[serde(default)]
    pub disable_eagle_block_drop: bool,
}

/// The stages of a recorded pipeline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// How long each is busy with a step.
    pub stages: Vec<CostLaw>,
    /// The way from one to the next.
    pub transfer: CostLaw,
}

/// `dt = per_step_s + per_token_s·Σn + per_attended_token_s·Σ n·(computed + (n+1)/2)`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names are the file's")]
pub struct CostLaw {
    /// Seconds a step.
    pub per_step_s: f64,
    /// Seconds a token.
    pub per_token_s: f64,
    /// Seconds an attended token.
    pub per_attended_token_s: f64,
}

/// A request of a recording.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedRequest {
    /// Its number.
    pub id: u64,
    /// Seconds.
    pub arrival_s: f64,
    /// (segment, tokens); `OUT` stands for generated tokens.
    pub prompt: Vec<(String, u32)>,
    /// Output length.
    pub output_tokens: u32,
    /// Most that it may have, if more than that.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Smaller is served first.
    #[serde(default)]
    pub priority: i64,
    /// How many drafts stand, for each of its shares with drafts; past the end none do.
    #[serde(default)]
    pub accepted: Vec<u32>,
    /// How many drafts are proposed for its next share, for each that samples; as many as there may be where nothing is said.
    #[serde(default)]
    pub proposed: Option<Vec<u32>>,
}

/// A step of a recording.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedStep {
    /// When it was scheduled, seconds.
    pub t: f64,
    /// When it began on the GPU (asynchronous recordings).
    #[serde(default)]
    pub gpu_start: Option<f64>,
    /// Duration, seconds.
    pub dt: f64,
    /// (id, computed before, scheduled).
    pub scheduled: Vec<(u64, u32, u32)>,
    /// Drafts in each of those shares, if they were recorded.
    #[serde(default)]
    pub drafts: Option<Vec<u32>>,
    /// Ids, sorted.
    pub preempted: Vec<u64>,
    /// After scheduling.
    pub free_blocks: u32,
    /// After scheduling.
    pub running: u32,
    /// After scheduling.
    pub waiting: u32,
}

/// What became of a request.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedResult {
    /// Its number.
    pub id: u64,
    /// Prefix-cache hit at first admission.
    pub cached_tokens: u32,
    /// Seconds.
    pub first_token_s: f64,
    /// Seconds.
    pub last_token_s: f64,
    /// How often.
    pub preemptions: u32,
    /// `length` or `stop`: which of them ended it.
    #[serde(default)]
    pub finish: Option<String>,
    /// What the engine itself tells of its prefix-cache hits.
    #[serde(default)]
    pub total_cached_tokens: Option<u32>,
}

/// Why a file is not a recording that can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Not JSON of this shape.
    #[error("not a recorded schedule: {0}")]
    Shape(String),
    /// Well-formed, but impossible.
    #[error("{0}")]
    Content(String),
}

impl CostLaw {
    /// Finds coefficients that make no sense.
    pub(super) fn check(&self) -> Result<(), RecordingError> {
        let law = [self.per_step_s, self.per_token_s, self.per_attended_token_s];
        if law.iter().any(|&part| !(0.0..1e3).contains(&part)) {
            return Err(RecordingError::Content(
                "`cost` has a coefficient that is negative, not a number or above 1000 s".into(),
            ));
        }
        Ok(())
    }
}

/// Nothing is equal to nothing: a recording has steps to compare.
pub(super) fn check_steps(steps: usize) -> Result<(), RecordingError> {
    if steps == 0 {
        let text = "`steps` is empty: there is no schedule to repeat";
        return Err(RecordingError::Content(text.into()));
    }
    Ok(())
}

/// Every request has a number of its own, and one result.
pub(super) fn check_ids(
    sent: impl Iterator<Item = u64>,
    ended: impl Iterator<Item = u64>,
) -> Result<(), RecordingError> {
    let fail = |text: String| Err(RecordingError::Content(text));
    let mut open = BTreeSet::new();
    for id in sent {
        if !open.insert(id) {
            return fail(format!("request {id} is in `requests` twice"));
        }
    }
    for id in ended {
        if !open.remove(&id) {
            return fail(format!("`results` has request {id} twice, or nobody sent it"));
        }
    }
    match open.first() {
        Some(id) => fail(format!("`results` does not say what became of request {id}")),
        None => Ok(()),
    }
}

fn yes() -> bool {
    true
}

/// The version of the recordings that name none.
fn newest() -> String {
    "vllm@0.33".to_owned()
}

fn one() -> u32 {
    1
}

/// A recording of either engine.
#[derive(Clone, Debug)]
pub enum AnyRecording {
    /// Of vLLM's scheduler, V1's or V0's, or of TensorRT-LLM's.
    Vllm(Box<Recording>),
    /// Of SGLang's scheduler.
    Sglang(Box<SglangRecording>),
}

/// As much of a recording as tells whose it is.
#[derive(Deserialize)]
#[serde(expecting = "a recorded schedule, which is an object")]
struct Whose {
    engine: String,
}

impl AnyRecording {
    /// Reads a recording, gzipped or plain; which engine made it is read from the file.
    ///
    /// # Errors
    /// Says where the file departs from the format, or which of its values make no sense.
    pub fn read(bytes: &[u8]) -> Result<AnyRecording, RecordingError> {
        let mut plain = Vec::new();
        let mut bytes = bytes;
        if bytes.starts_with(&GZIP) {
            flate2::read::GzDecoder::new(bytes)
                .take(BYTES_MAX)
                .read_to_end(&mut plain)
                .map_err(|error| RecordingError::Shape(format!("broken gzip: {error}")))?;
            bytes = &plain;
        }
        let whose: Whose = parse(bytes)?;
        if whose.engine.starts_with("sglang") {
            let recording: Box<SglangRecording> = parse(bytes)?;
            recording.check()?;
            super::sglang_replay::config(&recording)?;
            return Ok(AnyRecording::Sglang(recording));
        }
        let recording: Box<Recording> = parse(bytes)?;
        recording.check()?;
        Ok(AnyRecording::Vllm(recording))
    }
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordingError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| RecordingError::Shape(error.to_string()))
}

impl Recording {
    /// The profile that is named, exactly.
    pub(super) fn profile(&self) -> Result<Profile, RecordingError> {
        let named = profile::find(&self.profile);
        let (profile, note) =
            named.map_err(|(why, help)| RecordingError::Content(format!("`profile`: {why}; {help}")))?;
        match note {
            None => Ok(profile),
            Some(_) => Err(RecordingError::Content(format!(
                "`profile` is {}, and a recording is repeated by its own version only: the nearest that is modelled is {}",
                self.profile, profile.profile
            ))),
        }
    }

    /// Stages of the pipeline.
    pub(super) fn stages(&self) -> u32 {
        let stages = self.pipeline.as_ref().map(|pipeline| pipeline.stages.len());
        stages.map_or(1, |stages| u32::try_from(stages).expect("a file lists no more"))
    }

    /// Whether V0's scheduler was recorded.
    pub(super) fn is_v0(&self) -> bool {
        self.profile == v0::PROFILE
    }

    /// Whether TensorRT-LLM's schedulers were recorded.
    pub(super) fn is_trtllm(&self) -> bool {
        self.profile == trtllm::PROFILE
    }

    fn check(&self) -> Result<(), RecordingError> {
        let params = &self.params;
        let fail = |text: String| Err(RecordingError::Content(text));
        check_steps(self.steps.len())?;
        if params.block_size == 0 || params.num_gpu_blocks < 2 || params.max_num_seqs == 0 {
            return fail(
                "`params` leaves no room: block_size and max_num_seqs are at least 1, num_gpu_blocks 2"
                    .into(),
            );
        }
        if params.max_num_batched_tokens == 0 || params.max_model_len < 2 {
            return fail(
                "`params` allows no tokens: max_num_batched_tokens is at least 1, max_model_len 2".into(),
            );
        }
        if !matches!(params.policy.as_str(), "fcfs" | "priority") {
            return fail(format!(
                "`params.policy` is \"{}\"; known are fcfs and priority",
                params.policy
            ));
        }
        if params.max_num_batched_tokens > COUNT_MAX || params.max_num_seqs > COUNT_MAX {
            return fail(format!(
                "`params`: max_num_batched_tokens and max_num_seqs are at most {COUNT_MAX}"
            ));
        }
        if !(0.0..=1.0).contains(&params.watermark) || params.prefill_schedule_interval == 0 {
            return fail(
                "`params`: watermark lies between 0 and 1, prefill_schedule_interval is at least 1".into(),
            );
        }
        if let Some(speculative) = &params.speculative
            && (Method::named(&speculative.method).is_none() || speculative.num_speculative_tokens == 0)
        {
            return fail("`params.speculative`: the method is not modelled, or drafts nothing".into());
        }
        let usable = if self.is_v0() {
            v0::check(params)?;
            v0::usable_blocks(params)
        } else if self.is_trtllm() {
            trtllm::check(params)?;
            params.num_gpu_blocks
        } else {
            self.profile()?;
            params.num_gpu_blocks - 1
        };
        self.cost.check()?;
        if let Some(pipeline) = &self.pipeline {
            if pipeline.stages.len() < 2 || self.is_v0() || self.is_trtllm() || params.speculative.is_some() {
                return fail("`pipeline` has two stages at least, of vLLM V1 without drafts".into());
            }
            let mut laws = pipeline.stages.iter().chain([&pipeline.transfer]);
            laws.try_for_each(CostLaw::check)?;
        }
        whose::check(&self.engine, &self.profile)?;
        check_ids(
            self.requests.iter().map(|request| request.id),
            self.results.iter().map(|result| result.id),
        )?;
        for request in &self.requests {
            let tokens: u64 = request.prompt.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
            let most = request.max_tokens.unwrap_or(request.output_tokens);
            let blocks = (tokens + u64::from(most)).div_ceil(params.block_size.into());
            if tokens == 0
                || request.output_tokens == 0
                || most < request.output_tokens
                || !(0.0..1e7).contains(&request.arrival_s)
            {
                return fail(format!(
                    "request {}: needs a prompt, an output and an arrival ≥ 0",
                    request.id
                ));
            }
            if tokens >= u64::from(params.max_model_len) {
                return fail(format!(
                    "request {}: its prompt of {tokens} tokens leaves no room",
                    request.id
                ));
            }
            let longest = params.max_model_len.div_ceil(params.block_size);
            if blocks.min(longest.into()) + u64::from(params.state_groups) > u64::from(usable) {
                return fail(format!("request {}: could never fit the KV pool", request.id));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: &str = include_str!("../../tests/data/schedules/two_requests.json");

    fn refused(change: impl Fn(&mut serde_json::Value)) -> String {
        let mut recording: serde_json::Value = serde_json::from_str(SCHEDULE).unwrap();
        change(&mut recording);
        let read = AnyRecording::read(recording.to_string().as_bytes());
        read.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_cannot_be_repeated_is_refused_by_name() {
        assert_eq!(refused(|_| ()), "");
        assert_eq!(
            refused(|recording| recording["steps"] = serde_json::json!([])),
            "`steps` is empty: there is no schedule to repeat"
        );
        let unknown = refused(|recording| recording["params"]["max_num_partial_prefills"] = 2.into());
        assert!(
            unknown.contains("unknown field `max_num_partial_prefills`"),
            "{unknown}"
        );
        let version = refused(|recording| recording["profile"] = "vllm@9.9".into());
        assert!(version.starts_with("`profile` is vllm@9.9, and"), "{version}");
        assert!(!version.contains("is used"), "{version}");
        let engine = refused(|recording| recording["engine"] = "foo 1.0".into());
        assert!(
            engine.starts_with("`engine` is \"foo 1.0\" and `profile` vllm@0.33: "),
            "{engine}"
        );
    }
}
