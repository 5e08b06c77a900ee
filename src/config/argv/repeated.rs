//! Flags given more than once: the last counts, as in vLLM's argparse, and a note says so.
//!
//! Left out: lists that grow with each flag of our own (`--goodput`, `-L`), where both are meant. In a pasted command a
//! list, too, is replaced, for that is what the program it was written for does.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

/// Which flags the last occurrence replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// Those of one value, and switches.
    Single,
    /// Lists, too.
    All,
}

impl Replaced {
    fn covers(self, arg: &Arg) -> bool {
        let is_single = matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue);
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        !arg.is_positional() && (is_single || (is_list && self == Replaced::All))
    }
}

/// `command` with the last of a repeated flag taken instead of an error.
#[must_use]
pub fn last_wins(command: Command, replaced: Replaced) -> Command {
    command.mut_args(|arg| {
        let id = arg.get_id().clone();
        match replaced.covers(&arg) {
            true => arg.overrides_with(id),
            false => arg,
        }
    })
}

/// The occurrences of a flag.
#[derive(Default)]
struct Given {
    count: usize,
    /// Its last values.
    last: Vec<String>,
    /// They are not all the same.
    is_contradicted: bool,
}

/// A sentence for each flag of `args`, in clap's form, that is given more than once and counts once.
#[must_use]
pub fn repeated(args: &[String], command: &Command, replaced: Replaced) -> Vec<String> {
    let mut given: BTreeMap<&str, Given> = BTreeMap::new();
    let named = |name: &str| {
        let mut all = command.get_arguments().filter(|arg| replaced.covers(arg));
        all.find(|arg| arg.get_long() == Some(name))
    };
    for (at, arg) in args.iter().enumerate().take_while(|(_, arg)| *arg != "--") {
        let Some(flag) = arg.strip_prefix("--") else {
            continue;
        };
        let (name, attached) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (flag, None),
        };
        let Some(known) = named(name) else { continue };
        let following = || {
            args[at + 1..]
                .iter()
                .take_while(|next| !next.starts_with("--"))
                .cloned()
        };
        let value = match (attached, known.get_action()) {
            (Some(value), _) => vec![value],
            (None, ArgAction::SetTrue) => Vec::new(),
            (None, ArgAction::Append) => following().collect(),
            (None, _) if known.is_require_equals_set() => vec!["true".to_owned()],
            (None, _) => following().take(1).collect(),
        };
        let all = given.entry(name).or_default();
        all.is_contradicted |= all.count > 0 && all.last != value;
        all.count += 1;
        all.last = value;
    }
    // A switch that is thrown twice is as it would be once.
    let is_thrown_twice = |all: &Given| all.last.is_empty() || (all.last == ["true"] && !all.is_contradicted);
    let often = given
        .into_iter()
        .filter(|(_, all)| all.count > 1 && !is_thrown_twice(all));
    often
        .map(|(name, Given { count, last, .. })| {
            let times = if count == 2 {
                "twice".to_owned()
            } else {
                format!("{count} times")
            };
            format!(
                "--{name} is given {times}: the last, {}, counts, as in vLLM",
                last.join(" ")
            )
        })
        .collect()
}
