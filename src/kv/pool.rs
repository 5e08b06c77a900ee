//! One replica's KV memory, with or without prefix caching.
//!
//! Without caching nothing but the number of free blocks matters. With it, contents do ([`PrefixPool`]).
//!
//! Groups of layers draw from the one pool ([`KvGroups`]). A sequence says how many tokens it has blocks for and how many
//! of them were *settled* when it last took some; what its windows have passed follows. With caching, contents are those of
//! the one group that keeps everything: blocks of windows hold their place in the order of eviction, but whether they
//! are still there does not decide a hit, and whoever finds a prefix takes blocks for its windows anew. Blocks of recurrent
//! layers are taken at an admission and given back at the end; with them nothing is cached.

use std::hint::cold_path;

use super::{Held, Journal, KvGroups, Match, PrefixPool, ReusePool};
use crate::units::Picos;
use crate::workload::Piece;

/// Blocks that an admission takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Of groups that keep everything.
    full: u32,
    /// Of groups with a window.
    windows: u32,
    /// For states of constant size.
    states: u32,
}

impl Taken {
    /// So many where no layer has a window.
    pub(crate) fn of_one_group(blocks: u32) -> Taken {
        Taken {
            full: blocks,
            windows: 0,
            states: 0,
        }
    }

    /// All of them.
    #[inline]
    pub(crate) fn all(self) -> u32 {
        self.full + self.windows + self.states
    }
}

/// A pool of KV blocks, the null block left out (V1-29).
#[derive(Debug)]
pub(crate) struct BlockPool {
    block_size: u32,
    total: u32,
    groups: KvGroups,
    /// How many groups there are.
    group_count: u32,
    /// Blocks of a group that a sequence holds at most, for each kind of window.
    windows_at_most: Vec<u32>,
    /// Blocks that no sequence uses.
    free: u32,
    prefix: Option<PrefixPool>,
    reuse: Option<Box<ReusePool>>,
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
            groups: KvGroups::ONE,
            group_count: 1,
            windows_at_most: Vec::new(),
            free: total,
            prefix,
            reuse: None,
        }
    }

    /// The same with block reuse as TensorRT-LLM has it, of parts of blocks, too, if so.
    pub(crate) fn reusing(self, partial: bool) -> BlockPool {
        assert!(self.prefix.is_none(), "there is one cache");
        BlockPool {
            reuse: Some(Box::new(ReusePool::new(self.total, self.block_size, partial))),
            ..self
        }
    }

    /// TensorRT-LLM's cache, if there is one.
    #[inline]
    pub(crate) fn reuse(&self) -> Option<&ReusePool> {
        self.reuse.as_deref()
    }

    /// Blocks for a prompt, shared with whoever has the same prefix: the tokens that are found.
    pub(crate) fn reuse_for(&mut self, seat: usize, pieces: &[Piece], prompt: u32) -> u32 {
        let reuse = self.reuse.as_mut().expect("asked where blocks are reused");
        let (found, taken) = reuse.admit(seat, pieces, prompt);
        self.free -= taken;
        found
    }

    /// A prompt is computed, and others may find it.
    pub(crate) fn store_prompt(&mut self, seat: usize, pieces: &[Piece], prompt: u32) {
        let reuse = self.reuse.as_mut().expect("asked where blocks are reused");
        reuse.store_prompt(seat, pieces, prompt);
    }

    /// Frees all blocks of whoever sits there, after storing its first `tokens` tokens.
    pub(crate) fn release_reused(
        &mut self,
        seat: usize,
        pieces: &[Piece],
        tokens: u32,
        allocated_tokens: u32,
    ) {
        let reuse = self.reuse.as_mut().expect("asked where blocks are reused");
        self.free += reuse.release(seat, pieces, tokens, allocated_tokens);
    }

    /// The same for groups of layers; at most `in_flight` tokens of a sequence are scheduled and not settled.
    pub(crate) fn of_groups(self, groups: &KvGroups, in_flight: u32, max_model_len: u32) -> BlockPool {
        assert!(
            groups.keeps_all() || self.prefix.is_none() || groups.full == 1,
            "contents are those of one group"
        );
        assert!(
            groups.states == 0 || self.prefix.is_none(),
            "states are no contents that others find"
        );
        let block_size = self.block_size;
        let at_most = |kind: &super::WindowGroups| kind.held_at_most(in_flight, max_model_len, block_size);
        BlockPool {
            group_count: groups.count(),
            windows_at_most: groups.windows.iter().map(at_most).collect(),
            groups: groups.clone(),
            ..self
        }
    }

    /// Blocks of one group that `tokens` tokens fill, the last one perhaps in part.
    #[inline]
    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Blocks of all groups that a sequence takes to have room for `to` tokens instead of `from`.
    #[inline]
    pub(crate) fn blocks_between(&self, from: u32, to: u32) -> u32 {
        self.group_count * (self.blocks_for(to) - self.blocks_for(from))
    }

    /// Blocks that windows pass as `to` tokens are settled instead of `from`.
    #[inline]
    pub(crate) fn passed_between(&self, from: u32, to: u32) -> u32 {
        if self.groups.keeps_all() {
            return 0;
        }
        self.groups.passed(to, self.block_size) - self.groups.passed(from, self.block_size)
    }

    /// Whether windows have passed the same blocks behind either number of settled tokens.
    #[inline]
    pub(crate) fn passes_alike(&self, one: u32, other: u32) -> bool {
        if self.groups.keeps_all() {
            return true;
        }
        cold_path();
        let kinds = &self.groups.windows;
        kinds
            .iter()
            .all(|kind| kind.passed(one, self.block_size) == kind.passed(other, self.block_size))
    }

    /// Blocks beside those of a hit that a sequence takes to compute up to `tokens`.
    #[inline]
    pub(crate) fn blocks_behind(&self, found: Match, tokens: u32) -> Taken {
        let blocks = self.blocks_for(tokens);
        let hit = found.blocks * self.block_size;
        let windows = self.group_count - self.groups.full;
        Taken {
            full: self.groups.full * (blocks - found.blocks),
            windows: windows * blocks - self.groups.passed(hit, self.block_size),
            states: self.groups.states,
        }
    }

    /// Blocks beside those of a hit that a sequence of `tokens` holds at once at most, whose windows pass on as it is
    /// computed.
    #[inline(never)]
    pub(crate) fn reserved_behind(&self, found: Match, tokens: u32) -> u32 {
        let blocks = self.blocks_for(tokens);
        let hit = found.blocks * self.block_size;
        let kinds = self.groups.windows.iter().zip(&self.windows_at_most);
        let of_windows = kinds.map(|(kind, &at_most)| {
            let cached = found.blocks - kind.passed(hit, self.block_size);
            kind.groups * (blocks.min(at_most).saturating_sub(found.blocks) + cached)
        });
        self.groups.full * (blocks - found.blocks) + of_windows.sum::<u32>() + self.groups.states
    }

    /// Usable blocks.
    #[inline]
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Blocks that no sequence uses; cached contents may still be in them.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Tokens whose cached KV was evicted since the beginning.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        if let Some(reuse) = &self.reuse {
            return reuse.evicted_tokens();
        }
        let blocks = self.prefix.as_ref().map_or(0, PrefixPool::evicted);
        blocks * u64::from(self.block_size)
    }

    /// Tokens whose KV is cached, whether somebody uses it or not; what two sequences hold a copy of each counts once.
    pub(crate) fn cached_tokens(&self) -> u64 {
        if let Some(reuse) = &self.reuse {
            return reuse.cached_tokens();
        }
        let blocks = self.prefix.as_ref().map_or(0, PrefixPool::cached);
        u64::from(blocks) * u64::from(self.block_size)
    }

    /// Whether contents are cached.
    #[inline]
    pub(crate) fn caches(&self) -> bool {
        self.prefix.is_some() || self.reuse.is_some()
    }

    /// From now on evictions are put off until [`BlockPool::settle`], which is called before each look-up.
    pub(crate) fn put_off_evictions(&mut self) {
        if let Some(prefix) = &mut self.prefix {
            prefix.put_off_evictions();
        }
    }

    /// Evicts what was put off, the blocks of which were noted as taken already.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(prefix) = &mut self.prefix {
            prefix.settle();
            debug_assert!(
                prefix.free() == self.free,
                "what a cache takes and frees is noted here"
            );
        }
    }

    /// Cached prefix of `pieces` for a sequence of `known_tokens`: at least one token stays to be computed (V1-46).
    #[inline]
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
            cold_path();
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

    /// References a match and takes blocks behind it.
    #[inline(always)]
    pub(crate) fn admit(&mut self, found: Match, new: Taken) -> Held {
        match &mut self.prefix {
            Some(prefix) => {
                let mut held = prefix.adopt(found);
                prefix.take(&mut held, new.full);
                prefix.evict(new.windows);
                self.free = prefix.free();
                held
            }
            None => {
                self.take_uncached(new.all());
                Held::default()
            }
        }
    }

    /// Takes blocks for a sequence none of whose contents is or will be in another one, as whatever begins with a text of its own.
    #[inline]
    pub(crate) fn admit_alone(&mut self, held: &mut Held, new: Taken) {
        match &mut self.prefix {
            Some(prefix) => {
                *held = prefix.adopt_alone(new.full);
                prefix.evict(new.windows);
                self.free = prefix.free();
            }
            // Blocks without contents are a number.
            None => self.take_uncached(new.all()),
        }
    }

    /// A sequence that was admitted alone will come back, and look for what it registers.
    pub(crate) fn expect_again(&mut self, held: &mut Held, pieces: &[Piece]) {
        if let Some(prefix) = &mut self.prefix {
            prefix.enter(held, pieces);
        }
    }

    /// Takes blocks for sequences that account for them by their length.
    #[inline(always)]
    pub(crate) fn take(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        match &mut self.prefix {
            Some(prefix) => {
                prefix.evict(blocks);
                self.free = prefix.free();
            }
            None => self.take_uncached(blocks),
        }
    }

    /// Takes back blocks that windows have passed.
    #[inline]
    pub(crate) fn give_back(&mut self, blocks: u32) {
        if blocks == 0 {
            return;
        }
        match &mut self.prefix {
            // They are full, so they have a hash, and whoever has one goes to the tail.
            Some(prefix) => {
                prefix.free_to_tail(blocks);
                self.free = prefix.free();
            }
            None => self.free += blocks,
        }
    }

    /// Registers the full blocks among the first `tokens` tokens of a sequence that holds blocks for
    /// `allocated_tokens`.
    #[inline]
    pub(crate) fn register(&mut self, held: &mut Held, pieces: &[Piece], tokens: u32, allocated_tokens: u32) {
        if let Some(prefix) = &mut self.prefix {
            let allocated = allocated_tokens.div_ceil(self.block_size);
            held.assign(allocated - held.blocks());
            prefix.register(held, pieces, tokens / self.block_size);
        }
    }

    /// Frees all blocks of a sequence that holds them for `allocated_tokens`, after registering the full ones among
    /// the first `tokens`. No window has passed any.
    pub(crate) fn release(&mut self, mut held: Held, pieces: &[Piece], tokens: u32, allocated_tokens: u32) {
        self.release_rest(&mut held, pieces, tokens, allocated_tokens, 0);
    }

    /// The same for a sequence of whose tokens `settled` were settled when it last took blocks. Those of windows go first, as
    /// groups go in the order of their first layers and most models with windows begin with one. Where windows begin at a
    /// later layer (Qwen2's `max_window_layers`) vLLM frees the full group first, and what is evicted next may be another block.
    #[inline(always)]
    pub(crate) fn release_rest(
        &mut self,
        held: &mut Held,
        pieces: &[Piece],
        tokens: u32,
        allocated_tokens: u32,
        settled: u32,
    ) {
        self.register(held, pieces, tokens, allocated_tokens);
        if !self.groups.keeps_all() {
            cold_path();
            self.release_windows(tokens, allocated_tokens, settled);
        }
        match &mut self.prefix {
            Some(prefix) => {
                prefix.release(std::mem::take(held));
                self.free = prefix.free();
            }
            None => {
                self.free += self.groups.full * self.blocks_for(allocated_tokens) + self.groups.states;
            }
        }
        debug_assert!(
            self.free() <= self.total,
            "no more blocks are freed than were taken"
        );
    }

    fn release_windows(&mut self, tokens: u32, allocated_tokens: u32, settled: u32) {
        let blocks = self.blocks_for(allocated_tokens);
        let unhashed = blocks - tokens / self.block_size;
        for kind in &self.groups.windows {
            let held = blocks - kind.passed(settled, self.block_size);
            let unhashed = unhashed.min(held);
            match &mut self.prefix {
                Some(prefix) => {
                    prefix.free_blank(kind.groups * unhashed);
                    prefix.free_to_tail(kind.groups * (held - unhashed));
                }
                None => self.free += kind.groups * held,
            }
        }
    }

    #[inline(always)]
    fn take_uncached(&mut self, blocks: u32) {
        assert!(blocks <= self.free, "no more blocks are taken than are free");
        self.free -= blocks;
        if let Some(reuse) = &mut self.reuse {
            cold_path();
            reuse.take(blocks);
        }
    }
}
