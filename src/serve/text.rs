//! Prompts as runs of tokens, though there is no tokenizer: equal starts of texts have equal runs, which is all that a prefix cache asks.
//!
//! Tokens of a text are estimated ([`crate::workload::text`]), token ids are exact. Either is cut into runs of 16 tokens from its own
//! start, and a run is named by a hash of what is in it. So two texts share as many whole runs as they are alike, and blocks of 16 tokens
//! are shared as a real tokenizer would have it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::desk::Span;
use crate::workload::text::{is_a_token, tokens_of};

/// Tokens of a run: vLLM's `block_size`.
const RUN: u64 = 16;

/// The number that names something; the same in every run of the program.
pub fn name(kind: &str, content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    content.hash(&mut hasher);
    hasher.finish()
}

/// Most characters of Latin text that count as `tokens`.
pub fn chars_in(tokens: u64, chars_per_token: f64) -> u64 {
    // Within one of the product, which floats round.
    let mut chars = (tokens as f64 * chars_per_token) as u64;
    while tokens_of(chars + 1, chars_per_token) <= tokens as f64 {
        chars += 1;
    }
    while chars > 0 && tokens_of(chars, chars_per_token) > tokens as f64 {
        chars -= 1;
    }
    chars
}

/// A text cut into pieces of `size` estimated tokens; each piece with its number of tokens. The last may have fewer.
///
/// Panics where fewer than one character make a token, because such tokens have no place in a text.
pub fn pieces(text: &str, size: u64, chars_per_token: f64) -> Vec<(&str, u32)> {
    assert!(chars_per_token >= 1.0, "a token has a character at least");
    let mut found = Vec::new();
    let (mut wide, mut narrow) = (0u64, 0u64);
    // Tokens of the narrow characters so far, and how many of these make no more tokens than that.
    let (mut shared, mut room) = (0u64, 0u64);
    let (mut start, mut before) = (0, 0u64);
    for (at, c) in text.char_indices() {
        let is_one = is_a_token(c);
        let count = wide + shared;
        if (is_one || narrow == room) && count == before + size {
            found.push((&text[start..at], size as u32));
            (start, before) = (at, count);
        }
        if is_one {
            wide += 1;
            continue;
        }
        if narrow == room {
            shared += 1;
            room = chars_in(shared, chars_per_token);
        }
        narrow += 1;
    }
    let rest = wide + shared - before;
    if rest > 0 {
        found.push((&text[start..], rest as u32));
    }
    found
}

/// Estimated tokens of a text.
pub fn count(text: &str, chars_per_token: f64) -> u64 {
    pieces(text, RUN, chars_per_token)
        .iter()
        .map(|(_, tokens)| u64::from(*tokens))
        .sum()
}

/// Appends the runs of a text.
pub fn spans_of_text(text: &str, chars_per_token: f64, spans: &mut Vec<Span>) {
    spans.extend(
        pieces(text, RUN, chars_per_token)
            .into_iter()
            .map(|(piece, tokens)| Span::Text {
                name: name("text", piece),
                tokens,
            }),
    );
}

/// The runs of token ids.
pub fn spans_of_ids(ids: &[u64]) -> Vec<Span> {
    ids.chunks(RUN as usize)
        .map(|run| Span::Text {
            name: name("ids", run),
            tokens: run.len() as u32,
        })
        .collect()
}

/// Tokens of a prompt.
pub fn tokens(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.tokens())).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::text::estimate;

    fn spans(text: &str, rate: f64) -> Vec<Span> {
        let mut spans = Vec::new();
        spans_of_text(text, rate, &mut spans);
        spans
    }

    #[test]
    fn a_text_is_cut_where_its_runs_end() {
        let text = "abcd".repeat(17);
        assert_eq!(
            pieces(&text, 16, 4.0),
            [("abcd".repeat(16).as_str(), 16), ("abcd", 1)]
        );
        assert_eq!(
            pieces("你好ab你c", 1, 4.0),
            [("你", 1), ("好", 1), ("ab", 1), ("你c", 1)]
        );
        assert!(pieces("", 16, 4.0).is_empty());
        assert_eq!(tokens(&spans_of_ids(&[7; 40])), 40);
    }

    proptest! {
        #[test]
        fn runs_have_the_tokens_of_the_estimate(text in "[a-z 你好é]{0,200}", rate in 1.0f64..9.0) {
            prop_assert_eq!(tokens(&spans(&text, rate)) as f64, estimate(&text, rate));
            let all: String = pieces(&text, 16, rate).into_iter().map(|(piece, _)| piece).collect();
            prop_assert_eq!(all, text);
        }

        #[test]
        fn equal_starts_have_equal_runs(
            shared in "[a-z 你]{0,300}", one in "[a-z]{0,80}", other in "[A-Z]{0,80}", rate in 1.0f64..6.0,
        ) {
            let both = [spans(&format!("{shared}{one}"), rate), spans(&format!("{shared}{other}"), rate)];
            // Runs are whole before the last token of what is shared.
            let whole = (estimate(&shared, rate) as usize).saturating_sub(1) / 16;
            prop_assert_eq!(&both[0][..whole], &both[1][..whole]);
            if !one.is_empty() && !other.is_empty() {
                prop_assert_ne!(&both[0], &both[1]);
            }
        }

        #[test]
        fn as_many_characters_as_fit_are_the_most(tokens in 0u64..100_000, rate in 1.0f64..20.0) {
            let chars = chars_in(tokens, rate);
            prop_assert!(tokens_of(chars, rate) <= tokens as f64);
            prop_assert!(tokens_of(chars + 1, rate) > tokens as f64);
        }
    }
}
