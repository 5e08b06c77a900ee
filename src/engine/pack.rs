//! The pack: all sequences that decode one token in every step.
//!
//! They are never visited one by one. A clock counts the pack's steps; a sequence that joined with `computed` tokens
//! at clock `c` has `computed − c + clock` now, so its context, the blocks it needs and the step in which it ends
//! follow from its *anchor* `computed − c`. The pack keeps the number of members, the sum of their contexts, how many
//! anchors there are at each residue of the block size, and heaps of the clocks at which members end and of their
//! anchors. Departures leave their entries in the heaps; an entry is current while its *stay* is its sequence's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sequence::{Phase, Sequence, Sequences};

/// Decoding sequences in lock-step.
#[derive(Debug)]
pub(crate) struct Pack {
    /// Steps that the pack has been scheduled for.
    clock: u64,
    /// How many sequences are in it.
    pub(crate) members: u32,
    /// Σ of their computed tokens.
    pub(crate) context: u64,
    block_size: u32,
    /// Members by `anchor mod block_size`.
    residues: Vec<u32>,
    /// `−clock mod block_size`: members of this residue need a block for the step at the clock.
    due: u32,
    /// Counts the times that a sequence joined.
    stays: u32,
    /// By the clock of the step that samples the last token.
    endings: BinaryHeap<Reverse<Entry>>,
    /// Clock of the first current entry of `endings`, `u64::MAX` without one.
    next_ending: u64,
    /// Whether the longest context is asked for.
    tracks_longest: bool,
    anchors: BinaryHeap<Entry>,
    /// The first current entry of `anchors`.
    longest: Option<i64>,
}

/// An entry of a heap: a key, then whose it is. One integer, so that comparing two is one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(key: u64, slot: usize, stay: u32) -> Entry {
        Entry(u128::from(key) << 64 | (slot as u128) << 32 | u128::from(stay))
    }

    fn key(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn slot(self) -> usize {
        (self.0 >> 32) as u32 as usize
    }

    fn is_current(self, sequences: &Sequences) -> bool {
        sequences
            .at(self.slot())
            .is_some_and(|sequence| sequence.phase == Phase::Packed && sequence.stay == self.0 as u32)
    }
}

/// Added to anchors, so that they are ordered as unsigned keys.
const ANCHOR_BIAS: u64 = 1 << 63;

impl Pack {
    /// An empty pack.
    pub(crate) fn new(block_size: u32, tracks_longest: bool) -> Pack {
        Pack {
            clock: 0,
            members: 0,
            context: 0,
            block_size,
            residues: vec![0; block_size as usize],
            due: 0,
            stays: 0,
            endings: BinaryHeap::new(),
            next_ending: u64::MAX,
            tracks_longest,
            anchors: BinaryHeap::new(),
            longest: None,
        }
    }

    /// Computed tokens of a member.
    pub(crate) fn computed(&self, member: &Sequence) -> u32 {
        u32::try_from(member.anchor + self.clock as i64).expect("a member's context is a token count")
    }

    /// A member has been scheduled since it joined.
    pub(crate) fn has_moved(&self, member: &Sequence) -> bool {
        self.clock > member.joined
    }

    /// A sequence whose next token is a decode joins.
    pub(crate) fn join(&mut self, slot: usize, sequence: &mut Sequence) {
        self.stays = self.stays.wrapping_add(1);
        sequence.phase = Phase::Packed;
        sequence.anchor = i64::from(sequence.computed) - self.clock as i64;
        sequence.joined = self.clock;
        sequence.stay = self.stays;
        self.members += 1;
        self.context += u64::from(sequence.computed);
        let residue = self.residue(sequence.anchor);
        self.residues[residue] += 1;
        let clock = last_clock(sequence);
        self.endings.push(Reverse(Entry::new(clock, slot, self.stays)));
        self.next_ending = self.next_ending.min(clock);
        if self.tracks_longest {
            let key = (sequence.anchor as u64).wrapping_add(ANCHOR_BIAS);
            self.anchors.push(Entry::new(key, slot, self.stays));
            self.longest = self.longest.max(Some(sequence.anchor));
        }
    }

    /// A member leaves; its counts are made current. [`Pack::forget_departed`] must follow before the pack is asked
    /// for endings or the longest context.
    pub(crate) fn leave(&mut self, sequence: &mut Sequence, phase: Phase) {
        debug_assert_eq!(sequence.phase, Phase::Packed, "only members leave");
        sequence.computed = self.computed(sequence);
        sequence.sampled =
            (sequence.computed + 1 - sequence.request.prompt_tokens).min(sequence.output_tokens);
        sequence.phase = phase;
        self.members -= 1;
        self.context -= u64::from(sequence.computed);
        let residue = self.residue(sequence.anchor);
        self.residues[residue] -= 1;
    }

    /// Drops entries of departed members from the tops of the heaps.
    pub(crate) fn forget_departed(&mut self, sequences: &Sequences) {
        self.forget_departed_endings(sequences);
        while self.anchors.peek().is_some_and(|top| !top.is_current(sequences)) {
            self.anchors.pop();
        }
        let anchor = |top: &Entry| top.key().wrapping_sub(ANCHOR_BIAS) as i64;
        self.longest = self.anchors.peek().map(anchor);
    }

    fn forget_departed_endings(&mut self, sequences: &Sequences) {
        while self.endings.peek().is_some_and(|Reverse(top)| !top.is_current(sequences)) {
            self.endings.pop();
        }
        self.next_ending = self.endings.peek().map_or(u64::MAX, |Reverse(top)| top.key());
    }

    /// The steps that may be scheduled before the one that samples somebody's last token.
    pub(crate) fn steps_before_ending(&self) -> u64 {
        self.next_ending - self.clock
    }

    /// Moves the pack on by scheduled steps.
    pub(crate) fn advance(&mut self, steps: u64) {
        self.clock += steps;
        self.context += steps * u64::from(self.members);
        self.due = self.due_after(steps);
    }

    /// [`Pack::due`] after so many steps.
    fn due_after(&self, steps: u64) -> u32 {
        let back = if steps < u64::from(self.block_size) {
            steps as u32
        } else {
            (steps % u64::from(self.block_size)) as u32
        };
        if self.due >= back {
            self.due - back
        } else {
            self.due + self.block_size - back
        }
    }

    /// Blocks that the members need for the step at `clock + ahead`: those whose context fills its last block.
    pub(crate) fn blocks_needed(&self, ahead: u64) -> u32 {
        self.residues[self.due_after(ahead) as usize]
    }

    /// Blocks that the members took for the step that was scheduled `back` steps ago.
    pub(crate) fn blocks_needed_back(&self, back: u64) -> u32 {
        let size = u64::from(self.block_size);
        let back = if back < size { back } else { back % size };
        self.blocks_needed(size - back)
    }

    /// Blocks that the next `steps` steps need.
    pub(crate) fn blocks_needed_for(&self, steps: u64) -> u64 {
        let size = u64::from(self.block_size);
        let (cycles, rest) = if steps < size {
            (0, steps as usize)
        } else {
            (steps / size, (steps % size) as usize)
        };
        // The residues are met downwards from the one that is due, and again from the top.
        let due = self.due as usize;
        let before_wrap = rest.min(due + 1);
        let after_wrap = rest - before_wrap;
        let sum = |residues: &[u32]| residues.iter().map(|&count| u64::from(count)).sum::<u64>();
        cycles * u64::from(self.members)
            + sum(&self.residues[due + 1 - before_wrap..=due])
            + sum(&self.residues[self.residues.len() - after_wrap..])
    }

    /// The most steps, `limit` at most, whose blocks fit into `free`.
    pub(crate) fn steps_that_fit(&self, free: u32, limit: u64) -> u64 {
        // No more than one block each is needed in a cycle of steps.
        let cycles = limit / u64::from(self.block_size) + 1;
        if cycles * u64::from(self.members) <= u64::from(free) {
            return limit;
        }
        let cycles = u64::from(free / self.members);
        let mut steps = cycles * u64::from(self.block_size);
        if steps >= limit {
            return limit;
        }
        let mut left = free % self.members;
        while steps < limit {
            let need = self.blocks_needed(steps);
            if need > left {
                break;
            }
            left -= need;
            steps += 1;
        }
        steps
    }

    /// The longest context of the step at the current clock, its own token included; 0 without members.
    pub(crate) fn longest(&self) -> u32 {
        self.longest.map_or(0, |anchor| {
            u32::try_from(anchor + self.clock as i64).expect("a context is a token count") + 1
        })
    }

    /// Takes the next member whose last token is sampled in the step at the current clock.
    pub(crate) fn pop_ending(&mut self, sequences: &Sequences) -> Option<usize> {
        if self.next_ending > self.clock {
            return None;
        }
        let Reverse(ending) = self.endings.pop()?;
        self.forget_departed_endings(sequences);
        Some(ending.slot())
    }

    fn residue(&self, anchor: i64) -> usize {
        anchor.rem_euclid(i64::from(self.block_size)) as usize
    }
}

/// The clock of the step that samples the last token of a sequence that has just joined: Σ sampled so far, one more
/// each step.
fn last_clock(sequence: &Sequence) -> u64 {
    sequence.joined + u64::from(sequence.output_tokens - sequence.sampled) - 1
}
