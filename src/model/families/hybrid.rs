//! Families of which some layers keep a state of constant size, one row each: how each differs from Llama. Their sources are
//! those of `dense.rs`.

use super::dense::LLAMA;
use super::{Bias, ExpertKeys, Family, Hybrid, QkNorm};

/// Gated delta nets with a gated attention in every fourth layer.
const QWEN: Family = Family {
    hybrid: Hybrid::GatedDelta,
    qk_norm: QkNorm::Head,
    // Numbers of heads and widths that equal the class default are left out of some configs.
    defaults: &[
        ("head_dim", 256),
        ("linear_conv_kernel_dim", 4),
        ("linear_key_head_dim", 128),
        ("linear_value_head_dim", 128),
        ("linear_num_key_heads", 16),
        ("linear_num_value_heads", 32),
    ],
    ..LLAMA
};

/// All that mix attention with recurrent layers.
pub(super) const HYBRID: &[Family] = &[
    Family {
        model_types: &["qwen3_next"],
        architectures: &["Qwen3NextForCausalLM"],
        experts: ExpertKeys::Qwen,
        ..QWEN
    },
    Family {
        model_types: &["qwen3_5_moe"],
        architectures: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
        experts: ExpertKeys::Qwen,
        ..QWEN
    },
    Family {
        model_types: &["qwen3_5"],
        architectures: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
        ..QWEN
    },
    Family {
        model_types: &["nemotron_h"],
        architectures: &["NemotronHForCausalLM"],
        hybrid: Hybrid::StateSpace,
        qkv_bias: Bias::MlpOnly,
        norms_per_layer: 1,
        gated: false,
        up_and_down: ("mixer.up_proj", "mixer.down_proj"),
        defaults: &[
            ("head_dim", 128),
            ("n_groups", 8),
            ("conv_kernel", 4),
            ("chunk_size", 128),
        ],
        spelt: &[("head_dim", "attention_head_dim")],
        ..LLAMA
    },
];
