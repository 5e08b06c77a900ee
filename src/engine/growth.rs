//! Which members of a decoding batch need a new block of KV in which of its next steps.
//!
//! A member needs one in the step before which its last block is full, and again each `block_size` steps later, so only
//! how full the last blocks are counts. The pack keeps the same for a batch whose members come and go (`engine/pack.rs`).

/// A batch whose members each grow by a token in every step.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Members by their KV tokens modulo the block size, when they were counted.
    residues: Vec<u32>,
    /// How many are counted: those that do grow.
    growing: u32,
    /// Steps since then.
    ahead: u64,
}

impl Growth {
    /// Nobody grows yet.
    pub(crate) fn new(block_size: u32) -> Growth {
        Growth {
            residues: vec![0; block_size as usize],
            growing: 0,
            ahead: 0,
        }
    }

    /// Counts a member that has `tokens` tokens of KV before the next step.
    #[inline]
    pub(crate) fn count(&mut self, tokens: u32) {
        let residue = tokens as usize % self.residues.len();
        self.residues[residue] += 1;
        self.growing += 1;
    }

    /// Blocks that the step after the next `ahead` ones takes.
    pub(crate) fn blocks_due(&self, ahead: u64) -> u32 {
        let size = self.residues.len() as u64;
        let residue = (size - (self.ahead + ahead) % size) % size;
        self.residues[residue as usize]
    }

    /// Blocks that the next `steps` steps take.
    pub(crate) fn blocks_for(&self, steps: u64) -> u32 {
        let size = self.residues.len() as u64;
        let whole = (steps / size) as u32 * self.growing;
        whole + (0..steps % size).map(|ahead| self.blocks_due(ahead)).sum::<u32>()
    }

    /// The most steps, `limit` at most, that leave at least `reserve` of `free` blocks free.
    pub(crate) fn steps_that_fit(&self, free: u32, reserve: u32, limit: u64) -> u64 {
        let Some(mut left) = free.checked_sub(reserve) else {
            return 0;
        };
        // A cycle of `block_size` steps takes a block for each.
        let Some(cycles) = left.checked_div(self.growing) else {
            return limit;
        };
        let mut steps = (u64::from(cycles) * self.residues.len() as u64).min(limit);
        left -= self.blocks_for(steps);
        while steps < limit {
            match left.checked_sub(self.blocks_due(steps)) {
                Some(rest) => left = rest,
                None => break,
            }
            steps += 1;
        }
        steps
    }

    /// So many steps were taken.
    pub(crate) fn advance(&mut self, steps: u64) {
        self.ahead += steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_fit_as_often_as_walking_them_finds(
            mut members in prop::collection::vec(0u32..40, 0..6),
            (size, taken) in (1u32..6, 0u64..9),
            (free, reserve, limit) in (0u32..40, 0u32..8, 0u64..60),
        ) {
            let mut growth = Growth::new(size);
            members.iter().for_each(|&tokens| growth.count(tokens));
            let step = |members: &mut Vec<u32>| {
                let due = members.iter().filter(|tokens| tokens.is_multiple_of(size)).count() as u32;
                members.iter_mut().for_each(|tokens| *tokens += 1);
                due
            };
            growth.advance(taken);
            (0..taken).for_each(|_| {
                step(&mut members);
            });
            let (mut steps, mut left) = (0, free);
            while steps < limit {
                let due = step(&mut members);
                if left < reserve + due {
                    break;
                }
                left -= due;
                steps += 1;
            }
            // Where the reserve is not there to begin with, no step is taken, though it might take no block.
            let expected = if free < reserve { 0 } else { steps };
            prop_assert_eq!(growth.steps_that_fit(free, reserve, limit), expected);
            prop_assert_eq!(growth.blocks_for(expected), if free < reserve { 0 } else { free - left });
        }
    }
}
