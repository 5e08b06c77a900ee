//! What the cells of a sweep resolve to: the keys in which they differ, spelt out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use toml::Value;

use super::figures::grouped;
use super::sweep::Planned;
use crate::config::resolved_toml;
use crate::report::counted;

/// One cell a paragraph: its axes, then every key of the resolved scenario whose value is not the same in all cells.
pub(super) fn describe(planned: &[Planned], width: usize) -> String {
    let resolved: Vec<BTreeMap<String, String>> = planned.iter().map(keys).collect();
    let differing: BTreeSet<&String> = resolved
        .iter()
        .flat_map(BTreeMap::keys)
        .filter(|key| {
            let first = resolved[0].get(*key);
            resolved.iter().any(|cell| cell.get(*key) != first)
        })
        .collect();
    let mut text = counted(planned.len() as u64, "cell") + "\n";
    for (cell, keys) in planned.iter().zip(&resolved) {
        let labels: Vec<String> = cell
            .labels
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let _ = writeln!(text, "{:>4}  {}", cell.index, labels.join(", "));
        let mut parts: Vec<String> = differing
            .iter()
            .filter_map(|key| Some(format!("{key} = {}", keys.get(*key)?)))
            .collect();
        let blocks = cell.resolved.scenario.engine.num_gpu_blocks;
        parts.push(format!("{} KV blocks", grouped(u64::from(blocks))));
        text += &wrapped(&parts, width);
    }
    text
}

/// Every value of the resolved scenario by its key path.
fn keys(cell: &Planned) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    let table: toml::Table = toml::from_str(&resolved_toml(&cell.resolved)).unwrap_or_default();
    for (key, value) in table.iter().filter(|(key, _)| *key != "assumed") {
        flatten(key, value, &mut keys);
    }
    keys
}

fn flatten(path: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (key, value) in table {
                flatten(&format!("{path}.{key}"), value, keys);
            }
        }
        value => {
            keys.insert(path.to_owned(), value.to_string());
        }
    }
}

/// Parts with commas between them, in lines of `width` columns under an indent.
fn wrapped(parts: &[String], width: usize) -> String {
    const INDENT: &str = "        ";
    let (mut text, mut line) = (String::new(), String::new());
    for (at, part) in parts.iter().enumerate() {
        let comma = if at + 1 < parts.len() { ", " } else { "" };
        let longer = INDENT.len() + line.chars().count() + part.chars().count() + comma.len();
        if !line.is_empty() && longer > width {
            let _ = writeln!(text, "{INDENT}{}", line.trim_end());
            line.clear();
        }
        line += part;
        line += comma;
    }
    let _ = writeln!(text, "{INDENT}{line}");
    text
}
