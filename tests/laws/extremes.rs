//! Inputs at the edges of what can be asked: nothing hangs, overflows or is lost.

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineConfig;
use plimsoll::metrics::{Observation, Records};
use plimsoll::sim::{Frontend, Simulation, Until};
use plimsoll::workload::{Arrivals, Generator, WorkloadSpec};

use crate::common::{ample_engine, plain, recorder};

fn run(engine: &EngineConfig, spec: &WorkloadSpec) -> Observation {
    let mut recorder = recorder(engine, Records::None);
    let cost = LinearCost::new(0.006, 2e-5, 1.5e-9);
    let generator = Generator::new(spec, 17);
    let mut simulation = Simulation::new(engine.clone(), Box::new(cost), Frontend::default(), generator);
    simulation.advance(Until::DRAINED, &mut recorder);
    let counts = simulation.counts();
    assert_eq!(counts.sent, counts.ended);
    let seen = recorder.finish(simulation.now());
    assert_eq!(seen.violations, Vec::<String>::new());
    seen
}

#[test]
fn a_million_requests_at_once_are_served() {
    let seen = run(&ample_engine(), &plain(Arrivals::AllAtOnce, 8, 4, 1_000_000));
    assert_eq!(seen.whole.completed, 1_000_000);
    assert_eq!(seen.whole.max_in_flight, 1_000_000);
    assert!(seen.stretches.len() <= 65, "memory does not grow with the run");
}

#[test]
fn a_million_requests_through_a_few_places_hold_a_few_inside() {
    let mut spec = plain(Arrivals::AllAtOnce, 8, 2, 300_000);
    spec.client.max_concurrency = Some(64);
    let seen = run(&ample_engine(), &spec);
    assert_eq!((seen.whole.completed, seen.whole.max_in_flight), (300_000, 64));
}

#[test]
fn rates_of_a_millionth_and_of_a_million_are_rates() {
    // Ten requests a million seconds apart are 116 days; the clock shows 213.
    let rare = run(
        &ample_engine(),
        &plain(Arrivals::Constant { request_rate: 1e-6 }, 100, 10, 10),
    );
    assert_eq!(rare.whole.completed, 10);
    assert_eq!(
        rare.whole.ttft.quantile_s(0.0),
        rare.whole.ttft.max_s(),
        "nobody meets another"
    );
    let dense = run(
        &ample_engine(),
        &plain(Arrivals::Poisson { request_rate: 1e6 }, 100, 10, 20_000),
    );
    assert_eq!(dense.whole.completed, 20_000);
}

#[test]
fn traffic_past_the_end_of_the_clock_ends() {
    let spec = plain(Arrivals::Constant { request_rate: 1e-6 }, 100, 10, 1000);
    let seen = run(&ample_engine(), &spec);
    assert!(
        (17..=19).contains(&seen.whole.completed),
        "{}",
        seen.whole.completed
    );
}

#[test]
fn outputs_of_one_token_and_prompts_of_the_longest_length() {
    for queue_depth in [1, 2] {
        let engine = EngineConfig {
            queue_depth,
            ..ample_engine()
        };
        let ones = run(
            &engine,
            &plain(Arrivals::Poisson { request_rate: 50.0 }, 1, 1, 5000),
        );
        assert_eq!((ones.whole.output_tokens, ones.whole.itl.count()), (5000, 0));
        let longest = plain(
            Arrivals::Poisson { request_rate: 50.0 },
            engine.max_model_len - 1,
            10,
            300,
        );
        let seen = run(&engine, &longest);
        assert_eq!((seen.whole.completed, seen.whole.output_tokens), (300, 300));
    }
}

/// Two usable blocks of one token each: a sequence of two tokens of KV fills the pool.
#[test]
fn a_pool_of_two_tokens_serves_one_at_a_time() {
    for (queue_depth, enable_prefix_caching) in [(1, false), (1, true), (2, false), (2, true)] {
        let engine = EngineConfig {
            queue_depth,
            enable_prefix_caching,
            block_size: 1,
            num_gpu_blocks: 3,
            ..ample_engine()
        };
        let seen = run(&engine, &plain(Arrivals::AllAtOnce, 1, 2, 500));
        assert_eq!(seen.whole.completed, 500);
        assert_eq!(seen.whole.occupancy.kv_usage_max, 1.0);
        let never = run(&engine, &plain(Arrivals::AllAtOnce, 2, 2, 500));
        assert_eq!(
            (never.whole.completed, never.whole.rejected),
            (0, 500),
            "refused, not livelocked"
        );
    }
}

#[test]
fn a_sequence_as_long_as_a_clock_allows_is_one_leap() {
    let engine = EngineConfig {
        max_model_len: u32::MAX,
        num_gpu_blocks: u32::MAX,
        ..ample_engine()
    };
    let seen = run(&engine, &plain(Arrivals::AllAtOnce, 1, 1 << 20, 3));
    assert_eq!(seen.whole.output_tokens, 3 << 20);
}
