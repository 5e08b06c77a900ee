//! The states of recurrent layers: what a request keeps whatever its length, and what that makes of the blocks.

use serde_json::{Value, json};

use crate::cli::figures::grouped;
use crate::config::Capacity;
use crate::engine::memory::{MemoryOptions, MemoryPlan, StateBlocks, block_unit, plan as planned};
use crate::model::{Recurrence, Rule};
use crate::units::Bytes;

/// What a request keeps beside its tokens; `None` without recurrent layers.
pub(super) fn told(plan: &MemoryPlan) -> Option<String> {
    let states = plan.layout.states?;
    let blocks = plan.layout.groups.states;
    let held = Bytes(plan.layout.block_bytes.0 * u64::from(blocks));
    Some(format!(
        "a request keeps {blocks} blocks of {} for its states, {:.1} MiB, whatever its length; blocks of attention layers are {} \
         tokens long, so that a state fits into one",
        match states.layers {
            1 => "1 layer".to_string(),
            layers => format!("{layers} layers"),
        },
        held.0 as f64 / (1u64 << 20) as f64,
        plan.block_size,
    ))
}

/// The arithmetic of it.
pub(super) fn lines(question: &Capacity, plan: &MemoryPlan) -> Vec<(&'static str, String)> {
    let (Some(states), Some(recurrence)) = (plan.layout.states, question.model.recurrence()) else {
        return Vec::new();
    };
    let options = &question.options;
    let of_token = states.page.0 / u64::from(plan.block_size);
    let padding = 100.0 * (states.page.0 as f64 / states.bytes.0 as f64 - 1.0);
    let mut lines = vec![
        ("  state", state(recurrence, question, options)),
        (
            "  block size",
            format!(
                "{} B ÷ {} B of a token in an attention layer = {} tokens, the next multiple of {}; {padding:.1} % of a state's page is \
                 padding",
                grouped(states.bytes.0),
                grouped(of_token),
                plan.block_size,
                block_unit(&question.model, options),
            ),
        ),
        (
            "  states",
            format!(
                "{} groups of {} recurrent layers, a block of each for a request",
                states.groups, states.layers
            ),
        ),
    ];
    if let Some(line) = under_caching(question) {
        lines.push(("  if cached", line));
    }
    lines
}

fn state(recurrence: &Recurrence, question: &Capacity, options: &MemoryOptions) -> String {
    let tp = options.tensor_parallel;
    let model = &question.model;
    let widths = match recurrence.rule {
        Rule::GatedDelta {
            key_dim, value_dim, ..
        } => Some((value_dim, key_dim)),
        Rule::KimiDelta { dim, .. } => Some((dim, dim)),
        Rule::StateSpace {
            head_dim, state_size, ..
        } => Some((head_dim, state_size)),
        Rule::ShortConv { .. } => None,
    };
    let heads = widths.map_or(String::new(), |(rows, columns)| {
        format!(
            " + {} heads × {rows} × {columns} × {} B",
            recurrence.heads() / tp,
            recurrence.state_dtype.bytes()
        )
    });
    format!(
        "{} inputs × {} channels × {} B{heads} = {} B a layer and request",
        recurrence.conv_kernel - 1,
        grouped(recurrence.conv_channels_of_rank(tp)),
        model.dtype.bytes(),
        grouped(recurrence.state_bytes(model.dtype, tp).0)
    )
}

/// What vLLM would log under its default, prefix caching.
fn under_caching(question: &Capacity) -> Option<String> {
    let options = MemoryOptions {
        state_blocks: StateBlocks::under_caching(&question.model, &question.device),
        ..question.options.clone()
    };
    let plan = planned(&question.device, &question.model, &options).ok()?;
    Some(format!(
        "with prefix caching vLLM has {} tokens in {} blocks of {} tokens: a request may keep {} states in a group",
        grouped(plan.tokens()),
        grouped(u64::from(plan.num_gpu_blocks)),
        plan.block_size,
        options.state_blocks.of_sequence()
    ))
}

/// For machines.
pub(super) fn to_json(plan: &MemoryPlan) -> Option<Value> {
    let states = plan.layout.states?;
    Some(json!({
        "block_size": plan.block_size,
        "state_bytes_per_layer": states.bytes.0,
        "state_page_bytes": states.page.0,
        "state_groups": states.groups,
        "state_blocks_per_request": plan.layout.groups.states,
    }))
}
