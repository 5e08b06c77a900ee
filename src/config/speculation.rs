//! `engine.speculative_config`: vLLM's speculative decoding, and how many of its drafts stand.
//!
//! Which methods keep KV slots ahead, drop the last block of a prefix hit or take slots of the token budget is vLLM's
//! (`VllmConfig.num_lookahead_tokens`, `SpeculativeConfig.use_eagle_block_drop`, `max_num_new_slots_for_drafting`). How often drafts stand is
//! a property of drafter and text that nothing here can foresee: it is asked for.
//! Left out: drafts in parallel, a number of drafts that follows the batch, suffix decoding.

use super::drafter::{self, Named};
use super::judge::Judge;
use super::profile::{Profile, SpeculationRules};
use super::raw::{RawEngine, RawScenario, RawSpeculation};
use crate::cluster::{ClusterSpec, Group};
use crate::cost::roofline::Drafting;
use crate::engine::{BlockHashes, EngineConfig, Policy, Speculation};
use crate::model::ModelShape;
use crate::nearest::nearest;
use crate::sim::Pool;

/// What drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// A head on the target's hidden states (EAGLE, EAGLE-3).
    Eagle,
    /// EAGLE-3, which has a vocabulary of its own.
    Eagle3,
    /// The model's own multi-token prediction.
    Mtp,
    /// A smaller model.
    DraftModel,
    /// What followed the last few tokens before.
    Ngram,
}

impl Method {
    const ALL: [Method; 5] = [
        Method::Eagle,
        Method::Eagle3,
        Method::Mtp,
        Method::DraftModel,
        Method::Ngram,
    ];

    /// By vLLM's names.
    pub(crate) fn named(name: &str) -> Option<Method> {
        match name {
            "eagle" => Some(Method::Eagle),
            "eagle3" => Some(Method::Eagle3),
            "draft_model" => Some(Method::DraftModel),
            "ngram" => Some(Method::Ngram),
            _ if name == "mtp" || name.ends_with("_mtp") => Some(Method::Mtp),
            _ => None,
        }
    }

    /// As vLLM spells it.
    fn name(self) -> &'static str {
        match self {
            Method::Eagle => "eagle",
            Method::Eagle3 => "eagle3",
            Method::Mtp => "mtp",
            Method::DraftModel => "draft_model",
            Method::Ngram => "ngram",
        }
    }

    /// It builds its KV from the target's hidden states and the token after each.
    fn is_of_eagle_family(self) -> bool {
        matches!(self, Method::Eagle | Method::Eagle3 | Method::Mtp)
    }
}

/// Names of methods that are modelled.
const METHODS: &str = "eagle, eagle3, mtp, draft_model and ngram are";
/// How it is asked for.
const HOW_TO_ASK: &str = "give its method and how many tokens it drafts: --spec-method eagle3 --spec-tokens 3, or both in `speculative_config`";
/// More drafts than anybody asks for.
const DRAFTS_MAX: u64 = 64;

/// What is asked of the scheduler.
pub(crate) struct Wish {
    pub(crate) method: Method,
    pub(crate) drafts: u32,
    /// `max_num_batched_tokens`, of which a drafter takes slots.
    pub(crate) runner_tokens: u32,
    /// `disable_lookahead_block_hashes`.
    pub(crate) keeps_hashes: bool,
    /// `disable_eagle_block_drop`.
    pub(crate) drops_nothing: bool,
    pub(crate) acceptance: Vec<f64>,
}

/// What the scheduler of a version does for it.
pub(crate) fn scheduled(wish: Wish, rules: SpeculationRules) -> Speculation {
    let Wish {
        method,
        drafts,
        runner_tokens,
        keeps_hashes,
        drops_nothing,
        acceptance,
    } = wish;
    let eagle = method.is_of_eagle_family();
    let hashes = match eagle && !drops_nothing {
        false => BlockHashes::Own,
        true if rules.hashes_ahead && !keeps_hashes => BlockHashes::Ahead,
        true => BlockHashes::LastDropped,
    };
    Speculation {
        drafts,
        runner_tokens,
        lookahead: match eagle || method == Method::DraftModel {
            true => drafts,
            false => 0,
        },
        slots: u32::from(method == Method::DraftModel),
        looks_ahead_at_admission: rules.looks_ahead_at_admission,
        pads_admissions: rules.pads_admissions,
        registers_output: rules.registers_output,
        keeps_drafts: rules.keeps_drafts,
        drafts_for_chunks: rules.drafts_for_chunks && method != Method::Ngram,
        drafts_near_longest: rules.drafts_near_longest,
        hashes,
        acceptance,
    }
}

/// Speculative decoding as the scheduler, and as step time and memory see it.
pub(super) struct Drafts {
    pub(super) scheduled: Speculation,
    pub(super) drafting: Drafting,
}

/// What of an engine's flags drafts depend on.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) is_asynchronous: bool,
    /// `max_num_batched_tokens`.
    pub(super) runner_tokens: u32,
    /// Tokens of a step, of what that leaves.
    pub(super) budget: u32,
    pub(super) max_model_len: u32,
}

/// Resolves `engine.speculative_config`; `None` where nothing is drafted, or was reported.
pub(super) fn speculation(
    judge: &mut Judge,
    engine: &RawEngine,
    profile: &Profile,
    model: Option<&ModelShape>,
    around: Around,
) -> Option<Drafts> {
    let Around {
        is_asynchronous,
        runner_tokens,
        budget,
        max_model_len,
    } = around;
    let raw = engine.speculative_config.as_ref()?;
    if raw.num_speculative_tokens.is_some_and(|drafts| drafts.0 == 0) {
        // Nothing is drafted: what the rest says is moot.
        return None;
    }
    let moot = [
        ("prompt_lookup_max", raw.prompt_lookup_max.is_some()),
        ("prompt_lookup_min", raw.prompt_lookup_min.is_some()),
        ("rejection_sample_method", raw.rejection_sample_method.is_some()),
    ];
    for (name, _) in moot.into_iter().filter(|(_, is_given)| *is_given) {
        judge.ignore(format!(
            "{name} has no effect: --acceptance-rate already fixes how many drafts are accepted"
        ));
    }
    let key = |name: &str| format!("engine.speculative_config.{name}");
    let rules = profile.speculation;
    let method = method_or(judge, raw, HOW_TO_ASK)?;
    if method == Method::DraftModel && !rules.drafts_by_model {
        judge.wrong(
            &key("method"),
            "is not taken by this version",
            format!("{} has no draft models", profile.profile),
        );
    }
    if is_asynchronous && !rules.is_asynchronous {
        judge.wrong_help(
            "engine.speculative_config",
            "cannot be scheduled asynchronously",
            format!("{} refuses both together", profile.profile),
            "leave out async_scheduling",
        );
    }
    let Some(asked) = raw.num_speculative_tokens else {
        judge.missing(
            "`speculative_config` does not say how many tokens are drafted",
            "give num_speculative_tokens, 1 to 5 as a rule",
        );
        return None;
    };
    let drafts = judge.required(&key("num_speculative_tokens"), asked, (1, DRAFTS_MAX));
    let step = budget.min(runner_tokens - u32::from(method == Method::DraftModel));
    if step <= drafts && !judge.is_wrong(&["engine.max_num_batched_tokens"]) {
        judge.wrong_help(
            &key("num_speculative_tokens"),
            "does not fit into a step",
            format!("a decode brings {} tokens, and a step holds {step}", drafts + 1),
            "draft less, or raise max_num_batched_tokens",
        );
    }
    let threshold = engine
        .long_prefill_token_threshold
        .map_or(0, |threshold| threshold.0);
    if rules.pads_admissions && (1..=u64::from(drafts)).contains(&threshold) {
        judge.wrong_help(
            "engine.long_prefill_token_threshold",
            "cuts a decode with its drafts",
            format!("{} tokens, and vLLM fails on {threshold}", drafts + 1),
            "leave it out, or draft less",
        );
    }
    let acceptance = acceptance(judge, raw, drafts)?;
    judge.given(
        "engine.speculative_config",
        format!("{}, {drafts} drafts", method.name()),
    );
    let named = Named {
        drafter: raw.model.as_deref(),
        key: "engine.speculative_config.model",
        asker: "engine.speculative_config",
        longest: "engine.max_model_len",
        unnamed: (
            "`speculative_config` does not say which model drafts",
            "give model",
        ),
        of_vocabulary: "vLLM refuses that",
    };
    let drafter = drafter::of(judge, named, method, model, max_model_len)?;
    let wish = Wish {
        method,
        drafts,
        runner_tokens,
        keeps_hashes: raw.disable_lookahead_block_hashes.unwrap_or(false),
        drops_nothing: raw.disable_eagle_block_drop.unwrap_or(false),
        acceptance,
    };
    Some(Drafts {
        scheduled: scheduled(wish, rules),
        drafting: Drafting {
            drafts,
            levels: drafts,
            branches: 1,
            precede: false,
            drafter,
        },
    })
}

/// What drafts; `how_to_ask` is said where nothing tells.
pub(super) fn method_or(judge: &mut Judge, raw: &RawSpeculation, how_to_ask: &str) -> Option<Method> {
    let key = "engine.speculative_config.method";
    let name = match (&raw.method, &raw.model) {
        (Some(name), _) => name.to_lowercase(),
        // As vLLM guesses (`SpeculativeConfig.__post_init__`).
        (None, Some(model)) if model.to_lowercase().contains("eagle3") => "eagle3".to_owned(),
        (None, Some(model)) if model.to_lowercase().contains("eagle-") => "eagle".to_owned(),
        (None, Some(model)) if matches!(model.as_str(), "ngram" | "[ngram]") => "ngram".to_owned(),
        (None, Some(_)) => "draft_model".to_owned(),
        (None, None) => {
            judge.missing(
                "nothing says what drafts, though speculation is asked for",
                how_to_ask,
            );
            return None;
        }
    };
    let method = Method::named(&name);
    if method.is_none() {
        let help = match nearest(&name, Method::ALL.map(Method::name), 1).first() {
            Some(near) => format!("did you mean {near}? {METHODS}"),
            None => METHODS.to_owned(),
        };
        judge.wrong_help(key, "is not modelled", format!("{name} is not"), help);
    }
    method
}

/// `r_i`, which share of the verifications accepts its first `i` drafts; `None` was reported.
pub(super) fn acceptance(judge: &mut Judge, raw: &RawSpeculation, drafts: u32) -> Option<Vec<f64>> {
    let name = |name: &str| format!("engine.speculative_config.{name}");
    let given = [
        raw.acceptance_rate.is_some(),
        raw.synthetic_acceptance_length.is_some(),
        raw.synthetic_acceptance_rates.is_some(),
    ];
    match given.iter().filter(|&&given| given).count() {
        // Memory does not depend on it; a run asks for it ([`check`]).
        0 => return Some(Vec::new()),
        1 => {}
        _ => {
            judge.wrong_help(
                "engine.speculative_config",
                "says twice how many drafts stand",
                "acceptance_rate, synthetic_acceptance_length and synthetic_acceptance_rates say the same",
                "keep one of them",
            );
            return None;
        }
    }
    let drafts = drafts as usize;
    if let Some(rate) = raw.acceptance_rate {
        judge.fraction(&name("acceptance_rate"), rate, true, true);
        return Some((1..=drafts).map(|position| rate.powi(position as i32)).collect());
    }
    if let Some(length) = raw.synthetic_acceptance_length {
        let most = 1.0 + drafts as f64;
        if !(1.0..=most).contains(&length) {
            judge.wrong(
                &name("synthetic_acceptance_length"),
                "is out of range",
                format!("a verification of {drafts} drafts brings 1 to {most} tokens"),
            );
            return None;
        }
        // SD-3: the fewest positions, the last of them in part.
        let left = |position: usize| (length - 1.0 - position as f64).clamp(0.0, 1.0);
        return Some((0..drafts).map(left).collect());
    }
    let rates = raw.synthetic_acceptance_rates.clone().unwrap_or_default();
    let falls = rates.windows(2).all(|pair| pair[1] <= pair[0]);
    if rates.len() != drafts || !falls || rates.iter().any(|rate| !(0.0..=1.0).contains(rate)) {
        judge.wrong(
            &name("synthetic_acceptance_rates"),
            "must be one share for each draft, none above the one before",
            format!("{} drafts, {} rates", drafts, rates.len()),
        );
        return None;
    }
    Some(rates)
}

/// What of a scenario drafts may stand beside.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) pools: &'a [Pool],
    pub(super) cluster: &'a ClusterSpec,
    pub(super) is_in_lock_step: bool,
    pub(super) has_tiers: bool,
}

/// The key that asks an engine for drafts.
pub(super) fn asker(engine: &str) -> &'static str {
    match engine {
        "sglang" => "sglang.speculative_algorithm",
        _ => "engine.speculative_config",
    }
}

/// Refuses speculation beside what it was not held against any engine with, and asks how many drafts stand.
pub(super) fn check(judge: &mut Judge, raw: &RawScenario, beside: Beside<'_>) {
    let Beside { pools, cluster, .. } = beside;
    let speculating = || {
        let engines = pools.iter().map(|pool| &pool.engine);
        engines.filter_map(|engine| Some((engine, engine.speculates()?)))
    };
    let Some((engine, _)) = speculating().next() else {
        return;
    };
    let key = asker(engine.name());
    if speculating().any(|(_, told)| told.acceptance.is_empty()) {
        judge.missing(
            "how many drafts stand is not said: it is a property of drafter and text",
            "give --acceptance-rate, the share of drafts that stand once those before them do (published for EAGLE-3 on chat: \
             0.6 to 0.8), or --acceptance-length, the tokens that a verification brings (`accept len` in SGLang's log), or in \
             speculative_config synthetic_acceptance_rates (one for each position)",
        );
    }
    let config = raw.engine.speculative_config.as_ref();
    let own_ranks = config.and_then(|config| config.draft_tensor_parallel_size);
    let model_ranks = raw.cluster.tensor_parallel_size.map_or(1, |ranks| ranks.0);
    if let Some(own) = own_ranks.filter(|own| own.0 != model_ranks) {
        judge.wrong_help(
            "engine.speculative_config.draft_tensor_parallel_size",
            "is not modelled",
            format!("the drafter has {} ranks, and the model {model_ranks}", own.0),
            "leave it out: the drafter is sliced as the model is",
        );
    }
    let hears = |group: &Group| group.policy.event_latency().is_some();
    let has_old_priorities = |config: &EngineConfig| {
        !config.switches.eviction_restores_budget && config.policy == Policy::Priority
    };
    let unheld = [
        (
            cluster.disaggregation.is_some(),
            "prefill and decode on different replicas",
        ),
        (beside.is_in_lock_step, "data-parallel ranks in lock-step"),
        (beside.has_tiers, "KV in tiers outside the GPU"),
        (
            speculating().any(|(_, told)| told.names_ahead) && cluster.groups.iter().any(hears),
            "a router that follows KV events",
        ),
        (
            speculating().any(|(engine, _)| engine.vllm().is_some_and(has_old_priorities)),
            "priorities in this version",
        ),
    ];
    for (_, what) in unheld.iter().filter(|(is_there, _)| *is_there) {
        judge.wrong_help(
            key,
            &format!("is not modelled beside {what}"),
            "schedules of this were never recorded",
            "leave one of them out",
        );
    }
}

#[cfg(test)]
mod tests;
