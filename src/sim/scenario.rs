//! What a run is a pure function of, together with its seed.

use super::{Admission, Frontend};
use crate::cluster::{ClusterSpec, LockStepSpec};
use crate::cost::jitter::JitterLaw;
use crate::cost::{SharedCost, StepCost};
use crate::engine::EngineSpec;
use crate::engine::lmcache::LmcacheConfig;
use crate::workload::WorkloadSpec;

/// One simulated experiment: machines, engines, costs and traffic. Made by `config`, the only judge of user input.
#[derive(Clone)]
pub struct Scenario {
    /// What serves, at least one pool; replicas are numbered through over them.
    pub pools: Vec<Pool>,
    /// Who routes between the replicas, and when they come and go.
    pub cluster: ClusterSpec,
    /// Tiers of KV beside the GPUs; none as a rule, and only of one pool.
    pub tiers: Option<LmcacheConfig>,
    /// Replicas are ranks of one server that step together; not as a rule.
    pub lock_step: Option<LockStepRanks>,
    /// What stands before the routers.
    pub admission: Admission,
    /// How the steps of each pool's replicas scatter around their cost; empty as a rule, which is not at all.
    pub jitter: Vec<JitterLaw>,
    /// The traffic.
    pub workload: WorkloadSpec,
    /// Seed of every random stream.
    pub seed: u64,
}

impl Scenario {
    /// The first pool, which is the only one unless the scenario names several.
    #[must_use]
    pub fn first_pool(&self) -> &Pool {
        self.pools.first().expect("a scenario has at least one pool")
    }

    /// The first pool, to be changed.
    pub fn first_pool_mut(&mut self) -> &mut Pool {
        self.pools.first_mut().expect("a scenario has at least one pool")
    }

    /// The law by which each replica's steps scatter; empty where they do not.
    #[must_use]
    pub fn jitter_by_replica(&self) -> Vec<JitterLaw> {
        let pools = self.pools.iter().zip(&self.jitter);
        let laws = pools.flat_map(|(pool, law)| std::iter::repeat_n(*law, pool.replicas as usize));
        laws.collect()
    }

    /// The pool of each replica.
    #[must_use]
    pub fn pool_of_each(&self) -> Vec<u32> {
        let pools = (0..).zip(&self.pools);
        pools
            .flat_map(|(index, pool)| (0..pool.replicas).map(move |_| index))
            .collect()
    }

    /// Tokens of a KV block of each replica.
    pub fn block_sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_replica().map(|pool| pool.engine.block_size())
    }

    /// The pool that each replica is of.
    pub(super) fn by_replica(&self) -> impl Iterator<Item = &Pool> {
        let pools = self.pools.iter();
        pools.flat_map(|pool| std::iter::repeat_n(pool, pool.replicas as usize))
    }

    /// Replicas of all pools.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.pools.iter().map(|pool| pool.replicas).sum()
    }
}

/// How ranks step together, and what they share.
#[derive(Clone)]
pub struct LockStepRanks {
    /// How.
    pub spec: LockStepSpec,
    /// Makes the price of the experts of all ranks.
    pub shared: SharedFactory,
}

/// Makes a fresh shared cost; shared between threads of a sweep.
pub type SharedFactory = std::sync::Arc<dyn Fn() -> Box<dyn SharedCost> + Send + Sync>;

/// Replicas that are alike.
#[derive(Clone)]
pub struct Pool {
    /// What the scenario calls it; empty for the one pool of a scenario without any.
    pub name: String,
    /// What its replicas do of a request.
    pub role: Role,
    /// How many there are.
    pub replicas: u32,
    /// The engine's resolved flags.
    pub engine: EngineSpec,
    /// Makes the cost model of one replica.
    pub cost: CostFactory,
    /// What the front end of one replica adds around its engine.
    pub frontend: Frontend,
    /// The model that is served.
    pub model: String,
    /// The GPU.
    pub device: String,
    /// GPUs of one replica.
    pub gpus: u32,
    /// What an hour of one GPU costs, where that is known.
    pub price: Option<GpuPrice>,
}

/// What an hour of one GPU costs.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuPrice {
    /// US dollars.
    pub usd_per_hour: f64,
    /// When it was listed, `YYYY-MM-DD`; `None` of a price that was given.
    pub listed: Option<String>,
}

/// What a replica does of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Prompt and answer.
    #[default]
    Both,
    /// The prompt.
    Prefill,
    /// The answer.
    Decode,
}

/// Makes a fresh cost model; shared between threads of a sweep.
pub type CostFactory = std::sync::Arc<dyn Fn() -> Box<dyn StepCost> + Send + Sync>;
