//! How the weights and the KV cache of one rank lie in memory.

use super::MemoryOptions;
use crate::model::{Attention, LayerGroup, ModelShape, kv_bytes_per_token_layer};
use crate::units::Bytes;

/// How the KV of one rank is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Bytes of a block over all layers of the rank, padding of unequal groups included.
    pub block_bytes: Bytes,
    /// Bytes of one token over all layers of the rank, windows ignored.
    pub bytes_per_token: Bytes,
    /// Groups of layers that are allocated together; 1 without windows.
    pub groups: u32,
    /// The groups with a window: how many, and the tokens that one sequence keeps at most in each.
    pub sliding: Vec<SlidingGroups>,
}

/// Groups of layers with one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingGroups {
    /// How many groups.
    pub groups: u32,
    /// Most tokens kept: the window and a step's new tokens (`sliding_window − 1 + max_num_batched_tokens`).
    pub tokens_max: u32,
}

/// Weights of the fullest rank: the longest stage's layers, and embedding and LM head where stages do not part them.
pub(super) fn rank_weights(model: &ModelShape, options: &MemoryOptions) -> Bytes {
    let (tp, pp) = (options.tensor_parallel, options.pipeline_parallel);
    let edge = model.edge_weight_bytes(tp);
    let layers = model.layer_weight_bytes(tp);
    if pp == 1 {
        return layers + edge;
    }
    // First and last stage each have one of the two tables, tied or not.
    let tables = if model.tied_embeddings { 1 } else { 2 };
    let stage =
        u128::from(layers.0) * u128::from(model.layer_count().div_ceil(pp)) / u128::from(model.layer_count());
    Bytes(stage as u64 + edge.0 / tables)
}

/// Groups layers as vLLM 0.33 `get_kv_cache_config` does: kinds of layers (full, one per window) are cut into groups of
/// as many layers as the rarest kind has, unless the kinds are about equally common (within a quarter).
pub(super) fn kv_layout(model: &ModelShape, options: &MemoryOptions) -> KvLayout {
    let stage = |count: u32| count.div_ceil(options.pipeline_parallel);
    let per_layer = |group: &LayerGroup| {
        kv_bytes_per_token_layer(&group.attention, options.kv_dtype, options.tensor_parallel)
    };
    let bytes_per_token: Bytes = model
        .layers
        .iter()
        .map(|group| per_layer(group) * u64::from(stage(group.count)))
        .sum();
    let mut kinds: Vec<(Option<u32>, u32)> = Vec::new();
    for group in &model.layers {
        let window = match group.attention {
            Attention::Grouped { window, .. } => window,
            Attention::Latent { .. } => None,
        };
        match kinds.iter_mut().find(|(known, _)| *known == window) {
            Some((_, count)) => *count += stage(group.count),
            None => kinds.push((window, stage(group.count))),
        }
    }
    let counts = || kinds.iter().map(|&(_, count)| count);
    let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
    let size = if most * 4 < fewest * 5 { most } else { fewest };
    let groups: u32 = counts().map(|count| count.div_ceil(size)).sum();
    // Padding adds layers that hold nothing; all layers of a hybrid model have equal pages.
    let layers: u32 = counts().sum();
    let padded = u128::from(bytes_per_token.0) * u128::from(groups * size) / u128::from(layers);
    let sliding = kinds.iter().filter_map(|&(window, count)| {
        window.map(|window| SlidingGroups {
            groups: count.div_ceil(size),
            tokens_max: (window - 1).saturating_add(options.max_num_batched_tokens),
        })
    });
    KvLayout {
        block_bytes: Bytes(padded as u64) * u64::from(options.block_size),
        bytes_per_token,
        groups,
        sliding: sliding.collect(),
    }
}
