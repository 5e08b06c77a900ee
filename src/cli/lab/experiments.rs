//! A lab's commands, run in this process as they are typed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::ExitCode;

use clap::error::ErrorKind;
use serde_json::Value;

use super::super::terminal::Terminal;
use super::super::{Cli, Colour, Command, Exit, command, interrupt, parse};
use crate::config::{Diagnostic, Diagnostics};
use crate::lab::Sheet;

/// How far running came.
pub(super) enum Ran {
    /// To the end.
    Whole(Whole),
    /// Ctrl-C.
    Cut,
}

/// What was run to the end.
pub(super) struct Whole {
    /// The names of experiments, and their commands as they are typed.
    pub(super) commands: Vec<(String, String)>,
    /// What parts of the model they rest on, by how well each is known.
    pub(super) trust: Vec<String>,
    /// Notes of files that took the place of what ships.
    pub(super) on_disk: Vec<String>,
}

/// Runs experiments, each command once: many students have the same.
#[derive(Default)]
pub(super) struct Runner {
    printed: HashMap<String, Value>,
}

impl Runner {
    /// Most outputs that are kept.
    const KEPT: usize = 500;

    /// Runs a lab's experiments into a sheet: all, or only those that may be known before the prediction.
    ///
    /// # Errors
    /// A command that is refused or fails.
    pub(super) fn run(&mut self, sheet: &mut Sheet<'_>, before_only: bool) -> anyhow::Result<Ran> {
        let lab = sheet.lab;
        let mut commands = Vec::new();
        let mut trust: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut on_disk = BTreeSet::new();
        for experiment in lab.experiments.iter().filter(|one| one.before || !before_only) {
            let line = sheet.command(experiment).map_err(super::of_the_lab(lab))?;
            let told = |error| of_the_experiment(&lab.name, &experiment.name, &line, &error);
            let Some(printed) = self.printed(&line).map_err(told)? else {
                return Ok(Ran::Cut);
            };
            for (component, mark) in trusts(&printed) {
                trust.entry(mark).or_default().insert(component);
            }
            on_disk.extend(notes(&printed).filter(|note| note.contains(ON_DISK)));
            sheet.took(&experiment.name, printed);
            commands.push((experiment.name.clone(), format!("plimsoll {line}")));
        }
        let trust = trust.into_iter().map(|(mark, components)| {
            let components: Vec<String> = components.into_iter().collect();
            format!("{mark}: {}", components.join(", "))
        });
        Ok(Ran::Whole(Whole {
            commands,
            trust: trust.collect(),
            on_disk: on_disk.into_iter().collect(),
        }))
    }

    /// What a command prints as JSON; `None` after Ctrl-C.
    fn printed(&mut self, line: &str) -> anyhow::Result<Option<Value>> {
        if let Some(known) = self.printed.get(line) {
            return Ok(Some(known.clone()));
        }
        let cli = read(line)?;
        let mut text = Vec::new();
        let ended = {
            let _within = interrupt::within();
            command(&cli, &mut text, &Terminal::new(Colour::Never, true))?
        };
        if interrupt::is_asked() {
            return Ok(None);
        }
        // That a run misses its SLO or has no steady state is an answer, too.
        let answers = [Exit::Ok, Exit::NotMet, Exit::NoSteadyState].map(ExitCode::from);
        anyhow::ensure!(answers.contains(&ended), "it failed: run it to see why");
        let printed: Value =
            serde_json::from_slice(&text).map_err(|error| anyhow::anyhow!("it prints no JSON: {error}"))?;
        if self.printed.len() == Runner::KEPT {
            self.printed.clear();
        }
        self.printed.insert(line.to_owned(), printed.clone());
        Ok(Some(printed))
    }
}

/// Reads all commands of a lab and runs none.
///
/// # Errors
/// Every one that is refused by its flags.
pub(super) fn judge(sheet: &Sheet<'_>) -> anyhow::Result<()> {
    let lab = sheet.lab;
    let mut problems = Vec::new();
    for experiment in &lab.experiments {
        let line = sheet.command(experiment).map_err(super::of_the_lab(lab))?;
        if let Err(error) = read(&line) {
            problems.extend(of_the_experiment(&lab.name, &experiment.name, &line, &error).0);
        }
    }
    anyhow::ensure!(problems.is_empty(), Diagnostics(problems));
    Ok(())
}

/// Said of a file that takes the place of what ships.
const ON_DISK: &str = "on disk is used instead";

/// The parts of the model that a result rests on, each with how well it is known; of a sweep, of all its rows.
fn trusts(printed: &Value) -> Vec<(String, String)> {
    let rows = printed
        .as_array()
        .map_or(std::slice::from_ref(printed), Vec::as_slice);
    let of_row = |row: &'_ Value| {
        let found = [&row["plimsoll"]["trust"], &row["trust"]].map(Value::as_object);
        let parts = found.into_iter().flatten().flatten();
        let parts = parts.map(|(part, mark)| (part.clone(), mark.as_str().unwrap_or_default().to_owned()));
        parts.collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

/// What a result says beside its figures.
fn notes(printed: &Value) -> impl Iterator<Item = String> {
    let rows = printed
        .as_array()
        .map_or(std::slice::from_ref(printed), Vec::as_slice);
    let told = rows.iter().flat_map(|row| {
        [&row["plimsoll"]["notes"], &row["notes"]]
            .into_iter()
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
    });
    told.map(str::to_owned)
}

fn of_the_experiment(lab: &str, experiment: &str, line: &str, error: &anyhow::Error) -> Diagnostics {
    let why = sentence(error);
    let problem = Diagnostic::new(format!(
        "experiment `{experiment}` of lab {lab} cannot be run: {why}"
    ));
    problem.help(format!("its command is `plimsoll {line}`")).into()
}

/// A command that prints its result as JSON and does nothing else.
fn read(line: &str) -> anyhow::Result<Cli> {
    let words = shlex::split(line).ok_or_else(|| anyhow::anyhow!("a quote is open"))?;
    let forced = ["--format", "json", "--quiet"].map(str::to_owned);
    let args: Vec<String> = words.into_iter().chain(forced).collect();
    let (cli, _, problems) = parse(&args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => anyhow::anyhow!("it prints help and no result"),
        _ => anyhow::anyhow!("{}", first_line(&error.to_string())),
    })?;
    if let Some(problems) = problems {
        return Err(problems.into());
    }
    match writes(&cli) {
        Some(flag) => anyhow::bail!("{flag} writes a file or is no result: a lab's commands only print"),
        None => Ok(cli),
    }
}

/// An error in one line.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Diagnostics>() {
        Some(problems) => {
            let told: Vec<String> = problems.0.iter().map(Diagnostic::sentence).collect();
            told.join("; ")
        }
        None => format!("{error:#}"),
    }
}

/// Of a message of the command line's reader.
fn first_line(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ")
}

/// A flag by which a command would do something else than print its result.
fn writes(cli: &Cli) -> Option<&'static str> {
    let (output, others): (&super::super::outputs::OutputFlags, &[(bool, &str)]) = match &cli.command {
        Command::Run(args) => (
            &args.output,
            &[
                (args.timeline.timeline.is_some(), "--timeline"),
                (args.metrics.metrics.is_some(), "--metrics"),
            ],
        ),
        Command::Knee(args) => (&args.output, &[]),
        Command::Sweep(args) => (&args.output, &[]),
        Command::Compare(args) => (&args.output, &[]),
        Command::WorkingSet(args) => {
            return [
                (args.output.output.is_some(), "--output"),
                (args.output.charts.is_some(), "--charts"),
            ]
            .into_iter()
            .find_map(|(is_set, flag)| is_set.then_some(flag));
        }
        Command::Fit(_) => return None,
        _ => return Some("another command than those of labs"),
    };
    let common = [
        (output.output.is_some(), "--output"),
        (output.charts.is_some(), "--charts"),
        (output.dry_run, "--dry-run"),
        (output.results.save_result, "--save-result"),
        (output.results.save_detailed, "--save-detailed"),
        (output.results.append_result, "--append-result"),
    ];
    common
        .iter()
        .chain(others)
        .find_map(|(is_set, flag)| is_set.then_some(*flag))
}
