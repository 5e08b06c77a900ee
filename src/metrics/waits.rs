//! Who waited, for how long, and who went before whom: with a cached prefix and without, and by prefix.
//!
//! Queues in order of arrival let nobody be overtaken (but for those who are put back). A policy that looks at the cache
//! serves more for the same work and may starve whoever has no cached prefix: a mean does not show that, these figures
//! do. An observer beside the recorder; it decides nothing.
//!
//! A request is *overtaken* by one that came later and was admitted at the same replica at an earlier instant, both for
//! the first time; who is admitted in one step overtakes nobody. A *hit* found any of its prompt in the prefix cache. A
//! prompt's *prefix* is its first piece, numbered in the order in which they first came; prompts of one piece alone have
//! none. Memory is O(in flight + prefixes).

use rustc_hash::FxHashMap;

use super::Distribution;
use super::turns::Turns;
use crate::ids::{RequestId, SegmentId};
use crate::sim::{Completion, Fact, Observer, Outcome};
use crate::units::Picos;
use crate::window::Window;
use crate::workload::{Prompt, Request};

/// Longest waits that are kept.
const LONGEST_KEPT: usize = 5;
/// Priorities that are told apart; whoever has another is told of with all, and not beside these.
const PRIORITIES_MAX: usize = 64;
/// Prefixes that are told apart; those that come later count together with none.
const PREFIXES_MAX: usize = 1 << 16;

/// One who waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiter {
    /// Which request.
    pub id: RequestId,
    /// Its prefix, numbered from 1.
    pub prefix: Option<u32>,
    /// Arrival to first admission, in seconds; to the end where it was never admitted.
    pub wait_s: f64,
    /// How many later ones were admitted before it.
    pub overtaken_by: u64,
    /// It found a part of its prompt in the cache.
    pub is_hit: bool,
    /// It was admitted at all.
    pub was_admitted: bool,
}

/// Those who found a cached prefix, or those who did not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitClass {
    /// Arrival to first admission.
    pub waits: Distribution,
    /// Time to first token of those that were answered whole.
    pub ttft: Distribution,
    /// How many were overtaken.
    pub overtaken: u64,
}

/// Those of one priority.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorityWaits {
    /// Smaller is served first.
    pub priority: i64,
    /// Requests that arrived.
    pub sent: u64,
    /// Arrival to first admission.
    pub waits: Distribution,
    /// Time to first token of those that were answered whole.
    pub ttft: Distribution,
    /// Arrival to last token of those.
    pub e2el: Distribution,
}

/// Those whose prompts begin alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrefixWaits {
    /// Its number, from 1.
    pub prefix: u32,
    /// Requests admitted.
    pub requests: u64,
    /// Of them, with a hit.
    pub hits: u64,
    /// Sum of their waits in seconds.
    pub waited_s: f64,
    /// The longest.
    pub longest_s: f64,
    /// Most later ones that were admitted before one of them.
    pub overtaken_by: u64,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitReport {
    /// With a cached prefix.
    pub hits: WaitClass,
    /// Without.
    pub misses: WaitClass,
    /// Who was overtaken by the most.
    pub most_overtaken: Option<Waiter>,
    /// The longest waits, longest first.
    pub longest: Vec<Waiter>,
    /// Prefixes, the one with the longest wait first; empty where prompts share none.
    pub prefixes: Vec<PrefixWaits>,
    /// Priorities, the one served first before the others; empty where all requests have one.
    pub priorities: Vec<PriorityWaits>,
    /// Requests of priorities that are not among these, because there are too many.
    pub of_other_priorities: u64,
    /// Requests that left, or were left, without being admitted.
    pub never_admitted: u64,
    /// How long they waited.
    pub unserved: Distribution,
    /// Of the waits of those admitted, until the engine had the request in its queue: front ends, and what stands before them.
    pub front_end: Distribution,
    /// The rest of them: in the engine's queue.
    pub engine_queue: Distribution,
    /// Prefixes are cached at all, so that there are hits and misses.
    pub caches_prefixes: bool,
}

impl WaitReport {
    /// Requests that were admitted.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.hits.waits.count() + self.misses.waits.count()
    }

    /// Share of the admitted that were overtaken; 0 where nobody was admitted.
    #[must_use]
    pub fn overtaken_share(&self) -> f64 {
        (self.hits.overtaken + self.misses.overtaken) as f64 / self.admitted().max(1) as f64
    }

    /// Requests that never ran although they waited more than twice as long as any that did, and the longest of their waits. The last to
    /// arrive before a run ends have merely not had their turn. `None` where there are none, or nobody ran.
    #[must_use]
    pub fn starved(&self) -> Option<(u64, f64)> {
        const TIMES: f64 = 2.0;
        let classes = [&self.hits.waits, &self.misses.waits];
        let longest = classes
            .into_iter()
            .filter_map(Distribution::max_s)
            .reduce(f64::max)?;
        let waits = self.unserved.steps();
        let starved = waits.iter().filter(|(wait_s, _)| *wait_s > TIMES * longest);
        let count: u64 = starved.map(|(_, count)| count).sum();
        (count > 0).then_some((count, self.unserved.max_s()?))
    }

    /// The misses' shares of the requests and of all waiting; `None` where there is only one class, or nobody waited.
    #[must_use]
    pub fn shares_of_misses(&self) -> Option<(f64, f64)> {
        let (hits, misses) = (&self.hits.waits, &self.misses.waits);
        let waited = hits.sum_s() + misses.sum_s();
        let is_mixed = hits.count() > 0 && misses.count() > 0;
        (is_mixed && waited > 0.0).then(|| {
            let share = misses.count() as f64 / self.admitted() as f64;
            (share, misses.sum_s() / waited)
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    number: u64,
    arrival: Picos,
    prefix: Option<u32>,
    priority: i64,
    is_waiting: bool,
}

/// The observer.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    turns: Turns,
    live: Window<Live>,
    numbers: FxHashMap<SegmentId, u32>,
    prefixes: Vec<PrefixWaits>,
    /// Admissions of one instant, which overtake nobody among themselves.
    instant: Picos,
    together: Vec<(u64, u32)>,
    seen: WaitReport,
}

impl Waits {
    /// Watches replicas of which some keep prefixes, or none.
    #[must_use]
    pub fn new(caches_prefixes: bool) -> Waits {
        Waits {
            seen: WaitReport {
                caches_prefixes,
                ..WaitReport::default()
            },
            ..Waits::default()
        }
    }

    /// Ends the run at `now`.
    #[must_use]
    pub fn finish(mut self, now: Picos) -> WaitReport {
        let left = self.live.iter().filter(|(_, live)| live.is_waiting);
        for (id, live) in left.map(|(id, live)| (id, *live)).collect::<Vec<_>>() {
            self.never_admitted(id, live, now);
        }
        let mut prefixes = self.prefixes;
        prefixes.retain(|prefix| prefix.requests > 0);
        if self.seen.priorities.len() == 1 {
            self.seen.priorities.clear();
        }
        prefixes.sort_by(|a, b| b.longest_s.total_cmp(&a.longest_s).then(a.prefix.cmp(&b.prefix)));
        WaitReport {
            prefixes,
            ..self.seen
        }
    }

    fn arrived(&mut self, request: &Request) {
        self.settle();
        let prefix = match &request.prompt {
            Prompt::Pieces(pieces) if pieces.len() > 1 => self.number(pieces[0].segment),
            _ => None,
        };
        match self.of_priority(request.priority) {
            Some(of) => of.sent += 1,
            None => self.seen.of_other_priorities += 1,
        }
        let live = Live {
            number: self.turns.arrive(),
            arrival: request.arrival,
            prefix,
            priority: request.priority,
            is_waiting: true,
        };
        self.live.insert(request.id, live);
    }

    /// What is known of a priority; `None` where there are too many.
    fn of_priority(&mut self, priority: i64) -> Option<&mut PriorityWaits> {
        let all = &mut self.seen.priorities;
        let at = match all.binary_search_by_key(&priority, |of| of.priority) {
            Ok(at) => at,
            Err(_) if all.len() == PRIORITIES_MAX => return None,
            Err(at) => {
                all.insert(
                    at,
                    PriorityWaits {
                        priority,
                        ..PriorityWaits::default()
                    },
                );
                at
            }
        };
        Some(&mut all[at])
    }

    fn number(&mut self, segment: SegmentId) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&segment) {
            return Some(number);
        }
        if self.prefixes.len() == PREFIXES_MAX {
            return None;
        }
        let number = self.prefixes.len() as u32 + 1;
        self.numbers.insert(segment, number);
        self.prefixes.push(PrefixWaits {
            prefix: number,
            ..PrefixWaits::default()
        });
        Some(number)
    }

    /// Those admitted at the instant before count as earlier from now on.
    fn settle(&mut self) {
        for (number, replica) in self.together.drain(..) {
            self.turns.admit(number, replica);
        }
    }

    fn admitted(&mut self, id: RequestId, now: Picos, replica: u32, queued_since: Picos, is_hit: bool) {
        if now != self.instant {
            self.settle();
            self.instant = now;
        }
        // Who was admitted before comes again from a replica that failed.
        let Some(live) = self.live.get_mut(id).filter(|live| live.is_waiting) else {
            return;
        };
        live.is_waiting = false;
        let live = *live;
        let overtaken_by = self.turns.overtaken(live.number, replica);
        self.together.push((live.number, replica));
        let wait = now.saturating_sub(live.arrival);
        if let Some(of) = self.of_priority(live.priority) {
            of.waits.record(wait, 1);
        }
        let queued = now.saturating_sub(queued_since).min(wait);
        self.seen.engine_queue.record(queued, 1);
        self.seen.front_end.record(wait.saturating_sub(queued), 1);
        let class = if is_hit {
            &mut self.seen.hits
        } else {
            &mut self.seen.misses
        };
        class.waits.record(wait, 1);
        class.overtaken += u64::from(overtaken_by > 0);
        let waiter = Waiter {
            id,
            prefix: live.prefix,
            wait_s: wait.seconds(),
            overtaken_by,
            is_hit,
            was_admitted: true,
        };
        self.keep(waiter);
        if let Some(number) = live.prefix {
            let prefix = &mut self.prefixes[number as usize - 1];
            prefix.requests += 1;
            prefix.hits += u64::from(is_hit);
            prefix.waited_s += waiter.wait_s;
            prefix.longest_s = prefix.longest_s.max(waiter.wait_s);
            prefix.overtaken_by = prefix.overtaken_by.max(overtaken_by);
        }
    }

    fn keep(&mut self, waiter: Waiter) {
        let most = self.seen.most_overtaken.map_or(0, |most| most.overtaken_by);
        if waiter.overtaken_by > most {
            self.seen.most_overtaken = Some(waiter);
        }
        let longest = &mut self.seen.longest;
        let at = longest.partition_point(|other| other.wait_s >= waiter.wait_s);
        if at < LONGEST_KEPT && waiter.wait_s > 0.0 {
            longest.insert(at, waiter);
            longest.truncate(LONGEST_KEPT);
        }
    }

    fn ended(&mut self, completion: &Completion) {
        let priority = self.live.get_mut(completion.id).map(|live| live.priority);
        self.left(completion.id, completion.end);
        let Some(first) = completion.first_token else {
            return;
        };
        if completion.outcome == Outcome::Completed {
            let class = if completion.cached_tokens > 0 {
                &mut self.seen.hits
            } else {
                &mut self.seen.misses
            };
            let ttft = first.saturating_sub(completion.arrival);
            class.ttft.record(ttft, 1);
            if let Some(of) = priority.and_then(|priority| self.of_priority(priority)) {
                of.ttft.record(ttft, 1);
                of.e2el
                    .record(completion.end.saturating_sub(completion.arrival), 1);
            }
        }
    }

    fn left(&mut self, id: RequestId, now: Picos) {
        if let Some(live) = self.live.remove(id)
            && live.is_waiting
        {
            self.turns.leave(live.number);
            self.never_admitted(id, live, now);
        }
    }

    fn never_admitted(&mut self, id: RequestId, live: Live, now: Picos) {
        self.seen.never_admitted += 1;
        self.seen.unserved.record(now.saturating_sub(live.arrival), 1);
        self.keep(Waiter {
            id,
            prefix: live.prefix,
            wait_s: now.saturating_sub(live.arrival).seconds(),
            overtaken_by: 0,
            is_hit: false,
            was_admitted: false,
        });
    }
}

impl Observer for Waits {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Arrived { request } => self.arrived(request),
            Fact::Admitted {
                now,
                replica,
                id,
                queued_since,
                cached_tokens,
                resumed: false,
                ..
            } => self.admitted(id, now, replica.0, queued_since, cached_tokens > 0),
            Fact::Rejected { now, request, .. } => self.left(request.id, now),
            Fact::Ended(completion) => self.ended(completion),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
