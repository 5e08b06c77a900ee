//! What a simulation is put together from: one server or several, their cost models, what scatters or slows their steps.

use std::collections::{BinaryHeap, VecDeque};

use super::{Server, Simulation};
use crate::cluster::{Cluster, ClusterSpec, Disaggregated, FrontEnds, LockStepSpec, Serving};
use crate::cost::jitter::{Jitter, JitterLaw};
use crate::cost::{SharedCost, StepCost};
use crate::engine::lmcache::LmcacheConfig;
use crate::engine::{Acceptance, Engine, EngineSpec};
use crate::ids::ReplicaId;
use crate::rng::{Purpose, stream};
use crate::sim::{Counts, Frontend, Pool, Scenario};
use crate::units::Picos;
use crate::workload::Traffic;

impl<T: Traffic> Simulation<T> {
    /// All that a scenario says, empty, and traffic in place of the scenario's own.
    #[must_use]
    pub fn of_scenario(scenario: &Scenario, traffic: T) -> Simulation<T> {
        let server = |pool: &Pool| Server {
            engine: pool.engine.clone(),
            cost: (pool.cost)(),
            frontend: pool.frontend,
        };
        let servers = scenario.by_replica().map(server).collect();
        let mut simulation = Simulation::of_servers(servers, &scenario.cluster, scenario.seed, traffic)
            .admitting(&scenario.admission)
            .drafting(scenario.seed);
        if let Some(ranks) = &scenario.lock_step {
            simulation = simulation.in_lock_step(ranks.spec, (ranks.shared)());
        }
        if let Some(tiers) = &scenario.tiers {
            simulation = simulation.with_tiers(tiers);
        }
        if !scenario.jitter.is_empty() {
            simulation = simulation.disturbed(&scenario.jitter_by_replica(), scenario.seed);
        }
        simulation
    }

    /// An empty server and its traffic.
    #[must_use]
    pub fn new(
        engine: impl Into<EngineSpec>,
        cost: Box<dyn StepCost>,
        frontend: Frontend,
        traffic: T,
    ) -> Simulation<T> {
        let replica = Engine::new(ReplicaId(0), engine.into(), cost, false);
        Simulation::with_cluster(Serving::Fleet(Cluster::single(replica)), vec![frontend], traffic)
    }

    /// An empty cluster of alike replicas, each with its own of the cost models, and its traffic.
    #[must_use]
    pub fn of_cluster(
        engine: &EngineSpec,
        costs: Vec<Box<dyn StepCost>>,
        cluster: &ClusterSpec,
        seed: u64,
        frontend: Frontend,
        traffic: T,
    ) -> Simulation<T> {
        let server = |cost| Server {
            engine: engine.clone(),
            cost,
            frontend,
        };
        let servers = costs.into_iter().map(server).collect();
        Simulation::of_servers(servers, cluster, seed, traffic)
    }

    /// An empty cluster of one replica for each of `servers`, and its traffic.
    #[must_use]
    pub fn of_servers(servers: Vec<Server>, cluster: &ClusterSpec, seed: u64, traffic: T) -> Simulation<T> {
        let block_sizes: Vec<u32> = servers.iter().map(|server| server.engine.block_size()).collect();
        let frontends: Vec<Frontend> = servers.iter().map(|server| server.frontend).collect();
        let replica =
            |(index, server): (u32, Server)| Engine::new(ReplicaId(index), server.engine, server.cost, false);
        let engines = (0..).zip(servers).map(replica).collect();
        let cluster = match &cluster.disaggregation {
            None => Serving::Fleet(Cluster::new(engines, cluster, &block_sizes, seed)),
            Some(spec) => {
                let pools = Disaggregated::new(engines, &frontends, cluster, spec, &block_sizes, seed);
                Serving::Disaggregated(Box::new(pools))
            }
        };
        Simulation::with_cluster(cluster, frontends, traffic)
    }

    /// The same for traffic whose generated tokens may be equal between requests while they run: every sequence is
    /// visited in every step, so that shared contents are found exactly when the engine finds them.
    #[must_use]
    pub fn stepwise(
        engine: impl Into<EngineSpec>,
        cost: Box<dyn StepCost>,
        frontend: Frontend,
        traffic: T,
    ) -> Simulation<T> {
        let replica = Engine::new(ReplicaId(0), engine.into(), cost, true);
        Simulation::with_cluster(Serving::Fleet(Cluster::single(replica)), vec![frontend], traffic)
    }

    fn with_cluster(cluster: Serving, frontends: Vec<Frontend>, mut traffic: T) -> Simulation<T> {
        Simulation {
            ends: FrontEnds::new(frontends),
            arrival: traffic.next_arrival(),
            traffic,
            cluster,
            gate: None,
            now: Picos::ZERO,
            deadlines: BinaryHeap::new(),
            outbox: VecDeque::new(),
            buffer: Vec::new(),
            counts: Counts::default(),
            places: None,
            refusals: Default::default(),
        }
    }

    /// Lets steps scatter around their cost.
    #[must_use]
    pub fn disturbed(mut self, laws: &[JitterLaw], seed: u64) -> Simulation<T> {
        self.cluster
            .disturb(|replica| Jitter::new(laws[replica as usize], stream(seed, Purpose::Jitter, replica)));
        self
    }

    /// Draws how many drafts stand where engines speculate.
    #[must_use]
    pub fn drafting(self, seed: u64) -> Simulation<T> {
        self.accepting(|| Acceptance::Drawn(seed))
    }

    /// Says how many drafts stand where engines speculate.
    #[must_use]
    pub(crate) fn accepting(mut self, acceptance: impl Fn() -> Acceptance) -> Simulation<T> {
        self.cluster.accept(acceptance);
        self
    }

    /// Gives every replica tiers of KV beside its GPUs.
    #[must_use]
    pub fn with_tiers(mut self, config: &LmcacheConfig) -> Simulation<T> {
        self.cluster.add_tiers(config);
        self
    }

    /// Makes the replicas ranks that step together, with what they share.
    #[must_use]
    pub fn in_lock_step(mut self, spec: LockStepSpec, shared: Box<dyn SharedCost>) -> Simulation<T> {
        self.cluster = self.cluster.into_lock_step(spec, shared);
        self
    }
}
