//! Models with sparse attention (DeepSeek-V3.2, GLM-5): which engine serves them here, on which GPUs, and in which formats of the cache.
//!
//! The formats are those of the attention backends that vLLM 0.33 takes first (`platforms/cuda.py`): on Hopper FLASH_ATTN_MLA_SPARSE in
//! 16 bits and FLASHMLA_SPARSE in 8, whose rows have scales and a rotary part in 16 bits; on Blackwell FLASHINFER_MLA_SPARSE in plain 8 bits.
//! SGLang 0.5.23 has the same two layouts (`calculate_mla_kv_cache_dim`, `_compute_dsa_indexer_cell_size`): rows with scales where Hopper caches
//! in 8 bits, plain ones on Blackwell, where it does so by itself (`_dsa_kv_cache_dtype_default`).
//! Law: nothing that would change a result is taken in silence.

use super::document::Source;
use super::engine::EngineFlags;
use super::judge::Judge;
use super::profile::Profile;
use super::raw::{RawKvDtype, RawScenario};
use super::serving::Flags;
use super::sglang::SglangFlags;
use super::version::EngineKind;
use crate::engine::memory::{PoolRules, sparse_kv_dtype};
use crate::hardware::{Architecture, Device};
use crate::model::{Dtype, ModelShape};

/// Tokens that the indexer's kernels page by.
pub(super) const BLOCK: u32 = 64;

/// Engines whose cache of the indexer's keys is not modelled.
pub(super) fn check_engine(judge: &mut Judge, raw: &RawScenario, model: &ModelShape) {
    if model.indexer().is_none() {
        return;
    }
    let other = match raw.engine.kind() {
        EngineKind::Vllm | EngineKind::Sglang => return,
        EngineKind::Scheduled(_) => "this engine has no sparse attention",
        EngineKind::Trtllm => "TensorRT-LLM has a pool of its own for the indexer's keys",
    };
    refuse(judge, other, "use vllm@0.33 or sglang@0.5.23");
}

/// Versions of vLLM with other backends, GPUs without one, and what else is not modelled of such a model.
pub(super) fn check(judge: &mut Judge, flags: &EngineFlags, model: &ModelShape, device: Option<&Device>) {
    if model.indexer().is_none() {
        return;
    }
    check_version(judge, &flags.profile);
    check_device(judge, "vLLM", device);
    if flags.drafting.is_some() {
        refuse_drafts(judge, "engine.speculative_config");
    }
}

fn refuse_drafts(judge: &mut Judge, key: &str) {
    judge.wrong_help(
        key,
        "is not modelled beside sparse attention",
        "each draft picks tokens of its own, and nobody measured how many they share",
        "leave it out",
    );
}

/// The same of SGLang, of which the older version shares attention out over all GPUs by itself.
pub(super) fn check_sglang(
    judge: &mut Judge,
    flags: &SglangFlags,
    kv: Option<RawKvDtype>,
    model: &ModelShape,
    device: Option<&Device>,
) {
    if model.indexer().is_none() {
        return;
    }
    if flags.is_older() {
        let why = "SGLang 0.5.4 turns --enable-dp-attention on by itself for it, with as many ranks as GPUs, and pages of its own";
        refuse(
            judge,
            why,
            "use sglang@0.5.23, which takes --enable-dp-attention as it is given, or vllm@0.33",
        );
    }
    check_device(judge, "SGLang", device);
    if flags.drafting.is_some() {
        refuse_drafts(judge, "sglang.speculative_algorithm");
    }
    if kv == Some(RawKvDtype::Fp8E5m2) {
        judge.wrong_help(
            "model.kv_cache_dtype",
            "is fp8_e5m2, in which SGLang caches no sparse attention",
            "its kernels read e4m3 or 16 bits",
            "write fp8_e4m3",
        );
    }
}

fn check_device(judge: &mut Judge, engine: &str, device: Option<&Device>) {
    let Some(device) = device.filter(|device| !has_backend(device)) else {
        return;
    };
    let why = format!(
        "{engine} has no backend of sparse attention for {} that is modelled",
        device.id
    );
    let help = "H100, H200, B200, B300 and their kin have one";
    judge.wrong_help("cluster.gpu", "does not serve this model", why, help);
}

fn check_version(judge: &mut Judge, profile: &Profile) {
    if profile.pool_rules() != PoolRules::BY_REQUESTS {
        refuse(
            judge,
            "older versions have other backends and formats of the cache",
            "use vllm@0.33",
        );
    }
}

fn has_backend(device: &Device) -> bool {
    device.architecture == Architecture::Hopper || device.is_datacenter_blackwell()
}

fn refuse(judge: &mut Judge, why: &str, help: &str) {
    let problem = "serves no model with sparse attention here";
    judge.wrong_help("engine.profile", problem, why.to_string(), help);
}

/// Blocks that no kernel of the indexer pages by.
pub(super) fn check_block(judge: &mut Judge, block_size: u32, model: Option<&ModelShape>) {
    let key = "engine.block_size";
    let is_sparse = model.is_some_and(|model| model.indexer().is_some());
    if is_sparse && !block_size.is_multiple_of(BLOCK) && !judge.is_wrong(&[key]) {
        judge.wrong_help(
            key,
            "must be a multiple of 64 for sparse attention",
            format!("no kernel of its indexer pages by {block_size} tokens"),
            "leave it out",
        );
    }
}

/// The format of such a model's cache where `asked` is that of any other's. Of SGLang's and vLLM's models all and some, respectively, are
/// cached in 8 bits on Blackwell where nobody says otherwise.
pub(super) fn kv_dtype(
    judge: &mut Judge,
    raw: Option<RawKvDtype>,
    asked: Dtype,
    model: &ModelShape,
    device: &Device,
    flags: &Flags,
) -> Dtype {
    if model.indexer().is_none() {
        return asked;
    }
    let is_auto = matches!(raw, None | Some(RawKvDtype::Auto));
    let (engine, prefers_fp8) = match flags {
        Flags::Sglang(_) => ("SGLang", true),
        _ => ("vLLM", model.prefers_fp8_kv_on_blackwell()),
    };
    let takes_fp8 = is_auto && device.is_datacenter_blackwell() && prefers_fp8;
    if takes_fp8 && asked != Dtype::Fp8 {
        let said = format!("{engine} takes it under auto for this model on Blackwell");
        if raw.is_none() {
            let source = Source::Assumption(said.clone());
            judge.assume("model.kv_cache_dtype", "fp8".to_string(), source);
        }
        judge.notes.push(format!(
            "the KV cache is fp8: {said}; --kv-cache-dtype {} keeps it in 16 bits",
            model.dtype.name()
        ));
    }
    match takes_fp8 || asked == Dtype::Fp8 {
        true => sparse_kv_dtype(device),
        false => asked,
    }
}

#[cfg(test)]
mod tests;
