//! Speculative decoding, as vLLM's schedulers do it.
//!
//! Names in brackets are vLLM's. K is `num_speculative_tokens`; `known`, `computed` and `placeholders` are a sequence's
//! (`num_tokens`, `num_computed_tokens`, `num_output_placeholders`).
//!
//! What is alike everywhere
//!
//! * **D-1** The share of a running sequence is `known + drafts + placeholders - computed`, cut in this order to the long-prefill threshold, to the
//!   token budget, to the input budget less the drafter's slots, and to `max_model_len - 1 - computed` (`schedule`). Nothing tells a draft from
//!   a token here: the threshold and the budget cut drafts. What of it lies beyond `known + placeholders` are drafts
//!   (`scheduled_spec_decode_tokens`); a share that ends before has none.
//! * **D-2** Scheduling adds the whole share to `computed` (`_update_after_schedule`). The result takes the rejected drafts off again
//!   (`update_from_output`), before its tokens are appended. In 0.33 `computed` also loses tokens cut off at the end.
//! * **D-3** A share with `k` drafts yields `1 + a` tokens, `a <= k`. They are appended one by one and the first that ends the sequence, by
//!   `max_tokens` or `max_model_len`, is the last (`_update_request_with_output`).
//! * **D-4** Blocks are asked for `min(computed + share + lookahead, max_model_len)` tokens and never given back for a rejected draft
//!   (`allocate_slots`). The lookahead is K for EAGLE, MTP and a draft model, 0 for n-grams. It counts for running sequences, and
//!   in 0.33 at admission; not in the test whether a whole sequence fits (`scheduler_reserve_full_isl`).
//! * **D-5** At scheduling, blocks are registered up to `min(computed + share, known)`: no draft, no placeholder.
//! * **D-6** Preemption and finishing are as without drafts. Every draft counts for the budget of its step.
//!
//! 0.33, both loops
//!
//! * **D-7** A draft model needs a slot of the input budget (`max_num_batched_tokens`) for each share (`max_num_new_slots_for_drafting`): a share
//!   takes its tokens and one more, is cut to what is left less one, and where no more than that one is left nobody is
//!   looked at any more, running or waiting. EAGLE, MTP and n-grams need none. The token budget is charged tokens only.
//! * **D-8** Whoever is admitted with one token left is padded to `1 + K` with invalid drafts, so that the batch stays uniform: if no running
//!   sequence served in this step was in prefill, and one was served or the request itself has computed tokens, and
//!   `computed + 1 + K + 1 <= max_model_len`. If `1 + K` is above what is left of a budget, admission stops. Padding comes back all rejected.
//!   Others admitted in the step do not matter. The threshold is applied after; below `1 + K` the engine fails.
//! * **D-9** A sequence's drafts are taken when it is scheduled, and dropped by preemption. Whose last share ended before
//!   `known + placeholders` (`is_prefill_chunk`) gets none. Whoever was not scheduled keeps those he has.
//! * **D-10** Every result with tokens registers blocks up to `computed` less what is in flight, in the synchronous loop, too, after the tokens have been appended
//!   and before the end is acted on. Not of a sequence that was preempted meanwhile.
//! * **D-11** EAGLE and MTP with prefix caching: a block is named by its tokens and the one behind it (`num_hash_lookahead_tokens`), so it has no
//!   name before that token is known, and is found by whoever has the same token there. Nothing is dropped. With
//!   `disable_lookahead_block_hashes` names are the usual ones and a look-up gives its last block up, whatever its length, even where the last
//!   token has been left out already; with `disable_eagle_block_drop` it does not. N-grams and a draft model do neither.
//! * **D-12** The V2 model runner, which is the default, drafts K tokens for every row at any length, n-grams included: where nothing matches it repeats
//!   the last token. Only the V1 runner's n-grams vary in number, and these switch the asynchronous loop off.
//!
//! 0.33, asynchronous loop
//!
//! * **D-13** A share that samples adds one and its drafts to `placeholders`, and its sequence has K drafts at once (`AsyncScheduler`), so a decode
//!   asks for `1 + K` each time. The result takes off the rejected drafts and all tokens, those cut off, too: what the share had added.
//! * **D-14** `computed` counts drafts in flight as if they were accepted. So near `max_model_len` shares are short or nobody's turn
//!   though many drafts will be rejected, and blocks are taken for positions that may never be used.
//! * **D-15** The guard: nobody is scheduled while `placeholders > 0` and `computed + 2 - placeholders >= prompt + max_tokens`, which says that one
//!   token from every share in flight is enough. Drafts in flight do not count, so a sequence that ends by accepted drafts has mostly one step too many
//!   in flight, whose result is dropped; it holds its seat until the earlier result, and its blocks are free from then on.
//! * **D-16** What is in flight of a preempted sequence is delivered, `1 + a` tokens, cut at its end, without touching `computed`, `placeholders` or blocks. It
//!   may end the sequence in the queue. Before all of it is in, the sequence is not admitted.
//!
//! 0.11, which has no asynchronous drafts and no draft model
//!
//! * **D-17** Lookahead is 0 at admission (`effective_lookahead_tokens`), unless the sequence counts tokens as computed (V1-26).
//! * **D-18** Drafts stay with a sequence until they are replaced: scheduling cuts them to the share's, preemption leaves them (the share
//!   of an admission has none in any case).
//! * **D-19** EAGLE's drafter drafts for every row of the step, and nothing drops what it made after a chunk of a prompt. So the last chunk of a prompt
//!   carries up to K drafts, as the budget lets it. N-grams are looked up where there is a new token; elsewhere the drafts become none.
//! * **D-20** After a step in which any request's tokens (`computed` before and share) and K together are above `max_model_len`, nothing is proposed for anybody, and
//!   everybody keeps the drafts he has (`input_fits_in_drafter`).
//! * **D-21** Results register no blocks; an EAGLE look-up gives its last block up. There is no padding.
//!
//! Full CUDA graphs of decodes, which change no schedule and are not modelled here
//!
//! * **D-22** 0.33: every share has `1 + K` tokens, and nobody is in prefill but with one token behind computed ones (padding not counted). A batch of
//!   single tokens is not uniform where K > 0. Sizes are the capture sizes rounded up to multiples of `1 + K`. Some attention backends take
//!   shares of 1 to `1 + K` in one graph.
//! * **D-23** 0.11: the longest share has `1 + K` tokens and all have as many, be they prompts. Sizes are the capture sizes from `1 + K` to
//!   `max_num_seqs * (1 + K)`.

use super::TwinConfig;
use super::scheduler::{Index, Scheduler, Share};
use super::sequence::{Sequence, Status};

/// What makes the drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwinDrafter {
    /// EAGLE, MTP: a few layers on top of the model, with KV of their own.
    Eagle,
    /// A small model.
    DraftModel,
    /// What followed when the last tokens stood in the text before.
    NGram,
}

/// What becomes of the last block of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwinLastBlock {
    /// It is shared like any other.
    Kept,
    /// It is given up.
    Dropped,
    /// It is shared by those who have the same token behind it.
    NamedWithNext,
}

/// Speculative decoding.
#[derive(Debug, Clone)]
pub(crate) struct TwinDrafts {
    /// What makes the drafts.
    pub(crate) drafter: TwinDrafter,
    /// Most drafts of one sequence in a step, K.
    pub(crate) most: u32,
    /// What prefix look-up does with a hit's last block.
    pub(crate) last_block: TwinLastBlock,
    /// The rules of 0.11 in place of those of 0.33.
    pub(crate) is_v11: bool,
}

impl TwinDrafts {
    /// D-4.
    pub(super) fn lookahead(&self, is_admission: bool) -> u32 {
        match self.drafter {
            TwinDrafter::NGram => 0,
            _ if is_admission && self.is_v11 => 0, // D-17
            TwinDrafter::Eagle | TwinDrafter::DraftModel => self.most,
        }
    }

    /// D-7.
    pub(super) fn input_slots(&self) -> u32 {
        u32::from(self.drafter == TwinDrafter::DraftModel)
    }
}

impl TwinConfig {
    /// Slots of the input budget for the drafter, for each share.
    pub(super) fn draft_slots(&self) -> u32 {
        self.drafts.as_ref().map_or(0, TwinDrafts::input_slots)
    }

    /// What prefix look-up does with a hit's last block.
    pub(super) fn last_block(&self) -> TwinLastBlock {
        self.drafts
            .as_ref()
            .map_or(TwinLastBlock::Kept, |drafts| drafts.last_block)
    }

    fn is_v33_with_drafts(&self) -> bool {
        self.drafts.as_ref().is_some_and(|drafts| !drafts.is_v11)
    }

    /// D-10, and V1-44 without drafts.
    pub(super) fn outputs_register(&self) -> bool {
        self.is_async() || self.is_v33_with_drafts()
    }

    /// D-8: the length to which an admission with one token left is padded, if it is.
    pub(super) fn padded(&self, computed: u32, serves_running: bool, serves_prefill: bool) -> Option<u32> {
        let padded = 1 + self.drafts.as_ref().filter(|drafts| !drafts.is_v11)?.most;
        let joins = !serves_prefill && (serves_running || computed > 0);
        let has_room = computed + padded < self.max_model_len;
        (joins && has_room).then_some(padded)
    }
}

impl Sequence {
    /// D-1: how many drafts lie in a share, taken from the sequence.
    pub(super) fn take_drafts(&mut self, n: u32, config: &TwinConfig) -> u32 {
        let beyond = (self.computed + n).saturating_sub(self.known() + self.placeholders);
        let taken = beyond.min(self.drafts);
        if config.is_v33_with_drafts() {
            self.drafts = 0; // D-9
        } else if taken > 0 {
            self.drafts = taken; // D-18
        }
        taken
    }

    /// D-9, D-18: what preemption does to drafts.
    pub(super) fn drop_drafts(&mut self, config: &TwinConfig) {
        if config.is_v33_with_drafts() {
            self.drafts = 0;
        }
    }

    /// D-3: how many tokens come of a share that samples, with so many drafts proposed for it.
    pub(super) fn verify(&mut self, drafts: u32) -> u32 {
        if drafts == 0 {
            return 1;
        }
        let accepted = self.request.accepted.get(self.verified).copied().unwrap_or(0);
        self.verified += 1;
        1 + accepted.min(drafts)
    }

    /// How many drafts are proposed after a share.
    fn proposal(&mut self, samples: bool, drafts: &TwinDrafts) -> u32 {
        let varies = self.request.proposed.is_some();
        if drafts.drafter != TwinDrafter::NGram || (!drafts.is_v11 && !varies) {
            return drafts.most; // D-12, D-19
        }
        if !samples {
            return 0;
        }
        let Some(proposed) = &self.request.proposed else {
            return drafts.most;
        };
        let proposal = proposed.get(self.proposals).copied().unwrap_or(0);
        self.proposals += 1;
        proposal.min(drafts.most)
    }
}

impl Scheduler {
    /// The synchronous loop fetches drafts after each step (`post_step`, `update_draft_token_ids`).
    pub(super) fn propose(&mut self, shares: &[Share]) {
        let Some(drafts) = self.config.drafts.clone() else {
            return;
        };
        let furthest = shares.iter().map(|share| share.computed + share.n).max();
        let fits = furthest.is_some_and(|furthest| furthest + drafts.most <= self.config.max_model_len);
        for share in shares {
            let sequence = &mut self.sequences[share.sequence];
            let proposal = sequence.proposal(share.samples, &drafts);
            if matches!(sequence.status, Status::Finished | Status::Aborted) {
                continue;
            }
            if drafts.is_v11 {
                if fits {
                    sequence.drafts = proposal; // D-20
                }
            } else if sequence.is_mid_prefill {
                sequence.drafts = 0; // D-9
            } else {
                sequence.drafts = proposal;
            }
        }
    }

    /// D-2: takes what was rejected off again.
    pub(super) fn roll_back(&mut self, index: Index, rejected: u32) {
        let sequence = &mut self.sequences[index];
        sequence.computed -= rejected;
        if sequence.placeholders > 0 {
            sequence.placeholders -= rejected; // D-13
        }
    }
}
