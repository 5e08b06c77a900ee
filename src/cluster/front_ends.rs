//! The front ends of what serves: every request goes in through one, and every token comes out through it.
//!
//! Engines tell of the ends of their steps. What of them is told on is when clients see it: this stands between the engines and whoever
//! observes.

use std::hint::cold_path;

use super::frontend::{Entrance, Frontend};
use super::streaming::{Pace, Streaming};
use crate::engine::{Outlook, Untold};
use crate::facts::{Completion, Fact, Observer, Outcome, SeenGaps, Steps};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::window::Window;

/// The front end of each replica, or one that they share.
pub(crate) struct FrontEnds {
    /// Ways in: one for each replica, or one of all.
    entrances: Vec<Entrance>,
    /// Ways out, of each replica where handing tokens on takes time; empty where it does on none.
    streams: Vec<Option<Streaming>>,
    /// The replicas share the processes.
    is_shared: bool,
    /// Of requests inside that have a token.
    handed: Window<Handed>,
}

/// How much later than the engine told them tokens of a request were handed on.
#[derive(Clone, Copy, Debug)]
struct Handed {
    /// The first.
    first: Picos,
    /// The last that was told of alone, and when the engine told it. Steps of a pipeline may end together, and then their ends do not
    /// say which one it was of.
    last: Picos,
    at: Picos,
}

impl FrontEnds {
    /// Those of so many replicas.
    pub(crate) fn new(frontends: Vec<Frontend>) -> FrontEnds {
        let is_shared = frontends.iter().any(|frontend| frontend.is_shared);
        debug_assert!(
            !is_shared || frontends.windows(2).all(|pair| pair[0] == pair[1]),
            "of one server"
        );
        let replicas = frontends.len();
        let own = if is_shared { 1 } else { replicas };
        let stream = |frontend: &Frontend| {
            let pace = Pace {
                token: frontend.per_token_of_many(),
                piece: frontend.per_handed_token(),
                at_once: frontend.outputs_at_once,
                servers: u64::from(frontend.servers.get()),
                sharers: if is_shared { replicas as u64 } else { 1 },
            };
            (pace.piece > Picos::ZERO).then(|| Streaming::new(pace))
        };
        let mut streams: Vec<Option<Streaming>> = frontends.iter().map(stream).collect();
        if streams.iter().all(Option::is_none) {
            streams.clear();
        }
        FrontEnds {
            entrances: frontends.into_iter().take(own).map(Entrance::new).collect(),
            streams,
            is_shared,
            handed: Window::default(),
        }
    }

    /// The way into a replica.
    #[inline]
    fn entrance(&mut self, replica: usize) -> &mut Entrance {
        let last = self.entrances.len() - 1;
        &mut self.entrances[replica.min(last)]
    }

    /// Whether requests for a replica wait behind its answers. Where replicas share their processes they do not: when the answers
    /// of the others came is not known yet.
    #[inline]
    pub(crate) fn has_one_loop(&self, replica: usize) -> bool {
        !self.is_shared && matches!(self.streams.get(replica), Some(Some(_)))
    }

    /// When the queue of a replica's engine has a request that is sent there now. Where there is [one
    /// loop](FrontEnds::has_one_loop) all that the replica did so far has been told.
    #[inline(always)]
    pub(crate) fn pass(&mut self, replica: usize, now: Picos, prompt_tokens: u32) -> Picos {
        if !self.is_shared
            && let Some(stream) = self.streams.get_mut(replica).and_then(Option::as_mut)
        {
            let entrance = &mut self.entrances[replica];
            if stream.servers() == 1 {
                entrance.is_free_from(stream.done());
            }
            stream.take_in(now, entrance.work(prompt_tokens));
        }
        self.entrance(replica).pass(now, prompt_tokens)
    }

    /// The same, without that having been told, if the request is through before it matters.
    #[inline]
    pub(crate) fn pass_aside(
        &mut self,
        replica: usize,
        now: Picos,
        prompt_tokens: u32,
        outlook: &Outlook,
    ) -> Option<Picos> {
        let stream = self.streams.get_mut(replica)?.as_mut()?;
        let entrance = &mut self.entrances[replica];
        let begin = stream.take_in_aside(now, entrance.work(prompt_tokens), outlook)?;
        entrance.is_free_from(begin);
        Some(entrance.pass(now, prompt_tokens))
    }

    /// Who hears the engines on behalf of an observer.
    #[inline(always)]
    pub(crate) fn heard_by<'a, O: Observer>(&'a mut self, observer: &'a mut O) -> AtClients<'a, O> {
        AtClients { ends: self, observer }
    }

    /// Moves the times of an answer from its engine to its client. Whether they are others.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, completion: &mut Completion) -> bool {
        let replica = completion.replica.0 as usize;
        let response = self.entrance(replica).response_delay();
        let (mut first, mut last) = (response, response);
        if let Some(Some(stream)) = self.streams.get_mut(replica) {
            let lags = lags_of(stream, self.handed.remove(completion.id), completion);
            (first, last) = (first + lags.0, last + lags.1);
        }
        completion.end += last;
        // Whose replica failed may never have had a token that was on its way.
        let end = completion.end;
        let seen = completion.first_token.map(|at| at + first);
        completion.first_token = seen.filter(|at| *at <= end);
        last > Picos::ZERO
    }

    /// How long after the end of its step a request's first token is with its client, once it has one and until it has left.
    pub(crate) fn way_out(&mut self, replica: ReplicaId, id: RequestId) -> Picos {
        let lag = self.handed.get_mut(id).map_or(Picos::ZERO, |handed| handed.first);
        self.entrance(replica.0 as usize).response_delay() + lag
    }

    /// A replica fails, and with it what its processes have to do. Answers that left it before are still delivered.
    pub(crate) fn restart(&mut self, replica: usize) {
        if let Some(Some(stream)) = self.streams.get_mut(replica) {
            stream.restart();
            if !self.is_shared {
                self.entrances[replica].restart();
            }
        }
    }

    /// A request left without an answer.
    pub(crate) fn forget(&mut self, id: RequestId) {
        if !self.streams.is_empty() {
            self.handed.remove(id);
            self.streams
                .iter_mut()
                .flatten()
                .for_each(|stream| stream.no_longer_waits(id));
        }
    }

    /// The gap of the first of these steps as clients see it, and those of all where they are not as far apart as their steps.
    #[inline(always)]
    fn hand_on(&mut self, steps: &Steps<'_>) -> (Picos, Option<SeenGaps>) {
        let replica = steps.replica.0 as usize;
        let Some(stream) = &mut self.streams[replica] else {
            return (steps.gap, None);
        };
        let seen = stream.hand_on(steps);
        if !self.is_shared && stream.servers() > 1 {
            cold_path();
            let work = stream.work(steps.handed);
            self.entrances[replica].hand_on(&Untold::of(steps), work);
        }
        // Nearly always the loop waits for steps, and tokens are as far apart as these.
        let keeps_up = seen.behind == 0
            && (steps.count == 1 || seen.caught_up == steps.duration + steps.duration_increment);
        if keeps_up {
            (seen.first, None)
        } else {
            cold_path();
            (steps.gap, Some(seen))
        }
    }

    /// What a client sees of a gap that is told of alone.
    fn seen(&mut self, replica: ReplicaId, id: RequestId, now: Picos, gap: Picos) -> Picos {
        let Some(stream) = &mut self.streams[replica.0 as usize] else {
            return gap;
        };
        let since = now.saturating_sub(gap);
        let lag = stream.lag_at(now);
        let before = match self.handed.get_mut(id) {
            None => stream.lag_at(since),
            Some(handed) => {
                let before = match handed.at == since {
                    true => handed.last,
                    false => stream.lag_at(since),
                };
                (handed.last, handed.at) = (lag, now);
                before
            }
        };
        stream.no_longer_waits(id);
        (gap + lag).saturating_sub(before)
    }

    /// The way out of a replica, where it takes time.
    fn stream(&mut self, replica: ReplicaId) -> Option<&mut Streaming> {
        self.streams[replica.0 as usize].as_mut()
    }
}

/// How long the processes of a replica, which have other things to do, keep back the first and the last token of an answer.
#[inline(never)]
fn lags_of(stream: &mut Streaming, handed: Option<Handed>, completion: &Completion) -> (Picos, Picos) {
    let mut last = Picos::ZERO;
    if completion.outcome == Outcome::Completed {
        let alone = handed.filter(|handed| handed.at == completion.end);
        last = alone.map_or_else(|| stream.lag_at(completion.end), |handed| handed.last);
    }
    stream.no_longer_waits(completion.id);
    (handed.map_or(Picos::ZERO, |handed| handed.first), last)
}

/// Hears engines, and tells on what clients see.
pub(crate) struct AtClients<'a, O> {
    ends: &'a mut FrontEnds,
    observer: &'a mut O,
}

impl<O: Observer> AtClients<'_, O> {
    #[inline(never)]
    fn at_clients(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => {
                let (gap, seen) = self.ends.hand_on(steps);
                self.observer.observe(&Fact::Steps(&Steps {
                    gap,
                    seen: seen.as_ref(),
                    ..*steps
                }));
            }
            Fact::FirstToken { now, replica, id, .. } => {
                if let Some(stream) = self.ends.stream(replica) {
                    let lag = stream.lag_at(now);
                    // It may have been preempted before.
                    stream.no_longer_waits(id);
                    let handed = Handed {
                        first: lag,
                        last: lag,
                        at: now,
                    };
                    self.ends.handed.insert(id, handed);
                }
                self.observer.observe(fact);
            }
            Fact::Preempted { now, replica, id, .. } => {
                if let Some(stream) = self.ends.stream(replica) {
                    stream.waits(id, now);
                }
                self.observer.observe(fact);
            }
            Fact::Gap {
                now,
                replica,
                id,
                gap,
                ..
            } => {
                let seen = self.ends.seen(replica, id, now, gap);
                self.observer.observe(&Fact::Gap {
                    now,
                    replica,
                    id,
                    gap,
                    seen,
                });
            }
            _ => unreachable!("what is not of tokens is told as it is"),
        }
    }
}

/// Whether clients see a fact otherwise than the engine told it, or what they see of later ones depends on it.
#[inline(always)]
fn is_of_tokens(fact: &Fact<'_>) -> bool {
    matches!(
        fact,
        Fact::Steps(_) | Fact::FirstToken { .. } | Fact::Gap { .. } | Fact::Preempted { .. }
    )
}

impl<O: Observer> Observer for AtClients<'_, O> {
    #[inline(always)]
    fn observe(&mut self, fact: &Fact<'_>) {
        if is_of_tokens(fact) && !self.ends.streams.is_empty() {
            self.at_clients(fact);
        } else {
            self.observer.observe(fact);
        }
    }
}
