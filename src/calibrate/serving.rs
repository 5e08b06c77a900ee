//! Rows of published serving results that may be fitted to: those whose `suggested_use` is `calibrate`.
//!
//! Only what the host's terms show in is taken: TPOT and TTFT of open loops that keep up, throughput and TPOT of those
//! that do not, ITL of single requests. Lengths are the published means, for every request the same. Traps: a tool's
//! own ITL may count empty chunks (`itl_*` is taken where there is no TPOT only); above saturation TTFT is the queue's.

use std::collections::{BTreeMap, HashMap};

use super::jitter::Tails;
use super::runs::{Figure, Run};
use crate::config::{Document, NoFiles, axes, resolve};
use crate::model::Mlp;

/// What the rows gave.
#[derive(Default)]
pub struct Serving {
    /// Runs.
    pub runs: Vec<Run>,
    /// Rows of the file.
    pub rows: u64,
    /// Rows of the engine marked `calibrate` that were left, by reason.
    pub left: BTreeMap<String, u64>,
}

/// Whether a header is that of such a table.
#[must_use]
pub fn is_serving(header: &str) -> bool {
    header.contains("suggested_use") && header.contains("rate_or_concurrency_kind")
}

/// Reads the rows of one engine.
///
/// # Errors
/// A table that is no CSV.
pub fn read(text: &str, engine: &str, input: usize) -> Result<Serving, csv::Error> {
    let mut serving = Serving::default();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let row = Row(row?);
        serving.rows += 1;
        if row.text("suggested_use") != "calibrate" || row.text("engine") != engine {
            continue;
        }
        match run(&row, input) {
            Ok(run) => serving.runs.push(run),
            Err(reason) => *serving.left.entry(reason).or_default() += 1,
        }
    }
    Ok(serving)
}

struct Row(HashMap<String, String>);

impl Row {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.text(key)
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }
}

/// Requests of a simulated open loop at most: more only cost time.
const REQUESTS_MAX: f64 = 4000.0;
/// Share of the offered rate that a run which keeps up completes.
const KEEPS_UP: f64 = 0.95;

fn run(row: &Row, input: usize) -> Result<Run, String> {
    let missing = |key: &str| format!("`{key}` is not given");
    let value = row.number("value").ok_or_else(|| missing("value"))?;
    let input_len = row.number("isl_mean").ok_or_else(|| missing("isl_mean"))?;
    let output_len = row.number("osl_mean").ok_or_else(|| missing("osl_mean"))?;
    let completed = row.number("req_throughput");
    let is_overloaded = completed.is_some_and(|completed| completed < KEEPS_UP * value);
    let (load, count) = match row.text("rate_or_concurrency_kind") {
        "request_rate_rps" => {
            let count = row
                .number("num_prompts")
                .unwrap_or(REQUESTS_MAX)
                .min(REQUESTS_MAX);
            let rate = format!("[workload.arrivals.poisson]\nrequest_rate = {value:?}");
            (rate, count)
        }
        "max_concurrency" | "concurrency" => {
            let limit =
                format!("[workload.arrivals.all_at_once]\n[workload.client]\nmax_concurrency = {value:.0}");
            (limit, 4.0 * value)
        }
        other => return Err(format!("load of the kind `{other}` is not taken")),
    };
    let scenario = format!(
        "[model]\nname = {:?}\n[workload]\nnum_prompts = {count:.0}\n{load}\n[workload.lengths.fixed]\n\
         input_len = {input_len:.0}\noutput_len = {output_len:.0}\n",
        row.text("model")
    );
    let wanted: &[(Figure, &str)] = if is_overloaded {
        &[
            (Figure::TpotMean, "tpot_mean_ms"),
            (Figure::RequestThroughput, "req_throughput"),
        ]
    } else if row.number("tpot_mean_ms").is_some() {
        &[
            (Figure::TpotMean, "tpot_mean_ms"),
            (Figure::TtftP50, "ttft_p50_ms"),
        ]
    } else {
        &[(Figure::ItlMean, "itl_mean_ms")]
    };
    let measured: Vec<(Figure, f64)> = wanted
        .iter()
        .filter_map(|(figure, key)| Some((*figure, row.number(key)?)))
        .collect();
    if measured.is_empty() {
        return Err("it has no figure that shows the host".to_owned());
    }
    let resolved = resolved(&scenario, &settings(row)?)?;
    if resolved
        .model
        .layers
        .iter()
        .any(|layer| matches!(layer.mlp, Mlp::Experts { .. }))
    {
        return Err("routed experts are known too badly for the host to show beside them".to_owned());
    }
    Ok(Run {
        family: format!("{} on {}", row.text("family"), row.text("gpu")),
        is_offline: false,
        label: format!(
            "{} on {}, {} {value}, {input_len} in, KV {}",
            row.text("family"),
            row.text("gpu"),
            row.text("rate_or_concurrency_kind"),
            if row.text("kv_cache_dtype") == "fp8" {
                "fp8"
            } else {
                "16-bit"
            },
        ),
        resolved,
        measured,
        tails: Tails::default(),
        input,
    })
}

/// Name and value of everything but the load.
fn settings(row: &Row) -> Result<Vec<(String, String)>, String> {
    let mut all = vec![
        ("gpu".to_owned(), row.text("gpu").to_owned()),
        ("engine".to_owned(), engine(row)),
    ];
    if version(row).is_some_and(|minor| minor >= ASYNCHRONOUS_SINCE) {
        // The nearest profile may be of an older version, which scheduled synchronously.
        all.push(("engine.async_scheduling".to_owned(), "true".to_owned()));
    }
    if let tp @ ("2" | "4" | "8") = row.text("tp") {
        all.push(("tensor-parallel-size".to_owned(), tp.to_owned()));
    }
    match row.text("kv_cache_dtype") {
        "" | "auto" => {}
        "bf16" => all.push(("kv-cache-dtype".to_owned(), "auto".to_owned())),
        "fp8" => all.push(("kv-cache-dtype".to_owned(), "fp8".to_owned())),
        other => return Err(format!("KV cache in `{other}` is not modelled")),
    }
    for flag in row.text("flags").split_whitespace() {
        let Some(name) = flag.strip_prefix("--") else {
            continue;
        };
        match (name.split_once('='), name.strip_prefix("no-")) {
            (Some((name, value)), _) => all.push((name.to_owned(), value.to_owned())),
            (None, Some(off)) => {
                all.push((format!("engine.{}", off.replace('-', "_")), "false".to_owned()));
            }
            // A name and its value as two words: only the KV format is written so, and has its own column.
            (None, None) => {}
        }
    }
    Ok(all)
}

fn engine(row: &Row) -> String {
    let minor = version(row).unwrap_or(11);
    format!("{}@0.{minor}", row.text("engine"))
}

/// `19` of `v0.19.1`.
fn version(row: &Row) -> Option<u32> {
    let version = row.text("version").trim_start_matches('v');
    version.strip_prefix("0.")?.split(['.', ' ']).next()?.parse().ok()
}

/// vLLM 0.14 made asynchronous scheduling its default.
const ASYNCHRONOUS_SINCE: u32 = 14;

fn resolved(scenario: &str, settings: &[(String, String)]) -> Result<crate::config::Resolved, String> {
    let mut document = Document::parse("serving", scenario).map_err(|problem| problem.message)?;
    for (name, value) in settings {
        if let Some(problem) = axes::apply(&mut document, name, value).first() {
            return Err(problem.message.clone());
        }
    }
    resolve(document, &NoFiles).map_err(|problems| {
        let first = problems.0.first().map(|problem| problem.message.clone());
        first.unwrap_or_default()
    })
}
