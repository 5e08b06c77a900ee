//! Values of flags that cannot be read at all, told together with those that can be read and not honoured.
//!
//! Who reads a command line stops at the first value that is none. It is then noted, something stands in for it, and reading
//! starts again, as it does with files; each round removes such a value, so it ends.
//!
//! Left out: values of positional arguments and of flags that are given without a name. Law: what is told of the other values
//! does not depend on what stands in.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Command;
use super::disk::Disk;
use super::run::read;
use crate::config::{Diagnostic, Diagnostics, Place, resolve};

/// Flags without which others would be missing, each with a value that goes with nearly all others; all other flags are left
/// out.
const STAND_IN: [(&str, &str); 6] = [
    ("--input-len", "2"),
    ("--output-len", "2"),
    ("--random-input-len", "2"),
    ("--random-output-len", "2"),
    ("--num-prompts", "100"),
    ("--request-rate", "1"),
];

/// What the arguments, without the program's name, say.
pub(super) fn matches(rules: &clap::Command, args: &[String]) -> Result<clap::ArgMatches, clap::Error> {
    let whole = std::iter::once("plimsoll".to_owned()).chain(args.iter().cloned());
    rules.clone().try_get_matches_from(whole)
}

/// What the arguments say without the values that cannot be read, and what is wrong with each of these; `first` is of the first.
/// `None` where something else is wrong, too.
pub(super) fn without_unreadable(
    rules: &clap::Command,
    args: &[String],
    first: &clap::Error,
) -> Option<(clap::ArgMatches, Vec<Diagnostic>)> {
    let mut args = args.to_vec();
    let mut problems = vec![replaced(&mut args, first)?];
    loop {
        match matches(rules, &args) {
            Ok(matches) => return Some((matches, problems)),
            Err(error) => problems.push(replaced(&mut args, &error)?),
        }
    }
}

/// Takes the value that an error is about out of the arguments; what is wrong with it.
fn replaced(args: &mut Vec<String>, error: &clap::Error) -> Option<Diagnostic> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = of(ContextKind::InvalidArg)?.split([' ', '=']).next()?.to_owned();
    let value = of(ContextKind::InvalidValue)?.to_owned();
    // It is of all commands and takes three words: another one is the command's name, whose flag stands without a value.
    if flag == "--color" {
        return None;
    }
    let attached = format!("{flag}={value}");
    let at = args.iter().position(|arg| *arg == attached);
    let apart = args
        .windows(2)
        .position(|pair| pair[0] == flag && pair[1] == value);
    match (at, apart) {
        (Some(at), _) => drop(args.remove(at)),
        (None, Some(at)) => drop(args.drain(at..at + 2)),
        (None, None) => return None,
    }
    if let Some((flag, value)) = STAND_IN.iter().find(|(name, _)| *name == flag) {
        args.push(format!("{flag}={value}"));
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next()?.trim_start_matches("error: ").to_owned();
    let is_help = |line: &&str| line.starts_with("tip: ") || line.starts_with("[possible values");
    let problem = Diagnostic::new(message).at(Place::Flag(flag));
    Some(lines.filter(is_help).fold(problem, |problem, help| {
        problem.help(help.trim_start_matches("tip: "))
    }))
}

/// The same problems with those of the command line's other values.
pub(super) fn with_others(
    mut problems: Vec<Diagnostic>,
    command: &Command,
    of_spelling: Vec<Diagnostic>,
) -> Diagnostics {
    let unreadable: Vec<Place> = problems.iter().map(|problem| problem.place.clone()).collect();
    problems.extend(of_spelling);
    let others = wrong(command);
    // What is missing, or does not fit, may be so for what stands in.
    let is_given = |problem: &Diagnostic| {
        problem.misfit.is_none() && problem.place != Place::Nowhere && !unreadable.contains(&problem.place)
    };
    for problem in others.into_iter().filter(is_given) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Diagnostics(problems)
}

/// What is wrong with the other values of a command that simulates one scenario.
fn wrong(command: &Command) -> Vec<Diagnostic> {
    let input = match command {
        Command::Run(args) => read(&args.scenario, &args.output),
        Command::Knee(args) => args.axes.first(&args.scenario, &args.output),
        Command::Sweep(args) => args.axes.first(&args.scenario, &args.output),
        _ => return Vec::new(),
    };
    match input {
        Err(problems) => problems.0,
        Ok(input) => resolve(input.document, &Disk).map_or_else(|problems| problems.0, |_| Vec::new()),
    }
}
