//! What stands before servers: a stream thinned by class, unlike servers, a limit of requests in flight.

use plimsoll::analysis::{LoadKind, Precision, RunResult, judge};
use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{ClusterSpec, Group, Serves};
use plimsoll::cost::StepCost;
use plimsoll::cost::constant::ConstantCost;
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, Room, SloLimits};
use plimsoll::sim::{Admission, Bucket, Frontend, RateLimit, Retries, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Class, Generator, Promise, WorkloadSpec};

use crate::system::{STEPS_PER_SERVICE, Services, engine, near, traffic};
use crate::theory;

/// A server whose mean service takes so many seconds, with so many places.
fn server(places: u32, service_s: f64) -> Server {
    let cost: Box<dyn StepCost> = Box::new(ConstantCost {
        per_step: Picos::from_seconds(service_s / f64::from(STEPS_PER_SERVICE)),
        per_decode_seq: Picos::ZERO,
    });
    Server {
        engine: engine(places).into(),
        cost,
        frontend: Frontend::default(),
    }
}

fn run(servers: Vec<Server>, cluster: &ClusterSpec, admission: &Admission, spec: &WorkloadSpec) -> RunResult {
    let rooms = servers.iter().map(|server| Room {
        kv_blocks: server.engine.num_gpu_blocks() - 1,
        block_size: server.engine.block_size(),
    });
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet {
            rooms: rooms.collect(),
            pools: (0..servers.len() as u32).collect(),
        },
        slo: SloLimits::default(),
        records: Records::None,
    })
    .with_classes(vec![SloLimits::default(); spec.classes.len()]);
    let mut simulation =
        Simulation::of_servers(servers, cluster, 5, Generator::new(spec, 5)).admitting(admission);
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    let result = judge(seen, LoadKind::of(spec), &Precision::default());
    assert_eq!(result.violations, Vec::<String>::new());
    result
}

fn class(name: &str, share: f64, spec: &WorkloadSpec) -> Class {
    Class {
        name: name.into(),
        share,
        lengths: spec.lengths.clone(),
        priority: 0,
        model: None,
        promise: Promise::default(),
    }
}

/// Poisson arrivals thinned by class are Poisson arrivals of each class, whatever the other class's servers do: two
/// M/M/1 queues of different loads, and each pool has the same sojourns as its class.
#[test]
fn a_stream_thinned_by_class_makes_independent_queues() {
    let arrivals = Arrivals::Poisson { request_rate: 1.2 };
    let mut spec = traffic(arrivals, Services::Exponential, 400_000);
    spec.classes = vec![class("light", 0.5, &spec), class("heavy", 0.7, &spec)];
    let group = |index: u32| Group {
        policy: Policy::RoundRobin,
        members: vec![index],
        serves: Serves {
            classes: Some(vec![index]),
            ..Serves::default()
        },
    };
    let cluster = ClusterSpec {
        groups: vec![group(0), group(1)],
        ..ClusterSpec::of(2, Policy::RoundRobin)
    };
    let result = run(
        vec![server(1, 1.0), server(1, 1.0)],
        &cluster,
        &Admission::default(),
        &spec,
    );
    for (index, rate) in [(0, 0.5), (1, 0.7)] {
        let expected = theory::m_m_1(rate, 1.0).expect("below saturation").sojourn;
        let sojourn = result.by_class[index].e2el.mean_s().expect("there are some");
        near("sojourn of the class", sojourn, expected, 0.03);
        assert_eq!(result.by_pool[index].e2el.mean_s(), Some(sojourn));
        let share = result.by_class[index].sent as f64 / 400_000.0;
        near("share", share, rate / 1.2, 0.01);
    }
}

/// A random split between a fast and a slow server makes two M/M/1 queues of unlike speeds.
#[test]
fn servers_of_unlike_speed_are_each_a_queue() {
    let arrivals = Arrivals::Poisson { request_rate: 1.0 };
    let spec = traffic(arrivals, Services::Exponential, 400_000);
    let result = run(
        vec![server(1, 0.8), server(1, 1.4)],
        &ClusterSpec::of(2, Policy::Random),
        &Admission::default(),
        &spec,
    );
    for (index, service) in [(0, 0.8), (1, 1.4)] {
        let expected = theory::m_m_1(0.5, service).expect("below saturation").sojourn;
        let sojourn = result.by_pool[index].e2el.mean_s().expect("there are some");
        near("sojourn of the server", sojourn, expected, 0.03);
    }
}

/// A limit of requests in flight with a queue of limited length before it is M/M/c/K: the share refused is p_K.
#[test]
fn a_limit_with_a_queue_loses_as_m_m_c_k_does() {
    let (places, queue, offered) = (4u32, 3u32, 3.5f64);
    let spec = traffic(
        Arrivals::Poisson {
            request_rate: offered,
        },
        Services::Exponential,
        300_000,
    );
    let admission = Admission {
        max_in_flight: Some(places),
        max_queue: queue,
        ..Admission::default()
    };
    let result = run(
        vec![server(100, 1.0)],
        &ClusterSpec::of(1, Policy::RoundRobin),
        &admission,
        &spec,
    );
    let mut weights = vec![1.0];
    for inside in 1..=places + queue {
        let before = weights[weights.len() - 1];
        weights.push(before * offered / f64::from(inside.min(places)));
    }
    let all: f64 = weights.iter().sum();
    let whole = &result.whole;
    let lost = whole.rejected as f64 / whole.sent as f64;
    near("refused", lost, weights[weights.len() - 1] / all, 0.02);
    let inside: f64 = (0..).zip(&weights).map(|(n, weight)| f64::from(n) * weight).sum();
    near("in system", whole.occupancy.in_system, inside / all, 0.015);
}

/// Regular arrivals at twice the rate of a bucket: its burst passes, then every second one.
#[test]
fn a_bucket_lets_its_burst_and_then_its_rate_through() {
    let spec = traffic(
        Arrivals::Constant { request_rate: 20.0 },
        Services::Constant,
        1000,
    );
    let admission = Admission {
        rates: vec![RateLimit {
            class: None,
            requests: Some(Bucket {
                per_second: 10.0,
                burst: 50.0,
            }),
            tokens: None,
        }],
        ..Admission::default()
    };
    let result = run(
        vec![server(2000, 0.01)],
        &ClusterSpec::of(1, Policy::RoundRobin),
        &admission,
        &spec,
    );
    // Over (n − 1)/20 s the bucket gives 50 and 10 a second: 50 + 999/2, and a half unit at the border either way.
    let passed = result.whole.completed;
    assert!((548..=550).contains(&passed), "{passed}");
    assert_eq!(result.whole.rejected, 1000 - passed);
}

/// Three at once before a bucket of one that fills in a second, each sent again after one second and then after two: the
/// second passes at 1 s, the third, refused there again, at 3 s. Whoever may come once only leaves refused.
#[test]
fn whom_the_gate_refuses_comes_to_it_again() {
    let refused = |most: Option<u32>| {
        let admission = Admission {
            rates: vec![RateLimit {
                class: None,
                requests: Some(Bucket {
                    per_second: 1.0,
                    burst: 1.0,
                }),
                tokens: None,
            }],
            retries: most.map(|most| Retries {
                most,
                backoff: Picos::from_seconds(1.0),
                on_failure: false,
                on_refusal: true,
            }),
            ..Admission::default()
        };
        let spec = traffic(Arrivals::AllAtOnce, Services::Exponential, 3);
        let result = run(
            vec![server(3, 1.0)],
            &ClusterSpec::of(1, Policy::RoundRobin),
            &admission,
            &spec,
        );
        let waits = &result.whole.queue_time;
        (result.whole.rejected, waits.max_s().unwrap_or_default().round())
    };
    assert_eq!(refused(None), (2, 0.0));
    assert_eq!(refused(Some(1)), (1, 1.0));
    assert_eq!(refused(Some(2)), (0, 3.0));
}
