//! Rows of published serving results that may be fitted to: those whose `suggested_use` is `calibrate`. The others are counted,
//! as are rows with a cell that cannot be read, each with its line.
//!
//! Only what the host's terms show in is taken: TPOT and TTFT of open loops that keep up, throughput and TPOT of those
//! that do not, ITL of single requests. Lengths are the published means, for every request the same. Traps: a tool's
//! own ITL may count empty chunks (`itl_*` is taken where there is no TPOT only); above saturation TTFT is the queue's.

use std::collections::{BTreeMap, HashMap};

use super::jitter::Tails;
use super::runs::{Figure, Run};
use crate::config::{Document, NoFiles, axes, resolve};
use crate::model::Mlp;
use crate::results::csv_rows;

/// What the rows gave.
#[derive(Default)]
pub struct Serving {
    /// Runs.
    pub runs: Vec<Run>,
    /// Rows of the file.
    pub rows: u64,
    /// Rows that were left, by reason.
    pub left: BTreeMap<String, u64>,
}

/// A row that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {message}")]
pub struct BrokenRow {
    /// From 1, the header's line.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// Whether a header is that of such a table.
#[must_use]
pub fn is_serving(header: &str) -> bool {
    header.contains("suggested_use") && header.contains("rate_or_concurrency_kind")
}

/// Reads the rows of one engine.
///
/// # Errors
/// A table that is no CSV, or a row with more or fewer cells than the header.
pub fn read(text: &str, engine: &str, input: usize) -> Result<Serving, BrokenRow> {
    let mut serving = Serving::default();
    for (line, row) in csv_rows(text) {
        let row = Row(row.map_err(|message| BrokenRow { line, message })?);
        serving.rows += 1;
        match run_of(&row, engine, input) {
            Ok(run) => serving.runs.push(run),
            Err(Left::All(reason)) => *serving.left.entry(reason).or_default() += 1,
            Err(Left::Cell(reason)) => {
                *serving.left.entry(format!("line {line}: {reason}")).or_default() += 1
            }
        }
    }
    Ok(serving)
}

/// Why a row is left.
enum Left {
    /// As others may be.
    All(String),
    /// A cell of its own.
    Cell(String),
}

fn run_of(row: &Row, engine: &str, input: usize) -> Result<Run, Left> {
    let (meant_for, of) = (row.text("suggested_use"), row.text("engine"));
    if !of.eq_ignore_ascii_case(engine) {
        return Err(Left::All(format!(
            "measured under `{of}`, and {engine} is fitted"
        )));
    }
    if meant_for != "calibrate" {
        return Err(Left::All(format!(
            "the column `suggested_use` says `{meant_for}`; rows that may be fitted to say `calibrate`"
        )));
    }
    row.judge().map_err(Left::Cell)?;
    run(row, input).map_err(Left::All)
}

struct Row(HashMap<String, String>);

/// Columns of which a row may hold a number, or nothing.
const NUMBERS: [&str; 9] = [
    "tp",
    "value",
    "isl_mean",
    "osl_mean",
    "num_prompts",
    "req_throughput",
    "tpot_mean_ms",
    "ttft_p50_ms",
    "itl_mean_ms",
];

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

    /// What holds something else than its column says.
    fn judge(&self) -> Result<(), String> {
        let is_wrong = |key: &&&str| !matches!(self.text(key), "" | "-") && self.number(key).is_none();
        if let Some(key) = NUMBERS.iter().find(is_wrong) {
            return Err(format!("`{key}` is `{}`, not a number", self.text(key)));
        }
        let is_nothing = |key: &&&str| self.number(key).is_some_and(|number| number <= 0.0);
        if let Some(key) = NUMBERS.iter().find(is_nothing) {
            return Err(format!("`{key}` is {}; it must be above 0", self.text(key)));
        }
        match self.text("tp") {
            "" | "-" => Ok(()),
            tp if tp.parse().is_ok_and(|tp: u32| tp > 0) => Ok(()),
            tp => Err(format!("`tp` is `{tp}`, not a number of GPUs")),
        }
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
    if let tp @ 2.. = row.text("tp").parse().unwrap_or(1_u32) {
        all.push(("tensor-parallel-size".to_owned(), tp.to_string()));
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "engine,version,gpu,tp,model,isl_mean,osl_mean,rate_or_concurrency_kind,value,tpot_mean_ms,ttft_p50_ms,\
                          family,suggested_use";

    fn left(rows: &[&str]) -> Vec<(String, u64)> {
        let text = format!("{HEADER}\n{}\n", rows.join("\n"));
        let serving = read(&text, "vllm", 0).unwrap();
        assert_eq!(
            serving.rows,
            serving.runs.len() as u64 + serving.left.values().sum::<u64>()
        );
        serving.left.into_iter().collect()
    }

    #[test]
    fn rows_that_are_left_say_why_and_cells_where() {
        let row = |tp: &str, value: &str, meant_for: &str| {
            format!(
                "vllm,0.11.0,H100-SXM-80GB,{tp},meta-llama/Llama-3.1-8B-Instruct,512,128,max_concurrency,{value},7.0,30,a,{meant_for}"
            )
        };
        assert_eq!(
            left(&[&row("1", "4", "calibrate"), &row("4", "4", "calibrate")]),
            []
        );
        let reasons = left(&[
            &row("1", "4", "validate"),
            &row("1", "4", "validate"),
            &row("1", "4", ""),
            &row("TP4", "4", "calibrate"),
            &row("1", "four", "calibrate"),
            &row("1.5", "4", "calibrate"),
            &row("1", "-4", "calibrate"),
            &row("1", "4", "calibrate").replace(",7.0,", ",-7.0,"),
        ]);
        let says = |part: &str, count: u64| {
            let mut found = reasons.iter().filter(|(reason, _)| reason.contains(part));
            found.next().is_some_and(|(_, rows)| *rows == count)
        };
        assert!(
            says("`suggested_use` says `validate`; rows that may be fitted to", 2),
            "{reasons:?}"
        );
        assert!(
            says("says ``", 1) && says("line 5: `tp` is `TP4`, not a number", 1),
            "{reasons:?}"
        );
        assert!(
            says("line 6: `value` is `four`", 1) && says("line 7: `tp` is `1.5`", 1),
            "{reasons:?}"
        );
        let other = row("1", "4", "calibrate").replacen("vllm", "sglang", 1);
        assert_eq!(
            left(&[&other])[0].0,
            "measured under `sglang`, and vllm is fitted"
        );
        assert!(read("a,b\n1\n", "vllm", 0).is_err());
    }
}
