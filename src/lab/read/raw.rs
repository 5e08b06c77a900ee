//! The form of a lab's file.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use crate::lab::Best;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLab {
    pub(super) number: Spanned<u32>,
    pub(super) name: Spanned<String>,
    pub(super) title: Spanned<String>,
    pub(super) question: Spanned<String>,
    pub(super) about: Spanned<String>,
    pub(super) reflect: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) vary: BTreeMap<String, Spanned<Vec<Value>>>,
    #[serde(default)]
    pub(super) experiments: Vec<RawExperiment>,
    #[serde(default)]
    pub(super) values: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) questions: Vec<RawQuestion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExperiment {
    pub(super) name: Spanned<String>,
    pub(super) what: Spanned<String>,
    #[serde(default)]
    pub(super) before: bool,
    pub(super) command: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuestion {
    pub(super) name: Spanned<String>,
    pub(super) ask: Spanned<String>,
    pub(super) because: Spanned<String>,
    pub(super) unit: Option<String>,
    pub(super) truth: Option<Spanned<String>>,
    pub(super) within: Option<Spanned<f64>>,
    pub(super) within_points: Option<Spanned<f64>>,
    pub(super) rule: Option<Spanned<String>>,
    pub(super) by_hand: Option<Spanned<String>>,
    pub(super) choices: Option<Spanned<Vec<String>>>,
    pub(super) scores: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    pub(super) best: Option<Spanned<Best>>,
}
