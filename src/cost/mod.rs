//! How long a step takes. The only place that turns work into time.
//!
//! The engine describes a step by the moments of its batch ([`StepLoad`]); a [`StepCost`] answers with integer
//! picoseconds. A decode-only step is affine in KV tokens for a fixed batch ([`DecodeCost`]), which is what lets
//! the simulator leap over a run of them.

pub mod bounds;
pub mod calibration;
#[cfg(test)]
mod cards;
pub mod constant;
pub mod discrepancy;
pub mod experts;
pub mod jitter;
pub mod kernel;
#[cfg(test)]
mod latency_table;
pub mod linear;
#[cfg(test)]
mod measured_steps;
pub(crate) mod operators;
#[cfg(test)]
mod published_kernels;
pub(crate) mod recurrence;
pub mod roofline;
#[cfg(test)]
mod testing;
pub mod uncertainty;

use crate::units::Picos;

/// What a step computes, summed over its sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepLoad {
    /// Sequences that bring exactly one token and attend to their cache (a one-token prefill is one too, V1-78).
    pub decode_seqs: u32,
    /// Σ over those of the tokens attended to, their own included (`computed + 1`).
    pub decode_kv_tokens: u64,
    /// The largest of these contexts.
    pub decode_longest: u32,
    /// Of those tokens what sparse attention does not read: `Σ max(context − k, 0)`, where it reads `k` at most; 0 elsewhere.
    pub decode_beyond: u64,
    /// Sequences whose next step has one such token more: those of contexts of `k` and longer.
    pub seqs_beyond: u32,
    /// Chunks of more than one token: prompts, or recomputation after a preemption.
    pub chunks: Vec<Chunk>,
    /// Rows for which a token is sampled.
    pub sampled_rows: u32,
    /// Draft tokens that decoding sequences bring to be verified beside their own (V1-54).
    pub drafts: u32,
    /// Twice the (query, key) pairs of a sequence with drafts, less what [`StepLoad::decode_kv_tokens`] counts of it.
    pub draft_pairs_doubled: u64,
}

/// A run of new tokens of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Tokens whose KV exists before the step (computed or cached), `c`.
    pub computed: u32,
    /// Tokens computed in the step, `q`.
    pub new: u32,
}

impl Chunk {
    /// Tokens that its last query attends to.
    #[inline]
    #[must_use]
    pub fn context(&self) -> u32 {
        self.computed + self.new
    }

    /// Twice its (query, key) pairs, `q·(2c + q + 1)`: each query attends to what was computed, itself and those before it.
    #[inline]
    #[must_use]
    pub fn pairs_doubled(&self) -> u64 {
        let (c, q) = (u64::from(self.computed), u64::from(self.new));
        q * (2 * c + q + 1)
    }
}

impl StepLoad {
    /// Empties it for another step; the buffer keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.chunks.clear();
        (self.decode_seqs, self.sampled_rows) = (0, 0);
        (self.decode_kv_tokens, self.decode_longest) = (0, 0);
        (self.decode_beyond, self.seqs_beyond) = (0, 0);
        (self.drafts, self.draft_pairs_doubled) = (0, 0);
    }

    /// `batch` sequences that decode with contexts of so many tokens.
    #[must_use]
    pub fn of_decodes(batch: u32, context: u32) -> StepLoad {
        StepLoad {
            decode_seqs: batch,
            decode_kv_tokens: u64::from(batch) * u64::from(context),
            decode_longest: context,
            sampled_rows: batch,
            ..StepLoad::default()
        }
    }

    /// A prompt of so many tokens of which none are cached, and which nobody samples of.
    pub(crate) fn of_prompt(tokens: u32) -> StepLoad {
        StepLoad {
            chunks: vec![Chunk {
                computed: 0,
                new: tokens,
            }],
            ..StepLoad::default()
        }
    }

    /// Its contexts alone.
    #[must_use]
    pub(crate) fn contexts(&self) -> StepLoad {
        StepLoad {
            chunks: Vec::new(),
            ..*self
        }
    }

    /// Counts what sparse attention leaves unread where it reads no more than `most` tokens of a context, all contexts being alike.
    #[must_use]
    pub fn reading(mut self, most: Option<u32>) -> StepLoad {
        let mean = self
            .decode_kv_tokens
            .checked_div(self.decode_seqs.into())
            .unwrap_or(0);
        if let Some(beyond) = most.and_then(|most| mean.checked_sub(most.into())) {
            self.decode_beyond = beyond * u64::from(self.decode_seqs);
            self.seqs_beyond = self.decode_seqs;
        }
        self
    }

    /// A sequence with the KV of `computed` tokens computes its next `new`.
    #[inline]
    pub fn add(&mut self, computed: u32, new: u32) {
        if new == 1 {
            self.decode_seqs += 1;
            self.decode_kv_tokens += u64::from(computed + 1);
            self.decode_longest = self.decode_longest.max(computed + 1);
        } else {
            self.chunks.push(Chunk { computed, new });
        }
    }

    /// The same where sparse attention reads no more than `most` tokens of a context, if there is such a bound.
    #[inline]
    pub fn add_within(&mut self, computed: u32, new: u32, most: Option<u32>) {
        self.add(computed, new);
        if let Some(beyond) = most
            .filter(|_| new == 1)
            .and_then(|most| (computed + 1).checked_sub(most))
        {
            self.decode_beyond += u64::from(beyond);
            self.seqs_beyond += 1;
        }
    }

    /// A decoding sequence with the KV of `computed` tokens computes its next one and verifies `drafts` behind it: its cache is
    /// read once, for all of their queries.
    pub fn add_verification(&mut self, computed: u32, drafts: u32) {
        let share = Chunk {
            computed,
            new: drafts + 1,
        };
        let read = u64::from(share.context());
        self.decode_seqs += 1;
        self.decode_kv_tokens += read;
        self.decode_longest = self.decode_longest.max(share.context());
        self.drafts += drafts;
        self.draft_pairs_doubled += share.pairs_doubled() - 2 * read;
    }

    /// Everybody decodes: one token each, and samples the next.
    #[inline]
    #[must_use]
    pub fn only_decodes(&self) -> bool {
        self.chunks.is_empty() && self.sampled_rows == self.decode_seqs && self.drafts == 0
    }

    /// Tokens of the step, `T`, before any padding.
    #[inline]
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let chunks: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.new)).sum();
        u64::from(self.decode_seqs) + u64::from(self.drafts) + chunks
    }

    /// Twice the number of (query, key) pairs: `Σ q·(2c + q + 1)`, an integer.
    #[must_use]
    pub fn attended_pairs_doubled(&self) -> u64 {
        let of_chunks: u64 = self.chunks.iter().map(Chunk::pairs_doubled).sum();
        2 * self.decode_kv_tokens + self.draft_pairs_doubled + of_chunks
    }
}

/// Duration of a decode-only step as a function of its KV tokens, for a fixed batch size:
/// `max(base + max(per_kv_token·decode_kv_tokens − per_token_beyond·decode_beyond + per_longest_token·decode_longest, kv_floor), floor)`.
///
/// Integer coefficients, so that a leap over `n` steps and `n` single steps end at the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeCost {
    /// Everything that does not depend on the contexts.
    pub base: Picos,
    /// For each KV token read by the batch.
    pub per_kv_token: Picos,
    /// What it takes less for each token that sparse attention does not read; no more than [`DecodeCost::per_kv_token`].
    pub per_token_beyond: Picos,
    /// For each token of the longest context.
    pub per_longest_token: Picos,
    /// What reading the contexts takes at least: kernels have a least time for each sequence, however short.
    pub kv_floor: Picos,
    /// Host-bound lower limit (asynchronous scheduling hides the host behind the GPU, or not).
    pub floor: Picos,
}

impl DecodeCost {
    /// The duration at given contexts, all tokens of which are read.
    #[must_use]
    pub fn at(&self, kv_tokens: u64, longest: u32) -> Picos {
        let gpu = self.base + self.per_kv_token * kv_tokens + self.per_longest_token * u64::from(longest);
        gpu.max(self.least())
    }

    /// The duration at a load's contexts.
    #[inline]
    #[must_use]
    pub fn of(&self, load: &StepLoad) -> Picos {
        self.gpu(load).max(self.least())
    }

    /// The same without what bounds it from below.
    #[inline]
    #[must_use]
    pub fn gpu(&self, load: &StepLoad) -> Picos {
        let read = self.per_kv_token * load.decode_kv_tokens
            + self.per_longest_token * u64::from(load.decode_longest);
        self.base + read - self.per_token_beyond * load.decode_beyond
    }

    /// What each step of a run takes longer than the one before, bounds aside, beginning with one of `load`.
    #[inline]
    #[must_use]
    pub fn growth(&self, load: &StepLoad) -> Picos {
        let read = self.per_kv_token * u64::from(load.decode_seqs) + self.per_longest_token;
        read - self.per_token_beyond * u64::from(load.seqs_beyond)
    }

    /// The duration with contexts so short that they do not count.
    #[inline]
    #[must_use]
    pub fn least(&self) -> Picos {
        (self.base + self.kv_floor).max(self.floor)
    }
}

/// Answers how long a step takes. Implementations may tabulate (`&mut self`), but equal loads cost equal times.
///
/// Law: for a load without chunks, `step(load) == decode(load.decode_seqs).of(load)` as long as every decoding sequence samples, to the
/// last digit.
pub trait StepCost: Send {
    /// The cost of decode-only steps of `batch` sequences, each of which samples a token.
    fn decode(&mut self, batch: u32) -> DecodeCost;

    /// The duration of any step.
    fn step(&mut self, load: &StepLoad) -> Picos;

    /// The same as a law of the contexts, for whoever adds to the GPU's part of it: `step_law(load)` at the load's contexts
    /// is `step(load)`. A cost without a floor need not tell the two apart.
    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        DecodeCost {
            base: self.step(load),
            per_kv_token: Picos::ZERO,
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos::ZERO,
        }
    }

    /// Tokens of a context that attention reads at most, where it is sparse. An engine then counts in its loads what is
    /// [beyond](StepLoad::decode_beyond).
    fn reads_at_most(&self) -> Option<u32> {
        None
    }

    /// The captured batch that a step of `batch` decodes replays as a CUDA graph, and computes therefore; `None` if it
    /// replays none, as with every cost that knows of no graphs. Ranks in lock-step have to agree on it.
    fn replayed(&self, _batch: u32) -> Option<u32> {
        None
    }

    /// The tokens that a step of `tokens` with prompts among them computes because it replays the pieces of a CUDA graph that were
    /// captured for so many; `None` if it replays none.
    fn replayed_pieces(&self, _tokens: u64) -> Option<u64> {
        None
    }

    /// As [`StepCost::step_law`], of a step that replays the pieces captured for `tokens`, no fewer than the load has.
    fn pieces_law(&mut self, load: &StepLoad, _tokens: u64) -> DecodeCost {
        self.step_law(load)
    }

    /// As [`StepCost::step_law`], of a step that replays no CUDA graph although it might, and of one of no tokens, which is
    /// nothing but its launches. Ranks in lock-step replay none where one of them has prompts.
    fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        match load.tokens() {
            0 => DecodeCost::default(),
            _ => self.step_law(load),
        }
    }

    /// What a step takes stage by stage, where the model's layers are spread over the stages of a pipeline.
    fn stages(&mut self) -> Option<&mut dyn StageCosts> {
        None
    }

    /// Where the time of a step goes, for explanation; never called by the simulation. Ranks that share experts all compute the same.
    fn breakdown(&self, load: &StepLoad) -> Breakdown;

    /// The same where the other ranks that share experts compute so many tokens together.
    fn breakdown_beside(&self, load: &StepLoad, _others: u64) -> Breakdown {
        self.breakdown(load)
    }
}

/// Answers how long a step takes on each stage of a pipeline. Equal loads cost equal times.
pub trait StageCosts {
    /// How many stages there are, two at least.
    fn count(&self) -> usize;

    /// From the decision of a step until the first stage can begin with it: one step's after the other's, while stages compute.
    fn preparation(&mut self, load: &StepLoad) -> Picos;

    /// How long the stage `at`, from 0, is busy with a step.
    fn stage(&mut self, at: usize, load: &StepLoad) -> Picos;

    /// From the end of a step on the stage `from` until the next stage has what it needs of it.
    fn transfer(&mut self, from: usize, load: &StepLoad) -> Picos;
}

/// Answers how long what all ranks share takes in a step: the experts, and moving tokens to them and back; logits, where ranks
/// share the LM head, too.
///
/// Law: more tokens or rows never take less.
pub trait SharedCost: Send {
    /// The time for the tokens of all ranks together.
    fn all_tokens(&mut self, tokens: u64, moved: Moved) -> Picos;

    /// The time for the logits of so many rows of all ranks; nothing where each computes its own.
    fn all_rows(&mut self, rows: u64) -> Picos;
}

/// How tokens come to the experts of other ranks and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// An all-gather and a reduce-scatter: all ranks have equally many rows.
    Scattered,
    /// Two all-reduces: rows are as many as each rank has.
    Summed,
}

/// A step's time and work by operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// One entry an operator, in the order of execution.
    pub parts: Vec<Part>,
}

/// One operator's share of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// `qkv_proj`, `decode_attention`, `lm_head`, `host` …
    pub operator: String,
    /// Time in seconds, all layers together.
    pub seconds: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes moved to and from device memory.
    pub bytes: f64,
    /// How well its parameters are known.
    pub trust: Trust,
}

/// How well a number is known. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Measured on this very machine.
    Measured,
    /// Fitted to published measurements of this GPU.
    Calibrated,
    /// Parameters of a similar GPU.
    Prior,
    /// Datasheet ceilings only.
    RooflineOnly,
    /// Fitted to measurements that the fit does not meet, or that cannot be.
    Doubtful,
}
