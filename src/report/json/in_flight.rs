//! The most that a closed loop may have in flight as one JSON object.

use super::cost::Cost;
use super::knee::{estimate, optional, scenario};
use super::value::{Object, Value};
use crate::analysis::knee::{InFlightEnding, Point};
use crate::report::in_flight::InFlightView;
use crate::report::knee_limit::First;
use crate::report::text_knee::asked;
use crate::report::trust::trust_word;
use crate::report::views::verdict_word;

/// Writes the search as a line of JSON, without a newline at its end: `in_flight` has the answer and every number that was tried.
#[must_use]
pub fn in_flight(view: &InFlightView) -> String {
    let knee = &view.knee;
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    object.put("subject", knee.subject.clone());
    object.put("scenario", scenario(knee.scenario.as_deref(), knee.seed));
    if knee.is_interrupted {
        object.put("interrupted", true);
    }
    object.put("in_flight", Value::Object(answer(view)));
    let paid = knee.rent.as_ref().map(|rent| Cost::of(rent, view.tokens_per_s()));
    object.put("cost", Value::Object(paid.unwrap_or_default().object()));
    object.put("promises", asked(knee));
    let mut trust = Object::default();
    for (component, how) in &knee.trust {
        trust.put(component, trust_word(*how).to_owned());
    }
    object.put("trust", Value::Object(trust));
    object.put(
        "model_interval",
        knee.model.as_ref().map(super::plimsoll::figure_interval),
    );
    object.put("assumptions", knee.assumptions.clone());
    object.put("ignored", knee.ignored.clone());
    let unknown = knee.model_unknown.iter();
    let unknown = unknown.map(|why| format!("the model's interval is not known: {why}"));
    let notes = knee.notes.iter().cloned().chain(unknown);
    object.put("notes", notes.collect::<Vec<_>>());
    object.line()
}

fn answer(view: &InFlightView) -> Object {
    let best = view.best();
    let mut object = Object::default();
    object.put("of", view.knee.of.code());
    object.put("within_slo", best.map(|(number, _)| *number));
    let (low, high) = match view.found.ending {
        InFlightEnding::Found { surely, at_most, .. } => (surely, at_most),
        InFlightEnding::None => (Some(0), Some(0)),
        InFlightEnding::Unbounded(number) | InFlightEnding::Most(number) => (Some(number), None),
        InFlightEnding::Untold(_) | InFlightEnding::Stopped => (None, None),
    };
    object.put("low", low);
    object.put("high", high);
    let is_unbounded = matches!(view.found.ending, InFlightEnding::Unbounded(_));
    object.put("is_unbounded", is_unbounded);
    let point = best.map(|(_, point)| point);
    object.put(
        "request_throughput",
        point.and_then(|point| point.throughput).map(|rate| rate.value),
    );
    object.put(
        "output_throughput",
        point.and_then(|point| point.output_tokens_per_s),
    );
    object.put(
        "limited_by",
        view.knee.limited_by.clone().map_or(Value::Null, Value::Text),
    );
    let breaks = view.found.first_beyond().and_then(|(_, point)| point.binding);
    let breaks = breaks.map(|binding| First::Promise(binding.metric, binding.statistic).code());
    object.put("breaks_first", breaks.map_or(Value::Null, Value::Text));
    object.put(
        "tried",
        view.found.tried.iter().map(tried).collect::<Vec<Value>>(),
    );
    object
}

fn tried((number, point): &(u64, Point)) -> Value {
    let mut object = Object::default();
    object.put("in_flight", *number);
    object.put("verdict", verdict_word(point.verdict).to_owned());
    object.put("requests", point.requests);
    object.put("kept", point.is_within());
    object.put("attainment", estimate(point.attainment));
    object.put("request_throughput", estimate(point.throughput));
    object.put("output_throughput", point.output_tokens_per_s);
    let latencies = [
        ("ttft", point.ttft_s),
        ("tpot", point.tpot_s),
        ("e2el", point.e2el_s),
    ];
    for (name, pair) in latencies {
        object.put(&format!("p50_{name}_ms"), optional(pair.map(|pair| pair.0 * 1e3)));
        object.put(&format!("p99_{name}_ms"), optional(pair.map(|pair| pair.1 * 1e3)));
    }
    object.put("running", point.running);
    object.put("waiting", point.waiting);
    object.put("kv_usage", point.kv_usage);
    Value::Object(object)
}
