//! Several replicas: each computes as if it were alone, and whatever fails, every request is accounted for.

use std::collections::BTreeMap;

use plimsoll::cluster::router::{CacheAware, DataParallelScore, KvEvents, Overlap, Policy, TotalLoad};
use plimsoll::cluster::{Autoscale, Change, ChangeKind, ClusterSpec, Outages, Signal};
use plimsoll::cost::StepCost;
use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineSpec;
use plimsoll::engine::scheduled::policies::{HfConfig, HfOrder, PreemptionMode, StaticConfig, V0Config};
use plimsoll::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use plimsoll::engine::sglang::{QueuePolicy, SglangConfig, SglangSwitches};
use plimsoll::ids::{ReplicaId, RequestId, SegmentId};
use plimsoll::metrics::{Fleet, LittleCheck, Observation, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::sim::{
    Admission, Bucket, Completion, Fact, Frontend, Observer, Outcome, Pause, RateLimit, Retries, Server,
    Simulation, Until,
};
use plimsoll::units::Picos;
use plimsoll::workload::{Generator, Piece, Prompt, Request, Traffic};
use proptest::prelude::*;

use crate::common::{ample_engine, request};
use crate::scenario::Experiment;

/// Requests at times of their own, whatever becomes of them.
#[derive(Clone)]
struct Given(std::collections::VecDeque<Request>);

impl Traffic for Given {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.front().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.0.pop_front().expect("one was announced")
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}

    fn failed(&mut self, _: RequestId, _: Picos) {}
}

/// What befell every request, and when.
#[derive(Default)]
struct Stories {
    ended: BTreeMap<u64, Vec<Completion>>,
    admitted: Vec<(u64, Picos)>,
    /// Of arrivals, admissions, first tokens and ends.
    last: Picos,
}

impl Observer for Stories {
    fn observe(&mut self, fact: &Fact<'_>) {
        let now = match fact {
            Fact::Arrived { request } => request.arrival,
            Fact::Admitted { now, id, .. } => {
                self.admitted.push((id.0, *now));
                *now
            }
            Fact::FirstToken { now, .. } | Fact::Preempted { now, .. } => *now,
            Fact::Ended(completion) => {
                let story = (*completion).clone();
                self.ended.entry(completion.id.0).or_default().push(story);
                completion.end
            }
            _ => return,
        };
        assert!(now >= self.last, "facts about requests come in order of time");
        self.last = now;
    }
}

/// The experiment's traffic as it comes when nobody waits for answers.
fn requests(experiment: &Experiment) -> Vec<Request> {
    let mut generator = Generator::new(&experiment.spec, experiment.seed);
    let mut requests = Vec::new();
    while let Some(now) = generator.next_arrival() {
        let request = generator.take();
        generator.ended(request.id, now);
        requests.push(request);
    }
    requests
}

/// SGLang with the experiment's sizes, whose dice are also this engine's.
fn sglang(experiment: &Experiment, seed: u64) -> EngineSpec {
    let vllm = &experiment.engine;
    let page_size = vllm.block_size;
    let pool = vllm.num_gpu_blocks.max(300 / page_size + 2) * page_size;
    let policies = [
        QueuePolicy::Fcfs,
        QueuePolicy::Lpm,
        QueuePolicy::DfsWeight,
        QueuePolicy::Lof,
    ];
    let config = SglangConfig {
        profile: "sglang@0.5.23".into(),
        context_length: 400,
        max_running_requests: vllm.max_num_seqs,
        chunked_prefill_size: vllm
            .enable_chunked_prefill
            .then(|| vllm.max_num_batched_tokens.next_multiple_of(page_size)),
        max_prefill_tokens: 16384,
        prefill_decode_interval: 0,
        prefill_max_requests: None,
        policy: policies[(seed % 4) as usize],
        priority: None,
        page_size,
        max_total_tokens: pool,
        radix_cache: vllm.enable_prefix_caching,
        enable_mixed_chunk: false,
        overlap_schedule: vllm.queue_depth == 2,
        init_new_token_ratio: 0.0,
        min_new_token_ratio: 0.0,
        new_token_ratio_decay: 0.0,
        max_queued_requests: None,
        switches: SglangSwitches::V0_5_23,
        seed: 0,
        eos_segment: None,
    };
    config.with_conservativeness(1.0).into()
}

/// vLLM V0, static batching or Transformers with the experiment's sizes.
fn scheduled(experiment: &Experiment, seed: u64) -> EngineSpec {
    let vllm = &experiment.engine;
    let num_gpu_blocks = vllm.num_gpu_blocks.max(400 / vllm.block_size + 2);
    let max_num_batched_tokens = vllm.max_num_batched_tokens.max(vllm.max_num_seqs);
    let scheduler = match seed % 4 {
        0 => SchedulerChoice::Static(StaticConfig {
            batch_size: vllm.max_num_seqs,
            batch_timeout: Picos(seed % 3 * 50_000_000_000),
            release_rows_early: seed % 8 > 3,
            max_model_len: 400,
        }),
        1 => SchedulerChoice::HfContinuous(HfConfig {
            order: HfOrder::Fifo,
            max_batch_tokens: max_num_batched_tokens,
            margin_blocks: num_gpu_blocks / 5,
        }),
        _ => SchedulerChoice::VllmV0(V0Config {
            enable_chunked_prefill: vllm.enable_chunked_prefill,
            policy: vllm.policy,
            preemption_mode: PreemptionMode::Recompute,
            delay_factor: 0.0,
        }),
    };
    let config = ScheduledConfig {
        profile: "scheduled".into(),
        max_model_len: 400,
        max_num_seqs: vllm.max_num_seqs,
        max_num_batched_tokens: if vllm.enable_chunked_prefill {
            max_num_batched_tokens
        } else {
            400
        },
        block_size: vllm.block_size,
        num_gpu_blocks,
        enable_prefix_caching: vllm.enable_prefix_caching && !seed.is_multiple_of(4),
        swap_blocks: 0,
        swap_time_per_block: Picos::ZERO,
        scheduler,
    };
    config.into()
}

/// Which engine serves.
fn kinds() -> impl Strategy<Value = u8> {
    0u8..3
}

fn engine(experiment: &Experiment, seed: u64, kind: u8) -> EngineSpec {
    match kind {
        1 => sglang(experiment, seed),
        2 => scheduled(experiment, seed),
        _ => {
            let mut config = experiment.engine.clone();
            config.max_num_queued_reqs = None;
            config.into()
        }
    }
}

fn costs(experiment: &Experiment, replicas: u32) -> Vec<Box<dyn StepCost>> {
    (0..replicas)
        .map(|_| Box::new(experiment.cost) as Box<dyn StepCost>)
        .collect()
}

fn kv_events(overlap: Overlap) -> Policy {
    Policy::KvEvents(KvEvents {
        overlap,
        ..KvEvents::default()
    })
}

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
