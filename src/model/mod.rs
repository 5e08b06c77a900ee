//! Shapes of language models: what a `config.json` says about parameters, KV bytes and matrix sizes.
//!
//! Common models are shipped ([`find`], quantized copies by name: [`find_checkpoint`]); any config of a known architecture is read
//! ([`ModelShape::from_hf_config`]). Left out, and said in a note where it happens: vision towers, multi-token prediction layers,
//! padding of odd shapes by kernels. Law: the parameters of a shape are those of the published checkpoint (within 0.5 %).

mod checkpoints;
mod drafter;
mod families;
mod hf_config;
mod indexer;
mod kv_format;
mod matrices;
mod methods;
mod names;
mod options;
mod recurrence;
mod registry;
mod stages;
mod vision;

pub use checkpoints::find_checkpoint;
pub use drafter::Drafter;
pub use hf_config::{MODELOPT_FILE, ModelError, UNCOUNTED_PREDICTION, is_scaled_already, yarn_note};
pub use indexer::Indexer;
pub use kv_format::KvFormat;
pub use matrices::{Matrix, Precision, Sharding, distinct};
pub use methods::Loading;
pub use names::{is_other, is_same_name};
pub use options::{UnknownChoice, is_other_type, parse_dtype, parse_kv_cache_dtype, parse_quantization};
pub use recurrence::{Recurrence, Rule};
pub use registry::{UnknownModel, find, names};
pub use stages::{ModelStage, stage_layers};
pub use vision::{Tower, Vision};

use crate::units::Bytes;

/// The numeric shape of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelShape {
    /// Hugging Face id, `meta-llama/Llama-3.1-8B-Instruct`.
    pub name: String,
    /// The `architectures` entry, `LlamaForCausalLM`.
    pub architecture: String,
    /// Width of the residual stream, `d`.
    pub hidden_size: u32,
    /// Rows of the LM head, `V`.
    pub vocab_size: u32,
    /// The embedding table is the LM head.
    pub tied_embeddings: bool,
    /// Longest context that the config allows (`max_position_embeddings`), the default of `max_model_len`.
    pub max_position: u32,
    /// The positions that the config's own scaling multiplies to that, where it does.
    pub trained_position: Option<u32>,
    /// The same to engines that multiply the original positions of YaRN by its factor, where that is another number.
    pub yarn_position: Option<u32>,
    /// Format of weights that are not quantized, and of activations.
    pub dtype: Dtype,
    /// How the linear layers' weights are stored, but for those in [`LayerGroup::kept`].
    pub quantization: Quantization,
    /// The method by which the checkpoint says that, in vLLM's word (`quant_method`); `None` where its config was not read.
    pub quant_method: Option<String>,
    /// The checkpoint brings one scale for each input of a product in fp8; else scales are found while running, of tokens or of blocks.
    pub static_scales: bool,
    /// What the checkpoint asks of the KV cache, which engines take under `--kv-cache-dtype auto`.
    pub kv_scheme: Option<KvScheme>,
    /// Layers, grouped by equal shape; order within the stack is not kept.
    pub layers: Vec<LayerGroup>,
    /// Width of an input of its own that every layer gets for each token, beside the residual stream (Gemma 4's small ones).
    pub per_layer_input: Option<u32>,
    /// The vision tower beside it, whose parameters are not counted.
    pub vision: Option<Vision>,
    /// Parameters outside of matrices: norms, biases, position tables. (Vision towers are left out and said so.)
    pub other_parameters: u64,
}

/// `count` layers of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerGroup {
    /// How many.
    pub count: u32,
    /// Their attention.
    pub attention: Attention,
    /// Their feed-forward part.
    pub mlp: Mlp,
    /// Matrices ([`Matrix::name`]) that a quantized checkpoint leaves in [`ModelShape::dtype`], in these layers.
    pub kept: Vec<&'static str>,
}

/// Who says in a checkpoint that its KV cache is of 8-bit floats: engines and their versions heed one and not another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvScheme {
    /// `kv_cache_scheme` of compressed-tensors.
    CompressedTensors,
    /// `kv_cache_scheme` or `kv_cache_quant_algo` of ModelOpt.
    ModelOpt,
}

/// How a layer mixes tokens and what it keeps for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Attention {
    /// Multi-head, grouped-query or multi-query attention.
    Grouped {
        /// `h_q`.
        query_heads: u32,
        /// `h_kv`.
        kv_heads: u32,
        /// `d_h`.
        head_dim: u32,
        /// Sliding window in tokens; `None` attends to everything.
        window: Option<u32>,
        /// Width of a value head: that of a query and a key but in MiMo-V2.
        value_dim: u32,
        /// What the output is multiplied by.
        gate: OutputGate,
        /// Keys and values are those of a layer before: it makes and caches none (Gemma 4).
        shares_kv: bool,
    },
    /// Multi-head latent attention (DeepSeek).
    Latent {
        /// `h_q`.
        query_heads: u32,
        /// Rank of the query compression; `None` where queries are not compressed.
        query_rank: Option<u32>,
        /// Rank of the KV compression, cached per token.
        kv_rank: u32,
        /// Rotary part of the key, cached per token.
        rope_dim: u32,
        /// Non-rotary part of a query-key head.
        nope_dim: u32,
        /// Width of a value head.
        value_dim: u32,
        /// What the output is multiplied by.
        gate: OutputGate,
        /// What picks the tokens that a query attends to; `None` where it attends to all (DeepSeek-V3.2).
        indexer: Option<Indexer>,
    },
    /// A state of constant size in place of keys and values.
    Recurrent(Recurrence),
    /// None: the layer is a feed-forward part alone (Nemotron-H).
    Absent,
}

/// A gate at the output of attention, and what makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputGate {
    /// There is none.
    None,
    /// As wide as the output, made by the query projection, too (Qwen3-Next).
    OfQueries,
    /// As wide as the output, made by a projection of its own (Afmoe).
    Own,
    /// A number for each head, made by a projection of its own (Step 3.5).
    OfHeads,
}

/// A layer's feed-forward part.
#[derive(Clone, Debug, PartialEq)]
pub enum Mlp {
    /// Gate, up and down projections (gated) or up and down only.
    Dense {
        /// `f`.
        intermediate: u32,
        /// Three matrices rather than two.
        gated: bool,
    },
    /// Mixture of experts.
    Experts {
        /// Routed experts, `E`.
        experts: u32,
        /// Experts that one token uses, `k`.
        experts_per_token: u32,
        /// Width of one routed expert.
        intermediate: u32,
        /// Total width of the shared experts; 0 without.
        shared_intermediate: u32,
        /// Every expert has three matrices rather than two.
        gated: bool,
        /// Width to which the residual stream is projected for the routed experts, and back (Nemotron-3-Super).
        latent: Option<u32>,
    },
    /// None: the layer mixes tokens only (Nemotron-H).
    Absent,
}

/// Number formats of unquantized weights, activations and KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 16 bits, 8 of exponent.
    Bf16,
    /// 16 bits, 5 of exponent.
    Fp16,
    /// 32 bits.
    Fp32,
    /// 8 bits.
    Fp8,
    /// 8 bits with a 32-bit scale for every 128 elements, and the rotary part of a latent in 16 bits: vLLM's `fp8_ds_mla`, a format of
    /// KV caches only.
    Fp8Scaled,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Dtype::Bf16 | Dtype::Fp16 => 2,
            Dtype::Fp32 => 4,
            Dtype::Fp8 | Dtype::Fp8Scaled => 1,
        }
    }
}

/// How linear layers are stored and multiplied. Embedding, LM head and router stay in [`ModelShape::dtype`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// Not quantized.
    None,
    /// W8A8 floating point, activations quantized on the fly.
    Fp8,
    /// The same with a scale for each 128×128 block of weights (DeepSeek, Qwen3): other kernels.
    Fp8Block,
    /// W8A8 integer.
    Int8,
    /// W8A16: 8-bit weights, integer or float, that are multiplied in 16 bits (GPTQ, AWQ, `pack-quantized`).
    WeightOnly8 {
        /// Channels that share a scale; `None` where a whole row does.
        group_size: Option<u32>,
    },
    /// W4A16 (AWQ, GPTQ), scales per group of input channels.
    Int4 {
        /// Channels that share a scale.
        group_size: u32,
        /// Whether a group has a 4-bit zero point beside its scale: not where a scheme is symmetric.
        has_zeros: bool,
    },
    /// Experts only in 4-bit microscaling floats with a scale byte per 32 (gpt-oss).
    Mxfp4,
    /// 4-bit floating point with block scales (Blackwell).
    Nvfp4,
}

impl Quantization {
    /// AWQ as AutoAWQ writes it by itself: groups of 128 channels, each with a zero point.
    pub const AWQ: Quantization = Quantization::Int4 {
        group_size: 128,
        has_zeros: true,
    };
    /// GPTQ and `W4A16` as GPTQModel and llm-compressor write them by themselves: symmetric groups of 128 channels.
    pub const GPTQ: Quantization = Quantization::Int4 {
        group_size: 128,
        has_zeros: false,
    };
    /// bitsandbytes in 4 bits: blocks of 64 weights.
    pub const BITSANDBYTES: Quantization = Quantization::Int4 {
        group_size: 64,
        has_zeros: true,
    };
}

impl LayerGroup {
    /// Halves of one of its layers: a part that mixes tokens, and a feed-forward part.
    #[must_use]
    pub fn sublayers(&self) -> u32 {
        u32::from(self.attention != Attention::Absent) + u32::from(self.mlp != Mlp::Absent)
    }

    /// Query heads of one of its layers; `None` where it does not attend.
    #[must_use]
    pub fn query_heads(&self) -> Option<u32> {
        match self.attention {
            Attention::Grouped { query_heads, .. } | Attention::Latent { query_heads, .. } => {
                Some(query_heads)
            }
            Attention::Recurrent(_) | Attention::Absent => None,
        }
    }

    /// Whether its layers read keys and values.
    #[must_use]
    pub fn attends(&self) -> bool {
        !matches!(self.attention, Attention::Recurrent(_) | Attention::Absent)
    }
}

impl ModelShape {
    /// Whether a layer has a sliding window.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        let windowed =
            |group: &LayerGroup| matches!(group.attention, Attention::Grouped { window: Some(_), .. });
        self.layers.iter().any(windowed)
    }

    /// Whether keys and values are cached compressed, one vector for all heads (DeepSeek).
    #[must_use]
    pub fn has_latent_cache(&self) -> bool {
        let latent = |group: &LayerGroup| matches!(group.attention, Attention::Latent { .. });
        self.layers.iter().any(latent)
    }

    /// Whether layers that cache keys and values have unlike heads or widths (Gemma 4, MiMo-V2).
    #[must_use]
    pub fn has_unlike_heads(&self) -> bool {
        let mut cached = self.layers.iter().filter_map(|group| match group.attention {
            Attention::Grouped {
                kv_heads,
                head_dim,
                value_dim,
                shares_kv: false,
                ..
            } => Some((kv_heads, head_dim, value_dim)),
            _ => None,
        });
        let first = cached.next();
        cached.any(|shape| Some(shape) != first)
    }

    /// Whether layers without attention stand among those of a transformer (Nemotron's searched ones).
    #[must_use]
    pub fn skips_attention(&self) -> bool {
        self.recurrence().is_none() && self.layers.iter().any(|group| !group.attends())
    }

    /// What picks the tokens that queries attend to, if anything does; all layers have alike ones.
    #[must_use]
    pub fn indexer(&self) -> Option<Indexer> {
        self.layers.iter().find_map(|group| match group.attention {
            Attention::Latent { indexer, .. } => indexer,
            _ => None,
        })
    }

    /// Whether engines cache its keys and values in 8 bits on Blackwell where nobody says otherwise (vLLM `GlmMoeDsaForCausalLM`).
    #[must_use]
    pub fn prefers_fp8_kv_on_blackwell(&self) -> bool {
        self.architecture == "GlmMoeDsaForCausalLM"
    }

    /// Whether windows are chunks that tokens attend within (Llama 4).
    #[must_use]
    pub fn attends_in_chunks(&self) -> bool {
        self.has_windows() && families::attends_in_chunks(&self.architecture)
    }

    /// Whether tokens are routed to experts.
    #[must_use]
    pub fn has_experts(&self) -> bool {
        self.layers
            .iter()
            .any(|group| matches!(group.mlp, Mlp::Experts { .. }))
    }

    /// The recurrence of its layers of constant state, if it has any; all of them have the same.
    #[must_use]
    pub fn recurrence(&self) -> Option<&Recurrence> {
        self.layers.iter().find_map(|group| match &group.attention {
            Attention::Recurrent(recurrence) => Some(recurrence),
            _ => None,
        })
    }

    /// Halves of layers: parts that mix tokens, and feed-forward parts. A transformer's layer has both.
    #[must_use]
    pub fn sublayer_count(&self) -> u32 {
        self.layers
            .iter()
            .map(|group| group.count * group.sublayers())
            .sum()
    }

    /// Number of layers, `L`.
    #[must_use]
    pub fn layer_count(&self) -> u32 {
        self.layers.iter().map(|group| group.count).sum()
    }
}

/// KV cache bytes that one token adds in one layer of `attention`, per tensor-parallel rank.
///
/// Heads are sharded, at least one each (`max(1, h_kv/TP)`); a latent cache is replicated.
#[must_use]
pub fn kv_bytes_per_token_layer(attention: &Attention, format: KvFormat, tensor_parallel: u32) -> Bytes {
    match *attention {
        Attention::Grouped { shares_kv: true, .. } => Bytes(0),
        Attention::Grouped { .. } => kv_read_per_token_layer(attention, format, tensor_parallel),
        Attention::Latent {
            kv_rank,
            rope_dim,
            indexer,
            ..
        } => {
            let latent = match format.of(attention) {
                Dtype::Fp8Scaled => kv_rank + 4 * kv_rank.div_ceil(128) + 2 * rope_dim,
                plain => (kv_rank + rope_dim) * plain.bytes() as u32,
            };
            Bytes(u64::from(latent)) + indexer.map_or(Bytes(0), Indexer::cached_bytes)
        }
        Attention::Recurrent(_) | Attention::Absent => Bytes(0),
    }
}

/// The same that one layer reads of a token: more than it caches where it reads another layer's.
#[must_use]
pub fn kv_read_per_token_layer(attention: &Attention, format: KvFormat, tensor_parallel: u32) -> Bytes {
    match *attention {
        Attention::Grouped {
            kv_heads,
            head_dim,
            value_dim,
            ..
        } => {
            let heads = (kv_heads / tensor_parallel).max(1);
            Bytes(u64::from(heads) * u64::from(head_dim + value_dim) * format.of(attention).bytes())
        }
        _ => kv_bytes_per_token_layer(attention, format, tensor_parallel),
    }
}
