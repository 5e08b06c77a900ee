//! Families have the shapes of their cards, and nothing that a config may say makes the reader panic.

use super::super::{LayerGroup, Mlp, OutputGate};
use super::*;
use proptest::prelude::*;
use serde_json::Map;

pub(super) const LLAMA: &str = include_str!("../shapes/llama-3.1-8b.json");

pub(super) const MIXTRAL: &str = include_str!("../shapes/mixtral-8x7b.json");

const SAMPLES: [&str; 7] = [
    LLAMA,
    include_str!("../shapes/deepseek-v3.json"),
    include_str!("../shapes/gpt-oss-20b.json"),
    include_str!("../shapes/gemma-3-4b.json"),
    include_str!("../shapes/qwen3-30b-a3b.json"),
    include_str!("../shapes/qwen3-next-80b-a3b.json"),
    include_str!("../shapes/nemotron-3-super-120b-a12b.json"),
];

pub(super) fn read(json: &str) -> (ModelShape, Vec<String>) {
    ModelShape::from_hf_config(json, "mine").unwrap()
}

pub(super) fn with(json: &str, key: &str, value: Value) -> String {
    let mut config: Value = serde_json::from_str(json).unwrap();
    config[key] = value;
    config.to_string()
}

/// The shape of a config in which `more` stands beside or instead of what it says.
pub(super) fn changed(json: &str, more: &Value) -> Result<ModelShape, String> {
    let mut config: Value = serde_json::from_str(json).unwrap();
    let own = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(own);
    ModelShape::from_hf_config(&config.to_string(), "mine")
        .map(|(shape, _)| shape)
        .map_err(|error| error.to_string())
}

#[test]
fn everything_wrong_is_told_at_once() {
    let json = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": -4096, "num_hidden_layers": 32.5,
            "num_attention_heads": 32, "num_key_value_heads": 7, "vocab_size": "many", "torch_dtype": "int3",
            "max_position_embeddings": 99999999999, "quantization_config": {"quant_method": "magic"}}"#;
    let error = ModelShape::from_hf_config(json, "mine").unwrap_err();
    insta::assert_snapshot!(error, @r#"
    the config of mine cannot be used
      `hidden_size` is -4096 and must be a whole number from 1 to 262144
      `vocab_size` is "many" and must be a whole number from 1 to 16777216
      `max_position_embeddings` is 99999999999 and must be a whole number from 1 to 1073741824
      `num_hidden_layers` is 32.5 and must be a whole number from 1 to 4096
      `torch_dtype` is "int3" and must be bfloat16, float16 or float32
      `quantization_config` with quant_method `magic` is not known; `--quantization` takes its place if the key is removed
      `num_attention_heads` (32) is not a multiple of `num_key_value_heads` (7)
    "#);
}

#[test]
fn an_unknown_architecture_names_the_nearest_known_one() {
    let error = ModelShape::from_hf_config(r#"{"architectures": ["LamaForCausalLM"]}"#, "mine").unwrap_err();
    insta::assert_snapshot!(error, @r#"
    the config of mine cannot be used
      the architecture LamaForCausalLM is not known; did you mean LlamaForCausalLM?
    "#);
}

#[test]
fn an_architecture_that_is_far_from_all_gets_no_suggestion() {
    for name in ["Qwen9NextForCausalLM", "Llama9ForCausalLM", "ZyphraForCausalLM"] {
        let config = serde_json::json!({"architectures": [name]}).to_string();
        let told = ModelShape::from_hf_config(&config, "mine")
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("known are") && !told.contains("did you mean"),
            "{told}"
        );
    }
}

#[test]
fn lists_of_layers_that_are_none_are_told_and_what_is_not_given_too() {
    let refused = |json: &str| ModelShape::from_hf_config(json, "mine").unwrap_err().to_string();
    let qwen = include_str!("../shapes/qwen3-30b-a3b.json");
    let told = refused(&with(qwen, "mlp_only_layers", "x".into()));
    assert!(
        told.contains("`mlp_only_layers` is \"x\" and must be a list of layers"),
        "{told}"
    );
    let gemma = include_str!("../shapes/gpt-oss-20b.json");
    let told = refused(&with(gemma, "sliding_window", Value::Null));
    assert!(
        told.contains("`sliding_window`, its width, is missing or null"),
        "{told}"
    );
    let mut config: Value = serde_json::from_str(include_str!("../shapes/deepseek-v3.json")).unwrap();
    let mut llama: Value = serde_json::from_str(LLAMA).unwrap();
    llama.as_object_mut().unwrap().remove("num_key_value_heads");
    let (_, notes) = read(&llama.to_string());
    assert!(
        notes
            .iter()
            .any(|note| note.contains("one for each query head is assumed")),
        "{notes:?}"
    );
    for key in ["n_shared_experts", "first_k_dense_replace", "q_lora_rank"] {
        config.as_object_mut().unwrap().remove(key);
    }
    let (_, notes) = read(&config.to_string());
    for part in [
        "`n_shared_experts` is not given",
        "`first_k_dense_replace` is",
        "`q_lora_rank` is",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
}

#[test]
fn absurd_sizes_are_refused() {
    let mut json = with(LLAMA, "hidden_size", (1 << 18).into());
    for (key, value) in [("intermediate_size", 1 << 18), ("num_hidden_layers", 1 << 12)] {
        json = with(&json, key, value.into());
    }
    let json = with(
        &with(&json, "architectures", serde_json::json!(["MixtralForCausalLM"])),
        "num_local_experts",
        512.into(),
    );
    let json = with(&json, "num_experts_per_tok", 1.into());
    let error = ModelShape::from_hf_config(&json, "mine").unwrap_err();
    assert!(error.problems[0].contains("parameters"), "{error}");
}

#[test]
fn a_sparse_multimodal_config_takes_the_class_defaults() {
    let json = r#"{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                "num_hidden_layers": 34, "sliding_window": 1024},
            "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}"#;
    let (shape, notes) = read(json);
    let (flat, _) = read(include_str!("../shapes/gemma-3-4b.json"));
    assert_eq!(shape, flat);
    assert_eq!(notes.len(), 1);
}

#[test]
fn windows_follow_the_family_or_the_list() {
    let windows = |json: &str| -> Vec<(u32, Option<u32>)> {
        let groups = read(json).0.layers;
        let window = |group: &LayerGroup| match group.attention {
            Attention::Grouped { window, .. } => window,
            _ => None,
        };
        groups.iter().map(|group| (group.count, window(group))).collect()
    };
    assert_eq!(
        windows(include_str!("../shapes/gemma-3-27b.json")),
        [(52, Some(1024)), (10, None)]
    );
    assert_eq!(
        windows(include_str!("../shapes/gemma-2-9b.json")),
        [(21, Some(4096)), (21, None)]
    );
    assert_eq!(
        windows(include_str!("../shapes/gpt-oss-120b.json")),
        [(18, Some(128)), (18, None)]
    );
    assert_eq!(
        windows(include_str!("../shapes/mistral-7b-v0.1.json")),
        [(32, Some(4096))]
    );
    assert_eq!(
        windows(include_str!("../shapes/mistral-7b-v0.2.json")),
        [(32, None)]
    );
    // Longer than the context, hence none.
    assert_eq!(
        windows(include_str!("../shapes/phi-3-mini-128k.json")),
        [(32, None)]
    );
    let upper = with(
        include_str!("../shapes/qwen2.5-7b.json"),
        "use_sliding_window",
        true.into(),
    );
    let upper = with(
        &with(&upper, "sliding_window", 4096.into()),
        "max_window_layers",
        20.into(),
    );
    assert_eq!(windows(&upper), [(20, None), (8, Some(4096))]);
}

#[test]
fn dense_layers_among_sparse_ones_are_found() {
    let (shape, notes) = read(include_str!("../shapes/deepseek-v3.json"));
    assert_eq!(
        shape.layers.iter().map(|group| group.count).collect::<Vec<_>>(),
        [3, 58]
    );
    assert!(notes[0].contains("prediction"));
    let mixed = with(
        include_str!("../shapes/qwen3-30b-a3b.json"),
        "decoder_sparse_step",
        2.into(),
    );
    let mixed = with(&mixed, "mlp_only_layers", serde_json::json!([1]));
    assert_eq!(
        read(&mixed)
            .0
            .layers
            .iter()
            .map(|group| group.count)
            .collect::<Vec<_>>(),
        [25, 23]
    );
}

/// Configs of families that ship no shape, with the parameters of their model cards.
#[test]
fn other_families_have_the_parameters_of_their_cards() {
    let cards = [
        (
            // allenai/OLMo-2-1124-13B: 13.7 B.
            r#"{"architectures": ["Olmo2ForCausalLM"], "hidden_size": 5120, "intermediate_size": 13824,
                "max_position_embeddings": 4096, "num_attention_heads": 40, "num_hidden_layers": 40,
                "num_key_value_heads": 40, "tie_word_embeddings": false, "torch_dtype": "float32", "vocab_size": 100352}"#,
            13.7e9,
            13.7e9,
        ),
        (
            // bigcode/starcoder2-3b: 3.03 B.
            r#"{"architectures": ["Starcoder2ForCausalLM"], "hidden_size": 3072, "intermediate_size": 12288,
                "max_position_embeddings": 16384, "num_attention_heads": 24, "num_hidden_layers": 30,
                "num_key_value_heads": 2, "sliding_window": 4096, "use_bias": true, "vocab_size": 49152}"#,
            3.03e9,
            3.03e9,
        ),
        (
            // HuggingFaceTB/SmolLM3-3B: 3.08 B.
            r#"{"architectures": ["SmolLM3ForCausalLM"], "hidden_size": 2048, "intermediate_size": 11008,
                "max_position_embeddings": 65536, "num_attention_heads": 16, "num_hidden_layers": 36,
                "num_key_value_heads": 4, "torch_dtype": "bfloat16", "vocab_size": 128256}"#,
            3.08e9,
            3.08e9,
        ),
        (
            // MiniMaxAI/MiniMax-M2: 230 B, 10 B active beside the 1.2 B of embedding and LM head.
            r#"{"architectures": ["MiniMaxM2ForCausalLM"], "head_dim": 128, "hidden_size": 3072,
                "intermediate_size": 1536, "max_position_embeddings": 196608, "num_attention_heads": 48,
                "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256,
                "tie_word_embeddings": false, "use_qk_norm": true, "vocab_size": 200064}"#,
            229e9,
            11.2e9,
        ),
        (
            // meta-llama/Llama-4-Scout-17B-16E: 109 B with the vision tower of 0.9 B, 17 B active.
            r#"{"architectures": ["Llama4ForConditionalGeneration"], "text_config": {"attention_chunk_size": 8192,
                "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
                "intermediate_size_mlp": 16384, "max_position_embeddings": 10485760, "model_type": "llama4_text",
                "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
                "num_local_experts": 16, "vocab_size": 202048}, "torch_dtype": "bfloat16"}"#,
            108e9,
            17e9,
        ),
    ];
    for (json, all, active) in cards {
        let (shape, _) = read(json);
        let near = |got: u64, card: f64| (got as f64 / card - 1.0).abs() < 0.03;
        let exactly = |got: u64, card: f64| (got as f64 / card - 1.0).abs() < 0.005;
        assert!(
            exactly(shape.parameters(), all),
            "{} {}",
            shape.architecture,
            shape.parameters()
        );
        assert!(
            near(shape.active_parameters(), active),
            "{} {}",
            shape.architecture,
            shape.active_parameters()
        );
    }
}

#[test]
fn chunked_layers_of_llama_4_are_windows_and_said() {
    let (shape, notes) = read(
        r#"{"architectures": ["Llama4ForCausalLM"], "attention_chunk_size": 128, "head_dim": 64, "hidden_size": 512,
            "interleave_moe_layer_step": 2, "intermediate_size": 1024, "intermediate_size_mlp": 2048,
            "max_position_embeddings": 131072, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 8,
            "num_experts_per_tok": 1, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 2,
            "torch_dtype": "bfloat16", "vocab_size": 202048}"#,
    );
    let layers: Vec<(u32, bool, bool)> = shape
        .layers
        .iter()
        .map(|group| {
            let slides = matches!(
                group.attention,
                Attention::Grouped {
                    window: Some(128),
                    ..
                }
            );
            let is_sparse = matches!(
                group.mlp,
                Mlp::Experts {
                    shared_intermediate: 1024,
                    ..
                }
            );
            (group.count, slides, is_sparse)
        })
        .collect();
    assert_eq!(layers, [(2, true, false), (1, true, true), (1, false, true)]);
    assert!(notes.iter().any(|note| note.contains("chunks")), "{notes:?}");
}

#[test]
fn layers_of_a_hybrid_are_told_apart() {
    let layers = |json: &str| -> Vec<(u32, &str, bool)> {
        let groups = read(json).0.layers;
        let kind = |group: &LayerGroup| match group.attention {
            Attention::Grouped {
                gate: OutputGate::OfQueries,
                ..
            } => "gated",
            Attention::Grouped { .. } => "attention",
            Attention::Latent { .. } => "latent",
            Attention::Recurrent(_) => "state",
            Attention::Absent => "none",
        };
        let told = |group: &LayerGroup| (group.count, kind(group), group.mlp != Mlp::Absent);
        groups.iter().map(told).collect()
    };
    let next = include_str!("../shapes/qwen3-next-80b-a3b.json");
    assert_eq!(layers(next), [(36, "state", true), (12, "gated", true)]);
    let listed = with(
        &with(next, "num_hidden_layers", 2.into()),
        "layer_types",
        serde_json::json!(["full_attention", "linear_attention"]),
    );
    assert_eq!(layers(&listed), [(1, "gated", true), (1, "state", true)]);
    let nano = include_str!("../shapes/nemotron-3-nano-30b-a3b.json");
    assert_eq!(
        layers(nano),
        [(23, "state", false), (23, "none", true), (6, "attention", false)]
    );
    // The later way of saying it, which counts the layers, too.
    let mut config: Value = serde_json::from_str(nano).unwrap();
    let map = config.as_object_mut().unwrap();
    map.remove("hybrid_override_pattern");
    map.remove("num_hidden_layers");
    map.insert(
        "layers_block_type".to_owned(),
        serde_json::json!(["mamba", "moe", "attention", "mlp"]),
    );
    let groups = layers(&config.to_string());
    assert_eq!(
        groups,
        [
            (1, "state", false),
            (1, "none", true),
            (1, "attention", false),
            (1, "none", true)
        ]
    );
    let told = |key: &str, value: Value| {
        let error = ModelShape::from_hf_config(&with(nano, key, value), "mine").unwrap_err();
        error.problems.join("; ")
    };
    assert!(told("hybrid_override_pattern", "MX".into()).contains("a letter for each layer"));
    assert!(told("hybrid_override_pattern", "MEM".into()).contains("none of its layers attends"));
    assert!(told("n_groups", 7.into()).contains("not a multiple of `n_groups`"));
    assert!(told("mamba_ssm_cache_dtype", "int8".into()).contains("must be float32"));
}

#[test]
fn a_bare_model_type_is_enough() {
    let json = with(
        &with(LLAMA, "architectures", Value::Null),
        "model_type",
        "llama".into(),
    );
    assert_eq!(read(&json).0.architecture, "LlamaForCausalLM");
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..5000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!(["sliding_attention"])),
    ]
}

proptest! {
    #[test]
    fn any_mutation_gives_a_shape_or_an_error(
        sample in 0usize..SAMPLES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..4),
        removals in prop::collection::vec(any::<prop::sample::Index>(), 0..2),
    ) {
        let mut config: Map<String, Value> = serde_json::from_str(SAMPLES[sample]).unwrap();
        let keys: Vec<String> = config.keys().cloned().collect();
        for (key, value) in changes {
            config.insert(key.get(&keys).clone(), value);
        }
        for key in removals {
            config.remove(key.get(&keys));
        }
        let json = Value::Object(config).to_string();
        match ModelShape::from_hf_config(&json, "mutant") {
            Ok((shape, _)) => {
                prop_assert!(shape.parameters() > 0);
                prop_assert!(shape.widest_intermediate() > 0);
                prop_assert!(shape.active_parameters() <= shape.parameters());
                for tp in [1, 2, 3, 8, 64] {
                    prop_assert!(shape.weight_bytes(tp) <= shape.weight_bytes(1));
                    prop_assert!(shape.kv_bytes_per_token(Dtype::Fp32, tp).0 > 0);
                }
            }
            Err(error) => prop_assert!(!error.problems.is_empty()),
        }
    }

    #[test]
    fn any_text_gives_an_error_and_not_a_panic(text in "\\PC{0,60}") {
        prop_assert!(ModelShape::from_hf_config(&text, "text").is_err());
    }
}
