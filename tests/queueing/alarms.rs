//! How often the judge is wrong: overload that it misses, and stable systems that it calls unstable, over many seeds.
//!
//! Each case is a system at a load, seen for a number of requests. Loads below 1 must not be called unstable by more than
//! one seed in fifty, however short the run; loads of 1.15 must be by all but one in ten from 2,000 requests on, and from
//! 6,000 on where a batch takes everybody in. Between
//! the two the honest verdict is that the run is too short: overload must hardly ever be called stable. Queues of other laws, with
//! bursts, with more servers, in closed loops and close to saturation have tests of their own.

use plimsoll::analysis::{RunResult, Verdict};
use plimsoll::cost::StepCost;
use plimsoll::engine::EngineConfig;
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Endings, Lengths};

use crate::decode::COST;
use crate::system::{Services, engine, private_servers, run, traffic};
use crate::theory::AffineDecode;

/// A system whose saturation rate is known.
#[derive(Clone, Copy, Debug)]
enum System {
    /// One place, exponential services of mean 1 s.
    OneServer,
    /// One place, constant services.
    OneConstantServer,
    /// Eight places, exponential services.
    EightServers,
    /// One place, exponential services, arrivals in bursts: gamma gaps with a squared coefficient of variation of 4.
    Bursty,
    /// An engine without a cap, prompts of so many tokens, outputs of 200 tokens or of a geometric number around it.
    Engine { prompt: u32, is_geometric: bool },
    /// An engine whose KV blocks are what is scarce: some hundred sequences of up to 2,200 tokens, which preempt each other in waves
    /// when there are more. The load is one of 5 requests a second, of which it serves about 4.7.
    LittleMemory,
}

const SYSTEMS: [System; 5] = [
    System::OneServer,
    System::OneConstantServer,
    System::Engine {
        prompt: 1,
        is_geometric: false,
    },
    System::Engine {
        prompt: 1,
        is_geometric: true,
    },
    System::Engine {
        prompt: 1024,
        is_geometric: false,
    },
];

fn judged(system: System, load: f64, requests: u64, seed: u64) -> RunResult {
    let poisson = |request_rate| Arrivals::Poisson { request_rate };
    match system {
        System::OneServer => {
            let spec = traffic(poisson(load), Services::Exponential, requests);
            run(engine(1), private_servers(), &spec, seed)
        }
        System::OneConstantServer => {
            let spec = traffic(poisson(load), Services::Constant, requests);
            run(engine(1), private_servers(), &spec, seed)
        }
        System::EightServers => {
            let spec = traffic(poisson(8.0 * load), Services::Exponential, requests);
            run(engine(8), private_servers(), &spec, seed)
        }
        System::Bursty => {
            let arrivals = Arrivals::Gamma {
                request_rate: load,
                burstiness: 0.25,
            };
            let spec = traffic(arrivals, Services::Exponential, requests);
            run(engine(1), private_servers(), &spec, seed)
        }
        System::Engine { prompt, is_geometric } => {
            let affine = AffineDecode {
                base: COST.a.seconds(),
                per_sequence: COST.c.seconds(),
                decode_steps: 200.0,
                prompt_tokens: f64::from(prompt),
                per_prompt_token: COST.p.seconds(),
            };
            let rate = load / affine.demand();
            let mut spec = traffic(poisson(rate), Services::Constant, requests);
            spec.lengths = Lengths::Fixed {
                input_len: prompt,
                output_len: if is_geometric { 1 << 20 } else { 201 },
            };
            spec.endings = is_geometric.then_some(Endings::Hazard {
                per_token: 1.0 / 201.0,
            });
            let cost: Box<dyn StepCost> = Box::new(COST);
            run(engine(1 << 20), cost, &spec, seed)
        }
        System::LittleMemory => {
            let mut spec = traffic(poisson(5.0 * load), Services::Constant, requests);
            spec.lengths = Lengths::Fixed {
                input_len: 200,
                output_len: 2_000,
            };
            let engine = EngineConfig {
                num_gpu_blocks: 60 * 138,
                ..engine(1 << 20)
            };
            run(engine, Box::new(COST), &spec, seed)
        }
    }
}

fn verdict(system: System, load: f64, requests: u64, seed: u64) -> Verdict {
    let result = judged(system, load, requests, seed);
    if result.verdict == Verdict::Unstable {
        assert!(
            result.steady.is_none(),
            "{system:?} at {load} quotes steady figures"
        );
    }
    result.verdict
}

/// How many of `seeds` runs are called so.
fn called(called: Verdict, system: System, load: f64, requests: u64, seeds: u64) -> u64 {
    let is_called = |&seed: &u64| verdict(system, load, requests, seed) == called;
    (0..seeds).filter(is_called).count() as u64
}

/// How many of `seeds` runs are called unstable.
fn alarms(system: System, load: f64, requests: u64, seeds: u64) -> u64 {
    called(Verdict::Unstable, system, load, requests, seeds)
}

/// Too short to be seen as overload is not the same as stable: a few per cent above the capacity and some thousand requests
/// are called so by chance only. A run that is long enough is called stable all the same.
#[test]
fn overload_that_is_too_short_to_tell_is_not_called_stable() {
    for system in [System::OneServer, System::OneConstantServer] {
        for (load, requests) in [(1.06, 1_000), (1.06, 2_000), (1.12, 1_000)] {
            let stable = called(Verdict::Stable, system, load, requests, 50);
            assert!(
                stable <= 7,
                "{system:?} at {load}, {requests} requests: {stable} of 50"
            );
        }
    }
    for (system, load, requests) in [
        (System::OneServer, 0.5, 5_000),
        (System::OneConstantServer, 0.5, 2_000),
        (System::OneConstantServer, 0.8, 20_000),
    ] {
        let stable = called(Verdict::Stable, system, load, requests, 25);
        assert!(
            stable >= 22,
            "{system:?} at {load}, {requests} requests: {stable} of 25"
        );
    }
}

#[test]
fn stable_systems_are_not_called_unstable_and_overload_is() {
    for system in SYSTEMS {
        for load in [0.5, 0.8, 0.9] {
            for requests in [500, 2_000] {
                let alarms = alarms(system, load, requests, 50);
                assert!(
                    alarms <= 1,
                    "{system:?} at {load}, {requests} requests: {alarms} of 50"
                );
            }
        }
        // Where the batch takes everybody in, filling up and overload part later.
        let requests = match system {
            System::Engine { .. } => 6_000,
            _ => 2_000,
        };
        let seen = alarms(system, 1.15, requests, 50);
        assert!(seen >= 45, "{system:?}: {seen} of 50");
    }
}

/// Stays are as long as a tenth of the run, and waves of preemptions as large as what the queue grows by.
#[test]
fn overload_is_seen_through_waves_of_preemptions_and_filling_up_is_not_called_overload() {
    for requests in [300, 1_000, 3_000] {
        let alarms = alarms(System::LittleMemory, 0.6, requests, 25);
        assert!(alarms <= 1, "{requests} requests: {alarms} of 25");
    }
    let stable = called(Verdict::Stable, System::LittleMemory, 0.6, 6_000, 25);
    assert!(stable >= 22, "{stable} of 25");
    for (load, requests) in [(1.5, 5_000), (2.0, 5_000)] {
        let seen = alarms(System::LittleMemory, load, requests, 25);
        assert!(seen >= 20, "load {load}, {requests} requests: {seen} of 25");
    }
    // A quarter more than is served, and a run of a few stays.
    let stable = called(Verdict::Stable, System::LittleMemory, 1.2, 500, 25);
    assert!(stable <= 2, "{stable} of 25");
}

const QUEUES: [System; 4] = [
    System::OneServer,
    System::OneConstantServer,
    System::EightServers,
    System::Bursty,
];

/// However short the run, and at a load of 0.98, too: a walk that hardly drifts looks like growth now and then, by the
/// threshold in one critical run of 40. Long enough, overload is seen; the further above 1, the sooner.
#[test]
fn queues_near_saturation_are_told_from_queues_beyond_it() {
    let mut false_alarms = 0;
    for system in QUEUES {
        for load in [0.5, 0.9, 0.98] {
            for requests in [20, 50, 200, 1_000] {
                let alarms = alarms(system, load, requests, 40);
                assert!(
                    alarms <= 2,
                    "{system:?} at {load}, {requests} requests: {alarms} of 40"
                );
                false_alarms += alarms;
            }
        }
        for (load, requests) in [
            (1.5, 1_500),
            (3.0, 400),
            (30.0, 50),
            (1_000.0, 50),
            (1_000.0, 2_000),
        ] {
            let seen = alarms(system, load, requests, 25);
            assert!(
                seen >= 23,
                "{system:?} at {load}, {requests} requests: {seen} of 25"
            );
        }
    }
    // Of 1,920 runs.
    assert!(false_alarms <= 10, "{false_alarms}");
    for system in [System::OneServer, System::OneConstantServer, System::EightServers] {
        assert_eq!(alarms(system, 1.05, 30_000, 4), 4, "{system:?}");
    }
}

/// Too few to tell is an answer; that all is well is not. Nearer to 1, at 1.05 to 1.1, it is given to a few runs in a hundred whose
/// number inside happened to be level.
#[test]
fn overload_that_is_not_seen_is_not_called_stable() {
    for system in QUEUES {
        for load in [3.0, 30.0, 1_000.0] {
            for requests in [20, 50, 200, 500, 2_000] {
                for seed in 0..20 {
                    let verdict = judged(system, load, requests, seed).verdict;
                    assert_ne!(
                        verdict,
                        Verdict::Stable,
                        "{system:?} at {load}, {requests} requests, seed {seed}"
                    );
                }
            }
        }
    }
}

/// Their number inside is given, so that nothing can grow, however few servers there are for them.
#[test]
fn closed_loops_raise_no_alarm() {
    for places in [1, 8] {
        for requests in [20, 100, 1_000] {
            for seed in 0..20 {
                let users = Arrivals::Users {
                    users: 100,
                    think_time: Picos::from_seconds(1.0),
                };
                let crowd = traffic(users, Services::Exponential, requests);
                let mut loops = traffic(Arrivals::AllAtOnce, Services::Exponential, requests);
                loops.client.max_concurrency = Some(16);
                for spec in [crowd, loops] {
                    let result = run(engine(places), private_servers(), &spec, seed);
                    assert_eq!(
                        result.verdict,
                        Verdict::Finite,
                        "{requests} requests, seed {seed}"
                    );
                }
            }
        }
    }
}
