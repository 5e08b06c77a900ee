//! Dense families, one row each: how each differs from Llama.
//!
//! Source of each row: the model's class in vLLM 0.33 (`model_executor/models/`) or in Hugging Face `transformers` 5.20. The
//! parameters that follow are compared with those that `transformers` makes (`tests/data/shapes`).

use super::{Bias, ExpertKeys, Family, Gate, Hybrid, QkNorm, Unlike, WindowRule};

/// What most descendants of Llama share.
pub(super) const LLAMA: Family = Family {
    model_types: &["llama"],
    architectures: &["LlamaForCausalLM", "YiForCausalLM"],
    tied_by_default: false,
    qkv_bias: Bias::ByKey,
    out_bias: true,
    qk_norm: QkNorm::No,
    norms_per_layer: 2,
    norm_bias: false,
    embedding_norm: false,
    head_bias: false,
    window: WindowRule::Never,
    hybrid: Hybrid::None,
    experts: ExpertKeys::None,
    latent: false,
    unlike: Unlike::No,
    gate: Gate::No,
    gated: true,
    up_and_down: ("mlp.up_proj", "mlp.down_proj"),
    multi_query: false,
    width_is_implied: false,
    width_of_both: false,
    position_table: None,
    defaults: &[],
    spelt: &[],
};

/// All whose layers are dense.
pub(super) const DENSE: &[Family] = &[
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
        model_types: &["qwen2", "qwen2_5_vl", "qwen2_vl", "mimo"],
        architectures: &["Qwen2ForCausalLM", "MiMoForCausalLM"],
        qkv_bias: Bias::Always,
        out_bias: false,
        window: WindowRule::UpperLayers,
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
        qk_norm: QkNorm::WholeByKey,
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
        qkv_bias: Bias::WithMlp { by_default: true },
        norm_bias: true,
        window: WindowRule::All,
        gated: false,
        up_and_down: ("mlp.c_fc", "mlp.c_proj"),
        ..LLAMA
    },
    Family {
        model_types: &["smollm3"],
        architectures: &["SmolLM3ForCausalLM"],
        tied_by_default: true,
        ..LLAMA
    },
    Family {
        model_types: &["glm4", "glm4v"],
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
    Family {
        model_types: &["ministral3"],
        architectures: &["Ministral3ForCausalLM"],
        ..LLAMA
    },
    Family {
        model_types: &["internlm2"],
        architectures: &["InternLM2ForCausalLM"],
        ..LLAMA
    },
    Family {
        model_types: &["exaone"],
        architectures: &["ExaoneForCausalLM"],
        spelt: &[("num_hidden_layers", "num_layers")],
        ..LLAMA
    },
    Family {
        model_types: &["exaone4"],
        architectures: &["Exaone4ForCausalLM"],
        qk_norm: QkNorm::Head,
        window: WindowRule::AllButEveryNth,
        defaults: &[("sliding_window", 4096), ("sliding_window_pattern", 4)],
        ..LLAMA
    },
    Family {
        model_types: &["glm"],
        architectures: &["GlmForCausalLM"],
        out_bias: false,
        defaults: &[("head_dim", 128)],
        ..LLAMA
    },
    Family {
        // ChatGLM 2, 3 and GLM-4 before `transformers` knew them.
        model_types: &["chatglm"],
        architectures: &["ChatGLMForConditionalGeneration", "ChatGLMModel"],
        out_bias: false,
        spelt: &[
            ("num_hidden_layers", "num_layers"),
            ("intermediate_size", "ffn_hidden_size"),
            ("num_key_value_heads", "multi_query_group_num"),
            ("head_dim", "kv_channels"),
            ("vocab_size", "padded_vocab_size"),
            ("max_position_embeddings", "seq_length"),
            ("attention_bias", "add_qkv_bias"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["ernie4_5"],
        architectures: &["Ernie4_5ForCausalLM"],
        tied_by_default: true,
        qkv_bias: Bias::WithMlp { by_default: false },
        defaults: &[("head_dim", 128)],
        ..LLAMA
    },
    Family {
        model_types: &["hunyuan_v1_dense"],
        architectures: &["HunYuanDenseV1ForCausalLM"],
        qk_norm: QkNorm::Head,
        ..LLAMA
    },
    Family {
        model_types: &["arcee"],
        architectures: &["ArceeForCausalLM"],
        gated: false,
        ..LLAMA
    },
    Family {
        model_types: &["apertus"],
        architectures: &["ApertusForCausalLM"],
        qk_norm: QkNorm::Head,
        gated: false,
        ..LLAMA
    },
    Family {
        model_types: &["nemotron"],
        architectures: &["NemotronForCausalLM"],
        norm_bias: true,
        gated: false,
        ..LLAMA
    },
    Family {
        model_types: &["stablelm"],
        architectures: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
        out_bias: false,
        norm_bias: true,
        spelt: &[("attention_bias", "use_qkv_bias")],
        ..LLAMA
    },
    Family {
        model_types: &["olmo"],
        architectures: &["OlmoForCausalLM"],
        // Norms without weights.
        norms_per_layer: 0,
        ..LLAMA
    },
    Family {
        model_types: &["cwm"],
        architectures: &["CwmForCausalLM"],
        // Always with `layer_types`.
        window: WindowRule::All,
        ..LLAMA
    },
    Family {
        model_types: &["helium"],
        architectures: &["HeliumForCausalLM"],
        ..LLAMA
    },
    Family {
        // One norm for both halves of a layer, which run side by side.
        model_types: &["phi"],
        architectures: &["PhiForCausalLM"],
        qkv_bias: Bias::WithMlp { by_default: true },
        norms_per_layer: 1,
        norm_bias: true,
        head_bias: true,
        gated: false,
        up_and_down: ("mlp.fc1", "mlp.fc2"),
        ..LLAMA
    },
    Family {
        model_types: &["gpt_neox"],
        architectures: &["GPTNeoXForCausalLM"],
        qkv_bias: Bias::WithMlp { by_default: true },
        norm_bias: true,
        gated: false,
        up_and_down: ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        spelt: &[("use_bias", "attention_bias")],
        ..LLAMA
    },
    Family {
        model_types: &["falcon"],
        architectures: &["FalconForCausalLM"],
        tied_by_default: true,
        qkv_bias: Bias::WithMlp { by_default: false },
        norms_per_layer: 1,
        norm_bias: true,
        gated: false,
        up_and_down: ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        multi_query: true,
        width_is_implied: true,
        defaults: &[("max_position_embeddings", 2048)],
        spelt: &[
            ("intermediate_size", "ffn_hidden_size"),
            ("num_key_value_heads", "num_kv_heads"),
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
            ("use_bias", "bias"),
        ],
        ..LLAMA
    },
    Family {
        model_types: &["gpt_bigcode"],
        architectures: &["GPTBigCodeForCausalLM"],
        multi_query: true,
        ..GPT2
    },
    GPT2,
    Family {
        model_types: &["minicpm3"],
        architectures: &["MiniCPM3ForCausalLM"],
        tied_by_default: true,
        latent: true,
        ..LLAMA
    },
    Family {
        model_types: &["youtu"],
        architectures: &["YoutuForCausalLM"],
        tied_by_default: true,
        latent: true,
        ..LLAMA
    },
    OPT,
];

/// Biases and norms with biases everywhere, and a table of positions.
pub(super) const GPT2: Family = Family {
    model_types: &["gpt2"],
    architectures: &["GPT2LMHeadModel"],
    tied_by_default: true,
    qkv_bias: Bias::WithMlp { by_default: true },
    norm_bias: true,
    gated: false,
    up_and_down: ("mlp.c_fc", "mlp.c_proj"),
    width_is_implied: true,
    position_table: Some(0),
    spelt: &[
        ("hidden_size", "n_embd"),
        ("num_hidden_layers", "n_layer"),
        ("num_attention_heads", "n_head"),
        ("intermediate_size", "n_inner"),
        ("max_position_embeddings", "n_positions"),
    ],
    ..LLAMA
};

/// As GPT-2, with two rows more in the table of positions.
pub(super) const OPT: Family = Family {
    model_types: &["opt"],
    architectures: &["OPTForCausalLM"],
    up_and_down: ("fc1", "fc2"),
    width_is_implied: false,
    position_table: Some(2),
    spelt: &[("intermediate_size", "ffn_dim"), ("use_bias", "enable_bias")],
    ..GPT2
};
