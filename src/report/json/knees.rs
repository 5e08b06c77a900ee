//! The knees of several settings: each the object of its search, after what names the setting and what it costs.

use super::cost::Cost as Paid;
use super::knee;
use super::value::{Object, Value};
use crate::analysis::costs::{Cost, Reach};
use crate::cost::uncertainty::Component;
use crate::report::Sought;
use crate::report::knees::{Found, KneeRow, Knees, Priced};

/// A setting as a line of JSON, without a newline at its end. `state` says what became of it, as the CSV does; what was not searched
/// has it as its `verdict`, too, which else is `null`: `does_not_fit`, `refused`, `failed` or `not_run`. Its other keys are those of a
/// search, `null` or empty.
#[must_use]
pub fn knee_setting(row: &KneeRow) -> String {
    object(row, None).line()
}

/// All of them, each with its `standing` beside the others: `best`, `alike` where it cannot be told from the best, `worse`, or `null`; `alike_by` says
/// whether it is by `chance` or by the `model`'s doubt.
/// Where the user stopped before all were searched each says how many were, among which alone the best was looked for.
#[must_use]
pub fn knee_settings(knees: &Knees) -> Vec<String> {
    let objects = settings(knees, |at| knees.rows[at].clone());
    objects.iter().map(Object::line).collect()
}

/// The same before they are written, each as `named` says what its cell is.
pub(super) fn settings(knees: &Knees, named: impl Fn(usize) -> KneeRow) -> Vec<Object> {
    let searched = knees.cut().map(|(searched, _)| searched);
    let words = knees.standing_words().into_iter().zip(knees.doubt_words());
    let placed = words.enumerate();
    placed
        .map(|(at, words)| object(&named(at), Some((words, searched))))
        .collect()
}

/// Where a setting stands and by what it is alike, and how many were searched where not all were.
pub(super) type Beside = ((Option<&'static str>, Option<&'static str>), Option<u64>);

/// The object of a setting.
pub(super) fn object(row: &KneeRow, beside: Option<Beside>) -> Object {
    let mut object = Object::default();
    let mut cell = Object::default();
    for (axis, value) in &row.labels {
        cell.put(axis, value.as_str());
    }
    object.put("cell", Value::Object(cell));
    object.put("state", row.state());
    let ((standing, alike_by), searched) = beside.unwrap_or_default();
    object.put("standing", standing);
    object.put("alike_by", alike_by);
    if let Some(searched) = searched {
        object.put("interrupted_after_settings", searched);
    }
    match &row.found {
        Found::Knee(priced) => {
            object.put("verdict", Value::Null);
            object.put("cost", Value::Object(cost(priced)));
            object.extend(knee::object(&priced.view));
        }
        Found::DoesNotFit(_)
        | Found::Refused { .. }
        | Found::Failed(_)
        | Found::Pruned(_)
        | Found::NotRun => {
            object.put("verdict", row.state());
            object.extend(knee::unsearched());
        }
    }
    let in_short = match &row.found {
        Found::Refused { in_short, .. } => Some(in_short.as_str()),
        _ => None,
    };
    object.put("in_short", in_short);
    object.put("why", row.why_not());
    object
}

/// What every [`cost`](super::cost) has, and how it is ranked. `usd_low` and `usd_high` are the ends of the 90 % interval of the cost that settings are ranked by
/// (`ranked_by`), chance and the model's doubt together; `null` where one is open. `chance_ln` and `model_ln` are how far its
/// logarithm reaches down and up by each, and settings with equal names in `rests_on` share that part of the model's doubt.
fn cost(priced: &Priced) -> Object {
    let paid = Paid {
        // How many there are is known where their price is not.
        gpus: priced.gpus_paid().map(|gpus| gpus as f64),
        ..knee::paid(&priced.view, &priced.rent)
    };
    let mut object = paid.object();
    object.put("usd_per_user_hour", priced.usd_per_user_hour());
    object.put("request_throughput_at_knee", priced.view.served_per_s());
    object.put("output_throughput_at_knee", priced.view.output_tokens_per_s);
    object.put(
        "ranked_by",
        match (&priced.view.sizing, priced.view.of) {
            (Some(_), _) => "usd_per_hour",
            (None, Sought::Users) => "usd_per_user_hour",
            (None, Sought::Rate | Sought::InFlight) => "usd_per_million_output_tokens",
        },
    );
    let cost = priced.cost();
    let interval = cost.as_ref().and_then(Cost::interval_90);
    object.put("usd_low", interval.map(|(low, _)| low));
    let high = interval.map(|(_, high)| high);
    object.put("usd_high", high.filter(|high| high.is_finite()));
    let Some(cost) = cost else {
        return object;
    };
    object.put("chance_ln", reach(cost.chance));
    object.put("model_ln", cost.model.map(reach));
    let mut rests_on = Object::default();
    for (component, name) in &cost.rests_on {
        rests_on.put(component.name(), name.as_str());
    }
    object.put("rests_on", rests_on);
    object
}

/// Down and up; `null` where an end is open.
fn reach((down, up): Reach) -> Vec<Option<f64>> {
    [down, up].map(|end| end.is_finite().then_some(end)).to_vec()
}

/// The cost of a setting's object, as it was written; `None` where none is known.
#[must_use]
pub fn cost_of(setting: &serde_json::Value) -> Option<Cost> {
    let cost = &setting["cost"];
    let reach = |of: &serde_json::Value| {
        let end = |at: usize| of[at].as_f64().unwrap_or(f64::INFINITY);
        of.is_array().then(|| (end(0), end(1)))
    };
    let parts = setting["model_interval"]["effect_ln_by_component"].as_object();
    let parts = parts.map(|parts| of_components(|name| parts.get(name)?.as_f64()));
    Some(Cost {
        usd: cost[cost["ranked_by"].as_str()?].as_f64()?,
        chance: reach(&cost["chance_ln"])?,
        model: reach(&cost["model_ln"]),
        parts,
        rests_on: of_components(|name| Some(cost["rests_on"][name].as_str()?.to_owned())),
    })
}

/// What is known by the names of components.
fn of_components<T>(known: impl Fn(&str) -> Option<T>) -> Vec<(Component, T)> {
    let all = Component::ALL.into_iter();
    all.filter_map(|part| Some((part, known(part.name())?))).collect()
}
