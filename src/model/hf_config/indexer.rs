//! Sparse attention: the indexer of a layer, and which layers have one of their own.
//!
//! The rule is vLLM's (`DeepseekV32Attention`): `index_topk_pattern`, or every `index_topk_freq`-th layer from `index_skip_topk_offset` on;
//! `indexer_types`, which `transformers` reads, must say the same. Law: whatever has `index_topk` attends sparsely.

use serde_json::Value;

use super::super::Indexer;
use super::{HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX, POSITION_MAX, Reader};

/// Kinds of indexers, and whether a layer of that kind scores by itself.
const KINDS: [(&str, bool); 2] = [("full", true), ("shared", false)];

impl Reader<'_> {
    /// The indexer of a layer that has its own; outside it is `None` where that was a problem, inside where there is none.
    pub(super) fn indexer(&mut self, query_rank: Option<u32>) -> Option<Option<Indexer>> {
        let Some(top_k) = self.number("index_topk", 1, POSITION_MAX) else {
            return Some(None);
        };
        let heads = self.required("index_n_heads", HEADS_MAX);
        let head_dim = self.required("index_head_dim", HEAD_DIM_MAX);
        if query_rank.is_none() {
            return self
                .problem("`index_topk` without `q_lora_rank`: the indexer has no queries".to_string());
        }
        let head_dim = head_dim?;
        if !head_dim.is_multiple_of(128) {
            return self.problem(format!(
                "`index_head_dim` is {head_dim} and must be a multiple of 128, for each of which the cache has a scale"
            ));
        }
        Some(Some(Indexer {
            heads: heads?,
            head_dim,
            top_k,
            scores: true,
        }))
    }

    /// Which layers of a sparse stack score by themselves.
    pub(super) fn scoring_layers(&mut self, count: u32) -> Option<Vec<bool>> {
        let by_rule = match self.get("index_topk_pattern") {
            Some(pattern) => self.by_pattern(pattern, count)?,
            None => {
                let every = self.number("index_topk_freq", 1, LAYERS_MAX).unwrap_or(1);
                let offset = self.number("index_skip_topk_offset", 0, LAYERS_MAX).unwrap_or(2);
                (0..count)
                    .map(|layer| (layer + 1).saturating_sub(offset).is_multiple_of(every))
                    .collect()
            }
        };
        let listed = match self.get("indexer_types") {
            Some(_) => self.of_each_layer("indexer_types", count, &KINDS)?,
            None => return Some(by_rule),
        };
        match listed == by_rule {
            true => Some(by_rule),
            false => self.problem(
                "`indexer_types` says of other layers than `index_topk_freq` and `index_skip_topk_offset` that they share an indexer: \
                 vLLM reads the latter"
                    .to_string(),
            ),
        }
    }

    /// A letter a layer: all but `S` score, and so do layers beyond its end.
    fn by_pattern(&mut self, pattern: &Value, count: u32) -> Option<Vec<bool>> {
        let Some(letters) = pattern.as_str() else {
            return self.problem("`index_topk_pattern` must be a text of a letter a layer, FSSS".to_string());
        };
        let letters: Vec<char> = letters.chars().collect();
        Some(
            (0..count as usize)
                .map(|layer| letters.get(layer) != Some(&'S'))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests;
