//! What a run is a pure function of, together with its seed.

use super::Frontend;
use crate::cluster::ClusterSpec;
use crate::cost::StepCost;
use crate::cost::jitter::JitterLaw;
use crate::engine::EngineSpec;
use crate::engine::lmcache::LmcacheConfig;
use crate::workload::WorkloadSpec;

/// One simulated experiment: machines, engine, cost and traffic. Made by `config`, the only judge of user input.
#[derive(Clone)]
pub struct Scenario {
    /// The engine's resolved flags, the same for every replica.
    pub engine: EngineSpec,
    /// Engine instances, who routes between them, and when they come and go.
    pub cluster: ClusterSpec,
    /// Makes the cost model of one replica.
    pub cost: CostFactory,
    /// What the front end adds around the engine.
    pub frontend: Frontend,
    /// Tiers of KV beside the GPUs; none as a rule.
    pub tiers: Option<LmcacheConfig>,
    /// How steps scatter around their cost; not at all as a rule.
    pub jitter: Option<JitterLaw>,
    /// The traffic.
    pub workload: WorkloadSpec,
    /// Seed of every random stream.
    pub seed: u64,
}

/// Makes a fresh cost model; shared between threads of a sweep.
pub type CostFactory = std::sync::Arc<dyn Fn() -> Box<dyn StepCost> + Send + Sync>;
