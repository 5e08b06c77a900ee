//! `plimsoll calibrate`: from measurements to a calibration file.
//!
//! Files are told apart by what they hold: kernel tables by their header, the course's tables and serving results by
//! theirs. Each is named in the result with its checksum and with how many of its rows were used.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::Exit;
use super::course::measured::{FigureName, Measured, MeasuredRow, MeasuredTable, Use};
use super::disk::Disk;
use super::terminal::Terminal;
use super::{clock, files, inputs, interrupt};
use crate::calibrate::component::Options;
use crate::calibrate::observation::Block;
use crate::calibrate::runs::{Figure, Run};
use crate::calibrate::tables::Selection;
use crate::calibrate::{Calibrated, Request, calibrate, serving, tables};
use crate::config::{Document, axes, files as config_files, resolve};
use crate::cost::Trust;
use crate::cost::calibration::{self, Calibration, Input, KernelFormat, Source};
use crate::hardware::Device;
use crate::report::calibrated::{self, Left};

/// Fit a calibration to measurements.
///
/// Kernel tables (CSV) decide the GPU's terms; end-to-end runs decide the engine's host terms, by simulating each of
/// them until it comes out as measured. What neither decides keeps the base's values, and the result says so.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll calibrate gemm.csv attn_decode.csv attn_prefill.csv --gpu H100-SXM-80GB -o h100.toml
  plimsoll calibrate course_tables.json --gpu L40S-48GB --fit-bandwidth -o l40s.toml
  plimsoll run … --calibration h100.toml")]
pub struct Args {
    /// Kernel tables (.csv), the course's tables (.json), serving results (.csv with a column suggested_use).
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// The GPU that the calibration is for.
    #[arg(long)]
    pub gpu: String,
    /// Whose host terms, and whose kernels: vllm, sglang or trtllm.
    #[arg(long, default_value = "vllm")]
    pub engine: String,
    /// Rows of kernel tables with this in their column `gpu`; by default the GPU's id without its memory, h100_sxm.
    #[arg(long, value_name = "KEY")]
    pub table_gpu: Option<String>,
    /// Where parameters start and what stays of them: a shipped calibration or a file; by default the best for the GPU.
    #[arg(long, value_name = "NAME|FILE")]
    pub base: Option<String>,
    /// Fit only these: gemm, attention, moe, allreduce, host; a part of a block's name, gemm.bf16, too.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
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
    #[arg(long, default_value = "0")]
    pub seed: u64,
    /// Draws of the parameters for their intervals.
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u16).range(10..))]
    pub draws: u16,
    /// What the file says of its origin: benchmark (your own measurements) or public-fit (published ones).
    #[arg(long, default_value = "benchmark", value_parser = ["benchmark", "public-fit"])]
    pub source: String,
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
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
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
    let (device, notes) = inputs::device(&args.gpu)?;
    terminal.notes(&notes);
    if let Some(path) = &args.output {
        files::check_file(Path::new(path))?;
    }
    let base = base(args, &device)?;
    let mut read = Read::default();
    for path in &args.files {
        read.file(path, args, &device)?;
    }
    let runs_on = args.runs_on.iter().map(|name| Ok(inputs::device(name)?.0.id));
    let runs_on: Vec<String> = runs_on.collect::<anyhow::Result<_>>()?;
    read.runs
        .retain(|run| runs_on.is_empty() || runs_on.contains(&run.resolved.device.id));
    let bandwidth_of = match args.fit_bandwidth.as_deref() {
        None => None,
        Some("") => Some(device.id.clone()),
        Some(name) => Some(inputs::device(name)?.0.id),
    };
    let request = Request {
        device: device.clone(),
        base,
        observations: read.observations,
        inputs: read.inputs,
        runs: read.runs,
        engine: args.engine.clone(),
        bandwidth_of,
        options: Options {
            hold_out: args.hold_out,
            seed: args.seed,
            draws: usize::from(args.draws),
        },
        command: command(args),
    };
    if request.observations.is_empty() && request.runs.is_empty() {
        let key = table_gpu(args, &device);
        bail!(
            "nothing to fit: no row of {key} under {} and no end-to-end run; --table-gpu and --engine choose rows",
            args.engine
        );
    }
    let until_fitted = interrupt::at_once();
    let mut fitted = calibrate(&request);
    drop(until_fitted);
    finish(&mut fitted.calibration, args, &device);
    let toml = file_text(&fitted, &device);
    if let Some(path) = &args.output {
        files::write(Path::new(path), toml.as_bytes())?;
    }
    let report = match args.format.as_str() {
        "json" => calibrated::json(&device.id, &fitted, &read.left, &toml),
        _ => calibrated::text(&device.id, &fitted, &read.left),
    };
    out.write_all(report.as_bytes())?;
    if args.output.is_none() && args.format == "text" {
        terminal.notes(&["nothing was written; -o FILE.toml writes the calibration".to_owned()]);
    }
    Ok(Exit::Ok.into())
}

fn base(args: &Args, device: &Device) -> anyhow::Result<Calibration> {
    let prior = calibration::prior(device.architecture);
    let Some(name) = &args.base else {
        return Ok(calibration::for_device(device, &args.engine).calibration);
    };
    if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
        return Ok(Calibration::parse(name, &text)?.over(&prior));
    }
    match calibration::shipped(name) {
        Some(known) => Ok(known.over(&prior)),
        None => {
            let names: Vec<&str> = calibration::shipped_names().collect();
            bail!(
                "`{name}` names no shipped calibration; shipped are {}",
                names.join(", ")
            )
        }
    }
}

/// `H100-SXM-80GB` as tables spell it: `h100_sxm`.
fn table_gpu(args: &Args, device: &Device) -> String {
    let of_id = || tables::gpu_name(device);
    args.table_gpu.clone().unwrap_or_else(of_id)
}

/// The command without folders, which differ from machine to machine.
fn command(args: &Args) -> String {
    let mut words: Vec<String> = vec!["plimsoll".to_owned(), "calibrate".to_owned()];
    words.extend(args.files.iter().map(|path| file_name(path)));
    let mut flag = |name: &str, value: &str| {
        words.push(format!("--{name}"));
        if !value.is_empty() {
            words.push(if value.contains(' ') {
                format!("\"{value}\"")
            } else {
                value.to_owned()
            });
        }
    };
    flag("gpu", &args.gpu);
    flag("engine", &args.engine);
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
    flag("hold-out", &args.hold_out.to_string());
    flag("seed", &args.seed.to_string());
    flag("draws", &args.draws.to_string());
    flag("source", &args.source);
    words.join(" ")
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Everything that was read.
#[derive(Default)]
struct Read {
    observations: Vec<crate::calibrate::observation::Observation>,
    runs: Vec<Run>,
    inputs: Vec<Input>,
    left: Left,
}

impl Read {
    fn file(&mut self, path: &str, args: &Args, device: &Device) -> anyhow::Result<()> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
        let text = String::from_utf8(bytes).with_context(|| format!("{path} is not text"))?;
        let (name, index) = (file_name(path), self.inputs.len());
        let wants = |block: &str| {
            args.only.is_empty() || args.only.iter().any(|wanted| block.starts_with(wanted.as_str()))
        };
        let rows = if text.trim_start().starts_with('{') {
            let measured: Measured =
                serde_json::from_str(&text).with_context(|| format!("{path} is not the course's tables"))?;
            let runs = if wants("host") {
                course_runs(&measured, index)?
            } else {
                Vec::new()
            };
            self.runs.extend(runs);
            measured.tables.iter().map(|table| table.rows.len() as u64).sum()
        } else if serving::is_serving(text.lines().next().unwrap_or_default()) {
            let serving =
                serving::read(&text, &args.engine, index).with_context(|| format!("cannot read {path}"))?;
            if wants("host") {
                self.runs.extend(serving.runs);
                self.leave(&name, serving.left);
            }
            serving.rows
        } else {
            let selection = Selection {
                gpu: table_gpu(args, device),
                framework: args.engine.clone(),
            };
            let mut table = tables::read(&name, &text, index, &selection)?;
            table.observations.retain(|row| wants(&row.block.to_string()));
            self.observations.extend(table.observations);
            self.leave(&name, table.left);
            table.rows
        };
        self.inputs.push(Input {
            file: name,
            crc32: tables::crc32(&text),
            rows,
            used: 0,
        });
        Ok(())
    }

    fn leave(&mut self, name: &str, left: std::collections::BTreeMap<String, u64>) {
        let rows = left
            .into_iter()
            .map(|(reason, rows)| (name.to_owned(), reason, rows));
        self.left.extend(rows);
    }
}

/// Rows of the course's tables that may be fitted to.
fn course_runs(measured: &Measured, input: usize) -> anyhow::Result<Vec<Run>> {
    let tables = measured
        .tables
        .iter()
        .filter(|table| table.use_ == Use::Calibrate);
    let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.map(|(table, row)| course_run(table, row, input)).collect()
}

fn course_run(table: &MeasuredTable, row: &MeasuredRow, input: usize) -> anyhow::Result<Run> {
    let scenario = config_files::find(&table.scenario, &Disk)
        .with_context(|| format!("there is no scenario `{}`", table.scenario))?;
    let refuse = |problems: crate::config::Diagnostics| anyhow::anyhow!("{}", problems.render(false));
    let mut document =
        Document::parse(&scenario.name, &scenario.text).map_err(|problem| refuse(problem.into()))?;
    for (name, value) in &row.set {
        let problems = axes::apply(&mut document, name, value);
        if !problems.is_empty() {
            return Err(refuse(crate::config::Diagnostics(problems)));
        }
    }
    let settings: Vec<&str> = row.set.iter().take(2).map(|(_, value)| value.as_str()).collect();
    let figures = table.figures.iter().zip(&row.measured);
    Ok(Run {
        label: format!("course week 2, {}", settings.join(", batch ")),
        family: format!("course week 2 on {}", settings.first().unwrap_or(&"")),
        is_offline: true,
        resolved: resolve(document, &Disk).map_err(refuse)?,
        measured: figures
            .filter_map(|(figure, value)| match figure {
                FigureName::E2elP50Ms => Some((Figure::E2elP50, *value)),
                _ => None,
            })
            .collect(),
        input,
    })
}

/// Where the numbers come from, and how well blocks are known that the evidence is thin for.
fn finish(calibration: &mut Calibration, args: &Args, device: &Device) {
    let provenance = &mut calibration.provenance;
    provenance.source = match args.source.as_str() {
        "public-fit" => Source::PublicFit,
        _ => Source::Benchmark,
    };
    provenance.gpu = device.id.clone();
    provenance.date = clock::now().date().to_string();
    let credit = || {
        format!(
            "your measurements: {}",
            args.files
                .iter()
                .map(|path| file_name(path))
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    provenance.credit = args.credit.clone().unwrap_or_else(credit);
    provenance.notes = args.note.clone();
    let trust = provenance.source.trust();
    let fitted = |block: Block| {
        let evidence = calibration.evidence.as_ref();
        evidence.is_some_and(|evidence| evidence.blocks.contains_key(&block.to_string()))
    };
    let formats = KernelFormat::ALL.map(|(format, _)| format);
    for format in formats.into_iter().filter(|format| fitted(Block::Gemm(*format))) {
        if let Some(gemm) = calibration.gemm.get_mut(&format) {
            gemm.trust = trust;
        }
    }
    calibration.moe.values_mut().for_each(|moe| moe.trust = trust);
    calibration
        .allreduce
        .iter_mut()
        .for_each(|link| link.trust = trust);
    let known = calibration
        .host
        .values_mut()
        .filter(|host| host.trust != Trust::Prior);
    known.for_each(|host| host.trust = trust);
    if let Some(attention) = &mut calibration.attention {
        attention.trust = trust;
    }
}

/// The file, with the answer above it.
fn file_text(fitted: &Calibrated, device: &Device) -> String {
    format!(
        "# {}\n# Written by `plimsoll calibrate`; the command is below. Keys: documentation of `cost::calibration`.\n{}",
        calibrated::answer(&device.id, fitted),
        fitted.calibration.to_toml()
    )
}
