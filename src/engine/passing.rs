//! When the pack's windows pass blocks: which members give one back in which step.
//!
//! A member whose context is long enough gives back a block every `block_size` steps, in the step at which its context
//! has a certain residue, as it takes one at residue 0. So the pack counts, for each kind of window, those members by their
//! anchors' residues, and keeps the others in the order of the steps in which they give back their first.

use super::ranks::Ranks;
use crate::kv::WindowGroups;

/// Members of the pack, as one kind of window sees them.
#[derive(Debug)]
pub(super) struct Passing {
    groups: u32,
    block_size: u32,
    /// Context before the step that gives back the first block.
    first: i64,
    /// Residue of every context before a step that gives one back.
    residue: u32,
    /// Members that have come so far, by `anchor mod block_size`.
    residues: Vec<u32>,
    /// How many they are.
    members: u32,
    /// The others, by the clock of the step that gives back their first block.
    awaited: Ranks,
}

impl Passing {
    /// Nobody yet. `in_flight` of the tokens before a step are not settled when it is decided.
    pub(super) fn new(kind: &WindowGroups, block_size: u32, in_flight: u32) -> Passing {
        // The settled tokens behind which the first block has been passed, and those in flight.
        let first = kind.window - 1 + block_size + in_flight;
        Passing {
            groups: kind.groups,
            block_size,
            first: i64::from(first),
            residue: first % block_size,
            residues: vec![0; block_size as usize],
            members: 0,
            awaited: Ranks::default(),
        }
    }

    /// A member of this anchor joins at `clock`.
    pub(super) fn join(&mut self, slot: usize, anchor: i64, clock: u64) {
        let begins = self.begins(anchor);
        if begins <= clock as i64 {
            self.begin(anchor);
        } else {
            self.awaited.insert(begins as u64, slot);
        }
    }

    /// A member leaves.
    pub(super) fn leave(&mut self, slot: usize, anchor: i64, clock: u64) {
        let begins = self.begins(anchor);
        if begins <= clock as i64 {
            let residue = self.residue(anchor);
            self.residues[residue] -= 1;
            self.members -= 1;
        } else {
            self.awaited.remove(slot);
        }
    }

    /// The pack has come to `clock`. Whether anybody begins to give back blocks.
    pub(super) fn advance(&mut self, clock: u64) -> bool {
        let mut any = false;
        while let Some(begins) = self.awaited.first()
            && begins <= clock
        {
            self.awaited.pop_first_below(begins + 1);
            self.begin(self.first - begins as i64);
            any = true;
        }
        any
    }

    /// The clock at which the next member begins, if one will.
    pub(super) fn next(&self) -> Option<u64> {
        self.awaited.first()
    }

    /// Blocks that are given back in the step for which members of residue `due` take one.
    pub(super) fn blocks(&self, due: u32) -> u32 {
        let residue = (due + self.residue) % self.block_size;
        self.groups * self.residues[residue as usize]
    }

    /// Members of one group each that give back as much as they take.
    pub(super) fn steady(&self) -> u32 {
        self.groups * self.members
    }

    fn begins(&self, anchor: i64) -> i64 {
        self.first - anchor
    }

    fn begin(&mut self, anchor: i64) {
        let residue = self.residue(anchor);
        self.residues[residue] += 1;
        self.members += 1;
    }

    fn residue(&self, anchor: i64) -> usize {
        anchor.rem_euclid(i64::from(self.block_size)) as usize
    }
}
