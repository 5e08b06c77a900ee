//! Sequences in order of a key: who comes first is asked for several times in every step, who comes next when it leaves.
//!
//! A tournament of eight in each match: two matches above each of 64 slots, three above each of 512. Whoever joins goes up as far
//! as it wins, and when somebody leaves the matches are played again that it had won. No match branches on a key, only whether there
//! is another one to play does. Keys of a batch come in no order, so that a search would be guessed wrong at half of its branches,
//! and a sorted queue has to be shifted besides. Slots are those of whoever is inside, waiting or not: behind a backlog of a hundred
//! thousand there are six matches.

/// Slots of sequences by key, the smallest first.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The final first, then each level behind the one that its winners go to: the winner of match `8·m + 1 + p` plays at place `p` of
    /// match `m`. Slots stand one behind the other at the places of the last level.
    matches: Vec<Match>,
    /// The first match of the last level.
    base: usize,
    /// Who won the final.
    first: u64,
}

/// The keys that meet; a line of a processor's cache.
type Match = [u64; WIDTH];

const WIDTH: usize = 8;

/// No key: clocks and ranks of contexts stay below.
const NONE: u64 = u64::MAX;

impl Default for Ranks {
    fn default() -> Self {
        Ranks {
            matches: vec![[NONE; WIDTH]],
            base: 0,
            first: NONE,
        }
    }
}

impl Ranks {
    /// The smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        (self.first != NONE).then_some(self.first)
    }

    /// Somebody's key is below `limit`.
    #[inline]
    pub(crate) fn any_below(&self, limit: u64) -> bool {
        self.first < limit
    }

    /// A sequence joins, which is not in.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, slot: usize) {
        debug_assert!(key < NONE, "a key is a clock or a context");
        while self.base + slot / WIDTH >= self.matches.len() {
            self.grow();
        }
        let (mut at, mut place) = (self.base + slot / WIDTH, slot % WIDTH);
        debug_assert_eq!(self.matches[at][place], NONE, "a sequence joins once");
        loop {
            let player = &mut self.matches[at][place];
            if key >= *player {
                return;
            }
            *player = key;
            if at == 0 {
                break;
            }
            (at, place) = ((at - 1) / WIDTH, (at - 1) % WIDTH);
        }
        self.first = key.min(self.first);
    }

    /// A sequence leaves, if it has not left already: the matches are played again that it had won.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        let mut at = self.base + slot / WIDTH;
        let Some(players) = self.matches.get_mut(at) else {
            return;
        };
        let key = std::mem::replace(&mut players[slot % WIDTH], NONE);
        if key == NONE {
            return;
        }
        while at > 0 {
            let (above, place) = ((at - 1) / WIDTH, (at - 1) % WIDTH);
            if self.matches[above][place] != key {
                return;
            }
            self.matches[above][place] = winner(&self.matches[at]);
            at = above;
        }
        self.first = winner(&self.matches[0]);
    }

    /// Takes out the first sequence if its key is below `limit`.
    #[inline(always)]
    pub(crate) fn pop_first_below(&mut self, limit: u64) -> Option<usize> {
        (self.first < limit).then(|| self.pop_first())
    }

    #[inline(always)]
    fn pop_first(&mut self) -> usize {
        let mut at = 0;
        let slot = loop {
            let winner = place_of(self.first, &self.matches[at]);
            if at >= self.base {
                break (at - self.base) * WIDTH + winner;
            }
            at = at * WIDTH + 1 + winner;
        };
        self.remove(slot);
        slot
    }

    /// One more level: eight times as many places.
    #[cold]
    fn grow(&mut self) {
        let mut keys = self.matches[self.base..].as_flattened().to_vec();
        keys.resize(keys.len() * WIDTH, NONE);
        let last = keys.len() / WIDTH;
        let mut levels = Vec::new();
        while keys.len() >= WIDTH {
            let (matches, _) = keys.as_chunks();
            levels.push(matches.to_vec());
            keys = levels[levels.len() - 1].iter().map(winner).collect();
        }
        levels.reverse();
        self.matches = levels.concat();
        self.base = self.matches.len() - last;
    }
}

/// The smallest key of a match.
#[inline(always)]
fn winner(keys: &Match) -> u64 {
    let [a, b, c, d, e, f, g, h] = *keys;
    a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
}

/// Where the smallest key of a match stands; of equal ones the first.
#[inline(always)]
fn place_of(winner: u64, keys: &Match) -> usize {
    let [a, b, c, d, ..] = *keys;
    let mut place = 4 * usize::from(a.min(b).min(c.min(d)) != winner);
    place += 2 * usize::from(keys[place].min(keys[place + 1]) != winner);
    place + usize::from(keys[place] != winner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever joins, leaves and is taken out in whatever order, the first is one of the first of an ordered set.
        #[test]
        fn the_first_is_that_of_an_ordered_set(acts in prop::collection::vec((0u8..5, 0u64..9, 0usize..600), 1..1500)) {
            let mut ranks = Ranks::default();
            let mut set = BTreeSet::new();
            for (act, key, slot) in acts {
                let inside = set.iter().find(|&&(_, other)| other == slot).copied();
                match act {
                    0..=2 if inside.is_none() => {
                        ranks.insert(key, slot);
                        set.insert((key, slot));
                    }
                    3 => {
                        ranks.remove(slot);
                        inside.map(|entry| set.remove(&entry));
                    }
                    _ => {
                        let first = set.first().map(|&(first, _)| first).filter(|&first| first < key);
                        let slot = ranks.pop_first_below(key);
                        prop_assert_eq!(slot.is_some(), first.is_some());
                        if let (Some(first), Some(slot)) = (first, slot) {
                            prop_assert!(set.remove(&(first, slot)), "{} has another key than {}", slot, first);
                        }
                    }
                }
                prop_assert_eq!(ranks.first(), set.first().map(|&(key, _)| key));
            }
        }
    }
}
