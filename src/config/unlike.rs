//! Models whose layers have unlike heads (Gemma 4, MiMo-V2) or of which some have none (Nemotron's searched ones): which engine serves
//! them here, and what of it is not modelled.
//!
//! Their blocks are of unlike lengths ([`crate::engine::memory::KindLayout`]), which vLLM 0.33 allocates one by one and the engine here at
//! the length of the longest. Law: nothing that would change a result is taken in silence.

use super::engine::EngineFlags;
use super::judge::Judge;
use super::raw::RawScenario;
use super::version::EngineKind;
use crate::engine::memory::{MemoryPlan, PoolRules};
use crate::model::ModelShape;

/// Engines whose pools for such layers are not modelled.
pub(super) fn check_engine(judge: &mut Judge, raw: &RawScenario, model: &ModelShape) {
    let is_other = raw.engine.kind() != EngineKind::Vllm;
    if is_other && model.has_unlike_heads() {
        refuse(judge, "this engine lays out such layers in another way");
    } else if is_other && model.skips_attention() {
        let problem = "serves no model some of whose layers do not attend here";
        let why = "whether this engine caches keys and values for such layers, too, is not known";
        judge.wrong_help("engine.profile", problem, why, "use vllm@0.33");
    }
}

/// Versions of vLLM that lay such layers out otherwise, and drafts.
pub(super) fn check(judge: &mut Judge, flags: &EngineFlags, model: &ModelShape) {
    if !model.has_unlike_heads() {
        return;
    }
    if flags.profile.pool_rules() != PoolRules::BY_REQUESTS {
        refuse(
            judge,
            "older versions do not serve it, or lay its layers out in another way",
        );
    }
    if flags.drafting.is_some() {
        judge.wrong_help(
            "engine.speculative_config",
            "is not modelled beside layers of unlike heads",
            "where the drafter's layers lie is not known",
            "leave it out",
        );
    }
}

fn refuse(judge: &mut Judge, why: &str) {
    let problem = "serves no model whose layers have unlike heads here";
    judge.wrong_help("engine.profile", problem, why.to_string(), "use vllm@0.33");
}

/// What a run of such a model cannot be, and what it is only nearly.
pub(super) fn check_plan(judge: &mut Judge, plan: &MemoryPlan, caches_prefixes: bool) {
    if plan.layout.kinds.is_empty() {
        return;
    }
    if caches_prefixes && plan.layout.groups.full != 1 {
        judge.wrong_help(
            "engine.enable_prefix_caching",
            "is not modelled where blocks of windowed layers are longer than those of the others",
            "a cached prefix ends in blocks of both lengths",
            "add --no-enable-prefix-caching, or enable_prefix_caching = false under [engine]",
        );
        return;
    }
    let lengths: Vec<String> = plan
        .layout
        .kinds
        .iter()
        .map(|kind| kind.block_size.to_string())
        .collect();
    judge.notes.push(format!(
        "layer kinds use blocks of {} tokens; the simulation allocates in steps of {}, so a sequence may hold one block per group \
         too many. Memory planning is exact.",
        lengths.join(" and "),
        plan.block_size
    ));
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{BASE, resolve_text};

    fn told(model: &str, more: &str) -> Result<crate::config::Resolved, String> {
        let text = BASE
            .replacen("meta-llama/Llama-3.1-8B-Instruct", model, 1)
            .replacen("[engine]\n", &format!("[engine]\n{more}\n"), 1);
        resolve_text(&text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn layers_of_unlike_heads_run_and_say_how_nearly() {
        let resolved = told("google/gemma-4-26B-A4B-it", "").unwrap_or_else(|problems| panic!("{problems}"));
        let engine = resolved.scenario.first_pool().engine.vllm().unwrap();
        // Blocks of 32 tokens without a window and of 16 with one, of which five groups take two each.
        assert_eq!((engine.block_size, engine.kv_groups.full), (32, 1));
        assert_eq!(engine.kv_groups.windows[0].groups, 10);
        let says = |text: &str| resolved.notes.iter().any(|note| note.contains(text));
        assert!(
            says("blocks of 16 and 32 tokens") || says("blocks of 32 and 16 tokens"),
            "{:?}",
            resolved.notes
        );
    }

    #[test]
    fn what_is_not_modelled_of_them_is_refused() {
        let refused = |model: &str, more: &str, why: &str| {
            let problems = told(model, more)
                .err()
                .unwrap_or_else(|| panic!("{more} is taken"));
            assert!(problems.contains(why), "{more}: {problems}");
        };
        let large = "google/gemma-4-26B-A4B-it";
        refused(large, "profile = \"vllm@0.11\"", "use vllm@0.33");
        refused(large, "profile = \"sglang@0.5.23\"", "use vllm@0.33");
        let searched = "nvidia/Llama-3_3-Nemotron-Super-49B-v1";
        refused(
            searched,
            "profile = \"sglang@0.5.23\"",
            "whose layers do not attend",
        );
        refused("google/gemma-4-E4B-it", "", "--no-enable-prefix-caching");
        let without = told("google/gemma-4-E4B-it", "enable_prefix_caching = false");
        assert!(without.is_ok(), "{:?}", without.err());
    }
}
