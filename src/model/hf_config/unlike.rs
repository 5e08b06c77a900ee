//! Gemma 4: layers without a window have heads of another width, and perhaps fewer of them; the last layers share keys and values.
//!
//! As vLLM's class has it: keys that are values, too, are stored and cached twice. Law: what a config says of single layers and is not read
//! here is an error.

use super::super::{Attention, Mlp};
use super::{EXPERTS_MAX, HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX, Reader, WIDTH_MAX};

impl Reader<'_> {
    /// What each layer mixes tokens with, and its feed-forward part.
    pub(super) fn unlike_layers(
        &mut self,
        count: u32,
        sliding: &Attention,
        max_position: u32,
    ) -> Option<Vec<(Attention, Mlp)>> {
        if self.get("per_layer_config").is_some() {
            return self
                .problem("`per_layer_config` is not read: give the config as it was published".to_string());
        }
        if self
            .get("use_bidirectional_attention")
            .and_then(|value| value.as_str())
            == Some("all")
        {
            return self
                .problem("`use_bidirectional_attention` is all: an encoder is not modelled".to_string());
        }
        let shared = self.shared_layers(count)?;
        let keys_are_values = self.flag("attention_k_eq_v", false);
        let global_dim = self.required("global_head_dim", HEAD_DIM_MAX)?;
        let global_heads = match keys_are_values {
            true => self.number("num_global_key_value_heads", 1, HEADS_MAX),
            false => None,
        };
        if keys_are_values {
            let note = "layers without a window use keys as values: they are counted twice, as vLLM stores and caches them";
            self.notes.push(note.to_string());
        }
        let windows = self.windows(count, max_position)?;
        let mlps = self.mlps(count)?;
        let attention = |(layer, window): (u32, Option<u32>)| {
            let mut attention = sliding.clone();
            if let Attention::Grouped {
                kv_heads,
                head_dim,
                value_dim,
                window: own,
                shares_kv,
                ..
            } = &mut attention
            {
                *own = window;
                *shares_kv = layer >= count - shared;
                if window.is_none() {
                    *head_dim = global_dim;
                    *value_dim = global_dim;
                    *kv_heads = global_heads.unwrap_or(*kv_heads);
                }
            }
            attention
        };
        let layers: Vec<Attention> = (0..count).zip(windows).map(attention).collect();
        let uneven = layers.iter().any(|attention| {
            matches!(attention, Attention::Grouped { query_heads, kv_heads, .. } if !query_heads.is_multiple_of(*kv_heads))
        });
        if uneven {
            return self.problem(
                "`num_attention_heads` is not a multiple of `num_global_key_value_heads`".to_string(),
            );
        }
        Some(layers.into_iter().zip(mlps).collect())
    }

    /// How many of the last layers share keys and values with earlier ones; some must have their own.
    fn shared_layers(&mut self, count: u32) -> Option<u32> {
        let shared = self.number("num_kv_shared_layers", 0, LAYERS_MAX).unwrap_or(0);
        match shared < count {
            true => Some(shared),
            false => self.problem(format!(
                "`num_kv_shared_layers` is {shared} and must be below `num_hidden_layers`, {count}"
            )),
        }
    }

    /// Dense parts, wider where keys and values are shared if so asked; with experts beside them, or without.
    pub(super) fn gemma4_mlps(&mut self, count: u32) -> Option<Vec<Mlp>> {
        let intermediate = self.dense_width()?;
        if self.number("num_experts", 0, EXPERTS_MAX).unwrap_or(0) > 0 {
            let experts = self.experts("num_experts", "moe_intermediate_size", intermediate)?;
            return Some(vec![experts; count as usize]);
        }
        let is_wide = self.flag("use_double_wide_mlp", false);
        if 2 * intermediate > WIDTH_MAX && is_wide {
            return self.problem("`use_double_wide_mlp` makes `intermediate_size` too wide".to_string());
        }
        let shared = self.shared_layers(count)?;
        let width = |layer: u32| match is_wide && layer >= count - shared && shared > 0 {
            true => 2 * intermediate,
            false => intermediate,
        };
        let dense = |layer: u32| Mlp::Dense {
            intermediate: width(layer),
            gated: true,
        };
        Some((0..count).map(dense).collect())
    }
}

#[cfg(test)]
mod tests;
