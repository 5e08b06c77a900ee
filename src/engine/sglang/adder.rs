//! Who is admitted to a prefill batch: three budgets and a test (`PrefillAdder`, SG-16 to SG-25).

use super::replica::SglangReplica;
use super::sequence::{CLIP_MAX_NEW_TOKENS, Sequence};
use crate::kv::ROOT;

/// What the budgets say after a request was added, or of one that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// No memory.
    NoToken,
    /// No budget.
    Other,
}

/// A sequence's part in the prefill batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) slot: usize,
    /// Tokens to compute.
    pub(super) new: u32,
    /// It was chunked before this pass.
    pub(super) goes_on: bool,
}

/// The budgets of one pass.
#[derive(Debug)]
pub(super) struct Adder {
    page: u32,
    /// What running and admitted requests are expected to need, in tokens.
    pub(super) offset: f64,
    /// What this pass takes at once.
    taken: u64,
    rem_input: i64,
    rem_chunk: Option<i64>,
    /// The batch.
    pub(super) shares: Vec<Share>,
    /// A request that was cut in this pass.
    pub(super) cut: Option<usize>,
    /// (tokens left, tokens occupied) of the exact test (SG-24).
    pub(super) states: Option<Vec<(f64, u64)>>,
}

impl Adder {
    fn ceil(&self, tokens: u32) -> u32 {
        tokens.next_multiple_of(self.page)
    }

    fn charge(&mut self, extend: u32, output: u32, reserve: u32) {
        let extend = self.ceil(extend);
        self.offset += f64::from(extend + output + reserve);
        self.taken += u64::from(extend + reserve);
        self.rem_input -= i64::from(extend);
        if let Some(chunk) = &mut self.rem_chunk {
            *chunk -= i64::from(extend);
        }
    }
}

impl SglangReplica {
    /// Fresh budgets; `mixed` running requests will ride along (SG-12, SG-17).
    pub(super) fn budgets(&self) -> Adder {
        let ratio_of = |sequence: &Sequence| self.ratio_of(sequence);
        let mixed = if self.config.enable_mixed_chunk {
            self.running.len() as i64
        } else {
            0
        };
        let expected: f64 = self
            .running
            .iter()
            .map(|handle| &self.sequences[handle.slot])
            .map(|sequence| f64::from(sequence.remaining()) * ratio_of(sequence))
            .sum();
        Adder {
            page: self.config.page_size,
            offset: mixed as f64 + expected,
            taken: mixed as u64,
            rem_input: i64::from(self.config.max_prefill_tokens) - mixed,
            rem_chunk: self
                .config
                .chunked_prefill_size
                .map(|chunk| i64::from(chunk) - mixed),
            shares: Vec::new(),
            cut: None,
            states: None,
        }
    }

    /// The share of its remaining output that a running request is expected to need.
    pub(super) fn ratio_of(&self, sequence: &Sequence) -> f64 {
        if self.config.switches.ignore_eos_is_certain && sequence.request.ignore_eos {
            1.0
        } else {
            self.ratio
        }
    }

    pub(super) fn rem_total(&self, adder: &Adder) -> f64 {
        (self.available() + self.tree.evictable()) as f64 - adder.offset
    }

    /// What the budgets allow for the next candidate (SG-23).
    pub(super) fn verdict(&self, adder: &Adder) -> Verdict {
        if self.rem_total(adder) <= 0.0 {
            Verdict::NoToken
        } else if adder.rem_input <= 0 || adder.rem_chunk.is_some_and(|chunk| chunk <= 0) {
            Verdict::Other
        } else {
            Verdict::Continue
        }
    }

    /// Tokens that admission keeps for each request beside its own.
    pub(super) fn reserve(&self) -> u32 {
        if self.config.switches.reserves_a_page {
            self.config.page_size
        } else {
            0
        }
    }

    /// The chunked request goes on (SG-22); whether a rest remains. Version 0.5.4 is taken to make the same progress.
    pub(super) fn add_chunk(&mut self, adder: &mut Adder, slot: usize) -> bool {
        let known = self.sequences[slot].known();
        self.sequences[slot].tried = (known, 0);
        let sequence = &self.sequences[slot];
        let rest = known - sequence.kv;
        let chunk = adder.rem_chunk.expect("only chunking leaves a chunked request");
        // The engine truncates the float towards zero.
        let mut most = chunk.min(self.rem_total(adder) as i64);
        if most <= 0 {
            most = chunk;
        }
        let new = rest.min(u32::try_from(most).unwrap_or(0));
        let is_cut = new < rest;
        let output = if is_cut {
            0
        } else {
            sequence.max_new.min(CLIP_MAX_NEW_TOKENS)
        };
        self.sequences[slot].fill = self.sequences[slot].kv + new;
        adder.charge(new, output, self.reserve());
        adder.shares.push(Share {
            slot,
            new,
            goes_on: true,
        });
        is_cut
    }

    /// Tries a waiting request (`add_one_req`).
    pub(super) fn add(&mut self, adder: &mut Adder, slot: usize) -> Verdict {
        let most = self.config.prefill_max_requests;
        if most.is_some_and(|most| adder.shares.len() >= most as usize) {
            // The engine asks after it has looked the prefix up, which keeps that recent.
            let known = self.sequences[slot].known();
            let found = self.look_up(slot, known - 1);
            self.sequences[slot].tried = (known, found.tokens);
            return Verdict::Other;
        }
        if !self.config.radix_cache && self.sequences[slot].request.ignore_eos {
            return self.add_exactly(adder, slot);
        }
        let known = self.sequences[slot].known();
        let found = self.look_up(slot, known - 1);
        let sequence = &mut self.sequences[slot];
        sequence.tried = (known, found.tokens);
        let extend = known - found.tokens;
        let total = f64::from(extend + sequence.remaining() + self.reserve());
        if total >= self.rem_total(adder) {
            return Verdict::NoToken;
        }
        let is_capped = !self.config.switches.input_cap_only_unchunked || adder.rem_chunk.is_none();
        if is_capped && i64::from(adder.ceil(extend)) >= adder.rem_input && !adder.shares.is_empty() {
            return Verdict::Other;
        }
        // Its own prefix is no longer evictable while it is tested.
        self.tree.lock(found.node);
        if total >= self.rem_total(adder) {
            self.tree.unlock(found.node);
            return Verdict::NoToken;
        }
        let sequence = &mut self.sequences[slot];
        (sequence.node, sequence.shared, sequence.kv) = (found.node, found.tokens, found.tokens);
        let verdict = self.take(adder, slot, extend, adder.page);
        if verdict == Verdict::Other && adder.shares.last().is_none_or(|share| share.slot != slot) {
            self.tree.unlock(found.node);
            let sequence = &mut self.sequences[slot];
            (sequence.node, sequence.shared, sequence.kv) = (ROOT, 0, 0);
        }
        verdict
    }

    /// Puts a request that passed the test into the batch, whole or cut to a multiple of `granule` (SG-21).
    fn take(&mut self, adder: &mut Adder, slot: usize, extend: u32, granule: u32) -> Verdict {
        let reserve = self.reserve();
        let output = self.sequences[slot].max_new.min(CLIP_MAX_NEW_TOKENS);
        let whole = i64::from(extend.next_multiple_of(granule));
        let (new, output) = match adder.rem_chunk {
            Some(chunk) if whole > chunk => {
                let granule = i64::from(granule);
                let Ok(cut @ 1..) = u32::try_from(chunk / granule * granule) else {
                    return Verdict::Other;
                };
                adder.cut = Some(slot);
                (cut, 0)
            }
            _ => (extend, output),
        };
        let sequence = &mut self.sequences[slot];
        sequence.fill = sequence.kv + new;
        adder.charge(new, output, reserve);
        adder.shares.push(Share {
            slot,
            new,
            goes_on: false,
        });
        self.verdict(adder)
    }

    /// Without a radix cache a request of known length is admitted if everybody can be seen to finish (SG-24,
    /// `add_one_req_ignore_eos`).
    fn add_exactly(&mut self, adder: &mut Adder, slot: usize) -> Verdict {
        let extend = self.sequences[slot].known();
        self.sequences[slot].tried = (extend, 0);
        let need = i64::from(adder.ceil(extend) + self.reserve());
        let now = self.available() as i64 - adder.taken as i64;
        if need as f64 > self.rem_total(adder).min(now as f64) {
            return Verdict::NoToken;
        }
        let own = self.state(slot);
        match &mut adder.states {
            Some(states) => {
                if let Some(own) = own {
                    let at = states
                        .iter()
                        .position(|state| own.0 <= state.0)
                        .unwrap_or(states.len().saturating_sub(1));
                    states.insert(at, own);
                }
            }
            None => {
                let running = self.running.iter().filter_map(|handle| self.state(handle.slot));
                let admitted = adder.shares.iter().filter_map(|share| self.state(share.slot));
                let mut states: Vec<(f64, u64)> = own.into_iter().chain(running).chain(admitted).collect();
                states.sort_by(|a, b| a.0.total_cmp(&b.0));
                adder.states = Some(states);
            }
        }
        let states = adder.states.as_deref().unwrap_or_default();
        let (left, mut freed) = ((now - need) as f64, 0u64);
        for (at, &(tokens_left, occupied)) in states.iter().enumerate() {
            let others = (states.len() - at) as f64;
            if left + freed as f64 - tokens_left * others <= others {
                return Verdict::NoToken;
            }
            freed += occupied;
        }
        // This path cuts where the budget ends, not at a page.
        self.take(adder, slot, extend, 1)
    }

    /// (tokens left, tokens occupied); `None` if nothing is left.
    fn state(&self, slot: usize) -> Option<(f64, u64)> {
        let sequence = &self.sequences[slot];
        let ratio = if sequence.request.ignore_eos {
            1.0
        } else {
            self.ratio
        };
        let left = f64::from(sequence.max_new) * ratio - f64::from(sequence.outputs);
        (left > 0.0).then_some((left, u64::from(sequence.known())))
    }
}
