//! Requests between two replicas.

use std::collections::VecDeque;
use std::ops::Index;

use rustc_hash::FxHashMap;

use crate::engine::Handle;
use crate::engine::story::Story;
use crate::facts::{Completion, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// Requests on their way, by name, and how many of them go to each decode replica or are there.
#[derive(Debug)]
pub(super) struct Flights {
    by_id: FxHashMap<RequestId, Flight>,
    bound_for: Vec<u32>,
}

impl Flights {
    /// Nobody between so many replicas.
    pub(super) fn new(replicas: usize) -> Flights {
        Flights {
            by_id: FxHashMap::default(),
            bound_for: vec![0; replicas],
        }
    }

    /// How many have this decode replica, wherever they are.
    pub(super) fn bound_for(&self, replica: usize) -> u32 {
        self.bound_for[replica]
    }

    pub(super) fn insert(&mut self, id: RequestId, flight: Flight) {
        if let Some(decode) = flight.decode {
            self.bound_for[decode] += 1;
        }
        let other = self.by_id.insert(id, flight);
        assert!(other.is_none(), "a request is on its way once at a time");
    }

    /// A request's decode replica is chosen, or was before.
    pub(super) fn bind(&mut self, id: RequestId, decode: Option<usize>) -> &mut Flight {
        let flight = self.by_id.get_mut(&id).expect("a request in flight is known");
        if flight.decode.is_none()
            && let Some(decode) = decode
        {
            flight.decode = Some(decode);
            self.bound_for[decode] += 1;
        }
        flight
    }

    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Flight> {
        let flight = self.by_id.remove(id)?;
        if let Some(decode) = flight.decode {
            self.bound_for[decode] -= 1;
        }
        Some(flight)
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<&Flight> {
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &RequestId) -> Option<&mut Flight> {
        self.by_id.get_mut(id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Flight> {
        self.by_id.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl Index<&RequestId> for Flights {
    type Output = Flight;

    fn index(&self, id: &RequestId) -> &Flight {
        &self.by_id[id]
    }
}

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
    /// And it was let out of the bootstrap queue.
    pub(super) is_let_in: bool,
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
