//! The free queue: a list of free blocks in the order in which they are taken (V1-36 to V1-39).

use super::{Entry, Free, PrefixPool};

impl PrefixPool {
    /// Frees blocks without a hash.
    pub(in crate::kv) fn free_blank(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        if self.blank_to_head {
            self.settle();
        }
        self.free += blocks;
        let end = if self.blank_to_head { self.head } else { self.tail };
        match end.map(|entry| (entry, self.entries[entry].what)) {
            Some((entry, Free::Blank(count))) => self.entries[entry].what = Free::Blank(count + blocks),
            _ if self.blank_to_head => self.push_front(Free::Blank(blocks)),
            _ => {
                self.push_back(Free::Blank(blocks));
            }
        }
    }

    /// Frees blocks in the place of those that have a hash, though nobody looks for their contents.
    pub(in crate::kv) fn free_to_tail(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        self.free += blocks;
        match self.tail.map(|tail| &mut self.entries[tail].what) {
            Some(Free::Blank(count)) => *count += blocks,
            _ => drop(self.push_back(Free::Blank(blocks))),
        }
    }

    /// Blocks whose contents were evicted since the beginning, those that are owed included.
    pub(in crate::kv) fn evicted(&self) -> u64 {
        let (mut evicted, mut left, mut at) = (self.evicted, self.owed, self.head);
        while let Some(entry) = at
            && left > 0
        {
            let Entry { what, next, .. } = &self.entries[entry];
            let taken = match what {
                Free::Blank(count) | Free::Unsought(count) => *count,
                Free::Cached(_, node) => self.nodes[*node].blocks,
            }
            .min(left);
            if !matches!(what, Free::Blank(_)) {
                evicted += u64::from(taken);
            }
            (left, at) = (left - taken, *next);
        }
        evicted
    }

    pub(super) fn push_back(&mut self, what: Free) -> usize {
        let entry = self.entries.insert(Entry {
            what,
            previous: self.tail,
            next: None,
        });
        match self.tail.replace(entry) {
            Some(tail) => self.entries[tail].next = Some(entry),
            None => self.head = Some(entry),
        }
        entry
    }

    pub(super) fn push_front(&mut self, what: Free) {
        let entry = self.entries.insert(Entry {
            what,
            previous: None,
            next: self.head,
        });
        match self.head.replace(entry) {
            Some(head) => self.entries[head].previous = Some(entry),
            None => self.tail = Some(entry),
        }
    }

    pub(super) fn insert_after(&mut self, before: usize, what: Free) -> usize {
        let next = self.entries[before].next;
        let entry = self.entries.insert(Entry {
            what,
            previous: Some(before),
            next,
        });
        self.entries[before].next = Some(entry);
        match next {
            Some(next) => self.entries[next].previous = Some(entry),
            None => self.tail = Some(entry),
        }
        entry
    }

    pub(super) fn unlink(&mut self, entry: usize) {
        let Entry { previous, next, .. } = self.entries.remove(entry);
        match previous {
            Some(previous) => self.entries[previous].next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => self.entries[next].previous = previous,
            None => self.tail = previous,
        }
    }
}
