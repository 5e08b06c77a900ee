//! The promises' flags.

use clap::Args;

use super::editor::{By, Editor};
use crate::config::diagnostic::Diagnostic;
use crate::config::document::{Document, Source};
use crate::config::slo::{LIMITS_IN_MS, SloMetric, parse_statistic};

/// What is promised.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Service level objectives (SLO)")]
pub struct SloFlags {
    /// Limits per request in ms, all of which a good one meets: `ttft:500 tpot:50 e2el:10000`. A scenario's limits on other
    /// metrics stay; `tpot:none` drops one.
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// Share of requests that must be good.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub attainment: Option<f64>,
    /// Limit on a percentile: `p99_ttft_ms<=500`.
    #[arg(long, value_name = "STATISTIC<=MS", num_args = 1..)]
    pub slo: Vec<String>,
}

/// Whether a limit is a number with a unit of time behind it.
fn has_unit(limit: &str) -> bool {
    let number = limit.split_once(':').map_or("", |(_, number)| number);
    let unit = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit != number && matches!(unit, "ms" | "s" | "us" | "µs")
}

/// The share of good requests that a scenario asks for goes with the last of its limits that `none` drops; a flag of this
/// command line is not dropped.
pub(in crate::config) fn without_last_limit(document: &mut Document, flags: &SloFlags) -> Option<String> {
    let is_none = |limit: &str| limit.to_lowercase().ends_with(":none");
    let mut limits = flags.goodput.iter().flat_map(|limits| limits.split_whitespace());
    let has_left = |key: &str| {
        let goodput = document.get(key).and_then(toml::Value::as_table);
        goodput.is_some_and(|goodput| !goodput.is_empty())
    };
    let classes = document
        .get("workload.classes")
        .and_then(toml::Value::as_array)
        .map_or(0, Vec::len);
    let of_classes = (0..classes).any(|index| has_left(&format!("workload.classes.{index}.goodput")));
    if flags.attainment.is_some() || !limits.any(is_none) || has_left("slo.goodput") || of_classes {
        return None;
    }
    let share = document.get("slo.attainment")?.clone();
    if matches!(document.source("slo.attainment"), Some(Source::Flag(_))) {
        return None;
    }
    document.remove("slo.attainment");
    Some(format!(
        "the scenario's attainment = {share} goes with the last of its goodput limits"
    ))
}

/// Limits that give way to a later one of the same latency, as sentences; the last counts, as vLLM has it.
pub(in crate::config) fn replaced_limits(flags: &SloFlags) -> Vec<String> {
    let limits: Vec<&str> = (flags.goodput.iter())
        .flat_map(|limits| limits.split_whitespace())
        .collect();
    let metric = |limit: &str| limit.split(':').next().and_then(SloMetric::from_name);
    let told = limits.iter().enumerate().filter_map(|(at, limit)| {
        let later = limits[at + 1..]
            .iter()
            .rfind(|later| metric(later).is_some() && metric(later) == metric(limit) && later != &limit)?;
        Some(format!(
            "--goodput {limit} gives way to {later}, which comes after it"
        ))
    });
    told.collect()
}

/// Limits that no server keeps and that would be reasonable in seconds, as sentences.
pub(in crate::config) fn meant_in_seconds(flags: &SloFlags) -> Vec<String> {
    let least_ms = |metric| match metric {
        SloMetric::Ttft => 3.0,
        SloMetric::Tpot | SloMetric::Itl => 0.5,
        SloMetric::E2el => 20.0,
    };
    let of_request = flags.goodput.iter().flat_map(|limits| limits.split_whitespace());
    let of_request = of_request.filter_map(|limit| {
        let (name, ms) = limit.split_once(':')?;
        Some(("goodput", name, ":", SloMetric::from_name(name)?, ms))
    });
    let of_percentile = flags.slo.iter().filter_map(|limit| {
        let (name, ms) = limit.split_once("<=").or_else(|| limit.split_once(':'))?;
        Some(("slo", name, "<=", parse_statistic(name)?.1, ms))
    });
    let told = of_request.chain(of_percentile).filter_map(|(flag, name, sign, metric, ms)| {
        let limit: f64 = ms.trim().parse().ok().filter(|limit| *limit > 0.0)?;
        let in_seconds = (limit * 1e9).round() / 1e6;
        (limit < least_ms(metric)).then(|| {
            format!("--{flag} {name}{sign}{ms} is {limit} ms: {LIMITS_IN_MS}, and {limit} s is {name}{sign}{in_seconds}")
        })
    });
    told.collect()
}

/// Applies the promises' flags.
pub(in crate::config) fn apply_slo(document: &mut Document, flags: &SloFlags, by: By<'_>) -> Vec<Diagnostic> {
    let mut editor = Editor::new(document, by);
    editor.set_some("slo.attainment", flags.attainment, "attainment");
    // AIPerf writes all limits in one string, vLLM one each.
    for limit in flags.goodput.iter().flat_map(|limits| limits.split_whitespace()) {
        let parsed = limit
            .split_once(':')
            .map(|(metric, ms)| (SloMetric::from_name(metric), ms.parse::<f64>()));
        match parsed {
            Some((Some(SloMetric::Itl), _)) => {
                editor.wrong(
                    "goodput",
                    format!("`{limit}`: a request has many gaps"),
                    "limit its mean with tpot, or gaps with --slo p99_itl_ms<=50",
                );
            }
            Some((Some(metric), Err(_))) if limit.to_lowercase().ends_with(":none") => {
                editor.document.remove(&format!("slo.goodput.{}", metric.name()));
            }
            Some((Some(metric), Ok(ms))) => editor.set(
                &format!("slo.goodput.{}", metric.name()),
                format!("{ms} ms"),
                "goodput",
            ),
            Some((Some(_), Err(_))) if has_unit(limit) => editor.wrong(
                "goodput",
                format!("`{limit}`: the unit is implied"),
                "write milliseconds without it, like ttft:500",
            ),
            _ => editor.wrong(
                "goodput",
                format!("`{limit}` is not a limit per request"),
                "write METRIC:MS with ttft, tpot or e2el, like ttft:500",
            ),
        }
    }
    for limit in &flags.slo {
        let parsed = limit
            .split_once("<=")
            .or_else(|| limit.split_once(':'))
            .map(|(name, ms)| (parse_statistic(name), name, ms.trim().parse::<f64>()));
        match parsed {
            Some((Some(_), name, Ok(ms))) => {
                let name = name.trim().trim_end_matches("_ms").replace('.', "_");
                editor.set(&format!("slo.percentiles.{name}"), format!("{ms} ms"), "slo");
            }
            _ => editor.wrong(
                "slo",
                format!("`{limit}` is not a limit on a percentile"),
                "write it like 'p99_ttft_ms<=500' (quote it: < is special in a shell)",
            ),
        }
    }
    editor.problems
}
