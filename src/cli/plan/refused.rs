//! Cells that cannot be run: each a row beside the others, unless no cell can be. What is wrong with all of them alike is no
//! matter of any cell, and is told as of one run.

use serde_json::{Value, json};

use super::Labels;
use crate::config::{Diagnostic, Diagnostics};
use crate::report::knees::{self, Found};
use crate::sweep::object_of;

/// A cell that cannot be run, which is no reason against the others.
pub(in crate::cli) struct Refused {
    /// Its number among all cells.
    pub index: usize,
    /// What names it.
    pub labels: Labels,
    /// All that is wrong is that the model does not fit its machine.
    pub is_misfit: bool,
    /// Why, in a few words.
    pub in_short: String,
    /// What is wrong, and how to mend it: of a misfit, the smallest changes that fit.
    pub why: String,
    problems: Diagnostics,
}

impl Refused {
    pub(super) fn new(index: usize, labels: Labels, problems: Diagnostics) -> Refused {
        let sentence = |problem: &Diagnostic| {
            let why =
                (problem.misfit.as_deref()).map_or_else(|| problem.sentence(), |misfit| misfit.why.clone());
            let help = problem.help.iter();
            help.fold(why, |why, help| why + "; " + help)
        };
        let why: Vec<String> = problems.0.iter().map(sentence).collect();
        let is_misfit = problems.is_misfit();
        Refused {
            index,
            is_misfit,
            in_short: match problems.0.first() {
                Some(first) if !is_misfit => in_short(first, &labels),
                _ => "does not fit".to_owned(),
            },
            labels,
            why: why.join("; "),
            problems,
        }
    }

    /// What became of it, as files spell it.
    pub(in crate::cli) fn verdict(&self) -> &'static str {
        match self.is_misfit {
            true => "does_not_fit",
            false => "refused",
        }
    }

    /// What becomes of it, as a sentence has it.
    pub(in crate::cli) fn fate(&self) -> &'static str {
        match self.is_misfit {
            true => "does not fit",
            false => "is refused",
        }
    }

    /// In the place of a run's object.
    pub(in crate::cli) fn result(&self) -> Value {
        let cell = object_of(&self.labels);
        let verdict = self.verdict();
        json!({"plimsoll": {"verdict": verdict, "cell": cell, "in_short": self.in_short, "why": self.why}})
    }

    /// In the place of a search.
    pub(in crate::cli) fn found(&self) -> Found {
        let why = self.why.clone();
        match self.is_misfit {
            true => Found::DoesNotFit(why),
            false => Found::Refused {
                in_short: self.in_short.clone(),
                why,
            },
        }
    }

    fn name(&self) -> String {
        knees::name(&self.labels)
    }
}

/// A message of a line in a table that names the axes already: `--tensor-parallel-size` is larger than a node is `larger than a
/// node` beside the value of that axis, and of several axes names the one.
fn in_short(problem: &Diagnostic, labels: &Labels) -> String {
    const LONGEST: usize = 48;
    let of_axis = labels.iter().find_map(|(axis, _)| {
        let flag = axis.trim_start_matches('-').replace('_', "-");
        let message = problem.message.strip_prefix(&format!("`--{flag}` "))?;
        Some(match labels.len() {
            1 => message.strip_prefix("is ").unwrap_or(message).to_owned(),
            _ => format!("{flag} {message}"),
        })
    });
    let message = of_axis.unwrap_or_else(|| problem.message.clone());
    if message.chars().count() <= LONGEST {
        return message;
    }
    let mut short = String::new();
    for word in message.split(' ') {
        if short.chars().count() + word.chars().count() > LONGEST {
            break;
        }
        short += word;
        short.push(' ');
    }
    short + "…"
}

/// Values of axes that are wrong by themselves, each told once: no cell could ever use them, so they are mistakes of the command.
pub(super) fn mistakes(all: &[Refused]) -> Vec<Diagnostic> {
    let problems = all.iter().flat_map(|cell| &cell.problems.0);
    let mut mistakes: Vec<Diagnostic> = Vec::new();
    for problem in problems.filter(|problem| problem.is_of_value && problem.place.is_of_axis()) {
        if !mistakes.contains(problem) {
            mistakes.push(problem.clone());
        }
    }
    mistakes
}

/// What is wrong where no cell can be run: first what is wrong with all of them, once and as of one run, and then what is wrong
/// with some, with their names.
pub(super) fn told(all: &[Refused]) -> Diagnostics {
    let mut problems: Vec<(&Diagnostic, Vec<&Refused>)> = Vec::new();
    for cell in all {
        for problem in &cell.problems.0 {
            match problems.iter_mut().find(|(known, _)| *known == problem) {
                Some((_, cells)) => cells.push(cell),
                None => problems.push((problem, vec![cell])),
            }
        }
    }
    let (shared, own): (Vec<_>, Vec<_>) =
        (problems.into_iter()).partition(|(_, cells)| cells.len() == all.len());
    let shared = shared.into_iter().map(|(problem, _)| problem.clone());
    let own = own.into_iter().map(|(problem, cells)| {
        let named = named(&cells);
        Diagnostic {
            // A misfit's message says of its own that a cell does not fit.
            message: match &problem.misfit {
                Some(misfit) => format!("{named} does not fit: {}", misfit.why),
                None => format!("{named}: {}", problem.message),
            },
            ..problem.clone()
        }
    });
    Diagnostics(shared.chain(own).collect())
}

/// What cannot be run, a sentence for each reason.
pub(super) fn notes(all: &[Refused]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Refused>)> = Vec::new();
    for cell in all {
        match reasons.iter_mut().find(|(why, _)| *why == cell.why) {
            Some((_, cells)) => cells.push(cell),
            None => reasons.push((&cell.why, vec![cell])),
        }
    }
    let note = |(why, cells): (&str, Vec<&Refused>)| {
        let fate = match (cells.len(), cells[0].is_misfit) {
            (1, _) => format!("{} and is", cells[0].fate()),
            (_, true) => "do not fit and are".to_owned(),
            (_, false) => "are refused and".to_owned(),
        };
        format!("{} {fate} not simulated: {why}", named(&cells))
    };
    reasons.into_iter().map(note).collect()
}

/// The first cell by its name, and how many more.
fn named(cells: &[&Refused]) -> String {
    match cells {
        [one] => one.name(),
        [first, more @ ..] => format!("{} and {} more", first.name(), more.len()),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Place;

    fn cell(size: &str, problems: Vec<Diagnostic>) -> Refused {
        let labels = vec![("tensor-parallel-size".to_owned(), size.to_owned())];
        Refused::new(0, labels, Diagnostics(problems))
    }

    fn larger(size: u32) -> Diagnostic {
        Diagnostic::new("`--tensor-parallel-size` is larger than a node")
            .label(format!("{size} GPUs; a node has 8"))
            .help("write at most 8")
    }

    #[test]
    fn a_reason_is_short_beside_its_value_and_whole_elsewhere() {
        let one = cell("16", vec![larger(16)]);
        assert_eq!(
            (one.in_short.as_str(), one.verdict()),
            ("larger than a node", "refused")
        );
        assert_eq!(
            one.why,
            "`--tensor-parallel-size` is larger than a node: 16 GPUs; a node has 8; write at most 8"
        );
        let long = Diagnostic::new(
            "no kernel of this engine multiplies weights in that format on cards of that age",
        );
        let long = cell("1", vec![long]).in_short;
        let two = ["gpu", "tensor-parallel-size"].map(|axis| (axis.to_owned(), "16".to_owned()));
        let two = Refused::new(0, two.to_vec(), Diagnostics(vec![larger(16)])).in_short;
        assert_eq!(two, "tensor-parallel-size is larger than a node");
        assert_eq!(long, "no kernel of this engine multiplies weights in …");
        let misfit = cell("1", vec![Diagnostic::new("x").misfit("needs 15.0 GiB")]);
        assert_eq!(
            (misfit.in_short.as_str(), misfit.why.as_str(), misfit.verdict()),
            ("does not fit", "needs 15.0 GiB", "does_not_fit")
        );
    }

    #[test]
    fn a_value_that_means_nothing_is_a_mistake_of_the_command_and_no_cell() {
        let swept = |message: &str| Diagnostic::new(message).at(Place::of_axis("--gpu"));
        let all = [
            cell("1", vec![swept("unknown GPU `foo`").of_value(), larger(1)]),
            cell("2", vec![swept("unknown GPU `foo`").of_value()]),
            cell("3", vec![swept("no kernels for this format")]),
            cell("4", vec![Diagnostic::new("unknown model `x`").of_value()]),
        ];
        assert_eq!(mistakes(&all), [swept("unknown GPU `foo`").of_value()]);
    }

    #[test]
    fn what_all_share_is_told_once_and_the_rest_with_names() {
        let unknown = || Diagnostic::new("unknown model `x`");
        let all = [
            cell("1", vec![unknown()]),
            cell("16", vec![unknown(), larger(16)]),
            cell("32", vec![unknown(), larger(32)]),
        ];
        let messages = |all: &[Refused]| -> Vec<String> {
            told(all).0.into_iter().map(|problem| problem.message).collect()
        };
        assert_eq!(
            messages(&all),
            [
                "unknown model `x`",
                "tensor-parallel-size = 16: `--tensor-parallel-size` is larger than a node",
                "tensor-parallel-size = 32: `--tensor-parallel-size` is larger than a node",
            ]
        );
        assert_eq!(messages(&all[..1]), ["unknown model `x`"]);
        let same = [
            cell("16", vec![larger(16)]),
            cell("17", vec![larger(16)]),
            cell("1", vec![unknown()]),
        ];
        assert_eq!(
            messages(&same)[0],
            "tensor-parallel-size = 16 and 1 more: `--tensor-parallel-size` is larger than a node"
        );
        let notes = notes(&same);
        assert!(
            notes[0].starts_with("tensor-parallel-size = 16 and 1 more are refused and not simulated: `--")
        );
        assert!(notes[1].starts_with("tensor-parallel-size = 1 is refused and is not simulated: unknown"));
    }
}
