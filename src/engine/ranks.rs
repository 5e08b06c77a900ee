//! Sequences in order of a key: who comes first is asked for several times in every step, who comes next when it leaves.
//!
//! A tournament of eight in each match. Whoever joins or leaves plays the matches above it again: two for 64 members, three
//! for 512. No match branches on a key. Keys of a batch come in no order, so that a search would be guessed wrong at half of
//! its branches, and a sorted queue has to be shifted besides.

/// Slots of sequences by key, the smallest first.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The matches, those of the members first: the winner of match `m` of a level plays at place `m` of the next level.
    levels: Vec<Vec<Match>>,
    /// Who won the last match.
    first: u64,
    /// The slot at each place of the first level.
    slots: Vec<usize>,
    /// The place of each slot; [`NOWHERE`] of those that are not in.
    places: Vec<u32>,
    /// Places that nobody has.
    vacant: Vec<u32>,
}

/// The keys that meet; a line of a processor's cache.
type Match = [u64; WIDTH];

const WIDTH: usize = 8;

/// No key: clocks and ranks of contexts stay below.
const NONE: u64 = u64::MAX;

const NOWHERE: u32 = u32::MAX;

impl Default for Ranks {
    fn default() -> Self {
        Ranks {
            levels: Vec::new(),
            first: NONE,
            slots: Vec::new(),
            places: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl Ranks {
    /// The smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        (self.first != NONE).then_some(self.first)
    }

    /// A sequence joins, which is not in.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: usize) {
        debug_assert!(key < NONE, "a key is a clock or a context");
        if self.vacant.is_empty() {
            self.grow();
        }
        if slot >= self.places.len() {
            self.places.resize(slot + 1, NOWHERE);
        }
        debug_assert_eq!(self.places[slot], NOWHERE, "a sequence joins once");
        let place = self.vacant.pop().expect("room was made");
        self.places[slot] = place;
        self.slots[place as usize] = slot;
        self.play(place as usize, key);
    }

    /// A sequence leaves, if it has not left already.
    #[inline]
    pub(crate) fn remove(&mut self, slot: usize) {
        if self.places.get(slot).is_some_and(|&place| place != NOWHERE) {
            self.vacate(slot);
        }
    }

    /// Takes out the first sequence if its key is below `limit`.
    #[inline]
    pub(crate) fn pop_first_below(&mut self, limit: u64) -> Option<usize> {
        if self.first >= limit {
            return None;
        }
        let mut place = 0;
        for level in self.levels.iter().rev() {
            place = place * WIDTH + place_of(self.first, &level[place]);
        }
        let slot = self.slots[place];
        self.vacate(slot);
        Some(slot)
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        let place = std::mem::replace(&mut self.places[slot], NOWHERE);
        self.vacant.push(place);
        self.play(place as usize, NONE);
    }

    /// Puts a key at a place and plays the matches above it.
    #[inline]
    fn play(&mut self, mut place: usize, mut key: u64) {
        for level in &mut self.levels {
            let players = &mut level[place / WIDTH];
            players[place % WIDTH] = key;
            key = winner(players);
            place /= WIDTH;
        }
        self.first = key;
    }

    /// One more level: eight times as many places.
    #[cold]
    fn grow(&mut self) {
        let old = self.slots.len();
        let new = (old * WIDTH).max(WIDTH * WIDTH);
        let keys = self
            .levels
            .first()
            .map_or(&[] as &[Match], |level| level)
            .as_flattened();
        let mut keys = keys.to_vec();
        let mut levels = Vec::new();
        let mut places = new;
        while places >= WIDTH {
            keys.resize(places, NONE);
            let (matches, _) = keys.as_chunks();
            levels.push(matches.to_vec());
            keys = matches.iter().map(winner).collect();
            places /= WIDTH;
        }
        self.levels = levels;
        self.slots.resize(new, 0);
        self.vacant.extend((old..new).rev().map(|place| place as u32));
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
    let bits = keys
        .iter()
        .rev()
        .fold(0_u32, |bits, &key| bits << 1 | u32::from(key == winner));
    bits.trailing_zeros() as usize
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
