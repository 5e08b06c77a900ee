//! `--speculative-algorithm` and what goes with it: who drafts, how many tokens a verification has and how many levels, as the server
//! resolves them (0.5.23 `handle_speculative_decoding`; SG-54).
//!
//! How often drafts stand is asked for, in the keys of `engine.speculative_config` that say it for vLLM, too. What else those ask for
//! (`method`, `model`, `num_speculative_tokens`) is taken for the server's own flags, so that engines can be compared by one line.
//! Left out: drafts in blocks (DFLASH, DSPARK, UNO), a number of drafts that follows the batch, mixed batches, 0.5.4.

use super::drafts::{Algorithm, ELSEWHERE, NAMES, Tree, WITH_TREES};
use super::profile::{Behaviour, SglangProfile};
use super::sizes::SPECULATING_MAX;
use crate::config::document::Source;
use crate::config::drafter::{self, Named};
use crate::config::judge::Judge;
use crate::config::raw::{RawEngine, RawSglang, RawSpeculation};
use crate::config::scalar::Count;
use crate::config::speculation;
use crate::cost::roofline::Drafting;
use crate::engine::sglang::SglangSpeculation;
use crate::model::ModelShape;
use crate::nearest::nearest;

const KEY: &str = "sglang.speculative_algorithm";
/// More tokens of a verification than anybody asks for.
pub(crate) const DRAFT_TOKENS_MAX: u32 = 64;
/// Branches of each draft at most.
const BRANCHES_MAX: u64 = 16;
/// `speculative_num_draft_tokens` of n-grams by default, and their `speculative_ngram_max_bfs_breadth`.
const NGRAM_TOKENS: u64 = 12;
const NGRAM_BREADTH: u32 = 10;

/// Speculative decoding as the scheduler, and as step time and memory see it.
pub(super) struct Drafts {
    pub(super) scheduled: SglangSpeculation,
    pub(super) drafting: Drafting,
}

/// What of the other flags drafts depend on.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) page_size: u32,
    pub(super) context_length: u32,
    pub(super) enable_mixed_chunk: bool,
    /// Attention kernels.
    pub(super) kernels: &'static str,
}

/// Resolves the flags; `None` where nothing is drafted, or was reported.
pub(super) fn resolve(
    judge: &mut Judge,
    (engine, raw): (&RawEngine, &RawSglang),
    profile: &SglangProfile,
    model: Option<&ModelShape>,
    around: Around,
) -> Option<Drafts> {
    let shared = engine.speculative_config.clone().unwrap_or_default();
    let algorithm = algorithm(judge, raw, engine.speculative_config.as_ref())?;
    if profile.behaviour == Behaviour::V0_5_4 {
        judge.wrong_help(
            KEY,
            "is not modelled for SGLang 0.5.4",
            "it decides, drafts and verifies in turn there, with a memory of its own rules that was never recorded",
            "--engine sglang@0.5.23 has it",
        );
        return None;
    }
    let named = raw
        .speculative_draft_model_path
        .as_ref()
        .or(shared.model.as_ref());
    let tree = match algorithm {
        Algorithm::Ngram => of_ngrams(judge, raw, &shared)?,
        _ => tree(judge, raw, &shared, algorithm, model)?,
    };
    check_beside(judge, algorithm, around);
    check_pages(judge, algorithm, tree, around);
    let acceptance = speculation::acceptance(judge, &shared, tree.levels(algorithm))?;
    judge.given(
        KEY,
        format!(
            "{}, {} tokens a verification, {} levels of drafts",
            algorithm.name(),
            tree.tokens,
            tree.levels(algorithm)
        ),
    );
    if algorithm == Algorithm::Eagle3 && named.is_none() {
        judge.missing(
            "nothing says which EAGLE-3 head drafts, and the server would load the model itself as one",
            "give --speculative-draft-model-path",
        );
        return None;
    }
    let method = algorithm.method(model, named.is_some());
    let of = Named {
        drafter: named.map(String::as_str),
        key: "sglang.speculative_draft_model_path",
        asker: KEY,
        longest: "sglang.context_length",
        unnamed: (
            "nothing says which model drafts",
            "give --speculative-draft-model-path",
        ),
        of_vocabulary: "its drafts would be other tokens",
    };
    let drafter = drafter::of(judge, of, method, model, around.context_length)?;
    let drafter = match (drafter, model) {
        (Some(drafter), Some(model)) => Some(drafter.counted_like(model)),
        (drafter, _) => drafter,
    };
    if algorithm == Algorithm::Ngram {
        judge.notes.push(
            "n-grams are looked up by the host, which is taken to cost nothing: no calibration has measured it".to_string(),
        );
    }
    Some(Drafts {
        scheduled: tree.scheduled(algorithm, around.page_size, acceptance),
        drafting: Drafting {
            drafts: tree.tokens - 1,
            levels: tree.steps,
            branches: tree.branches,
            precede: true,
            drafter,
        },
    })
}

/// What drafts; `None` where nothing does, or was reported.
fn algorithm(judge: &mut Judge, raw: &RawSglang, shared: Option<&RawSpeculation>) -> Option<Algorithm> {
    let is_none = |asked: &RawSpeculation| asked.num_speculative_tokens.is_some_and(|drafts| drafts.0 == 0);
    let shared = shared.filter(|shared| !is_none(shared));
    let Some(name) = &raw.speculative_algorithm else {
        for (key, is_given) in [
            (
                "speculative_draft_model_path",
                raw.speculative_draft_model_path.is_some(),
            ),
            ("speculative_num_steps", raw.speculative_num_steps.is_some()),
            ("speculative_eagle_topk", raw.speculative_eagle_topk.is_some()),
            (
                "speculative_num_draft_tokens",
                raw.speculative_num_draft_tokens.is_some(),
            ),
        ] {
            if is_given && shared.is_none() {
                let name = judge.document.name_of(&format!("sglang.{key}"));
                judge.ignore(format!("{name} has no effect without --speculative-algorithm"));
            }
        }
        return speculation::method_or(judge, shared?, HOW_TO_ASK).map(Algorithm::of);
    };
    let found = Algorithm::named(name);
    if found.is_none() {
        let (why, help) = match ELSEWHERE.contains(&name.to_uppercase().as_str()) {
            true => (
                "its drafts come in blocks of their own or share the model's cache",
                "EAGLE, EAGLE3, NEXTN, STANDALONE and NGRAM are".to_string(),
            ),
            false => (
                "SGLang has no such algorithm",
                match nearest(&name.to_uppercase(), NAMES, 1).first() {
                    Some(near) => format!("did you mean {near}? It has {}", NAMES.join(", ")),
                    None => format!("it has {}", NAMES.join(", ")),
                },
            ),
        };
        judge.wrong_help(KEY, &format!("is {name}, which is not modelled"), why, help);
    }
    found
}

const HOW_TO_ASK: &str = "give SGLang's own flags: --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 \
     --speculative-num-draft-tokens 4";

/// A number that SGLang's flag gives, or one of `speculative_config`.
fn number(judge: &mut Judge, key: &str, given: Option<Count>, limits: (u64, u64)) -> Option<u32> {
    given.map(|given| judge.required(&format!("sglang.{key}"), given, limits))
}

/// Levels, branches and tokens of EAGLE's kin and of a model that drafts: given, or as the server chooses by the model.
fn tree(
    judge: &mut Judge,
    raw: &RawSglang,
    shared: &RawSpeculation,
    algorithm: Algorithm,
    model: Option<&ModelShape>,
) -> Option<Tree> {
    let most = u64::from(DRAFT_TOKENS_MAX);
    let of_config = shared.num_speculative_tokens.map(|drafts| {
        judge.required(
            "engine.speculative_config.num_speculative_tokens",
            drafts,
            (1, most - 1),
        )
    });
    let steps = number(
        judge,
        "speculative_num_steps",
        raw.speculative_num_steps,
        (1, most - 1),
    )
    .or(of_config);
    let branches = number(
        judge,
        "speculative_eagle_topk",
        raw.speculative_eagle_topk,
        (1, BRANCHES_MAX),
    );
    let tokens = number(
        judge,
        "speculative_num_draft_tokens",
        raw.speculative_num_draft_tokens,
        (2, most),
    );
    let Some(steps) = steps else {
        if branches.is_some() || tokens.is_some() {
            judge.missing(
                "nothing says how many steps are drafted, and the server takes all three numbers or none",
                "give --speculative-num-steps, too",
            );
            return None;
        }
        return Some(chosen(judge, algorithm, model));
    };
    // A chain where vLLM's keys ask for one: they know no trees.
    let branches = branches.or(of_config.map(|_| 1));
    let Some(branches) = branches else {
        judge.missing(
            "nothing says how many branches drafts have, and the server fails without",
            "give --speculative-eagle-topk 1, which is a chain",
        );
        return None;
    };
    let tokens = match (branches, tokens) {
        (1, Some(tokens)) if tokens != steps + 1 => {
            judge.notes.push(format!(
                "speculative_num_draft_tokens {tokens} becomes {}, as the server would say: a chain of {steps} drafts has as many and \
                 one",
                steps + 1
            ));
            steps + 1
        }
        (1, _) => steps + 1,
        (_, Some(tokens)) => tokens,
        (_, None) => {
            judge.missing(
                "nothing says how many tokens of the tree are verified",
                "give --speculative-num-draft-tokens",
            );
            return None;
        }
    };
    Some(Tree {
        steps,
        branches,
        tokens,
    })
}

/// What the server chooses where nobody says (`_auto_choose_speculative_params`).
fn chosen(judge: &mut Judge, algorithm: Algorithm, model: Option<&ModelShape>) -> Tree {
    let is_tree = algorithm != Algorithm::Standalone
        && model.is_some_and(|model| WITH_TREES.contains(&model.architecture.as_str()));
    let (steps, branches, tokens) = if is_tree { (5, 4, 8) } else { (3, 1, 4) };
    let source = || Source::Profile("sglang@0.5.23, by the model's architecture".to_string());
    for (key, value) in [
        ("speculative_num_steps", steps),
        ("speculative_eagle_topk", branches),
        ("speculative_num_draft_tokens", tokens),
    ] {
        judge.assume(&format!("sglang.{key}"), i64::from(value), source());
    }
    Tree {
        steps,
        branches,
        tokens,
    }
}

/// Tokens of n-grams; what is looked up is a tree as deep as it has tokens at most (`_handle_ngram`).
fn of_ngrams(judge: &mut Judge, raw: &RawSglang, shared: &RawSpeculation) -> Option<Tree> {
    let most = u64::from(DRAFT_TOKENS_MAX);
    let of_config = shared.num_speculative_tokens.map(|drafts| {
        1 + judge.required(
            "engine.speculative_config.num_speculative_tokens",
            drafts,
            (1, most - 1),
        )
    });
    let key = "sglang.speculative_num_draft_tokens";
    let tokens = match (raw.speculative_num_draft_tokens, of_config) {
        (Some(given), _) => judge.required(key, given, (2, most)),
        (None, Some(tokens)) => tokens,
        (None, None) => {
            let source = Source::Profile("sglang@0.5.23, of n-grams".to_string());
            judge.assume(key, NGRAM_TOKENS as i64, source);
            NGRAM_TOKENS as u32
        }
    };
    for (name, is_given) in [
        ("speculative_num_steps", raw.speculative_num_steps.is_some()),
        ("speculative_eagle_topk", raw.speculative_eagle_topk.is_some()),
    ] {
        if is_given {
            let name = judge.document.name_of(&format!("sglang.{name}"));
            judge.ignore(format!("{name} has no effect on n-grams"));
        }
    }
    Some(Tree {
        steps: tokens / NGRAM_BREADTH,
        branches: NGRAM_BREADTH,
        tokens,
    })
}

/// What the server turns off, and what was never recorded.
fn check_beside(judge: &mut Judge, algorithm: Algorithm, around: Around) {
    if !around.enable_mixed_chunk {
        return;
    }
    match algorithm {
        Algorithm::Eagle | Algorithm::Eagle3 => {
            judge.wrong_help(
                "sglang.enable_mixed_chunk",
                "is not modelled beside drafts",
                "schedules of this were never recorded",
                "leave one of them out",
            );
        }
        Algorithm::Standalone | Algorithm::Ngram => judge.ignore(format!(
            "enable_mixed_chunk has no effect: the server turns it off beside {}",
            algorithm.name()
        )),
    }
}

/// Trees in pages of several tokens need kernels that the server knows to verify them; `trtllm_mha` verifies none.
fn check_pages(judge: &mut Judge, algorithm: Algorithm, tree: Tree, around: Around) {
    let able: &[&str] = match algorithm {
        Algorithm::Ngram => &["flashinfer"],
        _ => &["flashinfer", "fa3", "triton"],
    };
    let Around {
        page_size, kernels, ..
    } = around;
    let is_able = page_size == 1 || able.contains(&kernels) || kernels.is_empty();
    if tree.branches > 1 && !is_able {
        judge.wrong_help(
            KEY,
            "drafts trees, which the attention kernels do not verify in pages of several tokens",
            format!("{kernels}, pages of {page_size}, {} branches", tree.branches),
            match algorithm {
                Algorithm::Ngram => "the server takes --page-size 1, or flashinfer",
                _ => "the server takes a chain: --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
            },
        );
    }
}

/// Most requests that run where nobody says, with drafts.
pub(super) fn max_running_requests(judge: &mut Judge, profile: &SglangProfile) -> u32 {
    let source = Source::Profile(format!("{}, with drafts", profile.profile));
    judge.assume("sglang.max_running_requests", i64::from(SPECULATING_MAX), source);
    SPECULATING_MAX
}

#[cfg(test)]
mod tests;
