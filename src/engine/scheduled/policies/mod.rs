//! The schedulers that come with Plimsoll. Each is an ordinary [`Scheduler`](crate::engine::scheduler::Scheduler).

mod hf;
mod static_batch;
mod v0;

pub use hf::{HfConfig, HfContinuous, HfOrder};
pub use static_batch::{StaticBatching, StaticConfig};
pub use v0::{PreemptionMode, V0Config, VllmV0, watermark};
