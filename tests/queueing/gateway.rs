//! What stands before servers: a stream thinned by class, unlike servers, a limit of requests in flight.

use plimsoll::analysis::{Load, LoadKind, Precision, RunResult, Verdict, judge};
use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{ClusterSpec, Group, Serves};
use plimsoll::cost::StepCost;
use plimsoll::cost::constant::ConstantCost;
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, Room, SloLimits};
use plimsoll::sim::{Admission, Bucket, Frontend, RateLimit, Retries, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Class, Lengths, Prefix, Promise, Stream, WorkloadSpec, open};

use crate::system::{STEPS_PER_SERVICE, Services, check, engine, near, traffic};
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
    let mut simulation = Simulation::of_servers(servers, cluster, 5, open(spec, 5)).admitting(admission);
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    let load = Load {
        all_send: simulation.traffic().all_sent(),
        fresh_until: simulation.traffic().fresh_until(),
        ..LoadKind::of(spec).into()
    };
    let result = judge(seen, load, &Precision::default());
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

/// A client of its own for each (name, rate, service in seconds), each service as long as the others of its class.
fn clients(of: &[(&str, f64, f64)]) -> WorkloadSpec {
    let own = |&(_, request_rate, service_s): &(&str, f64, f64)| WorkloadSpec {
        num_prompts: None,
        lengths: Lengths::Fixed {
            input_len: 1,
            output_len: (service_s * f64::from(STEPS_PER_SERVICE)).round() as u32,
        },
        ..traffic(Arrivals::Poisson { request_rate }, Services::Constant, 1)
    };
    let streams = (0..).zip(of).map(|(index, of)| Stream {
        classes: vec![index],
        start: Picos::ZERO,
        hash_space: index,
        spec: own(of),
    });
    let streams = streams.collect();
    let mut all = traffic(Arrivals::Superposed { streams }, Services::Constant, 1);
    all.classes = of.iter().map(|of| class(of.0, 1.0, &own(of))).collect();
    all
}

/// Mean wait in M/G/1 (Pollaczek-Khinchine) of independent Poisson streams with constant services.
fn wait_of(streams: &[(f64, f64)]) -> f64 {
    let load: f64 = streams.iter().map(|(rate, service)| rate * service).sum();
    let squares: f64 = streams
        .iter()
        .map(|(rate, service)| rate * service * service)
        .sum();
    squares / (2.0 * (1.0 - load))
}

const SHORT: (f64, f64) = (0.5, 0.6);
const LONG: (f64, f64) = (0.2, 1.5);

/// Independent Poisson streams are together one, and Poisson arrivals see the same queue whatever their class.
#[test]
fn clients_side_by_side_are_one_poisson_stream() {
    let mut spec = clients(&[("short", SHORT.0, SHORT.1), ("long", LONG.0, LONG.1)]);
    spec.num_prompts = Some(1_200_000);
    let alone = &ClusterSpec::of(1, Policy::RoundRobin);
    let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
    assert_eq!(result.verdict, Verdict::Stable, "{:?}", result.reasons);
    let expected = wait_of(&[SHORT, LONG]);
    check(&result, "queue_time", expected);
    for (part, (rate, service)) in result.by_class.iter().zip([SHORT, LONG]) {
        let sojourn = part.e2el.mean_s().expect("there are some");
        near("sojourn of the class", sojourn, expected + service, 0.015);
        let seen = part.sent_per_s().expect("there are some");
        near("rate of the class", seen, rate, 0.01);
        // Little's law of the class by itself.
        let inside = part.stayed_s() / result.whole.duration_s;
        near("in system of the class", inside, rate * sojourn, 0.01);
    }
}

/// A class that begins after the others and ends before them: only where both send is there a load that one may judge.
#[test]
fn classes_that_begin_and_end_at_unlike_times_are_judged_where_all_send() {
    let mut spec = clients(&[("short", SHORT.0, SHORT.1), ("long", LONG.0, LONG.1)]);
    spec.num_prompts = None;
    spec.duration = Some(Picos::from_seconds(900_000.0));
    let Arrivals::Superposed { streams } = &mut spec.arrivals else {
        unreachable!("it is superposed");
    };
    let mut unlike = streams.to_vec();
    unlike[1].start = Picos::from_seconds(300_000.0);
    unlike[1].spec.num_prompts = Some(60_000);
    *streams = unlike.into();
    let alone = &ClusterSpec::of(1, Policy::RoundRobin);
    let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
    let (begin, end) = result.steady_window_s.expect("there is a steady stretch");
    assert!(begin > 300_000.0 && end < 605_000.0, "{begin} to {end}");
    let waited = result
        .steady
        .as_ref()
        .and_then(|steady| steady.queue_time.mean_s());
    // Both together wait four times as long as the one that is there all the time.
    let expected = wait_of(&[SHORT, LONG]);
    assert!(expected > 4.0 * wait_of(&[SHORT]));
    near("wait", waited.expect("somebody waited"), expected, 0.06);
    let told = result.reasons.join("; ");
    assert!(told.contains("all classes send from 300000.0 s to"), "{told}");

    // One is over before the other begins: there is nothing to judge.
    let Arrivals::Superposed { streams } = &mut spec.arrivals else {
        unreachable!("it is superposed");
    };
    let mut apart = streams.to_vec();
    apart[0].spec.num_prompts = Some(100_000);
    *streams = apart.into();
    let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
    assert_eq!(result.verdict, Verdict::Finite);
    let told = result.reasons.join("; ");
    assert!(
        told.contains("there is no stretch in which all classes send"),
        "{told}"
    );
}

/// A day is overloaded if its backlog outlasts it, though a class without an end goes on sending until that is worked off.
#[test]
fn who_goes_on_beside_a_backlog_does_not_hide_it() {
    let verdict = |request_rate| {
        let mut spec = clients(&[("day", request_rate, 1.0), ("beside", 0.1, 1.0)]);
        spec.num_prompts = None;
        let Arrivals::Superposed { streams } = &mut spec.arrivals else {
            unreachable!("it is superposed");
        };
        let mut own = streams.to_vec();
        own[0].spec.arrivals = Arrivals::Profile {
            piece: Picos::from_seconds(100.0),
            rates: vec![0.5 * request_rate, 1.5 * request_rate].into(),
            burstiness: 1.0,
        };
        own[0].spec.duration = Some(Picos::from_seconds(20_000.0));
        *streams = own.into();
        let alone = &ClusterSpec::of(1, Policy::RoundRobin);
        let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
        assert!(result.whole.duration_s >= 19_900.0);
        result.verdict
    };
    assert_eq!(verdict(0.7), Verdict::Finite);
    assert_eq!(verdict(1.1), Verdict::Unstable);
}

/// Conversations end long after the last of them began: what their further turns let be worked off is no steady state.
#[test]
fn conversations_that_pile_up_are_overload_whatever_their_number() {
    let verdict = |request_rate, requests| {
        let mut spec = traffic(Arrivals::Poisson { request_rate }, Services::Constant, requests);
        spec.prefix = Prefix::Sessions {
            turns: 4.0,
            fixed_turns: true,
            think_time: Picos::from_seconds(20.0),
            shared_system_len: 0,
        };
        let alone = &ClusterSpec::of(1, Policy::RoundRobin);
        let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
        (result.verdict, result.reasons)
    };
    for requests in [4_000, 40_000] {
        // Four turns each: 0.6 of what the server can do, and twice that.
        let (below, reasons) = verdict(0.15, requests);
        assert_eq!(below, Verdict::Stable, "{requests}: {reasons:?}");
        let (beyond, reasons) = verdict(0.5, requests);
        assert_eq!(beyond, Verdict::Unstable, "{requests}: {reasons:?}");
    }
}

/// Idle for long, overloaded then: what is offered and what is served are those of the stretch in which all send.
#[test]
fn an_overload_that_begins_later_is_told_in_its_own_figures() {
    let mut spec = clients(&[("short", 0.1, 1.0), ("late", 1.4, 1.0)]);
    spec.num_prompts = Some(20_000);
    let Arrivals::Superposed { streams } = &mut spec.arrivals else {
        unreachable!("it is superposed");
    };
    let mut unlike = streams.to_vec();
    unlike[1].start = Picos::from_seconds(50_000.0);
    *streams = unlike.into();
    let alone = &ClusterSpec::of(1, Policy::RoundRobin);
    let result = run(vec![server(1, 1.0)], alone, &Admission::default(), &spec);
    assert_eq!(result.verdict, Verdict::Unstable, "{:?}", result.reasons);
    let told = &result.reasons[0];
    let offered = told
        .split("while ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let offered: f64 = offered.and_then(|rate| rate.parse().ok()).expect("it is told");
    near("offered", offered, 1.5, 0.03);
    near("growth", result.growth_per_s, 0.5, 0.1);
    let (_, served) = result
        .intervals
        .iter()
        .find(|(name, _)| name == "throughput")
        .expect("overload says what is served");
    near("served", served.value, 1.0, 0.03);
    assert!(served.high - served.low < 0.1, "{served:?}");
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
