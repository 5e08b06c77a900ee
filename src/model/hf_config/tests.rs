//! Families have the shapes of their cards, and nothing that a config may say makes the reader panic.

use super::super::{KvScheme, LayerGroup, Mlp, Quantization};
use super::*;
use proptest::prelude::*;
use serde_json::Map;

const LLAMA: &str = include_str!("../shapes/llama-3.1-8b.json");
const MIXTRAL: &str = include_str!("../shapes/mixtral-8x7b.json");
const SAMPLES: [&str; 5] = [
    LLAMA,
    include_str!("../shapes/deepseek-v3.json"),
    include_str!("../shapes/gpt-oss-20b.json"),
    include_str!("../shapes/gemma-3-4b.json"),
    include_str!("../shapes/qwen3-30b-a3b.json"),
];

fn read(json: &str) -> (ModelShape, Vec<String>) {
    ModelShape::from_hf_config(json, "mine").unwrap()
}

fn with(json: &str, key: &str, value: Value) -> String {
    let mut config: Value = serde_json::from_str(json).unwrap();
    config[key] = value;
    config.to_string()
}

fn quantization_of(config: Value) -> Quantization {
    read(&with(LLAMA, "quantization_config", config)).0.quantization
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
            Attention::Latent { .. } => None,
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

#[test]
fn quantization_schemes_are_recognised() {
    use serde_json::json;
    let int4 = |group_size| Quantization::Int4 { group_size };
    assert_eq!(quantization_of(json!({"quant_method": "fp8"})), Quantization::Fp8);
    assert_eq!(
        quantization_of(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})),
        Quantization::Fp8Block
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "awq", "bits": 4, "group_size": 64})),
        int4(64)
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "gptq", "bits": 8, "group_size": 32})),
        Quantization::WeightOnly8 { group_size: Some(32) }
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "awq", "bits": 8, "group_size": -1})),
        Quantization::WeightOnly8 { group_size: None }
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "mxfp4"})),
        Quantization::Mxfp4
    );
    let compressed = |bits: u64, kind: &str, activations: Value| {
        let weights = json!({"num_bits": bits, "type": kind, "group_size": 32});
        quantization_of(json!({"quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights, "input_activations": activations}}}))
    };
    let dynamic = || json!({"dynamic": true});
    assert_eq!(compressed(8, "float", dynamic()), Quantization::Fp8);
    assert_eq!(compressed(8, "int", dynamic()), Quantization::Int8);
    let weights_only = Quantization::WeightOnly8 { group_size: Some(32) };
    assert_eq!(compressed(8, "int", Value::Null), weights_only);
    assert_eq!(compressed(8, "float", Value::Null), weights_only);
    assert_eq!(compressed(4, "int", Value::Null), int4(32));
    assert_eq!(compressed(4, "float", dynamic()), Quantization::Nvfp4);
    assert_eq!(
        quantization_of(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})),
        Quantization::Nvfp4
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

/// `quantization_config` on top of Llama-3.1-8B (32 layers); the whole shape and what was noted.
fn llama(config: Value) -> (ModelShape, Vec<String>) {
    read(&with(LLAMA, "quantization_config", config))
}

/// GiB of weights, to the third digit.
fn weights_gib(config: Value) -> f64 {
    (llama(config).0.weight_bytes(1).gib() * 1e3).round() / 1e3
}

fn compressed(more: Value) -> Value {
    let mut config = serde_json::json!({"quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": true}}}});
    let map = config.as_object_mut().unwrap();
    map.extend(more.as_object().unwrap().clone());
    config
}

/// Attention of Llama-3.1-8B has 1,342,177,280 elements, so that it takes 1.25 GiB more in 16 bits.
#[test]
fn what_a_checkpoint_keeps_in_16_bits_is_counted() {
    use serde_json::json;
    let whole = weights_gib(json!({"quant_method": "fp8"}));
    assert_eq!(whole, 8.458);
    let more = |config: Value| ((weights_gib(config) - whole) * 1e3).round() / 1e3;
    let projections = |layers: std::ops::Range<usize>, parts: &[&str]| -> Vec<String> {
        layers
            .flat_map(|layer| {
                parts
                    .iter()
                    .map(move |part| format!("model.layers.{layer}.{part}"))
            })
            .collect()
    };
    let attention = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|part| format!("self_attn.{part}"));
    let attention: Vec<&str> = attention.iter().map(String::as_str).collect();
    let mlp = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
    assert_eq!(more(compressed(json!({"ignore": ["lm_head"]}))), 0.0);
    assert_eq!(
        more(compressed(json!({"ignore": ["lm_head", "re:.*self_attn.*"]}))),
        1.25
    );
    assert_eq!(
        more(compressed(json!({"ignore": projections(0..32, &attention)}))),
        1.25
    );
    for method in ["fp8", "fbgemm_fp8"] {
        let listed = projections(0..32, &attention);
        assert_eq!(
            more(json!({"quant_method": method, "modules_to_not_convert": listed})),
            1.25
        );
    }
    // The feed-forward parts of the first and the last layer: 2 × 176,160,768 elements.
    let ends = [projections(0..1, &mlp), projections(31..32, &mlp)].concat();
    assert_eq!(
        more(json!({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ends})),
        0.328
    );
    let mlp_only = json!({"config_groups": {"group_0": {"targets": ["re:.*mlp.*"],
        "weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}}}});
    assert_eq!(more(compressed(mlp_only)), 1.25);
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.*.self_attn*", "lm_head"]});
    assert_eq!(more(modelopt), 1.25);
}

#[test]
fn layers_that_a_list_names_are_a_group_of_their_own() {
    use serde_json::json;
    let first: Vec<String> = (0..16).map(|layer| format!("model.layers.{layer}.")).collect();
    let without_dot: Vec<String> = (0..16).map(|layer| format!("model.layers.{layer}")).collect();
    let awq = |listed: Vec<String>| json!({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": listed});
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": without_dot.clone()});
    let mut notes = Vec::new();
    for (config, gib) in [(awq(first), 10.144), (modelopt, 11.708)] {
        let (shape, _) = llama(config);
        let groups: Vec<(u32, usize)> = shape
            .layers
            .iter()
            .map(|group| (group.count, group.kept.len()))
            .collect();
        assert_eq!(groups, [(16, 4), (16, 0)]);
        // Half of the linear layers at 2 bytes, half at 0.5195 or 1; the vocabulary's tables at 2.
        assert!(
            (shape.weight_bytes(1).gib() - gib).abs() < 0.01,
            "{}",
            shape.weight_bytes(1).gib()
        );
        notes.push(shape.kept_note().unwrap());
        let mxfp4 = shape.with_quantization(Quantization::Mxfp4);
        assert_eq!(
            mxfp4.kept_note(),
            None,
            "an override replaces what the checkpoint says"
        );
    }
    insta::assert_snapshot!(notes[0], @"the checkpoint keeps qkv in 16 of 32 layers, attention_out in 16 of 32 layers, gate_up in 16 of 32 layers, down in 16 of 32 layers in bfloat16: 4.81 GiB more than all in int4 (group 128), and each product is timed in its own format");
}

/// vLLM's `is_layer_skipped` with `skip_with_substr`.
#[test]
fn awqs_lists_are_letters_of_names() {
    use serde_json::json;
    let awq = |json: &str, listed: &[&str]| {
        let config =
            json!({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": listed});
        ModelShape::from_hf_config(&with(json, "quantization_config", config), "mine")
    };
    let kept = |json: &str, listed: &[&str]| {
        let (shape, notes) = awq(json, listed).unwrap();
        let layers = shape.layers.iter().filter(|group| !group.kept.is_empty());
        (layers.map(|group| group.count).sum::<u32>(), notes.join("\n"))
    };
    assert_eq!(kept(LLAMA, &["layers.1."]).0, 1);
    let (layers, told) = kept(LLAMA, &["model.layers.1"]);
    assert_eq!(layers, 11, "layer 1, and 10 to 19");
    insta::assert_snapshot!(told, @"`modules_to_not_convert` of the checkpoint names model.layers.1, which leaves every layer in 16 bits whose number begins so: vLLM looks for the letters in names, and a dot behind the number ends it");
    // A router's name is within no product's of a layer with experts, whatever its gates are called.
    const QWEN: &str = include_str!("../shapes/qwen3-30b-a3b.json");
    for listed in [["mlp.gate"], ["gate"], ["visual"], ["lm_head"]] {
        assert_eq!(kept(QWEN, &listed), (0, String::new()), "{listed:?}");
    }
    assert_eq!(kept(QWEN, &["mlp"]).0, 48);
    assert_eq!(kept(MIXTRAL, &["gate"]), (0, String::new()));
    // `v_proj` is in `qkv_proj`, and still one of three.
    for part in ["v_proj", "up_proj", "mlp.gate"] {
        let refused = awq(LLAMA, &[part]).unwrap_err();
        assert!(refused.to_string().contains("keeps some of"), "{part}: {refused}");
    }
}

/// vLLM's `is_layer_skipped_bnb`.
#[test]
fn lists_of_bitsandbytes_are_words_of_names() {
    use serde_json::json;
    let kept = |entry: &str| {
        let (shape, _) = llama(json!({"quant_method": "bitsandbytes", "llm_int8_skip_modules": [entry]}));
        let layers = shape.layers.iter().filter(|group| !group.kept.is_empty());
        layers.map(|group| group.count).sum::<u32>()
    };
    assert_eq!(kept("self_attn"), 32);
    assert_eq!(kept("model.layers.1"), 1);
    assert_eq!(kept("layers.1"), 0);
    assert_eq!(kept("gate"), 0);
}

#[test]
fn bits_that_a_checkpoint_does_not_say_are_assumed_and_told() {
    use serde_json::json;
    let told = |config: Value| llama(config).1.join("; ").contains("4 bits assumed");
    assert!(told(json!({"quant_method": "awq", "group_size": 128})));
    assert!(told(
        json!({"quant_method": "bitsandbytes", "load_in_4bit": false})
    ));
    assert!(!told(json!({"quant_method": "bitsandbytes"})));
    assert!(!told(
        json!({"quant_method": "gptq", "bits": 4, "group_size": 128})
    ));
}

#[test]
fn experts_and_routers_go_by_the_names_of_their_family() {
    use serde_json::json;
    let experts = |config: &str, ignore: &str| {
        let (shape, notes) = read(&with(
            config,
            "quantization_config",
            compressed(json!({"ignore": [ignore]})),
        ));
        assert!(notes.is_empty(), "{ignore}: {notes:?}");
        shape.layers[0].kept.clone()
    };
    let all = vec!["expert_gate_up", "expert_down"];
    assert_eq!(experts(MIXTRAL, "re:.*block_sparse_moe.experts.*"), all);
    for router in [
        "re:.*block_sparse_moe.gate",
        r"re:.*block_sparse_moe\.gate$",
        "model.layers.0.block_sparse_moe.gate",
    ] {
        assert_eq!(experts(MIXTRAL, router), Vec::<&str>::new());
    }
    const QWEN: &str = include_str!("../shapes/qwen3-30b-a3b.json");
    for router in ["re:.*mlp.shared_expert_gate$", r"re:.*mlp\.gate$", "re:.*gate$"] {
        assert_eq!(experts(QWEN, router), Vec::<&str>::new());
    }
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8",
        "ignore": ["model.layers.*.mlp.gate", "model.layers.*.mlp.shared_expert_gate", "lm_head"]});
    let minimax = json!({"quant_method": "fp8", "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]});
    for config in [modelopt, minimax] {
        let (_, notes) = read(&with(QWEN, "quantization_config", config));
        assert!(notes.is_empty(), "{notes:?}");
    }
}

#[test]
fn what_cannot_be_counted_is_refused_by_name() {
    use serde_json::json;
    let told = |config: Value| {
        let error =
            ModelShape::from_hf_config(&with(LLAMA, "quantization_config", config), "mine").unwrap_err();
        error.problems.join("\n")
    };
    let group = |kind: &str, bits: u64, target: &str| {
        json!({"targets": [target], "weights": {"num_bits": bits, "type": kind, "group_size": 128},
            "input_activations": if kind == "float" { json!({"num_bits": bits}) } else { Value::Null }})
    };
    let mixed = json!({"config_groups": {"attention": group("float", 8, "re:.*attn.*"), "rest": group("int", 4, "re:.*mlp.*")}});
    let cases = [
        compressed(mixed),
        compressed(json!({"ignore": ["re:.*layers.0.*q_proj"]})),
        compressed(json!({"ignore": ["re:(?!.*mlp).*"]})),
        compressed(json!({"kv_cache_scheme": {"num_bits": 4, "type": "float"}})),
        json!({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}}),
        json!({"quant_method": "gptq", "bits": 3}),
        json!({"quant_method": "awq", "bits": 2}),
        json!({"quant_method": "gptq", "bits": "8"}),
        json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}),
        json!({}),
        json!({"quant_method": "magic"}),
    ];
    insta::assert_snapshot!(cases.map(told).join("\n"), @r#"
    `quantization_config` mixes formats, fp8 in `attention` and int4 (group 128) in `rest`: one format beside 16 bits is modelled; `--quantization` takes its place if the key is removed
    `ignore` keeps some of self_attn.q_proj, self_attn.k_proj, self_attn.v_proj of layer 0 and not all: engines multiply them as one and refuse that
    `quantization_config` has the pattern `(?!.*mlp).*`, which is not understood: it must do without looking around
    `kv_cache_scheme` is {"num_bits":4,"type":"float"} and must be of 8-bit floats: vLLM takes no other
    `quantization_config` gives `+:.*down.*` a bits of its own in `dynamic`: one format beside 16 bits is modelled
    `quantization_config` is gptq with 3 bits, which are not modelled: 4 and 8 are; `--quantization` takes its place if the key is removed
    `quantization_config` is awq with 2 bits, which are not modelled: 4 and 8 are; `--quantization` takes its place if the key is removed
    `quantization_config` has `bits` of "8", which is no number of bits; `--quantization` takes its place if the key is removed
    `quantization_config` has the quant_algo `MIXED_PRECISION`, which is not modelled: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO and NVFP4 are; `--quantization` takes its place if the key is removed
    `quantization_config` has no `quant_method`, as every checkpoint of vLLM must; `--quantization` takes its place if the key is removed
    `quantization_config` with quant_method `magic` is not known; `--quantization` takes its place if the key is removed
    "#);
}

/// 3.49 billion elements of Llama's linear layers at half a byte, and 20 bits of scale and zero for each group.
#[test]
fn one_scale_for_a_row_is_not_one_for_128_channels() {
    use serde_json::json;
    let rows = json!({"quant_method": "gptq", "bits": 4, "group_size": -1});
    let channels = json!({"quant_method": "compressed-tensors", "config_groups": {"group_0":
        {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "channel", "group_size": null}}}});
    let of_128 = weights_gib(json!({"quant_method": "gptq", "bits": 4, "group_size": 128}));
    for config in [rows, channels] {
        let (shape, notes) = llama(config.clone());
        assert_eq!(shape.quantization, Quantization::Int4 { group_size: 4096 });
        let fewer = of_128 - weights_gib(config);
        assert!((fewer - 0.123).abs() < 0.003, "{fewer}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(notes.join("\n"), @"the checkpoint has one scale for each row of its 4-bit weights: counted as one for every 4096 channels, the hidden size");
        }
    }
    let (shape, notes) = llama(json!({"quant_method": "awq", "bits": 4}));
    assert_eq!(shape.quantization, Quantization::Int4 { group_size: 128 });
    assert_eq!(
        notes,
        ["the checkpoint does not say its `group_size`: 128 assumed"]
    );
    let wrong = with(
        LLAMA,
        "quantization_config",
        json!({"quant_method": "awq", "bits": 4, "group_size": 0}),
    );
    let wrong = ModelShape::from_hf_config(&wrong, "mine").unwrap_err();
    assert!(wrong.to_string().contains("has 0 for `group_size`"), "{wrong}");
}

#[test]
fn of_two_lists_the_one_counts_that_vllm_reads_and_the_other_is_told() {
    use serde_json::json;
    let two = |method: &str, one: (&str, &str), other: (&str, &str)| {
        let config = json!({"quant_method": method, "quant_algo": "FP8", "bits": 4, "group_size": 128, one.0: [one.1], other.0: [other.1]});
        let (shape, notes) = llama(config);
        (shape.layers[0].kept.len(), notes.join("\n"))
    };
    let (kept, told) = two("modelopt", ("ignore", "self_attn"), ("exclude_modules", "mlp"));
    assert_eq!(kept, 2);
    insta::assert_snapshot!(told, @"what the checkpoint lists under `exclude_modules` counts for nothing: vLLM does not read it of this method beside `ignore`");
    let (kept, told) = two("awq", ("ignore", "mlp.up"), ("modules_to_not_convert", "layers"));
    assert_eq!(kept, 4);
    assert!(told.contains("under `ignore` counts for nothing"), "{told}");
    let (kept, told) = two("modelopt", ("ignore", "mlp"), ("exclude_modules", "mlp"));
    assert_eq!((kept, told.as_str()), (2, ""));
    let (kept, told) = two("gptq", ("modules_to_not_convert", "mlp"), ("ignore", "lm_head"));
    assert_eq!(kept, 0);
    insta::assert_snapshot!(told, @"what the checkpoint lists under `ignore` and `modules_to_not_convert` counts for nothing: vLLM does not read it of this method");
}

#[test]
fn modelopts_file_beside_the_config_says_how_it_is_quantized() {
    let file = r#"{"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": {"quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head", "model.layers.0*"]}}"#;
    let (shape, notes) = ModelShape::from_checkpoint(LLAMA, Some(file), "mine").unwrap();
    assert_eq!(shape.quantization, Quantization::Nvfp4);
    assert_eq!(shape.kv_scheme, Some(KvScheme::ModelOpt));
    assert_eq!(
        shape.layers.iter().filter(|group| !group.kept.is_empty()).count(),
        1
    );
    assert_eq!(
        notes,
        ["how the checkpoint is quantized is read from its hf_quant_config.json"]
    );
    // What the config says itself counts, as in vLLM.
    let own = with(
        LLAMA,
        "quantization_config",
        serde_json::json!({"quant_method": "fp8"}),
    );
    let (shape, notes) = ModelShape::from_checkpoint(&own, Some(file), "mine").unwrap();
    assert_eq!((shape.quantization, notes.len()), (Quantization::Fp8, 0));
    let told = |file: &str| {
        let error = ModelShape::from_checkpoint(LLAMA, Some(file), "mine").unwrap_err();
        error.problems.join("\n")
    };
    let broken = [
        "{",
        r#"{"quantization": {"quant_algo": "W4A16_AWQ", "group_size": 128}}"#,
        r#"{"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}}"#,
        r#"{"quantization": {"quant_algo": "NVFP4", "group_size": 32}}"#,
    ];
    insta::assert_snapshot!(broken.map(told).join("\n"), @r"
    `hf_quant_config.json` beside it is not JSON: EOF while parsing an object at line 1 column 1
    `hf_quant_config.json` has the quant_algo `W4A16_AWQ`, which is not modelled: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO and NVFP4 are; `--quantization` takes its place if the file is removed
    `hf_quant_config.json` has no `quant_algo`, as every checkpoint of ModelOpt must; `--quantization` takes its place if the file is removed
    `hf_quant_config.json` has a `group_size` that is not NVFP4's of 16, which alone is modelled; `--quantization` takes its place if the file is removed
    ");
}

#[test]
fn an_entry_that_names_nothing_is_told() {
    use serde_json::json;
    let of = |ignore: Value| llama(compressed(json!({ "ignore": ignore }))).1.join("\n");
    assert_eq!(
        of(json!(["lm_head", "model.embed_tokens", "re:.*vision_tower.*"])),
        ""
    );
    insta::assert_snapshot!(of(json!(["model.layers.0.attn.qkv", "re:.*moe.*"])), @"`ignore` of the checkpoint names model.layers.0.attn.qkv and 1 more, which is no linear layer known here and counts for nothing");
    insta::assert_snapshot!(of(json!([r"re:.*moe\.w1$"])), @r"`ignore` of the checkpoint names re:.*moe\.w1$, which is no linear layer known here and counts for nothing");
    let modelopt =
        json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.*.moe.w1"]});
    insta::assert_snapshot!(llama(modelopt).1.join("\n"), @"`ignore` of the checkpoint names model.layers.*.moe.w1, which is no linear layer known here and counts for nothing");
}

#[test]
fn what_a_checkpoint_asks_of_the_kv_cache_is_kept() {
    use serde_json::json;
    let scheme = |config: Value| llama(config).0.kv_scheme;
    let fp8 = json!({"num_bits": 8, "type": "float"});
    assert_eq!(
        scheme(compressed(json!({"kv_cache_scheme": fp8}))),
        Some(KvScheme::CompressedTensors)
    );
    assert_eq!(
        scheme(json!({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})),
        Some(KvScheme::ModelOpt)
    );
    assert_eq!(scheme(compressed(json!({"kv_cache_scheme": null}))), None);
}
