//! Batches that go round between two threads: full ones one way, emptied ones back.
//!
//! No more are made than are needed, up to a bound, and the one that came back last is filled next: memory that both
//! threads' caches know is passed to and fro, and more of it only while one of them lags.

use std::sync::mpsc::{Receiver, Sender, channel};

/// The end at which batches are filled.
#[derive(Debug)]
pub(super) struct Loading<B> {
    full: Sender<B>,
    empty: Receiver<B>,
    spare: Vec<B>,
    /// Batches that may still be made.
    to_make: usize,
}

/// The end at which batches are emptied.
#[derive(Debug)]
pub(super) struct Unloading<B> {
    full: Receiver<B>,
    empty: Sender<B>,
}

/// The other end is gone: its thread has ended.
#[derive(Debug)]
pub(super) struct Gone;

/// A belt with `batches` batches at most, beside the ones that its two ends bring with them.
pub(super) fn belt<B>(batches: usize) -> (Loading<B>, Unloading<B>) {
    let (full, unload) = channel();
    let (emptied, empty) = channel();
    let loading = Loading {
        full,
        empty,
        spare: Vec::new(),
        to_make: batches,
    };
    let unloading = Unloading {
        full: unload,
        empty: emptied,
    };
    (loading, unloading)
}

impl<B: Default> Loading<B> {
    /// Sends a full batch on and takes an empty one for it; waits while all others are full.
    pub(super) fn exchange(&mut self, full: B) -> Result<B, Gone> {
        self.full.send(full).map_err(|_| Gone)?;
        self.spare.extend(self.empty.try_iter());
        if let Some(empty) = self.spare.pop() {
            return Ok(empty);
        }
        if self.to_make > 0 {
            self.to_make -= 1;
            return Ok(B::default());
        }
        self.empty.recv().map_err(|_| Gone)
    }

    /// Sends the last batch, and closes this end.
    pub(super) fn finish(self, last: B) -> Result<(), Gone> {
        self.full.send(last).map_err(|_| Gone)
    }
}

impl<B> Unloading<B> {
    /// The next full batch; waits for it. `None` after the last.
    pub(super) fn next(&self) -> Option<B> {
        self.full.recv().ok()
    }

    /// Sends an empty batch back. Nobody misses it if its filler has ended.
    pub(super) fn give_back(&self, empty: B) {
        let _ = self.empty.send(empty);
    }
}
