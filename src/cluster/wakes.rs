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

/// A replica and its wake-up, in the order in which they come: the time, the end of a step before a pass, the smaller index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Player(u128);

impl Player {
    #[inline]
    fn new(wake: Wake, index: usize) -> Player {
        Player(u128::from(wake.at.0) << 64 | u128::from(wake.is_pass) << 32 | index as u128)
    }

    #[inline]
    fn wake(self) -> Option<Wake> {
        let (at, is_pass) = (self.at(), self.0 >> 32 & 1 == 1);
        let wake = Wake { at, is_pass };
        (wake != NEVER).then_some(wake)
    }

    #[inline]
    fn at(self) -> Picos {
        Picos((self.0 >> 64) as u64)
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The wake-ups of all replicas, and who is first.
#[derive(Debug)]
pub(super) struct Wakes {
    /// A binary tree. Replica `i` is node `leaves + i`; each node above has the winner of the two beneath, node 1 that of all.
    nodes: Vec<Player>,
    leaves: usize,
}

impl Wakes {
    /// For so many replicas, none of which has anything to do.
    pub(super) fn new(replicas: usize) -> Wakes {
        let leaves = replicas.next_power_of_two();
        let mut nodes: Vec<Player> = (0..2 * leaves)
            .map(|node| Player::new(NEVER, node.saturating_sub(leaves)))
            .collect();
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Wakes { nodes, leaves }
    }

    /// Replica `index` wakes up at `wake` instead; `None` is never.
    pub(super) fn set(&mut self, index: usize, wake: Option<Wake>) {
        let mut node = self.leaves + index;
        let mut player = Player::new(wake.unwrap_or(NEVER), index);
        while self.nodes[node] != player {
            self.nodes[node] = player;
            if node == 1 {
                return;
            }
            player = player.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// When a replica wakes up, if it does.
    pub(super) fn of(&self, index: usize) -> Option<Picos> {
        let wake = self.nodes[self.leaves + index].wake()?;
        Some(wake.at)
    }

    /// Who is first and when; `None` if nobody has anything to do.
    #[inline]
    pub(super) fn first(&self) -> Option<(usize, Wake)> {
        let first = self.nodes[1];
        Some((first.index(), first.wake()?))
    }

    /// When the first of all others wakes up; [`Picos::MAX`] if none does.
    pub(super) fn second(&self) -> Picos {
        let mut node = self.leaves + self.nodes[1].index();
        let mut earliest = Picos::MAX;
        while node > 1 {
            earliest = earliest.min(self.nodes[node ^ 1].at());
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
