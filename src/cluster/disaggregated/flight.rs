//! A request between two replicas.

use std::collections::VecDeque;

use crate::engine::Handle;
use crate::engine::story::Story;
use crate::facts::{Completion, Outcome};
use crate::ids::ReplicaId;
use crate::units::Picos;
use crate::workload::Request;

/// Where a request is and what it waits for.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) request: Request,
    /// Its prefill replica, and its place there as long as it has one.
    pub(super) prefill: usize,
    pub(super) at_prefill: Option<Handle>,
    /// Its decode replica, chosen at the latest when the prefill is over, and its place there.
    pub(super) decode: Option<usize>,
    pub(super) at_decode: Option<Handle>,
    /// What its client sees of it, over both replicas.
    pub(super) story: Story,
    pub(super) times: Times,
    pub(super) cargo: Cargo,
    /// The client gave up, and only what is under way is brought to its end.
    pub(super) is_abandoned: bool,
    /// Tells it from an earlier flight of the same request, which failed and was sent again.
    pub(super) nth: u64,
    /// The prefill replica does not have its KV any more: it failed, or the lease ran out.
    pub(super) is_source_lost: bool,
}

/// When what happened from the end of the prefill on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Its prefill was over.
    pub(super) prefilled: Option<Picos>,
    /// How long it had waited for its prefill by then.
    pub(super) waited: Picos,
    /// The decode server has the request.
    pub(super) known: Option<Picos>,
    /// The decode replica has taken memory for it.
    pub(super) reserved: Option<Picos>,
    /// All its KV is there.
    pub(super) arrived: Option<Picos>,
    /// It runs on the decode replica.
    pub(super) joined: Option<Picos>,
}

/// What crosses the links.
#[derive(Debug, Default)]
pub(super) struct Cargo {
    /// Tokens that were handed to the links, and bytes.
    pub(super) tokens: u32,
    pub(super) bytes: u64,
    /// Bytes that a decode replica wants to read.
    pub(super) wanted: u64,
    /// Bytes of messages that wait for the one under way.
    pub(super) queued: VecDeque<u64>,
    pub(super) is_under_way: bool,
    /// Nothing follows.
    pub(super) is_whole: bool,
    /// The prefill server's loop knows the request (SGLang).
    pub(super) is_known_to_prefill: bool,
}

impl Flight {
    pub(super) fn new(request: Request, prefill: usize, nth: u64) -> Flight {
        Flight {
            story: Story::new(&request),
            request,
            prefill,
            at_prefill: None,
            decode: None,
            at_decode: None,
            times: Times::default(),
            cargo: Cargo::default(),
            is_abandoned: false,
            nth,
            is_source_lost: false,
        }
    }

    /// Who would tell of it, if it left now.
    pub(super) fn told_by(&self) -> usize {
        match self.times.prefilled {
            Some(_) => self.decode(),
            None => self.prefill,
        }
    }

    /// Its story, if it leaves at `now` while it is on no replica.
    pub(super) fn end(&self, told_by: usize, now: Picos, outcome: Outcome) -> Completion {
        self.story
            .end(&self.request, ReplicaId(told_by as u32), now, outcome, 0)
    }

    /// Its story, if it leaves at `now` and was perhaps on its decode replica, which says this of its part.
    pub(super) fn end_with(&self, part: Option<Completion>, now: Picos, outcome: Outcome) -> Completion {
        let tokens = part.filter(|_| self.times.joined.is_some());
        Completion {
            output_tokens: tokens.map_or(0, |part| part.output_tokens),
            ..self.end(self.told_by(), now, outcome)
        }
    }

    /// What the prefill server is asked: the same prompt and one token.
    pub(super) fn prefill_part(&self) -> Request {
        Request {
            output_tokens: 1,
            max_tokens: 1,
            ..self.request.clone()
        }
    }

    /// The decode replica, which is chosen.
    pub(super) fn decode(&self) -> usize {
        self.decode
            .expect("a decode replica is chosen before it is asked for")
    }
}
