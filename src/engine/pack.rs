//! The pack: all sequences that decode one token in every step.
//!
//! They are never visited one by one. A clock counts the pack's steps; a sequence that joined with `computed` tokens
//! at clock `c` has `computed − c + clock` now, so its context, the blocks it needs and the step in which it ends
//! follow from its *anchor* `computed − c`. The pack keeps the number of members, the sum of their contexts, how many
//! anchors there are at each residue of the block size, and a heap of the clocks at which members end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sequence::{Handle, Phase, Sequence, Sequences};

/// Decoding sequences in lock-step.
#[derive(Debug)]
pub(crate) struct Pack {
    /// Steps that the pack has been scheduled for.
    pub(crate) clock: u64,
    /// How many sequences are in it.
    pub(crate) members: u32,
    /// Σ of their computed tokens.
    pub(crate) context: u64,
    block_size: u32,
    /// Members by `anchor mod block_size`.
    residues: Vec<u32>,
    /// (clock of the step that samples the last token, order of admission, who, epoch).
    endings: BinaryHeap<Reverse<(u64, u64, Handle, u32)>>,
    /// (anchor, who, epoch): the longest context on top.
    longest: BinaryHeap<(i64, Handle, u32)>,
    /// Whether the longest context is asked for.
    tracks_longest: bool,
}

impl Pack {
    /// An empty pack.
    pub(crate) fn new(block_size: u32, tracks_longest: bool) -> Pack {
        Pack {
            clock: 0,
            members: 0,
            context: 0,
            block_size,
            residues: vec![0; block_size as usize],
            endings: BinaryHeap::new(),
            longest: BinaryHeap::new(),
            tracks_longest,
        }
    }

    /// Computed tokens of a member.
    pub(crate) fn computed(&self, member: &Sequence) -> u32 {
        u32::try_from(member.anchor + self.clock as i64).expect("a member's context is a token count")
    }

    /// A sequence whose next token is a decode joins.
    pub(crate) fn join(&mut self, slot: usize, sequence: &mut Sequence) {
        sequence.phase = Phase::Packed;
        sequence.anchor = i64::from(sequence.computed) - self.clock as i64;
        sequence.joined = self.clock;
        self.members += 1;
        self.context += u64::from(sequence.computed);
        let residue = self.residue(sequence.anchor);
        self.residues[residue] += 1;
        let handle = sequence.handle(slot);
        // Σ sampled so far, one more each step: the last one is sampled in the step that starts at this clock.
        let last = self.clock + u64::from(sequence.output_tokens - sequence.sampled) - 1;
        self.endings
            .push(Reverse((last, sequence.order, handle, sequence.epoch)));
        if self.tracks_longest {
            self.longest.push((sequence.anchor, handle, sequence.epoch));
        }
    }

    /// A member leaves; its counts are made current.
    pub(crate) fn leave(&mut self, sequence: &mut Sequence, phase: Phase) {
        debug_assert_eq!(sequence.phase, Phase::Packed, "only members leave");
        sequence.computed = self.computed(sequence);
        sequence.sampled =
            (sequence.computed + 1 - sequence.request.prompt_tokens).min(sequence.output_tokens);
        sequence.phase = phase;
        sequence.epoch += 1;
        self.members -= 1;
        self.context -= u64::from(sequence.computed);
        let residue = self.residue(sequence.anchor);
        self.residues[residue] -= 1;
    }

    /// Blocks that the members need for the step at `clock + ahead`: those whose context fills its last block.
    pub(crate) fn blocks_needed(&self, ahead: u64) -> u32 {
        let residue = (self.clock + ahead) % u64::from(self.block_size);
        let at = (u64::from(self.block_size) - residue) % u64::from(self.block_size);
        self.residues[at as usize]
    }

    /// Blocks that the members took for the step that was scheduled `back` steps ago.
    pub(crate) fn blocks_needed_back(&self, back: u64) -> u32 {
        let size = u64::from(self.block_size);
        self.blocks_needed(size - back % size)
    }

    /// Blocks that the next `steps` steps need.
    pub(crate) fn blocks_needed_for(&self, steps: u64) -> u64 {
        let (cycles, rest) = (
            steps / u64::from(self.block_size),
            steps % u64::from(self.block_size),
        );
        let partial: u64 = (0..rest).map(|ahead| u64::from(self.blocks_needed(ahead))).sum();
        cycles * u64::from(self.members) + partial
    }

    /// The most steps, `limit` at most, whose blocks fit into `free`.
    pub(crate) fn steps_that_fit(&self, free: u32, limit: u64) -> u64 {
        if self.members == 0 {
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

    /// The longest context of the step at the current clock, its own token included.
    pub(crate) fn longest(&mut self, sequences: &Sequences) -> u32 {
        while let Some(&(anchor, handle, epoch)) = self.longest.peek() {
            if is_member(sequences, handle, epoch) {
                let computed = u32::try_from(anchor + self.clock as i64).expect("a context is a token count");
                return computed + 1;
            }
            self.longest.pop();
        }
        0
    }

    /// The clock of the next step that samples somebody's last token.
    pub(crate) fn next_ending(&mut self, sequences: &Sequences) -> Option<u64> {
        while let Some(&Reverse((clock, _, handle, epoch))) = self.endings.peek() {
            if is_member(sequences, handle, epoch) {
                return Some(clock);
            }
            self.endings.pop();
        }
        None
    }

    /// Takes the next member whose last token is sampled in the step at the current clock, in order of admission.
    pub(crate) fn pop_ending(&mut self, sequences: &Sequences) -> Option<Handle> {
        if self.next_ending(sequences)? > self.clock {
            return None;
        }
        self.endings.pop().map(|Reverse((_, _, handle, _))| handle)
    }

    fn residue(&self, anchor: i64) -> usize {
        anchor.rem_euclid(i64::from(self.block_size)) as usize
    }
}

fn is_member(sequences: &Sequences, handle: Handle, epoch: u32) -> bool {
    sequences
        .get(handle)
        .is_some_and(|sequence| sequence.phase == Phase::Packed && sequence.epoch == epoch)
}
