//! A sweep's file: one line of JSON for each finished cell, `{"cell": {"AXIS": "VALUE"}, "key": …, "result": …}`. The key names the cell and
//! the scenario; in a file of an earlier version it is what stands under `cell`.
//!
//! While a sweep runs, lines are appended as cells finish; a complete one is written again in the order of the
//! cells, so that equal sweeps make equal files.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cell, object_of};

#[derive(Serialize)]
struct Row<T> {
    cell: Value,
    key: String,
    result: T,
}

#[derive(Deserialize)]
struct RowRead<T> {
    cell: Value,
    key: Option<String>,
    result: T,
}

/// What is no axis of a cell: the name of all that its result depends on.
const SCENARIO: &str = "scenario";

/// The line of a finished cell, with its line break.
pub(super) fn row<T: Serialize>(cell: &Cell, result: &T) -> Result<String, serde_json::Error> {
    let axes: Vec<_> = cell
        .settings
        .iter()
        .filter(|(axis, _)| axis != SCENARIO)
        .cloned()
        .collect();
    serde_json::to_string(&Row {
        cell: object_of(&axes),
        key: cell.name(),
        result,
    })
    .map(|line| line + "\n")
}

/// The result in a line.
pub(super) fn result_of<T: DeserializeOwned>(line: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str::<RowRead<T>>(line).map(|row| row.result)
}

/// What an earlier, interrupted sweep finished.
#[derive(Clone, Debug)]
pub struct Finished<T> {
    results: BTreeMap<String, T>,
    complete_bytes: usize,
}

/// A line of a sweep's file that is none.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is not a row of this sweep: {why}; delete the line or the file to run its cell again")]
pub struct RowError {
    /// Which, from 1.
    pub line: usize,
    // Not its `source`: whoever prints the chain of causes would say it twice.
    why: serde_json::Error,
}

impl<T> Default for Finished<T> {
    fn default() -> Self {
        Finished {
            results: BTreeMap::new(),
            complete_bytes: 0,
        }
    }
}

impl<T: DeserializeOwned> Finished<T> {
    /// Reads a sweep's file. A last line without a line break was being written when the sweep stopped: it does
    /// not count, and whoever appends must first cut the file to [`Finished::complete_bytes`].
    ///
    /// # Errors
    /// If another line is not a row.
    pub fn read(text: &str) -> Result<Finished<T>, RowError> {
        let complete_bytes = text.rfind('\n').map_or(0, |last| last + 1);
        let lines = text[..complete_bytes]
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let mut results = BTreeMap::new();
        for (index, line) in lines {
            let wrong = |why| RowError { line: index + 1, why };
            let row: RowRead<T> = serde_json::from_str(line).map_err(wrong)?;
            let key = match row.key {
                Some(key) => key,
                None => serde_json::from_value(row.cell).map_err(wrong)?,
            };
            results.insert(key, row.result);
        }
        Ok(Finished {
            results,
            complete_bytes,
        })
    }
}

impl<T> Finished<T> {
    /// How many cells are finished.
    #[must_use]
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Length of the file without a half-written last line.
    #[must_use]
    pub fn complete_bytes(&self) -> usize {
        self.complete_bytes
    }

    /// The first row, in the order of names, that belongs to none of the cells.
    #[must_use]
    pub fn foreign(&self, cells: &[Cell]) -> Option<&str> {
        let own: std::collections::BTreeSet<String> = cells.iter().map(Cell::name).collect();
        let mut names = self.results.keys();
        names.find(|name| !own.contains(*name)).map(String::as_str)
    }

    /// Takes the rows of some cells out.
    #[must_use]
    pub fn split_off(&mut self, cells: &[Cell]) -> Finished<T> {
        let own = cells.iter().map(Cell::name);
        let own = own.filter_map(|name| Some((name.clone(), self.results.remove(&name)?)));
        Finished {
            results: own.collect(),
            complete_bytes: self.complete_bytes,
        }
    }

    pub(super) fn take(&mut self, cell: &Cell) -> Option<T> {
        self.results.remove(&cell.name())
    }
}

/// The file of a complete sweep: the cells in order.
///
/// # Errors
/// If a result cannot be written as JSON.
pub fn to_jsonl<T: Serialize>(cells: &[Cell], results: &[T]) -> Result<String, serde_json::Error> {
    cells
        .iter()
        .zip(results)
        .map(|(cell, result)| row(cell, result))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_its_cell_by_axes_and_its_scenario_by_a_key() {
        let setting = |axis: &str, value: &str| (axis.to_owned(), value.to_owned());
        let cell = Cell {
            index: 0,
            settings: vec![setting("gpu", "l40s"), setting(SCENARIO, "0f")],
        };
        let line = row(&cell, &1.5).unwrap();
        assert_eq!(
            line,
            "{\"cell\":{\"gpu\":\"l40s\"},\"key\":\"gpu=l40s scenario=0f\",\"result\":1.5}\n"
        );
        assert_eq!(Finished::<f64>::read(&line).unwrap().take(&cell), Some(1.5));
        // Without its settings apart.
        let before = "{\"cell\":\"gpu=l40s scenario=0f\",\"result\":1.5}\n";
        assert_eq!(Finished::<f64>::read(before).unwrap().take(&cell), Some(1.5));
        assert!(Finished::<f64>::read("{\"cell\":{},\"result\":1.5}\n").is_err());
    }

    /// What is read back is written again to the last digit.
    #[test]
    fn figures_that_were_kept_stay_as_they_were() {
        let cell = Cell {
            index: 0,
            settings: Vec::new(),
        };
        for at in 1..2_000 {
            let figure = f64::from(at).sqrt() * 1e-3;
            let line = row(&cell, &figure).unwrap();
            let read = Finished::<Value>::read(&line).unwrap().take(&cell).unwrap();
            assert_eq!(row(&cell, &read).unwrap(), line);
        }
    }
}
