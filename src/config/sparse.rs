//! Models with sparse attention (DeepSeek-V3.2, GLM-5): which engine serves them here, on which GPUs, and in which formats of the cache.
//!
//! The formats are those of the attention backends that vLLM 0.33 takes first (`platforms/cuda.py`): on Hopper FLASH_ATTN_MLA_SPARSE in
//! 16 bits and FLASHMLA_SPARSE in 8, whose rows have scales and a rotary part in 16 bits; on Blackwell FLASHINFER_MLA_SPARSE in plain 8 bits.
//! Law: nothing that would change a result is taken in silence.

use super::document::Source;
use super::engine::EngineFlags;
use super::judge::Judge;
use super::profile::Profile;
use super::raw::{RawKvDtype, RawScenario};
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
        EngineKind::Vllm => return,
        EngineKind::Sglang => "SGLang lays the indexer's keys out in a pool of its own",
        EngineKind::Scheduled(_) => "this engine has no sparse attention",
        EngineKind::Trtllm => "TensorRT-LLM has a pool of its own for the indexer's keys",
    };
    refuse(judge, other);
}

/// Versions of vLLM with other backends, GPUs without one, and what else is not modelled of such a model.
pub(super) fn check(judge: &mut Judge, flags: &EngineFlags, model: &ModelShape, device: Option<&Device>) {
    if model.indexer().is_none() {
        return;
    }
    check_version(judge, &flags.profile);
    if let Some(device) = device.filter(|device| !has_backend(device)) {
        let why = format!(
            "vLLM has no backend of sparse attention for {} that is modelled",
            device.id
        );
        let help = "H100, H200, B200, B300 and their kin have one";
        judge.wrong_help("cluster.gpu", "does not serve this model", why, help);
    }
    if flags.drafting.is_some() {
        judge.wrong_help(
            "engine.speculative_config",
            "is not modelled beside sparse attention",
            "each draft picks tokens of its own, and nobody measured how many they share",
            "leave it out",
        );
    }
}

fn check_version(judge: &mut Judge, profile: &Profile) {
    if profile.pool_rules() != PoolRules::BY_REQUESTS {
        refuse(
            judge,
            "older versions have other backends and formats of the cache",
        );
    }
}

fn has_backend(device: &Device) -> bool {
    device.architecture == Architecture::Hopper || device.is_datacenter_blackwell()
}

fn refuse(judge: &mut Judge, why: &str) {
    let problem = "serves no model with sparse attention here";
    judge.wrong_help("engine.profile", problem, why.to_string(), "use vllm@0.33");
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

/// The format of such a model's cache where `asked` is that of any other's.
pub(super) fn kv_dtype(
    judge: &mut Judge,
    raw: Option<RawKvDtype>,
    asked: Dtype,
    model: &ModelShape,
    device: &Device,
) -> Dtype {
    if model.indexer().is_none() {
        return asked;
    }
    let is_auto = matches!(raw, None | Some(RawKvDtype::Auto));
    let takes_fp8 = is_auto && device.is_datacenter_blackwell() && model.prefers_fp8_kv_on_blackwell();
    if takes_fp8 && asked != Dtype::Fp8 {
        let said = "vLLM takes it under auto for this model on Blackwell";
        if raw.is_none() {
            let source = Source::Assumption(said.to_string());
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
