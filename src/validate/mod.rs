//! How far predictions are from published measurements: each row a run, each figure an error, families weighted equally.
//!
//! A row becomes a scenario ([`crate::calibrate::plan`]) or a stated reason why it cannot; nothing is dropped in silence. The prediction is
//! of the whole finite run, ramp and drain included, since that is what the tables are of. Each figure carries how far off a
//! right prediction may be (`interval`). Law: a row's scenario depends on
//! what was run, never on what came out.

mod interval;
pub mod kernels;
mod predict;
pub mod requests;
mod score;
mod sound;
mod timed_by;

pub use interval::Uncertainty;
pub use predict::{Compared, Figure, Outcome, Row, Side, predict};
pub use score::{FigureScore, Reason, Score, scores, scores_by_engine};
pub use sound::{impossible, impossible_figure, off_by_thousand, once};
pub use timed_by::TimedBy;
