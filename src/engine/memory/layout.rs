//! How the weights and the KV cache of one rank lie in memory.

use super::{MemoryOptions, Windowed};
use crate::kv::{KvGroups, WindowGroups};
use crate::model::{Attention, LayerGroup, ModelShape, kv_bytes_per_token_layer};
use crate::units::Bytes;

/// How the KV of one rank is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Bytes of a block: over the layers of one group, of which each rank has so many.
    pub block_bytes: Bytes,
    /// Bytes of one token over all layers of the rank, windows ignored.
    pub bytes_per_token: Bytes,
    /// Groups of layers that are allocated by themselves; one where no window passes blocks.
    pub groups: KvGroups,
}

/// Weights of the fullest rank: the longest stage's layers, and embedding and LM head where stages do not part them.
pub(super) fn rank_weights(model: &ModelShape, options: &MemoryOptions) -> Bytes {
    let (tp, pp) = (options.tensor_parallel, options.pipeline_parallel);
    let edge = model.edge_weight_bytes(tp);
    let layers = model.layer_weight_bytes(tp);
    let drafter = options
        .drafter
        .as_ref()
        .map_or(Bytes(0), |drafter| drafter.weight_bytes(tp));
    let layers = layers + drafter;
    if pp == 1 {
        return layers + edge;
    }
    // First and last stage each have one of the two tables, tied or not.
    let tables = if model.tied_embeddings { 1 } else { 2 };
    let stage =
        u128::from(layers.0) * u128::from(model.layer_count().div_ceil(pp)) / u128::from(model.layer_count());
    Bytes(stage as u64 + edge.0 / tables)
}

/// The groups of layers that are allocated by themselves.
#[must_use]
pub fn kv_groups(model: &ModelShape, options: &MemoryOptions) -> KvGroups {
    kv_layout(model, options).groups
}

/// Groups layers as vLLM `_get_kv_cache_groups_uniform_page_size` does: kinds of layers (full, one per window) are cut into
/// groups of as many layers as the rarest kind has, unless the kinds are about equally common ([`super::PoolRules`]). The
/// groups are the whole model's, of which each stage has a share. Engines that have no such groups keep every token in
/// every layer.
pub(super) fn kv_layout(model: &ModelShape, options: &MemoryOptions) -> KvLayout {
    let stage = |count: u32| count.div_ceil(options.pipeline_parallel);
    let per_layer = |group: &LayerGroup| {
        kv_bytes_per_token_layer(&group.attention, options.kv_dtype, options.tensor_parallel)
    };
    // A drafter's layers lie in the blocks of the model's.
    let drafting = options.drafter.iter().flat_map(|drafter| &drafter.shape.layers);
    let bytes_per_token: Bytes = model
        .layers
        .iter()
        .chain(drafting)
        .map(|group| per_layer(group) * u64::from(stage(group.count)))
        .sum();
    let mut kinds: Vec<(Option<u32>, u32)> = Vec::new();
    for group in &model.layers {
        let window = match group.attention {
            Attention::Grouped { window, .. } => window,
            Attention::Latent { .. } => None,
        };
        match kinds.iter_mut().find(|(known, _)| *known == window) {
            Some((_, count)) => *count += group.count,
            None => kinds.push((window, group.count)),
        }
    }
    let counts = || kinds.iter().map(|&(_, count)| count);
    let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
    let is_even = f64::from(most) < f64::from(fewest) * options.rules.one_group_below;
    let size = if is_even { most } else { fewest };
    let mut groups = KvGroups {
        full: 0,
        windows: Vec::new(),
    };
    for &(window, count) in &kinds {
        let count = count.div_ceil(size);
        match window {
            None => groups.full += count,
            Some(window) => groups.windows.push(WindowGroups {
                window,
                groups: count,
            }),
        }
    }
    let keeps_all = match options.windowed {
        Windowed::KeepAll => true,
        Windowed::Pass => false,
        Windowed::PassBesideOne => groups.full != 1,
    };
    if keeps_all || groups.keeps_all() {
        return KvLayout {
            block_bytes: bytes_per_token * u64::from(options.block_size),
            bytes_per_token,
            groups: KvGroups::ONE,
        };
    }
    // All layers of a hybrid model have equal pages; the last group of a kind may be padded.
    let layers: u32 = model.layers.iter().map(|group| stage(group.count)).sum();
    let of_group = u128::from(bytes_per_token.0) * u128::from(stage(size)) / u128::from(layers);
    KvLayout {
        block_bytes: Bytes(of_group as u64) * u64::from(options.block_size),
        bytes_per_token,
        groups,
    }
}

#[cfg(test)]
mod tests;
