//! One table of a calibration file, read key by key.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use toml::{Table, Value};

use super::Problem;
use crate::cost::Trust;
use crate::cost::calibration::KernelFormat;

pub(super) const NOT_NEGATIVE: RangeInclusive<f64> = 0.0..=1e9;
pub(super) const POSITIVE: RangeInclusive<f64> = 1e-9..=1e9;
/// Fitted efficiencies may exceed 1 where a p-norm or a quantization term shares the time.
pub(super) const EFFICIENCY: RangeInclusive<f64> = 0.01..=2.0;
/// Decode attention reads a cache and shares its time with nothing: what a fit seeks at most.
pub(super) const DECODE_BANDWIDTH: RangeInclusive<f64> = 0.01..=1.3;
pub(super) const PNORM: RangeInclusive<f64> = 0.5..=100.0;

/// The keys of one table, taken one by one; what is left at the end is unknown.
pub(super) struct Fields<'p> {
    path: String,
    table: Table,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Fields<'p> {
    pub(super) fn new(path: String, table: Table, problems: &'p mut Vec<Problem>) -> Fields<'p> {
        Fields {
            path,
            table,
            problems,
        }
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(super) fn problem(&mut self, key: &str, message: String) {
        let key = self.key(key);
        self.problems.push(Problem { key, message });
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    pub(super) fn finish(self) {
        for key in self.table.keys() {
            self.problems.push(Problem {
                key: self.key(key),
                message: "is not a key of schema 1".to_owned(),
            });
        }
    }

    /// A number, or the `v` of a table `{ v, ci, n, sd, source }`.
    pub(super) fn optional_number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = match self.take(key)? {
            Value::Table(mut table) => {
                let inner = table.remove("v");
                table.retain(|name, _| !matches!(name, "ci" | "n" | "sd" | "source"));
                for name in table.keys() {
                    self.problem(
                        key,
                        format!("has `{name}`; a measured value has v, ci, n, sd and source"),
                    );
                }
                inner.unwrap_or(Value::Boolean(false))
            }
            value => value,
        };
        let number = match value {
            Value::Float(number) => number,
            Value::Integer(number) => number as f64,
            other => {
                self.problem(key, format!("must be a number, not {}", other.type_str()));
                return None;
            }
        };
        if range.contains(&number) {
            return Some(number);
        }
        self.problem(
            key,
            format!(
                "is {number}; it must lie between {} and {}",
                range.start(),
                range.end()
            ),
        );
        None
    }

    pub(super) fn number_or(&mut self, key: &str, range: RangeInclusive<f64>, absent: f64) -> f64 {
        self.optional_number(key, range).unwrap_or(absent)
    }

    /// A number that must be there; a problem and the range's start otherwise.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> f64 {
        let start = *range.start();
        if !self.table.contains_key(key) {
            self.problem(key, "is missing".to_owned());
            return start;
        }
        self.number_or(key, range, start)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => {
                self.problem(key, format!("must be a string, not {}", other.type_str()));
                None
            }
        }
    }

    pub(super) fn list(&mut self, key: &str) -> Vec<Value> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(other) => {
                self.problem(key, format!("must be a list, not {}", other.type_str()));
                Vec::new()
            }
        }
    }

    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        let values = self.list(key);
        let texts: Vec<String> = values
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect();
        if texts.len() < values.len() {
            self.problem(key, "must hold strings only".to_owned());
        }
        texts
    }

    pub(super) fn integers(&mut self, key: &str) -> Vec<i64> {
        let values = self.list(key);
        let integers: Vec<i64> = values.iter().filter_map(Value::as_integer).collect();
        if integers.len() < values.len() {
            self.problem(key, "must hold integers only".to_owned());
        }
        integers
    }

    pub(super) fn trust(&mut self, default: Trust) -> Trust {
        match self.text("trust").as_deref() {
            None => default,
            Some("measured") => Trust::Measured,
            Some("calibrated") => Trust::Calibrated,
            Some("prior") => Trust::Prior,
            Some("roofline") => Trust::RooflineOnly,
            Some("doubtful") => Trust::Doubtful,
            Some(other) => {
                let known = "write measured, calibrated, prior, roofline or doubtful";
                self.problem("trust", format!("is `{other}`; {known}"));
                default
            }
        }
    }

    pub(super) fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        match self.take(key)? {
            Value::Table(table) => {
                let mut fields = Fields::new(self.key(key), table, self.problems);
                let value = read(&mut fields);
                fields.finish();
                Some(value)
            }
            other => {
                self.problem(key, format!("must be a table, not {}", other.type_str()));
                None
            }
        }
    }

    pub(super) fn sections<T>(&mut self, mut read: impl FnMut(&mut Fields) -> T) -> BTreeMap<String, T> {
        let names: Vec<String> = self.table.keys().cloned().collect();
        let read_one = |name: String| self.section(&name, &mut read).map(|value| (name, value));
        names.into_iter().filter_map(read_one).collect()
    }

    /// A table of one section for each number format.
    pub(super) fn formats<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut Fields) -> Option<T>,
    ) -> BTreeMap<KernelFormat, T> {
        let read_all = |fields: &mut Fields| {
            let read_one = |(format, name): (KernelFormat, &str)| {
                fields
                    .section(name, &mut read)
                    .flatten()
                    .map(|value| (format, value))
            };
            KernelFormat::ALL.into_iter().filter_map(read_one).collect()
        };
        self.section(key, read_all).unwrap_or_default()
    }

    pub(super) fn array<T>(&mut self, key: &str, mut read: impl FnMut(&mut Fields) -> T) -> Vec<T> {
        let mut entries = Vec::new();
        for (index, value) in self.list(key).into_iter().enumerate() {
            let path = format!("{}[{index}]", self.key(key));
            if let Value::Table(table) = value {
                let mut fields = Fields::new(path, table, self.problems);
                entries.push(read(&mut fields));
                fields.finish();
            } else {
                self.problem(key, "must hold tables only".to_owned());
            }
        }
        entries
    }
}
