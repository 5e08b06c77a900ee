//! The replicas of one role, alike or not, and who of them gets a request.

use crate::cluster::dispatch::{Dispatch, tokens_of};
use crate::cluster::router::{Load, Policy};
use crate::engine::Engine;
use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::Request;

/// Replicas that are consecutive in the cluster.
pub(super) struct Pool {
    first: usize,
    dispatch: Dispatch,
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
            dispatch: Dispatch::new(
                policy.router(block_sizes, draws.0, draws.1),
                vec![load; block_sizes.len()],
            ),
        }
    }

    /// A replica takes new requests, or does not.
    pub(super) fn set_up(&mut self, replica: usize, is_up: bool) {
        self.dispatch.loads[replica - self.first].is_up = is_up;
    }

    /// Who gets `request`; `None` if nobody is up.
    pub(super) fn route(&mut self, engines: &[Engine], now: Picos, request: &Request) -> Option<usize> {
        let first = self.first;
        let engine = |index: usize| &engines[first + index];
        let chosen = self.dispatch.route(request, now, &engine)?;
        Some(first + chosen)
    }

    /// A request was sent to a replica of this pool.
    pub(super) fn sent(&mut self, replica: usize, request: &Request) {
        self.dispatch
            .sent(replica - self.first, request.id, tokens_of(request));
    }

    /// Whether its router counts nobody any more.
    pub(super) fn is_settled(&self) -> bool {
        self.dispatch.is_settled()
    }

    /// The first token of a request came from this pool.
    pub(super) fn first_token(&mut self, id: RequestId) {
        self.dispatch.first_tokens([id]);
    }

    /// A request left this pool, or was refused where it was to go, if it was routed here.
    pub(super) fn left(&mut self, id: RequestId) {
        self.dispatch.left(id);
    }
}
