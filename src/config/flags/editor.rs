//! What all flags have in common: each edits the scenario in its own name.

use toml::{Table, Value};

use crate::config::diagnostic::SWEPT;
use crate::config::diagnostic::{Diagnostic, Place};
use crate::config::document::Document;
use crate::config::scalar::Count;

/// Who gives flags, which is part of how they are named.
#[derive(Clone, Copy)]
pub(in crate::config) enum By<'a> {
    /// A command: `--bench-cmd ` stands before the flags of a pasted one, nothing before those of the command line itself.
    Command(&'a str),
    /// A cell of a sweep: the axes give the flags of these names, the command line all others.
    Cell(&'a [String]),
}

impl By<'_> {
    fn name(self, flag: &str) -> String {
        match self {
            By::Command(from) => format!("{from}--{flag}"),
            By::Cell(swept) if swept.iter().any(|axis| axis == flag) => format!("{SWEPT}--{flag}"),
            By::Cell(_) => format!("--{flag}"),
        }
    }
}

/// Collects edits and problems.
pub(super) struct Editor<'a> {
    pub(super) document: &'a mut Document,
    by: By<'a>,
    pub(super) problems: Vec<Diagnostic>,
}

impl<'a> Editor<'a> {
    /// An editor of the scenario.
    pub(super) fn new(document: &'a mut Document, by: By<'a>) -> Editor<'a> {
        Editor {
            document,
            by,
            problems: Vec::new(),
        }
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>, flag: &str) {
        let flag = self.by.name(flag);
        self.document.set(key, value.into(), &flag);
    }

    pub(super) fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>, flag: &str) {
        if let Some(value) = value {
            self.set(key, value, flag);
        }
    }

    pub(super) fn wrong(&mut self, flag: &str, message: impl Into<String>, help: impl Into<String>) {
        let flag = self.by.name(flag);
        self.problems
            .push(Diagnostic::new(message).at(Place::Flag(flag)).help(help));
    }

    /// The one choice at `key` and its table.
    pub(super) fn chosen(&self, key: &str) -> Option<(String, Table)> {
        let (name, value) = self.document.get(key)?.as_table()?.iter().next()?;
        Some((name.clone(), value.as_table().cloned().unwrap_or_default()))
    }
}

/// A count as TOML has it.
pub(super) fn count(value: Count) -> Value {
    // Counts above i64 cannot occur in TOML; they stay text and are refused where their limits are known.
    i64::try_from(value.0).map_or_else(|_| Value::String(value.0.to_string()), Value::Integer)
}
