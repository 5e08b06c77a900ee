//! What more of something does, on averages over seeds: single runs have scheduling anomalies.

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineConfig;
use plimsoll::metrics::{Observation, Records};
use plimsoll::sim::{Frontend, Simulation, Until};
use plimsoll::workload::{Arrivals, Generator, Lengths, WorkloadSpec, with_rate};

use crate::common::{ample_engine, plain, recorder};

fn run(engine: &EngineConfig, spec: &WorkloadSpec, seed: u64) -> Observation {
    let mut recorder = recorder(engine, Records::None);
    let cost = LinearCost::new(0.006, 2e-5, 1.5e-9);
    let mut simulation = Simulation::new(
        engine.clone(),
        Box::new(cost),
        Frontend::default(),
        Generator::new(spec, seed),
    );
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    assert_eq!(seen.violations, Vec::<String>::new());
    seen
}

fn mean(engine: &EngineConfig, spec: &WorkloadSpec, figure: impl Fn(&Observation) -> f64) -> f64 {
    (0..12).map(|seed| figure(&run(engine, spec, seed))).sum::<f64>() / 12.0
}

fn traffic(requests: u64) -> WorkloadSpec {
    let mut spec = plain(Arrivals::Poisson { request_rate: 1.0 }, 1, 1, requests);
    spec.lengths = Lengths::RandomVllm {
        input_len: 400,
        output_len: 100,
        range_ratio: 0.5,
        output_range_ratio: 0.5,
    };
    spec
}

#[test]
fn more_load_never_shortens_the_median_wait_for_a_token() {
    let engine = EngineConfig {
        max_num_seqs: 32,
        queue_depth: 2,
        ..ample_engine()
    };
    let medians: Vec<f64> = [1.0, 5.0, 15.0, 30.0, 45.0, 70.0, 150.0]
        .map(|rate| {
            mean(&engine, &with_rate(&traffic(400), rate), |seen| {
                seen.whole.ttft.quantile_s(0.5).expect("some were served")
            })
        })
        .into();
    assert!(medians.is_sorted(), "{medians:?}");
}

#[test]
fn more_blocks_never_cost_throughput() {
    let all = WorkloadSpec {
        arrivals: Arrivals::AllAtOnce,
        ..traffic(300)
    };
    let throughputs: Vec<f64> = [260, 400, 800, 1600, 6400, 100_000]
        .map(|num_gpu_blocks| {
            let engine = EngineConfig {
                num_gpu_blocks,
                ..ample_engine()
            };
            mean(&engine, &all, |seen| {
                seen.whole.completed as f64 / seen.whole.duration_s
            })
        })
        .into();
    // Noise: preemptions of single runs. The whole gain is more than threefold.
    for pair in throughputs.windows(2) {
        assert!(pair[1] >= 0.995 * pair[0], "{throughputs:?}");
    }
    assert!(
        throughputs[5] > 2.0 * throughputs[0],
        "the pool is scarce at first: {throughputs:?}"
    );
}

#[test]
fn a_larger_token_budget_makes_a_longer_longest_gap() {
    let longest: Vec<f64> = [256, 1024, 4096]
        .map(|max_num_batched_tokens| {
            let engine = EngineConfig {
                max_num_batched_tokens,
                ..ample_engine()
            };
            let burst = with_rate(&traffic(300), 60.0);
            mean(&engine, &burst, |seen| {
                seen.whole.itl.max_s().expect("some decoded")
            })
        })
        .into();
    assert!(longest.is_sorted(), "{longest:?}");
}
