//! Routers that are told by the engines: of their queues, or of their caches.

use std::cmp::Ordering;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::expiring::ExpiringTree;
use super::{Load, Router, View};
use crate::engine::State;
use crate::ids::RequestId;
use crate::units::Picos;
use crate::window::Window;
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

/// Parameters of a router that follows KV events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvEvents {
    /// ω: what a prompt token to compute weighs against a block that decodes (RT-10).
    pub overlap_weight: f64,
    /// How it learns what replicas have cached.
    pub overlap: Overlap,
}

/// How a router learns what replicas have cached (RT-12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overlap {
    /// Engines publish what they store and remove, and it hears of that so much later. At zero it sees what an engine that
    /// decodes undisturbed has evicted when something else happens there, not before.
    Events {
        /// From the change to the router's knowing it.
        latency: Picos,
    },
    /// No events: what it has sent to a replica counts as cached there for so long.
    Approximate {
        /// From sending on.
        ttl: Picos,
    },
}

impl Overlap {
    /// The middle of the 1 to 10 ms of RT-12; nobody has published a measurement.
    pub const LATENCY: Picos = Picos(5_000_000_000);
    /// Dynamo's default (RT-12).
    pub const TTL: Picos = Picos(120_000_000_000_000);
}

impl Default for KvEvents {
    fn default() -> Self {
        KvEvents {
            overlap_weight: 1.0,
            overlap: Overlap::Events {
                latency: Overlap::LATENCY,
            },
        }
    }
}

/// A request that the router has not seen the end of.
#[derive(Debug)]
struct Active {
    replica: usize,
    /// Tokens to compute before the first token; 0 once that has come.
    prefill_tokens: u64,
    blocks: u64,
}

/// RT-10 to RT-12 at temperature 0.
#[derive(Debug)]
pub(super) struct KvEventRouter {
    options: KvEvents,
    /// Who is taken of replicas that nothing tells apart (RT-11).
    rng: ChaCha8Rng,
    block_sizes: Vec<u32>,
    active: Window<Active>,
    /// Of the active requests on each replica.
    prefill_tokens: Vec<u64>,
    blocks: Vec<u64>,
    /// What it has sent where, if nobody tells it more.
    sent: Option<ExpiringTree>,
}

impl KvEventRouter {
    pub(super) fn new(options: KvEvents, block_sizes: &[u32], rng: ChaCha8Rng) -> KvEventRouter {
        let replicas = block_sizes.len();
        KvEventRouter {
            options,
            rng,
            block_sizes: block_sizes.to_vec(),
            active: Window::default(),
            prefill_tokens: vec![0; replicas],
            blocks: vec![0; replicas],
            sent: match options.overlap {
                Overlap::Events { .. } => None,
                Overlap::Approximate { ttl } => Some(ExpiringTree::new(replicas, ttl)),
            },
        }
    }
}

/// The best replica of those looked at so far.
struct Candidate {
    logit: f64,
    replica: usize,
    /// Tokens of the prompt that it has.
    cached: u32,
    /// So many were as good; each of them had the same chance.
    equals: u32,
}

impl KvEventRouter {
    /// RT-11: the smaller logit, of equals the smaller index, of these any.
    fn better(&mut self, best: Candidate, other: Candidate, view: &View<'_>) -> Candidate {
        let index_tokens = |candidate: &Candidate| match &self.sent {
            None => (view.index_tokens)(candidate.replica),
            Some(sent) => sent.tokens(candidate.replica),
        };
        let order = best
            .logit
            .total_cmp(&other.logit)
            .then_with(|| index_tokens(&best).cmp(&index_tokens(&other)));
        match order {
            Ordering::Less => best,
            Ordering::Greater => other,
            Ordering::Equal => {
                let equals = best.equals + 1;
                let chosen = match self.rng.random_range(0..equals) {
                    0 => other,
                    _ => best,
                };
                Candidate { equals, ..chosen }
            }
        }
    }
}

impl Router for KvEventRouter {
    fn route(&mut self, request: &Request, now: Picos, view: &View<'_>) -> Option<usize> {
        if let Some(sent) = &mut self.sent {
            sent.look_up(request, now, view);
        }
        // Replicas with blocks of different sizes are compared in blocks of the first one's.
        let unit = f64::from(self.block_sizes[0]);
        let mut best: Option<Candidate> = None;
        for (index, _) in view.up() {
            let active = self.blocks[index] as f64 * (f64::from(self.block_sizes[index]) / unit);
            // Were the whole prompt cached there, it would still not be the least: no need to look.
            let at_least = self.options.overlap_weight * self.prefill_tokens[index] as f64 / unit + active;
            if best.as_ref().is_some_and(|best| at_least > best.logit) {
                continue;
            }
            let cached = match &self.sent {
                None => (view.cached_tokens)(index),
                Some(sent) => sent.whole_blocks(index, self.block_sizes[index]),
            };
            let cached = cached.min(request.prompt_tokens);
            let prefill = self.prefill_tokens[index] + u64::from(request.prompt_tokens - cached);
            let logit = self.options.overlap_weight * prefill as f64 / unit + active;
            let found = Candidate {
                logit,
                replica: index,
                cached,
                equals: 1,
            };
            best = match best {
                Some(best) => Some(self.better(best, found, view)),
                None => Some(found),
            };
        }
        let Candidate { replica, cached, .. } = best?;
        let active = Active {
            replica,
            prefill_tokens: u64::from(request.prompt_tokens - cached),
            blocks: u64::from(request.prompt_tokens.div_ceil(self.block_sizes[replica])),
        };
        self.prefill_tokens[replica] += active.prefill_tokens;
        self.blocks[replica] += active.blocks;
        self.active.insert(request.id, active);
        if let Some(sent) = &mut self.sent {
            sent.send(request, replica, now);
        }
        Some(replica)
    }

    fn first_token(&mut self, request: RequestId) {
        if let Some(active) = self.active.get_mut(request) {
            self.prefill_tokens[active.replica] -= std::mem::take(&mut active.prefill_tokens);
        }
    }

    fn follows_first_tokens(&self) -> bool {
        true
    }

    fn remembered(&self) -> usize {
        self.active.len()
    }

    fn left(&mut self, request: RequestId) {
        if let Some(active) = self.active.remove(request) {
            self.prefill_tokens[active.replica] -= active.prefill_tokens;
            self.blocks[active.replica] -= active.blocks;
        }
    }
}
