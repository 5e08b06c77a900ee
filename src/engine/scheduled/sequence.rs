//! A request inside an engine whose scheduler is separate.

use crate::engine::Handle;
use crate::engine::scheduler::{Binding, SequenceId, SequenceView};
use crate::kv::Held;
use crate::units::Picos;
use crate::workload::{Piece, Request};

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the waiting queue, new or preempted.
    Waiting,
    /// It has blocks of the GPU's memory.
    Running,
    /// Its blocks are in the host's memory.
    Swapped,
}

/// The state of a sequence. Counters of a batch that is leapt over are stale until it is settled.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) request: Request,
    /// What its tokens are, prompt and output; empty where nothing is cached.
    pub(super) pieces: Vec<Piece>,
    pub(super) generation: u32,
    pub(super) phase: Phase,
    /// Output tokens that it will have.
    pub(super) target: u32,
    /// Padding in front of the prompt (ST-2).
    pub(super) padding: u32,
    /// Output tokens sampled.
    pub(super) outputs: u32,
    /// Tokens computed behind the end of its answer (ST-3).
    pub(super) filler: u32,
    /// Tokens whose KV is there.
    pub(super) computed: u32,
    /// Known tokens when it was last admitted: until all are computed it prefills.
    pub(super) fill: u32,
    /// Blocks that it holds, in the GPU's memory or in the host's.
    pub(super) blocks: u32,
    pub(super) held: Held,
    /// Tokens it was given in the step that is composed or runs.
    pub(super) share: u32,
    /// It belongs to a closed batch.
    pub(super) binding: Option<Binding>,
    /// Its client has its answer or has given up; the row is computed on.
    pub(super) is_answered: bool,
    /// Tokens below this were computed before and lost.
    pub(super) recompute_until: u32,
    pub(super) last_token: Picos,
    /// When it reached this engine, or was last preempted.
    pub(super) queued_since: Picos,
    /// Since when it waits as its client sees it.
    pub(super) waiting_since: Picos,
    pub(super) running_since: Picos,
    pub(super) waited: Picos,
    pub(super) first_scheduled: Option<Picos>,
    pub(super) first_token: Option<Picos>,
    pub(super) cached_tokens: u32,
    pub(super) preemptions: u32,
}

impl Sequence {
    /// A request that reaches the engine at `now`.
    pub(super) fn new(
        request: Request,
        now: Picos,
        generation: u32,
        max_model_len: u32,
        caches: bool,
    ) -> Sequence {
        let mut pieces = Vec::new();
        if caches {
            pieces.extend(request.prompt_pieces());
            pieces.push(Piece {
                segment: request.output_segment,
                start: request.prompt_tokens,
                tokens: request.output_tokens + 1,
            });
        }
        Sequence {
            pieces,
            generation,
            phase: Phase::Waiting,
            target: request.output_tokens.min(max_model_len - request.prompt_tokens),
            padding: 0,
            outputs: 0,
            filler: 0,
            computed: 0,
            fill: request.prompt_tokens,
            blocks: 0,
            held: Held::default(),
            share: 0,
            binding: None,
            is_answered: false,
            recompute_until: 0,
            last_token: Picos::ZERO,
            queued_since: now,
            waiting_since: request.arrival,
            running_since: Picos::ZERO,
            waited: Picos::ZERO,
            first_scheduled: None,
            first_token: None,
            cached_tokens: 0,
            preemptions: 0,
            request,
        }
    }

    /// Tokens that must be computed before the next is sampled.
    #[inline]
    pub(super) fn known(&self) -> u32 {
        self.padding + self.request.prompt_tokens + self.outputs + self.filler
    }

    /// All its output tokens are sampled.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        self.outputs == self.target
    }

    /// Its handle, given its slot.
    pub(super) fn handle(&self, slot: usize) -> Handle {
        Handle {
            slot,
            generation: self.generation,
        }
    }

    /// What a scheduler sees of it.
    #[inline]
    pub(super) fn view(&self, slot: usize) -> SequenceView {
        let request = &self.request;
        SequenceView {
            id: SequenceId(self.handle(slot)),
            request: request.id,
            arrival: request.arrival,
            queued_since: self.queued_since,
            priority: request.priority,
            prompt_tokens: request.prompt_tokens,
            max_tokens: request.max_tokens,
            output_tokens: self.outputs,
            known_tokens: self.known(),
            computed_tokens: self.computed,
            blocks: self.blocks,
            given_tokens: self.share,
            is_prefilling: self.computed < self.fill,
        }
    }
}
