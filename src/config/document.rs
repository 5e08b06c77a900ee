//! An input in layers: a scenario file, what it is based on, and edits by flags, each value remembering its origin.
//!
//! Layers are TOML tables, merged key by key with flags over file over preset. A table that makes a choice
//! (`workload.arrivals`, `lengths`, `prefix`, `endings`) is replaced whole: two choices must not mix.

mod pools;
mod replaced;
mod spans;

pub(super) use self::pools::pool_key;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::{Table, Value};

use self::spans::parse;
use super::diagnostic::{Diagnostic, Place, SWEPT, SourceFile};

/// Key paths of tables with exactly one key, which chooses.
pub(super) const CHOICES: [&str; 4] = [
    "workload.arrivals",
    "workload.lengths",
    "workload.prefix",
    "workload.endings",
];

/// Where a value comes from, in the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag, as the user would write it.
    Flag(String),
    /// A line of the scenario file.
    File {
        /// Which file.
        name: String,
        /// From 1.
        line: usize,
    },
    /// A shipped or named workload that the scenario starts from.
    Preset(String),
    /// The engine profile's default.
    Profile(String),
    /// Nobody said: the reason for the value.
    Assumption(String),
}

impl Source {
    /// Whether an axis of a sweep set it.
    #[must_use]
    pub fn is_axis(&self) -> bool {
        matches!(self, Source::Flag(flag) if flag.starts_with(SWEPT))
    }
}

/// Where one value of the merged input comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    Flag(String),
    File(Arc<SourceFile>, Range<usize>),
    Preset(Arc<SourceFile>, Range<usize>),
    Default(String),
}

/// A merged input.
#[derive(Clone, Debug, Default)]
pub struct Document {
    table: Table,
    origins: BTreeMap<String, Origin>,
    /// Tables that others took the place of.
    replaced: Vec<Document>,
}

impl Document {
    /// Reads a scenario file.
    pub fn parse(name: &str, text: &str) -> Result<Document, Diagnostic> {
        let file = Arc::new(SourceFile {
            name: name.to_string(),
            text: text.to_string(),
        });
        let (table, spans) = parse(&file)?;
        let origins = spans
            .into_iter()
            .map(|(key, span)| (key, Origin::File(file.clone(), span)))
            .collect();
        Ok(Document {
            table,
            origins,
            replaced: Vec::new(),
        })
    }

    /// The merged values.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The value at a key path, if any layer has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let mut value = self.table.get(parts.next()?)?;
        for part in parts {
            value = match value {
                Value::Table(table) => table.get(part)?,
                Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let mut parts = key.split('.');
        let mut value = self.table.get_mut(parts.next()?)?;
        for part in parts {
            value = match value {
                Value::Table(table) => table.get_mut(part)?,
                Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Sets a value by a flag.
    pub fn set(&mut self, key: &str, value: Value, flag: &str) {
        self.put(key, value, Origin::Flag(flag.to_string()));
    }

    /// Sets a value that a client program would have by default, unless something else set it.
    pub fn set_default(&mut self, key: &str, value: Value, of: &str) {
        if self.get(key).is_none() {
            self.put(key, value, Origin::Default(of.to_string()));
        }
    }

    /// Takes what a flag has set for something that nobody gave, where whoever reads the input has brought it along.
    pub fn make_default(&mut self, flag: &str, of: &str) {
        for (key, _, value) in self.set_by(flag) {
            self.put(&key, value, Origin::Default(of.to_string()));
        }
    }

    /// Notes that a table is there because something needs one, whoever gave the values in it.
    pub(super) fn nobody_chose(&mut self, table: &str) {
        self.origins
            .insert(table.to_string(), Origin::Default(String::new()));
    }

    /// Whether a table is there because something needs one.
    pub(super) fn is_unchosen(&self, table: &str) -> bool {
        self.get(table).is_some() && matches!(self.origins.get(table), Some(Origin::Default(_)))
    }

    /// Replaces a value by what it means; whoever gave it still gave it.
    pub(super) fn spell_out(&mut self, key: &str, value: Value) {
        if let Some(origin) = self.origin(key).cloned() {
            self.put(key, value, origin);
        }
    }

    /// Puts a value under another key; whoever gave it still gave it, at the same place.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let (Some(value), Some(origin)) = (self.get(from).cloned(), self.origin(from).cloned()) {
            self.remove(from);
            self.put(to, value, origin);
        }
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &str) {
        match key.rsplit_once('.') {
            None => drop(self.table.remove(key)),
            Some((parent, last)) => {
                if let Some(Value::Table(table)) = self.get_mut(parent) {
                    table.remove(last);
                }
            }
        }
        self.forget(key);
    }

    /// Puts a value of a part of this input at the place that it has in one of its own, unless a flag has set that.
    pub(super) fn override_in(&self, own: &mut Document, (from, to): (&str, &str), value: &Value) {
        let is_by_flag = own.get(to).is_some() && matches!(own.origin(to), Some(Origin::Flag(_)));
        if is_by_flag {
            return;
        }
        let origin = self.origin(from).cloned();
        own.put(
            to,
            value.clone(),
            origin.unwrap_or(Origin::Default(String::new())),
        );
        let inside = format!("{from}.");
        let below = self.origins.range(inside.clone()..);
        let below = below.take_while(|(key, _)| key.starts_with(&inside));
        own.origins.extend(below.map(|(key, origin)| {
            let key = format!("{to}.{}", key.strip_prefix(&inside).unwrap_or(key));
            (key, origin.clone())
        }));
    }

    /// Takes over a value of another input that nobody gave here.
    pub(super) fn adopt(&mut self, key: &str, other: &Document, their_key: &str) {
        if let (None, Some(value), Some(origin)) =
            (self.get(key), other.get(their_key), other.origin(their_key))
        {
            self.put(key, value.clone(), origin.clone());
        }
    }

    fn put(&mut self, key: &str, value: Value, origin: Origin) {
        for choice in CHOICES {
            // Choosing anew: the keys of the choice before do not apply any more.
            if let Some(rest) = key.strip_prefix(choice).and_then(|rest| rest.strip_prefix('.')) {
                let chosen = rest.split('.').next().unwrap_or(rest);
                let before = self.get(choice).and_then(Value::as_table);
                if before.is_some_and(|table| table.keys().any(|name| name != chosen)) {
                    self.give_way(choice);
                }
            }
        }
        let (parent, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table = &mut self.table;
        let mut parts = parent.split('.').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let mut entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            // An item of a list is a table, too.
            let index = parts.peek().and_then(|part| part.parse::<usize>().ok());
            if let Some(index) = index
                && entry.as_array().is_some_and(|items| index < items.len())
            {
                parts.next();
                entry = &mut entry.as_array_mut().expect("it was one above")[index];
            }
            if !entry.is_table() {
                *entry = Value::Table(Table::new());
            }
            table = entry.as_table_mut().expect("it was made a table above");
        }
        table.insert(last.to_string(), value);
        self.forget(key);
        self.origins.insert(key.to_string(), origin);
    }

    fn forget(&mut self, key: &str) {
        let inside = format!("{key}.");
        self.origins
            .retain(|known, _| known != key && !known.starts_with(&inside));
    }

    /// Puts the `[workload]` of another scenario file below the one that is here.
    pub(super) fn underlay(&mut self, name: &str, text: &str) -> Result<(), Diagnostic> {
        let file = Arc::new(SourceFile {
            name: name.to_string(),
            text: text.to_string(),
        });
        let (base, spans) = parse(&file)?;
        let workload = base.get("workload").and_then(Value::as_table);
        let Some(workload) = workload.filter(|_| base.len() == 1) else {
            let problem = Diagnostic::new(format!("{name} is not a workload"));
            return Err(problem.help("a workload file has the tables of [workload] and no others"));
        };
        let is_taken = |key: &str| self.get(&format!("workload.{key}")).is_some();
        let (taken, free): (Vec<_>, Vec<_>) = workload.iter().partition(|(key, _)| is_taken(key));
        if !taken.is_empty() {
            let mut unread = Document::parse(name, text)?;
            free.iter()
                .for_each(|(key, _)| unread.remove(&format!("workload.{key}")));
            self.replaced.push(unread);
        }
        for (key, value) in free {
            let at = format!("workload.{key}");
            let preset = |span: &Range<usize>| Origin::Preset(file.clone(), span.clone());
            self.put(&at, value.clone(), preset(spans.get(&at).unwrap_or(&(0..0))));
            let inside = format!("{at}.");
            let below = spans
                .range(inside.clone()..)
                .take_while(|(inner, _)| inner.starts_with(&inside));
            self.origins
                .extend(below.map(|(inner, span)| (inner.clone(), preset(span))));
        }
        Ok(())
    }

    /// The origin of a key: its own, or that of the nearest table around it.
    fn origin(&self, key: &str) -> Option<&Origin> {
        let mut key = key;
        loop {
            if let Some(origin) = self.origins.get(key) {
                return Some(origin);
            }
            key = key.rsplit_once('.')?.0;
        }
    }

    /// Where to point for a key.
    #[must_use]
    pub fn place(&self, key: &str) -> Place {
        match self.origin(key) {
            Some(Origin::Flag(name)) => Place::Flag(name.clone()),
            Some(Origin::File(file, span) | Origin::Preset(file, span)) => {
                Place::File(file.clone(), span.clone())
            }
            Some(Origin::Default(_)) | None => Place::Nowhere,
        }
    }

    /// Who gave a key's value; `None` where nobody did.
    #[must_use]
    pub fn source(&self, key: &str) -> Option<Source> {
        self.get(key)?;
        Some(match self.origin(key)? {
            Origin::Flag(name) => Source::Flag(name.clone()),
            Origin::File(file, span) => Source::File {
                name: file.name.clone(),
                line: file.line_of(span.start),
            },
            Origin::Preset(file, _) => Source::Preset(file.name.clone()),
            Origin::Default(of) => Source::Assumption(format!("default of {of}")),
        })
    }

    /// The first value within a table that a flag or the scenario's own file gave; `None` where they gave none.
    pub(super) fn first_given(&self, table: &str) -> Option<String> {
        let is_inside = |key: &str| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        let is_given = |origin: &Origin| matches!(origin, Origin::Flag(_) | Origin::File(..));
        // A table's own line has a place under this name, and is no value.
        let is_value = |key: &str| !key.ends_with(".@key");
        let found =
            (self.origins.iter()).find(|(key, origin)| is_inside(key) && is_value(key) && is_given(origin));
        found.map(|(key, _)| key.clone())
    }

    /// The axes of a sweep that set a key below one of `tables`, `gpu = t4`.
    pub(super) fn swept(&self, tables: &[&str]) -> Vec<String> {
        let axes = self.origins.iter().filter_map(|(key, origin)| {
            let Origin::Flag(name) = origin else {
                return None;
            };
            let axis = name.strip_prefix(SWEPT)?;
            let value = self.get(key)?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            let is_within = tables.iter().any(|table| key.starts_with(table));
            is_within.then(|| format!("{} = {value}", axis.trim_start_matches('-')))
        });
        axes.collect()
    }

    /// Keys that flags with this beginning set, with the flag and the value.
    pub(super) fn set_by(&self, beginning: &str) -> Vec<(String, String, Value)> {
        let set = self.origins.iter().filter_map(|(key, origin)| match origin {
            Origin::Flag(name) if name.starts_with(beginning) => {
                Some((key.clone(), name.clone(), self.get(key)?.clone()))
            }
            _ => None,
        });
        set.collect()
    }

    /// How the user would name a key: the flag if a flag set it, else the key.
    #[must_use]
    pub fn name_of(&self, key: &str) -> String {
        match self.origin(key) {
            Some(Origin::Flag(name)) => name.strip_prefix(SWEPT).unwrap_or(name).to_string(),
            _ => own_name(key),
        }
    }
}

/// The last part of a key; an item of a list with the list's name: `rates[2]`.
fn own_name(key: &str) -> String {
    let parts: Vec<&str> = key.rsplit('.').collect();
    match parts.as_slice() {
        [item, list, ..] if item.parse::<usize>().is_ok() => format!("{list}[{item}]"),
        [last, ..] => (*last).to_string(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[workload.arrivals.poisson]\nrequest_rate = 4.0\n[engine]\nmax_num_seqs = 8\n";

    #[test]
    fn every_value_knows_its_line_and_a_flag_replaces_it() {
        let mut document = Document::parse("a.toml", TEXT).unwrap();
        let line = |line| {
            Some(Source::File {
                name: "a.toml".into(),
                line,
            })
        };
        assert_eq!(document.source("workload.arrivals.poisson.request_rate"), line(2));
        assert_eq!(document.source("engine.max_num_seqs"), line(4));
        document.set("engine.max_num_seqs", Value::Integer(16), "--max-num-seqs");
        assert_eq!(
            document.source("engine.max_num_seqs"),
            Some(Source::Flag("--max-num-seqs".into()))
        );
        assert_eq!(document.source("engine.block_size"), None);
    }

    #[test]
    fn no_placeholder_is_a_value_and_an_item_is_named_with_its_list() {
        let text = "[cluster.link]\nkind = \"ib-400\"\n[[cluster.events]]\nreplica = 0\n";
        let document = Document::parse("a.toml", text).unwrap();
        let given = document.first_given("cluster.link");
        assert_eq!(given.as_deref(), Some("cluster.link.kind"));
        assert_eq!(document.name_of("cluster.events.0"), "events[0]");
        assert_eq!(document.name_of("cluster.events.0.replica"), "replica");
    }

    #[test]
    fn a_new_choice_removes_the_one_before() {
        let mut document = Document::parse("a.toml", TEXT).unwrap();
        document.set(
            "workload.arrivals.constant.request_rate",
            Value::Float(2.0),
            "--request-rate",
        );
        assert!(document.get("workload.arrivals.poisson").is_none());
        assert_eq!(
            document.get("workload.arrivals.constant.request_rate"),
            Some(&Value::Float(2.0))
        );
    }

    #[test]
    fn a_base_fills_only_what_is_absent() {
        let mut document = Document::parse("a.toml", TEXT).unwrap();
        let base = "[workload.arrivals.constant]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 5\noutput_len = 6\n";
        document.underlay("base.toml", base).unwrap();
        assert!(document.get("workload.arrivals.constant").is_none());
        assert_eq!(
            document.source("workload.lengths.fixed.input_len"),
            Some(Source::Preset("base.toml".into()))
        );
    }
}
