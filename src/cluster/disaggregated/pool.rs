//! The replicas of one role, alike or not, and who of them gets a request.

use rustc_hash::FxHashMap;

use crate::cluster::router::{Load, Policy, Router, View};
use crate::engine::Engine;
use crate::facts::Completion;
use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::Request;

/// Replicas that are consecutive in the cluster.
pub(super) struct Pool {
    first: usize,
    router: Box<dyn Router>,
    loads: Vec<Load>,
    sent: FxHashMap<RequestId, (usize, u64)>,
}

impl Pool {
    /// The replicas from `first` on with KV blocks of these sizes; `draws` names a seed and the router's stream of it.
    pub(super) fn new(first: usize, policy: Policy, block_sizes: &[u32], draws: (u64, u64)) -> Pool {
        let load = Load {
            is_up: true,
            ..Load::default()
        };
        Pool {
            first,
            router: policy.router(block_sizes, draws.0, draws.1),
            loads: vec![load; block_sizes.len()],
            sent: FxHashMap::default(),
        }
    }

    /// A replica takes new requests, or does not.
    pub(super) fn set_up(&mut self, replica: usize, is_up: bool) {
        self.loads[replica - self.first].is_up = is_up;
    }

    /// Who gets `request`; `None` if nobody is up.
    pub(super) fn route(&mut self, engines: &[Engine], now: Picos, request: &Request) -> Option<usize> {
        let first = self.first;
        let view = View {
            loads: &self.loads,
            cached_tokens: &|index| engines[first + index].heard_tokens(request, now),
        };
        let chosen = self.router.route(request, now, &view)?;
        assert!(self.loads[chosen].is_up, "a router chooses among those up");
        Some(first + chosen)
    }

    /// A request was sent to a replica of this pool.
    pub(super) fn sent(&mut self, replica: usize, request: &Request) {
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.max_tokens);
        let index = replica - self.first;
        self.sent.insert(request.id, (index, tokens));
        self.loads[index].requests += 1;
        self.loads[index].tokens += tokens;
    }

    /// The first token of a request came from this pool.
    pub(super) fn first_token(&mut self, id: RequestId) {
        if self.router.follows_first_tokens() {
            self.router.first_token(id);
        }
    }

    /// A request left this pool, if it was there.
    pub(super) fn answered(&mut self, completion: &Completion) {
        if let Some((index, tokens)) = self.sent.remove(&completion.id) {
            self.loads[index].requests -= 1;
            self.loads[index].tokens -= tokens;
            self.router.answered(index, completion.id);
        }
    }
}
