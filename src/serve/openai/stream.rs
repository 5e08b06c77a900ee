//! Answers in chunks, as server-sent events: one for each time that tokens are told, written at once.
//!
//! The order is vLLM's: with its first tokens a chat's chunk with the role; chunks of text; the last tokens with the `finish_reason`,
//! in one chunk, since clients take every chunk with a choice for a token; then, if asked for, the usage; at last `[DONE]`. A sequence that is lost ends the
//! stream with an error in place of a chunk. Dropped before its end, a stream drops its [`Taken`] sequences, which tells the desk.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use axum::body::Bytes;
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream, StreamExt, unfold};
use serde::Serialize;

use super::Api;
use super::answers::{Head, Taken};
use super::error::ApiError;
use super::shapes::{Delta, DeltaChoice, Envelope, Simulated, TextChoice, Usage, finish_reason};
use crate::serve::desk::{Desk, Ending, Said};

/// How a stream is told.
#[derive(Clone, Copy)]
pub struct Manner {
    /// Answers to each prompt.
    pub n: usize,
    /// Whether a last chunk tells the usage.
    pub include_usage: bool,
    /// Whether every chunk tells the usage so far.
    pub continuous_usage: bool,
    /// Fewest tokens of a chunk, the first and last left out.
    pub interval: u32,
}

/// The events of an answer.
pub fn events(
    api: Api,
    head: Head,
    taken: Vec<Taken>,
    manner: Manner,
    desk: Desk,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let telling = Telling {
        api,
        head,
        manner,
        desk,
        endings: vec![None; taken.len()],
        sequences: taken
            .into_iter()
            .map(|taken| next(Sequence::new(taken)))
            .collect(),
        is_done: false,
    };
    unfold(telling, |mut telling| async move {
        let frame = telling.frame().await?;
        Some((Ok(Bytes::from(frame)), telling))
    })
}

/// A sequence, and how much of it was told.
struct Sequence {
    taken: Taken,
    /// Tokens that clients have.
    told: u32,
    /// Tokens that are there.
    made: u32,
    has_role: bool,
}

impl Sequence {
    fn new(taken: Taken) -> Sequence {
        Sequence {
            taken,
            told: 0,
            made: 0,
            has_role: false,
        }
    }
}

/// A sequence, and what is said of it next.
type Next = Pin<Box<dyn Future<Output = (Sequence, Option<Said>)> + Send>>;

fn next(mut sequence: Sequence) -> Next {
    Box::pin(async move {
        let said = sequence.taken.answer.next().await;
        (sequence, said)
    })
}

struct Telling {
    api: Api,
    head: Head,
    manner: Manner,
    desk: Desk,
    endings: Vec<Option<Ending>>,
    /// Those that have not ended.
    sequences: FuturesUnordered<Next>,
    is_done: bool,
}

impl Telling {
    /// The next events, as many as there are at this moment of one sequence; `None` after the last.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        let mut frame = Vec::new();
        while !self.is_done && frame.is_empty() {
            match self.sequences.next().await {
                None => self.finish(&mut frame),
                Some((sequence, said)) => {
                    if let Err(error) = self.tell(sequence, said, &mut frame).await {
                        self.sequences.clear();
                        event(&mut frame, &error.json());
                        self.done(&mut frame);
                    }
                }
            }
        }
        (!frame.is_empty()).then_some(frame)
    }

    /// Writes what is said of a sequence, and what else has been said of it by now.
    async fn tell(
        &mut self,
        mut sequence: Sequence,
        mut said: Option<Said>,
        frame: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        loop {
            match said {
                None => return Err(ApiError::closed()),
                Some(Said::Taken { .. }) => {}
                Some(Said::Ended(ending)) => {
                    if let Some(error) = ApiError::of_ending(&ending, self.desk.house()) {
                        return Err(error);
                    }
                    sequence.made = ending.output_tokens;
                    self.chunk(&mut sequence, Some(&ending), frame);
                    self.endings[sequence.taken.index] = Some(ending);
                    return Ok(());
                }
                Some(Said::Tokens(tokens)) => {
                    sequence.made = sequence.made.saturating_add(tokens);
                    if sequence.made >= sequence.taken.most_tokens {
                        // The end is told in the same breath.
                        said = sequence.taken.answer.next().await;
                        continue;
                    }
                    match sequence.taken.answer.next().now_or_never() {
                        Some(ended @ Some(Said::Ended(_))) => {
                            said = ended;
                            continue;
                        }
                        more => {
                            let is_due = sequence.made - sequence.told >= self.manner.interval;
                            if sequence.told == 0 || is_due {
                                self.chunk(&mut sequence, None, frame);
                            }
                            if let Some(more) = more {
                                said = more;
                                continue;
                            }
                        }
                    }
                }
            }
            self.sequences.push(next(sequence));
            return Ok(());
        }
    }

    /// Writes the tokens that are there and not told yet, and how it ended if it did.
    fn chunk(&self, sequence: &mut Sequence, ending: Option<&Ending>, frame: &mut Vec<u8>) {
        let index = sequence.taken.index;
        let mut text = String::new();
        sequence
            .taken
            .filler
            .write(sequence.told, sequence.made, &mut text);
        sequence.told = sequence.made;
        let finish = ending.and_then(|ending| finish_reason(ending.why));
        match self.api {
            Api::Completions => {
                let choice = TextChoice {
                    index,
                    text,
                    logprobs: None,
                    finish_reason: finish,
                    stop_reason: None,
                };
                self.event(choice, sequence, ending, frame);
            }
            Api::Chat => {
                if !sequence.has_role {
                    let told = std::mem::take(&mut sequence.told);
                    self.event(
                        delta(index, Some("assistant"), String::new(), None),
                        sequence,
                        None,
                        frame,
                    );
                    (sequence.told, sequence.has_role) = (told, true);
                }
                self.event(delta(index, None, text, finish), sequence, ending, frame);
            }
        }
    }

    fn event<Choice: Serialize>(
        &self,
        choice: Choice,
        sequence: &Sequence,
        ending: Option<&Ending>,
        frame: &mut Vec<u8>,
    ) {
        let so_far = || Usage {
            prompt_tokens: sequence.taken.prompt_tokens.into(),
            total_tokens: u64::from(sequence.taken.prompt_tokens) + u64::from(sequence.told),
            completion_tokens: sequence.told.into(),
            prompt_tokens_details: None,
        };
        let is_last = !self.manner.include_usage && ending.is_some();
        let envelope = Envelope {
            system_fingerprint: is_last.then_some(self.head.fingerprint.as_str()),
            usage: self.manner.continuous_usage.then(so_far),
            plimsoll: ending
                .filter(|_| is_last && self.endings.len() == 1)
                .map(Simulated::of),
            ..self.envelope(vec![choice])
        };
        event(frame, &json(&envelope));
    }

    /// The usage, if it is asked for, and the end.
    fn finish(&mut self, frame: &mut Vec<u8>) {
        if self.manner.include_usage {
            let endings: Vec<Ending> = self.endings.iter().flatten().cloned().collect();
            let envelope = Envelope::<()> {
                system_fingerprint: Some(&self.head.fingerprint),
                usage: Some(Usage::of(&endings, self.manner.n)),
                plimsoll: match endings.as_slice() {
                    [only] => Some(Simulated::of(only)),
                    _ => None,
                },
                ..self.envelope(Vec::new())
            };
            event(frame, &json(&envelope));
        }
        self.done(frame);
    }

    fn done(&mut self, frame: &mut Vec<u8>) {
        event(frame, "[DONE]");
        self.is_done = true;
    }

    fn envelope<Choice>(&self, choices: Vec<Choice>) -> Envelope<'_, Choice> {
        Envelope {
            id: &self.head.id,
            object: match self.api {
                Api::Completions => "text_completion",
                Api::Chat => "chat.completion.chunk",
            },
            created: self.head.created,
            model: &self.head.model,
            choices,
            system_fingerprint: None,
            usage: None,
            plimsoll: None,
        }
    }
}

fn delta(
    index: usize,
    role: Option<&'static str>,
    content: String,
    finish: Option<&'static str>,
) -> DeltaChoice {
    DeltaChoice {
        index,
        delta: Delta { role, content },
        logprobs: None,
        finish_reason: finish,
    }
}

fn json(envelope: &impl Serialize) -> String {
    serde_json::to_string(envelope).expect("strings and numbers are JSON")
}

fn event(frame: &mut Vec<u8>, data: &str) {
    frame.extend_from_slice(b"data: ");
    frame.extend_from_slice(data.as_bytes());
    frame.extend_from_slice(b"\n\n");
}
