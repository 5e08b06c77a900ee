//! Prompts of `/v1/chat/completions`: messages, laid out by Llama 3's template.
//!
//! One token begins the prompt, four stand before each message and name its role, one stands after it, and the four of the answer's
//! role come last. Other models' templates differ by some tokens a message. A message of the assistant that is one of this server's
//! answers, unchanged, is that answer's tokens ([`crate::serve::filler`]), so a conversation's next turn finds all of it in the prefix
//! cache; anything else is a text. Tools that the model might call are a text before the first message, calls and their results are
//! texts where they stand. Left out: images, audio and video, which are refused.

use serde_json::{Map, Value};

use super::fields::{Fields, short};
use crate::serve::desk::{House, Span};
use crate::serve::filler::recognise;
use crate::serve::text::{name, spans_of_text};

/// `<|begin_of_text|>`.
const BEGIN: u32 = 1;
/// `<|start_header_id|>`, role, `<|end_header_id|>` and an empty line.
const HEADER: u32 = 4;
/// `<|eot_id|>`.
const END: u32 = 1;

/// Parts that are text, and where.
const TEXTS: [(&str, &str); 5] = [
    ("text", "text"),
    ("input_text", "text"),
    ("output_text", "text"),
    ("refusal", "refusal"),
    ("thinking", "thinking"),
];

/// The prompt that messages make; empty after a complaint.
pub fn read(fields: &mut Fields, house: &House) -> Vec<Span> {
    let open_end = fields.boolean("continue_final_message").unwrap_or(false);
    let asked = fields.boolean("add_generation_prompt");
    if open_end && asked == Some(true) {
        fields.complain(
            "continue_final_message",
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
        );
    }
    let messages = match fields.get("messages") {
        None => {
            fields.complain("messages", "field required");
            return Vec::new();
        }
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        Some(other) => {
            let problem = format!(
                "input should be a list of one message or more, got {}",
                short(other)
            );
            fields.complain("messages", problem);
            return Vec::new();
        }
    };
    let mut spans = vec![fixed("begin", "", BEGIN)];
    if let Some(tools) = tools(fields) {
        spans_of_text(&tools, house.chars_per_token, &mut spans);
    }
    for (at, message) in messages.iter().enumerate() {
        if let Err((place, problem)) = write(message, house, &mut spans) {
            fields.complain(&format!("messages.{at}{place}"), problem);
            continue;
        }
        if !(open_end && at + 1 == messages.len()) {
            spans.push(fixed("end", "", END));
        }
    }
    if asked.unwrap_or(!open_end) {
        spans.push(fixed("header", "assistant", HEADER));
    }
    spans
}

/// Tokens of the template, the same in every prompt.
fn fixed(kind: &str, role: &str, tokens: u32) -> Span {
    Span::Text {
        name: name(kind, role),
        tokens,
    }
}

/// The tools that are offered, as text; with `tool_choice: "none"`, too, as in vLLM.
fn tools(fields: &mut Fields) -> Option<String> {
    let tools = fields.get("tools")?;
    match tools.as_array() {
        Some(list) if !list.is_empty() => Some(tools.to_string()),
        _ => {
            fields.complain(
                "tools",
                "must be a list of at least one tool; else omit the field entirely",
            );
            None
        }
    }
}

/// Appends a message; the error is the place within it, and what is wrong.
fn write(message: &Value, house: &House, spans: &mut Vec<Span>) -> Result<(), (String, String)> {
    let Some(message) = message.as_object() else {
        return Err((
            String::new(),
            format!("input should be an object, got {}", short(message)),
        ));
    };
    let Some(role) = message.get("role").and_then(Value::as_str) else {
        return Err((".role".to_owned(), "input should be a valid string".to_owned()));
    };
    spans.push(fixed("header", role, HEADER));
    let content = content(message)?;
    let rate = house.chars_per_token;
    match recognise(&content, house.created, rate).filter(|_| role == "assistant") {
        Some(answer) => spans.push(answer),
        None => spans_of_text(&content, rate, spans),
    }
    if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
        spans_of_text(&calls.to_string(), rate, spans);
    }
    Ok(())
}

/// The text of a message: a string, or parts in lines.
fn content(message: &Map<String, Value>) -> Result<String, (String, String)> {
    match message.get("content") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts
                .iter()
                .enumerate()
                .map(|(at, part)| part_text(part).map_err(|problem| (format!(".content.{at}"), problem)));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        Some(other) => Err((
            ".content".to_owned(),
            format!(
                "input should be a string or a list of parts, got {}",
                short(other)
            ),
        )),
    }
}

fn part_text(part: &Value) -> Result<&str, String> {
    if let Some(text) = part.as_str() {
        return Ok(text);
    }
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    let Some((_, key)) = TEXTS.iter().find(|(known, _)| *known == kind) else {
        return Err(format!(
            "parts of type `{kind}` are not supported: only text is counted here, what images and sound cost is not simulated by this server"
        ));
    };
    let text = part.get(*key).and_then(Value::as_str);
    text.ok_or_else(|| format!("a part of type `{kind}` has its text under `{key}`"))
}
