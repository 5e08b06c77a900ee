//! How much of a run is filmed, and whose replicas.

use crate::config::Resolved;
use crate::report::film::{FilmReplica, Filming};
use crate::sim::Role;

/// How much a film holds at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Reel {
    /// Requests.
    pub(in crate::cli) requests: usize,
    /// Rows of steps.
    pub(in crate::cli) rows: usize,
}

/// What a browser draws without a halt.
pub(in crate::cli) const LONG: Reel = Reel {
    requests: 1000,
    rows: 30_000,
};

/// Nothing seen yet, of the replicas of all pools.
pub(super) fn of(resolved: &Resolved, reel: Reel) -> Filming {
    let scenario = &resolved.scenario;
    let has_pools = scenario.pools.len() > 1;
    let replicas = scenario.pools.iter().flat_map(|pool| {
        (0..pool.replicas).map(move |index| FilmReplica {
            name: match scenario.lock_step {
                _ if has_pools => format!("{} {index}", pool.name),
                Some(_) => format!("rank {index}"),
                None => format!("replica {index}"),
            },
            role: match pool.role {
                Role::Both => "serves",
                Role::Prefill => "prefills",
                Role::Decode => "decodes",
            },
            kv_blocks: pool.engine.usable_blocks(),
            block_size: pool.engine.block_size(),
            max_num_seqs: pool.engine.max_num_seqs(),
            max_num_batched_tokens: pool.engine.prompt_tokens_per_step(),
        })
    });
    Filming::new(replicas.collect(), reel.requests, reel.rows)
}
