//! A request inside an engine whose scheduler is separate.

use crate::engine::Handle;
use crate::engine::pack::Place;
use crate::engine::roster::identify;
use crate::engine::scheduler::{Binding, SequenceId, SequenceView};
use crate::engine::story::Story;
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
    pub(super) handle: Handle,
    pub(super) story: Story,
    pub(super) phase: Phase,
    /// Output tokens that it will have.
    pub(super) target: u32,
    /// Padding in front of the prompt (ST-2).
    pub(super) padding: u32,
    /// Output tokens sampled. Stale while packed, as are those that follow from it.
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
    /// Tokens it was given in the step that is composed or runs, by name.
    pub(super) share: u32,
    /// Its place in the pack, if it is a member.
    pub(super) place: Option<Place>,
    /// Its place in the order of admission.
    pub(super) order: u64,
    /// It belongs to a closed batch.
    pub(super) binding: Option<Binding>,
    /// Its client has its answer or has given up; the row is computed on.
    pub(super) is_answered: bool,
    /// When it reached this engine, or was last preempted.
    pub(super) queued_since: Picos,
}

impl Sequence {
    /// A request that reaches the engine at `now`.
    pub(super) fn new(
        request: Request,
        now: Picos,
        handle: Handle,
        max_model_len: u32,
        caches: bool,
    ) -> Sequence {
        let mut pieces = Vec::new();
        if caches {
            identify(&request, None, &mut pieces);
        }
        let mut story = Story::new(&request);
        story.enter(now);
        Sequence {
            pieces,
            handle,
            story,
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
            place: None,
            order: 0,
            binding: None,
            is_answered: false,
            queued_since: now,
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

    /// What a scheduler sees of it.
    #[inline]
    pub(super) fn view(&self) -> SequenceView {
        let request = &self.request;
        SequenceView {
            id: SequenceId(self.handle),
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
