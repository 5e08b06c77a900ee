//! What a client sends.

use crate::ids::{RequestId, SegmentId};
use crate::units::Picos;

/// One request as the server receives it. Lengths are what will happen, not what was asked for: a simulator knows
/// how long the answer will be, the scheduler only looks at [`Request::max_tokens`]. The default, without a token, only stands
/// where a request was that somebody has taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Its number, in order of sending.
    pub id: RequestId,
    /// When the client sent it: the clock of TTFT and E2EL starts here.
    pub arrival: Picos,
    /// How long it had waited in the client for a place under `max_concurrency`.
    pub client_queue_time: Picos,
    /// Prompt tokens, at least 1.
    pub prompt_tokens: u32,
    /// Tokens that it will generate if nothing cuts it short, at least 1.
    pub output_tokens: u32,
    /// `max_tokens` of the request; equal to `output_tokens` unless the output ends by itself (EOS) before.
    pub max_tokens: u32,
    /// Smaller is served first under the priority policy.
    pub priority: i64,
    /// Its class, from 0; 0 where there are none.
    pub class: u32,
    /// What the prompt's tokens are, as far as sharing goes.
    pub prompt: Prompt,
    /// Identity of the generated tokens: token `j` is `(output_segment, prompt_tokens + j)`.
    pub output_segment: SegmentId,
    /// The conversation or user that it belongs to, for routers that keep those together; `None` if it stands alone.
    pub session: Option<u64>,
    /// The client forbids an end-of-sequence token to end the output, so the server knows the length beforehand. An
    /// engine may count on it (SGLang's admission does, SG-17).
    pub ignore_eos: bool,
    /// The client gives up at this instant; `None` waits for ever.
    pub deadline: Option<Picos>,
}

impl Request {
    /// What the prompt's tokens are; one that is shared with nobody is a text of its own.
    pub(crate) fn prompt_pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let (own, shared) = match &self.prompt {
            // The top bit keeps these texts apart from those of the workload.
            Prompt::Unique => (Some(SegmentId(1 << 63 | self.id.0)), [].as_slice()),
            Prompt::Pieces(pieces) => (None, &**pieces),
        };
        let own = own.map(|segment| Piece {
            segment,
            start: 0,
            tokens: self.prompt_tokens,
        });
        own.into_iter().chain(shared.iter().copied())
    }

    /// Whether the output ends by an end-of-sequence token rather than by length.
    #[must_use]
    pub fn ends_by_eos(&self) -> bool {
        self.output_tokens < self.max_tokens
    }
}

/// The identity of a prompt's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// Shared with nobody.
    #[default]
    Unique,
    /// Pieces that other prompts (or answers) may contain too; their lengths add up to `prompt_tokens`.
    Pieces(Box<[Piece]>),
}

impl Prompt {
    /// The pieces that others may contain too.
    #[must_use]
    pub fn shared(&self) -> &[Piece] {
        match self {
            Prompt::Unique => &[],
            Prompt::Pieces(pieces) => pieces,
        }
    }
}

/// A run of tokens `(segment, start) … (segment, start + tokens − 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Which text.
    pub segment: SegmentId,
    /// Index of the first token within that text.
    pub start: u32,
    /// How many.
    pub tokens: u32,
}
