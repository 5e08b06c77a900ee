//! Several pools of one run: what each did, and which of them is pressed the hardest.

use super::{balance, present};
use crate::analysis::RunResult;
use crate::analysis::knee::{EngineLimits, Objective, Pressure, Statistic};
use crate::config::Resolved;
use crate::cost::StepLoad;
use crate::metrics::{
    Distribution, Metric, Occupancy, PartSummary, RelaySummary, ReplicaSummary, Stage, Summary, WorkCounters,
    of_pools,
};
use crate::sim::Role;

/// What the replicas of each pool did together over the whole run, where that is known.
pub(super) fn by_pool(resolved: &Resolved, result: &RunResult) -> Vec<Option<ReplicaSummary>> {
    let sizes = resolved.scenario.pools.iter().map(|pool| pool.replicas);
    let replicas = of_pools(&result.by_replica, sizes).into_iter();
    replicas.map(|own| own.map(ReplicaSummary::together)).collect()
}

/// The pressure on the pool that is pressed the hardest: the one whose own requests come nearest to the limits or exceed
/// them furthest. A request that is served by two pools strains each by the part of its latency that it spends there.
/// Where nothing is promised, of pools with roles the one that is asked for the larger share of what it could serve (PD-6);
/// where that does not tell either, the one that is busy the largest part of the time.
pub(super) fn pressure(resolved: &Resolved, result: &RunResult, summary: &Summary) -> Option<Pressure> {
    let objective = present::objective(resolved);
    let done = by_pool(resolved, result);
    let balance = balance::demand(resolved, result).map(|demand| demand.balance());
    let per_s = balance::offered_per_s(resolved, &done, result);
    let strain = |pool: usize| match &result.relays {
        Some(relays) => {
            let role = resolved.scenario.pools[pool].role;
            let promised = strain_by(
                &objective,
                |metric| match metric {
                    Metric::Ttft => Some(&summary.ttft),
                    Metric::Tpot => Some(&summary.tpot),
                    Metric::Itl => Some(&summary.itl),
                    Metric::E2el => Some(&summary.e2el),
                    _ => None,
                },
                |metric| share_of(role, metric, relays, summary),
            );
            promised.or_else(|| balance::asked(role, balance.as_ref()?, per_s))
        }
        None => strain(result.by_pool.get(pool)?, &objective),
    };
    let pools = done.into_iter().enumerate();
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
    strain_by(objective, of, |_| 1.0)
}

/// The same, of each latency that share which `share_of` says.
fn strain_by<'a>(
    objective: &Objective,
    of: impl Fn(Metric) -> Option<&'a Distribution>,
    share_of: impl Fn(Metric) -> f64,
) -> Option<f64> {
    let share = objective.attainment.unwrap_or(0.99);
    let of_all = objective.limits.iter().map(|&(metric, limit_s)| {
        let value = of(metric)?.quantile_s(share)?;
        Some(value / limit_s * share_of(metric))
    });
    let of_some = objective.constraints.iter().map(|one| {
        let latency = of(one.metric)?;
        let value = match one.statistic {
            Statistic::Mean => latency.mean_s()?,
            Statistic::Quantile(p) => latency.quantile_s(p)?,
        };
        Some(value / one.limit_s * share_of(one.metric))
    });
    of_all.chain(of_some).flatten().reduce(f64::max)
}

/// Share of a latency that requests spend for the sake of a pool, on average: up to the end of the prefill with the one,
/// from there on with the other. What SGLang waits for the decode server's memory before that is the latter's.
fn share_of(role: Role, metric: Metric, relays: &RelaySummary, summary: &Summary) -> f64 {
    let ttft_s = relays.ttft_s().max(f64::MIN_POSITIVE);
    let queue_s = relays.stage_s(Stage::PrefillQueue) - relays.reservation_s;
    let at_prefill = (queue_s.max(0.0) + relays.stage_s(Stage::Prefill)) / ttft_s;
    let own = match metric {
        Metric::Ttft => at_prefill,
        Metric::E2el => {
            let ttft_share = ttft_s / summary.e2el.mean_s().unwrap_or(ttft_s).max(ttft_s);
            at_prefill * ttft_share
        }
        _ => 0.0,
    };
    match role {
        Role::Prefill => own,
        Role::Decode | Role::Both => 1.0 - own,
    }
}

/// The pressure on one of several pools, over the whole run.
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
            // Who waits for a pool, of those who are in it.
            waiting: done.waiting.l,
            in_system: done.inside.l,
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
