//! Synthetic traffic: puts instants, lengths, shared texts and the client's manners together.
//!
//! A *start* is what an arrival process sends: a request, or the first turn of a conversation. A start that is not
//! held back by anything costs two random draws and no heap operation; memory is proportional to what is in flight
//! (and nothing for open traffic without sessions), never to how much was sent.
//!
//! Laws:
//! * Sends never go back in time. Equal specification and seed give equal requests, and texts, lengths and priorities
//!   do not depend on when earlier ones ended (with [`Arrivals::Users`], on which user sent them neither).
//! * `num_prompts` counts requests, turns included. A conversation reserves its turns when it opens and the last one
//!   is cut to what is left, so exactly so many are sent unless one fails: the turns that a dropped conversation had
//!   ahead are sent by nobody.
//! * Submissions pass `max_concurrency` in order. In a closed loop ([`Arrivals::AllAtOnce`] with a limit) a turn that
//!   is due goes before a new conversation: the backlog of starts is endless and would never let it pass.
//! * A closed loop without an end sends again whenever one fails: where a server refuses at once, no time passes, and
//!   whoever simulates it must see that it never will.
//! * A source whose next instant lies past the end of the clock ends; [`Generator::clock_exhausted`] says so.

mod contents;
mod starts;

use std::hint::cold_path;

use rustc_hash::FxHashMap;

use contents::{Contents, request};
use starts::Starts;

use super::client::{Places, Priorities};
use super::groups::GroupSampler;
use super::recorded::{Recorded, Speaker};
use super::request::{Piece, Prompt, Request};
use super::reuse::Reuse;
use super::segments;
use super::sessions::{Sessions, Utterance};
use super::{Arrivals, Prefix, Source, Traffic, WorkloadSpec};
use crate::ids::RequestId;
use crate::units::{Picos, TEXT_TOKENS_MAX as TOKENS_MAX};

/// A [`Traffic`] made from a [`WorkloadSpec`] and a seed.
#[derive(Debug)]
pub struct Generator {
    starts: Starts,
    contents: Contents,
    sharing: Sharing,
    priorities: Priorities,
    places: Option<Places>,
    /// Starts that waited in the client are passed over by turns that are due.
    is_closed_loop: bool,
    /// Who sent what is in flight, kept only where an end makes somebody send again.
    in_flight: Option<FxHashMap<RequestId, Sender>>,
    timeout: Option<Picos>,
    /// Nothing is sent at or after this instant.
    closes: Picos,
    /// [`Generator::next_send`], asked anew whenever something was sent or somebody left.
    next: Option<Send>,
    /// Requests that no start has reserved yet.
    unreserved: u64,
    /// When the last conversation that there are requests for was begun.
    last_opened: Option<Picos>,
    sent: u64,
    sent_output_tokens: u64,
    last_sent: Picos,
}

#[derive(Debug)]
enum Sharing {
    None,
    Groups {
        groups: Box<GroupSampler>,
        prefix_len: u32,
    },
    Reuse(Box<Reuse>),
    Sessions(Box<Sessions>),
    Recorded(Box<Recorded>),
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Sender {
    user: Option<u32>,
    session: Option<Turn>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
enum Turn {
    OfSession(usize),
    Recorded(Speaker),
}

/// The next send: when, since when it waits in the client, and what it is.
#[derive(Clone, Copy, Debug)]
struct Send {
    at: Picos,
    submitted: Picos,
    is_turn: bool,
}

impl Generator {
    /// Opens the traffic of `spec`.
    ///
    /// # Panics
    /// If `spec` is not valid: rates that are not positive, empty lists, a rule that needs `num_prompts` without it.
    #[must_use]
    pub fn new(spec: &WorkloadSpec, seed: u64) -> Generator {
        let is_all_at_once = matches!(spec.arrivals, Arrivals::AllAtOnce);
        assert!(
            !is_all_at_once || spec.num_prompts.is_some() || spec.client.max_concurrency.is_some(),
            "sending everything at once needs num_prompts or max_concurrency"
        );
        let sharing = Sharing::new(spec, seed);
        assert!(
            spec.classes.is_empty() || matches!(sharing, Sharing::None | Sharing::Groups { .. }),
            "classes are of requests that stand alone"
        );
        let is_answered = spec.has_conversations() || matches!(spec.arrivals, Arrivals::Users { .. });
        let listed = match &spec.prefix {
            Prefix::Recorded(recording) => recording.requests().len() as u64,
            _ => u64::MAX,
        };
        let mut generator = Generator {
            starts: Starts::new(spec, seed),
            contents: Contents::new(spec, seed),
            sharing,
            priorities: Priorities::new(&spec.client.priorities, seed),
            places: spec.client.max_concurrency.map(Places::new),
            is_closed_loop: is_all_at_once && spec.client.max_concurrency.is_some(),
            in_flight: is_answered.then(FxHashMap::default),
            timeout: spec.client.timeout,
            closes: spec.duration.unwrap_or(Picos::MAX),
            next: None,
            unreserved: spec.num_prompts.unwrap_or(u64::MAX).min(listed),
            last_opened: None,
            sent: 0,
            sent_output_tokens: 0,
            last_sent: Picos::ZERO,
        };
        generator.next = generator.next_send();
        generator
    }

    /// How many requests were sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    #[inline(always)]
    fn next_send(&self) -> Option<Send> {
        let free = match &self.places {
            None => Picos::ZERO,
            Some(places) => places.free_since()?,
        };
        let start = if self.unreserved > 0 {
            self.starts.peek()
        } else {
            None
        };
        let turn = match &self.sharing {
            Sharing::Sessions(sessions) => sessions.peek(),
            Sharing::Recorded(recorded) => recorded.peek(),
            Sharing::None | Sharing::Groups { .. } | Sharing::Reuse(_) => None,
        };
        let (submitted, is_turn) = match (start, turn) {
            (None, None) => return None,
            (Some(start), None) => (start, false),
            (None, Some(turn)) => (turn, true),
            (Some(start), Some(turn)) if turn <= start => (turn, true),
            (Some(_), Some(turn)) if self.is_closed_loop && turn <= free => (turn, true),
            (Some(start), Some(_)) => (start, false),
        };
        let at = submitted.max(free).max(self.last_sent);
        (at < self.closes).then_some(Send {
            at,
            submitted,
            is_turn,
        })
    }

    #[inline(always)]
    fn start(&mut self, id: RequestId, Send { at, submitted, .. }: Send) -> (Request, Sender) {
        let user = self.starts.take();
        let class = self.priorities.draw();
        let contents = &mut self.contents;
        match &mut self.sharing {
            Sharing::Sessions(sessions) => {
                let draw = || contents.draw();
                let (key, turns) = sessions.open(user, self.unreserved, class.unwrap_or(0), draw);
                self.unreserved -= turns;
                self.last_opened = (self.unreserved == 0).then_some(submitted);
                let request = sessions.speak(key, id).into_request(id);
                (
                    request,
                    Sender {
                        user,
                        session: Some(Turn::OfSession(key)),
                    },
                )
            }
            Sharing::Recorded(recorded) => {
                cold_path();
                let (speaker, turns) = recorded.open(user, self.unreserved, class.unwrap_or(0), (id, at));
                self.unreserved -= turns;
                self.last_opened = (self.unreserved == 0).then_some(submitted);
                let session = Some(Turn::Recorded(speaker));
                (recorded.speak(speaker, id), Sender { user, session })
            }
            sharing => {
                self.unreserved -= 1;
                let mut request = contents.request(id);
                if let Some(class) = class {
                    request.priority = class;
                }
                match sharing {
                    Sharing::Groups { groups, prefix_len } => {
                        put_in_front(&mut request, groups.draw(), *prefix_len);
                    }
                    Sharing::Reuse(reuse) => request.prompt = reuse.prompt(id, request.prompt_tokens),
                    Sharing::None | Sharing::Sessions(_) | Sharing::Recorded(_) => {}
                }
                (request, Sender { user, session: None })
            }
        }
    }

    /// The request left: its place is free and its sender may go on.
    #[inline]
    fn left(&mut self, id: RequestId, now: Picos, is_answered: bool) {
        if self.ignores_answers() {
            return;
        }
        if let Some(places) = &mut self.places {
            places.give_back(now);
        }
        self.let_go_on(id, now, is_answered);
        self.next = self.next_send();
    }

    fn let_go_on(&mut self, id: RequestId, now: Picos, is_answered: bool) {
        let Some(in_flight) = &mut self.in_flight else {
            return;
        };
        let sender = in_flight
            .remove(&id)
            .expect("a request ends once, after it was sent");
        let goes_on = match (sender.session, &mut self.sharing) {
            (Some(Turn::OfSession(key)), Sharing::Sessions(sessions)) if is_answered => {
                sessions.answered(key, now)
            }
            (Some(Turn::OfSession(key)), Sharing::Sessions(sessions)) => {
                sessions.close(key);
                false
            }
            (Some(Turn::Recorded(speaker)), Sharing::Recorded(recorded)) => {
                recorded.left(speaker, now, is_answered)
            }
            _ => false,
        };
        if goes_on {
            return;
        }
        if let (Some(user), Starts::Users(users)) = (sender.user, &mut self.starts) {
            users.think(user, now);
        }
    }
}

impl Traffic for Generator {
    #[inline]
    fn next_arrival(&mut self) -> Option<Picos> {
        debug_assert_eq!(
            self.next.map(|send| send.at),
            self.next_send().map(|send| send.at),
            "nothing else changes what is sent next"
        );
        self.next.map(|send| send.at)
    }

    fn take(&mut self) -> Request {
        let send = self.next.expect("a request is taken only when one was announced");
        let id = RequestId(self.sent);
        let (mut request, sender) = match &mut self.sharing {
            Sharing::Sessions(sessions) if send.is_turn => {
                cold_path();
                let (key, user) = sessions.take();
                (
                    sessions.speak(key, id).into_request(id),
                    Sender {
                        user,
                        session: Some(Turn::OfSession(key)),
                    },
                )
            }
            Sharing::Recorded(recorded) if send.is_turn => {
                cold_path();
                let (speaker, user) = recorded.take();
                let session = Some(Turn::Recorded(speaker));
                (recorded.speak(speaker, id), Sender { user, session })
            }
            _ => self.start(id, send),
        };
        // A replayed request still carries its own arrival, and its deadline is relative to that.
        let own_patience = request
            .deadline
            .map(|deadline| deadline.saturating_sub(request.arrival));
        request.deadline = self
            .timeout
            .or(own_patience)
            .and_then(|patience| send.at.checked_add(patience));
        request.ignore_eos &= self.contents.endings.is_none();
        request.arrival = send.at;
        request.session = request.session.or(sender.user.map(u64::from));
        request.client_queue_time = send.at - send.submitted;
        if let Some(places) = &mut self.places {
            places.take();
        }
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.insert(id, sender);
        }
        self.sent += 1;
        self.sent_output_tokens += u64::from(request.output_tokens);
        self.last_sent = send.at;
        self.next = self.next_send();
        request
    }

    #[inline]
    fn ended(&mut self, id: RequestId, now: Picos) {
        self.left(id, now, true);
    }

    fn failed(&mut self, id: RequestId, now: Picos) {
        self.left(id, now, false);
    }
}

impl Source for Generator {
    fn mean_output_tokens(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.sent_output_tokens as f64 / self.sent as f64)
    }

    fn clock_exhausted(&self) -> bool {
        let starts = match &self.starts {
            Starts::Open { instants, .. } => self.unreserved > 0 && instants.clock_exhausted(),
            Starts::Users(users) => users.clock_exhausted(),
        };
        starts
            || match &self.sharing {
                Sharing::Sessions(sessions) => sessions.clock_exhausted(),
                Sharing::Recorded(recorded) => recorded.clock_exhausted(),
                Sharing::None | Sharing::Groups { .. } | Sharing::Reuse(_) => false,
            }
    }

    fn ignores_answers(&self) -> bool {
        self.places.is_none() && self.in_flight.is_none()
    }

    fn fresh_until(&self) -> Picos {
        let is_open = matches!(self.starts, Starts::Open { .. });
        self.last_opened.filter(|_| is_open).unwrap_or(Picos::MAX)
    }
}

fn put_in_front(request: &mut Request, group: u32, prefix_len: u32) {
    if prefix_len == 0 {
        return;
    }
    let prefix = Piece {
        segment: segments::group(group),
        start: 0,
        tokens: prefix_len,
    };
    let own = Piece {
        segment: segments::own(request.id),
        start: 0,
        tokens: request.prompt_tokens,
    };
    request.prompt_tokens += prefix_len;
    request.prompt = Prompt::Pieces(Box::new([prefix, own]));
}

impl Utterance {
    fn into_request(self, id: RequestId) -> Request {
        Request {
            priority: self.priority,
            prompt: self.prompt,
            session: Some(self.session),
            ..request(id, self.prompt_tokens, self.output_tokens, self.max_tokens)
        }
    }
}

impl Sharing {
    fn new(spec: &WorkloadSpec, seed: u64) -> Sharing {
        let is_replay = matches!(spec.arrivals, Arrivals::Replay { .. });
        assert!(
            !is_replay || spec.prefix == Prefix::None,
            "a replayed trace brings its own sharing"
        );
        match spec.prefix {
            Prefix::None => Sharing::None,
            Prefix::Groups {
                count,
                prefix_len,
                zipf,
                exact_shares,
            } => {
                assert!(
                    prefix_len <= TOKENS_MAX,
                    "a shared prefix has at most 2^28 tokens"
                );
                // A run without an end, as those of a knee, has nothing to deal out: its shares are right on average.
                let dealt = spec.num_prompts.filter(|_| exact_shares);
                Sharing::Groups {
                    groups: Box::new(GroupSampler::new(count, zipf, dealt, seed)),
                    prefix_len,
                }
            }
            Prefix::Recorded(ref recording) => Sharing::Recorded(Box::new(Recorded::new(recording.clone()))),
            Prefix::Reuse(ref law) => Sharing::Reuse(Box::new(Reuse::new(law.clone(), seed))),
            Prefix::Sessions {
                turns,
                fixed_turns,
                think_time,
                shared_system_len,
            } => Sharing::Sessions(Box::new(Sessions::new(
                turns,
                fixed_turns,
                think_time,
                shared_system_len,
                seed,
            ))),
        }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
pub(super) mod tests;
