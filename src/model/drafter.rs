//! What drafts for a model: a layer on its hidden states, or a smaller model.
//!
//! A drafting layer is taken to be like the model's own: EAGLE's and EAGLE-3's have one dense layer of the model's width behind a
//! projection of two or three hidden states, a multi-token prediction module one of the model's last layers behind a projection of two
//! (DeepSeek-V3, section 2.2). EAGLE-3's LM head is its own and has 32,000 rows, as published heads for Llama, Qwen and gpt-oss have.
//! Left out: modules after the first one, which are run again instead; mappings between vocabularies.

use super::{LayerGroup, Mlp, ModelShape, Quantization};
use crate::units::Bytes;

/// Rows of an EAGLE-3 head (`draft_vocab_size`).
const EAGLE3_VOCABULARY: u32 = 32_000;

/// What drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafter {
    /// Its layers, and the rows that its LM head multiplies.
    pub shape: ModelShape,
    /// Hidden states that are joined before the layer; 0 where a model by itself drafts.
    pub joined: u32,
    /// Embedding and LM head are not those of the model.
    pub owns_tables: bool,
    /// Layers whose KV the engine counts in place of its own, where it does.
    pub counted_as: Option<LayerGroup>,
}

impl Drafter {
    /// EAGLE's head for a model.
    #[must_use]
    pub fn eagle(target: &ModelShape, is_third: bool) -> Drafter {
        let last = last_layer(target);
        let mlp = match &last.mlp {
            plain @ (Mlp::Dense { .. } | Mlp::Absent) => plain.clone(),
            // As wide as what one token uses of the experts.
            &Mlp::Experts {
                experts_per_token,
                intermediate,
                shared_intermediate,
                ..
            } => Mlp::Dense {
                intermediate: experts_per_token * intermediate + shared_intermediate,
                gated: true,
            },
        };
        let layer = LayerGroup {
            count: 1,
            mlp,
            kept: Vec::new(),
            ..last.clone()
        };
        let shape = ModelShape {
            name: format!(
                "{} of {}",
                if is_third { "EAGLE-3" } else { "EAGLE" },
                target.name
            ),
            vocab_size: if is_third {
                EAGLE3_VOCABULARY.min(target.vocab_size)
            } else {
                target.vocab_size
            },
            quantization: Quantization::None,
            quant_method: None,
            static_scales: false,
            tied_embeddings: true,
            layers: vec![layer],
            other_parameters: 0,
            ..target.clone()
        };
        Drafter {
            shape,
            joined: if is_third { 3 } else { 2 },
            owns_tables: is_third,
            counted_as: None,
        }
    }

    /// A model's own multi-token prediction.
    #[must_use]
    pub fn of_multi_token_prediction(target: &ModelShape) -> Drafter {
        let layer = LayerGroup {
            count: 1,
            ..last_layer(target).clone()
        };
        Drafter {
            shape: ModelShape {
                name: format!("multi-token prediction of {}", target.name),
                tied_embeddings: true,
                layers: vec![layer],
                other_parameters: 0,
                ..target.clone()
            },
            joined: 2,
            owns_tables: false,
            counted_as: None,
        }
    }

    /// A smaller model.
    #[must_use]
    pub fn model(shape: ModelShape) -> Drafter {
        Drafter {
            shape,
            joined: 0,
            owns_tables: true,
            counted_as: None,
        }
    }

    /// Has its KV counted as if each of its layers were like the model's (SGLang's `DefaultPoolConfigurator`).
    #[must_use]
    pub fn counted_like(self, target: &ModelShape) -> Drafter {
        let layers = self.shape.layers.iter().map(|group| group.count).sum();
        Drafter {
            counted_as: Some(LayerGroup {
                count: layers,
                kept: Vec::new(),
                ..last_layer(target).clone()
            }),
            ..self
        }
    }

    /// The layers whose KV lies beside the model's.
    #[must_use]
    pub fn kv_layers(&self) -> &[LayerGroup] {
        match &self.counted_as {
            Some(layers) => std::slice::from_ref(layers),
            None => &self.shape.layers,
        }
    }

    /// Bytes of the projection that joins hidden states, which is on every rank whole.
    #[must_use]
    pub fn joining_bytes(&self) -> Bytes {
        let width = u64::from(self.shape.hidden_size);
        Bytes(u64::from(self.joined) * width * width * self.shape.dtype.bytes())
    }

    /// Bytes of weights that one rank reads to draft for a single sequence: a pass over the token and `drafts` that are verified, and one
    /// over a token for each further of `levels`.
    #[must_use]
    pub fn streamed_bytes(&self, tensor_parallel: u32, drafts: u32, levels: u32) -> Bytes {
        let further = u64::from(levels.saturating_sub(1));
        self.shape.streamed_bytes_of(tensor_parallel, 1 + drafts)
            + self.shape.streamed_bytes(tensor_parallel) * further
            + self.joining_bytes() * (1 + further)
    }

    /// Bytes of its weights on each of `tensor_parallel` ranks, beside what it shares with the model.
    #[must_use]
    pub fn weight_bytes(&self, tensor_parallel: u32) -> Bytes {
        let tables = match self.owns_tables {
            true => self.shape.edge_weight_bytes(tensor_parallel),
            false => Bytes(0),
        };
        self.shape.layer_weight_bytes(tensor_parallel) + self.joining_bytes() + tables
    }
}

fn last_layer(target: &ModelShape) -> &LayerGroup {
    target
        .layers
        .last()
        .expect("a shape has layers, which is checked when it is read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::find;

    #[test]
    fn published_heads_are_as_large() {
        let target = |name: &str| find(name).expect("bundled").0;
        // yuhuili/EAGLE3-LLaMA3.1-Instruct-8B has 425 M parameters without its embedding, which is the model's own.
        let eagle3 = Drafter::eagle(&target("meta-llama/Llama-3.1-8B-Instruct"), true);
        let parameters = eagle3.weight_bytes(1).0 as f64 / 2.0;
        assert!((parameters / 425e6 - 1.0).abs() < 0.12, "{parameters}");
        // The multi-token prediction module of DeepSeek-V3 has 11.5 B parameters of its own (README.md: "main model weights" and
        // "MTP module"), in 8 bits.
        let module = Drafter::of_multi_token_prediction(&target("deepseek-ai/DeepSeek-V3"));
        let bytes = module.weight_bytes(1).0 as f64;
        assert!((bytes / 11.5e9 - 1.0).abs() < 0.05, "{bytes}");
    }

    #[test]
    fn ranks_share_a_model_that_drafts() {
        let small = find("meta-llama/Llama-3.2-1B-Instruct").expect("bundled").0;
        let drafter = Drafter::model(small.clone());
        assert_eq!(drafter.weight_bytes(1), small.weight_bytes(1));
        assert!(drafter.weight_bytes(8).0 * 7 < small.weight_bytes(1).0);
    }
}
