//! The requests of a recording: sent as they were, and what became of each held against what was recorded.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::difference::{Difference, TIME_TOLERANCE_S};
use super::recording::RecordedResult;
use crate::ids::{RequestId, SegmentId};
use crate::sim::{Completion, Fact, Observer, Outcome};
use crate::units::Picos;
use crate::workload::{Piece, Prompt, Request, Traffic};

/// The text of generated tokens: every one of them is the same token, so its place in the sequence identifies it.
const GENERATED: SegmentId = SegmentId(u64::MAX >> 1);

/// The requests of a recording, in order of (arrival, id).
pub(super) struct Fixed {
    requests: std::vec::IntoIter<Request>,
}

impl Fixed {
    pub(super) fn new(requests: impl Iterator<Item = Request>) -> Fixed {
        let mut requests: Vec<Request> = requests.collect();
        requests.sort_by_key(|request| (request.arrival, request.id));
        Fixed {
            requests: requests.into_iter(),
        }
    }
}

impl Traffic for Fixed {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.requests.as_slice().first().map(|request| request.arrival)
    }

    fn take(&mut self) -> Request {
        self.requests.next().expect("taken only after it was announced")
    }

    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// A request whose prompt is named in words.
pub(super) fn named_request(
    id: u64,
    arrival_s: f64,
    prompt: &[(String, u32)],
    output_tokens: u32,
) -> Request {
    let mut pieces = Vec::new();
    let mut position = 0;
    for (name, tokens) in prompt {
        let (segment, start) = if name == "OUT" {
            (GENERATED, position)
        } else {
            (SegmentId(name_hash(name)), 0)
        };
        pieces.push(Piece {
            segment,
            start,
            tokens: *tokens,
        });
        position += tokens;
    }
    Request {
        id: RequestId(id),
        arrival: Picos::from_seconds(arrival_s),
        client_queue_time: Picos::ZERO,
        prompt_tokens: position,
        output_tokens,
        max_tokens: output_tokens,
        priority: 0,
        prompt: Prompt::Pieces(pieces.into()),
        output_segment: GENERATED,
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    }
}

/// Segments are named in the file; names map to numbers below the range of generated text.
fn name_hash(name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish() >> 2
}

/// What became of each request here.
#[derive(Default)]
pub(super) struct Results {
    completions: BTreeMap<u64, Completion>,
}

impl Observer for Results {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            self.completions.insert(completion.id.0, (*completion).clone());
        }
    }
}

impl Results {
    /// Compares with what was recorded; `limits` has the most tokens that each answer may have, `largest` the largest difference of
    /// times so far.
    pub(super) fn compare(
        &self,
        recorded: &[RecordedResult],
        limits: &BTreeMap<u64, u32>,
        largest: &mut f64,
    ) -> Result<(), Box<Difference>> {
        for expected in recorded {
            let differs = |what: &'static str, expected_text: String, got: String| {
                Box::new(Difference::Result {
                    request: expected.id,
                    what,
                    expected: expected_text,
                    got,
                })
            };
            let Some(got) = self.completions.get(&expected.id) else {
                return Err(differs("outcome", "finished".into(), "never ended".into()));
            };
            let total_cached = expected.total_cached_tokens.unwrap_or(got.cached_tokens);
            for (what, expected, got) in [
                ("prefix-cached tokens", expected.cached_tokens, got.cached_tokens),
                ("total prefix-cached tokens", total_cached, got.cached_tokens),
                ("preemptions", expected.preemptions, got.preemptions),
            ] {
                if expected != got {
                    return Err(differs(what, expected.to_string(), got.to_string()));
                }
            }
            let finish = finish_reason(got, limits.get(&expected.id).copied());
            if let Some(expected) = expected.finish.as_ref().filter(|expected| *expected != finish) {
                return Err(differs("finish reason", expected.clone(), finish.to_owned()));
            }
            for (what, expected, got) in [
                ("time of the first token", expected.first_token_s, got.first_token),
                ("time of the last token", expected.last_token_s, Some(got.end)),
            ] {
                let expected_text = format!("{expected:.9} s");
                let Some(got) = got.map(Picos::seconds) else {
                    return Err(differs(what, expected_text, "none".to_owned()));
                };
                let difference = (expected - got).abs();
                *largest = largest.max(difference);
                if difference > TIME_TOLERANCE_S {
                    return Err(differs(what, expected_text, format!("{got:.9} s")));
                }
            }
        }
        Ok(())
    }
}

/// Why an answer ended, as the engines name it: with the last token that was allowed, or before it.
fn finish_reason(got: &Completion, limit: Option<u32>) -> &'static str {
    match got.outcome {
        Outcome::Completed if Some(got.output_tokens) == limit => "length",
        Outcome::Completed => "stop",
        _ => "abort",
    }
}
