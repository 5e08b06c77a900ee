//! From the facts of a run to the figures that people compare.

mod distribution;
mod summary;

pub use distribution::Distribution;
pub use summary::{LittleAudit, LittleCheck, Occupancy, RequestRecord, SeriesPoint, Summary, WorkCounters};
