//! From the facts of a run to the figures that people compare.
//!
//! A [`Recorder`] observes; what it saw is an [`Observation`]: the whole run as a benchmark client would report it,
//! batches in order of leaving from which a steady stretch can be cut afterwards, state over time, a sample of the
//! steps, and the audit of conservation laws. [`Waits`] observes beside it who waited for whom, [`Anatomy`] what times to
//! first token and between tokens are made of, [`scraped::Scraped`] what the servers' own metrics would show. Whether the figures
//! mean anything is for `analysis` to judge. What the front end adds to a token's way to the client shifts tokens in
//! the series and in whole seconds by that much.

mod anatomy;
mod audit;
mod batches;
mod buckets;
mod by_replica;
mod concurrent;
mod detail;
mod distribution;
mod exact;
mod fleet;
pub(crate) mod gaps;
mod in_flight;
mod leap;
mod metric;
mod moments;
mod observation;
mod options;
mod over_time;
mod packed;
mod parts;
mod quantiles;
mod recorder;
mod relays;
mod samples;
pub mod scraped;
mod seconds;
mod series;
#[cfg(test)]
pub(crate) mod single_server;
mod speculation;
mod stays;
mod stretch;
mod summary;
mod tiers;
mod turns;
mod waits;

pub use anatomy::{Anatomies, Anatomy, Group, KEPT_MAX, RequestAnatomy, TokenGroup, TpotPart, TtftPart};
pub use by_replica::{ReplicaSummary, of_pools};
pub use distribution::Distribution;
pub use fleet::{Fleet, Room};
pub use metric::Metric;
pub use observation::{Observation, Sending};
pub use options::{RecorderOptions, Records, SloLimits};
pub use over_time::{LoadOverTime, LoadPoint};
pub use parts::{PartSummary, Served};
pub use quantiles::Quantiles;
pub use recorder::Recorder;
pub use relays::{LinkSummary, RelaySummary, Stage, WaySummary};
pub use speculation::SpeculationSummary;
pub use stretch::Stretch;
pub use summary::{LittleAudit, LittleCheck, Occupancy, RequestRecord, SeriesPoint, Summary, WorkCounters};
pub use tiers::TierSummary;
pub use waits::{PrefixWaits, PriorityWaits, WaitClass, WaitReport, Waiter, Waits};
