//! How much of the machines a run used: of their peaks while steps ran, and over all the time.
//!
//! Of experts that several engines share each has its part in those that the tokens of all activate, as if all had as many.
//!
//! Left out: servers that are unlike, which have no peak in common.

use crate::config::{Resolved, Server};
use crate::cost::bounds::{WorkSums, work_rates};
use crate::metrics::{Summary, WorkCounters};
use crate::report::Utilisation;
use crate::sim::Pool;
use crate::units::Seconds;

/// Work done against what the device offers while steps run; `None` where no step ran, and of unlike servers.
pub(super) fn utilisation(resolved: &Resolved, summary: &Summary) -> Option<Utilisation> {
    match resolved.servers.as_slice() {
        [server] => used(
            server,
            resolved.scenario.first_pool(),
            &summary.work,
            summary.duration_s,
        ),
        _ => None,
    }
}

/// The same of the work that a pool of one server's replicas did in so many seconds.
pub(super) fn used(
    server: &Server,
    pool: &Pool,
    work: &WorkCounters,
    duration_s: f64,
) -> Option<Utilisation> {
    if work.steps == 0 || work.busy_s <= 0.0 || server.step_time.is_some() {
        return None;
    }
    let rates = work_rates(&server.device, &server.model, &server.placement);
    let (sums, busy) = (sums(work), Seconds(work.busy_s));
    let batch = (work.decodes() as f64 / work.steps as f64).max(1.0);
    let context = work.decode_kv_tokens as f64 / (work.decodes() as f64).max(1.0);
    let step = rates.bandwidth_bound_step(batch.round() as u32, context.round() as u32);
    Some(Utilisation {
        mfu: rates.flops_utilisation(&sums, busy),
        memory_bandwidth: rates.bandwidth_utilisation(&sums, busy),
        busy: (work.busy_s / (duration_s * f64::from(pool.replicas))).min(1.0),
        bandwidth_bound_tpot_s: step.0 / pool.engine.tokens_per_decode(),
    })
}

fn sums(work: &WorkCounters) -> WorkSums {
    WorkSums {
        steps: work.steps as f64,
        tokens: (work.prefill_tokens + work.decode_tokens) as f64,
        decoded_tokens: work.decode_tokens as f64,
        sampled_rows: work.sampled_rows as f64,
        decode_kv_tokens: work.decode_kv_tokens as f64,
        chunk_pairs_doubled: work.chunk_pairs_doubled as f64,
        chunk_kv_tokens: work.chunk_kv_tokens as f64,
        by_size: work.by_size,
    }
}
