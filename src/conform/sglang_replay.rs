//! Runs a recording of SGLang's scheduler and compares pass by pass.

use std::collections::BTreeMap;

use super::check::{RecordingError, fail};
use super::difference::{
    Agreement, Difference, Share, Step, StepDifference, compare_steps, first_other_share, numbers, unordered,
};
use super::recording::RecordedResult;
use super::requests::{Fixed, Results, named_request};
use super::sglang::{SglangRecording, SglangRequest, SglangStep};
use crate::config::sglang::{Algorithm, Tree};
use crate::cost::linear::LinearCost;
use crate::engine::sglang::{
    BatchMode, PriorityRule, QueuePolicy, RecordedPass, SglangConfig, SglangRecord, SglangSwitches,
    clipped_max_new,
};
use crate::engine::{Acceptance, ToldRuns};
use crate::ids::{RequestId, SegmentId};
use crate::sim::{Frontend, Simulation, Until};
use crate::units::Picos;
use crate::workload::Request;

/// The text of end-of-sequence tokens: no recorded prompt contains one.
const EOS: SegmentId = SegmentId((u64::MAX >> 1) - 1);
/// The recorded ratio is rounded to six decimals.
const RATIO_TOLERANCE: f64 = 1e-6;

/// Replays a recording of SGLang.
///
/// # Errors
/// The first difference.
pub(super) fn replay(recording: &SglangRecording, stepwise: bool) -> Result<Agreement, Box<Difference>> {
    let law = recording.cost;
    let cost = LinearCost::new(law.per_step_s, law.per_token_s, law.per_attended_token_s);
    let config = config(recording).expect("a recording is checked when it is read");
    let requests: Vec<Request> = recording.requests.iter().map(request).collect();
    let limit = |request: &Request| (request.id.0, clipped_max_new(request, &config));
    let limits: BTreeMap<u64, u32> = requests.iter().map(limit).collect();
    let traffic = Fixed::new(requests.into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let simulation = make(config, Box::new(cost), Frontend::default(), traffic).logging();
    let simulation = simulation.accepting(|| Acceptance::Told(told(recording)));
    let mut simulation = simulation.replaying(recorded_passes(recording));
    let mut results = Results::default();
    simulation.advance(Until::DRAINED, &mut results);
    let log = simulation.take_sglang_log();
    let mut largest = 0.0;
    compare_steps(&recording.steps, &log, &mut largest)?;
    results.compare(&comparable_results(recording), &limits, &mut largest)?;
    Ok(Agreement {
        steps: log.len(),
        requests: recording.results.len(),
        largest_time_difference_s: largest,
    })
}

/// The recorded results. 0.5.4's totals count the hits of re-admissions, too (SG-41): there is nothing to hold them against.
fn comparable_results(recording: &SglangRecording) -> Vec<RecordedResult> {
    let mut results = recording.results.clone();
    if switches(&recording.engine).is_ok_and(|switches| switches == SglangSwitches::V0_5_4) {
        results
            .iter_mut()
            .for_each(|result| result.total_cached_tokens = None);
    }
    results
}

fn request(sent: &SglangRequest) -> Request {
    Request {
        max_tokens: sent.max_new_tokens,
        priority: sent.priority,
        ignore_eos: sent.ignore_eos,
        ..named_request(sent.id, sent.arrival_s, &sent.prompt, sent.output_tokens)
    }
}

/// How many drafts stood.
fn told(recording: &SglangRecording) -> BTreeMap<RequestId, ToldRuns> {
    let of_one = |sent: &SglangRequest| {
        let runs = ToldRuns {
            accepted: sent.accepted.clone(),
            proposed: None,
        };
        (RequestId(sent.id), runs)
    };
    recording.requests.iter().map(of_one).collect()
}

/// What the engine left to chance in each pass.
fn recorded_passes(recording: &SglangRecording) -> Vec<RecordedPass> {
    let pass = |step: &SglangStep| RecordedPass {
        at: Picos::from_seconds(step.t),
        // Before the pass: who was admitted, then who still waits.
        queue: step.waiting_ids.as_ref().map(|waiting| {
            let admitted = step.scheduled.iter().map(|share| share.0);
            admitted.chain(waiting.iter().copied()).map(RequestId).collect()
        }),
        retracted: step.preempted.iter().copied().map(RequestId).collect(),
    };
    recording.steps.iter().map(pass).collect()
}

/// The engine of a recording.
pub(super) fn config(recording: &SglangRecording) -> Result<SglangConfig, RecordingError> {
    let params = &recording.params;
    let policy = match params.schedule_policy.as_str() {
        "fcfs" => QueuePolicy::Fcfs,
        "lpm" => QueuePolicy::Lpm,
        "dfs-weight" => QueuePolicy::DfsWeight,
        "lof" => QueuePolicy::Lof,
        "random" => QueuePolicy::Random,
        other => {
            return fail(format!(
                "`params.schedule_policy` is \"{other}\"; known are fcfs, lpm, dfs-weight, lof and random"
            ));
        }
    };
    let config = SglangConfig {
        profile: recording.engine.clone(),
        context_length: params.context_length,
        max_running_requests: params.max_running_requests,
        chunked_prefill_size: u32::try_from(params.chunked_prefill_size)
            .ok()
            .filter(|&size| size > 0),
        max_prefill_tokens: params.max_prefill_tokens,
        prefill_decode_interval: params.prefill_decode_interval,
        prefill_max_requests: params.prefill_max_requests,
        policy,
        priority: params.enable_priority_scheduling.then_some(PriorityRule {
            low_values_first: params.schedule_low_priority_values_first,
            preemption_threshold: params.priority_scheduling_preemption_threshold,
        }),
        page_size: params.page_size,
        max_total_tokens: params.kv_pool_tokens,
        radix_cache: !params.disable_radix_cache,
        enable_mixed_chunk: params.enable_mixed_chunk,
        overlap_schedule: recording.engine_state.overlap,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        drafts: params.speculative.as_ref().and_then(|speculative| {
            let tokens = speculative.num_draft_tokens;
            let tree = Tree {
                steps: speculative.num_steps.unwrap_or(tokens - 1),
                branches: speculative.topk,
                tokens,
            };
            let algorithm = Algorithm::named(&speculative.algorithm)?;
            Some(tree.scheduled(algorithm, params.page_size, Vec::new()))
        }),
        switches: switches(&recording.engine)?,
        seed: 0,
        eos_segment: Some(EOS),
    };
    Ok(config.with_conservativeness(params.schedule_conservativeness))
}

/// What the version that recorded does.
fn switches(engine: &str) -> Result<SglangSwitches, RecordingError> {
    let version = engine.trim_start_matches("sglang").trim_start_matches(['@', ' ']);
    match version.split(' ').next() {
        Some("0.5.23") => Ok(SglangSwitches::V0_5_23),
        Some("0.5.4") => Ok(SglangSwitches::V0_5_4),
        _ => fail(format!(
            "`engine` is \"{engine}\"; known are sglang@0.5.23 and sglang@0.5.4"
        )),
    }
}

impl Step for SglangStep {
    type Ours = SglangRecord;
    const NUMBER: &'static str = "number of passes";

    fn at_s(&self) -> f64 {
        self.t
    }

    fn ours_at(ours: &SglangRecord) -> Picos {
        ours.scheduled
    }

    fn difference(&self, ours: &SglangRecord, largest: &mut f64) -> Option<StepDifference> {
        batch_difference(self, ours)
            .or_else(|| state_difference(self, ours))
            .or_else(|| time_difference(self, ours, largest))
    }
}

/// Which requests compute how many tokens in the pass, in what order and in what kind of batch.
fn batch_difference(expected: &SglangStep, got: &SglangRecord) -> Option<StepDifference> {
    let mode = match got.mode {
        BatchMode::Extend => "extend",
        BatchMode::Decode => "decode",
        BatchMode::Mixed => "mixed",
        BatchMode::None => "none",
    };
    let Some((recorded, ours)) = first_other_share(&expected.scheduled, &got.shares) else {
        return StepDifference::first([("mode", expected.mode.as_str(), mode)]);
    };
    let text = |share: Option<Share>, mode: &str| match share {
        Some((id, kv, new)) => format!("({id}, {kv}, {new}) in a batch of mode {mode}"),
        None => format!("nothing more in a batch of mode {mode}"),
    };
    let difference = StepDifference::new(
        "share (request, tokens with KV, new tokens)",
        text(recorded, &expected.mode),
        text(ours, mode),
    );
    Some(difference.about(recorded.or(ours).map(|share| share.0)))
}

/// Queues, pages, the tree and the loop's own state after the pass decided.
fn state_difference(expected: &SglangStep, got: &SglangRecord) -> Option<StepDifference> {
    let queue = expected.waiting_ids.as_ref().map(|waiting| {
        let ours: Vec<u64> = numbers(&got.order).collect();
        ("queue", format!("{waiting:?}"), format!("{ours:?}"))
    });
    let lists = [
        (
            "retracted",
            unordered(expected.preempted.iter().copied()),
            unordered(numbers(&got.retracted)),
        ),
        (
            "chunked request",
            format!("{:?}", expected.chunked),
            format!("{:?}", got.chunked.map(|id| id.0)),
        ),
    ];
    let counts = [
        ("free pages", expected.free_blocks.into(), got.free_pages.into()),
        ("evictable tokens", expected.evictable, got.evictable),
        ("protected tokens", expected.protected, got.protected),
        ("running", expected.running.into(), got.running.into()),
        ("waiting", expected.waiting.into(), got.waiting.into()),
        ("full", expected.full.into(), got.full.into()),
    ];
    let ratio = || {
        let is_off = (expected.ratio - got.ratio).abs() > RATIO_TOLERANCE;
        let text = |ratio: f64| format!("{ratio:.9}");
        is_off.then(|| StepDifference::new("new-token ratio", text(expected.ratio), text(got.ratio)))
    };
    StepDifference::first(lists.into_iter().chain(queue))
        .or_else(|| StepDifference::first(counts))
        .or_else(ratio)
}

/// The pass's times; `largest` keeps the largest difference so far.
fn time_difference(expected: &SglangStep, got: &SglangRecord, largest: &mut f64) -> Option<StepDifference> {
    let times = [
        ("time of the decision", Some(expected.t), got.scheduled),
        ("begin on the GPU", expected.gpu_start, got.begin),
        ("duration", Some(expected.dt), got.duration),
    ];
    StepDifference::of_times(times, largest)
}
