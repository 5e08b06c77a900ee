//! The machines that levels are shares of.

use crate::ids::ReplicaId;

/// The KV pool of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// KV blocks, the null block left out.
    pub kv_blocks: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
}

impl Room {
    /// KV is counted in units of half a token slot, so that the mean over a leap is an integer.
    pub(super) fn units(self) -> u64 {
        u64::from(self.kv_blocks) * u64::from(self.block_size) * 2
    }
}

/// The machines that levels are shares of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// One for each replica.
    pub rooms: Vec<Room>,
    /// The pool of each replica, from 0.
    pub pools: Vec<u32>,
}

impl Fleet {
    /// So many replicas alike, of so many KV blocks of so many tokens each.
    #[must_use]
    pub fn alike(replicas: u32, kv_blocks: u32, block_size: u32) -> Fleet {
        let room = Room {
            kv_blocks,
            block_size,
        };
        Fleet {
            rooms: vec![room; replicas as usize],
            pools: vec![0; replicas as usize],
        }
    }

    /// The KV pool of a replica.
    #[inline]
    pub(super) fn room(&self, replica: ReplicaId) -> Room {
        self.rooms[replica.0 as usize]
    }

    /// The pool of a replica.
    #[inline]
    pub(super) fn pool_of(&self, replica: ReplicaId) -> usize {
        self.pools[replica.0 as usize] as usize
    }

    /// How many pools there are.
    pub(super) fn pool_count(&self) -> usize {
        self.pools.iter().max().map_or(1, |last| *last as usize + 1)
    }

    /// How many replicas.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.rooms.len() as u32
    }

    /// KV units of an average replica: sums over replicas are divided by this and by their number.
    pub(super) fn mean_units(&self) -> f64 {
        let all: u64 = self.rooms.iter().map(|room| room.units()).sum();
        all as f64 / f64::from(self.replicas().max(1))
    }

    /// KV units of all replicas.
    pub(super) fn all_units(&self) -> f64 {
        self.mean_units() * f64::from(self.replicas())
    }
}
