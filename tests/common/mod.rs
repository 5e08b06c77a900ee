//! What several test binaries are built from: a plain engine, plain traffic, one request, a recorder.

use plimsoll::engine::{EngineConfig, KvGroups, Policy, VersionSwitches};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Client, Lengths, Prefix, Prompt, Request, WorkloadSpec};

/// An engine with room for everything that these tests send.
pub(crate) fn ample_engine() -> EngineConfig {
    EngineConfig {
        profile: "test".into(),
        max_model_len: 4096,
        max_num_seqs: 256,
        max_num_batched_tokens: 8192,
        enable_chunked_prefill: true,
        long_prefill_token_threshold: 0,
        policy: Policy::Fcfs,
        block_size: 16,
        num_gpu_blocks: 100_000,
        kv_groups: KvGroups::ONE,
        enable_prefix_caching: false,
        watermark_blocks: 0,
        prefill_schedule_interval: 1,
        stages: 1,
        queue_depth: 1,
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos::ZERO,
        speculation: None,
        switches: VersionSwitches::VLLM_0_33,
    }
}

/// Plain traffic of equal requests.
pub(crate) fn plain(arrivals: Arrivals, input_len: u32, output_len: u32, requests: u64) -> WorkloadSpec {
    WorkloadSpec {
        arrivals,
        lengths: Lengths::Fixed {
            input_len,
            output_len,
        },
        prefix: Prefix::None,
        client: Client::default(),
        num_prompts: Some(requests),
        duration: None,
        endings: None,
        classes: Vec::new(),
    }
}

/// A request that shares nothing and has no deadline.
pub(crate) fn request(id: u64, arrival: Picos, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request {
        id: RequestId(id),
        arrival,
        client_queue_time: Picos::ZERO,
        prompt_tokens,
        output_tokens,
        max_tokens: output_tokens,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: SegmentId(id),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

/// A recorder of one replica, without goodput limits.
pub(crate) fn recorder(engine: &EngineConfig, records: Records) -> Recorder {
    Recorder::new(RecorderOptions {
        fleet: Fleet::alike(1, engine.num_gpu_blocks - 1, engine.block_size),
        slo: SloLimits::default(),
        records,
    })
}
