//! Which kernels a step of a model launches on one tensor-parallel rank, and their sizes.
//!
//! Sizes follow vLLM's fusions: one product for Q, K and V, one for gate and up. Left out: norms inside latent
//! projections, biases, and expert parallelism. Law: weight elements add up to the model's matrices divided by the
//! group size, where it divides them.

mod attention;

use attention::qkv_width;
pub(crate) use attention::{
    flops_per_pair, indexer, local_kv_heads, local_query_heads, query_bytes_per_token, reduced_width,
    score_flops, window,
};

use super::calibration::KernelFormat;
use super::experts::{Load, MoeShape};
use super::kernel::GemmShape;
use crate::hardware::Peaks;
use crate::model::{Attention, Dtype, LayerGroup, Mlp, ModelShape, OutputGate, Quantization, Rule};

/// Every operator of a breakdown whose time a calibration may scale.
pub(crate) const OPERATORS: [&str; 38] = [
    "layer_inputs_proj",
    "layer_input_gate_proj",
    "layer_input_out_proj",
    "qkv_proj",
    "attention_gate_proj",
    "o_proj",
    "q_proj",
    "qkv_a_proj",
    "q_b_proj",
    "kv_a_proj",
    "kv_b_proj",
    "index_q_proj",
    "index_k_proj",
    "state_in_proj",
    "state_gates_proj",
    "state_gates_up_proj",
    "state_out_proj",
    "gate_up_proj",
    "up_proj",
    "down_proj",
    "router",
    "latent_in_proj",
    "latent_out_proj",
    "shared_gate_up_proj",
    "shared_up_proj",
    "shared_down_proj",
    "experts",
    "elementwise",
    "all_reduce",
    "decode_attention",
    "prefill_attention",
    "indexer",
    "recurrent_decode",
    "recurrent_prefill",
    "lm_head",
    "logits_gather",
    "sampling",
    "drafter",
];

/// A linear layer that `layers` layers have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Linear {
    pub(crate) operator: &'static str,
    pub(crate) layers: u32,
    pub(crate) n: u64,
    pub(crate) k: u64,
    pub(crate) format: Format,
}

impl Linear {
    pub(crate) fn shape(&self, m: u64) -> GemmShape {
        GemmShape {
            m,
            n: self.n,
            k: self.k,
            weight_bytes: self.format.weight_bytes,
            input_bytes: self.format.input_bytes,
            output_bytes: self.format.output_bytes,
        }
    }
}

/// Routed experts that `layers` layers have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Experts {
    pub(crate) layers: u32,
    /// Width of what they read and write.
    pub(crate) hidden: u32,
    /// Matrices of each: three with a gate, two without.
    pub(crate) matrices: u32,
    pub(crate) intermediate: u32,
    pub(crate) experts: u32,
    pub(crate) experts_per_token: u32,
    pub(crate) format: Format,
}

impl Experts {
    /// Whether each has a gate, as those of all kernel tables.
    pub(crate) fn are_gated(&self) -> bool {
        self.matrices == 3
    }

    /// All experts on one GPU, or a slice of each of them.
    pub(crate) fn shape(&self, tokens: u64) -> MoeShape {
        self.loaded(
            tokens,
            Load::uniform(self.experts, self.experts_per_token, tokens),
        )
    }

    /// The fullest of `ranks` GPUs among which they are dealt out whole.
    pub(crate) fn fullest(&self, tokens: u64, ranks: u32) -> MoeShape {
        let load = Load::fullest(self.experts, self.experts_per_token, tokens, ranks);
        self.loaded(tokens, load)
    }

    fn loaded(&self, tokens: u64, load: Load) -> MoeShape {
        MoeShape {
            tokens,
            load,
            hidden: self.hidden,
            matrices: self.matrices,
            intermediate: self.intermediate,
            experts: self.experts,
            experts_per_token: self.experts_per_token,
            weight_bytes: self.format.weight_bytes,
            activation_bytes: 2.0,
        }
    }
}

/// Widths of a product's elements and the kernel family that computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Format {
    pub(crate) kernel: KernelFormat,
    pub(crate) weight_bytes: f64,
    pub(crate) input_bytes: f64,
    pub(crate) output_bytes: f64,
}

impl Format {
    /// Unquantized, and what quantized weights become where the device has no units for them (QZ-7).
    fn plain(dtype: Dtype) -> Format {
        let bytes = dtype.bytes() as f64;
        Format {
            kernel: KernelFormat::Bf16,
            weight_bytes: bytes,
            input_bytes: bytes,
            output_bytes: bytes,
        }
    }
}

/// The matrix of a shape that a linear layer's operator multiplies with; of two in one product the first.
fn matrix_of(operator: &'static str) -> &'static str {
    match operator {
        "qkv_proj" => "qkv",
        "o_proj" => "attention_out",
        "qkv_a_proj" => "q_a",
        "experts" => "expert_gate_up",
        other => other.trim_end_matches("_proj"),
    }
}

/// The format of quantized linear layers on a device with these peaks (QZ-1, QZ-3, QZ-4, QZ-7).
fn quantized(shape: &ModelShape, peaks: &Peaks) -> Format {
    let plain = Format::plain(shape.dtype);
    let kernel = KernelFormat::of(shape.quantization, peaks);
    let weight_only = |weight_bytes: f64| Format {
        kernel,
        weight_bytes,
        ..plain
    };
    let narrow = |bytes: f64| Format {
        kernel,
        weight_bytes: bytes,
        input_bytes: bytes,
        ..plain
    };
    match (shape.quantization, kernel) {
        (Quantization::None | Quantization::Mxfp4, _) => plain,
        (Quantization::Nvfp4, KernelFormat::Nvfp4) => narrow(NVFP4_BYTES),
        (Quantization::Nvfp4, _) => weight_only(NVFP4_BYTES),
        // Of 8-bit weights no kernel was measured: the 16-bit law with half the bytes.
        (Quantization::Int4 { .. } | Quantization::WeightOnly8 { .. }, _) => {
            weight_only(shape.quantization.bytes_per_weight())
        }
        (Quantization::Fp8 | Quantization::Fp8Block | Quantization::Int8, KernelFormat::Bf16) => {
            weight_only(1.0)
        }
        (Quantization::Fp8 | Quantization::Fp8Block | Quantization::Int8, _) => narrow(1.0),
    }
}

/// Half a byte and a one-byte scale for 16 elements.
const NVFP4_BYTES: f64 = 0.5625;
/// Half a byte and a one-byte scale for 32 elements.
const MXFP4_BYTES: f64 = 0.531_25;

/// Bytes of one weight and one input activation as kernel tables of a format have them.
pub(crate) fn table_widths(format: KernelFormat) -> (f64, f64) {
    match format {
        KernelFormat::Bf16 => (2.0, 2.0),
        KernelFormat::Fp8 | KernelFormat::Fp8Block | KernelFormat::Int8 => (1.0, 1.0),
        KernelFormat::Nvfp4 => (NVFP4_BYTES, NVFP4_BYTES),
        KernelFormat::Mxfp4 => (MXFP4_BYTES, 2.0),
        KernelFormat::Int4 => (0.5 + 2.5 / 128.0, 2.0),
    }
}

/// The linear layers of the whole stack, LM head left out.
pub(crate) fn linears(shape: &ModelShape, peaks: &Peaks, tensor_parallel: u32) -> Vec<Linear> {
    let format = quantized(shape, peaks);
    let plain = Format::plain(shape.dtype);
    let mut all = layer_inputs(shape, format, tensor_parallel);
    for group in &shape.layers {
        let mut push = |operator: &'static str, n: u64, k: u64, format: Format| {
            let is_kept = group.kept.contains(&matrix_of(operator));
            let format = if is_kept { plain } else { format };
            all.push(Linear {
                operator,
                layers: group.count,
                n,
                k,
                format,
            });
        };
        attention_linears(shape, &group.attention, tensor_parallel, |operator, n, k| {
            // The indexer's keys are made in 16 bits, whatever the checkpoint says.
            let format = if operator == "index_k_proj" { plain } else { format };
            push(operator, n, k, format)
        });
        let d = u64::from(shape.hidden_size);
        let tp = u64::from(tensor_parallel);
        match group.mlp {
            Mlp::Dense { intermediate, gated } => {
                let f = u64::from(intermediate).div_ceil(tp);
                let (operator, width) = if gated {
                    ("gate_up_proj", 2 * f)
                } else {
                    ("up_proj", f)
                };
                push(operator, width, d, format);
                push("down_proj", d, f, format);
            }
            Mlp::Experts {
                experts,
                shared_intermediate,
                gated,
                latent,
                ..
            } => {
                push("router", u64::from(experts), d, plain);
                if let Some(width) = latent.map(u64::from) {
                    push("latent_in_proj", width, d, format);
                    push("latent_out_proj", d, width, format);
                }
                if shared_intermediate > 0 {
                    let f = u64::from(shared_intermediate).div_ceil(tp);
                    let (operator, width) = if gated {
                        ("shared_gate_up_proj", 2 * f)
                    } else {
                        ("shared_up_proj", f)
                    };
                    push(operator, width, d, format);
                    push("shared_down_proj", d, f, format);
                }
            }
            Mlp::Absent => {}
        }
    }
    all
}

/// What makes the inputs of the layers beside the residual stream, and adds them.
fn layer_inputs(shape: &ModelShape, format: Format, tensor_parallel: u32) -> Vec<Linear> {
    let Some(width) = shape.per_layer_input.map(u64::from) else {
        return Vec::new();
    };
    let (d, layers) = (u64::from(shape.hidden_size), shape.layer_count());
    let made = (u64::from(layers) * width).div_ceil(u64::from(tensor_parallel));
    let linear = |operator, layers, n, k| Linear {
        operator,
        layers,
        n,
        k,
        format,
    };
    vec![
        linear("layer_inputs_proj", 1, made, d),
        linear("layer_input_gate_proj", layers, width, d),
        linear("layer_input_out_proj", layers, d, width),
    ]
}

fn attention_linears(
    shape: &ModelShape,
    attention: &Attention,
    tensor_parallel: u32,
    mut push: impl FnMut(&'static str, u64, u64),
) {
    let d = u64::from(shape.hidden_size);
    let heads = u64::from(local_query_heads(attention, tensor_parallel));
    match *attention {
        Attention::Grouped {
            head_dim,
            shares_kv: true,
            ..
        } => {
            let width = heads * u64::from(head_dim);
            push("q_proj", width, d);
            push("o_proj", d, width);
        }
        Attention::Grouped {
            head_dim,
            value_dim,
            gate,
            ..
        } => {
            let kv_heads = u64::from(local_kv_heads(attention, tensor_parallel));
            let (head_dim, value_dim) = (u64::from(head_dim), u64::from(value_dim));
            let gates = if gate == OutputGate::OfQueries { heads } else { 0 };
            push(
                "qkv_proj",
                (heads + gates) * head_dim + kv_heads * (head_dim + value_dim),
                d,
            );
            match gate {
                OutputGate::None | OutputGate::OfQueries => {}
                OutputGate::Own => push("attention_gate_proj", heads * value_dim, d),
                OutputGate::OfHeads => push("attention_gate_proj", heads, d),
            }
            push("o_proj", d, heads * value_dim);
        }
        Attention::Recurrent(ref recurrence) => {
            let inner = recurrence.inner_width() / u64::from(tensor_parallel);
            let convolved = recurrence.conv_channels_of_rank(tensor_parallel);
            let local_heads = u64::from(recurrence.heads() / tensor_parallel);
            match recurrence.rule {
                Rule::GatedDelta { .. } => {
                    push("state_in_proj", convolved + inner, d);
                    push("state_gates_proj", 2 * local_heads, d);
                }
                Rule::KimiDelta { is_thin: false, .. } => {
                    push("state_in_proj", convolved + local_heads, d);
                    push("state_gates_proj", 2 * inner, d);
                }
                Rule::KimiDelta { dim, .. } => {
                    let dim = u64::from(dim);
                    push("state_in_proj", convolved + local_heads, d);
                    push("state_gates_proj", 2 * dim, d);
                    push("state_gates_up_proj", 2 * inner, dim);
                }
                Rule::ShortConv { .. } => push("state_in_proj", 3 * inner, d),
                Rule::StateSpace { .. } => push("state_in_proj", convolved + inner + local_heads, d),
            }
            push("state_out_proj", d, inner);
        }
        Attention::Absent => {}
        Attention::Latent {
            query_rank,
            kv_rank,
            rope_dim,
            nope_dim,
            value_dim,
            gate,
            indexer,
            ..
        } => {
            let (kv_rank, rope, nope) = (u64::from(kv_rank), u64::from(rope_dim), u64::from(nope_dim));
            let value = u64::from(value_dim);
            let compressed = kv_rank + rope;
            match query_rank {
                Some(rank) => {
                    push("qkv_a_proj", u64::from(rank) + compressed, d);
                    push("q_b_proj", heads * (nope + rope), u64::from(rank));
                }
                None => {
                    push("q_proj", heads * (nope + rope), d);
                    push("kv_a_proj", compressed, d);
                }
            }
            // Decoding multiplies the same matrix in two halves, absorbed into the query and the output.
            push("kv_b_proj", heads * (nope + value), kv_rank);
            match gate {
                OutputGate::None | OutputGate::OfQueries => {}
                OutputGate::Own => push("attention_gate_proj", heads * value, d),
                OutputGate::OfHeads => push("attention_gate_proj", heads, d),
            }
            push("o_proj", d, heads * value);
            if let Some(indexer) = indexer.filter(|indexer| indexer.scores) {
                let (heads, width) = (u64::from(indexer.heads), u64::from(indexer.head_dim));
                push("index_q_proj", heads * width, query_rank.map_or(d, u64::from));
                push("index_k_proj", width + heads, d);
            }
        }
    }
}

/// The routed experts of the whole stack; each rank holds a slice of every expert (EP-5).
pub(crate) fn experts(shape: &ModelShape, peaks: &Peaks, tensor_parallel: u32) -> Vec<Experts> {
    let format = match shape.quantization {
        Quantization::Mxfp4 => Format {
            kernel: KernelFormat::Mxfp4,
            weight_bytes: MXFP4_BYTES,
            ..Format::plain(shape.dtype)
        },
        // DeepGEMM's and Triton's grouped kernels; dense products of either fp8 are timed by one family.
        Quantization::Fp8Block if peaks.fp8.is_some() => Format {
            kernel: KernelFormat::Fp8Block,
            ..quantized(shape, peaks)
        },
        _ => quantized(shape, peaks),
    };
    let of_group = |group: &LayerGroup| match group.mlp {
        Mlp::Experts {
            experts,
            experts_per_token,
            intermediate,
            gated,
            latent,
            ..
        } => Some(Experts {
            layers: group.count,
            hidden: latent.unwrap_or(shape.hidden_size),
            matrices: if gated { 3 } else { 2 },
            intermediate: intermediate.div_ceil(tensor_parallel),
            experts,
            experts_per_token,
            format: match group.kept.contains(&matrix_of("experts")) {
                true => Format::plain(shape.dtype),
                false => format,
            },
        }),
        Mlp::Dense { .. } | Mlp::Absent => None,
    };
    shape.layers.iter().filter_map(of_group).collect()
}

/// The LM head's slice: rows are sampled rows, and the format is never quantized (QZ-2).
pub(crate) fn lm_head(shape: &ModelShape, tensor_parallel: u32) -> Linear {
    Linear {
        operator: "lm_head",
        layers: 1,
        n: u64::from(shape.vocab_size.div_ceil(tensor_parallel)),
        k: u64::from(shape.hidden_size),
        format: Format::plain(shape.dtype),
    }
}

/// Bytes that the small kernels of all layers move for each token: two norms with the residual stream, rotary
/// embedding and KV write, activation.
pub(crate) fn elementwise_bytes_per_token(shape: &ModelShape, tensor_parallel: u32) -> f64 {
    let width = shape.dtype.bytes() as f64;
    let of_group = |group: &LayerGroup| {
        // The small kernels of a recurrence are its own.
        let halves = f64::from(group.sublayers());
        let norms = 4.0 * halves * f64::from(shape.hidden_size);
        let rotary = 2.0 * qkv_width(&group.attention, tensor_parallel);
        let activation = match group.mlp {
            Mlp::Dense { intermediate, .. } => 3.0 * f64::from(intermediate) / f64::from(tensor_parallel),
            // The fused experts' own time contains their activation.
            Mlp::Experts {
                shared_intermediate, ..
            } => 3.0 * f64::from(shared_intermediate) / f64::from(tensor_parallel),
            Mlp::Absent => 0.0,
        };
        f64::from(group.count) * (norms + rotary + activation)
    };
    width * shape.layers.iter().map(of_group).sum::<f64>()
}

#[cfg(test)]
mod tests;
