//! Every parameter that vLLM 0.33 knows and a simulated server does not act upon: without effect, or refused. One table.
//!
//! Without effect is what changes neither the length nor the time of an answer, only which tokens it has, because here they are filler.
//! `stop` is among it: where a real model would write a stop string is unknown, and the simulated lengths of answers stand for that.
//! Refused is what would promise a client something that is not in the answer. A value that asks for nothing (null, false, the
//! default) is always taken, and what vLLM does not know it ignores, as this server does. What is acted upon, `max_tokens` and the
//! like, is in [`super::request`].

use serde_json::Value;

use super::Api;
use super::error::ApiError;
use super::fields::Fields;

/// What is made of a parameter.
enum Effect {
    /// A number that is checked and has no effect: whether it is in its range, and the range.
    Number(fn(f64) -> bool, &'static str),
    /// An integer that is checked and has no effect: whether it is in its range, and the range.
    Integer(fn(i64) -> bool, &'static str),
    /// It has no effect, and is not looked at.
    Nothing,
    /// Refused unless it asks for nothing; why.
    Refused(fn(&Value) -> bool, &'static str),
}

use Effect::{Integer, Nothing, Number, Refused};

/// Where a parameter is known.
const BOTH: &[Api] = &[Api::Completions, Api::Chat];
const COMPLETIONS: &[Api] = &[Api::Completions];
const CHAT: &[Api] = &[Api::Chat];

const NO_LOGPROBS: &str = "answers are filler, whose tokens have no log probabilities";
const NO_FORMAT: &str = "answers are filler, which follows no format";
const NO_IDS: &str = "there is no tokenizer, so tokens have no ids";

const PARAMETERS: &[(&str, &[Api], Effect)] = &[
    (
        "temperature",
        BOTH,
        Number(|t| (0.0..=2.0).contains(&t), "in [0, 2]"),
    ),
    ("top_p", BOTH, Number(|p| p > 0.0 && p <= 1.0, "in (0, 1]")),
    ("min_p", BOTH, Number(|p| (0.0..=1.0).contains(&p), "in [0, 1]")),
    ("top_k", BOTH, Integer(|k| k >= -1, "0 (disable), or at least 1")),
    ("presence_penalty", BOTH, Number(|p| p.abs() <= 2.0, "in [-2, 2]")),
    (
        "frequency_penalty",
        BOTH,
        Number(|p| p.abs() <= 2.0, "in [-2, 2]"),
    ),
    (
        "repetition_penalty",
        BOTH,
        Number(|p| p > 0.0, "greater than zero"),
    ),
    ("length_penalty", BOTH, Number(|_| true, "a number")),
    ("seed", BOTH, Integer(|_| true, "an integer")),
    ("stop", BOTH, Nothing), // Its shape is checked below.
    ("stop_token_ids", BOTH, Nothing),
    ("include_stop_str_in_output", BOTH, Nothing),
    ("logit_bias", BOTH, Nothing),
    ("allowed_token_ids", BOTH, Nothing),
    ("bad_words", BOTH, Nothing),
    ("skip_special_tokens", BOTH, Nothing),
    ("spaces_between_special_tokens", BOTH, Nothing),
    ("add_special_tokens", BOTH, Nothing),
    ("watermarking", BOTH, Nothing),
    ("repetition_detection", BOTH, Nothing),
    ("reasoning_effort", CHAT, Nothing),
    ("include_reasoning", CHAT, Nothing),
    ("thinking_token_budget", BOTH, Nothing),
    ("parallel_tool_calls", CHAT, Nothing),
    ("chat_template_kwargs", CHAT, Nothing),
    ("documents", CHAT, Nothing),
    ("kv_transfer_params", BOTH, Nothing),
    ("vllm_xargs", BOTH, Nothing),
    ("logprobs", COMPLETIONS, Refused(is_absent, NO_LOGPROBS)),
    ("logprobs", CHAT, Refused(is_off, NO_LOGPROBS)),
    ("top_logprobs", CHAT, Refused(is_zero, NO_LOGPROBS)),
    ("prompt_logprobs", BOTH, Refused(is_absent, NO_LOGPROBS)),
    ("logprob_token_ids", BOTH, Refused(is_empty, NO_LOGPROBS)),
    ("echo", BOTH, Refused(is_off, "the texts of prompts are not kept")),
    (
        "suffix",
        COMPLETIONS,
        Refused(is_empty, "suffix is not supported by this model"),
    ),
    (
        "prompt_embeds",
        COMPLETIONS,
        Refused(is_empty, "prompts are texts or token ids here"),
    ),
    (
        "use_beam_search",
        BOTH,
        Refused(is_off, "beam search is not simulated"),
    ),
    ("response_format", BOTH, Refused(is_plain_text, NO_FORMAT)),
    ("structured_outputs", BOTH, Refused(is_empty, NO_FORMAT)),
    (
        "tool_choice",
        CHAT,
        Refused(
            leaves_the_choice,
            "answers are filler, which calls no tool; `none` and `auto` are taken",
        ),
    ),
    (
        "chat_template",
        CHAT,
        Refused(is_empty, "prompts are counted with one template, Llama 3's"),
    ),
    (
        "truncate_prompt_tokens",
        BOTH,
        Refused(
            is_absent,
            "prompts are not truncated here; send the part that is to count",
        ),
    ),
    (
        "cache_salt",
        BOTH,
        Refused(is_empty, "prefixes of prompts are shared among all clients here"),
    ),
    ("return_token_ids", BOTH, Refused(is_off, NO_IDS)),
    (
        "return_prompt_text",
        CHAT,
        Refused(is_off, "the texts of prompts are not kept"),
    ),
];

fn is_absent(_: &Value) -> bool {
    false
}

fn is_off(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(Value::is_null),
        _ => false,
    }
}

fn is_plain_text(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("text")
}

fn leaves_the_choice(value: &Value) -> bool {
    matches!(value.as_str(), Some("none" | "auto"))
}

/// Checks all parameters of the table; what is refused comes back as sentences, each with its parameter.
///
/// Values of a wrong type are complained of in `fields`, as all other problems of shape.
pub fn check(api: Api, fields: &mut Fields) -> Vec<(&'static str, String)> {
    let mut refused = Vec::new();
    for (name, apis, effect) in PARAMETERS {
        let Some(value) = apis.contains(&api).then(|| fields.get(name)).flatten() else {
            continue;
        };
        match effect {
            Nothing => {}
            Number(is_in, range) => {
                if let Some(number) = fields.number(name)
                    && !is_in(number)
                {
                    refused.push((*name, format!("{name} must be {range}, got {number}.")));
                }
            }
            Integer(is_in, range) => {
                if let Some(integer) = fields.integer(name)
                    && !is_in(integer)
                {
                    refused.push((*name, format!("{name} must be {range}, got {integer}.")));
                }
            }
            Refused(asks_for_nothing, why) => {
                if !asks_for_nothing(value) {
                    refused.push((*name, format!("`{name}` is not supported: {why}.")));
                }
            }
        }
    }
    if let Some(problem) = stop(fields) {
        refused.push(("stop", problem));
    }
    refused
}

/// vLLM's `StopParam`: a string, or four at most, none of them empty.
fn stop(fields: &mut Fields) -> Option<String> {
    const MOST: usize = 4;
    let strings: Vec<Option<&str>> = match fields.get("stop")? {
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        other => vec![other.as_str()],
    };
    if strings.iter().any(Option::is_none) || strings.len() > MOST {
        fields.complain(
            "stop",
            format!("input should be a string or a list of at most {MOST} strings"),
        );
        return None;
    }
    let has_empty = strings.contains(&Some(""));
    has_empty.then(|| "stop cannot contain an empty string.".to_owned())
}

/// What is refused, as one error.
pub fn refuse(refused: Vec<(&'static str, String)>) -> Result<(), ApiError> {
    let Some((first, _)) = refused.first() else {
        return Ok(());
    };
    let first = *first;
    let sentences: Vec<String> = refused.into_iter().map(|(_, sentence)| sentence).collect();
    Err(ApiError::refused(sentences.join(" "), Some(first)))
}
