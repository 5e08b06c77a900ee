//! A router that follows the engines' KV events: NVIDIA Dynamo's (`DefaultWorkerSelector` at temperature 0).
//!
//! It adds up what each replica would have to do (RT-10): prompt tokens to compute, its own sendings' and the new one's less
//! what is cached there, and blocks that prompts have in use there, the new one's among them (`active.rs`). What is cached it
//! hears from the engines (`kv/heard.rs`), or guesses from what it has sent where (`expiring.rs`).

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::active::{ActivePrompt, ActivePrompts};
use super::expiring::ExpiringTree;
use super::{Router, View};
use crate::ids::RequestId;
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::window::Window;
use crate::workload::Request;

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
    /// Engines publish what they store and remove, and it hears of that so much later. Between prefill and decode a router
    /// of the decode pool hears of what decoding evicts when something else happens there, not before.
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
    /// Of events, where nobody says: the middle of the 1 to 10 ms of RT-12; nobody has published a measurement.
    pub const LATENCY: Picos = Picos(5 * PICOS_PER_SECOND / 1000);
    /// Of what was sent, where nobody says: Dynamo's default (RT-12).
    pub const TTL: Picos = Picos(120 * PICOS_PER_SECOND);
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
    prompt: ActivePrompt,
    /// Tokens to compute before the first token; 0 once that has come.
    prefill_tokens: u64,
}

/// RT-10 to RT-12 at temperature 0.
#[derive(Debug)]
pub(super) struct KvEventRouter {
    options: KvEvents,
    /// Who is taken of replicas that nothing tells apart (RT-11).
    rng: ChaCha8Rng,
    block_sizes: Vec<u32>,
    /// How many blocks of the first replica one of each replica is.
    scales: Vec<f64>,
    active: Window<Active>,
    /// Of the active requests on each replica.
    prefill_tokens: Vec<u64>,
    prompts: ActivePrompts,
    /// What each replica would have to do, as last weighed.
    logits: Vec<f64>,
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
            scales: block_sizes
                .iter()
                .map(|&size| f64::from(size) / f64::from(block_sizes[0]))
                .collect(),
            active: Window::default(),
            prefill_tokens: vec![0; replicas],
            prompts: ActivePrompts::new(block_sizes),
            logits: Vec::new(),
            sent: match options.overlap {
                Overlap::Events { .. } => None,
                Overlap::Approximate { ttl } => Some(ExpiringTree::new(replicas, ttl)),
            },
        }
    }
}

impl KvEventRouter {
    /// RT-10: what each replica would have to do if it got the request that was looked up.
    fn weigh(&mut self, request: &Request, view: &View<'_>) {
        let mut weighed = std::mem::take(&mut self.logits);
        // Replicas with blocks of different sizes are compared in blocks of the first one's.
        let unit = f64::from(self.block_sizes[0]);
        let (weight, all) = (self.options.overlap_weight, request.prompt_tokens);
        let (cached, new_blocks) = (self.cached(view), self.prompts.new_blocks());
        let prefill = self.prefill_tokens.iter().zip(cached);
        let prefill = prefill.map(|(active, &cached)| active + u64::from(all - cached.min(all)));
        let blocks = self.prompts.blocks().iter().zip(new_blocks);
        let blocks = blocks.map(|(active, &new)| active + u64::from(new));
        let work = prefill.zip(blocks).zip(&self.scales);
        let logits =
            work.map(|((prefill, blocks), scale)| weight * prefill as f64 / unit + blocks as f64 * scale);
        weighed.clear();
        weighed.extend(logits);
        self.logits = weighed;
    }

    /// Tokens of the prompt that was looked up, on each replica.
    fn cached<'a>(&'a self, view: &View<'a>) -> &'a [u32] {
        match &self.sent {
            None => view.cached_tokens,
            Some(sent) => sent.found(),
        }
    }

    /// RT-11: the smallest logit, of equals the smallest index, of these any.
    fn choose(&mut self, view: &View<'_>) -> Option<usize> {
        let mut least = f64::INFINITY;
        for (load, &logit) in view.loads.iter().zip(&self.logits) {
            if load.is_up && logit < least {
                least = logit;
            }
        }
        let index_tokens = |replica: usize| match &self.sent {
            None => (view.index_tokens)(replica),
            Some(sent) => sent.tokens(replica),
        };
        let weighed = view.loads.iter().zip(&self.logits).enumerate();
        let mut equals = weighed
            .filter(|(_, (load, logit))| load.is_up && **logit == least)
            .map(|(replica, _)| replica);
        let first = equals.next()?;
        let Some(second) = equals.next() else {
            return Some(first);
        };
        let equals: Vec<(u64, usize)> = [first, second]
            .into_iter()
            .chain(equals)
            .map(|replica| (index_tokens(replica), replica))
            .collect();
        let smallest = equals.iter().map(|&(tokens, _)| tokens).min()?;
        let any: Vec<usize> = equals
            .into_iter()
            .filter(|&(tokens, _)| tokens == smallest)
            .map(|(_, replica)| replica)
            .collect();
        Some(match any.as_slice() {
            [only] => *only,
            _ => any[self.rng.random_range(0..any.len())],
        })
    }
}

impl Router for KvEventRouter {
    fn route(&mut self, request: &Request, now: Picos, view: &View<'_>) -> Option<usize> {
        if let Some(sent) = &mut self.sent {
            sent.look_up(request, now, view, &self.block_sizes);
        }
        self.prompts.look_up(request);
        self.weigh(request, view);
        let replica = self.choose(view)?;
        let cached = self.cached(view)[replica].min(request.prompt_tokens);
        let active = Active {
            prompt: self.prompts.begin(request, replica),
            prefill_tokens: u64::from(request.prompt_tokens - cached),
        };
        self.prefill_tokens[replica] += active.prefill_tokens;
        self.active.insert(request.id, active);
        if let Some(sent) = &mut self.sent {
            sent.send(request, replica, now);
        }
        Some(replica)
    }

    fn first_token(&mut self, request: RequestId) {
        if let Some(active) = self.active.get_mut(request) {
            self.prefill_tokens[active.prompt.replica()] -= std::mem::take(&mut active.prefill_tokens);
        }
    }

    fn follows_first_tokens(&self) -> bool {
        true
    }

    fn follows_events(&self) -> bool {
        self.sent.is_none()
    }

    fn remembered(&self) -> usize {
        self.active.len()
    }

    fn left(&mut self, request: RequestId) {
        if let Some(active) = self.active.remove(request) {
            self.prefill_tokens[active.prompt.replica()] -= active.prefill_tokens;
            self.prompts.end(active.prompt);
        }
    }
}
