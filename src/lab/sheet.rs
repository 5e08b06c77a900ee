//! One student's copy of a lab, with what its commands printed.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use super::{Arithmetic, Experiment, Lab, Reference, Student, Text, Variant, Varied};
use crate::quantity::{grouped, significant_grouped};

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
        }
    }

    /// Takes what an experiment printed.
    pub fn took(&mut self, experiment: &str, printed: Value) {
        self.printed.insert(experiment.to_owned(), printed);
    }

    /// The same sheet with an experiment that was measured: a result in the keys of `vllm bench serve` in place of what was simulated.
    #[must_use]
    pub fn with_measured(&self, experiment: &str, result: Value) -> Sheet<'a> {
        let mut sheet = self.clone();
        sheet.measured.insert(experiment.to_owned(), result);
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
        text.filled(|reference| self.shown(reference))
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
            arithmetic.on_paper(|reference| self.shown(reference))?,
        ))
    }

    /// An expression with its figures, as one writes it on paper.
    ///
    /// # Errors
    /// A figure that is not there.
    pub fn on_paper(&self, arithmetic: &Arithmetic) -> Result<String, Missing> {
        arithmetic.on_paper(|reference| self.shown(reference))
    }

    /// Whether an expression hangs on a figure that was measured.
    #[must_use]
    pub fn is_measured(&self, arithmetic: &Arithmetic) -> bool {
        arithmetic.references().iter().any(|reference| match reference {
            Reference::Printed { experiment, .. } => self.measured.contains_key(experiment),
            Reference::Name(name) => {
                let named = self.lab.values.get(name);
                named.is_some_and(|inner| self.is_measured(inner))
            }
        })
    }

    fn number(&self, reference: &Reference) -> Result<f64, Missing> {
        match self.figure(reference)? {
            Varied::Number(number) => Ok(number),
            Varied::Word(word) => Err(Missing::NotANumber(reference.to_string(), word)),
        }
    }

    fn shown(&self, reference: &Reference) -> Result<String, Missing> {
        let is_given = matches!(reference, Reference::Name(name) if self.variant.get(name).is_some());
        Ok(match self.figure(reference)? {
            Varied::Number(number) if is_given => exact(number),
            Varied::Number(number) => significant_grouped(number),
            Varied::Word(word) => word,
        })
    }

    fn figure(&self, reference: &Reference) -> Result<Varied, Missing> {
        match reference {
            Reference::Name(name) => match (self.variant.get(name), self.lab.values.get(name)) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some(arithmetic)) => self.value(arithmetic).map(Varied::Number),
                (None, None) => Err(Missing::Name(name.clone())),
            },
            Reference::Printed { experiment, pointer } => self.printed(experiment, pointer),
        }
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

/// A number as it was given, its thousands apart.
fn exact(number: f64) -> String {
    if number.fract() == 0.0 {
        grouped(&number.to_string())
    } else {
        number.to_string()
    }
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
