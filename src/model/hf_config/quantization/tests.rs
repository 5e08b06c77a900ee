//! Schemes of quantization as checkpoints write them, what is assumed where they do not say, and what is refused by name.

use serde_json::{Value, json};

use super::super::tests::{LLAMA, read, with};
use crate::model::{KvScheme, ModelShape, Quantization};

fn quantization_of(config: Value) -> Quantization {
    read(&with(LLAMA, "quantization_config", config)).0.quantization
}

#[test]
fn quantization_schemes_are_recognised() {
    let int4 = |group_size, has_zeros| Quantization::Int4 {
        group_size,
        has_zeros,
    };
    assert_eq!(quantization_of(json!({"quant_method": "fp8"})), Quantization::Fp8);
    assert_eq!(
        quantization_of(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})),
        Quantization::Fp8Block
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "awq", "bits": 4, "group_size": 64})),
        int4(64, true)
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": false})),
        int4(64, false)
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "gptq", "bits": 4, "group_size": 64})),
        int4(64, false)
    );
    assert_eq!(
        quantization_of(json!({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": false})),
        int4(64, true)
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
    assert_eq!(compressed(4, "int", Value::Null), int4(32, false));
    assert_eq!(compressed(4, "float", dynamic()), Quantization::Nvfp4);
    assert_eq!(
        quantization_of(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})),
        Quantization::Nvfp4
    );
}

#[test]
fn scales_of_inputs_are_static_where_the_checkpoint_brings_them() {
    let compressed = |dynamic: Value| {
        json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8, "dynamic": dynamic}}}})
    };
    for (config, expected) in [
        (json!({"quant_method": "fp8"}), false),
        (
            json!({"quant_method": "fp8", "activation_scheme": "dynamic"}),
            false,
        ),
        (
            json!({"quant_method": "fp8", "activation_scheme": "static"}),
            true,
        ),
        (json!({"quant_method": "fbgemm_fp8"}), false),
        (json!({"quant_method": "modelopt", "quant_algo": "FP8"}), true),
        (
            json!({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}),
            false,
        ),
        (json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}), false),
        (compressed(json!(false)), true),
        (compressed(json!(true)), false),
    ] {
        assert_eq!(llama(config.clone()).0.static_scales, expected, "{config}");
    }
}

/// `quantization_config` on top of Llama-3.1-8B (32 layers); the whole shape and what was noted.
pub(in super::super) fn llama(config: Value) -> (ModelShape, Vec<String>) {
    read(&with(LLAMA, "quantization_config", config))
}

/// GiB of weights, to the third digit.
pub(in super::super) fn weights_gib(config: Value) -> f64 {
    (llama(config).0.weight_bytes(1).gib() * 1e3).round() / 1e3
}

pub(in super::super) fn compressed(more: Value) -> Value {
    let mut config = serde_json::json!({"quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": true}}}});
    let map = config.as_object_mut().unwrap();
    map.extend(more.as_object().unwrap().clone());
    config
}

#[test]
fn bits_that_a_checkpoint_does_not_say_are_assumed_and_told() {
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
fn what_cannot_be_counted_is_refused_by_name() {
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
    `quantization_config` mixes formats, fp8 in `attention` and int4 (group 128, symmetric) in `rest`: one format beside 16 bits is modelled; `--quantization` takes its place if the key is removed
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

/// Llama's 6.98 billion linear weights at half a byte, and a scale of two bytes for each group: 128 channels or 4,096.
#[test]
fn one_scale_for_a_row_is_not_one_for_128_channels() {
    let rows = json!({"quant_method": "gptq", "bits": 4, "group_size": -1});
    let channels = json!({"quant_method": "compressed-tensors", "config_groups": {"group_0":
        {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "channel", "group_size": null}}}});
    let of_128 = weights_gib(json!({"quant_method": "gptq", "bits": 4, "group_size": 128}));
    for config in [rows, channels] {
        let (shape, notes) = llama(config.clone());
        let whole = Quantization::Int4 {
            group_size: 4096,
            has_zeros: false,
        };
        assert_eq!(shape.quantization, whole);
        let fewer = of_128 - weights_gib(config);
        assert!((fewer - 0.0984).abs() < 0.003, "{fewer}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(notes.join("\n"), @"the checkpoint has one scale for each row of its 4-bit weights: counted as one for every 4096 channels, the hidden size");
        }
    }
    let (shape, notes) = llama(json!({"quant_method": "awq", "bits": 4}));
    assert_eq!(shape.quantization, Quantization::AWQ);
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
fn what_a_checkpoint_asks_of_the_kv_cache_is_kept() {
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
