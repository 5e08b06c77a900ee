//! A server that only prefills (`disaggregation/prefill.py`, PD-23 to PD-26).
//!
//! Life of a request: *bootstrap* (known, but not in the queue before the decode server has memory for it:
//! [`SglangReplica::let_in`]), waiting, prefill with one output token, *inflight* (its KV is kept, locked in the tree,
//! until the transfer is seen to be over), gone. The transfer is polled in every pass of the loop.
//!
//! There is no decode batch: whatever a pass launched is not merged into one, and the sticky flag is cleared in every
//! pass (PD-24). Left out: the metadata buffers, twice as many as `max_running_requests`, which rows run out before.

use std::collections::VecDeque;

use super::Role;
use crate::engine::Handle;
use crate::engine::sglang::replica::SglangReplica;
use crate::engine::sglang::sequence::Phase;
use crate::engine::signal::{Signal, Told};
use crate::units::Picos;

/// State beside that of any server.
#[derive(Debug, Default)]
pub(in crate::engine::sglang) struct PrefillRole {
    /// Chunks in flight behind which more of the prompt comes: whose, and the tokens with KV after them.
    chunks: VecDeque<(Handle, u32)>,
    /// Transfers that are over and were not seen to be, by time.
    transferred: VecDeque<(Picos, Handle)>,
    /// Requests inflight.
    inflight: u32,
}

impl PrefillRole {
    /// When a transfer is next seen to be over.
    pub(in crate::engine::sglang) fn next_input(&self) -> Option<Picos> {
        self.transferred.front().map(|&(at, _)| at)
    }

    /// Whether memory will come back.
    pub(in crate::engine::sglang) fn expects_memory(&self) -> bool {
        self.inflight > 0
    }
}

impl SglangReplica {
    /// Makes it a server that only prefills.
    pub(crate) fn only_prefill(&mut self) {
        self.role = Role::Prefill(PrefillRole::default());
    }

    /// The transfer of a request's KV is over at `now`; the loop sees it in its next pass.
    pub(crate) fn transferred(&mut self, handle: Handle, now: Picos) {
        if let Role::Prefill(role) = &mut self.role {
            role.transferred.push_back((now, handle));
            self.wake_loop(now);
        }
    }

    /// Its batches do not join a running one.
    pub(in crate::engine::sglang) fn forget_last(&mut self) {
        for handle in self.last.take().unwrap_or_default() {
            if self
                .find(handle)
                .is_some_and(|sequence| sequence.phase == Phase::Ended)
            {
                self.bury(handle);
            }
        }
        self.full = false;
    }

    /// A chunk is launched behind which more of the prompt comes.
    pub(in crate::engine::sglang) fn note_chunk(&mut self, handle: Handle, kv: u32) {
        if let Role::Prefill(role) = &mut self.role {
            role.chunks.push_back((handle, kv));
        }
    }

    /// The result of such a chunk is there: its whole pages can be sent (PD-25).
    pub(in crate::engine::sglang) fn send_chunk(&mut self, now: Picos) {
        let Role::Prefill(role) = &mut self.role else {
            return;
        };
        let (handle, kv) = role.chunks.pop_front().expect("a chunk was launched");
        if let Some(sequence) = self.find(handle)
            && sequence.phase != Phase::Ended
        {
            let (id, tokens) = (sequence.request.id, kv - kv % self.config.page_size);
            let what = Signal::Computed {
                tokens,
                is_last: false,
            };
            self.signals.push(Told { at: now, id, what });
        }
    }

    /// The prompt is computed: its KV is cached, stays locked and is sent (PD-26).
    pub(in crate::engine::sglang) fn send_rest(&mut self, slot: usize, now: Picos) {
        let fill = self.sequences[slot].fill;
        self.cache_unfinished(slot, fill);
        let sequence = &mut self.sequences[slot];
        sequence.outputs += 1;
        sequence.in_flight -= 1;
        sequence.phase = Phase::Inflight;
        let what = Signal::Computed {
            tokens: sequence.request.prompt_tokens,
            is_last: true,
        };
        let id = sequence.request.id;
        self.signals.push(Told { at: now, id, what });
        if let Role::Prefill(role) = &mut self.role {
            role.inflight += 1;
        }
    }

    /// Transfers that are over by `now`: their prompts stay cached and are no longer locked.
    pub(in crate::engine::sglang) fn poll_transfers(&mut self, now: Picos) {
        while let Role::Prefill(role) = &mut self.role
            && let Some(&(at, handle)) = role.transferred.front()
            && at <= now
        {
            role.transferred.pop_front();
            role.inflight -= 1;
            assert_eq!(
                self.find(handle).map(|sequence| sequence.phase),
                Some(Phase::Inflight),
                "a transfer keeps its request"
            );
            self.cache_finished(handle.slot);
            self.rows -= 1;
            self.inside -= 1;
            self.sequences.remove(handle.slot);
        }
    }
}
