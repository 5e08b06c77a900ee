//! Answers in one piece.

use serde::Serialize;

use super::Api;
use super::answers::{Head, Taken};
use super::error::ApiError;
use super::shapes::{Envelope, Message, MessageChoice, Simulated, TextChoice, Usage, finish_reason};
use crate::serve::desk::{Ending, House, Said};

/// Waits for all sequences; the body, or what one of them was lost by.
pub async fn write(
    api: Api,
    head: &Head,
    taken: Vec<Taken>,
    n: usize,
    house: &House,
) -> Result<Vec<u8>, ApiError> {
    let mut endings = Vec::with_capacity(taken.len());
    let mut texts = Vec::with_capacity(taken.len());
    for mut sequence in taken {
        let ending = ending(&mut sequence).await.ok_or_else(ApiError::closed)?;
        if let Some(error) = ApiError::of_ending(&ending, house) {
            return Err(error);
        }
        texts.push(sequence.filler.text(ending.output_tokens));
        endings.push(ending);
    }
    let told = texts.into_iter().zip(&endings).enumerate();
    Ok(match api {
        Api::Completions => body(
            head,
            "text_completion",
            told.map(|(index, (text, ending))| TextChoice {
                index,
                text,
                logprobs: None,
                finish_reason: finish_reason(ending.why),
                stop_reason: None,
            })
            .collect(),
            &endings,
            n,
        ),
        Api::Chat => body(
            head,
            "chat.completion",
            told.map(|(index, (content, ending))| MessageChoice {
                index,
                message: Message {
                    role: "assistant",
                    content,
                    refusal: None,
                    reasoning: None,
                },
                logprobs: None,
                finish_reason: finish_reason(ending.why),
                stop_reason: None,
            })
            .collect(),
            &endings,
            n,
        ),
    })
}

async fn ending(sequence: &mut Taken) -> Option<Ending> {
    loop {
        if let Said::Ended(ending) = sequence.answer.next().await? {
            return Some(ending);
        }
    }
}

fn body<Choice: Serialize>(
    head: &Head,
    object: &'static str,
    choices: Vec<Choice>,
    endings: &[Ending],
    n: usize,
) -> Vec<u8> {
    let envelope = Envelope {
        id: &head.id,
        object,
        created: head.created,
        model: &head.model,
        choices,
        system_fingerprint: Some(&head.fingerprint),
        usage: Some(Usage::of(endings, n)),
        plimsoll: match endings {
            [only] => Some(Simulated::of(only)),
            _ => None,
        },
    };
    serde_json::to_vec(&envelope).expect("strings and numbers are JSON")
}
