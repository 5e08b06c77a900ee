//! What a decode step brings where the engine speculates: more than a token.

use crate::config::Capacity;
use crate::engine::{EngineSpec, Speculates};

/// How the engine speculates, if it does.
pub(super) fn speculation(question: &Capacity) -> Option<Speculates<'_>> {
    question.engine.as_ref()?.speculates()
}

/// Tokens that one sequence gets in a decode step; where nobody says how many drafts stand, as many as can.
pub(super) fn tokens_per_decode(question: &Capacity) -> f64 {
    let engine = question.engine.as_ref();
    engine.map_or(1.0, EngineSpec::tokens_per_decode)
}

/// `, 1.88 tokens a step`, where it is more than one.
pub(super) fn of_step(question: &Capacity) -> String {
    match speculation(question) {
        None => String::new(),
        Some(speculation) if speculation.acceptance.is_empty() => {
            format!(", if all {} drafts stand", speculation.levels)
        }
        Some(_) => format!(", {:.2} tokens a step", tokens_per_decode(question)),
    }
}
