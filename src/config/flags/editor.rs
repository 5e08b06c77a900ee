//! What all flags have in common: each edits the scenario in its own name.

use toml::{Table, Value};

use crate::config::diagnostic::{Diagnostic, Place};
use crate::config::document::Document;
use crate::config::scalar::Count;

/// Collects edits and problems.
pub(super) struct Editor<'a> {
    pub(super) document: &'a mut Document,
    /// `--bench-cmd ` before flags that stand in a pasted command.
    from: &'a str,
    pub(super) problems: Vec<Diagnostic>,
}

impl<'a> Editor<'a> {
    /// An editor of the scenario; `from` is put before flag names in messages.
    pub(super) fn new(document: &'a mut Document, from: &'a str) -> Editor<'a> {
        Editor {
            document,
            from,
            problems: Vec::new(),
        }
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>, flag: &str) {
        let flag = format!("{}--{flag}", self.from);
        self.document.set(key, value.into(), &flag);
    }

    pub(super) fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>, flag: &str) {
        if let Some(value) = value {
            self.set(key, value, flag);
        }
    }

    pub(super) fn wrong(&mut self, flag: &str, message: impl Into<String>, help: impl Into<String>) {
        let flag = format!("{}--{flag}", self.from);
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
