//! A knee search as one JSON object.

use super::cost::Cost;
use super::value::{Object, Value};
use crate::analysis::Estimate;
use crate::analysis::costs::Rent;
use crate::analysis::knee::{CountEnding, Crew, WhenFull};
use crate::report::trust::trust_word;
use crate::report::views::{ClassPromise, Counted, KneePoint, KneeView, Quantiles, Sizing, verdict_word};

/// Writes a knee search as a line of JSON, without a newline at its end. Rates are requests per second; `knee_of` says what its knee is a number
/// of: a `rate`, or how many `requests` or `users` a closed loop has in flight. It has the shape of a
/// [setting](super::knee_setting) among several: its `cell` is empty, and it stands beside nothing.
#[must_use]
pub fn knee(view: &KneeView) -> String {
    let state = match () {
        () if view.is_interrupted || view.is_cut_after => "interrupted",
        () if view.is_kept() => "kept",
        () => "not_kept",
    };
    let mut alone = Object::default();
    alone.put("cell", Object::default());
    alone.put("state", state);
    alone.put("standing", Value::Null);
    alone.put("alike_by", Value::Null);
    alone.put("verdict", Value::Null);
    if view.rent.is_none() {
        alone.put("cost", Value::Null);
    }
    alone.extend(object(view));
    alone.put("in_short", Value::Null);
    alone.put("why", Value::Null);
    alone.line()
}

/// What the search is of: its scenario's name, `null` where it is spelt out in flags, and its seed.
pub(super) fn scenario(name: Option<&str>, seed: u64) -> Object {
    let mut object = Object::default();
    object.put("name", name);
    object.put("seed", seed);
    object
}

/// The keys of a search that was not made, each without a value.
pub(super) fn unsearched() -> Object {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    for key in [
        "subject",
        "scenario",
        "cost",
        "knee_of",
        "knee",
        "saturation",
        "when_full",
        "answers_cut",
        "too_long",
        "of_one_traffic",
        "limited_by",
        "breaks_first",
        "hardest_pressed",
        "attainment_asked",
        "goodput",
        "slo",
        "trust",
        "model_interval",
    ] {
        object.put(key, Value::Null);
    }
    for key in ["assumptions", "ignored", "notes", "points"] {
        object.put(key, Value::List(Vec::new()));
    }
    object
}

/// The same before it is written.
pub(super) fn object(view: &KneeView) -> Object {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    object.put("subject", view.subject.clone());
    object.put("scenario", scenario(view.scenario.as_deref(), view.seed));
    if let Some(label) = &view.label {
        object.put("label", label.as_str());
    }
    for (key, value) in &view.metadata {
        object.put(key, value.as_str());
    }
    if view.is_interrupted || view.is_cut_after {
        object.put("interrupted", true);
    }
    if view.is_cut_after {
        object.put("interrupted_after_search", true);
    }
    if let Some(asked) = &view.sizing {
        object.put("sizing", Value::Object(sizing(asked)));
    }
    if let Some(rent) = &view.rent {
        object.put("cost", Value::Object(paid(view, rent).object()));
    }
    object.put("knee_of", view.of.code());
    object.put("knee", estimate(view.knee));
    object.put("saturation", estimate(view.saturation));
    // Requests per second that a full server serves, where that is surely less.
    object.put("when_full", view.when_full.map_or(Value::Null, when_full));
    // Share of the output tokens asked for that the engine's context cuts off there.
    object.put("answers_cut", view.answers_cut);
    // Share of the requests that are refused there because they are longer than the server holds.
    object.put("too_long", view.too_long);
    if let Some(sending) = view.served() {
        // How many times as long as one of them stays the requests are sent for, there or where replicas are counted.
        object.put("sent_for_stays", sending.stays());
    }
    if let Some(client) = view.client {
        object.put("client_limit", estimate(Some(client.rate)));
        object.put("client_limit_within_slo", client.is_within);
    }
    object.put("of_one_traffic", view.is_of_one_traffic);
    object.put(
        "limited_by",
        view.limited_by.clone().map_or(Value::Null, Value::Text),
    );
    // The same for programs: the promise that breaks first, and the resource that is pressed the hardest at the knee.
    object.put("breaks_first", view.breaks_first.code());
    object.put("hardest_pressed", view.hardest_pressed);
    object.put("attainment_asked", view.attainment);
    let mut limits = Object::default();
    for limit in &view.limits {
        limits.put(&format!("{}_ms", limit.metric), limit.limit_s * 1e3);
    }
    object.put("goodput", Value::Object(limits));
    if !view.classes.is_empty() {
        let class = |class: &ClassPromise| {
            let mut limits = Object::default();
            for limit in &class.limits {
                limits.put(&format!("{}_ms", limit.metric), limit.limit_s * 1e3);
            }
            let mut object = Object::default();
            object.put("name", class.name.as_str());
            object.put("goodput", Value::Object(limits));
            Value::Object(object)
        };
        object.put("classes", Value::List(view.classes.iter().map(class).collect()));
    }
    let mut promises = Object::default();
    for promise in &view.promises {
        let statistic = promise.percentile.map_or("mean".to_owned(), |p| format!("p{p}"));
        promises.put(
            &format!("{statistic}_{}_ms", promise.metric),
            promise.limit_s * 1e3,
        );
    }
    object.put("slo", Value::Object(promises));
    let mut trust = Object::default();
    for (component, how) in &view.trust {
        trust.put(component, trust_word(*how).to_owned());
    }
    object.put("trust", Value::Object(trust));
    let model = view.model.as_ref().map(super::plimsoll::figure_interval);
    object.put("model_interval", model);
    let assumptions = view.assumptions.iter().cloned().map(Value::Text).collect();
    object.put("assumptions", Value::List(assumptions));
    object.put("ignored", view.ignored.clone());
    let unknown = view.model_unknown.iter();
    let unknown = unknown.map(|why| format!("the model's interval of the knee is not known: {why}"));
    object.put(
        "notes",
        view.notes.iter().cloned().chain(unknown).collect::<Vec<_>>(),
    );
    let points = view.points.iter().map(|at| Value::Object(point(at))).collect();
    object.put("points", Value::List(points));
    object
}

/// What the answer costs: the replicas that were counted, where they were, else what was searched, at its knee.
pub(super) fn paid(view: &KneeView, rent: &Result<Rent, String>) -> Cost {
    let at_knee = view
        .knee
        .and(view.prompt_tokens_per_s.zip(view.output_tokens_per_s));
    let of_one = Cost::of(rent, at_knee);
    match &view.sizing {
        None => of_one,
        Some(sizing) => {
            let fleet = sizing.fleet.as_ref();
            Cost {
                gpus: fleet.map(|fleet| fleet.gpus as f64),
                usd_per_hour: fleet.and_then(|fleet| fleet.usd_per_hour),
                usd_per_million_output_tokens: fleet.and_then(|fleet| fleet.usd_per_million_output_tokens),
                usd_per_million_tokens: fleet.and_then(|fleet| fleet.usd_per_million_tokens),
                ..of_one
            }
        }
    }
}

fn when_full(full: WhenFull) -> Value {
    let mut told = Object::default();
    told.put("served", estimate(Some(full.served)));
    told.put("at_rate", full.rate);
    told.put("preemptions_per_request", full.preemptions);
    Value::Object(told)
}

/// What was asked, and the fleet; its keys are `null` where there is none.
fn sizing(asked: &Sizing) -> Object {
    let mut object = Object::default();
    let fleet = asked.fleet.as_ref();
    let whole = |value: Option<u64>| value.map_or(Value::Null, Value::Integer);
    object.put("for_rate", asked.demand.rate);
    if let Some(of_loop) = asked.of_loop {
        // Who send at that rate.
        let who = if of_loop.is_users {
            "for_users"
        } else {
            "for_in_flight"
        };
        object.put(who, u64::from(of_loop.number));
        object.put("think_time_s", of_loop.think_s);
    }
    if asked.spares > 0 {
        object.put("spares", asked.spares);
    }
    object.put("replicas", whole(fleet.map(|fleet| fleet.replicas)));
    object.put("replicas_low", whole(fleet.map(|fleet| fleet.replicas_95.0)));
    object.put(
        "replicas_high",
        whole(fleet.and_then(|fleet| fleet.replicas_95.1)),
    );
    let model = fleet.and_then(|fleet| fleet.replicas_model_90);
    object.put("replicas_model_low", whole(model.map(|(low, _)| low)));
    object.put("replicas_model_high", whole(model.and_then(|(_, high)| high)));
    object.put("gpu", asked.gpu.as_str());
    object.put("gpus_per_replica", u64::from(asked.demand.gpus_per_replica));
    object.put("gpus", whole(fleet.map(|fleet| fleet.gpus)));
    object.put("request_rate_each", optional(fleet.map(|fleet| fleet.rate_each)));
    object.put("load", optional(fleet.and_then(|fleet| fleet.load)));
    object.put(
        "load_one_lost",
        optional(fleet.and_then(|fleet| fleet.load_one_lost)),
    );
    object.put("usd_per_gpu_hour", optional(asked.demand.usd_per_gpu_hour));
    object.put(
        "usd_per_hour",
        optional(fleet.and_then(|fleet| fleet.usd_per_hour)),
    );
    let output = fleet.and_then(|fleet| fleet.usd_per_million_output_tokens);
    object.put("usd_per_million_output_tokens", optional(output));
    let all = fleet.and_then(|fleet| fleet.usd_per_million_tokens);
    object.put("usd_per_million_tokens", optional(all));
    counted(&mut object, asked);
    object
}

/// How they were counted, and what became of every number that was simulated.
fn counted(object: &mut Object, asked: &Sizing) {
    let (by, router, beside) = match &asked.counted {
        None => (None, None, "beside"),
        Some(Counted::ByKnee(_)) => (Some("knee"), Some("perfect round robin"), "beside_each_replica"),
        Some(Counted::BySimulation { router, .. }) => (Some("simulation"), router.as_deref(), "beside"),
    };
    let word = |word: Option<&str>| word.map_or(Value::Null, |word| Value::Text(word.to_owned()));
    object.put("counted_by", word(by));
    object.put("routing", word(router));
    if !asked.beside.is_empty() {
        object.put(beside, asked.beside.clone());
    }
    match &asked.counted {
        None => {}
        Some(Counted::ByKnee(why)) => object.put("not_simulated", why.as_str()),
        Some(Counted::BySimulation { count, .. }) => {
            let crew = |crew: &Crew| {
                let point = &crew.point;
                let mut object = Object::default();
                object.put("replicas", crew.replicas);
                object.put("verdict", verdict_word(point.verdict).to_owned());
                object.put("requests", point.requests);
                object.put("kept", point.is_within());
                object.put("attainment", estimate(point.attainment));
                let ms = |pair: Option<(f64, f64)>| optional(pair.map(|(_, p99)| p99 * 1e3));
                object.put("p99_ttft_ms", ms(point.ttft_s));
                object.put("p99_tpot_ms", ms(point.tpot_s));
                Value::Object(object)
            };
            if count.ending == CountEnding::Stopped {
                object.put("interrupted", true);
            }
            object.put("tried", Value::List(count.tried.iter().map(crew).collect()));
        }
    }
}

pub(super) fn estimate(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |Estimate { value, low, high }| {
        let mut object = Object::default();
        object.put("value", value);
        object.put("low", low);
        object.put("high", high);
        Value::Object(object)
    })
}

pub(super) fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, Value::Float)
}

fn point(point: &KneePoint) -> Object {
    let mut object = Object::default();
    if let Some(number) = point.in_flight {
        object.put("in_flight", number);
    }
    object.put("request_rate", point.request_rate);
    object.put("verdict", verdict_word(point.verdict).to_owned());
    object.put("requests", point.requests);
    object.put("attainment", optional(point.attainment));
    for (name, quantiles) in [
        ("ttft", point.ttft),
        ("tpot", point.tpot),
        ("itl", point.itl),
        ("e2el", point.e2el),
    ] {
        let ms = |of: fn(&Quantiles) -> f64| optional(quantiles.as_ref().map(|q| of(q) * 1e3));
        object.put(&format!("median_{name}_ms"), ms(|q| q.p50_s));
        object.put(&format!("p99_{name}_ms"), ms(|q| q.p99_s));
    }
    let ends = point
        .p99_ttft
        .map(|estimate| (estimate.low * 1e3, estimate.high * 1e3));
    object.put("p99_ttft_low_ms", optional(ends.map(|(low, _)| low)));
    let high = ends.map(|(_, high)| high);
    object.put("p99_ttft_high_ms", optional(high.filter(|high| high.is_finite())));
    object.put("request_throughput", estimate(point.request_throughput));
    object.put("output_throughput", optional(point.output_throughput));
    object.put("running", optional(point.running));
    object.put("waiting", optional(point.waiting));
    if let Some(mean_s) = point.client_queue_s {
        object.put("mean_client_queue_time_ms", mean_s * 1e3);
    }
    object.put("kv_usage", optional(point.kv_usage));
    object.put("growth_per_s", point.growth_per_s);
    object.put("refused", point.refused);
    object.put("given_up", point.given_up);
    object.put("failed", point.failed);
    object
}
