//! Layers that are left out of an 8-bit KV cache: vLLM's `--kv-cache-dtype-skip-layers`.
//!
//! The list holds the numbers of layers, or `sliding_window` for all with one; these take `auto`, the model's own format (vLLM 0.33
//! `Attention.__init__`), and their blocks are unlike the others' ([`crate::engine::memory::KindLayout`]). Left out: layers by their
//! number, since their order within the stack is not kept. Law: nothing that would change a result is taken in silence.

use super::judge::Judge;
use super::raw::{RawModel, RawScenario};
use super::version::EngineKind;
use crate::engine::memory::{MemoryOptions, MemoryPlan, PoolRules, Windowed};
use crate::model::{Attention, Dtype, KvFormat, LayerGroup, ModelShape};

const KEY: &str = "model.kv_cache_dtype_skip_layers";
/// All layers with one.
const WINDOWS: &str = "sliding_window";
const DROP: &str = "leave it out";

/// Whether any layers are named.
fn is_asked(raw: &RawModel) -> bool {
    raw.kv_cache_dtype_skip_layers
        .as_ref()
        .is_some_and(|words| !words.is_empty())
}

/// Engines that have no such flag, words that are not understood, and models for which it is not modelled.
pub(super) fn check(judge: &mut Judge, raw: &RawScenario, model: Option<&ModelShape>) {
    if !is_asked(&raw.model) {
        return;
    }
    let words = raw
        .model
        .kv_cache_dtype_skip_layers
        .as_deref()
        .unwrap_or_default();
    judge.given(KEY, words.join(" "));
    if raw.engine.kind() != EngineKind::Vllm {
        refuse_engine(judge);
        return;
    }
    if let Some(other) = words.iter().find(|word| *word != WINDOWS) {
        let (problem, why) = match other.parse::<u32>() {
            Ok(_) => (
                "names a layer by its number, which is not modelled",
                "the order of layers within the stack is not kept here",
            ),
            Err(_) => (
                "names no layers",
                "vLLM 0.33 knows the numbers of layers and sliding_window",
            ),
        };
        let label = format!("`{other}`: {why}");
        judge.wrong_help(KEY, problem, label, "write sliding_window");
        return;
    }
    if let Some((why, help)) = model.and_then(unlike_others) {
        judge.wrong_help(KEY, "is not modelled for this model", why, help);
    }
}

/// Versions of vLLM without the flag, or with another layout.
pub(super) fn check_version(judge: &mut Judge, raw: &RawModel, rules: PoolRules) {
    if is_asked(raw) && rules != PoolRules::BY_REQUESTS {
        refuse_engine(judge);
    }
}

fn refuse_engine(judge: &mut Judge) {
    let why = "other engines and older versions of vLLM have no such flag";
    let help = "use vllm@0.33, or leave it out";
    judge.wrong_help(KEY, "is a flag of vLLM 0.33", why, help);
}

/// Why windows of a model cannot be left out of its cache here, and what to do instead.
fn unlike_others(model: &ModelShape) -> Option<(&'static str, &'static str)> {
    let keeps = |group: &&LayerGroup| {
        matches!(
            group.attention,
            Attention::Grouped { window: None, .. } | Attention::Latent { .. }
        )
    };
    if !model.has_windows() || model.attends_in_chunks() {
        Some(("no layer of it has a sliding window", DROP))
    } else if model.layers.iter().find(keeps).is_none() {
        let help = "write --kv-cache-dtype auto, and leave it out";
        Some((
            "all of its layers have a sliding window: none is left in 8 bits",
            help,
        ))
    } else if model.has_unlike_heads() {
        Some((
            "its layers have unlike heads, whose blocks are settled in another way",
            DROP,
        ))
    } else if model.recurrence().is_some() {
        Some((
            "it has recurrent layers, whose blocks are settled in another way",
            DROP,
        ))
    } else {
        None
    }
}

/// The formats of the cache, of which `dtype` is that of whatever is not left out.
pub(super) fn kv_format(judge: &mut Judge, raw: &RawModel, dtype: Dtype, model: &ModelShape) -> KvFormat {
    if !is_asked(raw) {
        return dtype.into();
    }
    if dtype != Dtype::Fp8 {
        let name = judge.document.name_of(KEY);
        judge.ignore(format!(
            "{name} has no effect: the KV cache is {} in all layers without --kv-cache-dtype fp8",
            dtype.name()
        ));
        return dtype.into();
    }
    KvFormat {
        dtype,
        windowed: model.dtype,
    }
}

/// Layouts that hold all layers in blocks of one kind.
pub(super) fn check_plan(judge: &mut Judge, options: &MemoryOptions, plan: &MemoryPlan) {
    if !options.kv_format.is_mixed() || !plan.layout.kinds.is_empty() {
        return;
    }
    let (why, help) = match options.windowed {
        Windowed::PassBesideOne => (
            "several groups of its layers attend to everything, and cached prefixes are then found as if no window ended",
            "add --no-enable-prefix-caching, or enable_prefix_caching = false under [engine]",
        ),
        Windowed::KeepAll | Windowed::Pass => (
            "KV is handed over as if all layers kept all tokens in blocks of one kind",
            DROP,
        ),
    };
    judge.wrong_help(KEY, "is not modelled here", why, help);
}

#[cfg(test)]
mod tests;
