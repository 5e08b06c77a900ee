//! Many runs: a grid of settings, evaluated in parallel, resumable, the same bytes for any number of threads.
//!
//! A sweep knows nothing of what a cell means: it hands a closure the cell's settings and keeps its answer. Cells
//! run in parallel and are collected in order. Each answer is handed out as a line of JSON the moment it is there,
//! so that an interrupted sweep can go on from its file; opening that file is the shell's business.

mod best;
mod frontier;
mod grid;
mod matrix;
mod rows;
mod run;

pub use best::{Best, Candidate, best};
pub use frontier::{Offer, Standing, frontier};
pub use grid::{Axis, Cell, Grid, GridError, object_of};
pub use matrix::matrix;
pub use rows::{Finished, RowError, to_jsonl};
pub use run::{Progress, run};
