//! What clap says of arguments that it does not take, as a problem of ours.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::hint;
use crate::config::diagnostic::{Diagnostic, Place};

/// The problem with arguments at `place`; `within` names what holds them. The first line of clap's message says what is wrong.
pub(in crate::config) fn unparsable(error: &clap::Error, within: &str, place: Place) -> Diagnostic {
    let text = error.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
    let mut problem = Diagnostic::new(format!("in {within}: {first}")).at(place);
    let unknown = unknown(error).and_then(|argument| argument.split('=').next());
    if let Some(meant) = unknown.and_then(hint) {
        // What is spelt nearly so is something else.
        return problem.help(meant);
    }
    for line in lines.map(str::trim) {
        let tip = line.strip_prefix("tip: ");
        if let Some(tip) = tip.filter(|tip| !tip.starts_with("to pass '")) {
            problem = problem.help(tip.to_string());
        }
        let known = line
            .strip_prefix("[possible values: ")
            .and_then(|list| list.strip_suffix(']'));
        if let Some(known) = known {
            problem = problem.help(format!("it takes {known}"));
        }
    }
    problem
}

/// The argument that clap does not know, if that is what is wrong.
pub(in crate::config) fn unknown(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(argument))) => Some(argument),
        _ => None,
    }
}
