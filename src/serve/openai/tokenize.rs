//! `/tokenize` and `/detokenize`, which clients call to make prompts of so many tokens.
//!
//! A token's id holds the characters that it stands for, so that texts survive the way there and back, in part, too, without anything
//! being kept. Characters of up to seven bytes fit; of a longer token the id is a hash, and its text, like that of an id of a real
//! vocabulary, is a word as long as a token. Template and estimate are those of prompts ([`super::chat`], [`crate::serve::text`]).

use serde::Serialize;
use serde_json::{Map, Value};

use super::chat;
use super::error::ApiError;
use super::fields::{Fields, short};
use super::request::named;
use crate::serve::desk::{House, Span};
use crate::serve::filler::stand_in;
use crate::serve::text::{name, pieces};

/// Set in ids that hold characters; those of vocabularies are small, and ids lie below 2^63.
const HOLDS: u64 = 1 << 62;
/// Set in ids that are hashes.
const HASH: u64 = 1 << 52;
/// Most bytes of characters in an id.
const MOST_BYTES: usize = 7;

#[derive(Serialize)]
struct Tokenized {
    count: usize,
    max_model_len: u32,
    tokens: Vec<u64>,
    token_strs: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Detokenized {
    prompt: String,
}

/// The answer to `/tokenize`: of a `prompt`, or of `messages`.
pub fn tokenize(body: &Map<String, Value>, house: &House) -> Result<String, ApiError> {
    let mut fields = Fields::new(body);
    named(&mut fields, house)?;
    let wants_text = fields.boolean("return_token_strs").unwrap_or(false);
    let is_chat = fields.get("prompt").is_none() && fields.get("messages").is_some();
    let mut tokens = Vec::new();
    let mut texts = Vec::new();
    if is_chat {
        for span in chat::read(&mut fields, house) {
            tokens.extend((0..span.tokens()).map(|at| of_span(span, at)));
        }
    } else if let Some(prompt) = fields.text("prompt") {
        for (piece, _) in pieces(prompt, 1, house.chars_per_token) {
            tokens.push(of_piece(piece));
            texts.push(piece.to_owned());
        }
    } else if fields.get("prompt").is_none() {
        fields.complain("prompt", "field required");
    }
    fields.finish()?;
    if wants_text && is_chat {
        let message = "`return_token_strs` is not supported with `messages`: templates have no text here.";
        return Err(ApiError::refused(message, Some("return_token_strs")));
    }
    Ok(json(&Tokenized {
        count: tokens.len(),
        max_model_len: house.max_model_len,
        tokens,
        token_strs: wants_text.then_some(texts),
    }))
}

/// The answer to `/detokenize`.
pub fn detokenize(body: &Map<String, Value>, house: &House) -> Result<String, ApiError> {
    let mut fields = Fields::new(body);
    named(&mut fields, house)?;
    let mut prompt = String::new();
    match fields.get("tokens") {
        Some(Value::Array(tokens)) => {
            for (number, token) in tokens.iter().enumerate() {
                match token.as_u64().filter(|id| *id < 1 << 63) {
                    Some(id) => write(id, number as u64, house.chars_per_token, &mut prompt),
                    None => {
                        let problem = format!(
                            "input should be an integer from 0 to 2^63 - 1, got {}",
                            short(token)
                        );
                        fields.complain(&format!("tokens.{number}"), problem);
                    }
                }
            }
        }
        Some(other) => {
            let problem = format!("input should be a list of token ids, got {}", short(other));
            fields.complain("tokens", problem);
        }
        None => fields.complain("tokens", "field required"),
    }
    fields.finish()?;
    Ok(json(&Detokenized { prompt }))
}

/// Token `at` of a run of a template or message, whose text is not kept.
fn of_span(span: Span, at: u32) -> u64 {
    let content = match span {
        Span::Text { name, .. } => (name, at),
        Span::Answer { id, start, .. } => (name("answer", (id.0, start)), at),
    };
    HASH | name("token", content) >> 12
}

fn of_piece(piece: &str) -> u64 {
    if piece.len() > MOST_BYTES {
        return HASH | name("token", piece) >> 12;
    }
    // A leading 1 says where the bytes begin.
    HOLDS | piece.bytes().fold(1, |id, byte| id << 8 | u64::from(byte))
}

fn write(id: u64, number: u64, chars_per_token: f64, text: &mut String) {
    match characters(id) {
        Some(characters) => text.push_str(&characters),
        None => stand_in(id, number, chars_per_token, text),
    }
}

/// The characters that an id holds.
fn characters(id: u64) -> Option<String> {
    let held = (id & HOLDS != 0).then_some(id & !HOLDS)?;
    let bytes = held.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0)?;
    let text = (bytes[first] == 1).then(|| bytes[first + 1..].to_vec())?;
    String::from_utf8(text).ok()
}

fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("strings and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_survive_the_way_there_and_back(text in "[ -~你好é]{0,200}", latin in "[ -~]{0,200}", rate in 1.0f64..3.0) {
            for (text, rate) in [(text, rate), (latin, 2.0 * rate)] {
                let ids: Vec<u64> = pieces(&text, 1, rate).into_iter().map(|(piece, _)| of_piece(piece)).collect();
                let mut back = String::new();
                for (number, id) in ids.iter().enumerate() {
                    prop_assert!(*id < 1 << 63);
                    write(*id, number as u64, rate, &mut back);
                }
                prop_assert_eq!(back, text);
            }
        }

        #[test]
        fn any_id_has_a_text(id in 0u64..1 << 63, number in 0u64..1000) {
            let mut text = String::new();
            write(id, number, 4.0, &mut text);
            prop_assert!(!text.is_empty() || id == HOLDS | 1);
        }
    }
}
