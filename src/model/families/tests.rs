//! Families against the parameters that `transformers` makes of the same configs (`tests/data/shapes/count.py`).

use serde_json::{Value, json};

use super::*;
use crate::model::{Attention, ModelShape};

fn shape(config: &Value) -> ModelShape {
    let name = config["architectures"][0].to_string();
    let read = ModelShape::from_hf_config(&config.to_string(), &name);
    read.unwrap_or_else(|error| panic!("{error}")).0
}

fn windows(shape: &ModelShape) -> u64 {
    let has_one = |attention: &Attention| matches!(attention, Attention::Grouped { window: Some(_), .. });
    let windowed = shape.layers.iter().filter(|group| has_one(&group.attention));
    windowed.map(|group| u64::from(group.count)).sum()
}

#[test]
fn every_family_has_the_parameters_and_windows_that_transformers_makes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/shapes/counts.json");
    let counts = std::fs::read_to_string(file).expect("the counts are beside the tests");
    let counts: Vec<Value> = serde_json::from_str(&counts).expect("the file is JSON");
    assert!(counts.len() > 80, "both configs of each family are there");
    let mut wrong = Vec::new();
    for entry in &counts {
        let (config, expected) = (&entry["config"], entry["parameters"].as_f64().unwrap());
        let name = config["architectures"][0].to_string();
        let shape = match ModelShape::from_hf_config(&config.to_string(), &name) {
            Ok((shape, _)) => shape,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        let off = shape.parameters() as f64 / expected - 1.0;
        if off.abs() > 1e-4 {
            wrong.push(format!("{}: {:+.3} %", shape.name, 100.0 * off));
        }
        if let Some(expected) = entry["windows"].as_u64()
            && expected != windows(&shape)
            && config["sliding_window"].as_u64() < config["max_position_embeddings"].as_u64()
        {
            wrong.push(format!(
                "{}: {} windows, not {expected}",
                shape.name,
                windows(&shape)
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn other_spellings_are_the_same_shape() {
    let llama = json!({
        "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 151_552, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    });
    // (family, its spelling of a key of Llama's)
    let families: [(&str, &[(&str, &str)]); 3] = [
        (
            "ChatGLMModel",
            &[
                ("num_hidden_layers", "num_layers"),
                ("intermediate_size", "ffn_hidden_size"),
                ("num_key_value_heads", "multi_query_group_num"),
                ("head_dim", "kv_channels"),
                ("vocab_size", "padded_vocab_size"),
                ("max_position_embeddings", "seq_length"),
            ],
        ),
        ("ExaoneForCausalLM", &[("num_hidden_layers", "num_layers")]),
        ("InternLM2ForCausalLM", &[]),
    ];
    let with = |architecture: &str, spelt: &[(&str, &str)]| {
        let mut config = llama.clone();
        let map = config.as_object_mut().unwrap();
        map.insert("architectures".to_string(), json!([architecture]));
        for (key, own) in spelt {
            let value = map.remove(*key).unwrap();
            map.insert((*own).to_string(), value);
        }
        config
    };
    let expected = shape(&with("LlamaForCausalLM", &[])).parameters();
    for (architecture, spelt) in families {
        assert_eq!(
            shape(&with(architecture, spelt)).parameters(),
            expected,
            "{architecture}"
        );
    }
    let wrong = with("ChatGLMModel", &[("num_hidden_layers", "layers")]);
    let error = ModelShape::from_hf_config(&wrong.to_string(), "mine").unwrap_err();
    assert!(error.to_string().contains("`num_layers` is missing"), "{error}");
}

#[test]
fn keys_of_an_object_within_are_read_and_named_whole() {
    let config = |experts: Value| {
        json!({
            "architectures": ["DbrxForCausalLM"], "d_model": 1024, "n_heads": 8, "n_layers": 2, "max_seq_len": 4096,
            "vocab_size": 1000, "torch_dtype": "bfloat16", "attn_config": {"kv_n_heads": 2, "clip_qkv": 8}, "ffn_config": experts,
        })
    };
    let dbrx = shape(&config(
        json!({"ffn_hidden_size": 512, "moe_num_experts": 4, "moe_top_k": 2}),
    ));
    // Queries and output, keys and values, the router, experts of three matrices, norms without biases.
    let layer = 2 * 1024 * 1024 + 2 * 1024 * 256 + 4 * 1024 + 4 * 3 * 1024 * 512 + 2 * 1024;
    assert_eq!(dbrx.parameters(), 2 * 1000 * 1024 + 2 * layer + 1024);
    let wrong = config(json!({"ffn_hidden_size": 512, "moe_num_experts": 4, "moe_top_k": "two"})).to_string();
    let error = ModelShape::from_hf_config(&wrong, "mine")
        .unwrap_err()
        .to_string();
    assert!(error.contains("`ffn_config.moe_top_k` is \"two\""), "{error}");
    let none = config(Value::Null).to_string();
    let error = ModelShape::from_hf_config(&none, "mine").unwrap_err().to_string();
    assert!(
        error.contains("`ffn_config.moe_num_experts` is missing"),
        "{error}"
    );
}

#[test]
fn listed_kinds_of_feed_forward_parts_count_over_the_rule() {
    let config = |kinds: Value| {
        json!({
            "architectures": ["HYV3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 4096,
            "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512, "first_k_dense_replace": 1,
            "torch_dtype": "bfloat16", "mlp_layer_types": kinds,
        })
    };
    let dense = |kinds| {
        let shape = shape(&config(kinds));
        let dense = shape.layers.iter();
        let dense = dense.filter(|group| matches!(group.mlp, crate::model::Mlp::Dense { .. }));
        dense.map(|group| group.count).sum::<u32>()
    };
    assert_eq!(dense(Value::Null), 1);
    assert_eq!(dense(json!(["dense", "dense", "dense", "sparse"])), 3);
    let none = config(json!(["dense", "dense", "dense", "dense"])).to_string();
    let (_, notes) = ModelShape::from_hf_config(&none, "mine").unwrap();
    assert_eq!(
        notes,
        [
            "`n_shared_experts` is not given: no shared expert is assumed",
            "by its keys no layer has experts: all are dense"
        ]
    );
    for wrong in [
        json!("dense"),
        json!(["dense"]),
        json!(["dense", "dense", "dense", "thick"]),
    ] {
        let text = config(wrong).to_string();
        let error = ModelShape::from_hf_config(&text, "mine").unwrap_err();
        assert!(error.to_string().contains("mlp_layer_types"), "{error}");
    }
}

#[test]
fn a_known_reason_for_refusal_is_said() {
    let refused = |architecture: &str| {
        let config = json!({ "architectures": [architecture], "hidden_size": 1024 });
        let error = ModelShape::from_hf_config(&config.to_string(), "mine").unwrap_err();
        error.to_string()
    };
    assert!(refused("BailingMoeV2_5ForCausalLM").contains("linear attention"));
    assert!(refused("MiniMaxText01ForCausalLM").contains("no longer"));
    assert!(refused("Mamba2ForCausalLM").contains("none that attends"));
    assert!(refused("DeepseekV4ForCausalLM").contains("sparse attention"));
    assert!(refused("LamaForCausalLM").contains("did you mean LlamaForCausalLM?"));
    for family in Family::all() {
        for name in family.architectures {
            assert_eq!(unmodelled(name), None, "{name}");
        }
    }
}

#[test]
fn numbers_as_python_writes_them_are_no_error() {
    let with = |key: &str, value: &str| {
        format!(
            r#"{{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
            "_name_or_path": "NaN and Infinity", "{key}": {value}}}"#
        )
    };
    for value in ["NaN", "[0.0, Infinity]", "-Infinity"] {
        let read = ModelShape::from_hf_config(&with("time_step_limit", value), "mine");
        assert!(read.is_ok(), "{value}: {read:?}");
    }
    let error = ModelShape::from_hf_config(&with("num_attention_heads", "Infinity"), "mine").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`num_attention_heads` is \"Infinity\" and must be"),
        "{error}"
    );
    let error = ModelShape::from_hf_config(&with("a", "Infinite"), "mine").unwrap_err();
    assert!(error.to_string().contains("not JSON"), "{error}");
}

#[test]
fn scaled_rotary_positions_make_the_context_that_vllm_takes() {
    let context = |rope: Value| {
        let config = json!({
            "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
            "torch_dtype": "float16", "rope_scaling": rope,
        });
        let read = ModelShape::from_hf_config(&config.to_string(), "mine");
        read.map(|(shape, notes)| (shape.max_position, notes.len()))
            .map_err(|error| error.to_string())
    };
    assert_eq!(context(Value::Null), Ok((4096, 0)));
    assert_eq!(context(json!({"type": "linear", "factor": 4.0})), Ok((16_384, 0)));
    assert_eq!(
        context(json!({"rope_type": "dynamic", "factor": 2})),
        Ok((8192, 0))
    );
    assert_eq!(
        context(json!({"rope_type": "llama3", "factor": 8.0})),
        Ok((4096, 0))
    );
    let yarn =
        |original: u32| json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": original});
    assert_eq!(context(yarn(1024)), Ok((4096, 0)));
    assert_eq!(context(yarn(4096)), Ok((4096, 1)), "older releases take 16,384");
    for wrong in [
        json!({"type": "linear", "factor": -4}),
        json!({"type": "linear", "factor": "x"}),
    ] {
        let error = context(wrong).unwrap_err();
        assert!(error.contains("`factor` of the rope scaling"), "{error}");
    }
    let error = context(json!("x")).unwrap_err();
    assert!(
        error.contains("`rope_scaling` is \"x\" and must be an object"),
        "{error}"
    );
}
