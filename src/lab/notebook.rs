//! What a student predicted, kept in a file with a receipt.
//!
//! The receipt is a hash of who predicted what, of which lab and when. A student hands it in before running the lab; a prediction that
//! was changed afterwards has another one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::Value;

use super::{Answer, Lab, Student};
use crate::digest::sha256;

/// This program's version.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// The form of the file.
const VERSION: u32 = 1;
/// Hexadecimal digits of a receipt: so many that nobody finds two sets of predictions with one.
const RECEIPT_DIGITS: usize = 24;
/// They are read in groups.
const GROUP: usize = 4;

/// Predictions by the names of their questions.
pub type Predictions = BTreeMap<String, Answer>;

/// A student's file of one lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Notebook {
    /// Which lab.
    pub lab: String,
    /// SHA-256 of the lab's file, of which the predictions are.
    pub digest: String,
    /// Whose.
    pub student: Student,
    /// When they were locked, in universal time.
    pub predicted_at: String,
    /// What was predicted.
    pub predictions: Predictions,
    /// The version of this program that locked them: another may simulate other figures.
    pub program: String,
    /// The hash of all above, as the file has it.
    pub receipt: String,
    /// The sentence at the end.
    pub explanation: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    lab: String,
    digest: String,
    student: String,
    predicted_at: String,
    program: String,
    receipt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
    predictions: BTreeMap<String, Value>,
}

/// The name of the file that a lab's predictions are kept in.
#[must_use]
pub fn file_name(lab: &Lab) -> String {
    format!("lab-{:02}-{}.toml", lab.number, lab.name)
}

impl Notebook {
    /// Locks predictions.
    #[must_use]
    pub fn lock(lab: &Lab, student: Student, predicted_at: String, predictions: Predictions) -> Notebook {
        let mut notebook = Notebook {
            lab: lab.name.clone(),
            digest: lab.digest.clone(),
            student,
            predicted_at,
            predictions,
            program: PROGRAM.to_owned(),
            receipt: String::new(),
            explanation: None,
        };
        notebook.receipt = notebook.computed_receipt();
        notebook
    }

    /// Whether nothing was changed since it was locked.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.receipt == self.computed_receipt()
    }

    /// Whether a lab asks for just what is predicted here, and decides it in the same way.
    #[must_use]
    pub fn is_of(&self, lab: &Lab) -> bool {
        let asked: BTreeSet<&String> = lab.questions.iter().map(|question| &question.name).collect();
        let predicted = self.predictions.keys().collect::<BTreeSet<_>>();
        self.lab == lab.name && self.digest == lab.digest && predicted == asked
    }

    fn computed_receipt(&self) -> String {
        let mut lines = String::new();
        let mut line = |text: &str| {
            // Each with its length: no two sets of lines run together to the same text.
            lines += &format!("{} {text}\n", text.len());
        };
        for text in [
            &self.lab,
            &self.digest,
            self.student.id(),
            &self.predicted_at,
            &self.program,
        ] {
            line(text);
        }
        for (name, answer) in &self.predictions {
            line(name);
            match answer {
                Answer::Number(number) => line(&number.to_string()),
                Answer::Choice(choice) => line(choice),
            }
        }
        let digits = sha256(lines.as_bytes());
        let groups = (0..RECEIPT_DIGITS)
            .step_by(GROUP)
            .map(|at| &digits[at..at + GROUP]);
        groups.collect::<Vec<_>>().join("-")
    }

    /// The file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let predictions = self.predictions.iter().map(|(name, answer)| {
            let value = match answer {
                Answer::Number(number) => Value::Float(*number),
                Answer::Choice(choice) => Value::String(choice.clone()),
            };
            (name.clone(), value)
        });
        let written = Written {
            version: VERSION,
            lab: self.lab.clone(),
            digest: self.digest.clone(),
            student: self.student.id().to_owned(),
            predicted_at: self.predicted_at.clone(),
            program: self.program.clone(),
            receipt: self.receipt.clone(),
            explanation: self.explanation.clone(),
            predictions: predictions.collect(),
        };
        let body = toml::to_string(&written).expect("strings and numbers are TOML");
        format!("# Predictions of a lab, locked: the receipt is of what stands here.\n{body}")
    }

    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with its form, in a sentence.
    pub fn read(text: &str) -> Result<Notebook, String> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            let place = line.map_or(String::new(), |line| format!(" (line {line})"));
            format!(
                "it is no file of `plimsoll lab predict`: {}{place}",
                error.message()
            )
        })?;
        if written.version != VERSION {
            return Err(format!(
                "its version is {}, and {VERSION} is what this program reads",
                written.version
            ));
        }
        let words = [
            &written.lab,
            &written.predicted_at,
            &written.receipt,
            &written.program,
        ];
        if words.iter().any(|word| word.chars().any(char::is_control)) {
            return Err("it has control characters where `plimsoll lab predict` writes none".to_owned());
        }
        let mut predictions = Predictions::new();
        for (name, value) in written.predictions {
            let answer = match value {
                Value::Float(number) => Answer::Number(number),
                Value::Integer(number) => Answer::Number(number as f64),
                Value::String(choice) => Answer::Choice(choice),
                _ => return Err(format!("`{name}` is neither a number nor a choice")),
            };
            predictions.insert(name, answer);
        }
        Ok(Notebook {
            lab: written.lab,
            digest: written.digest,
            student: Student::named(&written.student)?,
            predicted_at: written.predicted_at,
            predictions,
            program: written.program,
            receipt: written.receipt,
            explanation: written.explanation,
        })
    }
}
