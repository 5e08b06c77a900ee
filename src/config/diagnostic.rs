//! What is wrong with an input, where, and how to mend it.
//!
//! A diagnostic about a file points at the bytes; one about a flag names the flag. All problems of an input are
//! reported together, in the order of the input.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// A file's name and text, kept for messages.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As the user knows it.
    pub name: String,
    /// All of it.
    pub text: String,
}

impl SourceFile {
    /// The line of a byte, from 1.
    #[must_use]
    pub fn line_of(&self, byte: usize) -> usize {
        1 + self.text.bytes().take(byte).filter(|&byte| byte == b'\n').count()
    }
}

/// How the flag of a value that an axis sets begins.
pub(super) const SWEPT: &str = "sweep over ";

/// Where an input's value stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: something is missing, or a default is at fault.
    #[default]
    Nowhere,
    /// In the value of a flag, `--request-rate`.
    Flag(String),
    /// In a file.
    File(Arc<SourceFile>, Range<usize>),
}

impl Place {
    /// In the values of an axis.
    #[must_use]
    pub fn of_axis(axis: &str) -> Place {
        Place::Flag(format!("{SWEPT}{axis}"))
    }

    /// Whether it is in the values of one.
    #[must_use]
    pub fn is_of_axis(&self) -> bool {
        matches!(self, Place::Flag(flag) if flag.starts_with(SWEPT))
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A sentence without its final period.
    pub message: String,
    /// What to say at the place itself; may be empty.
    pub label: String,
    /// How to mend it, one line each.
    pub help: Vec<String>,
    /// Where.
    pub place: Place,
    /// Where the input is well-formed and the model does not fit the machine. Boxed, as it is rare and errors are handed on by value.
    pub misfit: Option<Box<Misfit>>,
    /// The value is wrong by itself: a name of nothing, or a number that means none. Nothing beside it could make it right.
    pub is_of_value: bool,
}

/// A model that does not fit its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfit {
    /// Why, without a word of where that was asked.
    pub why: String,
    /// What was assumed or substituted before it was found.
    pub notes: Vec<String>,
    /// The weights fit, and one request of the whole context beside them does not.
    pub is_of_context: bool,
}

impl Diagnostic {
    /// A problem that no place in the input shows.
    pub fn new(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            message: message.into(),
            label: String::new(),
            help: Vec::new(),
            place: Place::Nowhere,
            misfit: None,
            is_of_value: false,
        }
    }

    /// Says that the value is wrong whatever stands beside it.
    #[must_use]
    pub fn of_value(mut self) -> Diagnostic {
        self.is_of_value = true;
        self
    }

    /// Says that the input is well-formed and the machine too small, and why.
    #[must_use]
    pub fn misfit(mut self, why: impl Into<String>) -> Diagnostic {
        let why = why.into();
        self.misfit = Some(Box::new(Misfit {
            why,
            ..Misfit::default()
        }));
        self
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, place: Place) -> Diagnostic {
        self.place = place;
        self
    }

    /// Says what stands there.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a way to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// What is wrong, and why where the place says it, in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.label.as_str() {
            "" => self.message.clone(),
            why => format!("{}: {why}", self.message),
        }
    }

    /// The message as one renders it for a terminal, with or without colour.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let label = readable(&self.label);
        let help: Vec<String> = self.help.iter().map(|help| readable(help)).collect();
        let notes = self.misfit.iter().flat_map(|misfit| &misfit.notes);
        let notes: Vec<String> = notes.map(|note| readable(note)).collect();
        let title = match (&self.place, self.label.is_empty()) {
            (Place::File(..), _) | (_, true) => readable(&self.message),
            _ => format!("{}: {label}", readable(&self.message)),
        };
        let name = match &self.place {
            Place::File(file, _) => readable(&file.name),
            _ => String::new(),
        };
        let mut problem = Group::with_title(Level::ERROR.primary_title(title));
        if let Place::File(file, span) = &self.place {
            let annotation = AnnotationKind::Primary.span(span.clone());
            let annotation = if self.label.is_empty() {
                annotation
            } else {
                annotation.label(&label)
            };
            problem = problem.element(
                Snippet::source(file.text.as_str())
                    .path(name.as_str())
                    .annotation(annotation),
            );
        }
        let mut report = vec![problem];
        if matches!(self.place, Place::File(..)) {
            for help in &help {
                report.push(Group::with_title(Level::HELP.secondary_title(help)));
            }
            for note in &notes {
                report.push(Group::with_title(Level::NOTE.secondary_title(note)));
            }
        } else {
            let helped = help.iter().map(|help| Level::HELP.message(help));
            let helped = helped.chain(notes.iter().map(|note| Level::NOTE.message(note)));
            report[0] = std::mem::replace(&mut report[0], Group::with_level(Level::ERROR)).elements(helped);
        }
        renderer.render(&report)
    }
}

/// Text with its control characters spelt out, so that what a file or a flag holds cannot steer a terminal.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Words of more characters are names that nobody gave on purpose: a file's content in place of its path.
const WORD_MAX: usize = 256;
/// Characters that are shown of one.
const WORD_SHOWN: usize = 80;

/// The same without the rest of words that would fill a screen: a message is read.
#[must_use]
pub fn readable(text: &str) -> String {
    let shortened = |word: &str| {
        if word.chars().count() <= WORD_MAX {
            return word.to_owned();
        }
        let shown: String = word.chars().take(WORD_SHOWN).collect();
        // What stands behind a name, as its closing quote, stays.
        let is_behind = |c: char| c.is_whitespace() || c.is_ascii_punctuation();
        let behind = &word[word.trim_end_matches(is_behind).len()..];
        let behind = if behind.len() < WORD_SHOWN { behind } else { "" };
        format!("{shown}…{behind}")
    };
    let visible = visible(text);
    visible
        .split_inclusive(char::is_whitespace)
        .map(shortened)
        .collect()
}

/// Every problem of an input; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Whether nothing is wrong but that the model does not fit.
    #[must_use]
    pub fn is_misfit(&self) -> bool {
        self.0.iter().all(|problem| problem.misfit.is_some())
    }

    /// All messages, a blank line between two.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let parts: Vec<String> = self
            .in_order()
            .iter()
            .map(|diagnostic| diagnostic.render(colour))
            .collect();
        parts.join("\n\n")
    }

    /// Problems of a file in the order of its lines, where the first of them stood; all others keep their places. They are
    /// found key by key in the order in which keys are judged.
    fn in_order(&self) -> Vec<&Diagnostic> {
        let start = |problem: &&Diagnostic| match &problem.place {
            Place::File(file, span) => Some((file.name.clone(), span.start)),
            _ => None,
        };
        let mut of_files: Vec<&Diagnostic> =
            self.0.iter().filter(|problem| start(problem).is_some()).collect();
        of_files.sort_by_key(start);
        let mut of_files = of_files.into_iter();
        let next = |problem| match start(&problem) {
            Some(_) => of_files.next().unwrap_or(problem),
            None => problem,
        };
        self.0.iter().map(next).collect()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Diagnostics {
        Diagnostics(vec![one])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::readable;
    use crate::config::{Document, NoFiles, resolve};

    #[test]
    fn a_word_that_would_fill_the_screen_is_cut() {
        let name = "x".repeat(100_000);
        let told = readable(&format!("no model `{name}` is\nbundled\u{7}"));
        assert_eq!(
            told,
            format!("no model `{}…` is\nbundled\\u{{7}}", "x".repeat(79))
        );
        let path = format!("/{}/scenario.toml", "folder/".repeat(30));
        assert_eq!(readable(&path), path);
    }

    #[test]
    fn problems_of_a_file_are_told_from_its_top_to_its_end() {
        let engine = "[engine]\ngpu_memory_utilization = 92\nblock_size = 0\n";
        let machine = "[cluster]\ngpu = \"h100\"\ntensor_parallel_size = 0\n[model]\nname = \"Llama-3.1-8B-Instruct\"\n";
        let traffic = "[workload]\nnum_prompts = 0\n[workload.arrivals.poisson]\nrequest_rate = -1.0\n\
                       [workload.lengths.fixed]\ninput_len = 0\noutput_len = 10\n";
        for parts in [
            [engine, machine, traffic],
            [traffic, engine, machine],
            [machine, traffic, engine],
        ] {
            let document = Document::parse("it.toml", &parts.concat()).unwrap();
            let told = resolve(document, &NoFiles).map(|_| ()).unwrap_err().to_string();
            let lines: Vec<u32> = told
                .split("it.toml:")
                .skip(1)
                .map(|rest| rest.split(':').next().unwrap().parse().unwrap())
                .collect();
            assert!(lines.len() >= 5 && lines.is_sorted(), "{lines:?}\n{told}");
        }
    }
}
