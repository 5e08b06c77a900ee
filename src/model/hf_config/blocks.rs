//! Layers that are each described by themselves: Nemotron's searched architectures (`DeciLMForCausalLM`), whose `block_configs` leave out
//! attention or the feed-forward part of some layers, and give others fewer KV heads or another width.
//!
//! As vLLM's class has them (`nemotron_nas.py`). Law: what a block asks for and that class does not build is an error.

use serde_json::{Map, Value};

use super::super::{Attention, Mlp};
use super::{Reader, WIDTH_MAX};

/// Widths of feed-forward parts are rounded up to a multiple of this (`_ffn_mult_to_intermediate_size`).
const WIDTH_STEP: u64 = 256;
/// Several parts that were merged make wide ones, 425,984 in Nemotron Ultra. None of these layers has experts to multiply it.
const MERGED_MAX: u64 = 1 << 20;

impl Reader<'_> {
    /// What each layer mixes tokens with, and its feed-forward part.
    pub(super) fn block_layers(
        &mut self,
        count: u32,
        attention: &Attention,
    ) -> Option<Vec<(Attention, Mlp)>> {
        let listed = self.get("block_configs").and_then(Value::as_array);
        let blocks: Option<Vec<&Map<String, Value>>> =
            listed.and_then(|listed| listed.iter().map(Value::as_object).collect());
        let Some(blocks) = blocks.filter(|blocks| blocks.len() == count as usize) else {
            return self.problem(format!(
                "`block_configs` must describe each of {count} layers in an object"
            ));
        };
        let layers = blocks.into_iter().enumerate();
        layers
            .map(|(layer, block)| {
                let mixer = self.block_attention(layer, part(block, "attention"), attention)?;
                Some((mixer, self.block_mlp(layer, part(block, "ffn"))?))
            })
            .collect()
    }

    fn block_attention(
        &mut self,
        layer: usize,
        said: Option<&Map<String, Value>>,
        full: &Attention,
    ) -> Option<Attention> {
        if is_true(said, "no_op") {
            return Some(Attention::Absent);
        }
        let has = |key: &str| {
            said.and_then(|said| said.get(key))
                .is_some_and(|value| !value.is_null())
        };
        if is_true(said, "replace_with_linear")
            || ["window_length", "sparsify", "num_sink_tokens"]
                .into_iter()
                .any(has)
        {
            return self.problem(format!(
                "`block_configs` of layer {layer} asks for an attention that vLLM's class does not build"
            ));
        }
        let of_group = said
            .and_then(|said| said.get("n_heads_in_group"))
            .and_then(Value::as_u64);
        let mut own = full.clone();
        if let Attention::Grouped {
            query_heads,
            kv_heads,
            ..
        } = &mut own
        {
            let queries = u64::from(*query_heads);
            match of_group.filter(|&size| size > 0 && queries.is_multiple_of(size)) {
                Some(size) => *kv_heads = (queries / size) as u32,
                None => {
                    return self.problem(format!(
                        "`n_heads_in_group` of layer {layer} must divide `num_attention_heads`, {queries}"
                    ));
                }
            }
        }
        Some(own)
    }

    fn block_mlp(&mut self, layer: usize, said: Option<&Map<String, Value>>) -> Option<Mlp> {
        if is_true(said, "no_op") {
            return Some(Mlp::Absent);
        }
        let hidden = self.required("hidden_size", WIDTH_MAX)?;
        let multiple = said.and_then(|said| said.get("ffn_mult")).and_then(Value::as_f64);
        let width = match multiple {
            Some(multiple) => {
                Some(((2.0 * multiple * f64::from(hidden) / 3.0) as u64).next_multiple_of(WIDTH_STEP))
            }
            None => said
                .and_then(|said| said.get("intermediate_size"))
                .and_then(Value::as_u64),
        };
        let width = width.filter(|width| (1..=MERGED_MAX).contains(width));
        match width.filter(|_| !is_true(said, "replace_with_linear")) {
            Some(width) => Some(Mlp::Dense {
                intermediate: width as u32,
                gated: true,
            }),
            None => self.problem(format!(
                "the `ffn` of layer {layer} in `block_configs` must have an `ffn_mult` or `intermediate_size`, and be no linear layer"
            )),
        }
    }
}

fn part<'a>(block: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    block.get(key).and_then(Value::as_object)
}

fn is_true(said: Option<&Map<String, Value>>, key: &str) -> bool {
    said.and_then(|said| said.get(key)).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests;
