//! How a row's requests were sent: how many, by which law, and with how many at a time.

use super::super::words::stated_limit;
use super::{Draft, Unplanned, quoted};
use crate::results::Load;

/// Requests for each client of a closed loop whose number of prompts is not known: ten waves.
const WAVES: u64 = 10;
/// Largest number of requests that is simulated where the row does not say how many.
const UNKNOWN_REQUESTS: u64 = 2000;

impl Draft<'_> {
    /// Seed, number of requests, arrivals and lengths; or the trace that is replayed.
    pub(super) fn workload(&mut self, trace: &dyn Fn(&str) -> Option<String>) -> Result<(), Unplanned> {
        self.line("\n[workload]\nseed = 0");
        let setup = &self.row.setup;
        if setup.load == Load::Trace {
            return Ok(self.replay(trace)?);
        }
        let requests = self.requests()?;
        self.entry("num_prompts", &requests.to_string());
        self.arrivals()?;
        self.lengths()
    }

    /// How many requests were sent: as the row says, or as its rate and its duration do.
    fn requests(&mut self) -> Result<u64, String> {
        let setup = &self.row.setup;
        let rate = match setup.load {
            Load::Open { rate } => Some(rate),
            _ => self.row.outcome.request_throughput,
        };
        let over_time = rate
            .zip(self.row.outcome.duration_s)
            .map(|(rate, seconds)| (rate * seconds).round());
        match (setup.load, setup.num_prompts) {
            (Load::StaticBatch { batch: 0 }, _) | (_, Some(0)) => {
                Err("the row says that no request was sent".to_owned())
            }
            (Load::StaticBatch { batch }, _) => Ok(batch),
            (_, Some(requests)) => Ok(requests),
            (Load::Closed { clients: 0 }, _) => Err("the row says that nobody sent requests".to_owned()),
            _ if over_time.is_some_and(|requests| requests >= 1.0) => {
                let requests = over_time.unwrap_or_default() as u64;
                self.assume(format!(
                    "the number of requests is not said: {requests}, by rate and duration"
                ));
                Ok(requests)
            }
            (Load::Closed { clients }, _) => {
                let requests = clients
                    .saturating_mul(WAVES)
                    .clamp(20, UNKNOWN_REQUESTS.max(clients));
                self.assume(format!("the number of requests is not said: {requests}"));
                Ok(requests)
            }
            _ => {
                self.assume(format!("the number of requests is not said: {UNKNOWN_REQUESTS}"));
                Ok(UNKNOWN_REQUESTS)
            }
        }
    }

    fn replay(&mut self, trace: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        let name = self
            .row
            .setup
            .trace
            .clone()
            .ok_or("the row does not name its trace")?;
        let path = trace(&name).ok_or_else(|| format!("the trace `{name}` is not at hand (--traces DIR)"))?;
        self.line("\n[workload.arrivals.trace]");
        self.entry("path", &quoted(&path));
        Ok(())
    }

    fn arrivals(&mut self) -> Result<(), Unplanned> {
        let setup = &self.row.setup;
        let mut limit = setup.max_concurrency;
        let mut is_scaled = false;
        match setup.load {
            Load::Open { rate } => {
                // inference-perf's "constant" load draws exponential gaps and scales them to the run's length
                // (`ConstantLoadTimer.start_timer`), as `vllm bench serve` does: only the number is constant.
                let client = format!("{} {}", setup.workload, setup.flags).to_lowercase();
                is_scaled = ["inference-perf", "vllm bench serve"]
                    .iter()
                    .any(|name| client.contains(name));
                self.line("\n[workload.arrivals.poisson]");
                self.entry("request_rate", &format!("{rate:?}"));
                limit = limit.or_else(|| stated_limit(&setup.notes));
            }
            Load::Closed { .. } | Load::Burst | Load::Offline => {
                self.line("\n[workload.arrivals.all_at_once]")
            }
            Load::StaticBatch { .. } => {
                self.assume("a static batch is sent all at once to an engine that batches continuously");
                self.line("\n[workload.arrivals.all_at_once]");
            }
            Load::Trace | Load::Mixed { .. } | Load::Users { .. } | Load::Sessions { .. } | Load::Unknown => {
                return Err(Unplanned::Load);
            }
        }
        if limit.is_some() || is_scaled {
            self.line("\n[workload.client]");
        }
        if let Some(limit) = limit {
            self.entry("max_concurrency", &limit.to_string());
        }
        if is_scaled {
            self.entry("rescale_arrivals", "true");
        }
        Ok(())
    }
}
