//! What every answer has in common, whole or streamed: its head, and the sequences that were taken in for it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Api;
use super::error::ApiError;
use super::request::Request;
use crate::serve::desk::{Answer, Desk, House, Said};
use crate::serve::filler::Filler;
use crate::serve::text::name;

/// What all chunks of an answer carry.
pub struct Head {
    /// `cmpl-…` or `chatcmpl-…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// What answers call the model.
    pub model: String,
    /// Which program answered.
    pub fingerprint: String,
}

impl Head {
    /// Of a request that came at `now`, in Unix seconds; `number` is of no other one of this server.
    pub fn new(
        api: Api,
        request_id: Option<&str>,
        model: &str,
        house: &House,
        number: u64,
        now: u64,
    ) -> Head {
        let prefix = match api {
            Api::Completions => "cmpl",
            Api::Chat => "chatcmpl",
        };
        let id = match request_id {
            Some(id) => id.to_owned(),
            None => format!("{:016x}{number:016x}", name("request", (house.created, number))),
        };
        Head {
            id: format!("{prefix}-{id}"),
            created: now,
            model: model.to_owned(),
            fingerprint: format!("plimsoll-{}-{}", env!("CARGO_PKG_VERSION"), house.engine),
        }
    }
}

/// Numbers of requests over HTTP, from 0.
#[derive(Default)]
pub struct Numbers(AtomicU64);

impl Numbers {
    /// The next one.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// One sequence of a request, taken in.
pub struct Taken {
    /// Its place among the choices.
    pub index: usize,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Most tokens of its answer.
    pub most_tokens: u32,
    /// Its text.
    pub filler: Filler,
    /// What is heard of it.
    pub answer: Answer,
}

/// Asks for all sequences of a request at once, and waits until they are taken in. Where one is refused, so are all.
pub async fn ask(desk: &Desk, request: Request) -> Result<Vec<Taken>, ApiError> {
    let house = desk.house();
    let asked: Vec<(Option<u32>, Answer)> = request
        .asks
        .into_iter()
        .map(|ask| (ask.max_tokens, desk.ask(ask)))
        .collect();
    let count = asked.len();
    let mut taken = Vec::with_capacity(count);
    for (index, (max_tokens, mut answer)) in asked.into_iter().enumerate() {
        let (id, prompt_tokens) = match answer.next().await {
            Some(Said::Taken { id, prompt_tokens }) => (id, prompt_tokens),
            Some(Said::Ended(ending)) => {
                let mut error = ApiError::of_ending(&ending, house).unwrap_or_else(ApiError::closed);
                // When the limit lets one sequence pass says nothing of several, each of which pays.
                error.retry_after = error.retry_after.filter(|_| count == 1);
                return Err(error);
            }
            Some(Said::Tokens(_)) | None => return Err(ApiError::closed()),
        };
        taken.push(Taken {
            index,
            prompt_tokens,
            most_tokens: max_tokens.unwrap_or(house.max_model_len.saturating_sub(prompt_tokens)),
            filler: Filler::new(id, prompt_tokens, house.created, house.chars_per_token),
            answer,
        });
    }
    Ok(taken)
}
