//! `plimsoll sweep`: one run for each combination of values.

use std::hash::Hasher;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

use super::Exit;
use super::disk::Disk;
use super::progress::Progress;
use super::run::{Format, OutputFlags, Outputs, read};
use super::terminal::Terminal;
use super::{files, interrupt, present};
use crate::analysis::simulate;
use crate::config::axes::{self, Axis, Cell};
use crate::config::{Assembled, Diagnostic, Diagnostics, Resolved, resolve, resolved_toml};
use crate::metrics::Records;
use crate::report::json::Arrays;
use crate::report::{self, sweep::SweepRow};
use crate::sweep::{self, Finished};

/// What to vary.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll sweep course-week1
  plimsoll sweep quickstart -L gpu h100,l40s -S request-rate 2..16 step 2 --format csv -o grid.csv
  plimsoll sweep matrix-d -L max-num-seqs 8,16,32 -L max-num-batched-tokens 2048,4096,8192 --link
  plimsoll sweep quickstart -L request-rate 2,4,8 --partition slice:1/3

With -o FILE.jsonl finished runs are kept as they come: after an interruption the same command goes on from there.

An axis is a flag's name or a key path of the scenario file; axes given here replace those of its [sweep].")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: crate::config::flags::ScenarioFlags,
    /// An axis by its values: `-L request-rate 4,8,16`.
    #[arg(short = 'L', long = "list", num_args = 2, value_names = ["NAME", "VALUES"], help_heading = "Axes")]
    pub lists: Vec<String>,
    /// An axis by its range, ends included: `-S request-rate 2..32 step 2`.
    #[arg(short = 'S', long = "steps", num_args = 4, value_names = ["NAME", "FROM..TO", "step", "BY"], help_heading = "Axes")]
    pub steps: Vec<String>,
    /// Advance all axes together instead of taking every combination.
    #[arg(long, help_heading = "Axes")]
    pub link: bool,
    /// Run only part m of n: slice:m/n, or slurm to read the array task's environment.
    #[arg(long, value_name = "PART", help_heading = "Axes")]
    pub partition: Option<String>,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// One run of a sweep.
pub struct Planned {
    /// Its number among all cells, also those of other parts.
    pub index: usize,
    /// Axis and value.
    pub labels: Vec<(String, String)>,
    /// The run.
    pub resolved: Resolved,
}

impl Args {
    fn axes(&self, input: &Assembled) -> Result<Vec<Axis>, Diagnostics> {
        let lists = self
            .lists
            .chunks_exact(2)
            .map(|pair| Axis::list(&pair[0], &pair[1]));
        let steps = self.steps.chunks_exact(4).map(|four| match four[2].as_str() {
            "step" => Axis::steps(&four[0], &four[1], &four[3]),
            other => Err(
                Diagnostic::new(format!("`-S`: the third word is `step`, not `{other}`"))
                    .help("write it like -S request-rate 2..32 step 2"),
            ),
        });
        let given: Vec<Axis> = lists.chain(steps).collect::<Result<_, _>>()?;
        let axes = if given.is_empty() {
            axes::of_scenario(&input.document)?
        } else {
            given
        };
        if axes.is_empty() {
            return Err(Diagnostic::new("nothing varies")
                .help("give an axis, -L request-rate 4,8,16, or a [sweep] in the scenario")
                .into());
        }
        Ok(axes)
    }

    fn plan(&self, input: &Assembled, part: (usize, usize)) -> Result<Vec<Planned>, Diagnostics> {
        let cells = axes::cells(&input.document, &self.axes(input)?, self.link)?;
        let mut planned = Vec::new();
        let mut problems: Vec<Diagnostic> = Vec::new();
        for (index, Cell { labels, document }) in cells
            .into_iter()
            .enumerate()
            .filter(|(index, _)| index % part.1 == part.0)
        {
            match resolve(document, &Disk) {
                Ok(resolved) => planned.push(Planned {
                    index,
                    labels,
                    resolved,
                }),
                // The same mistake in every cell is one mistake.
                Err(wrong) => problems.extend(
                    wrong
                        .0
                        .into_iter()
                        .filter(|problem| !problems.contains(problem))
                        .collect::<Vec<_>>(),
                ),
            }
        }
        if problems.is_empty() {
            Ok(planned)
        } else {
            Err(Diagnostics(problems))
        }
    }
}

/// Reads `slice:m/n` (m from 1) or the environment of a Slurm array; part and number of parts, from 0.
fn partition(text: &str, environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<(usize, usize)> {
    if text == "slurm" {
        let number = |name: &str| environment(name).and_then(|value| value.parse::<usize>().ok());
        let all = (
            number("SLURM_ARRAY_TASK_ID"),
            number("SLURM_ARRAY_TASK_COUNT"),
            number("SLURM_ARRAY_TASK_MIN").unwrap_or(0),
        );
        return match all {
            (Some(id), Some(count), first) if id >= first && id - first < count => Ok((id - first, count)),
            _ => anyhow::bail!(
                "--partition slurm needs SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT of a job array"
            ),
        };
    }
    let parts = text.strip_prefix("slice:").and_then(|rest| rest.split_once('/'));
    match parts.map(|(part, count)| (part.parse::<usize>(), count.parse::<usize>())) {
        Some((Ok(part), Ok(count))) if part >= 1 && part <= count => Ok((part - 1, count)),
        _ => anyhow::bail!("--partition `{text}`: write slice:m/n with m from 1 to n, or slurm"),
    }
}

/// Runs the command.
///
/// # Errors
/// Flags of the output that are wrong, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let part = match &args.partition {
        Some(text) => partition(text, |name| std::env::var(name).ok())?,
        None => (0, 1),
    };
    let planned = read(&args.scenario, true).and_then(|input| Ok((args.plan(&input, part)?, input)));
    let (planned, input) = match planned {
        Ok(planned) => planned,
        Err(problems) => {
            terminal.problems(&problems);
            return Ok(Exit::BadInput.into());
        }
    };
    let outputs = args
        .output
        .resolve(&input.results, args.scenario.bench_cmd.is_some())?;
    terminal.notes(&input.notes);
    if args.output.dry_run {
        for cell in &planned {
            let labels: Vec<String> = cell
                .labels
                .iter()
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            writeln!(out, "{}  {}", cell.index, labels.join(", "))?;
        }
        return Ok(Exit::Ok.into());
    }
    execute(&planned, &outputs, out, terminal)
}

/// Simulates every cell and prints. With `-o FILE.jsonl` finished cells are kept as they come, and a sweep that was
/// interrupted goes on where it stopped.
fn execute(
    planned: &[Planned],
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let is_jsonl = outputs.format == Format::Jsonl
        || outputs
            .file
            .as_deref()
            .is_some_and(|path| path.ends_with(".jsonl"));
    let cells: Vec<sweep::Cell> = planned
        .iter()
        .map(|cell| {
            let mut settings = cell.labels.clone();
            if is_jsonl {
                // A file of another scenario with the same axes must not be taken for this one's.
                settings.push(("scenario".to_owned(), fingerprint(&cell.resolved)));
            }
            sweep::Cell {
                index: cell.index,
                settings,
            }
        })
        .collect();
    let kept = outputs.file.as_deref().filter(|path| is_jsonl && *path != "-");
    let (finished, mut file) = match kept {
        Some(path) => resume(path, &cells, terminal)?,
        None => (Finished::default(), None),
    };
    let mut progress = Progress::new(terminal, Some(cells.len() as u64), "runs");
    let by_index: std::collections::BTreeMap<usize, &Planned> =
        planned.iter().map(|cell| (cell.index, cell)).collect();
    let results = sweep::run(
        &cells,
        finished,
        |cell| one(by_index[&cell.index], outputs),
        |told| {
            progress.at(told.done as u64);
            if let Some(file) = &mut file {
                // A line that cannot be kept is simulated again next time; the result itself is not lost.
                let _ = file.write_all(told.line.as_bytes());
            }
        },
    );
    drop(progress);
    let results: Vec<serde_json::Value> = match results {
        Ok(results) => results,
        Err(CellError::Interrupted) => {
            terminal.notes(&[match kept {
                Some(path) => format!("interrupted; the same command goes on from {path}"),
                None => "interrupted, and finished runs are lost: -o FILE.jsonl keeps them".to_owned(),
            }]);
            return Ok(Exit::Interrupted.into());
        }
        Err(CellError::Json(error)) => return Err(error.into()),
    };
    if is_jsonl {
        let text = sweep::to_jsonl(&cells, &results)?;
        files::put(&text, outputs.file.as_deref(), out)?;
        return Ok(Exit::Ok.into());
    }
    let rows: Vec<SweepRow<'_>> = cells
        .iter()
        .zip(&results)
        .map(|(cell, run)| SweepRow {
            settings: &cell.settings,
            run,
        })
        .collect();
    let is_csv =
        outputs.format == Format::Csv || outputs.file.as_deref().is_some_and(|path| path.ends_with(".csv"));
    let text = match outputs.format {
        _ if is_csv => report::sweep::csv(&rows),
        Format::Json => serde_json::to_string(&results)? + "\n",
        Format::Md => report::sweep::md(&rows),
        _ => report::sweep::text(&rows),
    };
    files::put(&text, outputs.file.as_deref(), out)?;
    Ok(Exit::Ok.into())
}

/// A short name of everything that a run depends on.
fn fingerprint(resolved: &Resolved) -> String {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(resolved_toml(resolved).as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Why a cell has no result.
#[derive(Debug)]
enum CellError {
    Interrupted,
    Json(serde_json::Error),
}

impl From<serde_json::Error> for CellError {
    fn from(error: serde_json::Error) -> CellError {
        CellError::Json(error)
    }
}

/// One run, as vLLM's client would report it.
fn one(cell: &Planned, outputs: &Outputs) -> Result<serde_json::Value, CellError> {
    let experiment = present::experiment(&cell.resolved, Records::None);
    let outcome = simulate(&cell.resolved.scenario, &experiment, |_| !interrupt::is_asked());
    if outcome.is_interrupted || interrupt::is_asked() {
        return Err(CellError::Interrupted);
    }
    let meta = present::meta(&cell.resolved, outputs, &outcome.result);
    Ok(serde_json::from_str(&report::json::run(
        &outcome.result,
        &meta,
        Arrays::None,
    ))?)
}

/// Reads what an earlier sweep finished and opens its file for more.
fn resume(
    path: &str,
    cells: &[sweep::Cell],
    terminal: &Terminal,
) -> anyhow::Result<(Finished<serde_json::Value>, Option<std::fs::File>)> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    let finished = Finished::read(&text).with_context(|| format!("{path} holds something else"))?;
    if let Some(cell) = finished.foreign(cells) {
        anyhow::bail!(
            "{path} holds runs of another sweep, scenario or seed (`{cell}`)\n  help: write to another file, or delete this one"
        );
    }
    if !finished.is_empty() {
        terminal.notes(&[format!(
            "{path} already holds {} runs; they are not simulated again",
            finished.len()
        )]);
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot write {path}"))?;
    file.set_len(finished.complete_bytes() as u64)
        .with_context(|| format!("cannot write {path}"))?;
    Ok((finished, Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_counted_from_one_by_people() {
        let slice = |text: &str| partition(text, |_| None).ok();
        assert_eq!(slice("slice:1/3"), Some((0, 3)));
        assert_eq!(slice("slice:3/3"), Some((2, 3)));
        for bad in ["slice:0/3", "slice:4/3", "1/3", "slice:a/b", "slurm"] {
            assert_eq!(slice(bad), None, "{bad}");
        }
        let array = |name: &str| {
            Some(
                if name == "SLURM_ARRAY_TASK_ID" {
                    "5"
                } else if name == "SLURM_ARRAY_TASK_COUNT" {
                    "4"
                } else {
                    "2"
                }
                .to_string(),
            )
        };
        assert_eq!(partition("slurm", array).ok(), Some((3, 4)));
    }
}
