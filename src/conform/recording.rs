//! The file format of recorded schedules of vLLM and TensorRT-LLM, and which engine a file is about.

use std::io::Read;

use serde::Deserialize;

use super::check::{RecordingError, fail};
use super::sglang::SglangRecording;
use super::{trtllm, v0};
use crate::config::profile::{self, Profile};
use crate::engine::Policy;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A recording unpacks to at most this much.
const BYTES_MAX: u64 = 1 << 30;

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
            Some(_) => fail(format!(
                "`profile` is {}, and a recording is repeated by its own version only: the nearest that is modelled is {}",
                self.profile, profile.profile
            )),
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
}

impl Params {
    /// In which order requests wait.
    pub(super) fn policy(&self) -> Policy {
        match self.policy.as_str() {
            "priority" => Policy::Priority,
            _ => Policy::Fcfs,
        }
    }
}
