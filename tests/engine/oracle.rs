//! Replays every recorded schedule of vLLM through the naive twin and demands each step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::twin::{
    Scheduled, TwinConfig, TwinDrafter, TwinDrafts, TwinLastBlock, TwinLaw, TwinOutcome, TwinRequest,
    TwinRun, TwinStages, TwinStep,
};
use serde::Deserialize;

const PS_PER_S: f64 = 1e12;
/// Recorded times are sums of floats, written with 9 decimals.
const TIME_TOLERANCE_S: f64 = 1e-6;

#[derive(Deserialize)]
struct Recording {
    /// `vllm@0.11`; where none is named, 0.33.
    profile: Option<String>,
    params: Params,
    /// 0.33's; who leaves it out has none.
    #[serde(default)]
    scheduler_reserve_full_isl: bool,
    cost: Cost,
    pipeline: Option<Pipeline>,
    requests: Vec<RecordedRequest>,
    steps: Vec<RecordedStep>,
    results: Vec<RecordedResult>,
}

#[derive(Deserialize)]
struct Params {
    max_model_len: u32,
    max_num_seqs: usize,
    max_num_batched_tokens: u32,
    enable_chunked_prefill: bool,
    block_size: u32,
    num_gpu_blocks: usize,
    #[serde(default)]
    state_groups: usize,
    enable_prefix_caching: bool,
    policy: String,
    long_prefill_token_threshold: u32,
    #[serde(default)]
    async_scheduling: bool,
    #[serde(default)]
    watermark: f64,
    prefill_schedule_interval: Option<u32>,
    speculative: Option<Speculative>,
}

#[derive(Deserialize)]
struct Speculative {
    method: String,
    num_speculative_tokens: u32,
    #[serde(default)]
    disable_lookahead_block_hashes: bool,
    #[serde(default)]
    disable_eagle_block_drop: bool,
}

#[derive(Deserialize)]
struct Cost {
    per_step_s: f64,
    per_token_s: f64,
    per_attended_token_s: f64,
}

#[derive(Deserialize)]
struct Pipeline {
    stages: Vec<Cost>,
    transfer: Cost,
}

#[derive(Deserialize)]
struct RecordedRequest {
    id: u64,
    arrival_s: f64,
    prompt: Vec<(String, u32)>,
    output_tokens: u32,
    priority: i64,
    #[serde(default)]
    accepted: Vec<u32>,
    proposed: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct RecordedStep {
    t: f64,
    gpu_start: Option<f64>,
    dt: f64,
    scheduled: Vec<Scheduled>,
    drafts: Option<Vec<u32>>,
    preempted: Vec<u64>,
    free_blocks: usize,
    running: usize,
    waiting: usize,
}

#[derive(Deserialize)]
struct RecordedResult {
    id: u64,
    cached_tokens: u32,
    first_token_s: f64,
    last_token_s: f64,
    preemptions: u32,
    chunks: Option<Vec<usize>>,
}

#[test]
fn twin_repeats_every_recorded_schedule() {
    let differences: Vec<String> = crate::conform::files()
        .iter()
        .filter_map(|file| replay(file).err())
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn twin_repeats_every_recorded_schedule_with_drafts() {
    let files = files_with_drafts();
    let differences: Vec<String> = files.iter().filter_map(|file| replay(file).err()).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn twin_repeats_every_recorded_schedule_with_stages() {
    let differences: Vec<String> = files_with_stages()
        .iter()
        .filter_map(|file| replay(file).err())
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// What another rule of a pipeline would be.
type ChangeOfStages = (&'static str, fn(&mut TwinStages));

#[test]
fn a_twin_with_other_rules_for_stages_is_found_out() {
    let changes: [ChangeOfStages; 4] = [
        // Asynchronously vLLM would fail without it.
        ("output of who was preempted", |stages| {
            stages.stale_output_drains ^= stages.stagger == 0;
        }),
        ("filling the queue", |stages| {
            stages.fills_queue_first = !stages.fills_queue_first;
        }),
        ("one call more between two shares", |stages| {
            stages.stagger += usize::from(stages.stagger > 0);
        }),
        ("no way between stages", |stages| {
            stages.transfer = TwinLaw::default()
        }),
    ];
    let recordings: Vec<Recording> = files_with_stages().iter().map(|file| read(file)).collect();
    for (what, change) in changes {
        let is_repeated = |recording: &&Recording| {
            let mut config = config(recording);
            change(config.stages.as_mut().expect("recorded with stages"));
            compare(recording, &run_twin(recording, &config)).is_ok()
        };
        let repeated = recordings.iter().filter(is_repeated).count();
        assert!(repeated < recordings.len(), "{what} makes no difference");
    }
}

/// What another rule would be, to be told from the recorded one.
type Change = (&'static str, fn(&mut TwinDrafts));

#[test]
fn a_twin_with_other_rules_for_drafts_is_found_out() {
    let changes: [Change; 5] = [
        ("one draft fewer", |drafts| drafts.most -= 1),
        ("no lookahead", |drafts| drafts.drafter = TwinDrafter::NGram),
        ("the last block found", |drafts| {
            drafts.last_block = TwinLastBlock::Kept
        }),
        ("the last block dropped", |drafts| {
            drafts.last_block = TwinLastBlock::Dropped;
        }),
        ("another version", |drafts| drafts.is_v11 = !drafts.is_v11),
    ];
    let mut recordings: Vec<Recording> = files_with_drafts().iter().map(|file| read(file)).collect();
    // Another course may lead to where a threshold cuts padding, and vLLM fails.
    recordings.retain(|recording| recording.params.long_prefill_token_threshold == 0);
    for (what, change) in changes {
        let is_repeated = |recording: &&Recording| {
            let mut config = config(recording);
            change(config.drafts.as_mut().expect("recorded with drafts"));
            compare(recording, &run_twin(recording, &config)).is_ok()
        };
        let repeated = recordings.iter().filter(is_repeated).count();
        assert!(repeated < recordings.len(), "{what} makes no difference");
    }
}

#[test]
fn every_accepted_draft_of_a_recording_counts() {
    for file in files_with_drafts() {
        let mut recording = read(&file);
        for request in &mut recording.requests {
            request.accepted.clear();
        }
        let got_more_than_one =
            |result: &RecordedResult| result.chunks.iter().flatten().any(|&tokens| tokens > 1);
        let counts = recording.results.iter().any(got_more_than_one);
        let run = run_twin(&recording, &config(&recording));
        assert_eq!(compare(&recording, &run).is_err(), counts, "{}", file.display());
    }
}

fn files_with_stages() -> Vec<PathBuf> {
    crate::conform::files_in(&["random-0.33-stages", "random-0.11-stages"])
}

fn files_with_drafts() -> Vec<PathBuf> {
    crate::conform::files_in(&["random-0.33-drafts", "random-0.11-drafts"])
}

/// Runs the twin on one recording; the error names the first difference.
fn replay(file: &Path) -> Result<(), String> {
    let recording = read(file);
    let run = run_twin(&recording, &config(&recording));
    compare(&recording, &run).map_err(|difference| format!("{}: {difference}", file.display()))
}

fn read(file: &Path) -> Recording {
    let gzipped = std::fs::File::open(file).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(gzipped)).unwrap()
}

fn run_twin(recording: &Recording, config: &TwinConfig) -> TwinRun {
    let requests: Vec<TwinRequest> = recording.requests.iter().map(request).collect();
    crate::twin::simulate(config, &requests, &mut |scheduled| {
        step_cost_ps(&recording.cost, scheduled)
    })
}

fn config(recording: &Recording) -> TwinConfig {
    let params = &recording.params;
    let version = match recording.profile.as_deref() {
        None | Some("vllm@0.33") => TwinConfig::v33(),
        Some("vllm@0.11") => TwinConfig::v11(),
        Some(other) => panic!("{other} was not recorded"),
    };
    let stages = recording
        .pipeline
        .as_ref()
        .map_or(1, |pipeline| pipeline.stages.len());
    TwinConfig {
        max_model_len: params.max_model_len,
        max_num_seqs: params.max_num_seqs,
        max_num_batched_tokens: params.max_num_batched_tokens,
        enable_chunked_prefill: params.enable_chunked_prefill,
        block_size: params.block_size,
        num_gpu_blocks: params.num_gpu_blocks,
        states: params.state_groups,
        enable_prefix_caching: params.enable_prefix_caching,
        priority_policy: params.policy == "priority",
        long_prefill_token_threshold: params.long_prefill_token_threshold,
        queue_depth: stages + usize::from(params.async_scheduling),
        stages: recording.pipeline.as_ref().map(|pipeline| TwinStages {
            laws: pipeline.stages.iter().map(law).collect(),
            transfer: law(&pipeline.transfer),
            preparation: TwinLaw::default(),
            stagger: if params.async_scheduling { stages } else { 0 },
            fills_queue_first: version.reserve_full_isl,
            stale_output_drains: version.reserve_full_isl,
        }),
        reserve_full_isl: recording.scheduler_reserve_full_isl,
        watermark_blocks: (params.watermark * params.num_gpu_blocks as f64) as usize,
        prefill_schedule_interval: params.prefill_schedule_interval.unwrap_or(1),
        drafts: params
            .speculative
            .as_ref()
            .map(|wanted| drafts(wanted, !version.reserve_full_isl)),
        ..version
    }
}

fn law(cost: &Cost) -> TwinLaw {
    let picos = |seconds: f64| (seconds * PS_PER_S).round() as u64;
    TwinLaw {
        per_step: picos(cost.per_step_s),
        per_token: picos(cost.per_token_s),
        per_pair: picos(cost.per_attended_token_s),
    }
}

fn drafts(wanted: &Speculative, is_v11: bool) -> TwinDrafts {
    let drafter = match wanted.method.as_str() {
        "eagle3" | "mtp" => TwinDrafter::Eagle,
        "draft_model" => TwinDrafter::DraftModel,
        "ngram" => TwinDrafter::NGram,
        other => panic!("{other} was not recorded"),
    };
    let last_block = match drafter {
        TwinDrafter::DraftModel | TwinDrafter::NGram => TwinLastBlock::Kept,
        TwinDrafter::Eagle if wanted.disable_eagle_block_drop => TwinLastBlock::Kept,
        TwinDrafter::Eagle if is_v11 || wanted.disable_lookahead_block_hashes => TwinLastBlock::Dropped,
        TwinDrafter::Eagle => TwinLastBlock::NamedWithNext,
    };
    TwinDrafts {
        drafter,
        most: wanted.num_speculative_tokens,
        last_block,
        is_v11,
    }
}

/// Spells a recorded request out in token identities.
///
/// Every generated token is the same `OUT`, so one at a given position equals any other there; a named segment
/// is always used from its start.
fn request(recorded: &RecordedRequest) -> TwinRequest {
    let out = segment("OUT");
    let mut prompt = Vec::new();
    let mut position = 0;
    for (name, len) in &recorded.prompt {
        let start = if name == "OUT" { position } else { 0 };
        prompt.push((segment(name), start, *len));
        position += len;
    }
    TwinRequest {
        id: recorded.id,
        // Recorded in whole microseconds; rounding drops the noise of the decimal fraction.
        arrival_ps: (recorded.arrival_s * 1e6).round() as u64 * 1_000_000,
        prompt,
        output_tokens: recorded.output_tokens,
        output_segment: out,
        ends_by_eos: false,
        priority: recorded.priority,
        abort_at: None,
        accepted: recorded.accepted.clone(),
        proposed: recorded.proposed.clone(),
    }
}

/// Numbers a segment by its name: FNV-1a, 64 bits.
fn segment(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// `dt = per_step_s + per_token_s * sum(n) + per_attended_token_s * sum(n * (computed + (n + 1) / 2))`.
fn step_cost_ps(cost: &Cost, scheduled: &[Scheduled]) -> u64 {
    let (mut tokens, mut attended) = (0.0, 0.0);
    for &(_, computed, n) in scheduled {
        let (computed, n) = (f64::from(computed), f64::from(n));
        tokens += n;
        attended += n * (computed + (n + 1.0) / 2.0);
    }
    let dt_s = cost.per_step_s + cost.per_token_s * tokens + cost.per_attended_token_s * attended;
    (dt_s * PS_PER_S).round() as u64
}

fn compare(recording: &Recording, run: &TwinRun) -> Result<(), String> {
    for (number, (recorded, step)) in recording.steps.iter().zip(&run.steps).enumerate() {
        compare_step(recorded, step).map_err(|difference| format!("step {number}: {difference}"))?;
    }
    same("number of steps", &recording.steps.len(), &run.steps.len())?;
    same("number of results", &recording.results.len(), &run.outcomes.len())?;
    let outcomes: BTreeMap<u64, &TwinOutcome> =
        run.outcomes.iter().map(|outcome| (outcome.id, outcome)).collect();
    for recorded in &recording.results {
        compare_result(recorded, outcomes[&recorded.id])
            .map_err(|difference| format!("request {}: {difference}", recorded.id))?;
    }
    Ok(())
}

fn compare_step(recorded: &RecordedStep, step: &TwinStep) -> Result<(), String> {
    let mut preempted = step.preempted.clone();
    preempted.sort_unstable();
    same("scheduled", &recorded.scheduled, &step.scheduled)?;
    if let Some(drafts) = &recorded.drafts {
        same("drafts", drafts, &step.drafts)?;
    }
    same("preempted", &recorded.preempted, &preempted)?;
    same("free blocks", &recorded.free_blocks, &step.free_blocks)?;
    same("running", &recorded.running, &step.running)?;
    same("waiting", &recorded.waiting, &step.waiting)?;
    same_time("scheduled at", recorded.t, step.scheduled_at_ps)?;
    same_time(
        "gpu start",
        recorded.gpu_start.unwrap_or(recorded.t),
        step.gpu_start_ps,
    )?;
    same_time("duration", recorded.dt, step.duration_ps)
}

fn compare_result(recorded: &RecordedResult, outcome: &TwinOutcome) -> Result<(), String> {
    same(
        "cached tokens",
        &Some(recorded.cached_tokens),
        &outcome.cached_tokens,
    )?;
    same("preemptions", &recorded.preemptions, &outcome.preemptions)?;
    if let Some(chunks) = &recorded.chunks {
        let times = &outcome.token_times_ps;
        let got: Vec<usize> = times
            .chunk_by(|one, next| one == next)
            .map(<[u64]>::len)
            .collect();
        same("chunks", chunks, &got)?;
    }
    same_time(
        "first token",
        recorded.first_token_s,
        *outcome.token_times_ps.first().unwrap(),
    )?;
    same_time(
        "last token",
        recorded.last_token_s,
        *outcome.token_times_ps.last().unwrap(),
    )
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, recorded: &T, twin: &T) -> Result<(), String> {
    if recorded == twin {
        Ok(())
    } else {
        Err(format!("{what}: recorded {recorded:?}, twin {twin:?}"))
    }
}

fn same_time(what: &str, recorded_s: f64, twin_ps: u64) -> Result<(), String> {
    let twin_s = twin_ps as f64 / PS_PER_S;
    let is_same = (recorded_s - twin_s).abs() <= TIME_TOLERANCE_S;
    if is_same {
        Ok(())
    } else {
        Err(format!("{what}: recorded {recorded_s} s, twin {twin_s} s"))
    }
}
