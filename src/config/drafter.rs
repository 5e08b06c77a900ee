//! Which network drafts, for any engine that speculates: a layer on the model's hidden states, its own multi-token prediction, or a
//! smaller model; and beside which layers nobody has seen what drafts do.

use super::judge::Judge;
use super::speculation::Method;
use crate::model::{self, Drafter, ModelShape, UNCOUNTED_PREDICTION};

/// Where a drafter is named, and what is said of it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) drafter: Option<&'a str>,
    /// The key of that name.
    pub(super) key: &'static str,
    /// What asks for drafts at all.
    pub(super) asker: &'static str,
    /// The key of the longest sequence.
    pub(super) longest: &'static str,
    /// What is missing without a name, and what to give.
    pub(super) unnamed: (&'static str, &'static str),
    /// What becomes of a drafter with another vocabulary.
    pub(super) of_vocabulary: &'static str,
}

/// What drafts, if it is a network; the outer `None` was reported.
pub(super) fn of(
    judge: &mut Judge,
    named: Named<'_>,
    method: Method,
    model: Option<&ModelShape>,
    max_model_len: u32,
) -> Option<Option<Drafter>> {
    let target = model?;
    refuse_layers(judge, named, target);
    let drafter = match method {
        Method::Ngram => return Some(None),
        Method::Eagle | Method::Eagle3 => Drafter::eagle(target, method == Method::Eagle3),
        Method::Mtp => Drafter::of_multi_token_prediction(target),
        Method::DraftModel => {
            let key = named.key;
            let Some(name) = named.drafter else {
                let (message, help) = named.unnamed;
                judge.missing(message, help);
                return None;
            };
            match model::find_checkpoint(name) {
                Ok((shape, notes)) => {
                    judge.notes.extend(notes);
                    check_model(judge, named, &shape, target, max_model_len);
                    Drafter::model(shape)
                }
                Err(unknown) => {
                    let help = match &unknown.suggestions[..] {
                        [] => "`plimsoll models` lists them".to_owned(),
                        near => format!("did you mean {}?", near.join(" or ")),
                    };
                    let why = format!("no shape of `{name}` is bundled");
                    judge.wrong_help(key, "is not a bundled model", why, help);
                    return None;
                }
            }
        }
    };
    let gigabytes = drafter.weight_bytes(1).0 as f64 / 1e9;
    if method == Method::Mtp {
        judge.notes.retain(|note| note != UNCOUNTED_PREDICTION);
    }
    judge.notes.push(match method {
        Method::DraftModel => {
            format!("{} drafts: {gigabytes:.2} GB of weights beside the model's", drafter.shape.name)
        }
        Method::Mtp => format!(
            "multi-token prediction is taken to be one module like the model's last layer, which the checkpoint must have: \
             {gigabytes:.2} GB of weights"
        ),
        _ => format!(
            "the drafter is taken to be one layer like the model's: {}, {gigabytes:.2} GB of weights",
            drafter.shape.name
        ),
    });
    if let (Some(name), false) = (named.drafter, method == Method::DraftModel) {
        judge.ignore(format!(
            "the drafter's name `{name}` has no effect: its size is taken from the model's"
        ));
    }
    Some(Some(drafter))
}

/// Layers beside which nobody has seen what drafts do to their blocks.
fn refuse_layers(judge: &mut Judge, named: Named<'_>, shape: &ModelShape) {
    let unheld = match shape.recurrence() {
        Some(_) => Some("layers that keep a state"),
        None => shape.has_windows().then_some("sliding windows"),
    };
    if let Some(layers) = unheld {
        judge.wrong_help(
            named.asker,
            "is not modelled for this model",
            format!(
                "{} has {layers}, and what they keep beside drafts is not known here",
                shape.name
            ),
            "leave it out",
        );
    }
}

/// What vLLM demands of a model that drafts (`verify_equal_vocab_size_if_draft_model`, `_limit_max_model_len_to_draft`), and nobody else
/// could do without: tokens of one vocabulary mean nothing in another, nor positions beyond the last.
fn check_model(
    judge: &mut Judge,
    named: Named<'_>,
    drafter: &ModelShape,
    target: &ModelShape,
    max_model_len: u32,
) {
    refuse_layers(judge, named, drafter);
    if drafter.vocab_size != target.vocab_size {
        judge.wrong_help(
            named.key,
            "has another vocabulary",
            format!(
                "{} has {} tokens, {} has {}, and {}",
                drafter.name, drafter.vocab_size, target.name, target.vocab_size, named.of_vocabulary
            ),
            "take a smaller model of the same family",
        );
    } else if max_model_len > drafter.max_position {
        judge.wrong_help(
            named.longest,
            "is longer than the drafter's context",
            format!("{} has {} tokens", drafter.name, drafter.max_position),
            format!("write at most {}", drafter.max_position),
        );
    }
}
