//! What the cells of a sweep resolve to: the keys in which they differ, spelt out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::ExitCode;

use toml::Value;

use super::figures::grouped;
use super::plan::{Plan, Planned};
use super::terminal::Terminal;
use super::{Exit, interrupt};
use crate::config::resolved_toml;
use crate::report::counted;

/// What a dry run of a plan prints.
///
/// # Errors
/// If it cannot be written.
pub(super) fn put(
    plan: &Plan,
    out: &mut dyn std::io::Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    const PLAIN: usize = 100;
    let Some(text) = describe(plan, terminal.width().unwrap_or(PLAIN)) else {
        return Ok(Exit::Interrupted.into());
    };
    out.write_all(text.as_bytes())?;
    Ok(Exit::Ok.into())
}

/// One cell a paragraph: its axes, then every key of the resolved scenario whose value is not the same in all cells.
/// `None` where the user asked to stop.
pub(super) fn describe(plan: &Plan, width: usize) -> Option<String> {
    let planned = &plan.runs;
    let resolved = planned
        .iter()
        .map(|cell| (!interrupt::is_asked()).then(|| keys(cell)))
        .collect::<Option<Vec<_>>>()?;
    let differing = differing(&resolved);
    let mut text = counted((planned.len() + plan.refused.len()) as u64, "cell") + "\n";
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    for (cell, keys) in planned.iter().zip(&resolved) {
        let mut parts: Vec<String> = differing
            .iter()
            .filter_map(|key| Some(format!("{key} = {}", keys.get(*key)?)))
            .collect();
        for pool in &cell.resolved.scenario.pools {
            let blocks = grouped(u64::from(pool.engine.num_gpu_blocks()));
            let of = match pool.name.as_str() {
                "" => String::new(),
                name => format!(" in {name}"),
            };
            parts.push(format!("{blocks} KV blocks{of}"));
        }
        paragraphs.push((
            cell.index,
            heading(cell.index, &cell.labels) + &wrapped(&parts, width),
        ));
    }
    for cell in &plan.refused {
        let parts = [format!("{}: {}", cell.fate(), cell.why)];
        paragraphs.push((
            cell.index,
            heading(cell.index, &cell.labels) + &wrapped(&parts, width),
        ));
    }
    paragraphs.sort_by_key(|(index, _)| *index);
    text.extend(paragraphs.into_iter().map(|(_, paragraph)| paragraph));
    Some(text)
}

/// Number and axes of a cell.
fn heading(index: usize, labels: &[(String, String)]) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!("{index:>4}  {}\n", labels.join(", "))
}

/// The keys whose value is not the same in all cells; each cell is looked at once for each key of all.
fn differing(resolved: &[BTreeMap<String, String>]) -> BTreeSet<&String> {
    let all: BTreeSet<&String> = resolved.iter().flat_map(BTreeMap::keys).collect();
    let differs = |key: &&String| {
        let first = resolved.first().and_then(|first| first.get(*key));
        resolved.iter().any(|cell| cell.get(*key) != first)
    };
    all.into_iter().filter(differs).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_differs_where_a_cell_has_another_value_or_none() {
        let cell = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            owned.collect()
        };
        let cells = [
            cell(&[("seed", "1"), ("rate", "4")]),
            cell(&[("seed", "2"), ("rate", "4")]),
            cell(&[("seed", "3"), ("rate", "4"), ("prefix", "0")]),
        ];
        let named: Vec<&String> = differing(&cells).into_iter().collect();
        assert_eq!(named, ["prefix", "seed"]);
    }
}
