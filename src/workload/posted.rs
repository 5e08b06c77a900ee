//! Traffic that somebody posts while the simulation goes on.

use std::collections::VecDeque;

use super::segments;
use super::{Piece, Prompt, Request, Traffic};
use crate::ids::RequestId;
use crate::units::Picos;

/// A part of a posted prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A text of so many tokens; equal names are equal texts.
    Text {
        /// What names it. The lower 60 bits count.
        name: u64,
        /// How long it is.
        tokens: u32,
    },
    /// What an earlier request generated, sent back.
    Answer {
        /// That request.
        id: RequestId,
        /// The tokens of its prompt, behind which its answer begins.
        start: u32,
        /// How many tokens of it.
        tokens: u32,
    },
}

impl Span {
    /// Its tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        match *self {
            Span::Text { tokens, .. } | Span::Answer { tokens, .. } => tokens,
        }
    }

    pub(super) fn piece(&self) -> Piece {
        let (segment, start) = match *self {
            Span::Text { name, .. } => (segments::posted(name), 0),
            Span::Answer { id, start, .. } => (segments::output(id), start),
        };
        Piece {
            segment,
            start,
            tokens: self.tokens(),
        }
    }
}

/// A request to be posted.
#[derive(Clone, Debug)]
pub struct Post {
    /// Its prompt, at least one token of it.
    pub prompt: Vec<Span>,
    /// Tokens that it will generate if nothing cuts it short, at least 1.
    pub output_tokens: u32,
    /// Tokens that it may generate at most.
    pub max_tokens: u32,
    /// Smaller is served first under the priority policy.
    pub priority: i64,
    /// Its class, from 0; 0 where there are none.
    pub class: u32,
    /// No end-of-sequence token ends its output.
    pub ignore_eos: bool,
    /// The conversation or user that it belongs to.
    pub session: Option<u64>,
}

/// Requests that were posted and are not sent yet.
#[derive(Debug, Default)]
pub struct Posted {
    waiting: VecDeque<Request>,
    posted: u64,
}

impl Posted {
    /// Posts a request that is sent at `at`, no earlier than the one before; its number.
    ///
    /// # Panics
    /// If it has no tokens, more than 2³² − 1 of them, or is earlier than the one before.
    pub fn post(&mut self, post: &Post, at: Picos) -> RequestId {
        let pieces: Box<[Piece]> = post.prompt.iter().map(Span::piece).collect();
        let prompt_tokens: u64 = pieces.iter().map(|piece| u64::from(piece.tokens)).sum();
        let prompt_tokens = u32::try_from(prompt_tokens).expect("prompts are shorter than 2^32 tokens");
        assert!(
            prompt_tokens > 0 && pieces.iter().all(|piece| piece.tokens > 0),
            "a prompt has tokens"
        );
        assert!(
            self.waiting.back().is_none_or(|last| last.arrival <= at),
            "requests are posted in order of time"
        );
        let id = RequestId(self.posted);
        self.posted += 1;
        self.waiting.push_back(Request {
            id,
            arrival: at,
            client_queue_time: Picos::ZERO,
            prompt_tokens,
            output_tokens: post.output_tokens,
            max_tokens: post.max_tokens,
            priority: post.priority,
            class: post.class,
            prompt: Prompt::Pieces(pieces),
            output_segment: segments::output(id),
            session: post.session,
            ignore_eos: post.ignore_eos,
            deadline: None,
        });
        id
    }
}

impl Traffic for Posted {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.waiting.front().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.waiting.pop_front().expect("a request was announced")
    }

    fn ended(&mut self, _id: RequestId, _now: Picos) {}
}
