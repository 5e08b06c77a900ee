//! Rows of Mooncake's format, written: what was asked of a server, as [`read`](super::read) takes it back.
//!
//! A hash id stands for a block of 16 tokens and all that is before it, so two prompts share the ids of what they begin alike with, and
//! no more. What is no block to its end has an id, too, as in Mooncake's own files. Left out: that a prompt repeats an answer. In it an answer is a
//! text, which whoever replays the rows finds in the cache only behind the prompt that brought it back first.

use super::super::posted::Span;
use crate::rng::mixed;
use crate::units::{PICOS_PER_SECOND, Picos};

/// Tokens of a hash id: vLLM's `block_size`.
const BLOCK: u32 = 16;
/// Bits of an id: every reader of JSON has them exactly.
const ID_BITS: u32 = 53;

/// The keys of a row, times in ms; the last two only where there is something to say.
#[derive(serde::Serialize)]
struct Row<'a> {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
}

/// A request as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When it was sent.
    pub at: Picos,
    /// Tokens of its prompt.
    pub input_length: u32,
    /// What its prompt begins with, block by block.
    pub hash_ids: Vec<u64>,
    /// What it belongs to, if to anything.
    pub session: Option<u64>,
    /// What its class is called, where there are classes.
    pub class: Option<String>,
}

impl Asked {
    /// Of a prompt, whose ids are mixed with `salt`: of one file all have the same.
    #[must_use]
    pub fn new(at: Picos, prompt: &[Span], salt: u64) -> Asked {
        Asked {
            at,
            input_length: prompt.iter().map(Span::tokens).sum(),
            hash_ids: hash_ids(prompt, salt),
            session: None,
            class: None,
        }
    }

    /// Its row, of an answer of so many tokens; ended by a newline.
    #[must_use]
    pub fn row(&self, output_length: u32) -> String {
        let row = Row {
            timestamp: self.at.0 as f64 / (PICOS_PER_SECOND / 1000) as f64,
            input_length: self.input_length,
            output_length,
            hash_ids: &self.hash_ids,
            session_id: self.session.map(|session| session >> (64 - ID_BITS)),
            class: self.class.as_deref(),
        };
        let row = serde_json::to_string(&row).expect("numbers and strings are JSON");
        row + "\n"
    }
}

/// One id for each block of a prompt, the last of which may be shorter.
fn hash_ids(prompt: &[Span], salt: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    let (mut chain, mut filled) = (salt, 0);
    for span in prompt {
        let piece = span.piece();
        let mut at = 0;
        while at < piece.tokens {
            let taken = (BLOCK - filled).min(piece.tokens - at);
            for word in [piece.segment.0, u64::from(piece.start + at), u64::from(taken)] {
                chain = step(chain ^ word);
            }
            (at, filled) = (at + taken, filled + taken);
            if filled == BLOCK {
                ids.push(chain >> (64 - ID_BITS));
                filled = 0;
            }
        }
    }
    if filled > 0 {
        ids.push(chain >> (64 - ID_BITS));
    }
    ids
}

/// The name of a session, mixed with the salt of its file.
#[must_use]
pub fn salted(session: u64, salt: u64) -> u64 {
    step(session ^ salt)
}

/// A step of SplitMix64 from `word`.
fn step(word: u64) -> u64 {
    mixed(word.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::workload::trace::{Format, ReadOptions, read};

    fn text(name: u64, tokens: u32) -> Span {
        Span::Text { name, tokens }
    }

    #[test]
    fn prompts_share_the_ids_of_what_they_begin_alike_with() {
        let one = hash_ids(&[text(1, 16), text(2, 16), text(3, 5)], 7);
        let other = hash_ids(&[text(1, 16), text(2, 16), text(4, 16), text(3, 5)], 7);
        assert_eq!((one.len(), other.len()), (3, 4));
        assert_eq!(one[..2], other[..2]);
        assert!(one[2] != other[2] && other[2] != other[3]);
        // What is the same but stands behind something else is another block.
        assert_ne!(hash_ids(&[text(2, 16)], 7)[0], one[1]);
        // A block of several texts.
        let mixed = |last| hash_ids(&[text(1, 4), text(2, 4), text(last, 8)], 7);
        assert_eq!(mixed(3), mixed(3));
        assert_ne!(mixed(3), mixed(4));
        let answer = Span::Answer {
            id: RequestId(7),
            start: 37,
            tokens: 40,
        };
        assert_eq!(hash_ids(&[answer], 7).len(), 3);
        assert!(one.iter().all(|id| *id < 1 << ID_BITS));
        // Of another file nothing is known again.
        let elsewhere = hash_ids(&[text(1, 16), text(2, 16)], 8);
        assert!(elsewhere.iter().all(|id| !one.contains(id)));
    }

    #[test]
    fn rows_are_read_as_they_were_asked() {
        let mut late = Asked::new(
            Picos(2_500_000_123_456),
            &[text(1, 16), text(2, 16), text(3, 5)],
            7,
        );
        (late.session, late.class) = (Some(u64::MAX), Some("chat \"b\"".to_owned()));
        let early = Asked::new(Picos(1_000_000_000), &[text(1, 16), text(2, 16)], 7);
        let rows = late.row(7) + &early.row(9);
        let trace = read(rows.as_bytes(), "x.jsonl", &ReadOptions::default()).unwrap();
        assert_eq!((trace.format, trace.block), (Format::Mooncake, Some(BLOCK)));
        let told: Vec<_> = trace
            .requests
            .iter()
            .map(|request| (request.arrival, request.prompt_tokens, request.output_tokens))
            .collect();
        assert_eq!(told, [(Picos::ZERO, 32, 9), (Picos(2_499_000_123_456), 37, 7)]);
        let pieces = |at: usize| trace.requests[at].prompt.shared().to_vec();
        assert_eq!(pieces(0)[..2], pieces(1)[..2]);
    }
}
