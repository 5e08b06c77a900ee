//! Which run is found below which, by its first block.
//!
//! A table of the runs' numbers alone; what they are found by stands in the runs themselves. A full pool forgets a run for
//! each that it learns, long after it was last touched, so it pays to have little to touch: taking a run out looks at none.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use slab::Slab;

use super::Node;

/// The runs that have a parent, by it and their keys.
#[derive(Debug, Default)]
pub(super) struct Children(HashTable<u32>);

impl Children {
    /// The run of this key below this one.
    #[inline]
    pub(super) fn get(&self, nodes: &Slab<Node>, parent: usize, key: u64) -> Option<usize> {
        let is_it = |&child: &u32| {
            let child = &nodes[child as usize];
            child.parent == parent && child.key == key
        };
        let child = self.0.find(hash(parent, key), is_it)?;
        Some(*child as usize)
    }

    /// A run has a parent now, and a key that no other has there.
    pub(super) fn insert(&mut self, nodes: &Slab<Node>, child: usize) {
        let number = u32::try_from(child).expect("there are fewer runs than blocks");
        let of = |&child: &u32| {
            let child = &nodes[child as usize];
            hash(child.parent, child.key)
        };
        self.0.insert_unique(of(&number), number, of);
    }

    /// A run leaves its parent, where it had this key.
    pub(super) fn remove(&mut self, parent: usize, key: u64, child: usize) {
        let is_it = |&other: &u32| other as usize == child;
        let entry = self.0.find_entry(hash(parent, key), is_it);
        entry.expect("a run is found below its parent").remove();
    }
}

fn hash(parent: usize, key: u64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_usize(parent);
    hasher.write_u64(key);
    hasher.finish()
}
