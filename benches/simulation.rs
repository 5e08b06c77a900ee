//! Simulated requests per second of one core: bare, recorded, without leaps, by the naive twin of the tests, with
//! shared prefixes, and on a real trace.
//!
//! The budget of a recorded request of 512 prompt and 128 output tokens is 333 ns. The trace is read from
//! `$PLIMSOLL_DATA/traces/mooncake_conversation_trace.jsonl` where that is set, and left out elsewhere.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::cluster::ClusterSpec;
use plimsoll::cluster::router::{CacheAware, KvEvents, Policy};
use plimsoll::cost::StepCost;
use plimsoll::cost::calibration::{KernelFormat, for_device};
use plimsoll::cost::roofline::{Exchange, Fp8Inputs, Graphs, Placement, RooflineCost};
use plimsoll::engine::EngineConfig;
use plimsoll::metrics::Records;
use plimsoll::model::Dtype;
use plimsoll::sim::{Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::trace::{self, ReadOptions};
use plimsoll::workload::{Arrivals, Generator, Prefix, Traffic, WorkloadSpec};

#[expect(dead_code, reason = "the tests use all of it")]
#[path = "../tests/common/mod.rs"]
mod common;
#[expect(dead_code, reason = "the tests use all of it")]
#[path = "../tests/engine/twin/mod.rs"]
#[expect(unused_imports, reason = "the tests use more of it")]
mod twin;

use twin::{TwinConfig, TwinRequest};

const REQUESTS: u64 = 50_000;
/// So many that setting up counts for nothing.
const MANY: u64 = 500_000;
const BLOCK_SIZE: u32 = 16;

struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _: &Fact<'_>) {}
}

/// An H100 that serves Llama-3.1-8B, at the shipped calibration.
fn cost() -> RooflineCost {
    let (device, _) = plimsoll::hardware::find("h100").expect("the profile is shipped");
    let (shape, _) = plimsoll::model::find("meta-llama/Llama-3.1-8B-Instruct").expect("the shape is shipped");
    let small = [1, 2, 4].into_iter();
    let capture_sizes = small.chain((8..256).step_by(8)).chain((256..=512).step_by(16));
    let placement = Placement {
        tensor_parallel: 1,
        data_parallel: 1,
        expert_groups: 1,
        gathers: None,
        exchange: Exchange::AllReduce,
        kv_format: Dtype::Bf16.into(),
        graphs: Graphs {
            capture_sizes: capture_sizes.collect(),
            pads: true,
            routes_padding: true,
            ..Graphs::default()
        },
        asynchronous: true,
        engine: "vllm".into(),
        typical_context: 1024,
        drafting: None,
        inputs: Fp8Inputs::AsTimed,
        fused_norms: None,
        fp8_experts: KernelFormat::Fp8,
        pipeline: None,
    };
    let calibration = for_device(&device, "vllm").calibration;
    RooflineCost::new(&device, &shape, &calibration, &placement).expect("the calibration is complete")
}

fn engine(caching: bool) -> EngineConfig {
    EngineConfig {
        max_model_len: 131_072,
        max_num_seqs: 1024,
        num_gpu_blocks: 27_715,
        enable_prefix_caching: caching,
        queue_depth: 2,
        ..common::ample_engine()
    }
}

fn traffic(arrivals: Arrivals, prefix: Prefix, num_prompts: Option<u64>) -> WorkloadSpec {
    WorkloadSpec {
        prefix,
        num_prompts,
        ..common::plain(arrivals, 512, 128, REQUESTS)
    }
}

fn poisson() -> Arrivals {
    Arrivals::Poisson { request_rate: 10.0 }
}

fn simulation(spec: &WorkloadSpec, caching: bool) -> Simulation<Generator> {
    Simulation::new(
        engine(caching),
        Box::new(cost()),
        Frontend::default(),
        Generator::new(spec, 0),
    )
}

fn run_bare(mut simulation: Simulation<Generator>) -> Picos {
    simulation.advance(Until::DRAINED, &mut Nobody);
    simulation.now()
}

fn run_recorded(mut simulation: Simulation<Generator>) -> f64 {
    let mut recorder = common::recorder(&engine(false), Records::None);
    simulation.advance(Until::DRAINED, &mut recorder);
    recorder.finish(simulation.now()).whole.duration_s
}

/// The requests of `spec`, as the naive twin takes them.
fn twin_requests(spec: &WorkloadSpec) -> Vec<TwinRequest> {
    let mut generator = Generator::new(spec, 0);
    let mut requests = Vec::new();
    while generator.next_arrival().is_some() {
        let request = generator.take();
        requests.push(TwinRequest {
            id: request.id.0,
            arrival_ps: request.arrival.0,
            prompt: vec![(2 * request.id.0, 0, request.prompt_tokens)],
            output_tokens: request.output_tokens,
            output_segment: 2 * request.id.0 + 1,
            ends_by_eos: false,
            priority: 0,
            abort_at: None,
            accepted: Vec::new(),
            proposed: None,
        });
    }
    requests
}

/// The twin visits every sequence in every step; its steps cost what decoding this model costs, near enough.
fn run_twin(config: &TwinConfig, requests: &[TwinRequest]) -> usize {
    let mut price = |shares: &[twin::Scheduled]| {
        let tokens: u64 = shares.iter().map(|share| u64::from(share.2)).sum();
        6_500_000_000 + 20_000_000 * tokens
    };
    twin::simulate(config, requests, &mut price).steps.len()
}

/// 512 prompt and 128 output tokens at 10 requests/s. `stepwise` visits every sequence in every step: the ratio to
/// `bare` is what packing and leaping are worth.
fn plain(group: &mut BenchmarkGroup<'_, WallTime>) {
    let spec = traffic(poisson(), Prefix::None, Some(MANY));
    group.throughput(Throughput::Elements(MANY));
    group.bench_function("bare", |b| {
        b.iter(|| black_box(run_bare(simulation(&spec, false))));
    });
    group.bench_function("recorded", |b| {
        b.iter(|| black_box(run_recorded(simulation(&spec, false))));
    });
    let few = traffic(poisson(), Prefix::None, Some(REQUESTS / 10));
    group.throughput(Throughput::Elements(REQUESTS / 10));
    group.bench_function("stepwise", |b| {
        b.iter(|| {
            black_box(run_bare(Simulation::stepwise(
                engine(false),
                Box::new(cost()),
                Frontend::default(),
                Generator::new(&few, 0),
            )))
        });
    });
    let config = TwinConfig {
        block_size: BLOCK_SIZE,
        num_gpu_blocks: 27_715,
        max_num_batched_tokens: 8192,
        ..TwinConfig::v33()
    };
    let fewer = traffic(poisson(), Prefix::None, Some(REQUESTS / 100));
    let requests = twin_requests(&fewer);
    group.throughput(Throughput::Elements(REQUESTS / 100));
    group.bench_function("naive_twin", |b| {
        b.iter(|| black_box(run_twin(&config, &requests)))
    });
}

/// The same with prefix caching, each prompt behind one of a hundred prefixes of 1,024 tokens.
fn shared(group: &mut BenchmarkGroup<'_, WallTime>) {
    let prefix = Prefix::Groups {
        count: 100,
        prefix_len: 1024,
        zipf: 1.0,
        exact_shares: false,
    };
    let spec = traffic(poisson(), prefix, Some(REQUESTS));
    group.throughput(Throughput::Elements(REQUESTS));
    group.bench_function("shared_prefixes", |b| {
        b.iter(|| black_box(run_recorded(simulation(&spec, true))));
    });
}

/// 64 replicas at 10 requests/s each, nobody recording: in turn, by load, and by what they have cached.
fn cluster(group: &mut BenchmarkGroup<'_, WallTime>) {
    let prefix = Prefix::Groups {
        count: 1000,
        prefix_len: 1024,
        zipf: 1.0,
        exact_shares: false,
    };
    let policies = [
        ("cluster_round_robin", Policy::RoundRobin, false),
        ("cluster_least_requests", Policy::LeastRequests, false),
        (
            "cluster_cache_aware",
            Policy::CacheAware(CacheAware::default()),
            true,
        ),
        ("cluster_kv_events", Policy::KvEvents(KvEvents::default()), true),
    ];
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, policy, caching) in policies {
        let sharing = if caching { prefix.clone() } else { Prefix::None };
        let spec = traffic(Arrivals::Poisson { request_rate: 640.0 }, sharing, Some(REQUESTS));
        group.bench_function(name, |b| {
            b.iter(|| black_box(run_bare(fleet(&spec, caching, policy))))
        });
    }
}

fn fleet(spec: &WorkloadSpec, caching: bool, policy: Policy) -> Simulation<Generator> {
    let costs = (0..64).map(|_| Box::new(cost()) as Box<dyn StepCost>).collect();
    Simulation::of_cluster(
        &engine(caching).into(),
        costs,
        &ClusterSpec::of(64, policy),
        0,
        Frontend::default(),
        Generator::new(spec, 0),
    )
}

/// Conversations at their own instants, with prefix caching; reading the trace is not measured.
fn replayed(group: &mut BenchmarkGroup<'_, WallTime>) {
    let Some(data) = std::env::var_os("PLIMSOLL_DATA") else {
        return;
    };
    let path = PathBuf::from(data).join("traces/mooncake_conversation_trace.jsonl");
    let bytes = std::fs::read(&path).expect("PLIMSOLL_DATA holds the trace");
    let trace = trace::read(&bytes, "mooncake", &ReadOptions::default()).expect("the trace is well-formed");
    let requests: Arc<[_]> = trace.requests.into();
    group.throughput(Throughput::Elements(requests.len() as u64));
    let arrivals = Arrivals::Replay {
        requests,
        time_scale: 1.0,
    };
    let spec = traffic(arrivals, Prefix::None, None);
    group.bench_function("mooncake_conversation", |b| {
        b.iter(|| black_box(run_recorded(simulation(&spec, true))));
    });
}

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulation");
    group.sample_size(20);
    plain(&mut group);
    shared(&mut group);
    cluster(&mut group);
    replayed(&mut group);
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
