//! A router, and what it is told of the replicas behind it: whose requests are where, from the choice to the answer.

use super::router::{Load, Router, View};
use crate::engine::Engine;
use crate::ids::RequestId;
use crate::kv::{Heard, Journal};
use crate::units::Picos;
use crate::window::Window;
use crate::workload::{Prompt, Request};

/// A router with its books.
pub(super) struct Dispatch {
    router: Box<dyn Router>,
    /// One for each replica behind it.
    pub(super) loads: Vec<Load>,
    /// Replica, prompt tokens and `max_tokens` of the requests that were sent and not answered.
    sent: Window<(usize, u64)>,
    /// What the replicas have cached, as far as they have told.
    heard: Option<Heard>,
    /// Who is listened to next where nothing is asked.
    turn: usize,
}

impl Dispatch {
    pub(super) fn new(router: Box<dyn Router>, loads: Vec<Load>) -> Dispatch {
        Dispatch {
            heard: router.follows_events().then(|| Heard::new(loads.len())),
            router,
            loads,
            sent: Window::default(),
            turn: 0,
        }
    }

    /// Who gets `request` at `now`; `None` if nobody is up. `engine` is the one of each replica behind the router.
    pub(super) fn route<'a>(
        &mut self,
        request: &Request,
        now: Picos,
        engine: &dyn Fn(usize) -> &'a Engine,
    ) -> Option<usize> {
        if let Some(heard) = &mut self.heard {
            match &request.prompt {
                Prompt::Pieces(_) => hear(heard, request, now, self.loads.len(), engine),
                // Of a text that nobody shares nobody has anything.
                Prompt::Unique => {
                    self.turn = (self.turn + 1) % self.loads.len();
                    listen(heard, self.turn, engine(self.turn).journal(), now);
                    heard.look_up(&[], request.prompt_tokens);
                }
            }
        }
        let view = View {
            loads: &self.loads,
            cached_tokens: self.heard.as_ref().map_or(&[], Heard::found),
            index_tokens: &|index| engine(index).index_tokens(),
        };
        let index = self.router.route(request, now, &view)?;
        assert!(self.loads[index].is_up, "a router chooses among those up");
        Some(index)
    }

    /// Replica `index` has taken a request of so many tokens, prompt and `max_tokens`.
    pub(super) fn sent(&mut self, index: usize, id: RequestId, tokens: u64) {
        self.sent.insert(id, (index, tokens));
        let load = &mut self.loads[index];
        load.requests += 1;
        load.tokens += tokens;
        load.sent_since_report += 1;
    }

    /// A request that was routed has its answer, or was refused where it was to go. The replica that had taken it.
    pub(super) fn left(&mut self, id: RequestId) -> Option<usize> {
        self.router.left(id);
        let (index, tokens) = self.sent.remove(id)?;
        self.loads[index].requests -= 1;
        self.loads[index].tokens -= tokens;
        Some(index)
    }

    /// The first tokens of these requests have come.
    pub(super) fn first_tokens(&mut self, ids: impl IntoIterator<Item = RequestId>) {
        if self.router.follows_first_tokens() {
            ids.into_iter().for_each(|id| self.router.first_token(id));
        }
    }

    /// Whether everybody has left who was ever routed: then no replica counts as burdened.
    pub(super) fn is_settled(&self) -> bool {
        let is_free = |load: &Load| load.requests == 0 && load.tokens == 0;
        self.sent.len() == 0 && self.router.remembered() == 0 && self.loads.iter().all(is_free)
    }

    /// Replica `index` says how full it is.
    pub(super) fn hear(&mut self, index: usize, engine: &Engine, now: Picos) {
        let load = &mut self.loads[index];
        (load.reported, load.sent_since_report) = (engine.reported_state(), 0);
        load.snapshot = engine.load_snapshot(now);
    }

    /// All replicas have said so.
    pub(super) fn has_heard(&mut self) {
        self.router.heard(&self.loads);
    }

    /// Whether the router reads snapshots before it routes a request at `now`.
    pub(super) fn reads_snapshots(&self, now: Picos) -> bool {
        self.router.reads_snapshots(now)
    }

    /// How often replicas report how full they are, if anybody asks.
    pub(super) fn reports_every(&self) -> Option<Picos> {
        self.router.reports_every()
    }
}

/// What is told of the caches of so many replicas by `now`, and what they have of the request's prompt.
fn hear<'a>(
    heard: &mut Heard,
    request: &Request,
    now: Picos,
    replicas: usize,
    engine: &dyn Fn(usize) -> &'a Engine,
) {
    let pieces = request.prompt.shared();
    let mut all_tell = true;
    for index in 0..replicas {
        all_tell &= listen(heard, index, engine(index).journal(), now);
    }
    heard.look_up(pieces, request.prompt_tokens);
    if !all_tell {
        let silent = (0..replicas).filter(|&index| engine(index).journal().is_none());
        silent.for_each(|index| heard.see(index, engine(index).cached_tokens(request)));
    }
}

/// What replica `index` has told by `now` is heard; whether it tells. Somebody must be listened to with every request, or what is
/// told piles up.
fn listen(heard: &mut Heard, index: usize, journal: Option<&Journal>, now: Picos) -> bool {
    journal
        .inspect(|journal| heard.listen(index, journal, now))
        .is_some()
}

/// Tokens that a request may come to.
pub(super) fn tokens_of(request: &Request) -> u64 {
    u64::from(request.prompt_tokens) + u64::from(request.max_tokens)
}
