//! Runs a recording's requests and compares.

use std::collections::BTreeMap;

use super::Recording;
use super::difference::{
    Agreement, Difference, Share, Step, StepDifference, compare_steps, first_other_share, numbers, unordered,
};
use super::recording::{CostLaw, RecordedRequest, RecordedStep};
use super::requests::{Fixed, Results, named_request};
use super::{trtllm, v0};
use crate::config::speculation::{self, Method, Wish};
use crate::cost::StepCost;
use crate::cost::linear::{LinearCost, LinearStages};
use crate::engine::{Acceptance, EngineConfig, EngineSpec, KvGroups, ScheduleRecord, ToldRuns};
use crate::ids::RequestId;
use crate::sim::{Frontend, Simulation, Until};
use crate::units::Picos;
use crate::workload::Request;

/// Replays a recording.
///
/// # Errors
/// The first difference.
pub(super) fn replay(recording: &Recording) -> Result<Agreement, Box<Difference>> {
    let cost = step_cost(recording);
    let engine: EngineSpec = if recording.is_v0() {
        v0::config(recording).into()
    } else if recording.is_trtllm() {
        trtllm::config(recording).into()
    } else {
        engine_config(recording).into()
    };
    // Equal generated tokens are shared in a recording, so with caching every sequence is followed step by step.
    let stepwise = recording.params.enable_prefix_caching;
    let traffic = Fixed::new(recording.requests.iter().map(|sent| Request {
        priority: sent.priority,
        max_tokens: sent.max_tokens.unwrap_or(sent.output_tokens),
        ..named_request(sent.id, sent.arrival_s, &sent.prompt, sent.output_tokens)
    }));
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut simulation = make(engine, cost, Frontend::default(), traffic).logging();
    simulation = simulation.accepting(|| {
        let runs = recording.requests.iter();
        let told = |sent: &RecordedRequest| {
            let runs = ToldRuns {
                accepted: sent.accepted.clone(),
                proposed: sent.proposed.clone(),
            };
            (RequestId(sent.id), runs)
        };
        Acceptance::Told(runs.map(told).collect())
    });
    let mut results = Results::default();
    simulation.advance(Until::DRAINED, &mut results);
    let mut log = simulation.take_log();
    if recording.is_trtllm() {
        // Who stands where in a batch decides nothing, and is recorded by number.
        log.iter_mut().for_each(|step| step.shares.sort_unstable());
    }
    let mut largest = 0.0;
    compare_steps(&recording.steps, &log, &mut largest)?;
    results.compare(&recording.results, &limits(recording), &mut largest)?;
    Ok(Agreement {
        steps: log.len(),
        requests: recording.results.len(),
        largest_time_difference_s: largest,
    })
}

/// The most tokens that each answer may have.
fn limits(recording: &Recording) -> BTreeMap<u64, u32> {
    let limit = |sent: &RecordedRequest| {
        let prompt: u32 = sent.prompt.iter().map(|(_, tokens)| tokens).sum();
        let most = sent.max_tokens.unwrap_or(sent.output_tokens);
        (sent.id, most.min(recording.params.max_model_len - prompt))
    };
    recording.requests.iter().map(limit).collect()
}

fn step_cost(recording: &Recording) -> Box<dyn StepCost> {
    let linear = |law: &CostLaw| LinearCost::new(law.per_step_s, law.per_token_s, law.per_attended_token_s);
    match &recording.pipeline {
        None => Box::new(linear(&recording.cost)),
        Some(pipeline) => Box::new(LinearStages {
            preparation: LinearCost::NOTHING,
            stages: pipeline.stages.iter().map(linear).collect(),
            transfer: linear(&pipeline.transfer),
        }),
    }
}

fn engine_config(recording: &Recording) -> EngineConfig {
    let params = &recording.params;
    let profile = recording
        .profile()
        .expect("a recording is checked when it is read");
    EngineConfig {
        profile: recording.profile.clone(),
        max_model_len: params.max_model_len,
        max_num_seqs: params.max_num_seqs,
        max_num_batched_tokens: params.max_num_batched_tokens,
        enable_chunked_prefill: params.enable_chunked_prefill,
        long_prefill_token_threshold: params.long_prefill_token_threshold,
        policy: params.policy(),
        block_size: params.block_size,
        num_gpu_blocks: params.num_gpu_blocks,
        kv_groups: KvGroups {
            states: params.state_groups,
            ..KvGroups::ONE
        },
        enable_prefix_caching: params.enable_prefix_caching,
        watermark_blocks: (params.watermark * f64::from(params.num_gpu_blocks)) as u32,
        prefill_schedule_interval: params.prefill_schedule_interval,
        stages: recording.stages(),
        queue_depth: recording.stages() + u32::from(params.async_scheduling),
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos::ZERO,
        speculation: params.speculative.as_ref().and_then(|speculative| {
            let wish = Wish {
                method: Method::named(&speculative.method)?,
                drafts: speculative.num_speculative_tokens,
                runner_tokens: params.max_num_batched_tokens,
                keeps_hashes: speculative.disable_lookahead_block_hashes,
                drops_nothing: speculative.disable_eagle_block_drop,
                acceptance: Vec::new(),
            };
            Some(speculation::scheduled(wish, profile.speculation))
        }),
        // 0.11 has no such flag, so what a file leaves out must not count as set.
        switches: profile.version_switches(
            recording.scheduler_reserve_full_isl && profile.defaults.scheduler_reserve_full_isl,
        ),
    }
}

impl Step for RecordedStep {
    type Ours = ScheduleRecord;
    const NUMBER: &'static str = "number of steps";

    fn at_s(&self) -> f64 {
        self.t
    }

    fn ours_at(ours: &ScheduleRecord) -> Picos {
        ours.scheduled
    }

    fn difference(&self, ours: &ScheduleRecord, largest: &mut f64) -> Option<StepDifference> {
        share_difference(self, ours)
            .or_else(|| draft_difference(self, ours))
            .or_else(|| state_difference(self, ours))
            .or_else(|| time_difference(self, ours, largest))
    }
}

/// Which requests compute how many tokens in the step, in what order.
fn share_difference(expected: &RecordedStep, got: &ScheduleRecord) -> Option<StepDifference> {
    let (recorded, ours) = first_other_share(&expected.scheduled, &got.shares)?;
    let text = |share: Option<Share>| {
        share.map_or_else(
            || "nothing more".into(),
            |(id, computed, new)| format!("({id}, {computed}, {new})"),
        )
    };
    let what = "share (request, computed tokens, scheduled tokens)";
    let difference = StepDifference::new(what, text(recorded), text(ours));
    Some(difference.about(recorded.or(ours).map(|share| share.0)))
}

/// How many drafts are in equal shares, if that was recorded.
fn draft_difference(expected: &RecordedStep, got: &ScheduleRecord) -> Option<StepDifference> {
    let recorded = expected.drafts.as_ref().filter(|_| !got.drafts.is_empty())?;
    let at = (0..got.shares.len()).find(|&at| recorded.get(at) != got.drafts.get(at))?;
    let text = |drafts: &[u32]| drafts.get(at).map_or_else(|| "none told".into(), u32::to_string);
    let difference = StepDifference::new("drafts of a share", text(recorded), text(&got.drafts));
    Some(difference.about(Some(got.shares[at].0.0)))
}

/// Preempted requests, free blocks and queues after the step was scheduled.
fn state_difference(expected: &RecordedStep, got: &ScheduleRecord) -> Option<StepDifference> {
    let preempted = (
        "preempted",
        unordered(expected.preempted.iter().copied()),
        unordered(numbers(&got.preempted)),
    );
    let counts = [
        ("free blocks", expected.free_blocks, got.free_blocks),
        ("running", expected.running, got.running),
        ("waiting", expected.waiting, got.waiting),
    ];
    StepDifference::first([preempted]).or_else(|| StepDifference::first(counts))
}

/// The step's times; `largest` keeps the largest difference so far.
fn time_difference(
    expected: &RecordedStep,
    got: &ScheduleRecord,
    largest: &mut f64,
) -> Option<StepDifference> {
    let times = [
        ("time of scheduling", Some(expected.t), got.scheduled),
        ("begin on the GPU", expected.gpu_start, got.begin),
        ("duration", Some(expected.dt), got.duration),
    ];
    StepDifference::of_times(times, largest)
}
