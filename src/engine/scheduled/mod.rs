//! The engine that a [`Scheduler`] drives: books, clock and facts; the decisions are the scheduler's.
//!
//! * `ledger` keeps the books: sequences, queues, KV blocks in the GPU's and the host's memory.
//! * `plan` is what a scheduler sees of them, and its actions; `checks` of them says which are legal.
//! * `replica` is the loop, synchronous and one step deep: drain inputs, ask the scheduler, compute, process.
//! * `launch` turns a plan into a step, `process` its output into tokens and endings.
//! * `packed`: who decodes together, if the scheduler gives all of them a token in one word ([`StepPlan::decode_all`]).
//! * `leap` jumps over a run of decode steps of one batch where the scheduler has said that it would decide the same.
//! * `policies` are the schedulers of vLLM V0, of static batching and of Transformers' continuous batching.
//!
//! With that word a step costs O(its changes). Where the scheduler lists its members it costs O(batch), and a run of steps that
//! it calls alike ([`StepPlan::repeat_while_spare`]) costs O(batch) once.
//!
//! Prefix caching is by blocks, as vLLM has it; contents are found from the step after the one that computes them.

mod config;
mod launch;
mod leap;
mod ledger;
mod packed;
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
