//! What a cache tells somebody who hears of its changes with a delay.
//!
//! Engines publish what they store and remove (vLLM `KVEventBatch`, SGLang `BlockStored` and `BlockRemoved`), and a
//! router hears of it a latency later (RT-12). The cache writes its changes down here, and whoever listens takes them out
//! when they are due (`heard.rs`); he asks often, so they do not pile up. Writing one down costs O(runs on its path).
//!
//! Left out: generated tokens enter the caches here when their sequence leaves, so they are told then, all at once; only a
//! request that continues an answer within the latency of its end could tell.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::units::Picos;
use crate::workload::Piece;

/// The changes that have not been taken out.
#[derive(Debug)]
pub(crate) struct Journal {
    latency: Picos,
    /// Tokens of a block.
    block: u32,
    now: Picos,
    /// Nobody has listened since the cache was empty.
    begins: Cell<bool>,
    /// In order of time. Who listens only looks at engines, hence the cells.
    changes: RefCell<VecDeque<Change>>,
    spare: RefCell<Vec<Vec<Piece>>>,
}

/// Tokens `from..to` of a text began or ceased to be cached.
#[derive(Debug)]
pub(crate) struct Change {
    at: Picos,
    pub(super) text: Vec<Piece>,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) is_stored: bool,
}

impl Journal {
    /// Of an empty cache with blocks of `block` tokens; changes are heard of `latency` later.
    pub(crate) fn new(latency: Picos, block: u32) -> Journal {
        Journal {
            latency,
            block,
            now: Picos::ZERO,
            begins: Cell::new(true),
            changes: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// How late changes are heard of.
    pub(crate) fn latency(&self) -> Picos {
        self.latency
    }

    /// Tokens of a block: all that is told of is multiples of it.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// Whether it matters when exactly something changes. Who hears of everything at once sees the cache as it is.
    pub(crate) fn is_late(&self) -> bool {
        self.latency > Picos::ZERO
    }

    /// Changes from now on happen at `now`.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: Picos) {
        debug_assert!(now >= self.now, "a cache changes in order of time");
        self.now = now;
    }

    /// An empty text to write a change's into.
    pub(crate) fn blank(&mut self) -> Vec<Piece> {
        self.spare.get_mut().pop().unwrap_or_default()
    }

    /// The tokens of `text` from `from` on are cached now, and were not.
    pub(crate) fn stored(&mut self, text: Vec<Piece>, from: u32, to: u32) {
        self.push(text, from, to, true);
    }

    /// The tokens of `text` from `from` on are not cached any more.
    pub(crate) fn removed(&mut self, text: Vec<Piece>, from: u32, to: u32) {
        self.push(text, from, to, false);
    }

    fn push(&mut self, text: Vec<Piece>, from: u32, to: u32, is_stored: bool) {
        self.changes.get_mut().push_back(Change {
            at: self.now,
            text,
            from,
            to,
            is_stored,
        });
    }

    /// Whether this is the first time that somebody listens: the cache was empty before.
    #[inline]
    pub(super) fn begins(&self) -> bool {
        self.begins.replace(false)
    }

    /// Takes out the changes that are heard of by `now`, in order of time.
    #[inline]
    pub(super) fn tell(&self, now: Picos, mut hear: impl FnMut(&Change)) {
        let mut changes = self.changes.borrow_mut();
        while let Some(first) = changes.front()
            && (!self.is_late() || first.at + self.latency <= now)
        {
            let mut change = changes.pop_front().expect("it was just looked at");
            hear(&change);
            change.text.clear();
            self.spare.borrow_mut().push(change.text);
        }
    }
}
