//! Several replicas: each computes as if it were alone, and whatever fails, every request is accounted for.

use std::collections::BTreeMap;

use plimsoll::cluster::router::{CacheAware, DataParallelScore, KvEvents, Policy};
use plimsoll::cluster::{Change, ChangeKind, ClusterSpec, Outages};
use plimsoll::cost::StepCost;
use plimsoll::ids::{ReplicaId, RequestId};
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::sim::{Completion, Fact, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Generator, Request, Traffic};
use proptest::prelude::*;

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

fn costs(experiment: &Experiment, replicas: u32) -> Vec<Box<dyn StepCost>> {
    (0..replicas)
        .map(|_| Box::new(experiment.cost) as Box<dyn StepCost>)
        .collect()
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
        Just(Policy::VllmDataParallel(DataParallelScore::InFlight)),
        Just(Policy::VllmDataParallel(DataParallelScore::FourfoldWaiting)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A replica among several does to the last picosecond what it does alone with the requests that it was sent.
    #[test]
    fn each_replica_is_as_if_alone(seed in any::<u64>(), replicas in 2u32..6, policy in policies()) {
        let experiment = Experiment::draw(seed);
        let requests = requests(&experiment);
        let mut together = Stories::default();
        let spec = ClusterSpec::of(replicas, policy);
        let mut cluster = Simulation::of_cluster(
            &experiment.engine.clone().into(), costs(&experiment, replicas), &spec, seed, experiment.frontend,
            Given(requests.clone().into()),
        );
        cluster.advance(Until::DRAINED, &mut together);
        prop_assert_eq!(together.ended.len(), requests.len());
        for replica in 0..replicas {
            // Refused ones left no trace; they name the first replica.
            let mine = |id: u64| {
                let story = &together.ended[&id][0];
                story.replica == ReplicaId(replica) && together.admitted.iter().any(|&(other, _)| other == id)
            };
            let own: Vec<Request> = requests.iter().filter(|request| mine(request.id.0)).cloned().collect();
            let mut engine = experiment.engine.clone();
            engine.max_num_queued_reqs = None;
            let mut alone = Stories::default();
            let mut simulation = Simulation::new(
                engine, Box::new(experiment.cost), experiment.frontend, Given(own.clone().into()),
            );
            simulation.advance(Until::DRAINED, &mut alone);
            let admitted: Vec<_> = together.admitted.iter().copied().filter(|&(id, _)| mine(id)).collect();
            // Whoever gave up before it was admitted held its place all the same.
            let waited_in_vain = together.ended.values().flatten().any(|story| {
                story.output_tokens == 0 && !together.admitted.iter().any(|&(id, _)| id == story.id.0)
            });
            if !waited_in_vain {
                prop_assert_eq!(&alone.admitted, &admitted);
                for request in &own {
                    let mut expected = alone.ended[&request.id.0].clone();
                    expected.iter_mut().for_each(|story| story.replica = ReplicaId(replica));
                    prop_assert_eq!(&together.ended[&request.id.0], &expected);
                }
            }
        }
    }

    /// Replicas fail, drain and come back; every request still ends once, and the books balance.
    #[test]
    fn nothing_is_lost_when_replicas_fail(
        seed in any::<u64>(),
        replicas in 1u32..5,
        policy in policies(),
        changes in prop::collection::vec((0u64..1500, 0u32..5, 0usize..3), 0..8),
        is_random in any::<bool>(),
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
        let simulation = || Simulation::of_cluster(
            &experiment.engine.clone().into(), costs(&experiment, replicas), &spec, seed, experiment.frontend,
            Generator::new(&experiment.spec, experiment.seed),
        );
        let mut stories = Stories::default();
        let mut told = simulation();
        told.advance(Until::DRAINED, &mut stories);
        let counts = told.counts();
        prop_assert_eq!(counts.sent, counts.ended);
        prop_assert_eq!(stories.ended.len() as u64, counts.sent);
        prop_assert!(stories.ended.values().all(|ends| ends.len() == 1));
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: Fleet {
                replicas,
                kv_blocks: experiment.engine.num_gpu_blocks - 1,
                block_size: experiment.engine.block_size,
            },
            slo: SloLimits::default(),
            records: Records::None,
        });
        let mut recorded = simulation();
        recorded.advance(Until::DRAINED, &mut recorder);
        let seen = recorder.finish(recorded.now());
        prop_assert_eq!(seen.violations, Vec::<String>::new());
        prop_assert_eq!(seen.whole.ended(), counts.sent);
    }
}
