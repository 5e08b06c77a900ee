//! A request as one server knows it: where it is, and the instants that vLLM's `RequestStateStats` keeps.

use crate::units::Picos;
use crate::workload::Request;

/// Where a request is, as far as servers count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At no server: before the routers, between two servers, or on its way back from one that failed.
    Outside,
    /// It waits for its turn on a replica, or is on its way into that queue.
    Waiting(usize),
    /// It waits there for nothing but its KV.
    Deferred(usize),
    /// In the batch.
    Running(usize),
    /// Its answer has left the engine.
    Leaving,
}

/// A request inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) place: Place,
    /// The replica that it was last sent to or ran on.
    pub(super) replica: usize,
    pub(super) prompt_tokens: u32,
    pub(super) max_tokens: u32,
    /// Output tokens at which an end-of-sequence token ends it; `None` where its length does.
    pub(super) ends_at: Option<u32>,
    pub(super) at_server: AtServer,
}

/// What it did on the server that has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AtServer {
    /// When it came.
    pub(super) arrival: Picos,
    /// Its prompt was computed on another, from where the KV came.
    pub(super) is_handed_over: bool,
    /// Since when it was in the queue and when it was first scheduled, once it was.
    pub(super) scheduled: Option<(Picos, Picos)>,
    /// When the step ended that gave its first token.
    pub(super) first_token: Option<Picos>,
    /// When its answer left the engine, if that is not when it ended.
    pub(super) left: Option<Picos>,
    /// Tokens known when it was scheduled last.
    pub(super) known_tokens: u32,
    /// Prompt tokens found in the prefix cache when it was first scheduled.
    pub(super) cached_tokens: u32,
    /// Prompt tokens that came from outside then, if that was told.
    pub(super) loaded_tokens: Option<u32>,
    /// How often it was preempted.
    pub(super) preemptions: u32,
}

impl Life {
    pub(super) fn of(request: &Request) -> Life {
        Life {
            place: Place::Outside,
            replica: 0,
            prompt_tokens: request.prompt_tokens,
            max_tokens: request.max_tokens,
            ends_at: request.ends_by_eos().then_some(request.output_tokens),
            at_server: AtServer {
                arrival: request.arrival,
                ..AtServer::default()
            },
        }
    }

    /// Prompt tokens by where their KV is from: computed here, cached here, from elsewhere (`PrefillStats`).
    pub(super) fn prompt_by_source(&self) -> [u64; 3] {
        let prompt = u64::from(self.prompt_tokens);
        let at_server = &self.at_server;
        let cached = u64::from(at_server.cached_tokens).min(prompt);
        let loaded = match at_server.loaded_tokens {
            Some(tokens) => u64::from(tokens).min(prompt - cached),
            None if at_server.is_handed_over => return [0, 0, prompt],
            None => 0,
        };
        [prompt - cached - loaded, cached, loaded]
    }
}
