//! ShareGPT conversations: the first turn is the prompt, the second the answer, as `vllm bench serve` takes them (B-17).
//!
//! A turn that carries a count (`tokens`, `num_tokens`, `token_count`) has that many tokens. Text without one is
//! estimated: four characters a token for Latin text, one for Chinese, Japanese and Korean, whose characters mostly are
//! tokens of their own. Left out: everything after the second turn.

use std::borrow::Cow;

use serde::Deserialize;

use super::error::{Place, Problem};
use super::rows::{Row, Rows};
use super::words::plainly;
use crate::workload::text::estimate;

#[derive(Deserialize)]
struct Conversation<'a> {
    #[serde(borrow, alias = "conversation", default)]
    conversations: Vec<Turn<'a>>,
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow, alias = "content", default)]
    value: Option<Cow<'a, str>>,
    #[serde(alias = "num_tokens", alias = "token_count")]
    tokens: Option<f64>,
}

/// Rows left out, by reason.
#[derive(Default)]
struct LeftOut {
    single: u64,
    empty: u64,
    filtered: u64,
}

/// Reads the first two turns of every conversation.
pub(super) fn read(text: &[u8], rows: &mut Rows) {
    let conversations = match parse(text) {
        Ok(conversations) => conversations,
        Err(error) => {
            let (what, help) = if error.is_eof() {
                ("the file is cut off here".to_owned(), "fetch it again")
            } else {
                (
                    format!("is not as expected: {}", plainly(&error.to_string())),
                    "ShareGPT is a list of {\"conversations\": [{\"value\": …}, {\"value\": …}]}",
                )
            };
            rows.problems
                .push(Problem::new(Place::Line(error.line() as u64), "", what, help));
            return;
        }
    };
    let mut left_out = LeftOut::default();
    let mut estimated = 0u64;
    for (conversation, number) in conversations.iter().zip(1u64..) {
        let [prompt, answer, ..] = conversation.conversations.as_slice() else {
            left_out.single += 1;
            continue;
        };
        let place = Place::Item(format!("conversation {number}"));
        let (input, output) = (count(prompt, &place, rows), count(answer, &place, rows));
        let (Some(input), Some(output)) = (input, output) else {
            continue;
        };
        estimated += u64::from(prompt.tokens.is_none() || answer.tokens.is_none());
        if input == 0 || output == 0 {
            left_out.empty += 1;
        } else if rows.options.vllm_filter && vllm_leaves_out(input, output) {
            left_out.filtered += 1;
        } else {
            rows.push(Row {
                place,
                time: None,
                input,
                output,
                ids: 0..0,
                session: None,
            });
        }
    }
    rows.note_left_out(left_out.single, "with fewer than two turns");
    rows.note_left_out(left_out.empty, "whose prompt or answer is empty");
    rows.note_left_out(
        left_out.filtered,
        "that vllm bench serve leaves out (prompt < 4, answer < 4, prompt > 1024 or sum > 2048 tokens)",
    );
    if estimated > 0 {
        let rate = rows.options.chars_per_token;
        rows.notes.push(format!("tokens of {estimated} conversations are estimated from text ({rate} characters a token, 1 for CJK), not counted"));
    }
}

/// A list, or one conversation a line.
fn parse(text: &[u8]) -> Result<Vec<Conversation<'_>>, serde_json::Error> {
    if text.trim_ascii_start().starts_with(b"[") {
        return serde_json::from_slice(text);
    }
    serde_json::Deserializer::from_slice(text).into_iter().collect()
}

/// Tokens of a turn, counted or estimated; `None` after a complaint.
fn count(turn: &Turn, place: &Place, rows: &mut Rows) -> Option<u32> {
    let tokens = match (turn.tokens, &turn.value) {
        (Some(tokens), _) => tokens,
        (None, Some(text)) => estimate(text, rows.options.chars_per_token),
        (None, None) => {
            let problem = Problem::new(
                place.clone(),
                "value",
                "is missing",
                "a turn has a text (`value`) or a count (`tokens`)",
            );
            rows.problems.push(problem);
            return None;
        }
    };
    rows.tokens(place, "tokens", tokens)
}

/// Rule B-17.
fn vllm_leaves_out(input: u32, output: u32) -> bool {
    input < 4 || output < 4 || input > 1024 || input + output > 2048
}

#[cfg(test)]
mod tests {
    use super::super::{Format, ReadOptions, Trace, read};

    fn sharegpt(text: &str, options: &ReadOptions) -> Trace {
        read(
            text.as_bytes(),
            "s.json",
            &ReadOptions {
                format: Some(Format::Sharegpt),
                ..options.clone()
            },
        )
        .unwrap()
    }

    const THREE: &str = r#"[{"id": "a", "conversations": [{"from": "human", "value": "12345678"}, {"from": "gpt", "value": "\u4f60\u597d"}]},
        {"conversations": [{"from": "human", "value": "alone"}]},
        {"conversations": [{"value": "x", "tokens": 700}, {"value": "y", "tokens": 40}]}]"#;

    #[test]
    fn counts_are_taken_and_text_is_estimated() {
        let trace = sharegpt(THREE, &ReadOptions::default());
        let lengths: Vec<_> = trace
            .requests
            .iter()
            .map(|request| (request.prompt_tokens, request.output_tokens))
            .collect();
        assert_eq!(lengths, [(2, 2), (700, 40)]);
        assert_eq!(trace.notes[0], "left out 1 row with fewer than two turns");
        assert!(trace.notes[1].starts_with("tokens of 1 conversations are estimated"));
        assert!(!trace.has_arrivals);
    }

    #[test]
    fn the_filter_of_vllm_is_counted() {
        let trace = sharegpt(
            THREE,
            &ReadOptions {
                vllm_filter: true,
                ..ReadOptions::default()
            },
        );
        assert_eq!(trace.requests.len(), 1);
        assert!(trace.notes[1].starts_with("left out 1 row that vllm bench serve leaves out"));
    }
}
