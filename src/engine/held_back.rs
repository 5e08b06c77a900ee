//! Blocks of completed requests that are kept until somebody has read them (PD-8).

use super::replica::Replica;
use crate::ids::RequestId;
use crate::kv::Held;
use crate::units::Picos;

/// Blocks of a completed request that are not free yet.
#[derive(Debug)]
pub(super) struct HeldBack {
    held: Held,
    registered: u32,
    tokens: u32,
}

impl Replica {
    /// Frees the blocks that were held back when request `id` completed; `false` if there are none.
    pub(crate) fn release_held_back(&mut self, id: RequestId, now: Picos) -> bool {
        let Some(external) = &mut self.external else {
            return false;
        };
        let Some(back) = external.held_back.remove(&id) else {
            return false;
        };
        self.pool.set_clock(now);
        self.pool.release(back.held, &[], back.registered, back.tokens);
        self.admission_closed = self.nobody_waits();
        if self.spins() {
            self.pass_from(now);
        }
        true
    }

    /// Whether it holds back the blocks of anybody.
    pub(crate) fn holds_back(&self) -> bool {
        let external = self.external.as_ref();
        external.is_some_and(|external| !external.held_back.is_empty())
    }

    /// Calls a completed request whose blocks are held back by another name, so that its own is free to come again.
    pub(crate) fn rename_held_back(&mut self, id: RequestId, other: RequestId) {
        if let Some(external) = &mut self.external
            && let Some(back) = external.held_back.remove(&id)
        {
            external.held_back.insert(other, back);
        }
    }

    /// Keeps the blocks of a completed request, registered like freed ones.
    pub(super) fn hold_back(&mut self, slot: usize, mut held: Held, registered: u32) {
        let sequence = &self.sequences[slot];
        let tokens = sequence.computed;
        self.pool
            .register(&mut held, &sequence.pieces, registered, tokens);
        let back = HeldBack {
            held,
            registered,
            tokens,
        };
        let external = self.external.as_mut().expect("a connector asked for it");
        external.held_back.insert(sequence.request.id, back);
    }
}
