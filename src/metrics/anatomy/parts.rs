//! The parts of a time to first token and of a time per output token, by name, and one request's own.

use crate::units::{PICOS_PER_SECOND, Picos};

/// A part of the time to first token, in the order in which they pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtftPart {
    /// Before it was sent to the replica that answered: in a gateway's queue, or on replicas that failed.
    Gateway,
    /// From there to the engine's queue: the front end.
    FrontEndIn,
    /// In the queue until the engine decided for the first time: the step under way when it came.
    StepUnderWay,
    /// In the queue while steps used their whole token budget.
    TokenBudget,
    /// In the queue while all seats were taken.
    Seats,
    /// In the queue while the KV pool had no room.
    KvPool,
    /// In the queue for another reason: a rule of the scheduler, a batch under way, KV that is loaded.
    OtherWait,
    /// From its first admission to its last one, where it was preempted before its first token.
    Preempted,
    /// Admitted, until its first step began: the step that ran meanwhile, where the engine schedules ahead.
    StepAhead,
    /// What its uncached prompt alone takes on this server.
    OwnPrefill,
    /// What its steps took beyond that: others' prompts and tokens in them.
    Interference,
    /// From the end of its prefill to its first token on another replica.
    HandOver,
    /// From the engine's first token to the client.
    FrontEndOut,
}

impl TtftPart {
    /// How many there are.
    pub const COUNT: usize = 13;

    /// All, in order.
    pub const ALL: [TtftPart; TtftPart::COUNT] = [
        TtftPart::Gateway,
        TtftPart::FrontEndIn,
        TtftPart::StepUnderWay,
        TtftPart::TokenBudget,
        TtftPart::Seats,
        TtftPart::KvPool,
        TtftPart::OtherWait,
        TtftPart::Preempted,
        TtftPart::StepAhead,
        TtftPart::OwnPrefill,
        TtftPart::Interference,
        TtftPart::HandOver,
        TtftPart::FrontEndOut,
    ];

    /// The parts of the wait in the engine's queue.
    pub const QUEUE: [TtftPart; 5] = [
        TtftPart::StepUnderWay,
        TtftPart::TokenBudget,
        TtftPart::Seats,
        TtftPart::KvPool,
        TtftPart::OtherWait,
    ];

    /// As results spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TtftPart::Gateway => "gateway",
            TtftPart::FrontEndIn => "front_end_in",
            TtftPart::StepUnderWay => "step_under_way",
            TtftPart::TokenBudget => "token_budget",
            TtftPart::Seats => "seats",
            TtftPart::KvPool => "kv_pool",
            TtftPart::OtherWait => "other_wait",
            TtftPart::Preempted => "preempted",
            TtftPart::StepAhead => "step_ahead",
            TtftPart::OwnPrefill => "own_prefill",
            TtftPart::Interference => "interference",
            TtftPart::HandOver => "hand_over",
            TtftPart::FrontEndOut => "front_end_out",
        }
    }
}

/// A part of the time between a request's first and last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpotPart {
    /// What its steps would have taken with nobody's prompts in them.
    Decode,
    /// What prompts added to these steps, and steps of prompts alone between them.
    Prompts,
    /// From a preemption to the next token.
    Preempted,
    /// No step ran on its replica.
    NoStep,
    /// How much later its last token reached the client than its first did.
    Delivery,
}

impl TpotPart {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// All.
    pub const ALL: [TpotPart; TpotPart::COUNT] = [
        TpotPart::Decode,
        TpotPart::Prompts,
        TpotPart::Preempted,
        TpotPart::NoStep,
        TpotPart::Delivery,
    ];

    /// As results spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TpotPart::Decode => "decode",
            TpotPart::Prompts => "prompts",
            TpotPart::Preempted => "preempted",
            TpotPart::NoStep => "no_step",
            TpotPart::Delivery => "delivery",
        }
    }
}

/// One answered request. Parts are picoseconds and may be negative where a comment on them says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAnatomy {
    /// When it left.
    pub ended: Picos,
    /// By [`TtftPart`]; they add up to its time to first token.
    pub ttft: [i64; TtftPart::COUNT],
    /// By [`TpotPart`]; they add up to the time from its first to its last token. `None` of a single token, and where answers leave whole.
    pub tokens: Option<[i64; TpotPart::COUNT]>,
    /// Tokens behind the first.
    pub gaps: u32,
    /// Prompt tokens that it computed before its first token.
    pub prompt_tokens: u32,
}

impl RequestAnatomy {
    /// Its time to first token, in picoseconds.
    #[must_use]
    pub fn ttft_picos(&self) -> i64 {
        self.ttft.iter().sum()
    }

    /// Its mean time per output token in seconds.
    #[must_use]
    pub fn tpot_s(&self) -> Option<f64> {
        let total: i64 = self.tokens?.iter().sum();
        Some(total as f64 / PICOS_PER_SECOND as f64 / f64::from(self.gaps))
    }
}
