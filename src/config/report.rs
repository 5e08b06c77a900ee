//! What a result reports: percentiles, metrics, label and pairs, from `[report]` or the flags of `vllm bench serve`.
//!
//! They change no figure of a run, but they are part of what reproduces its JSON.

use toml::Value;

use super::diagnostic::{Diagnostic, Place};
use super::document::Document;
use super::judge::Judge;
use super::pasted::ResultFlags;
use super::raw::RawReport;
use super::slo::SloMetric;

/// What a result reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Percentiles, ascending, in (0, 100]; the last one is the largest.
    pub percentiles: Vec<f64>,
    /// Metrics that percentiles are reported of, in the order of reports.
    pub metrics: Vec<SloMetric>,
    /// First part of a saved result's name.
    pub label: Option<String>,
    /// The client's `backend`; `None` where no client was named.
    pub backend: Option<String>,
    /// The model as a client names it.
    pub model_id: Option<String>,
    /// Pairs kept in the JSON.
    pub metadata: Vec<(String, String)>,
}

/// Percentiles that people look at; vLLM's own default, 99 alone, holds for pasted benchmark commands.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Writes the flags that say what is reported into the scenario. `from` is put before flag names in messages.
pub fn apply_report(document: &mut Document, flags: &ResultFlags, from: &str) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut wrong = |flag: &str, message: String, help: &str| {
        let place = Place::Flag(format!("{from}{flag}"));
        problems.push(Diagnostic::new(message).at(place).help(help));
    };
    if let Some(list) = &flags.metric_percentiles {
        let flag = "--metric-percentiles";
        let mut all = Vec::new();
        for text in list.split(',') {
            match text.trim().parse::<f64>() {
                Ok(percentile) => all.push(Value::Float(percentile)),
                Err(_) => wrong(
                    flag,
                    format!("`{flag}`: `{text}` is not a number"),
                    "write percentiles with commas: 50,90,99",
                ),
            }
        }
        document.set("report.percentiles", Value::Array(all), &format!("{from}{flag}"));
    }
    if let Some(list) = &flags.percentile_metrics {
        let names = list.split(',').map(|name| Value::from(name.trim())).collect();
        let flag = format!("{from}--percentile-metrics");
        document.set("report.metrics", Value::Array(names), &flag);
    }
    if let Some(label) = &flags.label {
        document.set(
            "report.label",
            Value::from(label.as_str()),
            &format!("{from}--label"),
        );
    }
    let of_client = [
        ("report.backend", "--backend", &flags.backend),
        ("report.model_id", "--model", &flags.asked_for),
    ];
    for (key, flag, name) in of_client {
        if let Some(name) = name {
            document.set(key, Value::from(name.as_str()), &format!("{from}{flag}"));
        }
    }
    if !flags.metadata.is_empty() {
        let pairs = flags.metadata.iter().map(|pair| Value::from(pair.as_str()));
        let flag = format!("{from}--metadata");
        document.set("report.metadata", Value::Array(pairs.collect()), &flag);
    }
    problems
}

/// The defaults of `vllm bench serve`, where nothing else was said.
pub(super) fn vllm_defaults(document: &mut Document) {
    let p99 = Value::Array(vec![Value::Float(99.0)]);
    document.set_default("report.percentiles", p99, "vllm bench serve");
}

pub(super) fn resolve(judge: &mut Judge, raw: &RawReport) -> Report {
    let mut percentiles = match &raw.percentiles {
        None => PERCENTILES.to_vec(),
        Some(given) => {
            for &percentile in given {
                let lies_within = |p: f64| p > 0.0 && p <= 100.0;
                judge.number(
                    "report.percentiles",
                    percentile,
                    lies_within,
                    "must lie above 0 and be at most 100, which is the largest",
                );
            }
            given.clone()
        }
    };
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    let mut metrics = Vec::new();
    for name in raw.metrics.iter().flatten() {
        match SloMetric::from_name(name) {
            Some(metric) => metrics.push(metric),
            None => judge.wrong_help(
                "report.metrics",
                "has a metric that is not known",
                format!("`{name}` is none"),
                "write some of ttft, tpot, itl, e2el",
            ),
        }
    }
    let metrics = SloMetric::ALL
        .into_iter()
        .filter(|metric| raw.metrics.is_none() || metrics.contains(metric))
        .collect();
    let mut metadata = Vec::new();
    for pair in raw.metadata.iter().flatten() {
        match pair.split_once('=') {
            Some((key, value)) => metadata.push((key.to_string(), value.to_string())),
            None => judge.wrong_help(
                "report.metadata",
                "has no value",
                format!("`{pair}` is a key alone"),
                "write KEY=VALUE",
            ),
        }
    }
    Report {
        percentiles,
        metrics,
        label: raw.label.clone(),
        backend: raw.backend.clone(),
        model_id: raw.model_id.clone(),
        metadata,
    }
}
