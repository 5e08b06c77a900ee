//! The answer as JSON, quantities in bytes, tokens and tokens per second.

use serde_json::{Value, json};

use super::drafts::{ceilings, speculation, tokens_per_decode};
use super::typical::Typical;
use super::{assumed, loading, states, tight, too_long, windows};
use crate::config::Capacity;
use crate::engine::memory::{DoesNotFit, MemoryPlan};

fn question_json(question: &Capacity) -> Value {
    let options = &question.options;
    let limits = match &question.engine {
        Some(engine) => Some((engine.max_num_seqs(), engine.prompt_tokens_per_step())),
        // SGLang derives its own from the pool, and its plan charges no step.
        None if !options.budget.holds_activations => None,
        None => Some((options.max_num_seqs, options.max_num_batched_tokens)),
    };
    let mut told = json!({
        "model": question.model.name,
        "gpu": question.device.id,
        "engine": question.profile,
        "tensor_parallel_size": options.tensor_parallel,
        "pipeline_parallel_size": options.pipeline_parallel,
        "gpu_memory_utilization": options.gpu_memory_utilization,
        "dtype": question.model.dtype.name(),
        "quantization": question.model.quantization.name(),
        "kv_cache_dtype": options.kv_format.dtype.name(),
        "block_size": options.block_size,
        "max_model_len": question.max_model_len,
        "max_num_seqs": limits.map(|limits| limits.0),
        "max_num_batched_tokens": limits.map(|limits| limits.1),
        "enforce_eager": options.enforce_eager,
        "kv_bytes_per_token": options.kv_bytes_per_token(&question.model, 0).0,
        "parameters": question.model.parameters(),
        "active_parameters": question.model.active_parameters(),
        "assumed": assumed(question),
        "notes": question.notes,
    });
    if options.kv_format.is_mixed() {
        told["kv_cache_dtype_skip_layers"] = json!(["sliding_window"]);
    }
    told
}

/// What fits.
pub(super) fn fits_json(question: &Capacity, plan: &MemoryPlan, typical: Typical) -> Value {
    let options = &question.options;
    let ceilings = ceilings(question);
    let tokens = typical.tokens(question);
    let mut fits = json!({
        "version": 1,
        "fits": true,
        "scenario": question_json(question),
        "memory_bytes": question.device.memory.0,
        "requested_bytes": plan.requested.0,
        "weight_bytes": plan.weights.0,
        "activation_bytes": plan.estimates.activations.0,
        "cuda_graph_bytes": plan.estimates.cuda_graphs.0,
        "runtime_bytes": plan.estimates.runtime.0,
        "estimated": ["activation_bytes", "cuda_graph_bytes", "runtime_bytes"],
        "kv_pool_bytes": plan.kv_pool.0,
        "kv_block_bytes": plan.layout.block_bytes.0,
        "kv_cache_groups": plan.layout.groups.count(),
        "num_gpu_blocks": plan.num_gpu_blocks,
        "kv_tokens": plan.tokens(),
        "max_concurrency": plan.concurrency(question.max_model_len),
        "typical_tokens": tokens,
        "typical_request": typical.origin(),
        "typical_concurrency": plan.concurrency(tokens),
        "prefill_ceiling_tok_s": ceilings.prefill_tokens_per_s,
        "decode_ceiling_tok_s": ceilings.decode_steps_per_s * tokens_per_decode(question),
        "ridge_tokens": ceilings.ridge_tokens,
    });
    if question.engines > 1 {
        fits["data_parallel_engines"] = question.engines.into();
    }
    fits["scenario"]["assumed"] = [assumed(question), typical.assumed()].concat().into();
    let of_stage = options.kv_bytes_per_token(&question.model, plan.stage);
    fits["scenario"]["kv_bytes_per_token"] = of_stage.0.into();
    // A hybrid's are as long as its states are large.
    fits["scenario"]["block_size"] = plan.block_size.into();
    if speculation(question).is_some() {
        fits["tokens_per_decode_step"] = tokens_per_decode(question).into();
    }
    if let Some(told) = windows(question, plan) {
        fits["windows"] = told.into();
    }
    if let Some(told) = states::to_json(plan) {
        fits["states"] = told;
    }
    if let Some(spare) = plan.spare().filter(|_| too_long(question, plan).is_none()) {
        fits["spare_bytes"] = spare.0.into();
    }
    if let Some(warning) = tight(question, plan).or_else(|| too_long(question, plan)) {
        fits["warning"] = warning.into();
    }
    if let Some(told) = &question.break_even {
        fits["break_even"] = loading::to_json(told);
    }
    fits
}

/// What does not, and the changes that would make it.
pub(super) fn does_not_fit_json(question: &Capacity, error: &DoesNotFit) -> Value {
    let remedies: Vec<Value> = error
        .remedies
        .iter()
        .map(|remedy| json!({"flags": remedy.flags, "kv_tokens": remedy.tokens, "barely": remedy.is_tight}))
        .collect();
    json!({
        "version": 1,
        "fits": false,
        "scenario": question_json(question),
        "reason": error.to_string(),
        "remedies": remedies,
    })
}
