//! A queue with a closed form, as a run saw it.
//!
//! One sequence at a time and Poisson arrivals are M/G/1: `E[W] = λ·E[S²] / (2·(1 − ρ))` (Pollaczek 1930, Khinchine 1932; Kleinrock 1975,
//! "Queueing Systems" I, 5.6). The service time is the run's own: its mean by Little's law on the server, ρ = `λ·E[S]`, and its variance
//! what the stay's has beyond the wait's, which does not depend on one's own service where all are served as they come. Left out: batches,
//! which have no such form, and queues in another order.

use super::{RunResult, Verdict};
use crate::engine::sglang::QueuePolicy;
use crate::engine::{EngineSpec, Policy};
use crate::metrics::{Distribution, Summary};
use crate::sim::Scenario;
use crate::workload::Arrivals;

/// First come, first served; of a scheduler of one's own nobody knows.
pub(super) fn serves_as_they_come(engine: &EngineSpec) -> bool {
    match engine {
        // A loop that decides ahead sleeps between its passes, and who comes meanwhile waits for no server.
        EngineSpec::Vllm(config) => config.policy == Policy::Fcfs && !config.is_asynchronous(),
        EngineSpec::Sglang(config) => config.policy == QueuePolicy::Fcfs && !config.overlap_schedule,
        EngineSpec::Trtllm(_) => true,
        EngineSpec::Scheduled(_) => false,
    }
}

/// A server of one request at a time, as a run saw it.
#[derive(Clone, Copy, Debug)]
pub struct SingleServer {
    /// Requests per second.
    per_s: f64,
    /// ρ.
    pub utilisation: f64,
    /// Mean service time in seconds.
    pub service_s: f64,
    service_variance: f64,
}

impl SingleServer {
    /// The steady stretch of a run on one server that serves one request at a time, as they come at random; `None` of any other.
    #[must_use]
    pub fn of_run(scenario: &Scenario, result: &RunResult) -> Option<SingleServer> {
        let pool = scenario.first_pool();
        let is_one_server = scenario.pools.len() == 1
            && pool.replicas == 1
            && pool.engine.max_num_seqs() == 1
            && serves_as_they_come(&pool.engine);
        let is_poisson = matches!(scenario.workload.arrivals, Arrivals::Poisson { .. })
            && scenario.workload.client.max_concurrency.is_none();
        let is_stable = result.verdict == Verdict::Stable;
        let steady = result
            .steady
            .as_ref()
            .filter(|steady| is_stable && steady.lost() == 0)?;
        SingleServer::of(steady).filter(|_| is_one_server && is_poisson)
    }

    fn of(steady: &Summary) -> Option<SingleServer> {
        let per_s = steady.completed as f64 / steady.duration_s;
        let utilisation = steady.occupancy.running;
        let deviation = |of: &Distribution| of.std_s();
        let variance = deviation(&steady.e2el)?.powi(2) - deviation(&steady.queue_time)?.powi(2);
        (per_s > 0.0 && utilisation < 1.0).then_some(SingleServer {
            per_s,
            utilisation,
            service_s: utilisation / per_s,
            service_variance: variance.max(0.0),
        })
    }

    /// Coefficient of variation of the service time.
    #[must_use]
    pub fn service_cv(&self) -> f64 {
        self.service_variance.sqrt() / self.service_s
    }

    /// The mean wait of M/G/1 in seconds, by Pollaczek and Khinchine.
    #[must_use]
    pub fn wait_s(&self) -> f64 {
        let second_moment = self.service_s.powi(2) + self.service_variance;
        self.per_s * second_moment / (2.0 * (1.0 - self.utilisation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_books() {
        let server = |service_variance: f64| SingleServer {
            per_s: 0.8,
            utilisation: 0.8,
            service_s: 1.0,
            service_variance,
        };
        // M/M/1: ρ/(μ − λ); M/D/1: half of it.
        assert!((server(1.0).wait_s() - 4.0).abs() < 1e-12);
        assert!((server(0.0).wait_s() - 2.0).abs() < 1e-12);
        assert!((server(1.0).service_cv() - 1.0).abs() < 1e-12);
    }
}
