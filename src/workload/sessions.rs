//! Multi-turn conversations.
//!
//! All of a conversation (turns, lengths, think times) is drawn when it is opened, so that the order in which a
//! server answers changes no text. Turn k's prompt is everything said before plus its new tokens. Answers enter the
//! history at the length that was planned.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::rngs::ChaCha8Rng;
use slab::Slab;

use super::arrivals::after;
use super::client::think_time;
use super::endings::geometric;
use super::request::{Piece, Prompt};
use super::segments;
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};
use crate::units::{Picos, TEXT_TOKENS_MAX as TOKENS_MAX};

/// Think times of conversations share their purpose with those of users; users are numbered below this.
const SESSION_THINK_TIMES: u64 = 1 << 40;

/// Laws of conversations, and those that are open.
#[derive(Debug)]
pub(super) struct Sessions {
    turns: Turns,
    think_time: Picos,
    shared_system_len: u32,
    turns_rng: ChaCha8Rng,
    think_rng: ChaCha8Rng,
    open: Slab<Session>,
    /// Turns whose time is known, by when they are submitted; ties leave in the order in which they became known.
    due: BinaryHeap<Reverse<(Picos, u64, usize)>>,
    scheduled: u64,
    clock_exhausted: bool,
}

#[derive(Debug)]
enum Turns {
    Exactly(u64),
    Geometric { p: f64 },
}

#[derive(Debug)]
struct Session {
    /// The number of its first request.
    number: Option<u64>,
    user: Option<u32>,
    ahead: VecDeque<Turn>,
    priority: i64,
    history: Vec<Piece>,
    history_tokens: u32,
}

/// One planned exchange: lengths in tokens, and the think time before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) new_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) max_tokens: u32,
    pub(super) think_time: Picos,
}

/// A turn put into the shape of a request.
#[derive(Debug)]
pub(super) struct Utterance {
    pub(super) prompt_tokens: u32,
    pub(super) prompt: Prompt,
    pub(super) output_tokens: u32,
    pub(super) max_tokens: u32,
    pub(super) priority: i64,
    /// The conversation: the number of its first request.
    pub(super) session: u64,
}

impl Sessions {
    pub(super) fn new(
        turns: f64,
        fixed_turns: bool,
        think_time: Picos,
        system_len: u32,
        seed: u64,
    ) -> Sessions {
        assert!(
            (1.0..=1e6).contains(&turns),
            "a conversation has between 1 and a million turns"
        );
        assert!(
            system_len <= TOKENS_MAX,
            "a shared system prompt has at most 2^28 tokens"
        );
        let turns = if fixed_turns {
            assert!(turns.fract() == 0.0, "a fixed number of turns is a whole number");
            Turns::Exactly(turns as u64)
        } else {
            Turns::Geometric { p: 1.0 / turns }
        };
        Sessions {
            turns,
            think_time,
            shared_system_len: system_len,
            turns_rng: stream(seed, Purpose::Prefixes, 0),
            think_rng: stream(seed, Purpose::ThinkTimes, SESSION_THINK_TIMES),
            open: Slab::new(),
            due: BinaryHeap::new(),
            scheduled: 0,
            clock_exhausted: false,
        }
    }

    /// Opens a conversation, led by `user` where there are users, of at most `turns_max` turns, whose lengths `draw`
    /// gives as (new, output, max) tokens. It is cut before the turn whose prompt would exceed 2²⁸ tokens. Returns its
    /// key and number of turns.
    pub(super) fn open(
        &mut self,
        user: Option<u32>,
        turns_max: u64,
        priority: i64,
        mut draw: impl FnMut() -> (u32, u32, u32),
    ) -> (usize, u64) {
        let turns = match self.turns {
            Turns::Exactly(turns) => turns,
            Turns::Geometric { p } => geometric(p, &mut self.turns_rng),
        };
        let mut ahead = VecDeque::new();
        let mut text = self.shared_system_len;
        for turn in 0..turns.min(turns_max) {
            let (new_tokens, output_tokens, max_tokens) = draw();
            let think_time = if turn == 0 {
                Picos::ZERO
            } else {
                think_time(self.think_time, &mut self.think_rng)
            };
            if turn > 0 && text + new_tokens > TOKENS_MAX {
                break;
            }
            text += new_tokens + output_tokens;
            ahead.push_back(Turn {
                new_tokens,
                output_tokens,
                max_tokens,
                think_time,
            });
            if text > TOKENS_MAX {
                break;
            }
        }
        let planned = ahead.len() as u64;
        let mut history = Vec::with_capacity(1 + 2 * ahead.len().min(64));
        if self.shared_system_len > 0 {
            history.push(Piece {
                segment: segments::system(),
                start: 0,
                tokens: self.shared_system_len,
            });
        }
        let session = Session {
            user,
            number: None,
            ahead,
            priority,
            history,
            history_tokens: self.shared_system_len,
        };
        (self.open.insert(session), planned)
    }

    /// Says the next turn of conversation `key` as request `id`.
    pub(super) fn speak(&mut self, key: usize, id: RequestId) -> Utterance {
        let session = &mut self.open[key];
        let turn = session
            .ahead
            .pop_front()
            .expect("a conversation speaks only while it has turns ahead");
        let prompt_tokens = session.history_tokens + turn.new_tokens;
        let own = Piece {
            segment: segments::own(id),
            start: 0,
            tokens: turn.new_tokens,
        };
        let is_alone = session.history.is_empty() && session.ahead.is_empty();
        let prompt = if is_alone {
            Prompt::Unique
        } else {
            let mut pieces = Vec::with_capacity(session.history.len() + 1);
            pieces.extend_from_slice(&session.history);
            pieces.push(own);
            Prompt::Pieces(pieces.into_boxed_slice())
        };
        if !session.ahead.is_empty() {
            let answer = Piece {
                segment: segments::output(id),
                start: prompt_tokens,
                tokens: turn.output_tokens,
            };
            session.history.extend([own, answer]);
            session.history_tokens = prompt_tokens + turn.output_tokens;
        }
        Utterance {
            session: *session.number.get_or_insert(id.0),
            prompt_tokens,
            prompt,
            output_tokens: turn.output_tokens,
            max_tokens: turn.max_tokens,
            priority: session.priority,
        }
    }

    /// The answer came at `now`: the next turn is submitted after its think time. Returns whether there is one.
    pub(super) fn answered(&mut self, key: usize, now: Picos) -> bool {
        let Some(next) = self.open[key].ahead.front() else {
            self.close(key);
            return false;
        };
        let Some(submitted) = after(now, next.think_time) else {
            self.clock_exhausted = true;
            self.close(key);
            return false;
        };
        self.due.push(Reverse((submitted, self.scheduled, key)));
        self.scheduled += 1;
        true
    }

    /// Forgets a conversation; turns still ahead are never sent.
    pub(super) fn close(&mut self, key: usize) {
        self.open.remove(key);
    }

    /// When the next turn after an answer is submitted.
    pub(super) fn peek(&self) -> Option<Picos> {
        self.due.peek().map(|Reverse((submitted, ..))| *submitted)
    }

    /// The conversation whose turn [`Sessions::peek`] announced, and the user who leads it.
    pub(super) fn take(&mut self) -> (usize, Option<u32>) {
        let Reverse((_, _, key)) = self.due.pop().expect("a turn that was announced is due");
        (key, self.open[key].user)
    }

    pub(super) fn clock_exhausted(&self) -> bool {
        self.clock_exhausted
    }
}

#[cfg(test)]
mod tests;
