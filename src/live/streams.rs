//! From facts to the tokens of each request: when its client has them.
//!
//! Facts about steps do not name their sequences ([`crate::metrics`] keeps gaps, not tokens). A sequence takes part in every step of its
//! replica that has gaps, from its first token on, until it is preempted or passed over; that it was passed over is told only
//! when it has its next token, as a [`Fact::Gap`]. What was told of it meanwhile was none of its own. What nobody has heard of is taken back; for what was
//! heard as many tokens behind are kept back: the number of tokens is right at any end, their times are but for such a stretch (of more than 64 steps: from there on). Likewise it is told late whether a step that began as
//! it was preempted brought it a token.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{Delivered, Delivery, Ended};
use crate::facts::{Completion, Fact, Outcome, Rejection, Relay, Steps};
use crate::ids::{ReplicaId, RequestId};
use crate::metrics::gaps::{self, GapRun};
use crate::units::Picos;

/// Tokens of a sequence that may turn out to be none of its own.
const REVOCABLE: usize = 64;

/// The requests whose tokens are delivered one by one, and what is to be delivered.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: FxHashMap<RequestId, Stream>,
    replicas: Vec<Decoding>,
    rejected: FxHashMap<RequestId, Rejection>,
    /// What those would have had to pay whom a rate limit refused.
    unpaid: FxHashMap<RequestId, Bill>,
    /// First tokens told since the last time, whose way to their client is asked for.
    first: Vec<(RequestId, ReplicaId)>,
    /// The same of requests that have left, whose story tells it.
    ways: FxHashMap<RequestId, Picos>,
    told: Told,
}

/// What was told since the last time.
#[derive(Debug, Default)]
struct Told {
    deliveries: Vec<Delivery>,
    /// How often it was taken away.
    taken: u64,
}

/// Where a delivery is in what was told: how often that had been taken away, and which it is.
type Place = (u64, usize);

impl Told {
    fn push(&mut self, at: Picos, id: RequestId, what: Delivered) -> Place {
        self.deliveries.push(Delivery { at, id, what });
        (self.taken, self.deliveries.len() - 1)
    }

    /// Takes tokens back that nobody has heard of; `false` if somebody has.
    fn take_back(&mut self, (taken, index): Place) -> bool {
        let is_here = taken == self.taken;
        if is_here {
            self.deliveries[index].what = Delivered::Tokens(0);
        }
        is_here
    }

    fn take(&mut self) -> Vec<Delivery> {
        self.taken += 1;
        let mut told = std::mem::take(&mut self.deliveries);
        told.retain(|delivery| delivery.what != Delivered::Tokens(0));
        told
    }
}

/// What a request pays at a rate limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    pub(super) class: u32,
    pub(super) tokens: u64,
}

/// What decodes on a replica.
#[derive(Debug, Default)]
struct Decoding {
    streams: Vec<RequestId>,
    schedules_ahead: bool,
    /// The end of the last step told.
    last_end: Picos,
}

/// One request.
#[derive(Debug, Default)]
struct Stream {
    output_tokens: u32,
    replica: ReplicaId,
    is_decoding: bool,
    /// It was preempted at this instant: of the steps of its replica those that began before are the last with a token of it.
    preempted: Option<Picos>,
    /// The token of a step that began as it was preempted, if it has one: when the engine would have told it, and its gap.
    perhaps: Option<(Picos, Picos)>,
    /// Prefilled on another replica: its first token is of none of the steps of this one.
    is_relayed: bool,
    /// When the engine told the first token, until the way to its client is known.
    first_told: Option<Picos>,
    /// From the end of a step to the engine's telling of its token.
    delivery: Picos,
    /// When its client had the last token.
    seen: Picos,
    /// Tokens delivered.
    delivered: u32,
    /// Of them, those that were none of its own.
    ahead: u32,
    /// The last tokens.
    recent: VecDeque<Token>,
}

/// A token of which it may turn out that it is none.
#[derive(Debug)]
struct Token {
    /// When the engine told it.
    told: Picos,
    /// When its client had it.
    seen: Picos,
    /// Where it was told, unless its client had had it before.
    place: Option<Place>,
}

impl Streams {
    /// Of replicas that [schedule ahead](crate::sim::Simulation::schedules_ahead) or do not.
    pub(super) fn new(schedules_ahead: Vec<bool>) -> Streams {
        let decoding = |schedules_ahead| Decoding {
            schedules_ahead,
            ..Decoding::default()
        };
        Streams {
            replicas: schedules_ahead.into_iter().map(decoding).collect(),
            ..Streams::default()
        }
    }

    /// Tokens of a request are to be delivered, so many if nothing cuts it short.
    pub(super) fn open(&mut self, id: RequestId, output_tokens: u32) {
        let stream = Stream {
            output_tokens,
            ..Stream::default()
        };
        self.open.insert(id, stream);
    }

    pub(super) fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => self.steps(steps),
            Fact::FirstToken { now, id, .. } => self.first_token(id, now),
            Fact::Gap {
                now, id, gap, seen, ..
            } => self.gap(id, (now.saturating_sub(gap), now), seen),
            Fact::Sent { now, id, .. } => {
                self.told.push(now, id, Delivered::Taken);
            }
            Fact::Rejected { request, why, .. } => {
                self.rejected.insert(request.id, why);
                if why == Rejection::RateLimited {
                    let tokens = u64::from(request.prompt_tokens) + u64::from(request.max_tokens);
                    let class = request.class;
                    self.unpaid.insert(request.id, Bill { class, tokens });
                }
            }
            Fact::Ended(completion) => self.ended(completion),
            _ => self.observe_stream(fact),
        }
    }

    /// What changes how a stream goes on, and delivers nothing but tokens that came in one piece.
    fn observe_stream(&mut self, fact: &Fact<'_>) {
        let id = match *fact {
            Fact::Admitted { id, .. }
            | Fact::Preempted { id, .. }
            | Fact::Relayed(&Relay { id, .. })
            | Fact::Returned(&Completion { id, .. })
            | Fact::Burst { id, .. } => id,
            _ => return,
        };
        let Some(stream) = self.open.get_mut(&id) else {
            return;
        };
        match *fact {
            Fact::Admitted { replica, .. } => stream.replica = replica,
            Fact::Preempted { now, .. } => stream.preempted = stream.preempted.or(Some(now)),
            Fact::Relayed(_) => stream.is_relayed = true,
            Fact::Burst { tokens, .. } => {
                stream.deliver(id, tokens, &mut self.told);
            }
            _ => {
                // Its answer begins anew, and its client has had this much of it.
                *stream = Stream {
                    output_tokens: stream.output_tokens,
                    delivered: stream.delivered,
                    ahead: stream.delivered,
                    is_decoding: stream.is_decoding,
                    replica: stream.replica,
                    ..Stream::default()
                };
                self.pause(id);
            }
        }
    }

    fn steps(&mut self, steps: &Steps<'_>) {
        let decoding = &mut self.replicas[steps.replica.0 as usize];
        decoding.last_end = steps.end;
        if steps.gap_seqs == 0 || decoding.streams.is_empty() {
            return;
        }
        let later: u64 = (1..steps.count)
            .map(|i| steps.duration.0 + steps.duration_increment.0 * i)
            .sum();
        let (mut begin, mut end) = (steps.begin, Picos(steps.end.0 - later));
        let mut duration = steps.duration;
        for gap in gaps::of_steps(steps).into_iter().flat_map(GapRun::gaps) {
            let (open, told) = (&mut self.open, &mut self.told);
            decoding.streams.retain(|id| {
                let Some(stream) = open.get_mut(id) else {
                    return false;
                };
                let told_at = end + stream.delivery;
                match stream.preempted {
                    Some(at) if at <= begin => {
                        // Where steps are scheduled ahead, one that begins as another is scheduled is still its own.
                        if at == begin && decoding.schedules_ahead {
                            stream.next(*id, told_at, gap, told);
                        } else if at == begin {
                            stream.perhaps = Some((told_at, gap));
                        }
                        stream.is_decoding = false;
                        false
                    }
                    _ => {
                        stream.next(*id, told_at, gap, told);
                        true
                    }
                }
            });
            duration += steps.duration_increment;
            (begin, end) = (end, end + duration);
        }
    }

    fn first_token(&mut self, id: RequestId, now: Picos) {
        let Some(stream) = self.open.get_mut(&id) else {
            return;
        };
        let last_end = self.replicas[stream.replica.0 as usize].last_end;
        stream.delivery = match stream.is_relayed {
            true => Picos::ZERO,
            false => now.saturating_sub(last_end),
        };
        stream.seen = now;
        stream.first_told = Some(now);
        self.first.push((id, stream.replica));
        let place = stream.deliver(id, 1, &mut self.told);
        stream.remember(now, place);
        self.go_on(id);
    }

    /// It had no token between these two instants, and its client saw none for so long.
    fn gap(&mut self, id: RequestId, (since, now): (Picos, Picos), seen: Picos) {
        let Some(stream) = self.open.get_mut(&id) else {
            return;
        };
        while let Some(token) = stream.recent.pop_back_if(|token| token.told > since) {
            match token.place.is_some_and(|place| self.told.take_back(place)) {
                true => stream.delivered -= 1,
                false => stream.ahead += 1,
            }
        }
        if let Some((told, gap)) = stream.perhaps.take()
            && told <= since
        {
            stream.next(id, told, gap, &mut self.told);
        }
        stream.seen = stream.recent.back().map_or(stream.seen, |token| token.seen);
        stream.next(id, now, seen, &mut self.told);
        self.go_on(id);
    }

    /// Steps of its replica from now on bring it tokens.
    fn go_on(&mut self, id: RequestId) {
        let Some(stream) = self.open.get_mut(&id) else {
            return;
        };
        stream.preempted = None;
        if !std::mem::replace(&mut stream.is_decoding, true) {
            self.replicas[stream.replica.0 as usize].streams.push(id);
        }
    }

    /// Steps of its replica from now on bring it none.
    fn pause(&mut self, id: RequestId) {
        if let Some(stream) = self.open.get_mut(&id)
            && std::mem::take(&mut stream.is_decoding)
        {
            self.replicas[stream.replica.0 as usize]
                .streams
                .retain(|other| *other != id);
        }
    }

    fn ended(&mut self, completion: &Completion) {
        let id = completion.id;
        self.pause(id);
        if let Some(mut stream) = self.open.remove(&id)
            && let Some(first) = completion.first_token
        {
            let told = stream.first_told.unwrap_or(first);
            let way = first.saturating_sub(told);
            self.ways.insert(id, way);
            if completion.outcome == Outcome::Completed {
                stream.seen = completion.end.saturating_sub(way);
                let missing = completion.output_tokens.saturating_sub(stream.delivered);
                stream.ahead = 0;
                stream.deliver(id, missing, &mut self.told);
            }
        }
        let rejection = self.rejected.remove(&id);
        let what = Delivered::End(Ended {
            completion: completion.clone(),
            rejection,
            payable_at: None,
        });
        self.told.push(completion.end, id, what);
    }

    /// What a request would have had to pay that a rate limit refused; told once.
    pub(super) fn unpaid(&mut self, id: RequestId) -> Option<Bill> {
        self.unpaid.remove(&id)
    }

    /// What was told since the last time. Of a request whose first token was told at an instant, `seen_first` says when its client has it.
    pub(super) fn settle(
        &mut self,
        mut seen_first: impl FnMut(ReplicaId, RequestId, Picos) -> Picos,
    ) -> Vec<Delivery> {
        for (id, replica) in std::mem::take(&mut self.first) {
            if let Some(stream) = self.open.get_mut(&id)
                && let Some(told) = stream.first_told.take()
            {
                let way = seen_first(replica, id, told).saturating_sub(told);
                stream.seen += way;
                stream.recent.iter_mut().for_each(|token| token.seen += way);
                self.ways.insert(id, way);
            }
        }
        let ways = std::mem::take(&mut self.ways);
        let mut told = self.told.take();
        for delivery in &mut told {
            if let (Delivered::Tokens(_), Some(way)) = (&delivery.what, ways.get(&delivery.id)) {
                delivery.at += *way;
            }
        }
        told
    }
}

impl Stream {
    /// The engine told a token, which its client has so long after the one before.
    fn next(&mut self, id: RequestId, told: Picos, gap: Picos, out: &mut Told) {
        self.seen += gap;
        let place = self.deliver(id, 1, out);
        self.remember(told, place);
    }

    /// The engine told a token at this instant.
    fn remember(&mut self, told: Picos, place: Option<Place>) {
        if self.recent.len() == REVOCABLE {
            self.recent.pop_front();
        }
        let seen = self.seen;
        self.recent.push_back(Token { told, seen, place });
    }

    /// So many tokens reach its client, but for those that it has had already.
    fn deliver(&mut self, id: RequestId, tokens: u32, out: &mut Told) -> Option<Place> {
        let again = tokens.min(self.ahead);
        self.ahead -= again;
        let tokens = (tokens - again).min(self.output_tokens - self.delivered);
        self.delivered += tokens;
        (tokens > 0).then(|| out.push(self.seen, id, Delivered::Tokens(tokens)))
    }
}
