//! Arguments that the command does not have: what other tools call so, which command has it, or that a list has commas.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Cli, SPEAK_VLLM, command_of};
use crate::config::{NoFiles, argv, files};
use crate::model::find_checkpoint;
use crate::nearest::nearest;

/// An error about an argument that is unknown says what is meant by it, where that is known.
pub(super) fn explained(mut error: clap::Error, args: &[String]) -> clap::Error {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        let cli = Cli::command();
        let known = cli.get_subcommands().map(clap::Command::get_name);
        if let Some(tip) = of_run(word) {
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        } else if let [near] = nearest(word, known, 1)[..] {
            let near = ContextValue::Strings(vec![near.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
        return error;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let argument = argument.split('=').next().unwrap_or(argument).to_owned();
    let name = command_of(args);
    let speaks_vllm = name.is_some_and(|name| SPEAK_VLLM.contains(&name));
    let cli = Cli::command();
    let own = name.and_then(|name| cli.find_subcommand(name));
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => owners(&argument)
            .or_else(|| argv::hint(&argument).filter(|_| speaks_vllm))
            .or_else(|| one_dash(&argument, args, own))
            .or_else(|| beyond_list(&argument, args)),
        ErrorKind::WrongNumberOfValues => glued_list(args),
        _ => return error,
    };
    if let Some(tip) = tip {
        // What is spelt nearly so is something else.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        if let Some(own) = own {
            let usage = own
                .clone()
                .bin_name(format!("plimsoll {}", own.get_name()))
                .render_usage();
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
    }
    error
}

/// Commands that have a flag.
fn owners(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?;
    let has_it = |sub: &&clap::Command| sub.get_arguments().any(|arg| arg.get_long() == Some(name));
    let cli = Cli::command();
    let owners: Vec<&str> = cli
        .get_subcommands()
        .filter(has_it)
        .map(clap::Command::get_name)
        .collect();
    (!owners.is_empty()).then(|| format!("`--{name}` is a flag of {}", owners.join(", ")))
}

/// A word behind the values of an axis, which are one word.
fn beyond_list(word: &str, args: &[String]) -> Option<String> {
    if word.starts_with("--") {
        return None;
    }
    let is_value =
        |arg: &&String| !arg.starts_with('-') || arg[1..].starts_with(|c: char| c.is_ascii_digit());
    let values_of = |list: usize| {
        args.iter()
            .skip(list + 2)
            .take_while(is_value)
            .collect::<Vec<_>>()
    };
    let lists = (0..args.len()).filter(|&at| args[at] == "-L" || args[at] == "--list");
    let mut lists = lists.map(|list| (list, values_of(list)));
    // The first value is the list itself.
    let (list, values) = lists.find(|(_, values)| values.iter().skip(1).any(|value| *value == word))?;
    let name = &args[list + 1];
    Some(format!(
        "the values of an axis are one word, with commas: -L {name} {}",
        values
            .iter()
            .flat_map(|value| value.split(','))
            .filter(|value| !value.is_empty())
            .collect::<Vec<_>>()
            .join(",")
    ))
}

/// An axis whose name and values are one word, `-L request-rate=2,4`.
fn glued_list(args: &[String]) -> Option<String> {
    let after = |list: usize| args.get(list + 1)?.split_once('=');
    let mut lists = (0..args.len()).filter(|&at| ["-L", "--list"].contains(&args[at].as_str()));
    let (name, values) = lists.find_map(after)?;
    Some(format!(
        "the name of an axis and its values are two words: -L {name} {values}"
    ))
}

/// A long flag behind one dash, which is read as letters: `-request-rate`.
fn one_dash(letter: &str, args: &[String], own: Option<&clap::Command>) -> Option<String> {
    if letter.len() != 2 || !letter.starts_with('-') {
        return None;
    }
    let is_long =
        |name: &str| own.is_some_and(|own| own.get_arguments().any(|arg| arg.get_long() == Some(name)));
    let words = args.iter().map(|arg| arg.split('=').next().unwrap_or(arg));
    let mut words = words
        .filter(|word| word.starts_with(letter))
        .map(|word| word[1..].replace('_', "-"));
    let meant = words.find(|name| is_long(name))?;
    Some(format!("a long flag has two dashes: --{meant}"))
}

/// What a word in the place of a command is: a scenario or a model.
fn of_run(word: &str) -> Option<String> {
    let what = match files::find(word, &NoFiles) {
        Some(_) => "scenario",
        None if word.ends_with(".toml") => "scenario",
        None => find_checkpoint(word).ok().map(|_| "model")?,
    };
    Some(match what {
        "model" => format!(
            "`{word}` is a model: plimsoll fit {word} --gpu h100, or plimsoll run {word} with its traffic"
        ),
        _ => format!("`{word}` is a scenario: plimsoll run {word}"),
    })
}
