//! `plimsoll trace`: describes a request trace, or fits a workload to it that can be shared.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::disk::Disk;
use super::progress::Progress;
use super::terminal::Terminal;
use super::working_set::{CurveFlags, CurveFormat, check_places, exit, pool, put};
use super::{Exit, files, folder, interrupt, ledger};
use crate::analysis::{WorkingSet, hit_rates};
use crate::config::{Document, resolve};
use crate::report::counted;
use crate::report::figures::significant;
use crate::report::working_set::{PoolMark, WorkingSetView};
use crate::units::Picos;
use crate::workload::trace::{self, FittedWorkload, Format, ReadOptions, TimeUnit, Trace};

/// Describe a trace of requests (rate, lengths, burstiness, shared prefixes) or fit a workload to it
///
/// The format is recognised and said: Azure, BurstGPT, Vidur and splitwise-sim CSV, Mooncake, Bailian, LLMServingSim and
/// APEX+ JSON lines, ShareGPT JSON, `vllm bench serve --save-detailed` results, kv-cache-tester's agentic sessions and ServeGen profiles.
/// Gzip and tar are unpacked, and a folder of sessions is read as one trace.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll trace conversation_trace.jsonl
  plimsoll trace AzureLLMInferenceTrace_conv.csv --fit chat.toml   # a workload without any of the rows
  plimsoll trace conversation_trace.jsonl --working-set --gpu h100 --model Qwen/Qwen3-8B --charts pictures
  plimsoll trace results.json --format json                        # a detailed result of vllm bench serve
  plimsoll trace traces/                                           # agentic coding sessions, one a file
  plimsoll trace servegen_deepseek-r1.tar.gz --window 0..86400     # draw a day from client profiles
  zcat trace.csv.gz | plimsoll trace - --time-unit ms")]
pub struct Args {
    /// The trace, or a folder of sessions; `-` reads standard input
    pub file: PathBuf,

    /// Write a workload with the trace's rate curve, burstiness, lengths and prefix sharing, but none of its rows (`-` prints it)
    #[arg(long, value_name = "FILE.toml")]
    pub fit: Option<PathBuf>,

    /// Source and licence to name in the first lines of the fitted file
    #[arg(long, value_name = "TEXT", requires = "fit")]
    pub credit: Option<String>,

    /// Hit rate of a prefix cache over its size, in one pass over the prompts
    #[arg(long, conflicts_with = "fit")]
    pub working_set: bool,

    /// With --working-set: mark the KV pool of this GPU
    #[arg(long, value_name = "GPU", requires = "working_set", requires = "model")]
    pub gpu: Option<String>,

    /// With --working-set: the model whose KV is in that pool
    #[arg(long, value_name = "MODEL", requires = "working_set", requires = "gpu")]
    pub model: Option<String>,

    /// With --working-set: tokens of a cached block [default: 16, vLLM's]
    #[arg(long, value_name = "TOKENS", requires = "working_set", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub block_size: Option<u32>,

    /// With --working-set: draw the curve, SVG and PNG, into a folder
    #[arg(long, value_name = "DIR")]
    pub charts: Option<String>,

    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    pub format: Output,

    /// Take the file for this format instead of looking at it
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub read_as: Option<Format>,

    /// What the file's times count, where it is not the format's usual unit
    #[arg(long, value_enum, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,

    /// Tokens that one hash id stands for, where it is not the format's usual block
    #[arg(long, value_name = "TOKENS")]
    pub block: Option<u32>,

    /// Leave out rows with no prompt or output tokens, and count them, instead of refusing the file
    #[arg(long)]
    pub skip_empty: bool,

    /// ShareGPT: leave out the conversations that `vllm bench serve` leaves out
    #[arg(long)]
    pub vllm_filter: bool,

    /// ShareGPT: characters that make a token, where the file has text and no counts [default: 4]
    #[arg(long, value_name = "N")]
    pub chars_per_token: Option<f64>,

    /// ServeGen: seconds of the profiles to draw, e.g. 0..86400 [default: the busiest hour]
    #[arg(long, value_name = "START..END", value_parser = parse_window)]
    pub window: Option<(Picos, Picos)>,

    /// ServeGen: seed of the draw [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// How a description is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[value(alias = "table")]
    Text,
    /// One object, numbers in full.
    Json,
}

/// Runs the command: description or fit on `out`.
///
/// # Errors
/// If a file cannot be opened or written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let target = args.fit.as_deref().filter(|target| *target != Path::new("-"));
    if args.fit.is_some() && target.is_none() && args.format == Output::Json {
        bail!("`--fit -` prints the workload as TOML: `--format json` goes with a file, --fit FILE.toml");
    }
    if args.charts.is_some() && !args.working_set {
        bail!(
            "`--charts` draws the curve of --working-set, and nothing else of a trace\n  help: add --working-set; what the trace's arrivals do \
             to a server is drawn by `plimsoll run MODEL --gpu GPU --trace {} --charts DIR`",
            args.file.display()
        );
    }
    // A description is printed whole, and a fit is written whole.
    let nothing_yet = interrupt::at_once();
    let (bytes, name) = match read_file(&args.file) {
        Ok(read) => read,
        Err(error) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
    };
    if let Some(target) = target {
        files::check_file(target, "--fit")?;
    }
    let trace = match trace::read(&bytes, &name, &args.options()) {
        Ok(trace) => trace,
        Err(error) => {
            terminal.error(&error.into());
            return Ok(Exit::BadInput.into());
        }
    };
    for (flag, is_given, of) in [
        ("--seed", args.seed.is_some(), Format::Servegen),
        (
            "--chars-per-token",
            args.chars_per_token.is_some(),
            Format::Sharegpt,
        ),
    ] {
        if is_given && trace.format != of {
            bail!(
                "`{flag}` has no effect on a {}: it belongs to {}",
                trace.format,
                of
            );
        }
    }
    match &args.fit {
        None if args.working_set => {
            drop(nothing_yet);
            return Ok(working_set(&trace, &name, args, out, terminal)?.into());
        }
        None => describe(&trace, args.format, out)?,
        Some(target) => {
            let fitted =
                trace::fit(&trace, &hit_rates).with_context(|| format!("cannot fit a workload to {name}"))?;
            drop(nothing_yet);
            if target != Path::new("-") && target.is_file() {
                terminal.notes(&[format!("{} was there and is replaced", target.display())]);
            }
            fit(&trace, &fitted, &name, target, args, out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.read_as,
            time_unit: self.time_unit,
            block: self.block,
            skip_empty: self.skip_empty,
            vllm_filter: self.vllm_filter,
            chars_per_token: self
                .chars_per_token
                .unwrap_or(ReadOptions::default().chars_per_token),
            window: self.window,
            seed: self.seed.unwrap_or(ReadOptions::default().seed),
            ..ReadOptions::default()
        }
    }
}

/// Prints the hit rate over the size of a cache, with the pool of a GPU where one is named.
fn working_set(
    trace: &Trace,
    name: &str,
    args: &Args,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<Exit> {
    const BLOCK: u32 = 16;
    if trace.conversations.is_some() {
        bail!(
            "`--working-set`: how soon a prompt comes again depends on how many sessions are led at once, which {name} does not say"
        );
    }
    if trace.block.is_none() {
        bail!("`--working-set`: nothing in {name} tells what prompts share");
    }
    let flags = CurveFlags {
        format: Some(match args.format {
            Output::Text => CurveFormat::Table,
            Output::Json => CurveFormat::Json,
        }),
        output: None,
        charts: args.charts.clone(),
    };
    check_places(&flags)?;
    let pool = match (&args.gpu, &args.model) {
        (Some(gpu), Some(model)) => Some(pool_of(gpu, model, args.block_size.unwrap_or(BLOCK), terminal)?),
        _ => None,
    };
    let mut progress = Progress::new(terminal, Some(trace.requests.len() as u64), "requests");
    let (curve, looked) = WorkingSet::of_some(
        trace.requests.iter().cloned(),
        args.block_size.unwrap_or(BLOCK),
        |done| progress.at(done),
    );
    drop(progress);
    let view = WorkingSetView {
        subject: name.to_owned(),
        curve,
        pool,
        looked,
    };
    put(&view, &flags, out, terminal)?;
    Ok(exit(&view, terminal))
}

/// The KV pool that vLLM has for a model on a GPU.
fn pool_of(gpu: &str, model: &str, block_size: u32, terminal: &Terminal) -> anyhow::Result<PoolMark> {
    let mut document = Document::default();
    let mut set = |key: &str, value: toml::Value| document.set(key, value, "--working-set");
    set("model.name", model.into());
    set("cluster.gpu", gpu.into());
    set("engine.block_size", i64::from(block_size).into());
    // The pool does not depend on the traffic.
    set("workload.arrivals.poisson.request_rate", 1.0.into());
    set("workload.lengths.fixed.input_len", 1.into());
    set("workload.lengths.fixed.output_len", 1.into());
    let resolved = resolve(document, &Disk)?;
    terminal.notes(&resolved.notes);
    Ok(pool(&resolved))
}

fn describe(trace: &Trace, format: Output, out: &mut dyn Write) -> anyhow::Result<()> {
    let description = trace::describe(trace);
    match format {
        Output::Text => out.write_all(description.text().as_bytes())?,
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&description)?)?,
    }
    Ok(())
}

fn fit(
    trace: &Trace,
    fitted: &FittedWorkload,
    name: &str,
    target: &Path,
    args: &Args,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let toml = fitted.toml(name, args.credit.as_deref());
    if target == Path::new("-") {
        out.write_all(toml.as_bytes())?;
        return Ok(());
    }
    files::write(target, toml.as_bytes())?;
    match args.format {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&fit_report(fitted))?)?,
        Output::Text => {
            writeln!(
                out,
                "wrote {}: the laws of {}, none of their rows",
                target.display(),
                counted(trace.requests.len() as u64, "request")
            )?;
            for warning in &trace.warnings {
                writeln!(out, "warning: {warning}")?;
            }
            writeln!(out, "\n{:<28}{:>12}{:>12}", "", "trace", "twin")?;
            for row in fitted.comparison() {
                let (trace, twin) = (significant(row.trace), significant(row.twin));
                writeln!(out, "{:<28}{trace:>12}{twin:>12}", row.what)?;
            }
            writeln!(out, "({})", fitted.twin_basis())?;
            writeln!(out, "\nthe twin loses")?;
            for loss in &fitted.losses {
                writeln!(out, "- {loss}")?;
            }
            for note in &trace.notes {
                writeln!(out, "note: {note}")?;
            }
        }
    }
    Ok(())
}

fn fit_report(fitted: &FittedWorkload) -> serde_json::Value {
    serde_json::json!({
        "comparison": fitted.comparison(),
        "hit_rates": fitted.hit_rates,
        "twin_basis": fitted.twin_basis(),
        "losses": fitted.losses,
        "source": fitted.source,
        "twin": fitted.twin,
    })
}

/// The bytes of a file or of standard input, and the name that messages and fits give it.
fn read_file(path: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    if path == Path::new("-") {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            bail!("`-` reads a trace from standard input, which is a terminal: name a file or pipe one in");
        }
        let bytes = ledger::whole(stdin, 0).context("cannot read standard input")?;
        return Ok((bytes, "standard input".to_owned()));
    }
    let bytes = match path.is_dir() {
        true => folder::packed(path).with_context(|| format!("cannot read {}", path.display()))?,
        false => ledger::read(path).with_context(|| format!("cannot read {}", path.display()))?,
    };
    let bytes = files::without_mark(bytes);
    let name = path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    Ok((bytes, name))
}

/// `START..END` in seconds, as start and length.
fn parse_window(text: &str) -> Result<(Picos, Picos), String> {
    let (start, end) = text
        .split_once("..")
        .ok_or("write START..END in seconds, e.g. 0..86400")?;
    let seconds = |text: &str| {
        let value = text.trim().trim_end_matches('s').trim().parse::<f64>().ok()?;
        Picos::try_from_seconds(value)
    };
    match (seconds(start), seconds(end)) {
        (Some(start), Some(end)) if end > start => Ok((start, end - start)),
        (Some(_), Some(_)) => Err("the end must come after the start".to_owned()),
        _ => Err("start and end are seconds from the profiles' beginning, e.g. 0..86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_start_and_length() {
        assert_eq!(
            parse_window("600..1200"),
            Ok((Picos::from_seconds(600.0), Picos::from_seconds(600.0)))
        );
        assert!(parse_window("600").is_err());
        assert!(parse_window("9..3").is_err());
        assert!(parse_window("-1..3").is_err());
    }
}
