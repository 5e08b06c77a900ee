//! Several replicas: each computes as if it were alone, and whatever fails, every request is accounted for.

use plimsoll::cluster::router::{CacheAware, DataParallelScore, KvEvents, Overlap, Policy, TotalLoad};
use plimsoll::cluster::{Autoscale, Change, ChangeKind, ClusterSpec, Outages, Signal};
use plimsoll::cost::StepCost;
use plimsoll::cost::linear::LinearCost;
use plimsoll::ids::ReplicaId;
use plimsoll::metrics::{Fleet, LittleCheck, Observation, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::sim::{
    Admission, Bucket, Frontend, Outcome, Pause, RateLimit, Retries, Server, Simulation, Until,
};
use plimsoll::units::Picos;
use plimsoll::workload::{Generator, Request};
use proptest::prelude::*;

use crate::common::{ample_engine, request};
use crate::replicas::{Given, Stories, costs, engine, kinds, kv_events, requests, sglang};
use crate::scenario::Experiment;

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::RoundRobin),
        Just(Policy::Random),
        Just(Policy::LeastRequests),
        Just(Policy::LeastTokens),
        Just(Policy::PowerOfTwo),
        Just(Policy::SessionAffinity),
        Just(Policy::PrefixHash),
        Just(Policy::CacheAware(CacheAware::default())),
        Just(Policy::KvEvents(KvEvents::default())),
        Just(kv_events(Overlap::Events { latency: Picos::ZERO })),
        Just(kv_events(Overlap::Approximate {
            ttl: Picos(300_000_000_000)
        })),
        Just(Policy::VllmDataParallel(DataParallelScore::InFlight)),
        Just(Policy::VllmDataParallel(DataParallelScore::FourfoldWaiting)),
        Just(Policy::ShortestQueue {
            watch_interval: Picos(100_000_000_000)
        }),
        Just(Policy::TotalLoad {
            by: TotalLoad::Requests,
            publish_interval: 15
        }),
        Just(Policy::TotalLoad {
            by: TotalLoad::Tokens,
            publish_interval: 3
        }),
    ]
}

/// Each of the replicas `0..replicas` does to the last picosecond what it does alone with the requests that it was sent.
/// `simulate` serves requests by the replicas that it is given; `distinct` of them are unlike each other.
fn each_as_if_alone(
    replicas: u32,
    distinct: u32,
    mut requests: Vec<Request>,
    simulate: impl Fn(&[u32], &[Request]) -> (Stories, Pause),
) -> Result<(), TestCaseError> {
    // Who is too long is refused wherever it is sent, and leaves only the time that it took to read.
    for replica in 0..distinct {
        let (probe, _) = simulate(&[replica], &requests);
        requests.retain(|request| {
            let ends = probe.ended.get(&request.id.0);
            ends.is_none_or(|ends| ends[0].outcome != Outcome::Rejected)
        });
    }
    let all: Vec<u32> = (0..replicas).collect();
    let (together, pause) = simulate(&all, &requests);
    // A server may be one that can never go on; then so can one alone.
    prop_assume!(pause == Pause::Drained);
    prop_assert_eq!(together.ended.len(), requests.len());
    for replica in all {
        let is_mine = |id: u64| together.ended[&id][0].replica == ReplicaId(replica);
        let is_own = |request: &&Request| is_mine(request.id.0);
        let own: Vec<Request> = requests.iter().filter(is_own).cloned().collect();
        let (alone, _) = simulate(&[replica], &own);
        let admitted = together.admitted.iter().copied();
        let admitted: Vec<_> = admitted.filter(|&(id, _)| is_mine(id)).collect();
        prop_assert_eq!(&alone.admitted, &admitted);
        for request in &own {
            let mut expected = alone.ended[&request.id.0].clone();
            expected
                .iter_mut()
                .for_each(|story| story.replica = ReplicaId(replica));
            prop_assert_eq!(&together.ended[&request.id.0], &expected);
        }
    }
    Ok(())
}

/// Little's law at every place, and all places together are the system.
fn check_places(seen: &Observation) {
    assert_eq!(seen.violations, Vec::<String>::new());
    let Some(front_ends) = seen.little.front_ends else {
        return assert_eq!(seen.by_replica.len(), 0);
    };
    if seen.end == Picos::ZERO {
        // No time, no averages over it.
        return;
    }
    let close = |check: &LittleCheck| (check.l - check.lambda * check.w).abs() < 1e-6 * check.l.max(1e-3);
    assert!(close(&front_ends));
    let mut sum = front_ends.l;
    for replica in &seen.by_replica {
        assert!(close(&replica.inside) && close(&replica.waiting) && close(&replica.running));
        assert!((replica.inside.l - replica.waiting.l - replica.running.l).abs() < 1e-6);
        sum += replica.inside.l;
    }
    let system = seen.little.system.l;
    assert!(
        (sum - system).abs() < 1e-6 * system.max(1.0),
        "{sum} against {system}"
    );
}

/// Every request ends once, and the recorder's books balance. What was told, of a run that drained.
fn nothing_is_lost(
    replicas: u32,
    block_size: u32,
    records: Records,
    simulation: impl Fn() -> Simulation<Generator>,
) -> Result<(Simulation<Generator>, Stories), TestCaseError> {
    let mut stories = Stories::default();
    let mut told = simulation();
    prop_assume!(told.advance(Until::DRAINED, &mut stories) == Pause::Drained);
    let counts = told.counts();
    prop_assert_eq!(counts.sent, counts.ended);
    prop_assert_eq!(stories.ended.len() as u64, counts.sent);
    prop_assert!(stories.ended.values().all(|ends| ends.len() == 1));
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(replicas, told.total_blocks().next().unwrap(), block_size),
        slo: SloLimits::default(),
        records,
    });
    let mut recorded = simulation();
    // A run may be cut short wherever one looks at it.
    let half = Until {
        ended: counts.ended / 2,
        ..Until::DRAINED
    };
    recorded.advance(half, &mut recorder);
    check_places(&recorder.clone().finish(recorded.now()));
    recorded.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(recorded.now());
    check_places(&seen);
    prop_assert_eq!(seen.whole.ended(), counts.sent);
    Ok((told, stories))
}

/// Scenarios in which somebody can never go on say nothing here. They do not count as cases, and where they were more
/// than one in twenty the draws would be no test.
fn mostly_drained() -> ProptestConfig {
    ProptestConfig {
        cases: 1000,
        max_global_rejects: 50,
        ..ProptestConfig::default()
    }
}

/// Six replicas are asked for at once, and one is enough long before they serve: it goes on serving.
#[test]
fn a_burst_shorter_than_the_start_up_turns_nobody_away() {
    let scaler = Autoscale {
        members: (0..6).collect(),
        at_first: 1,
        least: 1,
        signal: Signal::InFlight,
        target: 4.0,
        interval: Picos(100_000_000_000),
        startup: Picos(30_000_000_000_000),
        scale_in_delay: Picos(1_000_000_000_000),
    };
    let spec = ClusterSpec {
        scalers: vec![scaler],
        ..ClusterSpec::of(6, Policy::LeastRequests)
    };
    let burst = (0..24).map(|id| request(id, Picos(id * 1_000_000_000), 64, 200));
    let calm = (24..80).map(|id| request(id, Picos((id - 20) * 1_000_000_000_000), 64, 20));
    let costs = (0..6).map(|_| Box::new(LinearCost::new(0.01, 0.0, 0.0)) as Box<dyn StepCost>);
    let mut cluster = Simulation::of_cluster(
        &ample_engine().into(),
        costs.collect(),
        &spec,
        0,
        Frontend::default(),
        Given(burst.chain(calm).collect()),
    );
    let mut stories = Stories::default();
    cluster.advance(Until::DRAINED, &mut stories);
    assert_eq!(cluster.counts().no_replica, 0);
    let payroll = cluster.payroll();
    assert_eq!((payroll.started, payroll.cancelled, payroll.drained), (5, 5, 0));
    // Nobody ever served but the first, and the others were paid for until they were cancelled.
    assert_eq!(cluster.service(), [(Picos::ZERO, 1)]);
    assert_eq!(payroll.paid[0], cluster.now());
    assert!(
        payroll.paid[1..]
            .iter()
            .all(|&paid| paid < Picos(5_000_000_000_000))
    );
}

proptest! {
    #![proptest_config(mostly_drained())]

    /// Where nobody fails, an autoscaler never leaves so few that a request finds nobody, or fewer than its least.
    #[test]
    fn an_autoscaler_turns_nobody_away(
        seed in any::<u64>(), policy in policies(), kind in kinds(), signal in 0usize..3,
        (at_first, least, target) in (1u32..5, 1u32..4, 0.2f64..5.0),
        (interval, startup, delay) in (5u64..100, 0u64..3000, 0u64..300),
    ) {
        let experiment = Experiment::draw(seed);
        let ms = |ms: u64| Picos(ms * 1_000_000_000);
        let scaler = Autoscale {
            members: (0..5).collect(),
            at_first: at_first.max(least),
            least,
            signal: [Signal::InFlight, Signal::Waiting, Signal::KvUsage][signal],
            target,
            interval: ms(interval),
            startup: ms(startup),
            scale_in_delay: ms(delay),
        };
        let spec = ClusterSpec { scalers: vec![scaler], ..ClusterSpec::of(5, policy) };
        let mut cluster = Simulation::of_cluster(
            &engine(&experiment, seed, kind), costs(&experiment, 5), &spec, seed, experiment.frontend,
            Generator::new(&experiment.spec, experiment.seed),
        );
        prop_assume!(cluster.advance(Until::DRAINED, &mut Stories::default()) == Pause::Drained);
        prop_assert_eq!(cluster.counts().no_replica, 0);
        let mut serving = 0;
        for &(_, more) in cluster.service() {
            serving += more;
            prop_assert!(serving >= least as i32, "{:?}", cluster.service());
        }
        // Who was started serves, starts, or was given back, as one of those that were there at first may have been.
        let payroll = cluster.payroll();
        let gone = payroll.cancelled + payroll.drained;
        prop_assert!(gone <= payroll.started + u64::from(at_first.max(least) - least));
    }

    /// A replica among several does what it does alone.
    #[test]
    fn each_replica_is_as_if_alone(
        seed in any::<u64>(), replicas in 2u32..6, policy in policies(), kind in kinds(),
    ) {
        let experiment = Experiment::draw(seed);
        let engine = engine(&experiment, seed, kind);
        each_as_if_alone(replicas, 1, requests(&experiment), |members, requests| {
            let count = members.len() as u32;
            let mut stories = Stories::default();
            let mut cluster = Simulation::of_cluster(
                &engine, costs(&experiment, count), &ClusterSpec::of(count, policy), seed, experiment.frontend,
                Given(requests.to_vec().into()),
            );
            let pause = cluster.advance(Until::DRAINED, &mut stories);
            (stories, pause)
        })?;
    }

    /// So it is where every replica has an engine, a KV block, a step time and a front end of its own.
    #[test]
    fn unlike_replicas_are_each_as_if_alone(seed in any::<u64>(), replicas in 2u32..6, policy in policies()) {
        let server = |&replica: &u32| {
            let mut own = Experiment::draw(seed.wrapping_add(u64::from(replica)));
            own.engine.policy = plimsoll::engine::Policy::Fcfs;
            Server {
                engine: engine(&own, seed, ((seed >> (2 * replica)) % 3) as u8),
                cost: Box::new(own.cost),
                frontend: own.frontend,
            }
        };
        let requests = requests(&Experiment::draw(seed));
        each_as_if_alone(replicas, replicas, requests, |members, requests| {
            let mut stories = Stories::default();
            let spec = ClusterSpec::of(members.len() as u32, policy);
            let servers = members.iter().map(server).collect();
            let mut cluster = Simulation::of_servers(servers, &spec, seed, Given(requests.to_vec().into()));
            let pause = cluster.advance(Until::DRAINED, &mut stories);
            (stories, pause)
        })?;
    }

    /// Limits, a queue, retries, an autoscaler and failures: every request still ends once, and the books balance.
    #[test]
    fn nothing_is_lost_before_the_routers(
        seed in any::<u64>(), policy in policies(),
        (rate, burst, most, queue, timeout_ms) in
            (prop::option::of(1u32..200), 1u32..5, prop::option::of(1u32..8), 0u32..6, prop::option::of(0u64..300)),
        (retries, backoff_ms, on_failure, on_refusal) in (0u32..4, 0u64..100, any::<bool>(), any::<bool>()),
        (is_random, is_scaled, is_sglang, signal) in (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..3),
        fails in prop::collection::vec((0u64..1500, 0u32..4, any::<bool>()), 0..6),
    ) {
        let experiment = Experiment::draw(seed);
        let ms = |ms: u64| Picos(ms * 1_000_000_000);
        let kind = |fails: bool| if fails || is_scaled { ChangeKind::Fail } else { ChangeKind::Up };
        let mut changes: Vec<Change> = fails
            .into_iter()
            .map(|(at, replica, fails)| Change { at: ms(at), replica, kind: kind(fails) })
            .collect();
        changes.sort_by_key(|change| change.at);
        let signals = [Signal::InFlight, Signal::Waiting, Signal::KvUsage];
        let scaler = Autoscale {
            members: (0..4).collect(),
            at_first: 1,
            least: 1,
            signal: signals[signal],
            target: 0.7,
            interval: ms(20),
            startup: ms(30),
            scale_in_delay: ms(40),
        };
        let spec = ClusterSpec {
            changes,
            outages: is_random.then_some(Outages { mean_up_s: 0.3, mean_down_s: 0.1 }),
            scalers: is_scaled.then_some(scaler).into_iter().collect(),
            ..ClusterSpec::of(4, policy)
        };
        let bucket = |per_second: u32, times: f64| Bucket {
            per_second: f64::from(per_second) * times,
            burst: f64::from(burst) * times,
        };
        let admission = Admission {
            rates: rate
                .map(|rate| RateLimit {
                    class: None,
                    requests: Some(bucket(rate, 1.0)),
                    tokens: Some(bucket(rate, 100.0)),
                })
                .into_iter()
                .collect(),
            max_in_flight: most,
            max_queue: queue,
            queue_timeout: timeout_ms.map(ms),
            retries: (retries > 0).then_some(Retries {
                most: retries,
                backoff: ms(backoff_ms),
                on_failure,
                on_refusal,
            }),
        };
        let engine = match is_sglang {
            true => sglang(&experiment, seed),
            false => experiment.engine.clone().into(),
        };
        let (told, stories) = nothing_is_lost(4, engine.block_size(), Records::WithItls, || Simulation::of_cluster(
            &engine, costs(&experiment, 4), &spec, seed, experiment.frontend,
            Generator::new(&experiment.spec, experiment.seed),
        ).admitting(&admission))?;
        let counts = told.counts();
        let rejected = stories.ended.values().filter(|ends| ends[0].outcome == Outcome::Rejected).count() as u64;
        let reasons = counts.prompt_too_long + counts.never_fit + counts.queue_full + counts.no_replica
            + counts.rate_limited + counts.gate_full + counts.gate_timeout;
        prop_assert_eq!(rejected, reasons);
        let paid = told.payroll().paid;
        prop_assert!(paid.iter().all(|paid| *paid <= told.now().max(stories.last)));
    }

    /// Replicas fail, drain and come back; every request still ends once, and the books balance.
    #[test]
    fn nothing_is_lost_when_replicas_fail(
        seed in any::<u64>(),
        replicas in 1u32..5,
        policy in policies(),
        changes in prop::collection::vec((0u64..1500, 0u32..5, 0usize..3), 0..8),
        (is_random, kind) in (any::<bool>(), kinds()),
    ) {
        let experiment = Experiment::draw(seed);
        let kinds = [ChangeKind::Fail, ChangeKind::Up, ChangeKind::Drain];
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|(ms, replica, kind)| Change {
                at: Picos(ms * 1_000_000_000),
                replica: replica % replicas,
                kind: kinds[kind],
            })
            .collect();
        changes.sort_by_key(|change| change.at);
        let outages = is_random.then_some(Outages { mean_up_s: 0.3, mean_down_s: 0.1 });
        let spec = ClusterSpec { changes, outages, ..ClusterSpec::of(replicas, policy) };
        let engine = match kind {
            0 => experiment.engine.clone().into(),
            _ => engine(&experiment, seed, kind),
        };
        nothing_is_lost(replicas, engine.block_size(), Records::None, || Simulation::of_cluster(
            &engine, costs(&experiment, replicas), &spec, seed, experiment.frontend,
            Generator::new(&experiment.spec, experiment.seed),
        ))?;
    }
}
