//! What stands before the routers: limits of rates, a limit of requests in flight with a queue, and sending again.
//!
//! A rate limit is a token bucket: it holds at most `burst`, fills at `per_second`, and a request that finds too
//! little in it is refused (429). It is kept as the instant at which the bucket would be full again (the generic
//! cell rate algorithm, ITU-T I.371), in integer picoseconds, so no float orders anything. A request pays its prompt
//! and `max_tokens`, which is all that is known when it comes. It pays every limit that holds for it, or none.
//!
//! Who is refused here may come again, as after a server's refusal: it comes to the gate anew, pays anew, and holds no
//! place meanwhile. Whoever passed keeps its place while it waits to be sent again.
//!
//! Left out: waiting for a rate limit to fill (gateways refuse), and fair sharing between tenants in the queue, which
//! is first in, first out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use super::{Completion, Outcome};
use crate::ids::RequestId;
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::Request;

/// What stands before the routers; nothing does by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Limits of rates; a request must pass all that hold for it.
    pub rates: Vec<RateLimit>,
    /// Most requests behind this point at once.
    pub max_in_flight: Option<u32>,
    /// Requests that may wait for a place there; beyond it they are refused (503).
    pub max_queue: u32,
    /// How long one waits at most; then it is refused (503).
    pub queue_timeout: Option<Picos>,
    /// Sending again.
    pub retries: Option<Retries>,
}

impl Admission {
    /// Whether nothing stands before the routers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Admission::default()
    }
}

/// A limit on what arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// Of which class; `None` is all requests together.
    pub class: Option<u32>,
    /// Requests.
    pub requests: Option<Bucket>,
    /// Tokens: prompt plus `max_tokens` of each request.
    pub tokens: Option<Bucket>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// What it is filled with.
    pub per_second: f64,
    /// What it holds at most.
    pub burst: f64,
}

/// Who sends a request again, how often and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Most times that one request is sent again.
    pub most: u32,
    /// Wait before the first; each further one waits twice as long.
    pub backoff: Picos,
    /// After its replica failed.
    pub on_failure: bool,
    /// After a 429 or a 503, of a server or of the gateway, or where no replica is up.
    pub on_refusal: bool,
}

impl Retries {
    /// How long a request waits that was sent again so many times; `None` past the clock, which `config` refuses.
    fn wait(&self, times_sent_again: u32) -> Option<Picos> {
        if self.backoff == Picos::ZERO {
            return Some(Picos::ZERO);
        }
        let factor = 1u64.checked_shl(times_sent_again)?;
        self.backoff.0.checked_mul(factor).map(Picos)
    }

    /// When that wait is over. What would be sent after the clock's end is not: the run ends there, which is said of it.
    fn at(&self, now: Picos, times_sent_again: u32) -> Option<Picos> {
        now.checked_add(self.wait(times_sent_again)?)
    }
}

/// Parts of a picosecond in which [`Level`] counts what a unit takes, as a power of two.
const FRACTION_BITS: u32 = 32;

/// A bucket at work: O(1) a request.
#[derive(Clone, Debug)]
struct Level {
    /// Time in which one unit flows in, in picoseconds / 2^[`FRACTION_BITS`].
    per_unit: u128,
    /// Time in which an empty bucket becomes full.
    capacity: u64,
    /// When it will be full.
    full_at: u64,
}

impl Level {
    fn new(bucket: Bucket) -> Level {
        let per_unit = PICOS_PER_SECOND as f64 / bucket.per_second * 2f64.powi(FRACTION_BITS as i32);
        let mut level = Level {
            per_unit: per_unit as u128,
            capacity: 0,
            full_at: 0,
        };
        let whole = level.inflow(bucket.burst.floor() as u64);
        let whole = whole.expect("config bounds the time in which a burst flows in");
        // Both are the same but for their rounding: a full bucket holds its whole burst.
        level.capacity = Picos::from_seconds(bucket.burst / bucket.per_second).0.max(whole);
        level
    }

    /// Time in which `units` flow in, rounded down: who takes what flows in is never short of a picosecond. `None` past
    /// the clock.
    fn inflow(&self, units: u64) -> Option<u64> {
        let picos = u128::from(units).checked_mul(self.per_unit)? >> FRACTION_BITS;
        u64::try_from(picos).ok()
    }

    /// When it will be full if `units` are taken at `now`; `None` if it does not hold so many.
    fn after(&self, now: Picos, units: u64) -> Option<u64> {
        let full_at = self.full_at.max(now.0);
        let after = full_at.checked_add(self.inflow(units)?)?;
        (after - now.0 <= self.capacity).then_some(after)
    }

    /// From when on it holds so many units; `None` if it never does.
    fn holds_at(&self, units: u64) -> Option<Picos> {
        let spare = self.capacity.checked_sub(self.inflow(units)?)?;
        Some(Picos(self.full_at.saturating_sub(spare)))
    }
}

/// What becomes of a request that comes to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It goes on.
    Pass,
    /// It waits for a place.
    Wait,
    /// A rate limit refuses it: 429.
    RateLimited,
    /// Everything is full: 503.
    Full,
}

/// The gate at work.
pub(super) struct Gate {
    spec: Admission,
    levels: Vec<(Option<u32>, Option<Level>, Option<Level>)>,
    in_flight: u32,
    /// Who waits for a place, and since when. Those who gave up are still in it.
    queue: VecDeque<(Picos, RequestId)>,
    /// Who will be sent again, and when. Those who gave up are still in it.
    again: BinaryHeap<Reverse<(Picos, RequestId)>>,
    /// Requests that are before the routers.
    held: FxHashMap<RequestId, Held>,
    waiting: u32,
    /// How often those were sent again that the gate refused and that never passed it.
    refused: FxHashMap<RequestId, u32>,
    /// What is known of requests behind the gate, where they may come back.
    lives: FxHashMap<RequestId, Life>,
}

/// A request before the routers.
struct Held {
    request: Request,
    /// It waits for a place, and not to be sent again.
    is_queued: bool,
}

/// A request's story up to the server that it is on.
#[derive(Clone, Debug)]
struct Life {
    /// As it is sent to a server.
    request: Request,
    /// When the client sent it first.
    arrival: Picos,
    times_sent_again: u32,
    first_scheduled: Option<Picos>,
    waited: Picos,
    preemptions: u32,
}

impl Gate {
    pub(super) fn new(spec: Admission) -> Gate {
        let level = |bucket: Option<Bucket>| bucket.map(Level::new);
        let levels = spec.rates.iter();
        let levels = levels.map(|limit| (limit.class, level(limit.requests), level(limit.tokens)));
        Gate {
            levels: levels.collect(),
            spec,
            in_flight: 0,
            queue: VecDeque::new(),
            again: BinaryHeap::new(),
            held: FxHashMap::default(),
            waiting: 0,
            refused: FxHashMap::default(),
            lives: FxHashMap::default(),
        }
    }

    /// Judges a request that has just come.
    pub(super) fn enter(&mut self, now: Picos, request: &Request) -> Entry {
        if !self.pays(now, request) {
            return Entry::RateLimited;
        }
        if self.has_place() && self.waiting == 0 {
            return Entry::Pass;
        }
        if self.waiting < self.spec.max_queue {
            Entry::Wait
        } else {
            Entry::Full
        }
    }

    fn pays(&mut self, now: Picos, request: &Request) -> bool {
        let tokens = u64::from(request.prompt_tokens) + u64::from(request.max_tokens);
        let holds = |class: Option<u32>| class.is_none_or(|class| class == request.class);
        let is_payable = self.levels.iter().all(|(class, requests, sizes)| {
            let can = |level: &Option<Level>, units| {
                level
                    .as_ref()
                    .is_none_or(|level| level.after(now, units).is_some())
            };
            !holds(*class) || (can(requests, 1) && can(sizes, tokens))
        });
        if is_payable {
            for (class, requests, sizes) in &mut self.levels {
                if holds(*class) {
                    for (level, units) in [(requests, 1), (sizes, tokens)] {
                        if let Some(level) = level {
                            level.full_at = level.after(now, units).expect("it was payable above");
                        }
                    }
                }
            }
        }
        is_payable
    }

    /// From when on the rate limits would let a request of so many tokens pass, as far as they are used now; `None` if they never do.
    pub(super) fn payable_at(&self, now: Picos, class: u32, tokens: u64) -> Option<Picos> {
        let mut at = now;
        for (of, requests, sizes) in &self.levels {
            if of.is_none_or(|of| of == class) {
                for (level, units) in [(requests, 1), (sizes, tokens)] {
                    if let Some(level) = level {
                        at = at.max(level.holds_at(units)?);
                    }
                }
            }
        }
        Some(at)
    }

    fn has_place(&self) -> bool {
        self.spec.max_in_flight.is_none_or(|most| self.in_flight < most)
    }

    /// A request waits for a place.
    pub(super) fn wait(&mut self, now: Picos, request: Request) {
        self.queue.push_back((now, request.id));
        self.hold(request, true);
        self.waiting += 1;
    }

    fn hold(&mut self, request: Request, is_queued: bool) {
        self.held.insert(request.id, Held { request, is_queued });
    }

    /// A request goes on to the routers, and takes a place.
    pub(super) fn passes(&mut self, request: &Request) {
        self.in_flight += 1;
        let times_sent_again = self.refused.remove(&request.id).unwrap_or(0);
        if self.spec.retries.is_some() {
            self.lives.insert(
                request.id,
                Life {
                    request: request.clone(),
                    arrival: request.arrival,
                    times_sent_again,
                    first_scheduled: None,
                    waited: Picos::ZERO,
                    preemptions: 0,
                },
            );
        }
    }

    /// A request that had passed has left for good.
    pub(super) fn left(&mut self, id: RequestId) {
        self.in_flight -= 1;
        self.lives.remove(&id);
    }

    /// Who goes on from the queue now; `None` if nobody waits, or there is no place.
    pub(super) fn next_in(&mut self) -> Option<Request> {
        if !self.has_place() {
            return None;
        }
        while let Some((_, id)) = self.queue.pop_front() {
            if let Some(held) = self.held.remove(&id) {
                self.waiting -= 1;
                return Some(held.request);
            }
        }
        None
    }

    /// Whether [`Gate::next_in`] has somebody.
    pub(super) fn has_next(&self) -> bool {
        self.waiting > 0 && self.has_place()
    }

    /// When somebody has waited long enough; perhaps for one who gave up before.
    pub(super) fn next_timeout(&self) -> Option<Picos> {
        let &(since, _) = self.queue.front()?;
        since.checked_add(self.spec.queue_timeout?)
    }

    /// Who has waited long enough.
    pub(super) fn timed_out(&mut self) -> Option<Request> {
        let (_, id) = self.queue.pop_front()?;
        let held = self.held.remove(&id)?;
        self.waiting -= 1;
        Some(held.request)
    }

    /// When somebody is sent again; perhaps one who gave up before.
    pub(super) fn next_again(&self) -> Option<Picos> {
        self.again.peek().map(|&Reverse((at, _))| at)
    }

    /// Who is sent again, and whether it had passed the gate before.
    pub(super) fn sent_again(&mut self) -> Option<(Request, bool)> {
        let Reverse((_, id)) = self.again.pop()?;
        let held = self.held.remove(&id)?;
        Some((held.request, self.lives.contains_key(&id)))
    }

    /// The client gives up a request that is before the routers; `None` if it is behind them. The other part says
    /// whether it had passed the gate before.
    pub(super) fn gives_up(&mut self, id: RequestId) -> Option<(Request, bool)> {
        let held = self.held.remove(&id)?;
        let has_passed = self.lives.contains_key(&id);
        self.waiting -= u32::from(held.is_queued);
        self.refused.remove(&id);
        Some((held.request, has_passed))
    }

    /// Plans to send a request again that a server refused at `now`; the request back if it is not.
    pub(super) fn refused(&mut self, now: Picos, request: Request) -> Option<Request> {
        match self.plan(now, request.id, |retries| retries.on_refusal) {
            true => {
                self.hold(request, false);
                None
            }
            false => Some(request),
        }
    }

    /// Plans that a request comes to the gate again that the gate refused at `now`; the request back if it does not.
    pub(super) fn turns_away(&mut self, now: Picos, request: Request) -> Option<Request> {
        let times = self.refused.remove(&request.id).unwrap_or(0);
        let retries = self.spec.retries.filter(|retries| retries.on_refusal);
        let planned = retries.and_then(|retries| Some((retries.at(now, times)?, retries.most)));
        match planned {
            Some((at, most)) if times < most => {
                self.refused.insert(request.id, times + 1);
                self.again.push(Reverse((at, request.id)));
                self.hold(request, false);
                None
            }
            _ => Some(request),
        }
    }

    /// Plans to send a request again whose replica failed; `false` if it is not.
    pub(super) fn failed(&mut self, completion: &Completion) -> bool {
        let is_failure = completion.outcome == Outcome::Failed;
        if !is_failure || !self.plan(completion.end, completion.id, |retries| retries.on_failure) {
            return false;
        }
        let life = self.lives.get_mut(&completion.id).expect("it was planned above");
        life.add(completion);
        // To the next server it comes when the last one failed: its wait there is a wait of its own.
        life.request.arrival = completion.end;
        let request = life.request.clone();
        self.hold(request, false);
        true
    }

    /// When the client of a request that is sent again gives up.
    pub(super) fn deadline(&self, completion: &Completion) -> Option<Picos> {
        self.lives.get(&completion.id)?.request.deadline
    }

    fn plan(&mut self, now: Picos, id: RequestId, applies: impl Fn(&Retries) -> bool) -> bool {
        let Some(retries) = self.spec.retries.filter(applies) else {
            return false;
        };
        let life = self.lives.get_mut(&id).expect("whoever passed has a life");
        if life.times_sent_again >= retries.most {
            return false;
        }
        let Some(at) = retries.at(now, life.times_sent_again) else {
            return false;
        };
        life.times_sent_again += 1;
        self.again.push(Reverse((at, id)));
        true
    }

    /// The whole story of a request, of which a server knows the last part.
    pub(super) fn whole_story(&self, completion: &mut Completion) {
        let Some(life) = self.lives.get(&completion.id) else {
            return;
        };
        if life.arrival == life.request.arrival {
            return;
        }
        let mut whole = life.clone();
        whole.add(completion);
        completion.arrival = life.arrival;
        completion.first_scheduled = whole.first_scheduled.unwrap_or(life.arrival);
        completion.waiting_time = whole.waited;
        completion.preemptions = whole.preemptions;
    }
}

impl Life {
    /// Adds what a server tells of its part.
    fn add(&mut self, part: &Completion) {
        let has_run = part.first_scheduled > part.arrival || part.first_token.is_some();
        if has_run && self.first_scheduled.is_none() {
            self.first_scheduled = Some(part.first_scheduled);
        }
        // A server does not count the wait that an end cuts short; where it is the only one, it is the whole part.
        self.waited += if has_run {
            part.waiting_time
        } else {
            part.end.saturating_sub(part.arrival)
        };
        self.preemptions += part.preemptions;
    }
}

#[cfg(test)]
mod tests;
