//! Several pools of one run: what each did, and which of them is pressed the hardest.

use super::present;
use crate::analysis::RunResult;
use crate::analysis::knee::{EngineLimits, Objective, Pressure, Statistic};
use crate::config::Resolved;
use crate::cost::StepLoad;
use crate::metrics::{
    Distribution, Metric, Occupancy, PartSummary, ReplicaSummary, Summary, WorkCounters, of_pools,
};

/// What the replicas of each pool did together over the whole run, where that is known.
pub(super) fn by_pool(resolved: &Resolved, result: &RunResult) -> Vec<Option<ReplicaSummary>> {
    let sizes = resolved.scenario.pools.iter().map(|pool| pool.replicas);
    let replicas = of_pools(&result.by_replica, sizes).into_iter();
    replicas.map(|own| own.map(ReplicaSummary::together)).collect()
}

/// The pressure on the pool that is pressed the hardest: the one whose own requests come nearest to the limits or exceed
/// them furthest, and where nothing tells (no limits, or a request that is served by two pools) the one that is busy the
/// largest part of the time.
pub(super) fn pressure(resolved: &Resolved, result: &RunResult, summary: &Summary) -> Option<Pressure> {
    let objective = present::objective(resolved);
    let strain = |pool: usize| match result.relays {
        Some(_) => None,
        None => strain(result.by_pool.get(pool)?, &objective),
    };
    let pools = by_pool(resolved, result).into_iter().enumerate();
    let of_pools = pools.filter_map(|(index, done)| {
        let pressure = of_pool(resolved, result, summary, index, &done?)?;
        Some((strain(index).unwrap_or(0.0), pressure))
    });
    let hardest =
        of_pools.max_by(|(a, one), (b, other)| a.total_cmp(b).then(one.busy.total_cmp(&other.busy)));
    hardest.map(|(_, pressure)| pressure)
}

/// The largest latency over its limit of those that are promised; `None` where no promise can be held against a pool.
fn strain(part: &PartSummary, objective: &Objective) -> Option<f64> {
    let of = |metric: Metric| -> Option<&Distribution> {
        match metric {
            Metric::Ttft => Some(&part.ttft),
            Metric::Tpot => Some(&part.tpot),
            Metric::E2el => Some(&part.e2el),
            _ => None,
        }
    };
    let share = objective.attainment.unwrap_or(0.99);
    let of_all = objective
        .limits
        .iter()
        .map(|(metric, limit_s)| Some(of(*metric)?.quantile_s(share)? / limit_s));
    let of_some = objective.constraints.iter().map(|one| {
        let latency = of(one.metric)?;
        let value = match one.statistic {
            Statistic::Mean => latency.mean_s()?,
            Statistic::Quantile(p) => latency.quantile_s(p)?,
        };
        Some(value / one.limit_s)
    });
    of_all.chain(of_some).flatten().reduce(f64::max)
}

/// The pressure on one of several pools, over the whole run. Who waits is known of all together only.
fn of_pool(
    resolved: &Resolved,
    result: &RunResult,
    summary: &Summary,
    index: usize,
    done: &ReplicaSummary,
) -> Option<Pressure> {
    let pool = &resolved.scenario.pools[index];
    let used = present::used(&resolved.servers[index], &done.work)?;
    let limits = EngineLimits {
        // The largest batch is that of one replica.
        replicas: 1,
        max_num_seqs: pool.engine.max_num_seqs(),
        max_num_batched_tokens: pool.engine.prompt_tokens_per_step(),
    };
    let span_s = result.whole.duration_s * f64::from(pool.replicas);
    let own = Summary {
        occupancy: Occupancy {
            kv_usage_max: done.kv_usage_max,
            running_max: done.running_max,
            busy: (done.busy_s / span_s.max(f64::MIN_POSITIVE)).min(1.0),
            ..summary.occupancy.clone()
        },
        work: done.work.clone(),
        preemptions: done.preemptions,
        completed: done.completed,
        ..summary.clone()
    };
    let host = present::host_share(pool, result.sampled_steps.get(index)?);
    Some(Pressure {
        pool: Some(index),
        ..Pressure::of(&own, &limits, used.mfu, used.memory_bandwidth, host)
    })
}

/// A decode step of as many sequences and of such contexts as these steps had on average, of one at least.
pub(super) fn mean_decode_step(work: &WorkCounters) -> StepLoad {
    let mean = |sum: f64, of: u64| (sum / of.max(1) as f64).round().max(1.0) as u32;
    let batch = mean(work.decode_tokens as f64, work.steps);
    let context = mean(work.decode_kv_tokens as f64, work.decode_tokens);
    StepLoad {
        decode_seqs: batch,
        decode_kv_tokens: u64::from(batch) * u64::from(context),
        decode_longest: context,
        chunks: Vec::new(),
        sampled_rows: batch,
    }
}
