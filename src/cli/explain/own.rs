//! The user's own questions, `--what-if FLAGS`: one that is misspelt is an error, one that is refused or does not fit a row with its reason.

use super::inquiry::Asked;
use super::questions::Question;
use super::tried::{Common, judge, read, reason, reworded};
use crate::config::variant::Said;
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::explained::Kind;

/// The user's own changes, and those that cannot be tried, with the reason.
#[derive(Default)]
pub(super) struct Own {
    pub(super) asked: Vec<Asked>,
    pub(super) left_out: Vec<(String, String)>,
}

/// What the user asks beside, or in place of, the default questions; `None` of a word that stands for others.
pub(super) fn own_questions(texts: &[String]) -> Result<Vec<(String, Said)>, Diagnostics> {
    let place = || Place::Flag("--what-if".to_owned());
    let mut own: Vec<(String, Said)> = Vec::new();
    let mut problems = Vec::new();
    for text in texts.iter().filter(|text| !is_word(text)) {
        match Said::parse(text) {
            Err(problem) => problems.push(of_change(problem)),
            Ok(said) if said.words.is_empty() => problems.push(
                Diagnostic::new("`--what-if` without flags changes nothing")
                    .at(place())
                    .help("write its flags in quotes: --what-if \"--max-num-seqs 64\""),
            ),
            Ok(said) => {
                let name = said.name.clone().unwrap_or_else(|| said.words.join(" "));
                match own.iter().any(|(known, _)| *known == name) {
                    false => own.push((name, said)),
                    true => problems
                        .push(Diagnostic::new(format!("the change `{name}` is given twice")).at(place())),
                }
            }
        }
    }
    match problems.is_empty() {
        true => Ok(own),
        false => Err(Diagnostics(problems)),
    }
}

/// `default` or `none`.
fn is_word(text: &str) -> bool {
    matches!(text.trim(), "default" | "none")
}

/// What is wrong in a change, in words for one: the reader of its flags knows variants of a comparison.
fn of_change(mut problem: Diagnostic) -> Diagnostic {
    problem.message = reworded(&problem.message);
    problem.help = problem.help.iter().map(|line| reworded(line)).collect();
    match &problem.place {
        Place::Flag(flag) if flag == "VARIANT" => problem.at(Place::Flag("--what-if".to_owned())),
        _ => problem,
    }
}

/// The user's own changes, read and judged.
///
/// # Errors
/// Flags that nobody knows; what is refused or does not fit, where that is so of all of them.
pub(super) fn plan_own(common: Common, questions: Vec<(String, Said)>) -> Result<Own, Diagnostics> {
    let mut own = Own::default();
    let (mut misspelt, mut refused) = (Vec::new(), Vec::new());
    for (name, said) in questions {
        let named = |wrong: Diagnostics| {
            let problems = wrong.0.into_iter().map(of_change);
            let problems = problems.map(|mut problem| {
                if !problem.message.contains("the change `") {
                    problem.message = format!("the change `{name}`: {}", problem.message);
                }
                problem
            });
            problems.collect::<Vec<_>>()
        };
        match read(common, &said).map(judge) {
            Err(wrong) => misspelt.extend(named(wrong)),
            Ok(Err(wrong)) => {
                own.left_out.push((name.clone(), reason(&wrong)));
                refused.extend(named(wrong));
            }
            Ok(Ok(planned)) => own.asked.push(Asked {
                question: Question {
                    name,
                    flags: said.words.join(" "),
                    kind: Kind::Own,
                },
                planned,
            }),
        }
    }
    if !misspelt.is_empty() {
        return Err(Diagnostics(misspelt));
    }
    match own.asked.is_empty() && !refused.is_empty() {
        true => Err(Diagnostics(refused)),
        false => Ok(own),
    }
}
