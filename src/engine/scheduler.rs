//! A scheduler of one's own: the trait that decides what each step computes.
//!
//! One method, [`Scheduler::schedule`], is called when a step may begin. It looks at who waits and who runs through a
//! [`StepPlan`] and says who computes how many tokens. Everything that engines share is done for it: KV blocks, token
//! counts, the end of an answer, clients that give up, prefix caching, and what a result reports. The engines
//! `vllm@0.6`, `static` and `hf-cb` are such schedulers ([`crate::engine::scheduled::policies`]); a user's own is given
//! to [`crate::engine::scheduled::ScheduledConfig::own`].
//!
//! Law: whatever a scheduler does, blocks in = blocks out and no token is computed twice or not at all. An action that
//! would break it is [`Denied`] and changes nothing. A scheduler that lets nobody go on, and names no time at which it
//! wants to be asked again, has hung its server: the run ends there and says so.
//!
//! What a scheduler cannot see is what no scheduler can: how long an answer will be. It sees `max_tokens`.

use crate::ids::RequestId;
use crate::units::Picos;

pub use super::scheduled::{StepPlan, Views};

/// Decides what a step computes.
pub trait Scheduler: Send {
    /// Composes the next step of an engine that is synchronous: everything before it is done. A plan without tokens
    /// starts no step; the scheduler is asked again at [`StepPlan::wake_at`], or at an arrival before that.
    fn schedule(&mut self, plan: &mut StepPlan<'_>);
}

/// A sequence's name inside its engine, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SequenceId(pub(crate) super::Handle);

/// What a scheduler sees of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceView {
    /// Its name in actions.
    pub id: SequenceId,
    /// The request it serves.
    pub request: RequestId,
    /// When its client sent it.
    pub arrival: Picos,
    /// When it reached this engine, or was last preempted.
    pub queued_since: Picos,
    /// As the client gave it.
    pub priority: i64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Most tokens that it may generate.
    pub max_tokens: u32,
    /// Tokens that it has generated.
    pub output_tokens: u32,
    /// Padding, prompt and outputs: what must be computed before the next token is sampled.
    pub known_tokens: u32,
    /// Of them, those whose KV is there.
    pub computed_tokens: u32,
    /// KV blocks that it holds.
    pub blocks: u32,
    /// What it was given in the step that is being composed.
    pub given_tokens: u32,
    /// It computes its prompt, or after a preemption all that it knows; otherwise it decodes.
    pub is_prefilling: bool,
}

impl SequenceView {
    /// Tokens to be computed before the next is sampled; a waiting sequence may find some of them cached
    /// ([`StepPlan::missing_tokens`]).
    #[must_use]
    pub fn missing_tokens(&self) -> u32 {
        self.known_tokens - self.computed_tokens
    }
}

/// When the answers of a batch that is closed leave (ST-3, ST-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// All at the end of the batch.
    Together,
    /// Each when it is complete; its row is computed on until the batch ends.
    EachWhole,
}

/// Why an action was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The only one that a right scheduler meets.
    #[error("it needs {needed} more KV blocks, and {free} are free")]
    NoBlocks {
        /// Blocks that it lacks.
        needed: u32,
        /// Blocks that nobody uses.
        free: u32,
    },
    /// The host's memory for KV blocks is full.
    #[error("it holds {needed} KV blocks, and {free} are free in the host's memory")]
    NoSwapSpace {
        /// Blocks to be moved.
        needed: u32,
        /// Blocks that are free there.
        free: u32,
    },
    /// It has ended, or its client has given up.
    #[error("no such sequence is inside any more")]
    Gone,
    /// A sequence computes one run of tokens in a step.
    #[error("it was given tokens in this step already")]
    GivenAlready,
    /// More than there is to compute, or nothing.
    #[error("{asked} tokens were asked for, of 1 to {missing} that it misses")]
    Tokens {
        /// What was asked for.
        asked: u32,
        /// What it misses.
        missing: u32,
    },
    /// The action is for waiting sequences.
    #[error("it does not wait")]
    NotWaiting,
    /// The action is for running sequences.
    #[error("it does not run")]
    NotRunning,
    /// The action is for sequences in the host's memory.
    #[error("it is not swapped out")]
    NotSwapped,
    /// A member of a closed batch stays until the batch ends.
    #[error("it belongs to a closed batch")]
    Bound,
}
