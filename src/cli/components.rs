//! Operators by the component of a step that they belong to, and what of a run's steps is the host's.

use crate::cost::{Breakdown, StepLoad};
use crate::sim::Pool;

/// The component that an operator belongs to.
pub(super) fn component(operator: &str) -> &'static str {
    match operator {
        "decode_attention" => "decode attention",
        "prefill_attention" => "prefill attention",
        "indexer" => "indexer",
        "recurrent_decode" | "recurrent_prefill" => "recurrence",
        "host" | "host_bound_wait" => "host",
        "experts" | "router" => "experts",
        "all_reduce" | "logits_gather" => "all-reduce",
        "elementwise" | "sampling" => "small kernels",
        "drafter" => "drafting",
        "stage_link" => "stage links",
        _ => "linear layers",
    }
}

/// Share of a pool's sampled steps' time that the host adds.
pub(super) fn host_share(pool: &Pool, sampled: &[(StepLoad, f64, u64)]) -> f64 {
    let cost = (pool.cost)();
    let (mut host, mut all) = (0.0, 0.0);
    for (load, seconds, count) in sampled {
        let Breakdown { parts } = cost.breakdown(load);
        let own: f64 = parts
            .iter()
            .filter(|part| component(&part.operator) == "host")
            .map(|part| part.seconds)
            .sum();
        // Steps in a pipeline overlap: of each no more is told than what it adds to those before.
        let whole = match pool.engine.vllm() {
            Some(engine) if engine.stages > 1 => parts.iter().map(|part| part.seconds).sum(),
            _ => *seconds,
        };
        host += own * *count as f64;
        all += whole * *count as f64;
    }
    if all > 0.0 { host / all } else { 0.0 }
}
