//! Layers of unlike heads, but for Gemma 4's: with a window they have more of them (MiMo-V2, Step 3.5), or a list says how many (Laguna).
//! And gates at the output of attention, whose width is a matter of the family, too.

use serde_json::{Map, Value};

use super::super::families::{Gate, Unlike};
use super::super::{Attention, Mlp, OutputGate};
use super::{HEAD_DIM_MAX, HEADS_MAX, Reader, shortened};

impl Reader<'_> {
    /// What each layer mixes tokens with, and its feed-forward part.
    pub(super) fn layers_of_unlike_heads(
        &mut self,
        count: u32,
        full: &Attention,
        max_position: u32,
    ) -> Option<Vec<(Attention, Mlp)>> {
        let windows = self.windows(count, max_position)?;
        let sliding = match self.family.unlike {
            Unlike::WindowHeads => self.heads_beside_window(full)?,
            Unlike::WindowQueries => self.queries_beside_window(full)?,
            _ => full.clone(),
        };
        let listed = match self.family.unlike {
            Unlike::ListedQueries => self.listed_queries(count)?,
            _ => None,
        };
        let mlps = self.mlps(count)?;
        let slides = self.sliding_layers(count)?;
        let attention = |(layer, own_window): (usize, Option<u32>)| {
            let mut attention = match slides[layer] {
                true => sliding.clone(),
                false => full.clone(),
            };
            if let Attention::Grouped {
                query_heads, window, ..
            } = &mut attention
            {
                *window = own_window;
                if let Some(listed) = &listed {
                    *query_heads = listed[layer];
                }
            }
            attention
        };
        let layers: Vec<Attention> = windows.into_iter().enumerate().map(attention).collect();
        let uneven = layers.iter().find_map(|attention| match attention {
            Attention::Grouped {
                query_heads,
                kv_heads,
                ..
            } if !query_heads.is_multiple_of(*kv_heads) => Some((*query_heads, *kv_heads)),
            _ => None,
        });
        if let Some((query, kv)) = uneven {
            return self.problem(format!(
                "a layer has {query} query heads, no multiple of its {kv} KV heads"
            ));
        }
        Some(layers.into_iter().zip(mlps).collect())
    }

    /// MiMo-V2: whatever is not said of windowed layers is as in the others.
    fn heads_beside_window(&mut self, full: &Attention) -> Option<Attention> {
        let mut own = full.clone();
        if let Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            value_dim,
            ..
        } = &mut own
        {
            for (key, most, value) in [
                ("swa_num_attention_heads", HEADS_MAX, query_heads),
                ("swa_num_key_value_heads", HEADS_MAX, kv_heads),
                ("swa_head_dim", HEAD_DIM_MAX, head_dim),
                ("swa_v_head_dim", HEAD_DIM_MAX, value_dim),
            ] {
                *value = self.required(key, most)?;
            }
        }
        Some(own)
    }

    /// Step 3.5: as vLLM's `_get_num_attention_heads` finds them.
    fn queries_beside_window(&mut self, full: &Attention) -> Option<Attention> {
        let mut own = full.clone();
        let said = self.number("num_sliding_attention_heads", 1, HEADS_MAX);
        let other = self.get("attention_other_setting").and_then(Value::as_object);
        let heads = match (said, other) {
            (Some(heads), _) => Some(heads),
            (None, Some(other)) => self.other_heads(other)?,
            (None, None) => None,
        };
        if let (Attention::Grouped { query_heads, .. }, Some(heads)) = (&mut own, heads) {
            *query_heads = heads;
        }
        Some(own)
    }

    fn other_heads(&mut self, other: &Map<String, Value>) -> Option<Option<u32>> {
        if other.get("attention_type").and_then(Value::as_str) != Some("sliding_attention") {
            return Some(None);
        }
        let heads = other.get("num_attention_heads").and_then(Value::as_u64);
        match heads.filter(|heads| (1..=u64::from(HEADS_MAX)).contains(heads)) {
            Some(heads) => Some(Some(heads as u32)),
            None => self.problem(
                "`attention_other_setting` must say `num_attention_heads` of layers with a window"
                    .to_string(),
            ),
        }
    }

    fn listed_queries(&mut self, count: u32) -> Option<Option<Vec<u32>>> {
        let key = "num_attention_heads_per_layer";
        let Some(listed) = self.get(key) else {
            return Some(None);
        };
        let heads = |value: &Value| {
            let heads = value
                .as_u64()
                .filter(|heads| (1..=u64::from(HEADS_MAX)).contains(heads));
            heads.map(|heads| heads as u32)
        };
        let read = listed
            .as_array()
            .map(|listed| listed.iter().map(heads).collect::<Option<Vec<u32>>>());
        match read.flatten().filter(|read| read.len() == count as usize) {
            Some(read) => Some(Some(read)),
            None => self.problem(format!(
                "`{key}` is {} and must be a number of heads for each of {count} layers",
                shortened(listed)
            )),
        }
    }

    /// The gate at the output of attention.
    pub(super) fn output_gate(&mut self) -> Option<OutputGate> {
        let where_true = |is_gated: bool, gate: OutputGate| match is_gated {
            true => gate,
            false => OutputGate::None,
        };
        Some(match self.family.gate {
            Gate::No => OutputGate::None,
            Gate::Own => OutputGate::Own,
            Gate::OfQueries => where_true(self.flag("attn_output_gate", true), OutputGate::OfQueries),
            Gate::OfHeads => where_true(self.flag("use_head_wise_attn_gate", false), OutputGate::OfHeads),
            Gate::ByGranularity => match self.get("gated_attention_proj_granularity_type") {
                None => OutputGate::None,
                Some(Value::String(size)) if size == "head_wise" => OutputGate::OfHeads,
                Some(Value::String(size)) if size == "element_wise" => OutputGate::Own,
                Some(other) => {
                    return self.problem(format!(
                        "`gated_attention_proj_granularity_type` is {} and must be head_wise or element_wise",
                        shortened(other)
                    ));
                }
            },
            Gate::BySize => match self.get("gating") {
                Some(Value::Bool(false)) => OutputGate::None,
                None | Some(Value::Bool(true)) => OutputGate::OfHeads,
                Some(Value::String(size)) if size == "per-head" => OutputGate::OfHeads,
                Some(Value::String(size)) if size == "per-element" => OutputGate::Own,
                Some(other) => {
                    return self.problem(format!(
                        "`gating` is {} and must be true, false, per-head or per-element",
                        shortened(other)
                    ));
                }
            },
        })
    }
}

#[cfg(test)]
mod tests;
