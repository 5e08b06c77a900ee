//! Where a request is, as far as a timeline shows it.
//!
//! From its arrival to its end a request is at one place at a time, those of `metrics::stays`: with a front end, in a
//! replica's queue, in its running batch, or waiting for its KV to cross. A place is written when it is left, when all of it is known.

use crate::units::Picos;

/// A request inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    pub(super) arrival: Picos,
    pub(super) prompt_tokens: u32,
    pub(super) place: Place,
    /// Since when it is there; of a queue perhaps an instant to come.
    pub(super) since: Picos,
    /// Its client has a token.
    pub(super) has_token: bool,
    /// The run on the replica that prefilled it, until it runs on another.
    pub(super) handed: Option<Handed>,
}

/// Where a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Before the routers, on its way into an engine, between two servers, or on its way back from a replica.
    FrontEnd { from: Option<usize> },
    /// In a queue, since which it counts once the instant has come; with a front end before, since `front`.
    Queue {
        replica: usize,
        front: Picos,
        is_counted: bool,
        is_preempted: bool,
    },
    /// In a batch.
    Running(Run),
    /// It waits for its KV.
    Crossing { to: usize },
}

impl Place {
    /// The replica that it has to do with.
    pub(super) fn replica(self) -> Option<usize> {
        match self {
            Place::FrontEnd { from } => from,
            Place::Queue { replica, .. } => Some(replica),
            Place::Running(run) => Some(run.replica),
            Place::Crossing { to } => Some(to),
        }
    }
}

/// A run in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) replica: usize,
    pub(super) slot: usize,
    /// What it does before its next token.
    pub(super) before_token: &'static str,
    /// Prompt tokens that it need not compute, and all that are known.
    pub(super) cached_tokens: u32,
    pub(super) known_tokens: u32,
    /// When it had its first token in this run.
    pub(super) token_at: Option<Picos>,
    /// Begin and end of the step that gave it the first token of all, if that is written.
    pub(super) token_step: Option<(Picos, Picos)>,
    pub(super) handed: Option<Handed>,
}

/// A run that ended in the hands of another replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    pub(super) replica: usize,
    pub(super) slot: usize,
    pub(super) begin: Picos,
    pub(super) end: Picos,
}
