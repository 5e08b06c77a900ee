//! The sequences of an engine by slot, and the handles under which others know them.

use crate::ids::SegmentId;
use crate::workload::{Piece, Request};

/// A sequence's place in its engine, safe against reuse of the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
}

/// Everybody inside an engine. A sequence is large, so it stays where it sits; when it has left, it stays there until the next one
/// sits down, and no handle finds it.
#[derive(Debug)]
pub(crate) struct Roster<S> {
    slots: Vec<S>,
    /// Of each slot, the generation of who sits there; [`NOBODY`] where nobody does.
    seated: Vec<u32>,
    /// Slots that nobody sits in; the one left last is taken first.
    vacant: Vec<usize>,
    generations: u32,
}

/// The generation of nobody.
const NOBODY: u32 = 0;

impl<S> Default for Roster<S> {
    fn default() -> Roster<S> {
        Roster {
            slots: Vec::new(),
            seated: Vec::new(),
            vacant: Vec::new(),
            generations: NOBODY,
        }
    }
}

/// Who asks for a slot by its number knows that somebody sits there.
const SEATED: &str = "a slot is asked for while its sequence is there";

impl<S> Roster<S> {
    /// Somebody sits there.
    #[inline(never)]
    fn is_taken(&self, slot: usize) -> bool {
        self.seated[slot] != NOBODY
    }
}

impl<S> std::ops::Index<usize> for Roster<S> {
    type Output = S;
    #[inline]
    fn index(&self, slot: usize) -> &S {
        debug_assert!(self.is_taken(slot), "{SEATED}");
        &self.slots[slot]
    }
}

impl<S> std::ops::IndexMut<usize> for Roster<S> {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut S {
        debug_assert!(self.is_taken(slot), "{SEATED}");
        &mut self.slots[slot]
    }
}

impl<S> Roster<S> {
    /// Seats the sequence that `make` makes for its handle.
    #[inline(always)]
    pub(crate) fn insert(&mut self, make: impl FnOnce(Handle) -> S) -> Handle {
        let generation = self.next_generation();
        match self.vacant.pop() {
            Some(slot) => {
                let handle = Handle { slot, generation };
                self.seated[slot] = generation;
                self.slots[slot] = make(handle);
                handle
            }
            None => {
                let slot = self.slots.len();
                let handle = Handle { slot, generation };
                self.seated.push(generation);
                self.slots.push(make(handle));
                handle
            }
        }
    }

    #[inline]
    fn next_generation(&mut self) -> u32 {
        self.generations = self.generations.checked_add(1).unwrap_or(NOBODY + 1);
        self.generations
    }

    /// The sequence of a handle, if it has not left.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&S> {
        debug_assert!(handle.generation != NOBODY, "handles are of somebody");
        let is_there = self.seated.get(handle.slot) == Some(&handle.generation);
        is_there.then(|| &self.slots[handle.slot])
    }

    /// Everybody, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        let seats = self.slots.iter().zip(&self.seated);
        seats
            .filter(|&(_, &generation)| generation != NOBODY)
            .map(|(sequence, _)| sequence)
    }

    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// A sequence leaves for good.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        let generation = std::mem::replace(&mut self.seated[slot], NOBODY);
        assert_ne!(generation, NOBODY, "{SEATED}");
        self.vacant.push(slot);
    }

    /// All leave. Their handles are never given again.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.seated.clear();
        self.vacant.clear();
    }
}

impl<S: Default> Roster<S> {
    /// A handle, and the seat that goes with it as whoever sat there last has left it; the sequence that sits down now makes it its own.
    #[inline(always)]
    pub(crate) fn take_seat(&mut self) -> (Handle, &mut S) {
        let generation = self.next_generation();
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(S::default());
            self.seated.push(NOBODY);
            self.slots.len() - 1
        });
        self.seated[slot] = generation;
        (Handle { slot, generation }, &mut self.slots[slot])
    }
}

/// Writes down what the tokens of a request are: its prompt, then its output, and one behind that which an engine that
/// runs ahead may compute. Where `eos` names the text of end-of-sequence tokens, the last of an answer that ends by one
/// is that.
pub(crate) fn identify(request: &Request, eos: Option<SegmentId>, pieces: &mut Vec<Piece>) {
    pieces.extend(request.prompt_pieces());
    let mut output = Piece {
        segment: request.output_segment,
        start: request.prompt_tokens,
        tokens: request.output_tokens + 1,
    };
    match eos {
        Some(segment) if request.ends_by_eos() => {
            output.tokens = request.output_tokens - 1;
            if output.tokens > 0 {
                pieces.push(output);
            }
            pieces.push(Piece {
                segment,
                start: request.prompt_tokens + request.output_tokens - 1,
                tokens: 1,
            });
        }
        _ => pieces.push(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seat(Handle);

    #[test]
    fn a_handle_does_not_find_who_sits_there_later() {
        let mut roster = Roster::default();
        let first = roster.insert(Seat);
        assert_eq!(roster.get(first).map(|seat| seat.0), Some(first));
        roster.remove(first.slot);
        let second = roster.insert(Seat);
        assert_eq!(second.slot, first.slot, "the slot is used again");
        assert!(roster.get(first).is_none());
        let (third, seat) = roster.take_seat();
        seat.0 = third;
        assert_ne!(third.slot, second.slot, "a seat of its own");
        roster.remove(second.slot);
        let inside: Vec<Handle> = roster.iter().map(|seat| seat.0).collect();
        assert_eq!((inside, roster.len()), (vec![third], 1));
        let (fourth, seat) = roster.take_seat();
        assert_eq!(seat.0, second, "as whoever sat there last left it");
        assert!(fourth.slot == second.slot && roster.get(second).is_none());
        roster.clear();
        let third = roster.insert(Seat);
        assert!(roster.get(second).is_none() && roster.get(third).is_some());
    }
}
