//! Caches of several replicas: what a router knows of them, what is left of them when a replica goes.

use plimsoll::cluster::router::{Overlap, Policy};
use plimsoll::cluster::{Change, ChangeKind, ClusterSpec};
use plimsoll::cost::StepCost;
use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineSpec;
use plimsoll::ids::SegmentId;
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Piece, Prompt, Request};

use crate::common::{ample_engine, request};
use crate::replicas::{Given, Stories, kv_events, sglang};
use crate::scenario::Experiment;

/// Whether the second of two equal prompts goes where the first one was, `apart` after its arrival: that was answered a
/// millisecond later; the other replica is as idle, and has less in its cache.
fn second_goes_where_the_first_was(overlap: Overlap, apart_ms: u64, kind: u8) -> bool {
    const MS: u64 = 1_000_000_000;
    let experiment = Experiment::draw(0);
    let request = |id: u64, text: u64, tokens: u32, arrival: u64| {
        let piece = Piece {
            segment: SegmentId(text),
            start: 0,
            tokens,
        };
        Request {
            prompt: Prompt::Pieces([piece].into()),
            ..request(id, Picos(arrival), tokens, 1)
        }
    };
    let requests = [
        request(0, 5, 32, 0),
        request(1, 6, 160, MS / 10),
        request(2, 6, 160, MS / 10 + apart_ms * MS),
    ];
    let vllm = plimsoll::engine::EngineConfig {
        enable_prefix_caching: true,
        ..ample_engine()
    };
    let engine: EngineSpec = match kind {
        1 => {
            let ample = Experiment {
                engine: vllm,
                ..experiment
            };
            sglang(&ample, 0)
        }
        _ => vllm.into(),
    };
    let costs = (0..2).map(|_| Box::new(LinearCost::new(0.001, 0.0, 0.0)) as Box<dyn StepCost>);
    let mut stories = Stories::default();
    let spec = ClusterSpec::of(2, kv_events(overlap));
    let traffic = Given(requests.to_vec().into());
    let mut cluster =
        Simulation::of_cluster(&engine, costs.collect(), &spec, 0, Frontend::default(), traffic);
    cluster.advance(Until::DRAINED, &mut stories);
    let place = |id: u64| stories.ended[&id][0].replica;
    assert_ne!(place(0), place(1), "who is busy is left alone");
    place(1) == place(2)
}

/// RT-12: what an engine has cached is news to the router for as long as the latency lasts.
#[test]
fn two_equal_prompts_within_the_latency_are_routed_apart() {
    let events = |ms: u64| Overlap::Events {
        latency: Picos(ms * 1_000_000_000),
    };
    for kind in 0..2 {
        let together = |latency_ms, apart_ms| {
            let overlap = events(latency_ms);
            second_goes_where_the_first_was(overlap, apart_ms, kind)
        };
        assert!(together(0, 2), "heard at once");
        assert!(!together(5, 2), "not heard yet");
        assert!(together(5, 8), "heard by now");
    }
}

/// RT-12: without events what was sent counts, and for its time only.
#[test]
fn without_events_what_was_sent_counts_until_it_expires() {
    let sent = |ms: u64| Overlap::Approximate {
        ttl: Picos(ms * 1_000_000_000),
    };
    assert!(second_goes_where_the_first_was(sent(10), 2, 0));
    assert!(!second_goes_where_the_first_was(sent(10), 12, 0));
}

/// What becomes of two equal prompts, ten seconds apart, on one replica; `changes` are in milliseconds.
fn two_equal_prompts(kind: u8, changes: &[(u64, ChangeKind)]) -> (Simulation<Given>, Stories) {
    const MS: u64 = 1_000_000_000;
    let engine: EngineSpec = match kind {
        0 => plimsoll::engine::EngineConfig {
            enable_prefix_caching: true,
            ..ample_engine()
        }
        .into(),
        _ => {
            let mut experiment = Experiment::draw(0);
            experiment.engine = plimsoll::engine::EngineConfig {
                enable_prefix_caching: true,
                num_gpu_blocks: 64,
                ..ample_engine()
            };
            sglang(&experiment, 0)
        }
    };
    let equal = |id: u64, at: u64| Request {
        prompt: Prompt::Pieces(
            [Piece {
                segment: SegmentId(6),
                start: 0,
                tokens: 160,
            }]
            .into(),
        ),
        ..request(id, Picos(at * MS), 160, 100)
    };
    let change = |&(at, kind): &(u64, ChangeKind)| Change {
        at: Picos(at * MS),
        replica: 0,
        kind,
    };
    let spec = ClusterSpec {
        changes: changes.iter().map(change).collect(),
        ..ClusterSpec::of(1, Policy::RoundRobin)
    };
    let costs = vec![Box::new(LinearCost::new(0.001, 0.0, 0.0)) as Box<dyn StepCost>];
    let traffic = Given([equal(0, 0), equal(1, 10_000)].into());
    let mut cluster = Simulation::of_cluster(&engine, costs, &spec, 0, Frontend::default(), traffic);
    let mut stories = Stories::default();
    assert_eq!(cluster.advance(Until::DRAINED, &mut stories), Pause::Drained);
    (cluster, stories)
}

/// One that was drained and given back comes up as a new process; one that was called back while it drained is the old one.
#[test]
fn one_that_starts_again_has_an_empty_cache() {
    use ChangeKind::{Drain, Up};
    for kind in 0..2 {
        let cached = |changes: &[(u64, ChangeKind)]| {
            let (_, stories) = two_equal_prompts(kind, changes);
            stories.ended[&1][0].cached_tokens
        };
        // The first is there for a hundred steps of a millisecond.
        assert!(cached(&[(10, Drain), (50, Up)]) > 100, "engine {kind}");
        assert_eq!(cached(&[(10, Drain), (1000, Up)]), 0, "engine {kind}");
        assert_eq!(cached(&[(10, Drain), (50, Up), (200, Drain), (1000, Up)]), 0);
    }
}

/// Whatever is evicted on a replica has been, also when the replica is gone.
#[test]
fn evictions_before_a_failure_are_counted() {
    let mut experiment = Experiment::draw(0);
    experiment.engine = plimsoll::engine::EngineConfig {
        enable_prefix_caching: true,
        num_gpu_blocks: 64,
        ..ample_engine()
    };
    let requests: Vec<Request> = (0..20)
        .map(|id| request(id, Picos(id * 1_000_000_000_000), 300, 10))
        .collect();
    for engine in [experiment.engine.clone().into(), sglang(&experiment, 0)] {
        let evicted = |kinds: &[ChangeKind]| {
            let change = |(&kind, second): (&ChangeKind, u64)| Change {
                at: Picos(second * 500_000_000_000),
                replica: 0,
                kind,
            };
            let spec = ClusterSpec {
                // Half a second after the last request but one.
                changes: kinds.iter().zip(37..).map(change).collect(),
                ..ClusterSpec::of(1, Policy::RoundRobin)
            };
            let costs = vec![Box::new(LinearCost::new(0.001, 0.0, 0.0)) as Box<dyn StepCost>];
            let traffic = Given(requests.clone().into());
            let mut cluster = Simulation::of_cluster(&engine, costs, &spec, 0, Frontend::default(), traffic);
            cluster.advance(Until::DRAINED, &mut Stories::default());
            cluster.evicted_tokens()
        };
        let (all, fails) = (evicted(&[]), evicted(&[ChangeKind::Fail]));
        assert!(all > 3000 && fails + 400 > all && fails < all, "{fails} of {all}");
    }
}
