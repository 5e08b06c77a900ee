//! What the scheduler remembers about one request (V1-1).

use super::pool::{BlockId, Prefix, PrefixNames, Token};
use super::{TwinConfig, TwinLastBlock, TwinRequest};

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not yet drained from the input queue.
    Unseen,
    /// In `waiting`, never admitted.
    Waiting,
    /// Outside both queues: its KV is loaded, or has come and it is not admitted yet.
    Loading,
    /// In `running`.
    Running,
    /// In `waiting` again after a preemption.
    Preempted,
    /// Has all its tokens.
    Finished,
    /// Given up by its user.
    Aborted,
}

/// One request inside the engine.
#[derive(Debug)]
pub(super) struct Sequence {
    /// What was asked.
    pub(super) request: TwinRequest,
    /// Where it stands.
    pub(super) status: Status,
    /// Known tokens: the prompt, then the outputs appended so far.
    pub(super) tokens: Vec<Token>,
    /// Length of the prompt.
    pub(super) prompt_len: u32,
    /// Names of the full blocks of `tokens`, each standing for everything up to its end (V1-42).
    pub(super) prefixes: Vec<Prefix>,
    /// Tokens whose KV exists or is already scheduled (`num_computed_tokens`).
    pub(super) computed: u32,
    /// Computed tokens before its last step.
    pub(super) begun: u32,
    /// Outputs in flight, not known yet, as many as can be; always 0 in the synchronous loop (V1-14).
    pub(super) placeholders: u32,
    /// Outputs in flight from before the last preemption (V1-28).
    pub(super) stale_outputs: u32,
    /// Drafts to be verified in its next share.
    pub(super) drafts: u32,
    /// Entries used of what was accepted and of what was proposed.
    pub(super) verified: usize,
    pub(super) proposals: usize,
    /// Whether its last scheduled step stopped short of the end of what is known.
    pub(super) is_mid_prefill: bool,
    /// Tokens scheduled in steps that have not been processed, since it was admitted last.
    pub(super) in_flight: u32,
    /// Tokens scheduled in all steps that have not been processed.
    pub(super) unprocessed: u32,
    /// In a pipeline: the first call of `schedule()` that may serve it; what was known of it at its admission; and that it was passed
    /// over while it waited.
    pub(super) turn: usize,
    pub(super) whole: u32,
    pub(super) is_deferred: bool,
    /// Physical blocks held of the first group of layers, in order; the null block where a window has passed.
    pub(super) blocks: Vec<BlockId>,
    /// Those of the other groups.
    pub(super) further: Vec<Vec<BlockId>>,
    /// Blocks of recurrent layers, one a group.
    pub(super) states: Vec<BlockId>,
    /// How many of `blocks`, from the first, are registered in the prefix cache.
    pub(super) registered: usize,
    /// Prefix-cached tokens at the first admission.
    pub(super) cached_tokens: Option<u32>,
    /// Prefix-cached tokens at the last look-up.
    pub(super) local: u32,
    /// While it is `Loading`: its KV has come; and it was passed over in this call of `schedule()`.
    pub(super) is_loaded: bool,
    pub(super) is_aside: bool,
    /// When each output token became known.
    pub(super) token_times_ps: Vec<u64>,
    /// How often it was preempted.
    pub(super) preemptions: u32,
}

impl Sequence {
    /// Writes out the prompt token by token.
    pub(super) fn new(request: &TwinRequest, config: &TwinConfig, names: &mut PrefixNames) -> Self {
        let mut sequence = Self {
            request: request.clone(),
            status: Status::Unseen,
            tokens: Vec::new(),
            prompt_len: request.prompt.iter().map(|&(_, _, len)| len).sum(),
            prefixes: Vec::new(),
            computed: 0,
            begun: 0,
            placeholders: 0,
            stale_outputs: 0,
            drafts: 0,
            verified: 0,
            proposals: 0,
            is_mid_prefill: false,
            in_flight: 0,
            unprocessed: 0,
            turn: 0,
            whole: 0,
            is_deferred: false,
            blocks: Vec::new(),
            further: vec![Vec::new(); config.groups.len() - 1],
            states: Vec::new(),
            registered: 0,
            cached_tokens: None,
            local: 0,
            is_loaded: false,
            is_aside: false,
            token_times_ps: Vec::new(),
            preemptions: 0,
        };
        for &(segment, start, len) in &request.prompt {
            for position in start..start + len {
                sequence.push_token((segment, position), config, names);
            }
        }
        sequence
    }

    /// Known tokens (`n_tok`).
    pub(super) fn known(&self) -> u32 {
        u32::try_from(self.tokens.len()).expect("a sequence is far shorter than 2^32 tokens")
    }

    /// Whether an admission with so many tokens computed is prefill; a single one left is not (V1-16).
    pub(super) fn has_prefill_left(&self, computed: u32) -> bool {
        computed + 1 < self.known()
    }

    /// The first `end` tokens, those included that it will generate.
    pub(super) fn everything(&self, end: u32) -> Vec<Token> {
        let prompt = self.tokens.iter().take(self.prompt_len as usize).copied();
        let outputs = (self.prompt_len..).map(|at| (self.request.output_segment, at));
        prompt.chain(outputs).take(end as usize).collect()
    }

    /// Outputs known so far.
    pub(super) fn outputs(&self) -> u32 {
        self.known() - self.prompt_len
    }

    /// Appends the next generated token.
    pub(super) fn push_output(&mut self, config: &TwinConfig, names: &mut PrefixNames) {
        let token = (self.request.output_segment, self.known());
        self.push_token(token, config, names);
    }

    /// Whether the last appended token was its last one (V1-61).
    pub(super) fn is_complete(&self, config: &TwinConfig) -> bool {
        self.outputs() >= self.request.output_tokens || self.known() >= config.max_model_len
    }

    /// Whether it certainly ends by length in a step already in flight (V1-15).
    ///
    /// The engine knows `max_tokens` but not where a stop token will come.
    pub(super) fn ends_in_flight(&self, config: &TwinConfig) -> bool {
        config.async_overrun_guard
            && !self.request.ends_by_eos
            && self.placeholders > 0
            && self.computed + 2 - self.placeholders >= self.prompt_len + self.request.output_tokens
    }

    /// Appends a token; when it fills a block, names that block (V1-42: only full blocks have a name).
    fn push_token(&mut self, token: Token, config: &TwinConfig, names: &mut PrefixNames) {
        self.tokens.push(token);
        let block_size = config.block_size as usize;
        // D-11
        let behind = usize::from(config.last_block() == TwinLastBlock::NamedWithNext);
        let full = self.tokens.len() - behind;
        if config.enable_prefix_caching && full > 0 && full.is_multiple_of(block_size) {
            let block = &self.tokens[full - block_size..];
            let prefix = names.name(self.prefixes.last().copied(), block);
            self.prefixes.push(prefix);
        }
    }
}
