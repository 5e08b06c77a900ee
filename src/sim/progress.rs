//! How far a simulation is to go, how far it went, and why it came back.

use crate::units::Picos;

/// Requests by how far they got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken from the traffic.
    pub sent: u64,
    /// Left, by any outcome.
    pub ended: u64,
    /// Refused because their prompt leaves no room below `max_model_len`.
    pub prompt_too_long: u64,
    /// Refused because they could never fit the KV pool or the budget.
    pub never_fit: u64,
    /// Refused with 503: the engine's queue was full.
    pub queue_full: u64,
    /// Refused with 503: no replica was up.
    pub no_replica: u64,
    /// Refused with 429: above a rate limit.
    pub rate_limited: u64,
    /// Refused with 503: as many requests in flight, and in the queue before them, as are allowed.
    pub gate_full: u64,
    /// Refused with 503: no place came free in time.
    pub gate_timeout: u64,
    /// How often a request was sent again.
    pub sent_again: u64,
}

/// Requests that were refused at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// When.
    pub at: Picos,
    /// How many.
    pub count: u64,
}

/// Why [`Simulation::advance`](super::Simulation::advance) came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No request is inside and none will come.
    Drained,
    /// The asked number of requests have ended.
    EnoughEnded,
    /// The asked time has come.
    TimeUp,
    /// Sequences preempt each other for ever, or wait for blocks that each other hold: nobody will get another token.
    Livelock,
    /// So much came from outside as the caller wanted to wait for; nothing was told for the sake of this pause.
    Breath,
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Requests that have ended since the start.
    pub ended: u64,
    /// Simulated time.
    pub time: Picos,
}

impl Until {
    /// To the end of the traffic.
    pub const DRAINED: Until = Until {
        ended: u64::MAX,
        time: Picos::MAX,
    };
}
