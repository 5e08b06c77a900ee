//! `--disaggregated --gpus N`: every way to share N GPUs out between prefill and decode, beside all doing both.

use std::io::Write;
use std::process::ExitCode;

use toml::Value;

use super::super::outputs::{Format, Outputs};
use super::super::{Exit, files, interrupt, present};
use super::{Bracket, Disk, Terminal, find, options, precision, run_at};
use crate::analysis::Outcome;
use crate::analysis::knee::{Binding, Knee, Objective, Statistic};
use crate::config::{Document, Resolved, resolve};
use crate::metrics::Stage;
use crate::report::splits::{self, SplitRow, Splits};
use crate::workload::mean_rate;

/// More GPUs make more splits than anybody reads.
const GPUS_MAX: u32 = 64;

/// Whether to share GPUs out between prefill and decode.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Prefill and decode apart")]
pub struct SplitFlags {
    /// Try every share of --gpus between prefill and decode, and all doing both.
    #[arg(long, requires = "gpus")]
    pub disaggregated: bool,
    /// GPUs to share out.
    #[arg(long, value_name = "N", requires = "disaggregated")]
    pub gpus: Option<u32>,
}

impl SplitFlags {
    /// GPUs to share out, if asked for.
    ///
    /// # Errors
    /// Fewer than two, or more than anybody reads a line for.
    pub(super) fn check(self) -> anyhow::Result<Option<u32>> {
        match self.gpus {
            Some(gpus) if self.disaggregated && !(2..=GPUS_MAX).contains(&gpus) => {
                anyhow::bail!("--gpus {gpus} cannot be shared out: give 2 to {GPUS_MAX}")
            }
            gpus => Ok(gpus.filter(|_| self.disaggregated)),
        }
    }
}

/// Searches every split's knee and prints them.
///
/// # Errors
/// Inputs that are wrong once pools have roles, and files that cannot be written.
pub(super) fn execute(
    document: &Document,
    gpus: u32,
    bracket: Bracket,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let together = all_do_both(document, 1)?;
    let each = together.placement.tensor_parallel;
    let pair = split(document, 1, 1)?;
    let of = |pool: usize| pair.scenario.pools[pool].gpus;
    let ways: Vec<(u32, u32)> = (1..=gpus / of(0))
        .filter_map(|prefill| {
            let rest = gpus.checked_sub(prefill * of(0))?;
            (rest > 0 && rest % of(1) == 0).then_some((prefill, rest / of(1)))
        })
        .collect();
    if ways.is_empty() || !gpus.is_multiple_of(each) {
        anyhow::bail!(
            "{gpus} GPUs cannot be shared out: a replica that prefills has {}, one that decodes {}, one that does both {each}",
            of(0),
            of(1)
        );
    }
    terminal.notes(&pair.notes);
    let objective = present::objective(&pair);
    let mut rows = Vec::new();
    let asked = ways.len() + 1;
    for way in ways.into_iter().map(Some).chain([None]) {
        let resolved = match way {
            Some((prefill, decode)) => split(document, prefill, decode)?,
            None => all_do_both(document, gpus / each)?,
        };
        let tried = row(&resolved, way, &objective, bracket, terminal)?;
        // A search that was cut short says nothing of its way.
        if interrupt::is_asked() {
            break;
        }
        rows.push(tried);
    }
    let splits = Splits {
        gpus,
        replicas: gpus / each,
        promises: promised(&objective),
        missing: asked - rows.len(),
        rows,
        subject: present::subject(&together),
    };
    let text = match outputs.format {
        Format::Table => splits::text(&splits),
        Format::Csv => splits::csv(&splits),
        _ => anyhow::bail!("--disaggregated writes a table or --format csv"),
    };
    files::put(&text, outputs.file.as_deref(), out)?;
    let code = match (interrupt::is_asked(), splits.is_kept()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    };
    Ok(code.into())
}

/// The scenario with so many replicas of each role.
fn split(document: &Document, prefill: u32, decode: u32) -> anyhow::Result<Resolved> {
    let mut document = document.clone();
    document.remove("cluster.replicas");
    for (key, replicas) in [("prefill", prefill), ("decode", decode)] {
        let key = format!("cluster.{key}.replicas");
        document.set(&key, Value::Integer(replicas.into()), "--disaggregated");
    }
    Ok(resolve(document, &Disk)?)
}

/// The scenario with so many replicas that do both.
fn all_do_both(document: &Document, replicas: u32) -> anyhow::Result<Resolved> {
    let mut document = document.clone();
    for key in ["prefill", "decode", "link"] {
        document.remove(&format!("cluster.{key}"));
    }
    document.remove("engine.kv_transfer_config");
    document.set(
        "cluster.replicas",
        Value::Integer(replicas.into()),
        "--disaggregated",
    );
    Ok(resolve(document, &Disk)?)
}

/// The knee of one way, and what the pools do there.
fn row(
    resolved: &Resolved,
    split: Option<(u32, u32)>,
    objective: &Objective,
    bracket: Bracket,
    terminal: &Terminal,
) -> anyhow::Result<SplitRow> {
    let Some(own_rate) = mean_rate(&resolved.scenario.workload) else {
        anyhow::bail!("the traffic has no rate that could be raised: give --request-rate");
    };
    let precision = precision(resolved);
    let (knee, _) = find(
        resolved,
        objective,
        precision,
        &options(bracket, own_rate, &precision),
        terminal,
    );
    let there = knee
        .within_slo
        .map(|rate| run_at(resolved, rate.value, precision));
    Ok(SplitRow {
        split,
        within_slo: knee.within_slo,
        saturation: knee.saturation,
        breaks: Some(breaks(&knee)),
        busy: there.as_ref().map(|there| busy(there, split)),
        transfer_share: there
            .as_ref()
            .and_then(|there| there.result.relays.as_ref())
            .map(|relays| relays.stage_s(Stage::Transfer) / relays.ttft_s().max(f64::MIN_POSITIVE)),
    })
}

/// The promise that breaks first, or saturation before any does; nothing did where the highest rate allowed is kept.
fn breaks(knee: &Knee) -> String {
    match (knee.binding, knee.saturation) {
        (Some(binding), _) => named(&binding),
        (None, Some(_)) => "saturation".to_owned(),
        (None, None) => "nothing yet".to_owned(),
    }
}

fn named(binding: &Binding) -> String {
    let metric = binding.metric.name().to_uppercase();
    match binding.statistic {
        Statistic::Mean => format!("mean {metric}"),
        Statistic::Quantile(p) => format!("p{} {metric}", (p * 1000.0).round() / 10.0),
    }
}

/// What is promised, in words.
fn promised(objective: &Objective) -> String {
    let share = objective
        .attainment
        .map(|share| format!("{} % of requests", (share * 1000.0).round() / 10.0));
    let limits = objective
        .limits
        .iter()
        .map(|(metric, limit_s)| format!("{} ≤ {} ms", metric.name().to_uppercase(), limit_s * 1e3));
    let limits: Vec<String> = limits.collect();
    let percentiles = objective.constraints.iter().map(|limit| {
        let statistic = match limit.statistic {
            Statistic::Mean => "mean".to_owned(),
            Statistic::Quantile(p) => format!("p{}", (p * 1000.0).round() / 10.0),
        };
        format!(
            "{statistic} {} ≤ {} ms",
            limit.metric.name().to_uppercase(),
            limit.limit_s * 1e3
        )
    });
    let per_request = match (share, limits.is_empty()) {
        (Some(share), false) => Some(format!("{share} with {}", limits.join(" and "))),
        _ => None,
    };
    per_request
        .into_iter()
        .chain(percentiles)
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Mean share of time in which a step ran, of the pools; twice the same where all do both.
fn busy(outcome: &Outcome, split: Option<(u32, u32)>) -> (f64, f64) {
    let result = &outcome.result;
    let span_s = result.whole.duration_s.max(f64::MIN_POSITIVE);
    let replicas = &result.by_replica;
    let mean = |from: usize, to: usize| {
        let busy: f64 = replicas[from..to]
            .iter()
            .map(|replica| replica.busy_s / span_s)
            .sum();
        (busy / (to - from).max(1) as f64).min(1.0)
    };
    match split {
        Some((prefill, _)) if replicas.len() > prefill as usize => {
            (mean(0, prefill as usize), mean(prefill as usize, replicas.len()))
        }
        _ if replicas.is_empty() => (result.whole.occupancy.busy, result.whole.occupancy.busy),
        _ => (mean(0, replicas.len()), mean(0, replicas.len())),
    }
}
