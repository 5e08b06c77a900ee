//! One student's copy of a lab, with what its commands printed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thiserror::Error;

use super::{Answered, Arithmetic, Experiment, Lab, Reference, Student, Text, Variant, Varied};
use crate::quantity::significant_grouped_to;

/// Why a figure is not to be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// No such name; the reader of a lab refuses those.
    #[error("there is no figure `{0}`")]
    Name(String),
    /// A command that was not run.
    #[error("`{0}` was not run")]
    Unrun(String),
    /// A place that its output does not have.
    #[error("what `{experiment}` prints has nothing at {pointer}{}{}", near(.there), told(.verdict))]
    Pointer {
        /// The command.
        experiment: String,
        /// The place.
        pointer: String,
        /// Keys beside it.
        there: Vec<String>,
        /// Of a run, its verdict: what is not steady has no steady figures.
        verdict: Option<String>,
    },
    /// Something else than a number where arithmetic needs one.
    #[error("`{0}` is not a number: {1}")]
    NotANumber(String, String),
    /// A division by zero, the logarithm of a negative number.
    #[error("`{0}` has no finite value")]
    NotFinite(String),
}

fn near(there: &[String]) -> String {
    match there {
        [] => String::new(),
        keys => format!("; there is {}", keys.join(", ")),
    }
}

fn told(verdict: &Option<String>) -> String {
    match verdict {
        Some(verdict) => format!("; its verdict is {verdict}"),
        None => String::new(),
    }
}

/// A student's copy of a lab.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    /// The exercise.
    pub lab: &'a Lab,
    /// Their values.
    pub variant: Variant,
    printed: BTreeMap<String, Value>,
    measured: BTreeMap<String, Value>,
    /// Named figures that were asked for: each may hang on many, and is computed once.
    named: RefCell<BTreeMap<String, f64>>,
}

impl<'a> Sheet<'a> {
    /// An empty one.
    #[must_use]
    pub fn new(lab: &'a Lab, student: &Student) -> Sheet<'a> {
        Sheet {
            lab,
            variant: Variant::of(lab, student),
            printed: BTreeMap::new(),
            measured: BTreeMap::new(),
            named: RefCell::default(),
        }
    }

    /// Takes what an experiment printed.
    pub fn took(&mut self, experiment: &str, printed: Value) {
        self.printed.insert(experiment.to_owned(), printed);
        self.named.take();
    }

    /// What an experiment printed, if it was run.
    #[must_use]
    pub fn of(&self, experiment: &str) -> Option<&Value> {
        self.printed.get(experiment)
    }

    /// The same sheet with an experiment that was measured: a result in the keys of `vllm bench serve` in place of what was simulated.
    #[must_use]
    pub fn with_measured(&self, experiment: &str, result: Value) -> Sheet<'a> {
        let mut sheet = self.clone();
        sheet.measured.insert(experiment.to_owned(), result);
        sheet.named.take();
        sheet
    }

    /// A command as it is typed, without the program's name.
    ///
    /// # Errors
    /// A figure that is not there.
    pub fn command(&self, experiment: &Experiment) -> Result<String, Missing> {
        experiment.command.filled(|reference| {
            let Reference::Name(name) = reference else {
                return Err(Missing::Name(reference.to_string()));
            };
            match self.variant.get(name) {
                Some(Varied::Number(number)) => Ok(number.to_string()),
                Some(Varied::Word(word)) => Ok(word.clone()),
                None => Err(Missing::Name(name.clone())),
            }
        })
    }

    /// A text with its figures: varied numbers as they are, others with three significant digits.
    ///
    /// # Errors
    /// A figure that is not there.
    pub fn text(&self, text: &Text) -> Result<String, Missing> {
        text.filled(|reference| self.shown(reference, DIGITS))
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// A figure that is not there, or no finite value.
    pub fn value(&self, arithmetic: &Arithmetic) -> Result<f64, Missing> {
        let value = arithmetic.value(|reference| self.number(reference))?;
        if value.is_finite() {
            return Ok(value);
        }
        Err(Missing::NotFinite(
            arithmetic.on_paper(|reference| self.shown(reference, DIGITS))?,
        ))
    }

    /// An expression with its figures, as one writes it on paper.
    ///
    /// # Errors
    /// A figure that is not there.
    pub fn on_paper(&self, arithmetic: &Arithmetic) -> Result<String, Missing> {
        /// One more than figures have elsewhere, so that what stands there gives what stands behind it.
        const DIGITS: usize = 4;
        let mut arithmetic = arithmetic;
        // A name alone says nothing: what it stands for does.
        while let Some(inner) = arithmetic.sole_name().and_then(|name| self.lab.values.get(name)) {
            arithmetic = inner;
        }
        arithmetic.on_paper(|reference| self.shown(reference, DIGITS))
    }

    /// Whether all figures that an answer hangs on were measured, and there are some.
    #[must_use]
    pub(super) fn is_measured(&self, answered: &Answered) -> bool {
        let used = printed_by(self.lab, answered.references());
        let mut experiments = used.iter().map(|(experiment, _)| *experiment);
        !used.is_empty() && experiments.all(|experiment| self.measured.contains_key(experiment))
    }

    fn number(&self, reference: &Reference) -> Result<f64, Missing> {
        match self.figure(reference)? {
            Varied::Number(number) => Ok(number),
            Varied::Word(word) => Err(Missing::NotANumber(reference.to_string(), word)),
        }
    }

    /// A figure for people: varied numbers and whole ones as they are, others with so many significant digits.
    fn shown(&self, reference: &Reference, digits: usize) -> Result<String, Missing> {
        let is_given = matches!(reference, Reference::Name(name) if self.variant.get(name).is_some());
        Ok(match self.figure(reference)? {
            Varied::Number(number) if is_given => exact(number),
            Varied::Number(number) => figure_to(number, digits),
            Varied::Word(word) => word,
        })
    }

    fn figure(&self, reference: &Reference) -> Result<Varied, Missing> {
        match reference {
            Reference::Name(name) => match (self.variant.get(name), self.lab.values.get(name)) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some(arithmetic)) => self.named(name, arithmetic).map(Varied::Number),
                (None, None) => Err(Missing::Name(name.clone())),
            },
            Reference::Printed { experiment, pointer } => self.printed(experiment, pointer),
        }
    }

    fn named(&self, name: &str, arithmetic: &Arithmetic) -> Result<f64, Missing> {
        if let Some(known) = self.named.borrow().get(name) {
            return Ok(*known);
        }
        let value = self.value(arithmetic)?;
        self.named.borrow_mut().insert(name.to_owned(), value);
        Ok(value)
    }

    fn printed(&self, experiment: &str, pointer: &str) -> Result<Varied, Missing> {
        let (found, whole) = match self.measured.get(experiment) {
            // A measurement is of its whole run: there is no other figure of it.
            Some(result) => {
                let key = ["/plimsoll/steady", "/plimsoll/whole"]
                    .iter()
                    .find_map(|part| pointer.strip_prefix(part));
                (result.pointer(key.unwrap_or(pointer)), result)
            }
            None => {
                let whole = self.printed.get(experiment);
                let whole = whole.ok_or_else(|| Missing::Unrun(experiment.to_owned()))?;
                (whole.pointer(pointer), whole)
            }
        };
        match found {
            Some(Value::Number(number)) => Ok(Varied::Number(number.as_f64().unwrap_or(f64::NAN))),
            Some(Value::String(word)) => Ok(Varied::Word(word.clone())),
            Some(other) => Err(Missing::NotANumber(
                format!("{experiment}:{pointer}"),
                other.to_string(),
            )),
            None => Err(Missing::Pointer {
                experiment: experiment.to_owned(),
                pointer: pointer.to_owned(),
                there: beside(whole, pointer),
                verdict: whole["plimsoll"]["verdict"].as_str().map(str::to_owned),
            }),
        }
    }
}

/// Significant digits of figures in texts.
const DIGITS: usize = 3;

/// A figure as texts have it.
#[must_use]
pub fn figure(number: f64) -> String {
    figure_to(number, DIGITS)
}

/// A figure with so many significant digits; a whole number below a million with all it has.
fn figure_to(number: f64, digits: usize) -> String {
    /// Sums of products come this near to the whole number that they are.
    const NEARLY: f64 = 1e-9;
    const WHOLE_MAX: f64 = 1e6;
    // A zero has no sign.
    let whole = number.round() + 0.0;
    let is_whole = number.abs() < WHOLE_MAX && (number - whole).abs() <= NEARLY * whole.abs().max(1.0);
    // All digits of a whole number below a million, and no others.
    let text = match is_whole {
        true => significant_grouped_to(whole, whole.abs().max(1.0).log10() as usize + 1),
        false => significant_grouped_to(number, digits),
    };
    text.replace('-', "−")
}

/// A number as it was given, its thousands apart.
fn exact(number: f64) -> String {
    match number.fract() == 0.0 {
        true => figure(number),
        false => number.to_string().replace('-', "−"),
    }
}

/// The figures of commands that references lead to, directly or through named figures: each an experiment and a place in what it prints.
pub(super) fn printed_by<'a>(
    lab: &'a Lab,
    references: impl IntoIterator<Item = &'a Reference>,
) -> BTreeSet<(&'a str, &'a str)> {
    let mut open: Vec<&Reference> = references.into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(reference) = open.pop() {
        match reference {
            Reference::Printed { experiment, pointer } => {
                found.insert((experiment.as_str(), pointer.as_str()));
            }
            Reference::Name(name) if seen.insert(name) => {
                open.extend(lab.values.get(name).into_iter().flat_map(Arithmetic::references));
            }
            Reference::Name(_) => {}
        }
    }
    found
}

/// What stands where a pointer's last known part leads.
fn beside(whole: &Value, pointer: &str) -> Vec<String> {
    const MOST: usize = 12;
    let mut at = pointer;
    while let Some((parent, _)) = at.rsplit_once('/') {
        at = parent;
        match whole.pointer(at) {
            Some(Value::Object(keys)) => return keys.keys().take(MOST).cloned().collect(),
            Some(Value::Array(items)) => return (0..items.len().min(MOST)).map(|i| i.to_string()).collect(),
            _ => {}
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn whole_numbers_are_whole_and_others_have_three_digits() {
        for (number, told) in [
            (1392.0, "1,392"),
            (32_768.000_000_000_01, "32,768"),
            (6.0, "6"),
            (0.0, "0"),
            (-0.0, "0"),
            (-13.04, "−13.0"),
            (1392.4, "1,390"),
            (2_000_100.0, "2,000,000"),
            (0.012_34, "0.0123"),
            (-2.0, "−2"),
        ] {
            assert_eq!(figure(number), told, "{number}");
        }
    }
}
