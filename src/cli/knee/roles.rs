//! A scenario with a number of replicas of each role in place of its own, for searches that try several.

use toml::Value;

use super::Disk;
use crate::analysis::Outcome;
use crate::config::{Document, Resolved, Source, resolve};

/// How many replicas there are, which is what is looked for.
const REPLICAS: [&str; 3] = [
    "cluster.replicas",
    "cluster.prefill.replicas",
    "cluster.decode.replicas",
];

/// A number of replicas that was given, and has no effect on such a search.
pub(super) struct Given {
    /// `cluster.prefill.replicas`.
    pub(super) key: &'static str,
    /// So many.
    pub(super) replicas: i64,
    /// By whom.
    pub(super) source: Source,
}

/// All that were.
pub(super) fn given(document: &Document) -> impl Iterator<Item = Given> {
    REPLICAS.into_iter().filter_map(|key| {
        Some(Given {
            key,
            replicas: document.get(key)?.as_integer()?,
            source: document.source(key)?,
        })
    })
}

/// The scenario with so many replicas of each role.
pub(super) fn split(
    document: &Document,
    (prefill, decode): (u32, u32),
    flag: &str,
) -> anyhow::Result<Resolved> {
    let mut document = document.clone();
    document.remove("cluster.replicas");
    for (key, replicas) in [("prefill", prefill), ("decode", decode)] {
        let key = format!("cluster.{key}.replicas");
        document.set(&key, Value::Integer(replicas.into()), flag);
    }
    Ok(resolve(document, &Disk)?)
}

/// Mean share of time in which a step ran, of the pools; twice the same where all do both.
pub(super) fn busy(outcome: &Outcome, split: Option<(u32, u32)>) -> (f64, f64) {
    let result = &outcome.result;
    let span_s = result.whole.duration_s.max(f64::MIN_POSITIVE);
    let replicas = &result.by_replica;
    let mean = |from: usize, to: usize| {
        let busy: f64 = replicas[from..to]
            .iter()
            .map(|replica| replica.busy_s / span_s)
            .sum();
        let share = busy / (to - from).max(1) as f64;
        debug_assert!(share < 1.0 + 1e-9, "a replica is busy at most all the time");
        share
    };
    match split {
        Some((prefill, _)) if replicas.len() > prefill as usize => {
            (mean(0, prefill as usize), mean(prefill as usize, replicas.len()))
        }
        _ if replicas.is_empty() => (result.whole.occupancy.busy, result.whole.occupancy.busy),
        _ => (mean(0, replicas.len()), mean(0, replicas.len())),
    }
}
