//! What of SGLang's flags decides its memory: `mem_fraction_static` covers weights and KV pool and nothing else (SG-45).
//!
//! Left out: what the server measures after loading. A share that leaves activations and graphs no room is refused by an
//! estimate of both, since a real server would run out of memory at its start or at its first long prompt.

use super::SglangFlags;
use super::backend::{KEPT_BY_AITER, LONG_CONTEXT};
use super::sizes::{self, Reserve};
use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::RawSglang;
use crate::engine::memory::{Budget, Estimates, MemoryOptions, PoolRules, StateBlocks, Windowed};
use crate::hardware::Device;
use crate::model::{Dtype, ModelShape};
use crate::units::Bytes;

const KEY: &str = "sglang.mem_fraction_static";
/// Context and libraries of a process before it loads a model, and the buffers of one with peers.
const RUNTIME: Bytes = Bytes(1 << 29);
/// SGLang rounds the share to three digits (SG-44).
const DIGITS: f64 = 1000.0;

/// The share of memory for weights and pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction {
    /// As given, else the default.
    value: f64,
    /// What the server would take by itself.
    usual: f64,
    /// What it keeps of either.
    kept: f64,
}

/// The largest step, of one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Its tokens.
    pub(super) tokens: u32,
    /// They are a prompt's; else those of all who run.
    pub(super) of_prompts: bool,
    /// Largest captured decode batch.
    pub(super) graph_max: Option<u32>,
    /// Ranks.
    pub(super) tensor_parallel: u32,
}

/// The share, given or by SGLang's rule. `is_lowered`: either is lowered for AMD's attention kernels.
pub(super) fn fraction(
    judge: &mut Judge,
    raw: &RawSglang,
    by_rule: Source,
    reserve: Reserve,
    is_lowered: bool,
) -> Fraction {
    let kept = if is_lowered { KEPT_BY_AITER } else { 1.0 };
    let usual = sizes::mem_fraction_static(reserve);
    if raw.mem_fraction_static.is_none() && usual <= 0.0 {
        let message = format!(
            "SGLang's own rule leaves no memory for weights and KV pool: it reserves more than the GPU has for chunks of {} \
             tokens",
            reserve.tokens
        );
        judge.missing(
            &message,
            "give --mem-fraction-static, or a smaller --chunked-prefill-size",
        );
        // Stands in for the rest of the checks.
        return ANY;
    }
    let value = judge.take(KEY, raw.mem_fraction_static, usual, by_rule);
    judge.fraction(KEY, value, false, false);
    if is_lowered {
        judge.notes.push(format!(
            "SGLang keeps {KEPT_BY_AITER} of mem_fraction_static: contexts are longer than {LONG_CONTEXT} tokens, and attention is \
             aiter's"
        ));
    }
    Fraction { value, usual, kept }
}

/// Stands in where the share does not matter.
const ANY: Fraction = Fraction {
    value: 0.5,
    usual: 0.5,
    kept: 1.0,
};

/// Reports a share that leaves less outside than one prefill and the captured graphs take.
pub(super) fn check_rest(
    judge: &mut Judge,
    fraction: &Fraction,
    device: Option<&Device>,
    model: Option<&ModelShape>,
    step: Step,
) {
    let (Some(device), Some(model), false) = (device, model, judge.is_wrong(&[KEY])) else {
        return;
    };
    let free = device.memory.0.saturating_sub(runtime(step.tensor_parallel).0) as f64;
    let needed = outside(model, step);
    let rest = Bytes((free * (1.0 - fraction.value * fraction.kept)) as u64);
    if rest >= needed {
        return;
    }
    let most = ((1.0 - needed.0 as f64 / free) / fraction.kept * DIGITS).floor() / DIGITS;
    let help = if most > 0.0 {
        format!("smallest change that fits: --mem-fraction-static {most}")
    } else {
        "smaller chunks need less: --chunked-prefill-size".to_string()
    };
    let problem = format!(
        "leaves {} outside weights and KV pool, and a step of {} {} with the captured graphs needs about {}",
        sized(rest),
        step.tokens,
        if step.of_prompts {
            "prompt tokens"
        } else {
            "sequences"
        },
        sized(needed)
    );
    judge
        .wrong(KEY, &problem, "the server would run out of memory")
        .help
        .push(help);
    let last = judge.problems.last_mut().expect("one was just reported");
    last.misfit = Some(Box::new(crate::config::diagnostic::Misfit {
        why: last.message.clone(),
        ..crate::config::diagnostic::Misfit::default()
    }));
}

/// Bytes as people read them.
fn sized(bytes: Bytes) -> String {
    if bytes.0 < 1 << 30 {
        format!("{:.0} MiB", bytes.0 as f64 / (1u64 << 20) as f64)
    } else {
        format!("{:.1} GiB", bytes.gib())
    }
}

/// Memory that is taken before the server asks how much is free.
fn runtime(tensor_parallel: u32) -> Bytes {
    Bytes(RUNTIME.0 * if tensor_parallel > 1 { 2 } else { 1 })
}

/// Activations of one chunk and the captured graphs, a rank.
fn outside(model: &ModelShape, step: Step) -> Bytes {
    let estimates = Estimates::of(
        model,
        &MemoryOptions {
            max_num_batched_tokens: step.tokens,
            max_num_seqs: step.graph_max.unwrap_or(1),
            enforce_eager: step.graph_max.is_none(),
            ..options(step.tensor_parallel, model.dtype, ANY, 1)
        },
    );
    estimates.activations + estimates.cuda_graphs
}

/// Memory as [`crate::engine::memory::plan`] takes it: nothing but weights and pool is charged.
fn options(tensor_parallel: u32, kv_dtype: Dtype, fraction: Fraction, page_size: u32) -> MemoryOptions {
    let Fraction { value, usual, kept } = fraction;
    MemoryOptions {
        tensor_parallel,
        edges: None,
        pipeline_parallel: 1,
        can_pipeline: false,
        gpu_memory_utilization: value,
        budget: Budget {
            flag: "--mem-fraction-static",
            usual,
            digits: DIGITS,
            kept,
            excluded: runtime(tensor_parallel),
            holds_activations: false,
            is_of_rest: false,
        },
        kv_format: kv_dtype.into(),
        block_size: page_size,
        max_num_batched_tokens: 1,
        max_in_flight_tokens: 1,
        windowed: Windowed::KeepAll,
        rules: PoolRules::BY_BLOCKS,
        state_blocks: StateBlocks::One,
        max_num_seqs: 1,
        // A request longer than the pool is cut, not refused at start-up (SG-25); four pages are the least that serves.
        max_model_len: 4 * page_size,
        charge_cuda_graphs: false,
        enforce_eager: true,
        kv_cache_memory_bytes: None,
        num_gpu_blocks_override: None,
        drafter: None,
        estimates: Some(Estimates {
            activations: Bytes(0),
            cuda_graphs: Bytes(0),
            runtime: Bytes(0),
        }),
    }
}

impl SglangFlags {
    /// What decides the KV pool, of the memory that was free when the process had started.
    pub(in crate::config) fn memory_options(&self, tensor_parallel: u32, kv_dtype: Dtype) -> MemoryOptions {
        let fraction = self.mem_fraction_static;
        let mut options = options(tensor_parallel, kv_dtype, fraction, self.config.page_size);
        let apart = self.apart();
        options.budget.excluded = runtime(tensor_parallel * apart.ranks);
        options.edges = apart.edges();
        options.drafter = self
            .drafting
            .as_ref()
            .and_then(|drafting| drafting.drafter.clone());
        options
    }
}
