//! Who went before whom: for each request, how many that came later were admitted earlier.
//!
//! Arrivals are numbered. Of each replica a Fenwick tree counts the admitted by number, over a window that begins at the
//! oldest who still waits, so that an admission costs O(log window) and memory is O(window): with a queue in order of
//! arrival that is what waits, under starvation it is what came since the oldest did.

use std::collections::VecDeque;

/// Where somebody in the window stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Waiting,
    /// At this replica.
    Admitted(u32),
    /// Left without being admitted.
    Gone,
}

/// Counts by number, the first of which is the window's origin.
#[derive(Clone, Debug, Default)]
struct Counts {
    tree: Vec<u32>,
    total: u64,
}

impl Counts {
    fn add(&mut self, at: usize) {
        self.total += 1;
        let mut node = at + 1;
        while node < self.tree.len() {
            self.tree[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// How many stand at or before `at`.
    fn up_to(&self, at: usize) -> u64 {
        let (mut node, mut sum) = (at + 1, 0);
        while node > 0 {
            sum += u64::from(self.tree[node]);
            node &= node - 1;
        }
        sum
    }
}

/// The order of arrival against the order of admission.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Those from the oldest who still waits on; its number is `base`.
    window: VecDeque<Stand>,
    base: u64,
    /// Number that the trees begin at, and how many they have room for.
    origin: u64,
    room: usize,
    admitted: Vec<Counts>,
}

impl Turns {
    /// Somebody comes; its number.
    pub(super) fn arrive(&mut self) -> u64 {
        let number = self.base + self.window.len() as u64;
        self.window.push_back(Stand::Waiting);
        if number - self.origin >= self.room as u64 {
            self.rebuild();
        }
        number
    }

    /// How many later ones the replica has admitted so far.
    pub(super) fn overtaken(&self, number: u64, replica: u32) -> u64 {
        let Some(counts) = self.admitted.get(replica as usize) else {
            return 0;
        };
        counts.total - counts.up_to((number - self.origin) as usize)
    }

    /// A replica admits somebody.
    pub(super) fn admit(&mut self, number: u64, replica: u32) {
        let replicas = replica as usize + 1;
        if self.admitted.len() < replicas {
            let empty = Counts {
                tree: vec![0; self.room + 1],
                total: 0,
            };
            self.admitted.resize(replicas, empty);
        }
        self.admitted[replica as usize].add((number - self.origin) as usize);
        self.stand(number, Stand::Admitted(replica));
    }

    /// Somebody leaves without having been admitted.
    pub(super) fn leave(&mut self, number: u64) {
        self.stand(number, Stand::Gone);
    }

    fn stand(&mut self, number: u64, stand: Stand) {
        self.window[(number - self.base) as usize] = stand;
        while self.window.front().is_some_and(|&front| front != Stand::Waiting) {
            self.window.pop_front();
            self.base += 1;
        }
    }

    /// Lets the trees begin at the window's beginning, with room for as many again.
    fn rebuild(&mut self) {
        const ROOM_MIN: usize = 64;
        self.origin = self.base;
        self.room = (2 * self.window.len()).next_power_of_two().max(ROOM_MIN);
        for counts in &mut self.admitted {
            counts.tree.clear();
            counts.tree.resize(self.room + 1, 0);
            counts.total = 0;
        }
        for (at, stand) in self.window.iter().enumerate() {
            if let Stand::Admitted(replica) = stand {
                self.admitted[*replica as usize].add(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn overtakes_are_counted_as_one_would_by_hand(steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 0u32..3), 1..400)) {
            let mut turns = Turns::default();
            let mut waiting: Vec<u64> = Vec::new();
            let mut admitted: Vec<(u64, u32)> = Vec::new();
            for (what, which, replica) in steps {
                if what < 2 || waiting.is_empty() {
                    waiting.push(turns.arrive());
                    continue;
                }
                let number = waiting.remove(which.index(waiting.len()));
                if what == 3 {
                    turns.leave(number);
                    continue;
                }
                let by_hand = admitted.iter().filter(|&&(other, at)| at == replica && other > number).count();
                prop_assert_eq!(turns.overtaken(number, replica), by_hand as u64);
                turns.admit(number, replica);
                admitted.push((number, replica));
            }
        }
    }
}
