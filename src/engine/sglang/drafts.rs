//! Speculative decoding in an SGLang server (SG-54 to SG-58): a decode verifies drafts for everybody who runs, and as many tokens come
//! of it as stand. Of a tree of drafts one branch stands at most.
//!
//! What is *committed* of a sequence is the KV of tokens that have come of results, one short of what is known; pages are kept for
//! twice a verification behind it, so that the one in flight, which nobody knows the outcome of yet, has room, too. How many drafts stand
//! is drawn when a verification is launched: only its cost may know. The drafter takes time ([`crate::cost::roofline`]).
//! Left out: drafts whose number follows the batch, grammars. Law: of a verification comes one token at least, and at most
//! one more than its drafts.

use super::batch::{Batch, Entry};
use super::replica::SglangReplica;
use super::sequence::Sequence;
use crate::engine::speculation::Acceptance;
use crate::facts::{Fact, Observer};
use crate::units::Picos;

/// How an SGLang server speculates.
#[derive(Clone, Debug, PartialEq)]
pub struct SglangSpeculation {
    /// Tokens of a verification, the sequence's own included (`speculative_num_draft_tokens`).
    pub tokens: u32,
    /// Drafts that can stand one behind another (`speculative_num_steps`): all of a chain, fewer of a tree.
    pub levels: u32,
    /// Tokens whose pages a decoding sequence keeps behind what is committed (`get_alloc_reserve_per_decode`).
    pub reserve: u32,
    /// The radix cache knows each token together with the one behind it, on which the drafter's KV depends (EAGLE and its kin).
    pub names_pairs: bool,
    /// At each level, which share of the verifications gets there and has a draft stand: `r_i = P(a ≥ i)`, none above the one before
    /// (SD-2).
    pub acceptance: Vec<f64>,
}

/// What a sequence needs to remember where the server speculates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drafted {
    /// Tokens that its pages have room for (`kv_allocated_len`); 0 before it decodes.
    pub(super) reach: u32,
    /// Tokens that verifications in flight bring.
    pub(super) unseen: u32,
    /// Verifications that were launched for it.
    rounds: u32,
}

impl Sequence {
    /// Tokens that its pages have room for.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.kv.max(self.drafted.reach)
    }
}

impl SglangReplica {
    /// From now on drafts stand as `acceptance` says; where the server does not speculate nothing asks.
    pub(crate) fn accept(&mut self, acceptance: Acceptance) {
        self.acceptance = Some(acceptance);
    }

    /// Tokens of the cache that the first `tokens` tokens of a text make.
    #[inline]
    pub(super) fn named(&self, tokens: u32) -> u32 {
        match &self.config.drafts {
            Some(drafts) if drafts.names_pairs => tokens.saturating_sub(1),
            _ => tokens,
        }
    }

    /// Tokens that each who runs computes in a decode.
    pub(super) fn tokens_of_decode(&self) -> u32 {
        self.config.drafts.as_ref().map_or(1, |drafts| drafts.tokens)
    }

    /// Pages that the next verification of the running requests takes (`_new_tokens_required_next_decode_spec_v2`).
    pub(super) fn pages_to_verify(&self, drafts: &SglangSpeculation) -> u32 {
        let of_one = |sequence: &Sequence| {
            let reach = sequence.held().max(sequence.kv + drafts.reserve);
            self.pages(reach) - self.pages(sequence.held())
        };
        let running = self.running.iter();
        running.map(|handle| of_one(&self.sequences[handle.slot])).sum()
    }

    /// Evicts for the next verification: for what it takes up to whole pages, and where pages are larger than a token for one more of
    /// each (`alloc_for_spec_decode`, `alloc_paged_token_slots_extend`); for nothing where all have room.
    fn reserve_verifications(&mut self, reserve: u32) {
        let page = self.config.page_size;
        let of_one = |sequence: &Sequence| {
            let reach = (sequence.kv + reserve).next_multiple_of(page);
            u64::from(reach.saturating_sub(sequence.held()))
        };
        let running = self.running.iter();
        let need: u64 = running.map(|handle| of_one(&self.sequences[handle.slot])).sum();
        let more = match page {
            1 => 0,
            _ => u64::from(page) * self.running.len() as u64,
        };
        if need > 0 {
            self.make_room(need + more);
        }
    }

    /// The same by what the configuration keeps; whether the server speculates.
    pub(super) fn reserves_verifications(&mut self) -> bool {
        let Some(reserve) = self.config.drafts.as_ref().map(|drafts| drafts.reserve) else {
            return false;
        };
        self.reserve_verifications(reserve);
        true
    }

    /// Everybody in the running batch verifies drafts in this one.
    pub(super) fn add_verifications(&mut self, batch: &mut Batch) {
        self.log_decodes();
        let Some(drafts) = &self.config.drafts else { return };
        let (page, reserve) = (self.config.page_size, drafts.reserve);
        let mut pages = 0;
        for handle in &self.running {
            let sequence = &mut self.sequences[handle.slot];
            let accepted = match &self.acceptance {
                Some(acceptance) => {
                    let (id, round) = (sequence.request.id, sequence.drafted.rounds);
                    acceptance.accepted(id, round, drafts.levels, &drafts.acceptance)
                }
                None => 0,
            };
            let before = sequence.held();
            let reach = (sequence.kv + reserve).next_multiple_of(page).max(before);
            pages += reach.div_ceil(page) - before.div_ceil(page);
            batch
                .load
                .add_verification(sequence.kv + sequence.drafted.unseen, drafts.tokens - 1);
            batch.load.sampled_rows += drafts.tokens;
            sequence.drafted.reach = reach;
            sequence.drafted.unseen += 1 + accepted;
            sequence.drafted.rounds += 1;
            sequence.in_flight += 1;
            batch.entries.push(Entry {
                accepted: Some(accepted),
                ..Entry::of_decode(sequence, false)
            });
        }
        self.take_pages(pages);
    }

    /// What a verification brings is known: its tokens are committed, and its request has those that it still wanted. How many.
    pub(super) fn commit<O: Observer>(
        &mut self,
        slot: usize,
        accepted: u32,
        now: Picos,
        observer: &mut O,
    ) -> u32 {
        let drafts = self.tokens_of_decode() - 1;
        let sequence = &mut self.sequences[slot];
        let id = sequence.request.id;
        sequence.kv += 1 + accepted;
        sequence.drafted.unseen -= 1 + accepted;
        observer.observe(&Fact::Verified {
            now,
            id,
            drafts,
            accepted,
        });
        (1 + accepted).min(sequence.target - sequence.outputs)
    }
}
