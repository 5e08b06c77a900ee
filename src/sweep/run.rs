//! Runs the cells of a sweep in parallel.

use std::sync::Mutex;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows::row;
use super::{Cell, Finished};

/// Told when a cell is finished, in whatever order that happens.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its line for the sweep's file, line break included; empty for a cell that was finished before, or whose
    /// result failed.
    pub line: &'a str,
    /// Cells finished so far, this one included.
    pub done: usize,
    /// Cells of the sweep.
    pub total: usize,
}

/// Evaluates every cell that is not `finished`, in parallel, and returns all results in the order of the cells.
///
/// `tell` is called for each finished cell, one call at a time, from any thread. Results that are not finished
/// take the way through JSON too, so that a resumed sweep and an uninterrupted one return equal values.
///
/// A cell that fails has its error in its place; all other cells are evaluated all the same, so that a repaired sweep has
/// only the failed ones to do.
pub fn run<T, E>(
    cells: &[Cell],
    mut finished: Finished<T>,
    evaluate: impl Fn(&Cell) -> Result<T, E> + Sync,
    tell: impl FnMut(&Progress<'_>) + Send,
) -> Vec<Result<T, E>>
where
    T: Serialize + DeserializeOwned + Send,
    E: From<serde_json::Error> + Send,
{
    let total = cells.len();
    let told = Mutex::new((0, tell));
    let announce = |cell: &Cell, line: &str| {
        let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        told.0 += 1;
        let done = told.0;
        (told.1)(&Progress {
            cell,
            line,
            done,
            total,
        });
    };
    let work: Vec<(&Cell, Option<T>)> = cells.iter().map(|cell| (cell, finished.take(cell))).collect();
    work.into_par_iter()
        .map(|(cell, known)| {
            if let Some(known) = known {
                announce(cell, "");
                return Ok(known);
            }
            let line = evaluate(cell).and_then(|result| Ok(row(cell, &result)?));
            announce(cell, line.as_ref().map_or("", String::as_str));
            Ok(super::rows::result_of(&line?)?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Axis, Grid, to_jsonl};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn cells(count: usize) -> Vec<Cell> {
        let values = (0..count).map(|i| i.to_string()).collect();
        Grid::new(vec![vec![Axis {
            key: "x".into(),
            values,
        }]])
        .unwrap()
        .cells()
    }

    fn all<T, E>(results: Vec<Result<T, E>>) -> Result<Vec<T>, E> {
        results.into_iter().collect()
    }

    fn square(cell: &Cell) -> Result<f64, serde_json::Error> {
        Ok(cell.settings[0].1.parse::<f64>().unwrap().powi(2) / 3.0)
    }

    fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap()
            .install(work)
    }

    #[test]
    fn any_number_of_threads_makes_the_same_bytes() {
        let cells = cells(50);
        let bytes = |threads| {
            with_threads(threads, || {
                let results = all(run(&cells, Finished::default(), square, |_| {})).unwrap();
                to_jsonl(&cells, &results).unwrap()
            })
        };
        assert_eq!(bytes(1), bytes(4));
    }

    #[test]
    fn an_interrupted_sweep_runs_only_what_is_missing_and_ends_the_same() {
        let cells = cells(20);
        let mut file = String::new();
        let whole = all(run(&cells, Finished::default(), square, |progress| {
            file.push_str(progress.line)
        }))
        .unwrap();
        let cut = file.char_indices().filter(|(_, c)| *c == '\n').nth(7).unwrap().0 + 5;
        let finished = Finished::read(&file[..cut]).unwrap();
        assert_eq!(finished.len(), 8);
        let mut again = file[..finished.complete_bytes()].to_owned();
        let evaluated = AtomicUsize::new(0);
        let count = |cell: &Cell| {
            evaluated.fetch_add(1, Ordering::Relaxed);
            square(cell)
        };
        let mut most = 0;
        let resumed = run(&cells, finished, count, |progress| {
            again.push_str(progress.line);
            most = most.max(progress.done);
        });
        assert_eq!(all(resumed).unwrap(), whole);
        assert_eq!(evaluated.into_inner(), 12);
        assert_eq!(most, 20);
        assert_eq!(Finished::<f64>::read(&again).unwrap().len(), 20);
    }

    #[test]
    fn a_failed_cell_does_not_stop_the_others() {
        #[derive(Debug, PartialEq)]
        struct Failed(usize);
        impl From<serde_json::Error> for Failed {
            fn from(_: serde_json::Error) -> Self {
                Failed(usize::MAX)
            }
        }
        let mut lines = 0;
        let odd = |cell: &Cell| {
            if cell.index % 2 == 1 {
                Err(Failed(cell.index))
            } else {
                Ok(cell.index)
            }
        };
        let outcome = run(&cells(10), Finished::default(), odd, |p| {
            lines += usize::from(!p.line.is_empty())
        });
        assert_eq!((&outcome[8], &outcome[9]), (&Ok(8), &Err(Failed(9))));
        assert_eq!(lines, 5);
    }

    #[test]
    fn a_foreign_line_is_an_error_that_names_it() {
        let message = Finished::<f64>::read("{\"cell\":\"x=0\",\"result\":0.5}\nnonsense\n").unwrap_err();
        assert!(
            std::error::Error::source(&message).is_none(),
            "the reason is told once"
        );
        let message = message.to_string();
        assert!(
            message.starts_with("line 2 is not a row of this sweep"),
            "{message}"
        );
    }
}
