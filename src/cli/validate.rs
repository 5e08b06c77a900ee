//! `plimsoll validate`: how far predictions are from published measurements.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use rayon::prelude::*;

mod kernels;
mod rows;

use super::Exit;
use super::disk::Disk;
use super::progress::Progress;
use super::terminal::Terminal;
use super::{files, inputs, interrupt, ledger};
use crate::calibrate::plan::{Plan, plan};
use crate::report::chart::Picture;
use crate::report::{validated, validated_kernels, validated_requests};
use crate::results::{Measured, strange_columns};
use crate::validate::kernels::Kernels;
use crate::validate::requests::{self, Requests};
use crate::validate::{Row, Score, TimedBy, off_by_thousand, predict, scores, scores_by_engine};

/// How far are predictions from measurements? Simulates every row of a table and scores the errors.
///
/// The table is a CSV with a row a run: GPU, model, engine, workload, load, flags and what was measured; docs/calibrate.md
/// lists its columns with their units. Rows are
/// simulated as they were run, whole and finite. Scores are by family and overall, families weighted equally: median
/// and 90th percentile of the absolute error, and the median error with its sign. Rows that cannot be modelled are
/// counted with the reason. Where several engines served them, each has a line of its own. `--kernels` scores the shipped calibrations against kernel tables instead, or as well;
/// `--requests` compares one row's run request by request with what was recorded.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll validate measured.csv
  plimsoll validate measured.csv --only validate --format json -o scores.json --chart errors.svg
  plimsoll validate measured.csv --traces traces --family kubecon/vllm --scenarios
  plimsoll validate measured.csv --format csv | head
  plimsoll validate results.csv --calibration my-h100.toml
  plimsoll validate --kernels tests/data/kernels --chart kernels.svg
  plimsoll validate measured.csv --traces traces --family RTXPRO6000/Llama-3.1-8B \\
      --requests run.requests.csv --series run.timeseries.csv --chart state.svg

Exit codes: 0 scored, 2 the table cannot be read, 3 no row of it can be modelled.")]
pub struct Args {
    /// The table; `-` reads standard input.
    #[arg(value_name = "FILE.csv", required_unless_present = "kernels")]
    pub file: Option<String>,
    /// Folder of kernel tables, to score the shipped calibrations against.
    #[arg(long, value_name = "DIR")]
    pub kernels: Option<String>,
    /// Score this calibration, a file or one that ships, on the rows of its card, instead of the one that ships for the card of each
    /// row; rows of other cards are counted as not modelled.
    #[arg(long, value_name = "FILE.toml")]
    pub calibration: Option<String>,
    /// Whose the rows are of kernel tables without a column `gpu`.
    #[arg(long, value_name = "GPU", requires = "kernels")]
    pub gpu: Option<String>,
    /// What happened to each request of the one row that is left: request_id, arrival_s, first_token_s, last_token_s,
    /// input_tokens, output_tokens.
    #[arg(long, value_name = "FILE.csv", requires = "file", conflicts_with_all = ["kernels", "scenarios"])]
    pub requests: Option<String>,
    /// Its scheduler's state over time: t, running, waiting.
    #[arg(long, value_name = "FILE.csv", requires = "requests")]
    pub series: Option<String>,
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
    /// Take results that Plimsoll predicted itself, as a test of the scenarios does.
    #[arg(long)]
    pub allow_predictions: bool,
    /// Draw predicted against measured into this SVG, or PNG by its name: runs where a table is given, else kernels.
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<String>,
    /// Draw the same, SVG and PNG, into a folder.
    #[arg(long, value_name = "DIR")]
    pub charts: Option<String>,
}

/// How scores are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[value(alias = "table")]
    Text,
    /// The tables, for documents.
    Md,
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
    if args.format == Format::Csv && args.file.is_some() && args.kernels.is_some() {
        terminal.error(&anyhow::anyhow!(
            "`--format csv` prints one table: leave FILE.csv or `--kernels` out"
        ));
        return Ok(Exit::BadInput.into());
    }
    let timed_by = match args.calibration.as_deref().map(timed_by).transpose() {
        Ok(timed_by) => timed_by,
        Err(error) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
    };
    // Kernels are judged all together: there is no row to stop behind.
    let _nothing_yet = args.file.is_none().then(interrupt::at_once);
    let table = match args
        .file
        .as_deref()
        .map(|name| rows::read(args, name, terminal))
        .transpose()
    {
        Ok(table) => table,
        Err(error) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
    };
    let (rows, unread) = table.map_or((None, Vec::new()), |(rows, unread)| (Some(rows), unread));
    let strange = rows.as_deref().map(strange_columns).unwrap_or_default();
    terminal.notes(&not_read(&strange));
    terminal.notes(&rows.as_deref().map(not_measured).unwrap_or_default());
    let traces = args
        .traces
        .as_deref()
        .map(names_of)
        .transpose()?
        .unwrap_or_default();
    let find = |name: &str| {
        let path = trace_of(&traces, name)?;
        ledger::reads(Path::new(&path));
        Some(path)
    };
    let plan = |row: &Measured| {
        let plan = plan(row, &find)?;
        match &timed_by {
            None => Ok(plan),
            Some(asked) => asked.time(&plan, row),
        }
    };
    terminal.notes(&timed_by.as_ref().map(TimedBy::notes).unwrap_or_default());
    if let (Some(path), Some(rows)) = (&args.requests, &rows) {
        return by_request(args, path, rows, &plan, out, terminal);
    }
    if let (true, Some(rows)) = (args.scenarios, &rows) {
        let mut text: String = rows.iter().map(|row| scenario(row, plan(row))).collect();
        for (row, reason) in unread.iter().filter_map(|row| Some((row, row.outcome.reason()?))) {
            text += &not_modelled(&row.place, reason);
        }
        files::put(&text, args.output.as_deref(), out)?;
        return Ok(Exit::Ok.into());
    }
    let kernels = match args
        .kernels
        .as_deref()
        .map(|folder| kernels::read(folder, args.gpu.as_deref(), timed_by.clone(), terminal))
    {
        Some(Ok(kernels)) => Some(kernels),
        Some(Err(error)) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
        None => None,
    };
    if args.traces.is_some() {
        // Which traces the rows replay, and so which are inputs.
        let replayed = |row: &Measured| drop(plan(row));
        rows.iter().flatten().for_each(replayed);
    }
    check_places(args)?;
    let predict = |row: &Measured| predict(row, plan(row), &Disk, !args.no_interval);
    let all = rows.as_ref().map_or(0, Vec::len) + unread.len();
    let scored = rows.map(|rows| {
        let progress = Mutex::new((Progress::new(terminal, Some(rows.len() as u64), "rows"), 0));
        let unless_asked = |row: &Measured| {
            let predicted = (!interrupt::is_asked()).then(|| predict(row));
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.1 += 1;
            let done = progress.1;
            progress.0.at(done);
            predicted
        };
        let mut rows: Vec<Row> = rows.par_iter().filter_map(unless_asked).collect();
        drop(progress);
        rows.extend(unread);
        terminal.notes(&rows::few(off_by_thousand(&rows), ""));
        let (families, overall) = scores(&rows);
        Scored {
            families,
            engines: scores_by_engine(&rows),
            overall,
            rows,
            strange,
        }
    });
    let done = scored.as_ref().map_or(0, |scored| scored.rows.len());
    let is_interrupted = done < all;
    let mut text = {
        let width = terminal.width().filter(|_| args.output.is_none());
        printed(
            args.format,
            scored.as_ref(),
            kernels.as_ref(),
            is_interrupted,
            width,
        )
    };
    if is_interrupted && matches!(args.format, Format::Text | Format::Md) {
        text = format!("INTERRUPTED after {done} of {all} rows\n\n{text}");
    }
    files::put(&text, args.output.as_deref(), out)?;
    if is_interrupted {
        return Ok(Exit::Interrupted.into());
    }
    match (&scored, &kernels) {
        (Some(scored), _) => draw(
            "errors",
            || validated::chart(&scored.overall, &scored.rows),
            args,
            terminal,
        )?,
        (None, Some(kernels)) => draw("kernels", || validated_kernels::chart(kernels), args, terminal)?,
        (None, None) => {}
    }
    let is_modelled = scored.is_some_and(|scored| scored.overall.modelled > 0)
        || kernels.is_some_and(|kernels| !kernels.rows.is_empty());
    Ok(if is_modelled { Exit::Ok } else { Exit::NotMet }.into())
}

/// Rows and their scores.
struct Scored {
    families: Vec<Score>,
    engines: Vec<Score>,
    overall: Score,
    rows: Vec<Row>,
    /// Columns that are not known, and those that may be meant.
    strange: Vec<(String, Option<String>)>,
}

/// What to say of columns that are not known.
pub(super) fn not_read(strange: &[(String, Option<String>)]) -> Vec<String> {
    let of = |(name, meant): &(String, Option<String>)| match meant {
        Some(meant) => format!("the column `{name}` is not known and is left out; did you mean `{meant}`?"),
        None => format!("the column `{name}` is not known and is left out"),
    };
    strange.iter().map(of).collect()
}

/// What to say of figures that are NaN: how many rows have it, by figure.
fn not_measured(rows: &[Measured]) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        for what in row.not_measured() {
            found.entry(what).or_default().push(&row.place);
        }
    }
    let told = found.into_iter().map(|(what, places)| match places[..] {
        [place] => format!("{what} is NaN in {place}, which is no measurement: it is left out"),
        _ => format!(
            "{what} is NaN in {} rows, {} the first, which is no measurement: it is left out",
            places.len(),
            places[0]
        ),
    });
    told.collect()
}

fn printed(
    format: Format,
    scored: Option<&Scored>,
    kernels: Option<&Kernels>,
    is_interrupted: bool,
    width: Option<usize>,
) -> String {
    let (runs, of_kernels) = match format {
        Format::Json => {
            let runs = scored.map(|of| {
                let mut object = validated::object(&of.families, &of.engines, &of.overall, &of.rows);
                if is_interrupted {
                    object["interrupted"] = true.into();
                }
                let strange = of.strange.iter();
                let strange: Vec<serde_json::Value> = strange
                    .map(|(name, meant)| serde_json::json!({"column": name, "did_you_mean": meant}))
                    .collect();
                if !strange.is_empty() {
                    object["unknown_columns"] = strange.into();
                }
                object
            });
            return validated::json(runs, kernels.map(validated_kernels::object));
        }
        Format::Text => (
            scored.map(|of| validated::text(&of.families, &of.engines, &of.overall, width)),
            kernels.map(|kernels| validated_kernels::text(kernels, width)),
        ),
        Format::Md => (
            scored.map(|of| validated::md(&of.families, &of.engines, &of.overall)),
            kernels.map(validated_kernels::md),
        ),
        Format::Csv => (
            scored.map(|Scored { rows, .. }| {
                let mark = if is_interrupted {
                    "interrupted,,,,,,,,,,\n"
                } else {
                    ""
                };
                validated::csv(rows) + mark
            }),
            kernels.map(validated_kernels::csv),
        ),
    };
    let parts: Vec<String> = runs.into_iter().chain(of_kernels).collect();
    parts.join("\n")
}

/// The file of a trace that a row names.
fn trace_of(traces: &[String], name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or(name);
    let of = |path: &&String| {
        Path::new(path)
            .file_name()
            .is_some_and(|file| file.to_string_lossy().contains(stem))
    };
    // `llama-3.1-8b` has a point of its own: the longest stem that a file has wins.
    let longest = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let by_longest = traces.iter().find(|path| path.contains(longest));
    by_longest.or_else(|| traces.iter().find(of)).cloned()
}

fn scenario(row: &Measured, plan: Result<Plan, String>) -> String {
    match plan {
        Ok(plan) => {
            let assumed: String = plan
                .assumptions
                .iter()
                .map(|what| format!("# assumed: {what}\n"))
                .collect();
            format!("# {}\n{assumed}{}\n", row.place, plan.scenario)
        }
        Err(reason) => not_modelled(&row.place, &reason),
    }
}

fn not_modelled(place: &str, reason: &str) -> String {
    format!("# {place}: not modelled, {reason}\n\n")
}

/// The calibration that is scored.
fn timed_by(name: &str) -> anyhow::Result<TimedBy> {
    Ok(TimedBy::new(name, inputs::calibration(name)?))
}

/// Compares the only row that is left with the record of its run.
fn by_request(
    args: &Args,
    path: &str,
    rows: &[Measured],
    plan: &dyn Fn(&Measured) -> Result<Plan, String>,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let [row] = rows else {
        terminal.error(&anyhow::anyhow!(
            "`--requests` is of one run and {} rows are left: choose one by `--family` and `--only`",
            rows.len()
        ));
        return Ok(Exit::BadInput.into());
    };
    let until_compared = interrupt::at_once();
    let compared = || -> anyhow::Result<Requests> {
        let recorded = requests::read_requests(path, &text_of(path)?)?;
        let samples = match &args.series {
            Some(path) => requests::read_series(path, &text_of(path)?)?,
            None => Vec::new(),
        };
        check_places(args)?;
        Ok(requests::compare(row, plan(row), recorded, samples, &Disk)?)
    };
    let compared = match compared() {
        Ok(compared) => compared,
        Err(error) => {
            terminal.error(&error);
            return Ok(Exit::BadInput.into());
        }
    };
    drop(until_compared);
    let width = terminal.width().filter(|_| args.output.is_none());
    let text = match args.format {
        Format::Text => validated_requests::text(&compared, width),
        Format::Md => validated_requests::md(&compared),
        Format::Json => validated_requests::json(&compared),
        Format::Csv => validated_requests::csv(&compared),
    };
    files::put(&text, args.output.as_deref(), out)?;
    let subject = format!("{}, {}", row.setup.family, row.setup.workload);
    let picture = || validated_requests::chart(&compared, &subject);
    draw("state", picture, args, terminal)?;
    Ok(Exit::Ok.into())
}

fn text_of(path: &str) -> anyhow::Result<String> {
    use anyhow::Context;
    String::from_utf8(files::read_result(path)?).with_context(|| format!("cannot read {path}"))
}

/// Finds out beforehand, when all inputs are known, whether everything can be written.
fn check_places(args: &Args) -> anyhow::Result<()> {
    let places = [("--output", &args.output), ("--chart", &args.chart)];
    for (flag, path) in places {
        if let Some(path) = path.as_deref().filter(|path| *path != "-") {
            files::check_file(Path::new(path), flag)?;
        }
    }
    if let Some(folder) = &args.charts {
        files::check_folder(Path::new(folder))?;
    }
    if let Some(ending) = args.chart.as_deref().and_then(ending)
        && !matches!(ending.as_str(), "svg" | "png")
    {
        anyhow::bail!(
            "`--chart {}`: no picture is drawn as .{ending}\n  help: give it an ending of .svg or .png",
            args.chart.as_deref().unwrap_or_default()
        );
    }
    Ok(())
}

fn ending(path: &str) -> Option<String> {
    Some(Path::new(path).extension()?.to_str()?.to_ascii_lowercase())
}

/// Into a file, as SVG, or PNG by its name; into a folder as both.
fn draw(name: &str, picture: impl Fn() -> Picture, args: &Args, terminal: &Terminal) -> anyhow::Result<()> {
    if let Some(path) = &args.chart {
        let bytes = match ending(path).as_deref() {
            Some("png") => picture().png(),
            _ => picture().svg().into_bytes(),
        };
        files::write(Path::new(path), &bytes)?;
        terminal.notes(&[format!("drew {path}")]);
    }
    if let Some(folder) = &args.charts {
        files::save_pictures(folder, &[(name, picture())], terminal)?;
    }
    Ok(())
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
