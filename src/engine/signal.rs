//! What a replica of a prefill or decode pool tells those between the pools.
//!
//! A replica that has something to tell goes no further until it is heard, so what follows from it (a transfer, a
//! prefill on another replica) comes in order of time.

use crate::ids::RequestId;
use crate::units::Picos;

/// Something that concerns a replica of the other pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// When.
    pub(crate) at: Picos,
    /// Whose.
    pub(crate) id: RequestId,
    /// What.
    pub(crate) what: Signal,
}

/// What can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A decode replica has memory for the prompt, and the prefill may begin (PD-23).
    Reserved,
    /// A prefill replica has the KV of the first `tokens` tokens, whole pages or the whole prompt.
    Computed {
        /// Counted from the prompt's beginning.
        tokens: u32,
        /// All of the prompt, and the first token.
        is_last: bool,
    },
    /// A decode replica reads so many prompt tokens from the prefill replica (PD-9).
    Reads {
        /// Those that it does not have.
        tokens: u32,
    },
}
