//! What can be wrong with a trace: every problem has a place, says what is wrong and how to mend it.

use std::fmt;

use super::format::Format;

/// How many problems of one file are told in full; the rest is counted.
pub const PROBLEMS_SHOWN: usize = 10;

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceError {
    /// The file's name, as given.
    pub name: String,
    /// What it was read as, where that was clear.
    pub format: Option<Format>,
    /// The first [`PROBLEMS_SHOWN`] problems in the order of the file.
    pub problems: Vec<Problem>,
    /// How many there are in all.
    pub total: u64,
}

impl std::error::Error for TraceError {}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(format) = self.format {
            write!(f, " (read as {format})")?;
        }
        let mut help_said = "";
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
            if !problem.help.is_empty() && problem.help != help_said {
                write!(f, "\n    help: {}", problem.help)?;
                help_said = &problem.help;
            }
        }
        match self.total.saturating_sub(self.problems.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more like these"),
        }
    }
}

/// One thing wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The column or key, empty where it is about the whole line.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// How to mend it; may be empty.
    pub help: String,
}

impl Problem {
    /// Puts the four parts together.
    pub(super) fn new(
        place: Place,
        field: &str,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Problem {
        Problem {
            place,
            field: field.to_owned(),
            what: what.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File => {}
            Place::Line(line) => write!(f, "line {line}: ")?,
            Place::Item(item) => write!(f, "{item}: ")?,
        }
        if !self.field.is_empty() {
            write!(f, "`{}` ", self.field)?;
        }
        write!(f, "{}", self.what)
    }
}

/// Where in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// An element that has no line of its own: `request 3`, `chunk-0-trace.csv line 7`.
    Item(String),
}

/// Problems as they are found: the first few kept, all counted.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) shown: Vec<Problem>,
    pub(super) total: u64,
}

impl Problems {
    /// Adds one.
    pub(super) fn push(&mut self, problem: Problem) {
        self.total += 1;
        if self.shown.len() < PROBLEMS_SHOWN {
            self.shown.push(problem);
        }
    }

    /// The error that they make.
    pub(super) fn into_error(self, name: &str, format: Option<Format>) -> TraceError {
        TraceError {
            name: name.to_owned(),
            format,
            problems: self.shown,
            total: self.total,
        }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems {
            shown: vec![problem],
            total: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_is_said_once_for_a_run_of_problems() {
        let mut problems = Problems::default();
        for line in 2..15 {
            problems.push(Problem::new(Place::Line(line), "n", "is -1", "drop the row"));
        }
        let text = problems.into_error("t.csv", Some(Format::Azure)).to_string();
        assert_eq!(text.matches("help:").count(), 1);
        assert!(
            text.starts_with(
                "t.csv (read as Azure CSV)\n  line 2: `n` is -1\n    help: drop the row\n  line 3:"
            ),
            "{text}"
        );
        assert!(text.ends_with("and 3 more like these"), "{text}");
    }
}
