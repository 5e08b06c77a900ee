//! From the body of a request to what the desk is asked: which model, how many answers, how long, and how they are told.
//!
//! Limits are vLLM 0.33's (`get_max_tokens`, `SamplingParams._verify_args`): an answer has at most the room that its prompt leaves in the
//! context, and a prompt that fills it is refused. All fields of a wrong shape are told at once, then all values that are refused.

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::fields::Fields;
use super::{Api, chat, parameters, prompt};
use crate::serve::desk::{Ask, House, Name, Span};
use crate::serve::text;

/// vLLM's `VLLM_MAX_N_SEQUENCES`, here of all prompts together.
const MOST_SEQUENCES: u64 = 16_384;
/// `max_tokens` of a completion that names none.
const COMPLETION_TOKENS: i64 = 16;

/// A request that was understood.
#[derive(Debug)]
pub struct Request {
    /// `n` for each prompt, in order of prompts.
    pub asks: Vec<Ask>,
    /// Answers to each prompt.
    pub n: usize,
    /// Whether the answer comes in chunks.
    pub streams: bool,
    /// Whether a last chunk tells the usage.
    pub include_usage: bool,
    /// Whether every chunk tells the usage so far.
    pub continuous_usage: bool,
    /// Fewest tokens of a chunk, the first and last left out.
    pub stream_interval: u32,
    /// What the client calls the request.
    pub request_id: Option<String>,
    /// What answers call the model.
    pub model: String,
}

/// Reads a request.
pub fn read(
    api: Api,
    body: &Map<String, Value>,
    headers: &HeaderMap,
    house: &House,
) -> Result<Request, ApiError> {
    let mut fields = Fields::new(body);
    let name = named(&mut fields, house)?;
    let refused = parameters::check(api, &mut fields);
    let max_tokens = match api {
        Api::Completions => Some(fields.integer("max_tokens").unwrap_or(COMPLETION_TOKENS)),
        Api::Chat => {
            let old = fields.integer("max_tokens");
            fields.integer("max_completion_tokens").or(old)
        }
    };
    let min_tokens = fields.integer("min_tokens").unwrap_or(0);
    let n = fields.integer("n").unwrap_or(1);
    let ignore_eos = fields.boolean("ignore_eos").unwrap_or(false);
    let streams = fields.boolean("stream").unwrap_or(false);
    let (include_usage, continuous_usage) = stream_options(&mut fields, streams);
    let stream_interval = fields.integer("stream_interval").unwrap_or(1);
    if stream_interval < 1 {
        fields.complain("stream_interval", "input should be greater than or equal to 1");
    }
    let priority = fields.integer("priority").unwrap_or(name.priority);
    let session = session(&mut fields, headers);
    let request_id = fields.text("request_id").map(str::to_owned);
    let prompts = match api {
        Api::Completions => prompt::read(&mut fields, house),
        Api::Chat => vec![chat::read(&mut fields, house)],
    };
    fields.finish()?;
    parameters::refuse(refused)?;
    check_count(n, prompts.len(), body)?;
    let mut asks = Vec::new();
    for prompt in prompts {
        let (max_tokens, min_tokens) = lengths(&prompt, max_tokens, min_tokens, house)?;
        let ask = Ask {
            prompt: prompt.into(),
            max_tokens,
            min_tokens,
            ignore_eos,
            priority: header(headers, "x-vllm-priority")
                .and_then(|text| text.parse().ok())
                .unwrap_or(priority),
            class: name.class,
            session,
            streams,
        };
        asks.extend(std::iter::repeat_n(ask, n as usize));
    }
    Ok(Request {
        asks,
        n: n as usize,
        streams,
        include_usage,
        continuous_usage,
        stream_interval: u32::try_from(stream_interval).unwrap_or(u32::MAX),
        request_id: header(headers, "x-request-id").map(str::to_owned).or(request_id),
        model: name.answers.clone(),
    })
}

/// What is asked for by the name of the model, if there is something of that name.
pub fn named<'a>(fields: &mut Fields, house: &'a House) -> Result<&'a Name, ApiError> {
    let model = fields.text("model").unwrap_or_default();
    house.named(model).ok_or_else(|| ApiError::no_model(model, house))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `include_usage` and `continuous_usage_stats`.
fn stream_options(fields: &mut Fields, streams: bool) -> (bool, bool) {
    let Some(options) = fields.table("stream_options") else {
        return (false, false);
    };
    if !streams && !options.is_empty() {
        fields.complain(
            "stream_options",
            "Stream options can only be defined when `stream=True`.",
        );
    }
    let mut inner = Fields::new(options);
    let asked = ["include_usage", "continuous_usage_stats"].map(|key| inner.boolean(key).unwrap_or(false));
    if inner.finish().is_err() {
        fields.complain("stream_options", "its fields should be valid booleans");
    }
    (asked[0], asked[0] && asked[1])
}

/// Who stays together: vLLM's `session_id` and header, else OpenAI's `user`.
fn session(fields: &mut Fields, headers: &HeaderMap) -> Option<u64> {
    let (id, user) = (fields.text("session_id"), fields.text("user"));
    let named = id.filter(|id| !id.is_empty());
    let named = named.or_else(|| header(headers, "x-session-id"));
    let named = named.or(user).filter(|name| !name.is_empty());
    named.map(|named| text::name("session", named))
}

fn check_count(n: i64, prompts: usize, body: &Map<String, Value>) -> Result<(), ApiError> {
    let problem = if n < 1 {
        format!("n must be at least 1, got {n}.")
    } else if n as u64 > MOST_SEQUENCES / (prompts.max(1) as u64) {
        format!("n must be at most {MOST_SEQUENCES} over all prompts, got {n} for each of {prompts}.")
    } else if n > 1 && body.get("temperature").and_then(Value::as_f64) == Some(0.0) {
        format!("n must be 1 when using greedy sampling, got {n}.")
    } else {
        return Ok(());
    };
    Err(ApiError::refused(problem, Some("n")))
}

/// Most and fewest tokens of the answer to a prompt.
fn lengths(
    prompt: &[Span],
    max_tokens: Option<i64>,
    min_tokens: i64,
    house: &House,
) -> Result<(Option<u32>, u32), ApiError> {
    let tokens = text::tokens(prompt);
    if tokens == 0 {
        return Err(ApiError::refused(
            "The decoder prompt cannot be empty",
            Some("prompt"),
        ));
    }
    let Some(room) = u64::from(house.max_model_len).checked_sub(tokens) else {
        return Err(ApiError::too_long(tokens, house));
    };
    let room = room as i64;
    let most = max_tokens.map_or(room, |asked| asked.min(room));
    if most < 1 {
        let why = match room {
            0 => ": the prompt fills the context",
            _ => "",
        };
        let message = format!("max_tokens must be at least 1, got {most}{why}.");
        return Err(ApiError::refused(message, Some("max_tokens")));
    }
    if !(0..=most).contains(&min_tokens) {
        let message = format!("min_tokens must lie between 0 and max_tokens={most}, got {min_tokens}.");
        return Err(ApiError::refused(message, Some("min_tokens")));
    }
    Ok((max_tokens.map(|_| most as u32), min_tokens as u32))
}
