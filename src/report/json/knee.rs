//! A knee search as one JSON object.

use super::value::{Object, Value};
use crate::analysis::Estimate;
use crate::report::views::{KneePoint, KneeView, Quantiles, trust_word, verdict_word};

/// Writes a knee search as a line of JSON, without a newline at its end. Rates are requests per second.
#[must_use]
pub fn knee(view: &KneeView) -> String {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("subject", view.subject.clone());
    if view.is_interrupted {
        object.put("interrupted", true);
    }
    object.put("knee", estimate(view.knee));
    object.put("saturation", estimate(view.saturation));
    object.put(
        "limited_by",
        view.limited_by.clone().map_or(Value::Null, Value::Text),
    );
    object.put("attainment", view.attainment);
    let mut limits = Object::default();
    for limit in &view.limits {
        limits.put(&format!("{}_ms", limit.metric), limit.limit_s * 1e3);
    }
    object.put("goodput", Value::Object(limits));
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
    if let Some(model) = &view.model {
        object.put("model_interval", super::plimsoll::figure_interval(model));
    }
    let assumptions = view.assumptions.iter().cloned().map(Value::Text).collect();
    object.put("assumptions", Value::List(assumptions));
    let points = view.points.iter().map(|at| Value::Object(point(at))).collect();
    object.put("points", Value::List(points));
    object.line()
}

fn estimate(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |Estimate { value, low, high }| {
        let mut object = Object::default();
        object.put("value", value);
        object.put("low", low);
        object.put("high", high);
        Value::Object(object)
    })
}

fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, Value::Float)
}

fn point(point: &KneePoint) -> Object {
    let mut object = Object::default();
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
    object.put("request_throughput", estimate(point.request_throughput));
    object.put("output_throughput", optional(point.output_throughput));
    object.put("running", optional(point.running));
    object.put("waiting", optional(point.waiting));
    object.put("kv_usage", optional(point.kv_usage));
    object.put("growth_per_s", point.growth_per_s);
    object.put("refused", point.refused);
    object.put("given_up", point.given_up);
    object
}
