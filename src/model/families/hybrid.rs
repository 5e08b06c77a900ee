//! Families of which some layers keep a state of constant size, one row each: how each differs from Llama. Their sources are
//! those of `dense.rs`.

use super::dense::LLAMA;
use super::{Bias, ExpertKeys, Family, Gate, Hybrid, QkNorm};

/// Gated delta nets with a gated attention in every fourth layer.
const QWEN: Family = Family {
    hybrid: Hybrid::GatedDelta,
    gate: Gate::OfQueries,
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
    Family {
        model_types: &["olmo_hybrid"],
        architectures: &["OlmoHybridForCausalLM"],
        hybrid: Hybrid::GatedDelta,
        qk_norm: QkNorm::Whole,
        ..LLAMA
    },
    Family {
        model_types: &["kimi_linear"],
        architectures: &["KimiLinearForCausalLM"],
        hybrid: Hybrid::KimiDelta,
        latent: true,
        experts: ExpertKeys::Corrected,
        spelt: &[
            ("n_routed_experts", "num_experts"),
            ("n_shared_experts", "num_shared_experts"),
            ("num_experts_per_tok", "num_experts_per_token"),
        ],
        ..LLAMA
    },
    Family {
        // Ling 3.
        model_types: &["bailing_hybrid"],
        architectures: &["BailingMoeV3ForCausalLM", "BailingHybridForCausalLM"],
        hybrid: Hybrid::LingDelta,
        latent: true,
        experts: ExpertKeys::Corrected,
        gate: Gate::ByGranularity,
        spelt: &[
            ("n_routed_experts", "num_experts"),
            ("n_shared_experts", "num_shared_experts"),
            ("num_experts_per_tok", "num_experts_per_token"),
            ("linear_num_heads", "num_attention_heads"),
            ("linear_head_dim", "head_dim"),
            ("linear_conv_kernel_dim", "short_conv_kernel_size"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["granitemoehybrid"],
        architectures: &["GraniteMoeHybridForCausalLM"],
        hybrid: Hybrid::Mamba2,
        experts: ExpertKeys::Granite,
        spelt: MAMBA2,
        ..LLAMA
    },
    Family {
        // A layer is two here: attention, and a state with the feed-forward part.
        model_types: &["falcon_h1"],
        architectures: &["FalconH1ForCausalLM"],
        hybrid: Hybrid::Mamba2Beside,
        norms_per_layer: 1,
        spelt: MAMBA2,
        ..LLAMA
    },
    LFM2,
    Family {
        model_types: &["lfm2_moe"],
        architectures: &["Lfm2MoeForCausalLM"],
        experts: ExpertKeys::Corrected,
        defaults: &[("n_shared_experts", 0), ("conv_L_cache", 3)],
        spelt: &[
            LFM2.spelt[0],
            ("n_routed_experts", "num_experts"),
            ("first_k_dense_replace", "num_dense_layers"),
        ],
        ..LFM2
    },
];

/// Short convolutions in place of most layers' attention.
const LFM2: Family = Family {
    model_types: &["lfm2"],
    architectures: &["Lfm2ForCausalLM"],
    tied_by_default: true,
    hybrid: Hybrid::ShortConv,
    qk_norm: QkNorm::Head,
    defaults: &[("conv_L_cache", 3)],
    spelt: &[("tie_word_embeddings", "tie_embedding")],
    ..LLAMA
};

/// Mamba2's sizes as Granite 4 and Falcon-H1 write them.
const MAMBA2: &[(&str, &str)] = &[
    ("mamba_num_heads", "mamba_n_heads"),
    ("mamba_head_dim", "mamba_d_head"),
    ("n_groups", "mamba_n_groups"),
    ("ssm_state_size", "mamba_d_state"),
    ("conv_kernel", "mamba_d_conv"),
    ("chunk_size", "mamba_chunk_size"),
    ("use_conv_bias", "mamba_conv_bias"),
    ("use_bias", "mamba_proj_bias"),
];
