//! The pack: all sequences that decode one token in every step.
//!
//! They are never visited one by one. A clock counts the pack's steps; a sequence that joined with `computed` tokens
//! at clock `c` has `computed − c + clock` now, so its context, the blocks it needs and the step in which it ends
//! follow from its *anchor* `computed − c`. The pack keeps the number of members, the sum of their contexts, how many
//! anchors there are at each residue of the block size, and in order the clocks at which members end and their anchors.
//! What windows give back is counted in the same way ([`Passing`]); without windows there is nothing of it.
//!
//! Every engine has one. What else there is to know of a member is its engine's, which keeps its [`Place`].

use std::hint::cold_path;
use std::ops::Range;

use super::passing::Passing;
use super::picking::Picking;
use super::ranks::Ranks;
use crate::kv::KvGroups;

/// A member's place in the pack, the same as long as it stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Its computed tokens less the pack's clock.
    anchor: i64,
    /// `anchor mod block_size`.
    residue: u32,
    /// The clock at which it joined: that of the first step that it takes part in.
    pub(crate) joined: u64,
    /// The clock of the step that samples its last token.
    pub(crate) last: u64,
}

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
    /// Groups of layers: a member needs a block of each.
    groups: u32,
    /// What windows give back, by kind of window.
    passing: Vec<Passing>,
    /// What sparse attention does not read; `None` where it reads everything.
    picking: Option<Box<Picking>>,
    /// Tokens of a member that are in flight when its next step is decided, as windows see it.
    pub(super) in_flight: u32,
    /// Members by `anchor mod block_size`.
    residues: Vec<u32>,
    /// `−clock mod block_size`: members of this residue need a block for the step at the clock.
    due: u32,
    /// Members by the clock of the step that samples their last token.
    endings: Ranks,
    /// Whether the longest context is asked for.
    tracks_longest: bool,
    /// Members by their contexts, the longest first.
    contexts: Ranks,
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
            groups: 1,
            passing: Vec::new(),
            picking: None,
            in_flight: 0,
            residues: vec![0; block_size as usize],
            due: 0,
            endings: Ranks::default(),
            tracks_longest,
            contexts: Ranks::default(),
        }
    }

    /// The same for groups of layers. `in_flight` of a member's tokens are not settled when a step is decided.
    pub(crate) fn of_groups(self, groups: &KvGroups, in_flight: u32) -> Pack {
        let size = self.block_size;
        let kinds = groups.windows.iter();
        Pack {
            groups: groups.count(),
            passing: kinds.map(|kind| Passing::new(kind, size, in_flight)).collect(),
            in_flight,
            ..self
        }
    }

    /// The same where sparse attention reads no more than so many tokens of a context, if there is such a bound.
    pub(crate) fn reading(self, most: Option<u32>) -> Pack {
        Pack {
            picking: most.map(|most| Box::new(Picking::new(most))),
            ..self
        }
    }

    /// Tokens that sparse attention leaves unread in the step at the clock, and how many members leave one more in the next.
    #[inline]
    pub(crate) fn beyond(&self) -> (u64, u32) {
        match &self.picking {
            None => (0, 0),
            Some(picking) => {
                cold_path();
                picking.beyond()
            }
        }
    }

    /// Steps that the pack has been scheduled for, since ever.
    #[inline]
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Computed tokens of a member.
    #[inline]
    pub(crate) fn computed(&self, place: &Place) -> u32 {
        self.computed_at(place, self.clock)
    }

    /// Computed tokens of a member at another clock.
    #[inline]
    pub(crate) fn computed_at(&self, place: &Place, clock: u64) -> u32 {
        u32::try_from(place.anchor + clock as i64).expect("a member's context is a token count")
    }

    /// Whether the last block of any member is full at one of these clocks.
    #[inline]
    pub(crate) fn fills_blocks(&self, clocks: Range<u64>) -> bool {
        let size = u64::from(self.block_size);
        let mut residues = clocks
            .take(self.residues.len())
            .map(|clock| (size - clock % size) % size);
        residues.any(|residue| self.residues[residue as usize] > 0)
    }

    /// A member has been scheduled since it joined.
    #[inline]
    pub(crate) fn has_moved(&self, place: &Place) -> bool {
        self.clock > place.joined
    }

    /// A sequence with so many computed tokens joins, which samples `left` more, one in each step.
    #[inline(always)]
    pub(crate) fn join(&mut self, slot: usize, computed: u32, left: u32) -> Place {
        debug_assert!(left > 0, "whoever has all its tokens decodes no more");
        let anchor = i64::from(computed) - self.clock as i64;
        let place = Place {
            anchor,
            residue: (computed + self.due) % self.block_size,
            joined: self.clock,
            last: self.clock + u64::from(left) - 1,
        };
        self.members += 1;
        self.context += u64::from(computed);
        self.residues[place.residue as usize] += 1;
        if !self.passing.is_empty() {
            cold_path();
            for kind in &mut self.passing {
                kind.join(slot, place.anchor, self.clock);
            }
        }
        if let Some(picking) = &mut self.picking {
            cold_path();
            picking.join(slot, place.anchor, self.clock);
        }
        self.endings.insert(place.last, slot);
        if self.tracks_longest {
            self.contexts.insert(context_rank(place.anchor), slot);
        }
        place
    }

    /// A member leaves. Its computed tokens.
    #[inline(always)]
    pub(crate) fn leave(&mut self, slot: usize, place: &Place) -> u32 {
        self.endings.remove(slot);
        if self.tracks_longest {
            self.contexts.remove(slot);
        }
        if !self.passing.is_empty() {
            cold_path();
            for kind in &mut self.passing {
                kind.leave(slot, place.anchor, self.clock);
            }
        }
        if let Some(picking) = &mut self.picking {
            cold_path();
            picking.leave(slot, place.anchor, self.clock);
        }
        let computed = self.computed(place);
        self.members -= 1;
        self.context -= u64::from(computed);
        self.residues[place.residue as usize] -= 1;
        computed
    }

    /// The clock of the step that samples the next last token of a member.
    #[inline]
    pub(crate) fn first_ending(&self) -> Option<u64> {
        self.endings.first()
    }

    /// The steps that may be scheduled until somebody's last token is sampled, the one that samples it included.
    #[inline]
    pub(crate) fn steps_to_ending(&self) -> u64 {
        match self.endings.first() {
            Some(last) => last + 1 - self.clock,
            None => u64::MAX,
        }
    }

    /// Moves the pack on by scheduled steps. Whether what a step gives back or leaves unread follows another law from now on.
    #[inline(always)]
    pub(crate) fn advance(&mut self, steps: u64) -> bool {
        self.clock += steps;
        self.context += steps * u64::from(self.members);
        self.due = self.due_after(steps);
        let mut changes = false;
        if !self.passing.is_empty() {
            cold_path();
            for kind in &mut self.passing {
                changes |= kind.advance(self.clock);
            }
        }
        if let Some(picking) = &mut self.picking {
            cold_path();
            changes |= picking.advance(steps, self.clock);
        }
        changes
    }

    /// [`Pack::due`] after so many steps.
    #[inline]
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

    /// Blocks that the members need for the step at the clock.
    #[inline]
    pub(crate) fn blocks_due(&self) -> u32 {
        self.groups * self.residues[self.due as usize]
    }

    /// Blocks that windows have passed when the step at `clock + ahead` is decided.
    #[inline]
    pub(crate) fn blocks_passed(&self, ahead: u64) -> u32 {
        if self.passing.is_empty() {
            return 0;
        }
        cold_path();
        let due = self.due_after(ahead);
        self.passing.iter().map(|kind| kind.blocks(due)).sum()
    }

    /// Blocks that windows pass in the next `steps` steps, among which nobody's law changes.
    #[inline]
    pub(crate) fn blocks_passed_in(&self, steps: u64) -> u64 {
        match self.passing.is_empty() {
            true => 0,
            false => self.blocks_of_windows(steps),
        }
    }

    #[cold]
    fn blocks_of_windows(&self, steps: u64) -> u64 {
        let size = u64::from(self.block_size);
        let steady = self.blocks_passed_a_cycle();
        let rest = (0..steps % size).map(|ahead| u64::from(self.blocks_passed(ahead)));
        steps / size * u64::from(steady) + rest.sum::<u64>()
    }

    /// Blocks that windows pass in as many steps as a block has tokens. No fewer are taken in these, so at no step of a
    /// constant pack more blocks are free than so many more than now.
    #[inline]
    pub(crate) fn blocks_passed_a_cycle(&self) -> u32 {
        if self.passing.is_empty() {
            return 0;
        }
        cold_path();
        self.passing.iter().map(Passing::steady).sum()
    }

    /// Token slots that a step takes on average more than it gives back: in each group one for a member whose windows
    /// pass nothing.
    #[inline]
    pub(crate) fn slots_a_step(&self) -> u32 {
        self.groups * self.members - self.blocks_passed_a_cycle()
    }

    /// Blocks that the members need for the step at `clock + ahead`: those whose context fills its last block.
    #[inline]
    pub(crate) fn blocks_needed(&self, ahead: u64) -> u32 {
        self.groups * self.residues[self.due_after(ahead) as usize]
    }

    /// Blocks that the members took for the step that was scheduled last.
    #[inline]
    pub(crate) fn blocks_needed_last(&self) -> u32 {
        let at = self.due + 1;
        self.groups * self.residues[if at == self.block_size { 0 } else { at } as usize]
    }

    /// Blocks that the next `steps` steps need.
    #[inline(always)]
    pub(crate) fn blocks_needed_for(&self, steps: u64) -> u64 {
        let size = u64::from(self.block_size);
        let (cycles, rest) = if steps < size {
            (0, steps)
        } else {
            (steps / size, steps % size)
        };
        // The residues are met downwards from the one that is due, and again from the top.
        let (end, rest) = (self.due as usize + 1, rest as usize);
        let downwards = rest.min(end);
        let top = self.residues.len() - (rest - downwards);
        let blocks_of = |residues: &[u32]| u64::from(residues.iter().sum::<u32>());
        let blocks = blocks_of(&self.residues[end - downwards..end]) + blocks_of(&self.residues[top..]);
        u64::from(self.groups) * (cycles * u64::from(self.members) + blocks)
    }

    /// The most steps, `limit` at most, whose blocks fit into `free`, as if windows gave back none, and among which
    /// nobody begins to give some back or to leave tokens unread.
    #[inline(always)]
    pub(crate) fn steps_that_fit(&self, free: u32, mut limit: u64) -> u64 {
        if !self.passing.is_empty() || self.picking.is_some() {
            cold_path();
            let begins = self.passing.iter().filter_map(Passing::next);
            let crossing = self.picking.as_ref().and_then(|picking| picking.next());
            for clock in begins.chain(crossing) {
                limit = limit.min(clock - self.clock);
            }
        }
        // No more than one block each is needed in a cycle of steps, of which there are fewer than limit/size + 1.
        let size = u64::from(self.block_size);
        let a_cycle = self.groups * self.members;
        if limit.saturating_add(size).saturating_mul(a_cycle.into()) <= u64::from(free) * size {
            return limit;
        }
        cold_path();
        let cycles = u64::from(free / a_cycle);
        let mut steps = cycles * u64::from(self.block_size);
        if steps >= limit {
            return limit;
        }
        let mut left = free % a_cycle;
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
    #[inline]
    pub(crate) fn longest(&self) -> u32 {
        self.contexts.first().map_or(0, |rank| {
            let anchor = (!rank).wrapping_sub(ANCHOR_BIAS) as i64;
            u32::try_from(anchor + self.clock as i64).expect("a context is a token count") + 1
        })
    }

    /// Whether the step before the current clock samples the last token of a member that has not been taken out.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.endings.any_below(self.clock)
    }

    /// The next member whose last token is sampled in a step before the current clock; it is named once.
    #[inline]
    pub(crate) fn pop_ended(&mut self) -> Option<usize> {
        self.pop_ended_before(self.clock)
    }

    /// The next member whose last token is sampled in a step before `clock`; it is named once.
    #[inline]
    pub(crate) fn pop_ended_before(&mut self, clock: u64) -> Option<usize> {
        self.endings.pop_first_below(clock)
    }
}

/// Orders by anchor, the largest first.
fn context_rank(anchor: i64) -> u64 {
    !(anchor as u64).wrapping_add(ANCHOR_BIAS)
}
