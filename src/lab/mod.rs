//! Labs: a student predicts, the simulator runs, and every figure stands beside the formula that gives it.
//!
//! A [`Lab`] is a file: what to read, commands as they are typed, and questions. A question's answer is arithmetic over the figures that
//! those commands print as JSON, so that no lab needs code and teachers can write their own. What differs from student to student is
//! drawn from their id; what a student predicted is kept in a [`Notebook`] with a receipt that a later change does not fit.
//!
//! Nothing here runs a command: a [`Sheet`] is handed what each one printed.

mod arithmetic;
mod grade;
mod notebook;
mod read;
mod sheet;
pub mod shipped;
mod text;
mod variant;

use std::collections::BTreeMap;
use std::fmt;

pub use arithmetic::Arithmetic;
pub use grade::{ByHandOutcome, Kind, Outcome, grade};
pub use notebook::{Notebook, PROGRAM, Predictions, file_name};
pub use read::read;
pub use sheet::{Missing, Sheet, figure};
pub use text::Text;
pub use variant::{Student, Variant};

/// Commands that a lab may run: those that answer from a scenario and print JSON.
pub const COMMANDS: [&str; 6] = ["run", "knee", "sweep", "compare", "fit", "working-set"];

/// An exercise.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Its place in the course, from 1.
    pub number: u32,
    /// In kebab case, unique.
    pub name: String,
    /// A few words.
    pub title: String,
    /// What it is about, as one question.
    pub question: String,
    /// What to read before predicting.
    pub about: Text,
    /// What to explain in a sentence at the end.
    pub reflect: Option<Text>,
    /// What differs from student to student: of each list one row is drawn, whose names then have its values.
    pub vary: BTreeMap<String, Vec<Row>>,
    /// Its commands, in the order of the file.
    pub experiments: Vec<Experiment>,
    /// Named figures.
    pub values: BTreeMap<String, Arithmetic>,
    /// What is predicted, in the order of the file.
    pub questions: Vec<Question>,
    /// SHA-256 of all that decides its answers, in hexadecimal: texts may be corrected without a new one.
    pub digest: String,
}

/// Values that are drawn together, by their names.
pub type Row = BTreeMap<String, Varied>;

/// A value that differs from student to student.
#[derive(Clone, Debug, PartialEq)]
pub enum Varied {
    /// A number.
    Number(f64),
    /// A name: of a GPU, a model, a scenario.
    Word(String),
}

/// A command of a lab.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What figures are cited by.
    pub name: String,
    /// What it is, as a phrase.
    pub what: Text,
    /// Whether its figures may be told before the prediction.
    pub before: bool,
    /// As it is typed, without the program's name.
    pub command: Text,
}

/// Something to predict.
#[derive(Clone, Debug)]
pub struct Question {
    /// What the prediction is given by.
    pub name: String,
    /// The question.
    pub ask: Text,
    /// Why the answer is what it is.
    pub because: Text,
    /// What kind of answer it has.
    pub answer: Answered,
}

/// What answers a question.
#[derive(Clone, Debug)]
pub enum Answered {
    /// A figure.
    Number {
        /// Its unit, for people.
        unit: String,
        /// The figure.
        truth: Arithmetic,
        /// How far off a prediction may be.
        tolerance: Tolerance,
        /// The formula that gives it, nearly.
        by_hand: Option<ByHand>,
    },
    /// One of several; the one with the largest or the smallest score.
    Choice {
        /// Each with its score, in the order of the file.
        scores: Vec<(String, Arithmetic)>,
        /// Which score wins.
        best: Best,
    },
}

impl Answered {
    /// The figures that decide it.
    fn references(&self) -> impl Iterator<Item = &Reference> {
        let expressions: Vec<&Arithmetic> = match self {
            Answered::Number { truth, .. } => vec![truth],
            Answered::Choice { scores, .. } => scores.iter().map(|(_, score)| score).collect(),
        };
        expressions.into_iter().flat_map(Arithmetic::references)
    }
}

/// How far off a prediction may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// As a share of the simulated figure.
    Relative(f64),
    /// In the figure's own unit.
    Points(f64),
}

impl Tolerance {
    /// Whether `predicted` is near enough to `truth`.
    #[must_use]
    pub fn holds(self, predicted: f64, truth: f64) -> bool {
        let most = match self {
            Tolerance::Relative(share) => share * truth.abs(),
            Tolerance::Points(points) => points,
        };
        (predicted - truth).abs() <= most
    }
}

/// A formula of the books.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Its name and form: "Little's law, L = λ·W".
    pub rule: Text,
    /// With the run's figures.
    pub formula: Arithmetic,
}

/// Which score wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Best {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

/// What braces hold: a figure by its name, or where it stands in what a command prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A varied value or a named figure.
    Name(String),
    /// `experiment:/json/pointer`.
    Printed {
        /// The command.
        experiment: String,
        /// A JSON pointer (RFC 6901) into what it prints.
        pointer: String,
    },
}

impl Reference {
    /// What stands between braces.
    ///
    /// # Errors
    /// If it is neither a name nor a place in a command's output.
    pub fn parse(inner: &str) -> Result<Reference, String> {
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        match inner.split_once(':') {
            Some((experiment, pointer)) if is_name(experiment) && pointer.starts_with('/') => {
                Ok(Reference::Printed {
                    experiment: experiment.to_owned(),
                    pointer: pointer.to_owned(),
                })
            }
            None if is_name(inner) => Ok(Reference::Name(inner.to_owned())),
            _ => Err(format!(
                "`{{{inner}}}` is neither a name ({{rate}}) nor a place in what a command prints ({{loaded:/mean_ttft_ms}})"
            )),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Name(name) => f.write_str(name),
            Reference::Printed { experiment, pointer } => write!(f, "{experiment}:{pointer}"),
        }
    }
}

/// An answer, predicted or simulated.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A figure, in the question's unit.
    Number(f64),
    /// One of the choices.
    Choice(String),
}

impl Lab {
    /// Whether a name differs from student to student.
    #[must_use]
    pub fn varies(&self, name: &str) -> bool {
        let mut lists = self.vary.values();
        lists.any(|rows| rows.first().is_some_and(|row| row.contains_key(name)))
    }

    /// Questions whose answers hang on figures that are told before the prediction, and on no others.
    pub fn told_beforehand(&self) -> impl Iterator<Item = &str> {
        let asks = self
            .questions
            .iter()
            .flat_map(|question| question.ask.references());
        let told = sheet::printed_by(self, self.about.references().chain(asks));
        let known = self.questions.iter().filter(move |question| {
            let hangs_on = sheet::printed_by(self, question.answer.references());
            !hangs_on.is_empty() && hangs_on.is_subset(&told)
        });
        known.map(|question| question.name.as_str())
    }

    /// The question of that name.
    #[must_use]
    pub fn question(&self, name: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.name == name)
    }
}

#[cfg(test)]
mod tests;
