//! What a page is told: what it begins with, answers, and why there is none.

use serde::Serialize;
use serde_json::value::RawValue;

use super::controls::Group;
use super::stops::{self, Stops};
use crate::report::film::Film;

/// What a page begins with.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct Start {
    pub(super) version: &'static str,
    /// What is simulated.
    pub(in crate::cli) subject: String,
    pub(super) base: String,
    pub(super) groups: Vec<Group>,
}

/// A run.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Ran {
    pub(super) command: String,
    pub(super) said: String,
    pub(super) why: String,
    pub(super) exit: u8,
    pub(super) result: Box<RawValue>,
    /// What times are made of, where they were taken apart.
    pub(super) anatomy: Option<Box<RawValue>>,
    pub(super) groups: Vec<Group>,
    pub(super) subject: String,
    pub(super) film: Option<Film>,
}

impl Ran {
    /// The same for a page on which `axes` alone can be turned.
    pub(in crate::cli) fn kept(self, axes: &[Stops]) -> Ran {
        let groups = stops::settings(self.groups, axes);
        Ran { groups, ..self }
    }

    /// What the command would end with.
    pub(in crate::cli) fn exit(&self) -> u8 {
        self.exit
    }

    /// The answer, as it is printed.
    pub(in crate::cli) fn headline(&self) -> &str {
        let line = self.said.lines().next().unwrap_or_default();
        line.trim_end_matches("(95 % below)").trim_end()
    }
}

impl Searched {
    /// The answer, as it is printed.
    pub(in crate::cli) fn headline(&self) -> &str {
        self.said.lines().next().unwrap_or_default()
    }
}

/// A search.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Searched {
    pub(super) command: String,
    pub(super) said: String,
    pub(super) exit: u8,
    pub(super) knee: Box<RawValue>,
}

/// What an `explain` found out.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Explained {
    pub(super) command: String,
    pub(super) said: String,
    pub(super) exit: u8,
    pub(super) explained: Box<RawValue>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::cli) enum Unanswered {
    /// Nobody waits for it any more, or the program ends.
    Gone,
    /// What is wrong, and the command that it is wrong with.
    Wrong {
        /// As a command line.
        command: String,
        /// Everything that is.
        problems: Vec<Problem>,
    },
}

/// An answer that there is not, as a page is told.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Refused {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) command: Option<String>,
    pub(in crate::cli) problems: Vec<Problem>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Problem {
    pub(super) message: String,
    pub(super) help: Vec<String>,
}

impl Problem {
    pub(in crate::cli) fn new(message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            help: Vec::new(),
        }
    }

    pub(in crate::cli) fn message(&self) -> &str {
        &self.message
    }
}
