//! The waiting queue: first come first served, or by priority (V1-24).

use std::collections::{BTreeMap, VecDeque};
use std::hint::cold_path;

use super::Handle;
use super::Policy;
use crate::units::Picos;
use crate::workload::Request;

/// Requests that wait for admission, the next one first.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// In the order in which they were drained; preempted ones in front.
    Fcfs(VecDeque<Handle>),
    /// By [`Rank`].
    Priority(BTreeMap<Rank, Handle>),
}

/// `(priority, arrival, id)`, smallest first. The id decides exact ties only, and as text: the engine's ids are strings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: i64,
    arrival: Picos,
    id: String,
}

impl Rank {
    /// The rank of a request.
    pub(crate) fn of(request: &Request) -> Rank {
        Rank {
            priority: request.priority,
            arrival: request.arrival,
            id: request.id.0.to_string(),
        }
    }

    /// The rank of the `nth` where nothing but the order counts.
    pub(crate) fn nth(nth: u64) -> Rank {
        Rank {
            priority: 0,
            arrival: Picos(nth),
            id: String::new(),
        }
    }
}

impl Waiting {
    /// An empty queue.
    pub(crate) fn new(policy: Policy) -> Waiting {
        match policy {
            Policy::Fcfs => Waiting::Fcfs(VecDeque::new()),
            Policy::Priority => Waiting::Priority(BTreeMap::new()),
        }
    }

    /// How many wait: fewer than 2³², for they all have slots in memory.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        match self {
            Waiting::Fcfs(queue) => queue.len() as u32,
            Waiting::Priority(queue) => {
                cold_path();
                queue.len() as u32
            }
        }
    }

    /// A new request joins.
    #[inline]
    pub(crate) fn push(&mut self, handle: Handle, request: &Request) {
        match self {
            Waiting::Fcfs(queue) => queue.push_back(handle),
            Waiting::Priority(queue) => {
                cold_path();
                queue.insert(Rank::of(request), handle);
            }
        }
    }

    /// A preempted or set-aside request comes back.
    pub(crate) fn push_front(&mut self, handle: Handle, request: &Request) {
        match self {
            Waiting::Fcfs(queue) => queue.push_front(handle),
            Waiting::Priority(queue) => {
                queue.insert(Rank::of(request), handle);
            }
        }
    }

    /// The next one.
    #[inline]
    pub(crate) fn head(&self) -> Option<Handle> {
        match self {
            Waiting::Fcfs(queue) => queue.front().copied(),
            Waiting::Priority(queue) => {
                cold_path();
                queue.first_key_value().map(|(_, handle)| *handle)
            }
        }
    }

    /// The one with so many before it.
    pub(crate) fn nth(&self, nth: usize) -> Option<Handle> {
        match self {
            Waiting::Fcfs(queue) => queue.get(nth).copied(),
            Waiting::Priority(queue) => queue.values().nth(nth).copied(),
        }
    }

    /// Takes the next one out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Handle> {
        match self {
            Waiting::Fcfs(queue) => queue.pop_front(),
            Waiting::Priority(queue) => {
                cold_path();
                queue.pop_first().map(|(_, handle)| handle)
            }
        }
    }

    /// Takes out a request that finished or was given up while it waited.
    pub(crate) fn remove(&mut self, handle: Handle, request: &Request) {
        match self {
            // Who gives up has waited long, and stands near the front: what is behind does not move.
            Waiting::Fcfs(queue) => {
                if let Some(at) = queue.iter().position(|&other| other == handle) {
                    queue.remove(at);
                }
            }
            Waiting::Priority(queue) => {
                queue.remove(&Rank::of(request));
            }
        }
    }
}
