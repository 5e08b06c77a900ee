//! Changes of flags after which a model fits, each planned anew.

use super::misfit::{PoolSize, Remedy};
use super::options::{MemoryOptions, sparse_kv_dtype};
use super::plan::attempt;
use crate::hardware::{Architecture, Device};
use crate::model::{Dtype, ModelShape, Quantization};

/// A shorter context than this, in tokens, is no answer to a share of the memory that is too small, nor to too few GPUs.
const CONTEXT_MIN: u64 = 1024;

/// Single changes first, from the least to the most disruptive, then pairs that need fewer GPUs than any of those.
pub(super) fn remedies(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Vec<Remedy> {
    // A flag that is to blame: no other change is as small as taking it back, or as a context that such a share holds.
    if let Some(without) = pool_by_formula(device, model, options) {
        return vec![without];
    }
    if let Some(larger) = larger_share(device, model, options) {
        let shorter = shorter_context(device, model, options).filter(|remedy| remedy.tokens >= CONTEXT_MIN);
        return std::iter::once(larger).chain(shorter).collect();
    }
    let on_these_gpus: Vec<Remedy> = [fp8_weights, shorter_context, fp8_kv]
        .iter()
        .filter_map(|change| change(device, model, options))
        .collect();
    if !on_these_gpus.is_empty() {
        return on_these_gpus
            .into_iter()
            .chain(more_gpus(device, model, options))
            .collect();
    }
    let fp8_and = |change: Change| quantized_and("fp8", quantizable(device, model)?, change, device, options);
    let candidates = [
        fp8_and(shorter_context),
        more_gpus_and_shorter_context(device, model, options),
        more_gpus(device, model, options),
    ];
    let found: Vec<Remedy> = candidates.into_iter().flatten().collect();
    if !found.is_empty() {
        return found;
    }
    // Four bits come late, since they take a checkpoint of their own, and several nodes last.
    let awq_and =
        |change: Change| quantized_and("awq", in_four_bits(device, model)?, change, device, options);
    let awq = || {
        let flags = "--quantization awq".to_string();
        tried(device, &in_four_bits(device, model)?, options, flags)
    };
    let more = [more_gpus_and_shorter_context as Change, more_gpus];
    more.into_iter()
        .find_map(fp8_and)
        .or_else(awq)
        .or_else(|| awq_and(shorter_context))
        .or_else(|| more.into_iter().find_map(awq_and))
        .into_iter()
        .chain(more_stages(device, model, options))
        .collect()
}

type Change = fn(&Device, &ModelShape, &MemoryOptions) -> Option<Remedy>;

/// A change beside weights of another format.
fn quantized_and(
    method: &str,
    quantized: ModelShape,
    change: Change,
    device: &Device,
    options: &MemoryOptions,
) -> Option<Remedy> {
    let remedy = change(device, &quantized, options)?;
    Some(Remedy {
        flags: format!("--quantization {method} {}", remedy.flags),
        ..remedy
    })
}

/// The fewest ranks with which some context of at least [`CONTEXT_MIN`] fits, if the whole does not.
fn more_gpus_and_shorter_context(
    device: &Device,
    model: &ModelShape,
    options: &MemoryOptions,
) -> Option<Remedy> {
    other_ranks(model, options)
        .find_map(|tensor_parallel| {
            let changed = MemoryOptions {
                tensor_parallel,
                ..options.clone()
            };
            let remedy =
                shorter_context(device, model, &changed).filter(|remedy| remedy.tokens >= CONTEXT_MIN)?;
            Some((tensor_parallel, attempt(device, model, &changed).is_err(), remedy))
        })
        .filter(|(_, is_shortened, _)| *is_shortened)
        .map(|(ranks, _, remedy)| Remedy {
            flags: format!("-tp {ranks} {}", remedy.flags),
            ..remedy
        })
}

/// Tensor-parallel sizes that are proposed: those of one NVLink domain.
const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Larger groups of ranks; also smaller ones where the heads cannot be divided by what was asked for.
fn other_ranks(model: &ModelShape, options: &MemoryOptions) -> impl Iterator<Item = u32> {
    let asked = options.tensor_parallel;
    let is_divided = model.indivisible_heads(asked).is_none();
    RANKS
        .into_iter()
        .filter(move |&ranks| ranks > asked || (!is_divided && ranks != asked))
}

/// Without the flag that sizes the pool.
fn pool_by_formula(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let flag = PoolSize::of(options).flag()?;
    let changed = MemoryOptions {
        kv_cache_memory_bytes: None,
        num_gpu_blocks_override: None,
        ..options.clone()
    };
    tried(device, model, &changed, format!("without {flag}"))
}

/// The smallest share of the memory that is enough, where a smaller one than the engine's own was asked for.
fn larger_share(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let digits = options.budget.digits;
    let with = |steps: u32| MemoryOptions {
        gpu_memory_utilization: f64::from(steps) / digits,
        ..options.clone()
    };
    let fits = |steps: u32| attempt(device, model, &with(steps)).is_ok();
    let (mut low, mut high) = (
        (options.gpu_memory_utilization * digits).floor() as u32,
        (options.budget.usual * digits).round() as u32,
    );
    if low >= high || !fits(high) {
        return None;
    }
    // A larger share fits where a smaller one does.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    let changed = with(high);
    let flags = format!("{} {}", options.budget.flag, changed.gpu_memory_utilization);
    tried(device, model, &changed, flags)
}

fn tried(device: &Device, model: &ModelShape, options: &MemoryOptions, flags: String) -> Option<Remedy> {
    let plan = attempt(device, model, options).ok()?;
    Some(Remedy {
        flags,
        tokens: plan.tokens(),
        is_tight: plan.is_tight(options),
    })
}

fn quantizable(device: &Device, model: &ModelShape) -> Option<ModelShape> {
    stored_as(Quantization::Fp8, device, model)
}

fn in_four_bits(device: &Device, model: &ModelShape) -> Option<ModelShape> {
    stored_as(Quantization::AWQ, device, model)
}

/// An engine takes no other format than that of a checkpoint that is quantized already, and Volta has kernels for none of these
/// (vLLM's `get_min_capability`).
fn stored_as(narrow: Quantization, device: &Device, model: &ModelShape) -> Option<ModelShape> {
    let is_free = model.quantization == Quantization::None && device.architecture != Architecture::Volta;
    is_free.then(|| model.clone().with_quantization(narrow))
}

fn fp8_weights(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    tried(
        device,
        &quantizable(device, model)?,
        options,
        "--quantization fp8".to_string(),
    )
}

fn fp8_kv(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let narrow = match model.indexer() {
        Some(_) => sparse_kv_dtype(device),
        None => Dtype::Fp8,
    };
    let changed = MemoryOptions {
        kv_format: narrow.into(),
        ..options.clone()
    };
    let flags = match options.kv_format.is_mixed() {
        true => "without --kv-cache-dtype-skip-layers",
        false if options.kv_format.dtype.bytes() > narrow.bytes() => "--kv-cache-dtype fp8",
        false => return None,
    };
    tried(device, model, &changed, flags.to_string())
}

/// The fewest of the other ranks.
fn more_gpus(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    other_ranks(model, options).find_map(|tensor_parallel| {
        let changed = MemoryOptions {
            tensor_parallel,
            ..options.clone()
        };
        tried(device, model, &changed, format!("-tp {tensor_parallel}"))
    })
}

/// Stages that are proposed where one node is too small: nodes of as many ranks as one has.
const STAGES: [u32; 4] = [2, 3, 4, 8];

/// The fewest stages of a whole node's ranks, where no number of ranks of one node is enough.
fn more_stages(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let asked = (options.tensor_parallel, options.pipeline_parallel);
    let divides = |ranks: &u32| model.indivisible_heads(*ranks).is_none();
    let ranks = RANKS.into_iter().rev().find(divides)?.max(asked.0);
    STAGES
        .into_iter()
        .filter(|&stages| options.can_pipeline && stages > asked.1)
        .find_map(|stages| {
            let changed = MemoryOptions {
                tensor_parallel: ranks,
                pipeline_parallel: stages,
                ..options.clone()
            };
            let is_plain = changed.has_plain_stages(model);
            tried(device, model, &changed, format!("-tp {ranks} -pp {stages}")).filter(|_| is_plain)
        })
}

/// The longest context of whole kibitokens (or, below, whole blocks) that fits.
fn shorter_context(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Option<Remedy> {
    let kibitoken = MemoryOptions {
        max_model_len: 1024,
        ..options.clone()
    };
    let unit = match attempt(device, model, &kibitoken) {
        Ok(_) => 1024,
        Err(_) => options.block_size,
    };
    let length = longest_context(device, model, options, unit)?;
    let changed = MemoryOptions {
        max_model_len: length,
        ..options.clone()
    };
    tried(device, model, &changed, format!("--max-model-len {length}"))
}

/// The longest context in whole `unit`s of tokens that fits, up to the one that was asked for; `None` if not one does.
#[must_use]
pub fn longest_context(
    device: &Device,
    model: &ModelShape,
    options: &MemoryOptions,
    unit: u32,
) -> Option<u32> {
    let fits = |max_model_len: u32| {
        let changed = MemoryOptions {
            max_model_len,
            ..options.clone()
        };
        attempt(device, model, &changed).is_ok()
    };
    // Fitting is monotone in the length, so the largest multiple is found by bisection.
    let (mut low, mut high) = (0, options.max_model_len / unit + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle * unit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low > 0).then_some(low * unit)
}
