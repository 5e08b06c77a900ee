//! Parameters that are not in matrices: norms, biases, sinks, position tables.

use serde_json::Value;

use super::super::families::{Bias, ExpertKeys, Hybrid, QkNorm, Unlike};
use super::super::{Attention, LayerGroup, Mlp, ModelShape};
use super::Reader;

/// Which vectors the layers of a model have.
struct Vectors {
    /// Biases of attention's projections, and of feed-forward parts.
    attention_bias: bool,
    mlp_bias: bool,
    /// Biases of a recurrent layer's convolution and of its projections, and a norm of what it puts out.
    conv_bias: bool,
    state_bias: bool,
    state_norm: bool,
    /// A sink for each query head of MiMo-V2's layers with a window.
    has_sinks: bool,
    qk_norm: QkNorm,
    /// A bias that corrects the router's choice.
    corrected: bool,
}

impl Reader<'_> {
    /// Norms, biases and whatever else is not a matrix.
    pub(super) fn other_parameters(&mut self, shape: &ModelShape) -> u64 {
        let d = u64::from(shape.hidden_size);
        let has = self.vectors();
        let norm = if self.family.norm_bias { 2 * d } else { d };
        let norms_per_layer = self.norms_per_layer();
        let mut sum = self.parameters_beside_layers(shape, norm);
        for group in &shape.layers {
            let norms = match self.family.unlike {
                Unlike::Blocks => u64::from(group.sublayers()),
                _ => norms_per_layer,
            };
            let mixer = self.mixer_vectors(&group.attention, d, &has);
            let layer = norms * norm + mixer + self.mlp_vectors(group, d, &has);
            sum += u64::from(group.count) * layer;
        }
        sum
    }

    fn vectors(&mut self) -> Vectors {
        let (attention_bias, mlp_bias) = match self.family.qkv_bias {
            Bias::Always => (true, self.flag("mlp_bias", false)),
            Bias::ByKey => (self.flag("attention_bias", false), self.flag("mlp_bias", false)),
            Bias::MlpOnly => (false, self.flag("mlp_bias", false)),
            Bias::MlpAlways => (false, true),
            Bias::WithMlp { by_default } => {
                let use_bias = self.flag("use_bias", by_default);
                (use_bias, use_bias)
            }
        };
        let (conv_bias, state_bias) = match self.family.hybrid {
            Hybrid::StateSpace | Hybrid::Mamba2 | Hybrid::Mamba2Beside => {
                (self.flag("use_conv_bias", true), self.flag("use_bias", false))
            }
            Hybrid::ShortConv => {
                let bias = self.flag("conv_bias", false);
                (bias, bias)
            }
            Hybrid::None | Hybrid::GatedDelta | Hybrid::KimiDelta | Hybrid::LingDelta => (false, false),
        };
        Vectors {
            attention_bias,
            mlp_bias,
            conv_bias,
            state_bias,
            state_norm: self.family.hybrid != Hybrid::Mamba2Beside || self.flag("mamba_rms_norm", false),
            has_sinks: self.family.unlike == Unlike::WindowHeads
                && self.flag("add_swa_attention_sink_bias", false),
            qk_norm: self.qk_norm(),
            corrected: self.get("topk_method").and_then(Value::as_str) == Some("noaux_tc"),
        }
    }

    /// The last norm, and what lies beside embedding and LM head.
    fn parameters_beside_layers(&mut self, shape: &ModelShape, norm: u64) -> u64 {
        let d = u64::from(shape.hidden_size);
        // Where those of layers have no weights, the last one has none.
        let mut sum = match self.family.norms_per_layer {
            0 => 0,
            _ => norm,
        };
        if self.family.embedding_norm {
            sum += norm;
        }
        if self.flag("lm_head_bias", self.family.head_bias) {
            sum += u64::from(shape.vocab_size);
        }
        if let Some(more) = self.family.position_table {
            sum += (u64::from(shape.max_position) + u64::from(more)) * d;
        }
        if let Some(width) = shape.per_layer_input {
            // A norm for all of them, and one in each layer.
            sum += u64::from(width) + u64::from(shape.layer_count()) * d;
        }
        sum
    }

    /// Those of what mixes a layer's tokens.
    fn mixer_vectors(&self, attention: &Attention, d: u64, has: &Vectors) -> u64 {
        match attention {
            &Attention::Grouped {
                query_heads,
                kv_heads,
                head_dim,
                value_dim,
                window,
                shares_kv,
                ..
            } => {
                let width = u64::from(query_heads) * u64::from(head_dim)
                    + u64::from(kv_heads) * u64::from(head_dim + value_dim);
                let bias = width + if self.family.out_bias { d } else { 0 };
                let norm = match has.qk_norm {
                    QkNorm::No | QkNorm::WholeByKey => 0,
                    QkNorm::Head if shares_kv => u64::from(head_dim),
                    QkNorm::Head => 2 * u64::from(head_dim),
                    QkNorm::Whole => u64::from(query_heads + kv_heads) * u64::from(head_dim),
                };
                let sinks = match has.has_sinks && window.is_some() {
                    true => query_heads,
                    false => 0,
                };
                u64::from(has.attention_bias) * bias + norm + u64::from(sinks)
            }
            &Attention::Latent {
                query_rank,
                kv_rank,
                indexer,
                ..
            } => {
                // The norm of the indexer's keys has a bias.
                let scores = indexer.filter(|indexer| indexer.scores);
                let keys = scores.map_or(0, |indexer| 2 * indexer.head_dim);
                u64::from(query_rank.unwrap_or(0) + kv_rank + keys)
            }
            Attention::Recurrent(recurrence) => {
                let projections = recurrence.projections(d);
                let width: u64 = projections.iter().map(|one| one.outputs).sum();
                let vectors = recurrence.vector_parameters(has.conv_bias, has.state_norm);
                u64::from(has.state_bias) * width + vectors
            }
            Attention::Absent => 0,
        }
    }

    /// What the family implies, unless the config says yes or no.
    fn qk_norm(&mut self) -> QkNorm {
        let implied = self.family.qk_norm;
        // Llama 4 normalises without weights.
        let may_have = self.family.experts != ExpertKeys::Llama4;
        let by_default = !matches!(implied, QkNorm::No | QkNorm::WholeByKey);
        match (self.flag("use_qk_norm", by_default) && may_have, implied) {
            (false, _) => QkNorm::No,
            (true, QkNorm::No) => QkNorm::Head,
            (true, QkNorm::WholeByKey) => QkNorm::Whole,
            (true, implied) => implied,
        }
    }

    /// Norms of width `d` in a layer: larger Falcons have one for each of the halves that run side by side, unless they say one.
    fn norms_per_layer(&mut self) -> u64 {
        let both = self.family.multi_query && self.flag("new_decoder_architecture", false);
        let said = match both {
            true => self.number("num_ln_in_parallel_attn", 1, 2).or(Some(2)),
            false => None,
        };
        u64::from(said.unwrap_or(self.family.norms_per_layer))
    }

    /// Those of its feed-forward part.
    fn mlp_vectors(&self, group: &LayerGroup, d: u64, has: &Vectors) -> u64 {
        let mlp_bias = u64::from(has.mlp_bias);
        match group.mlp {
            Mlp::Dense { intermediate, gated } => {
                let up = if gated { 2 } else { 1 };
                mlp_bias * (up * u64::from(intermediate) + d)
            }
            Mlp::Experts {
                experts,
                intermediate,
                shared_intermediate,
                gated,
                latent,
                ..
            } => {
                let (experts, f) = (u64::from(experts), u64::from(intermediate));
                if !gated {
                    // The correction bias of the router; routed experts have none of their own.
                    let shared = match shared_intermediate {
                        0 => 0,
                        width => u64::from(width) + d,
                    };
                    let latents = latent.map_or(0, |width| u64::from(width) + d);
                    return experts + mlp_bias * (shared + latents);
                }
                match self.family.experts {
                    // Biases of router and experts; a sink for every query head.
                    ExpertKeys::GptOss => {
                        let Attention::Grouped { query_heads, .. } = group.attention else {
                            return 0;
                        };
                        experts + experts * (2 * f + d) + u64::from(query_heads)
                    }
                    // The gate of the shared expert.
                    ExpertKeys::Qwen if shared_intermediate > 0 => d,
                    // The correction bias of auxiliary-loss-free balancing.
                    ExpertKeys::DeepSeek if has.corrected => experts,
                    ExpertKeys::Ernie | ExpertKeys::Corrected | ExpertKeys::Laguna | ExpertKeys::Step => {
                        experts
                    }
                    // Three norms more, and scales of the router's input and of what experts put out.
                    ExpertKeys::Gemma4 => 4 * d + experts,
                    _ => 0,
                }
            }
            Mlp::Absent => 0,
        }
    }
}
