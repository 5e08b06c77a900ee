//! A simulation that is given requests as they come, and tells of each token when its client has it: what runs on another clock than
//! its own.
//!
//! It is the loop of [`crate::sim`] and nothing else. Whoever has a clock posts what comes at its instants, goes on to them, and
//! hears what was due until then; `tests/laws/live.rs` holds that to a run that was given the same requests beforehand.

mod streams;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::streams::Streams;
use crate::ids::RequestId;
use crate::sim::{Completion, Fact, Observer, Pause, Rejection, Simulation, Until};
use crate::units::Picos;
use crate::workload::{Post, Posted};

/// What a client is to hear of its request, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its client has it.
    pub at: Picos,
    /// Whose.
    pub id: RequestId,
    /// What.
    pub what: Delivered,
}

/// What reaches a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// A server has taken it in; told again where it is sent again.
    Taken,
    /// So many more tokens, in one piece.
    Tokens(u32),
    /// The end, behind all tokens.
    End(Ended),
}

/// How a request left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its whole story.
    pub completion: Completion,
    /// Why it was refused, if it was.
    pub rejection: Option<Rejection>,
    /// Where a rate limit refused it: from when on that would let it pass, as far as it was used when this was told. `None` if it never does.
    pub payable_at: Option<Picos>,
}

/// A server whose clients send when they like.
pub struct Live {
    simulation: Simulation<Posted>,
    streams: Streams,
    /// What was told and is not due yet.
    due: BinaryHeap<Reverse<Due>>,
    told: u64,
    until: Picos,
    is_livelocked: bool,
}

/// In order of time, of equals in that of telling.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    at: Picos,
    told: u64,
    id: RequestId,
    what: Delivered,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.told).cmp(&(other.at, other.told))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Live {
    /// The servers of an empty simulation.
    #[must_use]
    pub fn new(simulation: Simulation<Posted>) -> Live {
        Live {
            streams: Streams::new(simulation.schedules_ahead()),
            simulation: simulation.withdrawable(),
            due: BinaryHeap::new(),
            told: 0,
            until: Picos::ZERO,
            is_livelocked: false,
        }
    }

    /// A client sends at `at`, or at the instant gone on to last if that is later; the request's number. Of one that `streams` every token
    /// is delivered, else its end alone.
    pub fn post(&mut self, post: &Post, at: Picos, streams: bool) -> RequestId {
        let at = at.max(self.until);
        let mut id = None;
        self.simulation
            .tell_traffic(|traffic| id = Some(traffic.post(post, at)));
        let id = id.expect("the traffic was told");
        if streams {
            self.streams.open(id, post.output_tokens);
        }
        id
    }

    /// The client of a request goes away at `at`, or at the instant gone on to last if that is later.
    pub fn withdraw(&mut self, id: RequestId, at: Picos) {
        self.simulation.withdraw(id, at.max(self.until));
    }

    /// When it has to be gone on with next, if nobody sends before.
    pub fn next_instant(&mut self) -> Option<Picos> {
        let due = self.due.peek().map(|Reverse(due)| due.at);
        let next = match self.is_livelocked {
            true => None,
            false => self.simulation.next_instant(),
        };
        next.into_iter().chain(due).min()
    }

    /// Goes on to `until`; what is due until then, in order of time. Sequences that preempt each other for ever go no further.
    pub fn advance(&mut self, until: Picos, watcher: &mut impl Observer) -> Vec<Delivery> {
        self.until = self.until.max(until);
        let limit = Until {
            ended: u64::MAX,
            time: self.until,
        };
        let mut seen = Seen {
            streams: &mut self.streams,
            watcher,
        };
        self.is_livelocked |= self.simulation.advance(limit, &mut seen) == Pause::Livelock;
        let simulation = &mut self.simulation;
        let told = self
            .streams
            .settle(|replica, id, told| simulation.seen_first(replica, id, told));
        for mut delivery in told {
            if let Delivered::End(ended) = &mut delivery.what
                && let Some(bill) = self.streams.unpaid(delivery.id)
            {
                ended.payable_at = simulation.payable_at(bill.class, bill.tokens);
            }
            self.due.push(Reverse(Due {
                at: delivery.at,
                told: self.told,
                id: delivery.id,
                what: delivery.what,
            }));
            self.told += 1;
        }
        let mut now = Vec::new();
        while self.due.peek().is_some_and(|Reverse(due)| due.at <= self.until) {
            let Reverse(Due { at, id, what, .. }) = self.due.pop().expect("one is due");
            now.push(Delivery { at, id, what });
        }
        now
    }

    /// Whether sequences preempt each other for ever, and nobody will get another token.
    #[must_use]
    pub fn is_livelocked(&self) -> bool {
        self.is_livelocked
    }
}

/// The clients and somebody else.
struct Seen<'a, O> {
    streams: &'a mut Streams,
    watcher: &'a mut O,
}

impl<O: Observer> Observer for Seen<'_, O> {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.streams.observe(fact);
        self.watcher.observe(fact);
    }
}
