//! The twin's pages: who has them, what is evicted for them, what enters the tree (SG-33, SG-37 to SG-40).

use super::{State, Twin};

impl Twin<'_> {
    pub(super) fn page(&self) -> u64 {
        u64::from(self.config.page_size)
    }

    pub(super) fn available(&self) -> u64 {
        self.free * self.page()
    }

    pub(super) fn pages(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.config.page_size))
    }

    /// SG-40: 0.5.4 evicts all that is asked for, 0.5.23 what is missing.
    pub(super) fn room(&mut self, tokens: u64) -> bool {
        if self.available() < tokens {
            let asked = if self.versions.evicts_shortfall {
                tokens - self.available()
            } else {
                tokens
            };
            let freed = self.tree.evict(asked);
            self.free += freed / self.page();
        }
        self.available() >= tokens
    }

    pub(super) fn grow(&mut self, at: usize, tokens: u32) {
        let kv = self.reqs[at].kv;
        let pages = self.pages(kv + tokens) - self.pages(kv);
        match self.free.checked_sub(pages) {
            Some(free) => self.free = free,
            None => self.died = true,
        }
        self.record.shares.push((self.reqs[at].id, kv, tokens));
        self.reqs[at].kv += tokens;
    }

    fn insert(&mut self, at: usize, tokens: u32) {
        let req = &self.reqs[at];
        let before = self.tree.insert(&req.tokens[..tokens as usize]) as u64;
        let is_longer = u64::from(tokens) / self.page() > u64::from(req.prompt) / self.page();
        if self.versions.reinserts_prompt && is_longer {
            self.tree.insert(&req.tokens[..req.prompt as usize]);
        }
        self.free += before.saturating_sub(u64::from(req.shared)) / self.page();
    }

    pub(super) fn cache_unfinished(&mut self, at: usize) {
        if !self.config.radix_cache {
            return;
        }
        let fill = self.reqs[at].fill;
        self.insert(at, fill);
        let (node, tokens) = self.tree.walk(&self.reqs[at].tokens[..fill as usize]);
        self.tree.lock(node, 1);
        self.tree.lock(self.reqs[at].node, -1);
        (self.reqs[at].node, self.reqs[at].shared) = (node, tokens as u32);
    }

    /// Leaves with what it computed cached; 0.5.23 caches the token that an ending wasted, too (SG-39).
    pub(super) fn finish(&mut self, at: usize) {
        let kv = self.reqs[at].kv;
        self.reqs[at].state = State::Gone;
        self.rows -= 1;
        if !self.config.radix_cache {
            self.free += self.pages(kv);
            return self.keep_wasted(at);
        }
        let wasted = u32::from(self.versions.caches_wasted_token);
        let cached = kv.min(self.reqs[at].known() - 1 + wasted);
        self.insert(at, cached);
        self.free += self.pages(kv) - u64::from(cached) / self.page();
        self.keep_wasted(at);
        self.tree.lock(self.reqs[at].node, -1);
    }

    /// In 0.5.4 a token that is being computed for somebody who leaves keeps its page until the result of that step.
    fn keep_wasted(&mut self, at: usize) {
        let req = &self.reqs[at];
        let done = if req.out == 0 { req.prompt } else { req.known() - 1 };
        if !self.versions.frees_wasted_token_at_once && req.flying > 0 && req.kv > done {
            let pages = self.pages(req.kv) - self.pages(done);
            self.wasted += pages;
            self.free -= pages;
        }
    }

    /// Loses its KV, which nobody is to find.
    pub(super) fn release(&mut self, at: usize) {
        self.free += self.pages(self.reqs[at].kv) - u64::from(self.reqs[at].shared) / self.page();
        self.keep_wasted(at);
        self.tree.lock(self.reqs[at].node, -1);
        let req = &mut self.reqs[at];
        (req.kv, req.shared, req.node) = (0, 0, 0);
        self.rows -= 1;
    }

    pub(super) fn find(&mut self, at: usize, tokens: u32) -> (usize, u32) {
        if !self.config.radix_cache {
            return (0, 0);
        }
        let (node, found) = self.tree.walk(&self.reqs[at].tokens[..tokens as usize]);
        (node, found as u32)
    }
}
