//! Families with mixtures of experts, one row each: how each differs from Llama. Their sources are those of `dense.rs`.

use super::dense::LLAMA;
use super::{Bias, ExpertKeys, Family, QkNorm, Unlike, WindowRule};

/// All of whose layers some have experts.
pub(super) const EXPERTS: &[Family] = &[
    Family {
        model_types: &["mixtral"],
        architectures: &["MixtralForCausalLM"],
        window: WindowRule::All,
        experts: ExpertKeys::Mixtral,
        ..LLAMA
    },
    Family {
        model_types: &["qwen2_moe"],
        architectures: &["Qwen2MoeForCausalLM"],
        qkv_bias: Bias::Always,
        out_bias: false,
        window: WindowRule::UpperLayers,
        experts: ExpertKeys::Qwen,
        spelt: &[("num_experts", "num_local_experts")],
        ..LLAMA
    },
    Family {
        model_types: &["qwen3_moe", "qwen3_vl_moe"],
        architectures: &["Qwen3MoeForCausalLM"],
        qk_norm: QkNorm::Head,
        window: WindowRule::UpperLayers,
        experts: ExpertKeys::Qwen,
        spelt: &[("num_experts", "num_local_experts")],
        ..LLAMA
    },
    Family {
        // DeepSeekMoE.
        model_types: &["deepseek"],
        architectures: &["DeepseekForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        ..LLAMA
    },
    Family {
        model_types: &["deepseek_v2"],
        architectures: &["DeepseekV2ForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        ..LLAMA
    },
    Family {
        // Mistral Large 3 and Small 4 have no correction of their routers.
        model_types: &["deepseek_v3", "kimi_k2", "mistral4"],
        architectures: &[
            "DeepseekV3ForCausalLM",
            "MistralLarge3ForCausalLM",
            "Mistral4ForCausalLM",
        ],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        ..LLAMA
    },
    Family {
        model_types: &["deepseek_v32"],
        architectures: &["DeepseekV32ForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        defaults: &[
            ("index_topk", 2048),
            ("index_n_heads", 64),
            ("index_head_dim", 128),
        ],
        ..LLAMA
    },
    Family {
        // GLM-5 and its kin.
        model_types: &["glm_moe_dsa"],
        architectures: &["GlmMoeDsaForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        defaults: &[
            ("index_topk", 2048),
            ("index_n_heads", 32),
            ("index_head_dim", 128),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["glm4_moe", "glm4v_moe"],
        architectures: &["Glm4MoeForCausalLM"],
        out_bias: false,
        experts: ExpertKeys::DeepSeek,
        ..LLAMA
    },
    Family {
        model_types: &["gemma4"],
        architectures: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
        tied_by_default: true,
        qk_norm: QkNorm::Head,
        norms_per_layer: 4,
        window: WindowRule::AllButEveryNth,
        experts: ExpertKeys::Gemma4,
        unlike: Unlike::Gemma4,
        defaults: &[
            ("vocab_size", 262_144),
            ("head_dim", 256),
            ("global_head_dim", 512),
            ("max_position_embeddings", 131_072),
            ("sliding_window", 512),
            ("hidden_size_per_layer_input", 256),
        ],
        spelt: &[("num_experts_per_tok", "top_k_experts")],
        ..LLAMA
    },
    Family {
        model_types: &["gpt_oss"],
        architectures: &["GptOssForCausalLM"],
        window: WindowRule::EverySecond,
        experts: ExpertKeys::GptOss,
        defaults: &[("sliding_window", 128), ("head_dim", 64)],
        ..LLAMA
    },
    Family {
        model_types: &["llama4"],
        architectures: &["Llama4ForConditionalGeneration", "Llama4ForCausalLM"],
        window: WindowRule::Chunked,
        experts: ExpertKeys::Llama4,
        defaults: &[("attention_chunk_size", 8192)],
        ..LLAMA
    },
    Family {
        model_types: &["minimax_m2"],
        architectures: &["MiniMaxM2ForCausalLM"],
        qk_norm: QkNorm::Whole,
        experts: ExpertKeys::Mixtral,
        ..LLAMA
    },
    Family {
        model_types: &["ernie4_5_moe"],
        architectures: &["Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"],
        tied_by_default: true,
        qkv_bias: Bias::WithMlp { by_default: false },
        experts: ExpertKeys::Ernie,
        spelt: &[
            ("n_routed_experts", "moe_num_experts"),
            ("num_experts_per_tok", "moe_k"),
            ("n_shared_experts", "moe_num_shared_experts"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["exaone_moe"],
        architectures: &["ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"],
        qk_norm: QkNorm::Head,
        window: WindowRule::AllButEveryNth,
        experts: ExpertKeys::DeepSeek,
        defaults: &[("sliding_window", 4096), ("sliding_window_pattern", 4)],
        spelt: COUNTED,
        ..LLAMA
    },
    Family {
        // Ling and Ring.
        model_types: &["bailing_moe", "bailing_moe_v2"],
        architectures: &["BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"],
        out_bias: false,
        experts: ExpertKeys::DeepSeek,
        spelt: &[COUNTED[0], COUNTED[1], ("attention_bias", "use_qkv_bias")],
        ..LLAMA
    },
    Family {
        model_types: &["hy_v3"],
        architectures: &["HYV3ForCausalLM"],
        qk_norm: QkNorm::Head,
        experts: ExpertKeys::DeepSeek,
        defaults: &[("head_dim", 128)],
        spelt: COUNTED,
        ..LLAMA
    },
    Family {
        // All layers have experts.
        model_types: &["hunyuan_v1_moe"],
        architectures: &["HunYuanMoEV1ForCausalLM"],
        qk_norm: QkNorm::Head,
        experts: ExpertKeys::DeepSeek,
        defaults: &[("first_k_dense_replace", 0)],
        spelt: &[
            ("n_routed_experts", "num_experts"),
            ("num_experts_per_tok", "moe_topk"),
            ("n_shared_experts", "num_shared_expert"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["dots1"],
        architectures: &["Dots1ForCausalLM"],
        qk_norm: QkNorm::Head,
        experts: ExpertKeys::DeepSeek,
        ..LLAMA
    },
    Family {
        model_types: &["solar_open"],
        architectures: &["SolarOpenForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        defaults: &[("head_dim", 128)],
        ..LLAMA
    },
    Family {
        model_types: &["olmoe"],
        architectures: &["OlmoeForCausalLM"],
        qk_norm: QkNorm::Whole,
        experts: ExpertKeys::Mixtral,
        spelt: &[("num_local_experts", "num_experts")],
        ..LLAMA
    },
    Family {
        model_types: &["granitemoe", "granitemoeshared"],
        architectures: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        experts: ExpertKeys::Mixtral,
        ..LLAMA
    },
    Family {
        model_types: &["phimoe"],
        architectures: &["PhimoeForCausalLM", "PhiMoEForCausalLM"],
        norm_bias: true,
        window: WindowRule::All,
        experts: ExpertKeys::Mixtral,
        ..LLAMA
    },
    Family {
        // Its keys lie in objects of attention's and the experts' own.
        model_types: &["dbrx"],
        architectures: &["DbrxForCausalLM"],
        experts: ExpertKeys::Mixtral,
        spelt: &[
            ("hidden_size", "d_model"),
            ("num_hidden_layers", "n_layers"),
            ("num_attention_heads", "n_heads"),
            ("num_key_value_heads", "attn_config.kv_n_heads"),
            ("max_position_embeddings", "max_seq_len"),
            ("num_local_experts", "ffn_config.moe_num_experts"),
            ("num_experts_per_tok", "ffn_config.moe_top_k"),
            ("intermediate_size", "ffn_config.ffn_hidden_size"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["glm4_moe_lite"],
        architectures: &["Glm4MoeLiteForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        ..LLAMA
    },
];

/// How many experts of each kind, as some DeepSeek-like families say it.
const COUNTED: &[(&str, &str)] = &[
    ("n_routed_experts", "num_experts"),
    ("n_shared_experts", "num_shared_experts"),
];
