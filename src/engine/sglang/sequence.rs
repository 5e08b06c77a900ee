//! A request inside an SGLang engine.

use super::SglangConfig;
use super::drafts::Drafted;
use crate::engine::Handle;
use crate::engine::pack::Place;
use crate::engine::roster::identify;
use crate::engine::speculation::name_by_the_next;
use crate::engine::story::Story;
use crate::kv::{Found, NodeId, ROOT};
use crate::workload::{Piece, Request};

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the waiting queue, new or retracted.
    Waiting,
    /// Its KV is on the way: from here, or in a decode server to here.
    Inflight,
    /// Admitted: in a prefill batch, between two chunks, or decoding.
    Running,
    /// Its answer is complete; a batch still lists it.
    Ended,
}

/// The state of a sequence. Times are the engine's.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    /// What its tokens are, prompt and output; empty where nothing is cached.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) handle: Handle,
    /// Its last token is stale while packed.
    pub(crate) story: Story,
    pub(crate) phase: Phase,
    /// `max_new_tokens` after clipping (SG-25).
    pub(crate) max_new: u32,
    /// Output tokens that it will have.
    pub(crate) target: u32,
    /// Output tokens processed. Stale while packed.
    pub(crate) outputs: u32,
    /// Tokens sampled in launched batches that are not processed, those of the pack left out.
    pub(crate) in_flight: u32,
    /// Tokens with KV, computed or launched. Stale while packed.
    pub(crate) kv: u32,
    /// What it drafts, where the server speculates.
    pub(super) drafted: Drafted,
    /// Its place in the pack, if it is a member.
    pub(crate) place: Option<Place>,
    /// Its place in the order of the running batch.
    pub(crate) order: u64,
    /// Its place in the order in which the queue was joined (`wait_queue_entry_time`, which two never share).
    pub(crate) joined: u64,
    /// Tokens that its current prefill ends at.
    pub(crate) fill: u32,
    /// Tokens known and tokens of its prefix when it was last tried or took part in a mixed batch, which is what
    /// preemption by priority goes by (SG-43).
    pub(crate) tried: (u32, u32),
    /// Deepest node that it protects.
    pub(crate) node: NodeId,
    /// Tokens of it that belong to the tree; the pages behind them are its own.
    pub(crate) shared: u32,
    /// Counts retractions, so that tokens in flight from before one are told apart.
    pub(crate) life: u32,
}

impl Sequence {
    /// A request that has just come in.
    pub(crate) fn new(request: Request, handle: Handle, config: &SglangConfig) -> Sequence {
        let max_new = clipped_max_new(&request, config);
        let mut pieces = Vec::new();
        if config.radix_cache {
            identify(&request, config.eos_segment, &mut pieces);
            if config.drafts.as_ref().is_some_and(|drafts| drafts.names_pairs) {
                name_by_the_next(&mut pieces);
            }
        }
        Sequence {
            pieces,
            handle,
            story: Story::new(&request),
            phase: Phase::Waiting,
            max_new,
            target: request.output_tokens.min(max_new),
            outputs: 0,
            in_flight: 0,
            kv: 0,
            drafted: Drafted::default(),
            place: None,
            order: 0,
            joined: 0,
            fill: 0,
            tried: (0, 0),
            node: ROOT,
            shared: 0,
            life: 0,
            request,
        }
    }

    /// Prompt and processed output tokens, `n_tok`.
    #[inline]
    pub(crate) fn known(&self) -> u32 {
        self.request.prompt_tokens + self.outputs
    }

    /// Its known tokens, those in flight included, are not those that have KV and the one that comes next, as they are of anybody
    /// else who decodes: under priorities and overlap some of 0.5.4 go on behind a prefill that was cut short.
    #[inline]
    pub(crate) fn lags(&self) -> bool {
        self.known() + self.in_flight != self.kv + 1
    }

    /// The prefix that it protects.
    #[inline]
    pub(crate) fn protected(&self) -> Found {
        Found {
            node: self.node,
            tokens: self.shared,
        }
    }

    /// Decodes that may be launched before its last token is being computed (SG-5).
    #[inline]
    pub(crate) fn launches_left(&self) -> u32 {
        self.max_new.saturating_sub(self.outputs + self.in_flight)
    }

    /// Tokens that it may still generate as the server sees it, clipped (SG-17).
    #[inline]
    pub(crate) fn remaining(&self) -> u32 {
        (self.max_new - self.outputs).min(CLIP_MAX_NEW_TOKENS)
    }
}

/// Admission never expects more output than this (`CLIP_MAX_NEW_TOKENS`).
pub(crate) const CLIP_MAX_NEW_TOKENS: u32 = 4096;

/// A prompt must leave so many tokens of the longest request (`max_req_input_len`).
pub(crate) const DOOR: u32 = 6;

/// Longest request, prompt and output (`max_req_len`).
pub(crate) fn longest_request(config: &SglangConfig) -> u32 {
    (config.context_length - 1).min(config.max_total_tokens - 1)
}

/// `max_new_tokens` as the server takes it (SG-25); 0 if the prompt is too long.
pub(crate) fn clipped_max_new(request: &Request, config: &SglangConfig) -> u32 {
    let prompt = request.prompt_tokens;
    let longest = longest_request(config);
    if prompt + DOOR > longest {
        return 0;
    }
    let mut most = longest - prompt - 1;
    if config.switches.clips_to_pool {
        let pages = prompt.next_multiple_of(config.page_size);
        most = most.min(
            config
                .max_total_tokens
                .saturating_sub(pages + config.page_size + 1),
        );
    }
    request.max_tokens.min(most)
}
