//! Who is taken in: what reaches the server, and what it refuses at its door.

use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::{DOOR, Sequence, clipped_max_new, longest_request};
use crate::engine::{Handle, Refusal};
use crate::units::Picos;
use crate::workload::Request;

impl SglangReplica {
    /// Takes in a request that reaches the engine at `now`; one that finds the loop idle wakes it.
    pub(crate) fn offer(&mut self, now: Picos, request: &mut Request) -> Result<Handle, Refusal> {
        let handle = self.take_in(request)?;
        self.enter(handle, now);
        self.let_in(handle, now);
        Ok(handle)
    }

    /// Takes in a request that the loop will not see before it is let in.
    pub(crate) fn take_in(&mut self, request: &mut Request) -> Result<Handle, Refusal> {
        if let Some(refusal) = self.refusal(request) {
            return Err(refusal);
        }
        self.inside += 1;
        let config = &self.config;
        Ok(self
            .sequences
            .insert(|handle| Sequence::new(std::mem::take(request), handle, config)))
    }

    /// A request that was taken in reaches the server at `now`, which perhaps does not let it into its loop yet.
    pub(crate) fn enter(&mut self, handle: Handle, now: Picos) {
        self.sequences[handle.slot].story.enter(now);
    }

    /// A request that was taken in reaches the loop at `now`, no earlier than those let in before.
    pub(crate) fn let_in(&mut self, handle: Handle, now: Picos) {
        self.inbox.push_back((now, handle));
        self.wake_loop(now);
    }

    /// Why a request cannot be taken in, if so.
    pub(crate) fn refusal(&self, request: &Request) -> Option<Refusal> {
        let queued = self.waiting.len() + self.inbox.len();
        if self
            .config
            .max_queued_requests
            .is_some_and(|limit| queued >= limit as usize)
        {
            return Some(Refusal::QueueFull);
        }
        let max_new = clipped_max_new(request, &self.config);
        if max_new > 0 {
            let fits =
                self.fits_exactly(request, max_new) && self.reserves_alone(request.prompt_tokens, max_new);
            return (!fits).then_some(Refusal::NeverFits);
        }
        let fits_context = request.prompt_tokens + DOOR < self.config.context_length;
        let fits_pool = longest_request(&self.config) == self.config.context_length - 1;
        Some(if fits_context || !fits_pool {
            Refusal::NeverFits
        } else {
            Refusal::PromptTooLong
        })
    }

    /// Whether the exact test of SG-24, where it applies, lets a request in that is alone; the server would try for ever.
    fn fits_exactly(&self, request: &Request, max_new: u32) -> bool {
        if self.config.radix_cache || !request.ignore_eos || matches!(self.role, Role::Decode(_)) {
            return true;
        }
        let page = self.config.page_size;
        let pages = request.prompt_tokens.next_multiple_of(page);
        pages + self.reserve() + max_new + 1 < self.config.max_total_tokens
    }
}
