//! Blocks of a model whose layers keep unlike numbers of bytes for a token, one for each kind of window: unlike heads (Gemma 4), or
//! layers that are left out of an fp8 cache (`--kv-cache-dtype-skip-layers`).
//!
//! vLLM gives all groups blocks of equal bytes (`unify_kv_cache_spec_page_size`): where the bytes of one kind divide those of the other, its
//! blocks are as many times as long; else they are padded. With layers left out it settles both lengths before (vLLM 0.33
//! `Platform._align_heterogeneous_kv_block_size`, `Attention.get_kv_cache_spec`). The engine here has blocks of one length: that of the
//! longest kind, of which the other kind takes several at once, up to one less than those too early. What a longest request occupies is
//! counted exactly ([`KindLayout`]).

use super::MemoryOptions;
use super::layout::{KERNEL_BLOCK, KvLayout};
use crate::kv::{KvGroups, WindowGroups};
use crate::model::{Attention, ModelShape, kv_bytes_per_token_layer};
use crate::units::Bytes;

/// Groups of layers of one kind whose blocks have a length of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindLayout {
    /// `None` keeps every token.
    pub window: Option<u32>,
    /// How many groups.
    pub groups: u32,
    /// Tokens of a block.
    pub block_size: u32,
}

/// Layers of one kind.
struct Kind {
    window: Option<u32>,
    layers: u32,
    /// Of one token in one layer.
    bytes: u64,
}

/// The layout where kinds of layers are unlike; `None` where they are alike, or one group keeps everything.
pub(super) fn unlike_layout(
    model: &ModelShape,
    options: &MemoryOptions,
    bytes_per_token: Bytes,
) -> Option<KvLayout> {
    let kinds = kinds(model, options);
    let widest = kinds.iter().map(|kind| kind.bytes).max()?;
    if kinds.iter().all(|kind| kind.bytes == widest) || kinds.len() == 1 {
        return None;
    }
    let is_mixed = options.kv_format.is_mixed();
    let page = match is_mixed {
        true => page_beside_skipped(&kinds, widest, options.block_size),
        false => widest * u64::from(options.block_size),
    };
    let length = |kind: &Kind| match is_mixed {
        true if kind.window.is_some() => kernel_tokens_within(page / kind.bytes),
        false if !widest.is_multiple_of(kind.bytes) => options.block_size,
        _ => (page / kind.bytes) as u32,
    };
    let longest = kinds.iter().map(length).max()?;
    let counts = || kinds.iter().map(|kind| kind.layers);
    let (fewest, most) = (counts().min()?, counts().max()?);
    let is_even = f64::from(most) < f64::from(fewest) * options.rules.one_group_below;
    let size = if is_even { most } else { fewest };
    let told: Vec<KindLayout> = kinds
        .iter()
        .map(|kind| KindLayout {
            window: kind.window,
            groups: kind.layers.div_ceil(size),
            block_size: length(kind),
        })
        .collect();
    let mut groups = KvGroups {
        full: 0,
        windows: Vec::new(),
        states: 0,
    };
    for kind in &told {
        let at_once = kind.groups * longest.div_ceil(kind.block_size);
        match kind.window {
            None => groups.full += at_once,
            Some(window) => groups.windows.push(WindowGroups {
                window,
                groups: at_once,
            }),
        }
    }
    let layers = u64::from(size.div_ceil(options.pipeline_parallel));
    Some(KvLayout {
        block_bytes: Bytes(page * layers),
        block_size: longest,
        bytes_per_token,
        groups,
        states: None,
        kinds: told,
    })
}

/// Bytes that a block has in a layer where layers with a window are left out of an 8-bit cache: the block of the others is as often as
/// long as holds the least that kernels page by in the wider format.
fn page_beside_skipped(kinds: &[Kind], widest: u64, block_size: u32) -> u64 {
    let narrow = kinds.iter().map(|kind| kind.bytes).min().unwrap_or(widest);
    let unit = u64::from(block_size.max(KERNEL_BLOCK));
    let needed = widest * u64::from(KERNEL_BLOCK);
    unit * needed.div_ceil(unit * narrow) * narrow
}

/// The most tokens that kernels page by, and no more than so many, if that can be (vLLM 0.33 `_largest_kernel_block_within`).
fn kernel_tokens_within(tokens: u64) -> u32 {
    let unit = u64::from(KERNEL_BLOCK);
    (tokens / unit * unit).max(unit) as u32
}

fn kinds(model: &ModelShape, options: &MemoryOptions) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for group in &model.layers {
        let Attention::Grouped {
            window,
            shares_kv: false,
            ..
        } = group.attention
        else {
            continue;
        };
        let bytes = kv_bytes_per_token_layer(&group.attention, options.kv_format, options.tensor_parallel).0;
        match kinds
            .iter_mut()
            .find(|kind| (kind.window, kind.bytes) == (window, bytes))
        {
            Some(kind) => kind.layers += group.count,
            None => kinds.push(Kind {
                window,
                layers: group.count,
                bytes,
            }),
        }
    }
    kinds
}
