//! `plimsoll calibrate`: from measurements to a calibration file.
//!
//! Files are told apart by what they hold (`read`); what a result file lacks comes from flags (`said`). Each is named
//! in the result with its checksum, what was taken of it and what was left. The calibration is written whole, at the
//! end, or not at all.

mod read;
mod said;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::bail;

use super::Exit;
use super::progress::Progress;
use super::terminal::Terminal;
use super::{clock, files, inputs, interrupt};
use crate::calibrate::component::Options;
use crate::calibrate::{Calibrated, Request, calibrate_while, order, tables, trust};
use crate::cost::Trust;
use crate::cost::calibration::{self, Calibration, Source};
use crate::hardware::Device;
use crate::report::calibrated::{self, Told};
use read::Read;
use said::SaidArgs;

/// Fit a calibration to measurements.
///
/// Files of all kinds, mixed freely: kernel tables (CSV) and the output of `plimsoll probe` decide the GPU's terms;
/// results of vllm bench serve and bench latency, SGLang, AIPerf, GenAI-Perf, GuideLLM, llmperf, inference-perf,
/// InferenceX and trtllm-bench decide the engine's host terms, by simulating each run until it comes out as measured.
/// The columns of tables stand in docs/calibrate.md with their units. Of a CSV of published runs with a column `suggested_use` only the rows that say `calibrate` there are fitted to.
/// What none decides keeps the base's values, and the result says so.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll calibrate bench/*.json --gpu H100-SXM-80GB --serve-cmd \"vllm serve meta-llama/Llama-3.1-8B-Instruct\" -o h100.toml
  plimsoll calibrate gemm.csv attn_decode.csv attn_prefill.csv --gpu H100-SXM-80GB -o h100.toml
  plimsoll calibrate probe.toml results.json --gpu my-card.toml --model Qwen/Qwen3-8B -o mine.toml
  plimsoll calibrate latency.json --gpu l40s --bench-cmd \"vllm bench latency --model Qwen/Qwen3-8B --batch-size 16\"
  plimsoll calibrate a.json b.json --gpu h200 --scenario a.json=short.toml --scenario b.json=long.toml
  plimsoll run … --calibration h100.toml

Exit codes: 0 fitted, 1 no parameter was (nothing is written), what was fitted to is impossible (the file and all runs with it say
so), or the machine failed (a file that cannot be written), 2 a file or a flag is wrong, nothing to fit, 130 interrupted; nothing is written after 2 and 130.")]
pub struct Args {
    /// Kernel tables, a probe's output, results of benchmark tools, the course's tables; `-` reads standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// The GPU that the calibration is for.
    #[arg(long)]
    pub gpu: String,
    /// Whose host terms, and whose kernels: vllm, sglang or tensorrt-llm; with a version, vllm@0.11, runs are simulated as
    /// it.
    /// Default: that of --serve-cmd, else vllm.
    #[arg(long, value_name = "ENGINE[@VERSION]")]
    pub engine: Option<String>,
    /// Rows of kernel tables with this in their column `gpu`; by default the GPU's id without its memory, h100_sxm.
    #[arg(long, value_name = "KEY")]
    pub table_gpu: Option<String>,
    /// Where parameters start and what stays of them: a shipped calibration or a file; by default the best for the GPU.
    #[arg(long, value_name = "NAME|FILE")]
    pub base: Option<String>,
    /// Fit only these: gemm, attention, moe, allreduce, copy, host; a part of a block's name, gemm.bf16, too.
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = block)]
    pub only: Vec<String>,
    /// Seek one factor on the bandwidth of products, from the end-to-end runs of this GPU, or of the one named.
    #[arg(long, value_name = "GPU", num_args = 0..=1, default_missing_value = "")]
    pub fit_bandwidth: Option<String>,
    /// Of the end-to-end runs, take only those on these GPUs; by default all: host terms are the engine's, not the GPU's.
    #[arg(long, value_delimiter = ',', value_name = "GPUS")]
    pub runs_on: Vec<String>,
    /// Share of the shapes that is left out in turn to learn the error on unseen ones.
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share)]
    pub hold_out: f64,
    /// Seed of hold-out and intervals.
    #[arg(long, default_value = "0", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: u64,
    /// Draws of the parameters for their intervals, 10 to 10000.
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u16).range(10..=10_000))]
    pub draws: u16,
    /// What the file says of its origin: benchmark (your own measurements) or public-fit (published ones).
    #[arg(long, default_value = "benchmark", value_parser = ["benchmark", "public-fit"])]
    pub source: String,
    /// Take results that Plimsoll predicted itself, as a test of the fit does; what they decide is called a prior.
    #[arg(long)]
    pub allow_predictions: bool,
    /// Whose measurements, and under which licence.
    #[arg(long, value_name = "TEXT")]
    pub credit: Option<String>,
    /// A sentence for readers of the file; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub note: Vec<String>,
    /// Write the calibration into this file.
    #[arg(short, long, value_name = "FILE.toml")]
    pub output: Option<String>,
    /// Form of the report.
    #[arg(long, default_value = "text", value_parser = super::text_or(&["json"]))]
    pub format: String,
    /// What result files lack.
    #[command(flatten)]
    pub said: SaidArgs,
}

impl Args {
    /// The engine, with its version if that was given.
    fn engine(&self) -> &str {
        self.engine.as_deref().unwrap_or(self.said.engine())
    }

    /// The engine's name without its version, as tables and calibrations have it.
    fn engine_name(&self) -> &str {
        name_of(self.engine())
    }
}

/// An engine's name as tables and calibrations have it, without its version.
fn name_of(engine: &str) -> &str {
    match engine.split('@').next().unwrap_or(engine) {
        "tensorrt-llm" | "tensorrt_llm" | "trt-llm" => "trtllm",
        name => name,
    }
}

/// The beginnings of blocks' names.
const BLOCKS: [&str; 6] = ["gemm", "attention", "moe", "allreduce", "copy", "host"];

fn block(text: &str) -> Result<String, String> {
    let is_known = |name: &&str| !text.is_empty() && (text.starts_with(*name) || name.starts_with(text));
    if BLOCKS.iter().any(is_known) {
        Ok(text.to_owned())
    } else {
        Err(format!("names no block; blocks are {}", BLOCKS.join(", ")))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    if (0.0..=0.5).contains(&share) {
        Ok(share)
    } else {
        Err("must lie between 0 (no hold-out) and 0.5".to_owned())
    }
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, is of no known kind or is broken; nothing to fit.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // Reading many results takes a while and writes nothing.
    let nothing_yet = interrupt::at_once();
    if let Some(path) = &args.output {
        let is_input = args.files.contains(path);
        anyhow::ensure!(
            is_input || path.to_lowercase().ends_with(".toml"),
            "--output: {path} is no name that `--calibration` takes for a file: it ends in .toml"
        );
    }
    let (device, notes) = inputs::device(&args.gpu)?;
    terminal.notes(&notes);
    let base = base(args, &device)?;
    let mut read = Read::new(args, &device);
    let mut problems: Vec<anyhow::Error> = Vec::new();
    for path in &args.files {
        problems.extend(read.file(path).err());
    }
    terminal.notes(&read.notes);
    if let Some(last) = problems.pop() {
        problems.iter().for_each(|problem| terminal.error(problem));
        return Err(last);
    }
    let request = request(args, &device, base, &mut read)?;
    if let Some(path) = &args.output {
        files::check_file(Path::new(path), "--output")?;
    }
    drop(nothing_yet);
    let is_measured_too = !request.observations.is_empty() || request.kept.is_some();
    let progress = Mutex::new((Progress::new(terminal, None, "steps of the fit"), 0));
    let fitted = calibrate_while(&request, &|| {
        let mut progress = progress.lock().expect("no fit panics while it reports");
        progress.1 += 1;
        let done = progress.1;
        progress.0.at(done)
    });
    drop(progress);
    let Some(mut fitted) = fitted else {
        terminal.error(&anyhow::anyhow!("interrupted; nothing was written"));
        return Ok(Exit::Interrupted.into());
    };
    finish(&mut fitted, &request.base, args, &device);
    doubt(&mut fitted.calibration, args.engine_name(), &read.told);
    if !read.predictions.is_empty() {
        let of = of_predictions(fitted.calibration, &read.predictions, is_measured_too);
        // Predictions that scaled the kernels decided those, too.
        fitted.calibration = match args.fit_bandwidth {
            Some(_) => of.distrusted(Trust::Prior),
            None => of,
        };
        terminal.notes(&[predicted(&read.predictions)]);
    }
    let toml = file_text(&fitted, &device);
    let has_learnt = fitted.identified() > 0 || !read.predictions.is_empty();
    // What a probe measured on the card is worth a file whatever else was fitted.
    let is_worth_a_file = has_learnt || request.kept.is_some();
    let written = args.output.as_ref().filter(|_| is_worth_a_file);
    if let Some(path) = written {
        files::write(Path::new(path), toml.as_bytes())?;
    }
    let report = match args.format.as_str() {
        "json" => calibrated::json(&device.id, &fitted, &read.told, &toml),
        _ => calibrated::text(&device.id, &fitted, &read.told),
    };
    out.write_all(report.as_bytes())?;
    let is_possible = read.told.impossible.is_empty();
    match (written, &args.output) {
        (Some(path), _) => terminal.notes(&[match is_possible {
            true => format!("wrote {path}; use it with `plimsoll run … --calibration {path}`"),
            false => format!(
                "wrote {path}, in which the host is marked doubtful, since what it was fitted to is impossible; every run with it says so"
            ),
        }]),
        (None, Some(path)) => terminal.notes(&[format!(
            "{path} was not written: the measurements decide no parameter, so that it would hold what is believed without them"
        )]),
        (None, None) if args.format == "text" => {
            terminal.notes(&["nothing was written; -o FILE.toml writes the calibration".to_owned()]);
        }
        (None, None) => {}
    }
    Ok(if has_learnt && is_possible {
        Exit::Ok
    } else {
        Exit::Failure
    }
    .into())
}

/// What is to be fitted, of all that was read.
fn request(args: &Args, device: &Device, base: Calibration, read: &mut Read) -> anyhow::Result<Request> {
    let runs_on = args.runs_on.iter().map(|name| Ok(inputs::device(name)?.0.id));
    let runs_on: Vec<String> = runs_on.collect::<anyhow::Result<_>>()?;
    let mut runs = std::mem::take(&mut read.runs);
    runs.retain(|run| {
        let is_asked = runs_on.is_empty() || runs_on.contains(&run.resolved.device.id);
        if !is_asked {
            let reason = "not on a GPU of --runs-on".to_owned();
            read.told.left.push((run.label.clone(), reason));
        }
        is_asked
    });
    let bandwidth_of = match args.fit_bandwidth.as_deref() {
        None => None,
        Some("") => Some(device.id.clone()),
        Some(name) => Some(inputs::device(name)?.0.id),
    };
    if let Some(of) = &bandwidth_of
        && !runs.iter().any(|run| run.resolved.device.id == *of)
    {
        bail!(
            "--fit-bandwidth: none of the end-to-end runs is of {of}, which would decide the factor; leave it out, or name the GPU of the runs"
        );
    }
    let mut observations = std::mem::take(&mut read.observations);
    if observations.is_empty() && runs.is_empty() && read.kept.is_none() {
        bail!(nothing(args, device, &read.told));
    }
    order(&mut runs, &mut observations, &read.inputs);
    let kept = read.kept.take();
    Ok(Request {
        device: device.clone(),
        base: match &kept {
            Some(kept) => kept.clone().over(&base),
            None => base,
        },
        kept,
        observations,
        inputs: std::mem::take(&mut read.inputs),
        runs,
        engine: args.engine_name().to_owned(),
        bandwidth_of,
        source: source(args),
        options: Options {
            hold_out: args.hold_out,
            seed: args.seed,
            draws: usize::from(args.draws),
        },
        command: command(args),
    })
}

/// Reasons for which rows were left that are named where nothing else is left.
const REASONS_SHOWN: usize = 8;

fn nothing(args: &Args, device: &Device, told: &Told) -> String {
    let mut text = format!(
        "nothing to fit: no row of {} under {} and no end-to-end run{}",
        table_gpu(args, device),
        args.engine_name(),
        if args.only.is_empty() && args.runs_on.is_empty() {
            ""
        } else {
            " that --only and --runs-on leave"
        }
    );
    let reasons = told.left.iter().take(REASONS_SHOWN);
    reasons.for_each(|(place, reason)| text += &format!("\n  left: {place}: {reason}"));
    match told.left.len().saturating_sub(REASONS_SHOWN) {
        0 => {}
        more => text += &format!("\n  left: {more} more"),
    }
    text + "\n  help: --table-gpu and --engine choose rows of tables"
}

fn base(args: &Args, device: &Device) -> anyhow::Result<Calibration> {
    let prior = calibration::prior(device);
    let Some(name) = &args.base else {
        return Ok(calibration::for_device(device, args.engine_name()).calibration);
    };
    Ok(inputs::calibration(name)?.over(&prior))
}

/// `H100-SXM-80GB` as tables spell it: `h100_sxm`.
fn table_gpu(args: &Args, device: &Device) -> String {
    let of_id = || tables::gpu_name(device);
    args.table_gpu.clone().unwrap_or_else(of_id)
}

/// The command without folders, which differ from machine to machine.
fn command(args: &Args) -> String {
    let mut words: Vec<String> = vec!["plimsoll".to_owned(), "calibrate".to_owned()];
    words.extend(args.files.iter().map(|path| name_among(&args.files, path)));
    let mut flag = |name: &str, value: &str| {
        words.push(format!("--{name}"));
        if !value.is_empty() {
            words.push(if value.contains(' ') {
                format!("\"{}\"", value.replace('"', "\\\""))
            } else {
                value.to_owned()
            });
        }
    };
    flag("gpu", &args.gpu);
    flag("engine", args.engine());
    for (name, value) in [
        ("table-gpu", &args.table_gpu),
        ("base", &args.base),
        ("fit-bandwidth", &args.fit_bandwidth),
    ] {
        if let Some(value) = value {
            flag(name, value);
        }
    }
    if !args.runs_on.is_empty() {
        flag("runs-on", &args.runs_on.join(","));
    }
    if !args.only.is_empty() {
        flag("only", &args.only.join(","));
    }
    for (name, value) in args.said.words() {
        flag(name, &value);
    }
    flag("hold-out", &args.hold_out.to_string());
    flag("seed", &args.seed.to_string());
    flag("draws", &args.draws.to_string());
    flag("source", &args.source);
    if args.allow_predictions {
        flag("allow-predictions", "");
    }
    words.join(" ")
}

/// What a file is called among all that are given: the end of its path, or its whole path where another one ends alike.
fn name_among(files: &[String], path: &str) -> String {
    let last = |path: &str| Path::new(path).file_name().map(OsStr::to_owned);
    let is_like = |other: &&String| other.as_str() != path && last(other) == last(path);
    match last(path) {
        Some(name) if !files.iter().any(|other| is_like(&other)) => name.to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}

fn source(args: &Args) -> Source {
    match args.source.as_str() {
        "public-fit" => Source::PublicFit,
        _ => Source::Benchmark,
    }
}

/// Where the numbers come from, and how well blocks are known that the evidence is thin for.
fn finish(fitted: &mut Calibrated, base: &Calibration, args: &Args, device: &Device) {
    let provenance = &mut fitted.calibration.provenance;
    provenance.source = source(args);
    provenance.gpu = device.id.clone();
    provenance.date = clock::now().date().to_string();
    let credit = || {
        format!(
            "your measurements: {}",
            args.files
                .iter()
                .map(|path| name_among(&args.files, path))
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    provenance.credit = args.credit.clone().unwrap_or_else(credit);
    provenance.notes = args.note.clone();
    let of_source = provenance.source.trust();
    trust::mark(fitted, base, of_source);
}

/// Figures that contradict each other are none to trust a host by, however well it meets them.
fn doubt(calibration: &mut Calibration, engine: &str, told: &Told) {
    let Some(evidence) = calibration
        .evidence
        .as_mut()
        .filter(|_| !told.impossible.is_empty())
    else {
        return;
    };
    let impossible = told.impossible.iter();
    evidence
        .doubts
        .extend(impossible.map(|(place, what)| format!("{place} is impossible: {what}")));
    if let Some(host) = calibration.host.get_mut(engine) {
        host.trust = Trust::Doubtful;
    }
}

/// What a calibration says that rests on predictions.
fn predicted(files: &[String]) -> String {
    format!(
        "fitted to predictions of Plimsoll, which are no measurement: {}; what they decided is a prior",
        files.join(", ")
    )
}

/// Nothing that a prediction decided is better known than what it was predicted with. Kernels that were measured beside it
/// stay so.
fn of_predictions(mut calibration: Calibration, files: &[String], is_measured_too: bool) -> Calibration {
    let provenance = &mut calibration.provenance;
    provenance.notes.push(predicted(files));
    let of = match is_measured_too {
        true => "predictions and measurements: ",
        false => "predictions: ",
    };
    provenance.credit = provenance.credit.replacen("your measurements: ", of, 1);
    if !is_measured_too {
        provenance.source = Source::Prior;
    }
    for host in calibration.host.values_mut() {
        host.trust = host.trust.max(Trust::Prior);
    }
    calibration
}

/// The file, with the answer above it.
fn file_text(fitted: &Calibrated, device: &Device) -> String {
    format!(
        "# {}\n# Written by `plimsoll calibrate`; the command is below. Keys: documentation of `cost::calibration`.\n{}",
        calibrated::answer(&device.id, fitted),
        fitted.calibration.to_toml()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_end_alike_keep_their_paths() {
        let files = ["a/c1.json", "b/c1.json", "b/r4.json"].map(str::to_owned);
        let names: Vec<String> = files.iter().map(|path| name_among(&files, path)).collect();
        assert_eq!(names, ["a/c1.json", "b/c1.json", "r4.json"]);
    }
}
