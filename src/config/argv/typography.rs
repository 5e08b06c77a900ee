//! Signs that word processors and slides put in the place of what was typed: long dashes before flags, curly quotes around words.
//!
//! What is meant is read on, so that all else that is wrong is told with it; law: a command with such a sign is refused.

use super::SHORT;
use crate::config::diagnostic::{Diagnostic, Place};

/// Dashes that are no hyphen, with their names.
const DASHES: [(char, &str); 7] = [
    ('\u{2010}', "a typographic hyphen"),
    ('\u{2011}', "a hyphen that does not break"),
    ('\u{2012}', "a figure dash"),
    ('\u{2013}', "an en dash"),
    ('\u{2014}', "an em dash"),
    ('\u{2015}', "a bar"),
    ('\u{2212}', "a minus sign"),
];
const CURLY: [char; 6] = ['“', '”', '„', '‘', '’', '‚'];
/// Flags whose values are prose.
const PROSE: [&str; 3] = ["--note", "--credit", "--find"];

/// The arguments as they were meant, and what is wrong with each that was not so.
pub(in crate::config) fn meant(args: &[String]) -> (Vec<String>, Vec<Diagnostic>) {
    let mut problems = Vec::new();
    let mut before = "";
    let mut meant = Vec::with_capacity(args.len());
    for arg in args {
        let repaired = match PROSE.contains(&before) || arg.contains(char::is_whitespace) {
            true => None,
            false => unquoted(arg).or_else(|| with_hyphens(arg)),
        };
        meant.push(match repaired {
            Some((repaired, problem)) => {
                problems.push(problem);
                repaired
            }
            None => arg.clone(),
        });
        before = arg;
    }
    (meant, problems)
}

/// A word with curly quotes at its ends, without them.
fn unquoted(arg: &str) -> Option<(String, Diagnostic)> {
    let bare = arg.trim_matches(CURLY);
    let quote = arg.chars().find(|letter| CURLY.contains(letter));
    let quote = quote.filter(|_| bare != arg)?;
    let problem = Diagnostic::new(format!(
        "`{arg}` has a curly quote, {quote}, which no shell takes for one"
    ))
    .at(Place::Flag(arg.to_owned()))
    .help("type straight quotes, \" or '");
    Some((bare.to_owned(), problem))
}

/// A flag behind a dash that is none, with hyphens.
fn with_hyphens(arg: &str) -> Option<(String, Diagnostic)> {
    let is_dash = |letter: char| DASHES.iter().any(|(dash, _)| *dash == letter);
    let rest = arg.trim_start_matches(|letter| letter == '-' || is_dash(letter));
    let dash = arg[..arg.len() - rest.len()]
        .chars()
        .find(|letter| is_dash(*letter))?;
    // A number with a minus sign is a value, which its reader judges.
    rest.starts_with(|first: char| first.is_ascii_alphabetic())
        .then_some(())?;
    let name = rest.split(['=', '.']).next().unwrap_or(rest);
    let is_short = name.len() == 1 || SHORT.iter().any(|(short, _)| short[1..] == *name);
    let flag = format!("{}{rest}", if is_short { "-" } else { "--" });
    let (_, called) = DASHES.iter().find(|(known, _)| *known == dash)?;
    let problem = Diagnostic::new(format!(
        "`{arg}` begins with {called}, {dash}, which is no hyphen"
    ))
    .at(Place::Flag(arg.to_owned()))
    .help(format!("type {flag}"));
    Some((flag, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: &[&str], told: &[&str]) {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let (meant, problems) = meant(&args);
        assert_eq!(meant, expected);
        assert_eq!(problems.len(), told.len(), "{problems:?}");
        for (problem, told) in problems.iter().zip(told) {
            let text = format!("{} {:?}", problem.message, problem.help);
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn signs_of_word_processors_are_named_and_what_is_meant_is_read() {
        check(
            &["–request-rate", "8"],
            &["--request-rate", "8"],
            &["an en dash, –"],
        );
        check(&["—gpu=h100"], &["--gpu=h100"], &["type --gpu=h100"]);
        check(
            &["–tp", "2", "-–gpu"],
            &["-tp", "2", "--gpu"],
            &["type -tp", "type --gpu"],
        );
        check(
            &["“small:", "-tp", "2”"],
            &["small:", "-tp", "2"],
            &["a curly quote, “", "a curly quote, ”"],
        );
    }

    #[test]
    fn what_may_have_such_signs_is_left() {
        for args in [
            &["--note", "“theirs”"][..],
            &["vllm serve –tp 2"],
            &["−5"],
            &["results–2026.json", "it’s.toml"],
        ] {
            check(args, args, &[]);
        }
    }
}
