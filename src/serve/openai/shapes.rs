//! The JSON of answers, field by field as vLLM 0.33 names them, and `plimsoll` beside `usage`: what the simulator says of the latencies.

use serde::Serialize;

use crate::serve::desk::{Ending, Why};

/// An answer, or a chunk of one.
#[derive(Serialize)]
pub struct Envelope<'a, Choice> {
    /// The same in all chunks.
    pub id: &'a str,
    /// `text_completion`, `chat.completion` or `chat.completion.chunk`.
    pub object: &'static str,
    /// Unix seconds.
    pub created: u64,
    /// The first name of the model.
    pub model: &'a str,
    /// None in a last chunk of usage.
    pub choices: Vec<Choice>,
    /// Of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_fingerprint: Option<&'a str>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Simulated latencies, where there is one sequence that they can be of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plimsoll: Option<Simulated>,
}

/// A choice of `/v1/completions`, whole or in part.
#[derive(Serialize)]
pub struct TextChoice {
    /// Which of `n` answers of which prompt.
    pub index: usize,
    /// What is new.
    pub text: String,
    /// Always null.
    pub logprobs: Option<()>,
    /// `stop` or `length`, at the end.
    pub finish_reason: Option<&'static str>,
    /// Always null.
    pub stop_reason: Option<()>,
}

/// A choice of `/v1/chat/completions`.
#[derive(Serialize)]
pub struct MessageChoice {
    /// Which of `n` answers.
    pub index: usize,
    /// The answer.
    pub message: Message,
    /// Always null.
    pub logprobs: Option<()>,
    /// `stop` or `length`.
    pub finish_reason: Option<&'static str>,
    /// Always null.
    pub stop_reason: Option<()>,
}

/// The message of an answer.
#[derive(Serialize)]
pub struct Message {
    /// `assistant`.
    pub role: &'static str,
    /// The text.
    pub content: String,
    /// Always null.
    pub refusal: Option<()>,
    /// Always null.
    pub reasoning: Option<()>,
}

/// A choice of a chunk of `/v1/chat/completions`.
#[derive(Serialize)]
pub struct DeltaChoice {
    /// Which of `n` answers.
    pub index: usize,
    /// What is new.
    pub delta: Delta,
    /// Always null.
    pub logprobs: Option<()>,
    /// `stop` or `length`, at the end.
    pub finish_reason: Option<&'static str>,
}

/// What is new of a message.
#[derive(Serialize)]
pub struct Delta {
    /// In the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// The text.
    pub content: String,
}

/// Tokens of a request.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Usage {
    /// Each prompt once.
    pub prompt_tokens: u64,
    /// Of both.
    pub total_tokens: u64,
    /// Of all answers.
    pub completion_tokens: u64,
    /// Once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptDetails>,
}

/// Where prompt tokens came from.
#[derive(Clone, Copy, Default, Serialize)]
pub struct PromptDetails {
    /// Found in the prefix cache, by the first answer to each prompt.
    pub cached_tokens: u64,
}

/// What the simulator says of a request's latencies.
#[derive(Clone, Copy, Serialize)]
pub struct Simulated {
    /// From its arrival to its first token.
    pub ttft_ms: Option<f64>,
    /// From its arrival to its end.
    pub e2el_ms: f64,
}

impl Simulated {
    /// Of a request that ended.
    pub fn of(ending: &Ending) -> Simulated {
        Simulated {
            ttft_ms: ending.ttft_s.map(milliseconds),
            e2el_ms: milliseconds(ending.e2el_s),
        }
    }
}

impl Usage {
    /// Of sequences of which every `n` share a prompt.
    pub fn of(endings: &[Ending], n: usize) -> Usage {
        let per_prompt = || endings.iter().step_by(n);
        let prompt_tokens = per_prompt().map(|ending| u64::from(ending.prompt_tokens)).sum();
        let completion_tokens = endings.iter().map(|ending| u64::from(ending.output_tokens)).sum();
        let cached_tokens = per_prompt().map(|ending| u64::from(ending.cached_tokens)).sum();
        Usage {
            prompt_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            completion_tokens,
            prompt_tokens_details: Some(PromptDetails { cached_tokens }),
        }
    }
}

/// OpenAI's word for an ending that is one.
pub fn finish_reason(why: Why) -> Option<&'static str> {
    match why {
        Why::Stop => Some("stop"),
        Why::Length => Some("length"),
        Why::TooLong | Why::Full | Why::RateLimited | Why::Failed | Why::Closed => None,
    }
}

/// To the nanosecond, which is what is left of picoseconds behind the seconds of a long run.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e6
}
