//! Pages: who has them, what is evicted for them, and what enters the tree (SG-37 to SG-40).

use super::replica::SglangReplica;
use super::sequence::Sequence;
use crate::kv::ROOT;

impl SglangReplica {
    /// Free tokens.
    #[inline]
    pub(super) fn available(&self) -> u64 {
        u64::from(self.free_pages) * u64::from(self.config.page_size)
    }

    /// Pages of so many tokens.
    #[inline]
    pub(super) fn pages(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.config.page_size)
    }

    /// Evicts until `tokens` are free; whether they are (SG-40).
    pub(super) fn make_room(&mut self, tokens: u64) -> bool {
        let available = self.available();
        if available < tokens {
            let asked = if self.config.switches.evicts_shortfall {
                tokens - available
            } else {
                tokens
            };
            let freed = self.tree.evict(asked);
            self.free_pages +=
                u32::try_from(freed / u64::from(self.config.page_size)).expect("below the pool");
        }
        self.available() >= tokens
    }

    /// Gives a sequence the pages for `tokens` more tokens, which were made room for.
    pub(super) fn allocate(&mut self, slot: usize, tokens: u32) {
        let kv = self.sequences[slot].kv;
        self.take_pages(self.pages(kv + tokens) - self.pages(kv));
        self.sequences[slot].kv += tokens;
    }

    /// Takes free pages, which were made room for.
    pub(super) fn take_pages(&mut self, pages: u32) {
        self.free_pages = self
            .free_pages
            .checked_sub(pages)
            .expect("room was made before pages are taken");
    }

    /// The computed part of a prompt becomes visible to others, and the sequence goes on with the tree's copy of it
    /// (`cache_unfinished_req`).
    pub(super) fn cache_unfinished(&mut self, slot: usize, tokens: u32) {
        if !self.config.radix_cache {
            return;
        }
        let before = self.insert(slot, tokens);
        let named = self.named(tokens);
        let sequence = &mut self.sequences[slot];
        let found = self
            .tree
            .find_below(sequence.protected(), &sequence.pieces, named);
        let duplicates = before.saturating_sub(sequence.shared) / self.config.page_size;
        self.free_pages += duplicates;
        self.tree.lock(found.node);
        self.tree.unlock(sequence.node);
        (sequence.node, sequence.shared) = (found.node, found.tokens);
    }

    /// A sequence leaves: what it computed is cached, the rest of its pages is freed (`cache_finished_req`).
    pub(super) fn cache_finished(&mut self, slot: usize) {
        let late = self.keep_wasted_page(slot);
        let sequence = &self.sequences[slot];
        let (kv, held) = (sequence.kv, sequence.held());
        if !self.config.radix_cache {
            return self.free_pages += self.pages(held) - late;
        }
        let wasted = u32::from(self.config.switches.caches_wasted_token);
        let cached = kv.min(sequence.known() - 1 + wasted);
        let before = self.insert(slot, cached);
        let (page, named) = (self.config.page_size, self.named(cached));
        let sequence = &mut self.sequences[slot];
        let duplicates = before.saturating_sub(sequence.shared) / page;
        let tail = held.div_ceil(page) - named / page;
        self.free_pages += duplicates + tail - late;
        self.tree.unlock(sequence.node);
        (sequence.node, sequence.shared) = (ROOT, 0);
    }

    /// A sequence loses its pages while a token that nobody wants is being computed for it. Returns the pages that are kept
    /// until that step's result is there: one, if the token is the first of a page (SG-5).
    fn keep_wasted_page(&mut self, slot: usize) -> u32 {
        if self.config.switches.frees_wasted_token_at_once {
            return 0;
        }
        let sequence = &self.sequences[slot];
        let wanted = sequence.known() - u32::from(sequence.outputs > 0);
        let late = self.pages(sequence.kv).saturating_sub(self.pages(wanted));
        // Whoever leaves by a result computes in the batch behind it, whoever is sent back in the last one launched.
        match self.in_flight.back_mut() {
            Some(newest) => newest.late_pages += late,
            None => return 0,
        }
        late
    }

    /// Inserts a sequence's first `tokens` tokens; how many of them were there before (SG-39).
    fn insert(&mut self, slot: usize, tokens: u32) -> u32 {
        let sequence = &self.sequences[slot];
        let protected = sequence.protected();
        let (tokens, prompt) = (self.named(tokens), self.named(sequence.request.prompt_tokens));
        let before = self.tree.insert_below(protected, &sequence.pieces, tokens);
        if self.config.switches.reinserts_prompt && self.tree.floor(tokens) > self.tree.floor(prompt) {
            self.tree.insert_below(protected, &sequence.pieces, prompt);
        }
        before
    }

    /// A sequence loses its KV without caching it: its own pages are freed, its prefix is no longer protected.
    pub(super) fn release(&mut self, slot: usize) {
        let page = self.config.page_size;
        let late = self.keep_wasted_page(slot);
        let Sequence { shared, node, .. } = self.sequences[slot];
        self.free_pages += self.sequences[slot].held().div_ceil(page) - shared / page - late;
        self.tree.unlock(node);
        let sequence = &mut self.sequences[slot];
        (sequence.kv, sequence.shared, sequence.node) = (0, 0, ROOT);
        sequence.drafted.reach = 0;
    }
}
