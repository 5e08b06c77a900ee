//! What sparse attention does not read of the contexts of a pack's members.
//!
//! A member with anchor `a` attends to `a + clock + 1` tokens in the step at `clock`, and reads `most` of them at most: from its
//! crossing, the clock `most − 1 − a`, each step leaves one token more unread. Between crossings the number of members beyond theirs is
//! constant, so a step's duration stays affine in the steps; a crossing ends a run. Law: the sums are those of all members, one by one.

use super::ranks::Ranks;

/// Members by where they cross.
#[derive(Debug)]
pub(super) struct Picking {
    most: u32,
    /// Members at their crossing or beyond it.
    members: u32,
    /// Σ of what the step at the clock leaves unread of them.
    tokens: u64,
    /// The others, by the clock of their crossing.
    ahead: Ranks,
}

impl Picking {
    pub(super) fn new(most: u32) -> Picking {
        Picking {
            most,
            members: 0,
            tokens: 0,
            ahead: Ranks::default(),
        }
    }

    /// Tokens that the step at the clock leaves unread, and how many members leave one more in the next.
    #[inline]
    pub(super) fn beyond(&self) -> (u64, u32) {
        (self.tokens, self.members)
    }

    /// The clock at which the next member crosses.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        self.ahead.first()
    }

    #[inline]
    pub(super) fn join(&mut self, slot: usize, anchor: i64, clock: u64) {
        match self.past(anchor, clock) {
            Ok(tokens) => {
                self.members += 1;
                self.tokens += tokens;
            }
            Err(crossing) => self.ahead.insert(crossing, slot),
        }
    }

    #[inline]
    pub(super) fn leave(&mut self, slot: usize, anchor: i64, clock: u64) {
        match self.past(anchor, clock) {
            Ok(tokens) => {
                self.members -= 1;
                self.tokens -= tokens;
            }
            Err(_) => self.ahead.remove(slot),
        }
    }

    /// The clock was moved on by so many steps, to `clock`. Whether anybody crossed.
    #[inline]
    pub(super) fn advance(&mut self, steps: u64, clock: u64) -> bool {
        self.tokens += steps * u64::from(self.members);
        let mut crossed = false;
        while let Some(crossing) = self.ahead.first().filter(|&crossing| crossing <= clock) {
            self.ahead.pop_first_below(crossing + 1);
            self.members += 1;
            self.tokens += clock - crossing;
            crossed = true;
        }
        crossed
    }

    /// What a member leaves unread in the step at `clock`, or where it will cross.
    fn past(&self, anchor: i64, clock: u64) -> Result<u64, u64> {
        let crossing = i64::from(self.most) - 1 - anchor;
        match u64::try_from(clock as i64 - crossing) {
            Ok(tokens) => Ok(tokens),
            Err(_) => Err(crossing as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Members join with a context, leave, and take steps; every count is made anew from their contexts.
        #[test]
        fn sums_are_those_of_the_members_one_by_one(
            most in 1u32..40, acts in prop::collection::vec((0u8..4, 0u32..60, 1u64..9), 1..60),
        ) {
            let mut picking = Picking::new(most);
            let mut members: Vec<(usize, i64)> = Vec::new();
            let mut clock = 0_u64;
            for (slot, (act, context, steps)) in acts.into_iter().enumerate() {
                match act {
                    0 | 1 => {
                        let anchor = i64::from(context) - clock as i64;
                        picking.join(slot, anchor, clock);
                        members.push((slot, anchor));
                    }
                    2 if !members.is_empty() => {
                        let (slot, anchor) = members.remove(context as usize % members.len());
                        picking.leave(slot, anchor, clock);
                    }
                    _ => {
                        let (before, crossing) = (picking.beyond().1, picking.next());
                        clock += steps;
                        let crossed = picking.advance(steps, clock);
                        prop_assert_eq!(crossed, picking.beyond().1 != before);
                        prop_assert_eq!(crossed, crossing.is_some_and(|crossing| crossing <= clock));
                    }
                }
                let contexts = members.iter().map(|&(_, anchor)| (anchor + clock as i64 + 1) as u64);
                let beyond: Vec<u64> =
                    contexts.filter_map(|context| context.checked_sub(most.into())).collect();
                prop_assert_eq!(picking.beyond(), (beyond.iter().sum(), beyond.len() as u32));
            }
        }
    }
}
