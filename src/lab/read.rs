//! A lab's file, and all that is wrong with one.

mod digest;
mod raw;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use toml::{Spanned, Value};

use self::digest::digest;
use self::raw::{RawExperiment, RawLab, RawQuestion};
use self::references::{Allowed, Use, says_itself, unusable};
use super::arithmetic::SIGNS;
use super::variant::SEED;
use super::{
    Answered, Arithmetic, Best, ByHand, COMMANDS, Experiment, Lab, Question, Reference, Row, Text, Tolerance,
    Varied,
};
use crate::config::diagnostic::SourceFile;
use crate::config::{Diagnostic, Diagnostics, Place};

/// Most named figures: each may hang on another.
const VALUES_MAX: usize = 200;

/// Reads a lab.
///
/// # Errors
/// Everything that is wrong with it; of what is no TOML, or of another shape, the first.
pub fn read(name: &str, text: &str) -> Result<Lab, Diagnostics> {
    let file = Arc::new(SourceFile {
        name: name.to_owned(),
        text: text.to_owned(),
    });
    let raw: RawLab = toml::from_str(text).map_err(|error| {
        let problem = Diagnostic::new(format!("{name} is no lab: {}", error.message()));
        let place = error.span().map_or(Place::Nowhere, |span| Place::File(file.clone(), span));
        Diagnostics::from(problem.at(place).help(
            "`plimsoll lab 1 --source` prints one that ships, to start from; `plimsoll guide labs` explains the keys",
        ))
    })?;
    let mut reader = Reader {
        file,
        problems: Vec::new(),
        uses: Vec::new(),
        values: BTreeMap::new(),
        taken: BTreeSet::new(),
    };
    let lab = reader.lab(raw);
    if reader.problems.is_empty() {
        reader.check(&lab);
    }
    match reader.problems.is_empty() {
        true => Ok(lab),
        false => Err(Diagnostics(reader.problems)),
    }
}

/// Reads one file, and goes on behind what is wrong.
struct Reader {
    file: Arc<SourceFile>,
    problems: Vec<Diagnostic>,
    /// What each text and expression refers to.
    uses: Vec<Use>,
    /// Where each named figure stands.
    values: BTreeMap<String, Range<usize>>,
    /// Names that are taken, by what they are names of.
    taken: BTreeSet<(&'static str, String)>,
}

impl Reader {
    fn wrong(&mut self, span: Range<usize>, message: impl Into<String>, help: &str) {
        let place = Place::File(self.file.clone(), span);
        let problem = Diagnostic::new(message).at(place);
        self.problems.push(match help {
            "" => problem,
            help => problem.help(help),
        });
    }

    fn lab(&mut self, raw: RawLab) -> Lab {
        let digest = digest(&raw);
        if *raw.number.get_ref() == 0 {
            self.wrong(raw.number.span(), "labs are numbered from 1", "");
        }
        self.kebab(&raw.name);
        for line in [&raw.title, &raw.question, &raw.about] {
            if line.get_ref().trim().is_empty() {
                self.wrong(line.span(), "nothing is said here", "");
            }
        }
        let vary = self.vary(raw.vary);
        if let Some((_, last)) = raw.values.last_key_value()
            && raw.values.len() > VALUES_MAX
        {
            let message = format!(
                "{} named figures, and {VALUES_MAX} are the most",
                raw.values.len()
            );
            self.wrong(last.span(), message, "");
        }
        let values = self.values(raw.values);
        let experiments: Vec<Experiment> = raw
            .experiments
            .into_iter()
            .map(|experiment| self.experiment(experiment))
            .collect();
        let questions: Vec<Question> = raw
            .questions
            .into_iter()
            .filter_map(|question| self.question(question))
            .collect();
        if questions.is_empty() && self.problems.is_empty() {
            self.wrong(
                raw.name.span(),
                "the lab asks nothing",
                "write at least one [[questions]]",
            );
        }
        let about = self.text(&raw.about, Allowed::Before);
        let reflect = raw.reflect.map(|text| self.text(&text, Allowed::All));
        Lab {
            number: *raw.number.get_ref(),
            name: raw.name.into_inner(),
            title: raw.title.into_inner(),
            question: raw.question.into_inner(),
            about,
            reflect,
            vary,
            experiments,
            values,
            questions,
            digest,
        }
    }

    fn vary(&mut self, raw: BTreeMap<String, Spanned<Vec<Value>>>) -> BTreeMap<String, Vec<Row>> {
        let mut vary = BTreeMap::new();
        for (name, values) in raw {
            let span = values.span();
            self.identifier(&name, span.clone());
            let values = values.into_inner().into_iter();
            let rows: Option<Vec<Row>> = values.map(|value| row(&name, value)).collect();
            let Some(rows) = rows else {
                let message = format!("`{name}` holds something else than numbers and names");
                let help = "a list of numbers, of names, or of tables with the same names: [{ gpu = \"H100\", tb_s = 3.35 }]";
                self.wrong(span, message, help);
                continue;
            };
            let Some(first) = rows.first() else {
                self.wrong(span, format!("`{name}` has no value to draw"), "");
                continue;
            };
            if rows.iter().any(|row| !row.keys().eq(first.keys())) {
                let help = "each of its tables has the same names";
                self.wrong(
                    span.clone(),
                    format!("the rows of `{name}` have unlike names"),
                    help,
                );
            }
            for drawn in first.keys() {
                self.identifier(drawn, span.clone());
                if drawn == SEED {
                    let help = "use {seed} without listing it";
                    self.wrong(span.clone(), "`seed` is every student's own already", help);
                }
                if !self.taken.insert(("values", drawn.clone())) {
                    self.wrong(span.clone(), format!("`{drawn}` is drawn twice"), "");
                }
            }
            vary.insert(name, rows);
        }
        vary
    }

    fn values(&mut self, raw: BTreeMap<String, Spanned<String>>) -> BTreeMap<String, Arithmetic> {
        let mut values = BTreeMap::new();
        for (name, written) in raw {
            self.identifier(&name, written.span());
            if !self.taken.insert(("values", name.clone())) || name == SEED {
                self.wrong(
                    written.span(),
                    format!("`{name}` is a varied value already"),
                    "give it another name",
                );
            }
            self.values.insert(name.clone(), written.span());
            if let Some(arithmetic) = self.arithmetic(&written) {
                values.insert(name, arithmetic);
            }
        }
        values
    }

    fn experiment(&mut self, raw: RawExperiment) -> Experiment {
        self.identifier(raw.name.get_ref(), raw.name.span());
        self.once("experiments", &raw.name);
        let written = raw.command.get_ref();
        let first = written.split_whitespace().next().unwrap_or_default();
        if !COMMANDS.contains(&first) {
            self.wrong(
                raw.command.span(),
                format!("`{first}` is no command that a lab may run"),
                &format!("begin with {}, without `plimsoll`", COMMANDS.join(", ")),
            );
        }
        let what = self.text(&raw.what, Allowed::Varied);
        let command = self.text(&raw.command, Allowed::Varied);
        Experiment {
            name: raw.name.into_inner(),
            what,
            before: raw.before,
            command,
        }
    }

    fn question(&mut self, raw: RawQuestion) -> Option<Question> {
        let name = raw.name.get_ref().clone();
        let span = raw.name.span();
        self.identifier(&name, span.clone());
        self.once("questions", &raw.name);
        let ask = self.text(&raw.ask, Allowed::Before);
        let because = self.text(&raw.because, Allowed::All);
        let tolerance = self.tolerance(&raw);
        let by_hand = match (&raw.rule, &raw.by_hand) {
            (Some(rule), Some(formula)) => {
                let rule = self.text(rule, Allowed::All);
                let formula = self.arithmetic(formula);
                formula.map(|formula| ByHand { rule, formula })
            }
            (None, None) => None,
            (Some(alone), None) | (None, Some(alone)) => {
                self.wrong(
                    alone.span(),
                    "`rule` and `by_hand` stand together: a formula's name and form, and its figures",
                    "",
                );
                None
            }
        };
        let answer = match (&raw.truth, &raw.choices) {
            (Some(truth), None) => {
                if let Some(of_choice) = raw
                    .scores
                    .as_ref()
                    .map(Spanned::span)
                    .or(raw.best.as_ref().map(Spanned::span))
                {
                    self.wrong(
                        of_choice,
                        "this is of `choices`, and the question has a `truth`",
                        "",
                    );
                }
                let truth = self.arithmetic(truth);
                if tolerance.is_none() {
                    self.wrong(
                        span,
                        format!("`{name}` does not say how near is right"),
                        "add within = 0.2 (a share) or within_points = 5 (in its unit)",
                    );
                }
                Some(Answered::Number {
                    unit: raw.unit.unwrap_or_default(),
                    truth: truth?,
                    tolerance: tolerance?,
                    by_hand,
                })
            }
            (None, Some(choices)) => {
                if let Some(of_figure) = raw
                    .within
                    .as_ref()
                    .or(raw.within_points.as_ref())
                    .map(Spanned::span)
                    .or(raw.by_hand.as_ref().map(Spanned::span))
                {
                    self.wrong(
                        of_figure,
                        "this is of a `truth`, and the question has `choices`",
                        "",
                    );
                }
                self.choice(choices, raw.scores.as_ref(), raw.best.as_ref())
            }
            _ => {
                self.wrong(span, format!("`{name}` has either a `truth` or `choices`"), "");
                None
            }
        };
        Some(Question {
            name,
            ask,
            because,
            answer: answer?,
        })
    }

    fn tolerance(&mut self, raw: &RawQuestion) -> Option<Tolerance> {
        let (given, tolerance) = match (&raw.within, &raw.within_points) {
            (Some(within), None) => (within, Tolerance::Relative(*within.get_ref())),
            (None, Some(within)) => (within, Tolerance::Points(*within.get_ref())),
            (None, None) => return None,
            (Some(within), Some(_)) => {
                self.wrong(within.span(), "either `within` or `within_points`", "");
                return None;
            }
        };
        let is_sound = given.get_ref().is_finite() && *given.get_ref() > 0.0;
        if !is_sound || matches!(tolerance, Tolerance::Relative(share) if share >= 1.0) {
            self.wrong(
                given.span(),
                "a tolerance is above 0, and as a share (`within`) below 1",
                "",
            );
        }
        Some(tolerance)
    }

    fn choice(
        &mut self,
        choices: &Spanned<Vec<String>>,
        scores: Option<&Spanned<BTreeMap<String, Spanned<String>>>>,
        best: Option<&Spanned<Best>>,
    ) -> Option<Answered> {
        let (Some(scores), Some(best)) = (scores, best) else {
            self.wrong(
                choices.span(),
                "`choices` need `scores`, one for each, and `best`: \"largest\" or \"smallest\"",
                "",
            );
            return None;
        };
        let names: BTreeSet<&String> = choices.get_ref().iter().collect();
        if names.len() < 2 || names.len() < choices.get_ref().len() {
            self.wrong(choices.span(), "at least two choices, none of them twice", "");
        }
        if names != scores.get_ref().keys().collect() {
            self.wrong(
                scores.span(),
                "`scores` has one expression for each of `choices`, by its name",
                "",
            );
            return None;
        }
        let scored = choices.get_ref().iter().map(|name| {
            let score = self.arithmetic(&scores.get_ref()[name]);
            score.map(|score| (name.clone(), score))
        });
        Some(Answered::Choice {
            scores: scored.collect::<Option<_>>()?,
            best: *best.get_ref(),
        })
    }

    fn once(&mut self, kind: &'static str, name: &Spanned<String>) {
        if !self.taken.insert((kind, name.get_ref().clone())) {
            let message = format!("another one of the {kind} is called `{}`", name.get_ref());
            self.wrong(name.span(), message, "");
        }
    }

    fn kebab(&mut self, name: &Spanned<String>) {
        let is_kebab = name.get_ref().starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .get_ref()
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !is_kebab {
            self.wrong(
                name.span(),
                "a lab's name has small letters, digits and `-`: it is part of a file's name",
                "",
            );
        }
    }

    fn identifier(&mut self, name: &str, span: Range<usize>) {
        if !matches!(Reference::parse(name), Ok(Reference::Name(_))) {
            self.wrong(
                span,
                format!("`{name}` is no name: small letters, digits and `_`, a letter first"),
                "",
            );
        }
    }

    fn text(&mut self, written: &Spanned<String>, allowed: Allowed) -> Text {
        match Text::parse(written.get_ref().trim()) {
            Ok(text) => {
                let references = text.references().cloned().collect();
                self.uses.push(Use {
                    span: written.span(),
                    references,
                    allowed,
                });
                text
            }
            Err(problem) => {
                self.wrong(written.span(), problem, "");
                Text::default()
            }
        }
    }

    fn arithmetic(&mut self, written: &Spanned<String>) -> Option<Arithmetic> {
        match Arithmetic::parse(written.get_ref()) {
            Ok(arithmetic) => {
                self.uses.push(Use {
                    span: written.span(),
                    references: arithmetic.references().to_vec(),
                    allowed: Allowed::All,
                });
                Some(arithmetic)
            }
            Err(problem) => {
                self.wrong(written.span(), problem, SIGNS);
                None
            }
        }
    }

    /// What hangs together: names that are there, figures that are known in time.
    fn check(&mut self, lab: &Lab) {
        for used in std::mem::take(&mut self.uses) {
            for reference in &used.references {
                if let Some((problem, help)) = unusable(lab, reference, used.allowed) {
                    self.wrong(used.span.clone(), problem, &help);
                }
            }
        }
        for (name, span) in std::mem::take(&mut self.values) {
            if says_itself(lab, &name) {
                self.wrong(span, format!("`{name}` is said by itself"), "");
            }
        }
    }
}

/// A value as a row of one name, or a table as a row; `None` of what is neither number nor name.
fn row(name: &str, value: Value) -> Option<Row> {
    match value {
        Value::Table(row) => row
            .into_iter()
            .map(|(name, value)| Some((name, varied(value)?)))
            .collect(),
        value => Some(Row::from([(name.to_owned(), varied(value)?)])),
    }
}

fn varied(value: Value) -> Option<Varied> {
    match value {
        Value::Integer(number) => Some(Varied::Number(number as f64)),
        Value::Float(number) if number.is_finite() => Some(Varied::Number(number)),
        Value::String(word) => Some(Varied::Word(word)),
        _ => None,
    }
}
