//! Simulated requests per second of one core: `cargo run --release --example throughput -- [requests] [rate]`.

#![expect(clippy::print_stdout, reason = "what it shows is its result")]
use plimsoll::cost::calibration::for_device;
use plimsoll::cost::roofline::{Graphs, Placement, RooflineCost};
use plimsoll::engine::{EngineConfig, Policy, VersionSwitches};
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::model::Dtype;
use plimsoll::sim::{Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Client, Generator, Lengths, Prefix, WorkloadSpec};

struct Nobody;
impl Observer for Nobody {
    fn observe(&mut self, _: &Fact<'_>) {}
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: u64 = args.get(1).map_or(1_000_000, |a| a.parse().unwrap());
    let rate: f64 = args.get(2).map_or(10.0, |a| a.parse().unwrap());
    let caching = args.get(3).is_some_and(|a| a == "cache");
    let (device, _) = plimsoll::hardware::find("h100").unwrap();
    let (shape, _) = plimsoll::model::find("meta-llama/Llama-3.1-8B-Instruct").unwrap();
    let chosen = for_device(&device, "vllm");
    let sizes: Vec<u32> = [1, 2, 4]
        .into_iter()
        .chain((8..256).step_by(8))
        .chain((256..=512).step_by(16))
        .collect();
    let placement = Placement {
        tensor_parallel: 1,
        kv_dtype: Dtype::Bf16,
        graphs: Graphs {
            capture_sizes: sizes,
            ..Graphs::default()
        },
        asynchronous: true,
        engine: "vllm".into(),
        typical_context: 1024,
    };
    let config = EngineConfig {
        profile: "vllm@0.33".into(),
        max_model_len: 8192,
        max_num_seqs: 1024,
        max_num_batched_tokens: 8192,
        enable_chunked_prefill: true,
        long_prefill_token_threshold: 0,
        policy: Policy::Fcfs,
        block_size: 16,
        num_gpu_blocks: 27_715,
        enable_prefix_caching: caching,
        watermark_blocks: 0,
        prefill_schedule_interval: 1,
        queue_depth: 2,
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos(1_000_000_000),
        switches: VersionSwitches {
            reserve_full_isl: true,
            unhashed_to_head: true,
            stats_per_admission: true,
            threshold_not_when_alone: true,
            oversize_prompt_stops: true,
            eviction_restores_budget: true,
            overrun_guard: true,
        },
    };
    let spec = WorkloadSpec {
        arrivals: Arrivals::Poisson { request_rate: rate },
        lengths: Lengths::Fixed {
            input_len: 512,
            output_len: 128,
        },
        prefix: Prefix::None,
        client: Client {
            max_concurrency: None,
            rescale_arrivals: false,
            timeout: None,
            priorities: vec![],
        },
        num_prompts: Some(n),
        duration: None,
        endings: None,
    };
    for recorded in [false, true] {
        let cost = RooflineCost::new(&device, &shape, &chosen.calibration, &placement).unwrap();
        let mut sim = Simulation::new(
            config.clone(),
            Box::new(cost),
            Frontend::default(),
            Generator::new(&spec, 0),
        );
        let start = std::time::Instant::now();
        if recorded {
            let fleet = Fleet {
                replicas: 1,
                kv_blocks: sim.total_blocks(),
                block_size: 16,
            };
            let mut recorder = Recorder::new(RecorderOptions {
                fleet,
                slo: SloLimits::default(),
                records: Records::None,
            });
            sim.advance(Until::DRAINED, &mut recorder);
            let took = start.elapsed().as_secs_f64();
            let seen = recorder.finish(sim.now());
            println!(
                "recorded: {:.2} M requests/s; ttft {:?} tpot {:?} running {:.1} steps {} {:?}",
                n as f64 / took / 1e6,
                seen.whole.ttft.mean_s(),
                seen.whole.tpot.mean_s(),
                seen.whole.occupancy.running,
                seen.whole.work.steps,
                seen.violations
            );
        } else {
            sim.advance(Until::DRAINED, &mut Nobody);
            println!(
                "bare: {:.2} M requests/s",
                n as f64 / start.elapsed().as_secs_f64() / 1e6
            );
        }
    }
}
