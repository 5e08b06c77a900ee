//! Conversations as somebody led them: what was said, and who waited how long for whose answer.
//!
//! A turn is sent a while after the last of the answers that it waits for. Lines that run side by side (an agent and its
//! subagents) and come together again are turns that several wait for, and turns that wait for several. Where conversations
//! begin is not said here.

use crate::units::Picos;

/// Who waits for whom, without what is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of the first turn of each conversation; their turns stand one after the other.
    pub starts: Vec<u32>,
    /// In an order in which nobody waits for a later one.
    pub turns: Vec<PlannedTurn>,
}

/// When a turn is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedTurn {
    /// Turns whose answers it waits for, all of its conversation and before it. None of a turn that follows the beginning.
    pub after: Vec<u32>,
    /// How long after the last of those answers it is sent, or after the beginning.
    pub think_time: Picos,
}
