//! The knees of several settings: each the object of its search, after what names the setting and what it costs.

use super::knee;
use super::value::{Object, Value};
use crate::report::knees::{Found, KneeRow, Priced};

/// A line of JSON for each setting, without newlines. What was not searched has `verdict` `does_not_fit` or `not_run`.
#[must_use]
pub fn knees(rows: &[KneeRow]) -> Vec<String> {
    rows.iter().map(|row| object(row).line()).collect()
}

fn object(row: &KneeRow) -> Object {
    let mut object = Object::default();
    let mut cell = Object::default();
    for (axis, value) in &row.labels {
        cell.put(axis, value.as_str());
    }
    object.put("cell", Value::Object(cell));
    match &row.found {
        Found::Knee(priced) => {
            object.put("cost", Value::Object(cost(priced)));
            object.extend(knee::object(&priced.view));
        }
        Found::DoesNotFit(why) => {
            object.put("verdict", "does_not_fit");
            object.put("why", why.as_str());
        }
        Found::NotRun => object.put("verdict", "not_run"),
    }
    object
}

/// US dollars; `factors` are those between which the cost that settings are ranked by lies, by chance and by the model's doubt.
fn cost(priced: &Priced) -> Object {
    let mut object = Object::default();
    object.put("gpus", priced.gpus_paid());
    object.put("usd_per_hour", priced.usd_per_hour_paid());
    object.put("output_throughput_at_knee", priced.output_tokens_per_s);
    object.put(
        "usd_per_million_output_tokens",
        priced.usd_per_million_output_tokens(),
    );
    let (low, high) = priced.cost_range();
    object.put("factors", priced.cost().map(|_| vec![low, high]));
    object
}
