//! One replica's KV memory, with or without prefix caching.
//!
//! Without caching nothing but the number of free blocks matters. With it, contents do ([`PrefixPool`]).

use super::{Held, Journal, Match, PrefixPool};
use crate::units::Picos;
use crate::workload::Piece;

/// A pool of KV blocks, the null block left out (V1-29).
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_size: u32,
    total: u32,
    /// Free blocks where caching is off.
    uncached_free: u32,
    prefix: Option<PrefixPool>,
}

impl BlockPool {
    /// A pool of `num_gpu_blocks − 1` usable blocks.
    pub(crate) fn new(num_gpu_blocks: u32, block_size: u32, caching: bool, blank_to_head: bool) -> BlockPool {
        assert!(
            num_gpu_blocks > 1,
            "a pool holds at least one usable block beside the null block"
        );
        let total = num_gpu_blocks - 1;
        let prefix = caching.then(|| PrefixPool::new(total, block_size, blank_to_head));
        BlockPool {
            block_size,
            total,
            uncached_free: total,
            prefix,
        }
    }

    /// Blocks that `tokens` tokens fill, the last one perhaps in part.
    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Usable blocks.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that no sequence uses; cached contents may still be in them.
    pub(crate) fn free(&self) -> u32 {
        self.prefix.as_ref().map_or(self.uncached_free, PrefixPool::free)
    }

    /// Tokens whose cached KV was evicted since the beginning.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        let blocks = self.prefix.as_ref().map_or(0, |prefix| prefix.evicted);
        blocks * u64::from(self.block_size)
    }

    /// Tokens whose KV is cached, whether somebody uses it or not; what two sequences hold a copy of each counts once.
    pub(crate) fn cached_tokens(&self) -> u64 {
        let blocks = self.prefix.as_ref().map_or(0, |prefix| prefix.cached);
        u64::from(blocks) * u64::from(self.block_size)
    }

    /// Whether contents are cached.
    pub(crate) fn caches(&self) -> bool {
        self.prefix.is_some()
    }

    /// Cached prefix of `pieces` for a sequence of `known_tokens`: at least one token stays to be computed (V1-46).
    pub(crate) fn look_up(&self, pieces: &[Piece], known_tokens: u32) -> Match {
        match &self.prefix {
            Some(prefix) => prefix.look_up(pieces, (known_tokens - 1) / self.block_size),
            None => Match::MISS,
        }
    }

    /// From now on changes of what is cached are written down, for somebody who hears of them `latency` later (RT-12).
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        if let Some(prefix) = &mut self.prefix {
            prefix.journal = Some(Box::new(Journal::new(latency, self.block_size)));
        }
    }

    /// The changes of what is cached, if somebody listens.
    #[inline]
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.prefix.as_ref()?.journal.as_deref()
    }

    /// Contents that change from now on do so at `now`.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: Picos) {
        if let Some(prefix) = &mut self.prefix
            && let Some(journal) = &mut prefix.journal
        {
            journal.set_clock(now);
        }
    }

    /// Somebody hears when exactly taking so many blocks evicts.
    #[inline]
    pub(crate) fn tells_of_taking(&self, blocks: u32) -> bool {
        let is_heard = self.journal().is_some_and(Journal::is_late);
        is_heard
            && self
                .prefix
                .as_ref()
                .is_some_and(|prefix| prefix.would_evict(blocks))
    }

    /// References a match and takes `new` blocks behind it.
    pub(crate) fn admit(&mut self, found: Match, new: u32) -> Held {
        match &mut self.prefix {
            Some(prefix) => {
                let mut held = prefix.adopt(found);
                prefix.take(&mut held, new);
                held
            }
            None => {
                self.take_uncached(new);
                Held::default()
            }
        }
    }

    /// Takes blocks for sequences that account for them by their length.
    pub(crate) fn take(&mut self, blocks: u32) {
        match &mut self.prefix {
            Some(prefix) => prefix.evict(blocks),
            None => self.take_uncached(blocks),
        }
    }

    /// Registers the full blocks among the first `tokens` tokens of a sequence that holds blocks for
    /// `allocated_tokens`.
    pub(crate) fn register(&mut self, held: &mut Held, pieces: &[Piece], tokens: u32, allocated_tokens: u32) {
        let allocated = self.blocks_for(allocated_tokens);
        if let Some(prefix) = &mut self.prefix {
            held.assign(allocated - held.blocks());
            prefix.register(held, pieces, tokens / self.block_size);
        }
    }

    /// Frees all blocks of a sequence that holds them for `allocated_tokens`, after registering the full ones among
    /// the first `tokens`.
    pub(crate) fn release(&mut self, mut held: Held, pieces: &[Piece], tokens: u32, allocated_tokens: u32) {
        self.register(&mut held, pieces, tokens, allocated_tokens);
        match &mut self.prefix {
            Some(prefix) => prefix.release(held),
            None => self.uncached_free += self.blocks_for(allocated_tokens),
        }
        debug_assert!(
            self.free() <= self.total,
            "no more blocks are freed than were taken"
        );
    }

    fn take_uncached(&mut self, blocks: u32) {
        assert!(
            blocks <= self.uncached_free,
            "no more blocks are taken than are free"
        );
        self.uncached_free -= blocks;
    }
}
