//! What is kept of each request inside, by its number.
//!
//! Requests are numbered in the order of their arrival, so those inside lie in a window of numbers: entering, finding and
//! leaving are accesses of a ring. A few that stay while many come and go would keep the window wide; they are moved
//! into a map, so that memory is that of the requests inside.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::ids::RequestId;

/// The ring holds so many places for each request in it, at most.
const PLACES_MAX: usize = 16;
/// A ring so short is left as it is.
const SHORT: usize = 256;
/// Numbers so far ahead of the ring are no neighbours of those in it.
const FAR: u64 = 1 << 16;

/// One value for each request inside.
#[derive(Clone, Debug)]
pub(crate) struct Window<T> {
    /// Number of the first place.
    base: u64,
    ring: VecDeque<Option<T>>,
    /// Values in the ring.
    held: usize,
    /// Those that the window does not reach.
    apart: FxHashMap<u64, T>,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window {
            base: 0,
            ring: VecDeque::new(),
            held: 0,
            apart: FxHashMap::default(),
        }
    }
}

impl<T> Window<T> {
    /// A request comes inside; what was kept of it, if it is there already.
    pub(crate) fn insert(&mut self, id: RequestId, value: T) -> Option<T> {
        if self.ring.is_empty() {
            self.base = id.0;
        }
        if id.0 < self.base || id.0 - self.base > self.ring.len() as u64 + FAR {
            return self.apart.insert(id.0, value);
        }
        let place = (id.0 - self.base) as usize;
        while self.ring.len() < place {
            self.ring.push_back(None);
        }
        if self.ring.len() == place {
            self.ring.push_back(Some(value));
            self.held += 1;
            return self.remove_apart(id);
        }
        let before = self.ring[place].replace(value);
        self.held += usize::from(before.is_none());
        // It may have come from far ahead, before the window was here.
        before.or_else(|| self.remove_apart(id))
    }

    #[inline]
    fn remove_apart(&mut self, id: RequestId) -> Option<T> {
        match self.apart.is_empty() {
            true => None,
            false => self.apart.remove(&id.0),
        }
    }

    /// What is kept of a request.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        let place = id.0.checked_sub(self.base).map(|place| place as usize);
        match place.and_then(|place| self.ring.get_mut(place)) {
            Some(Some(value)) => Some(value),
            _ if self.apart.is_empty() => None,
            _ => self.apart.get_mut(&id.0),
        }
    }

    /// Requests inside.
    pub(crate) fn len(&self) -> usize {
        self.held + self.apart.len()
    }

    /// A request leaves.
    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<T> {
        let place = id.0.checked_sub(self.base).map(|place| place as usize);
        let found = place
            .and_then(|place| self.ring.get_mut(place))
            .and_then(Option::take);
        if found.is_none() {
            return self.remove_apart(id);
        }
        self.held -= 1;
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        if self.ring.len() > SHORT && self.held * PLACES_MAX < self.ring.len() {
            self.narrow();
        }
        found
    }

    /// Moves the oldest out of the ring until it is short enough.
    #[cold]
    fn narrow(&mut self) {
        while self.ring.len() > SHORT && self.held * PLACES_MAX < self.ring.len() {
            if let Some(Some(value)) = self.ring.pop_front() {
                self.apart.insert(self.base, value);
                self.held -= 1;
            }
            self.base += 1;
        }
    }

    /// Everybody inside, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &T)> {
        let ring = (self.base..).zip(&self.ring);
        let ring = ring.filter_map(|(id, value)| Some((id, value.as_ref()?)));
        let apart = self.apart.iter().map(|(&id, value)| (id, value));
        let mut all: Vec<(u64, &T)> = ring.chain(apart).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(id, value)| (RequestId(id), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_that_stays_does_not_keep_the_window_wide() {
        let mut window = Window::default();
        window.insert(RequestId(0), 0);
        for id in 1..100_000 {
            window.insert(RequestId(id), id);
            assert_eq!(window.remove(RequestId(id)), Some(id));
        }
        assert!(window.ring.len() <= SHORT && window.apart.len() <= 1);
        assert_eq!(window.get_mut(RequestId(0)), Some(&mut 0));
        assert_eq!(window.remove(RequestId(0)), Some(0));
        assert_eq!(window.iter().count(), 0);
    }

    proptest! {
        #[test]
        fn a_window_is_a_map(steps in prop::collection::vec((0u64..6, 0u64..3, any::<u8>()), 1..3000), far in any::<bool>()) {
            let (mut window, mut map) = (Window::default(), BTreeMap::new());
            let mut next = 0_u64;
            for (what, ahead, dice) in steps {
                next += ahead * if far && dice == 0 { 200_000 } else { 1 };
                match what {
                    0..=2 => {
                        let id = next.saturating_sub(u64::from(dice % 4));
                        prop_assert_eq!(window.insert(RequestId(id), next), map.insert(id, next));
                    }
                    // Who leaves is mostly a young one, so that old ones stay behind.
                    3 | 4 => {
                        let young = map.keys().rev().nth(usize::from(dice % 8)).copied();
                        let id = young.unwrap_or(next);
                        prop_assert_eq!(window.remove(RequestId(id)), map.remove(&id));
                    }
                    _ => {
                        let id = map.keys().nth(usize::from(dice)).copied().unwrap_or(next + 1);
                        prop_assert_eq!(window.get_mut(RequestId(id)), map.get_mut(&id));
                    }
                }
            }
            prop_assert_eq!(window.len(), map.len());
            let all: Vec<(u64, u64)> = window.iter().map(|(id, value)| (id.0, *value)).collect();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }
}
