//! SGLang's controller of a data-parallel server: who of its ranks gets a request (`DataParallelController`, SG-49).
//!
//! * 0.5.4, `shortest_queue` (`DPBudget`): every `load_watch_interval` all ranks are asked how many requests they have. From
//!   the answers a list is made that levels them: those with the fewest in turn until they have as many as the next fewest,
//!   and so on; equal loads make an empty one. Requests go by the list, and in turn once it is used up. The list is neither
//!   corrected by what it sends nor by what ends; the next answers replace it.
//! * 0.5.23, `total_requests` and `total_tokens` (`DPBudget`, `refresh_load_budget`): each rank writes snapshots of its load
//!   (`engine/sglang/publish.rs`). Before a request is sent the controller reads them, unless it did less than
//!   [`REFRESH_EVERY`] ago. A new snapshot replaces what was counted of that rank, an old one leaves it. The least loaded
//!   gets the request, of equals the first (by tokens: with the fewest requests), and counts for one request more, by
//!   tokens for its prompt more.
//!
//! Taken more simply than it is: a rank answers at the very moment it is asked, where the real one answers at its next pass,
//! up to a step later, and the next question comes that much later, too.

use std::collections::VecDeque;

use super::balance::RoundRobin;
use super::{Load, Router, View};
use crate::units::Picos;
use crate::workload::Request;

/// Time from one look at the snapshots to the next, at least (0.5.23, `refresh_load_budget`).
const REFRESH_EVERY: Picos = Picos(20_000_000_000);

/// By a list that levels the ranks (0.5.4).
#[derive(Debug)]
pub(super) struct ShortestQueue {
    watch_interval: Picos,
    budget: VecDeque<usize>,
    turns: RoundRobin,
}

impl ShortestQueue {
    pub(super) fn new(watch_interval: Picos) -> ShortestQueue {
        ShortestQueue {
            watch_interval,
            budget: VecDeque::new(),
            turns: RoundRobin::default(),
        }
    }
}

impl Router for ShortestQueue {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        while let Some(next) = self.budget.pop_front() {
            if view.loads[next].is_up {
                return Some(next);
            }
        }
        self.turns.turn(view)
    }

    fn reports_every(&self) -> Option<Picos> {
        Some(self.watch_interval)
    }

    fn heard(&mut self, loads: &[Load]) {
        self.budget.clear();
        let mut requests: Vec<u32> = loads.iter().map(|load| load.snapshot.requests).collect();
        while let Some(&least) = requests.iter().min()
            && let Some(next) = requests.iter().copied().filter(|&count| count > least).min()
        {
            let fewest: Vec<usize> = (0..requests.len())
                .filter(|&rank| requests[rank] == least)
                .collect();
            for _ in least..next {
                self.budget.extend(&fewest);
            }
            fewest.iter().for_each(|&rank| requests[rank] = next);
        }
    }
}

/// Which load of a rank decides (0.5.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalLoad {
    /// Requests in its running batch and queue.
    Requests,
    /// Tokens of its KV in use and of its queue; of equals, requests.
    Tokens,
}

impl TotalLoad {
    /// As SGLang spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TotalLoad::Requests => "total_requests",
            TotalLoad::Tokens => "total_tokens",
        }
    }
}

/// What the controller takes a rank's load for.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    requests: u32,
    tokens: u64,
    /// When the snapshot was written that it last took over.
    snapshot: Picos,
}

/// The least loaded by snapshots and what was sent since (0.5.23).
#[derive(Debug)]
pub(super) struct LeastTotal {
    by: TotalLoad,
    ranks: Vec<Counted>,
    last_refresh: Option<Picos>,
}

impl LeastTotal {
    pub(super) fn new(by: TotalLoad, ranks: usize) -> LeastTotal {
        LeastTotal {
            by,
            ranks: vec![Counted::default(); ranks],
            last_refresh: None,
        }
    }

    fn refresh(&mut self, now: Picos, loads: &[Load]) {
        self.last_refresh = Some(now);
        for (counted, load) in self.ranks.iter_mut().zip(loads) {
            let snapshot = load.snapshot;
            if snapshot.at != counted.snapshot {
                *counted = Counted {
                    requests: snapshot.requests,
                    tokens: snapshot.tokens,
                    snapshot: snapshot.at,
                };
            }
        }
    }
}

impl Router for LeastTotal {
    fn route(&mut self, request: &Request, now: Picos, view: &View<'_>) -> Option<usize> {
        if self.reads_snapshots(now) {
            self.refresh(now, view.loads);
        }
        let rank = view.least(|index, _| {
            let counted = self.ranks[index];
            match self.by {
                TotalLoad::Requests => (0, counted.requests),
                TotalLoad::Tokens => (counted.tokens, counted.requests),
            }
        })?;
        let counted = &mut self.ranks[rank];
        counted.requests += 1;
        if self.by == TotalLoad::Tokens {
            counted.tokens += u64::from(request.prompt_tokens);
        }
        Some(rank)
    }

    fn reads_snapshots(&self, now: Picos) -> bool {
        self.last_refresh.is_none_or(|last| now >= last + REFRESH_EVERY)
    }
}
