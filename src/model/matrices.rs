//! The weight matrices of a shape, and every size that follows from them: parameters, bytes, FLOPs per token.
//!
//! One list serves all, so that a formula exists once. Law: the sum of all matrices and
//! [`ModelShape::other_parameters`] is the checkpoint's parameter count.

mod attention;

use self::attention::attention_matrices;
use super::{Attention, KvFormat, LayerGroup, Mlp, ModelShape, Quantization, kv_bytes_per_token_layer};
use crate::units::{Bytes, Flops};

/// Equal weight matrices of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// `qkv`, `gate_up`, `lm_head` …; a fused projection is one matrix.
    pub name: &'static str,
    /// How many exist: layers, or layers × experts. A tied LM head does not exist by itself: 0.
    pub copies: u64,
    /// How many of them one token goes through: layers, or layers × experts per token. The embedding is looked up: 0.
    pub used: u64,
    /// Input width.
    pub inputs: u64,
    /// Output width.
    pub outputs: u64,
    /// How tensor parallelism divides it.
    pub sharding: Sharding,
    /// What quantization does to it.
    pub precision: Precision,
    /// Left in [`ModelShape::dtype`] by the checkpoint, although quantization would apply.
    pub kept: bool,
}

/// How tensor parallelism divides a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// Evenly over the ranks.
    Split,
    /// Query heads split; KV heads too, but a rank keeps at least one.
    Heads {
        /// `h_q`.
        query: u32,
        /// `h_kv`.
        kv: u32,
        /// Columns of a query head.
        of_query: u32,
        /// Columns of a KV head: those of its key and of its value.
        of_kv: u32,
    },
    /// Columns for so many groups of heads, of which a rank keeps at least one; the rest evenly.
    Groups {
        /// How many.
        groups: u32,
        /// Columns for one.
        of_one: u64,
    },
    /// Every rank has all of it.
    Replicated,
}

/// Which quantization schemes apply to a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// A linear layer: all schemes but expert-only ones.
    Linear,
    /// A routed or shared expert: all schemes.
    Expert,
    /// Stays in [`ModelShape::dtype`]: embedding, LM head, router.
    Plain,
}

/// How many of `all` are expected to be used by so many tokens that use `each` of them, uniformly: `E·(1 − (1 − k/E)^T)` (EP-1).
#[must_use]
pub fn distinct(all: f64, each: f64, tokens: f64) -> f64 {
    all * (1.0 - (1.0 - each / all).powf(tokens))
}

impl Matrix {
    /// Elements of one copy.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.inputs * self.outputs
    }

    /// How many of them so many tokens go through: of experts those that somebody chose, of all else what one does.
    fn read_by(&self, tokens: u32) -> f64 {
        let (copies, used) = (self.copies as f64, self.used as f64);
        match self.precision {
            Precision::Expert if tokens > 1 => distinct(copies, used, f64::from(tokens)),
            _ => used,
        }
    }

    /// Elements of one copy that one of `tensor_parallel` ranks holds.
    fn elements_per_rank(&self, tensor_parallel: u32) -> u64 {
        match self.sharding {
            Sharding::Split => self.elements().div_ceil(u64::from(tensor_parallel)),
            Sharding::Replicated => self.elements(),
            Sharding::Groups { groups, of_one } => {
                let rest = self.outputs - u64::from(groups) * of_one;
                let own = u64::from(groups / tensor_parallel).max(1);
                self.inputs * (rest.div_ceil(u64::from(tensor_parallel)) + own * of_one)
            }
            Sharding::Heads {
                query,
                kv,
                of_query,
                of_kv,
            } => {
                let query_share = u64::from(query.div_ceil(tensor_parallel)) * u64::from(of_query);
                let kv_share = u64::from((kv / tensor_parallel).max(1)) * u64::from(of_kv);
                self.inputs * (query_share + kv_share)
            }
        }
    }
}

impl ModelShape {
    /// All weight matrices, in the order of execution.
    #[must_use]
    pub fn matrices(&self) -> Vec<Matrix> {
        let d = u64::from(self.hidden_size);
        let vocabulary = |name, inputs, outputs, copies, used| Matrix {
            name,
            copies,
            used,
            inputs,
            outputs,
            sharding: Sharding::Split,
            precision: Precision::Plain,
            kept: false,
        };
        let mut all = vec![vocabulary("embedding", u64::from(self.vocab_size), d, 1, 0)];
        if let Some(width) = self.per_layer_input.map(u64::from) {
            let layers = u64::from(self.layer_count());
            all.push(vocabulary(
                "layer_embeddings",
                u64::from(self.vocab_size),
                layers * width,
                1,
                0,
            ));
            let matrix = |name, copies, inputs, outputs, sharding| Matrix {
                sharding,
                precision: Precision::Linear,
                ..vocabulary(name, inputs, outputs, copies, copies)
            };
            all.push(matrix("layer_inputs", 1, d, layers * width, Sharding::Split));
            all.push(matrix("layer_input_gate", layers, d, width, Sharding::Replicated));
            all.push(matrix("layer_input_out", layers, width, d, Sharding::Replicated));
        }
        for group in &self.layers {
            let of_group = attention_matrices(d, group)
                .into_iter()
                .chain(mlp_matrices(d, group));
            all.extend(of_group.map(|matrix| Matrix {
                kept: group.kept.contains(&matrix.name),
                ..matrix
            }));
        }
        let heads = u64::from(!self.tied_embeddings);
        all.push(vocabulary("lm_head", d, u64::from(self.vocab_size), heads, 1));
        all
    }

    /// Parameters of the checkpoint, tied embeddings counted once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let matrices = self.matrices();
        self.other_parameters
            + matrices
                .iter()
                .map(|matrix| matrix.copies * matrix.elements())
                .sum::<u64>()
    }

    /// Parameters without the experts that a token does not use. Embedding and LM head are counted, as Mixtral, Qwen
    /// and DeepSeek do in their model cards (gpt-oss leaves out the embedding).
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        let matrices = self.matrices();
        let active = |matrix: &Matrix| match matrix.precision {
            Precision::Expert => matrix.used * matrix.elements(),
            Precision::Linear | Precision::Plain => matrix.copies * matrix.elements(),
        };
        self.other_parameters + matrices.iter().map(active).sum::<u64>()
    }

    /// Bytes of weights on one of `tensor_parallel` ranks, as stored: scales of quantized weights included.
    #[must_use]
    pub fn weight_bytes(&self, tensor_parallel: u32) -> Bytes {
        self.layer_weight_bytes(tensor_parallel) + self.edge_weight_bytes(tensor_parallel)
    }

    /// The part of [`ModelShape::weight_bytes`] that lies in layers; pipeline stages share it.
    #[must_use]
    pub fn layer_weight_bytes(&self, tensor_parallel: u32) -> Bytes {
        let in_layers = |matrix: &&Matrix| !is_edge(matrix);
        let matrices = self.matrices();
        let bytes = matrices.iter().filter(in_layers).map(|matrix| {
            let elements = matrix.copies * matrix.elements_per_rank(tensor_parallel);
            self.stored_bytes(matrix, elements)
        });
        // Norms and biases are replicated, and almost all of them lie in layers.
        bytes.sum::<Bytes>() + Bytes(self.other_parameters * self.dtype.bytes())
    }

    /// The part of [`ModelShape::weight_bytes`] in embedding and LM head.
    #[must_use]
    pub fn edge_weight_bytes(&self, tensor_parallel: u32) -> Bytes {
        self.edge_weight_bytes_of(tensor_parallel, tensor_parallel)
    }

    /// The same where so many ranks share the embedding out, and so many the LM head.
    #[must_use]
    pub fn edge_weight_bytes_of(&self, embedding: u32, head: u32) -> Bytes {
        let matrices = self.matrices();
        let edges = matrices.iter().filter(|matrix| is_edge(matrix));
        edges
            .map(|matrix| {
                let ranks = if matrix.name == "lm_head" { head } else { embedding };
                Bytes(matrix.copies * matrix.elements_per_rank(ranks) * self.dtype.bytes())
            })
            .sum()
    }

    /// Bytes of weights that one rank reads for a decode step of a single token: no embedding, chosen experts only.
    #[must_use]
    pub fn streamed_bytes(&self, tensor_parallel: u32) -> Bytes {
        self.streamed_bytes_of(tensor_parallel, 1)
    }

    /// The same of a step of several tokens: as many experts as uniform routing is expected to choose for them (EP-1).
    #[must_use]
    pub fn streamed_bytes_of(&self, tensor_parallel: u32, tokens: u32) -> Bytes {
        let matrices = self.matrices();
        let bytes = matrices.iter().map(|matrix| {
            let read = matrix.read_by(tokens);
            let elements = read * matrix.elements_per_rank(tensor_parallel) as f64;
            self.stored_bytes(matrix, elements.round() as u64)
        });
        bytes.sum()
    }

    /// Floating-point operations of all matrices in layers for one token, attention left out: `2·inputs·outputs` each.
    #[must_use]
    pub fn linear_flops_per_token(&self) -> Flops {
        let matrices = self.matrices();
        let in_layers = matrices.iter().filter(|matrix| !is_edge(matrix));
        in_layers
            .map(|matrix| Flops(2.0 * (matrix.used * matrix.elements()) as f64))
            .sum()
    }

    /// The part of [`ModelShape::linear_flops_per_token`] in matrices that a quantized checkpoint leaves in 16 bits.
    #[must_use]
    pub fn kept_flops_per_token(&self) -> Flops {
        let matrices = self.matrices();
        let kept = matrices.iter().filter(|matrix| matrix.kept);
        kept.map(|matrix| Flops(2.0 * (matrix.used * matrix.elements()) as f64))
            .sum()
    }

    /// Floating-point operations of the LM head for one sampled row, `2·d·V`.
    #[must_use]
    pub fn lm_head_flops_per_row(&self) -> Flops {
        Flops(2.0 * f64::from(self.hidden_size) * f64::from(self.vocab_size))
    }

    /// KV cache bytes that one token adds on one rank, in all layers; windows do not shorten it.
    #[must_use]
    pub fn kv_bytes_per_token(&self, format: impl Into<KvFormat>, tensor_parallel: u32) -> Bytes {
        let format = format.into();
        let layers = self.layers.iter();
        layers
            .map(|group| {
                kv_bytes_per_token_layer(&group.attention, format, tensor_parallel) * u64::from(group.count)
            })
            .sum()
    }

    /// Width of the widest feed-forward part that one token goes through, `f`; experts of a token together.
    #[must_use]
    pub fn widest_intermediate(&self) -> u64 {
        let width = |group: &LayerGroup| match group.mlp {
            Mlp::Dense { intermediate, .. } => u64::from(intermediate),
            Mlp::Experts {
                experts_per_token,
                intermediate,
                shared_intermediate,
                ..
            } => u64::from(experts_per_token) * u64::from(intermediate) + u64::from(shared_intermediate),
            Mlp::Absent => 0,
        };
        let widest = self.layers.iter().map(width).max().unwrap_or(0);
        // A stack without any is as wide as its residual stream.
        if widest == 0 {
            u64::from(self.hidden_size)
        } else {
            widest
        }
    }

    /// Query heads of a layer, which tensor parallelism must divide; the smallest over the layers.
    #[must_use]
    pub fn query_heads(&self) -> u32 {
        let heads = self.layers.iter().filter_map(LayerGroup::query_heads);
        heads.min().unwrap_or(1)
    }

    /// Heads that so many ranks can neither divide nor, of those with keys and values, repeat equally often, and their kind
    /// (vLLM `QKVParallelLinear`).
    #[must_use]
    pub fn indivisible_heads(&self, tensor_parallel: u32) -> Option<(&'static str, u32)> {
        let queries = self.layers.iter().filter_map(LayerGroup::query_heads);
        if let Some(query) = queries
            .filter(|heads| !heads.is_multiple_of(tensor_parallel))
            .min()
        {
            return Some(("query", query));
        }
        let uneven = |group: &LayerGroup| match &group.attention {
            Attention::Grouped { kv_heads, .. } => {
                let (more, fewer) = ((*kv_heads).max(tensor_parallel), (*kv_heads).min(tensor_parallel));
                (!more.is_multiple_of(fewer)).then_some(("KV", *kv_heads))
            }
            Attention::Recurrent(recurrence) => recurrence.indivisible(tensor_parallel),
            Attention::Latent { .. } | Attention::Absent => None,
        };
        self.layers.iter().find_map(uneven)
    }

    /// Bytes that `elements` weights of a matrix take as stored.
    fn stored_bytes(&self, matrix: &Matrix, elements: u64) -> Bytes {
        let plain = self.dtype.bytes() as f64;
        let per_element = match (self.quantization, matrix.precision) {
            _ if matrix.kept => plain,
            (Quantization::None, _) | (_, Precision::Plain) => plain,
            (Quantization::Mxfp4, Precision::Linear) => plain,
            (quantization, _) => quantization.bytes_per_weight(),
        };
        Bytes((elements as f64 * per_element).round() as u64)
    }
}

impl Quantization {
    /// Bytes of one quantized weight with its share of scales and zeros (QZ-1). Unquantized weights have those of
    /// their dtype; two bytes are said here.
    #[must_use]
    pub fn bytes_per_weight(self) -> f64 {
        match self {
            Quantization::None => 2.0,
            // Scales per channel, or per 128×128 block (0.02 %), are left out.
            Quantization::Fp8 | Quantization::Fp8Block | Quantization::Int8 => 1.0,
            // A 16-bit scale and an 8-bit zero per group.
            Quantization::WeightOnly8 { group_size } => {
                1.0 + group_size.map_or(0.0, |size| 3.0 / f64::from(size))
            }
            // A 16-bit scale and half a byte of a zero point per group.
            Quantization::Int4 {
                group_size,
                has_zeros,
            } => 0.5 + if has_zeros { 2.5 } else { 2.0 } / f64::from(group_size),
            // A scale byte per 32.
            Quantization::Mxfp4 => 0.5 + 1.0 / 32.0,
            // A scale byte per 16.
            Quantization::Nvfp4 => 0.5 + 1.0 / 16.0,
        }
    }
}

fn is_edge(matrix: &Matrix) -> bool {
    matches!(matrix.name, "embedding" | "layer_embeddings" | "lm_head")
}

fn mlp_matrices(d: u64, group: &LayerGroup) -> Vec<Matrix> {
    let layers = u64::from(group.count);
    let matrix = |name, copies, used, inputs, outputs, precision| Matrix {
        name,
        copies,
        used,
        inputs,
        outputs,
        sharding: Sharding::Split,
        precision,
        kept: false,
    };
    match group.mlp {
        Mlp::Dense { intermediate, gated } => {
            let f = u64::from(intermediate);
            let (name, up) = if gated { ("gate_up", 2 * f) } else { ("up", f) };
            vec![
                matrix(name, layers, layers, d, up, Precision::Linear),
                matrix("down", layers, layers, f, d, Precision::Linear),
            ]
        }
        Mlp::Experts {
            experts,
            experts_per_token,
            intermediate,
            shared_intermediate,
            gated,
            latent,
        } => {
            let (all, used) = (layers * u64::from(experts), layers * u64::from(experts_per_token));
            let (f, shared) = (u64::from(intermediate), u64::from(shared_intermediate));
            let width = latent.map_or(d, u64::from);
            let replicated = |name, inputs, outputs, precision| Matrix {
                sharding: Sharding::Replicated,
                ..matrix(name, layers, layers, inputs, outputs, precision)
            };
            let (expert_up, shared_up, ups) = match gated {
                true => ("expert_gate_up", "shared_gate_up", 2),
                false => ("expert_up", "shared_up", 1),
            };
            let mut matrices = vec![replicated("router", d, u64::from(experts), Precision::Plain)];
            if latent.is_some() {
                matrices.extend([
                    replicated("latent_in", d, width, Precision::Linear),
                    replicated("latent_out", width, d, Precision::Linear),
                ]);
            }
            matrices.extend([
                matrix(expert_up, all, used, width, ups * f, Precision::Expert),
                matrix("expert_down", all, used, f, width, Precision::Expert),
            ]);
            if shared > 0 {
                matrices.extend([
                    matrix(shared_up, layers, layers, d, ups * shared, Precision::Expert),
                    matrix("shared_down", layers, layers, shared, d, Precision::Expert),
                ]);
            }
            matrices
        }
        Mlp::Absent => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
