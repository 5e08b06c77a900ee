//! Sequences in order of a key that hardly ever changes places.
//!
//! Who joins the pack later mostly ends later and mostly has the smaller anchor, so a sorted queue is filled at one
//! end and emptied at the other. A newcomer that belongs elsewhere shifts those behind it, which for the few hundred
//! members of a batch is no slower than a heap, and members leave from any place without a trace.

use std::collections::VecDeque;

/// Slots of sequences by key, the smallest first.
#[derive(Debug)]
pub(crate) struct Ranks {
    queue: VecDeque<(u64, usize)>,
    /// The key at the front; [`NONE`] of an empty queue. Asked for several times in every step.
    first: u64,
}

/// No key: clocks and ranks of contexts stay below.
const NONE: u64 = u64::MAX;

impl Default for Ranks {
    fn default() -> Self {
        Ranks {
            queue: VecDeque::new(),
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

    /// A sequence joins.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, slot: usize) {
        debug_assert!(key < NONE, "a key is a clock or a context");
        self.first = self.first.min(key);
        let entry = (key, slot);
        if self.queue.back().is_none_or(|&last| last < entry) {
            self.queue.push_back(entry);
        } else {
            let at = self.queue.partition_point(|&other| other < entry);
            self.queue.insert(at, entry);
        }
    }

    /// A sequence leaves, if it has not left already.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: u64, slot: usize) {
        if key < self.first {
            return;
        }
        let entry = (key, slot);
        match self.queue.front() {
            Some(&first) if first == entry => self.drop_first(),
            Some(&first) if first < entry => {
                if let Ok(at) = self.queue.binary_search(&entry) {
                    self.queue.remove(at);
                }
            }
            _ => {}
        }
    }

    /// Takes out the first sequence if its key is below `limit`.
    #[inline]
    pub(crate) fn pop_first_below(&mut self, limit: u64) -> Option<usize> {
        if self.first >= limit {
            return None;
        }
        let &(_, slot) = self.queue.front()?;
        self.drop_first();
        Some(slot)
    }

    fn drop_first(&mut self) {
        self.queue.pop_front();
        self.first = self.queue.front().map_or(NONE, |&(key, _)| key);
    }
}
