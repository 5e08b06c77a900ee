//! Runs a recording's requests and compares.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::Recording;
use super::difference::{
    Agreement, Difference, StepDifference, TIME_TOLERANCE_S, further_step, numbers, unordered,
};
use super::recording::{CostLaw, RecordedRequest, RecordedStep};
use super::{trtllm, v0};
use crate::config::speculation::{self, Method, Wish};
use crate::cost::StepCost;
use crate::cost::linear::{LinearCost, LinearStages};
use crate::engine::{Acceptance, EngineConfig, EngineSpec, KvGroups, Policy, ScheduleRecord, ToldRuns};
use crate::ids::{RequestId, SegmentId};
use crate::sim::{Completion, Fact, Frontend, Observer, Outcome, Simulation, Until};
use crate::units::Picos;
use crate::workload::{Piece, Prompt, Request, Traffic};

/// The text of generated tokens: every one of them is the same token, so its place in the sequence identifies it.
const GENERATED: SegmentId = SegmentId(u64::MAX >> 1);

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
    compare(recording, &log, &results)
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
        policy: if params.policy == "priority" {
            Policy::Priority
        } else {
            Policy::Fcfs
        },
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
        switches: profile.version_switches(recording.scheduler_reserve_full_isl),
    }
}

/// The requests of a recording, in order of (arrival, id).
pub(super) struct Fixed {
    requests: std::vec::IntoIter<Request>,
}

impl Fixed {
    pub(super) fn new(requests: impl Iterator<Item = Request>) -> Fixed {
        let mut requests: Vec<Request> = requests.collect();
        requests.sort_by_key(|request| (request.arrival, request.id));
        Fixed {
            requests: requests.into_iter(),
        }
    }
}

/// A request whose prompt is named in words.
pub(super) fn named_request(
    id: u64,
    arrival_s: f64,
    prompt: &[(String, u32)],
    output_tokens: u32,
) -> Request {
    let mut pieces = Vec::new();
    let mut position = 0;
    for (name, tokens) in prompt {
        let (segment, start) = if name == "OUT" {
            (GENERATED, position)
        } else {
            (SegmentId(name_hash(name)), 0)
        };
        pieces.push(Piece {
            segment,
            start,
            tokens: *tokens,
        });
        position += tokens;
    }
    Request {
        id: RequestId(id),
        arrival: Picos::from_seconds(arrival_s),
        client_queue_time: Picos::ZERO,
        prompt_tokens: position,
        output_tokens,
        max_tokens: output_tokens,
        priority: 0,
        prompt: Prompt::Pieces(pieces.into()),
        output_segment: GENERATED,
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

/// Segments are named in the file; names map to numbers below the range of generated text.
fn name_hash(name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish() >> 2
}

impl Traffic for Fixed {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.requests.as_slice().first().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.requests.next().expect("taken only after it was announced")
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// What became of each request here.
#[derive(Default)]
pub(super) struct Results {
    completions: BTreeMap<u64, Completion>,
}

impl Observer for Results {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            self.completions.insert(completion.id.0, (*completion).clone());
        }
    }
}

fn compare(
    recording: &Recording,
    log: &[ScheduleRecord],
    results: &Results,
) -> Result<Agreement, Box<Difference>> {
    let mut largest: f64 = 0.0;
    for (index, (expected, got)) in recording.steps.iter().zip(log).enumerate() {
        let difference = scheduled_difference(expected, got).or_else(|| state_difference(expected, got));
        if let Some(difference) = difference.or_else(|| time_difference(expected, got, &mut largest)) {
            return Err(Box::new(difference.of(index, expected.t)));
        }
    }
    let (recorded, ours) = (recording.steps.iter(), log.iter());
    let (recorded, ours) = (
        recorded.map(|step| step.t),
        ours.map(|step| step.scheduled.seconds()),
    );
    if let Some(difference) = further_step("number of steps", recorded, ours) {
        return Err(Box::new(difference));
    }
    let longest = recording.params.max_model_len;
    let limits = recording.requests.iter().map(|sent| {
        let prompt: u32 = sent.prompt.iter().map(|(_, tokens)| tokens).sum();
        let most = sent.max_tokens.unwrap_or(sent.output_tokens);
        (sent.id, most.min(longest - prompt))
    });
    let limits: BTreeMap<u64, u32> = limits.collect();
    let expected = recording.results.iter().map(|result| Expected {
        id: result.id,
        cached_tokens: result.cached_tokens,
        total_cached_tokens: result.total_cached_tokens,
        preemptions: result.preemptions,
        finish: result.finish.as_deref(),
        limit: limits.get(&result.id).copied(),
        first_token_s: result.first_token_s,
        last_token_s: result.last_token_s,
    });
    results.compare(expected, &mut largest)?;
    Ok(Agreement {
        steps: log.len(),
        requests: recording.results.len(),
        largest_time_difference_s: largest,
    })
}

/// Which requests compute how many tokens in the step, in what order.
fn scheduled_difference(expected: &RecordedStep, got: &ScheduleRecord) -> Option<StepDifference> {
    let shares = got.shares.iter().map(|&(id, computed, n)| (id.0, computed, n));
    let shares: Vec<(u64, u32, u32)> = shares.collect();
    let at = (0..shares.len().max(expected.scheduled.len()))
        .find(|&at| expected.scheduled.get(at) != shares.get(at));
    let Some(at) = at else {
        return draft_difference(expected, got);
    };
    let (recorded, ours) = (expected.scheduled.get(at), shares.get(at));
    let request = recorded.or(ours).map(|share| share.0);
    let difference = StepDifference::new(
        "share (request, computed tokens, scheduled tokens)",
        share_text(recorded),
        share_text(ours),
    );
    Some(difference.about(request))
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

fn share_text(share: Option<&(u64, u32, u32)>) -> String {
    share.map_or_else(
        || "nothing more".into(),
        |(id, computed, n)| format!("({id}, {computed}, {n})"),
    )
}

/// What became of a request there.
pub(super) struct Expected<'a> {
    pub(super) id: u64,
    pub(super) cached_tokens: u32,
    /// As the engine itself tells of them, if it was recorded: those of its first admission, too (SG-41).
    pub(super) total_cached_tokens: Option<u32>,
    pub(super) preemptions: u32,
    /// `length` or `stop`, if it was recorded.
    pub(super) finish: Option<&'a str>,
    /// An answer of so many tokens ends by its length; `None` if nobody sent it.
    pub(super) limit: Option<u32>,
    pub(super) first_token_s: f64,
    pub(super) last_token_s: f64,
}

impl Results {
    /// Demands the recorded results.
    pub(super) fn compare<'a>(
        &self,
        expected: impl Iterator<Item = Expected<'a>>,
        largest: &mut f64,
    ) -> Result<(), Box<Difference>> {
        for expected in expected {
            let differs = |what: &'static str, expected_text: String, got: String| {
                Box::new(Difference::Result {
                    request: expected.id,
                    what,
                    expected: expected_text,
                    got,
                })
            };
            let Some(got) = self.completions.get(&expected.id) else {
                return Err(differs("outcome", "finished".into(), "never ended".into()));
            };
            let total_cached = expected.total_cached_tokens.unwrap_or(got.cached_tokens);
            for (what, expected, got) in [
                ("prefix-cached tokens", expected.cached_tokens, got.cached_tokens),
                ("total prefix-cached tokens", total_cached, got.cached_tokens),
                ("preemptions", expected.preemptions, got.preemptions),
            ] {
                if expected != got {
                    return Err(differs(what, expected.to_string(), got.to_string()));
                }
            }
            let finish = finish_reason(got, expected.limit);
            if expected.finish.is_some_and(|expected| expected != finish) {
                let expected = expected.finish.unwrap_or_default().to_owned();
                return Err(differs("finish reason", expected, finish.to_owned()));
            }
            for (what, expected, got) in [
                ("time of the first token", expected.first_token_s, got.first_token),
                ("time of the last token", expected.last_token_s, Some(got.end)),
            ] {
                let expected_text = format!("{expected:.9} s");
                let Some(got) = got.map(Picos::seconds) else {
                    return Err(differs(what, expected_text, "none".to_owned()));
                };
                let difference = (expected - got).abs();
                *largest = largest.max(difference);
                if difference > TIME_TOLERANCE_S {
                    return Err(differs(what, expected_text, format!("{got:.9} s")));
                }
            }
        }
        Ok(())
    }
}

/// Why an answer ended, as the engines name it: with the last token that was allowed, or before it.
fn finish_reason(got: &Completion, limit: Option<u32>) -> &'static str {
    match got.outcome {
        Outcome::Completed if Some(got.output_tokens) == limit => "length",
        Outcome::Completed => "stop",
        _ => "abort",
    }
}
