//! The sequences of an engine by slot, and the handles under which others know them.

use crate::ids::SegmentId;
use crate::workload::{Piece, Request};

/// A sequence's place in its engine, safe against reuse of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
}

/// What has a place in a [`Roster`], and knows it.
pub(crate) trait Seated {
    /// Under which it was put there.
    fn handle(&self) -> Handle;
}

/// Everybody inside an engine. A sequence is large, so it is made where it sits and never moved.
#[derive(Debug)]
pub(crate) struct Roster<S> {
    slots: Vec<Option<S>>,
    /// Slots that nobody sits in; the one left last is taken first.
    vacant: Vec<usize>,
    generations: u32,
}

impl<S> Default for Roster<S> {
    fn default() -> Roster<S> {
        Roster {
            slots: Vec::new(),
            vacant: Vec::new(),
            generations: 0,
        }
    }
}

/// Who asks for a slot by its number knows that somebody sits there.
const SEATED: &str = "a slot is asked for while its sequence is there";

impl<S> std::ops::Index<usize> for Roster<S> {
    type Output = S;
    #[inline]
    fn index(&self, slot: usize) -> &S {
        self.slots[slot].as_ref().expect(SEATED)
    }
}

impl<S> std::ops::IndexMut<usize> for Roster<S> {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut S {
        self.slots[slot].as_mut().expect(SEATED)
    }
}

impl<S: Seated> Roster<S> {
    /// Seats the sequence that `make` makes for its handle.
    #[inline(always)]
    pub(crate) fn insert(&mut self, make: impl FnOnce(Handle) -> S) -> Handle {
        self.generations = self.generations.wrapping_add(1);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let handle = Handle {
            slot,
            generation: self.generations,
        };
        match &mut self.slots[slot] {
            seat @ None => *seat = Some(make(handle)),
            Some(_) => unreachable!("nobody sits in a vacant slot"),
        }
        handle
    }

    /// The sequence of a handle, if it has not left.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&S> {
        self.slots
            .get(handle.slot)?
            .as_ref()
            .filter(|sequence| sequence.handle().generation == handle.generation)
    }

    /// Everybody, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().flatten()
    }

    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// A sequence leaves for good.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        assert!(self.slots[slot].is_some(), "{SEATED}");
        self.slots[slot] = None;
        self.vacant.push(slot);
    }

    /// All leave. Their handles are never given again.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.vacant.clear();
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

    struct Seat(Handle);

    impl Seated for Seat {
        fn handle(&self) -> Handle {
            self.0
        }
    }

    #[test]
    fn a_handle_does_not_find_who_sits_there_later() {
        let mut roster = Roster::default();
        let first = roster.insert(Seat);
        assert_eq!(roster.get(first).map(Seated::handle), Some(first));
        roster.remove(first.slot);
        let second = roster.insert(Seat);
        assert_eq!(second.slot, first.slot, "the slot is used again");
        assert!(roster.get(first).is_none());
        roster.clear();
        let third = roster.insert(Seat);
        assert!(roster.get(second).is_none() && roster.get(third).is_some());
    }
}
