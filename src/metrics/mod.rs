//! From the facts of a run to the figures that people compare.

mod buckets;
mod distribution;
mod moments;
mod summary;

pub use distribution::Distribution;
pub use summary::{LittleAudit, LittleCheck, Occupancy, RequestRecord, SeriesPoint, Summary, WorkCounters};
