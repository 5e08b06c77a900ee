//! Several pools of one run: what each did, and which of them is pressed the hardest.

use super::used::used;
use super::{balance, components, fronts, present};
use crate::analysis::RunResult;
use crate::analysis::balance::Part;
use crate::analysis::knee::{Binding, EngineLimits, Objective, Pressure, Statistic};
use crate::cluster::Asked;
use crate::config::Resolved;
use crate::cost::StepLoad;
use crate::metrics::{
    Distribution, Metric, Occupancy, PartSummary, RelaySummary, ReplicaSummary, Served, Stage, Summary,
    WorkCounters, of_pools,
};
use crate::sim::{Pool, Role};

/// What the replicas of each pool did together over the whole run, where that is known.
pub(super) fn by_pool(resolved: &Resolved, result: &RunResult) -> Vec<Option<ReplicaSummary>> {
    let sizes = resolved.scenario.pools.iter().map(|pool| pool.replicas);
    let replicas = of_pools(&result.by_replica, sizes).into_iter();
    replicas.map(|own| own.map(ReplicaSummary::together)).collect()
}

/// The pressure on the pool that is pressed the hardest: the one on which most requests of the class that is nearest to missing its
/// SLO miss it, or, where classes are not told apart, the one whose own requests come nearest to the limits or exceed them
/// furthest. A request that is served by two pools strains each by the part of its latency that it spends there.
/// Between pools with roles the links are such a part, too. Where nothing is promised, of these parts the one that is asked for
/// the largest share of what it could serve (PD-6); where that does not tell either, the one that is busy the largest part of
/// the time.
pub(super) fn pressure(resolved: &Resolved, result: &RunResult, summary: &Summary) -> Option<Pressure> {
    let objective = present::objective(resolved);
    let done = by_pool(resolved, result);
    let pools = done.iter().cloned().enumerate();
    let of_pools =
        pools.filter_map(|(index, done)| Some((index, of_pool(resolved, result, summary, index, &done?)?)));
    let Some(relays) = &result.relays else {
        let by_class = of_class(&objective, result);
        let strain = |pool: usize| match &by_class {
            Some(strains) => strains.get(pool).copied(),
            None => strain(result.by_pool.get(pool)?, &objective),
        };
        return hardest(of_pools.map(|(index, pressure)| (strain(index).unwrap_or(0.0), pressure)));
    };
    let demand = balance::demand(resolved, result);
    let asked = |part| {
        let demand = demand.as_ref()?;
        Some(balance::Taken::of(resolved, &done, result, demand).share(part, &demand.balance()))
    };
    let strain = |part: Part| {
        let of = |metric: Metric| match metric {
            Metric::Ttft => Some(&summary.ttft),
            Metric::Tpot => Some(&summary.tpot),
            Metric::Itl => Some(&summary.itl),
            Metric::E2el => Some(&summary.e2el),
            _ => None,
        };
        let promised = strain_by(&objective, of, |metric| share_of(part, metric, relays, summary));
        promised.or_else(|| asked(part)).unwrap_or(0.0)
    };
    let strained = of_pools.map(|(index, pressure)| {
        let part = match resolved.scenario.pools[index].role {
            Role::Prefill => Part::Prefill,
            Role::Decode | Role::Both => Part::Decode,
        };
        (strain(part), pressure)
    });
    // The links have no steps of their own: what else is known of them is how much of their bandwidth is used.
    let links = Pressure {
        links: asked(Part::Links),
        ..Pressure::default()
    };
    hardest(
        strained.chain(
            [(strain(Part::Links), links)]
                .into_iter()
                .filter(|_| demand.is_some()),
        ),
    )
}

/// Of what is strained so much, the part that is strained the most, or that is busier.
fn hardest(strained: impl Iterator<Item = (f64, Pressure)>) -> Option<Pressure> {
    let most = strained.max_by(|(a, one), (b, other)| a.total_cmp(b).then(one.busy.total_cmp(&other.busy)));
    most.map(|(_, pressure)| pressure)
}

/// How much each pool has to do with the class that is nearest to missing its SLO, or misses it by most: the share of the
/// class's misses that were on it, or of its requests where none missed. `None` where no class binds.
fn of_class(objective: &Objective, result: &RunResult) -> Option<Vec<f64>> {
    let class = Binding::of(result, objective)?.class?;
    let served = &result.by_class.get(class)?.by_pool;
    let count = |of: fn(&Served) -> u64| -> Option<Vec<f64>> {
        let sum: u64 = served.iter().map(of).sum();
        (sum > 0).then(|| served.iter().map(|pool| of(pool) as f64 / sum as f64).collect())
    };
    count(|pool| pool.ended - pool.good).or_else(|| count(|pool| pool.ended))
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

/// Share of a latency that requests spend for the sake of a part, on average: up to the end of the prefill with the one
/// pool, from the first byte to the last with the links, from there on with the other pool. What SGLang waits for the decode
/// server's memory before that is the latter's.
fn share_of(part: Part, metric: Metric, relays: &RelaySummary, summary: &Summary) -> f64 {
    let ttft_s = relays
        .ttft_of_clients_s(summary.ttft.mean_s())
        .max(f64::MIN_POSITIVE);
    let ttft_share = match metric {
        Metric::Ttft => 1.0,
        Metric::E2el => ttft_s / summary.e2el.mean_s().unwrap_or(ttft_s).max(ttft_s),
        _ => 0.0,
    };
    let queue_s = relays.stage_s(Stage::PrefillQueue) - relays.reservation_s;
    let at_prefill = (queue_s.max(0.0) + relays.stage_s(Stage::Prefill)) / ttft_s * ttft_share;
    let crossing = relays.stage_s(Stage::Transfer) / ttft_s * ttft_share;
    match part {
        Part::Prefill => at_prefill,
        Part::Links => crossing,
        Part::Decode => 1.0 - at_prefill - crossing,
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
    let used = used(
        &resolved.servers[index],
        pool,
        &done.work,
        result.whole.duration_s,
    )?;
    let limits = EngineLimits {
        // The largest batch is that of one replica.
        replicas: 1,
        max_num_seqs: pool.engine.max_num_seqs(),
        max_num_batched_tokens: pool.engine.prompt_tokens_per_step(),
        larger_budget_saves: larger_budget_saves(pool, &done.work, fronts::prompt_tokens(result, index)),
        kv_tokens: pool.engine.kv_tokens(),
        // Of a pool only the largest share in use is kept.
        tokens_each: 0.0,
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
    let host = components::host_share(pool, result.sampled_steps.get(index)?);
    let (front_end, front_end_at_most) = fronts::asked(
        pool,
        Asked {
            requests_per_s: done.completed as f64 / result.whole.duration_s,
            prompt_tokens: fronts::prompt_tokens(result, index),
            output_tokens_per_s: done.output_tokens as f64 / result.whole.duration_s,
            batch: fronts::decoded_at_once(&done.work),
            largest_batch: f64::from(done.running_max),
        },
    );
    Some(Pressure {
        pool: Some(index),
        // Of a pool only the mean wait is kept.
        steps_waited: 0.0,
        front_end,
        front_end_at_most,
        ..Pressure::of(&own, &limits, used.mfu, used.memory_bandwidth, host)
    })
}

/// By what share a token of a prompt takes less in a step of twice the token budget that is full of prompts of so many tokens, beside what
/// steps decode on average; 0 where the budget is as good as none, and 1 where decoding leaves nothing of it.
pub(super) fn larger_budget_saves(pool: &Pool, work: &WorkCounters, prompt_tokens: f64) -> f64 {
    /// A budget that no step fills.
    const NONE: u32 = 1 << 20;
    let budget = pool.engine.prompt_tokens_per_step();
    let decoding = mean_decode_step(work);
    let taken = match pool.engine.decodes_share_the_budget() {
        true => decoding.tokens() as u32,
        false => 0,
    };
    if budget >= NONE {
        return 0.0;
    }
    if budget <= taken {
        return 1.0;
    }
    let mut cost = (pool.cost)();
    let mut each_s = |budget: u32| {
        let tokens = budget - taken;
        let mut load = decoding.clone();
        add_prompts(&mut load, pool, tokens, 0, prompt_tokens.round() as u32);
        cost.step(&load).seconds() / f64::from(tokens)
    };
    1.0 - each_s(2 * budget) / each_s(budget).max(f64::MIN_POSITIVE)
}

/// A step that fills the token budget with prompts.
pub(super) fn full_prefill_step(pool: &Pool, computed: u32, new: u32) -> StepLoad {
    prefill_step(pool, pool.engine.prompt_tokens_per_step(), computed, new)
}

/// A step that holds as many tokens of prompts as those which held any did on average.
pub(super) fn mean_prefill_step(pool: &Pool, work: &WorkCounters, computed: u32, new: u32) -> StepLoad {
    let steps = work.steps - work.decode_only_steps;
    let mean = work.prefill_tokens as f64 / steps.max(1) as f64;
    let tokens = (mean.round() as u32).min(pool.engine.prompt_tokens_per_step());
    prefill_step(pool, tokens, computed, new)
}

/// A step of so many tokens of prompts of which `computed` are there already and `new` are not, or of a piece of one, and with the
/// beginning of one more where some room is left.
fn prefill_step(pool: &Pool, tokens: u32, computed: u32, new: u32) -> StepLoad {
    let mut load = StepLoad::default();
    add_prompts(&mut load, pool, tokens, computed, new);
    load
}

/// Adds such prompts to a step.
fn add_prompts(load: &mut StepLoad, pool: &Pool, tokens: u32, computed: u32, new: u32) {
    let budget = tokens.max(1);
    let each = new.clamp(1, budget);
    let prompts = (budget / each).clamp(1, pool.engine.max_num_seqs().max(1));
    load.sampled_rows += prompts;
    (0..prompts).for_each(|_| load.add(computed, each));
    let rest = budget - prompts * each;
    if rest > 0 && each < budget && prompts < pool.engine.max_num_seqs() {
        load.add(computed, rest);
    }
}

/// A decode step of as many sequences and of such contexts as these steps had on average, of one at least.
pub(super) fn mean_decode_step(work: &WorkCounters) -> StepLoad {
    let mean = |sum: f64, of: u64| (sum / of.max(1) as f64).round().max(1.0) as u32;
    let batch = mean(work.decodes() as f64, work.steps);
    let context = mean(work.decode_kv_tokens as f64, work.decodes());
    let drafts = (work.draft_tokens as f64 / work.decodes().max(1) as f64).round() as u32;
    if drafts > 0 {
        let mut load = StepLoad {
            sampled_rows: batch * (1 + drafts),
            ..StepLoad::default()
        };
        (0..batch).for_each(|_| load.add_verification(context.saturating_sub(1 + drafts), drafts));
        return load;
    }
    StepLoad::of_decodes(batch, context)
}
