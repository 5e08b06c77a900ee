//! The lightning indexer of DeepSeek Sparse Attention (DeepSeek-V3.2, GLM-5): which tokens of its context a query attends to.
//!
//! It scores every token by small keys of its own, which it caches in 8 bits, and attention reads the best `top_k` of them. Some layers
//! have none and take the picks of the layer before (GLM-5.2).

use super::Dtype;
use crate::units::Bytes;

/// The indexer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Indexer {
    /// Heads of its queries, `index_n_heads`; there is one key for all of them.
    pub heads: u32,
    /// Width of a head, `index_head_dim`.
    pub head_dim: u32,
    /// Tokens that a query attends to at most, `index_topk`.
    pub top_k: u32,
    /// The layer scores by itself; else it takes the picks of a layer before it.
    pub scores: bool,
}

impl Indexer {
    /// Bytes of its keys for one token, on every rank: 8-bit floats and a 32-bit scale for each 128 of them (vLLM
    /// `DeepseekV32IndexerCache`).
    #[must_use]
    pub fn cached_bytes(self) -> Bytes {
        match self.scores {
            true => Bytes(u64::from(self.head_dim) + u64::from(self.head_dim / 128) * Dtype::Fp32.bytes()),
            false => Bytes(0),
        }
    }
}
