//! Rows of published serving results that may be fitted to: those whose `suggested_use` is `calibrate`.
//!
//! Only what the host's terms show in is taken: TPOT and TTFT of open loops that keep up, throughput and TPOT of those
//! that do not, ITL of single requests. Lengths are the published means, for every request the same. Traps: a tool's
//! own ITL may count empty chunks (`itl_*` is taken where there is no TPOT only); above saturation TTFT is the queue's.

use std::collections::{BTreeMap, HashMap};

use super::runs::{Figure, Run};
use crate::config::{Document, NoFiles, axes, resolve};

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
const REQUESTS_MAX: f64 = 1500.0;
/// Share of the offered rate that a run which keeps up completes.
const KEEPS_UP: f64 = 0.95;

fn run(row: &Row, input: usize) -> Result<Run, String> {
    let missing = |key: &str| format!("`{key}` is not given");
    let value = row.number("value").ok_or_else(|| missing("value"))?;
    let input_len = row.number("isl_mean").ok_or_else(|| missing("isl_mean"))?;
    let output_len = row.number("osl_mean").ok_or_else(|| missing("osl_mean"))?;
    let mut settings = settings(row)?;
    let mut set = |key: &str, value: String| settings.push((key.to_owned(), value));
    set("input-len", format!("{input_len:.0}"));
    set("output-len", format!("{output_len:.0}"));
    let completed = row.number("req_throughput");
    let is_overloaded = completed.is_some_and(|completed| completed < KEEPS_UP * value);
    match row.text("rate_or_concurrency_kind") {
        "request_rate_rps" => {
            let count = row
                .number("num_prompts")
                .unwrap_or(REQUESTS_MAX)
                .min(REQUESTS_MAX);
            set("request-rate", value.to_string());
            set("num-prompts", format!("{count:.0}"));
        }
        "max_concurrency" | "concurrency" => {
            set("request-rate", "inf".to_owned());
            set("max-concurrency", format!("{value:.0}"));
            set("num-prompts", format!("{:.0}", 4.0 * value));
        }
        other => return Err(format!("load of the kind `{other}` is not taken")),
    }
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
    Ok(Run {
        label: format!(
            "{}, {} on {}, {} {value}, {input_len} in",
            row.text("family"),
            row.text("model"),
            row.text("gpu"),
            row.text("rate_or_concurrency_kind")
        ),
        resolved: resolved(&settings)?,
        measured,
        input,
    })
}

/// Name and value of everything but the load.
fn settings(row: &Row) -> Result<Vec<(String, String)>, String> {
    let mut all = vec![
        ("model.name".to_owned(), format!("\"{}\"", row.text("model"))),
        ("gpu".to_owned(), row.text("gpu").to_owned()),
        ("engine".to_owned(), engine(row)),
    ];
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
    let version = row.text("version").trim_start_matches('v');
    let version = version.split(' ').next().unwrap_or_default();
    match version.rsplit_once('.') {
        Some((minor, _)) if minor.contains('.') => format!("{}@{minor}", row.text("engine")),
        _ => format!("{}@0.11", row.text("engine")),
    }
}

fn resolved(settings: &[(String, String)]) -> Result<crate::config::Resolved, String> {
    let mut document = Document::parse("serving", "").map_err(|problem| problem.message)?;
    for (name, value) in settings {
        if let Some(problem) = axes::apply(&mut document, name, value.trim_matches('"')).first() {
            return Err(problem.message.clone());
        }
    }
    resolve(document, &NoFiles).map_err(|problems| {
        let first = problems.0.first().map(|problem| problem.message.clone());
        first.unwrap_or_default()
    })
}
