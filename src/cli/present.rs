//! From a valid run and its outcome to what the printers take.

use super::components::{component, host_share};
use super::used::{used, utilisation};
use super::{fronts, mix, pools, remarks, rent, theory};
use crate::analysis::costs::Rent;
use crate::analysis::knee::{Constraint, EngineLimits, Objective, Pressure, Statistic};
use crate::analysis::{Experiment, Outcome, Precision, RunResult, Scaling, heard};
use crate::cluster::Asked;
use crate::config::{Provenance, Resolved, RunLength, Server, Slo, SloMetric, Source};
use crate::cost::{Chunk, StepLoad, Trust};
use crate::metrics::{Metric, Records, SloLimits};
use crate::model::Quantization;
use crate::report::{ClassPromise, Limit, PoolMeta, Promise, RampUp, ResultMeta, ScalingMeta, Utilisation};
use crate::sim::{Counts, Pool};
use crate::workload::{Arrivals, Class, Promise as OfClass, mean_rate};

/// How a run is observed and when it may stop.
pub(super) fn experiment(resolved: &Resolved, records: Records) -> Experiment {
    let (relative, stops_when_precise) = match resolved.length {
        RunLength::Auto { precision } => (precision, true),
        RunLength::Requests(_) | RunLength::Duration(_) | RunLength::Classes => {
            (Precision::default().relative, false)
        }
    };
    Experiment {
        slo: limits(&resolved.slo),
        records,
        precision: Precision {
            relative,
            attainment: objective(resolved).attainment.filter(|_| stops_when_precise),
            ..Precision::default()
        },
        stops_when_precise,
        bad_max: None,
        sent_max: None,
        overloaded_min: 0,
        is_judged: true,
    }
}

/// Goodput limits as the recorder takes them.
pub(super) fn limits(slo: &Slo) -> SloLimits {
    let of = |metric| {
        slo.goodput
            .iter()
            .find(|(which, _)| *which == metric)
            .map(|(_, limit)| *limit)
    };
    SloLimits {
        ttft: of(SloMetric::Ttft),
        tpot: of(SloMetric::Tpot),
        e2el: of(SloMetric::E2el),
    }
}

fn measured(metric: SloMetric) -> Metric {
    match metric {
        SloMetric::Ttft => Metric::Ttft,
        SloMetric::Tpot => Metric::Tpot,
        SloMetric::Itl => Metric::Itl,
        SloMetric::E2el => Metric::E2el,
    }
}

/// What must hold for a rate to count as served.
pub(super) fn objective(resolved: &Resolved) -> Objective {
    let slo = &resolved.slo;
    let constraint = |limit: &crate::config::PercentileLimit| Constraint {
        metric: measured(limit.metric),
        statistic: limit
            .percentile
            .map_or(Statistic::Mean, |p| Statistic::Quantile(p / 100.0)),
        limit_s: limit.limit.seconds(),
    };
    Objective {
        attainment: slo.counts_good().then_some(slo.attainment),
        classes: class_limits(resolved),
        limits: slo
            .goodput
            .iter()
            .map(|(metric, limit)| (measured(*metric), limit.seconds()))
            .collect(),
        constraints: slo.percentiles.iter().map(constraint).collect(),
    }
}

/// The limits of each class of requests in seconds, its own or those of all.
fn class_limits(resolved: &Resolved) -> Vec<Vec<(Metric, f64)>> {
    let of = |class: &Class| -> Vec<(Metric, f64)> {
        let OfClass { ttft, tpot, e2el } = class.promise;
        let own = [(Metric::Ttft, ttft), (Metric::Tpot, tpot), (Metric::E2el, e2el)];
        let own: Vec<_> = own
            .into_iter()
            .filter_map(|(metric, limit)| Some((metric, limit?.seconds())))
            .collect();
        if !own.is_empty() {
            return own;
        }
        let of_all = resolved.slo.goodput.iter();
        of_all
            .map(|(metric, limit)| (measured(*metric), limit.seconds()))
            .collect()
    };
    resolved.scenario.workload.classes.iter().map(of).collect()
}

/// What is promised to each class, as the printers take it.
pub(super) fn class_promises(resolved: &Resolved) -> Vec<ClassPromise> {
    let workload = &resolved.scenario.workload;
    let classes = workload.classes.iter().zip(mix::rates(workload));
    let limits = class_limits(resolved).into_iter();
    let limit = |(metric, limit_s): (Metric, f64)| Limit {
        metric: metric.name().to_owned(),
        limit_s,
    };
    classes
        .zip(limits)
        .map(|((class, request_rate), limits)| ClassPromise {
            name: class.name.clone(),
            request_rate,
            limits: limits.into_iter().map(limit).collect(),
        })
        .collect()
}

/// Goodput limits as the printers take them.
pub(super) fn printed_limits(slo: &Slo) -> Vec<Limit> {
    let limit = |(metric, limit): &(SloMetric, crate::units::Picos)| Limit {
        metric: metric.name().to_owned(),
        limit_s: limit.seconds(),
    };
    slo.goodput.iter().map(limit).collect()
}

/// Limits on percentiles as the printers take them.
pub(super) fn promises(slo: &Slo) -> Vec<Promise> {
    let promise = |limit: &crate::config::PercentileLimit| Promise {
        metric: limit.metric.name().to_owned(),
        percentile: limit.percentile,
        limit_s: limit.limit.seconds(),
    };
    slo.percentiles.iter().map(promise).collect()
}

/// Everything that a result says about its own making.
fn meta(resolved: &Resolved, result: &RunResult) -> ResultMeta {
    let workload = &resolved.scenario.workload;
    // The load is that of those who sent: nobody else has made it.
    let heard = heard(result, workload);
    let (burstiness, ramp_up) = match workload.arrivals {
        Arrivals::Gamma { burstiness, .. } | Arrivals::Profile { burstiness, .. } => (burstiness, None),
        Arrivals::Ramp {
            start_rate,
            end_rate,
            exponential,
        } => (
            1.0,
            Some(RampUp {
                exponential,
                start_rps: start_rate,
                end_rps: end_rate,
            }),
        ),
        _ => (1.0, None),
    };
    let objective = objective(resolved);
    let kept = objective.is_kept(result);
    ResultMeta {
        date: super::clock::now(),
        backend: (resolved.report.backend.clone())
            .unwrap_or_else(|| resolved.scenario.first_pool().engine.name().to_owned()),
        asked_for: resolved
            .report
            .model_id
            .clone()
            .filter(|name| *name != resolved.model.name),
        label: resolved.report.label.clone(),
        model_id: models(resolved),
        precision: precision(resolved),
        gpu: resolved.device.id.clone(),
        gpus_per_replica: resolved.placement.gpus(),
        stages: resolved.placement.stages(),
        replicas: resolved.scenario.cluster.replicas,
        pools: pool_metas(resolved, result),
        classes: class_promises(resolved),
        attainment: resolved.slo.attainment,
        slo_kept: kept,
        slo_decided: kept.map(|_| objective.is_decided(result)),
        promises: promises(&resolved.slo),
        ended_by: None,
        router: router(resolved),
        gate: Vec::new(),
        scaling: None,
        lock_step: None,
        rent: rent::of(resolved),
        engine: resolved.scenario.first_pool().engine.profile().to_owned(),
        calibration: Some(resolved.calibration.clone()),
        num_prompts: workload.num_prompts,
        sending_s: match resolved.length {
            RunLength::Duration(sending) => Some(sending.seconds()),
            _ => None,
        },
        request_rate: mix::uneven(&heard, result)
            .or_else(|| mean_rate(&heard))
            .unwrap_or(f64::INFINITY),
        clients: mix::clients(&heard),
        turns: mix::turns(&heard),
        load: mix::load_of(&heard, result),
        burstiness,
        max_concurrency: workload.client.max_concurrency,
        ramp_up,
        metadata: resolved.report.metadata.clone(),
        percentiles: resolved.report.percentiles.clone(),
        metrics: resolved
            .report
            .metrics
            .iter()
            .map(|metric| metric.name().to_owned())
            .collect(),
        interrupted: None,
        goodput: printed_limits(&resolved.slo),
        seed: resolved.scenario.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        closed_form: theory::closed_form(resolved, result),
        trust: trust(resolved),
        model_interval: None,
        assumptions: assumptions(resolved),
        ignored: resolved.ignored.clone(),
        notes: resolved.other_notes(),
        settings: resolved.settings().into_iter().collect(),
        utilisation: utilisation(resolved, result.steady.as_ref().unwrap_or(&result.whole)),
        anatomy: None,
        waits: None,
        evicted_tokens: None,
    }
}

/// The model that is served, or all of them.
fn models(resolved: &Resolved) -> String {
    let mut models: Vec<&str> = Vec::new();
    for server in &resolved.servers {
        if !models.contains(&server.model.name.as_str()) {
            models.push(&server.model.name);
        }
    }
    models.join(" + ")
}

/// The same of a run with all that came of it: who was turned away and why, and what replicas that came and went cost.
pub(super) fn meta_of(resolved: &Resolved, outcome: &Outcome) -> ResultMeta {
    let meta = meta(resolved, &outcome.result);
    let scaling = outcome.scaling.as_ref();
    let rent = rent::of_run(resolved, outcome);
    let scaling = scaling.map(|scaling| scaled(resolved, scaling, outcome, rent.as_ref().ok()));
    let shown = outcome.result.steady.as_ref().unwrap_or(&outcome.result.whole);
    ResultMeta {
        gate: gate(&outcome.counts),
        // Of the time of those that were there.
        utilisation: meta.utilisation.map(|used| Utilisation {
            busy: match &scaling {
                Some(_) => shown.occupancy.busy,
                None => used.busy,
            },
            ..used
        }),
        scaling,
        rent,
        lock_step: outcome.lock_step.clone(),
        ended_by: remarks::ended_by(outcome),
        notes: [resolved.other_notes(), remarks::of_run(resolved, outcome)].concat(),
        ..meta
    }
}

/// Requests by what turned them away, as far as any were.
fn gate(counts: &Counts) -> Vec<(String, u64)> {
    let fates = [
        ("rate_limited", counts.rate_limited),
        ("gateway_full", counts.gate_full),
        ("gateway_timeout", counts.gate_timeout),
        ("no_replica", counts.no_replica),
        ("queue_full", counts.queue_full),
        ("prompt_too_long", counts.prompt_too_long),
        ("never_fits", counts.never_fit),
        ("sent_again", counts.sent_again),
    ];
    let told = fates.into_iter().filter(|(_, number)| *number > 0);
    told.map(|(fate, number)| (fate.to_owned(), number)).collect()
}

fn scaled(resolved: &Resolved, scaling: &Scaling, outcome: &Outcome, rent: Option<&Rent>) -> ScalingMeta {
    let pools = resolved.scenario.pools.iter().zip(&scaling.replica_s);
    let gpu_s: f64 = pools.map(|(pool, paid_s)| paid_s * f64::from(pool.gpus)).sum();
    let replica_s: f64 = scaling.replica_s.iter().sum();
    let lasted_s = outcome.result.whole.duration_s;
    ScalingMeta {
        replica_hours: replica_s / 3600.0,
        gpu_hours: gpu_s / 3600.0,
        usd: rent.map(|rent| rent.usd_per_hour() * lasted_s / 3600.0),
        started: scaling.started,
        cancelled: scaling.cancelled,
        drained: scaling.drained,
        replicas_mean: replica_s / lasted_s.max(f64::MIN_POSITIVE),
    }
}

/// The router as the scenario spells it, of several those of all groups.
pub(super) fn router(resolved: &Resolved) -> Option<String> {
    let cluster = &resolved.scenario.cluster;
    if cluster.replicas == 1 {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for group in &cluster.groups {
        let name = group.policy.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names.join(" + "))
}

/// The pools that the scenario names.
fn pool_metas(resolved: &Resolved, result: &RunResult) -> Vec<PoolMeta> {
    let pools = resolved.scenario.pools.iter().zip(&resolved.servers);
    let named = pools
        .zip(pools::by_pool(resolved, result))
        .filter(|((pool, _), _)| !pool.name.is_empty());
    let pool = named.map(|((pool, server), done)| PoolMeta {
        name: pool.name.clone(),
        replicas: pool.replicas,
        gpus_per_replica: pool.gpus,
        gpu: pool.device.clone(),
        model_id: pool.model.clone(),
        engine: pool.engine.profile().to_owned(),
        calibration: server.calibration.name.clone(),
        utilisation: done.and_then(|done| used(server, pool, &done.work, result.whole.duration_s)),
    });
    pool.collect()
}

/// Values that nobody gave, as `key = value (source)`.
pub(super) fn assumptions(resolved: &Resolved) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for assumed in resolved.assumptions() {
        let key = assumed.key.rsplit('.').next().unwrap_or(&assumed.key);
        let sentence = format!("{key} = {}{}", assumed.value, meaning(assumed));
        // What is assumed alike of several pools is said once.
        if !told.contains(&sentence) || !assumed.key.starts_with("cluster.pools.") {
            told.push(sentence);
        }
    }
    told
}

/// What a value says of the traffic, which its name does not.
fn meaning(assumed: &Provenance) -> String {
    let is_law = assumed.key.starts_with("workload.arrivals") || assumed.key.ends_with("range_ratio");
    match &assumed.source {
        Source::Assumption(what) if is_law => format!(" ({what})"),
        _ => String::new(),
    }
}

/// The parts of the step time that people know by name, each with its worst trust. Where the pools are not trusted alike,
/// each part is told of the pools that it is of, `chat: linear layers`.
pub(super) fn trust(resolved: &Resolved) -> Vec<(String, Trust)> {
    let mut kinds: Vec<(Vec<&str>, Parts)> = Vec::new();
    let pools = resolved.scenario.pools.iter().zip(&resolved.servers);
    // How long the steps of an ideal server last is no guess.
    for (pool, _) in pools.filter(|(_, server)| server.step_time.is_none()) {
        let trust = trust_of(pool);
        match kinds.iter_mut().find(|(_, known)| *known == trust) {
            Some((names, _)) => names.push(&pool.name),
            None => kinds.push((vec![&pool.name], trust)),
        }
    }
    if let [(_, trust)] = kinds.as_slice() {
        return trust.clone();
    }
    let named = |(names, trust): (Vec<&str>, Parts)| {
        let of = names.join(", ");
        trust
            .into_iter()
            .map(move |(part, trust)| (format!("{of}: {part}"), trust))
    };
    kinds.into_iter().flat_map(named).collect()
}

/// Parts of the step time by name, each with its worst trust.
type Parts = Vec<(String, Trust)>;

/// The same of one pool.
fn trust_of(pool: &Pool) -> Parts {
    let load = StepLoad {
        decode_seqs: 1,
        decode_kv_tokens: 1024,
        decode_longest: 1024,
        chunks: vec![Chunk {
            computed: 0,
            new: 512,
        }],
        sampled_rows: 2,
        ..StepLoad::default()
    };
    let mut parts: Vec<(String, Trust)> = Vec::new();
    for part in (pool.cost)().breakdown(&load).parts {
        let name = component(&part.operator);
        match parts.iter_mut().find(|(known, _)| known == name) {
            Some((_, worst)) => *worst = (*worst).max(part.trust),
            None => parts.push((name.to_owned(), part.trust)),
        }
    }
    parts
}

/// How the weights of all servers are stored, if alike.
fn precision(resolved: &Resolved) -> Option<String> {
    let stored = |server: &Server| match server.model.quantization {
        Quantization::None => server.model.dtype.name().to_owned(),
        quantization => quantization.name(),
    };
    let mut all = resolved.servers.iter().map(stored);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// How hard each resource is pressed in a run's steady state; of several pools on the one that is pressed hardest.
pub(super) fn pressure(resolved: &Resolved, result: &RunResult) -> Option<Pressure> {
    let summary = result.quotable()?;
    if resolved.servers.len() > 1 {
        return pools::pressure(resolved, result, summary);
    }
    let used = utilisation(resolved, summary)?;
    let engine = &resolved.scenario.first_pool().engine;
    let limits = EngineLimits {
        replicas: resolved.scenario.cluster.replicas,
        max_num_seqs: engine.max_num_seqs(),
        max_num_batched_tokens: engine.prompt_tokens_per_step(),
        larger_budget_saves: pools::larger_budget_saves(
            resolved.scenario.first_pool(),
            &summary.work,
            fronts::prompt_tokens(result, 0),
        ),
        kv_tokens: engine.kv_tokens(),
        // Half of an answer is there on average.
        tokens_each: match summary.completed {
            0 => 0.0,
            completed => {
                (summary.input_tokens as f64 + summary.output_tokens as f64 / 2.0) / completed as f64
            }
        },
    };
    let pool = resolved.scenario.first_pool();
    let host = host_share(pool, result.sampled_steps.first()?);
    let loads = result.tiers.as_ref().map_or(0.0, |tiers| {
        tiers.account.load_time.seconds() / result.whole.work.busy_s.max(f64::MIN_POSITIVE)
    });
    let of_replicas = result.by_replica.iter().map(|replica| replica.running_max);
    let largest_batch = of_replicas.max().unwrap_or(summary.occupancy.running_max);
    let (front_end, front_end_at_most) = fronts::asked(
        pool,
        Asked {
            requests_per_s: summary.completed as f64 / summary.duration_s,
            prompt_tokens: fronts::prompt_tokens(result, 0),
            output_tokens_per_s: fronts::pieces_per_token(summary) * summary.output_tokens as f64
                / summary.duration_s,
            batch: fronts::decoded_at_once(&summary.work),
            largest_batch: f64::from(largest_batch),
        },
    );
    Some(Pressure {
        loads,
        front_end,
        front_end_at_most,
        ..Pressure::of(summary, &limits, used.mfu, used.memory_bandwidth, host)
    })
}
