//! Routers that are told by the engines how long their queues are.

use super::{Load, Router, View};
use crate::engine::State;
use crate::units::Picos;
use crate::workload::Request;

/// Engines report at least as often (V1-86).
const REPORT_EVERY: Picos = Picos(100_000_000_000);

/// How a data-parallel vLLM server ranks its engines (V1-86).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataParallelScore {
    /// 0.11: four times the waiting, and the running; a request sent since the last report counts as waiting.
    FourfoldWaiting,
    /// 0.33: the requests in flight, more where requests wait and more than half of the KV blocks are used.
    InFlight,
}

/// vLLM's balancer.
#[derive(Debug)]
pub(super) struct VllmDataParallel {
    score: DataParallelScore,
    /// Where the scan starts: it goes round, so that equals take turns.
    start: usize,
}

impl VllmDataParallel {
    pub(super) fn new(score: DataParallelScore) -> VllmDataParallel {
        VllmDataParallel { score, start: 0 }
    }

    fn rank(&self, load: &Load) -> f64 {
        let State {
            running,
            waiting,
            kv_usage,
        } = load.reported;
        match self.score {
            DataParallelScore::InFlight => {
                let in_flight = load.requests.max(waiting + running);
                f64::from(in_flight) + f64::from(waiting) * 6.0 * (kv_usage - 0.5).max(0.0)
            }
            DataParallelScore::FourfoldWaiting => f64::from(4 * (waiting + load.sent_since_report) + running),
        }
    }
}

impl Router for VllmDataParallel {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        let replicas = view.loads.len();
        let mut best: Option<(f64, usize)> = None;
        for ahead in 0..replicas {
            let index = (self.start + ahead) % replicas;
            let load = &view.loads[index];
            if !load.is_up {
                continue;
            }
            let rank = self.rank(load);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, index));
            }
        }
        self.start = (self.start + 1) % replicas;
        best.map(|(_, chosen)| chosen)
    }

    fn reports_every(&self) -> Option<Picos> {
        Some(REPORT_EVERY)
    }
}
