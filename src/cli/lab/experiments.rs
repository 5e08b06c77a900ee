//! A lab's commands, run in this process as they are typed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::terminal::Terminal;
use super::super::{Cli, Colour, Command, command, interrupt, parse};
use crate::config::{Diagnostic, Diagnostics};
use crate::lab::Sheet;

/// How far running came.
pub(super) enum Ran {
    /// To the end.
    Whole {
        /// The commands, as they are typed.
        commands: Vec<String>,
        /// What parts of the model they rest on, by how well each is known.
        trust: Vec<String>,
    },
    /// Ctrl-C.
    Cut,
}

impl Ran {
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Ran::Cut)
    }
}

/// Runs a lab's experiments into a sheet: all, or only those that may be known before the prediction.
///
/// # Errors
/// A command that is refused or fails.
pub(super) fn run_those(sheet: &mut Sheet<'_>, before_only: bool) -> anyhow::Result<Ran> {
    let lab = sheet.lab;
    let mut commands = Vec::new();
    let mut trust: BTreeMap<String, BTreeMap<String, ()>> = BTreeMap::new();
    for experiment in lab.experiments.iter().filter(|one| one.before || !before_only) {
        let line = sheet.command(experiment).map_err(super::of_the_lab(lab))?;
        let printed =
            printed(&line).map_err(|error| of_the_experiment(&lab.name, &experiment.name, &line, &error))?;
        if interrupt::is_asked() {
            return Ok(Ran::Cut);
        }
        for (component, mark) in printed["plimsoll"]["trust"].as_object().into_iter().flatten() {
            let mark = mark.as_str().unwrap_or_default().to_owned();
            trust.entry(mark).or_default().insert(component.clone(), ());
        }
        sheet.took(&experiment.name, printed);
        commands.push(format!("plimsoll {line}"));
    }
    let trust = trust.into_iter().map(|(mark, components)| {
        let components: Vec<String> = components.into_keys().collect();
        format!("{mark}: {}", components.join(", "))
    });
    Ok(Ran::Whole {
        commands,
        trust: trust.collect(),
    })
}

fn of_the_experiment(lab: &str, experiment: &str, line: &str, error: &anyhow::Error) -> Diagnostics {
    let why = match error.downcast_ref::<Diagnostics>() {
        Some(problems) => problems
            .0
            .iter()
            .map(Diagnostic::sentence)
            .collect::<Vec<_>>()
            .join("; "),
        None => format!("{error:#}"),
    };
    let problem = Diagnostic::new(format!(
        "experiment `{experiment}` of lab {lab} cannot be run: {why}"
    ));
    problem.help(format!("its command is `plimsoll {line}`")).into()
}

/// What a command prints as JSON. That a run misses its SLO or has no steady state is an answer, too.
fn printed(line: &str) -> anyhow::Result<Value> {
    let words = shlex::split(line).ok_or_else(|| anyhow::anyhow!("a quote is open"))?;
    let forced = ["--format", "json", "--quiet"].map(str::to_owned);
    let args: Vec<String> = words.into_iter().chain(forced).collect();
    let (cli, _, problems) =
        parse(&args).map_err(|error| anyhow::anyhow!("{}", first_line(&error.to_string())))?;
    if let Some(problems) = problems {
        return Err(problems.into());
    }
    if let Some(flag) = writes(&cli) {
        anyhow::bail!("{flag} writes a file or is no result: a lab's commands only print");
    }
    let mut text = Vec::new();
    command(&cli, &mut text, &Terminal::new(Colour::Never, true))?;
    if interrupt::is_asked() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&text).map_err(|error| anyhow::anyhow!("it prints no JSON: {error}"))
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
        _ => return None,
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
