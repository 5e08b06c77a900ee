//! What times to first token and times per output token are made of: an observer of facts, for whoever asks why.
//!
//! Of each answered request:
//! ```text
//! TTFT = gateway + front end in + queue + preempted + step ahead + own prefill + interference + hand-over + front end out
//!        queue = step under way + token budget + seats + KV pool + other
//! last token − first token = decode + prompts + preempted + no step + delivery
//! ```
//! Law: both are exact, to the picosecond. What is left over has a name of its own in each and is never clamped:
//!
//! * *Interference* is what its steps took beyond what its prompt takes alone. It is negative where somebody else's work made a
//!   prompt cheaper: who was first admitted in the same instant to a step that the GPU runs from a CUDA graph, say. With scattered steps
//!   the scatter is in it, with tiers of KV the loads and stores, with ranks in step the waits for each other, and in a pipeline what
//!   the stages do at once.
//! * *Delivery* is negative where the first token waited longer for the front end than the last one did.
//! * *No step* is what is left of the time between the tokens: 0 where the replica always ran a step.
//!
//! Shares of the queue are differences of functions of time, one for each cause (`history.rs`, where it stands how a cause is known).
//! A step costs O(1), but for one with prompts: its decodes are priced again without them. Memory is O(in flight) and [`KEPT_MAX`] requests: of
//! more, every second is let go each time there are so many.

mod alone;
mod group;
mod history;
mod parts;

use self::alone::Alone;
use self::history::{History, Rules, Work};
pub use group::{Anatomies, Group, TokenGroup};
pub use parts::{RequestAnatomy, TpotPart, TtftPart};

use crate::ids::{ReplicaId, RequestId};
use crate::sim::{Completion, Fact, Observer, Outcome, Scenario};
use crate::units::Picos;
use crate::window::Window;

/// Requests that are kept at most: 45 MB.
pub const KEPT_MAX: usize = 1 << 18;

/// On which replica a request was prefilled, and since when.
#[derive(Clone, Copy, Debug)]
struct Admission {
    replica: ReplicaId,
    queued_since: Picos,
    first: Picos,
    /// The same unless it was preempted before its first token.
    last: Picos,
    known: u32,
    cached: u32,
}

/// From the first token on.
#[derive(Clone, Copy, Debug)]
struct Decoding {
    replica: ReplicaId,
    first_token: Picos,
    /// What its replica had done by then.
    work: Work,
    /// Since when it waits after a preemption, and whether it was admitted again.
    away: Option<(Picos, bool)>,
    /// Of preemptions that are over.
    away_picos: i128,
    /// What its replica did meanwhile.
    away_work: Work,
    /// When its engine had its last token, and what its replica had done by then.
    left: Option<(Picos, Work)>,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    arrival: Picos,
    sent: Option<Picos>,
    admission: Option<Admission>,
    /// When a prefill replica was done with it.
    prefilled: Option<Picos>,
    /// All parts but the last.
    ttft: [i64; TtftPart::COUNT],
    decoding: Option<Decoding>,
}

impl Life {
    fn new(arrival: Picos) -> Life {
        Life {
            arrival,
            sent: None,
            admission: None,
            prefilled: None,
            ttft: [0; TtftPart::COUNT],
            decoding: None,
        }
    }

    /// Since when the past of its replica matters.
    fn needs(&self) -> Option<Picos> {
        match (&self.decoding, self.admission) {
            (Some(decoding), _) => decoding.away.map(|(since, _)| since),
            (None, Some(_)) if self.prefilled.is_some() => None,
            (None, Some(admission)) => Some(admission.queued_since),
            // When it reaches its queue, which is not before it is sent.
            (None, None) => Some(self.sent.unwrap_or(self.arrival)),
        }
    }
}

/// The observer.
pub struct Anatomy {
    /// Prices of each pool, and the pool of each replica.
    prices: Vec<Alone>,
    pool_of: Vec<usize>,
    /// Answers leave whole there, and have no tokens to tell apart.
    answers_whole: Vec<bool>,
    histories: Vec<History>,
    live: Window<Life>,
    kept: Vec<RequestAnatomy>,
    /// One in so many is kept, in order of leaving, and how many have left since.
    one_in: u64,
    passed_over: u64,
    answered: u64,
}

impl Anatomy {
    /// Of a scenario's replicas.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Anatomy {
        let pool_of: Vec<usize> = scenario
            .pool_of_each()
            .into_iter()
            .map(|pool| pool as usize)
            .collect();
        let rules: Vec<Rules> = scenario
            .pools
            .iter()
            .map(|pool| Rules::of(&pool.engine))
            .collect();
        Anatomy {
            prices: scenario.pools.iter().map(Alone::of).collect(),
            answers_whole: scenario
                .pools
                .iter()
                .map(|pool| pool.engine.answers_whole())
                .collect(),
            histories: pool_of
                .iter()
                .map(|pool| History::new(rules[*pool].clone()))
                .collect(),
            pool_of,
            live: Window::default(),
            kept: Vec::new(),
            one_in: 1,
            passed_over: 0,
            answered: 0,
        }
    }

    /// Ends the run.
    #[must_use]
    pub fn finish(self) -> Anatomies {
        Anatomies::new(self.kept, self.one_in, self.answered)
    }

    /// Its prefill ended at `now`: all parts of the time so far.
    fn prefilled(&mut self, id: RequestId, now: Picos) {
        let Some(life) = self.live.get_mut(id).filter(|life| life.prefilled.is_none()) else {
            return;
        };
        let Some(admission) = life.admission else { return };
        let history = &self.histories[admission.replica.0 as usize];
        let (under_way, waits) = history.wait(admission.queued_since, admission.first);
        let ahead = history.step_ahead(admission.last);
        let own =
            self.prices[self.pool_of[admission.replica.0 as usize]].prompt(admission.cached, admission.known);
        let sent = life.sent.unwrap_or(life.arrival);
        let between = |later: Picos, earlier: Picos| later.0 as i64 - earlier.0 as i64;
        let mut put = |part: TtftPart, picos: i64| life.ttft[part as usize] += picos;
        put(TtftPart::Gateway, between(sent, life.arrival));
        put(TtftPart::FrontEndIn, between(admission.queued_since, sent));
        put(TtftPart::StepUnderWay, under_way.0 as i64);
        let causes = [
            TtftPart::TokenBudget,
            TtftPart::Seats,
            TtftPart::KvPool,
            TtftPart::OtherWait,
        ];
        for (cause, picos) in causes.into_iter().zip(waits) {
            put(
                cause,
                i64::try_from(picos).expect("no wait is longer than the clock"),
            );
        }
        put(TtftPart::Preempted, between(admission.last, admission.first));
        put(TtftPart::StepAhead, ahead.0 as i64);
        put(TtftPart::OwnPrefill, own.0 as i64);
        let in_steps = between(now, admission.last);
        put(TtftPart::Interference, in_steps - ahead.0 as i64 - own.0 as i64);
        life.prefilled = Some(now);
    }

    fn first_token(&mut self, id: RequestId, replica: ReplicaId, now: Picos) {
        self.prefilled(id, now);
        let work = self.histories[replica.0 as usize].work_at(now);
        let Some(life) = self.live.get_mut(id).filter(|life| life.decoding.is_none()) else {
            return;
        };
        let Some(prefilled) = life.prefilled else { return };
        life.ttft[TtftPart::HandOver as usize] += (now - prefilled).0 as i64;
        life.decoding = Some(Decoding {
            replica,
            first_token: now,
            work,
            away: None,
            away_picos: 0,
            away_work: Work::default(),
            left: None,
        });
    }

    fn admitted(&mut self, id: RequestId, admission: Admission) {
        let Some(life) = self.live.get_mut(id) else { return };
        if let Some(decoding) = &mut life.decoding {
            if let Some((_, is_back)) = &mut decoding.away {
                *is_back = true;
            }
        } else if life.prefilled.is_none() {
            life.admission = Some(match life.admission {
                Some(before) => Admission {
                    queued_since: before.queued_since,
                    first: before.first,
                    ..admission
                },
                None => admission,
            });
        }
    }

    /// Whoever was preempted has a token again at `now`.
    fn back(&mut self, id: RequestId, now: Picos) {
        let decoding = self.live.get_mut(id).and_then(|life| life.decoding.as_mut());
        if let Some(decoding) = decoding
            && let Some((since, true)) = decoding.away
        {
            decoding.end_absence(since, now, &self.histories[decoding.replica.0 as usize]);
        }
    }

    /// The engine is done with an answer.
    fn left(&mut self, id: RequestId, now: Picos) {
        let decoding = self.live.get_mut(id).and_then(|life| life.decoding.as_mut());
        if let Some(decoding) = decoding.filter(|decoding| decoding.left.is_none()) {
            let history = &self.histories[decoding.replica.0 as usize];
            if let Some((since, _)) = decoding.away {
                decoding.end_absence(since, now, history);
            }
            decoding.left = Some((now, history.work_at(now)));
        }
    }

    fn ended(&mut self, completion: &Completion) {
        self.left(completion.id, completion.end);
        let Some(life) = self.live.remove(completion.id) else {
            return;
        };
        let (Some(first_token), Some(decoding), Some(admission)) =
            (completion.first_token, life.decoding, life.admission)
        else {
            return;
        };
        if completion.outcome != Outcome::Completed {
            return;
        }
        self.answered += 1;
        self.passed_over += 1;
        if self.passed_over < self.one_in {
            return;
        }
        self.passed_over = 0;
        let mut ttft = life.ttft;
        ttft[TtftPart::FrontEndOut as usize] += first_token.0 as i64 - decoding.first_token.0 as i64;
        let whole = self.answers_whole[self.pool_of[decoding.replica.0 as usize]];
        let gaps = completion.output_tokens.saturating_sub(1);
        let tokens =
            (gaps > 0 && !whole).then(|| decoding.tokens(completion.end.0 as i128 - first_token.0 as i128));
        self.kept.push(RequestAnatomy {
            ended: completion.end,
            ttft,
            tokens: tokens.flatten(),
            gaps,
            prompt_tokens: admission.known - admission.cached,
        });
        if self.kept.len() == KEPT_MAX {
            let mut nth = 0u32;
            self.kept.retain(|_| {
                nth += 1;
                nth.is_multiple_of(2)
            });
            self.one_in *= 2;
        }
    }

    /// Lets go of a replica's past that nobody needs.
    fn forget(&mut self, replica: usize) {
        let needs = self.live.iter().filter_map(|(_, life)| life.needs());
        let needed = needs.min().unwrap_or(Picos::MAX);
        self.histories[replica].forget_before(needed);
    }
}

impl Decoding {
    fn end_absence(&mut self, since: Picos, now: Picos, history: &History) {
        self.away = None;
        self.away_picos += i128::from((now - since).0);
        let meanwhile = history.work_at(now).since(history.work_at(since));
        self.away_work = self.away_work.plus(meanwhile);
    }

    /// By [`TpotPart`], of `seen` picoseconds between the client's first and last token.
    fn tokens(&self, seen: i128) -> Option<[i64; TpotPart::COUNT]> {
        let (last_token, work) = self.left?;
        let own = work.since(self.work).since(self.away_work);
        let at_engine = i128::from(last_token.0) - i128::from(self.first_token.0);
        let idle = at_engine - own.decode - own.prompts - self.away_picos;
        let parts = [own.decode, own.prompts, self.away_picos, idle, seen - at_engine];
        Some(parts.map(|picos| i64::try_from(picos).expect("no answer takes longer than the clock")))
    }
}

impl Observer for Anatomy {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => {
                let replica = steps.replica.0 as usize;
                let alone = &mut self.prices[self.pool_of[replica]];
                self.histories[replica].push(steps, |load| alone.decodes(load));
                if self.histories[replica].is_full() {
                    self.forget(replica);
                }
            }
            Fact::Arrived { request } => {
                self.live.insert(request.id, Life::new(request.arrival));
            }
            Fact::Sent { now, id, .. } => {
                if let Some(life) = self.live.get_mut(id).filter(|life| life.admission.is_none()) {
                    // Prefill and decode replicas may both be told at once.
                    life.sent.get_or_insert(now);
                }
            }
            Fact::Admitted {
                now,
                replica,
                id,
                queued_since,
                known_tokens,
                cached_tokens,
                ..
            } => self.admitted(
                id,
                Admission {
                    replica,
                    queued_since,
                    first: now,
                    last: now,
                    known: known_tokens,
                    cached: cached_tokens,
                },
            ),
            Fact::Loaded { id, tokens, .. } => {
                let life = self.live.get_mut(id).filter(|life| life.prefilled.is_none());
                if let Some(admission) = life.and_then(|life| life.admission.as_mut()) {
                    admission.cached += tokens;
                }
            }
            Fact::Preempted { now, id, .. } => {
                let decoding = self.live.get_mut(id).and_then(|life| life.decoding.as_mut());
                if let Some(decoding) = decoding {
                    let since = decoding.away.map_or(now, |(since, _)| since);
                    decoding.away = Some((since, false));
                }
            }
            Fact::HandedOver { now, id, .. } => self.prefilled(id, now),
            Fact::FirstToken { now, replica, id, .. } => self.first_token(id, replica, now),
            Fact::Gap { now, id, .. } => self.back(id, now),
            Fact::Leaving { now, id } => self.left(id, now),
            Fact::Returned(completion) => {
                if let Some(life) = self.live.get_mut(completion.id) {
                    *life = Life::new(life.arrival);
                }
            }
            Fact::Rejected { request, .. } => {
                self.live.remove(request.id);
            }
            Fact::Ended(completion) => self.ended(completion),
            _ => {}
        }
    }
}
