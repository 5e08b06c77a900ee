//! Rows of published serving results that may be fitted to: those whose `suggested_use` is `calibrate`. The others are counted,
//! as are rows with a cell that cannot be read, each with its line.
//!
//! Only what the host's terms show in is taken: TPOT and TTFT of open loops that keep up, throughput and TPOT of those
//! that do not, ITL of single requests. Lengths are the published means, for every request the same. Traps: a tool's
//! own ITL may count empty chunks (`itl_*` is taken where there is no TPOT only); above saturation TTFT is the queue's.

use std::collections::BTreeMap;

use toml::Value;

use super::jitter::Tails;
use super::plan::Said;
use super::runs::{Figure, Run};
use super::words::cache_format;
use crate::config::version::{ASYNCHRONOUS_SINCE, minor_of_zero};
use crate::config::{Document, NoFiles, axes, resolve};
use crate::model::Mlp;
use crate::results::{Load, Measured, Problem, RowOfLine, columns_of_table, rows_by_line};

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

/// A table that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {}", .0.place, .0.what)]
pub struct BrokenTable(pub Problem);

/// Whether a text is such a table, by its header.
#[must_use]
pub fn is_serving(text: &str) -> bool {
    let columns = columns_of_table(text);
    let has = |name: &str| columns.iter().any(|column| column == name);
    has("suggested_use") && has("rate_or_concurrency_kind")
}

/// Reads the rows of one engine.
///
/// # Errors
/// A table that is no CSV, or a row with more or fewer cells than the header.
pub fn read(text: &str, engine: &str, input: usize) -> Result<Serving, BrokenTable> {
    let mut serving = Serving::default();
    for RowOfLine { line, row, wrong } in rows_by_line(text).map_err(BrokenTable)? {
        serving.rows += 1;
        let cells_of = format!("line {line}");
        let left = match (row, wrong.into_iter().next()) {
            // The whole row, not one of its cells.
            (_, Some(problem)) if problem.place == cells_of => return Err(BrokenTable(problem)),
            (_, Some(problem)) => format!("{}: {}", problem.place, problem.what),
            (None, None) => unreachable!("a row that is none has a problem"),
            (Some(row), None) => match run_of(&row, engine, input) {
                Ok(run) => {
                    serving.runs.push(run);
                    continue;
                }
                Err(Left::All(reason)) => reason,
                Err(Left::Cell(reason)) => format!("{cells_of}: {reason}"),
            },
        };
        *serving.left.entry(left).or_default() += 1;
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

fn run_of(row: &Measured, engine: &str, input: usize) -> Result<Run, Left> {
    let of = row.setup.engine.as_deref().unwrap_or_default();
    if !of.eq_ignore_ascii_case(engine) {
        return Err(Left::All(format!(
            "measured under `{of}`, and {engine} is fitted"
        )));
    }
    let meant_for = row.setup.suggested_use.as_str();
    if !meant_for.eq_ignore_ascii_case("calibrate") {
        return Err(Left::All(format!(
            "the column `suggested_use` says `{meant_for}`; rows that may be fitted to say `calibrate`"
        )));
    }
    judge(row).map_err(Left::Cell)?;
    run(row, engine, input).map_err(Left::All)
}

/// What must be above 0 and is not.
fn judge(row: &Measured) -> Result<(), String> {
    let setup = &row.setup;
    let value = match setup.load {
        Load::Open { rate } => Some(rate),
        Load::Closed { clients } => Some(clients as f64),
        _ => None,
    };
    let numbers = [
        ("tp", setup.tensor_parallel.map(f64::from)),
        ("value", value),
        ("isl_mean", setup.input_tokens),
        ("osl_mean", setup.output_tokens),
        ("num_prompts", setup.num_prompts.map(|number| number as f64)),
        ("req_throughput", row.outcome.request_throughput),
        ("tpot_mean_ms", row.tpot.mean),
        ("ttft_p50_ms", row.ttft.median),
        ("itl_mean_ms", row.itl.mean),
    ];
    let is_nothing = |(_, number): &&(&str, Option<f64>)| number.is_some_and(|number| number <= 0.0);
    match numbers.iter().find(is_nothing) {
        Some((key, _)) => Err(format!("`{key}` is 0; it must be above 0")),
        None => Ok(()),
    }
}

/// Requests of a simulated open loop at most: more only cost time.
const REQUESTS_MAX: f64 = 4000.0;
/// Share of what it would complete that a run which keeps up completes.
const KEEPS_UP: f64 = 0.95;

/// Share of the time of sending that the last answer may take beside it.
const LAST_ANSWER_MOST: f64 = 0.25;

/// Requests per second that a run which keeps up completes: in one of few requests the last answer counts, too.
fn kept_up_rate(row: &Measured, rate: f64, output_len: f64) -> f64 {
    let (Load::Open { .. }, Some(requests)) = (&row.setup.load, row.setup.num_prompts) else {
        return rate;
    };
    let gap_s = row.tpot.mean.or(row.itl.mean).or(row.tpot.median);
    let sent_s = requests as f64 / rate;
    // Under overload gaps are long, too, and no excuse.
    let stay_s = (output_len * gap_s.unwrap_or(0.0)).min(LAST_ANSWER_MOST * sent_s);
    requests as f64 / (sent_s + stay_s)
}

fn run(row: &Measured, engine: &str, input: usize) -> Result<Run, String> {
    let setup = &row.setup;
    let missing = |key: &str| format!("`{key}` is not given");
    let input_len = setup.input_tokens.ok_or_else(|| missing("isl_mean"))?;
    let output_len = setup.output_tokens.ok_or_else(|| missing("osl_mean"))?;
    let (kind, value) = match setup.load {
        Load::Open { rate } => ("request_rate_rps", rate),
        Load::Closed { clients } => ("max_concurrency", clients as f64),
        _ => return Err("only loads at a rate or with a number of clients are taken".to_owned()),
    };
    let (load, count) = match setup.load {
        Load::Open { .. } => {
            let count = setup.num_prompts.map_or(REQUESTS_MAX, |number| number as f64);
            let rate = format!("[workload.arrivals.poisson]\nrequest_rate = {value:?}");
            (rate, count.min(REQUESTS_MAX))
        }
        _ => {
            let limit =
                format!("[workload.arrivals.all_at_once]\n[workload.client]\nmax_concurrency = {value:.0}");
            (limit, 4.0 * value)
        }
    };
    let scenario = format!(
        "[model]\nname = {:?}\n[workload]\nnum_prompts = {count:.0}\n{load}\n[workload.lengths.fixed]\n\
         input_len = {input_len:.0}\noutput_len = {output_len:.0}\n",
        setup.model.as_deref().unwrap_or_default()
    );
    let completed = row.outcome.request_throughput;
    let kept_up = KEEPS_UP * kept_up_rate(row, value, output_len);
    let is_overloaded = completed.is_some_and(|completed| completed < kept_up);
    let measured = figures(row, is_overloaded);
    if measured.is_empty() {
        return Err("it has no figure that shows the host".to_owned());
    }
    let resolved = resolved(&scenario, &settings(row, engine)?, flags(row, engine)?)?;
    if resolved
        .model
        .layers
        .iter()
        .any(|layer| matches!(layer.mlp, Mlp::Experts { .. }))
    {
        return Err("routed experts are known too badly for the host to show beside them".to_owned());
    }
    let family = format!("{} on {}", setup.family, setup.gpu.as_deref().unwrap_or_default());
    let cache = match setup.kv_cache_dtype.as_deref() {
        Some("fp8") => "fp8",
        _ => "16-bit",
    };
    let label = format!("{family}, {kind} {value}, {input_len} in, KV {cache}");
    Ok(Run {
        load: format!(
            "{label}, {output_len} out, {}, {}",
            resolved.model.name, resolved.placement.engine
        ),
        label,
        family,
        is_offline: false,
        resolved,
        scattered: None,
        in_seconds: None,
        measured,
        tails: Tails::default(),
        input,
    })
}

/// What shows the host: throughput where requests pile up, gaps and the first token where they do not.
fn figures(row: &Measured, is_overloaded: bool) -> Vec<(Figure, f64)> {
    // To a femtosecond, which takes off what dividing by a thousand has left: a fit goes another way for a last digit.
    let ms = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e15).round() / 1e12);
    let tpot = (Figure::TpotMean, ms(row.tpot.mean));
    let wanted = if is_overloaded {
        vec![tpot, (Figure::RequestThroughput, row.outcome.request_throughput)]
    } else if row.tpot.mean.is_some() {
        vec![tpot, (Figure::TtftP50, ms(row.ttft.median))]
    } else {
        vec![(Figure::ItlMean, ms(row.itl.mean))]
    };
    let known = wanted.into_iter();
    known
        .filter_map(|(figure, value)| Some((figure, value?)))
        .collect()
}

/// Name and value of everything but the load.
fn settings(row: &Measured, engine: &str) -> Result<Vec<(String, String)>, String> {
    let setup = &row.setup;
    let version = setup.engine_version.as_deref().and_then(minor_of_zero);
    let profile = format!("{engine}@0.{}", version.unwrap_or(11));
    let gpu = setup.gpu.clone().unwrap_or_default();
    let mut all = vec![("gpu".to_owned(), gpu), ("engine".to_owned(), profile)];
    if version.is_some_and(|minor| minor >= ASYNCHRONOUS_SINCE) {
        // The nearest profile may be of an older version, which scheduled synchronously.
        all.push(("engine.async_scheduling".to_owned(), "true".to_owned()));
    }
    if let Some(tp @ 2..) = setup.tensor_parallel {
        all.push(("tensor-parallel-size".to_owned(), tp.to_string()));
    }
    let said = setup.kv_cache_dtype.as_deref().unwrap_or("auto");
    let mut cache = |format: &str| all.push(("kv-cache-dtype".to_owned(), format.to_owned()));
    match cache_format(said) {
        (format, false) if format == "auto" => {}
        (format, false) if format == "bf16" => cache("auto"),
        (format, false) if format == "fp8" => cache("fp8"),
        (format, true) if format == "fp8" => {
            cache("fp8");
            all.push((
                "kv-cache-dtype-skip-layers".to_owned(),
                "sliding_window".to_owned(),
            ));
        }
        _ => return Err(format!("KV cache in `{said}` is not modelled")),
    }
    Ok(all)
}

/// What the row's flags say of the server, beside what has its own column.
fn flags(row: &Measured, engine: &str) -> Result<BTreeMap<String, Value>, String> {
    let name = match engine {
        "trtllm" => "tensorrt-llm",
        name => name,
    };
    let mut said = Said::of(&row.setup.flags, name)?;
    // The version is the column's.
    said.take_tag(name)?;
    let mut keys = said.keys;
    if row.setup.kv_cache_dtype.is_some() {
        keys.retain(|key, _| !key.starts_with("model.kv_cache_dtype"));
    }
    Ok(keys)
}

fn resolved(
    scenario: &str,
    settings: &[(String, String)],
    flags: BTreeMap<String, Value>,
) -> Result<crate::config::Resolved, String> {
    let mut document = Document::parse("serving", scenario).map_err(|problem| problem.message)?;
    for (name, value) in settings {
        if let Some(problem) = axes::apply(&mut document, name, value).first() {
            return Err(problem.message.clone());
        }
    }
    for (key, value) in flags {
        document.set(&key, value, "the row's flags");
    }
    resolve(document, &NoFiles).map_err(|problems| {
        let first = problems.0.first().map(|problem| problem.message.clone());
        first.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

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
            says("says ``", 1) && says("line 5: `tp`: `TP4` must be a number", 1),
            "{reasons:?}"
        );
        assert!(
            says("line 6: `value`: `four` must be", 1) && says("line 7: `tp`: 1.5 must be a whole number", 1),
            "{reasons:?}"
        );
        let other = row("1", "4", "calibrate").replacen("vllm", "sglang", 1);
        assert_eq!(
            left(&[&other])[0].0,
            "measured under `sglang`, and vllm is fitted"
        );
        assert!(read("a,b\n1\n", "vllm", 0).is_err());
    }

    /// Flags are read as those of a row that is validated, so one table is not two things to two commands.
    #[test]
    fn flags_of_a_row_are_those_of_its_servers_command() {
        let row = "vllm,0.11.0,H100-SXM-80GB,1,meta-llama/Llama-3.1-8B-Instruct,512,128,max_concurrency,4,7.0,30,a,calibrate";
        for flags in [
            "--max-model-len 8192 --max-num-seqs=64",
            "vllm serve m --max_model_len 8192 --kv-cache-dtype auto",
            "max_model_len=8192 word",
            "--max-model-len 8192 --cudagraph-capture-sizes 1 2 4",
        ] {
            let serving = read(&format!("{HEADER},flags\n{row},{flags}\n"), "vllm", 0).unwrap();
            assert_eq!(serving.left, BTreeMap::new(), "{flags}");
            let said = &serving.runs[0].resolved.provenance;
            let context = said
                .iter()
                .find(|said| said.key == "engine.max_model_len")
                .unwrap();
            assert_eq!(context.value, "8192", "{flags}");
        }
    }

    #[test]
    fn the_cache_is_in_what_the_column_says_and_without_one_in_what_the_flags_say() {
        let row = "vllm,0.11.0,H100-SXM-80GB,1,meta-llama/Llama-3.1-8B-Instruct,512,128,max_concurrency,4,7.0,30,a,calibrate";
        let cache = |header: &str, cells: &str| {
            let text = format!("{HEADER},{header}\n{row},{cells}\n");
            let serving = read(&text, "vllm", 0).unwrap();
            assert_eq!(serving.left, BTreeMap::new(), "{cells}");
            serving.runs[0].resolved.placement.kv_format.dtype
        };
        let fp8 = "--kv-cache-dtype fp8";
        assert_eq!(cache("flags", fp8), Dtype::Fp8);
        assert_eq!(cache("kv_cache_dtype,flags", &format!("bf16,{fp8}")), Dtype::Bf16);
        assert_eq!(cache("kv_cache_dtype,flags", "fp8,"), Dtype::Fp8);
        let other = "vllm,0.11.0,H100-SXM-80GB,1,Qwen/Qwen3-8B,512,128,max_concurrency,4,7.0,30,a,calibrate";
        let text =
            format!("{HEADER},flags\n{other},python -m sglang.launch_server --model-path Qwen/Qwen3-8B\n");
        let left = read(&text, "vllm", 0).unwrap().left;
        assert!(
            left.keys().any(|why| why.contains("its flags start sglang")),
            "{left:?}"
        );
    }

    /// 120 requests at 8/s take 15 s, and the last answer one more.
    #[test]
    fn a_short_open_loop_keeps_up_though_its_last_answer_takes_time() {
        let header = HEADER.replace("tpot_mean_ms", "num_prompts,req_throughput,tpot_mean_ms");
        let figures = |throughput: &str| {
            let row = format!(
                "vllm,0.25.1,H100-SXM-80GB,1,meta-llama/Llama-3.1-8B,512,128,request_rate_rps,8,120,{throughput},8.4,56,a,calibrate"
            );
            let serving = read(&format!("{header}\n{row}\n"), "vllm", 0).unwrap();
            let measured = &serving.runs[0].measured;
            measured.iter().map(|(figure, _)| *figure).collect::<Vec<_>>()
        };
        assert_eq!(figures("7.55"), [Figure::TpotMean, Figure::TtftP50]);
        assert_eq!(figures("6.9"), [Figure::TpotMean, Figure::RequestThroughput]);
    }

    /// Cells are read as those of every other table of results, so one table is not two things to two commands.
    #[test]
    fn a_table_may_be_a_spreadsheets_here_as_everywhere() {
        let header = HEADER.to_uppercase().replace(',', ";");
        let rows = "vLLM;v0.11.0;H100-SXM-80GB;n/a;meta-llama/Llama-3.1-8B-Instruct;\"1,024\";128;qps;2;7.872;–;a;Calibrate\n";
        let text = format!("{header}\n{rows}");
        assert!(is_serving(&text));
        let serving = read(&text, "vllm", 0).unwrap();
        assert_eq!(serving.left, BTreeMap::new());
        assert_eq!(serving.runs[0].measured, [(Figure::TpotMean, 7.872)]);
        assert!(
            serving.runs[0].label.contains("request_rate_rps 2, 1024 in"),
            "{}",
            serving.runs[0].label
        );
        let row = "vllm,0.11.0,H100-SXM-80GB,1,meta-llama/Llama-3.1-8B-Instruct,512,128,rate,inf,7.0,30,a,calibrate";
        assert_eq!(
            left(&[row])[0].0,
            "only loads at a rate or with a number of clients are taken"
        );
    }
}
