//! What an architecture implies that its `config.json` does not say: which norms and biases exist, which layers have a
//! window, how experts are spelt, which keys may be absent.
//!
//! One row a family. A new architecture that is a variation of a known one is one row here.

/// A family of architectures whose configs are read alike.
pub(super) struct Family {
    /// `model_type` values, the first for messages.
    pub(super) model_types: &'static [&'static str],
    /// `architectures` values.
    pub(super) architectures: &'static [&'static str],
    /// `tie_word_embeddings` where the key is absent.
    pub(super) tied_by_default: bool,
    /// Biases of the query, key and value projections.
    pub(super) qkv_bias: Bias,
    /// Whether the attention output projection has a bias where query, key and value have one.
    pub(super) out_bias: bool,
    /// How queries and keys are normalised.
    pub(super) qk_norm: QkNorm,
    /// Norms of width `d` in a layer.
    pub(super) norms_per_layer: u32,
    /// Which layers have a sliding window where `layer_types` is absent.
    pub(super) window: WindowRule,
    /// How experts are spelt.
    pub(super) experts: ExpertKeys,
    /// Multi-head latent attention.
    pub(super) latent: bool,
    /// Dense feed-forward parts have a gate beside up and down projections.
    pub(super) gated: bool,
    /// Values of numeric keys that are absent.
    pub(super) defaults: &'static [(&'static str, u32)],
}

/// Where biases are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    /// Always.
    Always,
    /// Where `attention_bias` is true.
    ByKey,
    /// Where `use_bias` is true, in the feed-forward part, too.
    WithMlp,
}

/// How queries and keys are normalised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    /// Not at all, or without weights.
    No,
    /// Head by head, with one weight vector of a head's width each.
    Head,
    /// All heads together, with weight vectors of their whole width.
    Whole,
}

/// Which layers have a sliding window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowRule {
    /// None.
    Never,
    /// All, where `sliding_window` is set.
    All,
    /// Layers from `max_window_layers` on, where `use_sliding_window` is true (Qwen2).
    UpperLayers,
    /// Every second, from the first (Gemma 2, gpt-oss).
    EverySecond,
    /// All but every `sliding_window_pattern`-th (Gemma 3, Cohere 2, OLMo 3).
    AllButEveryNth,
    /// Layers with rotary positions (`no_rope_layers`; by default all but every fourth) attend within chunks of
    /// `attention_chunk_size` (Llama 4).
    Chunked,
}

/// How experts are spelt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpertKeys {
    /// A dense model.
    None,
    /// `num_local_experts`, all layers; experts have `intermediate_size`.
    Mixtral,
    /// As Mixtral, with biases, and an attention sink for every head.
    GptOss,
    /// `num_experts`, `decoder_sparse_step`, `mlp_only_layers`, `shared_expert_intermediate_size`.
    Qwen,
    /// `n_routed_experts`, `first_k_dense_replace`, `moe_layer_freq`, `n_shared_experts`.
    DeepSeek,
    /// `num_local_experts`, `moe_layers` or `interleave_moe_layer_step`, one shared expert of `intermediate_size`; dense
    /// layers have `intermediate_size_mlp`.
    Llama4,
}

/// What most descendants of Llama share.
const LLAMA: Family = Family {
    model_types: &["llama"],
    architectures: &["LlamaForCausalLM", "YiForCausalLM"],
    tied_by_default: false,
    qkv_bias: Bias::ByKey,
    out_bias: true,
    qk_norm: QkNorm::No,
    norms_per_layer: 2,
    window: WindowRule::Never,
    experts: ExpertKeys::None,
    latent: false,
    gated: true,
    defaults: &[],
};

/// All that can be read.
pub(super) const FAMILIES: [Family; 27] = [
    LLAMA,
    Family {
        model_types: &["mistral"],
        architectures: &["MistralForCausalLM"],
        window: WindowRule::All,
        // The class default; configs without a window say `null`.
        defaults: &[("sliding_window", 4096)],
        ..LLAMA
    },
    Family {
        model_types: &["mixtral"],
        architectures: &["MixtralForCausalLM"],
        window: WindowRule::All,
        experts: ExpertKeys::Mixtral,
        ..LLAMA
    },
    Family {
        model_types: &["qwen2", "qwen2_5_vl", "qwen2_vl"],
        architectures: &["Qwen2ForCausalLM"],
        qkv_bias: Bias::Always,
        out_bias: false,
        window: WindowRule::UpperLayers,
        ..LLAMA
    },
    Family {
        model_types: &["qwen2_moe"],
        architectures: &["Qwen2MoeForCausalLM"],
        qkv_bias: Bias::Always,
        out_bias: false,
        window: WindowRule::UpperLayers,
        experts: ExpertKeys::Qwen,
        ..LLAMA
    },
    Family {
        model_types: &["qwen3", "qwen3_vl"],
        architectures: &["Qwen3ForCausalLM"],
        qk_norm: QkNorm::Head,
        window: WindowRule::UpperLayers,
        defaults: &[("head_dim", 128)],
        ..LLAMA
    },
    Family {
        model_types: &["qwen3_moe", "qwen3_vl_moe"],
        architectures: &["Qwen3MoeForCausalLM"],
        qk_norm: QkNorm::Head,
        window: WindowRule::UpperLayers,
        experts: ExpertKeys::Qwen,
        defaults: &[("head_dim", 128)],
        ..LLAMA
    },
    Family {
        model_types: &["gemma"],
        architectures: &["GemmaForCausalLM"],
        tied_by_default: true,
        defaults: &[("head_dim", 256)],
        ..LLAMA
    },
    Family {
        model_types: &["gemma2"],
        architectures: &["Gemma2ForCausalLM"],
        tied_by_default: true,
        norms_per_layer: 4,
        window: WindowRule::EverySecond,
        defaults: &[("head_dim", 256), ("sliding_window", 4096)],
        ..LLAMA
    },
    Family {
        model_types: &["gemma3", "gemma3_text"],
        architectures: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        tied_by_default: true,
        qk_norm: QkNorm::Head,
        norms_per_layer: 4,
        window: WindowRule::AllButEveryNth,
        // The multimodal configs leave out whatever equals the class default.
        defaults: &[
            ("vocab_size", 262_208),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("head_dim", 256),
            ("max_position_embeddings", 131_072),
            ("sliding_window", 4096),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["phi3"],
        architectures: &["Phi3ForCausalLM"],
        window: WindowRule::All,
        ..LLAMA
    },
    Family {
        model_types: &["granite"],
        architectures: &["GraniteForCausalLM"],
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
        model_types: &["deepseek_v3", "kimi_k2"],
        architectures: &["DeepseekV3ForCausalLM"],
        experts: ExpertKeys::DeepSeek,
        latent: true,
        ..LLAMA
    },
    Family {
        model_types: &["glm4_moe"],
        architectures: &["Glm4MoeForCausalLM"],
        out_bias: false,
        experts: ExpertKeys::DeepSeek,
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
        model_types: &["olmo2"],
        architectures: &["Olmo2ForCausalLM"],
        qk_norm: QkNorm::Whole,
        ..LLAMA
    },
    Family {
        model_types: &["olmo3"],
        architectures: &["Olmo3ForCausalLM"],
        qk_norm: QkNorm::Whole,
        window: WindowRule::AllButEveryNth,
        defaults: &[("sliding_window", 4096), ("sliding_window_pattern", 4)],
        ..LLAMA
    },
    Family {
        model_types: &["cohere"],
        architectures: &["CohereForCausalLM"],
        tied_by_default: true,
        norms_per_layer: 1,
        ..LLAMA
    },
    Family {
        model_types: &["cohere2"],
        architectures: &["Cohere2ForCausalLM"],
        tied_by_default: true,
        norms_per_layer: 1,
        window: WindowRule::AllButEveryNth,
        defaults: &[("sliding_window", 4096), ("sliding_window_pattern", 4)],
        ..LLAMA
    },
    Family {
        model_types: &["starcoder2"],
        architectures: &["Starcoder2ForCausalLM"],
        tied_by_default: true,
        qkv_bias: Bias::WithMlp,
        // Two, each with a bias.
        norms_per_layer: 4,
        window: WindowRule::All,
        gated: false,
        ..LLAMA
    },
    Family {
        model_types: &["smollm3"],
        architectures: &["SmolLM3ForCausalLM"],
        tied_by_default: true,
        ..LLAMA
    },
    Family {
        model_types: &["glm4"],
        architectures: &["Glm4ForCausalLM"],
        out_bias: false,
        norms_per_layer: 4,
        ..LLAMA
    },
    Family {
        model_types: &["seed_oss"],
        architectures: &["SeedOssForCausalLM"],
        out_bias: false,
        ..LLAMA
    },
    OPT,
];

/// Read apart: other keys, biases everywhere, a table of positions.
const OPT: Family = Family {
    model_types: &["opt"],
    architectures: &["OPTForCausalLM"],
    tied_by_default: true,
    qkv_bias: Bias::Always,
    gated: false,
    ..LLAMA
};

/// Whether windows of an architecture are chunks.
pub(super) fn attends_in_chunks(architecture: &str) -> bool {
    let family = Family::find(Some(architecture), None);
    family.is_some_and(|family| family.window == WindowRule::Chunked)
}

impl Family {
    /// The family of an `architectures` value, or else of a `model_type` (with or without the `_text` of the inner
    /// config of a multimodal model).
    pub(super) fn find(architecture: Option<&str>, model_type: Option<&str>) -> Option<&'static Family> {
        let by_architecture =
            |family: &&Family| architecture.is_some_and(|name| family.architectures.contains(&name));
        let model_type = model_type.map(|name| name.strip_suffix("_text").unwrap_or(name));
        let by_type = |family: &&Family| model_type.is_some_and(|name| family.model_types.contains(&name));
        FAMILIES
            .iter()
            .find(by_architecture)
            .or_else(|| FAMILIES.iter().find(by_type))
    }

    pub(super) fn is_opt(&self) -> bool {
        self.model_types == OPT.model_types
    }

    pub(super) fn default(&self, key: &str) -> Option<u32> {
        let known = self.defaults.iter().find(|(name, _)| *name == key);
        known.map(|&(_, value)| value)
    }
}
