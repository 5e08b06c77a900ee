//! One replica of an SGLang server: prefill-first batches over a radix cache.
//!
//! Rules are cited by their numbers (`SG-18`), which `docs/engine-rules.md` explains, with the SGLang function they were read
//! from. The engine decides which tokens are computed; [`crate::cost`] says how long that takes.
//!
//! Read [`replica`](self) first: the loop; then `intake` (who is taken in), `schedule` (which batch is next), `adder` (who
//! is admitted), `decode` (memory, retraction), `process` (what a finished batch brings about), `packed` (why a decode
//! costs O(its changes)), `drafts` (speculative decoding).

mod adder;
mod batch;
mod config;
mod decode;
mod disaggregated;
mod drafts;
mod intake;
mod leap;
mod lockstep;
mod memory;
mod packed;
mod policy;
mod priority;
mod process;
mod publish;
mod recorded;
mod replica;
mod schedule;
mod sequence;
mod wake;

pub use batch::{BatchMode, SglangRecord};
pub use config::{PriorityRule, QueuePolicy, SglangConfig, SglangSwitches};
pub use disaggregated::DecodeOptions;
pub use drafts::SglangSpeculation;
pub use publish::{LoadSnapshot, PUBLISH_INTERVAL};
pub use recorded::RecordedPass;

pub(crate) use replica::SglangReplica;
pub(crate) use sequence::{DOOR, clipped_max_new};
