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

/// A replica in the tournament.
#[derive(Clone, Copy, Debug)]
struct Player {
    wake: Wake,
    index: u32,
}

/// The wake-ups of all replicas, and who is first.
#[derive(Debug)]
pub(super) struct Wakes {
    /// A binary tree of matches. Node 1 is the root, leaf `i` is node `leaves + i`; who has come as far as node `n` sits in
    /// match `n / 2`, across from its rival.
    matches: Vec<[Player; 2]>,
    leaves: usize,
}

impl Wakes {
    /// For so many replicas, none of which has anything to do.
    pub(super) fn new(replicas: usize) -> Wakes {
        let leaves = replicas.next_power_of_two();
        let nobody = Player {
            wake: NEVER,
            index: 0,
        };
        let mut wakes = Wakes {
            matches: vec![[nobody; 2]; leaves],
            leaves,
        };
        for node in (1..2 * leaves).rev() {
            *wakes.seat(node) = match node.checked_sub(leaves) {
                Some(leaf) => Player {
                    index: leaf as u32,
                    ..nobody
                },
                None => winner(&wakes.matches[node]),
            };
        }
        wakes
    }

    #[inline]
    fn seat(&mut self, node: usize) -> &mut Player {
        &mut self.matches[node / 2][node % 2]
    }

    #[inline]
    fn champion(&self) -> &Player {
        &self.matches[0][1]
    }

    /// Replica `index` wakes up at `wake` instead; `None` is never.
    pub(super) fn set(&mut self, index: usize, wake: Option<Wake>) {
        let own = index as u32;
        let mut node = self.leaves + index;
        let wake = wake.unwrap_or(NEVER);
        let mut player = Player { wake, index: own };
        loop {
            let seat = self.seat(node);
            if player.index != own && seat.index == player.index {
                // Whoever won here before still does, and nothing changes from here on.
                return;
            }
            *seat = player;
            node /= 2;
            if node == 0 {
                return;
            }
            player = winner(&self.matches[node]);
        }
    }

    /// When a replica wakes up, if it does.
    pub(super) fn of(&self, index: usize) -> Option<Picos> {
        let leaf = self.leaves + index;
        let wake = self.matches[leaf / 2][leaf % 2].wake;
        (wake != NEVER).then_some(wake.at)
    }

    /// Who is first and when; `None` if nobody has anything to do.
    #[inline]
    pub(super) fn first(&self) -> Option<(usize, Wake)> {
        let Player { wake, index } = *self.champion();
        (wake != NEVER).then_some((index as usize, wake))
    }

    /// When the first of all others wakes up; [`Picos::MAX`] if none does.
    pub(super) fn second(&self) -> Picos {
        let mut node = self.leaves + self.champion().index as usize;
        let mut earliest = Picos::MAX;
        while node > 1 {
            let rival = &self.matches[node / 2][1 - node % 2];
            earliest = earliest.min(rival.wake.at);
            node /= 2;
        }
        earliest
    }
}

/// Of equals the smaller index wins.
#[inline]
fn winner([left, right]: &[Player; 2]) -> Player {
    let (first, second) = (left.wake, right.wake);
    let right_is_earlier =
        second.at < first.at || (second.at == first.at && first.is_pass && !second.is_pass);
    if right_is_earlier { *right } else { *left }
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
