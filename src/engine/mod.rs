//! One replica of a serving engine: the life of a sequence, the composition of steps.
//!
//! The engine decides *which* tokens are computed; [`crate::cost`] says how long that takes, and nothing here computes
//! a time. Rules are cited by their numbers (`V1-22`), which `docs/engine-rules.md` explains, with the vLLM function they were read
//! from.

mod admit;
mod any;
mod budget;
pub mod ceilings;
mod close;
mod config;
mod engine_spec;
pub(crate) mod external;
mod growth;
mod held_back;
mod idle;
pub(crate) mod leap;
pub mod lmcache;
pub(crate) mod lockstep;
pub mod memory;
mod pack;
mod passing;
mod picking;
mod pipeline;
mod preempt;
mod priced;
mod process;
pub(crate) mod rank;
mod ranks;
mod replica;
mod roster;
mod schedule;
pub mod scheduled;
pub mod scheduler;
mod sequence;
pub mod sglang;
mod signal;
mod speculation;
mod step;
pub(crate) mod story;
mod telling;
pub mod trtllm;
mod waiting;
mod wake;

pub use crate::kv::{KvGroups, WindowGroups};
pub use config::{EngineConfig, Policy, VersionSwitches};
pub use engine_spec::{EngineSpec, Speculates};
pub use speculation::{BlockHashes, Speculation};
pub use step::ScheduleRecord;

pub(crate) use any::Engine;
pub(crate) use replica::Replica;
pub(crate) use roster::Handle;
pub(crate) use signal::{Signal, Told};
pub(crate) use speculation::{Acceptance, ToldRuns};
pub(crate) use telling::{Outlook, Untold};
pub(crate) use trtllm::AtHand;
pub use wake::State;
pub(crate) use wake::Wake;

/// Why a server cannot take a request in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// As many requests are inside as `max_num_queued_reqs` allows: 503.
    QueueFull,
    /// The prompt leaves no room for an output below `max_model_len`.
    PromptTooLong,
    /// Without chunked prefill a prompt must fit the token budget of one step.
    PromptAboveBudget,
    /// Even alone it would need more KV blocks than there are, and would preempt itself for ever.
    NeverFits,
    /// No replica is up to take it: 503.
    NoReplica,
}

impl Refusal {
    /// Whether it is the request's length that is refused, and would be at any load.
    pub(crate) fn is_of_length(self) -> bool {
        match self {
            Refusal::PromptTooLong | Refusal::PromptAboveBudget | Refusal::NeverFits => true,
            Refusal::QueueFull | Refusal::NoReplica => false,
        }
    }
}
