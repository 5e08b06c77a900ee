//! Which replica does something next: a tournament over their wake-ups.
//!
//! A change of one wake-up replays the matches on its way to the root, so N replicas cost O(log N) an event.

use crate::engine::Wake;
use crate::units::Picos;

/// A wake-up that never comes.
const NEVER: Wake = Wake {
    at: Picos::MAX,
    is_pass: true,
};

/// The wake-ups of all replicas, and who is first.
#[derive(Debug)]
pub(super) struct Wakes {
    wakes: Vec<Wake>,
    /// A binary tree of winners: node 1 is the root, leaf `i` is node `leaves + i`.
    winners: Vec<u32>,
    leaves: usize,
}

impl Wakes {
    /// For so many replicas, none of which has anything to do.
    pub(super) fn new(replicas: usize) -> Wakes {
        let leaves = replicas.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for (leaf, winner) in winners[leaves..].iter_mut().enumerate() {
            *winner = leaf as u32;
        }
        let mut wakes = Wakes {
            wakes: vec![NEVER; leaves],
            winners,
            leaves,
        };
        (1..leaves).rev().for_each(|node| wakes.play(node));
        wakes
    }

    /// The match at an inner node; of equals the smaller index wins.
    fn play(&mut self, node: usize) {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        let right_is_earlier = self.wakes[right as usize] < self.wakes[left as usize];
        self.winners[node] = if right_is_earlier { right } else { left };
    }

    /// Replica `index` wakes up at `wake` instead; `None` is never.
    pub(super) fn set(&mut self, index: usize, wake: Option<Wake>) {
        self.wakes[index] = wake.unwrap_or(NEVER);
        let mut node = (self.leaves + index) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// When a replica wakes up, if it does.
    pub(super) fn of(&self, index: usize) -> Option<Picos> {
        let wake = self.wakes[index];
        (wake != NEVER).then_some(wake.at)
    }

    /// Who is first and when; `None` if nobody has anything to do.
    pub(super) fn first(&self) -> Option<(usize, Wake)> {
        let index = self.winners[1] as usize;
        let wake = self.wakes[index];
        (wake != NEVER).then_some((index, wake))
    }

    /// When the first of all others wakes up; [`Picos::MAX`] if none does.
    pub(super) fn second(&self) -> Picos {
        let mut node = self.leaves + self.winners[1] as usize;
        let mut earliest = Picos::MAX;
        while node > 1 {
            let rival = self.winners[node ^ 1] as usize;
            earliest = earliest.min(self.wakes[rival].at);
            node /= 2;
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_and_second_are_those_of_a_sort(
            replicas in 1usize..20,
            changes in prop::collection::vec((0usize..20, prop::option::of((0u64..30, any::<bool>()))), 0..60),
        ) {
            let mut wakes = Wakes::new(replicas);
            let mut naive = vec![NEVER; replicas];
            for (index, wake) in changes {
                let wake = wake.map(|(at, is_pass)| Wake { at: Picos(at), is_pass });
                wakes.set(index % replicas, wake);
                naive[index % replicas] = wake.unwrap_or(NEVER);
                let mut order: Vec<(Wake, usize)> = naive.iter().copied().zip(0..).collect();
                order.sort_unstable();
                let first = (order[0].0 != NEVER).then_some((order[0].1, order[0].0));
                prop_assert_eq!(wakes.first(), first);
                prop_assert_eq!(wakes.second(), order.get(1).map_or(Picos::MAX, |other| other.0.at));
            }
        }
    }
}
