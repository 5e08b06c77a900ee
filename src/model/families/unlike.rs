//! Families whose layers differ in heads, or gate the output of attention, one row each: how each differs from Llama. Their sources
//! are those of `dense.rs`.

use super::dense::LLAMA;
use super::{ExpertKeys, Family, Gate, QkNorm, Unlike, WindowRule};

/// All of them but Gemma 4.
pub(super) const UNLIKE: &[Family] = &[
    Family {
        // Nemotron's searched architectures: layers with fewer KV heads, or none, and of many widths.
        model_types: &["nemotron-nas"],
        architectures: &["DeciLMForCausalLM"],
        unlike: Unlike::Blocks,
        ..LLAMA
    },
    Family {
        // One router correction is its own; sinks are in windowed layers.
        model_types: &["mimo_v2_flash", "mimo_v2"],
        architectures: &["MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"],
        out_bias: false,
        experts: ExpertKeys::DeepSeek,
        unlike: Unlike::WindowHeads,
        ..LLAMA
    },
    Family {
        model_types: &["step3p5"],
        architectures: &["Step3p5ForCausalLM"],
        out_bias: false,
        qk_norm: QkNorm::Head,
        experts: ExpertKeys::Step,
        unlike: Unlike::WindowQueries,
        gate: Gate::OfHeads,
        spelt: &[
            ("num_key_value_heads", "num_attention_groups"),
            ("n_routed_experts", "moe_num_experts"),
            ("num_experts_per_tok", "moe_top_k"),
            ("max_position_embeddings", "max_seq_len"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["laguna"],
        architectures: &["LagunaForCausalLM"],
        qk_norm: QkNorm::Head,
        experts: ExpertKeys::Laguna,
        unlike: Unlike::ListedQueries,
        gate: Gate::BySize,
        defaults: &[("head_dim", 128), ("sliding_window", 512)],
        ..LLAMA
    },
    Family {
        // Trinity.
        model_types: &["afmoe"],
        architectures: &["AfmoeForCausalLM"],
        qk_norm: QkNorm::Head,
        norms_per_layer: 4,
        window: WindowRule::AllButEveryNth,
        experts: ExpertKeys::Corrected,
        gate: Gate::Own,
        defaults: &[
            ("head_dim", 128),
            ("sliding_window", 1024),
            ("sliding_window_pattern", 4),
        ],
        spelt: &[
            ("n_routed_experts", "num_experts"),
            ("n_shared_experts", "num_shared_experts"),
            ("first_k_dense_replace", "num_dense_layers"),
            ("sliding_window_pattern", "global_attn_every_n_layers"),
        ],
        ..LLAMA
    },
];
