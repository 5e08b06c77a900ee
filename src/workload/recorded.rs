//! Conversations led again as they were recorded: each turn a while after the last of the answers that it waits for.
//!
//! Conversations are taken in their order, each once. What one costs when it is opened is one count for each of its turns; after
//! that an answer costs its followers. A turn that fails breaks its conversation off: what has been sent is served, and nothing
//! more is sent. Laws: turns that wait for one another are sent in their order, the gap between them is the recorded one to the
//! picosecond, and as long as nothing fails every turn of an opened conversation is sent once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use slab::Slab;

use super::arrivals::after;
use super::{Recording, Request};
use crate::ids::RequestId;
use crate::units::Picos;

/// A recording, and its conversations that are under way.
#[derive(Debug)]
pub(super) struct Recorded {
    recording: Arc<Recording>,
    /// The conversation that is begun next.
    next: usize,
    open: Slab<Open>,
    /// Turns whose time is known, by when they are submitted; ties leave in the order in which they became known.
    due: BinaryHeap<Reverse<(Picos, u64, Speaker)>>,
    scheduled: u64,
    clock_exhausted: bool,
}

/// A turn of an open conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Speaker {
    pub(super) conversation: usize,
    turn: u32,
}

#[derive(Debug)]
struct Open {
    /// The number of its first request.
    number: u64,
    user: Option<u32>,
    priority: i64,
    first: u32,
    /// For how many answers each of its turns still waits.
    waits_for: Box<[u32]>,
    in_flight: u32,
    due: u32,
    is_broken: bool,
}

impl Recorded {
    pub(super) fn new(recording: Arc<Recording>) -> Recorded {
        Recorded {
            recording,
            next: 0,
            open: Slab::new(),
            due: BinaryHeap::new(),
            scheduled: 0,
            clock_exhausted: false,
        }
    }

    /// Opens the next conversation at `now`, led by `user` where there are users, with the first `turns_max` of its turns. Its first
    /// turn is spoken as request `id`. Returns that turn and how many there are.
    pub(super) fn open(
        &mut self,
        user: Option<u32>,
        turns_max: u64,
        priority: i64,
        (id, now): (RequestId, Picos),
    ) -> (Speaker, u64) {
        let recording = self.recording.clone();
        let turns = recording.turns_of(self.next);
        self.next += 1;
        let first = turns.start;
        let kept = turns.take(usize::try_from(turns_max).unwrap_or(usize::MAX));
        let waits_for: Box<[u32]> = kept.map(|turn| recording.waits_for(turn)).collect();
        let planned = waits_for.len() as u32;
        let roots: Vec<u32> = (1..planned)
            .filter(|&turn| waits_for[turn as usize] == 0)
            .collect();
        let conversation = self.open.insert(Open {
            number: id.0,
            user,
            priority,
            first,
            waits_for,
            in_flight: 0,
            due: 0,
            is_broken: false,
        });
        for turn in roots {
            self.schedule(conversation, first + turn, now);
        }
        let speaker = Speaker {
            conversation,
            turn: first,
        };
        (speaker, u64::from(planned))
    }

    /// Says a turn as request `id`.
    pub(super) fn speak(&mut self, speaker: Speaker, id: RequestId) -> Request {
        let open = &mut self.open[speaker.conversation];
        open.in_flight += 1;
        Request {
            id,
            session: Some(open.number),
            priority: open.priority,
            ..self.recording.requests()[speaker.turn as usize].clone()
        }
    }

    /// A turn has left at `now`, with its answer or without. Returns whether its conversation goes on.
    pub(super) fn left(&mut self, speaker: Speaker, now: Picos, is_answered: bool) -> bool {
        let Speaker { conversation, turn } = speaker;
        self.open[conversation].in_flight -= 1;
        if !is_answered {
            self.break_off(conversation);
        }
        let recording = self.recording.clone();
        for &follower in recording.followers(turn) {
            let open = &mut self.open[conversation];
            let Some(waits_for) = open.waits_for.get_mut((follower - open.first) as usize) else {
                continue;
            };
            *waits_for -= 1;
            if *waits_for == 0 && !open.is_broken {
                self.schedule(conversation, follower, now);
            }
        }
        let open = &self.open[conversation];
        let goes_on = open.in_flight > 0 || open.due > 0;
        if !goes_on {
            self.open.remove(conversation);
        }
        goes_on
    }

    /// A turn is submitted after its think time. One past the end of the clock breaks its conversation off.
    fn schedule(&mut self, conversation: usize, turn: u32, now: Picos) {
        if self.open[conversation].is_broken {
            return;
        }
        let Some(submitted) = after(now, self.recording.think_time(turn)) else {
            self.clock_exhausted = true;
            return self.break_off(conversation);
        };
        let speaker = Speaker { conversation, turn };
        self.due.push(Reverse((submitted, self.scheduled, speaker)));
        self.scheduled += 1;
        self.open[conversation].due += 1;
    }

    /// Sends no more of a conversation.
    fn break_off(&mut self, conversation: usize) {
        let open = &mut self.open[conversation];
        open.is_broken = true;
        if open.due > 0 {
            open.due = 0;
            self.due
                .retain(|Reverse((.., speaker))| speaker.conversation != conversation);
        }
    }

    /// When the next turn that waited for answers is submitted.
    pub(super) fn peek(&self) -> Option<Picos> {
        self.due.peek().map(|Reverse((submitted, ..))| *submitted)
    }

    /// The turn that [`Recorded::peek`] announced, and the user who leads its conversation.
    pub(super) fn take(&mut self) -> (Speaker, Option<u32>) {
        let Reverse((_, _, speaker)) = self.due.pop().expect("a turn that was announced is due");
        let open = &mut self.open[speaker.conversation];
        open.due -= 1;
        (speaker, open.user)
    }

    pub(super) fn clock_exhausted(&self) -> bool {
        self.clock_exhausted
    }
}

#[cfg(test)]
mod tests;
