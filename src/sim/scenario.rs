//! What a run is a pure function of, together with its seed.

use crate::cluster::ClusterSpec;
use crate::cost::StepCost;
use crate::engine::EngineSpec;
use crate::units::Picos;
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
    /// The traffic.
    pub workload: WorkloadSpec,
    /// Seed of every random stream.
    pub seed: u64,
}

/// Makes a fresh cost model; shared between threads of a sweep.
pub type CostFactory = std::sync::Arc<dyn Fn() -> Box<dyn StepCost> + Send + Sync>;

/// The API server around an engine: parsing and tokenizing before it, detokenizing and streaming after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frontend {
    /// From the client's send to the engine's input queue, without tokenizing.
    pub request_delay: Picos,
    /// Added to that for each prompt token.
    pub per_prompt_token: Picos,
    /// From the end of a step to the client.
    pub response_delay: Picos,
}
