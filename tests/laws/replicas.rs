//! What the laws of clusters are made of: traffic as it is given, what befell every request, and engines of each kind with an
//! experiment's sizes.

use std::collections::BTreeMap;

use plimsoll::cluster::router::{KvEvents, Overlap, Policy};
use plimsoll::cost::StepCost;
use plimsoll::engine::EngineSpec;
use plimsoll::engine::scheduled::policies::{HfConfig, HfOrder, PreemptionMode, StaticConfig, V0Config};
use plimsoll::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use plimsoll::engine::sglang::{QueuePolicy, SglangConfig, SglangSwitches};
use plimsoll::ids::RequestId;
use plimsoll::sim::{Completion, Fact, Observer};
use plimsoll::units::Picos;
use plimsoll::workload::{Generator, Request, Traffic};
use proptest::prelude::*;

use crate::scenario::Experiment;

/// Requests at times of their own, whatever becomes of them.
#[derive(Clone)]
pub(crate) struct Given(pub(crate) std::collections::VecDeque<Request>);

impl Traffic for Given {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.front().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.0.pop_front().expect("one was announced")
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}

    fn failed(&mut self, _: RequestId, _: Picos) {}
}

/// What befell every request, and when.
#[derive(Default)]
pub(crate) struct Stories {
    pub(crate) ended: BTreeMap<u64, Vec<Completion>>,
    pub(crate) admitted: Vec<(u64, Picos)>,
    /// Of arrivals, admissions, first tokens and ends.
    pub(crate) last: Picos,
}

impl Observer for Stories {
    fn observe(&mut self, fact: &Fact<'_>) {
        let now = match fact {
            Fact::Arrived { request } => request.arrival,
            Fact::Admitted { now, id, .. } => {
                self.admitted.push((id.0, *now));
                *now
            }
            Fact::FirstToken { now, .. } | Fact::Preempted { now, .. } => *now,
            Fact::Ended(completion) => {
                let story = (*completion).clone();
                self.ended.entry(completion.id.0).or_default().push(story);
                completion.end
            }
            _ => return,
        };
        assert!(now >= self.last, "facts about requests come in order of time");
        self.last = now;
    }
}

/// The experiment's traffic as it comes when nobody waits for answers.
pub(crate) fn requests(experiment: &Experiment) -> Vec<Request> {
    let mut generator = Generator::new(&experiment.spec, experiment.seed);
    let mut requests = Vec::new();
    while let Some(now) = generator.next_arrival() {
        let request = generator.take();
        generator.ended(request.id, now);
        requests.push(request);
    }
    requests
}

/// SGLang with the experiment's sizes, whose dice are also this engine's.
pub(crate) fn sglang(experiment: &Experiment, seed: u64) -> EngineSpec {
    let vllm = &experiment.engine;
    let page_size = vllm.block_size;
    let pool = vllm.num_gpu_blocks.max(300 / page_size + 2) * page_size;
    let policies = [
        QueuePolicy::Fcfs,
        QueuePolicy::Lpm,
        QueuePolicy::DfsWeight,
        QueuePolicy::Lof,
    ];
    let config = SglangConfig {
        profile: "sglang@0.5.23".into(),
        context_length: 400,
        max_running_requests: vllm.max_num_seqs,
        chunked_prefill_size: vllm
            .enable_chunked_prefill
            .then(|| vllm.max_num_batched_tokens.next_multiple_of(page_size)),
        max_prefill_tokens: 16384,
        prefill_decode_interval: 0,
        prefill_max_requests: None,
        policy: policies[(seed % 4) as usize],
        priority: None,
        page_size,
        max_total_tokens: pool,
        radix_cache: vllm.enable_prefix_caching,
        enable_mixed_chunk: false,
        overlap_schedule: vllm.is_asynchronous(),
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        drafts: None,
        switches: SglangSwitches::V0_5_23,
        seed: 0,
        eos_segment: None,
    };
    config.with_conservativeness(1.0).into()
}

/// vLLM V0, static batching or Transformers with the experiment's sizes.
pub(crate) fn scheduled(experiment: &Experiment, seed: u64) -> EngineSpec {
    let vllm = &experiment.engine;
    let num_gpu_blocks = vllm.num_gpu_blocks.max(400 / vllm.block_size + 2);
    let max_num_batched_tokens = vllm.max_num_batched_tokens.max(vllm.max_num_seqs);
    let scheduler = match seed % 4 {
        0 => SchedulerChoice::Static(StaticConfig {
            batch_size: vllm.max_num_seqs,
            batch_timeout: Picos(seed % 3 * 50_000_000_000),
            release_rows_early: seed % 8 > 3,
            max_model_len: 400,
        }),
        1 => SchedulerChoice::HfContinuous(HfConfig {
            order: HfOrder::Fifo,
            max_batch_tokens: max_num_batched_tokens,
            margin_blocks: num_gpu_blocks / 5,
        }),
        _ => SchedulerChoice::VllmV0(V0Config {
            enable_chunked_prefill: vllm.enable_chunked_prefill,
            policy: vllm.policy,
            preemption_mode: PreemptionMode::Recompute,
            delay_factor: 0.0,
            // By priority 0.6.6 may push out whoever has ended, and fails.
            async_output_proc: seed % 4 == 3 && vllm.policy == plimsoll::engine::Policy::Fcfs,
        }),
    };
    let config = ScheduledConfig {
        profile: "scheduled".into(),
        max_model_len: 400,
        max_num_seqs: vllm.max_num_seqs,
        max_num_batched_tokens: if vllm.enable_chunked_prefill {
            max_num_batched_tokens
        } else {
            400
        },
        block_size: vllm.block_size,
        num_gpu_blocks,
        enable_prefix_caching: vllm.enable_prefix_caching && !seed.is_multiple_of(4),
        swap_blocks: 0,
        swap_time_per_block: Picos::ZERO,
        scheduler,
    };
    config.into()
}

/// Which engine serves.
pub(crate) fn kinds() -> impl Strategy<Value = u8> {
    0u8..3
}

pub(crate) fn engine(experiment: &Experiment, seed: u64, kind: u8) -> EngineSpec {
    match kind {
        1 => sglang(experiment, seed),
        2 => scheduled(experiment, seed),
        _ => {
            let mut config = experiment.engine.clone();
            config.max_num_queued_reqs = None;
            config.into()
        }
    }
}

pub(crate) fn costs(experiment: &Experiment, replicas: u32) -> Vec<Box<dyn StepCost>> {
    (0..replicas)
        .map(|_| Box::new(experiment.cost) as Box<dyn StepCost>)
        .collect()
}

pub(crate) fn kv_events(overlap: Overlap) -> Policy {
    Policy::KvEvents(KvEvents {
        overlap,
        ..KvEvents::default()
    })
}
