//! What a run is a pure function of, together with its seed.

use super::Frontend;
use crate::cost::StepCost;
use crate::cost::jitter::JitterLaw;
use crate::engine::EngineConfig;
use crate::workload::WorkloadSpec;

/// One simulated experiment: machines, engine, cost and traffic. Made by `config`, the only judge of user input.
#[derive(Clone)]
pub struct Scenario {
    /// The engine's resolved flags, the same for every replica.
    pub engine: EngineConfig,
    /// Engine instances behind the router.
    pub replicas: u32,
    /// Makes the cost model of one replica.
    pub cost: CostFactory,
    /// What the front end adds around the engine.
    pub frontend: Frontend,
    /// How steps scatter around their cost; not at all as a rule.
    pub jitter: Option<JitterLaw>,
    /// The traffic.
    pub workload: WorkloadSpec,
    /// Seed of every random stream.
    pub seed: u64,
}

/// Makes a fresh cost model; shared between threads of a sweep.
pub type CostFactory = std::sync::Arc<dyn Fn() -> Box<dyn StepCost> + Send + Sync>;
