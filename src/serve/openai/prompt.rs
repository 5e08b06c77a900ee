//! Prompts of `/v1/completions`: a text, token ids, or a list of either.
//!
//! Texts are estimated and ids are exact ([`crate::serve::text`]). No token is put before them, as a tokenizer's "begin of text" would be.

use serde_json::Value;

use super::fields::{Fields, short};
use crate::serve::desk::{House, Span};
use crate::serve::text::{spans_of_ids, spans_of_text};

/// vLLM's `VLLM_MAX_COMPLETION_PROMPTS`.
const MOST_PROMPTS: usize = 1024;

/// The prompts of a request, empty ones among them; empty after a complaint.
pub fn read(fields: &mut Fields, house: &House) -> Vec<Vec<Span>> {
    let of_text = |text: &str| {
        let mut spans = Vec::new();
        spans_of_text(text, house.chars_per_token, &mut spans);
        spans
    };
    let problem = match fields.get("prompt") {
        None => "must be provided and non-empty".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "must be provided and non-empty".to_owned(),
        Some(Value::String(text)) => return vec![of_text(text)],
        Some(Value::Array(items)) => match list(items, of_text) {
            Ok(prompts) => return prompts,
            Err(problem) => problem,
        },
        Some(other) => format!("input should be a string or a list, got {}", short(other)),
    };
    fields.complain("prompt", problem);
    Vec::new()
}

fn list(items: &[Value], of_text: impl Fn(&str) -> Vec<Span>) -> Result<Vec<Vec<Span>>, String> {
    if items.iter().all(Value::is_number) {
        return Ok(vec![spans_of_ids(&ids(items)?)]);
    }
    if items.len() > MOST_PROMPTS {
        return Err(format!(
            "prompt list length {} exceeds the maximum allowed count of {MOST_PROMPTS}",
            items.len()
        ));
    }
    items
        .iter()
        .map(|item| match item {
            Value::String(text) => Ok(of_text(text)),
            Value::Array(numbers) => Ok(spans_of_ids(&ids(numbers)?)),
            other => Err(format!(
                "items should be strings or lists of token ids, got {}",
                short(other)
            )),
        })
        .collect()
}

fn ids(items: &[Value]) -> Result<Vec<u64>, String> {
    let id = |item: &Value| {
        item.as_u64()
            .ok_or_else(|| format!("token ids should be integers from 0, got {}", short(item)))
    };
    items.iter().map(id).collect()
}
