//! Dense families from before Llama's keys were everyone's, one row each: how each differs from Llama or GPT-2. Their sources are
//! those of `dense.rs`; where `transformers` has no class, the code beside the checkpoint.

use super::dense::{GPT2, LLAMA};
use super::{Bias, Family};

/// All whose layers are dense, too.
pub(super) const EARLY: &[Family] = &[
    Family {
        // One norm for both halves of a layer, which run side by side.
        model_types: &["gptj"],
        architectures: &["GPTJForCausalLM"],
        tied_by_default: false,
        qkv_bias: Bias::MlpAlways,
        norms_per_layer: 1,
        head_bias: true,
        up_and_down: ("mlp.fc_in", "mlp.fc_out"),
        position_table: None,
        ..GPT2
    },
    Family {
        // Positions are slopes of the scores (ALiBi).
        model_types: &["bloom"],
        architectures: &["BloomForCausalLM"],
        embedding_norm: true,
        up_and_down: ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        position_table: None,
        defaults: &[("max_position_embeddings", 2048)],
        spelt: &[
            ("hidden_size", "n_embed"),
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
            ("intermediate_size", "n_inner"),
            ("max_position_embeddings", "seq_length"),
        ],
        ..GPT2
    },
    Family {
        // The same.
        model_types: &["mpt"],
        architectures: &["MPTForCausalLM", "MptForCausalLM"],
        qkv_bias: Bias::MlpOnly,
        norm_bias: false,
        up_and_down: ("ffn.up_proj", "ffn.down_proj"),
        position_table: None,
        spelt: &[
            ("hidden_size", "d_model"),
            ("num_hidden_layers", "n_layers"),
            ("num_attention_heads", "n_heads"),
            ("max_position_embeddings", "max_seq_len"),
        ],
        ..GPT2
    },
    Family {
        // The first Qwen.
        model_types: &["qwen"],
        architectures: &["QWenLMHeadModel"],
        qkv_bias: Bias::Always,
        out_bias: false,
        width_of_both: true,
        spelt: &[
            ("head_dim", "kv_channels"),
            ("max_position_embeddings", "seq_length"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["baichuan"],
        architectures: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        ..LLAMA
    },
    Family {
        model_types: &["internlm"],
        architectures: &["InternLMForCausalLM"],
        spelt: &[("attention_bias", "bias")],
        ..LLAMA
    },
    Family {
        model_types: &["internlm3"],
        architectures: &["InternLM3ForCausalLM"],
        out_bias: false,
        spelt: &[("attention_bias", "qkv_bias")],
        ..LLAMA
    },
];
