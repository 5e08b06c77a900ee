//! What attention of a layer takes on one rank: heads, widths, FLOPs of a pair and of a score, bytes of queries.

use crate::model::{Attention, Dtype, Indexer};

pub(super) fn qkv_width(attention: &Attention, tensor_parallel: u32) -> f64 {
    let heads = f64::from(local_query_heads(attention, tensor_parallel));
    match *attention {
        Attention::Grouped {
            head_dim, value_dim, ..
        } => {
            let kv_heads = f64::from(local_kv_heads(attention, tensor_parallel));
            heads * f64::from(head_dim) + kv_heads * f64::from(head_dim + value_dim)
        }
        Attention::Latent {
            kv_rank,
            rope_dim,
            nope_dim,
            ..
        } => heads * f64::from(nope_dim + rope_dim) + f64::from(kv_rank + rope_dim),
        Attention::Recurrent(_) | Attention::Absent => 0.0,
    }
}

/// Query heads of one rank; none of a layer without attention.
pub(crate) fn local_query_heads(attention: &Attention, tensor_parallel: u32) -> u32 {
    match *attention {
        Attention::Grouped { query_heads, .. } | Attention::Latent { query_heads, .. } => {
            query_heads.div_ceil(tensor_parallel)
        }
        Attention::Recurrent(_) | Attention::Absent => 0,
    }
}

/// KV heads of one rank, replicated where there are fewer than ranks (TP-2); one latent cache.
pub(crate) fn local_kv_heads(attention: &Attention, tensor_parallel: u32) -> u32 {
    match *attention {
        Attention::Grouped { kv_heads, .. } => (kv_heads / tensor_parallel).max(1),
        Attention::Latent { .. } => 1,
        Attention::Recurrent(_) | Attention::Absent => 0,
    }
}

/// FLOPs of one rank and layer for each attended (query, key) pair.
///
/// Decoding over a latent cache multiplies in the compressed space (absorbed projections), a chunk does not.
pub(crate) fn flops_per_pair(attention: &Attention, tensor_parallel: u32, decoding: bool) -> f64 {
    let heads = f64::from(local_query_heads(attention, tensor_parallel));
    match *attention {
        Attention::Grouped {
            head_dim, value_dim, ..
        } => 2.0 * heads * f64::from(head_dim + value_dim),
        Attention::Latent {
            kv_rank, rope_dim, ..
        } if decoding => 2.0 * heads * (f64::from(kv_rank + rope_dim) + f64::from(kv_rank)),
        Attention::Latent {
            nope_dim,
            rope_dim,
            value_dim,
            ..
        } => 2.0 * heads * (f64::from(nope_dim + rope_dim) + f64::from(value_dim)),
        Attention::Recurrent(_) | Attention::Absent => 0.0,
    }
}

/// Width of what decoding rescales, reduces over splits and writes for each query head, over the 128 of the kernels that were
/// published: over a latent cache that is a value of the compressed space. Kernels for it were measured to take as much more (four times
/// for DeepSeek-V3: FlashAttention 3 on an H200 and an H100, 16 to 128 heads).
pub(crate) fn reduced_width(attention: &Attention) -> f64 {
    match *attention {
        Attention::Latent { kv_rank, .. } => f64::from(kv_rank) / 128.0,
        Attention::Grouped { .. } | Attention::Recurrent(_) | Attention::Absent => 1.0,
    }
}

/// Bytes of queries read and outputs written by one rank and layer for each new token.
pub(crate) fn query_bytes_per_token(attention: &Attention, dtype: Dtype, tensor_parallel: u32) -> f64 {
    let heads = f64::from(local_query_heads(attention, tensor_parallel));
    let width = match *attention {
        Attention::Grouped {
            head_dim, value_dim, ..
        } => f64::from(head_dim + value_dim),
        Attention::Latent {
            nope_dim,
            rope_dim,
            value_dim,
            ..
        } => f64::from(nope_dim + rope_dim + value_dim),
        Attention::Recurrent(_) | Attention::Absent => 0.0,
    };
    heads * width * dtype.bytes() as f64
}

/// The indexer by which a layer attends sparsely, its own or another's.
pub(crate) fn indexer(attention: &Attention) -> Option<Indexer> {
    match *attention {
        Attention::Latent { indexer, .. } => indexer,
        _ => None,
    }
}

/// FLOPs of an indexer's score of a token: a product of each of its heads with the one key, and their weighted sum.
pub(crate) fn score_flops(indexer: Indexer) -> f64 {
    match indexer.scores {
        true => 2.0 * f64::from(indexer.heads) * f64::from(indexer.head_dim + 1),
        false => 0.0,
    }
}

/// The sliding window of a layer, if it has one.
pub(crate) fn window(attention: &Attention) -> Option<u32> {
    match *attention {
        Attention::Grouped { window, .. } => window,
        Attention::Latent { .. } | Attention::Recurrent(_) | Attention::Absent => None,
    }
}
