//! `plimsoll run`: one scenario, simulated once.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use super::Exit;
use super::disk::Disk;
use super::terminal::Terminal;
use crate::config::flags::ScenarioFlags;
use crate::config::pasted::ResultFlags;
use crate::config::{Assembled, Diagnostics, Metric, QUICKSTART, Resolved, assemble, resolve, resolved_toml};

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
        Ok(Outputs {
            format: self.format.unwrap_or_default(),
            file: self.output.clone(),
            why: self.why,
            percentiles,
            metrics,
            // Asking for details is asking for the file.
            save_result: own.save_result || own.save_detailed || pasted.save_result,
            save_detailed: own.save_detailed || pasted.save_detailed,
            result_dir: either(&own.result_dir, &pasted.result_dir),
            result_filename: either(&own.result_filename, &pasted.result_filename),
            metadata,
            label: either(&own.label, &pasted.label),
        })
    }
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
    execute(&resolved, &outputs, out)
}

/// Simulates, judges and prints.
fn execute(resolved: &Resolved, _outputs: &Outputs, _out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{} on {} is a valid run, and this build has no simulation connected",
        resolved.model.name,
        resolved.device.id
    )
}
