//! The engine that a [`Scheduler`] drives: books, clock and facts; the decisions are the scheduler's.
//!
//! * `ledger` keeps the books: sequences, queues, KV blocks in the GPU's and the host's memory.
//! * `plan` is what a scheduler sees of them, and its actions; `checks` of them says which are legal.
//! * `replica` is the loop, synchronous and one step deep: drain inputs, ask the scheduler, compute, process.
//! * `launch` turns a plan into a step, `process` its output into tokens and endings.
//! * `leap` jumps over a run of decode steps of one batch where the scheduler has said that it would decide the same.
//! * `policies` are the schedulers of vLLM V0, of static batching and of Transformers' continuous batching.
//!
//! A step costs O(batch), since the scheduler lists its members; a run of steps that a scheduler calls alike
//! ([`StepPlan::repeat_while_spare`]) costs O(batch) once. There is no pack as in vLLM V1's engine: who computes is the
//! scheduler's to say, step by step.
//!
//! Prefix caching is by blocks, as vLLM has it; contents are found from the step after the one that computes them.

mod config;
mod launch;
mod leap;
mod ledger;
mod plan;
pub mod policies;
mod process;
mod replica;
mod sequence;
mod wake;

pub use config::{MakeScheduler, ScheduledConfig, SchedulerChoice};
pub use plan::{StepPlan, Views};

pub(crate) use replica::ScheduledReplica;

#[cfg(doc)]
use super::scheduler::Scheduler;
