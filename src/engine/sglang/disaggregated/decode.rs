//! A server that only decodes (`disaggregation/decode.py`, PD-27 to PD-32).
//!
//! Life of a request: *prealloc* (it waits for memory, in order of arrival), *transfer* (its pages are taken and filled
//! from outside), waiting (for a place among the running), running. In every pass of the loop: retracted requests are
//! resumed, or else prompts get memory, then arrived prompts are taken over; those that find a place emit the prefill
//! server's first token at once, without a forward, and decode in the same pass (0.5.23; 0.5.4 decodes in the next,
//! which differs by nothing that takes time here).
//!
//! There is no radix cache (PD-31). A retracted request keeps its KV in host memory and is loaded back; both copies hold
//! the loop up, at a rate that is an assumption. Left out: the metadata buffers, of which there are twice as many as
//! rows.

use std::collections::VecDeque;

use super::Role;
use crate::engine::Handle;
use crate::engine::sglang::replica::SglangReplica;
use crate::engine::sglang::sequence::{CLIP_MAX_NEW_TOKENS, Phase};
use crate::engine::signal::{Signal, Told};
use crate::facts::{Completion, Observer, Outcome};
use crate::units::Picos;

/// With at most so many running requests a server has further rows for those that wait or are transferred, twice as
/// many as may run (`DecodeReqToTokenPool`).
const FEW_RUNNING: u32 = 32;

/// What a decode server is told beside a server's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// `--num-reserved-decode-tokens`: kept free for each request inside.
    pub num_reserved_decode_tokens: u32,
    /// Time to copy a token's KV between GPU and host.
    pub host_copy_per_token: Picos,
}

impl Default for DecodeOptions {
    /// The server's own default, and copies that take no time.
    fn default() -> DecodeOptions {
        DecodeOptions {
            num_reserved_decode_tokens: 512,
            host_copy_per_token: Picos::ZERO,
        }
    }
}

/// State beside that of any server.
#[derive(Debug)]
pub(in crate::engine::sglang) struct DecodeRole {
    options: DecodeOptions,
    rows: u32,
    /// Requests without memory.
    prealloc: VecDeque<usize>,
    /// Requests with memory whose KV was not seen to be there.
    transferring: u32,
    /// Of those, whose KV is there, by time.
    arrived: VecDeque<(Picos, Handle)>,
    /// Requests whose KV is in host memory.
    retracted: VecDeque<usize>,
}

impl DecodeRole {
    /// When KV is next seen to be there.
    pub(in crate::engine::sglang) fn next_input(&self) -> Option<Picos> {
        self.arrived.front().map(|&(at, _)| at)
    }

    /// Whether requests will come from outside.
    pub(in crate::engine::sglang) fn expects_requests(&self) -> bool {
        self.transferring as usize > self.arrived.len()
    }

    /// Whether anybody inside waits for memory.
    pub(in crate::engine::sglang) fn wants_memory(&self) -> bool {
        !self.prealloc.is_empty() || !self.retracted.is_empty()
    }

    /// Forgets everybody.
    pub(in crate::engine::sglang) fn restart(&mut self) {
        self.prealloc.clear();
        self.arrived.clear();
        self.retracted.clear();
        self.transferring = 0;
    }

    /// A drained request waits for memory.
    pub(in crate::engine::sglang) fn queue(&mut self, slot: usize) {
        self.prealloc.push_back(slot);
    }
}

impl SglangReplica {
    /// Makes it a server that only decodes.
    pub(crate) fn only_decode(&mut self, options: DecodeOptions) {
        assert!(!self.config.radix_cache, "a decode server has no radix cache");
        let most = self.config.max_running_requests;
        self.role = Role::Decode(DecodeRole {
            options,
            rows: if most <= FEW_RUNNING { 3 * most } else { most },
            prealloc: VecDeque::new(),
            transferring: 0,
            arrived: VecDeque::new(),
            retracted: VecDeque::new(),
        });
    }

    fn decode_role(&mut self) -> &mut DecodeRole {
        match &mut self.role {
            Role::Decode(role) => role,
            _ => unreachable!("only asked of a decode server"),
        }
    }

    /// The KV of a request, all of it, is there at `now`; the loop sees it in its next pass (PD-28).
    pub(crate) fn arrived(&mut self, handle: Handle, now: Picos) {
        self.decode_role().arrived.push_back((now, handle));
        self.wake_loop(now);
    }

    /// Whether a request that is alone would ever get its memory (PD-27).
    pub(in crate::engine::sglang) fn reserves_alone(&self, prompt_tokens: u32, max_new: u32) -> bool {
        let Role::Decode(role) = &self.role else {
            return true;
        };
        let prompt = self.pages(prompt_tokens) * self.config.page_size;
        let need = (prompt + role.options.num_reserved_decode_tokens)
            .max(prompt_tokens + max_new.min(CLIP_MAX_NEW_TOKENS));
        need <= self.config.max_total_tokens
    }

    /// What a pass does before it decides (`process_decode_queue`).
    pub(in crate::engine::sglang) fn reserve_and_poll(&mut self, now: Picos) {
        self.resume_retracted(now);
        if !self.decode_role().retracted.is_empty() {
            return;
        }
        self.reserve_prompts(now);
        while let Some(&(at, handle)) = self.decode_role().arrived.front()
            && at <= now
        {
            let role = self.decode_role();
            role.arrived.pop_front();
            role.transferring -= 1;
            self.sequences[handle.slot].phase = Phase::Waiting;
            self.join_queue(handle.slot);
        }
    }

    /// Prompts get memory, the oldest first, until one does not (`pop_preallocated`).
    fn reserve_prompts(&mut self, now: Picos) {
        if self.decode_role().prealloc.is_empty() {
            return;
        }
        // What would be free if all others were retracted, and what the largest of the running may need in all.
        self.settle();
        let (mut retractable, mut largest) = (0i64, None);
        for handle in &self.running {
            let sequence = &self.sequences[handle.slot];
            retractable += i64::from(sequence.known());
            let most = sequence.request.prompt_tokens + sequence.max_new.min(CLIP_MAX_NEW_TOKENS);
            largest = largest.max(Some(i64::from(most)));
        }
        let single = largest.map_or(0, |largest| largest - retractable);
        while let Some(&slot) = self.decode_role().prealloc.front() {
            let sequence = &self.sequences[slot];
            let prompt = sequence.request.prompt_tokens;
            let most = i64::from(prompt + sequence.max_new.min(CLIP_MAX_NEW_TOKENS));
            let need = self.required(prompt).max(most - retractable);
            if self.has_no_row() || need > self.allocatable(single) {
                return;
            }
            self.decode_role().prealloc.pop_front();
            self.decode_role().transferring += 1;
            self.rows += 1;
            self.allocate(slot, prompt);
            let sequence = &mut self.sequences[slot];
            sequence.phase = Phase::Inflight;
            let id = sequence.request.id;
            let what = Signal::Reserved;
            self.signals.push(Told { at: now, id, what });
        }
    }

    /// Retracted requests are loaded back, the first first, until one does not fit (`resume_retracted_reqs`).
    fn resume_retracted(&mut self, now: Picos) {
        while let Some(&slot) = self.decode_role().retracted.front() {
            let tokens = self.sequences[slot].known() - 1;
            if self.has_no_row() || self.required(tokens) > self.allocatable(0) {
                return;
            }
            self.decode_role().retracted.pop_front();
            self.rows += 1;
            self.allocate(slot, tokens);
            self.copy_by_host(tokens, now);
            self.join_queue(slot);
        }
    }

    fn has_no_row(&mut self) -> bool {
        self.rows >= self.decode_role().rows
    }

    /// Tokens that a request needs to be let in with so many tokens of KV.
    fn required(&self, tokens: u32) -> i64 {
        let Role::Decode(role) = &self.role else {
            return 0;
        };
        let pages = self.pages(tokens) * self.config.page_size;
        i64::from(pages + role.options.num_reserved_decode_tokens)
    }

    /// Tokens that may be given away (`_allocatable_token_budgets`).
    fn allocatable(&self, single: i64) -> i64 {
        let Role::Decode(role) = &self.role else {
            return 0;
        };
        let inside = self.running.len() + role.transferring as usize + self.waiting.len();
        let reserved = i64::from(role.options.num_reserved_decode_tokens) * inside as i64;
        self.available() as i64 - reserved.max(single)
    }

    /// Requests whose KV is there join the running ones as far as there are places, with the token that the prefill
    /// server sampled (`get_new_prebuilt_batch`, PD-29).
    pub(in crate::engine::sglang) fn join_prebuilt<O: Observer>(
        &mut self,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let places = (self.config.max_running_requests as usize).saturating_sub(self.running.len());
        for _ in 0..places.min(self.waiting.len()) {
            let slot = self.waiting.pop_front().expect("counted before");
            let sequence = &mut self.sequences[slot];
            sequence.phase = Phase::Running;
            let known = sequence.known();
            let (story, request) = (&mut sequence.story, &sequence.request);
            observer.observe(&story.admit(request, self.id, now, known, 0));
            if sequence.outputs == 0 {
                sequence.outputs = 1;
                if let Some(fact) = story.have_token(request, self.id, now, None) {
                    observer.observe(&fact);
                }
                if sequence.outputs == sequence.target {
                    self.cache_finished(slot);
                    self.rows -= 1;
                    ended.push(self.leave(slot, now, Outcome::Completed));
                    continue;
                }
            }
            let handle = self.sequences[slot].handle;
            self.number(&[handle]);
            self.running.push(handle);
            self.membership += 1;
        }
    }

    /// A retracted request's KV goes to host memory (PD-32).
    pub(in crate::engine::sglang) fn keep_in_host(&mut self, slot: usize, now: Picos) {
        let tokens = self.sequences[slot].known() - 1;
        self.copy_by_host(tokens, now);
        self.decode_role().retracted.push_back(slot);
    }

    /// The loop and the GPU wait for a copy.
    fn copy_by_host(&mut self, tokens: u32, now: Picos) {
        let each = self.decode_role().options.host_copy_per_token;
        self.gpu_free = self.gpu_free.max(now) + each * u64::from(tokens);
    }

    /// Whoever waits goes on waiting as long as the running batch only grows: neither a place nor memory becomes free.
    pub(in crate::engine::sglang) fn queues_are_blocked(&self) -> bool {
        let Role::Decode(role) = &self.role else {
            return false;
        };
        let waits_for_place =
            self.waiting.is_empty() || self.running.len() >= self.config.max_running_requests as usize;
        // Pages only become fewer. What a lone request may need shrinks, too, so that term is left out of both.
        let is_short = |tokens: u32| self.rows >= role.rows || self.required(tokens) > self.allocatable(0);
        let retracted_wait = match role.retracted.front() {
            Some(&slot) => is_short(self.sequences[slot].known() - 1),
            None => match role.prealloc.front() {
                Some(&slot) => is_short(self.sequences[slot].request.prompt_tokens),
                None => true,
            },
        };
        waits_for_place && retracted_wait
    }

    /// Takes a request whose client gave up at `now` out of whichever of this server's queues it is in, with its memory.
    pub(in crate::engine::sglang) fn forget_queued(&mut self, handle: Handle, now: Picos) {
        let Role::Decode(role) = &mut self.role else {
            return;
        };
        role.prealloc.retain(|&slot| slot != handle.slot);
        role.retracted.retain(|&slot| slot != handle.slot);
        let sequence = &self.sequences[handle.slot];
        if sequence.phase == Phase::Inflight {
            role.transferring -= 1;
            role.arrived.retain(|&(_, other)| other != handle);
        }
        if sequence.kv > 0 {
            self.release(handle.slot);
            self.rows -= 1;
        }
        self.wake_loop(now);
    }
}
