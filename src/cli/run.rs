//! `plimsoll run`: one scenario, simulated once.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use super::Exit;
use super::disk::Disk;
use super::progress::Progress;
use super::terminal::Terminal;
use super::{files, present, why};
use crate::analysis::{Outcome, RunResult, Verdict, simulate};
use crate::calibrate::interval::model_interval;
use crate::config::flags::ScenarioFlags;
use crate::config::pasted::ResultFlags;
use crate::config::{
    Assembled, Diagnostics, Metric, QUICKSTART, Resolved, RunLength, assemble, resolve, resolved_toml,
};
use crate::cost::bounds::work_rates;
use crate::metrics::Records;
use crate::model::Quantization;
use crate::report::chart::{self, Picture, RooflineView};
use crate::report::json::Arrays;
use crate::report::{self, ResultMeta, Style};
use crate::sim::Counts;

/// What to run and what to write.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 10 --input-len 1024 --output-len 128
  plimsoll run matrix-e --gpu h200 --why
  plimsoll run Qwen/Qwen3-8B --gpu l40s --trace conversation_trace.jsonl --goodput ttft:500 tpot:50
  plimsoll run Qwen/Qwen3-8B --gpu l40s --users 200 --think-time 30s --input-len 800 --output-len 200
  plimsoll run --serve-cmd \"vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1\" \\
      --bench-cmd \"vllm bench serve --dataset-name random --request-rate 20 --num-prompts 2000\" --gpu h100 --save-result")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// What to write, and where.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    #[command(flatten)]
    pub(crate) results: ResultFlags,
    /// Form of the result.
    #[arg(long, value_name = "FORM")]
    pub format: Option<Format>,
    /// Write the result to a file instead of the screen.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Draw the charts, SVG and PNG, into a folder.
    #[arg(long, value_name = "DIR")]
    pub charts: Option<String>,
    /// Explain: where the time goes, what bounds it, what to change.
    #[arg(long)]
    pub why: bool,
    /// Print the scenario with every assumed value written out, and simulate nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One object, in vLLM's keys.
    Json,
    /// One object a line.
    Jsonl,
    /// For spreadsheets.
    Csv,
    /// For documents.
    Md,
}

/// What to write, valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs {
    /// Form of the result.
    pub format: Format,
    /// Where it goes; `None` is the screen.
    pub file: Option<String>,
    /// Folder for charts.
    pub charts: Option<String>,
    /// Explain it.
    pub why: bool,
    /// Percentiles to report, ascending, in (0, 100).
    pub percentiles: Vec<f64>,
    /// Metrics to report percentiles of.
    pub metrics: Vec<Metric>,
    /// Save vLLM's JSON.
    pub save_result: bool,
    /// With the lists of every request.
    pub save_detailed: bool,
    /// Folder of the saved file.
    pub result_dir: Option<String>,
    /// Its name.
    pub result_filename: Option<String>,
    /// Pairs kept in it.
    pub metadata: Vec<(String, String)>,
    /// First part of its name.
    pub label: Option<String>,
}

/// Percentiles that people look at; vLLM's own default, 99 alone, holds for pasted benchmark commands.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

impl OutputFlags {
    /// Checks the flags; those of a pasted benchmark command stand in for what was not given.
    pub fn resolve(&self, pasted: &ResultFlags, is_pasted: bool) -> anyhow::Result<Outputs> {
        let own = &self.results;
        let either = |own: &Option<String>, pasted: &Option<String>| own.clone().or_else(|| pasted.clone());
        let defaults: &[f64] = if is_pasted { &[99.0] } else { &PERCENTILES };
        let percentiles = match either(&own.metric_percentiles, &pasted.metric_percentiles) {
            None => defaults.to_vec(),
            Some(list) => percentiles(&list)?,
        };
        let metrics = match either(&own.percentile_metrics, &pasted.percentile_metrics) {
            None if is_pasted => vec![Metric::Ttft, Metric::Tpot, Metric::Itl],
            None => Metric::ALL.to_vec(),
            Some(list) => metrics(&list)?,
        };
        let metadata = if own.metadata.is_empty() {
            &pasted.metadata
        } else {
            &own.metadata
        };
        let metadata = metadata
            .iter()
            .map(|pair| key_value(pair))
            .collect::<anyhow::Result<_>>()?;
        let label = either(&own.label, &pasted.label);
        let result_filename = either(&own.result_filename, &pasted.result_filename);
        for (flag, part) in [("--label", &label), ("--result-filename", &result_filename)] {
            file_name_part(flag, part.as_deref().unwrap_or("x"))?;
        }
        Ok(Outputs {
            format: self.format.unwrap_or_default(),
            file: self.output.clone(),
            charts: self.charts.clone(),
            why: self.why,
            percentiles,
            metrics,
            // Asking for details is asking for the file.
            save_result: own.save_result || own.save_detailed || pasted.save_result,
            save_detailed: own.save_detailed || pasted.save_detailed,
            result_dir: either(&own.result_dir, &pasted.result_dir),
            result_filename,
            metadata,
            label,
        })
    }
}

/// Refuses what would leave the folder of results, or make a name that file systems do not take.
fn file_name_part(flag: &str, text: &str) -> anyhow::Result<()> {
    const LONGEST: usize = 150;
    if text.contains(['/', '\\', '\0']) || matches!(text, "" | "." | "..") {
        anyhow::bail!("{flag} is part of a file's name, without a path: --result-dir names the folder");
    }
    anyhow::ensure!(text.len() <= LONGEST, "{flag} is longer than {LONGEST} bytes");
    Ok(())
}

fn percentiles(list: &str) -> anyhow::Result<Vec<f64>> {
    let number = |text: &str| text.trim().parse().ok().filter(|p: &f64| *p > 0.0 && *p < 100.0);
    let read = |text: &str| {
        number(text).with_context(|| format!("--metric-percentiles: `{text}` does not lie between 0 and 100"))
    };
    let mut all: Vec<f64> = list.split(',').map(read).collect::<anyhow::Result<_>>()?;
    all.sort_by(f64::total_cmp);
    all.dedup();
    Ok(all)
}

fn metrics(list: &str) -> anyhow::Result<Vec<Metric>> {
    let read = |name: &str| {
        Metric::from_name(name)
            .with_context(|| format!("--percentile-metrics: `{name}` is none of ttft, tpot, itl, e2el"))
    };
    list.split(',').map(read).collect()
}

fn key_value(pair: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = pair
        .split_once('=')
        .with_context(|| format!("--metadata: write `{pair}` as KEY=VALUE"))?;
    Ok((key.to_string(), value.to_string()))
}

/// Layers the input; without any it is the quickstart scenario where that is `or_quickstart`.
pub(super) fn read(flags: &ScenarioFlags, or_quickstart: bool) -> Result<Assembled, Diagnostics> {
    let names_nothing = flags.target.is_none()
        && flags.scenario.is_none()
        && flags.model.is_none()
        && flags.serve_cmd.is_none();
    if names_nothing && or_quickstart {
        let scenario = Some(QUICKSTART.to_string());
        return assemble(
            &ScenarioFlags {
                scenario,
                ..flags.clone()
            },
            &Disk,
        );
    }
    assemble(flags, &Disk)
}

/// Runs the command.
///
/// # Errors
/// Flags of the output that are wrong, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let input =
        read(&args.scenario, false).and_then(|input| Ok((input.clone(), resolve(input.document, &Disk)?)));
    let (input, resolved) = match input {
        Ok(input) => input,
        Err(problems) => {
            terminal.problems(&problems);
            return Ok(Exit::BadInput.into());
        }
    };
    let outputs = args
        .output
        .resolve(&input.results, args.scenario.bench_cmd.is_some())?;
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    if input.document.get("sweep").is_some() {
        terminal.notes(&[
            "the scenario has a [sweep]: `plimsoll sweep` runs all of it, this runs what stands outside"
                .to_string(),
        ]);
    }
    if args.output.dry_run {
        out.write_all(resolved_toml(&resolved).as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    let folder_of_result = outputs.result_dir.as_ref().filter(|_| outputs.save_result);
    for folder in folder_of_result.into_iter().chain(&outputs.charts) {
        files::check_folder(folder)?;
    }
    execute(&resolved, &outputs, out, terminal)
}

/// Simulates, judges and prints.
fn execute(
    resolved: &Resolved,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let records = match (
        outputs.save_detailed,
        outputs.save_result || outputs.format == Format::Csv,
    ) {
        (true, _) => Records::WithItls,
        (false, true) => Records::Requests,
        (false, false) => Records::None,
    };
    let experiment = present::experiment(resolved, records);
    let mut progress = Progress::new(terminal, resolved.scenario.workload.num_prompts, "requests");
    let outcome = simulate(&resolved.scenario, &experiment, |ended| progress.at(ended));
    drop(progress);
    terminal.notes(&remarks(&outcome));
    let result = &outcome.result;
    let mut meta = present::meta(resolved, outputs, result);
    if !outcome.is_interrupted && !outcome.is_livelocked {
        meta.model_interval = Some(model_interval(resolved));
    }
    let text = print(result, &meta, outputs.format);
    files::put(&text, outputs.file.as_deref(), out)?;
    if outputs.why && outputs.format == Format::Table {
        out.write_all(why::explain(resolved, result).as_bytes())?;
    }
    if outputs.save_result {
        save(resolved, result, &meta, outputs, terminal)?;
    }
    if let Some(folder) = &outputs.charts {
        let pictures = charts(resolved, result);
        files::save_pictures(folder, &pictures, terminal)?;
    }
    Ok(exit(resolved, &outcome).into())
}

/// What happened beside the result.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let Counts {
        prompt_too_long,
        never_fit,
        queue_full,
        ..
    } = outcome.counts;
    let refused =
        |count: u64, why: &str| (count > 0).then(|| format!("{count} requests were refused: {why}"));
    let mut remarks: Vec<String> = [
        refused(
            prompt_too_long,
            "their prompt leaves no room for an answer below max_model_len",
        ),
        refused(
            never_fit,
            "alone they would need more KV blocks, or a larger token budget, than there is",
        ),
        refused(queue_full, "the server was full (503)"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if outcome.is_interrupted {
        remarks.push("interrupted: the result covers what was simulated until then".to_owned());
    }
    if outcome.is_livelocked {
        remarks.push(
            "livelock: sequences of equal priority and arrival preempt each other for ever, as they would in the \
             engine; the run was ended there (more KV blocks or fewer max_num_seqs avoid it)"
                .to_owned(),
        );
    }
    if outcome.clock_ended {
        remarks.push("the clock of 213 days ended before the traffic did".to_owned());
    }
    remarks
}

fn print(result: &RunResult, meta: &ResultMeta, format: Format) -> String {
    match format {
        Format::Table => report::text::run(result, meta, Style { color: false }),
        Format::Json => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Jsonl => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Csv => report::csv::requests(result),
        Format::Md => report::md::run(result, meta),
    }
}

/// Writes vLLM's JSON where `--save-result` says, and beside it the scenario that reproduces it.
fn save(
    resolved: &Resolved,
    result: &RunResult,
    meta: &ResultMeta,
    outputs: &Outputs,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let arrays = if outputs.save_detailed {
        Arrays::Detailed
    } else {
        Arrays::Saved
    };
    let name = outputs
        .result_filename
        .clone()
        .unwrap_or_else(|| report::json::file_name(meta));
    let folder = outputs.result_dir.clone().unwrap_or_else(|| ".".to_owned());
    let path = std::path::Path::new(&folder).join(name);
    files::write(&path, report::json::run(result, meta, arrays).as_bytes())?;
    let scenario = path.with_extension("resolved.toml");
    files::write(&scenario, resolved_toml(resolved).as_bytes())?;
    terminal.notes(&[format!("saved {} and {}", path.display(), scenario.display())]);
    Ok(())
}

/// The pictures of a run: (name, picture).
fn charts(resolved: &Resolved, result: &RunResult) -> Vec<(&'static str, Picture)> {
    let subject = present::subject(resolved);
    let summary = result.steady.as_ref().unwrap_or(&result.whole);
    let cost = (resolved.scenario.cost)();
    let rates = work_rates(&resolved.device, &resolved.model, &resolved.placement);
    let view = RooflineView {
        subject: subject.clone(),
        peak_flops_per_s: rates.peak.0,
        format: number_format(resolved),
        memory_bytes_per_s: rates.bandwidth.0,
        steps: chart::roofline_steps(&result.sampled_steps, cost.as_ref()),
    };
    vec![
        ("latency", chart::latency_distribution(summary, &subject)),
        ("timeline", chart::timeline(result, &subject)),
        ("little", chart::little(result, &subject)),
        ("roofline", chart::roofline(&view)),
    ]
}

/// The number format that the linear layers multiply in.
fn number_format(resolved: &Resolved) -> String {
    match resolved.model.quantization {
        Quantization::None | Quantization::Int4 { .. } | Quantization::Mxfp4 => "bf16".to_owned(),
        quantized => quantized.name().to_owned(),
    }
}

fn exit(resolved: &Resolved, outcome: &Outcome) -> Exit {
    let verdict = outcome.result.verdict;
    if outcome.is_interrupted {
        return Exit::Interrupted;
    }
    let whole = &outcome.result.whole;
    let nobody_was_answered = whole.sent > 0 && whole.completed == 0;
    if !outcome.result.violations.is_empty() || outcome.is_livelocked || nobody_was_answered {
        return Exit::Failure;
    }
    // Before the promise: without a steady state there is no share of requests that could keep it.
    let asked_for_steady_state = matches!(resolved.length, RunLength::Auto { .. });
    if asked_for_steady_state && matches!(verdict, Verdict::Unstable | Verdict::Critical | Verdict::TooShort)
    {
        return Exit::NoSteadyState;
    }
    if present::promise_is_kept(resolved, &outcome.result) == Some(false) {
        return Exit::NotMet;
    }
    Exit::Ok
}
