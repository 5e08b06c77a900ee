//! `plimsoll validate`: how far predictions are from published measurements.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use rayon::prelude::*;

use super::Exit;
use super::audit::read;
use super::disk::Disk;
use super::files;
use super::terminal::Terminal;
use crate::report::validated;
use crate::validate::{Row, plan, predict, scores};

/// How far are predictions from measurements? Simulates every row of a table and scores the errors.
///
/// The table is a CSV with a row a run: GPU, model, engine, workload, load, flags and what was measured. Rows are
/// simulated as they were run, whole and finite. Scores are by family and overall, families weighted equally: median
/// and 90th percentile of the absolute error, and the median error with its sign. Rows that cannot be modelled are
/// counted with the reason.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll validate measured.csv
  plimsoll validate measured.csv --only validate --format json -o scores.json --chart errors.svg
  plimsoll validate measured.csv --traces traces --family kubecon/vllm --scenarios
  plimsoll validate measured.csv --format csv | head

Exit codes: 0 scored, 2 the table cannot be read, 3 no row of it can be modelled.")]
pub struct Args {
    /// The table; `-` reads standard input.
    #[arg(value_name = "FILE.csv")]
    pub file: String,
    /// Rows of one suggested use only.
    #[arg(long, value_name = "USE", value_parser = ["calibrate", "validate"])]
    pub only: Option<String>,
    /// Rows of families whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub family: Option<String>,
    /// Folder of the traces that rows replay.
    #[arg(long, value_name = "DIR")]
    pub traces: Option<String>,
    /// Print the scenarios of the rows instead of simulating them.
    #[arg(long)]
    pub scenarios: bool,
    /// Leave the intervals out: one simulation a row instead of fifteen or so.
    #[arg(long)]
    pub no_interval: bool,
    /// What to print.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Write it into this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Draw predicted against measured into this SVG, or PNG by its name.
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<String>,
}

/// How scores are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// Everything, as one object.
    Json,
    /// A line a figure of a row.
    Csv,
}

/// Runs the command.
///
/// # Errors
/// A table that cannot be read, or a file that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let mut file = match read(&args.file) {
        Ok(file) => file,
        Err(error) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
    };
    file.rows.retain(|row| {
        args.only
            .as_ref()
            .is_none_or(|only| row.setup.suggested_use == *only)
            && args
                .family
                .as_ref()
                .is_none_or(|family| row.setup.family.contains(family))
    });
    let traces = args
        .traces
        .as_deref()
        .map(names_of)
        .transpose()?
        .unwrap_or_default();
    let find = |name: &str| {
        let stem = name.split('.').next().unwrap_or(name);
        let of = |path: &&String| {
            Path::new(path)
                .file_name()
                .is_some_and(|file| file.to_string_lossy().contains(stem))
        };
        traces.iter().find(of).cloned().or_else(|| {
            // `llama-3.1-8b` has a point of its own: the longest stem that a file has.
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            traces.iter().find(|path| path.contains(stem)).cloned()
        })
    };
    if args.scenarios {
        let of = |row: &crate::results::Measured| match plan(row, &find) {
            Ok(plan) => {
                let assumed: String = plan
                    .assumptions
                    .iter()
                    .map(|what| format!("# assumed: {what}\n"))
                    .collect();
                format!("# {}\n{assumed}{}\n", row.place, plan.scenario)
            }
            Err(reason) => format!("# {}: not modelled, {reason}\n\n", row.place),
        };
        files::put(
            &file.rows.iter().map(of).collect::<String>(),
            args.output.as_deref(),
            out,
        )?;
        return Ok(Exit::Ok.into());
    }
    let rows: Vec<Row> = file
        .rows
        .par_iter()
        .map(|row| predict(row, plan(row, &find), &Disk, !args.no_interval))
        .collect();
    let (families, overall) = scores(&rows);
    let text = match args.format {
        Format::Text => validated::text(&families, &overall),
        Format::Json => validated::json(&families, &overall, &rows),
        Format::Csv => validated::csv(&rows),
    };
    files::put(&text, args.output.as_deref(), out)?;
    if let Some(path) = &args.chart {
        let picture = validated::chart(&overall, &rows);
        let bytes = if path.ends_with(".png") {
            picture.png()
        } else {
            picture.svg().into_bytes()
        };
        files::write(Path::new(path), &bytes)?;
        terminal.notes(&[format!("drew {path}")]);
    }
    Ok(if overall.modelled == 0 {
        Exit::NotMet
    } else {
        Exit::Ok
    }
    .into())
}

/// Paths of the files in a folder, in order.
fn names_of(folder: &str) -> anyhow::Result<Vec<String>> {
    use anyhow::Context;
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?;
    let mut paths: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path().to_string_lossy().into_owned()))
        .collect();
    paths.sort();
    Ok(paths)
}
