//! Speculative decoding inside the scheduler (V1-54 to V1-58, `Scheduler.update_from_output`): a decode asks for its token and for its
//! drafts, and learns how many of them stand only when the step's output is processed.
//!
//! The drafter is not here: it takes time ([`crate::cost::roofline`]) and KV slots (V1-33). How many drafts stand is drawn ([`Acceptance`]).
//! Left out: drafts whose number changes with the batch (V1-60), grammars. Law: of a share that samples comes one token at least, and at
//! most one more than its drafts.

use std::collections::BTreeMap;

use rand::RngExt;

use super::Handle;
use super::budget::Budget;
use super::replica::Replica;
use super::sequence::Phase;
use super::step::Step;
use crate::facts::{Completion, Fact, Observer, Outcome};
use crate::ids::{RequestId, SegmentId};
use crate::kv::Match;
use crate::rng::{Purpose, stream};
use crate::units::Picos;
use crate::workload::Piece;

/// How an engine speculates.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculation {
    /// Drafts that are verified beside each decoded token, K.
    pub drafts: u32,
    /// Tokens that the model runner has slots for, which the drafter shares (`max_num_batched_tokens`).
    pub runner_tokens: u32,
    /// Slots of `max_num_batched_tokens` that the drafter takes for each share beside its tokens (V1-59).
    pub slots: u32,
    /// KV slots kept behind what is scheduled, where the drafter writes (V1-33).
    pub lookahead: u32,
    /// Also for who is admitted with nothing computed; 0.11 keeps none then.
    pub looks_ahead_at_admission: bool,
    /// A sequence that is admitted with one token left to compute beside others that decode brings drafts that cannot stand,
    /// so that the batch stays uniform (V1-58).
    pub pads_admissions: bool,
    /// Accepted drafts are registered in the prefix cache when the output is processed; 0.11 waits for the next step.
    pub registers_output: bool,
    /// Drafts stay with a sequence that is preempted, until it has others (0.11).
    pub keeps_drafts: bool,
    /// Drafts are made behind every share, also behind a chunk of a prompt; 0.11's drafters with KV do that.
    pub drafts_for_chunks: bool,
    /// Also in a step that brings anybody so near the longest sequence that they would reach beyond; 0.11 makes none then.
    pub drafts_near_longest: bool,
    /// What identifies a block of the prefix cache.
    pub hashes: BlockHashes,
    /// Of the drafts at each position, which share is reached and accepted: `r_i = P(a ≥ i)`, none above the one before (SD-2).
    pub acceptance: Vec<f64>,
}

/// What identifies a block of the prefix cache where the drafter's KV lies beside the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockHashes {
    /// Its tokens and those before.
    Own,
    /// The token after it, too, on which the drafter's KV depends (`num_hash_lookahead_tokens`).
    Ahead,
    /// Its tokens and those before; the last block of a hit is computed again (V1-48).
    LastDropped,
}

/// How many drafts of a sequence stand.
#[derive(Debug)]
pub(crate) enum Acceptance {
    /// Drawn by [`Speculation::acceptance`] from a stream of its own for each request, whichever replica serves it, of the run
    /// with this seed.
    Drawn(u64),
    /// As recorded, by request.
    Told(BTreeMap<RequestId, ToldRuns>),
}

/// What is recorded of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToldRuns {
    /// Drafts that stand, for each of its shares with drafts.
    pub(crate) accepted: Vec<u32>,
    /// Drafts that are proposed, for each of its shares that samples; as many as may be where nothing is said.
    pub(crate) proposed: Option<Vec<u32>>,
}

impl Acceptance {
    /// Leading drafts, of `drafts`, that stand in the request's `round`-th verification.
    pub(super) fn accepted(&self, id: RequestId, round: u32, drafts: u32, rates: &[f64]) -> u32 {
        match self {
            Acceptance::Drawn(seed) => {
                let mut stream = stream(*seed, Purpose::Acceptance, id.0);
                stream.set_word_pos(u128::from(round) * 2);
                let uniform: f64 = stream.random();
                let stand = rates
                    .iter()
                    .take(drafts as usize)
                    .take_while(|&&rate| uniform < rate);
                stand.count() as u32
            }
            Acceptance::Told(runs) => {
                let run = runs.get(&id).and_then(|told| told.accepted.get(round as usize));
                run.map_or(0, |&run| run.min(drafts))
            }
        }
    }

    /// Drafts that are proposed behind the request's `sample`-th token, at most `most`.
    fn proposed(&self, id: RequestId, sample: u32, most: u32) -> u32 {
        match self {
            Acceptance::Drawn(_) => most,
            Acceptance::Told(runs) => match runs.get(&id).and_then(|told| told.proposed.as_ref()) {
                None => most,
                Some(proposed) => proposed
                    .get(sample as usize)
                    .map_or(0, |&drafts| drafts.min(most)),
            },
        }
    }
}

/// Names each token of a text together with the one behind it, on which a drafter's KV depends: from its second token on. The very
/// first is told by the one behind it, which goes on with its segment or else gets a name that stands for both.
pub(super) fn name_by_the_next(pieces: &mut Vec<Piece>) {
    let goes_on = |first: &Piece, next: &Piece| {
        next.segment == first.segment && next.start == first.start + first.tokens
    };
    match pieces.as_mut_slice() {
        [first, ..] if first.tokens > 1 => {
            (first.start, first.tokens) = (first.start + 1, first.tokens - 1);
        }
        [first, next, ..] if !goes_on(first, next) => {
            let mixed = first.segment.0.rotate_left(17) ^ next.segment.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (first.segment, first.start) = (SegmentId(mixed), next.start);
            (next.start, next.tokens) = (next.start + 1, next.tokens - 1);
            pieces.retain(|piece| piece.tokens > 0);
        }
        [_, _, ..] => {
            pieces.remove(0);
        }
        _ => {}
    }
}

/// What a sequence needs to remember where the engine speculates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drafting {
    /// Tokens that its blocks have room for. They are kept when drafts are rejected (V1-55).
    pub(super) reach: u32,
    /// Its first tokens whose blocks are registered, as far as they are full.
    pub(super) registered: u32,
    /// Where its last share began.
    pub(super) began: u32,
    /// Output tokens that its client has.
    pub(super) delivered: u32,
    /// Drafts that wait for its next share (V1-57); nobody looks at them where steps are scheduled ahead.
    proposed: u32,
    /// Shares with drafts of its own that it has had the output of.
    rounds: u32,
    /// Shares that sampled that it has had the output of.
    samples: u32,
}

/// A share of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verification {
    handle: Handle,
    pub(super) samples: bool,
    pub(super) drafts: u32,
    /// The drafts fill up the batch, and none can stand.
    are_padding: bool,
}

impl Replica {
    /// From now on drafts stand as `acceptance` says; where the engine does not speculate nothing asks.
    pub(crate) fn accept(&mut self, acceptance: Acceptance) {
        self.acceptance = Some(acceptance);
    }

    /// Drafts that a running sequence brings to its next step. Where steps are scheduled ahead they are not known yet, and
    /// places are kept for as many as there may be, if it sampled in its last share (V1-57).
    #[inline]
    pub(super) fn drafts_of(&self, slot: usize) -> u32 {
        let Some(speculation) = &self.config.speculation else {
            return 0;
        };
        let sequence = &self.sequences[slot];
        match self.config.queue_depth {
            1 => sequence.drafting.proposed,
            _ if sequence.sampled_last => speculation.drafts,
            _ => 0,
        }
    }

    /// The step in flight brings its last token whatever becomes of the drafts (V1-15).
    #[inline]
    pub(super) fn is_sure_to_end(&self, slot: usize) -> bool {
        let sequence = &self.sequences[slot];
        self.config.speculation.is_some()
            && self.config.switches.overrun_guard
            && sequence.sampled_last
            && sequence.last_step > self.processed_steps
            && !sequence.request.ends_by_eos()
            && sequence.drafting.delivered + 1 >= sequence.request.output_tokens
    }

    /// Tokens that the blocks of a sequence must have room for to compute up to `to` (V1-30).
    #[inline]
    pub(super) fn reach(&self, to: u32, is_fresh: bool) -> u32 {
        match &self.config.speculation {
            Some(speculation) if !is_fresh || speculation.looks_ahead_at_admission => {
                (to + speculation.lookahead).min(self.config.max_model_len)
            }
            _ => to.min(self.config.max_model_len),
        }
    }

    /// Slots of a step that a share takes beside its tokens (V1-59).
    #[inline]
    pub(super) fn draft_slots(&self) -> u32 {
        self.config
            .speculation
            .as_ref()
            .map_or(0, |speculation| speculation.slots)
    }

    /// The identity of a sequence's tokens is that of the blocks of its drafter, too.
    #[inline]
    pub(super) fn identify_ahead(&mut self, slot: usize) {
        if self.tokens_ahead() == 0 {
            return;
        }
        name_by_the_next(&mut self.sequences[slot].pieces);
    }

    /// Known tokens behind a block that it takes to identify it.
    #[inline]
    fn tokens_ahead(&self) -> u32 {
        let speculation = self.config.speculation.as_ref();
        u32::from(speculation.is_some_and(|speculation| speculation.hashes == BlockHashes::Ahead))
    }

    /// A prefix hit without its last block, where the drafter's part of that would be of another text (V1-48).
    #[inline]
    pub(super) fn without_last(&self, found: Match, pieces: &[Piece]) -> Match {
        match &self.config.speculation {
            Some(speculation) if speculation.hashes == BlockHashes::LastDropped && found.blocks > 0 => {
                let blocks = found.blocks - 1;
                self.pool.look_up(pieces, blocks * self.config.block_size + 1)
            }
            _ => found,
        }
    }

    /// Tokens that the blocks of a sequence must have room for at most, whose last is computed at `longest`: with the drafts of
    /// the steps that are scheduled ahead.
    pub(super) fn furthest_reach(&self, longest: u32) -> u32 {
        match &self.config.speculation {
            None => longest,
            Some(speculation) => self.reach(longest + self.config.queue_depth * speculation.drafts, false),
        }
    }

    /// Blocks that a running sequence takes for its next `tokens` tokens.
    #[inline]
    pub(super) fn blocks_for_share(&self, slot: usize, computed: u32, tokens: u32) -> u32 {
        if self.config.speculation.is_none() {
            return self.pool.blocks_between(computed, computed + tokens);
        }
        let reach = self.sequences[slot].drafting.reach;
        let wanted = self.reach(computed + tokens, false).max(reach);
        self.pool.blocks_between(reach, wanted)
    }

    /// A running sequence has the blocks for its next `tokens` tokens.
    #[inline]
    pub(super) fn extend_reach(&mut self, slot: usize, tokens: u32) {
        if self.config.speculation.is_some() {
            let reach = self.reach(self.sequences[slot].computed + tokens, false);
            let drafting = &mut self.sequences[slot].drafting;
            drafting.reach = drafting.reach.max(reach);
        }
    }

    /// A sequence admitted with `missing` tokens to compute is given drafts that cannot stand; how many tokens that makes.
    pub(super) fn padded_admission(&self, computed: u32, missing: u32, budget: &Budget) -> Option<u32> {
        let speculation = self.config.speculation.as_ref()?;
        let is_padded = speculation.pads_admissions
            && missing == 1
            && !budget.runs_prefill
            && (budget.picked_anybody || computed > 0)
            && computed + speculation.drafts + 2 <= self.config.max_model_len;
        is_padded.then_some(1 + speculation.drafts)
    }

    /// The blocks of a share are taken: what of them is full and known is registered (V1-43).
    pub(super) fn register_drafted(&mut self, slot: usize, to: u32) {
        let sequence = &self.sequences[slot];
        let known = sequence.request.prompt_tokens + sequence.drafting.delivered;
        self.register_known(slot, to.min(known - self.tokens_ahead()));
    }

    fn register_known(&mut self, slot: usize, tokens: u32) {
        let sequence = &mut self.sequences[slot];
        let drafting = &mut sequence.drafting;
        drafting.registered = drafting.registered.max(tokens);
        self.pool.register(
            &mut sequence.held,
            &sequence.pieces,
            drafting.registered,
            drafting.reach,
        );
    }

    /// Gives a sequence `tokens` tokens of the step, as [`Replica::share_out`] does where nothing is drafted.
    pub(super) fn share_out_drafted(&mut self, slot: usize, tokens: u32, step: &mut Step) {
        let sequence = &self.sequences[slot];
        let (before, missing) = (sequence.computed, sequence.missing_tokens());
        let drafts = tokens.saturating_sub(missing);
        // Drafts that nobody proposed.
        let are_padding = drafts > 0 && self.drafts_of(slot) == 0;
        if drafts > 0 && missing == 1 {
            step.load.add_verification(before, drafts);
        } else {
            step.load.add(before, tokens);
        }
        self.register_drafted(slot, before + tokens);
        let sequence = &mut self.sequences[slot];
        sequence.drafting.began = before;
        sequence.computed += tokens;
        (sequence.last_share, sequence.last_step) = (tokens, step.number);
        sequence.sampled_last = tokens >= missing;
        step.recomputed_tokens += sequence.story.recomputed(before, sequence.computed);
        step.furthest = step.furthest.max(sequence.computed);
        if sequence.sampled_last {
            sequence.sampled += 1 + drafts;
            step.load.sampled_rows += 1 + drafts;
        }
        step.verified.push(Verification {
            handle: sequence.handle,
            samples: sequence.sampled_last,
            drafts,
            are_padding,
        });
    }

    /// A running sequence is preempted: whatever is in flight of it still reaches its client and counts for nothing else (V1-28).
    /// Tokens that its blocks had room for, and how many were registered.
    pub(super) fn drop_drafts(&mut self, slot: usize) -> (u32, u32) {
        let speculation = self.config.speculation.as_ref();
        let drops = speculation.is_some_and(|speculation| !speculation.keeps_drafts);
        let sequence = &mut self.sequences[slot];
        sequence.sampled = sequence.drafting.delivered;
        if drops {
            sequence.drafting.proposed = 0;
        }
        let reach = std::mem::take(&mut sequence.drafting.reach);
        (reach, std::mem::take(&mut sequence.drafting.registered))
    }

    /// The output of a step reaches its requests in the order in which they were scheduled; whoever has its last token leaves at
    /// once (V1-37).
    pub(super) fn deliver_verified<O: Observer>(
        &mut self,
        step: &Step,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        for &verification in &step.verified {
            if self.sequences.get(verification.handle).is_none() {
                continue;
            }
            let slot = verification.handle.slot;
            if verification.samples {
                self.deliver_tokens(verification, now, observer);
            }
            self.propose(verification, step.furthest);
            let sequence = &self.sequences[slot];
            if sequence.drafting.delivered == sequence.output_tokens {
                ended.push(self.finish(slot, now, Outcome::Completed));
            }
        }
    }

    /// The drafter has made drafts for a sequence's next share. A version that drafts for every row of a step does so behind a
    /// chunk of a prompt, too; and makes none, leaving what there was, in a step that brings anybody too near the longest sequence.
    fn propose(&mut self, of: Verification, furthest: u32) {
        let Some(speculation) = &self.config.speculation else {
            return;
        };
        if speculation.drafts_near_longest || furthest + speculation.drafts <= self.config.max_model_len {
            let sequence = &mut self.sequences[of.handle.slot];
            let sample = sequence.drafting.samples.saturating_sub(1);
            sequence.drafting.proposed = match &self.acceptance {
                Some(acceptance) if of.samples => {
                    acceptance.proposed(sequence.request.id, sample, speculation.drafts)
                }
                _ if of.samples || speculation.drafts_for_chunks => speculation.drafts,
                _ => 0,
            };
        } else if of.drafts > 0 {
            self.sequences[of.handle.slot].drafting.proposed = of.drafts;
        }
    }

    /// One sequence gets its token and the drafts that stand before it. What was rejected is taken off again: `computed` counts drafts
    /// from when they are scheduled, and `sampled` as placeholders likewise (V1-55).
    fn deliver_tokens<O: Observer>(&mut self, of: Verification, now: Picos, observer: &mut O) {
        let Verification {
            handle,
            drafts,
            are_padding,
            ..
        } = of;
        let Some(speculation) = &self.config.speculation else {
            return;
        };
        let registers = speculation.registers_output;
        let sequence = &mut self.sequences[handle.slot];
        let id = sequence.request.id;
        let accepted = match &self.acceptance {
            Some(acceptance) if drafts > 0 && !are_padding => {
                let round = sequence.drafting.rounds;
                sequence.drafting.rounds += 1;
                acceptance.accepted(id, round, drafts, &speculation.acceptance)
            }
            _ => 0,
        };
        let tokens = (1 + accepted).min(sequence.output_tokens - sequence.drafting.delivered);
        sequence.drafting.delivered += tokens;
        sequence.drafting.samples += 1;
        let runs = sequence.phase == Phase::Single;
        if runs {
            // What is cut off at the end has never been computed, either.
            sequence.computed -= drafts - accepted + (1 + accepted - tokens);
            sequence.sampled -= drafts - accepted;
        } else {
            sequence.sampled += tokens;
        }
        if let Some(fact) = sequence.story.have_token(&sequence.request, self.id, now, None) {
            observer.observe(&fact);
        }
        if tokens > 1 {
            let behind = tokens - 1;
            observer.observe(&Fact::Burst {
                now,
                id,
                tokens: behind,
            });
        }
        if drafts > 0 {
            observer.observe(&Fact::Verified {
                now,
                id,
                drafts,
                accepted,
            });
        }
        if runs && registers {
            let sequence = &self.sequences[handle.slot];
            let is_in_flight = sequence.last_step > self.processed_steps;
            let settled = sequence.computed - u32::from(is_in_flight) * sequence.last_share;
            let known = sequence.request.prompt_tokens + sequence.drafting.delivered;
            self.register_known(handle.slot, settled.min(known - self.tokens_ahead()));
        }
    }
}
