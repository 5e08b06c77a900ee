//! What a lab's answers hang on, as a digest: a prediction is of that, whatever becomes of the texts around it.

use super::raw::{RawLab, RawQuestion};
use crate::digest::sha256;

/// SHA-256 of a lab's name, what it varies, its commands, figures, and how its questions are answered.
pub(super) fn digest(raw: &RawLab) -> String {
    let mut lines = Lines(String::new());
    lines.add("name", raw.name.get_ref());
    for (name, values) in &raw.vary {
        for value in values.get_ref() {
            lines.add(name, &value.to_string());
        }
    }
    for experiment in &raw.experiments {
        lines.add(experiment.name.get_ref(), experiment.command.get_ref());
    }
    for (name, value) in &raw.values {
        lines.add(name, value.get_ref());
    }
    for question in &raw.questions {
        lines.question(question);
    }
    sha256(lines.0.as_bytes())
}

/// Names and values, each with its length, so that no two labs run together to the same text.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: &str) {
        self.0 += &format!("{} {name} {} {value}\n", name.len(), value.len());
    }

    fn question(&mut self, question: &RawQuestion) {
        self.add("question", question.name.get_ref());
        if let Some(truth) = &question.truth {
            self.add("truth", truth.get_ref());
        }
        for (name, within) in [
            ("within", &question.within),
            ("within_points", &question.within_points),
        ] {
            if let Some(within) = within {
                self.add(name, &within.get_ref().to_string());
            }
        }
        for (choice, score) in question.scores.iter().flat_map(|scores| scores.get_ref()) {
            self.add(choice, score.get_ref());
        }
        if let Some(best) = &question.best {
            self.add("best", &format!("{:?}", best.get_ref()));
        }
    }
}
