//! Arguments that the command does not have: what other tools call so, which command has it, or that a list has commas.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Cli, SPEAK_VLLM, command_of};
use crate::config::argv;
use crate::nearest::nearest;

/// An error about an argument that is unknown says what is meant by it, where that is known.
pub(super) fn explained(mut error: clap::Error, args: &[String]) -> clap::Error {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        let cli = Cli::command();
        let known = cli.get_subcommands().map(clap::Command::get_name);
        if let [near] = nearest(word, known, 1)[..] {
            let near = ContextValue::Strings(vec![near.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, near);
        }
        return error;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let argument = argument.split('=').next().unwrap_or(argument).to_owned();
    let name = command_of(args);
    let speaks_vllm = name.is_some_and(|name| SPEAK_VLLM.contains(&name));
    let tip = owners(&argument)
        .or_else(|| argv::hint(&argument).filter(|_| speaks_vllm))
        .or_else(|| beyond_list(&argument, args));
    if let Some(tip) = tip {
        // What is spelt nearly so is something else.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        let cli = Cli::command();
        let own = name.and_then(|name| cli.find_subcommand(name));
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
            .map(|value| value.as_str())
            .collect::<Vec<_>>()
            .join(",")
    ))
}
