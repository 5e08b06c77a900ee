//! How the weights and the KV cache of one rank lie in memory.

use super::unlike::unlike_layout;
use super::{KindLayout, MemoryOptions, StateBlocks, Windowed};
use crate::kv::{KvGroups, WindowGroups};
use crate::model::{Attention, Drafter, LayerGroup, ModelShape, ModelStage, kv_bytes_per_token_layer};
use crate::units::Bytes;

/// How the KV of one rank is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Bytes of a block: over the layers of one group, of which each rank has so many.
    pub block_bytes: Bytes,
    /// Tokens of a block.
    pub block_size: u32,
    /// Bytes of one token over all layers of the rank, windows ignored.
    pub bytes_per_token: Bytes,
    /// Groups of layers that are allocated by themselves; one where no window passes blocks.
    pub groups: KvGroups,
    /// How states of constant size lie in blocks; `None` without recurrent layers.
    pub states: Option<StateLayout>,
    /// Kinds of layers whose blocks are unlike in length; empty where all are alike.
    pub kinds: Vec<KindLayout>,
}

/// How the states of recurrent layers lie in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLayout {
    /// Bytes of one sequence's state in one layer of a rank: the convolution's inputs and the heads' states.
    pub bytes: Bytes,
    /// Bytes of a layer's part of a block, to which a state is padded.
    pub page: Bytes,
    /// Groups of such layers.
    pub groups: u32,
    /// Layers of a group, of which the last one may have fewer.
    pub layers: u32,
}

/// Weights of a rank; of several stages where layers keep unlike KV, roughly those of the fullest.
pub(super) fn rank_weights(model: &ModelShape, options: &MemoryOptions) -> Bytes {
    let (tp, pp) = (options.tensor_parallel, options.pipeline_parallel);
    let edge = match options.edges {
        Some(edges) => model.edge_weight_bytes_of(edges.embedding, edges.head),
        None => model.edge_weight_bytes(tp),
    };
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

/// Weights of a rank of one stage of a pipeline: its layers, and the embedding or the LM head, of which tied ones are copies.
pub(super) fn stage_weights(stage: &ModelStage, options: &MemoryOptions) -> Bytes {
    let tp = options.tensor_parallel;
    let tables = if stage.shape.tied_embeddings { 1 } else { 2 };
    let ends = u64::from(stage.is_first) + u64::from(stage.is_last);
    let of_one = stage.shape.edge_weight_bytes(tp).0 / tables;
    stage.shape.layer_weight_bytes(tp) + Bytes(ends * of_one)
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
///
/// Recurrent layers are one more kind. All groups have blocks of equal size, so a block of attention layers is as many tokens
/// long as hold the bytes of a state ([`block_size_with`]).
pub(super) fn kv_layout(model: &ModelShape, options: &MemoryOptions) -> KvLayout {
    let stage = |count: u32| count.div_ceil(options.pipeline_parallel);
    let per_layer = |group: &LayerGroup| {
        kv_bytes_per_token_layer(&group.attention, options.kv_format, options.tensor_parallel)
    };
    // A drafter's layers lie in the blocks of the model's.
    let drafting = options.drafter.iter().flat_map(Drafter::kv_layers);
    let bytes_per_token: Bytes = model
        .layers
        .iter()
        .chain(drafting)
        .map(|group| per_layer(group) * u64::from(stage(group.count)))
        .sum();
    let mut kinds: Vec<(Kind, u32)> = Vec::new();
    for group in &model.layers {
        let kind = match group.attention {
            Attention::Grouped { shares_kv: true, .. } => continue,
            Attention::Grouped { window, .. } => Kind::Keys(window),
            Attention::Latent { .. } => Kind::Keys(None),
            Attention::Recurrent(_) => Kind::States,
            Attention::Absent => continue,
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += group.count,
            None => kinds.push((kind, group.count)),
        }
    }
    let counts = || kinds.iter().map(|&(_, count)| count);
    let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
    let is_even = f64::from(most) < f64::from(fewest) * options.rules.one_group_below;
    let size = if is_even { most } else { fewest };
    let mut groups = KvGroups {
        full: 0,
        windows: Vec::new(),
        states: 0,
    };
    let mut state_groups = 0;
    for &(kind, count) in &kinds {
        let count = count.div_ceil(size);
        match kind {
            Kind::Keys(None) => groups.full += count,
            Kind::Keys(Some(window)) => groups.windows.push(WindowGroups {
                window,
                groups: count,
            }),
            Kind::States => state_groups = count,
        }
    }
    groups.states = state_groups * options.state_blocks.of_sequence();
    let keeps_all = match options.windowed {
        Windowed::KeepAll => true,
        Windowed::Pass => false,
        Windowed::PassBesideOne => groups.full != 1,
    };
    if state_groups == 0 && (keeps_all || groups.keeps_all()) {
        return KvLayout {
            block_bytes: bytes_per_token * u64::from(options.block_size),
            block_size: options.block_size,
            bytes_per_token,
            groups: KvGroups::ONE,
            states: None,
            kinds: Vec::new(),
        };
    }
    if let Some(layout) = unlike_layout(model, options, bytes_per_token) {
        return layout;
    }
    // All layers of a hybrid model have equal pages; the last group of a kind may be padded.
    let caches = |group: &&LayerGroup| group.attends() && per_layer(group).0 > 0;
    let attending = model.layers.iter().filter(caches);
    let layers: u32 = attending.map(|group| stage(group.count)).sum();
    let of_group = u128::from(bytes_per_token.0) * u128::from(stage(size)) / u128::from(layers);
    let of_layer = bytes_per_token.0 / u64::from(layers);
    let state = model
        .recurrence()
        .map(|recurrence| recurrence.state_bytes(model.dtype, options.tensor_parallel));
    let block_size = state.map_or(options.block_size, |state| {
        block_size_with(options, block_unit(model, options), of_layer, state)
    });
    KvLayout {
        block_bytes: Bytes(of_group as u64) * u64::from(block_size),
        block_size,
        bytes_per_token,
        groups,
        states: state.map(|bytes| StateLayout {
            bytes,
            page: Bytes(of_layer * u64::from(block_size)),
            groups: state_groups,
            layers: stage(size),
        }),
        kinds: Vec::new(),
    }
}

/// What a group's layers keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keys and values, perhaps of a window.
    Keys(Option<u32>),
    /// States of constant size.
    States,
}

/// Tokens that the kernels of FlashAttention and FlashInfer page by, or a multiple of them.
pub(super) const KERNEL_BLOCK: u32 = 16;

/// What the tokens of a block of a hybrid are a multiple of: over a latent cache, whose decode kernels want it so, of 128.
#[must_use]
pub fn block_unit(model: &ModelShape, options: &MemoryOptions) -> u32 {
    let least = if model.has_latent_cache() {
        128
    } else {
        KERNEL_BLOCK
    };
    options.block_size.max(least)
}

/// Tokens of a block whose part of one attention layer, with so many bytes for a token, holds a state (vLLM
/// `Platform._align_hybrid_block_size`): the least multiple of what was asked for.
fn block_size_with(options: &MemoryOptions, unit: u32, of_token: u64, state: Bytes) -> u32 {
    let mut unit = u64::from(unit);
    if let StateBlocks::Aligned {
        checkpoints: Some(tokens),
    } = options.state_blocks
    {
        unit = least_common_multiple(unit, u64::from(tokens));
    }
    let least = unit * state.0.div_ceil(unit * of_token);
    let least = least.next_multiple_of(u64::from(KERNEL_BLOCK));
    u32::try_from(least).unwrap_or(u32::MAX).max(options.block_size)
}

fn least_common_multiple(one: u64, other: u64) -> u64 {
    let (mut a, mut b) = (one, other);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    one / a * other
}

#[cfg(test)]
mod tests;
