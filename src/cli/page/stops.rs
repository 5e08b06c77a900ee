//! What can be turned on a page that is kept: flags with so many values and no others. All else is read only.

use serde::Serialize;

use super::controls::{Control, Group, Kind, find, helps};

/// A control with so many values and no others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::cli) struct Stops {
    /// Without its dashes.
    pub(in crate::cli) flag: String,
    name: String,
    unit: &'static str,
    help: String,
    /// It says how strong the load is: a knee looks for that.
    load: bool,
    pub(in crate::cli) values: Vec<String>,
    /// Where it stands at first.
    pub(in crate::cli) value: String,
}

impl Stops {
    /// Under the name that the flag has among the controls, and standing at the value that is the scenario's own, or at the first.
    pub(super) fn new(groups: &[Group], flag: &str, values: &[String], own: Option<&String>) -> Stops {
        let known = find(groups, flag);
        let are_numbers = values.iter().all(|value| value.parse::<f64>().is_ok());
        Stops {
            flag: flag.to_owned(),
            name: known.map_or_else(|| flag.to_owned(), |control| control.name.to_owned()),
            // `10s` says its unit itself.
            unit: known.filter(|_| are_numbers).map_or("", |control| control.unit),
            help: known.map_or_else(
                || helps().get(flag).cloned().unwrap_or_default(),
                |control| control.help.clone(),
            ),
            load: known.is_some_and(|control| control.load),
            values: values.to_vec(),
            value: own.or(values.first()).cloned().unwrap_or_default(),
        }
    }
}

/// What a control stands at, as its flag would say it.
pub(super) fn value_of(control: &Control) -> Option<String> {
    match &control.kind {
        Kind::Number { value, .. } => value.map(|value| value.to_string()),
        Kind::Choice { value, .. } => value.clone(),
        Kind::Switch { value } => Some(value.to_string()),
    }
}

/// The controls as settings that are only read: what a list has beside the choice is left out, and what is an axis.
pub(super) fn settings(mut groups: Vec<Group>, axes: &[Stops]) -> Vec<Group> {
    let is_axis = |flag: &str| axes.iter().any(|axis| axis.flag == flag);
    for group in &mut groups {
        // Parts of one flag are controls of their own.
        let whole = |flag: &'static str| flag.split(':').next().unwrap_or(flag);
        group
            .controls
            .retain(|control| !is_axis(control.flag) && !is_axis(whole(control.flag)));
        for control in &mut group.controls {
            if let Kind::Choice { choices, value } = &mut control.kind {
                choices.retain(|choice| Some(&choice.value) == value.as_ref());
            }
        }
    }
    groups.retain(|group| !group.controls.is_empty());
    groups
}
