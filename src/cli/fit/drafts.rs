//! What a decode step brings and reads where the engine speculates: more than a token, and more than its weights.

use crate::config::Capacity;
use crate::engine::ceilings::{Ceilings, shared_ceilings};
use crate::engine::{EngineSpec, Speculates};
use crate::units::Bytes;

/// Upper bounds of a replica. Where it speculates a decode step of one sequence reads what its drafts need, too: the experts that they
/// choose, and the drafter in each of its passes, a branch of a tree counted once.
pub(super) fn ceilings(question: &Capacity) -> Ceilings {
    let Capacity {
        device,
        worked,
        worked_for_all,
        options,
        ..
    } = question;
    let (tensor, stages) = (options.tensor_parallel, options.pipeline_parallel);
    let plain = shared_ceilings(device, (worked, worked_for_all), tensor, stages);
    let Some(Speculates { drafts, levels, .. }) = speculation(question) else {
        return plain;
    };
    let drafter = options.drafter.as_ref();
    let drafting = drafter.map_or(Bytes(0), |drafter| drafter.streamed_bytes(tensor, drafts, levels));
    plain.reading(worked.streamed_bytes_of(tensor, 1 + drafts) + drafting, device)
}

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
