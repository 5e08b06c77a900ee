//! What the client's keys cannot say: the verdict, the steady state with intervals, audits, trust and assumptions.

use super::super::standing::run_word;
use super::super::trust::trust_word;
use super::super::turns::Turns;
use super::super::views::{PoolMeta, Promise, ResultMeta, ScalingMeta, Utilisation};
use super::cost::Cost;
use super::value::{Object, Value};
use super::{FORMAT_VERSION, distribution_ms};
use super::{anatomy, parts, tiers, waits};
use crate::analysis::closed_form::ClosedForm;
use crate::analysis::costs::tokens_per_s;
use crate::analysis::{Estimate, RunResult};
use crate::calibrate::interval::{FigureInterval, ModelInterval};
use crate::cluster::LockStepAccount;
use crate::metrics::{
    Distribution, LinkSummary, LittleCheck, Occupancy, RelaySummary, ReplicaSummary, Stage, Summary,
    WaySummary,
};

/// Percentiles of the steady state that are always written.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

pub(super) fn object(result: &RunResult, meta: &ResultMeta) -> Object {
    let mut object = Object::default();
    object.put("format_version", FORMAT_VERSION);
    object.put("version", meta.version.as_str());
    if let Some(interrupted) = meta.interrupted {
        object.put("interrupted", true);
        object.put("interrupted_after_requests", interrupted.ended);
    }
    object.put("verdict", run_word(result));
    if let Some(ended_by) = meta.ended_by {
        object.put("ended_by", ended_by);
    }
    object.put("reasons", result.reasons.clone());
    object.put("violations", result.violations.clone());
    object.put("slo_kept", meta.slo_kept);
    if let Some(decided) = meta.slo_decided {
        object.put("slo_decided", decided);
        // The keys of vLLM's client beside this object are of the whole run.
        let judged = if result.steady.is_some() {
            "steady"
        } else {
            "whole"
        };
        object.put("slo_of", judged);
    }
    object.put("growth_per_s", result.growth_per_s);
    object.put(
        "offered_per_s",
        Some(result.offered_per_s).filter(|per_s| per_s.is_finite()),
    );
    object.put(
        "steady_window_s",
        result.steady_window_s.map(|(from, to)| vec![from, to]),
    );
    object.put(
        "steady",
        result
            .steady
            .as_ref()
            .map(|steady| stretch(steady, &meta.percentiles)),
    );
    object.put("intervals_95", intervals(&result.intervals));
    object.put("whole", stretch(&result.whole, &meta.percentiles));
    let cut = result.whole.cut_share();
    if cut > 0.0 {
        object.put("answers_cut", cut);
    }
    object.put("little", little(result));
    if let Some(told) = &meta.closed_form {
        object.put("closed_form", closed_form(told));
    }
    if !result.by_replica.is_empty() {
        object.put(
            "replicas",
            result.by_replica.iter().map(replica).collect::<Vec<Value>>(),
        );
    }
    if meta.engine == "static" {
        object.put("batches", batches(&result.whole));
    }
    if let Some(told) = &result.tiers {
        object.put("kv_tiers", tiers::object(told, &PERCENTILES));
    }
    if !result.by_class.is_empty() {
        object.put("classes", parts::classes(result, meta));
    }
    if !meta.pools.is_empty() {
        object.put("pools", parts::pools(result, meta));
    }
    if !meta.gate.is_empty() {
        let reasons = meta.gate.iter();
        let reasons = reasons.map(|(reason, number)| (reason.as_str(), (*number).into()));
        object.put("requests_by_fate", named(reasons));
    }
    if let Some(scaling) = &meta.scaling {
        object.put("scaling", scaled(scaling));
    }
    object.put(
        "cost",
        Value::Object(Cost::of(&meta.rent, tokens_per_s(result)).object()),
    );
    if let Some(account) = &meta.lock_step {
        object.put("lock_step", lock_step(account));
    }
    if let Some(relays) = &result.relays {
        object.put("disaggregation", disaggregation(relays, &result.by_replica));
    }
    object.put("evicted_tokens", meta.evicted_tokens);
    if let Some(anatomies) = &meta.anatomy {
        object.put("anatomy", anatomy::object(anatomies));
    }
    if let Some(report) = &meta.waits {
        object.put("waits", waits::object(report));
    }
    object.put("utilisation", utilisation(meta.utilisation.as_ref()));
    object.put(
        "trust",
        named(
            meta.trust
                .iter()
                .map(|(name, trust)| (name.as_str(), trust_word(*trust).into())),
        ),
    );
    if let Some(model) = &meta.model_interval {
        object.put("model_interval", model_interval(model));
    }
    object.put("assumptions", meta.assumptions.clone());
    object.put("ignored", meta.ignored.clone());
    object.put("notes", meta.notes.clone());
    object.put(
        "goodput_s",
        named(
            meta.goodput
                .iter()
                .map(|limit| (limit.metric.as_str(), limit.limit_s.into())),
        ),
    );
    if !meta.promises.is_empty() {
        let name = |promise: &Promise| match promise.percentile {
            Some(percentile) => format!("p{percentile}_{}", promise.metric),
            None => format!("mean_{}", promise.metric),
        };
        let limits: Vec<(String, f64)> = (meta.promises.iter())
            .map(|promise| (name(promise), promise.limit_s))
            .collect();
        let limits = limits
            .iter()
            .map(|(name, limit_s)| (name.as_str(), (*limit_s).into()));
        object.put("percentile_limits_s", named(limits));
    }
    object.put("scenario", scenario(meta));
    let settings = meta.settings.iter();
    object.put(
        "settings",
        named(settings.map(|(key, value)| (key.as_str(), value.as_str().into()))),
    );
    object
}

/// What the books say of this queue.
fn closed_form(told: &ClosedForm) -> Object {
    let mut object = Object::default();
    object.put("queue", told.queue.as_str());
    object.put("utilisation", told.utilisation);
    object.put("mean_service_ms", told.service_s * 1e3);
    object.put("mean_queue_time_ms", told.wait_s.map(|wait_s| wait_s * 1e3));
    object.put("mean_e2el_ms", told.response_s * 1e3);
    object.put("request_throughput", told.per_s);
    object
}

/// Ranks that step together.
fn lock_step(account: &LockStepAccount) -> Object {
    let mut object = Object::default();
    object.put("ranks", account.ranks);
    object.put("steps", account.steps);
    object.put("step_s", account.stepping.seconds());
    object.put("dummy_batches", account.dummies);
    object.put("dummy_share", account.idle_share());
    object.put("waited_share", account.waited_share());
    object
}

/// Replicas that came and went.
fn scaled(scaling: &ScalingMeta) -> Object {
    let mut object = Object::default();
    object.put("replica_hours", scaling.replica_hours);
    object.put("gpu_hours", scaling.gpu_hours);
    object.put("usd", scaling.usd);
    object.put("replicas_mean", scaling.replicas_mean);
    object.put("started", scaling.started);
    object.put("cancelled", scaling.cancelled);
    object.put("drained", scaling.drained);
    object
}

fn named<'a>(entries: impl Iterator<Item = (&'a str, Value)>) -> Object {
    let mut object = Object::default();
    for (name, value) in entries {
        object.put(name, value);
    }
    object
}

/// Factors that each figure lies within with 90 % confidence, by the parameters' uncertainty alone; its σ, and of what it is made:
/// what a component that is one σ slower does to the figure's logarithm. Positive: the figure grows, as latencies do.
fn model_interval(model: &ModelInterval) -> Object {
    named(
        model
            .figures
            .iter()
            .map(|one| (one.name, figure_interval(one).into())),
    )
}

/// One figure of it.
pub(super) fn figure_interval(figure: &FigureInterval) -> Object {
    let (low, high) = figure.factors_90();
    let mut object = Object::default();
    object.put("factors_90", vec![low, high]);
    object.put("sigma_ln", figure.sigma_ln);
    let parts = figure.parts.iter();
    object.put(
        "effect_ln_by_component",
        named(parts.map(|(component, part)| (component.name(), (*part).into()))),
    );
    object
}

/// What closed batches compute for nobody (ST-5), over the whole run.
fn batches(whole: &Summary) -> Object {
    let mut object = Object::default();
    object.put("useful_token_efficiency", whole.useful_rows());
    object.put("prompt_padding_waste", whole.prompt_padding());
    object
}

/// What one replica did over the whole run.
fn replica(replica: &ReplicaSummary) -> Value {
    let mut object = Object::default();
    for (key, number) in [
        ("admitted", replica.admitted),
        ("completed", replica.completed),
        ("lost", replica.lost),
        ("output_tokens", replica.output_tokens),
        ("preemptions", replica.preemptions),
        ("cache_queries_tokens", replica.cache_queries_tokens),
        ("cache_hit_tokens", replica.cache_hit_tokens),
    ] {
        object.put(key, number);
    }
    object.put("busy_s", replica.busy_s);
    places(&mut object, replica);
    object.into()
}

/// Little's law for whoever is inside, waits and runs, and for whose KV is on its way here.
pub(super) fn places(object: &mut Object, replica: &ReplicaSummary) {
    object.put("inside", check(&replica.inside));
    object.put("waiting", check(&replica.waiting));
    object.put("running", check(&replica.running));
    object.put("crossing", check(&replica.crossing));
}

/// What happened between prefill and decode.
fn disaggregation(relays: &RelaySummary, replicas: &[ReplicaSummary]) -> Value {
    let mut object = Object::default();
    object.put("requests", relays.requests);
    object.put("bytes", relays.bytes);
    object.put("messages", relays.messages);
    let [mean, median, p99] = relays.message_s;
    object.put("mean_message_s", mean);
    object.put("median_message_s", median);
    object.put("p99_message_s", p99);
    object.put("mean_held_blocks", relays.held_blocks);
    object.put("mean_reservation_s", relays.reservation_s);
    let mut stages = Object::default();
    for stage in Stage::ALL {
        stages.put(stage.name(), relays.stage_s(stage));
    }
    object.put("ttft_stages_s", Value::from(stages));
    for (role, prefills) in [("prefill", true), ("decode", false)] {
        let mut pool = Object::default();
        places(&mut pool, &relays.of_role(prefills, replicas));
        object.put(role, Value::from(pool));
    }
    let way = |way: &WaySummary| {
        let mut object = Object::default();
        object.put("bytes", way.bytes);
        object.put("utilisation", way.utilisation);
        object.put("busy", way.busy);
        object.put("flowing", check(&way.flowing));
        object.put("in_flight", check(&way.in_flight));
        Value::from(object)
    };
    let link = |link: &LinkSummary| {
        let mut object = Object::default();
        object.put("replica", u64::from(link.replica.0));
        object.put("role", if link.prefills { "prefill" } else { "decode" });
        object.put("sent", way(&link.sent));
        object.put("received", way(&link.received));
        Value::from(object)
    };
    object.put("links", relays.links.iter().map(link).collect::<Vec<Value>>());
    object.into()
}

/// What was simulated.
fn scenario(meta: &ResultMeta) -> Object {
    let mut object = Object::default();
    if agree(meta, |pool| &pool.gpu) {
        if meta.asked_for.is_some() {
            object.put("model", meta.model_id.as_str());
        }
        object.put("gpu", meta.gpu.as_str());
    }
    if let Some(precision) = &meta.precision {
        object.put("precision", precision.as_str());
    }
    if agree(meta, |pool| &pool.gpus_per_replica) {
        object.put("gpus_per_replica", meta.gpus_per_replica);
        if meta.stages > 1 {
            object.put("pipeline_parallel_size", meta.stages);
        }
    }
    object.put("gpus", gpus(meta));
    object.put("replicas", meta.replicas);
    if meta.clients > 1 {
        object.put("clients", meta.clients);
    }
    match meta.turns {
        Some(Turns::Users { users, think_time_s }) => {
            object.put("users", users);
            object.put("think_time_s", think_time_s);
        }
        Some(Turns::Sessions { turns, think_time_s }) => {
            object.put("turns_per_session", turns);
            object.put("think_time_s", think_time_s);
        }
        None => {}
    }
    if let Some(router) = &meta.router {
        object.put("router", router.as_str());
    }
    if !meta.pools.is_empty() {
        object.put("pools", meta.pools.len() as u64);
    }
    if agree(meta, |pool| &pool.engine) {
        object.put("engine", meta.engine.as_str());
    }
    if agree(meta, |pool| &pool.calibration) {
        object.put("calibration", meta.calibration.clone());
    }
    object.put("seed", meta.seed);
    object
}

/// Whether one answer holds for all pools; where it does not, each gives its own (`pools`).
fn agree<'a, T: PartialEq + 'a>(meta: &'a ResultMeta, of: impl Fn(&'a PoolMeta) -> &'a T) -> bool {
    let mut answers = meta.pools.iter().map(of);
    let first = answers.next();
    answers.all(|answer| Some(answer) == first)
}

/// GPUs of all replicas.
fn gpus(meta: &ResultMeta) -> u32 {
    match meta.pools.as_slice() {
        [] => meta.replicas * meta.gpus_per_replica,
        pools => pools
            .iter()
            .map(|pool| pool.replicas * pool.gpus_per_replica)
            .sum(),
    }
}

/// The figures of one stretch of simulated time.
fn stretch(summary: &Summary, chosen: &[f64]) -> Object {
    let mut object = Object::default();
    let per_second = |number: u64| {
        if summary.duration_s > 0.0 {
            number as f64 / summary.duration_s
        } else {
            0.0
        }
    };
    object.put("duration_s", summary.duration_s);
    for (key, number) in [
        ("sent", summary.sent),
        ("completed", summary.completed),
        ("rejected", summary.rejected),
        ("timed_out", summary.timed_out),
        ("failed", summary.failed),
        ("inside", summary.inside),
        ("input_tokens", summary.input_tokens),
        ("output_tokens", summary.output_tokens),
        ("preemptions", summary.preemptions),
        ("recomputed_tokens", summary.work.recomputed_tokens),
        ("steps", summary.work.steps),
        ("cache_queries_tokens", summary.cache_queries_tokens),
        ("cache_hit_tokens", summary.cache_hit_tokens),
    ] {
        object.put(key, number);
    }
    object.put("request_throughput", per_second(summary.completed));
    object.put("request_goodput", summary.good.map(per_second));
    object.put("input_throughput", per_second(summary.input_tokens));
    object.put("output_throughput", per_second(summary.output_tokens));
    let mut percentiles = PERCENTILES.to_vec();
    percentiles.extend(
        chosen
            .iter()
            .filter(|percentile| !PERCENTILES.contains(percentile)),
    );
    percentiles.sort_by(f64::total_cmp);
    for (name, distribution) in [
        ("ttft", &summary.ttft),
        ("tpot", &summary.tpot),
        ("itl", &summary.itl),
        ("e2el", &summary.e2el),
        ("queue_time", &summary.queue_time),
        ("client_queue_time", &summary.client_queue_time),
    ] {
        // Answers that leave whole have no gaps, which is not the same as gaps of 0 ms.
        let is_without = matches!(name, "tpot" | "itl") && distribution.max_s() == Some(0.0);
        let none = Distribution::default();
        let shown = if is_without { &none } else { distribution };
        distribution_ms(&mut object, name, shown, &percentiles, None);
    }
    object.put("occupancy", occupancy(&summary.occupancy));
    object
}

fn occupancy(state: &Occupancy) -> Object {
    let mut object = Object::default();
    object.put("in_system", state.in_system);
    object.put("running", state.running);
    object.put("waiting", state.waiting);
    object.put("handing_on", state.handing_on());
    object.put("kv_usage", state.kv_usage);
    object.put("busy", state.busy);
    object.put("running_max", state.running_max);
    object.put("waiting_max", state.waiting_max);
    object.put("kv_usage_max", state.kv_usage_max);
    object
}

/// Latencies in milliseconds under the names of the figures they belong to, everything else in its own unit.
fn intervals(estimates: &[(String, Estimate)]) -> Object {
    const LATENCIES: [&str; 6] = ["ttft", "tpot", "itl", "e2el", "queue_time", "client_queue_time"];
    let mut object = Object::default();
    for (name, estimate) in estimates {
        let is_percentile = name
            .split_once('_')
            .is_some_and(|(_, metric)| LATENCIES.contains(&metric));
        let (key, scale) = match (LATENCIES.contains(&name.as_str()), is_percentile) {
            (true, _) => (format!("mean_{name}_ms"), 1e3),
            (false, true) => (format!("{name}_ms"), 1e3),
            (false, false) => (name.clone(), 1.0),
        };
        object.put(&key, vec![estimate.low * scale, estimate.high * scale]);
    }
    object
}

fn little(result: &RunResult) -> Object {
    let mut object = Object::default();
    object.put("system", check(&result.little.system));
    object.put("waiting", check(&result.little.waiting));
    object.put("running", check(&result.little.running));
    if let Some(front_ends) = &result.little.front_ends {
        object.put("front_ends", check(front_ends));
    }
    object
}

pub(super) fn check(check: &LittleCheck) -> Object {
    let mut object = Object::default();
    object.put("l", check.l);
    object.put("lambda_per_s", check.lambda);
    object.put("w_s", check.w);
    object
}

pub(super) fn utilisation(used: Option<&Utilisation>) -> Option<Object> {
    used.map(|used| {
        let mut object = Object::default();
        object.put("mfu", used.mfu);
        object.put("memory_bandwidth", used.memory_bandwidth);
        object.put("busy", used.busy);
        object.put("wall_clock_mfu", used.wall_clock_mfu());
        object.put("wall_clock_memory_bandwidth", used.wall_clock_memory_bandwidth());
        object.put("bandwidth_bound_tpot_ms", used.bandwidth_bound_tpot_s * 1e3);
        object
    })
}
