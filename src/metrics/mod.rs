//! From the facts of a run to the figures that people compare.

mod audit;
mod batches;
mod buckets;
mod detail;
mod distribution;
mod in_flight;
mod leap;
mod moments;
mod recorder;
mod samples;
mod seconds;
mod series;
#[cfg(test)]
pub(crate) mod single_server;
mod stretch;
mod summary;

pub use distribution::Distribution;
pub use recorder::{Observation, Recorder, RecorderOptions, Records, Sending, SloLimits};
pub use stretch::{Fleet, Metric, Stretch};
pub use summary::{LittleAudit, LittleCheck, Occupancy, RequestRecord, SeriesPoint, Summary, WorkCounters};
