//! The knees of several settings: each the object of its search, after what names the setting and what it costs.

use super::knee;
use super::value::{Object, Value};
use crate::report::knees::{Found, KneeRow, Priced};

/// A setting as a line of JSON, without a newline at its end. `state` says what became of it, as the CSV does; what was not searched
/// has it as its `verdict`, too: `does_not_fit`, `refused`, `failed` or `not_run`.
#[must_use]
pub fn knee_setting(row: &KneeRow) -> String {
    object(row).line()
}

fn object(row: &KneeRow) -> Object {
    let mut object = Object::default();
    let mut cell = Object::default();
    for (axis, value) in &row.labels {
        cell.put(axis, value.as_str());
    }
    object.put("cell", Value::Object(cell));
    object.put("state", row.state());
    match &row.found {
        Found::Knee(priced) => {
            object.put("cost", Value::Object(cost(priced)));
            object.extend(knee::object(&priced.view));
        }
        Found::DoesNotFit(_) | Found::Refused { .. } | Found::Failed(_) | Found::NotRun => {
            object.put("format_version", super::FORMAT_VERSION);
            object.put("verdict", row.state());
        }
    }
    if let Found::Refused { in_short, .. } = &row.found {
        object.put("in_short", in_short.as_str());
    }
    if let Some(why) = row.why_not() {
        object.put("why", why);
    }
    object
}

/// US dollars. `usd_low` and `usd_high` are the ends of the 90 % interval of the cost that settings are ranked by
/// (`ranked_by`), chance and the model's doubt together; `null` where one is open.
fn cost(priced: &Priced) -> Object {
    let mut object = Object::default();
    object.put("gpus", priced.gpus_paid());
    object.put("usd_per_hour", priced.usd_per_hour_paid());
    object.put("output_throughput_at_knee", priced.view.output_tokens_per_s);
    object.put(
        "usd_per_million_output_tokens",
        priced.usd_per_million_output_tokens(),
    );
    object.put(
        "ranked_by",
        match priced.view.sizing {
            Some(_) => "usd_per_hour",
            None => "usd_per_million_output_tokens",
        },
    );
    let interval = priced.cost().and_then(|cost| cost.interval_90());
    object.put("usd_low", interval.map(|(low, _)| low));
    let high = interval.map(|(_, high)| high);
    object.put("usd_high", high.filter(|high| high.is_finite()));
    object
}
