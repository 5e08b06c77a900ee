//! Conversations as somebody led them: what was said, and who waited how long for whose answer.
//!
//! A turn is sent a while after the last of the answers that it waits for. Lines that run side by side (an agent and its
//! subagents) and come together again are turns that several wait for, and turns that wait for several. Where conversations
//! begin is not said here.

use std::sync::Arc;

use super::Request;
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

/// Conversations that can be led again.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    requests: Arc<[Request]>,
    /// The first turn of each conversation, and one past the last turn of all.
    starts: Vec<u32>,
    turns: Vec<Turn>,
    /// Turns that wait for an answer, those of one answer after those of the one before.
    followers: Vec<u32>,
}

/// A turn as it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    think_time: Picos,
    /// For how many answers it waits.
    waits_for: u32,
    /// Where those who wait for its answer stand among the followers.
    followers: (u32, u32),
}

impl Recording {
    /// Puts what is said and who waits together.
    ///
    /// # Panics
    /// If there is no turn, not one for each request, or one that waits for a later one or another conversation's.
    #[must_use]
    pub fn new(requests: Vec<Request>, plan: &Plan) -> Recording {
        assert_eq!(requests.len(), plan.turns.len(), "a turn is a request");
        assert_eq!(
            plan.starts.first(),
            Some(&0),
            "the first turn begins a conversation"
        );
        let mut starts = plan.starts.clone();
        starts.push(requests.len() as u32);
        assert!(
            starts.windows(2).all(|pair| pair[0] < pair[1]),
            "a conversation has a turn"
        );
        let mut counts = vec![0_u32; requests.len()];
        for conversation in starts.windows(2) {
            for turn in conversation[0]..conversation[1] {
                for &before in &plan.turns[turn as usize].after {
                    assert!(
                        (conversation[0]..turn).contains(&before),
                        "a turn waits for turns of its conversation that stand before it"
                    );
                    counts[before as usize] += 1;
                }
            }
        }
        let mut end = 0;
        let mut turns: Vec<Turn> = plan
            .turns
            .iter()
            .zip(counts)
            .map(|(planned, count)| {
                let from = end;
                end += count;
                Turn {
                    think_time: planned.think_time,
                    waits_for: planned.after.len() as u32,
                    followers: (from, from),
                }
            })
            .collect();
        let mut followers = vec![0; end as usize];
        for (turn, planned) in plan.turns.iter().enumerate() {
            for &before in &planned.after {
                let place = &mut turns[before as usize].followers.1;
                followers[*place as usize] = turn as u32;
                *place += 1;
            }
        }
        Recording {
            requests: requests.into(),
            starts,
            turns,
            followers,
        }
    }

    /// What is said, conversation after conversation.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many conversations there are.
    #[must_use]
    pub fn conversations(&self) -> usize {
        self.starts.len() - 1
    }

    /// Requests of a conversation, on average.
    #[must_use]
    pub fn mean_turns(&self) -> f64 {
        self.requests.len() as f64 / self.conversations() as f64
    }

    /// Mean time from an answer to a turn that waits for it, over the turns that wait for any; nothing where none does.
    #[must_use]
    pub fn mean_think_time(&self) -> Picos {
        let waiting = || self.turns.iter().filter(|turn| turn.waits_for > 0);
        let sum: u128 = waiting().map(|turn| u128::from(turn.think_time.0)).sum();
        Picos((sum / waiting().count().max(1) as u128) as u64)
    }

    /// The turns of a conversation.
    pub(super) fn turns_of(&self, conversation: usize) -> std::ops::Range<u32> {
        self.starts[conversation]..self.starts[conversation + 1]
    }

    /// For how many answers a turn waits.
    pub(super) fn waits_for(&self, turn: u32) -> u32 {
        self.turns[turn as usize].waits_for
    }

    /// How long after the last answer that it waits for, or after the beginning, a turn is sent.
    pub(super) fn think_time(&self, turn: u32) -> Picos {
        self.turns[turn as usize].think_time
    }

    /// The turns that wait for a turn's answer.
    pub(super) fn followers(&self, turn: u32) -> &[u32] {
        let (from, to) = self.turns[turn as usize].followers;
        &self.followers[from as usize..to as usize]
    }
}
